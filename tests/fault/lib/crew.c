/* SPDX-License-Identifier: Apache-2.0 */
/* Starting and ending workers; crew.h describes it from outside. */
#include "fault/lib/crew.h"

#include "fault/lib/pace.h"
#include "support/fail.h"
#include "support/resources.h"
#include "support/text.h"
#include "support/wait.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

enum {
    ARGS_MAX = 32,
    READY_MS = 20000,
    END_MS = 30000, /* a worker that is told to stop may have to wait for a lock first */
};

static void end_crew(void *object)
{
    struct crew *crew = object;
    munmap(crew->board, sizeof *crew->board);
    free(crew);
}

static uint64_t choose_seed(void)
{
    const char *given = getenv("PAWL_TEST_SEED");
    return given != NULL ? strtoull(given, NULL, 0) : (uint64_t)boottime_us();
}

struct crew *crew_make(void)
{
    struct crew *crew = support_alloc(sizeof *crew);
    snprintf(crew->path, sizeof crew->path, "%s/board", tempdir_make());
    const int fd = open(crew->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, sizeof *crew->board) != 0) {
        support_fail("%s: %s", crew->path, strerror(errno));
    }
    crew->board = mmap(NULL, sizeof *crew->board, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (crew->board == MAP_FAILED) {
        support_fail("mmap: %s", strerror(errno));
    }
    cleanup_add(end_crew, crew);
    crew->random = choose_seed();
    print_message("seed %" PRIu64 "\n", crew->random);
    return crew;
}

uint64_t crew_draw(struct crew *crew, uint64_t limit)
{
    return board_random(&crew->random) % limit;
}

/* ===== Hiring ===== */

struct board_plan *crew_plan(struct crew *crew, const char *url)
{
    if (crew->count == BOARD_WORKERS_MAX) {
        support_fail("too many workers");
    }
    struct board_plan *plan = &crew->board->workers[crew->count].plan;
    *plan = (struct board_plan){.name_count = 2,
        .callers = 1,
        .renew = true,
        .lease_ms = 1000,
        .wait_ms = 5000,
        .timeout_ms = 1000,
        .work_us = 2000,
        .seed = board_random(&crew->random)};
    snprintf(plan->url, sizeof plan->url, "%s", url);
    return plan;
}

static size_t start(struct crew *crew, const char *const wrapper[], const char *program)
{
    char index[16];
    const char *argv[ARGS_MAX] = {NULL};
    size_t count = 0;
    for (; wrapper != NULL && wrapper[count] != NULL && count < ARGS_MAX - 4; count++) {
        argv[count] = wrapper[count];
    }
    snprintf(index, sizeof index, "%zu", crew->count);
    argv[count++] = program;
    argv[count++] = crew->path;
    argv[count++] = index;
    crew->children[crew->count] = child_spawn(argv);
    return crew->count++;
}

size_t crew_start_by(struct crew *crew, const char *const wrapper[])
{
    return start(crew, wrapper, PAWL_TEST_BIN_DIR "/holder");
}

size_t crew_start_program(struct crew *crew, const char *program)
{
    char path[BOARD_TEXT_SIZE];
    snprintf(path, sizeof path, PAWL_TEST_BIN_DIR "/%s", program);
    return start(crew, NULL, path);
}

size_t crew_start(struct crew *crew)
{
    return crew_start_by(crew, NULL);
}

void crew_hire(struct crew *crew, const char *url, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        crew_plan(crew, url);
        crew_start(crew);
    }
}

bool crew_lives(const struct crew *crew, size_t index)
{
    return crew->killed_us[index] == 0;
}

/* ===== Waiting ===== */

static void fail_by_complaint(const struct crew *crew, size_t index, const char *what)
{
    const struct board_worker *worker = &crew->board->workers[index];
    const int code = child_wait(crew->children[index], 0);
    support_fail("worker %zu %s (%s %d): %s", index, what, code < 0 ? "alive" : "ended with", code,
        atomic_load(&worker->complained) != 0 ? worker->complaint : "it says nothing");
}

static void await_ready(struct crew *crew, size_t index)
{
    struct board_worker *worker = &crew->board->workers[index];
    const int64_t end_ms = boottime_ms() + READY_MS * PACE;
    while (atomic_load(&worker->stage) == BOARD_ABSENT) {
        if (boottime_ms() > end_ms || !child_is_running(crew->children[index])) {
            fail_by_complaint(crew, index, "does not begin");
        }
        nap_ms(1);
    }
}

void crew_await_ready(struct crew *crew)
{
    for (size_t i = 0; i < crew->count; i++) {
        if (crew_lives(crew, i)) {
            await_ready(crew, i);
        }
    }
}

void crew_await_progress(struct crew *crew, int64_t since_us, int64_t timeout_ms)
{
    const int64_t end_ms = boottime_ms() + timeout_ms;
    for (size_t i = 0; i < crew->count; i++) {
        const struct board_worker *worker = &crew->board->workers[i];
        while (crew_lives(crew, i) && atomic_load(&worker->stage) != BOARD_DONE &&
               atomic_load(&worker->acquired_us) < since_us) {
            if (boottime_ms() > end_ms || !child_is_running(crew->children[i])) {
                fail_by_complaint(crew, i, "got no lock any more");
            }
            nap_ms(1);
        }
    }
}

void crew_await_first(struct crew *crew)
{
    crew_await_ready(crew);
    crew_await_progress(crew, 1, READY_MS * PACE);
}

/* ===== Going ===== */

void crew_kill(struct crew *crew, size_t index)
{
    crew->killed_us[index] = boottime_us(); /* at this moment it surely lives */
    child_signal(crew->children[index], SIGKILL);
    if (child_wait(crew->children[index], END_MS) != 128 + SIGKILL) {
        support_fail("worker %zu had ended before it was killed", index);
    }
}

void crew_await_end(struct crew *crew, int64_t timeout_ms)
{
    const int64_t end_ms = boottime_ms() + timeout_ms;
    for (size_t i = 0; i < crew->count; i++) {
        if (crew_lives(crew, i)) {
            const int64_t left_ms = end_ms - boottime_ms();
            if (child_wait(crew->children[i], left_ms > 0 ? left_ms : 0) != 0 ||
                atomic_load(&crew->board->workers[i].complained) != 0) {
                fail_by_complaint(crew, i, "did not end well");
            }
        }
    }
}

void crew_finish(struct crew *crew)
{
    atomic_store(&crew->board->stop, 1);
    crew_await_end(crew, END_MS * PACE);
}

/* ===== Sums ===== */

uint64_t crew_count_acquires(const struct crew *crew, pawl_status status)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < crew->count; i++) {
        sum += atomic_load(&crew->board->workers[i].acquires[status]);
    }
    return sum;
}

uint64_t crew_acquired(const struct crew *crew)
{
    return crew_count_acquires(crew, PAWL_OK);
}

uint64_t crew_count_releases(const struct crew *crew, pawl_status status)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < crew->count; i++) {
        sum += atomic_load(&crew->board->workers[i].releases[status]);
    }
    return sum;
}

uint64_t crew_count_told(const struct crew *crew)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < crew->count; i++) {
        sum += atomic_load(&crew->board->workers[i].told);
    }
    return sum;
}
