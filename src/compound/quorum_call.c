/* SPDX-License-Identifier: Apache-2.0 */
/* The calls on a quorum lock: who holds it, who re-enters, and who of this process is next.
 *
 * As with other locks, callers of one process queue up here, first come first served, and one of
 * them contends. A hold is judged by the clock whenever somebody looks. A lost one stays its
 * owner's until it was released as often as it was acquired. */
#include "compound/quorum.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/thread.h"

#include <inttypes.h>
#include <stdio.h>

#define FIRST_LOOK_US 100000 /* after a hold began, at what came later than the majority */

/* A caller that waits for its turn. */
struct in_line {
    struct pawl__list node;
    struct pawl__waiter waiter;
};

/* ===== Holds; mutex held ===== */

static struct pawl__quorum_hold *find(struct pawl__quorum *quorum, uint64_t owner)
{
    if (quorum->held != NULL && quorum->held->owner == owner) {
        return quorum->held;
    }
    for (struct pawl__list *node = quorum->lost.next; node != &quorum->lost; node = node->next) {
        struct pawl__quorum_hold *hold = PAWL__CONTAINER(node, struct pawl__quorum_hold, node);
        if (hold->owner == owner && !hold->done) {
            return hold;
        }
    }
    return NULL;
}

static void nudge_line(struct pawl__quorum *quorum, bool all)
{
    struct pawl__list *node = quorum->queue.next;
    for (; node != &quorum->queue; node = node->next) {
        pawl__waiter_nudge(&PAWL__CONTAINER(node, struct in_line, node)->waiter);
        if (quorum->lock.handle.owner == 0 && !all) {
            return; /* the others wait for the first */
        }
    }
}

/* Its owner is done with it, but the worker may still have to tell of its loss. */
static void drop(struct pawl__quorum_hold *hold)
{
    hold->done = true;
    if (!hold->tell_lost && !hold->telling) {
        pawl__list_remove(&hold->node);
        pawl__free(hold);
    }
}

/* `at_us`: when its time was over. */
static void lose(struct pawl__quorum *quorum, struct pawl__quorum_hold *hold, int64_t at_us)
{
    hold->lost = true;
    hold->lost_us = at_us;
    quorum->heard_us = pawl__now_us(); /* nobody has asked until now, so nobody was silent */
    hold->tell_lost = quorum->on_lost != NULL;
    pawl__list_push(&quorum->lost, &hold->node);
    quorum->swept = false;
    pawl__worker_wake(quorum, INT64_MIN);
}

int64_t pawl__quorum_judge(struct pawl__quorum *quorum, int64_t now_us)
{
    struct pawl__quorum_hold *hold = quorum->held;
    if (hold == NULL) {
        return 0;
    }
    /* A part that was asked for again has a limit of its own, which is later than the hold's. */
    const int64_t until_us = pawl__min64(pawl__parts_until(quorum), hold->limit_us);
    if (until_us > now_us) {
        hold->until_us = until_us;
        return until_us;
    }
    pawl__quorum_describe(quorum, hold->why, sizeof hold->why);
    quorum->held = NULL;
    lose(quorum, hold, pawl__min64(hold->until_us, now_us));
    nudge_line(quorum, false);
    return 0;
}

static pawl_status fail_lost(struct pawl__quorum *quorum, const struct pawl__quorum_hold *hold)
{
    char words[sizeof hold->why + 160];
    snprintf(words, sizeof words,
        "it was lost %lld ms ago, when a majority of its servers had no longer confirmed it (%s). "
        "Others may have run",
        (long long)((pawl__now_us() - hold->lost_us) / 1000), hold->why);
    return pawl__quorum_fail(quorum, PAWL_LOST, words);
}

static pawl_status fail_not_held(const struct pawl__quorum *quorum)
{
    return pawl__quorum_fail(quorum, PAWL_NOT_HELD, "the caller does not hold it");
}

static pawl_status fail_asked(const struct pawl__quorum *quorum)
{
    return pawl__quorum_fail(
        quorum, PAWL_DEADLOCK, "the caller waits for it already, and may not re-enter");
}

static pawl_status fail_busy(const struct pawl__quorum *quorum)
{
    return pawl__quorum_fail(quorum, PAWL_BUSY, "it is held elsewhere");
}

/* ===== The turn; mutex held ===== */

static bool is_free(const struct pawl__quorum *quorum, bool for_hold)
{
    return !quorum->turn_taken && (for_hold || quorum->held == NULL);
}

static void give_turn(struct pawl__quorum *quorum)
{
    quorum->turn_taken = false;
    if (!quorum->swept) { /* a hold was lost meanwhile, and the worker could not ask for anything */
        pawl__worker_wake(quorum, INT64_MIN);
    }
    nudge_line(quorum, false);
}

static void sleep_in_line(struct pawl__quorum *quorum, struct in_line *self, int64_t deadline_us)
{
    pthread_mutex_unlock(&quorum->mutex);
    pawl__waiter_sleep(&self->waiter, deadline_us);
    pthread_mutex_lock(&quorum->mutex);
}

/* For whoever has the hold: it is not disputed, so this takes no longer than what the hold's owner
 * does in another thread. */
static void take_turn_for_hold(struct pawl__quorum *quorum)
{
    struct in_line self;
    pawl__waiter_init(&self.waiter);
    pawl__list_push_front(&quorum->queue, &self.node);
    while (!is_free(quorum, true)) {
        sleep_in_line(quorum, &self, PAWL__NEVER);
    }
    pawl__list_remove(&self.node);
    quorum->turn_taken = true;
}

/* ===== Acquiring ===== */

/* So many clients are closed that there can be no majority any more. */
static bool is_deserted(const struct pawl__quorum *quorum)
{
    size_t open = 0;
    for (size_t i = 0; i < quorum->count; i++) {
        open += pawl__call_closing(quorum->nodes[i].client) ? 0 : 1;
    }
    return open < pawl__majority(quorum->count);
}

static bool is_canceled(const struct pawl__quorum *quorum, const struct pawl__quorum_wish *wish)
{
    return quorum->closed || quorum->wave != wish->wave ||
           (wish->wait_us != 0 && is_deserted(quorum));
}

static pawl_status canceled(struct pawl__quorum *quorum)
{
    return pawl__quorum_fail(quorum, PAWL_CANCELED, "the wait was canceled");
}

/* Ask for more time and enter again. Mutex held. */
static pawl_status enter_fixed(struct pawl__quorum *quorum, uint64_t owner)
{
    take_turn_for_hold(quorum);
    pthread_mutex_unlock(&quorum->mutex);
    pawl_status status = pawl__round_extend(quorum, quorum->lease_us);
    pthread_mutex_lock(&quorum->mutex);
    pawl__quorum_judge(quorum, pawl__now_us());
    struct pawl__quorum_hold *hold = find(quorum, owner);
    if (hold == NULL) {
        status = pawl__quorum_fail(quorum, PAWL_NOT_HELD, "it was released meanwhile");
    } else if (hold->lost) {
        status = fail_lost(quorum, hold);
    } else if (status == PAWL_OK) {
        hold->count++;
    }
    give_turn(quorum);
    return status;
}

static pawl_status enter(struct pawl__quorum *quorum, struct pawl__quorum_hold *hold)
{
    if (hold->lost) {
        return fail_lost(quorum, hold);
    }
    if (!quorum->reentry) {
        return pawl__quorum_fail(
            quorum, PAWL_DEADLOCK, "the caller holds it already, and may not re-enter");
    }
    if (!quorum->renew) {
        return enter_fixed(quorum, hold->owner);
    }
    hold->count++;
    return PAWL_OK;
}

/* What the last claim of anybody was told, for all who wait. Mutex held. */
static void note_verdict(struct pawl__quorum *quorum, pawl_status status, int64_t now_us)
{
    quorum->verdict = status;
    if (status != PAWL_UNAVAILABLE) {
        quorum->heard_us = now_us;
    }
    if (status != PAWL_OK && status != PAWL_BUSY) {
        snprintf(quorum->why, sizeof quorum->why, "%s", pawl__error_text());
    }
}

/* Who does not get the turn is told why nobody gets the lock. Mutex held. */
static pawl_status fail_in_line(const struct pawl__quorum *quorum)
{
    if (quorum->held != NULL || quorum->verdict == PAWL_OK || quorum->verdict == PAWL_BUSY) {
        return fail_busy(quorum);
    }
    return pawl__fail(quorum->verdict, "%s", quorum->why);
}

/* Nothing was heard for so long that a wait for ever ends. Mutex held. */
static bool is_given_up(
    const struct pawl__quorum *quorum, const struct pawl__quorum_wish *wish, int64_t now_us)
{
    const int64_t since_us = pawl__max64(quorum->heard_us, wish->start_us);
    return wish->wait_us == PAWL__NEVER && quorum->held == NULL &&
           quorum->verdict == PAWL_UNAVAILABLE && now_us - since_us >= quorum->give_up_us;
}

/* Wait in line for the turn. PAWL_OK: it is ours, or *hold_out is what the owner has already. */
static pawl_status line_up(struct pawl__quorum *quorum, const struct pawl__quorum_wish *wish,
    struct pawl__quorum_hold **hold_out)
{
    struct in_line self;
    pawl_status status = PAWL_OK;
    pawl__waiter_init(&self.waiter);
    pawl__list_push(&quorum->queue, &self.node);
    for (;;) {
        const int64_t now_us = pawl__now_us();
        const bool local = quorum->held != NULL || quorum->contended;
        pawl__quorum_judge(quorum, now_us);
        *hold_out = find(quorum, wish->owner);
        if (*hold_out != NULL) {
            break;
        }
        if (is_canceled(quorum, wish)) {
            status = canceled(quorum);
            break;
        }
        if (now_us >= wish->limit_us || is_given_up(quorum, wish, now_us)) {
            status = fail_in_line(quorum);
            break;
        }
        if (quorum->queue.next == &self.node && is_free(quorum, false)) {
            quorum->turn_taken = true;
            break;
        }
        if (now_us >= wish->end_us || (wish->wait_us == 0 && local)) {
            status = fail_in_line(quorum);
            break;
        }
        sleep_in_line(quorum, &self, wish->end_us);
    }
    pawl__list_remove(&self.node);
    if (!quorum->turn_taken) {
        nudge_line(quorum, false);
    }
    return status;
}

/* A round before the last moment. One that the limit cuts short proves nothing: then what the round
 * before it found out still stands. */
static pawl_status ask_round(struct pawl__quorum *quorum, const struct pawl__quorum_wish *wish,
    pawl_status before, uint64_t *token_out)
{
    const int64_t left_us = wish->limit_us - pawl__now_us();
    if (left_us <= 0) { /* the sentence of the round before is still the last error */
        return before != PAWL_OK
                   ? before
                   : pawl__quorum_fail(quorum, PAWL_BUSY, "others of this process had it till now");
    }
    const pawl_status status = pawl__round_claim(quorum, wish->limit_us, token_out);
    if (status == PAWL_UNAVAILABLE && before != PAWL_OK && before != status &&
        left_us < quorum->node_timeout_us) {
        return pawl__quorum_fail(quorum, before,
            before == PAWL_BUSY ? "it is held elsewhere" : "too many servers may not vote yet");
    }
    return status;
}

/* Round after round, until a majority grants it or the caller's patience is over. */
static pawl_status contend(
    struct pawl__quorum *quorum, const struct pawl__quorum_wish *wish, uint64_t *token_out)
{
    pawl_status status = PAWL_OK;
    for (unsigned attempt = 0;; attempt++) {
        status = ask_round(quorum, wish, status, token_out);
        const int64_t now_us = pawl__now_us();
        pthread_mutex_lock(&quorum->mutex);
        note_verdict(quorum, status, now_us);
        const int64_t pause_us = pawl__quorum_pause_us(&quorum->random, attempt);
        const bool given_up = is_given_up(quorum, wish, now_us);
        const bool stop = is_canceled(quorum, wish);
        pthread_mutex_unlock(&quorum->mutex);
        if (status == PAWL_OK || quorum->hopeless || wish->wait_us == 0 ||
            (!stop && (given_up || now_us >= wish->end_us))) {
            return status;
        }
        if (stop) {
            return canceled(quorum);
        }
        const int64_t next_us = pawl__min64(pawl__later(now_us, pause_us), wish->end_us);
        while (pawl__waiter_sleep(&quorum->panel.waiter, next_us)) {
            pthread_mutex_lock(&quorum->mutex);
            const bool woken = is_canceled(quorum, wish);
            pthread_mutex_unlock(&quorum->mutex);
            if (woken) {
                return canceled(quorum);
            }
        }
    }
}

/* The turn is ours: contend. Mutex held. */
static pawl_status claim(struct pawl__quorum *quorum, const struct pawl__quorum_wish *wish)
{
    struct pawl__quorum_hold *hold = pawl__alloc(sizeof *hold);
    pawl_status status = PAWL_NO_MEMORY;
    if (hold != NULL) {
        pawl__list_init(&hold->node);
        hold->owner = wish->owner;
        hold->count = 1;
        quorum->contended = true;
        const bool swept = quorum->swept;
        pthread_mutex_unlock(&quorum->mutex);
        if (!swept) {
            pawl__round_sweep(quorum);
        }
        status = contend(quorum, wish, &hold->token);
        pthread_mutex_lock(&quorum->mutex);
        quorum->contended = false;
        quorum->swept = true;
    } else {
        pawl__quorum_fail(quorum, PAWL_NO_MEMORY, "no memory for a hold");
    }
    if (status == PAWL_OK) {
        const int64_t now_us = pawl__now_us();
        quorum->held = hold;
        hold->until_us = now_us;
        hold->limit_us =
            quorum->max_hold_us > 0 ? pawl__later(now_us, quorum->max_hold_us) : PAWL__NEVER;
        pawl__parts_begin(quorum, now_us);
        const int64_t until_us = pawl__quorum_judge(quorum, now_us);
        quorum->heal_us = now_us + pawl__min64(quorum->lease_us / 10, FIRST_LOOK_US);
        pawl__worker_wake(quorum, pawl__min64(until_us - quorum->risk_us, quorum->heal_us));
    } else {
        pawl__free(hold);
    }
    give_turn(quorum);
    return status;
}

pawl_status pawl__quorum_acquire(struct pawl__quorum *quorum, const struct pawl__quorum_wish *wish)
{
    struct pawl__quorum_hold *hold = NULL;
    const bool by_handle = quorum->lock.handle.owner != 0;
    pthread_mutex_lock(&quorum->mutex);
    pawl__quorum_judge(quorum, pawl__now_us());
    if (by_handle && !quorum->reentry && quorum->asking > 0 && find(quorum, wish->owner) == NULL) {
        pthread_mutex_unlock(&quorum->mutex);
        return fail_asked(quorum);
    }
    quorum->asking++;
    pawl_status status = line_up(quorum, wish, &hold);
    if (status == PAWL_OK) {
        status = hold != NULL ? enter(quorum, hold) : claim(quorum, wish);
    }
    quorum->asking--;
    pthread_mutex_unlock(&quorum->mutex);
    return status;
}

/* ===== Releasing ===== */

/* The last release of a valid hold. Mutex held, and the turn ours. */
static pawl_status release_last(struct pawl__quorum *quorum, struct pawl__quorum_hold *hold)
{
    quorum->held = NULL;
    pthread_mutex_unlock(&quorum->mutex);
    const pawl_status status = pawl__round_let_go(quorum, hold->token, !quorum->unawaited);
    pthread_mutex_lock(&quorum->mutex);
    hold->count = 0;
    quorum->heard_us = pawl__now_us();
    if (status == PAWL_LOST) {
        lose(quorum, hold, pawl__now_us());
    }
    drop(hold);
    return status;
}

static pawl_status release_lost(struct pawl__quorum *quorum, struct pawl__quorum_hold *hold)
{
    const pawl_status status = fail_lost(quorum, hold);
    if (--hold->count == 0) {
        drop(hold);
    }
    return status;
}

/* Mutex held. */
static pawl_status release(struct pawl__quorum *quorum, uint64_t owner)
{
    pawl__quorum_judge(quorum, pawl__now_us());
    struct pawl__quorum_hold *hold = find(quorum, owner);
    if (hold == NULL) {
        return fail_not_held(quorum);
    }
    if (hold->lost) {
        return release_lost(quorum, hold);
    }
    if (hold->count > 1) {
        hold->count--;
        return PAWL_OK;
    }
    take_turn_for_hold(quorum);
    pawl__quorum_judge(quorum, pawl__now_us());
    hold = find(quorum, owner); /* it may have been lost meanwhile, or released by another thread */
    const bool last = hold != NULL && !hold->lost && hold->count == 1;
    const pawl_status status = last ? release_last(quorum, hold) : PAWL_OK;
    give_turn(quorum);
    return last ? status : release(quorum, owner);
}

pawl_status pawl__quorum_release(struct pawl__quorum *quorum, uint64_t owner)
{
    pthread_mutex_lock(&quorum->mutex);
    const pawl_status status = release(quorum, owner);
    pthread_mutex_unlock(&quorum->mutex);
    return status;
}

/* ===== Asynchronous calls, when they are made; mutex held ===== */

static bool acquire_at_once(struct pawl__quorum *quorum, struct pawl__quorum_hold *hold,
    struct pawl__quorum_async *async, bool asked)
{
    const bool held = hold != NULL && !hold->leaving;
    if (held && (hold->lost || !quorum->reentry || quorum->renew)) {
        async->status = enter(quorum, hold);
        return true;
    }
    if (!held && asked && (!quorum->reentry || async->wish.wait_us == 0)) {
        async->status = quorum->reentry ? fail_in_line(quorum) : fail_asked(quorum);
        return true;
    }
    return false;
}

static bool release_at_once(
    struct pawl__quorum *quorum, struct pawl__quorum_hold *hold, struct pawl__quorum_async *async)
{
    if (hold == NULL || hold->leaving) {
        async->status = fail_not_held(quorum);
    } else if (hold->lost || hold->count > 1) {
        async->status = release(quorum, async->wish.owner);
    } else {
        hold->leaving = true;
        return false;
    }
    return true;
}

bool pawl__quorum_at_once(struct pawl__quorum *quorum, struct pawl__quorum_async *async, bool asked)
{
    pawl__quorum_judge(quorum, pawl__now_us());
    struct pawl__quorum_hold *hold = find(quorum, async->wish.owner);
    return async->kind == PAWL__WANT_ACQUIRE
               ? acquire_at_once(quorum, hold, async, asked || quorum->asking > 0)
               : release_at_once(quorum, hold, async);
}

pawl_status pawl__quorum_release_leaving(struct pawl__quorum *quorum, uint64_t owner)
{
    pthread_mutex_lock(&quorum->mutex);
    struct pawl__quorum_hold *hold = find(quorum, owner);
    const bool leaving = hold != NULL && hold->leaving; /* no other thread was faster */
    if (leaving) {
        hold->leaving = false;
    }
    const pawl_status status = leaving ? release(quorum, owner) : fail_not_held(quorum);
    pthread_mutex_unlock(&quorum->mutex);
    return status;
}

/* ===== Extending ===== */

/* Mutex held. */
static pawl_status check_held(struct pawl__quorum *quorum, uint64_t owner)
{
    pawl__quorum_judge(quorum, pawl__now_us());
    const struct pawl__quorum_hold *hold = find(quorum, owner);
    if (hold == NULL) {
        return fail_not_held(quorum);
    }
    return hold->lost ? fail_lost(quorum, hold) : PAWL_OK;
}

pawl_status pawl__quorum_extend(struct pawl__quorum *quorum, uint64_t owner, int64_t lease_us)
{
    if (lease_us > quorum->max_lease_us) {
        return pawl__quorum_fail(quorum, PAWL_INVALID,
            "an extension beyond max_lease_ms: a server that restarts may vote again after that");
    }
    pthread_mutex_lock(&quorum->mutex);
    pawl_status status = check_held(quorum, owner);
    if (status == PAWL_OK) {
        take_turn_for_hold(quorum);
        status = check_held(quorum, owner);
        if (status == PAWL_OK) {
            pthread_mutex_unlock(&quorum->mutex);
            status = pawl__round_extend(quorum, lease_us);
            pthread_mutex_lock(&quorum->mutex);
            const pawl_status held = check_held(quorum, owner);
            status = held == PAWL_LOST ? held : status;
        }
        give_turn(quorum);
    }
    pthread_mutex_unlock(&quorum->mutex);
    return status;
}

/* ===== Looking, and other threads ===== */

bool pawl__quorum_look(struct pawl__quorum *quorum, uint64_t owner, struct pawl__hold *hold_out)
{
    pthread_mutex_lock(&quorum->mutex);
    const int64_t now_us = pawl__now_us();
    const int64_t until_us = pawl__quorum_judge(quorum, now_us);
    const struct pawl__quorum_hold *hold = find(quorum, owner);
    if (hold != NULL) {
        *hold_out = (struct pawl__hold){.valid = !hold->lost,
            .count = hold->count,
            .token = hold->token,
            .left_us = hold->lost                ? 0
                       : until_us == PAWL__NEVER ? PAWL__NEVER
                                                 : until_us - now_us};
    }
    pthread_mutex_unlock(&quorum->mutex);
    return hold != NULL;
}

void pawl__quorum_cancel(struct pawl__quorum *quorum)
{
    pthread_mutex_lock(&quorum->mutex);
    quorum->wave++;
    nudge_line(quorum, true);
    pawl__waiter_nudge(&quorum->panel.waiter);
    pthread_mutex_unlock(&quorum->mutex);
}

/* As if the process had died: nothing is released, the leases run out. */
void pawl__quorum_owner_gone(struct pawl__quorum *quorum, uint64_t owner)
{
    pthread_mutex_lock(&quorum->mutex);
    struct pawl__quorum_hold *hold = find(quorum, owner);
    if (hold != NULL && hold == quorum->held) {
        for (size_t i = 0; i < quorum->count; i++) {
            pawl__node_abandon(&quorum->nodes[i]);
        }
        snprintf(hold->why, sizeof hold->why, "the thread that held it has ended");
        quorum->held = NULL;
        lose(quorum, hold, pawl__now_us());
        nudge_line(quorum, false);
    }
    if (hold != NULL) {
        drop(hold);
    }
    pthread_mutex_unlock(&quorum->mutex);
}
