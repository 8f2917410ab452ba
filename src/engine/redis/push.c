/* SPDX-License-Identifier: Apache-2.0 */
/* The threads of the push connection; push.h describes the whole, subscribe.c has what is said.
 *
 * Whoever sits always polls, so a nudge ends its sleep. A nudge here is nearly always the core's,
 * whose caller has to do something else now; so a follower that was woken goes back to the core
 * whatever the reason. */
#include "engine/redis/push.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fds.h"

#include <string.h>

enum {
    WOKEN_SIZE_MAX = 1 << 20, /* bytes of names to wake at once; beyond, all are */
    IDLE_US = 1000 * 1000,    /* after so long look whether the server is still there */
    LOOKS_MAX = 4,            /* receives that this may take */
};

static const char closed_sentence[] = "the client was closed before it was confirmed";

bool pawl__push_init(struct pawl__push *push, struct pawl__host *host,
    const struct pawl__redis_config *config, struct pawl__conn *conn)
{
    push->host = host;
    push->config = config;
    push->pong_us = PAWL__NEVER;
    push->watches_open = &conn->watches_open;
    push->reopened = &conn->reopened;
    pthread_mutex_init(&push->mutex, NULL);
    pawl__link_init(&push->link, config, NULL);
    pawl__seat_init(&push->seat);
    pawl__buffer_init(&push->woken, WOKEN_SIZE_MAX);
    push->wake_fd = pawl__fd_eventfd();
    return pawl__map_init(&push->channels) && push->wake_fd >= 0;
}

/* ===== Telling the host ===== */

/* The buffer has copies of the names, for a place may be closed meanwhile. Who calls this, sits. */
static void wake_names(struct pawl__push *push)
{
    while (pawl__buffer_size(&push->woken) > 0) {
        struct pawl__woken woken;
        const char *entry = pawl__buffer_data(&push->woken);
        memcpy(&woken, entry, sizeof woken);
        push->host->wake(push->host, entry + sizeof woken, woken.name_size, woken.id);
        pawl__buffer_consume(&push->woken, sizeof woken + woken.name_size);
    }
}

static bool anything_to_tell(const struct pawl__push *push, const struct pawl__effects *effects)
{
    return pawl__effects_any(effects) || push->wake_all || pawl__buffer_size(&push->woken) > 0;
}

/* Mutex held, but not meanwhile. */
static void deliver(struct pawl__push *push, struct pawl__effects *effects)
{
    if (!anything_to_tell(push, effects)) {
        return;
    }
    const bool all = push->wake_all;
    push->wake_all = false;
    pthread_mutex_unlock(&push->mutex);
    pawl__effects_deliver(effects, push->host);
    wake_names(push);
    if (all) {
        push->host->wake(push->host, NULL, 0, 0);
    }
    pthread_mutex_lock(&push->mutex);
}

/* ===== One turn of whoever sits ===== */

static void received(
    struct pawl__push *push, enum pawl__stream_result result, struct pawl__effects *effects)
{
    const int64_t now_us = pawl__now_us();
    if (result == PAWL__STREAM_OK) {
        pawl__push_take(push, now_us, effects);
    } else if (result != PAWL__STREAM_AGAIN) {
        push->keeper_polls = false;
        pawl__push_lose(push, now_us, pawl__link_failure_status(&push->link, result),
            pawl__link_failure(&push->link, result), effects);
    }
}

static void connect_on(struct pawl__push *push, int64_t now_us, struct pawl__effects *effects)
{
    push->keeper_polls = false;
    const enum pawl__link_event event = pawl__link_advance(&push->link, now_us);
    if (event == PAWL__LINK_OPENED) {
        pawl__push_opened(push, now_us, effects);
    } else if (event == PAWL__LINK_FAILED) {
        pawl__push_not_opened(push, effects);
    }
}

/* Do what can be done without waiting. */
static void serve(struct pawl__push *push, struct pawl__effects *effects)
{
    const int64_t now_us = pawl__now_us();
    if (push->link.state == PAWL__LINK_READY) {
        received(push, pawl__link_receive_now(&push->link), effects);
    }
    pawl__push_check_time(push, now_us, effects);
    if (push->link.state != PAWL__LINK_READY && push->channels.count > 0) {
        connect_on(push, now_us, effects);
    } else if (push->link.state == PAWL__LINK_READY && push->rest) {
        pawl__push_subscribe_rest(push, now_us, effects);
    }
    if (push->link.state == PAWL__LINK_READY) {
        pawl__link_flush(&push->link); /* a failure shows when receiving */
    }
}

/* Poll until something is ready, the waiter is done or nudged, or it is time. False: nothing is
 * ready. */
static bool poll_link(struct pawl__push *push, struct pawl__waiter *waiter, int64_t deadline_us)
{
    struct pollfd fds[2] = {{-1, 0, 0}, pawl__link_poll(&push->link)};
    const int64_t until_us = pawl__min64(deadline_us, pawl__push_due(push));
    push->poller = waiter;
    pthread_mutex_unlock(&push->mutex);
    const int ready = pawl__waiter_poll(waiter, fds, 2, push->wake_fd, until_us);
    pthread_mutex_lock(&push->mutex);
    push->poller = NULL;
    return ready > 0;
}

/* ===== Leading and following ===== */

/* Nobody sits: does the keeper have to be told that something is to be read? */
static bool needs_keeper(const struct pawl__push *push)
{
    return !push->seat.taken && pawl__list_empty(&push->seat.followers) &&
           push->channels.count > 0 &&
           !(push->keeper_polls && push->keeper_us <= pawl__push_due(push));
}

/* Read for everybody until our own wait is over. Mutex held, seat ours; the seat is given back. */
static void lead(struct pawl__push *push, struct pawl__waiter *waiter, int64_t deadline_us)
{
    bool on = true;
    while (on) {
        struct pawl__effects effects;
        pawl__effects_init(&effects);
        serve(push, &effects);
        deliver(push, &effects);
        on = !pawl__waiter_done(waiter) && !pawl__waiter_take_nudge(waiter) &&
             poll_link(push, waiter, deadline_us) && pawl__now_us() < deadline_us;
    }
    pawl__seat_yield(&push->seat);
}

void pawl__push_drive(struct pawl__push *push, struct pawl__waiter *waiter, int64_t deadline_us)
{
    struct pawl__effects last;
    pawl__effects_init(&last);
    pthread_mutex_lock(&push->mutex);
    if (!pawl__waiter_done(waiter) && !pawl__waiter_take_nudge(waiter)) {
        if (pawl__seat_take(&push->seat, waiter)) {
            lead(push, waiter, deadline_us);
        } else {
            pthread_mutex_unlock(&push->mutex);
            pawl__waiter_sleep(waiter, deadline_us);
            pthread_mutex_lock(&push->mutex);
            pawl__seat_leave(&push->seat, waiter);
        }
    }
    last.attend = needs_keeper(push);
    pthread_mutex_unlock(&push->mutex);
    pawl__effects_deliver(&last, push->host);
}

/* ===== Submitting ===== */

/* A server that has ended the idle connection is noticed before it is asked. The caller sits. */
static void look_after_idling(
    struct pawl__push *push, int64_t now_us, struct pawl__effects *effects)
{
    enum pawl__stream_result result = PAWL__STREAM_OK;
    const bool idle = now_us - push->heard_us > IDLE_US;
    for (int i = 0;
         idle && i < LOOKS_MAX && push->link.state == PAWL__LINK_READY && result == PAWL__STREAM_OK;
         i++) {
        result = pawl__link_receive_now(&push->link);
        received(push, result, effects);
    }
}

static void send_queued(struct pawl__push *push, bool sits, struct pawl__effects *effects)
{
    if (push->link.state != PAWL__LINK_READY ||
        pawl__link_flush(&push->link) != PAWL__STREAM_FAILED) {
        return;
    }
    if (sits) {
        received(push, PAWL__STREAM_FAILED, effects);
    } else {
        pawl__stream_shutdown(&push->link.stream); /* who sits will see */
    }
}

void pawl__push_submit(struct pawl__push *push, struct pawl__op *ops)
{
    struct pawl__effects effects;
    const int64_t sent_us = ops->sent_us;
    pawl__effects_init(&effects);
    if (push->stopped) {
        pawl__effects_fail_all(
            &effects, ops, PAWL__FAILED, PAWL_UNAVAILABLE, false, closed_sentence);
        pawl__effects_deliver(&effects, push->host);
        return;
    }
    pthread_mutex_lock(&push->mutex);
    const bool sits = !push->seat.taken;
    push->seat.taken = true; /* for as long as it takes: so `in` and `woken` are ours */
    if (sits) {
        look_after_idling(push, sent_us, &effects);
    }
    while (ops != NULL) {
        struct pawl__op *op = ops;
        ops = op->next;
        pawl__push_start(push, op, &effects);
    }
    if (push->poller != NULL) {
        pawl__waiter_nudge(push->poller); /* there is a new deadline, or a reason to connect */
    }
    send_queued(push, sits, &effects);
    if (sits) {
        deliver(push, &effects);
        pawl__effects_init(&effects);
        pawl__seat_yield(&push->seat);
    }
    effects.attend = needs_keeper(push);
    pthread_mutex_unlock(&push->mutex);
    pawl__effects_deliver(&effects, push->host);
}

/* ===== The keeper's part ===== */

size_t pawl__push_poll(struct pawl__push *push, struct pollfd *fds, int64_t *due_us)
{
    size_t count = 0;
    pthread_mutex_lock(&push->mutex);
    push->keeper_polls = !push->seat.taken && push->channels.count > 0;
    if (push->keeper_polls) {
        push->keeper_us = pawl__push_due(push);
        *due_us = pawl__min64(*due_us, push->keeper_us);
        fds[0] = pawl__link_poll(&push->link);
        count = fds[0].fd >= 0 ? 1 : 0;
    }
    pthread_mutex_unlock(&push->mutex);
    return count;
}

void pawl__push_pump(struct pawl__push *push)
{
    struct pawl__effects effects;
    pawl__effects_init(&effects);
    pthread_mutex_lock(&push->mutex);
    push->keeper_polls = false;
    if (!push->seat.taken && push->channels.count > 0) {
        push->seat.taken = true;
        serve(push, &effects);
        deliver(push, &effects);
        pawl__seat_yield(&push->seat);
    }
    pthread_mutex_unlock(&push->mutex);
}

/* ===== The end ===== */

void pawl__push_forget(struct pawl__push *push, struct pawl__redis_place *place)
{
    pthread_mutex_lock(&push->mutex);
    pawl__push_end_place(push, place);
    if (push->link.state == PAWL__LINK_READY) {
        pawl__link_flush(&push->link);
    }
    pthread_mutex_unlock(&push->mutex);
}

void pawl__push_stop(struct pawl__push *push)
{
    struct pawl__effects effects;
    pawl__effects_init(&effects);
    push->stopped = true;
    pawl__push_refuse_all(push, closed_sentence, &effects);
    pawl__effects_deliver(&effects, push->host);
}

void pawl__push_close(struct pawl__push *push)
{
    pawl__link_free(&push->link);
    pawl__map_free(&push->channels);
    pawl__buffer_free(&push->woken);
    pawl__free(push->asks);
    pawl__fd_close(push->wake_fd);
    pthread_mutex_destroy(&push->mutex);
}
