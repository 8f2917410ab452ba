/* SPDX-License-Identifier: Apache-2.0 */
/* A panel: the same question to many nodes at once, and a wait for as many answers as it takes.
 *
 * The caller that waits polls the connections of all nodes itself and completes what it reads, for
 * whomever it is, so nobody has to be woken for an answer. Meanwhile the clients' keepers need not
 * attend (pawl__attends); what is still under way when the caller leaves is handed to them.
 * An answer may also come by another thread that reads for such a client: every answer nudges the
 * panel's waiter.
 *
 * A ballot is out from the question to the call of its hook. Nothing of a ballot is looked at
 * before that but its `out`. */
#include "compound/quorum.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fds.h"

#include <string.h>

#define HOOK_US 10000 /* between two looks whether somebody has called a hook at last */

/* ===== Making ===== */

bool pawl__panel_init(struct pawl__panel *panel, struct pawl__quorum *quorum)
{
    pthread_mutex_init(&panel->mutex, NULL);
    pawl__waiter_init(&panel->waiter);
    panel->count = quorum->count;
    panel->ballots = pawl__alloc(quorum->count * sizeof *panel->ballots);
    panel->wake_fd = pawl__fd_eventfd();
    for (size_t i = 0; panel->ballots != NULL && i < panel->count; i++) {
        panel->ballots[i].panel = panel;
        panel->ballots[i].node = &quorum->nodes[i];
    }
    return panel->ballots != NULL && panel->wake_fd >= 0;
}

void pawl__panel_fini(struct pawl__panel *panel)
{
    for (size_t i = 0; panel->ballots != NULL && i < panel->count; i++) {
        pawl__free(panel->ballots[i].request.error);
        pawl__free(panel->ballots[i].trouble);
    }
    pawl__free(panel->ballots);
    pawl__fd_close(panel->wake_fd);
    pthread_mutex_destroy(&panel->mutex);
}

void pawl__panel_begin(struct pawl__panel *panel)
{
    for (size_t i = 0; i < panel->count; i++) {
        panel->ballots[i].vote = PAWL__VOTE_OPEN;
        panel->ballots[i].token = 0;
    }
}

/* ===== Asking ===== */

static void answered(struct pawl__request *request)
{
    struct pawl__ballot *ballot = PAWL__CONTAINER(request, struct pawl__ballot, request);
    struct pawl__panel *panel = ballot->panel;
    if (request->kind == PAWL__WANT_ACQUIRE) {
        ballot->node->granted_us = pawl__now_us();
        ballot->node->answers = request->status != PAWL_UNAVAILABLE;
    }
    pthread_mutex_lock(&panel->mutex);
    ballot->out = false;
    pawl__waiter_nudge(&panel->waiter);
    if (ballot->nudges) {
        ballot->nudges = false;
        pawl__waiter_nudge(&ballot->node->quorum->alarm);
    }
    pthread_mutex_unlock(&panel->mutex);
}

bool pawl__ballot_is_out(struct pawl__ballot *ballot)
{
    pthread_mutex_lock(&ballot->panel->mutex);
    const bool out = ballot->out;
    pthread_mutex_unlock(&ballot->panel->mutex);
    return out;
}

/* Be inside the client until the panel ends. */
static bool lend(struct pawl__ballot *ballot)
{
    if (!ballot->lent) {
        ballot->lent = pawl__call_enter(ballot->node->client);
    }
    return ballot->lent;
}

void pawl__ballot_ask(struct pawl__ballot *ballot, enum pawl__request_kind kind, int64_t number)
{
    struct pawl__request *request = &ballot->request;
    struct pawl_lock *lock = ballot->node->lock;
    pawl__free(request->error);
    *request = (struct pawl__request){
        .kind = kind, .handle = &lock->handle, .owner = lock->handle.owner, .hook = answered};
    ballot->claims = kind == PAWL__WANT_ACQUIRE;
    ballot->vote = PAWL__VOTE_OPEN;
    ballot->apart = false;
    ballot->pending = false;
    if (!lend(ballot)) {
        ballot->vote = PAWL__VOTE_SILENT;
        request->status = PAWL_MISUSE;
        request->error = pawl__strdup("its client is closed");
        return;
    }
    if (kind == PAWL__WANT_EXTEND) {
        request->lease_us = number;
    } else if (kind == PAWL__WANT_RAISE) {
        request->token = (uint64_t)number;
    } else if (kind == PAWL__WANT_ACQUIRE) {
        ballot->node->granted_us = PAWL__NEVER;
        ballot->node->answers = false;
    } else if (kind == PAWL__WANT_INSPECT) {
        ballot->info = (pawl_lock_info){.size = sizeof ballot->info};
        request->info_out = &ballot->info;
    }
    ballot->asked_us = pawl__now_us();
    ballot->out = true; /* nobody else looks yet */
    const bool attends = pawl__attends;
    pawl__attends = true;
    pawl__call_start(ballot->node->client, request);
    pawl__attends = attends;
}

/* ===== Judging ===== */

static enum pawl__vote vote_of(const struct pawl__request *request)
{
    switch (request->status) {
    case PAWL_OK:
        return PAWL__VOTE_YES;
    case PAWL_NOT_HELD:
        return request->kind == PAWL__WANT_BREAK ? PAWL__VOTE_YES : PAWL__VOTE_NO;
    case PAWL_BUSY:
    case PAWL_LOST:
    case PAWL_DEADLOCK:
        return PAWL__VOTE_NO;
    case PAWL_DENIED:
    case PAWL_REFUSED:
        return request->settled ? PAWL__VOTE_NEVER : PAWL__VOTE_SILENT;
    case PAWL_CANCELED:
    case PAWL_UNAVAILABLE:
    case PAWL_PROTOCOL:
    case PAWL_NO_MEMORY:
    case PAWL_INVALID:
    case PAWL_MISUSE:
    case PAWL_UNSUPPORTED:
        break;
    }
    return PAWL__VOTE_SILENT;
}

/* A fault is remembered, for the case that the next question is not answered at all. */
static void note_trouble(struct pawl__ballot *ballot)
{
    const bool fault = ballot->vote == PAWL__VOTE_SILENT || ballot->vote == PAWL__VOTE_NEVER;
    pawl__free(ballot->trouble);
    ballot->trouble =
        fault && ballot->request.error != NULL ? pawl__strdup(ballot->request.error) : NULL;
}

static void judge_grant(struct pawl__ballot *ballot, enum pawl__admission admission)
{
    ballot->pending = admission == PAWL__IN_REVIEW;
    if (admission == PAWL__IN_REVIEW) {
        ballot->vote = PAWL__VOTE_OPEN;
    } else if (admission == PAWL__BARRED) {
        ballot->vote = PAWL__VOTE_BARRED; /* it has restarted since it was asked */
    }
}

static void judge(struct pawl__ballot *ballot)
{
    struct pawl__node_hold hold = {0};
    bool lost = false;
    if (ballot->vote != PAWL__VOTE_OPEN || pawl__ballot_is_out(ballot)) {
        return;
    }
    ballot->vote = vote_of(&ballot->request);
    note_trouble(ballot);
    if (ballot->claims && ballot->vote == PAWL__VOTE_NO && pawl__guard_is_twin(ballot->node)) {
        ballot->vote = PAWL__VOTE_BARRED; /* it may be by our own grant that it is busy */
    }
    if (ballot->claims && ballot->vote == PAWL__VOTE_YES) {
        const bool held = pawl__node_look(ballot->node, &hold, &lost);
        ballot->token = held ? hold.token : 0;
        if (!held) {
            ballot->vote = PAWL__VOTE_SILENT; /* it is over already */
        } else {
            judge_grant(ballot, pawl__guard_counts(ballot->node, hold.id));
        }
    }
}

void pawl__panel_votes(const struct pawl__panel *panel, enum pawl__vote votes[PAWL__QUORUM_MAX])
{
    for (size_t i = 0; i < panel->count; i++) {
        votes[i] = panel->ballots[i].vote;
    }
}

enum pawl__verdict_now pawl__panel_judge(struct pawl__panel *panel, bool *open_out)
{
    enum pawl__vote votes[PAWL__QUORUM_MAX];
    for (size_t i = 0; i < panel->count; i++) {
        judge(&panel->ballots[i]);
    }
    pawl__panel_votes(panel, votes);
    *open_out = pawl__votes_count(votes, panel->count, PAWL__VOTE_OPEN) > 0;
    return pawl__votes_judge(votes, panel->count);
}

static size_t count_twins(const struct pawl__panel *panel)
{
    size_t twins = 0;
    for (size_t i = 0; i < panel->count; i++) {
        const struct pawl__ballot *ballot = &panel->ballots[i];
        const bool barred = ballot->vote == PAWL__VOTE_BARRED;
        twins += barred && pawl__guard_is_twin(ballot->node) ? 1 : 0;
    }
    return twins;
}

enum pawl__reason pawl__panel_reason(const struct pawl__panel *panel, bool *stands_out)
{
    enum pawl__vote votes[PAWL__QUORUM_MAX];
    const size_t twins = count_twins(panel);
    for (size_t i = 0; i < panel->count; i++) {
        const struct pawl__ballot *ballot = &panel->ballots[i];
        const bool pending = ballot->vote == PAWL__VOTE_OPEN && ballot->pending;
        votes[i] = pending ? PAWL__VOTE_BARRED : ballot->vote;
    }
    *stands_out = pawl__votes_reason_stands(votes, panel->count, twins);
    return pawl__votes_reason(votes, panel->count, twins);
}

bool pawl__panel_is_pending(const struct pawl__panel *panel)
{
    enum pawl__vote votes[PAWL__QUORUM_MAX];
    for (size_t i = 0; i < panel->count; i++) {
        const struct pawl__ballot *ballot = &panel->ballots[i];
        const bool pending = ballot->vote == PAWL__VOTE_OPEN && ballot->pending;
        votes[i] = pending ? PAWL__VOTE_YES : ballot->vote;
    }
    return pawl__votes_count(votes, panel->count, PAWL__VOTE_YES) >= pawl__majority(panel->count);
}

/* ===== Reading for all ===== */

static bool reads_for(const struct pawl__ballot *ballot)
{
    return ballot->lent && ballot->vote == PAWL__VOTE_OPEN &&
           ballot->node->client->engine->glance != NULL;
}

/* Wait for one of the nodes to say something, and read it. */
static void read_some(struct pawl__panel *panel, int64_t deadline_us)
{
    struct pollfd fds[1 + PAWL__QUORUM_MAX * PAWL__POLL_MAX];
    size_t first[PAWL__QUORUM_MAX] = {0};
    size_t fd_count = 1;
    int64_t due_us = deadline_us;
    for (size_t i = 0; i < panel->count; i++) {
        const struct pawl__ballot *ballot = &panel->ballots[i];
        const struct pawl_client *client = ballot->node->client;
        first[i] = fd_count;
        if (reads_for(ballot)) {
            fd_count += client->engine->glance(client->self, fds + fd_count, &due_us);
        }
    }
    pawl__waiter_poll(&panel->waiter, fds, fd_count, panel->wake_fd, due_us);
    const bool due = pawl__now_us() >= due_us;
    for (size_t i = 0; i < panel->count; i++) {
        const struct pawl_client *client = panel->ballots[i].node->client;
        const size_t end = i + 1 < panel->count ? first[i + 1] : fd_count;
        bool ready = due && reads_for(&panel->ballots[i]);
        for (size_t at = first[i]; at < end; at++) {
            ready = ready || fds[at].revents != 0;
        }
        if (ready) {
            client->engine->gather(client->self);
        }
    }
}

static bool is_enough(
    const struct pawl__panel *panel, enum pawl__verdict_now verdict, enum pawl__patience patience)
{
    bool stands = true;
    if (patience == PAWL__FOR_REASON && verdict == PAWL__FALLEN) {
        pawl__panel_reason(panel, &stands);
    }
    return patience != PAWL__FOR_ALL && verdict != PAWL__UNDECIDED && stands;
}

enum pawl__verdict_now pawl__panel_wait(
    struct pawl__panel *panel, enum pawl__patience patience, int64_t deadline_us)
{
    bool open = false;
    const bool attends = pawl__attends;
    enum pawl__verdict_now verdict = pawl__panel_judge(panel, &open);
    pawl__attends = true;
    bool enough = is_enough(panel, verdict, patience);
    while (open && !enough && pawl__now_us() < deadline_us) {
        read_some(panel, deadline_us);
        verdict = pawl__panel_judge(panel, &open);
        enough = is_enough(panel, verdict, patience);
    }
    pawl__attends = attends;
    panel->expired_us = open && !enough ? deadline_us : 0;
    return verdict;
}

/* ===== Ending ===== */

/* What is still under way there is for the keeper now. */
static void hand_over(struct pawl_client *client)
{
    struct pollfd fds[PAWL__POLL_MAX];
    int64_t due_us = PAWL__NEVER;
    if (client->engine->glance != NULL &&
        (client->engine->glance(client->self, fds, &due_us) > 0 || due_us != PAWL__NEVER)) {
        pawl__keeper_kick(client);
    }
}

void pawl__panel_end(struct pawl__panel *panel)
{
    for (size_t i = 0; i < panel->count; i++) {
        struct pawl__ballot *ballot = &panel->ballots[i];
        if (ballot->lent) {
            hand_over(ballot->node->client);
            ballot->lent = false;
            pawl__call_leave(ballot->node->client);
        }
    }
}

static void expire(struct pawl__ballot *ballot)
{
    struct pawl_client *client = ballot->node->client;
    if (!lend(ballot)) {
        return; /* a client that closes ends it by itself */
    }
    pawl__client_lock(client);
    pawl__machine_expire(&client->machine, &ballot->request, pawl__now_us());
    pawl__client_unlock(client, false);
}

void pawl__ballot_expire(struct pawl__ballot *ballot)
{
    if (pawl__ballot_is_out(ballot)) {
        expire(ballot);
    }
    while (pawl__ballot_is_out(ballot)) { /* another thread is just about to call its hook */
        pawl__waiter_sleep(&ballot->panel->waiter, pawl__now_us() + HOOK_US);
    }
}

void pawl__panel_expire(struct pawl__panel *panel)
{
    for (size_t i = 0; i < panel->count; i++) {
        pawl__ballot_expire(&panel->ballots[i]);
    }
}

void pawl__ballot_note(struct pawl__ballot *ballot, pawl_status status)
{
    pawl__free(ballot->request.error);
    ballot->request.error = NULL;
    ballot->request.status = status;
}

/* ===== One node by the clock ===== */

bool pawl__node_look(struct pawl__node *node, struct pawl__node_hold *hold_out, bool *lost_out)
{
    struct pawl_client *client = node->client;
    bool held = false;
    *lost_out = false;
    if (!pawl__call_enter(client)) {
        return false;
    }
    pawl__client_lock(client);
    const struct pawl__handle *handle = &node->lock->handle;
    const struct pawl__tenure *tenure =
        pawl__machine_find(&client->machine, handle, handle->owner, pawl__now_us());
    if (tenure != NULL) {
        held = tenure->state == PAWL__TENURE_HELD;
        *lost_out = !held;
        *hold_out = (struct pawl__node_hold){tenure->deadline_us, tenure->proven_us, tenure->token,
            tenure->id, tenure->until_us >= tenure->limit_us};
    }
    pawl__client_unlock(client, false);
    pawl__call_leave(client);
    return held;
}

void pawl__node_abandon(struct pawl__node *node)
{
    struct pawl_client *client = node->client;
    if (pawl__call_enter(client)) {
        pawl__client_lock(client);
        pawl__machine_owner_gone(&client->machine, node->lock->handle.owner, pawl__now_us());
        pawl__client_unlock(client, false);
        pawl__call_leave(client);
    }
}
