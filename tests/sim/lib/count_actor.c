/* SPDX-License-Identifier: Apache-2.0 */
/* The callers of semaphores and latches. Who has permits works a while, extends them if they have
 * leases, and gives them back; the others take, look, count down, wait for a latch, or set what
 * nobody has set. Now and then somebody is the operator who replaces what the dead took with them.
 */
#include "sim.h"

#include "base/clock.h"

#include <string.h>

bool sim_stake_is_empty(const struct sim_actor *actor)
{
    return actor->stake.plain == 0 && actor->stake.permit_count == 0;
}

void sim_count_start(struct sim_actor *actor, struct sim_handle *handle, enum pawl__tally_verb verb,
    int64_t amount, int64_t wait_us)
{
    struct sim_client *client = actor->client;
    struct sim_world *world = client->world;
    struct pawl__request *request = &actor->request;
    const int64_t now_us = sim_now(client);
    memset(request, 0, sizeof *request);
    request->kind = PAWL__WANT_TALLY;
    request->handle = &handle->handle;
    request->verb = verb;
    request->amount = amount;
    request->start_us = now_us;
    request->wait_us = pawl__later(now_us, wait_us);
    request->end_us = pawl__later(now_us, pawl__max64(wait_us, client->machine.timeout_us));
    if (world->plan.families[handle->name] == PAWL__FAMILY_PERMITS) {
        const bool leased = verb == PAWL__TALLY_TAKE || verb == PAWL__TALLY_EXTEND;
        const bool named = leased || verb == PAWL__TALLY_GIVE;
        request->ids = named ? actor->stake.ids : NULL;
        request->lease_us = leased ? handle->terms.lease_us : 0;
        request->permits = verb == PAWL__TALLY_TAKE ? &actor->stake.prepared : NULL;
    }
    actor->busy = true;
    actor->handle = handle;
    handle->users++;
    world->stats.requests++;
    sim_say(world, client, "actor %u: %s %lld on name %u%s", actor->index, sim_verb_text(verb),
        (long long)amount, handle->name, wait_us == 0 ? "" : ", and waits");
    sim_request_started(actor);
    sim_client_begin(client);
    pawl__machine_start(&client->machine, request, now_us);
    sim_client_end(client);
}

static int64_t draw_wait(struct sim_world *world)
{
    const uint64_t dice = sim_draw(world, 10);
    if (dice < 3) {
        return 0;
    }
    return dice < 8 ? 1 + sim_about(world, world->plan.lease_us) : PAWL__NEVER;
}

/* ===== Who has nothing ===== */

static void take(struct sim_actor *actor, struct sim_handle *handle)
{
    struct sim_world *world = actor->client->world;
    const int64_t base = world->counts[handle->name].base;
    const int64_t most = pawl__min64(base, SIM_TAKE_MOST);
    const int64_t amount = 1 + (int64_t)sim_draw(world, (uint64_t)most);
    if (world->plan.families[handle->name] == PAWL__FAMILY_PERMITS) {
        sim_permits_prepare(actor, handle, amount);
    }
    sim_count_start(actor, handle, PAWL__TALLY_TAKE, amount, draw_wait(world));
}

/* What the dead had of a semaphore, so that the living can go on. */
static bool replace(struct sim_actor *actor, struct sim_handle *handle)
{
    struct sim_count *count = &actor->client->world->counts[handle->name];
    const int64_t amount = count->dead;
    if (amount == 0) {
        return false;
    }
    count->dead = 0;
    sim_count_start(actor, handle, PAWL__TALLY_ADD, amount, 0);
    return true;
}

static void use_semaphore(struct sim_actor *actor, struct sim_handle *handle)
{
    struct sim_world *world = actor->client->world;
    const struct sim_count *count = &world->counts[handle->name];
    const bool plain = world->plan.families[handle->name] == PAWL__FAMILY_SEMAPHORE;
    const uint64_t dice = sim_draw(world, 1000);
    if (dice < 60) {
        sim_count_start(actor, handle, PAWL__TALLY_SET, count->base, 0);
    } else if (dice < 100) {
        sim_count_start(actor, handle, PAWL__TALLY_READ, 0, 0);
    } else if (dice < 110) {
        sim_count_start(actor, handle, PAWL__TALLY_ADD, dice % 2 == 0 ? 1 : -1, 0);
    } else if (dice < 130 && plain) {
        sim_count_start(actor, handle, PAWL__TALLY_DRAIN, 0, 0);
    } else if (dice >= 230 || !plain || !replace(actor, handle)) {
        take(actor, handle);
    }
}

static void use_latch(struct sim_actor *actor, struct sim_handle *handle)
{
    struct sim_world *world = actor->client->world;
    const uint64_t dice = sim_draw(world, 1000);
    if (dice < 200) {
        sim_count_start(
            actor, handle, PAWL__TALLY_SET, 1 + (int64_t)sim_draw(world, SIM_PERMITS_MOST), 0);
    } else if (dice < 600) {
        sim_count_start(actor, handle, PAWL__TALLY_DOWN, 0, 0);
    } else if (dice < 950) {
        sim_count_start(actor, handle, PAWL__TALLY_AWAIT, 0, draw_wait(world));
    } else if (dice < 990) {
        sim_count_start(actor, handle, PAWL__TALLY_READ, 0, 0);
    } else {
        sim_count_start(actor, handle, PAWL__TALLY_RESET, 0, 0);
    }
}

void sim_count_act_idle(struct sim_actor *actor, struct sim_handle *handle)
{
    struct sim_world *world = actor->client->world;
    actor->stake.name = handle->name;
    if (sim_strikes(world, SIM_CANCEL)) {
        sim_actor_cancel(actor, handle);
        sim_actor_later(actor, sim_about(world, world->plan.think_us));
    } else if (world->plan.families[handle->name] == PAWL__FAMILY_LATCH) {
        use_latch(actor, handle);
    } else {
        use_semaphore(actor, handle);
    }
}

/* ===== Who has permits ===== */

/* That it was acquired through, or another one of the name. */
static struct sim_handle *usable(const struct sim_actor *actor)
{
    struct sim_client *client = actor->client;
    const struct sim_stake *stake = &actor->stake;
    struct sim_handle *first = stake->permit_count > 0 ? stake->permits[0].handle : NULL;
    if (first != NULL && first->open && !first->closing && first->name == stake->name) {
        return first;
    }
    for (unsigned i = 0; i < client->world->plan.handles; i++) {
        struct sim_handle *handle = &client->handles[i];
        if (handle->open && !handle->closing && handle->name == stake->name) {
            return handle;
        }
    }
    return NULL;
}

static void release(struct sim_actor *actor, struct sim_handle *handle)
{
    struct sim_stake *stake = &actor->stake;
    struct sim_count *count = &actor->client->world->counts[stake->name];
    int64_t amount = stake->plain;
    stake->given_epoch = stake->epoch;
    if (amount > 0) {
        stake->plain = 0;
        count->out -= stake->epoch == count->epoch ? amount : 0;
    } else {
        amount = stake->permit_count;
        sim_permits_release(actor);
        stake->permit_count = 0;
    }
    sim_count_start(actor, handle, PAWL__TALLY_GIVE, amount, 0);
}

void sim_count_act_holding(struct sim_actor *actor)
{
    struct sim_world *world = actor->client->world;
    struct sim_handle *handle = usable(actor);
    const uint64_t dice = world->healing ? 999 : sim_draw(world, 1000);
    if (handle == NULL) {
        sim_actor_later(actor, sim_about(world, world->plan.think_us) + 100);
    } else if (dice < 200) {
        sim_actor_later(actor, sim_about(world, world->plan.hold_us));
    } else if (dice < 300 && actor->stake.permit_count > 0) {
        for (unsigned i = 0; i < actor->stake.permit_count; i++) {
            actor->stake.ids[i] = actor->stake.permits[i].id;
        }
        sim_count_start(actor, handle, PAWL__TALLY_EXTEND, actor->stake.permit_count, 0);
    } else {
        release(actor, handle);
    }
}

/* ===== Who closes ===== */

bool sim_count_close(struct sim_actor *actor, struct sim_handle *handle)
{
    const size_t count = sim_permits_drop_all(actor, handle);
    actor->stake.name = handle->name;
    if (count > 0) {
        sim_count_start(actor, handle, PAWL__TALLY_GIVE, (int64_t)count, 0);
    }
    return count > 0;
}
