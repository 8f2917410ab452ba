/* SPDX-License-Identifier: Apache-2.0 */
/* base/wait.h: the waiter, asleep and polling (seat_test.c has the seat).
 *
 * Who is woken by what, with deadlines that are checked with generous bounds: never early, not
 * absurdly late. Then thousands of waiters are handed to another thread that finishes or nudges
 * them at all possible moments, and are freed as soon as they are done: a wake-up that is lost is
 * noticed by its deadline, and a finish that looks back may be caught by the address sanitizer. */
#include "base/wait.h"

#include "base/clock.h"
#include "base/fds.h"
#include "support/wait.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include <cmocka.h>

#define LATE_US 5000000 /* what a loaded machine may add */

/* ===== The waiter ===== */

static void nothing_happens(void **state)
{
    (void)state;
    struct pawl__waiter waiter;
    pawl__waiter_init(&waiter);
    assert_false(pawl__waiter_done(&waiter));
    assert_false(pawl__waiter_sleep(&waiter, 0));
    assert_false(pawl__waiter_sleep(&waiter, INT64_MIN / 2));
    for (int64_t wait_us = 1; wait_us <= 100000; wait_us *= 10) {
        int64_t deadline_us = pawl__now_us() + wait_us;
        assert_false(pawl__waiter_sleep(&waiter, deadline_us));
        int64_t late_us = pawl__now_us() - deadline_us;
        assert_in_range(late_us, 0, LATE_US);
    }
}

/* Done is for ever, a nudge is for once; both count from before the sleep too. */
static void done_and_nudged_before(void **state)
{
    (void)state;
    struct pawl__waiter waiter;
    pawl__waiter_init(&waiter);
    pawl__waiter_nudge(&waiter);
    pawl__waiter_nudge(&waiter);
    assert_false(pawl__waiter_done(&waiter));
    assert_true(pawl__waiter_sleep(&waiter, PAWL__NEVER));
    assert_false(pawl__waiter_sleep(&waiter, pawl__now_us() + 1000));

    pawl__waiter_nudge(&waiter);
    pawl__waiter_finish(&waiter);
    for (int i = 0; i < 3; i++) {
        assert_true(pawl__waiter_sleep(&waiter, PAWL__NEVER));
        assert_true(pawl__waiter_sleep(&waiter, 0));
        assert_true(pawl__waiter_done(&waiter));
    }
}

struct sleeper {
    pthread_t thread;
    struct pawl__waiter waiter;
    int64_t deadline_us;
    _Atomic bool ready;
    bool woken;
    int64_t ended_us;
};

static void *sleep_there(void *arg)
{
    struct sleeper *sleeper = arg;
    atomic_store(&sleeper->ready, true);
    sleeper->woken = pawl__waiter_sleep(&sleeper->waiter, sleeper->deadline_us);
    sleeper->ended_us = pawl__now_us();
    return NULL;
}

static void start_sleeper(struct sleeper *sleeper, int64_t deadline_us)
{
    memset(sleeper, 0, sizeof *sleeper);
    pawl__waiter_init(&sleeper->waiter);
    sleeper->deadline_us = deadline_us;
    assert_int_equal(pthread_create(&sleeper->thread, NULL, sleep_there, sleeper), 0);
    WAIT_UNTIL(atomic_load(&sleeper->ready), 5000);
}

/* Woken in the first moments of the sleep, and after the thread is surely asleep. */
static void woken_from_another_thread(void **state)
{
    (void)state;
    for (int round = 0; round < 40; round++) {
        struct sleeper sleeper;
        start_sleeper(&sleeper, round % 4 < 2 ? PAWL__NEVER : pawl__now_us() + 60000000);
        nap_ms(round % 10 == 0 ? 5 : 0);
        int64_t begun_us = pawl__now_us();
        if (round % 2 == 0) {
            pawl__waiter_finish(&sleeper.waiter);
        } else {
            pawl__waiter_nudge(&sleeper.waiter);
        }
        assert_int_equal(pthread_join(sleeper.thread, NULL), 0);
        assert_true(sleeper.woken);
        assert_true(sleeper.ended_us - begun_us < LATE_US);
        assert_int_equal(pawl__waiter_done(&sleeper.waiter), round % 2 == 0);
    }
}

static void ignore_signal(int number)
{
    (void)number;
}

/* A signal interrupts the system call, not the sleep. */
static void signals_do_not_wake(void **state)
{
    (void)state;
    struct sigaction action = {.sa_handler = ignore_signal};
    struct sigaction old;
    assert_int_equal(sigaction(SIGUSR1, &action, &old), 0);
    struct sleeper sleeper;
    start_sleeper(&sleeper, pawl__now_us() + 60000);
    while (pawl__now_us() < sleeper.deadline_us - 20000) {
        pthread_kill(sleeper.thread, SIGUSR1);
        nap_ms(1);
    }
    assert_int_equal(pthread_join(sleeper.thread, NULL), 0);
    assert_int_equal(sigaction(SIGUSR1, &old, NULL), 0);
    assert_false(sleeper.woken);
    assert_true(sleeper.ended_us >= sleeper.deadline_us);
}

/* ===== Polling ===== */

/* fds[0] is the waiter's; [1] is readable while its eventfd is not zero. */
struct polled {
    struct pawl__waiter waiter;
    struct pollfd fds[2];
    int wake_fd;
    int data_fd;
};

static void polled_init(struct polled *polled)
{
    memset(polled, 0, sizeof *polled);
    pawl__waiter_init(&polled->waiter);
    polled->wake_fd = pawl__fd_eventfd();
    polled->data_fd = pawl__fd_eventfd();
    assert_true(polled->wake_fd >= 0 && polled->data_fd >= 0);
    polled->fds[1] = (struct pollfd){.fd = polled->data_fd, .events = POLLIN};
}

static void polled_free(struct polled *polled)
{
    pawl__fd_close(polled->wake_fd);
    pawl__fd_close(polled->data_fd);
}

static int poll_until(struct polled *polled, int64_t deadline_us)
{
    return pawl__waiter_poll(&polled->waiter, polled->fds, 2, polled->wake_fd, deadline_us);
}

static bool is_drained(const struct polled *polled)
{
    struct pollfd fd = {.fd = polled->wake_fd, .events = POLLIN};
    return poll(&fd, 1, 0) == 0;
}

static void poll_deadlines(void **state)
{
    (void)state;
    struct polled polled;
    polled_init(&polled);
    assert_int_equal(poll_until(&polled, 0), 0);
    for (int64_t wait_us = 100; wait_us <= 100000; wait_us *= 10) {
        int64_t deadline_us = pawl__now_us() + wait_us;
        assert_int_equal(poll_until(&polled, deadline_us), 0);
        int64_t late_us = pawl__now_us() - deadline_us;
        assert_in_range(late_us, 0, LATE_US);
    }
    assert_int_equal(atomic_load(&polled.waiter.word), 0);
    polled_free(&polled);
}

static void poll_finds_what_is_ready(void **state)
{
    (void)state;
    struct polled polled;
    polled_init(&polled);
    assert_int_equal(eventfd_write(polled.data_fd, 1), 0);
    assert_int_equal(poll_until(&polled, PAWL__NEVER), 1);
    assert_int_equal(polled.fds[1].revents, POLLIN);
    assert_int_equal(poll_until(&polled, 0), 1); /* ready counts more than the deadline */
    assert_int_equal(polled.fds[0].fd, polled.wake_fd);
    polled_free(&polled);
}

/* A mark from before ends it at once, whatever is ready; the nudge is taken off by that. */
static void poll_with_marks(void **state)
{
    (void)state;
    struct polled polled;
    polled_init(&polled);
    pawl__waiter_nudge(&polled.waiter);
    assert_int_equal(poll_until(&polled, PAWL__NEVER), 0);
    assert_int_equal(atomic_load(&polled.waiter.word), 0);
    assert_int_equal(eventfd_write(polled.data_fd, 1), 0);
    assert_int_equal(poll_until(&polled, PAWL__NEVER), 1);

    pawl__waiter_finish(&polled.waiter);
    assert_int_equal(poll_until(&polled, PAWL__NEVER), 0);
    assert_int_equal(poll_until(&polled, PAWL__NEVER), 0);
    assert_true(pawl__waiter_done(&polled.waiter));
    assert_true(is_drained(&polled)); /* nobody polled, so nothing was written */
    polled_free(&polled);
}

/* A wake-up that was meant for an earlier leader only makes the next one look again. */
static void poll_after_a_late_wake_up(void **state)
{
    (void)state;
    struct polled polled;
    polled_init(&polled);
    assert_int_equal(eventfd_write(polled.wake_fd, 1), 0);
    assert_int_equal(poll_until(&polled, PAWL__NEVER), 0);
    assert_true(is_drained(&polled));
    assert_int_equal(eventfd_write(polled.wake_fd, 1), 0);
    assert_int_equal(eventfd_write(polled.data_fd, 1), 0);
    assert_int_equal(poll_until(&polled, PAWL__NEVER), 1); /* the other entry alone counts */
    assert_true(is_drained(&polled));
    polled_free(&polled);
}

/* Without an eventfd nothing wakes it, but it still polls and keeps its deadline. */
static void poll_without_a_wake_fd(void **state)
{
    (void)state;
    struct polled polled;
    polled_init(&polled);
    pawl__fd_close(polled.wake_fd);
    polled.wake_fd = -1;
    int64_t deadline_us = pawl__now_us() + 2000;
    assert_int_equal(poll_until(&polled, deadline_us), 0);
    assert_true(pawl__now_us() >= deadline_us);
    assert_int_equal(eventfd_write(polled.data_fd, 1), 0);
    assert_int_equal(poll_until(&polled, PAWL__NEVER), 1);
    pawl__waiter_nudge(&polled.waiter);
    assert_int_equal(poll_until(&polled, PAWL__NEVER), 0);
    polled_free(&polled);
}

/* ===== Marks at all moments ===== */

#define HANDOFF_COUNT 20000
#define PATIENCE_US 10000000 /* nobody waits so long unless a wake-up was lost */

static struct pawl__waiter *_Atomic handed_over;
static _Atomic bool stop;

static void *mark_them(void *arg)
{
    (void)arg;
    for (unsigned i = 0; !atomic_load(&stop); i++) {
        struct pawl__waiter *waiter = atomic_exchange(&handed_over, NULL);
        for (unsigned spin = 0; spin < i % 64; spin++) {
            atomic_signal_fence(memory_order_seq_cst); /* let the owner come to each of its steps */
        }
        if (waiter == NULL) {
            sched_yield();
            continue;
        }
        if (i % 3 == 0) {
            pawl__waiter_nudge(waiter); /* it waits on: nobody else can finish it */
        }
        pawl__waiter_finish(waiter);
    }
    return NULL;
}

/* Wait until done in one of three ways; false: a wake-up was lost. */
static bool wait_until_done(struct pawl__waiter *waiter, struct polled *polled, int how)
{
    const int64_t deadline_us = pawl__now_us() + PATIENCE_US;
    while (!pawl__waiter_done(waiter)) {
        if (how == 1 && !pawl__waiter_sleep(waiter, deadline_us)) {
            return false;
        }
        if (how == 2) {
            pawl__waiter_poll(waiter, polled->fds, 2, polled->wake_fd, deadline_us);
        }
        if (pawl__now_us() >= deadline_us) {
            return false;
        }
    }
    return true;
}

static void freed_when_done(void **state)
{
    (void)state;
    pthread_t thread;
    struct polled polled; /* for its descriptors */
    polled_init(&polled);
    assert_int_equal(pthread_create(&thread, NULL, mark_them, NULL), 0);
    bool served = true;
    for (int i = 0; i < HANDOFF_COUNT && served; i++) {
        struct pawl__waiter *waiter = malloc(sizeof *waiter);
        pawl__waiter_init(waiter);
        atomic_store(&handed_over, waiter);
        served = wait_until_done(waiter, &polled, i % 3);
        if (served) {
            free(waiter);
        }
    }
    atomic_store(&stop, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    polled_free(&polled);
    assert_true(served);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_happens),
        cmocka_unit_test(done_and_nudged_before),
        cmocka_unit_test(woken_from_another_thread),
        cmocka_unit_test(signals_do_not_wake),
        cmocka_unit_test(poll_deadlines),
        cmocka_unit_test(poll_finds_what_is_ready),
        cmocka_unit_test(poll_with_marks),
        cmocka_unit_test(poll_after_a_late_wake_up),
        cmocka_unit_test(poll_without_a_wake_fd),
        cmocka_unit_test(freed_when_done),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
