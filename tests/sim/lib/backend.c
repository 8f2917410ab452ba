/* SPDX-License-Identifier: Apache-2.0 */
/* The backend: the table of the memory engine with a clock that may jump, and a second opinion.
 *
 * Before and after each operation the entry is looked at, and what may have changed is worked out
 * here once more, from what engine.h says and not from how the table does it: an operation of one
 * tenure never touches another's lock, asking again changes nothing but the lease, nothing shortens
 * a lease, tokens grow (oracles O2 and O3). */
#include "sim.h"

#include "base/clock.h"

#include <stdio.h>
#include <string.h>

/* An entry at one moment. */
struct picture {
    bool held;
    unsigned count;
    uint64_t id;
    uint64_t token;
    int64_t expires_us;
    char uuid[PAWL__UUID_SIZE + 1];
};

int64_t sim_backend_now(const struct sim_world *world)
{
    return world->now_us + world->table_shift_us;
}

static struct picture look(const struct sim_world *world, unsigned name, int64_t now_us)
{
    const struct pawl__place *place = &world->places[name];
    const struct pawl__memory_entry *entry =
        pawl__memory_look(&world->table, place->name, place->name_size);
    struct picture picture = {0};
    if (entry != NULL && entry->held && now_us < entry->expires_us) {
        picture.held = true;
        picture.count = entry->count;
        picture.id = entry->id;
        picture.expires_us = entry->expires_us;
        memcpy(picture.uuid, entry->uuid, sizeof picture.uuid);
        picture.token = entry->token;
    }
    return picture;
}

static bool is(const struct picture *picture, const struct sim_call *call, uint64_t id)
{
    return picture->held && picture->id == id && strcmp(picture->uuid, call->uuid) == 0;
}

static bool same(const struct picture *a, const struct picture *b)
{
    return a->held == b->held && a->id == b->id && a->count == b->count && a->token == b->token &&
           a->expires_us == b->expires_us && strcmp(a->uuid, b->uuid) == 0;
}

bool sim_backend_has(struct sim_world *world, const struct sim_claim *claim)
{
    struct picture picture = look(world, claim->name, sim_backend_now(world));
    const struct sim_claim *holder = world->holder[claim->name];
    return picture.held && holder == claim;
}

/* ===== What each operation may do ===== */

struct verdict {
    struct picture after;
    enum pawl__answer answer;
    bool grants; /* a token that was never given out before */
};

static void grant(struct verdict *verdict, const struct sim_call *call, uint64_t id, int64_t now_us)
{
    verdict->after = (struct picture){.held = true, .count = 1, .id = id};
    verdict->after.expires_us = pawl__later(now_us, call->copy.lease_us);
    memcpy(verdict->after.uuid, call->uuid, sizeof call->uuid);
    verdict->answer = PAWL__DONE;
    verdict->grants = true;
}

static void lengthen(struct verdict *verdict, const struct sim_call *call, int64_t now_us)
{
    int64_t until_us = pawl__later(now_us, call->copy.lease_us);
    verdict->after.expires_us = pawl__max64(verdict->after.expires_us, until_us);
    verdict->answer = PAWL__DONE;
}

static void expect_pass(
    struct verdict *verdict, const struct sim_call *call, bool offered, int64_t now_us)
{
    if (is(&verdict->after, call, call->copy.heir_id)) {
        lengthen(verdict, call, now_us);
    } else if (!is(&verdict->after, call, call->copy.id)) {
        verdict->answer = PAWL__GONE;
    } else if (call->copy.offer && offered) {
        verdict->after = (struct picture){0};
        verdict->answer = PAWL__LEFT;
    } else {
        grant(verdict, call, call->copy.heir_id, now_us);
    }
}

static struct verdict expect(
    const struct picture *before, const struct sim_call *call, bool offered, int64_t now_us)
{
    bool mine = is(before, call, call->copy.id);
    struct verdict verdict = {.after = *before, .answer = mine ? PAWL__DONE : PAWL__GONE};
    switch (call->copy.kind) {
    case PAWL__OP_ACQUIRE:
        if (mine) {
            lengthen(&verdict, call, now_us);
        } else if (before->held) {
            verdict.answer = PAWL__HELD;
        } else {
            grant(&verdict, call, call->copy.id, now_us);
        }
        break;
    case PAWL__OP_RENEW:
        if (mine) {
            lengthen(&verdict, call, now_us);
        }
        break;
    case PAWL__OP_COUNT:
        verdict.after.count = mine ? call->copy.count : before->count;
        break;
    case PAWL__OP_RELEASE:
        verdict.after = mine ? (struct picture){0} : *before;
        break;
    case PAWL__OP_PASS:
        expect_pass(&verdict, call, offered, now_us);
        break;
    case PAWL__OP_BREAK:
        verdict.answer = before->held ? PAWL__DONE : PAWL__GONE;
        verdict.after = (struct picture){0};
        break;
    case PAWL__OP_INSPECT:
    case PAWL__OP_TALLY:
    case PAWL__OP_RAISE:
    case PAWL__OP_WATCH:
    case PAWL__OP_UNWATCH:
        verdict.answer = PAWL__DONE;
        break;
    case PAWL__OP_VERIFY:
        break;
    }
    return verdict;
}

/* ===== Judging ===== */

static void check_tokens(
    struct sim_world *world, const struct sim_call *call, const struct picture *after)
{
    if (after->token <= world->token_max[call->name]) {
        sim_fail(world, "O2", "name %u: token %llu given after token %llu", call->name,
            (unsigned long long)after->token, (unsigned long long)world->token_max[call->name]);
    }
    world->token_max[call->name] = after->token;
}

static void check_info(struct sim_world *world, const struct sim_call *call,
    const struct picture *before, int64_t now_us)
{
    const pawl_lock_info *info = &call->info;
    char holder[sizeof info->holder] = "";
    if (before->held) {
        snprintf(holder, sizeof holder, "%s:%llu", before->uuid, (unsigned long long)before->id);
    }
    int64_t left_us = before->held ? before->expires_us - now_us : 0;
    if (info->held != before->held || info->hold_count != before->count ||
        strcmp(info->holder, holder) != 0 || info->remaining_ms < left_us / 1000 ||
        info->remaining_ms > left_us / 1000 + 1 || (info->held && info->token != before->token)) {
        sim_fail(world, "O3", "inspect tells of \"%s\" where \"%s\" holds", info->holder, holder);
    }
}

static void check(struct sim_world *world, const struct sim_call *call,
    const struct picture *before, struct verdict *verdict, int64_t now_us)
{
    const struct pawl__op *op = &call->copy;
    struct picture after = look(world, call->name, now_us);
    if (op->answer == PAWL__FAILED) {
        verdict->after = *before; /* no memory */
        verdict->grants = false;
    } else if (op->answer != verdict->answer) {
        sim_fail(world, "O3", "%s of tenure %llu was answered \"%s\", not \"%s\"",
            sim_op_text(op->kind), (unsigned long long)op->id, sim_answer_text(op->answer),
            sim_answer_text(verdict->answer));
    }
    if (verdict->grants) {
        check_tokens(world, call, &after);
        verdict->after.token = after.token;
    }
    if (!same(&after, &verdict->after)) {
        sim_fail(world, "O3", "%s of tenure %llu of client %u changed what it must not",
            sim_op_text(op->kind), (unsigned long long)op->id, call->client->index);
    }
    if (op->kind == PAWL__OP_INSPECT) {
        check_info(world, call, before, now_us);
    }
    bool tells = op->kind == PAWL__OP_ACQUIRE || op->kind == PAWL__OP_PASS;
    if (tells && op->answer == PAWL__DONE && op->token != after.token) {
        sim_fail(world, "O2", "tenure %llu was told a wrong token", (unsigned long long)op->id);
    }
    if (op->answer == PAWL__HELD && op->hint_us != before->expires_us - now_us) {
        sim_fail(world, "O3", "a wrong hint how long the holder's lease lasts");
    }
}

/* ===== Consequences ===== */

static void granted(struct sim_world *world, const struct sim_call *call, struct sim_claim *claim)
{
    if (claim == NULL) {
        return;
    }
    world->stats.grants++;
    world->holder[claim->name] = claim;
    claim->first_us = claim->granted_us < 0 ? world->now_us : claim->first_us;
    claim->granted_us = world->now_us;
    sim_fair_granted(world, claim, call->copy.kind == PAWL__OP_PASS);
    sim_say(world, call->client, "table: name %u granted to tenure %llu, token %llu", claim->name,
        (unsigned long long)claim->id, (unsigned long long)world->token_max[claim->name]);
}

static void follow(struct sim_world *world, const struct sim_call *call,
    const struct verdict *verdict, bool was_held)
{
    const struct pawl__op *op = &call->copy;
    bool pass = op->kind == PAWL__OP_PASS;
    bool gave_up = op->kind == PAWL__OP_RELEASE || (pass && verdict->grants);
    if ((gave_up && op->answer == PAWL__DONE) || op->answer == PAWL__LEFT) {
        call->claim->released = true;
    }
    if (op->answer == PAWL__LEFT) {
        sim_fair_left(world, call->claim);
    }
    if (op->kind == PAWL__OP_BREAK && was_held) {
        sim_taken(world, call->name);
    }
    struct sim_claim *lengthened = pass ? call->heir : call->claim;
    if (verdict->grants) {
        granted(world, call, lengthened);
    }
    if (op->answer == PAWL__HELD && call->life == call->client->life) {
        sim_fair_held(call->client, call->name);
    }
    bool may = pass || op->kind == PAWL__OP_ACQUIRE || op->kind == PAWL__OP_RENEW;
    if (may && op->answer == PAWL__DONE) {
        sim_orphan_applied(world, call, lengthened);
    }
}

static bool watched_by_others(const struct sim_world *world, const struct sim_call *call)
{
    for (unsigned i = 0; i < world->plan.clients; i++) {
        const struct sim_client *client = &world->clients[i];
        bool own = client == call->client && client->life == call->life;
        if (!own && client->watching_us[call->name] != PAWL__NEVER) {
            return true;
        }
    }
    return false;
}

static void note_watch(const struct sim_call *call)
{
    if (call->copy.answer == PAWL__DONE && call->copy.kind == PAWL__OP_WATCH) {
        sim_fair_watching(call->client, call->name, true);
    } else if (call->copy.kind == PAWL__OP_UNWATCH) {
        sim_fair_watching(call->client, call->name, false);
    }
}

void sim_backend_apply(struct sim_world *world, struct sim_call *call)
{
    struct pawl__memory_client stranger; /* a client that died since: nobody hears the answer */
    struct pawl__memory_client *peer = &call->client->peer;
    bool stale = call->life != call->client->life;
    if (stale) {
        pawl__memory_join(&stranger, call->uuid);
        peer = &stranger;
    }
    bool watches = call->copy.kind == PAWL__OP_WATCH || call->copy.kind == PAWL__OP_UNWATCH;
    if (watches && (stale || call->connection != call->client->connection)) {
        return;
    }
    if (world->plan.session) {
        call->copy.lease_us = PAWL__NEVER;
    }
    int64_t now_us = sim_backend_now(world);
    struct picture before = look(world, call->name, now_us);
    struct verdict verdict = expect(&before, call, watched_by_others(world, call), now_us);
    world->in_machine = true;
    pawl__memory_apply(&world->table, peer, &call->copy, now_us);
    world->in_machine = false;
    call->applied = true;
    sim_hash(world, (uint64_t)call->copy.answer << 8 | (uint64_t)call->copy.kind);
    sim_say(world, call->client, "table: %s of tenure %llu: %s", sim_op_text(call->copy.kind),
        (unsigned long long)call->copy.id, sim_answer_text(call->copy.answer));
    check(world, call, &before, &verdict, now_us);
    follow(world, call, &verdict, before.held);
    note_watch(call);
    if (world->plan.session && call->copy.answer == PAWL__HELD) {
        call->copy.hint_us = -1;
    }
    sim_net_wakes(world);
}

/* ===== Disasters ===== */

void sim_backend_forget(struct sim_world *world)
{
    for (unsigned i = 0; i < world->plan.clients; i++) {
        sim_net_unsubscribe(&world->clients[i]);
    }
    pawl__memory_free(&world->table);
    if (!pawl__memory_init(&world->table)) {
        sim_fail(world, "simulator", "no memory");
    }
    for (unsigned name = 0; name < world->plan.names; name++) {
        sim_taken(world, name);
    }
}

void sim_backend_jump(struct sim_world *world, int64_t by_us)
{
    world->table_shift_us += by_us;
    for (unsigned name = 0; by_us > 0 && name < world->plan.names; name++) {
        sim_taken(world, name);
    }
}

/* Until the last lease ends that stands in the table now; leases without an end do not count. */
int64_t sim_backend_remaining(const struct sim_world *world)
{
    int64_t now_us = sim_backend_now(world);
    int64_t most_us = 0;
    for (unsigned name = 0; name < world->plan.names; name++) {
        struct picture picture = look(world, name, now_us);
        if (picture.held && picture.expires_us != PAWL__NEVER) {
            most_us = pawl__max64(most_us, picture.expires_us - now_us);
        }
    }
    return most_us;
}

/* A session engine's backend sees a client die and frees what it held. */
void sim_backend_bury(struct sim_client *client)
{
    struct sim_world *world = client->world;
    for (unsigned name = 0; name < world->plan.names; name++) {
        struct sim_claim *claim = world->holder[name];
        bool its = claim != NULL && claim->client == client && claim->life == client->life;
        if (its && sim_backend_has(world, claim)) {
            struct pawl__op op = {.kind = PAWL__OP_RELEASE, .id = claim->id};
            op.place = &world->places[name];
            pawl__memory_apply(&world->table, &client->peer, &op, sim_backend_now(world));
        }
    }
    sim_net_wakes(world);
}

/* The engine's own subscription, after a reconnect. */
void sim_backend_watch(struct sim_client *client, unsigned name)
{
    struct sim_world *world = client->world;
    struct pawl__op op = {.kind = PAWL__OP_WATCH, .place = &world->places[name]};
    pawl__memory_apply(&world->table, &client->peer, &op, sim_backend_now(world));
    sim_fair_watching(client, name, true);
}
