/* SPDX-License-Identifier: Apache-2.0 */
/* Keeping permits alive; leases.h has the rules. */
#include "core/leases.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "core/machine_parts.h"

#include <string.h>

#define RETRY_FIRST_US 20000
#define RETRY_MOST_US 500000
#define EARLY_DIVISOR 12 /* renewals that would come so soon, of the lease, go along */

static struct pawl__permit *permit_of(struct pawl__list *node)
{
    return PAWL__CONTAINER(node, struct pawl__permit, node);
}

static struct pawl__permit *find(
    const struct pawl__leases *leases, const struct pawl__permit_id *id)
{
    struct pawl__list *node = leases->permits.next;
    for (; node != &leases->permits; node = node->next) {
        if (memcmp(&permit_of(node)->id, id, sizeof *id) == 0) {
            return permit_of(node);
        }
    }
    return NULL;
}

/* The next renewal, or the first deadline. */
static void arm(struct pawl__machine *machine, struct pawl__leases *leases)
{
    int64_t due_us = PAWL__NEVER;
    struct pawl__list *node = leases->permits.next;
    for (; node != &leases->permits; node = node->next) {
        const struct pawl__permit *permit = permit_of(node);
        due_us = pawl__min64(due_us, permit->deadline_us);
        due_us = leases->renewal == NULL ? pawl__min64(due_us, permit->renew_us) : due_us;
    }
    pawl__timer_set(&machine->timers, &leases->timer, due_us);
}

/* Not ours any more, and not to be released by us. */
static void forget(struct pawl__machine *machine, struct pawl__permit *permit, pawl_status status)
{
    pawl__list_remove(&permit->node);
    if (permit->lost != NULL) {
        pawl__finish(machine, permit->lost, status, NULL);
    }
    pawl__free(permit);
}

static void lose(struct pawl__machine *machine, const struct pawl__leases *leases,
    struct pawl__permit *permit, enum pawl__loss why, int64_t now_us)
{
    if (permit->lost != NULL) {
        permit->lost->lost = (struct pawl__lost){why, now_us, permit->proven_us, leases->lease_us};
    }
    forget(machine, permit, PAWL_LOST);
}

void pawl__leases_begin(
    struct pawl__machine *machine, struct pawl__handle *handle, struct pawl__leases *leases)
{
    handle->extra->leases = leases;
    leases->name = handle->name;
    leases->timer.kind = PAWL__TIMER_LEASES;
    pawl__list_init(&leases->permits);
    pawl__list_push(&machine->leases, &leases->node);
}

static void forget_all(struct pawl__machine *machine, struct pawl__leases *leases)
{
    while (!pawl__list_empty(&leases->permits)) {
        forget(machine, permit_of(leases->permits.next), PAWL_OK);
    }
    pawl__timer_clear(&machine->timers, &leases->timer);
}

void pawl__leases_end(struct pawl__machine *machine, struct pawl__handle *handle)
{
    struct pawl__leases *leases = pawl__handle_leases(handle);
    if (leases == NULL) {
        return;
    }
    forget_all(machine, leases);
    if (leases->renewal != NULL) {
        leases->renewal->leases = NULL;
    }
    pawl__list_remove(&leases->node);
    handle->extra->leases = NULL;
}

static void prove(
    const struct pawl__leases *leases, struct pawl__permit *permit, const struct pawl__op *op)
{
    permit->deadline_us = pawl__max64(permit->deadline_us, pawl__valid_until(op));
    permit->renew_us = op->sent_us + leases->lease_us / 3;
    permit->proven_us = op->sent_us;
}

void pawl__leases_add(struct pawl__machine *machine, struct pawl__leases *leases,
    struct pawl__list *permits, const struct pawl__op *op)
{
    for (struct pawl__list *node = permits->next; node != permits; node = node->next) {
        prove(leases, permit_of(node), op);
    }
    pawl__list_splice(&leases->permits, permits);
    arm(machine, leases);
}

size_t pawl__leases_drop(struct pawl__machine *machine, struct pawl__leases *leases,
    const struct pawl__permit_id *ids, size_t count, struct pawl__list *dropped)
{
    size_t found = 0;
    for (size_t i = 0; i < count && !pawl__list_empty(&leases->permits); i++) {
        struct pawl__permit *permit =
            ids != NULL ? find(leases, &ids[i]) : permit_of(leases->permits.next);
        if (permit != NULL) {
            pawl__list_remove(&permit->node);
            pawl__list_push(dropped, &permit->node);
            found++;
        }
    }
    arm(machine, leases);
    return found;
}

int64_t pawl__leases_deadline(const struct pawl__leases *leases, const struct pawl__permit_id *id)
{
    const struct pawl__permit *permit = find(leases, id);
    return permit != NULL ? permit->deadline_us : 0;
}

void pawl__leases_extended(struct pawl__machine *machine, struct pawl__leases *leases,
    const struct pawl__op *op, int64_t now_us)
{
    const struct pawl__tally_ask *ask = op->tally;
    for (int64_t i = 0; i < ask->amount; i++) {
        struct pawl__permit *permit = find(leases, &ask->ids[i]);
        if (permit != NULL && ask->gone[i]) {
            lose(machine, leases, permit, PAWL__LOSS_PROOF, now_us);
        } else if (permit != NULL) {
            prove(leases, permit, op);
        }
    }
    arm(machine, leases);
}

/* ===== Renewals ===== */

static void put_off(struct pawl__machine *machine, struct pawl__leases *leases, int64_t now_us)
{
    const int64_t pause_us =
        pawl__backoff_us(machine, leases->attempt++, RETRY_FIRST_US, RETRY_MOST_US);
    struct pawl__list *node = leases->permits.next;
    for (; node != &leases->permits; node = node->next) {
        permit_of(node)->renew_us = pawl__max64(permit_of(node)->renew_us, now_us + pause_us);
    }
}

void pawl__leases_answered(
    struct pawl__machine *machine, struct pawl__tally *renewal, int64_t now_us)
{
    struct pawl__leases *leases = renewal->leases;
    leases->renewal = NULL;
    if (renewal->op.answer == PAWL__DONE) {
        leases->attempt = 0;
        pawl__leases_extended(machine, leases, &renewal->op, now_us);
        return;
    }
    put_off(machine, leases, now_us);
    arm(machine, leases);
}

static void renew(struct pawl__machine *machine, struct pawl__leases *leases, int64_t now_us)
{
    struct pawl__permit_id ids[PAWL__PERMITS_AT_ONCE];
    const int64_t soon_us = now_us + leases->lease_us / EARLY_DIVISOR;
    size_t count = 0;
    struct pawl__list *node = leases->permits.next;
    for (; node != &leases->permits && count < PAWL__PERMITS_AT_ONCE; node = node->next) {
        if (permit_of(node)->renew_us <= soon_us) {
            ids[count++] = permit_of(node)->id;
        }
    }
    leases->renewal = pawl__tally_alone(
        machine, leases->name, PAWL__TALLY_EXTEND, ids, count, leases->lease_us, now_us);
    if (leases->renewal != NULL) {
        leases->renewal->leases = leases;
    } else {
        put_off(machine, leases, now_us);
    }
}

void pawl__leases_timer(struct pawl__machine *machine, struct pawl__leases *leases, int64_t now_us)
{
    bool due = false;
    struct pawl__list *node = leases->permits.next;
    while (node != &leases->permits) {
        struct pawl__permit *permit = permit_of(node);
        node = node->next;
        if (permit->deadline_us <= now_us) {
            lose(machine, leases, permit, PAWL__LOSS_SILENCE, now_us);
        } else {
            due = due || permit->renew_us <= now_us;
        }
    }
    if (due && leases->renewal == NULL) {
        renew(machine, leases, now_us);
    }
    arm(machine, leases);
}

void pawl__leases_reconnected(struct pawl__machine *machine, int64_t now_us)
{
    struct pawl__list *node = machine->leases.next;
    for (; node != &machine->leases; node = node->next) {
        struct pawl__leases *leases = PAWL__CONTAINER(node, struct pawl__leases, node);
        struct pawl__list *each = leases->permits.next;
        for (; each != &leases->permits; each = each->next) {
            permit_of(each)->renew_us = now_us; /* is it still there? */
        }
        pawl__leases_timer(machine, leases, now_us);
    }
}

/* ===== The end ===== */

static void release_some(struct pawl__machine *machine, struct pawl__leases *leases, int64_t now_us)
{
    struct pawl__permit_id ids[PAWL__PERMITS_AT_ONCE];
    size_t count = 0;
    while (count < PAWL__PERMITS_AT_ONCE && !pawl__list_empty(&leases->permits)) {
        struct pawl__permit *permit = permit_of(leases->permits.next);
        ids[count++] = permit->id;
        forget(machine, permit, PAWL_OK);
    }
    /* Without memory their leases have to end them. */
    pawl__tally_alone(machine, leases->name, PAWL__TALLY_GIVE, ids, count, 0, now_us);
}

void pawl__leases_release_all(struct pawl__machine *machine, int64_t now_us)
{
    struct pawl__list *node = machine->leases.next;
    for (; node != &machine->leases; node = node->next) {
        struct pawl__leases *leases = PAWL__CONTAINER(node, struct pawl__leases, node);
        while (!pawl__list_empty(&leases->permits)) {
            release_some(machine, leases, now_us);
        }
        pawl__timer_clear(&machine->timers, &leases->timer);
    }
}
