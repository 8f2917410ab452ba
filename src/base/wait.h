/* SPDX-License-Identifier: Apache-2.0 */
/* How threads wait here: each caller that waits has a *waiter*, one word that it sleeps on, and
 * each thing that must be read by exactly one thread at a time (a connection, an inotify
 * descriptor) has a *seat*.
 *
 * Whoever waits takes the seat if it is free and reads for everybody (the leader); the others sleep
 * on their waiters (followers). A leader whose own wait is over gets up and nudges the oldest
 * follower, who then takes the seat. A nudge only means "look again": it may come without need and
 * is never the answer itself. */
#ifndef PAWL_BASE_WAIT_H
#define PAWL_BASE_WAIT_H

#include "base/list.h"

#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct pawl__waiter {
    _Atomic uint32_t word; /* PAWL__WAITER_DONE, PAWL__WAITER_NUDGED, and what the owner does now */
    struct pawl__list node; /* in a seat's followers; guarded by the seat's owner */
};

enum { PAWL__WAITER_DONE = 1, PAWL__WAITER_NUDGED = 2 };

static inline void pawl__waiter_init(struct pawl__waiter *waiter)
{
    atomic_init(&waiter->word, 0);
    pawl__list_init(&waiter->node);
}

static inline bool pawl__waiter_has(const struct pawl__waiter *waiter, uint32_t marks)
{
    return (atomic_load_explicit(&waiter->word, memory_order_acquire) & marks) != 0;
}

static inline bool pawl__waiter_done(const struct pawl__waiter *waiter)
{
    return pawl__waiter_has(waiter, PAWL__WAITER_DONE);
}

/* Done or nudged: it is to look. */
static inline bool pawl__waiter_marked(const struct pawl__waiter *waiter)
{
    return pawl__waiter_has(waiter, PAWL__WAITER_DONE | PAWL__WAITER_NUDGED);
}

/* False: there was none. */
static inline bool pawl__waiter_take_nudge(struct pawl__waiter *waiter)
{
    if (!pawl__waiter_has(waiter, PAWL__WAITER_NUDGED)) {
        return false;
    }
    atomic_fetch_and(&waiter->word, (uint32_t)~PAWL__WAITER_NUDGED);
    return true;
}

/* The wait is over. The waiter's memory may be gone as soon as this has stored the word. */
void pawl__waiter_finish(struct pawl__waiter *waiter);

/* Look again. The caller must know that the waiter still exists: it is not done, and that cannot
 * change while a mutex is held that finishing needs. */
void pawl__waiter_nudge(struct pawl__waiter *waiter);

/* Sleep until done, nudged or the deadline (BOOTTIME). Takes the nudge off. False: the deadline
 * came. */
bool pawl__waiter_sleep(struct pawl__waiter *waiter, int64_t deadline_us);

/* The same for a leader that has to poll descriptors: poll() them until one is ready, or the waiter
 * is done or nudged, or the deadline has come. fds[0] is overwritten with wake_fd, an eventfd that
 * only the leader of one seat uses, and drained afterwards. Answers the number of ready entries
 * among fds[1..count-1]. Takes the nudge off only if it answers 0. */
int pawl__waiter_poll(struct pawl__waiter *waiter, struct pollfd *fds, nfds_t count, int wake_fd,
    int64_t deadline_us);

/* All fields are guarded by a mutex of the seat's owner, which is held during each of these calls.
 */
struct pawl__seat {
    bool taken;
    struct pawl__list followers; /* oldest first */
};

void pawl__seat_init(struct pawl__seat *seat);

/* Take the seat, or queue up as a follower. True: the caller leads now. */
bool pawl__seat_take(struct pawl__seat *seat, struct pawl__waiter *waiter);

/* A follower stops waiting here, whatever woke it. Does nothing for a waiter that is not queued. */
void pawl__seat_leave(struct pawl__seat *seat, struct pawl__waiter *waiter);

/* The leader gets up. True: a follower was nudged and will take over; false: nobody sits now. */
bool pawl__seat_yield(struct pawl__seat *seat);

#endif
