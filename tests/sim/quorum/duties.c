/* SPDX-License-Identifier: Apache-2.0 */
/* What must hold of cancellations, warnings and memory.
 *
 * CANCELED: who is told that the wait was canceled has nothing, and somebody did cancel it; and
 * nobody waits on for long after that.
 *
 * RISK: on_risk is called when a renewed hold has too little time left because it is not renewed,
 * in time, once each time, and not after its loss was told.
 *
 * MEMORY: everything that was taken is given back. That a call which could not get memory does no
 * harm, the other oracles see. */
#include "qsim.h"

#include "base/alloc.h"

#include <inttypes.h>
#include <stdlib.h>

#define BEGUN_US 10000   /* so long after an acquire was called it has begun */
#define ROUND_US 2200000 /* what is under way is waited for, for two timeouts and a bit, */
#define WARNED_US 100000 /* so late a danger may be told */
#define REFUSED 400      /* allocations of 1000, when memory is short */

int64_t __real_pawl__quorum_judge(struct pawl__quorum *quorum, int64_t now_us);
int64_t __wrap_pawl__quorum_judge(struct pawl__quorum *quorum, int64_t now_us);
void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
void __real_free(void *memory);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);
void __wrap_free(void *memory);

/* ===== Cancellations ===== */

void qs_asking(struct qs_process *process, struct qs_ask *ask)
{
    *ask = (struct qs_ask){.next = process->asks, .began_us = qs.now_us};
    process->asks = ask;
}

void qs_cancel(struct qs_process *process)
{
    process->canceled_us = PAWL__NEVER;
    for (struct qs_ask *ask = process->asks; ask != NULL; ask = ask->next) {
        if (ask->canceled_us == 0 && qs.now_us > ask->began_us + BEGUN_US) {
            ask->canceled_us = qs.now_us;
        }
    }
    qs_note("cancels");
    pawl_lock_cancel(process->lock);
    process->canceled_us = qs.now_us;
}

static void check_canceled(const struct qs_process *process, const struct qs_ask *ask)
{
    qs.result->canceled++;
    if (process->canceled_us < ask->began_us) {
        qs_fail("CANCELED p%u is told so, and nobody did it", process->number);
    }
    if (qs.plan.users[process->number] == 1 && pawl_lock_hold_count(process->lock) > 0) {
        qs_fail("CANCELED p%u is told so, and holds it", process->number);
    }
}

void qs_asked(struct qs_process *process, const struct qs_ask *ask, pawl_status status)
{
    const int64_t most_us = ROUND_US + 2 * qs.plan.node_timeout_ms * 1000;
    struct qs_ask **at = &process->asks;
    while (*at != ask) {
        at = &(*at)->next;
    }
    *at = ask->next;
    if (status == PAWL_CANCELED) {
        check_canceled(process, ask);
    }
    if (ask->canceled_us != 0 && qs.now_us - ask->canceled_us > most_us &&
        process->disturbed_us < ask->began_us) {
        qs_fail("CANCELED p%u waited on for %" PRId64 " us after that", process->number,
            qs.now_us - ask->canceled_us);
    }
    if (status == PAWL_NO_MEMORY && process->short_us < ask->began_us) {
        qs_fail("MEMORY p%u is told that there is none", process->number);
    }
}

/* ===== Warnings ===== */

static int64_t warn_us(void)
{
    return (qs.plan.warn_ms > 0 ? qs.plan.warn_ms : qs.plan.lease_ms / 3) * 1000;
}

/* Renewals come after a third of the lease; those that are a quarter late have failed. */
static int64_t danger_below(void)
{
    const int64_t lease_us = qs.plan.lease_ms * 1000;
    return pawl__min64(warn_us(), lease_us - lease_us / 3 - lease_us / 12);
}

/* A majority of its parts cannot last longer anyway. */
static bool are_final(struct pawl__quorum *quorum)
{
    size_t count = 0;
    for (size_t i = 0; i < quorum->count; i++) {
        const struct pawl__node *node = &quorum->nodes[i];
        const struct pawl__handle *handle = &node->lock->handle;
        pawl__client_lock(node->client);
        const struct pawl__tenure *tenure = pawl__machine_find(
            &node->client->machine, handle, handle->owner, qs_process_now(qs_self->process));
        count += tenure != NULL && pawl__part_is(node, tenure->id) &&
                         tenure->until_us >= tenure->limit_us
                     ? 1
                     : 0;
        pawl__client_unlock(node->client, false);
    }
    return count >= pawl__majority(quorum->count);
}

/* What the worker goes by when it warns. */
int64_t __wrap_pawl__quorum_judge(struct pawl__quorum *quorum, int64_t now_us)
{
    const int64_t until_us = __real_pawl__quorum_judge(quorum, now_us);
    const struct pawl__quorum_hold *hold = quorum->held;
    if (hold != NULL) {
        struct qs_process *process = qs_self->process;
        struct qs_claim *claim = qs_claim_of(process, hold->token, hold->owner);
        claim->left_us = until_us - now_us;
        claim->final = are_final(quorum);
        claim->safe = claim->safe || claim->final || claim->left_us >= danger_below();
    }
    return until_us;
}

void qs_on_risk(const pawl_event *event, void *arg)
{
    struct qs_process *process = arg;
    struct qs_claim *claim = qs_claim_of(process, event->token, event->owner);
    qs_note("told that token %" PRIu64 " is in danger", event->token);
    qs.result->warnings++;
    if (event->status != PAWL_UNAVAILABLE || !qs.plan.renew || qs.plan.calm) {
        qs_fail("RISK p%u is warned, without need", process->number);
    }
    if (claim->told > 0) {
        qs_fail(
            "RISK p%u is warned after the loss of token %" PRIu64, process->number, event->token);
    }
    if (claim->warned > 0 && !claim->safe) {
        qs_fail("RISK p%u is warned twice of one danger", process->number);
    }
    if (claim->left_us >= warn_us() || claim->final) {
        qs_fail("RISK p%u is warned with %" PRId64 " us left%s", process->number, claim->left_us,
            claim->final ? ", though it can have no more" : "");
    }
    claim->warned++;
    claim->safe = false;
}

void qs_watch_dangers(void)
{
    for (struct qs_claim *claim = qs.claims; claim != NULL; claim = claim->next) {
        const struct qs_process *process = claim->process;
        const struct pawl__quorum_hold *held =
            process->lock != NULL ? pawl__quorum_of(process->lock)->held : NULL;
        const int64_t left_us = held != NULL ? held->until_us - qs_process_now(process) : 0;
        if (left_us <= 0 || left_us >= danger_below() || held->token != claim->token ||
            claim->final || !qs.plan.renew) {
            claim->danger_us = 0;
            continue;
        }
        claim->danger_us = claim->danger_us != 0 ? claim->danger_us : qs.now_us;
        if (qs.now_us - claim->danger_us > WARNED_US && claim->warned == 0 &&
            process->disturbed_us < claim->danger_us) {
            qs_fail("RISK p%u is not warned though token %" PRIu64 " is in danger", process->number,
                claim->token);
        }
    }
}

/* ===== Memory ===== */

static bool allow(size_t size)
{
    (void)size;
    if (qs_self == NULL || qs_self->process == NULL || qs.in_event ||
        qs_self->process->short_us <= qs.now_us || !qs_chance(REFUSED)) {
        return true;
    }
    qs.result->refused++;
    return false;
}

void *__wrap_malloc(size_t size)
{
    void *memory = __real_malloc(size);
    qs.blocks += memory != NULL ? 1 : 0;
    return memory;
}

void *__wrap_calloc(size_t count, size_t size)
{
    void *memory = __real_calloc(count, size);
    qs.blocks += memory != NULL ? 1 : 0;
    return memory;
}

void *__wrap_realloc(void *memory, size_t size)
{
    void *moved = __real_realloc(memory, size);
    qs.blocks += memory == NULL && moved != NULL ? 1 : 0;
    return moved;
}

void __wrap_free(void *memory)
{
    qs.blocks -= memory != NULL ? 1 : 0;
    __real_free(memory);
}

void qs_memory_begin(void)
{
    pawl__alloc_hook = allow;
    qs.blocks = 0;
}

void qs_check_memory(void)
{
    if (qs.blocks != 0) {
        qs_fail("MEMORY %" PRId64 " blocks are left", qs.blocks);
    }
}
