/* SPDX-License-Identifier: Apache-2.0 */
/* The oracles of what the locks protect: O3, the number that has nothing but the lock, and O4, the
 * register that checks tokens.
 *
 * O3 follows the number from hold to hold: whoever reads it while exclusion is promised finds what
 * the last holder left. Two things can spoil it without anybody being to blame. A store that comes
 * after the end of the hold's validity (the worker was stopped between its last look and the store,
 * or its lock had been taken away) may overwrite anything; hand-overs around it are not compared,
 * but counted. And a killed worker may have stored its number or not; both are right. */
#include "torture/lib/oracles.h"

#include "support/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ===== O3 ===== */

/* When this hold may have stored its number too late; false: it did not. */
static bool late_store(const struct hold *hold, int64_t *from_us, int64_t *to_us)
{
    *from_us = hold->end_us;
    *to_us = hold->left ? hold->stored_us : hold->left_us;
    return hold->kind != PAWL_READ && (hold->added || hold->killed) && *to_us > hold->end_us;
}

struct stores {
    int64_t (*spans)[2];
    size_t count;
};

/* All late stores of the name whose holds begin at `first`. */
static struct stores collect_late(
    const struct history *history, size_t first, size_t end, struct verdict *verdict)
{
    struct stores stores = {support_alloc((end - first + 1) * sizeof *stores.spans), 0};
    for (size_t i = first; i < end; i++) {
        int64_t *span = stores.spans[stores.count];
        if (late_store(&history->holds[i], &span[0], &span[1])) {
            stores.count++;
        }
    }
    verdict->late_stores += stores.count;
    return stores;
}

static bool is_spoilt(const struct stores *stores, int64_t from_us, int64_t to_us)
{
    for (size_t i = 0; i < stores->count; i++) {
        if (stores->spans[i][0] <= to_us && stores->spans[i][1] >= from_us) {
            return true;
        }
    }
    return false;
}

static void compare(
    const struct hold *one, const struct hold *next, bool spoilt, struct verdict *verdict)
{
    const uint64_t sure = one->seen + (one->left && one->added ? 1 : 0);
    const uint64_t most = sure + (one->killed ? 1 : 0);
    if (spoilt) {
        verdict->handovers_skipped++;
        return;
    }
    verdict->handovers++;
    if (next->seen < sure || next->seen > most) {
        blame(verdict, 3,
            "name %u: worker %u.%u (token %" PRIu64 ") left the number at %" PRIu64
            ", worker %u.%u (token %" PRIu64 ") found %" PRIu64,
            one->name, one->slot, one->generation, one->token, most, next->slot, next->generation,
            next->token, next->seen);
    }
}

/* Nobody writes while somebody reads. */
static void compare_looks(const struct hold *hold, bool spoilt, struct verdict *verdict)
{
    const bool looked = hold->left && hold->added && hold->stored_us <= hold->end_us;
    if (looked && !spoilt && hold->written != hold->seen) {
        blame(verdict, 3,
            "name %u: worker %u.%u (token %" PRIu64 ") read %" PRIu64 " and later %" PRIu64,
            hold->name, hold->slot, hold->generation, hold->token, hold->seen, hold->written);
    }
}

static void judge_name(
    const struct history *history, size_t first, size_t end, struct verdict *verdict)
{
    struct stores stores = collect_late(history, first, end, verdict);
    const struct hold *last = NULL;
    for (size_t i = first; i < end; i++) {
        const struct hold *hold = &history->holds[i];
        if (hold->read_us >= hold->end_us && hold->end_us != hold->left_us) {
            continue; /* its time was over when it looked */
        }
        if (last != NULL) {
            compare(last, hold, is_spoilt(&stores, last->read_us, hold->read_us), verdict);
        }
        if (hold->kind == PAWL_READ) {
            compare_looks(hold, is_spoilt(&stores, hold->read_us, hold->stored_us), verdict);
        } else {
            last = hold;
        }
    }
    free(stores.spans);
}

void judge_numbers(const struct history *history, struct verdict *verdict)
{
    size_t first = 0;
    for (size_t i = 1; i <= history->hold_count; i++) {
        if (i == history->hold_count || history->holds[i].name != history->holds[first].name) {
            judge_name(history, first, i, verdict);
            first = i;
        }
    }
}

/* ===== O4 ===== */

static int by_name_and_write(const void *one, const void *other)
{
    const struct hold *a = one;
    const struct hold *b = other;
    if (a->name != b->name) {
        return a->name < b->name ? -1 : 1;
    }
    return a->written < b->written ? -1 : a->written > b->written ? 1 : 0;
}

static void compare_writes(const struct hold *one, const struct hold *next, struct verdict *verdict)
{
    if (one->name != next->name) {
        return;
    }
    if (one->written == next->written) {
        blame(verdict, 4, "name %u: workers %u.%u and %u.%u both made write %" PRIu64, one->name,
            one->slot, one->generation, next->slot, next->generation, one->written);
    } else if (next->token <= one->token) {
        blame(verdict, 4,
            "name %u: the register took a write with token %" PRIu64 " after one with %" PRIu64,
            one->name, next->token, one->token);
    }
}

/* Valid when it wrote, and refused. */
static void check_refused(const struct hold *hold, struct verdict *verdict)
{
    if (!hold->left || hold->wrote || hold->token == 0 || hold->kind == PAWL_READ) {
        return;
    }
    verdict->stale_refused++;
    if (hold->end_us == hold->left_us) {
        blame(verdict, 4,
            "name %u: the write of worker %u.%u (token %" PRIu64 ") was refused although it held",
            hold->name, hold->slot, hold->generation, hold->token);
    }
}

/* Between what was surely written and that plus what the dead may have written. */
static void compare_count(const struct history *history, const struct arena *arena, unsigned name,
    struct verdict *verdict)
{
    uint64_t sure = 0;
    uint64_t dead = 0;
    for (size_t i = 0; i < history->hold_count; i++) {
        const struct hold *hold = &history->holds[i];
        sure += hold->name == name && hold->wrote ? 1 : 0;
        dead += hold->name == name && hold->killed && hold->kind != PAWL_READ ? 1 : 0;
    }
    const uint64_t count =
        atomic_load(&arena->cells[name].fenced) & ((UINT64_C(1) << ARENA_COUNT_BITS) - 1);
    if (count < sure || count > sure + dead) {
        blame(verdict, 4,
            "name %u: the register was written to %" PRIu64 " times, and counts %" PRIu64, name,
            sure, count);
    }
}

void judge_register(
    const struct history *history, const struct arena *arena, struct verdict *verdict)
{
    struct hold *writes = support_alloc((history->hold_count + 1) * sizeof *writes);
    size_t count = 0;
    for (size_t i = 0; i < history->hold_count; i++) {
        check_refused(&history->holds[i], verdict);
        if (history->holds[i].wrote) {
            writes[count++] = history->holds[i];
        }
    }
    if (count > 0) {
        qsort(writes, count, sizeof *writes, by_name_and_write);
    }
    for (size_t i = 1; i < count; i++) {
        compare_writes(&writes[i - 1], &writes[i], verdict);
    }
    for (unsigned i = 0; i < arena->names; i++) {
        compare_count(history, arena, i, verdict);
    }
    verdict->writes += count;
    free(writes);
}
