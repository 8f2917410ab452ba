/* SPDX-License-Identifier: Apache-2.0 */
/* holder BOARD INDEX: a worker of the fault tests. Its threads acquire, work and release, in a
 * loop, as slot INDEX of the board plans it (fault/lib/board.h), until the board says stop.
 *
 * Each hold is written to BOARD.INDEX as it goes: when it was acquired and how long the library
 * promised it, the moment before the release, and what the release said. Inside, it adds one to an
 * unguarded number, unless little time is left, and writes to a register that checks tokens,
 * whether it still holds or not, as a program does that does not look. Whatever must never happen,
 * whoever kills or stops us, is a complaint: it ends the loop and makes the exit status 1. */
#include "base/alloc.h"
#include "fault/lib/board.h"
#include "fault/lib/pace.h"
#include "pawl.h"
#include "support/resources.h"
#include "support/wait.h"

#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    MARGIN_MS = 50, /* with less time left the number is not touched */
    LOOK_US = 1000, /* how often a holder looks whether it still holds */
    FORK_EVERY = 4,
    CHURN_EVERY = 8,
    STARVE_EVERY = 3,
    NEWS_MS = 5000, /* a bound, not a promise */
};

/* One thread. */
struct caller {
    pthread_t thread;
    unsigned index;
    uint64_t random;
    uint64_t hold;            /* of the current or last hold, see board.h */
    _Atomic uint64_t token;   /* of the current hold, */
    _Atomic int64_t until_us; /* and how long it is promised; 0: not at all */
    bool deserted;            /* it ended while it held */
};

static struct board *board;
static struct board_worker *self;
static const struct board_plan *plan;
static int log_fd;
static pawl_client *client;
static pawl_lock *locks[BOARD_NAMES_MAX];
static struct caller callers[BOARD_CALLERS_MAX];

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

static int64_t now_us(void)
{
    return boottime_us() - plan->clock_offset_us;
}

static void pass_us(int64_t duration_us)
{
    const struct timespec pause = {duration_us / 1000000, duration_us % 1000000 * 1000};
    nanosleep(&pause, NULL);
}

/* ===== What the library says ===== */

/* How long the hold is promised from now on; 0: it is not. The clock is read first, so this is no
 * more than what is promised. */
static int64_t promised_us(struct caller *caller, pawl_lock *lock)
{
    const int64_t at_us = now_us();
    const int64_t left_ms = pawl_lock_remaining_ms(lock);
    const int64_t until_us = left_ms == INT64_MAX ? INT64_MAX
                             : left_ms > 0        ? at_us + left_ms * 1000
                                                  : 0;
    atomic_store(&caller->until_us, until_us);
    return until_us;
}

static void on_lost(const pawl_event *event, void *arg)
{
    (void)arg;
    const int64_t at_us = now_us();
    atomic_fetch_add(&self->told, 1);
    for (unsigned i = 0; i < plan->callers; i++) {
        const int64_t until_us = atomic_load(&callers[i].until_us);
        if (atomic_load(&callers[i].token) == event->token && until_us != 0 &&
            until_us != INT64_MAX) {
            board_raise(&self->told_late_us, at_us - until_us);
        }
    }
    if (event->status != PAWL_LOST) {
        complain("on_lost was told %s", pawl_status_string(event->status));
    }
}

static void count(_Atomic uint64_t *statuses, const char *call, pawl_status status)
{
    atomic_fetch_add(&statuses[status], 1);
    if (status == PAWL_INVALID || status == PAWL_MISUSE || status == PAWL_UNSUPPORTED ||
        status == PAWL_DEADLOCK || status == PAWL_NOT_HELD) {
        complain("%s answered %s: %s", call, pawl_status_string(status), pawl_last_error());
    }
}

static bool acquire(pawl_lock *lock)
{
    const int64_t began_us = now_us();
    const int64_t limit_ms = plan->wait_ms > plan->timeout_ms ? plan->wait_ms : plan->timeout_ms;
    const pawl_status status = pawl_lock_acquire(lock, plan->wait_ms);
    const int64_t ended_us = now_us();
    count(self->acquires, "acquire", status);
    if (plan->wait_ms >= 0) {
        board_raise(&self->acquire_late_us, ended_us - began_us - limit_ms * 1000);
    }
    if (status == PAWL_OK) {
        atomic_store(&self->acquired_us, ended_us);
        board_raise(&self->waited_us, ended_us - began_us);
    } else if (status != PAWL_BUSY) {
        pass_us(1000); /* a fault may come at once */
    }
    return status == PAWL_OK;
}

static pawl_status release(pawl_lock *lock)
{
    const int64_t began_us = now_us();
    const pawl_status status = pawl_lock_release(lock);
    count(self->releases, "release", status);
    board_raise(&self->release_late_us, now_us() - began_us - plan->timeout_ms * 1000);
    return status;
}

/* ===== What is written down ===== */

static void record(struct caller *caller, const struct hold_record *what)
{
    struct hold_record whole = *what;
    whole.hold = caller->hold;
    whole.token = atomic_load(&caller->token);
    if (write(log_fd, &whole, sizeof whole) != (ssize_t)sizeof whole) {
        complain("the log cannot be written");
    }
}

/* ===== Inside ===== */

/* Write to the register; false: it has seen a greater token. */
static bool write_fenced(struct board_name *name, uint64_t token)
{
    uint64_t seen = atomic_load(&name->fence);
    while (token >= seen) {
        if (atomic_compare_exchange_weak(&name->fence, &seen, token)) {
            return true;
        }
    }
    return false;
}

static void add_one(struct board_name *name, uint64_t number)
{
    atomic_fetch_add(&self->started, 1);
    atomic_store(&name->number, number + 1);
    atomic_fetch_add(&self->finished, 1);
}

static void work(struct caller *caller, pawl_lock *lock)
{
    const int64_t end_us = now_us() + board_draw(&caller->random, plan->work_us);
    int64_t left_us = end_us - now_us();
    for (; left_us > 0 && atomic_load(&board->stop) == 0; left_us = end_us - now_us()) {
        pass_us(left_us < LOOK_US ? left_us : LOOK_US);
        promised_us(caller, lock);
    }
}

/* A forked child: whatever it does must not matter to its parent's lock. */
static void child_does_something(uint64_t choice, pawl_lock *lock)
{
    if (choice % 4 == 0 && pawl_lock_release(lock) != PAWL_MISUSE) {
        _exit(1);
    }
    if (choice % 4 == 1 && pawl_lock_acquire(lock, PAWL_TRY) != PAWL_MISUSE) {
        _exit(1);
    }
    if (choice % 4 == 2) {
        execl("/bin/true", "true", (char *)NULL);
        _exit(1);
    }
    if (choice % 4 == 3 && (pawl_lock_token(lock) != 0 || pawl_lock_remaining_ms(lock) != 0)) {
        _exit(1);
    }
    _exit(0);
}

static void fork_inside(struct caller *caller, pawl_lock *lock)
{
    const uint64_t choice = board_random(&caller->random);
    if ((plan->flags & BOARD_FORKS) == 0 || choice % FORK_EVERY != 0) {
        return;
    }
    const pid_t pid = fork();
    if (pid == 0) {
        child_does_something(choice / FORK_EVERY, lock);
    }
    int status = 0;
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0) {
        complain("a forked child ended with %d", status);
    }
}

/* The thread is about to end without a release. */
static bool deserts(struct caller *caller)
{
    return (plan->flags & BOARD_CHURNS) != 0 && board_random(&caller->random) % CHURN_EVERY == 0;
}

static void check_hold(const struct caller *caller, pawl_lock *lock)
{
    if (atomic_load(&caller->until_us) == 0) {
        return;
    }
    if (atomic_load(&caller->token) == 0) {
        complain("a valid hold has no token");
    }
    if (pawl_lock_hold_count(lock) != 1) {
        complain("a first acquire has hold count %u", pawl_lock_hold_count(lock));
    }
}

/* From the grant to the release. False: the thread ends and leaves it all as it is. */
static bool hold(struct caller *caller, unsigned index, pawl_lock *lock)
{
    struct board_name *name = &board->names[index];
    caller->hold = ((uint64_t)caller->index << 32) | ((caller->hold + 1) & UINT32_MAX);
    atomic_store(&caller->token, pawl_lock_token(lock));
    int64_t until_us = promised_us(caller, lock);
    record(
        caller, &(struct hold_record){
                    .name = index, .step = HOLD_ACQUIRED, .at_us = now_us(), .until_us = until_us});
    check_hold(caller, lock);

    const uint64_t number = atomic_load(&name->number);
    fork_inside(caller, lock);
    work(caller, lock);
    if (pawl_lock_remaining_ms(lock) > MARGIN_MS) {
        add_one(name, number);
    }
    const bool refused = !write_fenced(name, atomic_load(&caller->token));
    atomic_fetch_add(&self->stale_refused, refused ? 1 : 0);

    const int64_t at_us = now_us();
    until_us = promised_us(caller, lock);
    record(caller, &(struct hold_record){.name = index,
                       .step = HOLD_LEAVING,
                       .refused = refused,
                       .at_us = at_us,
                       .until_us = until_us});
    if (deserts(caller)) {
        return false;
    }
    const pawl_status status = release(lock);
    record(caller, &(struct hold_record){.name = index,
                       .step = HOLD_RELEASED,
                       .status = status,
                       .at_us = now_us(),
                       .until_us = until_us});
    atomic_store(&caller->token, 0);
    return true;
}

/* The same without any lock; its promise is as long as it stays. */
static void trespass(struct caller *caller, unsigned index)
{
    struct board_name *name = &board->names[index];
    const uint64_t token = atomic_fetch_add(&name->entered, 1) + 1;
    caller->hold = ((uint64_t)caller->index << 32) | ((caller->hold + 1) & UINT32_MAX);
    atomic_store(&caller->token, token);
    struct hold_record step = {
        .name = index, .step = HOLD_ACQUIRED, .at_us = now_us(), .until_us = INT64_MAX};
    record(caller, &step);
    const uint64_t number = atomic_load(&name->number);
    pass_us(plan->work_us);
    add_one(name, number);
    step.step = HOLD_LEAVING;
    step.at_us = now_us();
    record(caller, &step);
    step.step = HOLD_RELEASED;
    record(caller, &step);
}

/* ===== The loop ===== */

static bool goes_on(unsigned round)
{
    return atomic_load(&board->stop) == 0 && atomic_load(&self->complained) == 0 &&
           (plan->rounds == 0 || round < plan->rounds);
}

static void *call_on(void *arg)
{
    struct caller *caller = arg;
    for (unsigned round = 0; goes_on(round); round++) {
        const unsigned index =
            plan->name_first + (unsigned)(board_random(&caller->random) % plan->name_count);
        if ((plan->flags & BOARD_UNLOCKED) != 0) {
            trespass(caller, index);
        } else if (acquire(locks[index]) && !hold(caller, index, locks[index])) {
            caller->deserted = true;
            atomic_fetch_add(&self->deserted, 1);
            return NULL;
        }
        if (plan->rest_us > 0) {
            pass_us(board_draw(&caller->random, plan->rest_us));
        }
    }
    caller->deserted = false;
    return NULL;
}

/* A thread that left its lock behind is followed by another one. */
static void *succeed(void *arg)
{
    struct caller *caller = arg;
    do {
        pthread_t thread;
        caller->deserted = false;
        if (pthread_create(&thread, NULL, call_on, caller) != 0) {
            complain("no thread can be started");
            return NULL;
        }
        pthread_join(thread, NULL);
    } while (caller->deserted);
    return NULL;
}

static void run_callers(void)
{
    for (unsigned i = 0; i < plan->callers; i++) {
        callers[i].index = i;
        callers[i].random = plan->seed + i * UINT64_C(0x5851f42d4c957f2d);
        const bool churns = (plan->flags & BOARD_CHURNS) != 0;
        if (pthread_create(&callers[i].thread, NULL, churns ? succeed : call_on, &callers[i]) !=
            0) {
            complain("no thread can be started");
            exit(1);
        }
    }
    for (unsigned i = 0; i < plan->callers; i++) {
        pthread_join(callers[i].thread, NULL);
    }
}

/* ===== Beginning and end ===== */

static bool open_locks(void)
{
    pawl_client_options options = PAWL_CLIENT_OPTIONS_INIT;
    options.timeout_ms = plan->timeout_ms;
    pawl_status status = pawl_client_open(plan->url, &options, &client);
    const unsigned end = plan->name_first + plan->name_count;
    for (unsigned i = plan->name_first; status == PAWL_OK && i < end; i++) {
        char name[64];
        pawl_lock_options lock_options = PAWL_LOCK_OPTIONS_INIT;
        lock_options.lease_ms = plan->lease_ms;
        lock_options.renew = plan->renew;
        lock_options.on_lost = on_lost;
        snprintf(name, sizeof name, "fault:%u", i);
        status = pawl_lock_open(client, name, &lock_options, &locks[i]);
    }
    const bool may_fail = (plan->flags & BOARD_MAY_FAIL) != 0 && status < PAWL_INVALID;
    if (status != PAWL_OK && !may_fail) {
        complain("open answered %s: %s", pawl_status_string(status), pawl_last_error());
    }
    return status == PAWL_OK;
}

/* Who closes a lock at once after its loss is not called any more, so wait for that first. */
static void await_news_of_losses(void)
{
    const uint64_t lost = atomic_load(&self->releases[PAWL_LOST]) + atomic_load(&self->deserted);
    const int64_t end_ms = boottime_ms() + NEWS_MS;
    while (atomic_load(&self->told) < lost) {
        if (boottime_ms() > end_ms) {
            complain("%" PRIu64 " holds were lost, on_lost was called %" PRIu64 " times", lost,
                atomic_load(&self->told));
            return;
        }
        nap_ms(1);
    }
}

static void close_locks(void)
{
    await_news_of_losses();
    for (unsigned i = 0; i < BOARD_NAMES_MAX; i++) {
        pawl_lock_close(locks[i]);
    }
    const pawl_status status = pawl_client_close(client);
    if (status != PAWL_OK && status != PAWL_UNAVAILABLE) {
        complain("close answered %s: %s", pawl_status_string(status), pawl_last_error());
    }
}

/* Memory is short once the client is open: some allocations fail. */
static bool may_allocate(size_t size)
{
    static _Atomic uint64_t asked;
    uint64_t state = plan->seed + atomic_fetch_add(&asked, 1) + size;
    const bool fails =
        atomic_load(&self->stage) == BOARD_READY && board_random(&state) % STARVE_EVERY == 0;
    atomic_fetch_add(&self->starved, fails ? 1 : 0);
    return !fails;
}

static void ignore(int signal_number)
{
    (void)signal_number;
}

/* Interrupt every call that can be interrupted. */
static void invite_signals(void)
{
    const struct sigaction action = {.sa_handler = ignore};
    const struct itimerval each = {{0, 1000}, {0, 1000}};
    sigaction(SIGALRM, &action, NULL);
    sigaction(SIGUSR1, &action, NULL);
    sigaction(SIGUSR2, &action, NULL);
    setitimer(ITIMER_REAL, &each, NULL);
}

static bool map_board(const char *path, const char *index)
{
    char log_path[BOARD_TEXT_SIZE];
    const int fd = open(path, O_RDWR | O_CLOEXEC);
    board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    snprintf(log_path, sizeof log_path, "%s.%s", path, index);
    log_fd = open(log_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0 || board == MAP_FAILED || log_fd < 0) {
        fprintf(stderr, "holder: no board or log at %s\n", path);
        return false;
    }
    close(fd);
    self = &board->workers[strtoul(index, NULL, 10)];
    plan = &self->plan;
    return true;
}

/* Threads that nobody joins, as for looking up a name, end when they like. */
static uint64_t thread_count_when_gone(uint64_t expected)
{
    const int64_t end_ms = boottime_ms() + NEWS_MS;
    while (thread_count() > expected && boottime_ms() < end_ms) {
        nap_ms(1);
    }
    return thread_count();
}

int main(int argc, char *argv[])
{
    if (argc != 3 || !map_board(argv[1], argv[2])) {
        return 2;
    }
    if ((plan->flags & BOARD_SIGNALS) != 0) {
        invite_signals();
    }
    if ((plan->flags & BOARD_STARVES) != 0) {
        pawl__alloc_hook = may_allocate;
    }
    pace_first_thread();
    atomic_store(&self->descriptors_before, open_descriptor_count());
    atomic_store(&self->threads_before, thread_count());
    atomic_store(&self->resident_before, resident_size());
    const bool opened = open_locks();
    if (opened) {
        atomic_store(&self->stage, BOARD_READY);
        run_callers();
    }
    close_locks();
    atomic_store(&self->descriptors_after, open_descriptor_count());
    atomic_store(&self->threads_after, thread_count_when_gone(atomic_load(&self->threads_before)));
    atomic_store(&self->resident_after, resident_size());
    atomic_store(&self->stage, BOARD_DONE);
    return atomic_load(&self->complained) == 0 ? 0 : 1;
}
