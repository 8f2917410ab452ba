/* SPDX-License-Identifier: Apache-2.0 */
/* Judges whether others get their turn (oracle O8), in runs with a crowd at one lock and no faults.
 *
 * A client that passes the lock on among its own callers, or comes back for it at once, has to let
 * others have it after 16 times or 10 ms. So while another client wants the lock and is subscribed
 * to it, a row of grants inside one client is short. A client that left it to others is not the
 * next to have it. And nobody is overtaken for ever: with like ways to the backend, each client
 * that waits gets it after a while. */
#include "sim.h"

#include "base/clock.h"
#include "base/limits.h"

#define ROW_MOST (PAWL__PASSES_MAX + 2)
#define TURNS_MOST 100

void sim_fair_watching(struct sim_client *client, unsigned name, bool watching)
{
    int64_t *since_us = &client->watching_us[name];
    if (!watching) {
        *since_us = PAWL__NEVER;
    } else if (*since_us == PAWL__NEVER) {
        *since_us = client->world->now_us;
    }
}

void sim_fair_held(struct sim_client *client, unsigned name)
{
    if (client->wanting_us[name] == PAWL__NEVER) {
        client->wanting_us[name] = client->world->now_us;
    }
}

/* Since when it has been waiting, subscribed. */
static int64_t waiting_since(const struct sim_client *client, unsigned name)
{
    return pawl__max64(client->watching_us[name], client->wanting_us[name]);
}

static bool is_waiting(const struct sim_client *client, unsigned name, int64_t since_us)
{
    return waiting_since(client, name) <= since_us;
}

static int64_t slack(const struct sim_plan *plan)
{
    return PAWL__PASSES_US + plan->hold_us + 8 * (plan->delay_us + plan->spread_us);
}

static void check_row(struct sim_world *world, unsigned name, const struct sim_client *waiter)
{
    int64_t slack_us = slack(&world->plan);
    int64_t took_us = world->now_us - world->row_us[name];
    unsigned row = world->row_count[name];
    if (row > world->stats.row_most) {
        world->stats.row_most = row;
    }
    if (row > ROW_MOST || (row > 1 && took_us > slack_us)) {
        sim_fail(world, "O8", "%u grants in a row in %lld us while client %u waits", row,
            (long long)took_us, waiter->index);
    }
}

/* The lock was free, and another client was faster. */
static void check_turns(struct sim_world *world, unsigned name, struct sim_client *waiter)
{
    unsigned turns = ++waiter->turns[name];
    if (turns > world->stats.turns_most) {
        world->stats.turns_most = turns;
    }
    if (turns > TURNS_MOST) {
        sim_fail(world, "O8", "client %u waits while others had %u turns", waiter->index, turns);
    }
}

/* Left free for those who wait: whoever left it must not be the next. */
void sim_fair_left(struct sim_world *world, const struct sim_claim *claim)
{
    world->left_by[claim->name] = NULL;
    for (unsigned i = 0; i < world->plan.clients; i++) {
        struct sim_client *waiter = &world->clients[i];
        if (waiter != claim->client && is_waiting(waiter, claim->name, world->now_us)) {
            world->left_by[claim->name] = claim->client;
        }
    }
}

void sim_fair_granted(struct sim_world *world, const struct sim_claim *claim, bool passed)
{
    unsigned name = claim->name;
    struct sim_client *winner = claim->client;
    if (!world->plan.fair || world->healing) {
        return;
    }
    if (world->plan.families[name] == PAWL__FAMILY_FAIR) {
        sim_order_granted(world, claim);
        return;
    }
    if (world->left_by[name] == winner) {
        sim_fail(world, "O8", "client %u takes at once what it left to others", winner->index);
    }
    world->left_by[name] = NULL;
    if (world->row_client[name] != winner) {
        world->row_client[name] = winner;
        world->row_count[name] = 0;
        world->row_us[name] = world->now_us;
    }
    world->row_count[name]++;
    winner->wanting_us[name] = PAWL__NEVER;
    winner->turns[name] = 0;
    for (unsigned i = 0; i < world->plan.clients; i++) {
        struct sim_client *waiter = &world->clients[i];
        if (waiter != winner && is_waiting(waiter, name, world->row_us[name])) {
            check_row(world, name, waiter);
            if (!passed) {
                check_turns(world, name, waiter);
            }
        }
    }
}

/* It changed hands without a word to the backend. */
void sim_fair_handed(struct sim_world *world, const struct sim_claim *claim)
{
    unsigned name = claim->name;
    int64_t took_us = world->now_us - world->row_us[name];
    if (!world->plan.fair || world->healing || took_us <= slack(&world->plan)) {
        return;
    }
    for (unsigned i = 0; i < world->plan.clients; i++) {
        const struct sim_client *waiter = &world->clients[i];
        if (waiter != claim->client && is_waiting(waiter, name, world->row_us[name])) {
            sim_fail(world, "O8", "handed off after %lld us while client %u waits",
                (long long)took_us, waiter->index);
        }
    }
}
