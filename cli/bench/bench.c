/* SPDX-License-Identifier: Apache-2.0 */
/* `pawl bench`: what locks cost on the user's own backend, in ten seconds and in words. Three
 * loads, one after the other: one thread; several threads with a lock each; the same threads with
 * one lock. It says before what it will do, and leaves as little behind as it can on every way out.
 */
#include "bench/load.h"
#include "bench/report.h"
#include "bench/traces.h"
#include "commands.h"
#include "common/backend.h"
#include "line/options.h"
#include "line/say.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

static const char help[] =
    "usage: pawl bench [--seconds N] [--threads N] [--json]\n"
    "\n"
    "Measure what locks cost here: how long one takes, how many per second, and how a lock fares "
    "that\n"
    "everybody wants. It keeps the server busy meanwhile, and others will notice.\n"
    "\n"
    "  --seconds N  how long in all: 1 to 3600, default 10\n"
    "  --threads N  for the loads with several threads: 2 to 1024, default 8\n"
    "  --json       one JSON document instead of words\n"
    "  --url URL    what to measure; see pawl --help\n"
    "\n"
    "Names of its locks begin with 'pawl-bench:'. ^C ends it and cleans up.\n";

static atomic_bool interrupted;
static volatile sig_atomic_t interrupting_signal;

/* What the line that shows the progress is about. */
static const char *phase = "";
static int64_t phases_left_ms;

static void interrupt(int signal_number)
{
    interrupting_signal = signal_number;
    atomic_store(&interrupted, true);
}

/* The first ^C ends the load, the second one the process. */
static void catch_interrupts(void)
{
    struct sigaction action = {.sa_handler = interrupt, .sa_flags = (int)SA_RESETHAND};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

static void show_progress(int64_t left_ms)
{
    if (isatty(STDERR_FILENO)) {
        fprintf(stderr, "\r\x1b[K%s: %" PRId64 " s to go", phase,
            (phases_left_ms + left_ms + 999) / 1000);
    }
}

static void hide_progress(void)
{
    if (isatty(STDERR_FILENO)) {
        fputs("\r\x1b[K", stderr);
    }
}

/* ===== The loads ===== */

static const char *const phases[BENCH_LOADS] = {
    "one thread", "several threads, a lock each", "several threads, one lock"};

static int run_loads(pawl_client *client, const char *prefix, struct bench_figures *figures)
{
    const int64_t duration_ms = figures->seconds * 1000 / BENCH_LOADS;
    for (unsigned i = 0; i < BENCH_LOADS && !atomic_load(&interrupted); i++) {
        const struct bench_load load = {
            .client = client,
            .prefix = prefix,
            .thread_count = i == BENCH_ONE ? 1 : figures->thread_count,
            .hot = i == BENCH_HOT,
            .duration_ms = duration_ms,
            .stop = &interrupted,
        };
        phase = phases[i];
        phases_left_ms = duration_ms * (BENCH_LOADS - 1 - (int64_t)i);
        struct bench_result *result = &figures->results[i];
        bench_load_run(&load, result, show_progress);
        hide_progress();
        if (result->status != PAWL_OK) {
            cli_say("%s: %s", phase, result->error);
            return cli_exit_of(result->status);
        }
    }
    return CLI_GO_ON;
}

/* ===== The command ===== */

static void make_prefix(char prefix_out[BENCH_PREFIX_SIZE])
{
    uint32_t number = 0;
    if (getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number) {
        number = (uint32_t)cli_now_us();
    }
    snprintf(prefix_out, BENCH_PREFIX_SIZE, "pawl-bench:%08" PRIx32, number);
}

static void announce(const struct bench_figures *figures, const char *prefix)
{
    cli_say("for %" PRId64 " s this takes and releases locks named %s:* on %s as fast as it can, "
            "with up to %u threads; others will notice. ^C ends it",
        figures->seconds, prefix, figures->title, figures->thread_count);
}

static int report(const struct bench_figures *figures, bool as_json)
{
    if (as_json) {
        bench_report_json(figures);
    } else {
        bench_report_words(figures);
    }
    return cli_output_end();
}

static int bench(struct bench_figures *figures, struct bench_traces *traces, bool as_json)
{
    pawl_client_options options = PAWL_CLIENT_OPTIONS_INIT;
    options.guard = PAWL_GUARD_WARN;
    pawl_client *client = NULL;
    const int checked = cli_backend_check();
    if (checked != CLI_GO_ON) {
        return checked;
    }
    pawl_status status = pawl_client_open(bench_traces_url(traces), &options, &client);
    cli_url_forget();
    if (status != PAWL_OK) {
        return cli_say_failure(status);
    }
    announce(figures, traces->prefix);
    catch_interrupts();
    int result = run_loads(client, traces->prefix, figures);
    pawl_client_close(client);
    bench_traces_remove(traces);
    if (atomic_load(&interrupted)) {
        cli_say("interrupted; %s", bench_traces_left(traces));
        raise(interrupting_signal); /* SA_RESETHAND: whoever waits for us sees why we ended */
    }
    if (result == CLI_GO_ON) {
        result = report(figures, as_json);
        cli_say("%s", bench_traces_left(traces));
    }
    return result;
}

int cli_bench(int argc, char **argv)
{
    static struct bench_figures figures = {.seconds = 10};
    int64_t threads = 8;
    bool as_json = false;
    struct cli_option options[] = {
        {.name = "seconds", .type = CLI_NUMBER, .value = &figures.seconds, .min = 1, .max = 3600},
        {.name = "threads",
            .type = CLI_NUMBER,
            .value = &threads,
            .min = 2,
            .max = BENCH_THREADS_MAX},
        {.name = "json", .type = CLI_FLAG, .value = &as_json},
    };
    const struct cli_syntax syntax = {
        .command = "pawl bench",
        .help = help,
        .options = options,
        .option_count = sizeof options / sizeof options[0],
    };
    struct cli_arguments arguments;
    int result = cli_options_parse(&syntax, argc, argv, &arguments);
    if (result == CLI_GO_ON) {
        struct bench_traces traces;
        figures.thread_count = (unsigned)threads;
        cli_backend_title(figures.title);
        bench_traces_open(&traces);
        make_prefix(traces.prefix);
        result = bench(&figures, &traces, as_json);
        bench_traces_close(&traces);
    }
    return result;
}
