/* SPDX-License-Identifier: Apache-2.0 */
/* Tenures: made when an acquire request gets its turn, ended when nothing of them can be left in
 * the backend.
 *
 * Cleaning up is the second half of "ask again or take back": a claim whose caller has left, but of
 * which a copy may have reached the backend, is released until that was answered. If the engine
 * cannot promise that late copies are dead (op->fenced), the release is repeated until one lease
 * after the last copy was sent. */
#include "core/machine_parts.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/limits.h"

#include <assert.h>
#include <string.h>

#define CLEAN_FIRST_US 20000
#define CLEAN_MOST_US 500000
#define SPARES_MOST 16

/* A zeroed tenure: one that was used before, if there is one, which is much cheaper than a new one.
 */
static struct pawl__tenure *blank(struct pawl__machine *machine)
{
    struct pawl__list *node = pawl__list_pop(&machine->spares);
    if (node == NULL) {
        return pawl__alloc(sizeof(struct pawl__tenure));
    }
    machine->spare_count--;
    struct pawl__tenure *tenure = PAWL__CONTAINER(node, struct pawl__tenure, all);
    memset(tenure, 0, sizeof *tenure);
    return tenure;
}

static void discard(struct pawl__machine *machine, struct pawl__tenure *tenure)
{
    if (machine->spare_count < SPARES_MOST) {
        machine->spare_count++;
        pawl__list_push_front(&machine->spares, &tenure->all);
    } else {
        pawl__free(tenure);
    }
}

struct pawl__tenure *pawl__tenure_new(struct pawl__machine *machine, struct pawl__request *request)
{
    struct pawl__tenure *tenure = blank(machine);
    if (tenure == NULL) {
        return NULL;
    }
    const struct pawl__terms *terms = request->handle->terms;
    tenure->name = request->handle->name;
    tenure->motion = &pawl__at_rest;
    if (!pawl__motion_may(machine, tenure)) {
        discard(machine, tenure);
        return NULL;
    }
    tenure->handle = request->handle;
    tenure->owner = request->owner;
    tenure->kind = terms->kind;
    tenure->renew = terms->renew;
    tenure->lease_us =
        terms->max_hold_us > 0 ? pawl__min64(terms->lease_us, terms->max_hold_us) : terms->lease_us;
    tenure->timer.kind = PAWL__TIMER_TENURE;
    tenure->lost.status = PAWL_LOST;
    pawl__list_init(&tenure->lost.node);
    pawl__list_init(&tenure->node);
    pawl__list_push(&machine->tenures, &tenure->all);
    tenure->name->uses++;
    request->handle->tenures++;
    return tenure;
}

/* Its number is drawn when its turn comes first. One that had to stand back keeps it: a copy of
 * what was asked for it may still be about. */
void pawl__tenure_number(struct pawl__machine *machine, struct pawl__tenure *tenure)
{
    if (tenure->id == 0) {
        tenure->id = machine->next_id++;
    }
}

void pawl__tenure_end(struct pawl__machine *machine, struct pawl__tenure *tenure)
{
    assert(tenure->state != PAWL__TENURE_ENDED);
    tenure->state = PAWL__TENURE_ENDED;
    pawl__timer_clear(&machine->timers, &tenure->timer);
    pawl__list_remove(&tenure->node);
    pawl__list_remove(&tenure->all);
    pawl__list_push(&machine->ended, &tenure->all);
    if (tenure->name->active == tenure) {
        tenure->name->active = NULL;
    }
    pawl__touch(machine, tenure->name);
}

/* Whether somebody will come back to it. */
static bool is_awaited(const struct pawl__tenure *tenure)
{
    return tenure->main_out || tenure->side_out || tenure->lost.queued ||
           tenure->motion->risk.queued;
}

bool pawl__tenure_free(struct pawl__machine *machine, struct pawl__tenure *tenure)
{
    if (is_awaited(tenure) && (!pawl__renewal_forgo(machine, tenure) || is_awaited(tenure))) {
        return false;
    }
    tenure->name->uses--;
    if (tenure->handle != NULL) {
        tenure->handle->tenures--;
    }
    pawl__list_remove(&tenure->all);
    pawl__motion_end(machine, tenure);
    discard(machine, tenure);
    return true;
}

void pawl__tenure_arm(struct pawl__machine *machine, struct pawl__tenure *tenure, int64_t due_us)
{
    pawl__timer_set(&machine->timers, &tenure->timer, due_us);
}

static void clean_later(struct pawl__machine *machine, struct pawl__tenure *tenure, int64_t now_us)
{
    int64_t pause_us = pawl__backoff_us(machine, tenure->attempt++, CLEAN_FIRST_US, CLEAN_MOST_US);
    pawl__tenure_arm(machine, tenure, pawl__later(now_us, pause_us));
}

/* Nobody wants this tenure any more: take back what the backend may have of it. */
void pawl__tenure_clean(struct pawl__machine *machine, struct pawl__tenure *tenure, int64_t now_us)
{
    tenure->state = PAWL__TENURE_CLEANING;
    tenure->request = NULL;
    pawl__list_remove(&tenure->node);
    pawl__ear_close(machine, tenure, now_us);
    pawl__ear_next(machine, tenure->name, now_us);
    if (tenure->name->active == tenure) {
        tenure->name->active = NULL;
    }
    pawl__touch(machine, tenure->name);
    pawl__timer_clear(&machine->timers, &tenure->timer);
    if (tenure->main_out || tenure->motion->giver != NULL) {
        return; /* its answer tells what is to be done */
    }
    if (!tenure->granted && !tenure->doubt && !tenure->queued) {
        pawl__tenure_end(machine, tenure);
        return;
    }
    if (!pawl__tenure_submit(machine, tenure, PAWL__OP_RELEASE, now_us)) {
        clean_later(machine, tenure, now_us);
    }
}

/* A renewal that was not answered may have been heard. */
int64_t pawl__tenure_stands(const struct pawl__tenure *tenure, int64_t now_us)
{
    const int64_t renewed_us = pawl__min64(pawl__later(now_us, tenure->lease_us), tenure->limit_us);
    const bool unheard = tenure->renew && tenure->asked;
    return unheard ? pawl__max64(tenure->until_us, renewed_us) : tenure->until_us;
}

/* How long the backend may keep something of it that it has heard. */
static int64_t kept_us(const struct pawl__tenure *tenure)
{
    const int64_t place_us = tenure->lined ? PAWL__FAIR_WAIT_US : 0;
    return pawl__max64(tenure->lease_us, place_us);
}

/* Whether something of it may still be in the backend, or come there. */
static bool may_linger(const struct pawl__machine *machine, const struct pawl__tenure *tenure,
    const struct pawl__op *op, int64_t now_us)
{
    bool answered = op->answer == PAWL__DONE || op->answer == PAWL__GONE;
    if (answered && (!tenure->doubt || op->fenced)) {
        return false;
    }
    if (!answered && !op->again) {
        return false; /* the backend refuses: its lease has to end it */
    }
    const int64_t held_us = answered ? 0 : tenure->until_us; /* if it ever was */
    const int64_t copied_us = pawl__later(tenure->motion->copy_us, kept_us(tenure));
    return !machine->engine->expires || now_us < pawl__max64(copied_us, held_us);
}

static void release_came_back(
    struct pawl__machine *machine, struct pawl__tenure *tenure, struct pawl__op *op, int64_t now_us)
{
    if (op->answer == PAWL__DONE && pawl__name_family(tenure->name) != PAWL__FAMILY_FAIR) {
        pawl__watch_note_wake(tenure->name); /* not every engine tells us what we do */
        pawl__watch_ask_waiting(machine, tenure->name, now_us);
    }
    if (!may_linger(machine, tenure, op, now_us)) {
        pawl__tenure_end(machine, tenure);
        return;
    }
    clean_later(machine, tenure, now_us);
}

void pawl__tenure_cleaned(
    struct pawl__machine *machine, struct pawl__tenure *tenure, struct pawl__op *op, int64_t now_us)
{
    if (op->kind == PAWL__OP_RELEASE) {
        release_came_back(machine, tenure, op, now_us);
        return;
    }
    /* The acquire that its caller did not wait for. */
    if (op->answer == PAWL__DONE) {
        tenure->granted = true;
    } else if (op->answer == PAWL__UNKNOWN) {
        tenure->doubt = true;
    } else if (op->answer == PAWL__HELD) { /* SPARED says nothing about this one */
        tenure->doubt = tenure->doubt && !op->fenced;
        tenure->queued = op->queue;
    }
    pawl__tenure_clean(machine, tenure, now_us);
}

/* If it waits until it may ask again, it does so now. False: it waits for no such thing. */
bool pawl__tenure_go_on(struct pawl__machine *machine, struct pawl__tenure *tenure, int64_t now_us)
{
    switch (tenure->state) {
    case PAWL__TENURE_WAITING:
        pawl__claim_ask_again(machine, tenure, now_us);
        return true;
    case PAWL__TENURE_RELEASING:
        pawl__release_again(machine, tenure, now_us);
        return true;
    case PAWL__TENURE_CLEANING:
        pawl__tenure_clean(machine, tenure, now_us);
        return true;
    case PAWL__TENURE_IDLE:
    case PAWL__TENURE_CLAIMING:
    case PAWL__TENURE_HELD:
    case PAWL__TENURE_LOST:
    case PAWL__TENURE_ENDED:
        break;
    }
    return false;
}

/* A sentence for a claim whose grants came too late. */
char *pawl__tenure_too_late(const struct pawl__tenure *tenure)
{
    const struct pawl__op *op = &tenure->motion->main;
    char shown[128];
    const char *name = tenure->name->node.key;
    return pawl__format("lock '%s': it was granted, but its lease of %lld ms was over when the "
                        "answer came (%u times); lease_ms must be longer than the way there and "
                        "back",
        pawl__printable(name, strlen(name), shown, sizeof shown), (long long)(op->lease_us / 1000),
        tenure->motion->late);
}

void pawl__tenure_timer(struct pawl__machine *machine, struct pawl__tenure *tenure, int64_t now_us)
{
    if (tenure->state == PAWL__TENURE_HELD) {
        pawl__hold_timer(machine, tenure, now_us);
    } else if (tenure->state == PAWL__TENURE_LOST) {
        pawl__hold_free(machine, tenure, now_us); /* there was no memory for it before */
    } else {
        pawl__tenure_go_on(machine, tenure, now_us);
    }
}
