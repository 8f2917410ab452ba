/* SPDX-License-Identifier: Apache-2.0 */
/* What goes into the command connection and what comes out of it; conn.h describes the whole,
 * drive.c has the threads that do it. */
#include "engine/redis/conn.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fds.h"
#include "base/rare.h"
#include "engine/redis/standing.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

enum {
    US_PER_MS = 1000,
    IDLE_US = 1000 * US_PER_MS, /* after so long look whether the server is still there */
    LOOKS_MAX = 4,              /* receives that this may take */
    SENTENCE_SIZE = 256,
    TRIM_US = 100 * US_PER_MS,           /* so long memory is kept that a rush has needed, */
    OUT_KEPT_SIZE = 8 << 10,             /* beyond so many bytes for commands; */
    OUT_COMMON_SIZE = 2 * OUT_KEPT_SIZE, /* the texts of scripts need so many without a rush */
};

static const char closed_sentence[] = "the client was closed before it was sent";

bool pawl__conn_init(
    struct pawl__conn *conn, struct pawl__host *host, const struct pawl__redis_config *config)
{
    conn->host = host;
    conn->config = config;
    atomic_init(&conn->watches_open, 0);
    atomic_init(&conn->reopened, 0);
    atomic_init(&conn->handing, false);
    conn->fenced = true;
    conn->pending_end = &conn->pending;
    pthread_mutex_init(&conn->mutex, NULL);
    pawl__commands_init(&conn->commands, host->uuid, config->token_ttl_s);
    pawl__introduction_init(&conn->introduction, host->uuid);
    pawl__link_init(&conn->link, config, &conn->doubt);
    pawl__slots_init(&conn->slots);
    pawl__seat_init(&conn->seat);
    conn->wake_fd = pawl__fd_eventfd();
    return conn->wake_fd >= 0;
}

/* ===== Keeping operations ===== */

static void keep(struct pawl__conn *conn, struct pawl__op *op)
{
    op->next = NULL;
    *conn->pending_end = op;
    conn->pending_end = &op->next;
}

/* All that is kept, taken out. */
static struct pawl__op *take_kept(struct pawl__conn *conn)
{
    struct pawl__op *ops = conn->pending;
    conn->pending = NULL;
    conn->pending_end = &conn->pending;
    return ops;
}

static bool is_over(const struct pawl__op *op, int64_t now_us)
{
    return now_us >= op->deadline_us;
}

/* Only the core wants to know it, which asks again, and most of its time has gone by. */
static bool is_stale(const struct pawl__op *op, int64_t now_us)
{
    return (op->kind == PAWL__OP_RENEW || op->kind == PAWL__OP_VERIFY) && !op->wanted &&
           now_us - op->sent_us > op->deadline_us - now_us;
}

/* End those of the kept operations that are so. */
static void end_kept(struct pawl__conn *conn,
    bool (*is_so)(const struct pawl__op *op, int64_t now_us), int64_t now_us,
    struct pawl__effects *effects)
{
    struct pawl__op *ops = take_kept(conn);
    while (ops != NULL) {
        struct pawl__op *op = ops;
        ops = op->next;
        if (!is_so(op, now_us)) {
            keep(conn, op);
        } else {
            char sentence[SENTENCE_SIZE];
            snprintf(sentence, sizeof sentence, "no connection to %s in time", conn->config->peer);
            pawl__effects_fail(effects, op, PAWL__FAILED, PAWL_UNAVAILABLE, true, sentence);
        }
    }
}

void pawl__conn_expire(struct pawl__conn *conn, int64_t now_us, struct pawl__effects *effects)
{
    end_kept(conn, is_over, now_us, effects);
}

int64_t pawl__conn_pending_due(const struct pawl__conn *conn)
{
    int64_t due_us = PAWL__NEVER;
    for (const struct pawl__op *op = conn->pending; op != NULL; op = op->next) {
        due_us = pawl__min64(due_us, op->deadline_us);
    }
    return due_us;
}

/* ===== Queueing commands ===== */

/* Cut the next command's worth from a list: one operation, as many renewals or releases as fit a
 * script, or acquires that are made together. */
static struct pawl__op *cut_batch(struct pawl__op **ops)
{
    struct pawl__op *first = *ops;
    struct pawl__op *last = first;
    const size_t most = first->kind == PAWL__OP_ACQUIRE ? PAWL__JOINT_MAX : PAWL__BATCH_MAX;
    for (size_t count = 1;
         count < most && last->next != NULL && pawl__command_joins(first, last->next); count++) {
        last = last->next;
    }
    *ops = last->next;
    last->next = NULL;
    return first;
}

static struct pawl__slot slot_for(struct pawl__conn *conn, struct pawl__op *ops, bool whole)
{
    struct pawl__slot slot = {.ops = ops,
        .begin = pawl__link_position(&conn->link),
        .deadline_us = ops->deadline_us,
        .whole = whole,
        .lazy = ops->lazy && ops->engine == NULL,
        .orphan = ops->engine != NULL};
    for (const struct pawl__op *op = ops->next; op != NULL; op = op->next) {
        slot.deadline_us = pawl__min64(slot.deadline_us, op->deadline_us);
        slot.lazy = slot.lazy && op->lazy && op->engine == NULL;
        slot.orphan = slot.orphan || (op->engine != NULL && op->kind != PAWL__OP_ACQUIRE);
    }
    return slot;
}

/* Say who we are; see introduce.h. The answer comes before that of the operation, so nobody has to
 * wait for it. */
PAWL__RARE static void introduce(
    struct pawl__conn *conn, const struct pawl__op *op, int64_t deadline_us)
{
    const struct pawl__slot slot = {
        .begin = pawl__link_position(&conn->link), .deadline_us = deadline_us, .lazy = true};
    if (pawl__slots_reserve(&conn->slots) &&
        pawl__introduction_put(&conn->introduction, &conn->link.out, op)) {
        pawl__slots_push(&conn->slots, &slot);
    }
}

/* Before these operations, if that is due. */
static void introduce_if_due(struct pawl__conn *conn, const struct pawl__op *ops)
{
    for (const struct pawl__op *op = ops; op != NULL; op = op->next) {
        if (pawl__introduction_is_due(&conn->introduction, op)) {
            introduce(conn, op, ops->deadline_us);
            return;
        }
    }
}

PAWL__RARE static void refuse(
    struct pawl__conn *conn, struct pawl__op *ops, struct pawl__effects *effects)
{
    char sentence[SENTENCE_SIZE];
    snprintf(sentence, sizeof sentence,
        "too much is waiting for %s already: %zu commands, %zu bytes", conn->config->peer,
        conn->slots.count, pawl__buffer_size(&conn->link.out));
    pawl__effects_fail_all(effects, ops, PAWL__FAILED, PAWL_UNAVAILABLE, true, sentence);
}

/* Queue one command for these operations on a READY connection. */
void pawl__conn_put(
    struct pawl__conn *conn, struct pawl__op *ops, bool whole, struct pawl__effects *effects)
{
    introduce_if_due(conn, ops);
    const struct pawl__slot slot = slot_for(conn, ops, whole);
    if (pawl__slots_reserve(&conn->slots) &&
        pawl__command_put(&conn->commands, &conn->link.out, ops, whole)) {
        pawl__slots_push(&conn->slots, &slot);
    } else {
        refuse(conn, ops, effects);
    }
}

bool pawl__conn_takes_commands(const struct pawl__conn *conn)
{
    return conn->link.state == PAWL__LINK_READY && !conn->retiring;
}

PAWL__RARE static void queue_all(
    struct pawl__conn *conn, struct pawl__op *ops, struct pawl__effects *effects)
{
    conn->persist = conn->persist || conn->was_ready; /* it was given up for want of use */
    while (ops != NULL && !pawl__conn_takes_commands(conn)) {
        struct pawl__op *op = ops;
        ops = op->next;
        keep(conn, op);
    }
    while (ops != NULL) {
        pawl__conn_put(conn, cut_batch(&ops), false, effects);
    }
}

static void queue(struct pawl__conn *conn, struct pawl__op *ops, struct pawl__effects *effects)
{
    if (ops->next == NULL && pawl__conn_takes_commands(conn)) {
        pawl__conn_put(conn, ops, false, effects);
    } else {
        queue_all(conn, ops, effects);
    }
}

/* ===== Losing the connection ===== */

/* Sort what is in flight: what has left ends, what has not is put before what is kept. True: the
 * server may still carry out a write. */
static bool empty_slots(struct pawl__conn *conn, pawl_status status, const char *sentence,
    struct pawl__effects *effects)
{
    bool writes = false;
    struct pawl__op *kept = take_kept(conn);
    while (conn->slots.count > 0) {
        const struct pawl__slot slot = pawl__slots_pop(&conn->slots);
        if (slot.check != NULL) {
            pawl__conn_end_check(slot.check);
        } else if (slot.ops == NULL) {
            continue; /* who we are: it is said again */
        } else if (slot.begin < conn->link.sent_size) {
            writes = writes || pawl__command_writes(slot.ops->kind);
            pawl__effects_fail_all(effects, slot.ops, PAWL__UNKNOWN, status, true, sentence);
        } else {
            *conn->pending_end = slot.ops;
            while (*conn->pending_end != NULL) {
                conn->pending_end = &(*conn->pending_end)->next;
            }
        }
    }
    *conn->pending_end = kept;
    while (*conn->pending_end != NULL) {
        conn->pending_end = &(*conn->pending_end)->next;
    }
    return writes;
}

void pawl__conn_lose(struct pawl__conn *conn, int64_t now_us, pawl_status status, const char *why,
    struct pawl__effects *effects)
{
    char sentence[SENTENCE_SIZE];
    snprintf(sentence, sizeof sentence, "the connection to %s was given up: %s", conn->config->peer,
        why);
    const bool writes = empty_slots(conn, status, sentence, effects) || conn->out_of_step;
    conn->out_of_step = false;
    if (writes) {
        const bool older = conn->doubt.open;
        conn->doubt = conn->self;
        conn->doubt.open = true;
        conn->doubt.older = older;
    }
    pawl__stream_shutdown(&conn->link.stream);
    pawl__link_drop(&conn->link, now_us);
    effects->attend = effects->attend || conn->watched;
    conn->watched = false;
    conn->ended = false;
    conn->stuck = false;
    conn->strays = false;
    conn->retiring = false;
    conn->overdue = false;
    pawl__conn_expire(conn, now_us, effects);
}

/* ===== Getting a connection ===== */

static bool is_other_run(const struct pawl__conn *conn)
{
    const char *run_id = conn->link.greet.run_id;
    return conn->was_ready && conn->self.run_id[0] != '\0' && run_id[0] != '\0' &&
           strcmp(conn->self.run_id, run_id) != 0;
}

/* A server that closes idle connections is greeted again and again, and is as it was. */
static void note_warnings(struct pawl__conn *conn, struct pawl__effects *effects)
{
    struct pawl__greet *greet = &conn->link.greet;
    const bool other_run = is_other_run(conn);
    const unsigned told = other_run ? 0 : conn->warned;
    conn->warned = told | greet->cause;
    if ((told & greet->cause) == 0) {
        pawl__effects_warn(effects, greet->warning);
        greet->warning = NULL;
    }
    if (other_run) {
        pawl__effects_warn(effects,
            pawl__format("%s is another server or was restarted: locks may have been forgotten",
                conn->config->peer));
    }
}

bool pawl__conn_identity(struct pawl__conn *conn, struct pawl__server_identity *identity_out)
{
    pthread_mutex_lock(&conn->mutex);
    *identity_out = conn->identity;
    pthread_mutex_unlock(&conn->mutex);
    return identity_out->run_id[0] != '\0';
}

void pawl__conn_opened(struct pawl__conn *conn, struct pawl__effects *effects)
{
    struct pawl__greet *greet = &conn->link.greet;
    note_warnings(conn, effects);
    pawl__identity_note(&conn->identity, greet);

    pawl__introduction_renew(&conn->introduction);
    conn->fenced = greet->fenced;
    conn->restricted = greet->restricted;
    pawl__commands_set_floor(&conn->commands, pawl__max64(greet->time_us, PAWL__TOKEN_FLOOR));
    if (greet->fenced) {
        conn->doubt.open = false;
        conn->doubt.older = false;
    }
    conn->self = (struct pawl__doubt){.client_id = greet->client_id};
    memcpy(conn->self.run_id, greet->run_id, sizeof conn->self.run_id);
    pawl__link_address(&conn->link, conn->self.address);

    effects->reconnected = conn->was_ready;
    if (conn->was_ready) {
        atomic_fetch_add(&conn->reopened, 1);
        /* They would soon have this connection given up, too, and are asked again at once. */
        end_kept(conn, is_stale, pawl__now_us(), effects);
    }
    conn->was_ready = true;
    conn->persist = true;
    queue_all(conn, take_kept(conn), effects);
}

void pawl__conn_not_opened(struct pawl__conn *conn, struct pawl__effects *effects)
{
    const struct pawl__link *link = &conn->link;
    const bool again = link->status != PAWL_DENIED && link->status != PAWL_INVALID;
    pawl__effects_fail_all(effects, take_kept(conn), PAWL__FAILED, link->status, again,
        link->sentence != NULL ? link->sentence : "no connection, and no memory to say why");
}

/* ===== Submitting ===== */

/* Whoever drives comes for the first answer that anybody waits for. The others may be nobody's: the
 * keeper has to look after them if there is no leader. */
static void mark_orphans(struct pawl__op *ops, bool driven)
{
    for (struct pawl__op *op = ops; op != NULL; op = op->next) {
        op->engine = op->lazy || driven ? NULL : op;
        driven = driven && op->lazy;
    }
}

PAWL__RARE static void submit_failed(
    struct pawl__conn *conn, const char *why, struct pawl__effects *effects)
{
    conn->seat.taken = true; /* who completes what has left, sits */
    pawl__conn_lose(conn, pawl__now_us(), PAWL_UNAVAILABLE, why, effects);
}

/* A server that has ended the idle connection, or was restarted, is noticed before it is asked. */
PAWL__RARE static void look_after_idling(struct pawl__conn *conn, struct pawl__effects *effects)
{
    enum pawl__stream_result result = PAWL__STREAM_OK;
    if (conn->seat.taken || conn->slots.count > 0) {
        return;
    }
    for (int i = 0;
         i < LOOKS_MAX && conn->link.state == PAWL__LINK_READY && result == PAWL__STREAM_OK; i++) {
        result = pawl__link_receive_now(&conn->link);
        if (result == PAWL__STREAM_OK) {
            pawl__conn_take_replies(conn, effects); /* whatever it is, nobody asked for it */
        } else if (result != PAWL__STREAM_AGAIN) {
            submit_failed(conn, pawl__link_failure(&conn->link, result), effects);
        }
    }
}

/* Many are under way, and half of them have not left yet. */
static bool is_half_unsent(const struct pawl__conn *conn)
{
    const size_t count = conn->slots.count;
    return pawl__conn_in_rush(conn) &&
           pawl__slots_at(&conn->slots, count / 2)->begin >= conn->link.sent_size;
}

/* Who sits, or is about to, sends, so that what many queue leaves in one write. But it may sleep;
 * or it is telling a crowd their answers, while those who are awake already ask again: then the
 * server gets the one half while it tells the other. */
static bool is_our_turn(const struct pawl__conn *conn, bool driven)
{
    return conn->seat.taken ? conn->asleep || is_half_unsent(conn) : !driven;
}

void pawl__conn_send(struct pawl__conn *conn, bool driven, struct pawl__effects *effects)
{
    if (!is_our_turn(conn, driven) || conn->link.state != PAWL__LINK_READY ||
        pawl__buffer_size(&conn->link.out) == 0) {
        return;
    }
    const enum pawl__stream_result result = pawl__link_flush(&conn->link);
    conn->stuck = result == PAWL__STREAM_AGAIN;
    if (conn->stuck && conn->poller != NULL) {
        pawl__waiter_nudge(conn->poller); /* it does not know yet that there is something to send */
    }
    if (result != PAWL__STREAM_FAILED) {
        return;
    }
    if (conn->seat.taken) {
        pawl__stream_shutdown(&conn->link.stream); /* who sits will see */
    } else {
        submit_failed(conn, pawl__link_failure(&conn->link, result), effects);
    }
}

/* See to it that somebody takes care of these operations, of which the first ends at due_us. */
static void find_carer(
    struct pawl__conn *conn, int64_t due_us, bool driven, struct pawl__effects *effects)
{
    const bool nobody = !conn->seat.taken && pawl__list_empty(&conn->seat.followers);
    const bool early = conn->asleep && due_us < conn->asleep_us;
    if (conn->poller != NULL && (early || conn->link.state != PAWL__LINK_READY)) {
        pawl__waiter_nudge(conn->poller);
    } else if (!driven && (nobody || early) && pawl__conn_needs_care(conn)) {
        effects->attend = true;
    }
}

bool pawl__conn_accept(
    struct pawl__conn *conn, struct pawl__op *ops, bool driven, struct pawl__effects *effects)
{
    const int64_t sent_us = ops->sent_us;
    const int64_t due_us = ops->deadline_us;
    mark_orphans(ops, driven);
    if (conn->stopped) {
        pawl__effects_fail_all(
            effects, ops, PAWL__FAILED, PAWL_UNAVAILABLE, false, closed_sentence);
        return false;
    }
    const bool sat = conn->seat.taken;
    if (sent_us - conn->active_us > IDLE_US) {
        look_after_idling(conn, effects);
    }
    conn->active_us = sent_us;
    queue(conn, ops, effects);
    if (is_our_turn(conn, driven)) {
        pawl__conn_send(conn, driven, effects);
    }
    const bool sits = conn->seat.taken && !sat;
    if (!sits && (!driven || conn->asleep)) {
        find_carer(conn, due_us, driven, effects);
    }
    conn->completion_count += effects->ops != NULL ? 1 : 0;
    return sits;
}

void pawl__conn_submit(struct pawl__conn *conn, struct pawl__op *ops, bool driven)
{
    struct pawl__effects effects;
    pawl__effects_init(&effects);
    pthread_mutex_lock(&conn->mutex);
    const bool sits = pawl__conn_accept(conn, ops, driven, &effects);
    pthread_mutex_unlock(&conn->mutex);

    pawl__effects_deliver(&effects, conn->host);
    if (sits) {
        pawl__effects_init(&effects);
        pthread_mutex_lock(&conn->mutex);
        pawl__conn_get_up(conn, &effects);
        pthread_mutex_unlock(&conn->mutex);
        pawl__effects_deliver(&effects, conn->host);
    }
}

/* What is kept is sent when there is a connection, and who sees to that reads too. */
void pawl__conn_hear(struct pawl__conn *conn)
{
    struct pawl__effects effects;
    pawl__effects_init(&effects);
    pthread_mutex_lock(&conn->mutex);
    pawl__slots_want_all(&conn->slots);
    for (struct pawl__op *op = conn->pending; op != NULL; op = op->next) {
        op->engine = op;
    }
    find_carer(conn, pawl__slots_due(&conn->slots), false, &effects);
    pthread_mutex_unlock(&conn->mutex);
    pawl__effects_deliver(&effects, conn->host);
}

/* ===== Memory ===== */

int64_t pawl__conn_trim(struct pawl__conn *conn)
{
    if (!pawl__slots_spacious(&conn->slots) && conn->link.out.capacity <= OUT_COMMON_SIZE) {
        return PAWL__NEVER;
    }
    const int64_t now_us = pawl__now_us();
    if (conn->trim_us == 0) {
        conn->trim_us = now_us + TRIM_US;
    } else if (now_us >= conn->trim_us) {
        pawl__slots_trim(&conn->slots);
        pawl__buffer_trim(&conn->link.out, OUT_KEPT_SIZE);
        conn->trim_us = 0;
    }
    return conn->trim_us != 0 ? conn->trim_us : PAWL__NEVER;
}

/* ===== The end ===== */

/* Unless something was left unheard, and may be held until its lease ends. */
static void leave_no_trace(struct pawl__conn *conn)
{
    const bool all_heard = conn->slots.count == 0 && conn->pending == NULL;
    if (all_heard && conn->introduction.made &&
        !pawl__introduction_put_end(&conn->introduction, &conn->link.out)) {
        return; /* for want of memory it goes by itself */
    }
}

void pawl__conn_stop(struct pawl__conn *conn)
{
    struct pawl__effects effects;
    pawl__effects_init(&effects);
    conn->stopped = true;
    if (conn->link.state == PAWL__LINK_READY) {
        leave_no_trace(conn);
        pawl__link_flush(&conn->link); /* what nobody waits for may not have left yet */
    }
    empty_slots(
        conn, PAWL_UNAVAILABLE, "the client was closed before the server answered", &effects);
    pawl__effects_fail_all(
        &effects, take_kept(conn), PAWL__FAILED, PAWL_UNAVAILABLE, true, closed_sentence);
    pawl__effects_deliver(&effects, conn->host);
}

void pawl__conn_close(struct pawl__conn *conn)
{
    pawl__link_free(&conn->link);
    pawl__slots_free(&conn->slots);
    pawl__fd_close(conn->wake_fd);
    pthread_mutex_destroy(&conn->mutex);
}
