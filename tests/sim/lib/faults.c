/* SPDX-License-Identifier: Apache-2.0 */
/* What goes wrong from time to time. Faults of single messages are drawn where the messages are
 * (net.c). */
#include "sim.h"

#include "base/alloc.h"
#include "base/clock.h"

/* Whether a fault of this kind happens here and now. It is counted. */
bool sim_strikes(struct sim_world *world, enum sim_fault fault)
{
    bool strikes =
        world->plan.on[fault] && !world->healing && sim_chance(world, world->plan.mille[fault]);
    world->stats.faults[fault] += strikes;
    return strikes;
}

static void schedule(struct sim_world *world)
{
    int64_t at_us = world->now_us + 1 + sim_about(world, world->plan.gap_us);
    sim_event_at(world, at_us, SIM_EVENT_FAULT, NULL);
}

void sim_faults_start(struct sim_world *world)
{
    for (int i = SIM_CUT; i <= SIM_PROOF; i++) {
        if (world->plan.on[i]) {
            schedule(world);
            return;
        }
    }
}

static enum sim_fault choose(struct sim_world *world)
{
    int fault;
    do {
        fault = SIM_CUT + (int)sim_draw(world, SIM_PROOF - SIM_CUT + 1);
    } while (!world->plan.on[fault]);
    return (enum sim_fault)fault;
}

/* ===== The backend ===== */

static void restart(struct sim_world *world, bool forgets)
{
    if (world->down) {
        return;
    }
    sim_say(world, NULL, "the backend goes down%s", forgets ? " and forgets everything" : "");
    world->down = true;
    for (unsigned i = 0; i < world->plan.clients; i++) {
        if (world->clients[i].alive) {
            sim_net_cut(&world->clients[i]);
        }
    }
    if (forgets) {
        sim_backend_forget(world);
    }
    int64_t at_us = world->now_us + sim_about(world, world->plan.lease_us / 4);
    sim_event_at(world, at_us, SIM_EVENT_BACKEND_UP, NULL);
}

void sim_backend_up(struct sim_world *world)
{
    if (world->down) {
        sim_say(world, NULL, "the backend is up");
        world->down = false;
    }
}

static void freeze(struct sim_world *world)
{
    if (!world->frozen) {
        sim_say(world, NULL, "the backend freezes");
        world->frozen = true;
        int64_t at_us = world->now_us + sim_about(world, world->plan.lease_us / 2);
        sim_event_at(world, at_us, SIM_EVENT_THAW, NULL);
    }
}

/* Everything that arrived meanwhile is served at once, in its order. */
void sim_backend_thaw(struct sim_world *world)
{
    if (!world->frozen) {
        return;
    }
    sim_say(world, NULL, "the backend goes on");
    struct sim_event *event = world->freezer;
    world->frozen = false;
    world->freezer = NULL;
    world->freezer_end = &world->freezer;
    for (unsigned i = 0; i < world->plan.clients; i++) {
        world->clients[i].trouble_us = world->now_us;
    }
    while (event != NULL) {
        struct sim_event *next = event->next;
        sim_net_arrive(world, event);
        sim_event_free(world, event);
        event = next;
    }
}

/* ===== Clients ===== */

/* The engine itself saw that a lock is lost, as the file engine sees its file replaced. */
static void prove_loss(struct sim_client *client)
{
    struct sim_world *world = client->world;
    for (size_t i = 0; i < client->held_count; i++) {
        const struct sim_claim *claim = client->held[i];
        if (claim->taken && !claim->lost && !sim_backend_has(world, claim)) {
            const struct pawl__place *place = &world->places[claim->name];
            sim_client_begin(client);
            pawl__machine_lost(
                &client->machine, place->name, place->name_size, claim->id, sim_now(client));
            sim_client_end(client);
            return;
        }
    }
}

static void strike_client(struct sim_client *client, enum sim_fault fault)
{
    struct sim_world *world = client->world;
    int64_t lease_us = world->plan.lease_us;
    if (!client->alive || client->paused) {
        return;
    }
    switch ((int)fault) {
    case SIM_CUT:
        sim_net_cut(client);
        break;
    case SIM_CUT_PUSH:
        sim_net_cut_push(client);
        break;
    case SIM_PAUSE_SHORT:
        sim_client_pause(client, 1 + (int64_t)sim_draw(world, (uint64_t)lease_us / 2));
        break;
    case SIM_PAUSE_LONG:
        sim_client_pause(client, lease_us + (int64_t)sim_draw(world, 4 * (uint64_t)lease_us));
        break;
    case SIM_CRASH:
        sim_client_crash(client);
        break;
    case SIM_PROOF:
        prove_loss(client);
        break;
    default:
        break;
    }
}

void sim_fault_strike(struct sim_world *world)
{
    if (world->healing) {
        return;
    }
    enum sim_fault fault = choose(world);
    world->stats.faults[fault]++;
    int64_t jump_us = 1 + sim_about(world, 2 * world->plan.lease_us);
    switch ((int)fault) {
    case SIM_FREEZE:
        freeze(world);
        break;
    case SIM_RESTART:
        restart(world, false);
        break;
    case SIM_AMNESIA:
        restart(world, true);
        break;
    case SIM_CLOCK_FORWARD:
        sim_say(world, NULL, "the backend's clock jumps forward");
        sim_backend_jump(world, jump_us);
        break;
    case SIM_CLOCK_BACK:
        sim_say(world, NULL, "the backend's clock jumps back");
        sim_backend_jump(world, -jump_us);
        break;
    default:
        strike_client(&world->clients[sim_draw(world, world->plan.clients)], fault);
        break;
    }
    schedule(world);
}

/* From here on nothing goes wrong any more; what was under way may still arrive late. */
void sim_faults_end(struct sim_world *world)
{
    sim_say(world, NULL, "everything heals");
    world->healing = true;
    sim_backend_up(world);
    sim_backend_thaw(world);
    for (unsigned i = 0; i < world->plan.clients; i++) {
        struct sim_client *client = &world->clients[i];
        if (client->alive && client->paused) {
            sim_client_resume(client);
        }
        client->trouble_us = pawl__max64(client->trouble_us, world->now_us);
    }
}
