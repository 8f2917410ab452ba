/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that run one at a time, and the time in which they do.
 *
 * Whoever blocks says what for, chooses who runs next, hands over the baton and waits for it to
 * come back. If nobody can run, time goes on to the next event or the next deadline. Events run on
 * the thread that happens to choose; they touch the world, and never the library. */
#include "qsim.h"

#include <linux/futex.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define IDLE_SWITCHES_MOST 200000 /* without time going on: they run in circles */
#define PPM 1000000
#define LOOKS_PER_US 10

struct qs_world qs;
_Thread_local struct qs_thread *qs_self;

long __real_syscall(long number, ...);
int __real_pthread_create(
    pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *arg);
int __real_pthread_join(pthread_t thread, void **result_out);
int __wrap_pthread_create(
    pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *arg);
int __wrap_pthread_join(pthread_t thread, void **result_out);

/* ===== Writing down ===== */

static void mix(uint64_t number)
{
    qs.result->hash = (qs.result->hash ^ number) * UINT64_C(0x100000001b3);
    qs.result->hash ^= qs.result->hash >> 29;
}

void qs_note(const char *format, ...)
{
    char text[QS_SENTENCE];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    for (const char *at = text; *at != '\0'; at++) {
        mix((unsigned char)*at);
    }
    mix((uint64_t)qs.now_us);
    if (qs.verbose) {
        const int process =
            qs_self != NULL && qs_self->process != NULL ? (int)qs_self->process->number : -1;
        printf("%12.6f p%d t%-3u %s\n", (double)qs.now_us / 1e6, process,
            qs_self != NULL ? qs_self->number : 0, text);
    }
}

void qs_fail(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(qs.result->failure, sizeof qs.result->failure, format, args);
    va_end(args);
    if (qs.verbose) {
        printf("%12.6f FAILED %s\n", (double)qs.now_us / 1e6, qs.result->failure);
        fflush(stdout);
    }
    _exit(1);
}

/* ===== Time ===== */

int64_t qs_process_now(const struct qs_process *process)
{
    if (process == NULL) {
        return qs.now_us;
    }
    return process->offset_us + qs.now_us + qs.now_us * process->ppm / PPM;
}

int64_t qs_process_later(const struct qs_process *process, int64_t duration_us)
{
    if (duration_us >= PAWL__NEVER / PPM || process == NULL) {
        return pawl__later(qs.now_us, duration_us);
    }
    return qs.now_us + duration_us * PPM / (PPM + process->ppm) + 1;
}

/* To look at the clock takes time, too: who waits for it to go on must not wait for ever. */
static int64_t clock_hook(void)
{
    static unsigned looks;
    qs.now_us += ++looks % LOOKS_PER_US == 0 ? 1 : 0;
    return qs_process_now(qs_self != NULL ? qs_self->process : NULL);
}

void qs_event_set(struct qs_event *event, int64_t at_us, void (*fire)(struct qs_event *event))
{
    event->fire = fire;
    pawl__timer_set(&qs.events, &event->timer, at_us);
}

void qs_event_clear(struct qs_event *event)
{
    pawl__timer_clear(&qs.events, &event->timer);
}

static void fire_events(void)
{
    struct pawl__timer *first = NULL;
    while ((first = pawl__heap_first(&qs.events)) != NULL && first->due_us <= qs.now_us) {
        struct qs_event *event = PAWL__CONTAINER(first, struct qs_event, timer);
        pawl__timer_clear(&qs.events, first);
        qs.in_event = true;
        event->fire(event);
        qs.in_event = false;
    }
}

/* ===== The baton ===== */

static void post(struct qs_thread *thread)
{
    atomic_store(&thread->baton, 1);
    __real_syscall(SYS_futex, &thread->baton, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void await_baton(struct qs_thread *thread)
{
    while (atomic_load(&thread->baton) == 0) {
        __real_syscall(SYS_futex, &thread->baton, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
    }
    atomic_store(&thread->baton, 0);
}

static int64_t paused_until(const struct qs_thread *thread)
{
    return thread->process != NULL ? pawl__max64(thread->stalled_us, thread->process->paused_us)
                                   : thread->stalled_us;
}

static bool is_paused(const struct qs_thread *thread)
{
    return paused_until(thread) > qs.now_us;
}

static bool can_run(const struct qs_thread *thread)
{
    return thread->state == QS_RUNNABLE ||
           (thread->state != QS_ENDED && thread->due_us <= qs.now_us);
}

/* When this thread can run, if nothing happens. */
static int64_t thread_due(const struct qs_thread *thread)
{
    if (thread->state == QS_ENDED) {
        return PAWL__NEVER;
    }
    const int64_t due_us = thread->state == QS_RUNNABLE ? qs.now_us : thread->due_us;
    return is_paused(thread) && due_us != PAWL__NEVER ? pawl__max64(due_us, paused_until(thread))
                                                      : due_us;
}

static void let_time_pass(void)
{
    const struct pawl__timer *first = pawl__heap_first(&qs.events);
    int64_t next_us = first != NULL ? first->due_us : PAWL__NEVER;
    for (unsigned i = 0; i < qs.thread_count; i++) {
        next_us = pawl__min64(next_us, thread_due(&qs.threads[i]));
    }
    if (next_us == PAWL__NEVER) {
        qs_fail("DEADLOCK every thread waits, and nothing will happen");
    }
    qs.idle_switches = next_us > qs.now_us ? 0 : qs.idle_switches;
    qs.now_us = pawl__max64(qs.now_us, next_us);
}

static struct qs_thread *choose(void)
{
    for (;;) {
        struct qs_thread *able[QS_THREADS];
        unsigned count = 0;
        fire_events();
        for (unsigned i = 0; i < qs.thread_count; i++) {
            if (can_run(&qs.threads[i]) && !is_paused(&qs.threads[i])) {
                able[count++] = &qs.threads[i];
            }
        }
        if (count > 0) {
            return able[qs_below(count)];
        }
        let_time_pass();
    }
}

/* The calling thread has said what it waits for. */
static void hand_over(bool for_good)
{
    struct qs_thread *self = qs_self;
    struct qs_thread *next = choose();
    if (++qs.idle_switches > IDLE_SWITCHES_MOST) {
        qs_fail("LIVELOCK threads run in circles");
    }
    qs.result->switches++;
    mix(next->number);
    if (qs.idle_switches > IDLE_SWITCHES_MOST - 40) {
        qs_note("thread %u, then %u", self->number, next->number);
    }
    if (next != self) {
        post(next);
        if (for_good) {
            return;
        }
        await_baton(self);
    }
}

static bool block(enum qs_state state, const void *on, int64_t due_us)
{
    struct qs_thread *self = qs_self;
    self->state = state;
    self->on = on;
    self->due_us = due_us;
    hand_over(false);
    const bool woken = self->state == QS_RUNNABLE;
    self->state = QS_RUNNABLE;
    self->on = NULL;
    return woken;
}

bool qs_wait(const void *on, int64_t due_us)
{
    return block(QS_WAITING, on, due_us);
}

bool qs_poll(const struct pollfd *fds, nfds_t count, int64_t due_us)
{
    qs_self->fds = fds;
    qs_self->fd_count = count;
    return block(QS_POLLING, NULL, due_us);
}

void qs_sleep(int64_t duration_us)
{
    block(QS_ASLEEP, NULL, qs.now_us + pawl__max64(duration_us, 1));
}

void qs_wake(const void *on)
{
    for (unsigned i = 0; i < qs.thread_count; i++) {
        struct qs_thread *thread = &qs.threads[i];
        if (thread->state == QS_WAITING && thread->on == on) {
            thread->state = QS_RUNNABLE;
        }
    }
}

void qs_wake_pollers(int fd)
{
    for (unsigned i = 0; i < qs.thread_count; i++) {
        struct qs_thread *thread = &qs.threads[i];
        for (nfds_t at = 0; thread->state == QS_POLLING && at < thread->fd_count; at++) {
            if (thread->fds[at].fd == fd) {
                thread->state = QS_RUNNABLE;
            }
        }
    }
}

void qs_point(void)
{
    if (qs.plan.stalls > 0 && !qs.calm && qs_self->process != NULL &&
        qs_below(100000) < qs.plan.stalls) {
        struct qs_process *process = qs_self->process;
        const int64_t most_us = qs_chance(200) ? 2 * qs.plan.lease_ms * 1000 : 60000;
        const int64_t stall_us = qs_between(1, most_us);
        qs.result->faults[QS_STALL]++;
        qs_note("a thread stalls for %lld us", (long long)stall_us);
        process->disturbed_us = pawl__max64(process->disturbed_us, qs.now_us + stall_us);
        qs_sleep(stall_us);
    } else if (qs.plan.yields > 0 && qs_chance(qs.plan.yields)) {
        hand_over(false);
    }
}

void qs_pause(struct qs_process *process, int64_t duration_us)
{
    process->paused_us = pawl__max64(process->paused_us, qs.now_us + duration_us);
    process->disturbed_us = pawl__max64(process->disturbed_us, process->paused_us);
}

/* ===== Making and ending threads ===== */

static pthread_key_t end_key;

static struct qs_thread *thread_new(struct qs_process *process)
{
    struct qs_thread *thread = NULL;
    for (unsigned i = 0; i < qs.thread_count && thread == NULL; i++) {
        thread = qs.threads[i].joined ? &qs.threads[i] : NULL;
    }
    if (thread == NULL && qs.thread_count == QS_THREADS) {
        qs_fail("THREADS more than %d at a time", QS_THREADS);
    }
    thread = thread != NULL ? thread : &qs.threads[qs.thread_count++];
    *thread = (struct qs_thread){.number = (unsigned)(thread - qs.threads), .process = process};
    return thread;
}

/* Destructors of the library's own keys run in the first round; this one ends the thread in the
 * second. */
static void thread_ends(void *value)
{
    static _Thread_local bool again;
    struct qs_thread *self = value;
    if (!again) {
        again = true;
        pthread_setspecific(end_key, self);
        return;
    }
    self->state = QS_ENDED;
    qs_wake(self);
    hand_over(true);
}

static void *begin_thread(void *arg)
{
    struct qs_thread *self = arg;
    await_baton(self);
    qs_self = self;
    pthread_setspecific(end_key, self);
    return self->run(self->arg);
}

int __wrap_pthread_create(
    pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *arg)
{
    if (qs_self == NULL) {
        return __real_pthread_create(thread, attributes, run, arg);
    }
    struct qs_thread *record = thread_new(qs_self->process);
    record->run = run;
    record->arg = arg;
    const int error = __real_pthread_create(&record->real, attributes, begin_thread, record);
    if (error != 0) {
        qs_fail("THREADS the system gives no more: %s", strerror(error));
    }
    *thread = record->real;
    return error;
}

int __wrap_pthread_join(pthread_t thread, void **result_out)
{
    struct qs_thread *record = NULL;
    for (unsigned i = 1; i < qs.thread_count && record == NULL; i++) {
        const bool found = !qs.threads[i].joined && pthread_equal(qs.threads[i].real, thread);
        record = found ? &qs.threads[i] : NULL;
    }
    if (qs_self == NULL || record == NULL) {
        return __real_pthread_join(thread, result_out);
    }
    while (record->state != QS_ENDED) {
        qs_wait(record, PAWL__NEVER);
    }
    record->joined = true;
    return __real_pthread_join(thread, result_out);
}

void qs_begin(void)
{
    if (pthread_key_create(&end_key, thread_ends) != 0) {
        abort();
    }
    pawl__clock_hook = clock_hook;
    qs_self = thread_new(NULL);
    qs_self->real = pthread_self();
}
