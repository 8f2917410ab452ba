/* SPDX-License-Identifier: Apache-2.0 */
/* Campaigns: rounds one after the other until there was enough of it. The first violation ends a
 * campaign; the logs of that round are kept, and the seed is printed. */
#include "torture/lib/torture.h"

#include "fault/lib/pace.h"
#include "support/fail.h"
#include "support/resources.h"
#include "support/wait.h"
#include "torture/lib/worker.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include <cmocka.h>

enum {
    DEFAULT_S = 30,
    TALK_MS = 2000,
    WORKERS = 4,
    THREADS = 4,
    NAMES = 6, /* on Redis: as many as there are kinds */
    FILE_NAMES = 4,
    LEASE_MS = 400,
};

static struct campaign campaign;

/* ===== What is known about this run ===== */

/* The first line that a program prints, or "unknown". */
static void ask_program(const char *const argv[], char *out, size_t size)
{
    char *path = find_program(argv[0]);
    snprintf(out, size, "unknown");
    if (path == NULL) {
        return;
    }
    free(path);
    struct child *child = child_spawn(argv);
    char *line = child_read_line(child, 5000);
    if (line != NULL && child_wait(child, 5000) == 0) {
        snprintf(out, size, "%s", line);
    }
    free(line);
    child_free(child);
}

static void describe(void)
{
    static const char *const commit[] = {
        "git", "-C", PAWL_TEST_SOURCE_DIR, "describe", "--always", "--dirty", NULL};
    ask_program(commit, campaign.commit, sizeof campaign.commit);
    const char *given = getenv("PAWL_COMMIT");
    if (given != NULL && given[0] != '\0') {
        snprintf(campaign.commit, sizeof campaign.commit, "%s", given);
    }
    snprintf(campaign.server, sizeof campaign.server, "local files");
    if (campaign.engine == TORTURE_REDIS) {
        char line[200];
        static const char *const version[] = {"redis-server", "--version", NULL};
        ask_program(version, line, sizeof line);
        const char *number = strstr(line, "v=");
        snprintf(campaign.server, sizeof campaign.server, "Redis %.*s",
            number != NULL ? (int)strcspn(number + 2, " ") : 7,
            number != NULL ? number + 2 : "unknown");
    }
}

/* ===== One round ===== */

static void make_directory(const char *path)
{
    if (mkdir(path, 0700) != 0 && errno != EEXIST) {
        support_fail("%s: %s", path, strerror(errno));
    }
}

static void take_round(const struct round *round)
{
    for (unsigned i = 0; i < round->worker_count; i++) {
        for (unsigned j = 0; j < ARENA_STATUS_MAX; j++) {
            campaign.acquires[j] += atomic_load(&round->arena->slots[i].acquires[j]);
            campaign.releases[j] += atomic_load(&round->arena->slots[i].releases[j]);
        }
    }
    for (size_t i = 0; i < KINDS_MAX; i++) {
        campaign.kind_counts[i] += round->kind_counts[i];
    }
    campaign.acquired += round_acquired(round);
    campaign.themed[round->arena->theme] += round_acquired(round);
    campaign.several += atomic_load(&round->arena->several_acquired);
    campaign.latches_counted += atomic_load(&round->arena->latches_counted);
    campaign.latches_opened += atomic_load(&round->arena->latches_opened);
    campaign.latches_checked += atomic_load(&round->arena->latches_checked);
    campaign.disk_was_full = campaign.disk_was_full || round->small_disk;
    verdict_add(&campaign.verdict, &round->verdict);
    campaign.rounds++;
}

static void talk(const struct round *round, int64_t began_ms, uint64_t faults_before)
{
    const int64_t passed_ms = boottime_ms() - began_ms;
    const uint64_t acquired = campaign.acquired + round_acquired(round);
    printf("%6" PRId64 " s  round %u  %" PRIu64 " acquisitions (%" PRIu64 "/s)  %" PRIu64
           " faults  %" PRIu64 " violations\n",
        passed_ms / 1000, campaign.rounds + 1, acquired,
        acquired * 1000 / (uint64_t)(passed_ms > 0 ? passed_ms : 1),
        faults_before + round_faults(round), verdict_violations(&campaign.verdict));
    fflush(stdout);
}

static uint64_t sum_of_faults(void)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < KINDS_MAX; i++) {
        sum += campaign.kind_counts[i];
    }
    return sum;
}

static void watch_round(struct round *round, int64_t began_ms)
{
    const uint64_t faults_before = sum_of_faults();
    const int64_t end_ms = boottime_ms() + campaign.round_seconds * 1000;
    int64_t talk_ms = boottime_ms() + TALK_MS;
    while (boottime_ms() < end_ms && round_step(round)) {
        if (campaign.talks && boottime_ms() >= talk_ms) {
            talk(round, began_ms, faults_before);
            talk_ms += TALK_MS;
        }
    }
}

static unsigned theme_count(void)
{
    unsigned count = 0;
    for (unsigned i = 0; i < THEME_COUNT; i++) {
        count += campaign.themes[i];
    }
    return count;
}

/* The one whose turn it is. */
static enum theme next_theme(void)
{
    unsigned turn = campaign.rounds % theme_count();
    unsigned theme = 0;
    while (!campaign.themes[theme] || turn-- > 0) {
        theme++;
    }
    return (enum theme)theme;
}

static void run_round(int64_t began_ms)
{
    static struct round round; /* too large for a stack */
    char directory[ARENA_TEXT_SIZE];
    const uint64_t seed = campaign.seed + campaign.rounds;
    snprintf(directory, sizeof directory, "%s/%s-%" PRIu64, campaign.directory,
        campaign.engine == TORTURE_REDIS ? "redis" : "file", seed);
    remove_tree(directory);
    make_directory(directory);
    const struct round_plan plan = {.engine = campaign.engine,
        .theme = next_theme(),
        .seed = seed,
        .directory = directory,
        .workers = campaign.workers,
        .threads = campaign.threads,
        .names = campaign.names,
        .lease_ms = campaign.lease_ms,
        .keep = campaign.keep};
    const size_t mark = cleanup_mark();
    round_begin(&round, &plan);
    watch_round(&round, began_ms);
    round_end(&round);
    take_round(&round);
    cleanup_to(mark);
    if (verdict_violations(&round.verdict) > 0 || campaign.keep) {
        snprintf(campaign.kept, sizeof campaign.kept, "%s", directory);
    } else {
        remove_tree(directory);
    }
}

/* ===== All rounds ===== */

static bool is_enough(int64_t began_ms)
{
    return campaign.rounds >= campaign.rounds_least && campaign.acquired >= campaign.acquisitions &&
           boottime_ms() - began_ms >= campaign.seconds * 1000;
}

static void run_campaign(void **state)
{
    (void)state;
    const int64_t began_ms = boottime_ms();
    campaign.began_s = (int64_t)(wall_clock_us() / 1000000);
    describe();
    printf("seed %" PRIu64 ", commit %s, %s\n", campaign.seed, campaign.commit, campaign.server);
    fflush(stdout);
    make_directory(campaign.directory);
    do {
        run_round(began_ms);
    } while (!is_enough(began_ms) && verdict_violations(&campaign.verdict) == 0);
    campaign.took_ms = boottime_ms() - began_ms;
    record_print(&campaign);
    record_write(&campaign);
    if (verdict_violations(&campaign.verdict) > 0) {
        support_fail("seed %" PRIu64 " of the %s engine; the logs are in %s",
            campaign.seed + campaign.rounds - 1,
            campaign.engine == TORTURE_REDIS ? "redis" : "file", campaign.kept);
    }
}

/* ===== Arguments ===== */

static void print_usage(FILE *out, const char *program)
{
    fprintf(out,
        "usage: %s [--acquisitions N] [--seconds N] [--round SECONDS] [--seed N]\n"
        "       [--workers N] [--threads N] [--names N] [--lease MS] [--directory DIR] [--keep]\n"
        "       [--theme locks|counts|quorum|all]\n"
        "Without arguments: %d seconds in rounds about each theme, with a seed from the clock.\n",
        program, DEFAULT_S);
}

static uint64_t number_of(const char *text, uint64_t least, uint64_t most, const char *program)
{
    char *end = NULL;
    errno = 0;
    const unsigned long long number = strtoull(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || number < least || number > most) {
        fprintf(stderr, "%s: '%s' is no number from %" PRIu64 " to %" PRIu64 "\n", program, text,
            least, most);
        exit(64);
    }
    return number;
}

/* Files know locks alone. */
static bool take_theme(const char *text)
{
    static const char *const names[THEME_COUNT] = {
        [THEME_LOCKS] = "locks", [THEME_COUNTS] = "counts", [THEME_QUORUM] = "quorum"};
    bool any = false;
    for (unsigned i = 0; i < THEME_COUNT; i++) {
        campaign.themes[i] = (strcmp(text, names[i]) == 0 || strcmp(text, "all") == 0) &&
                             (i == THEME_LOCKS || campaign.engine == TORTURE_REDIS);
        any = any || campaign.themes[i];
    }
    return any;
}

static bool take_option(int option, const char *value, const char *program)
{
    switch (option) {
    case 'a':
        campaign.acquisitions = number_of(value, 1, UINT64_MAX, program);
        break;
    case 's':
        campaign.seconds = (int64_t)number_of(value, 1, 1000000, program);
        break;
    case 'r':
        campaign.round_seconds = (int64_t)number_of(value, 1, 3600, program);
        break;
    case 'S':
        campaign.seed = number_of(value, 0, UINT64_MAX, program);
        break;
    case 'w':
        campaign.workers = (unsigned)number_of(value, 1, ARENA_SLOTS_MAX, program);
        break;
    case 't':
        campaign.threads = (unsigned)number_of(value, 1, ARENA_THREADS_MAX, program);
        break;
    case 'n':
        campaign.names = (unsigned)number_of(value, 1, ARENA_NAMES_MAX, program);
        break;
    case 'l':
        campaign.lease_ms = (int64_t)number_of(value, 50, 60000, program);
        break;
    case 'd':
        campaign.directory = value;
        break;
    case 'k':
        campaign.keep = true;
        break;
    case 'T':
        return take_theme(value);
    default:
        return false;
    }
    return true;
}

static void read_arguments(int argc, char *argv[])
{
    static const struct option options[] = {{"acquisitions", required_argument, NULL, 'a'},
        {"seconds", required_argument, NULL, 's'}, {"round", required_argument, NULL, 'r'},
        {"seed", required_argument, NULL, 'S'}, {"workers", required_argument, NULL, 'w'},
        {"threads", required_argument, NULL, 't'}, {"names", required_argument, NULL, 'n'},
        {"lease", required_argument, NULL, 'l'}, {"directory", required_argument, NULL, 'd'},
        {"theme", required_argument, NULL, 'T'}, {"keep", no_argument, NULL, 'k'},
        {"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}};
    campaign.talks = argc > 1;
    campaign.rounds_least = argc > 1 ? 1 : campaign.rounds_least;
    for (;;) {
        const int option = getopt_long(argc, argv, "", options, NULL);
        if (option == -1) {
            break;
        }
        if (!take_option(option, optarg, argv[0])) {
            print_usage(option == 'h' ? stdout : stderr, argv[0]);
            exit(option == 'h' ? 0 : 64);
        }
    }
    if (optind < argc) {
        print_usage(stderr, argv[0]);
        exit(64);
    }
}

int torture_main(int argc, char *argv[], enum torture_engine engine)
{
    static const struct child_role roles[] = {{WORKER_ROLE, worker_run}};
    child_dispatch(argc, argv, roles, 1);
    const char *given = getenv("PAWL_TEST_SEED");
    campaign = (struct campaign){.engine = engine,
        .seed = given != NULL ? strtoull(given, NULL, 0) : wall_clock_us() / 1000,
        .round_seconds = engine == TORTURE_REDIS ? DEFAULT_S / THEME_COUNT : DEFAULT_S,
        .rounds_least = engine == TORTURE_REDIS ? THEME_COUNT : 1,
        .workers = WORKERS,
        .threads = THREADS,
        .names = engine == TORTURE_REDIS ? NAMES : FILE_NAMES,
        .lease_ms = LEASE_MS * PACE,
        .directory = PAWL_TEST_BIN_DIR "/torture"};
    take_theme("all");
    read_arguments(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(run_campaign, cleanup_setup, cleanup_teardown)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
