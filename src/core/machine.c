/* SPDX-License-Identifier: Apache-2.0 */
/* The machine's entries and outputs: where requests and answers come in and are handed to the part
 * that knows what to do (see machine_parts.h), and where everything that has to be done outside is
 * put. Time comes in through timers.c.
 *
 * Every entry ends with pawl__settle(): names that were touched get their next turn, and what is
 * over is freed. Names and tenures are not freed earlier, so within a step pointers to them stay
 * good. An operation does not: with its motion it may be somebody else's once the answer has been
 * dealt with, as when a hold has begun. */
#include "core/machine.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "core/machine_parts.h"
#include "core/tally.h"

#include <assert.h>

bool pawl__machine_init(struct pawl__machine *machine)
{
    machine->ops = NULL;
    machine->ops_end = &machine->ops;
    pawl__list_init(&machine->finished);
    pawl__list_init(&machine->notices);
    machine->dead = NULL;
    pawl__list_init(&machine->tenures);
    pawl__list_init(&machine->tallies);
    pawl__list_init(&machine->leases);
    pawl__list_init(&machine->ended);
    pawl__list_init(&machine->spares);
    pawl__list_init(&machine->ears);
    pawl__list_init(&machine->parties);
    machine->touched = NULL;
    machine->touched_end = &machine->touched;
    machine->next_id = 1;
    pawl__renewals_init(machine);
    if (!pawl__map_init(&machine->names)) {
        return false;
    }
    if (!pawl__motions_init(machine)) {
        pawl__map_free(&machine->names);
        return false;
    }
    return true;
}

void pawl__machine_fini(struct pawl__machine *machine)
{
    struct pawl__list *node = NULL;
    while ((node = pawl__list_pop(&machine->spares)) != NULL) {
        pawl__free(PAWL__CONTAINER(node, struct pawl__tenure, all));
    }
    pawl__motions_free(machine);
    pawl__map_free(&machine->names);
}

/* ===== Outputs ===== */

char *pawl__take_error(struct pawl__op *op)
{
    char *error = op->error;
    op->error = NULL;
    return error;
}

void pawl__submit(
    struct pawl__machine *machine, struct pawl__op *op, enum pawl__op_kind kind, int64_t now_us)
{
    op->next = NULL;
    op->kind = kind;
    op->lazy = kind == PAWL__OP_COUNT;
    op->sent_us = now_us;
    op->deadline_us = now_us + machine->timeout_us;
    op->answer = PAWL__PENDING;
    op->status = PAWL_OK;
    op->again = false;
    op->fenced = false;
    op->others = false;
    op->hint_us = -1;
    op->token = 0;
    pawl__free(pawl__take_error(op)); /* of an earlier try */
    *machine->ops_end = op;
    machine->ops_end = &op->next;
    machine->pending++;
}

void pawl__finish(
    struct pawl__machine *machine, struct pawl__request *request, pawl_status status, char *error)
{
    assert(!request->finished);
    pawl__timer_clear(&machine->timers, &request->timer);
    pawl__list_remove(&request->node);
    request->finished = true;
    request->status = status;
    request->error = error;
    pawl__list_push(&machine->finished, &request->node);
    if (pawl__request_party(request) != NULL) {
        pawl__party_finished(machine, request);
    }
}

void pawl__set_phase(
    struct pawl__machine *machine, struct pawl__request *request, enum pawl__phase phase)
{
    if (request->phase != phase) {
        request->phase = phase;
        if (machine->nudge != NULL && !request->fresh) {
            machine->nudge(request);
        }
    }
}

int64_t pawl__backoff_us(
    struct pawl__machine *machine, unsigned attempt, int64_t first_us, int64_t most_us)
{
    int64_t delay_us = first_us << (attempt < 16 ? attempt : 16);
    return pawl__random_jitter(&machine->random, pawl__min64(delay_us, most_us));
}

void pawl__touch(struct pawl__machine *machine, struct pawl__name *name)
{
    if (!name->touched) {
        name->touched = true;
        name->next = NULL;
        *machine->touched_end = name;
        machine->touched_end = &name->next;
    }
}

/* The name that was touched first, which may be touched again from here on. */
static struct pawl__name *next_touched(struct pawl__machine *machine)
{
    struct pawl__name *name = machine->touched;
    machine->touched = name->next;
    if (machine->touched == NULL) {
        machine->touched_end = &machine->touched;
    }
    name->touched = false;
    return name;
}

static void free_ended(struct pawl__machine *machine)
{
    struct pawl__list *node = machine->ended.next;
    while (node != &machine->ended) {
        struct pawl__tenure *tenure = PAWL__CONTAINER(node, struct pawl__tenure, all);
        node = node->next;
        struct pawl__name *name = tenure->name;
        if (pawl__tenure_free(machine, tenure)) {
            pawl__touch(machine, name);
        }
    }
}

static bool is_used(const struct pawl__name *name)
{
    return name->handles != NULL || name->uses > 0 || name->traffic->watch != PAWL__UNWATCHED;
}

void pawl__settle(struct pawl__machine *machine, int64_t now_us)
{
    free_ended(machine);
    while (machine->touched != NULL) {
        struct pawl__name *name = next_touched(machine);
        pawl__claim_turn(machine, name, now_us);
        pawl__watch_review(machine, name, now_us);
        if (!is_used(name)) {
            if (name->traffic->own != NULL) {
                pawl__timer_clear(&machine->timers, &name->traffic->own->timer);
            }
            pawl__map_remove(&machine->names, &name->node);
            name->next = machine->dead;
            machine->dead = name;
        }
    }
    if (machine->restless != NULL) {
        pawl__parties_settle(machine, now_us);
        pawl__settle(machine, now_us); /* what came of that; it comes to an end, as parties do */
    }
}

bool pawl__machine_idle(const struct pawl__machine *machine)
{
    return pawl__list_empty(&machine->tenures) && pawl__list_empty(&machine->tallies);
}

/* Of a lock. */
static unsigned at_stake(const struct pawl__tenure *tenure)
{
    const bool held = tenure->state == PAWL__TENURE_HELD || tenure->state == PAWL__TENURE_LOST ||
                      tenure->state == PAWL__TENURE_RELEASING;
    return PAWL__UNHEARD_LEASE | (held ? PAWL__UNHEARD_RELEASE : 0);
}

unsigned pawl__machine_unheard(const struct pawl__machine *machine)
{
    unsigned unheard = machine->unheard;
    struct pawl__list *node = machine->tenures.next;
    for (; node != &machine->tenures; node = node->next) {
        unheard |= at_stake(PAWL__CONTAINER(node, struct pawl__tenure, all));
    }
    for (node = machine->tallies.next; node != &machine->tallies; node = node->next) {
        unheard |= pawl__tally_at_stake(PAWL__CONTAINER(node, struct pawl__tally, all));
    }
    return unheard;
}

/* ===== Requests ===== */

struct pawl__tenure *pawl__machine_find(struct pawl__machine *machine,
    const struct pawl__handle *handle, uint64_t owner, int64_t now_us)
{
    if (handle->detached) {
        return NULL;
    }
    struct pawl__tenure *tenure = pawl__hold_find(machine, handle->name, owner, now_us);
    pawl__settle(machine, now_us);
    return tenure;
}

static void extend_start(
    struct pawl__machine *machine, struct pawl__request *request, int64_t now_us)
{
    struct pawl__tenure *tenure =
        pawl__hold_find(machine, request->handle->name, request->owner, now_us);
    if (tenure == NULL || pawl__tenure_count(tenure, request->handle->terms->kind) == 0) {
        pawl__finish(machine, request, PAWL_NOT_HELD, NULL);
    } else if (tenure->state == PAWL__TENURE_LOST) {
        pawl__hold_refuse_lost(machine, tenure, request);
    } else {
        pawl__hold_extend(machine, tenure, request, now_us);
    }
}

void pawl__machine_start(
    struct pawl__machine *machine, struct pawl__request *request, int64_t now_us)
{
    pawl__list_init(&request->node);
    request->timer.kind = PAWL__TIMER_REQUEST;
    if (request->handle->detached) { /* a callback may still use a lock that was closed meanwhile */
        pawl__finish(machine, request, PAWL_MISUSE, NULL);
        return;
    }
    request->fresh = true;
    switch (request->kind) {
    case PAWL__WANT_ACQUIRE:
        if (request->party != NULL) {
            pawl__party_arrive(machine, request, now_us);
        } else {
            pawl__claim_start(machine, request, now_us);
        }
        break;
    case PAWL__WANT_RELEASE:
        pawl__release_start(machine, request, now_us);
        break;
    case PAWL__WANT_EXTEND:
        extend_start(machine, request, now_us);
        break;
    case PAWL__WANT_INSPECT:
    case PAWL__WANT_BREAK:
    case PAWL__WANT_RAISE:
        pawl__errand_start(machine, request, now_us);
        break;
    case PAWL__WANT_TALLY:
        pawl__tally_start(machine, request, now_us);
        break;
    }
    pawl__settle(machine, now_us);
    request->fresh = false;
    if (pawl__request_party(request) != NULL) {
        pawl__party_started(request);
    }
}

/* ===== Operations that come back ===== */

static void note_silence(struct pawl__name *name, const struct pawl__op *op)
{
    struct pawl__traffic *traffic = pawl__traffic_make(name);
    if (traffic == NULL) {
        return; /* the sentence is missing then; who has to wait is told (claim.c) */
    }
    traffic->silent_us = pawl__min64(traffic->silent_us, op->sent_us);
    if (op->error != NULL) {
        pawl__free(traffic->error);
        traffic->error = pawl__strdup(op->error);
    }
}

static void note_answer(struct pawl__machine *machine, struct pawl__name *name,
    const struct pawl__op *op, int64_t now_us)
{
    struct pawl__traffic *traffic = name->traffic->own;
    name->answered_us = now_us;
    if (traffic != NULL) {
        traffic->silent_us = PAWL__NEVER;
        pawl__free(traffic->error);
        traffic->error = NULL;
        pawl__traffic_rest(name, now_us);
    }
    if (op->lazy) {
        return; /* it may have been there for long */
    }
    /* One slow answer must not make us slow for long. */
    int64_t took_us = pawl__min64(now_us - op->sent_us, 4 * machine->rtt_us + 1000);
    machine->rtt_us = machine->rtt_us == 0 ? took_us : (7 * machine->rtt_us + took_us) / 8;
}

static void main_answered(
    struct pawl__machine *machine, struct pawl__tenure *tenure, int64_t now_us)
{
    tenure->main_out = false;
    switch (tenure->state) {
    case PAWL__TENURE_CLAIMING:
        if (tenure->request->party != NULL) {
            pawl__party_answered(machine, tenure, &tenure->motion->main, now_us);
        } else {
            pawl__claim_answered(machine, tenure, &tenure->motion->main, now_us);
        }
        break;
    case PAWL__TENURE_RELEASING:
        pawl__release_answered(machine, tenure, &tenure->motion->main, now_us);
        break;
    case PAWL__TENURE_CLEANING:
        pawl__tenure_cleaned(machine, tenure, &tenure->motion->main, now_us);
        break;
    case PAWL__TENURE_LOST: /* an engine without expiry was told at the deadline */
        tenure->granted = tenure->motion->main.answer == PAWL__FAILED ||
                          tenure->motion->main.answer == PAWL__UNKNOWN;
        break;
    case PAWL__TENURE_ENDED:
        break;
    case PAWL__TENURE_IDLE:
    case PAWL__TENURE_WAITING:
    case PAWL__TENURE_HELD:
        assert(false && "no main operation is out in these states");
        break;
    }
}

static void note(struct pawl__machine *machine, struct pawl__name *name, const struct pawl__op *op,
    int64_t now_us)
{
    if (op->answer != PAWL__FAILED && op->answer != PAWL__UNKNOWN) {
        note_answer(machine, name, op, now_us);
    } else if (op->kind != PAWL__OP_COUNT) { /* nobody waits for those */
        note_silence(name, op);
    }
}

static void tenure_answered(struct pawl__machine *machine, struct pawl__op *op, int64_t now_us)
{
    struct pawl__tenure *tenure = op->core;
    struct pawl__name *name = tenure->name;
    note(machine, name, op, now_us);
    if (op == &tenure->motion->main) {
        main_answered(machine, tenure, now_us);
    } else {
        tenure->side_out = false;
        if (op->kind != PAWL__OP_COUNT) {
            pawl__renewal_answered(machine, op, now_us);
        }
        pawl__hold_answered(machine, tenure, op, now_us);
    }
    pawl__motion_rest(machine, tenure);
    pawl__touch(machine, name);
}

void pawl__machine_complete(struct pawl__machine *machine, struct pawl__op *op, int64_t now_us)
{
    assert(op->answer != PAWL__PENDING);
    machine->pending--;
    switch (op->kind) {
    case PAWL__OP_INSPECT:
    case PAWL__OP_BREAK:
    case PAWL__OP_RAISE:
        pawl__errand_answered(machine, op->core, now_us);
        break;
    case PAWL__OP_TALLY:
        note(machine, ((struct pawl__tally *)op->core)->name, op, now_us);
        pawl__tally_answered(machine, op->core, now_us);
        break;
    case PAWL__OP_WATCH:
    case PAWL__OP_UNWATCH:
        if (op->id != 0) {
            pawl__ear_answered(machine, op->core, now_us);
        } else {
            pawl__watch_answered(machine, op->core, now_us);
        }
        break;
    case PAWL__OP_ACQUIRE:
    case PAWL__OP_RENEW:
    case PAWL__OP_VERIFY:
    case PAWL__OP_COUNT:
    case PAWL__OP_RELEASE:
    case PAWL__OP_PASS:
        tenure_answered(machine, op, now_us);
        break;
    }
    pawl__settle(machine, now_us);
}

void pawl__machine_notice_done(
    struct pawl__machine *machine, struct pawl__delivery *notice, int64_t now_us)
{
    notice->queued = false;
    pawl__motion_rest(machine, pawl__notice_tenure(notice));
    pawl__settle(machine, now_us);
}
