/* SPDX-License-Identifier: Apache-2.0 */
/* The last actor of each client closes handles, as pawl_lock_close() does, and opens new ones; now
 * and then, and at the end of some runs, it closes the whole client, as pawl_client_close() does.
 */
#include "sim.h"

#include "base/clock.h"

#define CALM_US 2000000 /* nothing that went wrong so long ago is still being repeated */

/* ===== One handle ===== */

/* One of the open ones. Those without memory to be opened get another chance. */
static struct sim_handle *next_to_close(struct sim_client *client)
{
    struct sim_world *world = client->world;
    struct sim_handle *open = NULL;
    for (unsigned i = 0; i < world->plan.handles; i++) {
        struct sim_handle *handle = &client->handles[i];
        if (!handle->open && !world->closing) {
            sim_client_open_handle(client, handle);
        }
        if (handle->open && (open == NULL || sim_draw(world, 2) > 0)) {
            open = handle;
        }
    }
    return open;
}

static void close_begin(struct sim_actor *actor, struct sim_handle *handle)
{
    handle->closing = true;
    handle->handle.closed = true;
    actor->handle = handle;
    sim_actor_cancel(actor, handle);
    sim_actor_later(actor, 1);
}

static void close_end(struct sim_actor *actor)
{
    struct sim_client *client = actor->client;
    struct sim_handle *handle = actor->handle;
    sim_say(client->world, client, "a handle of name %u is closed", handle->name);
    sim_client_begin(client);
    pawl__handle_detach(&client->machine, &handle->handle, sim_now(client));
    sim_claims_forget_handle(client, handle);
    handle->open = false;
    handle->closing = false;
    actor->handle = NULL;
    sim_client_end(client);
    sim_client_drop_extra(handle);
    sim_actor_later(actor, client->world->closing ? 1 : sim_about(client->world, 100000));
}

/* Release what was acquired through it, once its other callers have left. */
static void close_go_on(struct sim_actor *actor)
{
    struct sim_handle *handle = actor->handle;
    if (handle->users > 0) {
        sim_actor_later(actor, 1 + actor->client->world->plan.delay_us);
        return;
    }
    if (sim_is_count(actor->client->world, handle->name)) {
        if (!sim_count_close(actor, handle)) {
            close_end(actor);
        }
        return;
    }
    actor->who = pawl__handle_holder(&handle->handle);
    actor->name = handle->name;
    const struct sim_claim *claim = sim_held(actor->client, actor->name, actor->who);
    unsigned bit = 1U << (handle - actor->client->handles);
    bool its = claim != NULL && (claim->through & bit) != 0;
    if (actor->who != 0 && !its) {
        sim_fail(actor->client->world, "O6", "closing a handle releases what another one acquired");
    }
    if (actor->who != 0) {
        sim_actor_start(actor, handle, PAWL__WANT_RELEASE, 0);
    } else {
        close_end(actor);
    }
}

/* ===== The whole client ===== */

void sim_shut_begin(struct sim_client *client)
{
    struct sim_world *world = client->world;
    struct sim_actor *closer = &client->actors[world->plan.actors];
    sim_say(world, client, "is being closed");
    client->shutting = true;
    client->drain_until_us = 0;
    for (unsigned i = 0; i < world->plan.handles; i++) {
        struct sim_handle *handle = &client->handles[i];
        if (handle->open) {
            handle->handle.closed = true;
            sim_actor_cancel(closer, handle);
        }
    }
    sim_actor_later(closer, 1);
}

static bool is_occupied(const struct sim_client *client)
{
    for (unsigned i = 0; i <= client->world->plan.actors; i++) {
        if (client->actors[i].busy) {
            return true;
        }
    }
    return false;
}

static void release_all(struct sim_client *client)
{
    struct sim_world *world = client->world;
    while (client->held_count > 0) {
        sim_hold_drop(client->held[0]);
    }
    client->drain_until_us = world->now_us + world->plan.timeout_us;
    sim_client_begin(client);
    pawl__machine_release_all(&client->machine, sim_now(client));
    sim_client_end(client);
}

static void shut_go_on(struct sim_actor *actor)
{
    struct sim_client *client = actor->client;
    struct sim_world *world = client->world;
    if (is_occupied(client)) {
        sim_actor_later(actor, 1 + world->plan.delay_us);
        return;
    }
    if (client->drain_until_us == 0) {
        release_all(client);
    }
    bool drained = pawl__machine_idle(&client->machine);
    if (!drained && world->now_us < client->drain_until_us) {
        sim_actor_later(actor, 1 + world->plan.delay_us);
        return;
    }
    int64_t enough_us = 2 * world->plan.timeout_us + (world->plan.session ? 0 : CALM_US);
    bool calm = world->now_us - client->trouble_us > enough_us && client->wired && !world->frozen;
    if (!drained && calm && world->plan.ordered) {
        sim_fail(world, "O7", "client %u cannot be closed in time", client->index);
    }
    sim_client_shut(client);
}

/* ===== What to do next ===== */

void sim_closer_act(struct sim_actor *actor)
{
    struct sim_client *client = actor->client;
    struct sim_world *world = client->world;
    if (client->shutting) {
        shut_go_on(actor);
        return;
    }
    if (actor->handle != NULL && actor->handle->closing) {
        close_go_on(actor);
        return;
    }
    struct sim_handle *handle = next_to_close(client);
    if (sim_strikes(world, SIM_SHUT)) {
        sim_shut_begin(client);
    } else if (handle != NULL && (world->closing || sim_strikes(world, SIM_CLOSE))) {
        close_begin(actor, handle);
    } else if (!world->closing) {
        sim_actor_later(actor, sim_about(world, world->plan.lease_us));
    }
}
