/* SPDX-License-Identifier: Apache-2.0 */
/* The last release, and passing on.
 *
 * With callers of this process in the queue, a release is one operation that frees the lock and
 * gives it to the next of them. So that other processes are not starved, every 16 passes or 10 ms
 * the lock is *offered* instead: if another client waits, it is left free, and we stand back for a
 * moment before we ask again.
 *
 * With hand-offs (an option of the handle) the backend's hold is kept, and changes hands here only:
 * so often, or for 10 ms. Then it is offered to others.
 *
 * A release that its caller does not wait for leaves the name to the next of us at once: what is
 * asked next goes to the backend behind it. Its answer is read along with others, or after a while
 * for its own sake.
 *
 * A release without an answer is repeated, with or without its caller, until it was answered or the
 * lease is over, the longest that the backend may have heard of. If a repeated one finds nothing to
 * release, the first copy did it, provided that the hold was still valid then. */
#include "core/machine_parts.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/limits.h"
#include "core/leases.h"

#include <assert.h>

#define AGAIN_FIRST_US 20000
#define AGAIN_MOST_US 500000
#define UNHEARD_MOST_US 100000 /* for an answer that nobody waits for */

/* ===== Asking ===== */

/* When the backend will have ended it by itself, whatever it has heard of us. */
static int64_t lease_end(const struct pawl__machine *machine, const struct pawl__tenure *tenure)
{
    return machine->engine->expires ? pawl__max64(tenure->deadline_us, tenure->until_us)
                                    : PAWL__NEVER;
}

static bool is_lease_over(
    const struct pawl__machine *machine, const struct pawl__tenure *tenure, int64_t now_us)
{
    return now_us >= lease_end(machine, tenure);
}

static void try_again(struct pawl__machine *machine, struct pawl__tenure *tenure, int64_t now_us)
{
    int64_t pause_us = pawl__backoff_us(machine, tenure->attempt++, AGAIN_FIRST_US, AGAIN_MOST_US);
    int64_t last_us = pawl__max64(lease_end(machine, tenure), now_us);
    pawl__tenure_arm(machine, tenure, pawl__min64(now_us + pause_us, last_us));
}

/* Others of us may ask while this one waits until it tries again. */
static void unanswered(struct pawl__machine *machine, struct pawl__tenure *tenure, int64_t now_us)
{
    if (tenure->name->active == tenure) {
        tenure->name->active = NULL;
        pawl__touch(machine, tenure->name);
    }
    try_again(machine, tenure, now_us);
}

/* Whether this process has kept the lock to itself long enough. */
static bool had_a_turn(const struct pawl__name *name, int64_t now_us)
{
    return name->passes >= PAWL__PASSES_MAX || now_us - name->chain_us >= PAWL__PASSES_US;
}

static void submit_pass(struct pawl__machine *machine, struct pawl__tenure *tenure, int64_t now_us)
{
    struct pawl__name *name = tenure->name;
    struct pawl__tenure *heir = tenure->motion->heir;
    heir->motion->copy_us = now_us;
    tenure->motion->main.heir_id = heir->id;
    tenure->motion->main.lease_us = heir->lease_us;
    if (heir->motion->main.tokens == 0) {
        heir->motion->main.tokens =
            pawl__claim_tokens(heir); /* asked again, it is the same question */
    }
    tenure->motion->main.tokens = heir->motion->main.tokens;
    tenure->motion->main.offer = had_a_turn(name, now_us) || name->kept;
    name->kept = false;
    pawl__tenure_submit(machine, tenure, PAWL__OP_PASS, now_us);
}

static struct pawl__request *first_in_line(const struct pawl__name *name)
{
    return PAWL__CONTAINER(name->traffic->queue.next, struct pawl__request, node);
}

/* Whether somebody is next in line who may have it alone: one of a party may not. */
static bool has_heir(const struct pawl__name *name)
{
    return !pawl__list_empty(&name->traffic->queue) && first_in_line(name)->party == NULL;
}

/* The next in the queue becomes the heir. Its thread sleeps on: the answer comes with the giver's.
 * False: there is no memory for it. */
static bool choose_heir(struct pawl__machine *machine, struct pawl__tenure *tenure)
{
    struct pawl__tenure *heir = pawl__claim_tenure(machine, first_in_line(tenure->name));
    if (heir == NULL) {
        return false;
    }
    struct pawl__request *request = pawl__claim_next(tenure->name);
    heir->state = PAWL__TENURE_CLAIMING;
    pawl__tenure_number(machine, heir);
    heir->request = request;
    heir->motion->giver = tenure;
    tenure->motion->heir = heir;
    return true;
}

/* Whether this one, the next in line, may have it without a word to the backend. */
static bool may_hand_off(
    const struct pawl__tenure *giver, const struct pawl__tenure *heir, int64_t now_us)
{
    const bool alike = giver->renew && heir->renew && !heir->doubt && !heir->granted;
    const bool idle = !giver->side_out && !giver->doubt && giver->shown == 1;
    const bool outlives = giver->until_us - now_us > heir->lease_us; /* an heir that died */
    return alike && idle && !outlives && now_us - giver->name->chain_us < PAWL__PASSES_US &&
           giver->deadline_us - now_us >= heir->lease_us / 2;
}

/* The next in line, if it wants hand-offs and tokens are left for one. */
static struct pawl__tenure *find_heir(
    struct pawl__machine *machine, const struct pawl__tenure *giver)
{
    const struct pawl__name *name = giver->name;
    if (giver->spare_tokens == 0 || !has_heir(name) ||
        giver->handed >= first_in_line(name)->handle->terms->handoff) {
        return NULL;
    }
    return pawl__claim_tenure(machine, first_in_line(name));
}

static bool hand_off(struct pawl__machine *machine, struct pawl__tenure *giver,
    struct pawl__request *request, int64_t now_us)
{
    struct pawl__name *name = giver->name;
    struct pawl__tenure *heir = find_heir(machine, giver);
    if (heir == NULL || !may_hand_off(giver, heir, now_us)) {
        name->kept = name->kept || giver->handed > 0;
        return false;
    }
    heir->request = pawl__claim_next(name);
    giver->granted = false;
    pawl__finish(machine, request, PAWL_OK, NULL);
    pawl__tenure_end(machine, giver);
    pawl__hold_inherit(machine, heir, giver, now_us);
    return true;
}

/* Free it, now or, if there is no memory to ask with, as if there had been no answer. */
static void ask(struct pawl__machine *machine, struct pawl__tenure *tenure, int64_t now_us)
{
    if (!pawl__tenure_submit(machine, tenure, PAWL__OP_RELEASE, now_us)) {
        unanswered(machine, tenure, now_us);
    }
}

static void let_go(struct pawl__machine *machine, struct pawl__tenure *tenure, int64_t now_us)
{
    const struct pawl__name *name = tenure->name;
    if (machine->engine->passes && pawl__name_family(name) == PAWL__FAMILY_MUTEX &&
        has_heir(name) && pawl__motion_begin(machine, tenure) && choose_heir(machine, tenure)) {
        submit_pass(machine, tenure, now_us);
    } else {
        ask(machine, tenure, now_us);
    }
}

static void left(struct pawl__handle *handle, struct pawl__tenure *tenure)
{
    if (!pawl__handle_holds(handle, tenure)) {
        return; /* acquired through another one */
    }
    if (handle == tenure->handle) {
        tenure->firsts--;
    } else {
        handle->extra->through_count--;
    }
}

/* Callers of the same owner that were about to enter again get in line instead: the hold ends
 * first. */
static void queue_entering(
    struct pawl__machine *machine, struct pawl__list *requests, int64_t now_us)
{
    struct pawl__list *node = requests->next;
    while (node != requests) {
        struct pawl__request *request = PAWL__CONTAINER(node, struct pawl__request, node);
        node = node->next;
        if (request->kind == PAWL__WANT_ACQUIRE) {
            pawl__list_remove(&request->node);
            pawl__set_phase(machine, request, PAWL__QUEUED);
            pawl__party_returns(machine, request);
            pawl__claim_start(machine, request, now_us);
        }
    }
}

/* Whether the next of us may ask before the release was answered. Not if the answer may say that it
 * is the others' turn, and not where others are never told: asked at once, in the same message, it
 * would always be ours. */
static bool may_go_on(const struct pawl__name *name, int64_t now_us)
{
    const enum pawl__family family = pawl__name_family(name);
    const bool tells = family != PAWL__FAMILY_SPIN && family != PAWL__FAMILY_PLAIN;
    const bool theirs = name->contended && had_a_turn(name, now_us);
    return tells && !theirs && pawl__list_empty(&name->traffic->queue);
}

/* When to look for an answer that nobody waits for. */
static void arm_hearing(struct pawl__machine *machine, struct pawl__tenure *tenure, int64_t now_us)
{
    pawl__tenure_arm(
        machine, tenure, now_us + pawl__min64(UNHEARD_MOST_US, machine->timeout_us / 2));
}

static void go_on(struct pawl__machine *machine, struct pawl__tenure *tenure, int64_t now_us)
{
    tenure->motion->main.lazy = true;
    if (tenure->name->active == tenure) {
        tenure->name->active = NULL;
    }
    arm_hearing(machine, tenure, now_us);
}

static void release_last(struct pawl__machine *machine, struct pawl__tenure *tenure,
    struct pawl__request *request, int64_t now_us)
{
    tenure->state = PAWL__TENURE_RELEASING;
    pawl__list_remove(&tenure->node);
    queue_entering(machine, &tenure->motion->extends, now_us);
    queue_entering(machine, &tenure->motion->extending, now_us);
    pawl__hold_leave(machine, tenure, PAWL_NOT_HELD, now_us);
    if (hand_off(machine, tenure, request, now_us)) {
        return;
    }
    tenure->attempt = 0;
    const bool goes_on = request->handle->terms->unawaited && may_go_on(tenure->name, now_us);
    let_go(machine, tenure, now_us);
    if (goes_on && tenure->main_out) {
        go_on(machine, tenure, now_us);
    }
    if (request->handle->terms->unawaited) {
        pawl__finish(machine, request, PAWL_OK, NULL);
        return;
    }
    tenure->request = request;
    request->tenure = tenure;
    request->phase = PAWL__ASKING;
    pawl__timer_set(&machine->timers, &request->timer, request->end_us);
}

void pawl__release_start(
    struct pawl__machine *machine, struct pawl__request *request, int64_t now_us)
{
    struct pawl__tenure *tenure =
        pawl__hold_find(machine, request->handle->name, request->owner, now_us);
    if (tenure == NULL || pawl__tenure_count(tenure, request->handle->terms->kind) == 0) {
        pawl__finish(machine, request, PAWL_NOT_HELD, NULL);
        return;
    }
    left(request->handle, tenure);
    tenure->count--;
    tenure->reads -= request->handle->terms->kind == PAWL_READ;
    if (tenure->state == PAWL__TENURE_LOST) {
        if (tenure->count == 0) {
            pawl__tenure_clean(machine, tenure, now_us); /* what may be left of it */
        }
        pawl__hold_refuse_lost(machine, tenure, request);
    } else if (tenure->kind == PAWL_WRITE && tenure->count > 0 && tenure->count == tenure->reads) {
        pawl__hold_downgrade(machine, tenure, request, now_us);
    } else if (tenure->count > 0) {
        pawl__hold_show_count(machine, tenure, now_us);
        pawl__finish(machine, request, PAWL_OK, NULL);
    } else {
        release_last(machine, tenure, request, now_us);
    }
}

/* ===== Answers ===== */

/* The release is over, one way or the other. */
static void over(struct pawl__machine *machine, struct pawl__tenure *tenure, pawl_status status,
    char *error, int64_t now_us)
{
    struct pawl__op *op = &tenure->motion->main;
    bool answered = op->answer != PAWL__FAILED && op->answer != PAWL__UNKNOWN;
    if (status == PAWL_LOST) {
        bool in_time = now_us < tenure->deadline_us;
        pawl__hold_note_loss(tenure, in_time ? PAWL__LOSS_PROOF : PAWL__LOSS_RELEASE,
            in_time ? now_us : tenure->deadline_us);
        pawl__notice_queue(machine, &tenure->lost);
    }
    if (tenure->request != NULL) {
        tenure->request->lost = pawl__hold_loss(tenure);
        pawl__finish(machine, tenure->request, status, error);
        tenure->request = NULL;
    } else {
        pawl__free(error);
    }
    if (answered) {
        tenure->granted = false;
        tenure->doubt = tenure->doubt && !op->fenced;
    }
    machine->unheard |= answered ? 0 : PAWL__UNHEARD_RELEASE | PAWL__UNHEARD_LEASE;
    if (answered && tenure->doubt) {
        pawl__tenure_clean(machine, tenure, now_us); /* a late copy of its acquire may come yet */
    } else {
        pawl__tenure_end(machine, tenure);
    }
}

/* What "it is not there" means: released by an earlier copy, or lost before. A caller that has left
 * was told that it is not known; it called in time, and what comes out later is no loss. */
static pawl_status gone_status(const struct pawl__tenure *tenure, int64_t now_us)
{
    const bool left = tenure->request == NULL;
    return tenure->repeated && (now_us < tenure->deadline_us || left) ? PAWL_OK : PAWL_LOST;
}

/* It is the others' turn: until we hear of the next release, or for a moment. Without memory we do
 * not stand back this time. */
static void stand_back(struct pawl__machine *machine, struct pawl__name *name, int64_t now_us)
{
    struct pawl__traffic *traffic = pawl__traffic_make(name);
    if (traffic != NULL) {
        traffic->hold_off_us = pawl__hold_off_end(machine, now_us);
        traffic->turn_us = now_us + pawl__min64(now_us - name->chain_us, PAWL__HOLD_OFF_MOST_US);
        traffic->deaf_once = traffic->watch == PAWL__WATCHED;
    }
}

/* Whether one of us has asked without waiting for this answer. */
static bool is_overtaken(const struct pawl__name *name, const struct pawl__tenure *tenure)
{
    return (name->active != NULL && name->active != tenure) ||
           !pawl__list_empty(&name->traffic->crowd);
}

/* Others have heard that it is free. A caller that comes back at once is nearly always quicker than
 * they are; that is fine for as long as a turn lasts. One that has asked already cannot stand back
 * any more: if it gets the lock, it goes on with our turn. */
static void end_turn(
    struct pawl__machine *machine, const struct pawl__tenure *tenure, bool others, int64_t now_us)
{
    struct pawl__name *name = tenure->name;
    const bool overtaken = is_overtaken(name, tenure);
    name->contended = others;
    name->chained = others && (overtaken || !had_a_turn(name, now_us));
    if (overtaken) {
        pawl__watch_note_wake(name); /* its question may have been first; not every engine tells us
                                        what we do */
        pawl__watch_ask_waiting(machine, name, now_us);
    } else if (others && !name->chained) {
        stand_back(machine, name, now_us);
    }
}

static void release_answered(
    struct pawl__machine *machine, struct pawl__tenure *tenure, struct pawl__op *op, int64_t now_us)
{
    switch (op->answer) {
    case PAWL__DONE:
        if (!pawl__claims_alone(pawl__name_family(tenure->name), tenure->kind)) {
            end_turn(machine, tenure, op->others, now_us);
        }
        over(machine, tenure, PAWL_OK, NULL, now_us);
        break;
    case PAWL__GONE:
        over(machine, tenure, gone_status(tenure, now_us), NULL, now_us);
        break;
    case PAWL__UNKNOWN:
    case PAWL__FAILED:
        tenure->repeated = tenure->repeated || op->answer == PAWL__UNKNOWN;
        if (!op->again || is_lease_over(machine, tenure, now_us)) {
            over(machine, tenure, op->status, pawl__take_error(op), now_us);
            break;
        }
        unanswered(machine, tenure, now_us);
        break;
    case PAWL__PENDING:
    case PAWL__HELD:
    case PAWL__SPARED:
    case PAWL__LEFT:
        assert(false && "not an answer to a release");
        break;
    }
}

/* ===== Passing on ===== */

/* Who was to get it has to get it another way; NULL: nobody was. */
static struct pawl__tenure *part_from_heir(struct pawl__tenure *tenure)
{
    struct pawl__tenure *heir = tenure->motion->heir;
    if (heir != NULL) {
        tenure->motion->heir = NULL;
        heir->motion->giver = NULL;
    }
    return heir;
}

/* The heir has to ask for itself, like anybody. */
static void heir_asks(struct pawl__machine *machine, struct pawl__tenure *heir, int64_t now_us)
{
    if (heir->request == NULL) {
        pawl__tenure_clean(machine, heir, now_us);
        return;
    }
    heir->name->active = heir;
    pawl__claim_ask(machine, heir, now_us);
}

static void heir_gets(struct pawl__machine *machine, struct pawl__tenure *heir,
    const struct pawl__op *op, int64_t now_us)
{
    struct pawl__name *name = heir->name;
    heir->granted = true;
    heir->doubt = heir->doubt && !op->fenced;
    if (op->offer) {
        name->passes = 0;
        name->chain_us = now_us;
    } else {
        pawl__name_count_pass(name);
    }
    if (heir->request != NULL && now_us < pawl__valid_until(op)) {
        pawl__hold_grant(machine, heir, op, now_us);
    } else {
        heir_asks(machine, heir, now_us);
    }
}

/* Long enough for somebody who has heard of the release to ask. */
int64_t pawl__hold_off_end(const struct pawl__machine *machine, int64_t now_us)
{
    int64_t pause_us = pawl__max64(PAWL__HOLD_OFF_US, 2 * machine->rtt_us);
    return now_us + pawl__min64(pause_us, PAWL__HOLD_OFF_MOST_US);
}

/* Back to the head of the queue, if anybody still waits for it. */
static void heir_goes_back(struct pawl__machine *machine, struct pawl__tenure *heir, int64_t now_us)
{
    if (heir->request == NULL) {
        pawl__tenure_clean(machine, heir, now_us);
        return;
    }
    heir->state = PAWL__TENURE_IDLE;
    pawl__claim_requeue(heir->name, heir->request);
    heir->request = NULL;
    pawl__touch(machine, heir->name);
}

/* The backend would not pass it on: perhaps it has no room for another hold. Freeing it is a
 * smaller thing to ask. */
static void free_instead(struct pawl__machine *machine, struct pawl__tenure *tenure, int64_t now_us)
{
    heir_goes_back(machine, part_from_heir(tenure), now_us);
    ask(machine, tenure, now_us);
}

static void pass_unanswered(
    struct pawl__machine *machine, struct pawl__tenure *tenure, struct pawl__op *op, int64_t now_us)
{
    struct pawl__tenure *heir = tenure->motion->heir;
    bool lease_over = is_lease_over(machine, tenure, now_us);
    if (op->answer == PAWL__FAILED && !lease_over) {
        free_instead(machine, tenure, now_us);
        return;
    }
    tenure->repeated = tenure->repeated || op->answer == PAWL__UNKNOWN;
    heir->doubt = heir->doubt || op->answer == PAWL__UNKNOWN;
    bool ended = !op->again || lease_over;
    if (!ended && heir->request != NULL) {
        try_again(machine, tenure, now_us); /* pass it on again: the same question */
        return;
    }
    part_from_heir(tenure);
    if (ended) {
        over(machine, tenure, op->status, pawl__take_error(op), now_us);
    } else {
        tenure->name->active = NULL;
        try_again(machine, tenure, now_us);
    }
    heir_asks(machine, heir, now_us);
}

static void pass_answered(
    struct pawl__machine *machine, struct pawl__tenure *tenure, struct pawl__op *op, int64_t now_us)
{
    struct pawl__tenure *heir = tenure->motion->heir;
    if (op->answer == PAWL__FAILED || op->answer == PAWL__UNKNOWN) {
        pass_unanswered(machine, tenure, op, now_us);
        return;
    }
    const struct pawl__op answer = *op; /* the giver may need its operation again */
    part_from_heir(tenure);
    over(machine, tenure, answer.answer == PAWL__GONE ? gone_status(tenure, now_us) : PAWL_OK, NULL,
        now_us);
    if (answer.answer == PAWL__DONE) {
        heir_gets(machine, heir, &answer, now_us);
    } else if (answer.answer == PAWL__LEFT) {
        /* We stand back: for a moment, or if others use it, for as long as we kept it. */
        stand_back(machine, heir->name, now_us);
        heir_goes_back(machine, heir, now_us);
    } else {
        heir_asks(machine, heir, now_us);
    }
}

void pawl__release_answered(
    struct pawl__machine *machine, struct pawl__tenure *tenure, struct pawl__op *op, int64_t now_us)
{
    if (op->kind == PAWL__OP_PASS) {
        pass_answered(machine, tenure, op, now_us);
    } else {
        release_answered(machine, tenure, op, now_us);
    }
}

/* The heir's caller has left while we waited to pass the lock on again. */
static void disinherit(struct pawl__machine *machine, struct pawl__tenure *tenure, int64_t now_us)
{
    struct pawl__tenure *heir = part_from_heir(tenure);
    if (heir != NULL) {
        pawl__tenure_clean(machine, heir, now_us);
    }
}

void pawl__release_again(struct pawl__machine *machine, struct pawl__tenure *tenure, int64_t now_us)
{
    pawl__timer_clear(&machine->timers, &tenure->timer);
    if (tenure->main_out) {
        machine->hear = true; /* nobody has read its answer, if it has come */
        arm_hearing(machine, tenure, now_us);
        return;
    }
    if (is_lease_over(machine, tenure, now_us)) {
        struct pawl__tenure *heir = part_from_heir(tenure);
        over(machine, tenure, PAWL_UNAVAILABLE, NULL, now_us);
        if (heir != NULL) {
            heir_asks(machine, heir, now_us);
        }
    } else if (tenure->motion->heir != NULL && tenure->motion->heir->request != NULL) {
        submit_pass(machine, tenure, now_us);
    } else {
        ask(machine, tenure, now_us);
        disinherit(machine, tenure, now_us);
    }
}

void pawl__machine_release_all(struct pawl__machine *machine, int64_t now_us)
{
    struct pawl__list *node = machine->tenures.next;
    while (node != &machine->tenures) {
        struct pawl__tenure *tenure = PAWL__CONTAINER(node, struct pawl__tenure, all);
        node = node->next;
        if (tenure->state == PAWL__TENURE_HELD) {
            tenure->state = PAWL__TENURE_RELEASING;
            pawl__list_remove(&tenure->node);
            pawl__hold_leave(machine, tenure, PAWL_NOT_HELD, now_us);
            ask(machine, tenure, now_us);
        } else if (tenure->state == PAWL__TENURE_LOST || tenure->state == PAWL__TENURE_CLEANING) {
            pawl__tenure_clean(machine, tenure, now_us);
        }
    }
    pawl__leases_release_all(machine, now_us);
    pawl__settle(machine, now_us);
}
