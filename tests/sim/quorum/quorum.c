/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the simulator of quorums (qsim.h) over many seeds, each of them twice, in a child of its
 * own: both runs must be alike to the last switch of threads. A failure prints its seed and how to
 * see it again.
 *
 *   sim-quorum                           those that found something once, 200 more, the scenes, and
 *                                        then some with the guard off, of which one has to find two
 *                                        holders
 *   sim-quorum --seeds 1000..2000
 *   sim-quorum --seed 17 --verbose       one, step by step
 *   sim-quorum --guard off               no restart guard: what it is there for
 *   sim-quorum --mutant-hunt SECONDS     until something fails */
#include "qsim.h"

#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#if defined(__SANITIZE_THREAD__)
#define SEEDS_COUNT 15
#define UNGUARDED_MOST 0 /* seeds until a violation has to be found; 0: do not look for one */
#elif defined(__SANITIZE_ADDRESS__)
#define SEEDS_COUNT 60
#define UNGUARDED_MOST 0
#else
#define SEEDS_COUNT 200
#define UNGUARDED_MOST 300
#endif
#define TAKES 5 /* of each scene */
#define HANG_S 120
#define HUNT_HANG_S 5
#define FAILURES_SHOWN 20
#define KEPT_MOST 100

struct options {
    uint64_t first;
    uint64_t last;
    bool by_default;
    bool with_kept; /* seeds, first */
    bool verbose;
    bool unguarded;
    const char *only;
    double hunt_s; /* > 0: stop at the first failure, or after so long */
};

struct tally {
    uint64_t passed;
    uint64_t failed;
    struct qs_result sum;
};

static struct qs_result *shared; /* with the child */

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* ===== One run ===== */

/* In the child. */
static void run(uint64_t seed, const struct options *options, bool verbose)
{
    qs.result = shared;
    qs.verbose = verbose;
    qs.now_us = 1000000;
    alarm(options->hunt_s > 0 ? HUNT_HANG_S : HANG_S);
    qs_plan_make(&qs.plan, seed);
    qs.plan.guard = options->unguarded ? PAWL_GUARD_OFF : PAWL_GUARD_ENFORCE;
    if (options->unguarded) {
        qs.plan.fault_kinds |= qs.plan.calm ? 0 : 1U << QS_FORGET;
    }
    qs_memory_begin();
    qs_begin();
    qs_nodes_begin();
    qs_users_run();
    qs_check_end();
    qs_nodes_end();
    qs_check_memory();
    qs.result->virtual_us = qs.now_us;
    qs.result->ended = true;
}

static void run_in_child(uint64_t seed, const struct options *options, bool verbose)
{
    int status = 0;
    fflush(stdout);
    memset(shared, 0, sizeof *shared);
    const pid_t child = fork();
    if (child == 0) {
        run(seed, options, verbose);
        exit(0);
    }
    if (child < 0 || waitpid(child, &status, 0) != child) {
        perror("sim-quorum");
        exit(2);
    }
    const bool hung = WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM;
    if (shared->failure[0] == '\0' && (status != 0 || !shared->ended)) {
        snprintf(shared->failure, sizeof shared->failure, "%s with status %x",
            hung ? "HANG the run does not end," : "CRASH it ended", (unsigned)status);
    }
}

static void add(struct qs_result *sum, const struct qs_result *one)
{
    sum->virtual_us += one->virtual_us;
    sum->switches += one->switches;
    sum->grants += one->grants;
    sum->busy += one->busy;
    sum->losses += one->losses;
    sum->overlaps += one->overlaps;
    sum->canceled += one->canceled;
    sum->warnings += one->warnings;
    sum->refused += one->refused;
    for (int i = 0; i < QS_FAULT_COUNT; i++) {
        sum->faults[i] += one->faults[i];
    }
}

/* A failure that is not looked for counts as none. */
static bool counts(const struct options *options, const char *failure)
{
    return options->only == NULL || strncmp(failure, options->only, strlen(options->only)) == 0;
}

static bool run_seed(struct tally *tally, uint64_t seed, const struct options *options)
{
    char failure[QS_SENTENCE];
    run_in_child(seed, options, options->verbose);
    add(&tally->sum, shared);
    const uint64_t hash = shared->hash;
    memcpy(failure, shared->failure, sizeof failure);
    if (failure[0] == '\0' && options->hunt_s <= 0) {
        run_in_child(seed, options, false);
        add(&tally->sum, shared);
        memcpy(failure, shared->failure, sizeof failure);
        if (shared->hash != hash) {
            snprintf(failure, sizeof failure, "REPLAY the second run was not like the first");
        }
    }
    if (failure[0] == '\0' || !counts(options, failure)) {
        tally->passed++;
        return true;
    }
    tally->failed++;
    if (tally->failed <= FAILURES_SHOWN) {
        printf("SEED=%llu %s\n", (unsigned long long)seed, failure);
        printf("    see it again: sim-quorum%s --seed %llu --verbose\n",
            options->unguarded ? " --guard off" : "", (unsigned long long)seed);
    }
    return false;
}

/* ===== Many ===== */

static double seconds_of(int who)
{
    struct rusage usage;
    getrusage(who, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

/* A hunt ends by the time that the processor spent: others may be busy on this machine. */
static bool go_on(const struct tally *tally, const struct options *options)
{
    const double spent_s = seconds_of(RUSAGE_SELF) + seconds_of(RUSAGE_CHILDREN);
    return options->hunt_s <= 0 || (tally->failed == 0 && spent_s < options->hunt_s);
}

/* Those that found something once: a number at the beginning of each line, then what it was. The
 * file is closed before any child is made, which would share the place in it. */
static size_t read_kept(uint64_t seeds[KEPT_MOST])
{
    char line[500];
    size_t count = 0;
    FILE *file = fopen(PAWL_TEST_SOURCE_DIR "/sim/quorum/seeds.txt", "r");
    while (file != NULL && count < KEPT_MOST && fgets(line, sizeof line, file) != NULL) {
        char *end = NULL;
        const uint64_t seed = strtoull(line, &end, 10);
        if (end != line) {
            seeds[count++] = seed;
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    return count;
}

static void run_all(struct tally *tally, const struct options *options)
{
    uint64_t kept[KEPT_MOST];
    const size_t count = options->with_kept ? read_kept(kept) : 0;
    for (size_t i = 0; i < count && go_on(tally, options); i++) {
        run_seed(tally, kept[i], options);
    }
    for (uint64_t seed = options->first; seed <= options->last && go_on(tally, options); seed++) {
        run_seed(tally, seed, options);
    }
    for (uint64_t i = 0; i < QS_SCENES * TAKES && options->by_default; i++) {
        run_seed(tally, QS_SCENES_FROM + i / TAKES * QS_SCENES_EACH + i % TAKES, options);
    }
}

/* What the guard is for: without it two hold the lock at once, sooner or later. */
static bool find_unguarded(void)
{
    const struct options options = {.unguarded = true};
    for (uint64_t seed = 1; seed <= UNGUARDED_MOST; seed++) {
        run_in_child(seed, &options, false);
        if (strncmp(shared->failure, "EXCLUSION", 9) == 0) {
            printf("without the restart guard, as it should be: seed %llu: %s\n",
                (unsigned long long)seed, shared->failure);
            return true;
        }
    }
    printf("GUARD two holders at once were not found without it\n");
    return UNGUARDED_MOST == 0;
}

static void report(const struct tally *tally, double wall_s)
{
    const struct qs_result *sum = &tally->sum;
    printf("faults:");
    for (int i = 0; i < QS_FAULT_COUNT; i++) {
        printf(
            "%s %s %llu", i > 0 ? "," : "", qs_fault_names[i], (unsigned long long)sum->faults[i]);
    }
    printf("\n%llu grants, %llu times none, %llu losses, %llu overlaps after deletions\n",
        (unsigned long long)sum->grants, (unsigned long long)sum->busy,
        (unsigned long long)sum->losses, (unsigned long long)sum->overlaps);
    printf("%llu waits canceled, %llu warnings, %llu times no memory\n",
        (unsigned long long)sum->canceled, (unsigned long long)sum->warnings,
        (unsigned long long)sum->refused);
    printf("%.1f hours of virtual time, %llu switches in %.1f s\n", (double)sum->virtual_us / 3.6e9,
        (unsigned long long)sum->switches, wall_s);
    printf("%llu passed, %llu failed\n", (unsigned long long)tally->passed,
        (unsigned long long)tally->failed);
}

/* ===== The command line ===== */

static int usage(void)
{
    fprintf(stderr, "usage: sim-quorum [--seed N [--verbose] | --seeds A..B | --mutant-hunt "
                    "SECONDS]\n                  [--guard on|off] [--only ORACLE]\n");
    return 64;
}

static bool parse_one(const char *name, const char *value, struct options *options)
{
    char *end = NULL;
    if (strcmp(name, "--seed") == 0) {
        options->first = options->last = strtoull(value, &end, 10);
        options->with_kept = false;
    } else if (strcmp(name, "--seeds") == 0) {
        options->with_kept = false;
        options->first = strtoull(value, &end, 10);
        options->last = strncmp(end, "..", 2) == 0 ? strtoull(end + 2, &end, 10) : 0;
    } else if (strcmp(name, "--mutant-hunt") == 0) {
        options->hunt_s = strtod(value, &end);
        options->last = UINT64_MAX - 1;
    } else if (strcmp(name, "--guard") == 0) {
        options->unguarded = strcmp(value, "off") == 0;
    } else if (strcmp(name, "--only") == 0) {
        options->only = value;
    } else {
        return false;
    }
    options->by_default = false;
    return value[0] != '\0' && (end == NULL || *end == '\0');
}

static bool parse(int argc, char **argv, struct options *options)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--verbose") == 0) {
            options->verbose = true;
        } else if (!parse_one(argv[i], i + 1 < argc ? argv[i + 1] : "", options)) {
            return false;
        } else {
            i++;
        }
    }
    return options->last >= options->first;
}

/* One thread runs at a time, and the next one is quicker on the same processor. */
static void stay_on_one_processor(void)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET((unsigned)sched_getcpu(), &one);
    sched_setaffinity(0, sizeof one, &one);
}

int main(int argc, char **argv)
{
    struct options options = {
        .first = 1, .last = SEEDS_COUNT, .by_default = true, .with_kept = true};
    struct tally tally = {0};
    if (!parse(argc, argv, &options)) {
        return usage();
    }
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
        return 2;
    }
    stay_on_one_processor();
    const double start_s = now_s();
    run_all(&tally, &options);
    const bool found = !options.by_default || find_unguarded();
    report(&tally, now_s() - start_s);
    return tally.failed > 0 || !found ? 1 : 0;
}
