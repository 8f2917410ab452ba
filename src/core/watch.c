/* SPDX-License-Identifier: Apache-2.0 */
/* Wake-ups: a name is watched from the first caller that has to wait until a moment after the last
 * one.
 *
 * A wake-up is a hint and never proof. The subscription may fail or fall silent; every sleep is
 * bounded, so that costs at most a second. */
#include "core/machine_parts.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/limits.h"
#include "core/tally.h"

static struct pawl__tenure *tenure_of(struct pawl__list *node)
{
    return PAWL__CONTAINER(node, struct pawl__tenure, node);
}

static bool is_waiting(const struct pawl__name *name)
{
    const struct pawl__list *crowd = &name->traffic->crowd;
    for (struct pawl__list *node = crowd->next; node != crowd; node = node->next) {
        if (tenure_of(node)->state == PAWL__TENURE_WAITING) {
            return true;
        }
    }
    return name->active != NULL && name->active->state == PAWL__TENURE_WAITING;
}

/* Whoever waits asks now. */
void pawl__watch_ask_waiting(struct pawl__machine *machine, struct pawl__name *name, int64_t now_us)
{
    const struct pawl__list *crowd = &name->traffic->crowd;
    for (struct pawl__list *node = crowd->next; node != crowd; node = node->next) {
        if (tenure_of(node)->state == PAWL__TENURE_WAITING) {
            pawl__claim_ask_again(machine, tenure_of(node), now_us);
        }
    }
    if (name->active != NULL && name->active->state == PAWL__TENURE_WAITING) {
        pawl__claim_ask_again(machine, name->active, now_us);
    }
}

/* Who has asked before, and has no answer yet, asks again. A name without traffic is not watched,
 * so that nobody there relies on it. */
void pawl__watch_note_wake(struct pawl__name *name)
{
    if (name->traffic->own != NULL) {
        name->traffic->own->wakes++;
    }
}

/* Most names are never waited for, so it is made when it is first needed. */
static bool make_op(struct pawl__traffic *traffic)
{
    if (traffic->watch_op == NULL) {
        traffic->watch_op = pawl__alloc(sizeof *traffic->watch_op);
        if (traffic->watch_op == NULL) {
            return false;
        }
        traffic->watch_op->place = pawl__name_place(traffic->name);
        traffic->watch_op->core = traffic->name;
    }
    return true;
}

void pawl__watch_need(struct pawl__machine *machine, struct pawl__name *name, int64_t now_us)
{
    struct pawl__traffic *traffic = pawl__traffic_make(name);
    if (traffic == NULL || traffic->watch != PAWL__UNWATCHED || traffic->watch_refused ||
        !make_op(traffic)) {
        return; /* without memory, who waits looks once a second */
    }
    traffic->watch = PAWL__WATCH_ASKED;
    pawl__submit(machine, traffic->watch_op, PAWL__OP_WATCH, now_us);
}

static void unwatch(struct pawl__machine *machine, struct pawl__traffic *traffic, int64_t now_us)
{
    traffic->watch = PAWL__WATCH_ENDING;
    traffic->idle_us = PAWL__NEVER;
    traffic->deaf_once = false;
    pawl__submit(machine, traffic->watch_op, PAWL__OP_UNWATCH, now_us);
}

/* A watch that nobody needs lingers for a moment: the next caller may have to wait as well. */
void pawl__watch_review(struct pawl__machine *machine, struct pawl__name *name, int64_t now_us)
{
    struct pawl__traffic *traffic = name->traffic->own;
    if (traffic == NULL) {
        return;
    }
    bool claims = name->active != NULL && name->active->state == PAWL__TENURE_CLAIMING;
    bool needed = is_waiting(name) || claims || !pawl__list_empty(&traffic->queue) ||
                  !pawl__list_empty(&traffic->crowd) || !pawl__list_empty(&traffic->tally_queue);
    if (needed || traffic->watch != PAWL__WATCHED) {
        traffic->idle_us = PAWL__NEVER;
        return;
    }
    if (traffic->idle_us == PAWL__NEVER) {
        traffic->idle_us = now_us;
    }
    int64_t end_us = name->handles == NULL ? now_us : traffic->idle_us + PAWL__WATCH_LINGER_US;
    if (now_us >= end_us) {
        unwatch(machine, traffic, now_us);
    } else {
        pawl__timer_set(&machine->timers, &traffic->timer, end_us);
    }
}

void pawl__watch_answered(struct pawl__machine *machine, struct pawl__name *name, int64_t now_us)
{
    struct pawl__traffic *traffic = name->traffic->own;
    struct pawl__op *op = traffic->watch_op;
    if (op->kind == PAWL__OP_WATCH && op->answer == PAWL__DONE) {
        traffic->watch = PAWL__WATCHED;
        pawl__watch_ask_waiting(machine, name, now_us); /* it may have been freed before */
        pawl__tally_wake(machine, name, now_us);
    } else {
        traffic->watch = PAWL__UNWATCHED;
        traffic->watch_refused = op->kind == PAWL__OP_WATCH && !op->again;
        if (op->kind == PAWL__OP_UNWATCH &&
            (is_waiting(name) || !pawl__list_empty(&traffic->tally_queue))) {
            pawl__watch_need(machine, name, now_us);
        }
    }
    pawl__free(pawl__take_error(op));
    pawl__touch(machine, name);
}

static void wake(struct pawl__machine *machine, struct pawl__name *name, int64_t now_us)
{
    struct pawl__traffic *traffic = name->traffic->own;
    if (traffic == NULL) {
        pawl__watch_ask_waiting(machine, name, now_us);
        return;
    }
    traffic->wakes++;
    pawl__tally_wake(machine, name, now_us);
    if (traffic->deaf_once && now_us < traffic->hold_off_us) {
        traffic->deaf_once = false; /* our own release, heard back */
        return;
    }
    traffic->deaf_once = false;
    if (now_us < pawl__min64(traffic->hold_off_us, traffic->turn_us)) {
        /* It is still their turn, and they use it. */
        traffic->hold_off_us = pawl__min64(traffic->turn_us, pawl__hold_off_end(machine, now_us));
        pawl__touch(machine, name);
        return;
    }
    traffic->hold_off_us = now_us;
    pawl__watch_ask_waiting(machine, name, now_us);
    pawl__touch(machine, name);
}

/* It may be the turn of this one alone. */
static void wake_one(
    struct pawl__machine *machine, struct pawl__name *name, uint64_t id, int64_t now_us)
{
    const struct pawl__list *crowd = &name->traffic->crowd;
    for (struct pawl__list *node = crowd->next; node != crowd; node = node->next) {
        if (tenure_of(node)->id == id) {
            pawl__ear_hear(machine, tenure_of(node), now_us);
            return;
        }
    }
}

void pawl__machine_wake(
    struct pawl__machine *machine, const char *name, size_t name_size, uint64_t id, int64_t now_us)
{
    struct pawl__map_node *node = NULL;
    if (name != NULL) {
        node = pawl__map_find(&machine->names, name, name_size);
        if (node != NULL && id != 0) {
            wake_one(machine, PAWL__CONTAINER(node, struct pawl__name, node), id, now_us);
        } else if (node != NULL) {
            wake(machine, PAWL__CONTAINER(node, struct pawl__name, node), now_us);
        }
    } else {
        node = pawl__map_next(&machine->names, NULL);
        for (; node != NULL; node = pawl__map_next(&machine->names, node)) {
            wake(machine, PAWL__CONTAINER(node, struct pawl__name, node), now_us);
        }
    }
    pawl__settle(machine, now_us);
}
