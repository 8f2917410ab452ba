/* SPDX-License-Identifier: Apache-2.0 */
/* The worker: one thread for each quorum lock that is used, which
 *
 * - looks at the clock while a hold lasts, and tells when it is in danger or lost, and which
 *   servers it has to do without;
 * - asks again for what a hold is missing: a server that restarted, or was away, is asked while a
 *   majority still stands, so that a long hold outlives the restart of one server after another
 *   (not for a fixed lease: what is granted anew would last longer than it); what it gives counts
 *   only once the others were proven to stand (quorum_parts.c), so it has these proven;
 * - calls back, with no mutex held: one callback at a time.
 *
 * It is started by the first grant or asynchronous call. Without it nothing is wrong, only late:
 * every call judges the hold by the clock itself. */
#include "compound/quorum.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/thread.h"

#include <stdio.h>

#define HEAL_LEAST_US 100000
#define HEAL_MOST_US 5000000
#define TURN_US 10000 /* between two looks while somebody has the turn */
#define BUSY_LOOKS 3  /* who only contends has it there for a moment */

enum { WORDS_SIZE = 320 };

/* ===== Callbacks; mutex held, but not meanwhile ===== */

static void tell(struct pawl__quorum *quorum, struct pawl__quorum_hold *hold, pawl_status status)
{
    struct pawl_lock *lock = &quorum->lock;
    const pawl_event_callback callback = status == PAWL_LOST ? quorum->on_lost : quorum->on_risk;
    const pawl_event event = {sizeof event, lock, status, hold->token, hold->owner};
    if (callback == NULL) {
        return;
    }
    hold->telling = true;
    pthread_mutex_unlock(&quorum->mutex);
    pawl__in_callback = true;
    callback(&event, quorum->event_arg);
    pawl__in_callback = false;
    pthread_mutex_lock(&quorum->mutex);
    hold->telling = false;
}

/* Not before its loss was told: it may be lost and released while another callback runs. */
static void forget_if_done(struct pawl__quorum_hold *hold)
{
    if (hold->done && !hold->tell_lost) {
        pawl__list_remove(&hold->node);
        pawl__free(hold);
    }
}

static struct pawl__quorum_hold *next_lost(struct pawl__quorum *quorum)
{
    for (struct pawl__list *node = quorum->lost.next; node != &quorum->lost; node = node->next) {
        struct pawl__quorum_hold *hold = PAWL__CONTAINER(node, struct pawl__quorum_hold, node);
        if (hold->tell_lost) {
            return hold;
        }
    }
    return NULL;
}

static void tell_losses(struct pawl__quorum *quorum)
{
    struct pawl__quorum_hold *hold = NULL;
    while ((hold = next_lost(quorum)) != NULL) {
        hold->tell_lost = false;
        tell(quorum, hold, PAWL_LOST);
        forget_if_done(hold);
    }
}

/* ===== Watching over a hold; mutex held ===== */

static void tell_risk(struct pawl__quorum *quorum, int64_t now_us)
{
    struct pawl__quorum_hold *hold = quorum->held;
    const bool danger = quorum->renew && quorum->safe_us - now_us < quorum->risk_us;
    const bool news = danger && !hold->at_risk;
    hold->at_risk = danger;
    if (news) {
        tell(quorum, hold, PAWL_UNAVAILABLE);
        forget_if_done(hold);
    }
}

/* When to look again at a hold that is valid until then. */
static int64_t next_look(const struct pawl__quorum *quorum, int64_t until_us)
{
    int64_t look_us = until_us;
    if (quorum->renew) {
        const bool danger = quorum->held->at_risk;
        look_us =
            danger ? pawl__now_us() + quorum->lease_us / 12 : quorum->safe_us - quorum->risk_us;
        look_us = pawl__min64(look_us, until_us);
    }
    look_us = pawl__min64(look_us, quorum->heal_us);
    if (quorum->turn_taken) { /* nothing can be asked for now */
        look_us = pawl__min64(pawl__max64(look_us, pawl__now_us() + TURN_US), until_us);
    }
    return look_us;
}

static void tell_missing_once(struct pawl__ballot *ballot, size_t standing, const char *why)
{
    if (!ballot->node->missed_told) {
        ballot->node->missed_told = true;
        pawl__quorum_warn_missing(ballot, standing, why);
    }
}

/* Why a hold has to do without this server, if that was not told. True: it is not known yet. */
static bool tell_missing(struct pawl__ballot *ballot, size_t standing)
{
    struct pawl__node *node = ballot->node;
    char words[WORDS_SIZE];
    const bool out = pawl__ballot_is_out(ballot);
    const bool answered = !out && ballot->claims && ballot->request.status != PAWL_OK;
    const enum pawl__admission admission = pawl__guard_admits(node);
    node->missed++;
    if (out || admission == PAWL__IN_REVIEW ||
        (answered && ballot->request.status == PAWL_BUSY && node->missed < BUSY_LOOKS)) {
        return true; /* it is slow, or new here */
    }
    if (admission == PAWL__BARRED) {
        if (pawl__guard_describe(node, false, words, sizeof words)) {
            tell_missing_once(ballot, standing, words);
        }
    } else if (answered) {
        tell_missing_once(ballot, standing, NULL);
    }
    return false;
}

/* It holds its part, but a renewal is overdue. */
static void tell_overdue(struct pawl__ballot *ballot, size_t standing, int64_t silent_us)
{
    char words[64];
    snprintf(words, sizeof words, "it was last renewed there %.1f s ago", (double)silent_us / 1e6);
    tell_missing_once(ballot, standing, words);
}

/* What a server has granted that may not vote does not count, for now. */
static bool is_idle(struct pawl__node *node, uint64_t id)
{
    return !pawl__part_is(node, id) && pawl__guard_admits(node) == PAWL__BARRED;
}

/* The servers that a hold has to do without: each is told once, until it is well again. True: of
 * some it is not known yet. */
static bool look_for_missing(struct pawl__quorum *quorum, int64_t now_us)
{
    bool unknown = false;
    struct pawl__node_hold holds[PAWL__QUORUM_MAX] = {{0}};
    bool held[PAWL__QUORUM_MAX];
    bool well[PAWL__QUORUM_MAX];
    size_t standing = 0;
    for (size_t i = 0; i < quorum->count; i++) {
        bool lost = false;
        held[i] = pawl__node_look(&quorum->nodes[i], &holds[i], &lost) &&
                  !is_idle(&quorum->nodes[i], holds[i].id);
        well[i] = held[i] && (!quorum->renew || holds[i].final ||
                                 holds[i].deadline_us - now_us >= quorum->lease_us / 2);
        standing += well[i] ? 1 : 0;
    }
    for (size_t i = 0; i < quorum->count; i++) {
        if (well[i]) {
            quorum->nodes[i].missed = 0;
            quorum->nodes[i].missed_told = false;
        } else if (held[i]) {
            tell_overdue(&quorum->panel.ballots[i], standing, now_us - holds[i].proven_us);
        } else if (tell_missing(&quorum->panel.ballots[i], standing)) {
            unknown = true;
        }
    }
    return unknown;
}

static void heal(struct pawl__quorum *quorum, int64_t now_us)
{
    if (now_us < quorum->heal_us) {
        return;
    }
    const bool unknown = look_for_missing(quorum, now_us);
    const int64_t pause_us = quorum->lease_us / 10;
    quorum->heal_us = now_us + pawl__max64(pawl__min64(pause_us, HEAL_MOST_US), HEAL_LEAST_US);
    if (quorum->renew) {
        pawl__round_heal(quorum);
    } else if (!unknown) {
        quorum->heal_us = PAWL__NEVER;
    }
}

static void tend(struct pawl__quorum *quorum, int64_t now_us)
{
    if (!quorum->turn_taken) {
        heal(quorum, now_us);
        pawl__parts_confirm(quorum);
    }
}

/* Answers when to look next. */
static int64_t watch_over(struct pawl__quorum *quorum)
{
    pawl__quorum_judge(quorum, pawl__now_us());
    tell_losses(quorum);
    const int64_t now_us = pawl__now_us();
    const int64_t until_us = pawl__quorum_judge(quorum, now_us);
    if (quorum->held == NULL) {
        if (!quorum->swept && !quorum->turn_taken) {
            pawl__round_sweep(quorum);
            quorum->swept = true;
        }
        return next_lost(quorum) != NULL ? now_us : PAWL__NEVER;
    }
    tend(quorum, now_us);
    tell_risk(quorum, now_us);
    return quorum->held != NULL ? next_look(quorum, until_us) : now_us;
}

/* ===== Asynchronous calls that have ended; mutex held, but not meanwhile ===== */

static void deliver_one(struct pawl__quorum *quorum)
{
    struct pawl__list *node = pawl__list_pop(&quorum->ended);
    pthread_mutex_unlock(&quorum->mutex);
    pawl__async_deliver(quorum, PAWL__CONTAINER(node, struct pawl__quorum_async, node));
    pthread_mutex_lock(&quorum->mutex);
}

/* ===== The thread ===== */

static void *work(void *arg)
{
    struct pawl__quorum *quorum = arg;
    pthread_mutex_lock(&quorum->mutex);
    while (!quorum->worker_stopping || !pawl__list_empty(&quorum->ended)) {
        const int64_t look_us = watch_over(quorum);
        if (!pawl__list_empty(&quorum->ended)) {
            deliver_one(quorum);
            continue;
        }
        if (quorum->worker_stopping) {
            break;
        }
        quorum->look_us = look_us;
        pthread_mutex_unlock(&quorum->mutex);
        pawl__waiter_sleep(&quorum->alarm, look_us);
        pthread_mutex_lock(&quorum->mutex);
    }
    tell_losses(quorum);
    pthread_mutex_unlock(&quorum->mutex);
    return NULL;
}

bool pawl__worker_wake(struct pawl__quorum *quorum, int64_t by_us)
{
    if (!quorum->worker_started && !quorum->worker_stopping) {
        quorum->worker_started = pawl__thread_start(&quorum->worker, "pawl-quorum", work, quorum);
    } else if (by_us < quorum->look_us) {
        pawl__waiter_nudge(&quorum->alarm);
    }
    return quorum->worker_started;
}

void pawl__worker_stop(struct pawl__quorum *quorum)
{
    pthread_mutex_lock(&quorum->mutex);
    quorum->worker_stopping = true;
    const bool started = quorum->worker_started;
    pawl__waiter_nudge(&quorum->alarm);
    pthread_mutex_unlock(&quorum->mutex);
    if (started) {
        pthread_join(quorum->worker, NULL);
    }
}
