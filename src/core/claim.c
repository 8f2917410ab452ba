/* SPDX-License-Identifier: Apache-2.0 */
/* Claims: from the local queue to the grant.
 *
 * Callers of one client that want the same name queue up here, first come first served; only the
 * one at the head asks the backend, and has a tenure from then on. Who comes first to a name
 * without any traffic asks at once. Held elsewhere, it listens: subscribe, ask once more, then
 * sleep until a message, the end of the holder's lease, or a second, whichever is first. Without an
 * answer it asks again with the same tenure, after a pause that grows.
 *
 * Readers, and the waiters of a fair lock, do not queue up here: they ask each for itself, readers
 * unless one of us waits to write. Where a release tells nobody (spin, plain), a claim asks again
 * after pauses that grow.
 *
 * A grant whose lease was over when it came counts as no answer. If it goes on like that, the lease
 * is shorter than the way to the backend and back, and nobody's patience would help. */
#include "core/machine_parts.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/limits.h"
#include "core/tally.h"

#include <assert.h>
#include <string.h>

#define RETRY_FIRST_US 20000
#define LISTEN_LEAST_US 1000 /* never a sleep of nothing */
#define SPIN_FIRST_US 1000   /* where no message comes */
#define SPIN_MOST_US 128000
#define LATE_GRANTS_MAX 5 /* so many in the time after which silence would end a wait, end it */

static bool is_try(const struct pawl__request *request)
{
    return request->wait_us == request->start_us;
}

static bool is_forever(const struct pawl__request *request)
{
    return request->wait_us == PAWL__NEVER;
}

static struct pawl__request *request_of(struct pawl__list *node)
{
    return PAWL__CONTAINER(node, struct pawl__request, node);
}

/* ===== The local queue ===== */

static void count_queued(struct pawl__name *name, const struct pawl__request *request, unsigned by)
{
    struct pawl__traffic *traffic = name->traffic->own;
    traffic->tries += is_try(request) ? by : 0;
    traffic->twins += request->handle->owner != 0 ? by : 0;
}

static void enqueue(struct pawl__name *name, struct pawl__request *request)
{
    pawl__list_push(&name->traffic->own->queue, &request->node);
    count_queued(name, request, 1);
}

static void dequeue(struct pawl__name *name, struct pawl__request *request)
{
    pawl__list_remove(&request->node);
    count_queued(name, request, (unsigned)-1);
}

struct pawl__request *pawl__claim_next(struct pawl__name *name)
{
    struct pawl__request *request = request_of(name->traffic->queue.next);
    dequeue(name, request);
    request->stood = !request->fresh;
    return request;
}

/* Whether it stands in the queue. */
static bool is_in_line(const struct pawl__request *request)
{
    return request->tenure == NULL || request->tenure->state == PAWL__TENURE_IDLE;
}

struct pawl__tenure *pawl__claim_tenure(
    struct pawl__machine *machine, struct pawl__request *request)
{
    if (request->tenure == NULL) {
        request->tenure = pawl__tenure_new(machine, request);
    }
    return request->tenure;
}

static void leave_tenure(
    struct pawl__machine *machine, struct pawl__request *request, int64_t now_us)
{
    if (request->tenure != NULL) {
        pawl__tenure_clean(machine, request->tenure, now_us);
    }
}

/* One for itself and one for everybody in line who may get it handed. */
unsigned pawl__claim_tokens(const struct pawl__tenure *tenure)
{
    const struct pawl__list *queue = &tenure->name->traffic->queue;
    const unsigned most = tenure->handle != NULL ? tenure->handle->terms->handoff : 0;
    unsigned count = 0;
    for (struct pawl__list *node = queue->next; node != queue && count < most; node = node->next) {
        count++;
    }
    return count + 1;
}

void pawl__claim_requeue(struct pawl__name *name, struct pawl__request *request)
{
    pawl__list_push_front(&name->traffic->own->queue, &request->node);
    count_queued(name, request, 1);
}

/* Somebody has it: callers that only try need not stand in the queue. */
void pawl__claim_tries_busy(struct pawl__machine *machine, struct pawl__name *name, int64_t now_us)
{
    const struct pawl__traffic *traffic = name->traffic;
    struct pawl__list *node = traffic->queue.next;
    while (traffic->tries > 0 && node != &traffic->queue) {
        struct pawl__request *request = request_of(node);
        node = node->next;
        if (is_try(request)) {
            dequeue(name, request);
            leave_tenure(machine, request, now_us);
            pawl__finish(machine, request, PAWL_BUSY, NULL);
        }
    }
}

static void enter_instead(struct pawl__machine *machine, struct pawl__tenure *tenure,
    struct pawl__request *request, int64_t now_us)
{
    pawl__party_reenters(request);
    leave_tenure(machine, request, now_us);
    pawl__hold_enter(machine, tenure, request, now_us);
}

static bool is_claiming(const struct pawl__tenure *tenure)
{
    return tenure->state == PAWL__TENURE_CLAIMING || tenure->state == PAWL__TENURE_WAITING;
}

/* Requests of an owner that has just got the lock: they re-enter, or hear that they may not. */
void pawl__claim_twins_enter(
    struct pawl__machine *machine, struct pawl__tenure *tenure, int64_t now_us)
{
    struct pawl__name *name = tenure->name;
    const struct pawl__traffic *traffic = name->traffic;
    struct pawl__list *claim = traffic->crowd.next;
    while (claim != &traffic->crowd) {
        struct pawl__tenure *other = PAWL__CONTAINER(claim, struct pawl__tenure, node);
        claim = claim->next;
        if (other->owner == tenure->owner) {
            enter_instead(machine, tenure, other->request, now_us);
        }
    }
    struct pawl__tenure *active = name->active;
    if (active != NULL && active != tenure && active->owner == tenure->owner &&
        is_claiming(active)) {
        enter_instead(machine, tenure, active->request, now_us); /* it writes, and we read */
    }
    struct pawl__list *node = traffic->queue.next;
    while (traffic->twins > 0 && node != &traffic->queue) {
        struct pawl__request *request = request_of(node);
        node = node->next;
        if (request->owner == tenure->owner) {
            dequeue(name, request);
            enter_instead(machine, tenure, request, now_us);
        }
    }
}

static bool asks_already(const struct pawl__name *name, uint64_t owner)
{
    const struct pawl__tenure *active = name->active;
    if (active != NULL && active->request != NULL && active->request->kind == PAWL__WANT_ACQUIRE &&
        active->owner == owner) {
        return true;
    }
    const struct pawl__tenure *heir = active != NULL ? active->motion->heir : NULL;
    if (heir != NULL && heir->request != NULL && heir->owner == owner) { /* it may have left */
        return true;
    }
    const struct pawl__list *crowd = &name->traffic->crowd; /* who leaves is not in it any more */
    for (struct pawl__list *node = crowd->next; node != crowd; node = node->next) {
        if (PAWL__CONTAINER(node, struct pawl__tenure, node)->owner == owner) {
            return true;
        }
    }
    const struct pawl__list *queue = &name->traffic->queue;
    for (struct pawl__list *node = queue->next; node != queue; node = node->next) {
        if (request_of(node)->owner == owner) {
            return true;
        }
    }
    return false;
}

/* Whether one of us has the lock, or a party its turn, so that this caller cannot. */
static bool is_kept_out(const struct pawl__name *name, const struct pawl__request *request)
{
    for (struct pawl__list *node = name->holds.next; node != &name->holds; node = node->next) {
        const struct pawl__tenure *tenure = PAWL__CONTAINER(node, struct pawl__tenure, node);
        const bool both_read =
            tenure->kind == PAWL_READ && request->handle->terms->kind == PAWL_READ;
        if (tenure->state == PAWL__TENURE_HELD && !both_read) {
            return true;
        }
    }
    return pawl__party_is_first(name, request);
}

/* What a caller is told whose time is up: "busy" if one of us has the lock, or if the backend's
 * last word came since the caller did, or before to one that it stood in line behind; "unavailable"
 * without such a word. */
static pawl_status verdict(const struct pawl__name *name, const struct pawl__request *request)
{
    const struct pawl__tenure *active = name->active;
    if ((active != NULL && active->state == PAWL__TENURE_RELEASING) || is_kept_out(name, request)) {
        return PAWL_BUSY;
    }
    if (request->tenure != NULL && request->tenure->granted) {
        return PAWL_UNAVAILABLE; /* we had it, but each time too late */
    }
    bool in_line = request->stood || is_in_line(request);
    bool heard = name->answered_us >= request->start_us || (in_line && name->answered_us > 0);
    return heard && name->traffic->silent_us == PAWL__NEVER ? PAWL_BUSY : PAWL_UNAVAILABLE;
}

static bool known_busy(const struct pawl__name *name, const struct pawl__request *request)
{
    const struct pawl__tenure *active = name->active;
    return is_kept_out(name, request) || (active != NULL && active->state == PAWL__TENURE_WAITING &&
                                             name->traffic->silent_us == PAWL__NEVER);
}

static void begin(struct pawl__machine *machine, struct pawl__request *request, int64_t now_us)
{
    struct pawl__tenure *tenure = pawl__claim_enter(machine, request);
    if (tenure != NULL) {
        pawl__claim_ask(machine, tenure, now_us);
    }
}

/* Get in line; its turn comes at the end of this step, if nobody else is here. A name at rest has
 * no line, and needs none for one who comes alone. */
static void join(struct pawl__machine *machine, struct pawl__name *name,
    struct pawl__request *request, int64_t now_us)
{
    const bool alone = name->traffic->own == NULL && name->active == NULL;
    if (!alone && pawl__traffic_make(name) == NULL) {
        pawl__finish(machine, request, PAWL_NO_MEMORY, NULL);
        return;
    }
    const bool ends = is_try(request) || request->wait_us <= now_us; /* of a party: late */
    int64_t due_us = ends ? request->end_us : request->wait_us;
    due_us = is_forever(request) ? pawl__later(now_us, machine->give_up_us) : due_us;
    pawl__timer_set(&machine->timers, &request->timer, due_us);
    request->tenure = NULL;
    if (alone) {
        begin(machine, request, now_us);
    } else {
        enqueue(name, request);
        pawl__touch(machine, name);
    }
}

void pawl__claim_start(struct pawl__machine *machine, struct pawl__request *request, int64_t now_us)
{
    struct pawl__name *name = request->handle->name;
    if (request->handle->closed || (request->stop != NULL && atomic_load(request->stop))) {
        pawl__finish(machine, request, PAWL_CANCELED, NULL);
        return;
    }
    struct pawl__tenure *held = pawl__hold_find(machine, name, request->owner, now_us);
    if (held != NULL) {
        pawl__hold_enter(machine, held, request, now_us);
        return;
    }
    if (!request->handle->terms->reentry && request->handle->owner != 0 &&
        asks_already(name, request->owner)) {
        pawl__finish(machine, request, PAWL_DEADLOCK, NULL);
        return;
    }
    if (is_try(request) && known_busy(name, request)) {
        pawl__finish(machine, request, PAWL_BUSY, NULL);
        return;
    }
    join(machine, name, request, now_us);
}

/* It is the others' turn. The first in our queue looks again when that is over. */
static void stand_back(struct pawl__machine *machine, struct pawl__name *name)
{
    struct pawl__traffic *traffic = name->traffic->own;
    if (traffic->timer.armed && traffic->timer.due_us == traffic->hold_off_us) {
        return;
    }
    pawl__timer_set(&machine->timers, &traffic->timer, traffic->hold_off_us);
    struct pawl__request *first = request_of(traffic->queue.next);
    if (machine->nudge != NULL && !first->fresh) {
        machine->nudge(first);
    }
}

void pawl__claim_turn(struct pawl__machine *machine, struct pawl__name *name, int64_t now_us)
{
    while (name->active == NULL && !pawl__list_empty(&name->traffic->queue)) {
        if (now_us < name->traffic->hold_off_us) {
            stand_back(machine, name);
            return;
        }
        begin(machine, pawl__claim_next(name), now_us);
    }
}

/* ===== Asking and listening ===== */

void pawl__claim_submit(struct pawl__machine *machine, struct pawl__tenure *tenure, int64_t now_us)
{
    assert(!tenure->main_out);
    tenure->state = PAWL__TENURE_CLAIMING;
    tenure->motion->wakes = tenure->name->traffic->wakes;
    tenure->motion->copy_us = now_us;
    pawl__ear_asks(tenure);
    if (tenure->motion->main.tokens == 0) {
        tenure->motion->main.tokens =
            pawl__claim_tokens(tenure); /* asked again, it is the same question */
    }
    tenure->motion->main.queue =
        pawl__name_family(tenure->name) == PAWL__FAMILY_FAIR && !is_try(tenure->request);
    tenure->lined = tenure->lined || tenure->motion->main.queue;
    tenure->motion->main.as = tenure->kind;
    tenure->motion->main.id = tenure->id;
    tenure->motion->main.lease_us = tenure->lease_us;
    tenure->main_out = true;
    pawl__timer_clear(&machine->timers, &tenure->timer);
    pawl__set_phase(machine, tenure->request, PAWL__ASKING);
    pawl__submit(machine, &tenure->motion->main, PAWL__OP_ACQUIRE, now_us);
}

static void wait_until(struct pawl__machine *machine, struct pawl__tenure *tenure, int64_t due_us)
{
    tenure->state = PAWL__TENURE_WAITING;
    pawl__set_phase(machine, tenure->request, PAWL__LISTENING);
    pawl__tenure_arm(machine, tenure, due_us);
}

/* Whether we have been called since we asked. */
static bool is_called(const struct pawl__tenure *tenure)
{
    const struct pawl__traffic *traffic = tenure->name->traffic;
    const bool listens = traffic->watch == PAWL__WATCHED || tenure->motion->ear != NULL;
    return (listens && traffic->wakes != tenure->motion->wakes) || pawl__ear_called(tenure);
}

/* How long to sleep if nobody calls. */
static int64_t sleep_us(struct pawl__machine *machine, struct pawl__tenure *tenure, int64_t hint_us)
{
    const enum pawl__family family = pawl__name_family(tenure->name);
    const bool spins = family == PAWL__FAMILY_SPIN || family == PAWL__FAMILY_PLAIN;
    int64_t most_us =
        spins ? pawl__backoff_us(machine, tenure->motion->turns++, SPIN_FIRST_US, SPIN_MOST_US)
              : pawl__random_jitter(&machine->random, PAWL__POLL_US);
    if (hint_us >= 0) {
        most_us = pawl__min64(most_us, hint_us + LISTEN_LEAST_US);
    }
    return pawl__max64(most_us, LISTEN_LEAST_US);
}

static void open_ears(struct pawl__machine *machine, struct pawl__tenure *tenure, int64_t now_us)
{
    switch (pawl__name_family(tenure->name)) {
    case PAWL__FAMILY_MUTEX:
    case PAWL__FAMILY_SHARED:
        pawl__watch_need(machine, tenure->name, now_us);
        break;
    case PAWL__FAMILY_FAIR:
        pawl__ear_open(machine, tenure, now_us);
        break;
    case PAWL__FAMILY_SPIN:
    case PAWL__FAMILY_PLAIN:
    case PAWL__FAMILY_SEMAPHORE:
    case PAWL__FAMILY_PERMITS:
    case PAWL__FAMILY_LATCH:
        break; /* nobody would call */
    }
}

static void listen(
    struct pawl__machine *machine, struct pawl__tenure *tenure, int64_t hint_us, int64_t now_us)
{
    if (is_called(tenure)) {
        pawl__claim_ask(machine, tenure, now_us); /* it was freed while we asked */
        return;
    }
    wait_until(machine, tenure, now_us + sleep_us(machine, tenure, hint_us));
    open_ears(machine, tenure, now_us);
    if (tenure->name->active != tenure && tenure->request->party == NULL) {
        pawl__motion_pause(machine, tenure); /* one of a crowd */
    }
}

/* ===== Answers ===== */

static void held_elsewhere(
    struct pawl__machine *machine, struct pawl__tenure *tenure, struct pawl__op *op, int64_t now_us)
{
    tenure->attempt = 0;
    tenure->granted = false;
    tenure->queued = op->queue;
    tenure->name->chained = false;
    if (op->fenced) {
        tenure->doubt = false;
    }
    pawl__claim_tries_busy(machine, tenure->name, now_us);
    if (now_us >= tenure->request->wait_us) {
        pawl__claim_end(machine, tenure->request, PAWL_BUSY, pawl__take_error(op), now_us);
    } else {
        listen(machine, tenure, op->hint_us, now_us);
    }
}

static void no_answer(
    struct pawl__machine *machine, struct pawl__tenure *tenure, struct pawl__op *op, int64_t now_us)
{
    struct pawl__request *request = tenure->request;
    bool once = is_try(request) && op->answer == PAWL__FAILED;
    if (once || !op->again || now_us >= request->end_us) {
        request->settled = !op->again;
        pawl__claim_end(machine, request, op->status, pawl__take_error(op), now_us);
        return;
    }
    if (is_try(request)) {
        pawl__claim_ask(machine, tenure, now_us); /* the same tenure: it is the same question */
        return;
    }
    if (pawl__traffic_make(tenure->name) == NULL) {
        /* It could not be noted since when the backend is silent, so this might never end. */
        pawl__claim_end(machine, request, PAWL_NO_MEMORY, NULL, now_us);
        return;
    }
    int64_t pause_us = pawl__backoff_us(machine, tenure->attempt++, RETRY_FIRST_US, PAWL__POLL_US);
    wait_until(machine, tenure, now_us + pause_us);
}

/* A turn of this process at an exclusive lock: how often, and since when, it has had the lock
 * without others between. */
static void begin_turn(struct pawl__name *name, int64_t now_us)
{
    if (name->chained) {
        pawl__name_count_pass(name);
    } else {
        name->passes = 0;
        name->chain_us = now_us;
    }
    name->chained = false;
}

/* The answer took longer than the lease. Asking again with the same tenure is granted if it still
 * stands. */
static void granted_late(
    struct pawl__machine *machine, struct pawl__tenure *tenure, struct pawl__op *op, int64_t now_us)
{
    tenure->motion->late_us = tenure->motion->late == 0 ? now_us : tenure->motion->late_us;
    tenure->motion->late++;
    op->answer = PAWL__UNKNOWN;
    op->status = PAWL_UNAVAILABLE;
    op->again = tenure->motion->late < LATE_GRANTS_MAX ||
                now_us - tenure->motion->late_us < machine->give_up_us;
    op->error = pawl__tenure_too_late(tenure);
    no_answer(machine, tenure, op, now_us);
}

static void granted(
    struct pawl__machine *machine, struct pawl__tenure *tenure, struct pawl__op *op, int64_t now_us)
{
    tenure->granted = true;
    tenure->queued = false;
    if (op->fenced) {
        tenure->doubt = false;
    }
    if (now_us < pawl__valid_until(op)) {
        if (tenure->name->active == tenure) {
            begin_turn(tenure->name, now_us);
            pawl__hold_grant(machine, tenure, op, now_us);
        } else {
            pawl__crowd_granted(machine, tenure, op, now_us);
        }
        return;
    }
    granted_late(machine, tenure, op, now_us);
}

void pawl__claim_answered(
    struct pawl__machine *machine, struct pawl__tenure *tenure, struct pawl__op *op, int64_t now_us)
{
    switch (op->answer) {
    case PAWL__DONE:
        granted(machine, tenure, op, now_us);
        break;
    case PAWL__HELD:
        held_elsewhere(machine, tenure, op, now_us);
        break;
    case PAWL__UNKNOWN:
        tenure->doubt = true;
        no_answer(machine, tenure, op, now_us);
        break;
    case PAWL__FAILED:
        no_answer(machine, tenure, op, now_us);
        break;
    case PAWL__PENDING:
    case PAWL__SPARED:
    case PAWL__GONE:
    case PAWL__LEFT:
        assert(false && "not an answer to an acquire");
        break;
    }
}

/* ===== Giving up ===== */

void pawl__claim_end(struct pawl__machine *machine, struct pawl__request *request,
    pawl_status status, char *error, int64_t now_us)
{
    if (is_in_line(request)) {
        dequeue(request->handle->name, request);
    }
    leave_tenure(machine, request, now_us);
    pawl__finish(machine, request, status, error);
}

/* Whether an answer about it is under way, to itself or to its giver. */
static bool is_asking(const struct pawl__tenure *tenure)
{
    return tenure != NULL && (tenure->main_out || tenure->motion->giver != NULL);
}

/* Since when the backend has not answered about this name. While one of us has it and no renewal is
 * failing, nobody waits for an answer, so nothing follows from silence. */
static int64_t silent_since(const struct pawl__name *name, int64_t now_us)
{
    const struct pawl__tenure *active = name->active;
    bool held = active != NULL && active->state == PAWL__TENURE_HELD && active->attempt == 0;
    bool unasked = held || pawl__party_is_first(name, NULL);
    const int64_t silent_us = name->traffic->silent_us;
    return silent_us == PAWL__NEVER || unasked ? now_us : silent_us;
}

/* Whether to wait until the very end for an answer: to our own question, or to the first that was
 * ever asked. */
static bool may_still_hear(const struct pawl__name *name, const struct pawl__request *request)
{
    bool unknown = name->traffic->silent_us == PAWL__NEVER && verdict(name, request) != PAWL_BUSY;
    return unknown || is_asking(request->tenure);
}

/* What the backend said of who has it, when it was last asked. NULL: nothing. */
static char *last_refusal(struct pawl__tenure *tenure)
{
    const bool known = tenure != NULL && !is_asking(tenure); /* or the backend has the operation */
    const bool said = known && tenure->motion->main.answer == PAWL__HELD;
    return said ? pawl__take_error(&tenure->motion->main) : NULL;
}

void pawl__claim_timeout(
    struct pawl__machine *machine, struct pawl__request *request, int64_t now_us)
{
    struct pawl__name *name = request->handle->name;
    if (is_forever(request)) {
        int64_t end_us = pawl__later(silent_since(name, now_us), machine->give_up_us);
        if (now_us < end_us) {
            pawl__timer_set(&machine->timers, &request->timer, end_us);
            return;
        }
    } else if (now_us < request->end_us && may_still_hear(name, request)) {
        pawl__timer_set(&machine->timers, &request->timer, request->end_us);
        return;
    }
    pawl_status status = is_forever(request) ? PAWL_UNAVAILABLE : verdict(name, request);
    char *why = NULL;
    if (status == PAWL_BUSY) {
        why = last_refusal(request->tenure);
    } else if (name->traffic->error != NULL) {
        why = pawl__strdup(name->traffic->error);
    } else if (request->tenure != NULL && request->tenure->motion->late > 0) {
        why = pawl__tenure_too_late(request->tenure);
    }
    pawl__claim_end(machine, request, status, why, now_us);
}
