/* SPDX-License-Identifier: Apache-2.0 */
/* The threads of the command connection: who leads, who follows, and the keeper's part. conn.h
 * describes the whole.
 *
 * Two ways to sleep. With answers under way the leader sleeps in recv itself, which is the quickest
 * there is, and which nothing but the server (or a shutdown of the socket) ends early. Otherwise,
 * that is while it connects, while the kernel takes no more bytes, or while its own wait may be
 * ended by something else than a reply on this connection, it polls, and a nudge of its waiter ends
 * that too.
 *
 * Being called and being nudged look the same to a follower: it is awake. Called to sit down it
 * should do so without asking anybody; nudged by the core it must go back and look what has
 * changed. So a call is noted in `called`, only followers that have not been nudged are called, and
 * if anything was completed since, which may have brought a nudge that merged with the call, the
 * follower goes back all the same: a needless look is harmless, a missing one is not. */
#include "engine/redis/conn.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/rare.h"

#include <assert.h>
#include <sched.h>
#include <stdio.h>

enum {
    US_PER_MS = 1000,
    CROWD = 3,                /* so many woken at once are given the processor */
    RESERVED_US = 100,        /* so long the seat is kept for who was called */
    LATE_US = 20 * US_PER_MS, /* who sits judges its replies itself unless it sleeps longer */
    BUSY = 64,                /* so many exchanges make it worth the keeper's while to look */
    GUARDED_US_MIN = 100 * US_PER_MS, /* the shortest timeout with which it does */
    ENDED_US = 10 * US_PER_MS,        /* who sits is given so long to see the end */
};

/* ===== Seats ===== */

/* Ask a follower to sit down. */
static void call_follower(struct pawl__conn *conn)
{
    const struct pawl__list *followers = &conn->seat.followers;
    if (conn->seat.taken || conn->called != NULL) {
        return;
    }
    for (struct pawl__list *node = followers->next; node != followers; node = node->next) {
        struct pawl__waiter *waiter = PAWL__CONTAINER(node, struct pawl__waiter, node);
        if (!pawl__waiter_marked(waiter)) {
            conn->called = waiter;
            conn->called_at = conn->completion_count;
            conn->called_us = conn->active_us;
            pawl__waiter_nudge(waiter);
            return;
        }
    }
    /* The others, if any, are awake already; each looks for somebody to call when it leaves. */
}

bool pawl__conn_needs_care(const struct pawl__conn *conn)
{
    if (conn->link.state != PAWL__LINK_READY) {
        return conn->pending != NULL || conn->persist;
    }
    return conn->slots.orphan_count > 0 || (conn->strays && conn->slots.awaited_count > 0) ||
           conn->stuck || conn->retiring;
}

/* Nobody sits. If nobody follows either, send what was queued meanwhile, and have the keeper look
 * if there is more to do; it also finds out what went wrong if it could not be sent. */
static void call_somebody(struct pawl__conn *conn, struct pawl__effects *effects)
{
    if (!pawl__list_empty(&conn->seat.followers)) {
        call_follower(conn);
        return;
    }
    if (conn->link.state == PAWL__LINK_READY && pawl__buffer_size(&conn->link.out) > 0) {
        conn->stuck = pawl__link_flush(&conn->link) != PAWL__STREAM_OK;
    }
    effects->attend = pawl__conn_needs_care(conn);
}

void pawl__conn_get_up(struct pawl__conn *conn, struct pawl__effects *effects)
{
    assert(conn->seat.taken);
    conn->seat.taken = false;
    call_somebody(conn, effects);
}

/* Tell the host while sitting. Mutex held, but not meanwhile. */
static void deliver(struct pawl__conn *conn, struct pawl__effects *effects)
{
    if (!pawl__effects_any(effects)) {
        return;
    }
    conn->completion_count += effects->ops != NULL ? 1 : 0;
    pthread_mutex_unlock(&conn->mutex);
    pawl__effects_deliver(effects, conn->host);
    if (effects->op_count > CROWD) {
        sched_yield(); /* so that their next commands share a write */
    }
    pthread_mutex_lock(&conn->mutex);
}

/* ===== One turn of whoever sits ===== */

static const char late_sentence[] = "it did not answer in time";

PAWL__RARE static void give_up_overdue(struct pawl__conn *conn, struct pawl__effects *effects)
{
    const int64_t now_us = pawl__now_us();
    if (conn->link.state == PAWL__LINK_READY && now_us >= pawl__slots_due(&conn->slots)) {
        pawl__conn_lose(conn, now_us, PAWL_UNAVAILABLE, late_sentence, effects);
    }
}

/* What came of receiving. What is there is read before a reply is judged overdue, unless it goes on
 * and on and no answer is in it. */
static void received(
    struct pawl__conn *conn, enum pawl__stream_result result, struct pawl__effects *effects)
{
    const size_t count = conn->slots.count;
    switch (result) {
    case PAWL__STREAM_OK:
        pawl__conn_take_replies(conn, effects);
        if (count > 0 && conn->slots.count == count) {
            give_up_overdue(conn, effects);
        }
        return;
    case PAWL__STREAM_AGAIN:
    case PAWL__STREAM_TIMEOUT:
        give_up_overdue(conn, effects);
        return;
    case PAWL__STREAM_PENDING:
    case PAWL__STREAM_CLOSED:
    case PAWL__STREAM_FAILED:
        pawl__conn_lose(conn, pawl__now_us(), pawl__link_failure_status(&conn->link, result),
            conn->overdue ? late_sentence : pawl__link_failure(&conn->link, result), effects);
        return;
    }
}

/* Send what is queued. False: the connection is broken; what had arrived before was taken. */
static bool flush(struct pawl__conn *conn, struct pawl__effects *effects)
{
    const enum pawl__stream_result result = pawl__link_flush(&conn->link);
    conn->stuck = result == PAWL__STREAM_AGAIN;
    if (result != PAWL__STREAM_FAILED) {
        return true;
    }
    const int error = conn->link.stream.error;
    if (pawl__link_receive_now(&conn->link) == PAWL__STREAM_OK) {
        pawl__conn_take_replies(conn, effects);
    }
    if (conn->link.state == PAWL__LINK_READY) {
        pawl__conn_lose(conn, pawl__now_us(), PAWL_UNAVAILABLE, pawl__errno_text(error), effects);
    }
    return false;
}

/* Poll the connection until something is ready, the waiter is done or nudged, or the time has come.
 * False: nothing is ready. */
PAWL__RARE static bool poll_link(
    struct pawl__conn *conn, struct pawl__waiter *waiter, int64_t deadline_us)
{
    struct pollfd fds[2] = {{-1, 0, 0}, pawl__link_poll(&conn->link)};
    conn->poller = waiter;
    conn->asleep = true;
    conn->asleep_us = deadline_us;
    pthread_mutex_unlock(&conn->mutex);
    const int ready = pawl__waiter_poll(waiter, fds, 2, conn->wake_fd, deadline_us);
    pthread_mutex_lock(&conn->mutex);
    conn->asleep = false;
    conn->poller = NULL;
    return ready > 0;
}

/* With a short timeout the keeper would have to look too often. */
static bool may_be_guarded(const struct pawl__conn *conn)
{
    return conn->config->settings.timeout_us >= GUARDED_US_MIN;
}

/* Replies are awaited; the caller's own wait ends at the deadline. If the keeper looks before the
 * first reply is overdue it will see that there is something to come back for. */
static enum pawl__stream_result sleep_in_recv(
    struct pawl__conn *conn, int64_t deadline_us, struct pawl__effects *effects)
{
    const int64_t due_us = pawl__slots_due(&conn->slots);
    const bool guarded = conn->keeper_us != 0 && conn->keeper_us <= due_us;
    conn->unbounded = guarded && due_us <= deadline_us;
    conn->exchange_count++;
    if (conn->exchange_count == BUSY && conn->keeper_us == 0 && may_be_guarded(conn)) {
        effects->attend = true; /* worth its while now */
    }
    conn->asleep = true;
    conn->asleep_us = pawl__min64(deadline_us, due_us);
    const int64_t until_us = conn->unbounded ? PAWL__NEVER : conn->asleep_us;
    pthread_mutex_unlock(&conn->mutex);
    const enum pawl__stream_result result = pawl__link_receive_wait(&conn->link, until_us);
    pthread_mutex_lock(&conn->mutex);
    conn->asleep = false;
    conn->unbounded = false;
    return result;
}

/* Is every end of the caller's wait something that recv sees? The order matters: who has got up
 * finishes waiters before it says that it has told the host. */
static bool recv_sees_all(const struct pawl__conn *conn, const struct pawl__waiter *waiter)
{
    return conn->slots.count > 0 && !conn->stuck && atomic_load(&conn->watches_open) == 0 &&
           !atomic_load(&conn->handing) && !pawl__waiter_marked(waiter);
}

/* Each turn says whether the leader may go on without going back to the core to look. */

static bool turn_ready(struct pawl__conn *conn, struct pawl__waiter *waiter, int64_t deadline_us,
    struct pawl__effects *effects)
{
    if (!flush(conn, effects)) {
        return true;
    }
    if (recv_sees_all(conn, waiter)) {
        received(conn, sleep_in_recv(conn, deadline_us, effects), effects);
        return true;
    }
    const bool ready =
        poll_link(conn, waiter, pawl__min64(deadline_us, pawl__slots_due(&conn->slots)));
    received(conn, pawl__link_receive_now(&conn->link), effects);
    return ready;
}

/* Connect as far as possible. */
static enum pawl__link_event advance(struct pawl__conn *conn, struct pawl__effects *effects)
{
    const int64_t now_us = pawl__now_us();
    enum pawl__link_event event = PAWL__LINK_WAITING;
    if (pawl__conn_needs_care(conn)) {
        event = pawl__link_advance(&conn->link, now_us);
    }
    if (event == PAWL__LINK_OPENED) {
        pawl__conn_opened(conn, effects);
    } else if (event == PAWL__LINK_FAILED) {
        pawl__conn_not_opened(conn, effects);
    } else {
        pawl__conn_expire(conn, now_us, effects);
    }
    return event;
}

/* When a connection that is not READY has to be looked at again. */
static int64_t connecting_due(const struct pawl__conn *conn)
{
    return pawl__conn_needs_care(conn)
               ? pawl__min64(pawl__link_due(&conn->link), pawl__conn_pending_due(conn))
               : PAWL__NEVER;
}

PAWL__RARE static bool turn_not_ready(struct pawl__conn *conn, struct pawl__waiter *waiter,
    int64_t deadline_us, struct pawl__effects *effects)
{
    if (advance(conn, effects) != PAWL__LINK_WAITING || pawl__effects_any(effects)) {
        return true;
    }
    return poll_link(conn, waiter, pawl__min64(deadline_us, connecting_due(conn)));
}

static bool take_turn(struct pawl__conn *conn, struct pawl__waiter *waiter, int64_t deadline_us,
    struct pawl__effects *effects)
{
    return conn->link.state == PAWL__LINK_READY
               ? turn_ready(conn, waiter, deadline_us, effects)
               : turn_not_ready(conn, waiter, deadline_us, effects);
}

/* ===== Leading and following ===== */

/* The answer that has just come was the last, and nobody else waits. */
static bool is_alone(const struct pawl__conn *conn, const struct pawl__effects *effects)
{
    return effects->ops != NULL && conn->slots.count == 0 &&
           pawl__list_empty(&conn->seat.followers) && conn->link.state == PAWL__LINK_READY &&
           !atomic_load(&conn->handing);
}

/* Get up first and tell the host then, which saves a lone caller the mutex. Others may sit down
 * meanwhile: `handing` has them poll, for it may be their own answer that we still have to bring.
 * Mutex held on entry, but not on return. */
static void get_up_and_deliver(struct pawl__conn *conn, struct pawl__effects *effects)
{
    conn->strays = false;
    conn->completion_count++;
    conn->seat.taken = false;
    atomic_store(&conn->handing, true);
    pthread_mutex_unlock(&conn->mutex);
    pawl__effects_deliver(effects, conn->host);
    atomic_store(&conn->handing, false);
}

/* Read for everybody until our own wait is over. The mutex is held, and the seat ours, on entry;
 * on return the seat is given back, and false means that so is the mutex. */
static bool lead(struct pawl__conn *conn, struct pawl__waiter *waiter, int64_t deadline_us,
    struct pawl__effects *last)
{
    bool on = true;
    while (on) {
        struct pawl__effects effects;
        pawl__effects_init(&effects);
        on = take_turn(conn, waiter, deadline_us, &effects);
        if (is_alone(conn, &effects)) {
            get_up_and_deliver(conn, &effects);
            return false;
        }
        deliver(conn, &effects);
        if (pawl__waiter_done(waiter) || pawl__waiter_take_nudge(waiter)) {
            break;
        }
        on = on && pawl__now_us() < deadline_us;
    }
    conn->strays = conn->slots.awaited_count > 0 && (conn->strays || !pawl__waiter_done(waiter));
    pawl__conn_get_up(conn, last);
    return true;
}

/* The leader sleeps longer than the first reply is due (without a timer, or with deadlines out of
 * order): wake it. If something has arrived it is waking up anyway. */
static void wake_for_overdue(struct pawl__conn *conn)
{
    if (!conn->asleep || conn->poller != NULL || conn->link.state != PAWL__LINK_READY) {
        return;
    }
    const int64_t now_us = pawl__now_us();
    struct pollfd fd = {conn->link.stream.fd, POLLIN, 0};
    if (now_us >= pawl__slots_due(&conn->slots) &&
        (conn->unbounded || conn->asleep_us > now_us + LATE_US) && poll(&fd, 1, 0) == 0) {
        conn->overdue = true;
        pawl__stream_shutdown(&conn->link.stream);
    }
}

/* Sleep as a follower. True: try to sit down; false: go back to the core. Mutex held. */
static bool follow(struct pawl__conn *conn, struct pawl__waiter *waiter, int64_t deadline_us)
{
    pthread_mutex_unlock(&conn->mutex);
    const bool woken = pawl__waiter_sleep(waiter, deadline_us);
    pthread_mutex_lock(&conn->mutex);
    const bool called = conn->called == waiter;
    if (called) {
        conn->called = NULL;
    }
    if (!woken) {
        wake_for_overdue(conn);
    }
    return woken && called && conn->called_at == conn->completion_count;
}

/* Sit down, or queue up as a follower. Who was called to the seat is given a moment to come: to
 * take it from under its nose would have woken it for nothing, and it has to be woken for its
 * answer again. Not in a rush: then it comes after everybody else who was woken, and nobody would
 * send or receive until it does. */
static bool sit_down(struct pawl__conn *conn, struct pawl__waiter *waiter)
{
    const bool reserved = conn->called != NULL && conn->called != waiter &&
                          !pawl__conn_in_rush(conn) &&
                          conn->active_us - conn->called_us < RESERVED_US;
    if (!reserved || conn->seat.taken) {
        return pawl__seat_take(&conn->seat, waiter);
    }
    if (pawl__list_empty(&waiter->node)) {
        pawl__list_push(&conn->seat.followers, &waiter->node);
    }
    return false;
}

/* A follower goes. If nobody sits it may have been counted on. Mutex held. */
static void leave(struct pawl__conn *conn, struct pawl__waiter *waiter, struct pawl__effects *last)
{
    pawl__list_remove(&waiter->node);
    if (!pawl__waiter_done(waiter)) {
        conn->strays = conn->slots.awaited_count > 0;
    }
    if (!conn->seat.taken) {
        call_somebody(conn, last);
    }
}

/* Mutex held on entry, but not on return. */
static void drive(struct pawl__conn *conn, struct pawl__waiter *waiter, int64_t deadline_us)
{
    struct pawl__effects last;
    pawl__effects_init(&last);
    bool on = !pawl__waiter_take_nudge(waiter);
    bool led = false;
    while (on && !led && !pawl__waiter_done(waiter)) {
        led = sit_down(conn, waiter);
        if (!led) {
            on = follow(conn, waiter, deadline_us);
        } else if (!lead(conn, waiter, deadline_us, &last)) {
            return;
        }
    }
    if (!led) {
        leave(conn, waiter, &last);
    }
    pthread_mutex_unlock(&conn->mutex);
    pawl__effects_deliver(&last, conn->host);
}

void pawl__conn_drive(struct pawl__conn *conn, struct pawl__waiter *waiter, int64_t deadline_us)
{
    pthread_mutex_lock(&conn->mutex);
    drive(conn, waiter, deadline_us);
}

/* Submit and drive with the mutex taken once. */
void pawl__conn_ask(
    struct pawl__conn *conn, struct pawl__op *ops, struct pawl__waiter *waiter, int64_t deadline_us)
{
    struct pawl__effects effects;
    pawl__effects_init(&effects);
    pthread_mutex_lock(&conn->mutex);
    const bool sits = pawl__conn_accept(conn, ops, true, &effects);
    if (sits || pawl__effects_any(&effects)) {
        deliver(conn, &effects);
        pawl__effects_init(&effects);
        if (sits) {
            pawl__conn_get_up(conn, &effects);
            deliver(conn, &effects);
        }
    }
    drive(conn, waiter, deadline_us);
}

/* ===== First contact ===== */

static pawl_status not_connected(struct pawl__conn *conn, enum pawl__link_event event)
{
    if (event == PAWL__LINK_FAILED && conn->link.sentence != NULL) {
        return pawl__fail(conn->link.status, "%s", conn->link.sentence);
    }
    return pawl__fail(PAWL_UNAVAILABLE, "no connection to %s in time", conn->config->peer);
}

pawl_status pawl__conn_connect(struct pawl__conn *conn, int64_t deadline_us)
{
    struct pawl__waiter waiter;
    struct pawl__effects effects;
    enum pawl__link_event event = PAWL__LINK_WAITING;
    pawl__waiter_init(&waiter);
    pawl__effects_init(&effects);
    pthread_mutex_lock(&conn->mutex);
    conn->persist = true;
    const bool seated = pawl__seat_take(&conn->seat, &waiter);
    assert(seated); /* nobody else has been inside yet */
    (void)seated;
    while (conn->link.state != PAWL__LINK_READY && event != PAWL__LINK_FAILED &&
           pawl__now_us() < deadline_us) {
        event = advance(conn, &effects);
        if (event == PAWL__LINK_WAITING) {
            poll_link(conn, &waiter, pawl__min64(deadline_us, connecting_due(conn)));
        }
    }
    deliver(conn, &effects);
    const pawl_status status =
        conn->link.state == PAWL__LINK_READY ? PAWL_OK : not_connected(conn, event);
    conn->persist = status == PAWL_OK;
    pawl__effects_init(&effects);
    pawl__conn_get_up(conn, &effects);
    pthread_mutex_unlock(&conn->mutex);
    pawl__effects_deliver(&effects, conn->host);
    return status;
}

/* ===== The keeper's part ===== */

/* When the keeper comes back although nobody has asked for it: half a timeout from now if the
 * connection is busy, so that leaders need no timer; and if one sleeps like that, when its time is
 * over. A promise that has not come due yet is kept otherwise. */
static int64_t promise_look(struct pawl__conn *conn)
{
    const int64_t now_us = pawl__now_us();
    if (now_us >= conn->keeper_us) {
        const bool busy = conn->exchange_count >= BUSY && may_be_guarded(conn);
        conn->keeper_us = busy ? now_us + conn->config->settings.timeout_us / 2 : 0;
        conn->exchange_count = 0;
    }
    if (conn->unbounded) { /* if it is overdue already it is just waking up */
        conn->keeper_us = pawl__max64(pawl__slots_due(&conn->slots), now_us + US_PER_MS);
    }
    return conn->keeper_us != 0 ? conn->keeper_us : PAWL__NEVER;
}

/* What has to be read or timed while nobody sits. Mutex held. */
static size_t poll_unseated(const struct pawl__conn *conn, struct pollfd *fds, int64_t *due_us)
{
    const bool ready = conn->link.state == PAWL__LINK_READY;
    fds[0] = pawl__link_poll(&conn->link);
    *due_us = pawl__min64(*due_us, ready ? pawl__slots_due(&conn->slots) : connecting_due(conn));
    return fds[0].fd >= 0 ? 1 : 0;
}

size_t pawl__conn_glance(struct pawl__conn *conn, struct pollfd *fds, int64_t *due_us)
{
    size_t count = 0;
    pthread_mutex_lock(&conn->mutex);
    if (pawl__conn_needs_care(conn) && !conn->seat.taken) {
        count = poll_unseated(conn, fds, due_us);
    }
    pthread_mutex_unlock(&conn->mutex);
    return count;
}

/* Have the keeper woken by the end of a READY connection, and by nothing else. Who sits sees the
 * end, too, and may need a moment. Mutex held. */
static size_t poll_for_end(struct pawl__conn *conn, struct pollfd *fds, int64_t *due_us)
{
    if (conn->ended) {
        *due_us = pawl__min64(*due_us, pawl__now_us() + ENDED_US);
        return 0;
    }
    conn->watched = true;
    fds[0] = (struct pollfd){conn->link.stream.fd, POLLRDHUP, 0};
    return 1;
}

size_t pawl__conn_poll(struct pawl__conn *conn, struct pollfd *fds, int64_t *due_us)
{
    size_t count = 0;
    pthread_mutex_lock(&conn->mutex);
    *due_us = pawl__min64(*due_us, pawl__conn_trim(conn));
    const bool ready = conn->link.state == PAWL__LINK_READY;
    *due_us = pawl__min64(*due_us, promise_look(conn));
    if (pawl__conn_needs_care(conn) && !conn->seat.taken) {
        count = poll_unseated(conn, fds, due_us);
    } else if (ready) {
        const int64_t reply_us = pawl__slots_due(&conn->slots);
        if (conn->asleep && conn->asleep_us > pawl__later(reply_us, LATE_US)) {
            *due_us = pawl__min64(*due_us, reply_us);
        }
        count = poll_for_end(conn, fds, due_us);
    }
    pthread_mutex_unlock(&conn->mutex);
    return count;
}

/* A turn that does not wait. */
static void pump_once(struct pawl__conn *conn, struct pawl__effects *effects)
{
    if (conn->link.state != PAWL__LINK_READY) {
        advance(conn, effects);
    } else if (flush(conn, effects)) {
        received(conn, pawl__link_receive_now(&conn->link), effects);
    }
}

/* The same for a connection that may have ended. If nobody cares, it stays down. */
PAWL__RARE static void pump_ended(struct pawl__conn *conn, struct pawl__effects *effects)
{
    struct pawl__host *host = conn->host;
    conn->ended = false;
    pthread_mutex_unlock(&conn->mutex);
    const bool busy = host->busy == NULL || host->busy(host);
    pthread_mutex_lock(&conn->mutex);
    pump_once(conn, effects);
    if (conn->link.state == PAWL__LINK_DOWN && !busy && effects->ops == NULL) {
        conn->persist = conn->pending != NULL;
    }
}

void pawl__conn_pump(struct pawl__conn *conn, bool ended)
{
    struct pawl__effects effects;
    pawl__effects_init(&effects);
    pthread_mutex_lock(&conn->mutex);
    conn->ended = conn->link.state == PAWL__LINK_READY && (conn->ended || ended);
    if (conn->seat.taken) {
        wake_for_overdue(conn);
    } else if (conn->ended || pawl__conn_needs_care(conn)) {
        conn->seat.taken = true;
        if (conn->ended) {
            pump_ended(conn, &effects);
        } else {
            pump_once(conn, &effects);
        }
        deliver(conn, &effects);
        pawl__effects_init(&effects);
        pawl__conn_get_up(conn, &effects);
        effects.attend = false; /* who pumps, polls again */
    }
    pthread_mutex_unlock(&conn->mutex);
    pawl__effects_deliver(&effects, conn->host);
}
