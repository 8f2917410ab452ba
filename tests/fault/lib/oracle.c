/* SPDX-License-Identifier: Apache-2.0 */
/* Judging a crew's work; oracle.h says by what. All times are CLOCK_BOOTTIME of one machine, so the
 * intervals of different processes can be compared without any allowance. */
#include "fault/lib/oracle.h"

#include "fault/lib/pace.h"
#include "support/fail.h"
#include "support/text.h"
#include "support/wait.h"

#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { GROWTH_SIZE_MAX = 16 << 20 };

static char verdict[300];

static const char *judge(const char *format, ...) __attribute__((format(printf, 1, 2)));
static const char *judge(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(verdict, sizeof verdict, format, args);
    va_end(args);
    return verdict;
}

static int64_t smaller(int64_t one, int64_t other)
{
    return one < other ? one : other;
}

/* ===== Reading ===== */

static void take_record(struct hold *hold, const struct hold_record *record)
{
    switch ((enum hold_step)record->step) {
    case HOLD_ACQUIRED:
        hold->from_us = record->at_us;
        hold->until_us = record->until_us;
        hold->used_us = INT64_MAX;
        break;
    case HOLD_LEAVING:
        hold->left = true;
        hold->refused = record->refused != 0;
        hold->used_us = record->at_us;
        hold->valid_out = record->until_us > record->at_us;
        hold->until_us = record->until_us != 0 ? record->until_us : hold->until_us;
        break;
    case HOLD_RELEASED:
        hold->answered = true;
        hold->status = (pawl_status)record->status;
        break;
    }
}

static struct hold *add_hold(struct history *history, uint64_t id)
{
    if ((history->count & (history->count - 1)) == 0) { /* a power of two: full */
        const size_t capacity = history->count == 0 ? 1 : 2 * history->count;
        history->holds = realloc(history->holds, capacity * sizeof *history->holds);
        if (history->holds == NULL) {
            abort();
        }
    }
    struct hold *hold = &history->holds[history->count++];
    *hold = (struct hold){.id = id};
    return hold;
}

/* The hold of this worker with this id, the newest first. */
static struct hold *find_hold(struct history *history, size_t first, uint64_t id)
{
    for (size_t i = history->count; i > first; i--) {
        if (history->holds[i - 1].id == id) {
            return &history->holds[i - 1];
        }
    }
    support_fail("a worker's file has the end of a hold without its beginning");
}

static void read_worker(struct history *history, const struct crew *crew, size_t worker)
{
    char path[BOARD_TEXT_SIZE + 24];
    struct hold_record record;
    const size_t first = history->count;
    snprintf(path, sizeof path, "%s.%zu", crew->path, worker);
    FILE *file = fopen(path, "re");
    while (file != NULL && fread(&record, sizeof record, 1, file) == 1) {
        struct hold *hold = record.step == HOLD_ACQUIRED ? add_hold(history, record.hold)
                                                         : find_hold(history, first, record.hold);
        hold->worker = worker;
        hold->name = record.name;
        hold->token = record.token;
        take_record(hold, &record);
    }
    if (file != NULL) {
        fclose(file);
    }
    for (size_t i = first; i < history->count; i++) {
        struct hold *hold = &history->holds[i];
        if (!hold->left) {
            /* The time of a kill is taken before it: a hold may have begun in between. */
            hold->used_us = hold->from_us;
            if (!crew_lives(crew, worker) && crew->killed_us[worker] > hold->from_us) {
                hold->used_us = crew->killed_us[worker];
            }
        }
        hold->until_us = smaller(hold->until_us, hold->used_us);
    }
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

static int by_name_and_end(const void *one, const void *other)
{
    const struct hold *a = one;
    const struct hold *b = other;
    if (a->name != b->name) {
        return a->name < b->name ? -1 : 1;
    }
    return a->used_us < b->used_us ? -1 : a->used_us > b->used_us ? 1 : 0;
}

static int by_name_and_token(const void *one, const void *other)
{
    const struct hold *a = one;
    const struct hold *b = other;
    if (a->name != b->name) {
        return a->name < b->name ? -1 : 1;
    }
    return a->token < b->token ? -1 : a->token > b->token ? 1 : 0;
}

void history_sort(struct history *history)
{
    if (history->count > 0) {
        qsort(history->holds, history->count, sizeof *history->holds, by_name_and_beginning);
    }
}

struct history history_read(const struct crew *crew)
{
    struct history history = {0};
    for (size_t i = 0; i < crew->count; i++) {
        read_worker(&history, crew, i);
    }
    history_sort(&history);
    return history;
}

void history_free(struct history *history)
{
    free(history->holds);
    *history = (struct history){0};
}

static struct hold *sorted_copy(
    const struct history *history, int (*order)(const void *, const void *))
{
    struct hold *copy = support_alloc((history->count + 1) * sizeof *copy);
    if (history->count > 0) {
        memcpy(copy, history->holds, history->count * sizeof *copy);
        qsort(copy, history->count, sizeof *copy, order);
    }
    return copy;
}

/* ===== Pure oracles ===== */

const char *oracle_exclusion(const struct history *history)
{
    const struct hold *latest = NULL; /* of those before, the one that ends last */
    for (size_t i = 0; i < history->count; i++) {
        const struct hold *hold = &history->holds[i];
        if (hold->until_us <= hold->from_us) {
            continue; /* it was over when it came in */
        }
        if (latest != NULL && latest->name == hold->name && hold->from_us < latest->until_us) {
            return judge("name %u: worker %zu (token %" PRIu64 ") was inside until %" PRId64
                         " us, worker %zu (token %" PRIu64 ") from %" PRId64 " us on",
                hold->name, latest->worker, latest->token, latest->until_us, hold->worker,
                hold->token, hold->from_us);
        }
        if (latest == NULL || latest->name != hold->name || hold->until_us > latest->until_us) {
            latest = hold;
        }
    }
    return NULL;
}

const char *oracle_overlaps_told(const struct history *history)
{
    for (size_t i = 0; i < history->count; i++) {
        const struct hold *hold = &history->holds[i];
        for (size_t j = i + 1; j < history->count; j++) {
            const struct hold *next = &history->holds[j];
            if (next->name != hold->name || next->from_us >= hold->used_us) {
                break;
            }
            if (next->token > hold->token && hold->answered && hold->status == PAWL_OK) {
                return judge("name %u: worker %zu (token %" PRIu64
                             ") was overtaken by worker %zu (token %" PRIu64 ") and not told",
                    hold->name, hold->worker, hold->token, next->worker, next->token);
            }
        }
    }
    return NULL;
}

static const char *find_twins(const struct history *history)
{
    const char *found = NULL;
    struct hold *holds = sorted_copy(history, by_name_and_token);
    for (size_t i = 1; i < history->count && found == NULL; i++) {
        if (holds[i].name == holds[i - 1].name && holds[i].token == holds[i - 1].token &&
            holds[i].token != 0) {
            found = judge("name %u: token %" PRIu64 " was given to workers %zu and %zu",
                holds[i].name, holds[i].token, holds[i - 1].worker, holds[i].worker);
        }
    }
    free(holds);
    return found;
}

/* A hold that began when another had ended has the greater token. */
const char *oracle_tokens(const struct history *history)
{
    const char *found = find_twins(history);
    struct hold *ended = sorted_copy(history, by_name_and_end);
    const struct hold *greatest = NULL;
    size_t next = 0;
    for (size_t i = 0; i < history->count && found == NULL; i++) {
        const struct hold *hold = &history->holds[i];
        if (i > 0 && history->holds[i - 1].name != hold->name) {
            greatest = NULL;
            next = i;
        }
        for (; next < history->count && ended[next].name == hold->name &&
               ended[next].used_us < hold->from_us;
             next++) {
            if (greatest == NULL || ended[next].token > greatest->token) {
                greatest = &ended[next];
            }
        }
        if (greatest != NULL && hold->token != 0 && hold->token <= greatest->token) {
            found = judge("name %u: worker %zu got token %" PRIu64 " after worker %zu had %" PRIu64,
                hold->name, hold->worker, hold->token, greatest->worker, greatest->token);
        }
    }
    free(ended);
    return found;
}

const char *oracle_fence(const struct history *history)
{
    for (size_t i = 0; i < history->count; i++) {
        const struct hold *hold = &history->holds[i];
        if (hold->refused && hold->valid_out && hold->answered && hold->status == PAWL_OK) {
            return judge("name %u: the write of worker %zu (token %" PRIu64
                         ") was refused although it held",
                hold->name, hold->worker, hold->token);
        }
    }
    return NULL;
}

const char *oracle_number(const struct board *board, size_t worker_count)
{
    uint64_t number = 0;
    uint64_t started = 0;
    uint64_t finished = 0;
    for (size_t i = 0; i < BOARD_NAMES_MAX; i++) {
        number += atomic_load(&board->names[i].number);
    }
    for (size_t i = 0; i < worker_count; i++) {
        started += atomic_load(&board->workers[i].started);
        finished += atomic_load(&board->workers[i].finished);
    }
    if (number < finished || number > started) {
        return judge(
            "%" PRIu64 " additions were made, %" PRIu64 " are in the numbers", finished, number);
    }
    return NULL;
}

/* ===== Checks ===== */

static void require(const char *found, const char *oracle)
{
    if (found != NULL) {
        support_fail("%s: %s", oracle, found);
    }
}

static void summarize(const struct crew *crew, const struct history *history)
{
    uint64_t refused = 0;
    for (size_t i = 0; i < history->count; i++) {
        refused += history->holds[i].refused ? 1 : 0;
    }
    print_message("%zu holds by %zu workers; releases: %" PRIu64 " lost, %" PRIu64
                  " unconfirmed; told lost: %" PRIu64 "; stale writes refused: %" PRIu64 "\n",
        history->count, crew->count, crew_count_releases(crew, PAWL_LOST),
        crew_count_releases(crew, PAWL_UNAVAILABLE), crew_count_told(crew), refused);
    if (history->count == 0) {
        support_fail("nobody ever held a lock");
    }
}

void check_history(struct crew *crew)
{
    struct history history = history_read(crew);
    summarize(crew, &history);
    require(oracle_exclusion(&history), "O1 exclusion");
    require(oracle_tokens(&history), "O2 tokens");
    require(oracle_number(crew->board, crew->count), "O3 number");
    require(oracle_fence(&history), "O4 fence");
    history_free(&history);
}

void check_history_with_losses(struct crew *crew, bool exclusion)
{
    struct history history = history_read(crew);
    summarize(crew, &history);
    require(exclusion ? oracle_exclusion(&history) : NULL, "O1 exclusion");
    require(oracle_overlaps_told(&history), "O1 whoever was overtaken was told");
    require(oracle_tokens(&history), "O2 tokens");
    require(oracle_fence(&history), "O4 fence");
    history_free(&history);
}

void check_succession(struct crew *crew, int64_t after_us, int64_t limit_ms)
{
    struct history history = history_read(crew);
    bool begun[BOARD_NAMES_MAX] = {false};
    for (size_t i = 0; i < history.count; i++) {
        const struct hold *hold = &history.holds[i];
        begun[hold->name] = begun[hold->name] || (hold->from_us > after_us &&
                                                     hold->from_us <= after_us + limit_ms * 1000);
    }
    for (unsigned i = 0; i < crew->board->workers[0].plan.name_count; i++) {
        if (!begun[i]) {
            support_fail("nobody got name %u within %" PRId64 " ms", i, limit_ms);
        }
    }
    history_free(&history);
}

static void check_late(const char *what, size_t worker, int64_t late_us)
{
    if (late_us > SLACK_MS * 1000) {
        support_fail(
            "%s of worker %zu took %" PRId64 " ms more than it may", what, worker, late_us / 1000);
    }
}

void check_limits(struct crew *crew)
{
    int64_t worst_us = 0;
    for (size_t i = 0; i < crew->count; i++) {
        const int64_t acquire_us = atomic_load(&crew->board->workers[i].acquire_late_us);
        const int64_t release_us = atomic_load(&crew->board->workers[i].release_late_us);
        worst_us = worst_us > acquire_us ? worst_us : acquire_us;
        worst_us = worst_us > release_us ? worst_us : release_us;
        check_late("an acquire", i, acquire_us);
        check_late("a release", i, release_us);
    }
    print_message("lateness: calls %" PRId64 " us beyond their limits\n", worst_us);
}

void check_told_in_time(struct crew *crew)
{
    for (size_t i = 0; i < crew->count; i++) {
        const int64_t late_us = atomic_load(&crew->board->workers[i].told_late_us);
        if (atomic_load(&crew->board->workers[i].told) > 0) {
            print_message("lateness: on_lost of worker %zu %" PRId64 " us\n", i, late_us);
        }
        check_late("on_lost", i, late_us);
    }
}

void check_nothing_left(struct server *server, int64_t lease_ms)
{
    const int64_t end_ms = boottime_ms() + lease_ms + SLACK_MS;
    char *keys = NULL;
    for (;;) {
        free(keys);
        keys = server_command(server, "KEYS fault:*");
        if (keys[0] == '\0' || boottime_ms() > end_ms) {
            break;
        }
        nap_ms(5);
    }
    const bool clean = keys[0] == '\0';
    char message[200];
    snprintf(message, sizeof message, "%s", keys);
    free(keys);
    if (!clean) {
        support_fail("O7: these are still there when all leases are over: %s", message);
    }
}

/* Threads and their heaps take some; a sanitizer keeps what was freed, and looks for leaks itself.
 */
static void check_memory(const struct board_worker *worker)
{
    const uint64_t before = atomic_load(&worker->resident_before);
    const uint64_t after = atomic_load(&worker->resident_after);
    if (PACE == 1 && after > before + GROWTH_SIZE_MAX) {
        support_fail("O8: a worker grew from %" PRIu64 " to %" PRIu64 " bytes", before, after);
    }
}

void check_resources(struct crew *crew)
{
    for (size_t i = 0; i < crew->count; i++) {
        const struct board_worker *worker = &crew->board->workers[i];
        if (crew_lives(crew, i)) {
            assert_int_equal(
                atomic_load(&worker->descriptors_after), atomic_load(&worker->descriptors_before));
            assert_int_equal(
                atomic_load(&worker->threads_after), atomic_load(&worker->threads_before));
            check_memory(worker);
        }
    }
}

void check_all(struct crew *crew)
{
    crew_finish(crew);
    check_history(crew);
    check_limits(crew);
    check_resources(crew);
    assert_int_equal(crew_count_releases(crew, PAWL_LOST), 0);
    assert_int_equal(crew_count_told(crew), 0);
}

void check_all_after_losses(struct crew *crew, struct server *server, int64_t lease_ms)
{
    crew_finish(crew);
    check_history(crew);
    check_limits(crew);
    check_told_in_time(crew);
    check_resources(crew);
    check_nothing_left(server, lease_ms);
}
