/* SPDX-License-Identifier: Apache-2.0 */
/* The oracles of semaphores: how many permits are out at each moment, by what their holders wrote
 * down. A permit without a lease is out until its release begins, or, if its holder was killed,
 * until it was replaced; one with a lease no longer than its holder could rely on it. */
#include "torture/lib/oracles.h"

#include "support/text.h"

#include <inttypes.h>
#include <stdlib.h>

/* So many more, or fewer, are out from now on. */
struct change {
    uint32_t name;
    int64_t at_us;
    int64_t by;
};

static int by_name_and_time(const void *one, const void *other)
{
    const struct change *a = one;
    const struct change *b = other;
    if (a->name != b->name) {
        return a->name < b->name ? -1 : 1;
    }
    if (a->at_us != b->at_us) {
        return a->at_us < b->at_us ? -1 : 1;
    }
    return a->by < b->by ? -1 : a->by > b->by ? 1 : 0; /* what ends, first */
}

/* When the permits of this killed thread were replaced; before that, they were out. */
static int64_t replaced_us(const struct history *history, const struct hold *hold)
{
    for (size_t i = 0; i < history->replacement_count; i++) {
        const struct replacement *replacement = &history->replacements[i];
        if (replacement->slot == hold->slot && replacement->generation == hold->generation &&
            replacement->thread == hold->id >> RECORD_THREAD_SHIFT) {
            return replacement->at_us;
        }
    }
    return hold->left_us;
}

static int64_t end_of(const struct history *history, const struct hold *hold)
{
    if (hold->name == NAME_SEMAPHORE) {
        return hold->killed ? replaced_us(history, hold) : hold->left_us;
    }
    return hold->left_us < hold->until_us ? hold->left_us : hold->until_us;
}

static void judge_permits(
    const struct history *history, const struct arena *arena, struct verdict *verdict)
{
    struct change *changes = support_alloc((2 * history->hold_count + 1) * sizeof *changes);
    size_t count = 0;
    for (size_t i = 0; i < history->hold_count; i++) {
        const struct hold *hold = &history->holds[i];
        const int64_t amount = hold->name == NAME_SEMAPHORE ? (int64_t)hold->seen : 1;
        const int64_t end_us = end_of(history, hold);
        verdict->permits += (uint64_t)amount;
        if (end_us > hold->from_us) {
            changes[count++] = (struct change){hold->name, hold->from_us, amount};
            changes[count++] = (struct change){hold->name, end_us, -amount};
        }
    }
    qsort(changes, count, sizeof *changes, by_name_and_time);
    int64_t out = 0;
    for (size_t i = 0; i < count; i++) {
        out = i > 0 && changes[i - 1].name != changes[i].name ? 0 : out;
        out += changes[i].by;
        verdict->most_out = out > (int64_t)verdict->most_out ? (uint64_t)out : verdict->most_out;
        if (out > arena->permits) {
            blame(verdict, 1, "%" PRId64 " %spermits of %u are out at %" PRId64 " us", out,
                changes[i].name == NAME_PERMITS ? "leased " : "", arena->permits, changes[i].at_us);
        }
    }
    free(changes);
}

static void judge_losses(const struct history *history, struct verdict *verdict)
{
    for (size_t i = 0; i < history->hold_count; i++) {
        const struct hold *hold = &history->holds[i];
        verdict->lost += hold->answered && hold->status == PAWL_LOST ? 1 : 0;
        verdict->reports += hold->told;
        if (hold->told > 1) {
            blame(verdict, 6, "worker %u.%u was told %u times that a permit is lost", hold->slot,
                hold->generation, hold->told);
        }
    }
    if (history->strange_reports > 0) {
        blame(verdict, 6, "%" PRIu64 " reports were about permits that nobody had",
            history->strange_reports);
    }
}

void judge_counts(const struct history *history, const struct arena *arena, struct verdict *verdict)
{
    verdict->holds += history->hold_count;
    judge_permits(history, arena, verdict);
    judge_losses(history, verdict);
    judge_limits(history, verdict);
}
