/* SPDX-License-Identifier: Apache-2.0 */
/* A worker: some threads that acquire, work and release, in a loop, until the arena says stop or
 * somebody kills them. What they do is drawn from a seed, and depends on what the round is about.
 * Whatever must never happen, whoever kills or stops us, is a complaint, and ends the worker. */
#include "torture/lib/worker.h"

#include "fault/lib/pace.h"
#include "pawl.h"
#include "support/resources.h"
#include "support/wait.h"
#include "torture/lib/worker_parts.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum {
    LATE_US = 20000, /* what is worth a line in the log */
    PHASE_MS = 2000,
    REST_US_MAX = 20000,
    OPEN_PAUSE_MS = 20, /* the server may be down when a worker begins */
    NEWS_MS = 5000,     /* for on_lost calls that are due at the end; a bound, not a promise */
    WARM_COUNT = 500,   /* holds */
    THREADS_MS = 1000,
};

struct arena *arena;
struct arena_slot *self;
pawl_client *clients[ARENA_SERVERS_MAX];
struct caller callers[ARENA_THREADS_MAX];

static int log_fd;

void complain(const char *format, ...)
{
    if (atomic_fetch_add(&self->complained, 1) == 0) {
        va_list args;
        va_start(args, format);
        vsnprintf(self->complaint, sizeof self->complaint, format, args);
        va_end(args);
    }
}

void write_down(const struct torture_record *record)
{
    if (write(log_fd, record, sizeof *record) != (ssize_t)sizeof *record) {
        complain("the log cannot be written");
    }
}

void pass_us(int64_t duration_us)
{
    const struct timespec pause = {duration_us / 1000000, duration_us % 1000000 * 1000};
    nanosleep(&pause, NULL);
}

bool goes_on(void)
{
    return atomic_load(&arena->stop) == 0 && atomic_load(&self->leave) == 0 &&
           atomic_load(&self->complained) == 0;
}

/* Statuses that no fault of a backend excuses. */
bool is_wrong(pawl_status status)
{
    return status != PAWL_OK && status != PAWL_BUSY && status != PAWL_LOST &&
           status != PAWL_UNAVAILABLE && status != PAWL_REFUSED;
}

void check_status(pawl_status status, const char *call)
{
    if (is_wrong(status)) {
        complain("%s answered %s: %s", call, pawl_status_string(status), pawl_last_error());
    }
}

void check_limit(int64_t began_us, int64_t limit_ms, bool is_release)
{
    const int64_t ended_us = boottime_us();
    if (ended_us - began_us > limit_ms * 1000 + LATE_US) {
        const struct torture_record record = {.step = RECORD_LATE,
            .at_us = began_us,
            .until_us = ended_us,
            .stored_us = limit_ms * 1000,
            .is_release = is_release};
        write_down(&record);
    }
}

int64_t draw_wait_ms(uint64_t *random)
{
    const uint64_t chance = draw_below(random, 4);
    return chance == 0 ? PAWL_TRY : chance == 1 ? PAWL_FOREVER : draw_between(random, 50, 2000);
}

void note_progress(const struct caller *caller, int64_t at_us)
{
    atomic_store(&self->thread_acquired_us[caller->index], at_us);
}

void note_memory(void)
{
    if (atomic_fetch_add(&self->acquired, 1) + 1 == WARM_COUNT) {
        atomic_store(&self->resident_warm, resident_size());
    }
}

/* ===== Threads ===== */

/* Every other while there is no crowd: one thread of one worker goes on as before, and meets the
 * others only now and then. */
static void rest(struct caller *caller)
{
    const uint64_t phase = (uint64_t)boottime_ms() / PHASE_MS;
    const bool alone = self == &arena->slots[phase / 2 % arena->workers] && caller->index == 0;
    if (phase % 2 == 1 && !alone) {
        pass_us(draw_between(&caller->random, 0, REST_US_MAX));
    }
}

static void *call_on(void *arg)
{
    struct caller *caller = arg;
    while (goes_on()) {
        if (arena->theme == THEME_COUNTS) {
            visit_count(caller);
        } else {
            visit_lock(caller);
        }
        rest(caller);
    }
    return NULL;
}

static void run_callers(unsigned generation)
{
    unsigned count = 0;
    for (; count < arena->threads; count++) {
        struct caller *caller = &callers[count];
        caller->index = count;
        caller->random = self->seed + generation * UINT64_C(0x5851f42d4c957f2d) + count * 77;
        if (pthread_create(&caller->thread, NULL, call_on, caller) != 0) {
            complain("no thread can be started");
            break;
        }
    }
    for (unsigned i = 0; i < count; i++) {
        pthread_join(callers[i].thread, NULL);
    }
}

/* ===== Beginning and end ===== */

/* The URLs of the slot, a client for each. */
static bool open_clients(void)
{
    pawl_client_options options = PAWL_CLIENT_OPTIONS_INIT;
    char urls[ARENA_TEXT_SIZE];
    char *rest_of = NULL;
    unsigned count = 0;
    options.timeout_ms = arena->timeout_ms;
    options.connect_timeout_ms = arena->timeout_ms;
    options.give_up_ms = arena->give_up_ms;
    options.lazy = arena->theme == THEME_QUORUM; /* one of the servers may be down */
    snprintf(urls, sizeof urls, "%s", self->url);
    const char *url = strtok_r(urls, " ", &rest_of);
    while (goes_on() && url != NULL) {
        const pawl_status status = pawl_client_open(url, &options, &clients[count]);
        check_status(status, "open");
        if (status == PAWL_OK) {
            url = ++count < ARENA_SERVERS_MAX ? strtok_r(NULL, " ", &rest_of) : NULL;
        } else {
            nap_ms(OPEN_PAUSE_MS);
        }
    }
    return goes_on();
}

static bool open_all(void)
{
    if (arena->unlocked) {
        return true;
    }
    return open_clients() && (arena->theme == THEME_COUNTS ? counts_open() : locks_open());
}

/* Who closes a lock at once after its loss is not called any more, so wait for that first. */
static void await_news(uint64_t told_before, uint64_t lost_before)
{
    const uint64_t lost = atomic_load(&self->releases[PAWL_LOST]) - lost_before;
    const int64_t end_ms = boottime_ms() + NEWS_MS;
    while (atomic_load(&self->told) - told_before < lost && boottime_ms() < end_ms) {
        nap_ms(1);
    }
}

static void close_all(void)
{
    if (arena->theme == THEME_COUNTS) {
        counts_close();
    } else {
        locks_close();
    }
    for (unsigned i = 0; i < ARENA_SERVERS_MAX; i++) {
        const pawl_status status = pawl_client_close(clients[i]);
        if (status != PAWL_OK && status != PAWL_UNAVAILABLE) {
            complain("close answered %s: %s", pawl_status_string(status), pawl_last_error());
        }
        if (status != PAWL_OK) {
            atomic_store(&self->unheard, 1);
        }
    }
}

static bool map_arena(const char *path, unsigned slot, unsigned generation)
{
    char log_path[ARENA_TEXT_SIZE + 40];
    const int fd = open(path, O_RDWR | O_CLOEXEC);
    arena = mmap(NULL, sizeof *arena, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd < 0 || arena == MAP_FAILED) {
        return false;
    }
    close(fd);
    self = &arena->slots[slot];
    snprintf(log_path, sizeof log_path, "%s/log.%u.%u", arena->directory, slot, generation);
    log_fd = open(log_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    return log_fd >= 0;
}

static void take_stock(struct arena_resources *resources)
{
    atomic_store(&resources->descriptors, open_descriptor_count());
    atomic_store(&resources->threads, thread_count());
    atomic_store(&resources->resident, resident_size());
}

/* Threads that nobody joins, as for looking up a name, end when they like. */
static void await_threads(void)
{
    const int64_t end_ms = boottime_ms() + THREADS_MS;
    while (thread_count() > atomic_load(&self->before.threads) && boottime_ms() < end_ms) {
        nap_ms(1);
    }
}

int worker_run(const struct child_pipes *pipes, const char *arg)
{
    (void)pipes;
    unsigned slot = 0;
    unsigned generation = 0;
    int at = 0;
    if (arg == NULL || sscanf(arg, "%u %u %n", &slot, &generation, &at) < 2 ||
        slot >= ARENA_SLOTS_MAX || !map_arena(arg + at, slot, generation)) {
        fprintf(stderr, "worker: no arena or log at %s\n", arg == NULL ? "(nothing)" : arg);
        return 2;
    }
    const uint64_t told = atomic_load(&self->told);
    const uint64_t lost = atomic_load(&self->releases[PAWL_LOST]);
    for (unsigned i = 0; i < ARENA_THREADS_MAX; i++) {
        sem_init(&callers[i].answered, 0, 0);
    }
    pace_first_thread();
    if (!pulse_start(log_fd)) {
        complain("no thread can be started");
    }
    take_stock(&self->before);
    if (open_all()) {
        atomic_store(&self->stage, ARENA_READY);
        run_callers(generation);
        if (arena->theme != THEME_COUNTS) {
            await_news(told, lost);
        }
    }
    close_all();
    await_threads();
    take_stock(&self->after);
    atomic_store(&self->stage, ARENA_DONE);
    return atomic_load(&self->complained) == 0 ? 0 : 1;
}
