/* SPDX-License-Identifier: Apache-2.0 */
/* Judges what is held.
 *
 *   O1  No two owners hold a name at once, each by its own clock and deadline; and who believes to
 * hold is the holder in the backend. Excepted is what an operator, a lost disk or a jump of the
 * backend's clock took. O2  Tokens grow from hold to hold as callers see them. O4  A hold ends in
 * time, is told about once, and never comes back. Nothing is lost without a reason. O9  A deadline
 * is never later than an answer allows, worked out here once more; counts agree. */
#include "sim.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

#define RETRY_US 1000000 /* a renewal that failed is tried again within this time */

/* ===== Claims ===== */

static void take_out(struct sim_claim **list, size_t *count, const struct sim_claim *claim)
{
    for (size_t i = 0; i < *count; i++) {
        if (list[i] == claim) {
            list[i] = list[--*count];
            return;
        }
    }
}

struct sim_claim *sim_held(struct sim_client *client, unsigned name, uint64_t owner)
{
    for (size_t i = 0; i < client->held_count; i++) {
        struct sim_claim *claim = client->held[i];
        if (claim->name == name && claim->owner == owner) {
            return claim;
        }
    }
    return NULL;
}

void sim_hold_drop(struct sim_claim *claim)
{
    struct sim_client *client = claim->client;
    claim->count = 0;
    claim->read_count = 0;
    claim->downgraded_us = -1;
    claim->tenure = NULL;
    sim_claim_close(claim);
    take_out(client->held, &client->held_count, claim);
}

/* ===== O1: exclusion ===== */

/* The lock was taken away from whoever had it. */
void sim_taken(struct sim_world *world, unsigned name)
{
    struct sim_claim *holder = world->holders[name];
    for (; holder != NULL; holder = holder->next_holder) {
        holder->taken = true;
    }
    world->taken_us[name][world->taken_count[name]++ % SIM_BREAKS_MAX] = world->now_us;
}

bool sim_taken_between(const struct sim_world *world, unsigned name, int64_t from_us, int64_t to_us)
{
    unsigned count = world->taken_count[name];
    for (unsigned i = 0; i < count && i < SIM_BREAKS_MAX; i++) {
        int64_t at_us = world->taken_us[name][i];
        if (from_us <= at_us && at_us <= to_us) {
            return true;
        }
    }
    return false;
}

static bool is_valid(const struct sim_claim *claim)
{
    return !claim->lost && claim->deadline_us > sim_now(claim->client);
}

static bool is_excepted(const struct sim_claim *a, const struct sim_claim *b)
{
    int64_t first_us = pawl__min64(a->granted_us, b->granted_us);
    int64_t second_us = pawl__max64(a->granted_us, b->granted_us);
    return sim_taken_between(a->client->world, a->name, first_us, second_us);
}

static void check_exclusion(const struct sim_claim *claim)
{
    struct sim_world *world = claim->client->world;
    for (unsigned i = 0; i < world->plan.clients; i++) {
        struct sim_client *client = &world->clients[i];
        for (size_t k = 0; k < client->held_count; k++) {
            const struct sim_claim *other = client->held[k];
            bool excludes = other->name == claim->name && !(other->reads && claim->reads);
            if (other != claim && excludes && is_valid(other) && !is_excepted(claim, other)) {
                sim_fail(world, "O1",
                    "name %u is held by tenure %llu of client %u and by %llu of %u", claim->name,
                    (unsigned long long)claim->id, claim->client->index,
                    (unsigned long long)other->id, i);
            }
        }
    }
}

/* ===== Grants and answers ===== */

static void check_token(struct sim_world *world, const struct sim_claim *claim, uint64_t token)
{
    unsigned name = claim->name;
    if (token != claim->told_token) {
        sim_fail(world, "O2", "a caller sees token %llu, the backend gave %llu",
            (unsigned long long)token, (unsigned long long)claim->told_token);
    }
    if (world->plan.families[name] == PAWL__FAMILY_PLAIN) {
        return;
    }
    if (token > claim->token_end) {
        sim_fail(world, "O2", "token %llu was never given to this hold, only those to %llu",
            (unsigned long long)token, (unsigned long long)claim->token_end);
    }
    /* Who reads may hear of it after others that came later. */
    uint64_t seen = world->token_seen[name][claim->reads];
    int64_t seen_us = world->token_seen_us[name][claim->reads];
    if (token <= seen && !sim_taken_between(world, name, claim->first_us, seen_us)) {
        sim_fail(world, "O2", "name %u: token %llu comes after %llu", name,
            (unsigned long long)token, (unsigned long long)seen);
    }
    for (int i = 0; i < (claim->reads ? 1 : 2); i++) {
        if (token > world->token_seen[name][i]) {
            world->token_seen[name][i] = token;
            world->token_seen_us[name][i] = claim->granted_us;
        }
    }
}

/* A hold that was handed off had time enough left, whatever its own limit is. */
static void check_handed(const struct sim_claim *claim)
{
    int64_t left_us = claim->giver->deadline_us - claim->acquired_us;
    if (left_us < claim->lease_us / 2) {
        sim_fail(claim->client->world, "O9", "tenure %llu was handed off with too little time left",
            (unsigned long long)claim->id);
    }
    if (!claim->renew || !claim->giver->renew) {
        sim_fail(claim->client->world, "O9", "tenure %llu has a fixed lease and was handed off",
            (unsigned long long)claim->id);
    }
}

void sim_hold_acquired(struct sim_actor *actor, struct pawl__tenure *tenure)
{
    struct sim_client *client = actor->client;
    struct sim_claim *claim = sim_claim_of(client, tenure);
    if (claim == NULL || claim->closed || claim->granted_us < 0) {
        sim_fail(
            client->world, "O1", "client %u holds what was never granted to it", client->index);
        return;
    }
    claim->through |= 1U << (actor->handle - client->handles);
    claim->read_count += actor->handle->terms.kind == PAWL_READ;
    claim->first_count += claim->handle == &actor->handle->handle;
    if (claim->count++ > 0) {
        return;
    }
    claim->tenure = tenure;
    claim->acquired_us = sim_now(client);
    claim->deadline_us = tenure->deadline_us;
    sim_claim_list(&client->held, &client->held_count, &client->held_room, claim);
    if (claim->giver != NULL) {
        check_handed(claim);
    }
    check_token(client->world, claim, tenure->token);
    check_exclusion(claim);
}

static int64_t valid_until(const struct sim_call *call)
{
    int64_t drift_us = call->lease_us / 100 + 2000;
    return pawl__later(call->copy.sent_us, call->lease_us) - drift_us;
}

/* What an answer, before the machine hears it, allows it to believe. */
void sim_hold_answered(const struct sim_call *call)
{
    const struct pawl__op *op = &call->copy;
    bool pass = op->kind == PAWL__OP_PASS;
    if (op->answer == PAWL__UNKNOWN && (op->kind == PAWL__OP_RELEASE || pass)) {
        call->claim->release_unknown = true;
    }
    struct sim_claim *claim = pass ? call->heir : call->claim;
    bool proves = op->kind == PAWL__OP_ACQUIRE || op->kind == PAWL__OP_RENEW || pass;
    if (op->answer == PAWL__DONE && proves) {
        bool forever = claim->renew && call->client->world->plan.session;
        claim->best_us = pawl__max64(claim->best_us, forever ? PAWL__NEVER : valid_until(call));
        claim->told_token = op->kind != PAWL__OP_RENEW ? op->token : claim->told_token;
    }
}

void sim_hold_notice(struct sim_client *client, struct pawl__delivery *notice)
{
    struct sim_world *world = client->world;
    struct pawl__tenure *tenure = pawl__notice_tenure(notice);
    struct sim_claim *claim = sim_claim_of(client, tenure);
    bool lost = notice->status == PAWL_LOST;
    sim_hash(world, tenure->id << 8 | (uint64_t)notice->status);
    sim_say(world, client, "notice: tenure %llu is %s", (unsigned long long)tenure->id,
        lost ? "lost" : "at risk");
    if (claim == NULL || claim->granted_us < 0) {
        sim_fail(world, "O4", "a notice about a tenure that never held");
        return;
    }
    if (lost) {
        world->stats.losses++;
    }
    if (lost && ++claim->told > 1) {
        sim_fail(world, "O4", "tenure %llu of client %u is told lost twice",
            (unsigned long long)claim->id, client->index);
    }
    bool early = sim_now(client) < claim->deadline_us && !claim->taken && !claim->owner_gone;
    if (lost && early) {
        sim_fail(world, "O4", "tenure %llu of client %u is told lost, but is not",
            (unsigned long long)claim->id, client->index);
    }
    if (!lost && (!claim->renew || claim->told > 0)) {
        sim_fail(world, "O4", "tenure %llu of client %u is told at risk without reason",
            (unsigned long long)claim->id, client->index);
    }
}

/* ===== After each step ===== */

/* Nothing has gone wrong for long enough to renew: then a renewed hold does not run out. */
static void check_needless(const struct sim_claim *claim)
{
    const struct sim_client *client = claim->client;
    const struct sim_plan *plan = &client->world->plan;
    int64_t round_us = 2 * (plan->delay_us + plan->spread_us);
    int64_t calm_us = client->world->now_us - client->trouble_us;
    int64_t enough_us = plan->timeout_us + RETRY_US + 4 * round_us;
    int64_t drift_us = claim->lease_us / 100 + 2000;
    bool limited = claim->deadline_us >= claim->tenure->limit_us - drift_us;
    bool slow = claim->lease_us < 8 * round_us + drift_us;
    bool calm = calm_us > enough_us && client->wired && !client->world->frozen;
    if (claim->renew && !limited && !slow && !claim->taken && calm) {
        sim_fail(client->world, "O4", "tenure %llu of client %u ran out for want of a renewal",
            (unsigned long long)claim->id, client->index);
    }
}

/* Who went on for reading tells the backend, until it was heard. */
static void check_downgrade(struct sim_claim *claim)
{
    const struct sim_client *client = claim->client;
    struct sim_world *world = client->world;
    if (claim->downgraded_us < 0) {
        return;
    }
    if (!sim_backend_writes(world, claim)) {
        claim->downgraded_us = -1;
        return;
    }
    int64_t since_us = pawl__max64(claim->downgraded_us, client->trouble_us);
    int64_t round_us = 2 * (world->plan.delay_us + world->plan.spread_us);
    int64_t enough_us = world->plan.timeout_us + RETRY_US + 4 * round_us;
    if (world->now_us - since_us > enough_us && client->wired && !world->frozen) {
        sim_fail(world, "O7", "tenure %llu of client %u reads, and the backend is not told",
            (unsigned long long)claim->id, client->index);
    }
}

static void check_held(struct sim_claim *claim)
{
    struct sim_client *client = claim->client;
    struct sim_world *world = client->world;
    const struct pawl__tenure *tenure = claim->tenure;
    unsigned long long id = claim->id;
    int64_t limit_us = claim->limit_us != 0 ? claim->acquired_us + claim->limit_us : PAWL__NEVER;
    if (claim->lost) {
        sim_fail(world, "O4", "tenure %llu was lost and is held again", id);
    }
    if (tenure->deadline_us > claim->best_us || tenure->deadline_us > limit_us) {
        sim_fail(world, "O9", "tenure %llu is believed longer than any answer allows", id);
    }
    if (tenure->deadline_us < claim->deadline_us) {
        sim_fail(world, "O9", "the deadline of tenure %llu went back", id);
    }
    if (pawl__machine_due(&client->machine) > tenure->deadline_us) {
        sim_fail(world, "O4", "no timer for the deadline of tenure %llu", id);
    }
    if (tenure->deadline_us > claim->deadline_us) {
        if (sim_now(client) >= claim->deadline_us) {
            sim_fail(world, "O4", "tenure %llu was over by the clock and goes on", id);
        }
        claim->deadline_us = tenure->deadline_us;
        check_exclusion(claim);
    }
    check_downgrade(claim);
    if (is_valid(claim) && !claim->taken && !sim_backend_has(world, claim)) {
        sim_fail(world, "O1", "tenure %llu of client %u believes to hold, and does not", id,
            client->index);
    }
}

static void check_lost(struct sim_claim *claim)
{
    struct sim_world *world = claim->client->world;
    unsigned expected = claim->handle != NULL ? 1 : claim->told;
    if (claim->lost) {
        return;
    }
    claim->lost = true;
    sim_claim_close(claim);
    if (sim_now(claim->client) < claim->deadline_us && !claim->taken) {
        sim_fail(world, "O4", "tenure %llu is lost before its deadline without a reason",
            (unsigned long long)claim->id);
    }
    if (claim->told != expected) {
        sim_fail(world, "O4", "tenure %llu is lost and told %u times",
            (unsigned long long)claim->id, claim->told);
    }
    check_needless(claim);
}

void sim_holds_check(struct sim_client *client)
{
    for (size_t i = 0; i < client->held_count; i++) {
        struct sim_claim *claim = client->held[i];
        const struct pawl__tenure *tenure = claim->tenure;
        if (tenure->count != claim->count || tenure->reads != claim->read_count) {
            sim_fail(client->world, "O9", "tenure %llu counts %u, its owner %u",
                (unsigned long long)claim->id, tenure->count, claim->count);
        }
        if (tenure->state == PAWL__TENURE_HELD) {
            check_held(claim);
        } else if (tenure->state == PAWL__TENURE_LOST) {
            check_lost(claim);
        } else {
            sim_fail(client->world, "O4", "tenure %llu should be held and is %s",
                (unsigned long long)claim->id, sim_state_text(tenure->state));
        }
    }
}

/* A caller asks for token, remaining time and count: judged by the clock, whatever the keeper does.
 */
void sim_hold_look(struct sim_actor *actor, struct sim_handle *handle)
{
    struct sim_client *client = actor->client;
    int64_t now_us = sim_now(client);
    sim_client_begin(client);
    struct pawl__tenure *tenure =
        pawl__machine_find(&client->machine, &handle->handle, actor->who, now_us);
    sim_client_end(client);
    const struct sim_claim *claim = sim_held(client, handle->name, actor->who);
    if (claim == NULL || tenure != claim->tenure) {
        sim_fail(client->world, "O9", "a caller finds another hold than its own");
    } else if (tenure->state == PAWL__TENURE_HELD && now_us >= claim->deadline_us) {
        sim_fail(client->world, "O4", "a caller sees a hold that is over");
    } else if (tenure->state == PAWL__TENURE_HELD && tenure->token != claim->told_token) {
        sim_fail(client->world, "O2", "a caller sees another token than its own");
    }
}
