/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of a hold: which of the nodes' tenures count.
 *
 * A hold is worth something if a majority of its parts stood at *every* moment. One that vanishes
 * (its key is deleted, its server restarts) is asked for again; but that it is there again says
 * nothing of the time when it was not. If another one was gone in that time, somebody else could
 * have had a majority, and may have left again without a trace. So:
 *
 *   The parts are what was granted when the hold began. What is granted later is a *newcomer*, and
 *   becomes a part as soon as a majority of the parts is proven to have stood after its grant was
 *   answered: by renewals that were sent since.
 *
 * Why that is enough: let a majority be gone at a moment t. Of what stood then there is less than a
 * majority, and only that can ever be proven to have stood at t or later. So nothing that is
 * granted after t becomes a part any more, fewer than a majority of parts are renewed, and the hold
 * is lost: when the last missing one is found gone, and at the latest when its lease is over.
 *
 * So that this takes a round trip and not a third of the lease, all parts are renewed at once
 * whenever one is found gone, or a newcomer is there: that is a *doubt*. It also keeps the parts'
 * renewals in step.
 *
 * A claim is decided when a majority has granted it, and as a rule the others do so a moment later.
 * What comes within TOGETHER_US counts as granted with the rest: nobody can have got a majority
 * meanwhile but by a server that forgot its grant within that time. */
#include "compound/quorum.h"

#include "base/clock.h"

#define TOGETHER_US 10000

/* What the nodes have at one moment. */
struct sight {
    bool held[PAWL__QUORUM_MAX];
    struct pawl__node_hold holds[PAWL__QUORUM_MAX];
};

static void take_sight(struct pawl__quorum *quorum, struct sight *sight)
{
    for (size_t i = 0; i < quorum->count; i++) {
        bool lost = false;
        sight->holds[i] = (struct pawl__node_hold){0};
        sight->held[i] = pawl__node_look(&quorum->nodes[i], &sight->holds[i], &lost);
    }
}

bool pawl__part_is(const struct pawl__node *node, uint64_t id)
{
    return id != 0 && node->part_id == id;
}

void pawl__parts_begin(struct pawl__quorum *quorum, int64_t now_us)
{
    struct sight sight;
    take_sight(quorum, &sight);
    quorum->began_us = now_us;
    quorum->doubt_us = 0;
    for (size_t i = 0; i < quorum->count; i++) {
        struct pawl__node *node = &quorum->nodes[i];
        const uint64_t id = sight.holds[i].id;
        node->part_id = sight.held[i] && pawl__guard_counts(node, id) == PAWL__ADMITTED ? id : 0;
        node->newcomer_id = 0;
    }
}

/* When a majority of the parts was last proven to have stood. A part that is lost stood as long. */
static int64_t stood_us(const struct pawl__quorum *quorum, const struct sight *sight)
{
    int64_t proven_us[PAWL__QUORUM_MAX] = {0};
    for (size_t i = 0; i < quorum->count; i++) {
        if (pawl__part_is(&quorum->nodes[i], sight->holds[i].id)) {
            proven_us[i] = sight->holds[i].proven_us;
        }
    }
    return pawl__quorum_deadline(proven_us, quorum->count);
}

/* Granted so soon after the others that it is one of them. */
static bool came_together(const struct pawl__node *node)
{
    const struct pawl__quorum *quorum = node->quorum;
    const int64_t together_us = pawl__min64(TOGETHER_US, quorum->lease_us / 20);
    return node->granted_us <= quorum->began_us + together_us;
}

/* A tenure that is held, and is no part. */
static void receive(struct pawl__node *node, uint64_t id, int64_t now_us, int64_t majority_us)
{
    if (node->newcomer_id != id) {
        node->newcomer_id = id;
        node->newcomer_us = now_us;
        node->quorum->doubt_us = came_together(node) ? node->quorum->doubt_us : now_us;
    }
    if ((came_together(node) || majority_us >= node->newcomer_us) &&
        pawl__guard_counts(node, id) == PAWL__ADMITTED) {
        node->part_id = id;
    }
}

int64_t pawl__parts_until(struct pawl__quorum *quorum)
{
    struct sight sight;
    int64_t deadlines_us[PAWL__QUORUM_MAX] = {0};
    int64_t safe_us[PAWL__QUORUM_MAX] = {0};
    take_sight(quorum, &sight);
    const int64_t now_us = pawl__now_us(); /* no earlier than what was seen */
    const int64_t majority_us = stood_us(quorum, &sight);
    for (size_t i = 0; i < quorum->count; i++) {
        struct pawl__node *node = &quorum->nodes[i];
        const uint64_t id = sight.held[i] ? sight.holds[i].id : 0;
        if (node->part_id != 0 && node->part_id != id) {
            node->part_id = 0;
            quorum->doubt_us = now_us;
        }
        if (id != 0 && node->part_id == 0) {
            receive(node, id, now_us, majority_us);
        }
        deadlines_us[i] = node->part_id != 0 ? sight.holds[i].deadline_us : 0;
        safe_us[i] = node->part_id != 0 && sight.holds[i].final ? PAWL__NEVER : deadlines_us[i];
    }
    quorum->safe_us = pawl__quorum_deadline(safe_us, quorum->count);
    return pawl__quorum_deadline(deadlines_us, quorum->count);
}

/* Renew it, if it was not proven or asked since the doubt came up. What is out is asked again when
 * its answer is there, which has the worker look. */
static void confirm(struct pawl__ballot *ballot, int64_t doubt_us)
{
    struct pawl__node_hold hold;
    bool lost = false;
    if (pawl__ballot_is_out(ballot) || ballot->asked_us >= doubt_us ||
        !pawl__node_look(ballot->node, &hold, &lost) || !pawl__part_is(ballot->node, hold.id) ||
        hold.proven_us >= doubt_us) {
        return;
    }
    ballot->nudges = true;
    pawl__ballot_ask(ballot, PAWL__WANT_EXTEND, 0); /* for as long as it has it anyway */
}

void pawl__parts_confirm(struct pawl__quorum *quorum)
{
    if (quorum->doubt_us == 0) {
        return;
    }
    for (size_t i = 0; i < quorum->count; i++) {
        confirm(&quorum->panel.ballots[i], quorum->doubt_us);
    }
    pawl__panel_end(&quorum->panel);
}
