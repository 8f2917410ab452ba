/* SPDX-License-Identifier: Apache-2.0 */
/* The backend: the table of the memory engine with a clock that may jump, and a second opinion.
 *
 * Before and after each operation the entry is looked at, and what may have changed is worked out
 * here once more, from what engine.h says and not from how the table does it: an operation of one
 * tenure never touches another's lock, asking again changes nothing but the lease, nothing shortens
 * a lease, tokens grow (oracles O2 and O3). */
#include "picture.h"

#include "base/clock.h"
#include "engine/memory/table_fair.h"

#include <stdio.h>
#include <string.h>

int64_t sim_backend_now(const struct sim_world *world)
{
    return world->now_us + world->table_shift_us;
}

/* ===== What stands there ===== */

static const struct pawl__memory_share *share_of(
    struct sim_world *world, const struct sim_claim *claim)
{
    const struct pawl__memory_entry *entry = sim_entry(world, claim->name);
    int64_t now_us = sim_backend_now(world);
    const struct pawl__list *shares = entry != NULL ? &entry->shares : NULL;
    for (struct pawl__list *node = entry != NULL ? shares->next : NULL; node != shares;
         node = node->next) {
        const struct pawl__memory_share *share = pawl__memory_share_of(node);
        if (share->id == claim->id && now_us < share->expires_us &&
            strcmp(share->uuid, claim->uuid) == 0) {
            return share;
        }
    }
    return NULL;
}

bool sim_backend_has(struct sim_world *world, const struct sim_claim *claim)
{
    if (world->plan.families[claim->name] == PAWL__FAMILY_SHARED) {
        return share_of(world, claim) != NULL;
    }
    const struct pawl__memory_entry *entry = sim_entry(world, claim->name);
    return world->holders[claim->name] == claim && entry != NULL && entry->held &&
           sim_backend_now(world) < entry->expires_us;
}

bool sim_backend_writes(struct sim_world *world, const struct sim_claim *claim)
{
    const struct pawl__memory_share *share = share_of(world, claim);
    return share != NULL && share->writes;
}

bool sim_backend_queues(struct sim_world *world, const struct sim_claim *claim)
{
    if (world->plan.families[claim->name] != PAWL__FAMILY_FAIR) {
        return false;
    }
    const struct pawl__memory_entry *entry = sim_entry(world, claim->name);
    const struct pawl__list *queue = entry != NULL ? &entry->queue : NULL;
    for (struct pawl__list *node = entry != NULL ? queue->next : NULL; node != queue;
         node = node->next) {
        const struct pawl__memory_waiter *waiter =
            PAWL__CONTAINER(node, struct pawl__memory_waiter, node);
        if (waiter->id == claim->id && strcmp(waiter->uuid, claim->uuid) == 0) {
            return true;
        }
    }
    return false;
}

/* ===== Judging ===== */

static bool has_tokens(const struct sim_call *call)
{
    return call->copy.place->family != PAWL__FAMILY_PLAIN;
}

static void check_tokens(
    struct sim_world *world, const struct sim_call *call, const struct sim_picture *after)
{
    unsigned tokens = call->copy.tokens > 1 ? call->copy.tokens : 1;
    if (after->token <= world->token_max[call->name]) {
        sim_fail(world, "O2", "name %u: token %llu given after token %llu", call->name,
            (unsigned long long)after->token, (unsigned long long)world->token_max[call->name]);
    }
    world->token_max[call->name] = after->token + tokens - 1;
}

/* Who looks sees its own hold, or else the oldest; NULL: nobody holds it. */
static const struct sim_hold *shown(const struct sim_call *call, struct sim_picture *before)
{
    const struct sim_hold *own = sim_picture_find(before, sim_peer(call->uuid), call->copy.id);
    return own != NULL ? own : before->held > 0 ? &before->holds[0] : NULL;
}

static void check_info(struct sim_world *world, const struct sim_call *call,
    struct sim_picture *before, int64_t now_us)
{
    const pawl_lock_info *info = &call->info;
    const struct sim_hold *hold = shown(call, before);
    const bool shared = call->copy.place->family == PAWL__FAMILY_SHARED;
    char holder[sizeof info->holder] = "";
    if (hold != NULL) {
        snprintf(holder, sizeof holder, "%08x-0000-4000-8000-%012x:%llu%s",
            (unsigned)(hold->peer >> 32), (unsigned)hold->peer, (unsigned long long)hold->id,
            shared && !hold->reads ? ":write" : "");
    }
    int64_t left_us = hold != NULL ? sim_picture_end(before) - now_us : 0;
    uint64_t token = has_tokens(call) ? before->token + before->more : 0;
    if (info->held != (hold != NULL) || info->hold_count != (hold != NULL ? hold->count : 0) ||
        strcmp(info->holder, holder) != 0 || info->remaining_ms < left_us / 1000 ||
        info->remaining_ms > left_us / 1000 + 1 || (info->held && info->token != token)) {
        sim_fail(world, "O3", "inspect tells of \"%s\" where \"%s\" holds", info->holder, holder);
    }
}

/* What the answer says beside itself. */
static void check_words(struct sim_world *world, const struct sim_call *call,
    struct sim_picture *before, struct sim_picture *after, int64_t now_us)
{
    const struct pawl__op *op = &call->copy;
    uint64_t id = op->kind == PAWL__OP_PASS ? op->heir_id : op->id;
    bool tells = op->kind == PAWL__OP_ACQUIRE || op->kind == PAWL__OP_PASS;
    if (op->kind == PAWL__OP_INSPECT) {
        check_info(world, call, before, now_us);
    }
    if (tells && op->answer == PAWL__DONE) {
        const struct sim_hold *hold = sim_picture_find(after, sim_peer(call->uuid), id);
        uint64_t token = hold != NULL && has_tokens(call) ? hold->token : 0;
        if (op->token != token) {
            sim_fail(world, "O2", "tenure %llu was told a wrong token", (unsigned long long)id);
        }
    }
    bool free = op->place->family == PAWL__FAMILY_FAIR && before->held == 0;
    bool right = free ? op->hint_us >= 0 && op->hint_us <= PAWL__MEMORY_FAIR_LOOK_US
                      : op->hint_us == sim_picture_end(before) - now_us;
    if (op->answer == PAWL__HELD && !right) {
        sim_fail(world, "O3", "a wrong hint how long the holder's lease lasts");
    }
}

static void check(struct sim_world *world, const struct sim_call *call, struct sim_picture *before,
    struct sim_verdict *verdict, struct sim_picture *after, int64_t now_us)
{
    const struct pawl__op *op = &call->copy;
    bool failed = op->answer == PAWL__FAILED;
    sim_picture_look(world, call->name, now_us, after);
    if (failed) {
        sim_picture_copy(verdict->after, before); /* no memory */
        verdict->grants = false;
    } else if (op->answer != verdict->answer) {
        sim_fail(world, "O3", "%s of tenure %llu was answered \"%s\", not \"%s\"",
            sim_op_text(op->kind), (unsigned long long)op->id, sim_answer_text(op->answer),
            sim_answer_text(verdict->answer));
        verdict->grants = op->kind == PAWL__OP_ACQUIRE && op->answer == PAWL__DONE;
    }
    if (verdict->grants) {
        check_tokens(world, call, after);
        struct sim_hold *holds = verdict->after->holds;
        holds[verdict->after->held > 0 ? verdict->after->held - 1 : 0].token = after->token;
    }
    if (!sim_picture_same_holds(after, verdict->after)) {
        sim_fail(world, "O3", "%s of tenure %llu of client %u changed what it must not",
            sim_op_text(op->kind), (unsigned long long)op->id, call->client->index);
    }
    if (!failed && !sim_picture_same_line(after, verdict->after)) {
        sim_fail(world, "O3", "%s of tenure %llu of client %u left the queue as it must not",
            sim_op_text(op->kind), (unsigned long long)op->id, call->client->index);
    }
    check_words(world, call, before, after, now_us);
    if (after->full) {
        sim_fail(world, "simulator", "more holders or waiters than it can see");
    }
}

/* ===== Consequences ===== */

/* Who held before is gone, but for others that read. */
static void hold_now(struct sim_world *world, struct sim_claim *claim)
{
    struct sim_claim **link = &world->holders[claim->name];
    while (*link != NULL) {
        struct sim_claim *other = *link;
        if (other == claim || !claim->reads || !sim_backend_has(world, other)) {
            *link = other->next_holder;
        } else {
            link = &other->next_holder;
        }
    }
    claim->next_holder = world->holders[claim->name];
    world->holders[claim->name] = claim;
}

/* The backend's hold is another tenure's from now on, and the backend does not know. */
void sim_backend_handed(struct sim_world *world, struct sim_claim *claim)
{
    if (world->holders[claim->name] == claim->giver) {
        world->holders[claim->name] = claim;
    }
}

static void granted(struct sim_world *world, const struct sim_call *call, struct sim_claim *claim)
{
    if (claim == NULL) {
        return;
    }
    if (call->copy.kind == PAWL__OP_PASS && claim->joint) {
        sim_fail(world, "M2", "client %u: name %u of several was given alone", claim->client->index,
            claim->name);
    }
    world->stats.grants++;
    world->stats.kinds[claim->kind]++;
    hold_now(world, claim);
    claim->token_end = world->token_max[claim->name];
    claim->first_us = claim->granted_us < 0 ? world->now_us : claim->first_us;
    claim->granted_us = world->now_us;
    sim_fair_granted(world, claim, call->copy.kind == PAWL__OP_PASS);
    sim_say(world, call->client, "table: name %u granted to tenure %llu, token %llu", claim->name,
        (unsigned long long)claim->id, (unsigned long long)world->token_max[claim->name]);
}

static void follow(struct sim_world *world, const struct sim_call *call,
    const struct sim_verdict *verdict, bool was_held)
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
    if (op->answer == PAWL__HELD && op->queue) {
        sim_order_queued(world, call->claim);
    }
    if (op->kind == PAWL__OP_RELEASE && op->answer == PAWL__DONE) {
        sim_order_freed(world, call->name);
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
    if (call->copy.id != 0) {
        return; /* one waiter's alone */
    }
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
    if (call->copy.kind == PAWL__OP_TALLY) {
        sim_count_apply(world, call, now_us);
        return;
    }
    if (call->spared) {
        call->copy.answer = PAWL__SPARED;
        call->applied = true;
        sim_say(world, call->client, "table: acquire of tenure %llu: spared",
            (unsigned long long)call->copy.id);
        return;
    }
    static struct sim_picture before;
    static struct sim_picture after;
    static struct sim_picture expected;
    struct sim_verdict verdict = {.after = &expected};
    sim_picture_look(world, call->name, now_us, &before);
    sim_picture_copy(&expected, &before);
    sim_opinion(&verdict, call, watched_by_others(world, call), now_us);
    world->in_machine = call->leader == NULL && call->follower == NULL; /* or it may fail alone */
    pawl__memory_apply(&world->table, peer, &call->copy, now_us);
    world->in_machine = false;
    call->applied = true;
    sim_hash(world, (uint64_t)call->copy.answer << 8 | (uint64_t)call->copy.kind);
    sim_say(world, call->client, "table: %s of tenure %llu: %s", sim_op_text(call->copy.kind),
        (unsigned long long)call->copy.id, sim_answer_text(call->copy.answer));
    check(world, call, &before, &verdict, &after, now_us);
    follow(world, call, &verdict, before.held > 0);
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
        sim_count_forget(world, name);
    }
}

void sim_backend_jump(struct sim_world *world, int64_t by_us)
{
    world->table_shift_us += by_us;
    for (unsigned name = 0; by_us > 0 && name < world->plan.names; name++) {
        sim_taken(world, name);
        sim_count_jump(world, name);
    }
}

/* Until the last lease ends that stands in the table now, and the last waiter that may be dead
 * counts as such; leases without an end do not count. */
int64_t sim_backend_remaining(const struct sim_world *world)
{
    static struct sim_picture picture;
    int64_t now_us = sim_backend_now(world);
    int64_t most_us = 0;
    for (unsigned name = 0; name < world->plan.names; name++) {
        sim_picture_look(world, name, now_us, &picture);
        most_us = pawl__max64(most_us, sim_count_remaining(world, name));
        int64_t end_us = sim_picture_end(&picture);
        if (picture.held > 0 && end_us != PAWL__NEVER) {
            most_us = pawl__max64(most_us, end_us - now_us);
        }
        for (unsigned i = 0; i < picture.line; i++) {
            most_us = pawl__max64(most_us, picture.waiters[i].dead_us - now_us);
        }
    }
    return most_us;
}

/* A session engine's backend sees a client die and frees what it held. */
void sim_backend_bury(struct sim_client *client)
{
    struct sim_world *world = client->world;
    for (unsigned name = 0; name < world->plan.names; name++) {
        struct sim_claim *claim = world->holders[name];
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
void sim_backend_watch(struct sim_client *client, unsigned name, uint64_t id)
{
    struct sim_world *world = client->world;
    struct pawl__op op = {.kind = PAWL__OP_WATCH, .place = &world->places[name], .id = id};
    pawl__memory_apply(&world->table, &client->peer, &op, sim_backend_now(world));
    if (id == 0) {
        sim_fair_watching(client, name, true);
    }
}
