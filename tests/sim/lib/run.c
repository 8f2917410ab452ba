/* SPDX-License-Identifier: Apache-2.0 */
/* One run: the clients start, everything goes wrong that the plan has in store, then nothing does
 * any more, and within a bounded time every caller must have got its answer (oracle O7). At last
 * all handles are closed, and then nothing may be left: no operation, no tenure, no timer, no name.
 */
#include "sim.h"

#include "base/alloc.h"
#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

#define EVENTS_MOST 2000000
#define START_US 1000000
#define WALL_US INT64_C(1700000000000000) /* the backend goes by the calendar */
#define SECOND_US 1000000
#define ABOUT_MOST 9 /* sim_about() gives at most so many times the mean */

static struct sim_world *the_world; /* for the hook, which has no argument */

/* A client that keeps nothing in store for its holds has to try again later when memory is short,
 * as after a fault of the backend. */
static bool may_allocate(size_t size)
{
    (void)size;
    if (!the_world->in_machine || !sim_strikes(the_world, SIM_NO_MEMORY)) {
        return true;
    }
    struct sim_client *client = the_world->stepping;
    if (client != NULL && client->machine.motions_kept == 0) {
        client->trouble_us = pawl__max64(client->trouble_us, the_world->now_us);
    }
    return false;
}

/* ===== Beginning and end ===== */

static void start_clients(struct sim_world *world)
{
    for (unsigned i = 0; i < world->plan.clients; i++) {
        struct sim_client *client = &world->clients[i];
        client->world = world;
        client->index = i;
        client->clock_zero_us = (int64_t)sim_draw(world, 1000000) * SECOND_US;
        client->clock_ppm = (int64_t)sim_draw(world, 9001) - 4500;
        client->life = 0;
        client->connection = 0;
        client->resumed_us = 0;
        sim_client_start(client);
    }
}

static void start(struct sim_world *world, uint64_t seed, bool verbose)
{
    static const char *const names[SIM_NAMES_MAX] = {"alpha", "beta", "core"};
    struct sim_event *events = world->unused_events;
    struct sim_call *calls = world->unused_calls;
    memset(world, 0, sizeof *world);
    world->unused_events = events;
    world->unused_calls = calls;
    world->verbose = verbose;
    world->now_us = START_US;
    world->table_shift_us = WALL_US;
    world->freezer_end = &world->freezer;
    sim_plan_draw(&world->plan, seed);
    pawl__random_seed(&world->random, ~seed);
    for (int i = 0; i < SIM_NAMES_MAX; i++) {
        world->places[i].name = names[i];
        world->places[i].name_size = (uint32_t)strlen(names[i]);
        world->places[i].family = world->plan.families[i];
        world->free_us[i] = PAWL__NEVER;
        world->counts[i].base = world->plan.permits[i];
        world->counts[i].jumped_us = -1;
    }
    if (!pawl__memory_init(&world->table)) {
        abort();
    }
    the_world = world;
    pawl__alloc_hook = may_allocate;
    start_clients(world);
    sim_faults_start(world);
}

static void free_clients(struct sim_world *world)
{
    for (unsigned i = 0; i < world->plan.clients; i++) {
        struct sim_client *client = &world->clients[i];
        if (client->alive) {
            sim_net_forget_client(client);
            sim_client_free(client);
        }
        free(client->claims);
        free(client->open);
        free(client->held);
        free(client->asks);
        sim_teams_free(client);
    }
}

static void end(struct sim_world *world)
{
    world->healing = true;
    free_clients(world);
    pawl__memory_free(&world->table);
    pawl__alloc_hook = NULL;
    struct sim_event *event;
    while ((event = world->freezer) != NULL) {
        world->freezer = event->next;
        sim_event_free(world, event);
    }
    while ((event = sim_event_next(world)) != NULL) {
        sim_event_free(world, event);
    }
    while (world->claims != NULL) {
        struct sim_claim *claim = world->claims;
        world->claims = claim->next;
        free(claim);
    }
    sim_asks_free(world);
}

/* ===== Healing ===== */

static int64_t lease_most(const struct sim_plan *plan)
{
    return pawl__min64(4 * plan->lease_us, 60 * SECOND_US);
}

/* Leases that the dead have left must end, and those that late copies make; then everybody has its
 * turn. */
static int64_t heal_bound(const struct sim_world *world)
{
    const struct sim_plan *plan = &world->plan;
    int64_t callers = (int64_t)plan->clients * plan->actors;
    int64_t each_us = ABOUT_MOST * plan->hold_us + 4 * ABOUT_MOST * plan->think_us + 3 * SECOND_US;
    return 3 * lease_most(plan) + sim_backend_remaining(world) + 2 * plan->late_us +
           4 * plan->timeout_us + ABOUT_MOST * plan->lease_us + callers * each_us + 10 * SECOND_US;
}

static bool is_idle(const struct sim_client *client)
{
    for (unsigned i = 0; i <= client->world->plan.actors; i++) {
        const struct sim_handle *handle = client->actors[i].handle;
        if (client->actors[i].busy || (handle != NULL && handle->closing) ||
            !sim_stake_is_empty(&client->actors[i])) {
            return false;
        }
    }
    return client->held_count == 0 && !client->shutting;
}

static void close_all(struct sim_world *world)
{
    sim_say(world, NULL, "everything is closed");
    world->closing = true;
    world->heal_until_us =
        world->now_us + 3 * lease_most(&world->plan) + 4 * world->plan.timeout_us + 10 * SECOND_US;
    for (unsigned i = 0; i < world->plan.clients; i++) {
        struct sim_client *client = &world->clients[i];
        if (client->alive) {
            client->actors[world->plan.actors].waiting_for_turn = false;
            sim_actor_later(&client->actors[world->plan.actors], 1);
            if (sim_draw(world, 3) == 0) {
                sim_shut_begin(client);
            }
        }
    }
}

static bool is_over(const struct sim_world *world)
{
    for (unsigned i = 0; i < world->plan.clients; i++) {
        if (world->clients[i].alive && !sim_client_is_quiet(&world->clients[i])) {
            return false;
        }
    }
    return world->closing;
}

/* Where the run stands. */
static void review(struct sim_world *world)
{
    if (!world->healing) {
        if (world->stats.events >= world->plan.events_max) {
            sim_faults_end(world);
            world->heal_until_us = world->now_us + heal_bound(world);
        }
        return;
    }
    if (world->now_us > world->heal_until_us) {
        sim_fail(world, "O7", "%s takes longer than it may after all has healed",
            world->closing ? "closing" : "some call");
        world->stopped = true;
    }
    if (world->closing) {
        return;
    }
    sim_counts_heal(world);
    for (unsigned i = 0; i < world->plan.clients; i++) {
        if (world->clients[i].alive && !is_idle(&world->clients[i])) {
            return;
        }
    }
    close_all(world);
}

static void check_end(struct sim_world *world)
{
    if (!world->closing) {
        sim_fail(world, "O7", "nothing happens any more, but calls are open");
    }
    for (unsigned i = 0; i < world->plan.clients; i++) {
        const struct sim_client *client = &world->clients[i];
        const struct pawl__machine *machine = &client->machine;
        if (client->alive && !sim_client_is_quiet(client)) {
            sim_fail(world, "O7", "client %u is closed and has %u operations, %zu names%s", i,
                machine->pending, machine->names.count,
                pawl__list_empty(&machine->tenures) ? "" : ", tenures");
        }
    }
}

/* ===== The loop ===== */

static void serve_world(struct sim_world *world, struct sim_event *event)
{
    struct sim_client *client = event->client;
    if (event->kind == SIM_EVENT_REQUEST && world->frozen) {
        event->next = NULL;
        *world->freezer_end = event;
        world->freezer_end = &event->next;
        return;
    }
    switch ((int)event->kind) {
    case SIM_EVENT_REQUEST:
        sim_net_arrive(world, event);
        break;
    case SIM_EVENT_FAULT:
        sim_fault_strike(world);
        break;
    case SIM_EVENT_BACKEND_UP:
        sim_backend_up(world);
        break;
    case SIM_EVENT_THAW:
        sim_backend_thaw(world);
        break;
    case SIM_EVENT_RESUME:
        if (client->life == event->life && client->paused) {
            sim_client_resume(client);
        }
        break;
    case SIM_EVENT_REBIRTH:
        if (!world->healing) {
            sim_client_start(client);
        }
        break;
    default:
        break;
    }
    sim_event_free(world, event);
}

static void serve(struct sim_world *world, struct sim_event *event)
{
    struct sim_client *client = event->client;
    sim_hash(world, (uint64_t)world->now_us);
    sim_hash(world, (uint64_t)event->kind << 8 | (client != NULL ? client->index : 0));
    if (event->kind < SIM_EVENT_SUBMIT) {
        serve_world(world, event);
    } else if (client->life != event->life) {
        sim_event_free(world, event);
    } else {
        sim_client_event(client, event);
    }
}

void sim_run(struct sim_world *world, uint64_t seed, bool verbose)
{
    start(world, seed, verbose);
    struct sim_event *event;
    while (world->failure[0] == '\0' && !world->stopped && !is_over(world) &&
           (event = sim_event_next(world)) != NULL) {
        world->stats.events++;
        serve(world, event);
        review(world);
        if (world->stats.events > EVENTS_MOST) {
            sim_fail(world, "O7", "events without end");
            world->stopped = true;
        }
    }
    if (world->failure[0] == '\0' && !world->stopped) {
        check_end(world);
    }
    world->stats.virtual_us = world->now_us - START_US;
    sim_hash(world, (uint64_t)world->now_us);
    end(world);
}

void sim_world_free(struct sim_world *world)
{
    while (world->unused_events != NULL) {
        struct sim_event *event = world->unused_events;
        world->unused_events = event->next;
        free(event);
    }
    while (world->unused_calls != NULL) {
        struct sim_call *call = world->unused_calls;
        world->unused_calls = call->next_unused;
        free(call);
    }
}
