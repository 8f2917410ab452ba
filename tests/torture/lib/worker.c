/* SPDX-License-Identifier: Apache-2.0 */
/* A worker: some threads that acquire, work and release, in a loop, until the arena says stop or
 * somebody kills them.
 *
 * What they do is drawn from a seed: which name, and with it which kind of lock; waiting for ever,
 * for a while or not at all; by thread, by handle and asynchronously; renewed and fixed leases;
 * work from nothing to longer than a lease; now and then a re-entry or an extension. Nothing here
 * looks whether a hold is still valid before it writes: the clock does that afterwards, in the
 * oracles, and the register at once. Whatever must never happen, whoever kills or stops us, is a
 * complaint, and ends the worker. */
#include "torture/lib/worker.h"

#include "fault/lib/pace.h"
#include "pawl.h"
#include "support/resources.h"
#include "support/wait.h"
#include "torture/lib/arena.h"

#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum {
    LOOK_US = 1000,  /* how often a holder at work looks whether it still holds */
    LATE_US = 20000, /* what is worth a line in the log */
    PHASE_MS = 2000,
    REST_US_MAX = 20000,
    OPEN_PAUSE_MS = 20, /* the server may be down when a worker begins */
    NEWS_MS = 5000,     /* for on_lost calls that are due at the end; a bound, not a promise */
    WARM_COUNT = 500,   /* holds */
    READERS_OF_TEN = 7,
};

/* How a hold is had. */
enum style { STYLE_RENEWED, STYLE_FIXED, STYLE_ASYNC };

/* One name in one way. The first two are shared by all threads, the last is one thread's. */
struct handle {
    pawl_lock *lock;
    unsigned name;
    pawl_kind kind;
};

struct caller {
    pthread_t thread;
    unsigned index;
    uint64_t random;
    uint64_t holds;
    struct handle own[2][ARENA_NAMES_MAX];
    sem_t answered; /* of an asynchronous call */
    pawl_status answer;
};

/* One hold. */
struct visit {
    struct caller *caller;
    pawl_lock *lock;
    enum style style;
    struct torture_record record;
};

static struct arena *arena;
static struct arena_slot *self;
static int log_fd;
static pawl_client *client;
static struct handle shared[2][2][ARENA_NAMES_MAX]; /* [1]: to read, where some do */
static struct caller callers[ARENA_THREADS_MAX];

static void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void complain(const char *format, ...)
{
    if (atomic_fetch_add(&self->complained, 1) == 0) {
        va_list args;
        va_start(args, format);
        vsnprintf(self->complaint, sizeof self->complaint, format, args);
        va_end(args);
    }
}

static void write_down(const struct torture_record *record)
{
    if (write(log_fd, record, sizeof *record) != (ssize_t)sizeof *record) {
        complain("the log cannot be written");
    }
}

static void pass_us(int64_t duration_us)
{
    const struct timespec pause = {duration_us / 1000000, duration_us % 1000000 * 1000};
    nanosleep(&pause, NULL);
}

static bool goes_on(void)
{
    return atomic_load(&arena->stop) == 0 && atomic_load(&self->leave) == 0 &&
           atomic_load(&self->complained) == 0;
}

/* ===== What the library says ===== */

static void on_lost(const pawl_event *event, void *arg)
{
    const struct handle *handle = arg;
    const struct torture_record record = {.step = RECORD_TOLD,
        .name = handle->name,
        .kind = handle->kind,
        .token = event->token,
        .at_us = boottime_us()};
    write_down(&record);
    atomic_fetch_add(&self->told, 1);
    if (event->status != PAWL_LOST) {
        complain("on_lost was told %s", pawl_status_string(event->status));
    }
}

/* Take in how long the hold is promised now. The clock is read first, so this is no more than what
 * is promised. */
static void look(struct visit *visit)
{
    const int64_t at_us = boottime_us();
    const int64_t left_ms = pawl_lock_remaining_ms(visit->lock);
    if (left_ms == INT64_MAX) {
        visit->record.until_us = INT64_MAX;
    } else if (left_ms > 0 && at_us + left_ms * 1000 > visit->record.until_us) {
        visit->record.until_us = at_us + left_ms * 1000;
    }
}

/* Statuses that no fault of a backend excuses. */
static bool is_wrong(pawl_status status)
{
    return status != PAWL_OK && status != PAWL_BUSY && status != PAWL_LOST &&
           status != PAWL_UNAVAILABLE && status != PAWL_REFUSED;
}

static void check_status(pawl_status status, const char *call)
{
    if (is_wrong(status)) {
        complain("%s answered %s: %s", call, pawl_status_string(status), pawl_last_error());
    }
}

static void check_limit(int64_t began_us, int64_t limit_ms, bool is_release)
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

/* ===== Calling ===== */

static void on_done(pawl_lock *lock, pawl_status status, void *arg)
{
    (void)lock;
    struct caller *caller = arg;
    caller->answer = status;
    sem_post(&caller->answered);
}

static pawl_status await_done(struct caller *caller, pawl_status started)
{
    if (started != PAWL_OK) {
        return started;
    }
    while (sem_wait(&caller->answered) != 0) {
    }
    return caller->answer;
}

static pawl_status acquire(const struct visit *visit, int64_t wait_ms)
{
    const int64_t began_us = boottime_us();
    struct caller *caller = visit->caller;
    const pawl_status status =
        visit->style == STYLE_ASYNC
            ? await_done(caller, pawl_lock_acquire_async(visit->lock, wait_ms, on_done, caller))
            : pawl_lock_acquire(visit->lock, wait_ms);
    if (wait_ms >= 0) {
        check_limit(began_us, wait_ms > arena->timeout_ms ? wait_ms : arena->timeout_ms, false);
    }
    check_status(status, "acquire");
    if (status == PAWL_LOST) {
        complain("acquire says that this thread has something to release first");
    }
    atomic_fetch_add(&self->acquires[status], 1);
    return status;
}

static pawl_status release(const struct visit *visit)
{
    const int64_t began_us = boottime_us();
    struct caller *caller = visit->caller;
    const pawl_status status =
        visit->style == STYLE_ASYNC
            ? await_done(caller, pawl_lock_release_async(visit->lock, on_done, caller))
            : pawl_lock_release(visit->lock);
    check_limit(began_us, arena->timeout_ms, true);
    check_status(status, "release");
    if (status == PAWL_BUSY) {
        complain("release answered busy");
    }
    atomic_fetch_add(&self->releases[status], 1);
    return status;
}

/* ===== A visit ===== */

/* From nothing to a good deal longer than a lease; mostly nothing. */
static int64_t draw_work_us(uint64_t *random)
{
    const uint64_t chance = draw_below(random, 10000);
    const int64_t most_us = chance < 7000   ? 0
                            : chance < 9500 ? 300
                            : chance < 9965 ? 2000
                            : chance < 9993 ? 20000
                                            : arena->lease_ms * 2000;
    return most_us == 0 ? 0 : draw_between(random, most_us / 4, most_us);
}

/* A fixed lease is not outlived often, as that is no news. */
static void work(struct visit *visit)
{
    int64_t work_us = draw_work_us(&visit->caller->random);
    if (visit->style == STYLE_FIXED && work_us > arena->lease_ms * 500 &&
        draw_below(&visit->caller->random, 4) != 0) {
        work_us /= 4;
    }
    const int64_t end_us = boottime_us() + work_us;
    int64_t left_us = work_us;
    for (; left_us > 0 && goes_on(); left_us = end_us - boottime_us()) {
        pass_us(left_us < LOOK_US ? left_us : LOOK_US);
        look(visit);
    }
}

static void enter_again(struct visit *visit)
{
    const pawl_status status = pawl_lock_acquire(visit->lock, PAWL_TRY);
    check_status(status, "re-entry");
    if (status == PAWL_BUSY) {
        complain("re-entry answered busy");
    }
    if (status == PAWL_OK) {
        const pawl_status left = pawl_lock_release(visit->lock);
        if (left != PAWL_OK && left != PAWL_LOST) {
            complain("the inner release answered %s", pawl_status_string(left));
        }
    }
}

/* Who writes may read as well; who reads must not wait for itself to write. */
static void enter_other(struct visit *visit)
{
    const bool reads = visit->record.kind == PAWL_READ;
    pawl_lock *lock = shared[!reads][visit->style][visit->record.name].lock;
    const pawl_status status = pawl_lock_acquire(lock, PAWL_FOREVER);
    if (reads ? status != PAWL_DEADLOCK && status != PAWL_LOST : is_wrong(status)) {
        complain("to %s answered %s to who %s", reads ? "write" : "read",
            pawl_status_string(status), reads ? "reads" : "writes");
    }
    if (status == PAWL_OK) {
        const pawl_status left = pawl_lock_release(lock);
        if (left != PAWL_OK && left != PAWL_LOST) {
            complain("the inner release answered %s", pawl_status_string(left));
        }
    }
}

static void embellish(struct visit *visit)
{
    const uint64_t chance = draw_below(&visit->caller->random, 100);
    if (chance < 4 && visit->style != STYLE_ASYNC) {
        enter_again(visit);
    } else if (chance < 8 && visit->style != STYLE_ASYNC &&
               arena->kinds[visit->record.name] == PAWL_WRITE) {
        enter_other(visit);
    } else if (chance < 10) {
        const pawl_status status = pawl_lock_extend(visit->lock, arena->lease_ms);
        check_status(status, "extend");
        if (status == PAWL_BUSY) {
            complain("extend answered busy");
        }
    }
}

/* The acquire has just returned. */
static void enter(struct visit *visit)
{
    struct torture_record *record = &visit->record;
    struct arena_cell *cell = &arena->cells[record->name];
    record->at_us = boottime_us();
    record->token = arena->unlocked ? (uint64_t)record->at_us : pawl_lock_token(visit->lock);
    record->hold = (uint64_t)visit->caller->index << RECORD_THREAD_SHIFT | ++visit->caller->holds;
    if (arena->unlocked) {
        record->until_us = INT64_MAX;
    } else {
        look(visit);
    }
    if (record->token != 0 && record->token < arena->token_base) {
        complain("token %" PRIu64 " is older than the run", record->token);
    }
    record->raised = record->token != 0 && record->kind != PAWL_READ &&
                     register_raise(arena, cell, record->token);
    record->seen = atomic_load(&cell->number);
    record->read_us = boottime_us();
    record->step = RECORD_ACQUIRED;
    write_down(record);
    atomic_store(&self->thread_acquired_us[visit->caller->index], record->read_us);
}

/* Who reads looks once more, who writes stores the next one. */
static void touch_number(struct torture_record *record, struct arena_cell *cell)
{
    if (record->kind == PAWL_READ) {
        record->written = atomic_load(&cell->number);
    } else {
        atomic_store(&cell->number, record->seen + 1);
    }
    record->added = true;
    record->stored_us = boottime_us();
}

/* The release is about to be called. */
static void leave(struct visit *visit)
{
    struct torture_record *record = &visit->record;
    struct arena_cell *cell = &arena->cells[record->name];
    if (!arena->unlocked) {
        look(visit);
    }
    if (arena->unlocked || pawl_lock_remaining_ms(visit->lock) > 0) {
        touch_number(record, cell);
    }
    if (record->kind != PAWL_READ) {
        record->written = record->raised ? register_write(arena, cell, record->token) : 0;
        record->wrote = record->written != 0;
    }
    record->step = RECORD_LEAVING;
    record->at_us = boottime_us();
    write_down(record);
}

static void note_memory(void)
{
    if (atomic_fetch_add(&self->acquired, 1) + 1 == WARM_COUNT) {
        atomic_store(&self->resident_warm, resident_size());
    }
}

static void hold(struct visit *visit)
{
    enter(visit);
    if (!arena->unlocked) {
        embellish(visit);
    }
    work(visit);
    leave(visit);
    visit->record.status = arena->unlocked ? PAWL_OK : release(visit);
    visit->record.step = RECORD_RELEASED;
    visit->record.at_us = boottime_us();
    write_down(&visit->record);
    note_memory();
}

static int64_t draw_wait_ms(uint64_t *random)
{
    const uint64_t chance = draw_below(random, 4);
    return chance == 0 ? PAWL_TRY : chance == 1 ? PAWL_FOREVER : draw_between(random, 50, 2000);
}

static void visit_one(struct caller *caller)
{
    const unsigned name = (unsigned)draw_below(&caller->random, arena->names);
    const uint64_t chance = draw_below(&caller->random, 10);
    const enum style style = chance < 7 ? STYLE_RENEWED : chance < 9 ? STYLE_FIXED : STYLE_ASYNC;
    const int64_t wait_ms = draw_wait_ms(&caller->random);
    const bool reads =
        arena->kinds[name] == PAWL_WRITE && draw_below(&caller->random, 10) < READERS_OF_TEN;
    const struct handle *handle =
        style == STYLE_ASYNC ? &caller->own[reads][name] : &shared[reads][style][name];
    struct visit visit = {.caller = caller,
        .lock = handle->lock,
        .style = style,
        .record = {.name = name, .kind = handle->kind}};
    const pawl_status status = arena->unlocked ? PAWL_OK : acquire(&visit, wait_ms);
    if (status == PAWL_OK) {
        hold(&visit);
    } else {
        pass_us(status == PAWL_BUSY ? 200 : 2000); /* a fault may come at once */
    }
}

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
    while (goes_on()) {
        visit_one(arg);
        rest(arg);
    }
    return NULL;
}

/* ===== Beginning and end ===== */

static pawl_status open_one(struct handle *handle, unsigned name, enum style style, bool reads)
{
    char text[64];
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    handle->kind = reads ? PAWL_READ : arena->kinds[name];
    options.kind = handle->kind;
    options.handoff = arena->handoffs[name];
    options.lease_ms = arena->lease_ms;
    options.renew = style != STYLE_FIXED;
    options.owner = style == STYLE_ASYNC ? PAWL_OWNER_HANDLE : PAWL_OWNER_THREAD;
    options.on_lost = on_lost;
    options.event_arg = handle;
    handle->name = name;
    snprintf(text, sizeof text, ARENA_NAME_FORMAT, name);
    const pawl_status status = pawl_lock_open(client, text, &options, &handle->lock);
    check_status(status, "open");
    return status;
}

static bool open_name(unsigned name, bool reads)
{
    struct handle(*both)[ARENA_NAMES_MAX] = shared[reads];
    bool opened = open_one(&both[STYLE_RENEWED][name], name, STYLE_RENEWED, reads) == PAWL_OK &&
                  open_one(&both[STYLE_FIXED][name], name, STYLE_FIXED, reads) == PAWL_OK;
    for (unsigned i = 0; opened && i < arena->threads; i++) {
        opened = open_one(&callers[i].own[reads][name], name, STYLE_ASYNC, reads) == PAWL_OK;
    }
    return opened;
}

static bool open_client(void)
{
    pawl_client_options options = PAWL_CLIENT_OPTIONS_INIT;
    options.timeout_ms = arena->timeout_ms;
    options.connect_timeout_ms = arena->timeout_ms;
    options.give_up_ms = arena->give_up_ms;
    while (goes_on()) {
        const pawl_status status = pawl_client_open(self->url, &options, &client);
        check_status(status, "open");
        if (status == PAWL_OK) {
            return true;
        }
        nap_ms(OPEN_PAUSE_MS);
    }
    return false;
}

static bool open_all(void)
{
    if (arena->unlocked) {
        return true;
    }
    if (!open_client()) {
        return false;
    }
    for (unsigned i = 0; i < arena->names; i++) {
        if (!open_name(i, false) || (arena->kinds[i] == PAWL_WRITE && !open_name(i, true))) {
            complain("a lock could not be opened: %s", pawl_last_error());
            return false;
        }
    }
    return true;
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
    for (unsigned i = 0; i < 2 * arena->names; i++) {
        const unsigned name = i / 2;
        pawl_lock_close(shared[i % 2][STYLE_RENEWED][name].lock);
        pawl_lock_close(shared[i % 2][STYLE_FIXED][name].lock);
        for (unsigned j = 0; j < arena->threads; j++) {
            pawl_lock_close(callers[j].own[i % 2][name].lock);
        }
    }
    const pawl_status status = pawl_client_close(client);
    if (status != PAWL_OK && status != PAWL_UNAVAILABLE) {
        complain("close answered %s: %s", pawl_status_string(status), pawl_last_error());
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
        await_news(told, lost);
    }
    close_all();
    take_stock(&self->after);
    atomic_store(&self->stage, ARENA_DONE);
    return atomic_load(&self->complained) == 0 ? 0 : 1;
}
