/* SPDX-License-Identifier: Apache-2.0 */
/* Events in the order of virtual time, the clocks, and the dice. Events of the same time come in
 * the order in which they were made (base/heap.h promises that), so a run depends on nothing but
 * its seed. Used events and calls are kept for the next run: a simulator that asks malloc for each
 * would be half as fast. */
#include "sim.h"

#include "base/clock.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define MILLION 1000000

/* ===== Events ===== */

static void *need(void *memory)
{
    if (memory == NULL) {
        abort();
    }
    return memory;
}

void sim_event_push(struct sim_world *world, struct sim_event *event, int64_t at_us)
{
    pawl__timer_set(&world->queue, &event->timer, pawl__max64(at_us, world->now_us));
}

struct sim_event *sim_event_at(
    struct sim_world *world, int64_t at_us, enum sim_event_kind kind, struct sim_client *client)
{
    struct sim_event *event = world->unused_events;
    if (event != NULL) {
        world->unused_events = event->next;
    } else {
        event = need(malloc(sizeof *event));
    }
    memset(event, 0, sizeof *event);
    event->kind = kind;
    event->client = client;
    event->life = client != NULL ? client->life : 0;
    sim_event_push(world, event, at_us);
    return event;
}

struct sim_event *sim_event_next(struct sim_world *world)
{
    struct pawl__timer *first = pawl__heap_first(&world->queue);
    if (first == NULL) {
        return NULL;
    }
    pawl__timer_clear(&world->queue, first);
    world->now_us = first->due_us;
    return PAWL__CONTAINER(first, struct sim_event, timer);
}

void sim_event_free(struct sim_world *world, struct sim_event *event)
{
    assert(!event->timer.armed);
    if (event->call != NULL) {
        event->call->events--;
        sim_call_settle(world, event->call);
    }
    event->next = world->unused_events;
    world->unused_events = event;
}

void sim_event_cancel(struct sim_world *world, struct sim_event *event)
{
    pawl__timer_clear(&world->queue, &event->timer);
    sim_event_free(world, event);
}

struct sim_call *sim_call_new(struct sim_world *world)
{
    struct sim_call *call = world->unused_calls;
    if (call != NULL) {
        world->unused_calls = call->next_unused;
    } else {
        call = need(malloc(sizeof *call));
    }
    memset(call, 0, sizeof *call);
    pawl__list_init(&call->node);
    return call;
}

void sim_call_settle(struct sim_world *world, struct sim_call *call)
{
    if (call->op == NULL && call->events == 0) {
        call->next_unused = world->unused_calls;
        world->unused_calls = call;
    }
}

/* ===== Clocks ===== */

int64_t sim_local(const struct sim_client *client, int64_t true_us)
{
    int64_t whole_us = true_us / MILLION * client->clock_ppm;
    int64_t rest_us = true_us % MILLION * client->clock_ppm / MILLION;
    return client->clock_zero_us + true_us + whole_us + rest_us;
}

int64_t sim_true(const struct sim_client *client, int64_t local_us)
{
    if (local_us == PAWL__NEVER) {
        return PAWL__NEVER;
    }
    int64_t passed_us = local_us - client->clock_zero_us;
    int64_t true_us = passed_us / (MILLION + client->clock_ppm) * MILLION;
    true_us += passed_us % (MILLION + client->clock_ppm) * MILLION / (MILLION + client->clock_ppm);
    while (sim_local(client, true_us) > local_us) {
        true_us--;
    }
    while (sim_local(client, true_us) < local_us) {
        true_us++;
    }
    return true_us;
}

int64_t sim_now(const struct sim_client *client)
{
    return sim_local(client, client->world->now_us);
}

/* ===== Dice ===== */

uint64_t sim_draw(struct sim_world *world, uint64_t bound)
{
    return pawl__random_below(&world->random, bound);
}

bool sim_chance(struct sim_world *world, unsigned mille)
{
    return sim_draw(world, 1000) < mille;
}

/* Halves are counted out instead of taking a logarithm, whose last bits differ between machines. */
int64_t sim_about(struct sim_world *world, int64_t mean_us)
{
    uint64_t bits = pawl__random_next(&world->random) | (uint64_t)1 << 12;
    int halves = __builtin_ctzll(bits);
    int64_t spread_us = (int64_t)sim_draw(world, (uint64_t)mean_us + 1);
    return (int64_t)halves * mean_us * 7 / 10 + spread_us * 6 / 10;
}
