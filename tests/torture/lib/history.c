/* SPDX-License-Identifier: Apache-2.0 */
/* Putting a history together; history.h says what it has. */
#include "torture/lib/history.h"

#include "support/fail.h"
#include "torture/lib/arena.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REPORT_US = 400000 }; /* how late a report may be */

/* ===== Growing ===== */

/* Room for one more, zeroed. Arrays double when their count is a power of two. */
static void *add_one(void *array_, size_t *count, size_t size)
{
    void **array = array_;
    if ((*count & (*count - 1)) == 0) {
        *array = realloc(*array, (*count == 0 ? 1 : 2 * *count) * size);
        if (*array == NULL) {
            abort();
        }
    }
    void *added = (char *)*array + *count * size;
    memset(added, 0, size);
    (*count)++;
    return added;
}

struct hold *history_add_hold(struct history *history)
{
    struct hold *hold = add_one(&history->holds, &history->hold_count, sizeof *hold);
    hold->cut_us = INT64_MAX;
    return hold;
}

struct late_call *history_add_late(struct history *history)
{
    return add_one(&history->late_calls, &history->late_count, sizeof *history->late_calls);
}

struct window *history_add_window(struct history *history)
{
    struct window *window =
        add_one(&history->windows, &history->window_count, sizeof *history->windows);
    window->slot = EVERYBODY;
    window->name = EVERYBODY;
    return window;
}

struct death *history_add_death(struct history *history)
{
    return add_one(&history->deaths, &history->death_count, sizeof *history->deaths);
}

struct replacement *history_add_replacement(struct history *history)
{
    return add_one(
        &history->replacements, &history->replacement_count, sizeof *history->replacements);
}

void history_free(struct history *history)
{
    free(history->holds);
    free(history->late_calls);
    free(history->windows);
    free(history->deaths);
    free(history->replacements);
    free(history->several);
    *history = (struct history){0};
}

/* ===== Reading ===== */

/* The newest hold from `first` on with this id, or with this name and token. */
static struct hold *find_hold(
    struct history *history, size_t first, const struct torture_record *record, bool by_token)
{
    for (size_t i = history->hold_count; i > first; i--) {
        struct hold *hold = &history->holds[i - 1];
        if (by_token ? hold->name == record->name && hold->token == record->token
                     : hold->id == record->hold) {
            return hold;
        }
    }
    return NULL;
}

static void begin_hold(struct hold *hold, const struct torture_record *record, int64_t lease_us)
{
    const bool limited = record->until_us > 0 && record->until_us != INT64_MAX;
    hold->asked_us = limited ? record->until_us - lease_us : record->at_us;
    hold->id = record->hold;
    hold->name = record->name;
    hold->kind = (pawl_kind)record->kind;
    hold->token = record->token;
    hold->from_us = record->at_us;
    hold->until_us = record->until_us;
    hold->seen = record->seen;
    hold->read_us = record->read_us;
    hold->raised = record->raised;
}

static void leave_hold(struct hold *hold, const struct torture_record *record)
{
    hold->left = true;
    hold->left_us = record->at_us;
    hold->until_us = record->until_us;
    hold->added = record->added;
    hold->stored_us = record->stored_us;
    hold->wrote = record->wrote;
    hold->written = record->written;
}

/* How many threads of a worker have written down no new hold since then. */
static unsigned count_silent(const struct history *history, size_t first, int64_t since_us)
{
    bool heard[ARENA_THREADS_MAX] = {false};
    unsigned silent = history->threads;
    for (size_t i = first; i < history->hold_count; i++) {
        const struct hold *hold = &history->holds[i];
        const uint64_t thread = hold->id >> RECORD_THREAD_SHIFT;
        if (hold->from_us > since_us && !heard[thread]) {
            heard[thread] = true;
            silent--;
        }
    }
    return silent;
}

/* When the log is read to its end: a thread that is held up before it writes down its hold may be
 * outrun by the report that it was lost. If the worker was killed meanwhile it never writes it
 * down; each thread that has been silent since explains one such report. True: explained so. */
static bool take_report(struct history *history, size_t first, const struct torture_record *record,
    bool can_be_explained)
{
    struct hold *hold = find_hold(history, first, record, true);
    if (hold == NULL) {
        history->strange_reports += can_be_explained ? 0 : 1;
        return can_be_explained;
    }
    hold->told++;
    hold->told_us = record->at_us;
    return false;
}

static void take_late(struct history *history, unsigned slot, const struct torture_record *record)
{
    *history_add_late(history) = (struct late_call){.slot = slot,
        .is_release = record->is_release,
        .from_us = record->at_us,
        .to_us = record->until_us,
        .limit_us = record->stored_us};
}

static void take_pause(struct history *history, unsigned slot, const struct torture_record *record)
{
    struct window *window = history_add_window(history);
    window->kind = WINDOW_PAUSED;
    window->slot = (int)slot;
    window->from_us = record->at_us;
    window->to_us = record->until_us;
}

static void take_several(struct history *history, unsigned slot, unsigned generation,
    const struct torture_record *record)
{
    struct several *several =
        add_one(&history->several, &history->several_count, sizeof *history->several);
    *several = (struct several){.slot = slot,
        .generation = generation,
        .name = record->name,
        .owner = record->hold,
        .from_us = record->at_us,
        .to_us = record->until_us + REPORT_US};
}

/* The same owner's acquire of several locks, this one among them, had it for a while. */
static bool was_passing(const struct history *history, unsigned slot, unsigned generation,
    const struct torture_record *report)
{
    for (size_t i = 0; i < history->several_count; i++) {
        const struct several *several = &history->several[i];
        if (several->slot == slot && several->generation == generation &&
            several->name == report->name && several->owner == report->hold &&
            several->from_us <= report->at_us && report->at_us <= several->to_us) {
            return true;
        }
    }
    return false;
}

static void take_record(struct history *history, size_t first, unsigned slot, unsigned generation,
    const struct torture_record *record)
{
    struct hold *hold = NULL;
    switch ((enum record_step)record->step) {
    case RECORD_ACQUIRED:
        hold = history_add_hold(history);
        hold->slot = slot;
        hold->generation = generation;
        begin_hold(hold, record, history->lease_us);
        return;
    case RECORD_TOLD:
        return; /* see take_report() */
    case RECORD_LATE:
        take_late(history, slot, record);
        return;
    case RECORD_PAUSED:
        take_pause(history, slot, record);
        return;
    case RECORD_SEVERAL:
        take_several(history, slot, generation, record);
        return;
    case RECORD_LEAVING:
    case RECORD_RELEASED:
        break;
    }
    hold = find_hold(history, first, record, false);
    if (hold == NULL) {
        support_fail("log.%u.%u has the end of a hold without its beginning", slot, generation);
    }
    if (record->step == RECORD_LEAVING) {
        leave_hold(hold, record);
    } else {
        hold->answered = true;
        hold->answered_us = record->at_us;
        hold->status = (pawl_status)record->status;
    }
}

static const struct death *find_death(
    const struct history *history, unsigned slot, unsigned generation)
{
    for (size_t i = 0; i < history->death_count; i++) {
        const struct death *death = &history->deaths[i];
        if (death->slot == slot && death->generation == generation) {
            return death;
        }
    }
    return NULL;
}

void history_read_log(
    struct history *history, const char *directory, unsigned slot, unsigned generation)
{
    char path[ARENA_TEXT_SIZE + 40];
    struct torture_record record;
    const size_t first = history->hold_count;
    const struct death *death = find_death(history, slot, generation);
    snprintf(path, sizeof path, "%s/log.%u.%u", directory, slot, generation);
    FILE *file = fopen(path, "re");
    while (file != NULL && fread(&record, sizeof record, 1, file) == 1) {
        take_record(history, first, slot, generation, &record);
    }
    if (file != NULL) {
        rewind(file);
    }
    unsigned explained = 0;
    while (file != NULL && fread(&record, sizeof record, 1, file) == 1) {
        if (record.step == RECORD_TOLD && record.kind != PAWL_PLAIN) {
            const unsigned silent = death != NULL ? count_silent(history, first, record.at_us) : 0;
            const bool known = find_hold(history, first, &record, true) != NULL;
            if (!known && was_passing(history, slot, generation, &record)) {
                history->passing_reports++;
                continue;
            }
            explained += take_report(history, first, &record, silent > explained) ? 1 : 0;
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    for (size_t i = first; i < history->hold_count; i++) {
        struct hold *hold = &history->holds[i];
        if (!hold->left) {
            hold->killed = death != NULL;
            hold->left_us =
                death != NULL && death->at_us > hold->from_us ? death->at_us : hold->from_us;
        }
    }
}

/* ===== Finishing ===== */

/* Without tokens, it goes by the time: it was granted after it was asked for. */
static bool was_before(const struct hold *hold, const struct window *window)
{
    return hold->kind == PAWL_PLAIN ? hold->asked_us <= window->to_us
                                    : hold->token <= window->token_max;
}

static bool is_taken(const struct window *window, const struct hold *hold)
{
    return window->kind == WINDOW_TAKEN &&
           (window->name == EVERYBODY || window->name == (int)hold->name) &&
           was_before(hold, window) && hold->left_us >= window->from_us;
}

static int64_t least(int64_t one, int64_t other)
{
    return one < other ? one : other;
}

static void finish_hold(const struct history *history, struct hold *hold)
{
    for (size_t i = 0; i < history->window_count; i++) {
        if (is_taken(&history->windows[i], hold)) {
            hold->cut_us = least(hold->cut_us, history->windows[i].from_us);
        }
    }
    hold->end_us = least(least(hold->left_us, hold->until_us), hold->cut_us);
}

static int by_name_and_beginning(const void *one, const void *other)
{
    const struct hold *a = one;
    const struct hold *b = other;
    if (a->name != b->name) {
        return a->name < b->name ? -1 : 1;
    }
    return a->from_us < b->from_us ? -1 : a->from_us > b->from_us ? 1 : 0;
}

void history_finish(struct history *history)
{
    for (size_t i = 0; i < history->hold_count; i++) {
        finish_hold(history, &history->holds[i]);
        const struct hold *hold = &history->holds[i];
        history->tokenless += hold->token == 0 && hold->kind != PAWL_PLAIN ? 1 : 0;
    }
    if (history->hold_count > 0) {
        qsort(history->holds, history->hold_count, sizeof *history->holds, by_name_and_beginning);
    }
}

int64_t history_paused_us(
    const struct history *history, unsigned slot, int64_t from_us, int64_t to_us)
{
    int64_t sum_us = 0;
    for (size_t i = 0; i < history->window_count; i++) {
        const struct window *window = &history->windows[i];
        if (window->kind == WINDOW_PAUSED && window->slot == (int)slot) {
            const int64_t begin_us = window->from_us > from_us ? window->from_us : from_us;
            const int64_t end_us = least(window->to_us, to_us);
            sum_us += end_us > begin_us ? end_us - begin_us : 0;
        }
    }
    return sum_us;
}

/* ===== Showing ===== */

static void dump_hold(FILE *file, const struct hold *hold)
{
    fprintf(file,
        "name %u  %" PRId64 " .. %" PRId64 "  token %" PRIu64 "  worker %u.%u hold %" PRIx64
        "  until %" PRId64 "  cut %" PRId64 "  %s",
        hold->name, hold->from_us, hold->left_us, hold->token, hold->slot, hold->generation,
        hold->id, hold->until_us == INT64_MAX ? -1 : hold->until_us,
        hold->cut_us == INT64_MAX ? -1 : hold->cut_us,
        hold->killed     ? "killed"
        : hold->answered ? pawl_status_string(hold->status)
                         : "no answer");
    fprintf(file, " at %" PRId64 "  read %" PRIu64 " at %" PRId64, hold->answered_us, hold->seen,
        hold->read_us);
    if (hold->added) {
        fprintf(file, " stored at %" PRId64, hold->stored_us);
    }
    fprintf(file, "  register %s%s %" PRIu64, hold->raised ? "raised" : "refused",
        hold->wrote ? " written" : "", hold->written);
    if (hold->told > 0) {
        fprintf(file, "  told %u at %" PRId64, hold->told, hold->told_us);
    }
    fputc('\n', file);
}

void history_dump(const struct history *history, const char *path)
{
    static const char *const kinds[] = {
        [WINDOW_PAUSED] = "paused", [WINDOW_TAKEN] = "taken", [WINDOW_DOUBT] = "doubt"};
    FILE *file = fopen(path, "we");
    if (file == NULL) {
        return;
    }
    for (size_t i = 0; i < history->window_count; i++) {
        const struct window *window = &history->windows[i];
        fprintf(file, "%s  worker %d  name %d  %" PRId64 " .. %" PRId64 "  tokens to %" PRIu64 "\n",
            kinds[window->kind], window->slot, window->name, window->from_us, window->to_us,
            window->token_max);
    }
    for (size_t i = 0; i < history->late_count; i++) {
        const struct late_call *call = &history->late_calls[i];
        fprintf(file, "late %s  worker %u  %" PRId64 " .. %" PRId64 "  limit %" PRId64 "\n",
            call->is_release ? "release" : "acquire", call->slot, call->from_us, call->to_us,
            call->limit_us);
    }
    for (size_t i = 0; i < history->hold_count; i++) {
        dump_hold(file, &history->holds[i]);
    }
    fclose(file);
}
