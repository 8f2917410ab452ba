/* SPDX-License-Identifier: Apache-2.0 */
/* The callers of a client. Each actor is one thread that makes one call at a time: it acquires,
 * works, enters again, extends, looks, releases as often as it acquired, and at times does what it
 * should not. Some handles are owners themselves; then several actors may use the same hold.
 *
 * While the run heals nobody wants anything new. */
#include "sim.h"

#include "base/clock.h"

#include <string.h>

#define COUNT_MOST 3
#define NO_KIND ((pawl_kind)99)

static bool is_closer(const struct sim_actor *actor)
{
    return actor->index == actor->client->world->plan.actors;
}

void sim_actor_later(struct sim_actor *actor, int64_t delay_us)
{
    struct sim_world *world = actor->client->world;
    if (!actor->waiting_for_turn) {
        actor->waiting_for_turn = true;
        sim_event_at(world, world->now_us + delay_us, SIM_EVENT_ACTOR, actor->client)->number =
            actor->index;
    }
}

void sim_actors_start(struct sim_client *client)
{
    struct sim_world *world = client->world;
    memset(client->actors, 0, sizeof client->actors);
    for (unsigned i = 0; i <= world->plan.actors; i++) {
        struct sim_actor *actor = &client->actors[i];
        actor->client = client;
        actor->index = i;
        actor->owner = client->next_owner++;
        sim_actor_later(actor, sim_about(world, world->plan.think_us));
    }
    sim_teams_start(client);
}

/* ===== Calls ===== */

void sim_actor_start(struct sim_actor *actor, struct sim_handle *handle,
    enum pawl__request_kind kind, int64_t wait_us)
{
    struct sim_client *client = actor->client;
    struct pawl__request *request = &actor->request;
    int64_t now_us = sim_now(client);
    int64_t timeout_us = pawl__later(now_us, client->machine.timeout_us);
    memset(request, 0, sizeof *request);
    request->kind = kind;
    request->handle = &handle->handle;
    request->owner = actor->who;
    request->start_us = now_us;
    request->wait_us = pawl__later(now_us, wait_us);
    request->end_us =
        kind == PAWL__WANT_ACQUIRE ? pawl__max64(request->wait_us, timeout_us) : timeout_us;
    request->lease_us = kind == PAWL__WANT_EXTEND ? wait_us : 0;
    request->party = kind == PAWL__WANT_ACQUIRE ? sim_team_party(actor) : NULL;
    request->info_out = kind == PAWL__WANT_INSPECT ? &actor->info : NULL;
    actor->busy = true;
    actor->handle = handle;
    handle->users++;
    client->world->stats.requests++;
    sim_say(client->world, client, "actor %u: %s name %u as owner %llu%s", actor->index,
        sim_request_text(kind), handle->name, (unsigned long long)actor->who,
        wait_us == 0 ? " (try)" : "");
    sim_request_started(actor);
    sim_client_begin(client);
    pawl__machine_start(&client->machine, request, now_us);
    sim_client_end(client);
}

static void acquire(struct sim_actor *actor, struct sim_handle *handle)
{
    struct sim_world *world = actor->client->world;
    uint64_t kind = world->plan.fair ? 9 : sim_draw(world, 10);
    int64_t wait_us = kind < 3 ? 0 : PAWL__NEVER;
    if (kind >= 3 && kind < 7) {
        wait_us = 1 + sim_about(world, world->plan.lease_us);
    }
    sim_actor_start(actor, handle, PAWL__WANT_ACQUIRE, wait_us);
}

/* An open handle for the name, and of the owner if that is one, and not of that kind. */
static struct sim_handle *usable(struct sim_actor *actor, bool any_name, pawl_kind not_kind)
{
    struct sim_client *client = actor->client;
    const struct sim_plan *plan = &client->world->plan;
    unsigned count = plan->twins ? plan->names : plan->handles; /* the others are a team's */
    unsigned first = (unsigned)sim_draw(client->world, count);
    for (unsigned i = 0; i < count; i++) {
        struct sim_handle *handle = &client->handles[(first + i) % count];
        bool fits = handle->name == actor->name && handle->terms.kind != not_kind &&
                    (handle->handle.owner == actor->who ||
                        (handle->handle.owner == 0 && actor->who == actor->owner));
        if (handle->open && !handle->closing && (any_name || fits)) {
            return handle;
        }
    }
    return NULL;
}

static bool waits(const struct pawl__request *request)
{
    return request->kind == PAWL__WANT_ACQUIRE ||
           (request->kind == PAWL__WANT_TALLY &&
               (request->verb == PAWL__TALLY_TAKE || request->verb == PAWL__TALLY_AWAIT));
}

void sim_actor_cancel(struct sim_actor *actor, struct sim_handle *handle)
{
    struct sim_client *client = actor->client;
    handle->cancels++;
    sim_say(client->world, client, "actor %u cancels what waits for name %u", actor->index,
        handle->name);
    sim_client_begin(client);
    pawl__machine_cancel(&client->machine, &handle->handle, sim_now(client));
    sim_client_end(client);
    for (unsigned i = 0; i <= client->world->plan.actors; i++) {
        const struct sim_actor *other = &client->actors[i];
        bool before = other->cancels < handle->cancels; /* another may have begun since */
        if (other->busy && other->handle == handle && before && waits(&other->request)) {
            sim_fail(client->world, "O6", "actor %u goes on waiting though it was canceled", i);
        }
    }
}

/* The thread ends, and with it the right to what it holds; another one takes its place. */
static void end_thread(struct sim_actor *actor)
{
    struct sim_client *client = actor->client;
    uint64_t owner = actor->owner;
    struct sim_claim *told[SIM_NAMES_MAX] = {NULL};
    for (unsigned name = 0; name < client->world->plan.names; name++) {
        struct sim_claim *claim = sim_held(client, name, owner);
        if (claim != NULL) {
            told[name] = claim->handle != NULL ? claim : NULL;
            claim->owner_gone = true;
            sim_hold_drop(claim);
        }
    }
    actor->owner = client->next_owner++;
    actor->who = actor->owner;
    sim_say(client->world, client, "thread %llu ends", (unsigned long long)owner);
    sim_client_begin(client);
    pawl__machine_owner_gone(&client->machine, owner, sim_now(client));
    sim_client_end(client);
    for (unsigned name = 0; name < client->world->plan.names; name++) {
        if (told[name] != NULL && told[name]->told != 1) {
            sim_fail(client->world, "O4", "the end of a thread that held was told %u times",
                told[name]->told);
        }
    }
}

/* ===== What to do next ===== */

static void act_idle(struct sim_actor *actor)
{
    struct sim_world *world = actor->client->world;
    struct sim_handle *handle = usable(actor, true, NO_KIND);
    if (handle == NULL) {
        sim_actor_later(actor, sim_about(world, world->plan.think_us) + 100);
        return;
    }
    if (sim_is_count(world, handle->name)) {
        sim_count_act_idle(actor, handle);
        return;
    }
    actor->name = handle->name;
    actor->who = handle->handle.owner != 0 ? handle->handle.owner : actor->owner;
    uint64_t dice = world->plan.fair ? 999 : sim_draw(world, 1000);
    if (dice < 20) {
        sim_actor_start(actor, handle, PAWL__WANT_INSPECT, 0);
    } else if (dice < 40) {
        sim_actor_start(actor, handle, PAWL__WANT_RELEASE, 0);
    } else if (dice < 50) {
        sim_actor_start(actor, handle, PAWL__WANT_EXTEND, world->plan.lease_us);
    } else if (sim_strikes(world, SIM_BREAK)) {
        sim_actor_start(actor, handle, PAWL__WANT_BREAK, 0);
    } else if (sim_strikes(world, SIM_CANCEL)) {
        sim_actor_cancel(actor, handle);
        sim_actor_later(actor, sim_about(world, world->plan.think_us));
    } else {
        acquire(actor, handle);
    }
}

/* What cannot be released, because nothing was acquired so. */
static pawl_kind unusable(const struct sim_claim *claim)
{
    if (claim->count == claim->read_count) {
        return PAWL_WRITE;
    }
    return claim->read_count == 0 ? PAWL_READ : NO_KIND;
}

static void act_holding(struct sim_actor *actor, struct sim_claim *claim)
{
    struct sim_world *world = actor->client->world;
    uint64_t dice = world->healing || world->plan.fair ? 999 : sim_draw(world, 1000);
    bool reads_too = dice < 380 && claim->kind == PAWL_WRITE && claim->count == 1;
    pawl_kind not_kind = reads_too ? PAWL_WRITE : dice < 380 ? NO_KIND : unusable(claim);
    struct sim_handle *handle = usable(actor, false, not_kind);
    if (handle == NULL) {
        sim_actor_later(actor, sim_about(world, world->plan.think_us) + 100);
        return;
    }
    if (reads_too && dice < 300) {
        acquire(actor, handle);
    } else if (dice < 150 && (claim->count < COUNT_MOST || claim->lost)) {
        acquire(actor, handle);
    } else if (dice < 250) {
        sim_actor_start(
            actor, handle, PAWL__WANT_EXTEND, 10000 + sim_about(world, world->plan.lease_us));
    } else if (dice < 350) {
        sim_hold_look(actor, handle);
        sim_actor_later(actor, sim_about(world, world->plan.hold_us));
    } else if (dice < 380) {
        sim_actor_start(actor, handle, PAWL__WANT_INSPECT, 0);
    } else if (actor->who == actor->owner && !world->healing &&
               sim_strikes(world, SIM_THREAD_END)) {
        end_thread(actor);
        sim_actor_later(actor, sim_about(world, world->plan.think_us));
    } else {
        sim_actor_start(actor, handle, PAWL__WANT_RELEASE, 0);
    }
}

void sim_actor_act(struct sim_actor *actor)
{
    struct sim_client *client = actor->client;
    if (actor->busy) {
        return;
    }
    if (is_closer(actor)) {
        sim_closer_act(actor);
        return;
    }
    if (client->shutting) {
        return;
    }
    if (sim_in_team(actor)) {
        sim_team_act(actor);
        return;
    }
    struct sim_claim *claim = sim_held(client, actor->name, actor->who);
    if (!sim_stake_is_empty(actor)) {
        sim_count_act_holding(actor);
    } else if (claim != NULL) {
        act_holding(actor, claim);
    } else if (!client->world->healing) {
        act_idle(actor);
    }
}

void sim_actor_finished(struct sim_actor *actor)
{
    struct sim_world *world = actor->client->world;
    bool acquired = actor->request.status == PAWL_OK &&
                    (actor->request.kind == PAWL__WANT_ACQUIRE ||
                        (actor->request.kind == PAWL__WANT_TALLY && !sim_stake_is_empty(actor)));
    actor->busy = false;
    actor->handle->users--;
    if (is_closer(actor)) {
        sim_actor_later(actor, 1);
    } else if (sim_in_team(actor)) {
        sim_team_finished(actor);
    } else if (acquired && world->plan.fair) {
        sim_actor_later(actor, (int64_t)sim_draw(world, (uint64_t)world->plan.hold_us));
    } else {
        sim_actor_later(
            actor, sim_about(world, acquired ? world->plan.hold_us : world->plan.think_us));
    }
}
