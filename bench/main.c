/* SPDX-License-Identifier: Apache-2.0 */
/* The benchmark's driver: starts a private redis-server, runs the groups one after the other,
 * prints one table. It reports and judges nothing else: the exit status is 0 even if a figure is
 * missed, and 1 if something could not be measured. README.md says how to read it. */
#include "groups.h"
#include "lib/clock.h"
#include "lib/die.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    ROUNDS_NORMAL = 9,
    ROUNDS_QUICK = 5,
    QUICK_DIVISOR = 3, /* of the slices */
    SHORT_FACTOR = 3,
    EXIT_USAGE = 64,
};

/* bench/run --help lists them from here, by name and title. */
static const struct group groups[] = {
    {"one-tcp", "one thread, TCP", true, group_one_tcp},
    {"one-unix", "one thread, unix socket", true, group_one_unix},
    {"waiting", "one thread while others wait", true, group_waiting},
    {"many", "64 threads on 64 locks", true, group_many},
    {"hot", "a hot lock in one process", false, group_hot},
    {"shares", "a hot lock in two processes", false, group_shares},
    {"handoff", "a hot lock with hand-off", false, group_handoff},
    {"fair", "a hot fair lock", false, group_fair},
    {"kinds", "one thread, each kind of lock", false, group_kinds},
    {"multi", "2 to 64 locks at once", true, group_multi},
    {"file", "the file engine", false, group_file},
    {"latency", "latency of a free lock", true, group_latency},
    {"handover", "latency of a hand-over", false, group_handover},
    {"redlock", "Redlock at servers that are far away", false, group_redlock},
    {"memory", "memory of holds and waiters", false, group_memory},
    {"renewal", "renewing many held locks", false, group_renewal},
};

enum { GROUP_COUNT = sizeof groups / sizeof groups[0] };

struct options {
    const char *json_path;
    bool chosen[GROUP_COUNT];
    bool any_chosen;
};

static struct bench the_bench = {.rounds = ROUNDS_NORMAL};

int64_t bench_slice_ns(const struct bench *bench, int64_t normal_ms)
{
    return normal_ms * NS_PER_MS / (bench->quick ? QUICK_DIVISOR : 1);
}

size_t bench_rounds_of_short(const struct bench *bench)
{
    const size_t rounds = SHORT_FACTOR * bench->rounds;
    return rounds < ROUNDS_MAX ? rounds : ROUNDS_MAX;
}

/* ===== Options ===== */

static _Noreturn void refuse(const char *what, const char *value)
{
    fprintf(stderr, "bench: %s '%s'; bench/run --help says more\n", what, value);
    exit(EXIT_USAGE);
}

static void choose(struct options *options, const char *name)
{
    for (size_t i = 0; i < GROUP_COUNT; i++) {
        if (strcmp(groups[i].name, name) == 0) {
            options->chosen[i] = true;
            options->any_chosen = true;
            return;
        }
    }
    refuse("no group", name);
}

static size_t parse_rounds(const char *text)
{
    char *end = NULL;
    const long rounds = strtol(text, &end, 10);
    if (*text == '\0' || *end != '\0' || rounds < 1 || rounds > ROUNDS_MAX) {
        refuse("not a number of rounds:", text);
    }
    return (size_t)rounds;
}

static const char *take_value(int argc, char *const argv[], int *index)
{
    if (*index + 1 >= argc) {
        refuse("a value is missing after", argv[*index]);
    }
    ++*index;
    return argv[*index];
}

static void parse_options(int argc, char *const argv[], struct options *options)
{
    size_t rounds = 0;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--quick") == 0) {
            the_bench.quick = true;
        } else if (strcmp(argv[i], "--rounds") == 0) {
            rounds = parse_rounds(take_value(argc, argv, &i));
        } else if (strcmp(argv[i], "--only") == 0) {
            choose(options, take_value(argc, argv, &i));
        } else if (strcmp(argv[i], "--json") == 0) {
            options->json_path = take_value(argc, argv, &i);
        } else {
            refuse("I do not know", argv[i]);
        }
    }
    the_bench.rounds = rounds > 0 ? rounds : the_bench.quick ? ROUNDS_QUICK : ROUNDS_NORMAL;
}

/* ===== Running ===== */

static bool is_chosen(const struct options *options, size_t index)
{
    return !options->any_chosen || options->chosen[index];
}

static bool needs_pattern(const struct options *options)
{
    for (size_t i = 0; i < GROUP_COUNT; i++) {
        if (is_chosen(options, i) && groups[i].needs_pattern) {
            return true;
        }
    }
    return false;
}

static void run_groups(const struct options *options)
{
    const bool observed =
        !needs_pattern(options) || pair_observe(the_bench.server, &the_bench.pattern);
    for (size_t i = 0; i < GROUP_COUNT && !interrupted(); i++) {
        if (!is_chosen(options, i)) {
            continue;
        }
        progress("%s ", groups[i].title);
        const int64_t began = now_ns();
        const bool good = (observed || !groups[i].needs_pattern) && groups[i].run(&the_bench);
        progress(" %.1f s\n", (double)(now_ns() - began) / (double)NS_PER_S);
        if (!good) {
            report_fail(&the_bench.report, groups[i].name);
        }
        server_empty(the_bench.server);
    }
}

int main(int argc, char *argv[])
{
    struct options options = {0};
    char machine[512];
    parse_options(argc, argv, &options);
    catch_signals();
    the_bench.server = server_start();
    report_describe_machine(machine, sizeof machine, the_bench.server);
    run_groups(&options);
    if (interrupted()) {
        die("interrupted");
    }
    printf("%s\n%zu interleaved rounds or more; ratio = ours / against, median of the rounds\n\n",
        machine, the_bench.rounds);
    report_print(&the_bench.report);
    if (options.json_path != NULL && !report_write_json(&the_bench.report, options.json_path,
                                         the_bench.server, the_bench.rounds)) {
        die("cannot write %s", options.json_path);
    }
    return the_bench.report.failed_count > 0 ? 1 : 0;
}
