/* SPDX-License-Identifier: Apache-2.0 */
/* Judges the queues of fair locks (oracle O8), in runs with a crowd at one lock and no faults.
 *
 * Who came to the backend's queue first has the lock first, whichever client it belongs to; and
 * when the lock is freed, who is first has it after a few messages, not at its next look. */
#include "sim.h"

#include "base/clock.h"

/* Not granted when it asked: it stands in the queue from now on. */
void sim_order_queued(struct sim_world *world, struct sim_claim *claim)
{
    if (claim->place == 0) {
        claim->place = ++world->line[claim->name];
    }
}

static bool is_waiting(const struct sim_claim *claim)
{
    return claim->place > 0 && claim->granted_us < 0 && !claim->closed;
}

/* Nobody has it. If somebody stands in the queue, it must not take long. */
void sim_order_freed(struct sim_world *world, unsigned name)
{
    world->free_us[name] = PAWL__NEVER;
    for (unsigned i = 0; i < world->plan.clients; i++) {
        const struct sim_client *client = &world->clients[i];
        for (size_t k = 0; k < client->open_count; k++) {
            if (client->open[k]->name == name && is_waiting(client->open[k])) {
                world->free_us[name] = world->now_us;
                return;
            }
        }
    }
}

static void check_first(struct sim_world *world, const struct sim_claim *claim)
{
    for (unsigned i = 0; i < world->plan.clients; i++) {
        const struct sim_client *client = &world->clients[i];
        for (size_t k = 0; k < client->open_count; k++) {
            const struct sim_claim *other = client->open[k];
            bool before = claim->place == 0 || other->place < claim->place;
            if (other->name == claim->name && is_waiting(other) && before) {
                sim_fail(world, "O8", "tenure %llu of client %u came first, and %llu of %u has it",
                    (unsigned long long)other->id, i, (unsigned long long)claim->id,
                    claim->client->index);
            }
        }
    }
}

void sim_order_granted(struct sim_world *world, const struct sim_claim *claim)
{
    const struct sim_plan *plan = &world->plan;
    int64_t free_us = world->now_us - world->free_us[claim->name];
    check_first(world, claim);
    if (world->free_us[claim->name] != PAWL__NEVER &&
        free_us > 12 * (plan->delay_us + plan->spread_us)) {
        sim_fail(world, "O8", "a fair lock was free for %lld us, and somebody stood in its queue",
            (long long)free_us);
    }
    world->free_us[claim->name] = PAWL__NEVER;
}
