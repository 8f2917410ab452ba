/* SPDX-License-Identifier: Apache-2.0 */
/* The machine's entries and outputs: where requests, answers and timers come in and are handed to
 * the part that knows what to do (see machine_parts.h), and where everything that has to be done
 * outside is put.
 *
 * Every entry ends with pawl__settle(): names that were touched get their next turn, and what is
 * over is freed. Nothing is freed earlier, so within a step all pointers stay good. */
#include "core/machine.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "core/machine_parts.h"

#include <assert.h>

/* Inspect or break, under way. It is apart from its request, which may time out first. */
struct pawl__errand {
    struct pawl__op op;
    struct pawl__name *name;
    struct pawl__request *request; /* NULL: it left */
    pawl_lock_info info;
};

bool pawl__machine_init(struct pawl__machine *machine)
{
    machine->ops = NULL;
    machine->ops_end = &machine->ops;
    pawl__list_init(&machine->finished);
    pawl__list_init(&machine->notices);
    pawl__list_init(&machine->dead);
    pawl__list_init(&machine->tenures);
    pawl__list_init(&machine->ended);
    pawl__list_init(&machine->spares);
    pawl__list_init(&machine->touched);
    machine->next_id = 1;
    return pawl__map_init(&machine->names);
}

void pawl__machine_fini(struct pawl__machine *machine)
{
    struct pawl__list *node = NULL;
    while ((node = pawl__list_pop(&machine->spares)) != NULL) {
        pawl__free(PAWL__CONTAINER(node, struct pawl__tenure, all));
    }
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
    if (pawl__list_empty(&name->link)) {
        pawl__list_push(&machine->touched, &name->link);
    }
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
    return !pawl__list_empty(&name->handles) || name->tenures > 0 || name->errands > 0 ||
           name->watch != PAWL__UNWATCHED;
}

void pawl__settle(struct pawl__machine *machine, int64_t now_us)
{
    free_ended(machine);
    while (!pawl__list_empty(&machine->touched)) {
        struct pawl__list *node = pawl__list_pop(&machine->touched);
        struct pawl__name *name = PAWL__CONTAINER(node, struct pawl__name, link);
        pawl__claim_turn(machine, name, now_us);
        pawl__watch_review(machine, name, now_us);
        if (!is_used(name)) {
            pawl__timer_clear(&machine->timers, &name->timer);
            pawl__map_remove(&machine->names, &name->node);
            pawl__list_push(&machine->dead, &name->link);
        }
    }
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

static void errand_start(
    struct pawl__machine *machine, struct pawl__request *request, int64_t now_us)
{
    struct pawl__errand *errand = pawl__alloc(sizeof *errand);
    if (errand == NULL) {
        pawl__finish(machine, request, PAWL_NO_MEMORY, NULL);
        return;
    }
    bool inspect = request->kind == PAWL__WANT_INSPECT;
    errand->name = request->handle->name;
    errand->name->errands++;
    errand->request = request;
    errand->op.place = errand->name->place;
    errand->op.core = errand;
    errand->op.info = &errand->info;
    errand->info.size = sizeof errand->info;
    request->errand = errand;
    request->phase = PAWL__ASKING;
    pawl__timer_set(&machine->timers, &request->timer, request->end_us);
    pawl__submit(machine, &errand->op, inspect ? PAWL__OP_INSPECT : PAWL__OP_BREAK, now_us);
}

static void extend_start(
    struct pawl__machine *machine, struct pawl__request *request, int64_t now_us)
{
    struct pawl__tenure *tenure =
        pawl__hold_find(machine, request->handle->name, request->owner, now_us);
    if (tenure == NULL) {
        pawl__finish(machine, request, PAWL_NOT_HELD, NULL);
    } else if (tenure->state == PAWL__TENURE_LOST) {
        pawl__finish(machine, request, PAWL_LOST, NULL);
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
        pawl__claim_start(machine, request, now_us);
        break;
    case PAWL__WANT_RELEASE:
        pawl__release_start(machine, request, now_us);
        break;
    case PAWL__WANT_EXTEND:
        extend_start(machine, request, now_us);
        break;
    case PAWL__WANT_INSPECT:
    case PAWL__WANT_BREAK:
        errand_start(machine, request, now_us);
        break;
    }
    pawl__settle(machine, now_us);
    request->fresh = false;
}

static void request_timeout(
    struct pawl__machine *machine, struct pawl__request *request, int64_t now_us)
{
    switch (request->kind) {
    case PAWL__WANT_ACQUIRE:
        if (request->tenure->state != PAWL__TENURE_HELD) {
            pawl__claim_timeout(machine, request, now_us);
            return;
        }
        break; /* a re-entry that waits for its extension: just leaves */
    case PAWL__WANT_RELEASE:
        request->tenure->request = NULL; /* goes on without the caller */
        break;
    case PAWL__WANT_EXTEND:
        break;
    case PAWL__WANT_INSPECT:
    case PAWL__WANT_BREAK:
        request->errand->request = NULL;
        break;
    }
    struct pawl__name *name = request->handle->name;
    char *why = name->error != NULL ? pawl__strdup(name->error) : NULL;
    pawl__finish(machine, request, PAWL_UNAVAILABLE, why);
}

/* ===== Operations that come back ===== */

static void note_silence(struct pawl__name *name, const struct pawl__op *op)
{
    name->silent_us = pawl__min64(name->silent_us, op->sent_us);
    if (op->error != NULL) {
        pawl__free(name->error);
        name->error = pawl__strdup(op->error);
    }
}

static void note_answer(struct pawl__machine *machine, struct pawl__name *name,
    const struct pawl__op *op, int64_t now_us)
{
    name->silent_us = PAWL__NEVER;
    name->answered_us = now_us;
    pawl__free(name->error);
    name->error = NULL;

    /* One slow answer must not make us slow for long. */
    int64_t took_us = pawl__min64(now_us - op->sent_us, 4 * machine->rtt_us + 1000);
    machine->rtt_us = machine->rtt_us == 0 ? took_us : (7 * machine->rtt_us + took_us) / 8;
}

static void errand_answered(
    struct pawl__machine *machine, struct pawl__errand *errand, int64_t now_us)
{
    struct pawl__op *op = &errand->op;
    struct pawl__request *request = errand->request;
    struct pawl__name *name = errand->name;
    bool answered = op->answer == PAWL__DONE || op->answer == PAWL__GONE;
    if (request != NULL) {
        pawl_status yes_or_no = op->answer == PAWL__DONE ? PAWL_OK : PAWL_NOT_HELD;
        if (answered && request->info_out != NULL) {
            *request->info_out = errand->info;
        }
        pawl__finish(machine, request, answered ? yes_or_no : op->status, pawl__take_error(op));
    }
    if (op->kind == PAWL__OP_BREAK && name->active != NULL) {
        pawl__hold_look(machine, name->active, now_us); /* it may have been ours */
    }
    name->errands--;
    pawl__touch(machine, name);
    pawl__free(op->error);
    pawl__free(errand);
}

static void main_answered(
    struct pawl__machine *machine, struct pawl__tenure *tenure, int64_t now_us)
{
    tenure->main_out = false;
    switch (tenure->state) {
    case PAWL__TENURE_CLAIMING:
        pawl__claim_answered(machine, tenure, &tenure->main, now_us);
        break;
    case PAWL__TENURE_RELEASING:
        pawl__release_answered(machine, tenure, &tenure->main, now_us);
        break;
    case PAWL__TENURE_CLEANING:
        pawl__tenure_cleaned(machine, tenure, &tenure->main, now_us);
        break;
    case PAWL__TENURE_LOST: /* an engine without expiry was told at the deadline */
        tenure->granted =
            tenure->main.answer == PAWL__FAILED || tenure->main.answer == PAWL__UNKNOWN;
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

static void tenure_answered(struct pawl__machine *machine, struct pawl__op *op, int64_t now_us)
{
    struct pawl__tenure *tenure = op->core;
    struct pawl__name *name = tenure->name;
    if (op->answer != PAWL__FAILED && op->answer != PAWL__UNKNOWN) {
        note_answer(machine, name, op, now_us);
    } else if (op->kind != PAWL__OP_COUNT) { /* nobody waits for those */
        note_silence(name, op);
    }
    if (op == &tenure->main) {
        main_answered(machine, tenure, now_us);
    } else {
        tenure->side_out = false;
        pawl__hold_answered(machine, tenure, op, now_us);
    }
    pawl__touch(machine, name);
}

void pawl__machine_complete(struct pawl__machine *machine, struct pawl__op *op, int64_t now_us)
{
    assert(op->answer != PAWL__PENDING);
    machine->pending--;
    switch (op->kind) {
    case PAWL__OP_INSPECT:
    case PAWL__OP_BREAK:
        errand_answered(machine, op->core, now_us);
        break;
    case PAWL__OP_WATCH:
    case PAWL__OP_UNWATCH:
        pawl__watch_answered(machine, op->core, now_us);
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

/* ===== Time and other events ===== */

int64_t pawl__machine_due(const struct pawl__machine *machine)
{
    const struct pawl__timer *first = pawl__heap_first(&machine->timers);
    return first != NULL ? first->due_us : PAWL__NEVER;
}

static bool is_blocking(const struct pawl__request *request)
{
    return request != NULL && request->waiter != NULL;
}

bool pawl__machine_served(const struct pawl__machine *machine)
{
    struct pawl__timer *first = pawl__heap_first(&machine->timers);
    if (first == NULL) {
        return true;
    }
    if (first->kind == PAWL__TIMER_REQUEST) {
        return is_blocking(PAWL__CONTAINER(first, struct pawl__request, timer));
    }
    if (first->kind == PAWL__TIMER_TENURE) {
        struct pawl__tenure *tenure = PAWL__CONTAINER(first, struct pawl__tenure, timer);
        return tenure->state == PAWL__TENURE_WAITING && is_blocking(tenure->request);
    }
    struct pawl__name *name = PAWL__CONTAINER(first, struct pawl__name, timer);
    return name->active == NULL && !pawl__list_empty(&name->queue) &&
           is_blocking(PAWL__CONTAINER(name->queue.next, struct pawl__request, node));
}

static int64_t due_of(const struct pawl__timer *timer)
{
    return timer->armed ? timer->due_us : PAWL__NEVER;
}

int64_t pawl__request_due(const struct pawl__request *request)
{
    const struct pawl__tenure *tenure = request->tenure;
    int64_t due_us = due_of(&request->timer);
    if (request->kind != PAWL__WANT_ACQUIRE || tenure == NULL) {
        return due_us;
    }
    if (tenure->state == PAWL__TENURE_WAITING) {
        return pawl__min64(due_us, due_of(&tenure->timer));
    }
    const struct pawl__name *name = tenure->name;
    bool next = tenure->state == PAWL__TENURE_IDLE && name->active == NULL &&
                name->queue.next == &request->node;
    return next ? pawl__min64(due_us, due_of(&name->timer)) : due_us;
}

static void fire(struct pawl__machine *machine, struct pawl__timer *timer, int64_t now_us)
{
    switch (timer->kind) {
    case PAWL__TIMER_REQUEST:
        request_timeout(machine, PAWL__CONTAINER(timer, struct pawl__request, timer), now_us);
        break;
    case PAWL__TIMER_TENURE:
        pawl__tenure_timer(machine, PAWL__CONTAINER(timer, struct pawl__tenure, timer), now_us);
        break;
    default:
        pawl__touch(machine, PAWL__CONTAINER(timer, struct pawl__name, timer));
        break;
    }
}

/* Holds whose renewal is nearly due go along with those whose renewal is due, so that the engine
 * can put many into one message. */
static void renew_early(struct pawl__machine *machine, int64_t now_us)
{
    struct pawl__timer *first = pawl__heap_first(&machine->timers);
    while (first != NULL && first->kind == PAWL__TIMER_TENURE &&
           pawl__hold_renew_early(
               machine, PAWL__CONTAINER(first, struct pawl__tenure, timer), now_us)) {
        first = pawl__heap_first(&machine->timers);
    }
}

void pawl__machine_tick(struct pawl__machine *machine, int64_t now_us)
{
    bool renewed = false;
    struct pawl__timer *first = pawl__heap_first(&machine->timers);
    while (first != NULL && first->due_us <= now_us) {
        pawl__timer_clear(&machine->timers, first);
        renewed = renewed || first->kind == PAWL__TIMER_TENURE;
        fire(machine, first, now_us);
        first = pawl__heap_first(&machine->timers);
    }
    if (renewed) {
        renew_early(machine, now_us);
    }
    pawl__settle(machine, now_us);
}

/* Ask again now for everything that waits for the backend to come back, and make sure of what is
 * held. */
static void look_again(struct pawl__machine *machine, struct pawl__tenure *tenure, int64_t now_us)
{
    switch (tenure->state) {
    case PAWL__TENURE_HELD:
        pawl__hold_look(machine, tenure, now_us);
        break;
    case PAWL__TENURE_WAITING:
        pawl__claim_ask(machine, tenure, now_us);
        break;
    case PAWL__TENURE_RELEASING:
        pawl__release_again(machine, tenure, now_us);
        break;
    case PAWL__TENURE_CLEANING:
        pawl__tenure_clean(machine, tenure, now_us);
        break;
    case PAWL__TENURE_IDLE:
    case PAWL__TENURE_CLAIMING:
    case PAWL__TENURE_LOST:
    case PAWL__TENURE_ENDED:
        break;
    }
}

void pawl__machine_reconnected(struct pawl__machine *machine, int64_t now_us)
{
    struct pawl__list todo; /* a step may end its tenure and another one, an heir, as well */
    struct pawl__list *node;
    pawl__list_init(&todo);
    pawl__list_splice(&todo, &machine->tenures);
    while ((node = pawl__list_pop(&todo)) != NULL) {
        struct pawl__tenure *tenure = PAWL__CONTAINER(node, struct pawl__tenure, all);
        pawl__list_push(&machine->tenures, node);
        if (!tenure->main_out) {
            look_again(machine, tenure, now_us);
        }
    }
    pawl__settle(machine, now_us);
}

void pawl__machine_notice_done(
    struct pawl__machine *machine, struct pawl__notice *notice, int64_t now_us)
{
    notice->queued = false;
    pawl__settle(machine, now_us);
}
