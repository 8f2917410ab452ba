/* SPDX-License-Identifier: Apache-2.0 */
/* The nemesis: draws from the seed what happens next, and to whom, and ends in time what lasts.
 *
 * Faults of different kinds overlap, as they do when it matters; but no worker, proxy or server has
 * to bear two at once. What a fault means to the oracles is noted as a window of the history. */
#include "torture/lib/round.h"

#include "support/fail.h"
#include "support/wait.h"

#include <string.h>
#include <time.h>

enum {
    QUIET_MS = 300,     /* before the first fault */
    DOUBT_US = 1000000, /* how long a connection that fell silent may be trusted in vain */
    AGAIN_US = 20000,
    HEAL_MS = 30000,
};

uint64_t wall_clock_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

void nemesis_taken(struct round *round, int name, int64_t from_us, uint64_t token_max)
{
    struct window *window = history_add_window(&round->history);
    window->kind = WINDOW_TAKEN;
    window->name = name;
    window->from_us = from_us;
    window->to_us = boottime_us();
    window->token_max = token_max;
}

/* Who is reached through the proxy, or everybody. */
static void note_doubt(struct round *round, const struct fault *fault)
{
    for (unsigned i = 0; i < round->worker_count; i++) {
        if (fault->kind->victim != VICTIM_PROXY ||
            round->workers[i].proxy == (int)(fault->target / round->server_count)) {
            struct window *window = history_add_window(&round->history);
            window->kind = WINDOW_DOUBT;
            window->slot = (int)i;
            window->from_us = fault->from_us;
            window->to_us = boottime_us() + DOUBT_US;
        }
    }
}

/* ===== Victims ===== */

static bool *busy_flag(struct round *round, const struct fault *fault)
{
    switch (fault->kind->victim) {
    case VICTIM_WORKER:
        return &round->workers[fault->target].busy;
    case VICTIM_PROXY:
        return &round->proxy_busy[fault->target];
    case VICTIM_DISK:
        return &round->disk_busy;
    case VICTIM_SERVER:
    case VICTIM_NAME: /* is done by talking to the server */
        break;
    }
    return &round->server_busy;
}

static unsigned victim_count(const struct round *round, enum victim victim)
{
    switch (victim) {
    case VICTIM_WORKER:
        return round->worker_count;
    case VICTIM_PROXY:
        return round->proxy_count;
    case VICTIM_NAME:
        return round->arena->names;
    case VICTIM_DISK:
        return round->small_disk ? 1 : 0;
    case VICTIM_SERVER:
        return round->server_count;
    }
    return 1;
}

/* ===== Beginning and ending ===== */

static const struct fault_kind *draw_kind(struct round *round, size_t *index_out)
{
    uint64_t sum = 0;
    for (size_t i = 0; round->kinds[i].name != NULL; i++) {
        sum += round->kinds[i].weight;
    }
    uint64_t at = draw_below(&round->random, sum);
    size_t index = 0;
    while (at >= round->kinds[index].weight) {
        at -= round->kinds[index].weight;
        index++;
    }
    *index_out = index;
    return &round->kinds[index];
}

static struct fault *free_place(struct round *round)
{
    for (size_t i = 0; i < ACTIVE_MAX; i++) {
        if (round->active[i].kind == NULL) {
            return &round->active[i];
        }
    }
    return NULL;
}

static void end_fault(struct round *round, struct fault *fault)
{
    if (fault->kind->end != NULL && !fault->kind->end(round, fault)) {
        fault->due_us = boottime_us() + AGAIN_US;
        return;
    }
    if (fault->kind->silences) {
        note_doubt(round, fault);
    }
    *busy_flag(round, fault) = false;
    fault->kind = NULL;
}

static void begin_fault(struct round *round)
{
    size_t index = 0;
    const struct fault_kind *kind = draw_kind(round, &index);
    struct fault *fault = free_place(round);
    const unsigned victims = victim_count(round, kind->victim);
    if (fault == NULL || victims == 0) {
        return;
    }
    *fault = (struct fault){.kind = kind, .target = (unsigned)draw_below(&round->random, victims)};
    const int64_t length_ms =
        draw_between(&round->random, kind->length_ms_min, kind->length_ms_max);
    bool *busy = busy_flag(round, fault);
    fault->from_us = boottime_us();
    if (*busy || !kind->begin(round, fault)) {
        fault->kind = NULL;
        return;
    }
    *busy = true;
    round->kind_counts[index]++;
    fault->due_us = boottime_us() + length_ms * 1000;
    if (kind->length_ms_max == 0) {
        end_fault(round, fault);
    }
}

void nemesis_begin(struct round *round)
{
    size_t count = 0;
    while (round->kinds[count].name != NULL) {
        count++;
    }
    if (count > KINDS_MAX) {
        support_fail("too many kinds of faults");
    }
    round->next_fault_us = boottime_us() + QUIET_MS * 1000;
}

void nemesis_step(struct round *round, int64_t now_us)
{
    for (size_t i = 0; i < ACTIVE_MAX; i++) {
        if (round->active[i].kind != NULL && round->active[i].due_us <= now_us) {
            end_fault(round, &round->active[i]);
        }
    }
    if (now_us >= round->next_fault_us) {
        begin_fault(round);
        round->next_fault_us =
            boottime_us() + draw_between(&round->random, 0, 2000 * round->gap_ms);
    }
}

static bool end_all(void *arg)
{
    struct round *round = arg;
    bool all = true;
    for (size_t i = 0; i < ACTIVE_MAX; i++) {
        if (round->active[i].kind != NULL) {
            end_fault(round, &round->active[i]);
            all = all && round->active[i].kind == NULL;
        }
    }
    return all;
}

void nemesis_heal(struct round *round)
{
    if (!wait_for(end_all, round, HEAL_MS)) {
        blame(&round->verdict, 9, "a fault could not be undone");
    }
}
