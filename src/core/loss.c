/* SPDX-License-Identifier: Apache-2.0 */
/* Losing a hold: by its deadline, by proof, or because its thread has ended. A lost tenure stays
 * until its owner has released it as often as acquired; whoever asks meanwhile is told how it was
 * lost, as far as that is known. */
#include "core/machine_parts.h"

#include "base/alloc.h"
#include "base/clock.h"

#include <assert.h>

#define LEASE_BITS ((UINT64_C(1) << 40) - 1) /* more than PAWL__LEASE_MS_MAX has */
#define FREE_AGAIN_US 5000                   /* when there was no memory to ask with */

/* A callback is due, once; who has no handle any more has nobody to tell. */
void pawl__notice_queue(struct pawl__machine *machine, struct pawl__delivery *notice)
{
    const struct pawl__tenure *tenure = pawl__notice_tenure(notice);
    if (!notice->queued && tenure->handle != NULL && !tenure->trial) {
        notice->queued = true;
        pawl__list_push(&machine->notices, &notice->node);
    }
}

void pawl__machine_confirm(struct pawl__machine *machine, struct pawl__tenure *tenure)
{
    const bool tried = tenure->trial;
    tenure->trial = false;
    if (tried && tenure->state == PAWL__TENURE_LOST) {
        pawl__notice_queue(machine, &tenure->lost);
    } else if (tried && tenure->state == PAWL__TENURE_HELD && tenure->at_risk) {
        tenure->at_risk = false; /* its timer tells, now that somebody wants to know */
        pawl__tenure_arm(machine, tenure, 0);
    }
}

/* Is it a multi-lock's, for a member? */
static bool is_twin(const struct pawl__handle *handle)
{
    return handle->extra != NULL && handle->extra->stands_for != NULL;
}

void pawl__hold_try(
    struct pawl__machine *machine, struct pawl__tenure *tenure, const struct pawl__handle *handle)
{
    if (tenure->count == 0) {
        tenure->trial = is_twin(handle);
    } else if (!is_twin(handle)) {
        pawl__machine_confirm(machine, tenure); /* somebody has it, whatever becomes of the set */
    }
}

void pawl__hold_note_loss(struct pawl__tenure *tenure, enum pawl__loss why, int64_t at_us)
{
    tenure->why = why;
    tenure->lost_us = at_us;
}

struct pawl__lost pawl__loss_of(
    enum pawl__loss why, int64_t at_us, int64_t proven_us, int64_t lease_us)
{
    const uint64_t lease_ms = (uint64_t)(lease_us / 1000);
    return (struct pawl__lost){
        .why = why, .lease_ms = lease_ms & LEASE_BITS, .at_us = at_us, .proven_us = proven_us};
}

struct pawl__lost pawl__hold_loss(const struct pawl__tenure *tenure)
{
    struct pawl__lost lost =
        pawl__loss_of(tenure->why, tenure->lost_us, tenure->proven_us, tenure->lease_us);
    if (tenure->why == PAWL__LOSS_LINE) {
        lost.before = (uint16_t)pawl__min64(tenure->before, UINT16_MAX);
    }
    return lost;
}

/* Why it was not kept beyond its deadline. */
static enum pawl__loss tell_deadline(const struct pawl__tenure *tenure)
{
    if (tenure->until_us >= tenure->limit_us) {
        return PAWL__LOSS_LIMIT;
    }
    if (!tenure->renew) {
        return PAWL__LOSS_LEASE;
    }
    if (tenure->motion->renewal.armed) {
        return PAWL__LOSS_LINE;
    }
    if (tenure->asked) {
        return PAWL__LOSS_SILENCE;
    }
    return tenure->starved ? PAWL__LOSS_MEMORY : PAWL__LOSS_PAUSE;
}

void pawl__hold_refuse_lost(
    struct pawl__machine *machine, const struct pawl__tenure *tenure, struct pawl__request *request)
{
    const bool silent = tenure->why == PAWL__LOSS_SILENCE || tenure->why == PAWL__LOSS_LINE;
    const char *why = silent ? tenure->name->traffic->error : NULL;
    request->lost = pawl__hold_loss(tenure);
    pawl__finish(machine, request, PAWL_LOST, why != NULL ? pawl__strdup(why) : NULL);
}

/* Tell an engine that does not end leases itself that this one, which was lost, is over. */
void pawl__hold_free(struct pawl__machine *machine, struct pawl__tenure *tenure, int64_t now_us)
{
    if (!pawl__tenure_submit(machine, tenure, PAWL__OP_RELEASE, now_us)) {
        pawl__tenure_arm(machine, tenure, now_us + FREE_AGAIN_US);
    }
}

void pawl__hold_lose(struct pawl__machine *machine, struct pawl__tenure *tenure,
    enum pawl__loss loss, int64_t now_us)
{
    assert(tenure->state == PAWL__TENURE_HELD);
    struct pawl__name *name = tenure->name;
    bool over = loss == PAWL__LOSS_DEADLINE;
    pawl__hold_note_loss(
        tenure, over ? tell_deadline(tenure) : loss, over ? tenure->deadline_us : now_us);
    if (tenure->why == PAWL__LOSS_LINE) {
        tenure->before = machine->renewals_out;
    }
    tenure->state = PAWL__TENURE_LOST;
    tenure->granted = loss != PAWL__LOSS_PROOF;
    if (name->active == tenure) {
        name->active = NULL;
    }
    pawl__hold_leave(machine, tenure, PAWL_LOST, now_us);
    pawl__notice_queue(machine, &tenure->lost);
    if (loss == PAWL__LOSS_DEADLINE && !machine->engine->expires) { /* it waits for our word */
        pawl__hold_free(machine, tenure, now_us);
    }
    pawl__touch(machine, name);
}

void pawl__machine_lost(
    struct pawl__machine *machine, const char *name, size_t name_size, uint64_t id, int64_t now_us)
{
    struct pawl__map_node *found = pawl__map_find(&machine->names, name, name_size);
    if (found == NULL) {
        return;
    }
    struct pawl__list *holds = &PAWL__CONTAINER(found, struct pawl__name, node)->holds;
    for (struct pawl__list *node = holds->next; node != holds; node = node->next) {
        struct pawl__tenure *tenure = PAWL__CONTAINER(node, struct pawl__tenure, node);
        if (tenure->id == id && tenure->state == PAWL__TENURE_HELD) {
            pawl__hold_lose(machine, tenure, PAWL__LOSS_PROOF, now_us);
            break;
        }
    }
    pawl__settle(machine, now_us);
}

/* Its thread has ended: as if the process had died, the lease runs out, in the backend or here. */
static void abandon(struct pawl__machine *machine, struct pawl__tenure *tenure, int64_t now_us)
{
    const bool over = tenure->state == PAWL__TENURE_LOST;
    if (tenure->state == PAWL__TENURE_HELD) {
        pawl__hold_lose(machine, tenure, PAWL__LOSS_OWNER, now_us);
    }
    if (tenure->state != PAWL__TENURE_LOST) {
        return;
    }
    tenure->count = 0;
    if (machine->engine->expires || !tenure->granted) {
        pawl__tenure_end(machine, tenure);
    } else if (over) {
        pawl__tenure_clean(machine, tenure, now_us); /* there is no lease left to wait for */
    } else {
        tenure->state = PAWL__TENURE_CLEANING;
        pawl__list_remove(&tenure->node);
        pawl__tenure_arm(machine, tenure, pawl__later(now_us, tenure->lease_us));
    }
}

void pawl__machine_owner_gone(struct pawl__machine *machine, uint64_t owner, int64_t now_us)
{
    struct pawl__list *node = machine->tenures.next;
    while (node != &machine->tenures) {
        struct pawl__tenure *tenure = PAWL__CONTAINER(node, struct pawl__tenure, all);
        node = node->next;
        if (tenure->owner == owner) {
            abandon(machine, tenure, now_us);
        }
    }
    pawl__settle(machine, now_us);
}
