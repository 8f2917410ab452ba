/* SPDX-License-Identifier: Apache-2.0 */
/* See progress.h. It is drawn by the thread that watches, from counters that the others keep. */
#include "load/progress.h"

#include "common/clock.h"
#include "load/worker.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { EVERY_US = 100 * 1000, BAR_COLUMNS = 30 };

void progress_init(struct progress *progress)
{
    *progress = (struct progress){.wanted = isatty(STDERR_FILENO) == 1};
}

static void bar(char out[BAR_COLUMNS + 1], int64_t done, int64_t all)
{
    const int64_t filled = all > 0 ? done * BAR_COLUMNS / all : 0;
    memset(out, '.', BAR_COLUMNS);
    memset(out, '#', (size_t)(filled < BAR_COLUMNS ? filled : BAR_COLUMNS));
    out[BAR_COLUMNS] = '\0';
}

void progress_draw(struct progress *progress, struct load_run *run)
{
    const int64_t at_us = now_us();
    if (!progress->wanted || at_us - progress->drawn_us < EVERY_US) {
        return;
    }
    progress->drawn_us = at_us;
    progress->is_shown = true;
    const struct load_plan *plan = run->plan;
    const int64_t ended = atomic_load(&run->ended);
    const int64_t connected = atomic_load(&run->connected);
    char columns[BAR_COLUMNS + 1];
    if (ended == 0 && connected < plan->connections) {
        bar(columns, connected, plan->connections);
        fprintf(stderr, "\r\x1b[K[%s] connecting, %" PRId64 " of %" PRId64, columns, connected,
            plan->connections);
        return;
    }
    bar(columns, ended, plan->orders);
    const double seconds =
        (double)(atomic_load(&run->last_sold_us) - atomic_load(&run->begun_us)) / 1e6;
    const int64_t sold = atomic_load(&run->sold);
    fprintf(stderr, "\r\x1b[K[%s] %" PRId64 " of %" PRId64 ", %" PRId64 " sold, %.0f/s", columns,
        ended, plan->orders, sold, seconds > 0 ? (double)sold / seconds : 0);
}

void progress_clear(struct progress *progress)
{
    if (progress->is_shown) {
        fputs("\r\x1b[K", stderr);
        progress->is_shown = false;
    }
}
