/* SPDX-License-Identifier: Apache-2.0 */
/* See report.h. First a table, then what it means: the reader wants to know whether locks are
 * cheap here, and if they are not, where to look. */
#include "bench/report.h"

#include "text/json.h"
#include "text/table.h"
#include "text/terminal.h"
#include "text/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const struct cli_table_column columns[] = {
    {.title = "LOAD"},
    {.title = "PAIRS/s", .right = true},
    {.title = "MEDIAN", .right = true},
    {.title = "99 %", .right = true},
    {.title = "LONGEST", .right = true, .expendable = 1},
};

static const int64_t MS = 1000000; /* in ns */

static int64_t median_of(const struct bench_result *result)
{
    return cli_histogram_at(&result->pairs, 0.5);
}

static int64_t percentile_99_of(const struct bench_result *result)
{
    return cli_histogram_at(&result->pairs, 0.99);
}

/* A short duration for people: 12.3 us, 0.45 ms, 1.20 s. */
static const char *short_duration(int64_t ns, char out[32])
{
    if (ns < 100000) {
        snprintf(out, 32, "%.1f us", (double)ns / 1e3);
    } else if (ns < 1000 * MS) {
        snprintf(out, 32, "%.2f ms", (double)ns / 1e6);
    } else {
        snprintf(out, 32, "%.2f s", (double)ns / 1e9);
    }
    return out;
}

/* A rate with two digits that mean something: 23, 1,200, 34,000. */
static const char *rounded(double rate, char out[32])
{
    uint64_t number = (uint64_t)(rate + 0.5);
    uint64_t unit = 1;
    while (number / unit >= 100) {
        unit *= 10;
    }
    number = (number + unit / 2) / unit * unit;
    if (number >= 1000000) {
        snprintf(out, 32, "%" PRIu64 ",%03" PRIu64 ",%03" PRIu64, number / 1000000,
            number / 1000 % 1000, number % 1000);
    } else if (number >= 1000) {
        snprintf(out, 32, "%" PRIu64 ",%03" PRIu64, number / 1000, number % 1000);
    } else {
        snprintf(out, 32, "%" PRIu64, number);
    }
    return out;
}

/* ===== In words ===== */

static void add_row(struct cli_table *table, const char *name, const struct bench_result *result)
{
    char text[32];
    cli_table_add(table, name);
    cli_table_print(table, "%.0f", result->rate);
    cli_table_add(table, short_duration(median_of(result), text));
    cli_table_add(table, short_duration(percentile_99_of(result), text));
    cli_table_add(table, short_duration(result->pairs.max_ns, text));
}

static void print_table(const struct bench_figures *figures)
{
    char own[64];
    char hot[64];
    snprintf(own, sizeof own, "%u threads, a lock each", figures->thread_count);
    snprintf(hot, sizeof hot, "%u threads, one lock", figures->thread_count);
    struct cli_table table;
    cli_table_open(&table, columns, sizeof columns / sizeof columns[0]);
    add_row(&table, "1 thread", &figures->results[BENCH_ONE]);
    add_row(&table, own, &figures->results[BENCH_OWN]);
    add_row(&table, hot, &figures->results[BENCH_HOT]);
    const struct cli_table_limits limits = {
        .columns_max = cli_terminal_size(STDOUT_FILENO).columns,
        .bold_head = cli_terminal_has_colours(STDOUT_FILENO),
    };
    struct cli_text text = CLI_TEXT_INIT;
    cli_table_render(&table, &limits, &text);
    fputs(cli_text_string(&text), stdout);
    cli_text_free(&text);
    cli_table_close(&table);
}

static void read_latency(const struct bench_figures *figures, struct cli_text *text)
{
    const struct bench_result *one = &figures->results[BENCH_ONE];
    const int64_t median = median_of(one);
    const int64_t slow = percentile_99_of(one);
    char median_text[32];
    char slow_text[32];
    char rate[32];
    cli_text_print(text,
        "To take and release a free lock takes %s; one in a hundred takes longer than %s. A "
        "program "
        "that does it one after the other gets through %s in a second.",
        short_duration(median, median_text), short_duration(slow, slow_text),
        rounded(one->rate, rate));
    if (median > 5 * MS) {
        cli_text_add_string(text,
            " That is slow: look at the way to the server (distance, network) "
            "and at what else it does.");
    }
    if (slow > 10 * median && slow > 1 * MS) {
        cli_text_add_string(text, " The slow ones are much slower than the rest: something else "
                                  "uses the server or this machine, or it waits for its disk.");
    }
}

static void read_throughput(const struct bench_figures *figures, struct cli_text *text)
{
    const struct bench_result *one = &figures->results[BENCH_ONE];
    const struct bench_result *own = &figures->results[BENCH_OWN];
    const double factor = one->rate > 0 ? own->rate / one->rate : 0;
    char rate[32];
    cli_text_print(text,
        "%u threads with a lock each get through %s in a second, %.1f times as many "
        "as one thread",
        figures->thread_count, rounded(own->rate, rate), factor);
    if (factor < 1.2) {
        cli_text_add_string(text, ": more threads do not help here, the machine or the server is "
                                  "busy with one already.");
    } else {
        cli_text_add_string(text, ".");
    }
}

static void read_hot_lock(const struct bench_figures *figures, struct cli_text *text)
{
    const struct bench_result *hot = &figures->results[BENCH_HOT];
    char rate[32];
    char median[32];
    char slow[32];
    cli_text_print(text,
        "A lock that %u threads of one process want all the time changes hands %s "
        "times in a second; each waits %s for its turn, and one in a hundred longer "
        "than %s.",
        figures->thread_count, rounded(hot->rate, rate), short_duration(median_of(hot), median),
        short_duration(percentile_99_of(hot), slow));
    if (hot->most > 4 * (hot->least + 1)) {
        cli_text_print(text,
            " Turns were not even: %" PRIu64 " for one thread, %" PRIu64 " for another.", hot->most,
            hot->least);
    }
}

static void print_paragraph(struct cli_text *text)
{
    const size_t columns_max = cli_terminal_size(STDOUT_FILENO).columns;
    struct cli_text wrapped = CLI_TEXT_INIT;
    cli_text_add_wrapped(&wrapped, cli_text_string(text), 0,
        columns_max == 0 || columns_max > 100 ? 100 : columns_max);
    printf("\n%s\n", cli_text_string(&wrapped));
    cli_text_free(&wrapped);
    cli_text_clear(text);
}

void bench_report_words(const struct bench_figures *figures)
{
    struct cli_text text = CLI_TEXT_INIT;
    print_table(figures);
    read_latency(figures, &text);
    print_paragraph(&text);
    read_throughput(figures, &text);
    print_paragraph(&text);
    read_hot_lock(figures, &text);
    print_paragraph(&text);
    cli_text_free(&text);
}

/* ===== For programs ===== */

static void json_result(struct cli_json *json, const char *key, const struct bench_result *result,
    unsigned thread_count)
{
    cli_json_object(json, key);
    cli_json_integer(json, "threads", thread_count);
    cli_json_decimal(json, "seconds", result->seconds, 3);
    cli_json_integer(json, "pairs", (int64_t)result->pairs.total);
    cli_json_decimal(json, "pairs_per_second", result->rate, 1);
    cli_json_decimal(json, "median_us", (double)median_of(result) / 1e3, 1);
    cli_json_decimal(json, "p99_us", (double)percentile_99_of(result) / 1e3, 1);
    cli_json_decimal(json, "max_us", (double)result->pairs.max_ns / 1e3, 1);
    cli_json_integer(json, "least_of_a_thread", (int64_t)result->least);
    cli_json_integer(json, "most_of_a_thread", (int64_t)result->most);
    cli_json_object_end(json);
}

void bench_report_json(const struct bench_figures *figures)
{
    struct cli_json json;
    cli_json_open(&json, stdout);
    cli_json_object(&json, NULL);
    cli_json_bytes(&json, "backend", figures->title);
    json_result(&json, "one_thread", &figures->results[BENCH_ONE], 1);
    json_result(&json, "own_locks", &figures->results[BENCH_OWN], figures->thread_count);
    json_result(&json, "hot_lock", &figures->results[BENCH_HOT], figures->thread_count);
    cli_json_object_end(&json);
    cli_json_close(&json);
}
