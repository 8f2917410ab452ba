/* SPDX-License-Identifier: Apache-2.0 */
/* Time: what is due next and who sees to it, and what is done when a timer fires, or when the
 * backend is back, which makes everything due at once. */
#include "core/machine_parts.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "core/leases.h"

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
    if (first->kind == PAWL__TIMER_TALLY) {
        return is_blocking(PAWL__CONTAINER(first, struct pawl__tally, timer)->request);
    }
    if (first->kind != PAWL__TIMER_NAME) {
        return false;
    }
    struct pawl__traffic *traffic = PAWL__CONTAINER(first, struct pawl__traffic, timer);
    return traffic->name->active == NULL && !pawl__list_empty(&traffic->queue) &&
           is_blocking(PAWL__CONTAINER(traffic->queue.next, struct pawl__request, node));
}

static int64_t due_of(const struct pawl__timer *timer)
{
    return timer->armed ? timer->due_us : PAWL__NEVER;
}

static int64_t due_alone(const struct pawl__request *request)
{
    const struct pawl__tenure *tenure = request->tenure;
    int64_t due_us = due_of(&request->timer);
    if (request->kind == PAWL__WANT_TALLY) {
        return pawl__min64(due_us, due_of(&request->tally->timer));
    }
    if (request->kind != PAWL__WANT_ACQUIRE) {
        return due_us;
    }
    if (tenure != NULL && tenure->state == PAWL__TENURE_WAITING) {
        return pawl__min64(due_us, due_of(&tenure->timer));
    }
    const struct pawl__name *name = request->handle->name;
    bool next = name->active == NULL && name->traffic->queue.next == &request->node;
    return next ? pawl__min64(due_us, due_of(&name->traffic->timer)) : due_us;
}

int64_t pawl__request_due(const struct pawl__request *request)
{
    const struct pawl__party *party = pawl__request_party(request);
    int64_t due_us = due_alone(request);
    for (size_t i = 0; party != NULL && i < party->joined; i++) {
        if (!party->requests[i]->finished) {
            due_us = pawl__min64(due_us, due_alone(party->requests[i]));
        }
    }
    return due_us;
}

/* Its voice goes on, and may be done before the others are. */
static void follow_voice(
    struct pawl__machine *machine, struct pawl__request *fired, const struct pawl__request *voice)
{
    if (fired != voice && !voice->finished) {
        pawl__timer_set(&machine->timers, &fired->timer, voice->timer.due_us);
    }
}

static void request_timeout(
    struct pawl__machine *machine, struct pawl__request *fired, int64_t now_us)
{
    struct pawl__request *request = pawl__request_voice(fired);
    const struct pawl__party *party = pawl__request_party(fired);
    if (party != NULL && party->over) {
        return; /* it ends with the others, in this step */
    }
    switch (request->kind) {
    case PAWL__WANT_ACQUIRE:
        if (request->tenure == NULL || request->tenure->state != PAWL__TENURE_HELD) {
            pawl__claim_timeout(machine, request, now_us);
            follow_voice(machine, fired, request);
            return;
        }
        if (request != fired && now_us < request->end_us) {
            follow_voice(machine, fired, request); /* it has a timer of its own */
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
    case PAWL__WANT_RAISE:
        pawl__errand_leave(request->errand);
        break;
    case PAWL__WANT_TALLY:
        pawl__tally_timeout(machine, request, now_us);
        return;
    }
    const char *error = request->handle->name->traffic->error;
    char *why = error != NULL ? pawl__strdup(error) : NULL;
    pawl__finish(machine, request, PAWL_UNAVAILABLE, why);
}

void pawl__machine_expire(
    struct pawl__machine *machine, struct pawl__request *request, int64_t now_us)
{
    if (!request->finished) {
        pawl__timer_clear(&machine->timers, &request->timer);
        request->end_us = now_us;
        request_timeout(machine, request, now_us);
    }
    pawl__settle(machine, now_us);
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
    case PAWL__TIMER_TALLY:
        pawl__tally_timer(machine, PAWL__CONTAINER(timer, struct pawl__tally, timer), now_us);
        break;
    case PAWL__TIMER_LEASES:
        pawl__leases_timer(machine, PAWL__CONTAINER(timer, struct pawl__leases, timer), now_us);
        break;
    case PAWL__TIMER_RENEWALS:
        break; /* they are sent when all that is due has got in line */
    default:
        pawl__touch(machine, PAWL__CONTAINER(timer, struct pawl__traffic, timer)->name);
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
    pawl__renewals_send(machine, now_us);
    pawl__settle(machine, now_us);
}

/* Ask again now for everything that waits for the backend to come back, and make sure of what is
 * held. */
void pawl__machine_reconnected(struct pawl__machine *machine, int64_t now_us)
{
    struct pawl__list todo; /* a step may end its tenure and another one, an heir, as well */
    struct pawl__list *node;
    pawl__list_init(&todo);
    pawl__list_splice(&todo, &machine->tenures);
    while ((node = pawl__list_pop(&todo)) != NULL) {
        struct pawl__tenure *tenure = PAWL__CONTAINER(node, struct pawl__tenure, all);
        pawl__list_push(&machine->tenures, node);
        if (!tenure->main_out && !pawl__tenure_go_on(machine, tenure, now_us)) {
            pawl__hold_look(machine, tenure, now_us); /* is it still there? */
        }
    }
    pawl__tally_reconnected(machine, now_us);
    pawl__leases_reconnected(machine, now_us);
    pawl__renewals_send(machine, now_us);
    pawl__settle(machine, now_us);
}
