/* SPDX-License-Identifier: Apache-2.0 */
/* Rounds: what is asked of all nodes, and what follows from the answers.
 *
 * A claim is decided as soon as a majority has granted it, or cannot any more, or node_timeout is
 * over. On failure it is taken back at every node, also at those that have not answered: their own
 * machines see to it that a late grant is released. On success the claims of slower nodes go on;
 * what they grant later counts, too.
 *
 * Tokens. Each node counts for itself. The greatest of the majority is the hold's; if they differ
 * it is written back until a majority has it, before anybody is told that the lock is his. So every
 * later majority meets a node that has counted that far. */
#include "compound/quorum.h"

#include "base/clock.h"
#include "base/error.h"

/* ===== What the nodes hold ===== */

/* Until when a majority holds, as the nodes know it; 0: none does. Nothing is held yet. */
static int64_t granted_until(struct pawl__quorum *quorum)
{
    int64_t deadlines_us[PAWL__QUORUM_MAX] = {0};
    for (size_t i = 0; i < quorum->count; i++) {
        struct pawl__node_hold hold;
        bool lost = false;
        if (pawl__node_look(&quorum->nodes[i], &hold, &lost) &&
            pawl__guard_counts(&quorum->nodes[i], hold.id) == PAWL__ADMITTED) {
            deadlines_us[i] = hold.deadline_us;
        }
    }
    return pawl__quorum_deadline(deadlines_us, quorum->count);
}

/* ===== Letting go ===== */

/* Send it, and do not wait for it. */
static void ask_and_leave(struct pawl__ballot *ballot, enum pawl__request_kind kind, int64_t number)
{
    pawl__ballot_ask(ballot, kind, number);
    pawl__ballot_expire(ballot);
}

/* A node has no hold when it is asked for one; what it had and lost is released. */
static void clear(struct pawl__ballot *ballot)
{
    struct pawl__node_hold hold;
    bool lost = false;
    if (pawl__node_look(ballot->node, &hold, &lost) || lost) {
        ask_and_leave(ballot, PAWL__WANT_RELEASE, 0);
    }
}

static void take_back(struct pawl__panel *panel)
{
    pawl__panel_expire(panel);
    for (size_t i = 0; i < panel->count; i++) {
        clear(&panel->ballots[i]);
    }
    pawl__panel_end(panel);
}

void pawl__round_sweep(struct pawl__quorum *quorum)
{
    take_back(&quorum->panel);
}

/* Ask for something that is held. The answer counts if that is part of the hold. */
static void ask_part(
    struct pawl__ballot *ballot, enum pawl__request_kind kind, int64_t number, uint64_t id)
{
    pawl__ballot_ask(ballot, kind, number);
    if (!pawl__part_is(ballot->node, id)) {
        ballot->apart = true;
        ballot->vote = PAWL__VOTE_NO;
    }
}

/* A node that has counted less far than the hold's token is told, for the next time. */
static void let_go_of(struct pawl__ballot *ballot, uint64_t token)
{
    struct pawl__node_hold hold = {0};
    bool lost = false;
    const bool held = pawl__node_look(ballot->node, &hold, &lost);
    if (held && hold.token < token && ballot->token < token) {
        ask_and_leave(ballot, PAWL__WANT_RAISE, (int64_t)token);
    }
    if (held || lost) {
        ask_part(ballot, PAWL__WANT_RELEASE, 0, hold.id);
    } else {
        ballot->vote = PAWL__VOTE_NO;
        pawl__ballot_note(ballot, PAWL_NOT_HELD);
    }
}

pawl_status pawl__round_let_go(struct pawl__quorum *quorum, uint64_t token, bool awaited)
{
    struct pawl__panel *panel = &quorum->panel;
    enum pawl__vote votes[PAWL__QUORUM_MAX];
    pawl__panel_expire(panel);
    for (size_t i = 0; i < panel->count; i++) {
        let_go_of(&panel->ballots[i], token);
    }
    pawl_status status = PAWL_OK;
    if (awaited) {
        pawl__panel_wait(panel, PAWL__FOR_VERDICT, pawl__later(pawl__now_us(), quorum->timeout_us));
        pawl__panel_votes(panel, votes);
        status = pawl__votes_release_status(votes, panel->count);
    }
    if (status != PAWL_OK) {
        pawl__quorum_fail_votes(quorum, panel, status,
            status == PAWL_LOST ? "it was lost before it was released"
                                : "its release was not confirmed by a majority");
    }
    pawl__panel_expire(panel);
    pawl__panel_end(panel);
    return status;
}

/* ===== Claiming ===== */

static void ask_all(struct pawl__quorum *quorum)
{
    struct pawl__panel *panel = &quorum->panel;
    for (size_t i = 0; i < panel->count; i++) {
        struct pawl__ballot *ballot = &panel->ballots[i];
        if (pawl__guard_admits(ballot->node) == PAWL__BARRED) {
            ballot->vote = PAWL__VOTE_BARRED;
        } else {
            pawl__ballot_ask(ballot, PAWL__WANT_ACQUIRE, 0);
        }
    }
}

static size_t granted_tokens(const struct pawl__panel *panel, uint64_t tokens[PAWL__QUORUM_MAX])
{
    size_t count = 0;
    for (size_t i = 0; i < panel->count; i++) {
        if (panel->ballots[i].vote == PAWL__VOTE_YES) {
            tokens[count++] = panel->ballots[i].token;
        }
    }
    return count;
}

/* Nodes whose claims are open, because they have not answered yet or are still being looked at, are
 * left out of a vote that is about something else, and then waited for again. */
static void set_aside(struct pawl__panel *panel)
{
    for (size_t i = 0; i < panel->count; i++) {
        struct pawl__ballot *ballot = &panel->ballots[i];
        ballot->aside = ballot->vote == PAWL__VOTE_OPEN && ballot->claims;
        ballot->vote = ballot->aside ? PAWL__VOTE_SILENT : ballot->vote;
    }
}

static void bring_back(struct pawl__panel *panel)
{
    for (size_t i = 0; i < panel->count; i++) {
        struct pawl__ballot *ballot = &panel->ballots[i];
        ballot->vote = ballot->aside ? PAWL__VOTE_OPEN : ballot->vote;
        ballot->aside = false;
    }
}

/* How long a round's questions are waited for. */
static int64_t round_end(const struct pawl__quorum *quorum, int64_t limit_us)
{
    return pawl__min64(pawl__later(pawl__now_us(), quorum->node_timeout_us), limit_us);
}

/* Write the greatest token back. A node that has it has said yes already. */
static bool raise_tokens(struct pawl__quorum *quorum, int64_t limit_us, uint64_t greatest)
{
    struct pawl__panel *panel = &quorum->panel;
    set_aside(panel);
    for (size_t i = 0; i < panel->count; i++) {
        struct pawl__ballot *ballot = &panel->ballots[i];
        if (ballot->vote == PAWL__VOTE_YES && ballot->token < greatest) {
            pawl__ballot_ask(ballot, PAWL__WANT_RAISE, (int64_t)greatest);
            ballot->token = greatest;
        }
    }
    const int64_t deadline_us = round_end(quorum, limit_us);
    const bool raised = pawl__panel_wait(panel, PAWL__FOR_VERDICT, deadline_us) == PAWL__CARRIED;
    bring_back(panel);
    return raised;
}

static bool agree_on_token(struct pawl__quorum *quorum, int64_t limit_us, uint64_t *token_out)
{
    uint64_t tokens[PAWL__QUORUM_MAX];
    const size_t count = granted_tokens(&quorum->panel, tokens);
    const uint64_t greatest = pawl__tokens_greatest(tokens, count);
    *token_out = greatest;
    return pawl__tokens_at(tokens, count, greatest) >= pawl__majority(quorum->count) ||
           raise_tokens(quorum, limit_us, greatest);
}

/* Wait for a majority, and for what is still to be found out of those that would be one: the time
 * of a round is for their answers. */
static enum pawl__verdict_now await_claim(struct pawl__quorum *quorum, int64_t limit_us)
{
    struct pawl__panel *panel = &quorum->panel;
    enum pawl__verdict_now verdict =
        pawl__panel_wait(panel, PAWL__FOR_REASON, round_end(quorum, limit_us));
    if (verdict == PAWL__UNDECIDED && pawl__panel_is_pending(panel)) {
        const int64_t patience_us = pawl__later(pawl__now_us(), quorum->timeout_us);
        verdict = pawl__panel_wait(panel, PAWL__FOR_REASON, pawl__min64(patience_us, limit_us));
    }
    for (size_t i = 0; i < panel->count && verdict != PAWL__CARRIED; i++) {
        struct pawl__ballot *ballot = &panel->ballots[i];
        const bool pending = ballot->vote == PAWL__VOTE_OPEN && ballot->pending;
        ballot->vote = pending ? PAWL__VOTE_BARRED : ballot->vote;
    }
    return verdict;
}

static pawl_status not_claimed(struct pawl__quorum *quorum)
{
    static const char nobody[] = "no majority grants it";
    const struct pawl__panel *panel = &quorum->panel;
    bool stands = false;
    switch (pawl__panel_reason(panel, &stands)) {
    case PAWL__REASON_BUSY:
        return pawl__quorum_fail_votes(quorum, panel, PAWL_BUSY, nobody);
    case PAWL__REASON_BARRED:
        return pawl__quorum_fail_votes(quorum, panel, PAWL_REFUSED, nobody);
    case PAWL__REASON_TWINS:
        quorum->hopeless = true;
        return pawl__quorum_fail_votes(quorum, panel, PAWL_INVALID, nobody);
    case PAWL__REASON_REFUSED:
        quorum->hopeless = true;
        return pawl__quorum_fail_refused(quorum, panel);
    case PAWL__REASON_SILENCE:
        break;
    }
    return pawl__quorum_fail_votes(quorum, panel, PAWL_UNAVAILABLE, nobody);
}

pawl_status pawl__round_claim(struct pawl__quorum *quorum, int64_t limit_us, uint64_t *token_out)
{
    struct pawl__panel *panel = &quorum->panel;
    quorum->hopeless = false;
    pawl__panel_begin(panel);
    ask_all(quorum);
    pawl_status status = PAWL_OK;
    if (await_claim(quorum, limit_us) != PAWL__CARRIED) {
        status = not_claimed(quorum);
    } else if (!agree_on_token(quorum, limit_us, token_out)) {
        status = pawl__quorum_fail_votes(
            quorum, panel, PAWL_UNAVAILABLE, "its token could not be written back to a majority");
    } else if (granted_until(quorum) <= pawl__now_us()) {
        status = pawl__quorum_fail_votes(quorum, panel, PAWL_UNAVAILABLE,
            "it was granted, but the lease was over by then; lease_ms must be longer than the way "
            "there and back");
    }
    if (status != PAWL_OK) {
        take_back(panel);
        return status;
    }
    pawl__panel_end(panel); /* slower nodes may still grant it */
    return PAWL_OK;
}

/* ===== While it is held ===== */

pawl_status pawl__round_extend(struct pawl__quorum *quorum, int64_t lease_us)
{
    struct pawl__panel *panel = &quorum->panel;
    pawl__panel_expire(panel);
    for (size_t i = 0; i < panel->count; i++) {
        struct pawl__ballot *ballot = &panel->ballots[i];
        struct pawl__node_hold hold;
        bool lost = false;
        if (pawl__node_look(ballot->node, &hold, &lost)) {
            ask_part(ballot, PAWL__WANT_EXTEND, lease_us, hold.id);
        } else {
            ballot->vote = PAWL__VOTE_NO;
            pawl__ballot_note(ballot, PAWL_NOT_HELD);
        }
    }
    const int64_t deadline_us = pawl__later(pawl__now_us(), quorum->timeout_us);
    pawl_status status = PAWL_OK;
    if (pawl__panel_wait(panel, PAWL__FOR_VERDICT, deadline_us) != PAWL__CARRIED) {
        status = PAWL_UNAVAILABLE;
        for (size_t i = 0; i < panel->count; i++) {
            const struct pawl__ballot *ballot = &panel->ballots[i];
            status =
                !ballot->apart && ballot->request.status == PAWL_INVALID ? PAWL_INVALID : status;
        }
        pawl__quorum_fail_votes(quorum, panel, status, "it was not extended by a majority");
    }
    pawl__panel_expire(panel);
    pawl__panel_end(panel);
    return status;
}

static void heal(struct pawl__ballot *ballot)
{
    struct pawl__node_hold hold;
    bool lost = false;
    if (pawl__ballot_is_out(ballot) || pawl__node_look(ballot->node, &hold, &lost) ||
        pawl__guard_admits(ballot->node) != PAWL__ADMITTED) {
        return;
    }
    if (lost) {
        ask_and_leave(ballot, PAWL__WANT_RELEASE, 0);
    }
    ballot->nudges = true;
    pawl__ballot_ask(ballot, PAWL__WANT_ACQUIRE, 0);
}

void pawl__round_heal(struct pawl__quorum *quorum)
{
    for (size_t i = 0; i < quorum->count; i++) {
        heal(&quorum->panel.ballots[i]);
    }
    pawl__panel_end(&quorum->panel);
}
