/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the simulator (lib/sim.h) over many seeds, each of them twice: both runs must be alike to
 * the last event. Without arguments: the seeds that found something once (seeds/), then 15,000
 * about locks, 4,000 about semaphores and latches, and 1,500 about several locks at once, 500 of
 * which are given together, from fixed bases. A failure prints its seed and how to see it again. */
#include "lib/sim.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SEEDS_BASE 1
#if defined(__SANITIZE_THREAD__)
#define SEEDS_COUNT 200
#define COUNTS_COUNT 50
#define MULTI_COUNT 20
#define JOINT_COUNT 20
#define SPEED_LEAST 0
#elif defined(__SANITIZE_ADDRESS__)
#define SEEDS_COUNT 1000
#define COUNTS_COUNT 250
#define MULTI_COUNT 100
#define JOINT_COUNT 100
#define SPEED_LEAST 0
#else
#define SEEDS_COUNT 15000
#define COUNTS_COUNT 4000
#define MULTI_COUNT 1000
#define JOINT_COUNT 500
#define SPEED_LEAST 10000 /* times real time; slower, it would not see enough */
#endif
#define CORPUS_MOST 1000
#define HANG_S 60     /* no seed needs more than a fraction of a second, */
#define HUNT_HANG_S 5 /* but under a sanitizer all is slow */
#define FAILURES_SHOWN 20

struct options {
    const char *corpus;
    uint64_t first;   /* seeds from here ... */
    uint64_t last;    /* ... to here, */
    bool with_others; /* and those about counts, and about several locks */
    bool verbose;
    bool with_corpus;
    double hunt_s; /* > 0: stop at the first failure, or after so long */
};

struct tally {
    uint64_t passed;
    uint64_t failed;
    double virtual_s;
    struct sim_stats stats;
};

static struct sim_world world; /* far too big for the stack */
static volatile uint64_t current_seed;

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* An assertion failed, or a run does not end: say at least which seed it was. */
static void on_signal(int number)
{
    char text[80];
    int size = snprintf(text, sizeof text, "SEED=%llu %s\n", (unsigned long long)current_seed,
        number == SIGALRM ? "HANG: the run does not end" : "ASSERT: a check of the code itself");
    ssize_t written = write(STDOUT_FILENO, text, (size_t)size);
    _exit(written > 0 ? 1 : 2);
}

/* ===== One seed ===== */

static void add_stats(struct tally *tally, const struct sim_stats *stats)
{
    struct sim_stats *sum = &tally->stats;
    tally->virtual_s += (double)stats->virtual_us / 1e6;
    sum->events += stats->events;
    sum->grants += stats->grants;
    sum->losses += stats->losses;
    sum->requests += stats->requests;
    sum->row_most = stats->row_most > sum->row_most ? stats->row_most : sum->row_most;
    sum->turns_most = stats->turns_most > sum->turns_most ? stats->turns_most : sum->turns_most;
    sum->handed += stats->handed;
    sum->downgrades += stats->downgrades;
    sum->counted += stats->counted;
    sum->several += stats->several;
    sum->takes += stats->takes;
    sum->downs += stats->downs;
    sum->opened += stats->opened;
    sum->permits_lost += stats->permits_lost;
    sum->given_up += stats->given_up;
    for (int i = 0; i < SIM_FAULT_COUNT; i++) {
        sum->faults[i] += stats->faults[i];
    }
    for (int i = 0; i < SIM_KINDS; i++) {
        sum->kinds[i] += stats->kinds[i];
    }
}

static void run_once(struct tally *tally, uint64_t seed, bool verbose, unsigned hang_s)
{
    current_seed = seed;
    alarm(hang_s);
    sim_run(&world, seed, verbose);
    add_stats(tally, &world.stats);
}

/* Whether it passed. A hunter is not interested in the second run. */
static bool run_seed(struct tally *tally, uint64_t seed, const struct options *options)
{
    const char *failure = world.failure;
    unsigned hang_s = options->hunt_s > 0 ? HUNT_HANG_S : HANG_S;
    run_once(tally, seed, options->verbose, hang_s);
    uint64_t hash = world.hash;
    if (failure[0] == '\0' && options->hunt_s <= 0) {
        run_once(tally, seed, false, hang_s);
        if (world.hash != hash) {
            failure = "REPLAY: the second run was not like the first";
        }
    }
    if (failure[0] == '\0') {
        tally->passed++;
        return true;
    }
    tally->failed++;
    if (tally->failed <= FAILURES_SHOWN) {
        printf("SEED=%llu %s\n", (unsigned long long)seed, failure);
        printf("    see it again: simulate --seed %llu --verbose\n", (unsigned long long)seed);
        fflush(stdout);
    }
    return false;
}

/* ===== Many ===== */

/* The seeds of one file: a number at the beginning of each line, then why it is kept. */
static size_t read_seeds(const char *path, uint64_t *seeds, size_t count)
{
    char line[500];
    FILE *file = fopen(path, "r");
    while (file != NULL && count < CORPUS_MOST && fgets(line, sizeof line, file) != NULL) {
        char *end;
        uint64_t seed = strtoull(line, &end, 10);
        if (end != line) {
            seeds[count++] = seed;
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    return count;
}

static int is_text(const struct dirent *entry)
{
    size_t size = strlen(entry->d_name);
    return size > 4 && strcmp(entry->d_name + size - 4, ".txt") == 0;
}

static size_t read_corpus(const char *directory, uint64_t *seeds)
{
    struct dirent **entries;
    int files = scandir(directory, &entries, is_text, alphasort);
    size_t count = 0;
    for (int i = 0; i < files; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", directory, entries[i]->d_name);
        count = read_seeds(path, seeds, count);
        free(entries[i]);
    }
    if (files >= 0) {
        free(entries);
    }
    return count;
}

/* The time that the processor spent: others may be busy on this machine. */
static double spent_s(void)
{
    return (double)clock() / CLOCKS_PER_SEC;
}

static bool go_on(const struct tally *tally, const struct options *options)
{
    return options->hunt_s <= 0 || (tally->failed == 0 && spent_s() < options->hunt_s);
}

static size_t run_all(struct tally *tally, const struct options *options)
{
    uint64_t corpus[CORPUS_MOST];
    size_t count = options->with_corpus ? read_corpus(options->corpus, corpus) : 0;
    for (size_t i = 0; i < count && go_on(tally, options); i++) {
        if (corpus[i] >= options->first) {
            run_seed(tally, corpus[i], options);
        }
    }
    for (uint64_t seed = options->first; seed <= options->last && go_on(tally, options); seed++) {
        run_seed(tally, seed, options);
    }
    for (uint64_t i = 0; options->with_others && i < COUNTS_COUNT; i++) {
        run_seed(tally, SIM_COUNT_SEEDS + i, options);
    }
    for (uint64_t i = 0; options->with_others && i < MULTI_COUNT; i++) {
        run_seed(tally, SIM_MULTI_SEEDS + i, options);
    }
    for (uint64_t i = 0; options->with_others && i < JOINT_COUNT; i++) {
        run_seed(tally, SIM_JOINT_SEEDS + i, options);
    }
    return count;
}

static void check_speed(struct tally *tally)
{
    if (tally->virtual_s < SPEED_LEAST * spent_s()) {
        printf("SPEED: only %.0f times real time\n", tally->virtual_s / spent_s());
        tally->failed++;
    }
}

static void report_kinds(const struct sim_stats *stats)
{
    static const char *const kinds[SIM_KINDS] = {[PAWL_MUTEX] = "mutex",
        [PAWL_FAIR] = "fair",
        [PAWL_READ] = "read",
        [PAWL_WRITE] = "write",
        [PAWL_SPIN] = "spin",
        [PAWL_PLAIN] = "plain"};
    printf("grants:");
    for (int i = 0; i < SIM_KINDS; i++) {
        printf(" %s %llu,", kinds[i], (unsigned long long)stats->kinds[i]);
    }
    printf(" and handed off %llu; writers that went on reading %llu\n",
        (unsigned long long)stats->handed, (unsigned long long)stats->downgrades);
    printf("several locks at once: %llu times\n", (unsigned long long)stats->several);
    printf(
        "counts: changed %llu times; permits taken by %llu calls, leased ones lost %llu; latches "
        "counted down %llu times, waited for %llu times; given up %llu\n",
        (unsigned long long)stats->counted, (unsigned long long)stats->takes,
        (unsigned long long)stats->permits_lost, (unsigned long long)stats->downs,
        (unsigned long long)stats->opened, (unsigned long long)stats->given_up);
}

static void report(const struct tally *tally, size_t corpus, double wall_s)
{
    const struct sim_stats *stats = &tally->stats;
    printf("faults:");
    for (int i = 0; i < SIM_FAULT_COUNT; i++) {
        printf("%s %s %llu", i > 0 ? "," : "", sim_fault_names[i],
            (unsigned long long)stats->faults[i]);
    }
    printf("\n");
    report_kinds(stats);
    printf("%llu seeds (%zu kept ones), %llu events, %llu calls, %llu grants, %llu losses\n",
        (unsigned long long)(tally->passed + tally->failed), corpus,
        (unsigned long long)stats->events, (unsigned long long)stats->requests,
        (unsigned long long)stats->grants, (unsigned long long)stats->losses);
    printf("in crowds: at most %u grants in a row, at most %u turns missed\n", stats->row_most,
        stats->turns_most);
    printf("%.1f days of virtual time in %.1f s: %.0f times real time\n", tally->virtual_s / 86400,
        wall_s, tally->virtual_s / wall_s);
    printf("%llu passed, %llu failed\n", (unsigned long long)tally->passed,
        (unsigned long long)tally->failed);
}

/* ===== The command line ===== */

static int usage(void)
{
    fprintf(stderr,
        "usage: simulate [--seed N [--verbose] | --seeds A..B | --mutant-hunt SECONDS [--from N]]\n"
        "                [--corpus DIRECTORY] [--only ORACLE]\n");
    return 64;
}

static bool parse(int argc, char **argv, struct options *options)
{
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        char *end = NULL;
        if (strcmp(argv[i], "--verbose") == 0) {
            options->verbose = true;
            continue;
        }
        if (strcmp(argv[i], "--seed") == 0) {
            options->first = options->last = strtoull(value, &end, 10);
            options->with_corpus = false;
            options->with_others = false;
        } else if (strcmp(argv[i], "--seeds") == 0) {
            options->first = strtoull(value, &end, 10);
            options->last = strncmp(end, "..", 2) == 0 ? strtoull(end + 2, &end, 10) : 0;
            options->with_corpus = false;
            options->with_others = false;
        } else if (strcmp(argv[i], "--mutant-hunt") == 0) {
            options->hunt_s = strtod(value, &end);
            options->last = UINT64_MAX - 1;
            options->with_others = false;
        } else if (strcmp(argv[i], "--from") == 0) {
            options->first = strtoull(value, &end, 10);
        } else if (strcmp(argv[i], "--corpus") == 0) {
            options->corpus = value;
        } else if (strcmp(argv[i], "--only") == 0) {
            sim_only = value;
        } else {
            return false;
        }
        if (value[0] == '\0' || (end != NULL && *end != '\0')) {
            return false;
        }
        i++;
    }
    return options->last >= options->first;
}

int main(int argc, char **argv)
{
    struct options options = {.corpus = PAWL_TEST_SOURCE_DIR "/sim/seeds",
        .first = SEEDS_BASE,
        .last = SEEDS_BASE + SEEDS_COUNT - 1,
        .with_others = true,
        .with_corpus = true};
    if (!parse(argc, argv, &options)) {
        return usage();
    }
    signal(SIGABRT, on_signal);
    signal(SIGALRM, on_signal);
    struct tally tally = {0};
    double start_s = now_s();
    size_t corpus = run_all(&tally, &options);
    sim_world_free(&world);
    if (tally.passed >= SEEDS_COUNT) {
        check_speed(&tally);
    }
    report(&tally, corpus, now_s() - start_s);
    return tally.failed > 0 ? 1 : 0;
}
