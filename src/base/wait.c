/* SPDX-License-Identifier: Apache-2.0 */
/* The word's two low bits are the marks; the rest says what its owner is doing: 0, it runs; ASLEEP,
 * it sleeps on the word; else it polls, and the eventfd to write to is that number less one. So a
 * mark that is set while the owner runs, as when a leader finds its own answer, costs no system
 * call. */
#include "base/wait.h"

#include "base/clock.h"

#include <linux/futex.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define DOING_SHIFT 2
#define MARKS ((1u << DOING_SHIFT) - 1)
#define ASLEEP (UINT32_MAX >> DOING_SHIFT)

static void mark_and_wake(struct pawl__waiter *waiter, uint32_t mark)
{
    _Atomic uint32_t *word = &waiter->word;
    uint32_t old = atomic_fetch_or_explicit(word, mark, memory_order_acq_rel);
    if ((old & mark) != 0) {
        return;
    }
    /* The owner may have left meanwhile, so its memory is not touched any more. A wake-up that
     * comes too late wakes nobody or, at worst, somebody who looks again. */
    uint32_t doing = old >> DOING_SHIFT;
    if (doing == ASLEEP) {
        syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    } else if (doing != 0) {
        eventfd_write((int)doing - 1, 1);
    }
}

void pawl__waiter_finish(struct pawl__waiter *waiter)
{
    mark_and_wake(waiter, PAWL__WAITER_DONE);
}

void pawl__waiter_nudge(struct pawl__waiter *waiter)
{
    mark_and_wake(waiter, PAWL__WAITER_NUDGED);
}

/* Begin to sleep or to poll, unless a mark is set. */
static bool begin(struct pawl__waiter *waiter, uint32_t doing)
{
    uint32_t none = 0;
    return atomic_compare_exchange_strong(&waiter->word, &none, doing << DOING_SHIFT);
}

static void end(struct pawl__waiter *waiter)
{
    atomic_fetch_and(&waiter->word, MARKS);
}

/* Futexes know no BOOTTIME, so the sleep is cut into pieces of at most a minute, after each of
 * which the real clock is asked again: a suspended machine costs at most the piece that was
 * running. */
static void sleep_once(struct pawl__waiter *waiter, int64_t left_us)
{
    int64_t piece_us = pawl__min64(left_us, 60000000);
    struct timespec timeout = {piece_us / 1000000, (piece_us % 1000000) * 1000};
    if (begin(waiter, ASLEEP)) {
        syscall(
            SYS_futex, &waiter->word, FUTEX_WAIT_PRIVATE, ASLEEP << DOING_SHIFT, &timeout, NULL, 0);
        end(waiter);
    }
}

bool pawl__waiter_sleep(struct pawl__waiter *waiter, int64_t deadline_us)
{
    for (;;) {
        if (atomic_load_explicit(&waiter->word, memory_order_acquire) != 0) {
            pawl__waiter_take_nudge(waiter);
            return true;
        }
        int64_t left_us = deadline_us - pawl__now_us();
        if (left_us <= 0) {
            return false;
        }
        sleep_once(waiter, left_us);
    }
}

/* The time that poll() may take; never less than nothing. */
static struct timespec time_left(int64_t deadline_us)
{
    int64_t left_us = pawl__min64(deadline_us - pawl__now_us(), 60000000);
    left_us = pawl__max64(left_us, 0);
    return (struct timespec){left_us / 1000000, (left_us % 1000000) * 1000};
}

int pawl__waiter_poll(
    struct pawl__waiter *waiter, struct pollfd *fds, nfds_t count, int wake_fd, int64_t deadline_us)
{
    int ready = 0;
    fds[0] = (struct pollfd){wake_fd, POLLIN, 0};
    if (begin(waiter, (uint32_t)wake_fd + 1)) {
        struct timespec timeout = time_left(deadline_us);
        ready = ppoll(fds, count, &timeout, NULL);
        end(waiter);
        if (ready > 0 && fds[0].revents != 0) {
            eventfd_t ignored;
            eventfd_read(wake_fd, &ignored);
            ready--;
        }
    }
    if (ready <= 0) {
        pawl__waiter_take_nudge(waiter);
        return 0;
    }
    return ready;
}

void pawl__seat_init(struct pawl__seat *seat)
{
    seat->taken = false;
    pawl__list_init(&seat->followers);
}

bool pawl__seat_take(struct pawl__seat *seat, struct pawl__waiter *waiter)
{
    if (!seat->taken) {
        seat->taken = true;
        pawl__seat_leave(seat, waiter);
        return true;
    }
    if (pawl__list_empty(&waiter->node)) {
        pawl__list_push(&seat->followers, &waiter->node);
    }
    return false;
}

/* Somebody must look at a free seat. It stays queued until it has looked. */
static bool nudge_oldest(struct pawl__seat *seat)
{
    if (seat->taken || pawl__list_empty(&seat->followers)) {
        return false;
    }
    struct pawl__list *oldest = seat->followers.next;
    pawl__waiter_nudge(PAWL__CONTAINER(oldest, struct pawl__waiter, node));
    return true;
}

void pawl__seat_leave(struct pawl__seat *seat, struct pawl__waiter *waiter)
{
    pawl__list_remove(&waiter->node);
    nudge_oldest(seat); /* the nudge may have been meant for the one who leaves */
}

bool pawl__seat_yield(struct pawl__seat *seat)
{
    seat->taken = false;
    return nudge_oldest(seat);
}
