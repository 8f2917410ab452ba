/* SPDX-License-Identifier: Apache-2.0 */
/* Keeping permits alive; leases.h has the rules. */
#include "core/leases.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "core/machine_parts.h"

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
    struct pawl__map_node *node =
        pawl__map_find(&leases->ids, (const char *)id->bytes, sizeof id->bytes);
    return node != NULL ? PAWL__CONTAINER(node, struct pawl__permit, by_id) : NULL;
}

/* The one whose timer is next; NULL: there are none. Every permit has one. */
static struct pawl__permit *first(const struct pawl__leases *leases)
{
    struct pawl__timer *timer = pawl__heap_first(&leases->timers);
    return timer != NULL ? PAWL__CONTAINER(timer, struct pawl__permit, timer) : NULL;
}

/* The next renewal, or the first deadline. */
static void arm(struct pawl__machine *machine, struct pawl__leases *leases)
{
    const struct pawl__permit *next = first(leases);
    int64_t due_us = next != NULL ? next->timer.due_us : PAWL__NEVER;
    if (leases->renewal == NULL && !pawl__list_empty(&leases->due)) {
        due_us = pawl__min64(due_us, leases->retry_us);
    }
    pawl__timer_set(&machine->timers, &leases->timer, due_us);
}

/* ===== One permit ===== */

/* Nothing is to be done for it until then. */
static void rest(struct pawl__leases *leases, struct pawl__permit *permit, int64_t renew_us)
{
    pawl__list_remove(&permit->node);
    pawl__list_push(&leases->resting, &permit->node);
    pawl__timer_set(
        &leases->timers, &permit->timer, pawl__min64(renew_us, permit->deadline_us - 1));
}

/* Among those that rest, and so its timer tells of its renewal. */
static bool is_resting(const struct pawl__permit *permit)
{
    return permit->timer.due_us < permit->deadline_us;
}

/* It is to be renewed as soon as may be; until that is answered, its timer tells of its end. */
static void want_renewal(struct pawl__leases *leases, struct pawl__permit *permit)
{
    pawl__list_remove(&permit->node);
    pawl__list_push(&leases->due, &permit->node);
    pawl__timer_set(&leases->timers, &permit->timer, permit->deadline_us);
}

/* It is not among these any more. */
static void take_out(struct pawl__leases *leases, struct pawl__permit *permit)
{
    pawl__list_remove(&permit->node);
    pawl__map_remove(&leases->ids, &permit->by_id);
    pawl__timer_clear(&leases->timers, &permit->timer);
}

/* Not ours any more, and not to be released by us. */
static void forget(struct pawl__machine *machine, struct pawl__leases *leases,
    struct pawl__permit *permit, pawl_status status)
{
    take_out(leases, permit);
    if (permit->lost != NULL) {
        pawl__finish(machine, permit->lost, status, NULL);
    }
    pawl__free(permit);
}

static void lose(struct pawl__machine *machine, struct pawl__leases *leases,
    struct pawl__permit *permit, enum pawl__loss why, int64_t now_us)
{
    if (permit->lost != NULL) {
        permit->lost->lost = (struct pawl__lost){.why = why,
            .at_us = now_us,
            .proven_us = permit->proven_us,
            .lease_us = leases->lease_us};
    }
    forget(machine, leases, permit, PAWL_LOST);
}

/* A user may have asked for less than our lease: then the next renewal is to come earlier. */
static void prove(
    struct pawl__leases *leases, struct pawl__permit *permit, const struct pawl__op *op)
{
    const int64_t lease_us = pawl__min64(leases->lease_us, op->lease_us);
    permit->deadline_us = pawl__max64(permit->deadline_us, pawl__valid_until(op));
    permit->proven_us = op->sent_us;
    rest(leases, permit, op->sent_us + lease_us / 3);
}

/* ===== Coming and going ===== */

bool pawl__leases_begin(
    struct pawl__machine *machine, struct pawl__handle *handle, struct pawl__leases *leases)
{
    if (!pawl__map_init(&leases->ids)) {
        return false;
    }
    handle->extra->leases = leases;
    leases->name = handle->name;
    leases->timer.kind = PAWL__TIMER_LEASES;
    pawl__list_init(&leases->resting);
    pawl__list_init(&leases->due);
    pawl__list_init(&leases->asked);
    pawl__list_push(&machine->leases, &leases->node);
    return true;
}

void pawl__leases_end(struct pawl__machine *machine, struct pawl__handle *handle)
{
    struct pawl__leases *leases = pawl__handle_leases(handle);
    struct pawl__permit *permit = NULL;
    if (leases == NULL) {
        return;
    }
    while ((permit = first(leases)) != NULL) {
        forget(machine, leases, permit, PAWL_OK);
    }
    pawl__timer_clear(&machine->timers, &leases->timer);
    if (leases->renewal != NULL) {
        leases->renewal->leases = NULL;
    }
    pawl__list_remove(&leases->node);
    pawl__leases_free(handle);
}

void pawl__leases_free(struct pawl__handle *handle)
{
    struct pawl__leases *leases = pawl__handle_leases(handle);
    if (leases != NULL) {
        pawl__map_free(&leases->ids);
        handle->extra->leases = NULL;
    }
}

void pawl__leases_add(struct pawl__machine *machine, struct pawl__leases *leases,
    struct pawl__list *permits, const struct pawl__op *op)
{
    while (!pawl__list_empty(permits)) {
        struct pawl__permit *permit = permit_of(permits->next);
        const char *key = (const char *)permit->id.bytes;
        pawl__map_add(&leases->ids, &permit->by_id, key, sizeof permit->id.bytes);
        prove(leases, permit, op);
    }
    arm(machine, leases);
}

size_t pawl__leases_drop(struct pawl__machine *machine, struct pawl__leases *leases,
    const struct pawl__permit_id *ids, size_t count, struct pawl__list *dropped)
{
    size_t found = 0;
    for (size_t i = 0; i < count && first(leases) != NULL; i++) {
        struct pawl__permit *permit = ids != NULL ? find(leases, &ids[i]) : first(leases);
        if (permit != NULL) {
            take_out(leases, permit);
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

/* ===== Renewals ===== */

static void put_off(struct pawl__machine *machine, struct pawl__leases *leases, int64_t now_us)
{
    leases->retry_us =
        now_us + pawl__backoff_us(machine, leases->attempt++, RETRY_FIRST_US, RETRY_MOST_US);
    /* In front again: theirs are the deadlines that come first. */
    pawl__list_splice(&leases->asked, &leases->due);
    pawl__list_splice(&leases->due, &leases->asked);
}

/* Those that are due, and those that would be soon, as many as may be asked for at once. */
static void renew(struct pawl__machine *machine, struct pawl__leases *leases, int64_t now_us)
{
    struct pawl__permit_id ids[PAWL__PERMITS_AT_ONCE];
    const int64_t soon_us = now_us + leases->lease_us / EARLY_DIVISOR;
    size_t count = 0;
    while (count < PAWL__PERMITS_AT_ONCE) {
        struct pawl__permit *next = first(leases);
        if (pawl__list_empty(&leases->due) && next->timer.due_us <= soon_us && is_resting(next)) {
            want_renewal(leases, next);
        }
        struct pawl__list *node = pawl__list_pop(&leases->due);
        if (node == NULL) {
            break;
        }
        pawl__list_push(&leases->asked, node);
        ids[count++] = permit_of(node)->id;
    }
    leases->renewal = pawl__tally_alone(
        machine, leases->name, PAWL__TALLY_EXTEND, ids, count, leases->lease_us, now_us);
    if (leases->renewal != NULL) {
        leases->renewal->leases = leases;
    } else {
        put_off(machine, leases, now_us);
    }
}

/* One renewal is under way at a time, so that others of this client come in between. The next one
 * is sent by whom the timer calls, and not by who brings the answer: an engine may answer while it
 * is being asked, and would be asked from in there, over and over. */
static void go_on(struct pawl__machine *machine, struct pawl__leases *leases, int64_t now_us)
{
    if (leases->renewal == NULL && !pawl__list_empty(&leases->due) && leases->retry_us <= now_us) {
        renew(machine, leases, now_us);
    }
    arm(machine, leases);
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

void pawl__leases_timer(struct pawl__machine *machine, struct pawl__leases *leases, int64_t now_us)
{
    struct pawl__permit *permit = NULL;
    while ((permit = first(leases)) != NULL && permit->timer.due_us <= now_us) {
        if (permit->deadline_us <= now_us) {
            lose(machine, leases, permit, PAWL__LOSS_SILENCE, now_us);
        } else {
            want_renewal(leases, permit);
        }
    }
    go_on(machine, leases, now_us);
}

void pawl__leases_reconnected(struct pawl__machine *machine, int64_t now_us)
{
    struct pawl__list *node = machine->leases.next;
    for (; node != &machine->leases; node = node->next) {
        struct pawl__leases *leases = PAWL__CONTAINER(node, struct pawl__leases, node);
        while (!pawl__list_empty(&leases->resting)) {
            want_renewal(leases, permit_of(leases->resting.next)); /* is it still there? */
        }
        leases->retry_us = now_us;
        pawl__leases_timer(machine, leases, now_us);
    }
}

/* ===== The end ===== */

static void release_some(struct pawl__machine *machine, struct pawl__leases *leases, int64_t now_us)
{
    struct pawl__permit_id ids[PAWL__PERMITS_AT_ONCE];
    struct pawl__permit *permit = NULL;
    size_t count = 0;
    while (count < PAWL__PERMITS_AT_ONCE && (permit = first(leases)) != NULL) {
        ids[count++] = permit->id;
        forget(machine, leases, permit, PAWL_OK);
    }
    /* Without memory their leases have to end them. */
    pawl__tally_alone(machine, leases->name, PAWL__TALLY_GIVE, ids, count, 0, now_us);
}

void pawl__leases_release_all(struct pawl__machine *machine, int64_t now_us)
{
    struct pawl__list *node = machine->leases.next;
    for (; node != &machine->leases; node = node->next) {
        struct pawl__leases *leases = PAWL__CONTAINER(node, struct pawl__leases, node);
        while (first(leases) != NULL) {
            release_some(machine, leases, now_us);
        }
        pawl__timer_clear(&machine->timers, &leases->timer);
    }
}
