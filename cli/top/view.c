/* SPDX-License-Identifier: Apache-2.0 */
/* See view.h. */
#include "top/view.h"

#include "common/backend.h"
#include "text/duration.h"
#include "text/table.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const struct cli_table_column columns[] = {
    {.title = "NAME", .columns_good = 30, .columns_min = 8},
    {.title = "HOLDER", .columns_good = 22, .columns_min = 8, .expendable = 3},
    {.title = "HELD", .right = true, .expendable = 1},
    {.title = "LEFT", .right = true, .expendable = 5},
    {.title = "WAITERS", .right = true, .expendable = 2},
    {.title = "RATE/s", .right = true, .expendable = 4},
    {.title = "~HOLD", .right = true, .expendable = 6},
    {.title = "~WAIT", .right = true, .expendable = 7},
};

/* A lock, and what it is ordered by. */
struct row {
    const struct top_lock *lock;
    double weight;
};

const char *top_order_name(enum top_order order)
{
    switch (order) {
    case TOP_BY_WAITERS:
        return "waiters";
    case TOP_BY_HELD:
        return "held";
    case TOP_BY_RATE:
        return "rate";
    case TOP_BY_NAME:
        return "name";
    case TOP_ORDER_COUNT:
        break;
    }
    return "";
}

static double weight_of(const struct top_view *view, const struct top_model *model,
    const struct top_lock *lock, int64_t now_ms)
{
    switch (view->order) {
    case TOP_BY_WAITERS:
        return lock->holders > 0 ? (double)lock->hold.waiters : -2;
    case TOP_BY_HELD:
        return lock->holders > 0 ? (double)(now_ms - lock->held_since_ms) : -1;
    case TOP_BY_RATE:
        return top_lock_rate(model, lock, now_ms);
    case TOP_BY_NAME:
    case TOP_ORDER_COUNT:
        break;
    }
    return 0;
}

/* The heavier first; of equal ones in order of their names. */
static int compare(const void *left, const void *right)
{
    const struct row *a = left;
    const struct row *b = right;
    if (a->weight != b->weight) {
        return a->weight > b->weight ? -1 : 1;
    }
    return strcmp(a->lock->hold.name, b->lock->hold.name);
}

/* All locks that are worth a row, in order; the caller frees them. */
static struct row *ordered_rows(
    const struct top_view *view, const struct top_model *model, int64_t now_ms, size_t *count_out)
{
    struct row *rows = cli_memory_resize(NULL, model->count + 1, sizeof *rows);
    size_t count = 0;
    for (size_t i = 0; i < model->count; i++) {
        const struct top_lock *lock = model->locks[i];
        if (lock->holders > 0 || top_lock_rate(model, lock, now_ms) > 0) {
            rows[count++] = (struct row){lock, weight_of(view, model, lock, now_ms)};
        }
    }
    qsort(rows, count, sizeof *rows, compare);
    *count_out = count;
    return rows;
}

/* ===== The table ===== */

static void add_duration(struct cli_table *table, const char *before, int64_t duration_ms)
{
    struct cli_text text = CLI_TEXT_INIT;
    if (duration_ms < 0) {
        cli_text_add_string(&text, "-");
    } else {
        cli_text_add_string(&text, before);
        cli_text_add_duration(&text, duration_ms);
    }
    cli_table_add(table, cli_text_string(&text));
    cli_text_free(&text);
}

static void add_holder(struct cli_table *table, const struct top_lock *lock)
{
    struct cli_text text = CLI_TEXT_INIT;
    if (lock->holders == 0) {
        cli_text_add_string(&text, "(free)");
    } else {
        cli_hold_add_who(&lock->hold, &text);
    }
    if (lock->holders > 1) {
        cli_text_print(&text, " and %zu more", lock->holders - 1);
    }
    cli_table_add(table, cli_text_string(&text));
    cli_text_free(&text);
}

static void add_row(struct cli_table *table, const struct top_model *model,
    const struct top_lock *lock, int64_t now_ms)
{
    const bool held = lock->holders > 0;
    cli_table_add_safe(table, lock->hold.name);
    add_holder(table, lock);
    add_duration(table, lock->held_before ? ">" : "", held ? now_ms - lock->held_since_ms : -1);
    add_duration(table, "", held ? lock->hold.remaining_ms : -1);
    if (held && lock->hold.waiters >= 0) {
        cli_table_print(table, "%" PRId64, lock->hold.waiters);
    } else {
        cli_table_add(table, "-");
    }
    cli_table_print(table, "%.1f", top_lock_rate(model, lock, now_ms));
    add_duration(table, "", top_lock_mean_hold_ms(lock));
    add_duration(table, "", top_lock_mean_wait_ms(lock));
}

/* ===== The lines above it ===== */

/* End a line: cut to the width, and a newline. */
static void add_line(const struct top_view *view, struct cli_text *line, struct cli_text *out)
{
    const size_t width = view->columns_max == 0 ? SIZE_MAX : view->columns_max;
    cli_text_add_cut(out, cli_text_string(line), width);
    cli_text_add_string(out, "\n");
    cli_text_clear(line);
}

static void add_figures(const struct top_totals *totals, struct cli_text *line)
{
    cli_text_print(line, "%zu held, ", totals->held);
    if (totals->waiters >= 0) {
        cli_text_print(line, "%" PRId64 " waiting, ", totals->waiters);
    }
    cli_text_print(line, "%.1f acquired/s, %.1f released/s, %" PRIu64 " expired",
        totals->acquired_rate, totals->released_rate, totals->expired);
}

/* How far the figures can be trusted. */
static void add_trust(const struct top_view *view, const struct top_model *model, int64_t now_ms,
    struct cli_text *line)
{
    char every[CLI_DURATION_SIZE];
    cli_duration_show(view->every_ms, every);
    const struct top_trouble *listings = &model->troubles[TOP_LISTINGS];
    const struct top_trouble *events = &model->troubles[TOP_EVENTS];
    if (listings->sentence[0] != '\0') {
        cli_text_add_string(line, "nothing new for ");
        cli_text_add_duration(line, now_ms - listings->since_ms);
        cli_text_add_string(line, ": ");
        cli_text_add_safe(line, listings->sentence);
    } else if (events->sentence[0] != '\0') {
        cli_text_add_string(line, "no rates and times: ");
        cli_text_add_safe(line, events->sentence);
    } else if (model->listings == 0) {
        cli_text_add_string(line, "looking...");
    } else if (model->exact) {
        cli_text_add_string(line, "changes are told by the backend");
    } else {
        cli_text_print(
            line, "acquisitions are found by looking every %s: shorter holds may be missed", every);
    }
}

static void add_head(const struct top_view *view, const struct top_model *model, int64_t now_ms,
    struct cli_text *out)
{
    struct cli_text line = CLI_TEXT_INIT;
    char time[CLI_TIME_SIZE];
    char every[CLI_DURATION_SIZE];
    cli_time_of_day(time, false);
    time[8] = '\0'; /* without the milliseconds */
    cli_duration_show(view->every_ms, every);
    cli_text_print(&line, "pawl top  %s  every %s  %s%s", time, every, view->title,
        view->paused ? "  PAUSED" : "");
    add_line(view, &line, out);
    const struct top_totals totals = top_model_totals(model, now_ms);
    add_figures(&totals, &line);
    add_line(view, &line, out);
    add_trust(view, model, now_ms, &line);
    add_line(view, &line, out);
    add_line(view, &line, out);
    cli_text_free(&line);
}

enum { HEAD_ROWS = 4, TABLE_HEAD_ROWS = 1, FOOT_ROWS = 1 };

/* How many locks have room; the last line is for the keys and what is left out. */
static size_t table_rows_max(const struct top_view *view)
{
    const size_t used = HEAD_ROWS + TABLE_HEAD_ROWS + FOOT_ROWS;
    if (view->rows_max == 0) {
        return SIZE_MAX;
    }
    return view->rows_max > used ? view->rows_max - used : 1;
}

static void add_foot(const struct top_view *view, size_t left_out, struct cli_text *out)
{
    struct cli_text line = CLI_TEXT_INIT;
    if (left_out > 0) {
        cli_text_print(&line, "%zu more locks  ", left_out);
    }
    if (view->live) {
        cli_text_print(&line, "q quit  p %s  s order: %s", view->paused ? "go on" : "pause",
            top_order_name(view->order));
    }
    const size_t width = view->columns_max == 0 ? SIZE_MAX : view->columns_max;
    cli_text_add_cut(out, cli_text_string(&line), width);
    cli_text_free(&line);
}

void top_view_render(
    const struct top_view *view, struct top_model *model, int64_t now_ms, struct cli_text *out)
{
    struct cli_table table;
    cli_table_open(&table, columns, sizeof columns / sizeof columns[0]);

    pthread_mutex_lock(&model->mutex);
    add_head(view, model, now_ms, out);
    size_t count = 0;
    struct row *rows = ordered_rows(view, model, now_ms, &count);
    const size_t most = table_rows_max(view);
    const size_t shown = count < most ? count : most;
    for (size_t i = 0; i < shown; i++) {
        add_row(&table, model, rows[i].lock, now_ms);
    }
    pthread_mutex_unlock(&model->mutex);

    const struct cli_table_limits limits = {
        .columns_max = view->columns_max, .bold_head = view->bold};
    cli_table_render(&table, &limits, out);
    add_foot(view, count - shown, out);
    free(rows);
    cli_table_close(&table);
}
