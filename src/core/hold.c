/* SPDX-License-Identifier: Apache-2.0 */
/* Holds: from the grant to the last release or the loss.
 *
 * A hold is valid until its deadline: the time before the request was sent, plus the lease, less
 * what two clocks may drift apart. Only an answer that proves ownership moves it. A renewed hold
 * asks for more every third of its lease, and after a fault again and again until the deadline.
 * Re-entry is counted here; the backend is shown the count for people who look, and nothing is
 * decided by it. */
#include "core/machine_parts.h"

#include "base/alloc.h"
#include "base/clock.h"

#include <assert.h>

#define RENEWALS_PER_LEASE 3
#define DRIFT_DIVISOR 100 /* one percent of the lease, */
#define DRIFT_US 2000     /* and two milliseconds */
#define RETRY_LEAST_US 5000
#define RETRY_MOST_US 500000
#define PATIENCE_LEAST_US 100000   /* for one renewal's answer, however little is left */
#define PATIENCE_ENOUGH_US 1000000 /* later it is more likely gone than slow */
#define ANOTHER_US 200000          /* what another one takes, with a new connection */

int64_t pawl__valid_until(const struct pawl__op *op)
{
    int64_t drift_us = op->lease_us / DRIFT_DIVISOR + DRIFT_US;
    return pawl__later(op->sent_us, op->lease_us) - drift_us;
}

/* Does the hold live as long as this process, without a deadline and without renewals? A lease that
 * is not to be renewed ends, whatever the engine. */
static bool is_session(const struct pawl__machine *machine, const struct pawl__tenure *tenure)
{
    return machine->engine->sessions && tenure->renew;
}

/* ===== Timers ===== */

/* From when on a missing renewal counts as failing. An heir's first one was planned by the lease of
 * the giver, which may be shorter. */
static int64_t overdue_from(const struct pawl__tenure *tenure)
{
    const int64_t lease_us = pawl__min64(tenure->lease_us, tenure->until_us - tenure->proven_us);
    return tenure->proven_us + lease_us / RENEWALS_PER_LEASE + lease_us / (4 * RENEWALS_PER_LEASE);
}

/* When to warn that renewals are failing; NEVER: no more, or not at all. */
static int64_t risk_due(const struct pawl__tenure *tenure)
{
    const bool renewed = tenure->renew && tenure->renew_us != PAWL__NEVER;
    const bool enough = tenure->until_us >= tenure->limit_us; /* it cannot last longer anyway */
    if (tenure->handle == NULL || tenure->at_risk || !renewed || enough) {
        return PAWL__NEVER;
    }
    return pawl__max64(tenure->deadline_us - tenure->handle->terms->warn_us, overdue_from(tenure));
}

static void arm(struct pawl__machine *machine, struct pawl__tenure *tenure)
{
    int64_t due_us = pawl__min64(tenure->deadline_us, risk_due(tenure));
    if (!tenure->side_out) {
        due_us = pawl__min64(due_us, tenure->renew_us);
    }
    pawl__tenure_arm(machine, tenure, due_us);
}

static void schedule_renewal(
    const struct pawl__machine *machine, struct pawl__tenure *tenure, int64_t sent_us)
{
    tenure->renew_us = tenure->renew && !is_session(machine, tenure)
                           ? sent_us + tenure->lease_us / RENEWALS_PER_LEASE
                           : PAWL__NEVER;
}

/* ===== Acquiring ===== */

struct pawl__tenure *pawl__hold_find(
    struct pawl__machine *machine, struct pawl__name *name, uint64_t owner, int64_t now_us)
{
    for (struct pawl__list *node = name->holds.next; node != &name->holds; node = node->next) {
        struct pawl__tenure *tenure = PAWL__CONTAINER(node, struct pawl__tenure, node);
        if (tenure->owner == owner) {
            if (tenure->state == PAWL__TENURE_HELD && now_us >= tenure->deadline_us) {
                pawl__hold_lose(machine, tenure, PAWL__LOSS_DEADLINE, now_us);
            }
            return tenure;
        }
    }
    return NULL;
}

static void entered(
    struct pawl__machine *machine, struct pawl__tenure *tenure, struct pawl__handle *handle)
{
    pawl__hold_try(machine, tenure, handle);
    if (handle == tenure->handle) {
        tenure->firsts++;
    } else {
        struct pawl__extra *extra = handle->extra;
        if (extra->through_id != tenure->id || extra->through_owner != tenure->owner) {
            extra->through_id = tenure->id;
            extra->through_owner = tenure->owner;
            extra->through_count = 0;
        }
        extra->through_count++;
    }
    tenure->count++;
    tenure->reads += handle->terms->kind == PAWL_READ;
}

/* The common end of a grant and of an inheritance: the claim's caller has it now. */
static void begin_hold(struct pawl__machine *machine, struct pawl__tenure *tenure, int64_t now_us)
{
    struct pawl__request *request = tenure->request;
    tenure->request = NULL;
    tenure->state = PAWL__TENURE_HELD;
    tenure->granted = true;
    pawl__list_push(&tenure->name->holds, &tenure->node);
    entered(machine, tenure, request->handle);
    arm(machine, tenure);
    pawl__finish(machine, request, PAWL_OK, NULL);
    pawl__claim_tries_busy(machine, tenure->name, now_us);
    pawl__claim_twins_enter(machine, tenure, now_us);
    pawl__motion_rest(machine, tenure);
}

static int64_t limit_from(const struct pawl__tenure *tenure, int64_t start_us)
{
    const int64_t max_hold_us = tenure->request->handle->terms->max_hold_us;
    return max_hold_us > 0 ? pawl__later(start_us, max_hold_us) : PAWL__NEVER;
}

void pawl__hold_grant(struct pawl__machine *machine, struct pawl__tenure *tenure,
    const struct pawl__op *op, int64_t now_us)
{
    tenure->shown = 1;
    tenure->attempt = 0;
    tenure->token = op->token;
    tenure->spare_tokens = (uint16_t)(op->tokens > 0 ? op->tokens - 1 : 0);
    tenure->limit_us = limit_from(tenure, op->sent_us);
    tenure->until_us = pawl__later(op->sent_us, op->lease_us);
    tenure->proven_us = op->sent_us;
    tenure->deadline_us = is_session(machine, tenure)
                              ? tenure->limit_us
                              : pawl__min64(pawl__valid_until(op), tenure->limit_us);
    if (pawl__claims_alone(pawl__name_family(tenure->name), tenure->kind)) {
        pawl__list_remove(&tenure->node); /* from the crowd */
        pawl__ear_close(machine, tenure, now_us);
    } else {
        tenure->name->active = tenure;
    }
    schedule_renewal(machine, tenure, op->sent_us);
    begin_hold(machine, tenure, now_us);
}

/* The backend's hold goes on under the number it has; only here it changes hands. Nothing of the
 * giver is under way. */
void pawl__hold_inherit(struct pawl__machine *machine, struct pawl__tenure *heir,
    struct pawl__tenure *giver, int64_t now_us)
{
    heir->id = giver->id;
    heir->token = giver->token + 1;
    heir->spare_tokens = (uint16_t)(giver->spare_tokens - 1);
    heir->handed = (uint16_t)(giver->handed + 1);
    heir->shown = giver->shown;
    heir->attempt = giver->attempt;
    heir->asked = giver->asked;
    heir->limit_us = limit_from(heir, now_us);
    heir->until_us = giver->until_us;
    heir->deadline_us = pawl__min64(giver->deadline_us, heir->limit_us);
    heir->renew_us = giver->renew_us;
    heir->proven_us = giver->proven_us;
    heir->name->active = heir;
    begin_hold(machine, heir, now_us);
}

/* Who writes may read as well, which is no re-entry; who reads may not write, and would wait for
 * itself. */
static bool may_enter(const struct pawl__tenure *tenure, const struct pawl__terms *terms)
{
    if (tenure->kind == PAWL_READ && terms->kind == PAWL_WRITE) {
        return false;
    }
    return terms->reentry || pawl__tenure_count(tenure, terms->kind) == 0;
}

/* Another handle than the tenure's has to remember how often it was entered through it. */
static bool can_enter(const struct pawl__tenure *tenure, struct pawl__handle *handle)
{
    return handle == tenure->handle || pawl__handle_extra(handle) != NULL;
}

void pawl__hold_enter(struct pawl__machine *machine, struct pawl__tenure *tenure,
    struct pawl__request *request, int64_t now_us)
{
    if (tenure->state == PAWL__TENURE_LOST) {
        pawl__hold_refuse_lost(machine, tenure, request);
    } else if (!may_enter(tenure, request->handle->terms)) {
        pawl__finish(machine, request, PAWL_DEADLOCK, NULL);
    } else if (!can_enter(tenure, request->handle)) {
        pawl__finish(machine, request, PAWL_NO_MEMORY, NULL);
    } else if (!tenure->renew) {
        request->lease_us = tenure->lease_us; /* a fixed lease counts anew from here */
        pawl__hold_extend(machine, tenure, request, now_us);
    } else {
        entered(machine, tenure, request->handle);
        pawl__hold_show_count(machine, tenure, now_us);
        pawl__finish(machine, request, PAWL_OK, NULL);
    }
}

/* ===== Operations on a hold ===== */

static void submit_side(struct pawl__machine *machine, struct pawl__tenure *tenure,
    enum pawl__op_kind kind, int64_t now_us)
{
    tenure->side_out = true;
    tenure->motion->side.as = tenure->kind;
    tenure->motion->side.id = tenure->id;
    tenure->motion->side.count = tenure->count;
    tenure->motion->side.wanted = !pawl__list_empty(&tenure->motion->extending);
    pawl__submit(machine, &tenure->motion->side, kind, now_us);
}

/* Leave time for a renewal, or another one, before the deadline; but no more than that needs. If
 * the backend is slow, and not the connection dead, a new one takes several answers where one would
 * have done. */
static void hurry(struct pawl__tenure *tenure, int64_t now_us)
{
    const int64_t left_us = tenure->deadline_us - now_us;
    const int64_t slow_us = pawl__min64(left_us - ANOTHER_US, PATIENCE_ENOUGH_US);
    const int64_t patience_us = pawl__max64(pawl__max64(left_us / 2, slow_us), PATIENCE_LEAST_US);
    tenure->motion->side.deadline_us =
        pawl__min64(tenure->motion->side.deadline_us, pawl__later(now_us, patience_us));
}

static void renew_later(struct pawl__machine *machine, struct pawl__tenure *tenure, int64_t now_us)
{
    int64_t first_us =
        pawl__min64(pawl__max64(tenure->lease_us / 40, RETRY_LEAST_US), RETRY_MOST_US);
    tenure->renew_us =
        now_us + pawl__backoff_us(machine, tenure->attempt++, first_us, RETRY_MOST_US);
}

/* A release that made a reader of a writer waits for the next renewal, like an extension. */
static void join_waiting(struct pawl__tenure *tenure)
{
    if (tenure->request != NULL) {
        pawl__list_push(&tenure->motion->extends, &tenure->request->node);
        tenure->request = NULL;
    }
}

/* False: there is no memory for a question now; its timer will try again. */
static bool may_ask(struct pawl__machine *machine, struct pawl__tenure *tenure, int64_t now_us)
{
    if (!pawl__motion_begin(machine, tenure)) {
        tenure->starved = true;
        renew_later(machine, tenure, now_us);
        arm(machine, tenure);
        return false;
    }
    return true;
}

/* Renew or verify when its turn comes. False: as above. */
static bool get_in_line(struct pawl__machine *machine, struct pawl__tenure *tenure, int64_t now_us)
{
    if (!may_ask(machine, tenure, now_us)) {
        return false;
    }
    tenure->asked = tenure->asked || tenure->renew_us != PAWL__NEVER;
    pawl__renewal_wait(machine, tenure);
    arm(machine, tenure);
    return true;
}

/* Ask for as much as was promised, but never for less than the backend has now, or beyond the
 * limit. Out of turn if it stands in line. */
static void renew(struct pawl__machine *machine, struct pawl__tenure *tenure, int64_t now_us)
{
    if (tenure->side_out && !pawl__renewal_forgo(machine, tenure)) {
        return;
    }
    if (!may_ask(machine, tenure, now_us)) {
        return;
    }
    int64_t lease_us = tenure->until_us - now_us;
    if (tenure->renew) {
        lease_us = pawl__max64(lease_us, tenure->lease_us);
    }
    if (tenure->limit_us != PAWL__NEVER) {
        lease_us = pawl__min64(lease_us, tenure->limit_us - now_us);
    }
    join_waiting(tenure);
    pawl__list_splice(&tenure->motion->extending, &tenure->motion->extends);
    tenure->look = false;
    tenure->asked = true;
    tenure->motion->side.lease_us = lease_us;
    machine->renewals_out++;
    submit_side(machine, tenure, PAWL__OP_RENEW, now_us);
    hurry(tenure, now_us);
    arm(machine, tenure);
}

static void verify(struct pawl__machine *machine, struct pawl__tenure *tenure, int64_t now_us)
{
    tenure->look = false;
    machine->renewals_out++;
    submit_side(machine, tenure, PAWL__OP_VERIFY, now_us);
    arm(machine, tenure);
}

/* Make sure that it is still ours: a renewed hold renews, a fixed one only looks; unless there was
 * no memory to look before, or the backend has yet to hear something: then a renewal is due. */
void pawl__hold_ask(struct pawl__machine *machine, struct pawl__tenure *tenure, int64_t now_us)
{
    if (tenure->renew_us != PAWL__NEVER) {
        renew(machine, tenure, now_us);
    } else {
        verify(machine, tenure, now_us);
    }
}

/* The backend has room for it, and nobody misreads it there. */
static bool is_count_shown(const struct pawl__tenure *tenure)
{
    return tenure->kind != PAWL_READ && tenure->kind != PAWL_PLAIN;
}

void pawl__hold_show_count(
    struct pawl__machine *machine, struct pawl__tenure *tenure, int64_t now_us)
{
    if (!tenure->side_out && tenure->shown != tenure->count && is_count_shown(tenure) &&
        pawl__motion_may(machine, tenure)) {
        tenure->shown = tenure->count;
        submit_side(machine, tenure, PAWL__OP_COUNT, now_us);
        if (!is_session(machine, tenure)) {
            tenure->motion->side.lazy =
                false; /* renewals and extensions have to wait for its answer */
            hurry(tenure, now_us);
        }
        arm(machine, tenure);
    }
}

void pawl__hold_look(struct pawl__machine *machine, struct pawl__tenure *tenure, int64_t now_us)
{
    if (tenure->state != PAWL__TENURE_HELD) {
        return;
    }
    if (tenure->side_out) {
        tenure->look = true;
    } else {
        get_in_line(machine, tenure, now_us);
    }
}

void pawl__hold_extend(struct pawl__machine *machine, struct pawl__tenure *tenure,
    struct pawl__request *request, int64_t now_us)
{
    int64_t until_us = pawl__later(now_us, request->lease_us);
    if (request->kind == PAWL__WANT_EXTEND && until_us > tenure->limit_us) {
        pawl__finish(machine, request, PAWL_INVALID,
            pawl__format("an extension by %lld ms would reach beyond max_hold_ms",
                (long long)(request->lease_us / 1000)));
        return;
    }
    if (!pawl__motion_may(machine, tenure)) {
        pawl__finish(machine, request, PAWL_NO_MEMORY, NULL);
        return;
    }
    tenure->until_us = pawl__max64(tenure->until_us, until_us);
    request->tenure = tenure;
    request->phase = PAWL__ASKING;
    pawl__list_push(&tenure->motion->extends, &request->node);
    pawl__timer_set(&machine->timers, &request->timer, request->end_us);
    renew(machine, tenure, now_us);
}

/* Who was about to enter once more to write would write what only reads from now on. */
static void refuse_writers(struct pawl__machine *machine, struct pawl__list *requests)
{
    struct pawl__list *node = requests->next;
    while (node != requests) {
        struct pawl__request *request = PAWL__CONTAINER(node, struct pawl__request, node);
        node = node->next;
        if (request->kind == PAWL__WANT_ACQUIRE && request->handle->terms->kind == PAWL_WRITE) {
            pawl__finish(machine, request, PAWL_DEADLOCK, NULL);
        }
    }
}

/* It goes on for reading only. Like a renewal, it is told until it was heard. */
void pawl__hold_downgrade(struct pawl__machine *machine, struct pawl__tenure *tenure,
    struct pawl__request *request, int64_t now_us)
{
    tenure->kind = PAWL_READ;
    tenure->downgrade = true;
    refuse_writers(machine, &tenure->motion->extends);
    refuse_writers(machine, &tenure->motion->extending);
    if (tenure->name->active == tenure) {
        tenure->name->active = NULL;
        pawl__touch(machine, tenure->name);
    }
    if (request->handle->terms->unawaited) {
        pawl__finish(machine, request, PAWL_OK, NULL);
    } else {
        request->tenure = tenure;
        request->phase = PAWL__ASKING;
        tenure->request = request; /* until something can be asked */
        pawl__timer_set(&machine->timers, &request->timer, request->end_us);
    }
    renew(machine, tenure, now_us);
}

/* ===== Answers ===== */

static void extended(struct pawl__machine *machine, struct pawl__tenure *tenure)
{
    struct pawl__list *node = NULL;
    while ((node = pawl__list_pop(&tenure->motion->extending)) != NULL) {
        struct pawl__request *request = PAWL__CONTAINER(node, struct pawl__request, node);
        if (request->kind == PAWL__WANT_ACQUIRE) {
            entered(machine, tenure, request->handle);
        }
        pawl__finish(machine, request, PAWL_OK, NULL);
    }
}

/* Whoever waits for it to last longer hears that it is lost. */
static void refuse_lost(
    struct pawl__machine *machine, const struct pawl__tenure *tenure, struct pawl__list *requests)
{
    struct pawl__list *node = NULL;
    while ((node = pawl__list_pop(requests)) != NULL) {
        pawl__hold_refuse_lost(machine, tenure, PAWL__CONTAINER(node, struct pawl__request, node));
    }
}

static void not_extended(
    struct pawl__machine *machine, struct pawl__list *requests, pawl_status status, const char *why)
{
    struct pawl__list *node = NULL;
    while ((node = pawl__list_pop(requests)) != NULL) {
        struct pawl__request *request = PAWL__CONTAINER(node, struct pawl__request, node);
        pawl__finish(machine, request, status, why != NULL ? pawl__strdup(why) : NULL);
    }
}

/* Releases that made a reader of a writer: the whole hold is released now. */
static void released_at_last(struct pawl__machine *machine, struct pawl__list *requests)
{
    struct pawl__list *node = requests->next;
    while (node != requests) {
        struct pawl__request *request = PAWL__CONTAINER(node, struct pawl__request, node);
        node = node->next;
        if (request->kind == PAWL__WANT_RELEASE) {
            pawl__finish(machine, request, PAWL_OK, NULL);
        }
    }
}

static void leave_waiting(
    struct pawl__machine *machine, struct pawl__tenure *tenure, pawl_status status)
{
    struct pawl__request *request = tenure->request;
    tenure->request = NULL;
    if (status == PAWL_LOST) {
        pawl__hold_refuse_lost(machine, tenure, request);
    } else {
        pawl__finish(machine, request, PAWL_OK, NULL);
    }
}

/* Nothing is done for the hold any more, but to free it. */
void pawl__hold_leave(
    struct pawl__machine *machine, struct pawl__tenure *tenure, pawl_status status, int64_t now_us)
{
    tenure->until_us = pawl__tenure_stands(tenure, now_us);
    if (tenure->request != NULL) {
        leave_waiting(machine, tenure, status);
    }
    if (status == PAWL_LOST) {
        refuse_lost(machine, tenure, &tenure->motion->extends);
        refuse_lost(machine, tenure, &tenure->motion->extending);
    }
    released_at_last(machine, &tenure->motion->extends);
    released_at_last(machine, &tenure->motion->extending);
    not_extended(machine, &tenure->motion->extends, status, NULL);
    not_extended(machine, &tenure->motion->extending, status, NULL);
    pawl__timer_clear(&machine->timers, &tenure->timer);
}

static void renewed(struct pawl__machine *machine, struct pawl__tenure *tenure, struct pawl__op *op)
{
    int64_t valid_us = pawl__min64(pawl__valid_until(op), tenure->limit_us);
    tenure->deadline_us = pawl__max64(tenure->deadline_us, valid_us);
    tenure->until_us = pawl__max64(tenure->until_us, pawl__later(op->sent_us, op->lease_us));
    tenure->proven_us = op->sent_us;
    tenure->attempt = 0;
    tenure->asked = false;
    tenure->starved = false;
    tenure->at_risk = false;
    tenure->downgrade = tenure->downgrade && op->as != PAWL_READ;
    schedule_renewal(machine, tenure, op->sent_us);
    extended(machine, tenure);
}

static void not_renewed(
    struct pawl__machine *machine, struct pawl__tenure *tenure, struct pawl__op *op, int64_t now_us)
{
    if (tenure->renew_us != PAWL__NEVER || tenure->downgrade) {
        renew_later(machine, tenure, now_us);
    }
    not_extended(machine, &tenure->motion->extending, op->status, op->error);
}

static void judge(
    struct pawl__machine *machine, struct pawl__tenure *tenure, struct pawl__op *op, int64_t now_us)
{
    if (op->answer == PAWL__GONE) {
        pawl__hold_lose(machine, tenure, PAWL__LOSS_PROOF, now_us);
    } else if (op->kind == PAWL__OP_RENEW && op->answer == PAWL__DONE) {
        renewed(machine, tenure, op);
    } else if (op->kind == PAWL__OP_RENEW) {
        not_renewed(machine, tenure, op, now_us);
    }
}

void pawl__hold_answered(
    struct pawl__machine *machine, struct pawl__tenure *tenure, struct pawl__op *op, int64_t now_us)
{
    if (tenure->state == PAWL__TENURE_HELD && now_us >= tenure->deadline_us) {
        pawl__hold_lose(
            machine, tenure, PAWL__LOSS_DEADLINE, now_us); /* a late answer is too late */
    }
    if (tenure->state == PAWL__TENURE_HELD) {
        judge(machine, tenure, op, now_us);
    }
    pawl__free(pawl__take_error(op));
    if (tenure->state != PAWL__TENURE_HELD) {
        return;
    }
    const bool untold = tenure->downgrade && op->as != PAWL_READ; /* by what has just come back */
    if (untold || !pawl__list_empty(&tenure->motion->extends)) {
        renew(machine, tenure, now_us);
    } else if (tenure->look) {
        pawl__hold_ask(machine, tenure, now_us);
    } else {
        pawl__hold_show_count(machine, tenure, now_us);
    }
    arm(machine, tenure);
}

/* A warning, unlike the report of a loss, is left out if memory is short: until its callback has
 * run it keeps a motion that renewals may need. */
static void warn(struct pawl__machine *machine, struct pawl__tenure *tenure)
{
    if (machine->motion_count >= machine->motions_kept && pawl__motion_may(machine, tenure)) {
        pawl__notice_queue(machine, &tenure->motion->risk);
        pawl__motion_rest(machine, tenure); /* nobody wants to know */
    }
}

void pawl__hold_timer(struct pawl__machine *machine, struct pawl__tenure *tenure, int64_t now_us)
{
    if (now_us >= tenure->deadline_us) {
        pawl__hold_lose(machine, tenure, PAWL__LOSS_DEADLINE, now_us);
        return;
    }
    if (now_us >= risk_due(tenure)) {
        tenure->at_risk = true;
        warn(machine, tenure);
    }
    if (now_us >= tenure->renew_us && !tenure->side_out) {
        get_in_line(machine, tenure, now_us);
    }
    arm(machine, tenure);
}

bool pawl__hold_renew_early(
    struct pawl__machine *machine, struct pawl__tenure *tenure, int64_t now_us)
{
    bool due = tenure->state == PAWL__TENURE_HELD && !tenure->side_out &&
               tenure->renew_us != PAWL__NEVER && tenure->timer.due_us == tenure->renew_us &&
               now_us < risk_due(tenure) && /* which another handle may want earlier */
               tenure->renew_us - tenure->lease_us / (10 * RENEWALS_PER_LEASE) <= now_us;
    return due && get_in_line(machine, tenure, now_us);
}
