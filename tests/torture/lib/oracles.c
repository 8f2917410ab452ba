/* SPDX-License-Identifier: Apache-2.0 */
/* Exclusion, tokens, limits and reports; numbers.c has the oracles of what the locks protect, and
 * oracles.h says what each of them is for. */
#include "torture/lib/oracles.h"

#include "fault/lib/pace.h"
#include "support/text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void blame(struct verdict *verdict, unsigned oracle, const char *format, ...)
{
    if (verdict->violations[oracle]++ == 0) {
        va_list args;
        va_start(args, format);
        vsnprintf(verdict->first[oracle], SENTENCE_SIZE, format, args);
        va_end(args);
    }
}

/* ===== O1: exclusion ===== */

void judge_exclusion(const struct history *history, struct verdict *verdict)
{
    /* Of those before, the one that ends last; [1]: of those who exclude who reads. */
    const struct hold *ends_last[2] = {NULL, NULL};
    for (size_t i = 0; i < history->hold_count; i++) {
        const struct hold *hold = &history->holds[i];
        const bool reads = hold->kind == PAWL_READ;
        const struct hold *latest = ends_last[reads];
        if (hold->end_us <= hold->from_us) {
            continue; /* it was over when it came in */
        }
        if (latest != NULL && latest->name == hold->name && hold->from_us < latest->end_us) {
            blame(verdict, 1,
                "name %u: worker %u.%u (token %" PRIu64 ") was inside until %" PRId64
                " us, worker %u.%u (token %" PRIu64 ") from %" PRId64 " us on",
                hold->name, latest->slot, latest->generation, latest->token, latest->end_us,
                hold->slot, hold->generation, hold->token, hold->from_us);
        }
        for (int k = 0; k < (reads ? 1 : 2); k++) {
            latest = ends_last[k];
            if (latest == NULL || latest->name != hold->name || hold->end_us > latest->end_us) {
                ends_last[k] = hold;
            }
        }
    }
}

/* Whether the release of this hold may have been asked twice, because its connection broke or fell
 * silent, or because the worker did not run for a while. Then the first copy may have found
 * the lock, and an operator may have taken it away before: what the second copy finds is the same,
 * nothing, and it is taken for the first one's work. */
static bool in_doubt(const struct history *history, const struct hold *hold)
{
    for (size_t i = 0; i < history->window_count; i++) {
        const struct window *window = &history->windows[i];
        if (window->kind != WINDOW_TAKEN &&
            (window->slot == EVERYBODY || window->slot == (int)hold->slot) &&
            window->from_us <= hold->answered_us && window->to_us >= hold->left_us) {
            return true;
        }
    }
    return false;
}

/* Somebody with a later token came in before this one went. */
static bool is_overtaken(const struct history *history, size_t index)
{
    const struct hold *hold = &history->holds[index];
    for (size_t i = index + 1; i < history->hold_count; i++) {
        const struct hold *next = &history->holds[i];
        if (next->name != hold->name || next->from_us >= hold->left_us) {
            return false;
        }
        const bool beside = next->kind == PAWL_READ && hold->kind == PAWL_READ;
        if (next->token > hold->token && !beside) {
            return true;
        }
    }
    return false;
}

static void judge_overtaken(
    const struct history *history, const struct hold *hold, struct verdict *verdict)
{
    const bool taken = hold->cut_us != INT64_MAX;
    verdict->overlaps += taken ? 1 : 0;
    if (!hold->answered || hold->status != PAWL_OK) {
        verdict->overlaps_told += taken && hold->status == PAWL_LOST ? 1 : 0;
    } else if (taken && in_doubt(history, hold)) {
        verdict->overlaps_in_doubt++;
    } else {
        blame(verdict, 1,
            "name %u: worker %u.%u (token %" PRIu64 ", from %" PRId64
            " us) was overtaken, and its release said ok",
            hold->name, hold->slot, hold->generation, hold->token, hold->from_us);
    }
}

void judge_told(const struct history *history, struct verdict *verdict)
{
    for (size_t i = 0; i < history->hold_count; i++) {
        verdict->taken += history->holds[i].cut_us != INT64_MAX ? 1 : 0;
        if (is_overtaken(history, i)) {
            judge_overtaken(history, &history->holds[i], verdict);
        }
    }
}

/* ===== O2: tokens ===== */

static int by_name_and_token(const void *one, const void *other)
{
    const struct hold *a = one;
    const struct hold *b = other;
    if (a->name != b->name) {
        return a->name < b->name ? -1 : 1;
    }
    return a->token < b->token ? -1 : a->token > b->token ? 1 : 0;
}

static int by_name_and_end(const void *one, const void *other)
{
    const struct hold *a = one;
    const struct hold *b = other;
    if (a->name != b->name) {
        return a->name < b->name ? -1 : 1;
    }
    return a->left_us < b->left_us ? -1 : a->left_us > b->left_us ? 1 : 0;
}

static struct hold *sorted_copy(
    const struct history *history, int (*order)(const void *, const void *))
{
    struct hold *copy = support_alloc((history->hold_count + 1) * sizeof *copy);
    if (history->hold_count > 0) {
        memcpy(copy, history->holds, history->hold_count * sizeof *copy);
        qsort(copy, history->hold_count, sizeof *copy, order);
    }
    return copy;
}

static void find_twins(const struct history *history, struct verdict *verdict)
{
    struct hold *holds = sorted_copy(history, by_name_and_token);
    for (size_t i = 1; i < history->hold_count; i++) {
        const struct hold *one = &holds[i - 1];
        const struct hold *other = &holds[i];
        if (one->name == other->name && one->token == other->token && one->token != 0) {
            blame(verdict, 2, "name %u: token %" PRIu64 " was given to workers %u.%u and %u.%u",
                one->name, one->token, one->slot, one->generation, other->slot, other->generation);
        }
    }
    free(holds);
}

/* The news of its grant came when the hold was over or its lock had been taken away: somebody else
 * may have come and gone meanwhile. */
static bool came_too_late(const struct hold *hold)
{
    return hold->token == 0 || hold->until_us <= hold->from_us || hold->cut_us <= hold->from_us;
}

/* A hold that began when another had ended has the greater token; of two that read, each may have
 * heard of its grant late. */
static void find_falls(const struct history *history, struct verdict *verdict)
{
    struct hold *ended = sorted_copy(history, by_name_and_end);
    const struct hold *greatest_of[2] = {NULL, NULL}; /* [1]: of those that exclude who reads */
    size_t next = 0;
    for (size_t i = 0; i < history->hold_count; i++) {
        const struct hold *hold = &history->holds[i];
        if (i > 0 && history->holds[i - 1].name != hold->name) {
            greatest_of[0] = greatest_of[1] = NULL;
            next = i;
        }
        for (; next < history->hold_count && ended[next].name == hold->name &&
               ended[next].left_us < hold->from_us;
             next++) {
            for (int k = 0; k < (ended[next].kind == PAWL_READ ? 1 : 2); k++) {
                if (greatest_of[k] == NULL || ended[next].token > greatest_of[k]->token) {
                    greatest_of[k] = &ended[next];
                }
            }
        }
        const struct hold *greatest = greatest_of[hold->kind == PAWL_READ];
        if (greatest != NULL && !came_too_late(hold) && hold->token <= greatest->token) {
            blame(verdict, 2,
                "name %u: worker %u.%u got token %" PRIu64 " after worker %u.%u had %" PRIu64,
                hold->name, hold->slot, hold->generation, hold->token, greatest->slot,
                greatest->generation, greatest->token);
        }
    }
    free(ended);
}

void judge_tokens(const struct history *history, struct verdict *verdict)
{
    find_twins(history, verdict);
    find_falls(history, verdict);
}

/* ===== O5: limits ===== */

void judge_limits(const struct history *history, struct verdict *verdict)
{
    for (size_t i = 0; i < history->late_count; i++) {
        const struct late_call *call = &history->late_calls[i];
        const int64_t late_us = call->to_us - call->from_us - call->limit_us -
                                history_paused_us(history, call->slot, call->from_us, call->to_us);
        if (late_us <= 0) {
            continue;
        }
        verdict->calls_late++;
        if (late_us > verdict->call_late_us_max) {
            verdict->call_late_us_max = late_us;
        }
        if (late_us > SLACK_MS * 1000) {
            blame(verdict, 5,
                "%s of worker %u at %" PRId64 " us took %" PRId64 " ms more than it may",
                call->is_release ? "a release" : "an acquire", call->slot, call->from_us,
                late_us / 1000);
        }
    }
}

/* ===== O6: reports ===== */

static void note_lateness(
    const struct history *history, const struct hold *hold, struct verdict *verdict)
{
    if (!hold->left) {
        return; /* killed: whatever renewed it since the beginning was not written down */
    }
    if (hold->left_us <= hold->until_us && hold->told_us > hold->left_us) {
        verdict->reports_after++; /* it had let go; what became of that was not known in time */
        return;
    }
    if (hold->until_us == INT64_MAX || hold->told_us <= hold->until_us) {
        verdict->report_lateness[0]++; /* there was proof before the end */
        return;
    }
    const int64_t late_us = hold->told_us - hold->until_us -
                            history_paused_us(history, hold->slot, hold->until_us, hold->told_us);
    unsigned bucket = 0;
    while (bucket < LATENESS_BUCKETS - 1 && late_us >= INT64_C(1) << bucket) {
        bucket++;
    }
    verdict->report_lateness[bucket]++;
    if (late_us > verdict->report_late_us_max) {
        verdict->report_late_us_max = late_us;
    }
    if (late_us > SLACK_MS * 1000) {
        blame(verdict, 6,
            "name %u: worker %u.%u (token %" PRIu64 ") was told %" PRId64
            " ms after the end of its hold",
            hold->name, hold->slot, hold->generation, hold->token, late_us / 1000);
    }
}

static bool generation_was_killed(const struct history *history, const struct hold *hold)
{
    for (size_t i = 0; i < history->death_count; i++) {
        if (history->deaths[i].slot == hold->slot &&
            history->deaths[i].generation == hold->generation) {
            return true;
        }
    }
    return false;
}

static void judge_report(
    const struct history *history, const struct hold *hold, struct verdict *verdict)
{
    const bool lost = hold->answered && hold->status == PAWL_LOST;
    verdict->lost += lost ? 1 : 0;
    verdict->reports += hold->told;
    if (hold->told > 1) {
        blame(verdict, 6, "name %u: worker %u.%u (token %" PRIu64 ") was told %u times", hold->name,
            hold->slot, hold->generation, hold->token, hold->told);
    }
    if (hold->told > 0) {
        note_lateness(history, hold, verdict);
        if (hold->answered && hold->status == PAWL_OK) {
            blame(verdict, 6,
                "name %u: worker %u.%u (token %" PRIu64 ") was told, and its release said ok",
                hold->name, hold->slot, hold->generation, hold->token);
        }
    }
    if (lost && hold->told == 0 && hold->token != 0 && !generation_was_killed(history, hold)) {
        blame(verdict, 6,
            "name %u: worker %u.%u (token %" PRIu64 ") lost its hold and was never told",
            hold->name, hold->slot, hold->generation, hold->token);
    }
}

void judge_reports(const struct history *history, struct verdict *verdict)
{
    for (size_t i = 0; i < history->hold_count; i++) {
        judge_report(history, &history->holds[i], verdict);
    }
    /* A hold that was lost before it could ask for its token is told of by a token all the same. */
    if (history->strange_reports > history->tokenless) {
        blame(verdict, 6,
            "%" PRIu64 " reports were about tokens that nobody had, %" PRIu64
            " holds had not asked for theirs",
            history->strange_reports, history->tokenless);
    }
    verdict->reports += history->strange_reports + history->passing_reports;
    verdict->reports_passing += history->passing_reports;
}

/* ===== All ===== */

void judge_history(
    const struct history *history, const struct arena *arena, struct verdict *verdict)
{
    verdict->holds += history->hold_count;
    judge_exclusion(history, verdict);
    judge_told(history, verdict);
    judge_tokens(history, verdict);
    judge_numbers(history, verdict);
    judge_register(history, arena, verdict);
    judge_limits(history, verdict);
    judge_reports(history, verdict);
}

static void raise_to(int64_t *most, int64_t value)
{
    *most = value > *most ? value : *most;
}

void verdict_add(struct verdict *sum, const struct verdict *verdict)
{
    for (unsigned i = 0; i < ORACLE_COUNT; i++) {
        if (sum->violations[i] == 0) {
            memcpy(sum->first[i], verdict->first[i], SENTENCE_SIZE);
        }
        sum->violations[i] += verdict->violations[i];
    }
    for (unsigned i = 0; i < LATENESS_BUCKETS; i++) {
        sum->report_lateness[i] += verdict->report_lateness[i];
    }
    sum->holds += verdict->holds;
    sum->permits += verdict->permits;
    sum->replaced += verdict->replaced;
    sum->doubted += verdict->doubted;
    sum->missing += verdict->missing;
    sum->most_out = verdict->most_out > sum->most_out ? verdict->most_out : sum->most_out;
    sum->lost += verdict->lost;
    sum->reports += verdict->reports;
    sum->reports_after += verdict->reports_after;
    sum->reports_passing += verdict->reports_passing;
    sum->taken += verdict->taken;
    sum->overlaps += verdict->overlaps;
    sum->overlaps_told += verdict->overlaps_told;
    sum->overlaps_in_doubt += verdict->overlaps_in_doubt;
    sum->handovers += verdict->handovers;
    sum->handovers_skipped += verdict->handovers_skipped;
    sum->late_stores += verdict->late_stores;
    sum->writes += verdict->writes;
    sum->stale_refused += verdict->stale_refused;
    sum->calls_late += verdict->calls_late;
    raise_to(&sum->call_late_us_max, verdict->call_late_us_max);
    raise_to(&sum->report_late_us_max, verdict->report_late_us_max);
}

uint64_t verdict_violations(const struct verdict *verdict)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < ORACLE_COUNT; i++) {
        sum += verdict->violations[i];
    }
    return sum;
}

int64_t verdict_report_late_us(const struct verdict *verdict, unsigned per_mille)
{
    uint64_t all = 0;
    uint64_t below = 0;
    for (unsigned i = 0; i < LATENESS_BUCKETS; i++) {
        all += verdict->report_lateness[i];
    }
    for (unsigned i = 0; i < LATENESS_BUCKETS && all > 0; i++) {
        below += verdict->report_lateness[i];
        if (below * 1000 >= all * per_mille) {
            return i == 0 ? 0 : INT64_C(1) << i;
        }
    }
    return 0;
}
