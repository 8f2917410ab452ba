/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the cases as cmocka tests and keeps the books: which flag each case needed, and how it
 * ended.
 *
 * cmocka leaves a failed test by longjmp(), so a case that reaches its end has passed. */
#include "conformance/lib/suite.h"

#include "conformance/lib/peer.h"
#include "conformance/lib/tools.h"
#include "support/text.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define NAMES_MAX 8      /* fresh names that one case may ask for at a time */
#define SLOW_US 1500000  /* a case that takes longer is named at the end */
#define DESCRIPTORS 4096 /* a thousand locks, and some room */
#define CASES_MAX 300

enum outcome { OUTCOME_FAILED, OUTCOME_PASSED, OUTCOME_LACKING };

struct job {
    const struct suite_case *what;
    struct suite suite;
    enum outcome outcome;
    int64_t took_us;
};

/* Whether a request for what is missing is refused, or the engine just works without it. */
struct flag_words {
    const char *title;
    const char *lacking;
};

static const struct flag_words words[FLAG_COUNT] = {
    [FLAG_MUTEX] = {"mutex", NULL},
    [FLAG_WAIT] = {"try, timed, forever, cancel", NULL},
    [FLAG_REENTRY] = {"re-entry", NULL},
    [FLAG_LEASE] = {"renewed lease, extension, longest hold", NULL},
    [FLAG_LOST] = {"lost report", NULL},
    [FLAG_TOKEN] = {"token", NULL},
    [FLAG_INSPECT] = {"inspect", NULL},
    [FLAG_BREAK] = {"break", NULL},
    [FLAG_FORK] = {"fork", NULL},
    [FLAG_CLOSE] = {"close", NULL},
    [FLAG_ASYNC] = {"asynchronous calls, dispatch", NULL},
    [FLAG_ARGUMENTS] = {"arguments, options, names", NULL},
    [FLAG_MULTI] = {"multi-lock", NULL},
    [FLAG_PROCESSES] = {"shared by processes", "does without"},
    [FLAG_EXPIRES] = {"lease enforced by the backend", "does without"},
    [FLAG_PASS] = {"pass on", "does without"},
    [FLAG_PUSH] = {"push wake-up", "does without"},
    [FLAG_FAIR] = {"fair", "refused"},
    [FLAG_READ_WRITE] = {"read/write", "refused"},
    [FLAG_SPIN] = {"spin", "refused"},
    [FLAG_PLAIN] = {"plain", "refused"},
    [FLAG_HANDOFF] = {"hand-off", "refused"},
    [FLAG_SEMAPHORE] = {"semaphore", "refused"},
    [FLAG_LATCH] = {"latch", "refused"},
    [FLAG_REPLICAS] = {"replica acknowledgement", "refused"},
};

static const struct suite_group *const groups[] = {
    &suite_mutex,
    &suite_crowd,
    &suite_wait,
    &suite_cancel,
    &suite_reentry,
    &suite_lease,
    &suite_lost,
    &suite_token,
    &suite_inspect,
    &suite_break,
    &suite_async,
    &suite_callback,
    &suite_dispatch,
    &suite_close,
    &suite_fork,
    &suite_process,
    &suite_options,
    &suite_names,
    &suite_random,
    &suite_kinds,
    &suite_multi,
    &suite_multi_ends,
    &suite_fair,
    &suite_shared,
    &suite_spin,
    &suite_handoff,
};

static struct job jobs[CASES_MAX];
static size_t job_count;

/* ===== For cases ===== */

const char *suite_name(const struct suite *suite, const char *ending)
{
    static char names[NAMES_MAX][200];
    static unsigned next;
    char *name = names[next++ % NAMES_MAX];
    snprintf(name, sizeof names[0], "%s-%s", suite->name, ending);
    return name;
}

void suite_late(const char *what, int64_t late_us)
{
    printf("late: %s: %lld.%03lld ms\n", what, (long long)(late_us / 1000),
        (long long)(llabs(late_us) % 1000));
}

/* ===== Running ===== */

static bool engine_has(const struct suite_engine *engine, enum suite_flag flag)
{
    return flag < FLAG_OPTIONAL || engine->has[flag];
}

static void run_case(void **state)
{
    struct job *job = *state;
    const bool has = engine_has(job->suite.engine, job->what->flag);
    const int64_t start_us = boottime_us();
    if (has) {
        job->what->run(&job->suite);
    } else {
        assert_non_null(job->what->lacking);
        job->what->lacking(&job->suite);
    }
    job->took_us = boottime_us() - start_us;
    job->outcome = has ? OUTCOME_PASSED : OUTCOME_LACKING;
}

static void collect(const struct suite_engine *engine, const char *url, const char *pattern)
{
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++) {
        for (size_t j = 0; j < groups[i]->count; j++) {
            const struct suite_case *what = &groups[i]->cases[j];
            if (pattern != NULL && fnmatch(pattern, what->name, 0) != 0) {
                continue;
            }
            assert_true(job_count < CASES_MAX);
            jobs[job_count++] = (struct job){what, {engine, url, what->name}, OUTCOME_FAILED, 0};
        }
    }
}

static int run_jobs(const char *title)
{
    struct CMUnitTest *tests = support_alloc(CASES_MAX * sizeof *tests);
    for (size_t i = 0; i < job_count; i++) {
        tests[i] = (struct CMUnitTest){
            jobs[i].what->name, run_case, cleanup_setup, cleanup_teardown, &jobs[i]};
    }
    const int failed = _cmocka_run_group_tests(title, tests, job_count, NULL, NULL);
    free(tests);
    return failed;
}

/* ===== The table ===== */

static void add_line(struct text *table, enum suite_flag flag)
{
    size_t counts[3] = {0};
    for (size_t i = 0; i < job_count; i++) {
        if (jobs[i].what->flag == flag) {
            counts[jobs[i].outcome]++;
        }
    }
    const size_t all = counts[OUTCOME_FAILED] + counts[OUTCOME_PASSED] + counts[OUTCOME_LACKING];
    const char *result = counts[OUTCOME_FAILED] > 0    ? "FAILED"
                         : counts[OUTCOME_LACKING] > 0 ? words[flag].lacking
                                                       : "passed";
    text_addf(table, "| %s | %s | %zu |\n", words[flag].title, result, all);
}

static struct text make_table(const struct suite_engine *engine)
{
    struct text table = {0};
    text_addf(&table, "| flag | %s | cases |\n|---|---|---|\n", engine->name);
    for (int flag = 0; flag < FLAG_COUNT; flag++) {
        add_line(&table, (enum suite_flag)flag);
    }
    return table;
}

static bool save_table(const struct suite_engine *engine, const struct text *table)
{
    struct text path = {0};
    text_addf(&path, "%s/conformance-%s.md", PAWL_TEST_BIN_DIR, engine->name);
    FILE *file = fopen(path.data, "we");
    bool saved = file != NULL && fwrite(table->data, 1, table->size, file) == table->size;
    saved = file != NULL && fclose(file) == 0 && saved;
    if (!saved) {
        fprintf(stderr, "%s: %s\n", path.data, strerror(errno));
    }
    text_free(&path);
    return saved;
}

static void print_slow_cases(void)
{
    int64_t total_us = 0;
    for (size_t i = 0; i < job_count; i++) {
        total_us += jobs[i].took_us;
        if (jobs[i].took_us > SLOW_US) {
            printf("slow: %s: %lld ms\n", jobs[i].what->name, (long long)(jobs[i].took_us / 1000));
        }
    }
    printf("%zu cases in %lld ms\n", job_count, (long long)(total_us / 1000));
}

static void raise_descriptor_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < DESCRIPTORS) {
        limit.rlim_cur = limit.rlim_max < DESCRIPTORS ? limit.rlim_max : DESCRIPTORS;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

int suite_main(int argc, char *argv[], const struct suite_engine *engine)
{
    child_dispatch(argc, argv, peer_roles, peer_role_count);
    setvbuf(stdout, NULL, _IOLBF, 0);
    raise_descriptor_limit();
    collect(engine, engine->begin(), argc > 1 ? argv[1] : NULL);
    if (job_count == 0) {
        fprintf(stderr, "no case is called %s\n", argv[1]);
        return 1;
    }
    const int failed = run_jobs(engine->name);
    print_slow_cases();
    bool saved = true;
    if (argc < 2) {
        struct text table = make_table(engine);
        printf("\n%s\n", table.data);
        saved = save_table(engine, &table);
        text_free(&table);
    }
    return failed == 0 && saved ? 0 : 1;
}
