/* SPDX-License-Identifier: Apache-2.0 */
/* Whoever looks after the semaphores of a round: sets them, gives back what the dead had, as an
 * operator would, and counts at the end. What a thread was just taking or giving back when it died
 * nobody knows; so many may be missing in the end, and none too many. */
#include "torture/lib/round.h"

#include "fault/lib/pace.h"
#include "support/fail.h"
#include "support/wait.h"

#include <inttypes.h>

enum { COUNT_MS = 5000 };

void counts_begin(struct round *round)
{
    static const char *const names[] = {ARENA_SEMAPHORE, ARENA_PERMITS};
    for (unsigned i = 0; i < 2; i++) {
        pawl_semaphore_options options = PAWL_SEMAPHORE_OPTIONS_INIT;
        options.leased = i == NAME_PERMITS;
        if (pawl_semaphore_open(
                round->operator_client, names[i], &options, &round->semaphores[i]) != PAWL_OK ||
            pawl_semaphore_set(round->semaphores[i], round->arena->permits, NULL) != PAWL_OK) {
            support_fail("%s cannot be set: %s", names[i], pawl_last_error());
        }
    }
}

/* A release goes on in the background if the server does not answer, and counts once. */
static void replace(struct round *round, unsigned slot, unsigned thread, unsigned amount)
{
    struct replacement *replacement = history_add_replacement(&round->history);
    *replacement = (struct replacement){.slot = slot,
        .generation = round->workers[slot].generation,
        .thread = thread,
        .at_us = boottime_us()};
    const pawl_status status = pawl_semaphore_release(round->semaphores[NAME_SEMAPHORE], amount);
    if (status != PAWL_OK && status != PAWL_UNAVAILABLE) {
        support_fail("the permits of the dead cannot be replaced: %s", pawl_last_error());
    }
    round->verdict.replaced += amount;
}

void counts_bury(struct round *round, unsigned slot, bool killed)
{
    struct arena_slot *place = &round->arena->slots[slot];
    if (round->arena->theme != THEME_COUNTS) {
        return;
    }
    for (unsigned i = 0; i < round->arena->threads; i++) {
        const unsigned state = atomic_load(&place->stakes[i][0]);
        const unsigned amount = atomic_load(&place->stakes[i][1]);
        atomic_store(&place->stakes[i][0], STAKE_NONE);
        if (state == STAKE_HAS) {
            replace(round, slot, i, amount);
        } else if (state == STAKE_DOUBT) {
            round->verdict.doubted += amount;
        }
    }
    if (killed || atomic_load(&place->unheard) != 0) {
        round->verdict.doubted += atomic_load(&place->doubts);
    }
    atomic_store(&place->doubts, 0);
    atomic_store(&place->unheard, 0);
}

/* ===== O7 ===== */

struct look {
    struct round *round;
    unsigned name;
    int64_t least;
    int64_t most;
    int64_t found;
};

static bool adds_up(void *arg)
{
    struct look *look = arg;
    const pawl_status status =
        pawl_semaphore_available(look->round->semaphores[look->name], &look->found);
    return status == PAWL_OK && look->found >= look->least && look->found <= look->most;
}

void counts_finish(struct round *round)
{
    const int64_t permits = round->arena->permits;
    const int64_t doubted = (int64_t)round->verdict.doubted;
    struct look plain = {round, NAME_SEMAPHORE, permits - doubted, permits, -1};
    struct look leased = {round, NAME_PERMITS, permits, permits, -1};
    if (!wait_for(adds_up, &plain, COUNT_MS * PACE)) {
        blame(&round->verdict, 7,
            "the semaphore has %" PRId64 " of %" PRId64 " permits, with %" PRId64 " in doubt",
            plain.found, permits, doubted);
    }
    round->verdict.missing += (uint64_t)(plain.found < permits ? permits - plain.found : 0);
    if (!wait_for(adds_up, &leased, round->arena->lease_ms + SLACK_MS)) {
        blame(&round->verdict, 7,
            "%" PRId64 " of %" PRId64 " leased permits are there when all leases are over",
            leased.found, permits);
    }
}
