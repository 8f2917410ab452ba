/* SPDX-License-Identifier: Apache-2.0 */
/* What must hold.
 *
 * EXCLUSION: while one process believes in its hold, by what the lock last said of the time left,
 * nobody else is granted it.
 *
 * TOKEN: each holder's token is greater than all before.
 *
 * HIDDEN: if keys were deleted, two may believe; then one of them has to find it lost, unless a
 * release had to be repeated: who is told then that it is gone believes that the first copy did it.
 *
 * TOLD: on_lost is called once for every hold that is lost, in time, and for no other.
 *
 * LEFT: no key stays at a node whose process neither holds the lock nor asks for it, unless the
 * question for it was on its way for a lease: nobody takes it back after so long.
 *
 * CALM: without faults nothing is lost, and everybody is granted it.
 *
 * CANCELED, RISK, MEMORY: see duties.c.
 *
 * DEADLOCK, LIVELOCK, THREADS, DESCRIPTORS: all threads come to their end. */
#include "qsim.h"

#include "base/thread.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define LOOK_US 50000   /* between two looks at the nodes */
#define TOLD_US 30000   /* so late a loss may be told */
#define LEFT_US 4000000 /* so long a key may stay that nobody needs */

static int64_t true_duration(const struct qs_process *process, int64_t duration_us)
{
    return duration_us * 1000000 / (1000000 + process->ppm);
}

/* ===== Holds ===== */

static void overlap(const struct qs_claim *first, const struct qs_claim *second)
{
    qs.result->overlaps++;
    if (!qs.plan.deletes) {
        qs_fail("EXCLUSION p%u has token %" PRIu64 " for %" PRId64 " us more, and p%u has %" PRIu64,
            first->process->number, first->token, first->until_us - qs.now_us,
            second->process->number, second->token);
    }
    struct qs_pair *pair = calloc(1, sizeof *pair);
    if (pair == NULL) {
        abort();
    }
    *pair = (struct qs_pair){qs.pairs, {first, second}};
    qs.pairs = pair;
}

/* Nobody who looks now is told that it is lost. */
static bool stands(const struct qs_claim *claim)
{
    const struct pawl__quorum_hold *held =
        claim->process->lock != NULL ? pawl__quorum_of(claim->process->lock)->held : NULL;
    return claim->active && claim->until_us > qs.now_us && held != NULL &&
           held->token == claim->token;
}

const struct qs_process *qs_holder(void)
{
    for (const struct qs_claim *claim = qs.claims; claim != NULL; claim = claim->next) {
        if (stands(claim)) {
            return claim->process;
        }
    }
    return NULL;
}

/* It was said at this time that so much is left. */
static bool believe(struct qs_claim *claim, int64_t said_us, int64_t left_ms)
{
    if (left_ms <= 0) {
        return false;
    }
    claim->until_us = said_us + true_duration(claim->process, left_ms * 1000);
    for (struct qs_claim *other = qs.claims; other != NULL; other = other->next) {
        if (other != claim && stands(other) && stands(claim)) {
            overlap(other, claim);
        }
    }
    return true;
}

static uint64_t owner_of(const struct qs_process *process)
{
    const uint64_t owner = process->lock->handle.owner;
    return owner != 0 ? owner : pawl__owner_of_thread();
}

/* Also of what is lost by now. */
static uint64_t token_of(const struct qs_process *process, uint64_t owner)
{
    const struct pawl__quorum *quorum = pawl__quorum_of(process->lock);
    if (quorum->held != NULL && quorum->held->owner == owner) {
        return quorum->held->token;
    }
    const struct pawl__list *lost = &quorum->lost;
    for (struct pawl__list *node = lost->next; node != lost; node = node->next) {
        const struct pawl__quorum_hold *hold =
            PAWL__CONTAINER(node, struct pawl__quorum_hold, node);
        if (hold->owner == owner && !hold->done) {
            return hold->token;
        }
    }
    qs_fail("TOLD p%u was granted it, and has nothing", process->number);
}

/* What is known of this hold; its loss may be told before anybody has looked at it. */
struct qs_claim *qs_claim_of(struct qs_process *process, uint64_t token, uint64_t owner)
{
    for (struct qs_claim *claim = qs.claims; claim != NULL; claim = claim->next) {
        if (claim->process == process && claim->token == token && claim->owner == owner) {
            return claim;
        }
    }
    struct qs_claim *claim = calloc(1, sizeof *claim);
    if (claim == NULL) {
        abort();
    }
    *claim =
        (struct qs_claim){.next = qs.claims, .process = process, .token = token, .owner = owner};
    qs.claims = claim;
    return claim;
}

/* A node that has forgotten how far it had counted begins at what its clock says. */
static bool may_count_back(void)
{
    const unsigned both = 1U << QS_JUMP | 1U << QS_FORGET;
    return (qs.plan.fault_kinds & both) == both;
}

struct qs_claim *qs_granted(struct qs_process *process)
{
    const int64_t said_us = qs.now_us;
    const int64_t left_ms = pawl_lock_remaining_ms(process->lock);
    const uint64_t owner = owner_of(process);
    const uint64_t token = token_of(process, owner);
    struct qs_claim *claim = qs_claim_of(process, token, owner);
    claim->active = true;
    qs.result->grants++;
    qs_note("granted, token %" PRIu64 ", %" PRId64 " ms left", token, left_ms);
    if (!believe(claim, said_us, left_ms) || claim->until_us <= qs.now_us) {
        claim->active = false;
        return claim;
    }
    if (token <= qs.token && !qs.plan.deletes && !may_count_back()) {
        qs_fail("TOKEN p%u has %" PRIu64 ", and somebody had %" PRIu64 " before", process->number,
            token, qs.token);
    }
    qs.token = token > qs.token ? token : qs.token;
    return claim;
}

bool qs_looked(struct qs_claim *claim)
{
    const int64_t said_us = qs.now_us;
    const bool valid = believe(claim, said_us, pawl_lock_remaining_ms(claim->process->lock));
    claim->active = claim->active && valid;
    return valid;
}

void qs_leaving(struct qs_claim *claim)
{
    claim->active = false;
    claim->leaving_us = qs.now_us;
}

void qs_left(struct qs_claim *claim, pawl_status status)
{
    qs_note("released: %s", pawl_status_string(status));
    claim->ends_lost = status == PAWL_LOST;
    qs.result->losses += claim->ends_lost ? 1 : 0;
    if (qs.plan.calm && status != PAWL_OK && qs.plan.renew) {
        qs_fail("CALM p%u lost what it held: %s", claim->process->number, pawl_last_error());
    }
    claim->excused = qs.plan.unawaited || status == PAWL_UNAVAILABLE ||
                     claim->process->repeated_us >= claim->leaving_us;
    if (status == PAWL_NOT_HELD || status == PAWL_MISUSE) {
        qs_fail("TOLD p%u holds it, but its release says: %s", claim->process->number,
            pawl_last_error());
    }
}

/* ===== Losses ===== */

/* When its time was over, by the process's clock. */
static int64_t lost_at(struct pawl__quorum *quorum, uint64_t token)
{
    for (struct pawl__list *node = quorum->lost.next; node != &quorum->lost; node = node->next) {
        const struct pawl__quorum_hold *hold =
            PAWL__CONTAINER(node, struct pawl__quorum_hold, node);
        if (hold->token == token && hold->telling) {
            return hold->lost_us;
        }
    }
    qs_fail("TOLD the loss of token %" PRIu64 " is told, but nothing was lost", token);
}

void qs_on_lost(const pawl_event *event, void *arg)
{
    struct qs_process *process = arg;
    struct qs_claim *claim = qs_claim_of(process, event->token, event->owner);
    struct pawl__quorum *quorum = pawl__quorum_of(event->lock);
    const int64_t late_us = qs_process_now(process) - lost_at(quorum, event->token);
    qs_note("told of the loss of token %" PRIu64 ", %" PRId64 " us late", event->token, late_us);
    if (++claim->told > 1) {
        qs_fail(
            "TOLD p%u hears twice of the loss of token %" PRIu64, process->number, event->token);
    }
    if (late_us > TOLD_US && qs.now_us - process->disturbed_us > late_us) {
        qs_fail("TOLD p%u hears %" PRId64 " us late of the loss of token %" PRIu64, process->number,
            late_us, event->token);
    }
}

static void check_told(void)
{
    for (struct qs_claim *claim = qs.claims; claim != NULL; claim = claim->next) {
        if (claim->ends_lost != (claim->told == 1)) {
            qs_fail("TOLD p%u, token %" PRIu64 ": %s, and on_lost was called %u times",
                claim->process->number, claim->token,
                claim->ends_lost ? "it was lost" : "it was not lost", claim->told);
        }
    }
}

static void check_pairs(void)
{
    while (qs.pairs != NULL) {
        struct qs_pair *pair = qs.pairs;
        const struct qs_claim *first = pair->claims[0];
        const struct qs_claim *second = pair->claims[1];
        if (!first->ends_lost && !second->ends_lost && !first->excused && !second->excused) {
            qs_fail("HIDDEN p%u and p%u, tokens %" PRIu64 " and %" PRIu64
                    ", had it at the same time and have both released it",
                first->process->number, second->process->number, first->token, second->token);
        }
        qs.pairs = pair->next;
        free(pair);
    }
}

/* ===== What stays at the nodes ===== */

struct qs_link *qs_link_by(const struct qs_node *node, const char *uuid)
{
    for (unsigned i = 0; i < qs.plan.processes; i++) {
        if (strcmp(qs.links[i][node->number].uuid, uuid) == 0) {
            return &qs.links[i][node->number];
        }
    }
    return NULL;
}

/* Could the process have cleaned up by now, and need the key for nothing? */
static bool is_needless(const struct qs_link *link)
{
    const struct qs_process *process = link->process;
    const bool reachable = link->state == QS_UP && !link->broken && link->cut_up_us <= qs.now_us &&
                           link->cut_down_us <= qs.now_us && link->slow_us <= qs.now_us &&
                           link->node->hung_us <= qs.now_us && link->node->up &&
                           process->disturbed_us <= qs.now_us;
    if (!qs.plan.kills) {
        return false; /* a late copy of a question may be granted, and nobody hears of it */
    }
    if (!reachable || process->lock == NULL || process->abandoned_us > qs.now_us) {
        return false;
    }
    const struct pawl__quorum *quorum = pawl__quorum_of(process->lock);
    return quorum->held == NULL && !quorum->turn_taken;
}

static void look_at(struct qs_node *node)
{
    const struct pawl__memory_entry *entry =
        pawl__memory_look(&node->table, QS_NAME, sizeof QS_NAME - 1);
    const bool held = entry != NULL && entry->held && entry->expires_us > qs_node_now(node);
    const struct qs_link *link = held ? qs_link_by(node, entry->uuid) : NULL;
    if (link == NULL || !is_needless(link) || node->late_id == entry->id) {
        node->key_id = 0;
        return;
    }
    if (node->key_id != entry->id) {
        node->key_id = entry->id;
        node->key_us = qs.now_us;
    }
    if (qs.now_us - node->key_us > LEFT_US) {
        qs_fail("LEFT p%u:%" PRIu64 " stays at node %u, for nothing", link->process->number,
            entry->id, node->number);
    }
}

static void look_at_all(struct qs_event *event)
{
    for (unsigned i = 0; i < qs.plan.nodes; i++) {
        look_at(&qs.nodes[i]);
    }
    qs_watch_dangers();
    qs_event_set(event, qs.now_us + LOOK_US, look_at_all);
}

void qs_watch_begin(void)
{
    qs_event_set(&qs.monitor, qs.now_us + LOOK_US, look_at_all);
}

/* ===== The end ===== */

void qs_check_no_keys(void)
{
    for (unsigned i = 0; i < qs.plan.nodes && qs.plan.kills; i++) {
        const struct qs_node *node = &qs.nodes[i];
        const struct pawl__memory_entry *entry =
            pawl__memory_look(&node->table, QS_NAME, sizeof QS_NAME - 1);
        if (entry != NULL && entry->held && entry->expires_us > qs_node_now(node) &&
            entry->id != node->late_id && qs_link_by(node, entry->uuid) != NULL) {
            qs_fail("LEFT %s:%" PRIu64 " is still at node %u", entry->uuid, entry->id, i);
        }
    }
}

static void check_threads(void)
{
    unsigned running = 0;
    for (unsigned i = 1; i < qs.thread_count; i++) {
        running += qs.threads[i].state != QS_ENDED || !qs.threads[i].joined ? 1 : 0;
    }
    if (running > 0) {
        qs_fail("THREADS %u have not ended, or were not joined", running);
    }
    if (qs_fds_open() > 0) {
        qs_fail("DESCRIPTORS %u are left", qs_fds_open());
    }
}

void qs_check_end(void)
{
    check_told();
    check_pairs();
    check_threads();
    while (qs.claims != NULL) {
        struct qs_claim *claim = qs.claims;
        qs.claims = claim->next;
        free(claim);
    }
}
