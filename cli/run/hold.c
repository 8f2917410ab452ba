/* SPDX-License-Identifier: Apache-2.0 */
/* The keeper while it holds the lock. The library renews by itself; what is left to do is
 *  - to write into the shared page until when the lock is sure, soon after every renewal;
 *  - to tell the front when it is lost;
 *  - to stand in for a front that is killed, or stopped when it would have to act.
 *
 * The front is the one to end the command. Only if the command still runs when half of what the
 * front leaves itself is over is it killed from here. */
#include "run/end.h"
#include "run/keeper.h"

#include <signal.h>
#include <stdio.h>

enum {
    RENEWALS_PER_LEASE = 3, /* of the library */
    DRIFT_DIVISOR = 100,    /* what it takes off a lease */
    LOOK_US_MIN = 2 * US_PER_MS,
    LOOKS_PER_LEASE = 20, /* at least, while a renewal is late */
    RESCUE_PACE_US = 100 * US_PER_MS,
    RESCUE_AFTER_US = 1 * US_PER_S, /* when the grace after a proved loss is over */
    REMAINS_PACE_US = 1 * US_PER_S,
};

struct watch {
    int64_t next_us; /* when to look at the time that is left */
    int64_t pace_us; /* and how long to wait until the next look if it has not grown */
    bool lost_told;
    int64_t woken_us; /* the deadline for which the front was woken */
};

/* ===== Until when it is sure ===== */

/* Look again just after the next renewal, which is a third of the lease after the last; and then
 * after 2, 4, 8 ... ms until it has come. */
static void look(struct run_keeper *keeper, struct watch *watch, int64_t now_us)
{
    _Atomic int64_t *shared = &keeper->link->shared->deadline_us;
    const int64_t left_ms = run_grip_left_ms(&keeper->grip);
    if (left_ms == INT64_MAX) {
        watch->next_us = RUN_NEVER;
        return;
    }
    const int64_t lease_us = keeper->options->lease_ms * US_PER_MS;
    const int64_t deadline_us = now_us + left_ms * US_PER_MS;
    const int64_t known_us = atomic_load(shared);
    if (left_ms > 0 && (known_us == RUN_NEVER || deadline_us > known_us + US_PER_MS)) {
        atomic_store(shared, deadline_us);
        const int64_t sent_us = deadline_us - lease_us + lease_us / DRIFT_DIVISOR;
        watch->next_us = sent_us + lease_us / RENEWALS_PER_LEASE;
        watch->pace_us = LOOK_US_MIN;
    }
    if (watch->next_us <= now_us) {
        watch->next_us = now_us + watch->pace_us;
        watch->pace_us = run_min(2 * watch->pace_us, lease_us / LOOKS_PER_LEASE);
    }
}

static void tell_held(struct run_keeper *keeper)
{
    struct run_message message = {.word = RUN_HELD};
    message.token = run_grip_token(&keeper->grip);
    run_grip_owner(&keeper->grip, keeper->owner);
    snprintf(message.text, sizeof message.text, "%s", keeper->owner);
    run_link_tell(keeper->link->keeper_fd, &message); /* nothing runs yet that is to be watched */
}

/* ===== Standing in for the front ===== */

/* False: it has to be told again. */
static bool tell_lost(struct run_keeper *keeper)
{
    const bool late = keeper->grip.lost_us >= atomic_load(&keeper->link->shared->deadline_us);
    const bool told = run_link_say(keeper->link->keeper_fd, RUN_LOST,
        late ? "its time was over" : "somebody broke it, or its data was lost");
    kill(keeper->front, SIGCONT);
    return told;
}

static void rescue(struct run_keeper *keeper)
{
    struct run_tree tree = {.front = keeper->front,
        .keeper = getpid(),
        .child = (pid_t)atomic_load(&keeper->link->shared->child),
        .shares = keeper->front_shares,
        .mark = keeper->owner};
    run_tree_signal(&tree, SIGKILL);
    run_tree_free(&tree);
}

/* Wake a stopped front when it has to act, and act if it does not. When to look again. */
static int64_t watch_front(struct run_keeper *keeper, struct watch *watch, int64_t now_us)
{
    const int64_t deadline_us = atomic_load(&keeper->link->shared->deadline_us);
    int64_t rescue_us = RUN_NEVER;
    int64_t wake_us = RUN_NEVER;
    if (keeper->grip.lost) {
        rescue_us = keeper->grip.lost_us + keeper->options->grace_ms * US_PER_MS + RESCUE_AFTER_US;
    }
    if (deadline_us != RUN_NEVER) {
        rescue_us = run_min(rescue_us, deadline_us - run_kill_margin_us(keeper->options) / 2);
        wake_us = deadline_us - run_term_margin_us(keeper->options);
    }
    if (now_us >= wake_us && watch->woken_us != deadline_us) {
        watch->woken_us = deadline_us;
        kill(keeper->front, SIGCONT);
    }
    if (now_us >= rescue_us) {
        rescue(keeper);
        return now_us + RESCUE_PACE_US;
    }
    return run_min(rescue_us, watch->woken_us != deadline_us ? wake_us : RUN_NEVER);
}

/* The front was killed: end the command in its place. As long as something runs that may not be
 * ended, the lock is not released. */
static void end_command(struct run_keeper *keeper)
{
    struct run_tree tree = {.child = (pid_t)atomic_load(&keeper->link->shared->child),
        .child_us = atomic_load(&keeper->link->shared->child_us),
        .mark = keeper->owner};
    struct run_end end;
    const int64_t deadline_us = atomic_load(&keeper->link->shared->deadline_us);
    int64_t kill_us = run_now_us() + keeper->options->grace_ms * US_PER_MS;
    if (deadline_us != RUN_NEVER) {
        kill_us = run_min(kill_us, deadline_us - run_kill_margin_us(keeper->options));
    }
    run_end_start(&end, &tree, kill_us);
    while (!run_end_step(&end, run_now_us())) {
        run_keeper_pump(keeper, run_end_next_us(&end, run_now_us()));
    }
    while (!keeper->grip.lost && run_tree_signal(&tree, 0).alive > 0) {
        run_keeper_pump(keeper, run_now_us() + REMAINS_PACE_US);
    }
    run_tree_free(&tree);
}

/* The front may ask for a pause at the very moment in which it is told that it has the lock. It
 * does so only before it has started the command. */
bool run_hold(struct run_keeper *keeper)
{
    struct watch watch = {0, LOOK_US_MIN, false, 0};
    atomic_store(&keeper->link->shared->held_us, run_now_us());
    look(keeper, &watch, run_now_us());
    tell_held(keeper);
    while (!keeper->done && !keeper->front_gone) {
        if (keeper->pausing) {
            return false;
        }
        const int64_t now_us = run_now_us();
        if (watch.next_us <= now_us && !keeper->grip.lost) {
            look(keeper, &watch, now_us);
        }
        if (keeper->grip.lost && !watch.lost_told) {
            watch.lost_told = tell_lost(keeper);
        }
        int64_t front_us = watch_front(keeper, &watch, now_us);
        if (keeper->grip.lost && !watch.lost_told) {
            front_us = run_min(front_us, now_us + RESCUE_PACE_US);
        }
        run_keeper_pump(keeper, run_min(front_us, keeper->grip.lost ? RUN_NEVER : watch.next_us));
    }
    if (keeper->front_gone && !keeper->done) {
        end_command(keeper);
    }
    return true;
}
