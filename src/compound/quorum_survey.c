/* SPDX-License-Identifier: Apache-2.0 */
/* For operators: who holds the lock, by the word of a majority, and taking it away at all servers.
 * These have a panel of their own, for somebody may be contending on the main one for long. */
#include "compound/quorum.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"

#include <string.h>

/* Ask all, and wait for all of them for a moment, and for a majority for longer. The panel is to be
 * ended by the caller. */
static pawl_status ask(struct pawl__quorum *quorum, struct pawl__panel *panel,
    enum pawl__request_kind kind, const char *what)
{
    if (!pawl__panel_init(panel, quorum)) {
        pawl__panel_fini(panel);
        return pawl__quorum_fail(quorum, PAWL_NO_MEMORY, "no memory or descriptor to ask with");
    }
    for (size_t i = 0; i < panel->count; i++) {
        pawl__ballot_ask(&panel->ballots[i], kind, 0);
    }
    const int64_t now_us = pawl__now_us();
    const int64_t deadline_us = pawl__later(now_us, quorum->timeout_us);
    pawl_status status = PAWL_OK;
    pawl__panel_wait(panel, PAWL__FOR_ALL, pawl__later(now_us, quorum->node_timeout_us));
    if (pawl__panel_wait(panel, PAWL__FOR_VERDICT, deadline_us) != PAWL__CARRIED) {
        bool stands = false;
        status = pawl__panel_reason(panel, &stands) == PAWL__REASON_REFUSED
                     ? pawl__quorum_fail_refused(quorum, panel)
                     : pawl__quorum_fail_votes(quorum, panel, PAWL_UNAVAILABLE, what);
    }
    pawl__panel_expire(panel);
    pawl__panel_end(panel);
    if (status != PAWL_OK) {
        pawl__panel_fini(panel);
    }
    return status;
}

/* One answer is added to what the others said. */
static void merge(pawl_lock_info *info, const pawl_lock_info *one, int64_t *left_out)
{
    info->token = one->token > info->token ? one->token : info->token;
    if (!one->held) {
        return;
    }
    if (info->holder[0] == '\0') {
        memcpy(info->holder, one->holder, sizeof info->holder);
        info->hold_count = one->hold_count;
    }
    *left_out = one->remaining_ms < 0 ? INT64_MAX : one->remaining_ms;
}

pawl_status pawl__quorum_inspect(
    struct pawl__quorum *quorum, uint64_t owner, pawl_lock_info *info_out)
{
    struct pawl__panel panel = {.wake_fd = -1};
    int64_t left_ms[PAWL__QUORUM_MAX] = {0};
    size_t held = 0;
    const pawl_status status =
        ask(quorum, &panel, PAWL__WANT_INSPECT, "no majority says who holds it");
    if (status != PAWL_OK) {
        return status;
    }
    for (size_t i = 0; i < panel.count; i++) {
        const struct pawl__ballot *ballot = &panel.ballots[i];
        if (ballot->vote == PAWL__VOTE_YES) {
            merge(info_out, &ballot->info, &left_ms[i]);
            held += ballot->info.held ? 1 : 0;
        }
    }
    const int64_t left = pawl__quorum_deadline(left_ms, panel.count);
    struct pawl__hold hold;
    info_out->held = held >= pawl__majority(panel.count);
    info_out->remaining_ms = left == INT64_MAX ? -1 : left;
    info_out->held_by_caller = pawl__quorum_look(quorum, owner, &hold) && hold.valid;
    pawl__panel_fini(&panel);
    return PAWL_OK;
}

pawl_status pawl__quorum_break(struct pawl__quorum *quorum)
{
    struct pawl__panel panel = {.wake_fd = -1};
    size_t broken = 0;
    pawl_status status = ask(quorum, &panel, PAWL__WANT_BREAK, "no majority has let it be broken");
    if (status != PAWL_OK) {
        return status;
    }
    for (size_t i = 0; i < panel.count; i++) {
        const struct pawl__ballot *ballot = &panel.ballots[i];
        broken += ballot->vote == PAWL__VOTE_YES && ballot->request.status == PAWL_OK ? 1 : 0;
    }
    if (broken == 0) {
        status = pawl__quorum_fail(quorum, PAWL_NOT_HELD, "nobody holds it");
    }
    pawl__panel_fini(&panel);
    return status;
}
