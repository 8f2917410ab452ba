/* SPDX-License-Identifier: Apache-2.0 */
/* The restart guard: who may vote. What has to be found out for that, quorum_review.c does.
 *
 * A server that keeps its data in memory alone forgets what it had granted when it restarts. If it
 * voted at once, two holders could each have a majority. So it does not vote before max_lease have
 * passed since its present run was first seen: by then every hold that it may have forgotten is
 * over.
 *
 * A durable server forgets nothing, and votes at once. But that it is configured so says nothing of
 * the runs before: its disk may be a new one. So it keeps a note of itself among its data, and
 * counts as being as old as that; without one it waits as any other.
 *
 * "First seen" must not be forgotten with us, nor with that server, so it is noted at the others. A
 * run that nobody has noted is as old as the server says, provided that its clock, by which it says
 * so, agrees with ours; otherwise it counts as new.
 *
 * A server whose wall clock has jumped is like one that has forgotten: leases may have ended there
 * that everybody else counts on. Every acquire brings a look at that clock (quorum_clock.h says
 * what is a jump); when it has jumped, that server does not vote for max_lease either, durable or
 * not. What is held there already stays what it is, for its end by our clock is no later than that,
 * and until then nobody who guards, too, counts a grant of that server. If the part is gone, the
 * next renewal says so; if that says that it is there, it never was not. To be asked again for a
 * part that is gone, the server has to be fit to vote, as for a new one. A jump back, by which
 * leases last longer, is treated alike: there may have been one forward that nobody has seen.
 *
 * Who a server is, its connection knows from its greeting: pawl__guard_admits() asks that on every
 * vote and waits for nothing. A run that is new is reviewed: at open by the caller, later by a
 * thread that exists for as long as that takes. Until then its vote is pending: it is asked, and
 * what it grants counts, or is taken back, when the review is over. Since the connection may have
 * been made anew between the question and the grant, a grant is checked again before it counts.
 *
 * Whatever the setting: one server has one vote, by whichever of its names it was met first, and a
 * replica has none. At open they are refused; a client that is lazy meets its server later.
 *
 * The guard's mutex is taken after the quorum's and before a client's. */
#include "compound/quorum.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/thread.h"

#include <stdio.h>
#include <string.h>

#define MARGIN_S 3 /* another process may find it younger: uptimes are whole seconds */

bool pawl__guard_identify(const struct pawl__node *node, struct pawl__server_identity *identity_out)
{
    struct pawl_client *client = node->client;
    if (client->engine->identity == NULL || !pawl__call_enter(client)) {
        return false;
    }
    const bool known = client->engine->identity(client->self, identity_out);
    pawl__call_leave(client);
    return known;
}

/* ===== Who is there; guard's mutex held ===== */

/* A run that was not there before is to be reviewed. Its clock is the old one: a jump concerns also
 * what a durable server has kept. */
void pawl__guard_meet(struct pawl__node *node, const struct pawl__server_identity *identity)
{
    struct pawl__standing *standing = &node->standing;
    if (strcmp(standing->run_id, identity->run_id) != 0) {
        const struct pawl__standing_clock clock = standing->clock;
        *standing = (struct pawl__standing){.met = ++node->quorum->met,
            .votes_us = clock.jumped_us != 0 ? standing->votes_us : 0,
            .clock = clock};
        memcpy(standing->run_id, identity->run_id, sizeof standing->run_id);
    }
    standing->replica = identity->replica;
}

const struct pawl__node *pawl__guard_twin(const struct pawl__node *node)
{
    const struct pawl__quorum *quorum = node->quorum;
    const struct pawl__standing *standing = &node->standing;
    for (size_t i = 0; i < quorum->count && standing->met > 0; i++) {
        const struct pawl__standing *other = &quorum->nodes[i].standing;
        if (other->met > 0 && other->met < standing->met &&
            strcmp(other->run_id, standing->run_id) == 0) {
            return &quorum->nodes[i];
        }
    }
    return NULL;
}

bool pawl__guard_is_twin(struct pawl__node *node)
{
    struct pawl__server_identity identity;
    const bool known = pawl__guard_identify(node, &identity);
    pthread_mutex_lock(&node->quorum->guard_mutex);
    if (known) {
        pawl__guard_meet(node, &identity);
    }
    const bool twin = pawl__guard_twin(node) != NULL;
    pthread_mutex_unlock(&node->quorum->guard_mutex);
    return twin;
}

/* The runs that were met so far are no majority: nothing can be decided yet, and those that will be
 * met in a moment know of them. */
static bool are_too_few(const struct pawl__quorum *quorum)
{
    size_t met = 0;
    for (size_t i = 0; i < quorum->count; i++) {
        met += quorum->nodes[i].standing.met > 0 ? 1 : 0;
    }
    return met < pawl__majority(quorum->count);
}

/* ===== Voting ===== */

/* Leases that were given before the clock jumped may still be counted on. */
static bool is_jump_recent(const struct pawl__node *node, int64_t now_us)
{
    const int64_t jumped_us = node->standing.clock.jumped_us;
    return jumped_us != 0 && now_us < jumped_us + node->quorum->max_lease_us;
}

static void describe_jump(
    const struct pawl__node *node, long long seconds, const char *advice, char *out, size_t size)
{
    const struct pawl__standing_clock *clock = &node->standing.clock;
    char by[32] = "";
    if (clock->by_us != 0) {
        snprintf(by, sizeof by, " by %+.1f s", (double)clock->by_us / 1e6);
    }
    snprintf(out, size,
        "has a clock that jumped%s%s%s and may have ended leases early, so it does not vote for "
        "%lld s more%s",
        by, clock->rival != NULL ? ", unless it was that of " : "",
        clock->rival != NULL ? clock->rival->where : "", seconds, advice);
}

/* Why it does not vote, and what to do about it. Guard's mutex held. */
static void describe(const struct pawl__node *node, bool advise, char *out, size_t size)
{
    const struct pawl__standing *standing = &node->standing;
    const struct pawl__node *twin = pawl__guard_twin(node);
    const int64_t now_us = pawl__now_us();
    const int64_t left_us = standing->votes_us - now_us;
    const long long seconds = left_us / 1000000 + 1;
    char advice[80] = "";
    if (advise) {
        snprintf(advice, sizeof advice, "; wait for it (wait_ms, or pawl run -w %lld)",
            seconds + MARGIN_S);
    }
    if (twin != NULL) {
        snprintf(out, size, "is the same server as another one of the quorum (%s)", twin->where);
    } else if (standing->replica) {
        snprintf(out, size, "is a replica");
    } else if (is_jump_recent(node, now_us)) {
        describe_jump(node, seconds, advice, out, size);
    } else if (!standing->reviewed && are_too_few(node->quorum)) {
        snprintf(out, size, "has answered; whether it may vote can be checked when a majority has");
    } else if (!standing->reviewed) {
        snprintf(out, size, "is new here, and being looked at%s",
            advise ? "; ask again, or wait (wait_ms, or pawl run -w 5)" : "");
    } else if (left_us > 0 && standing->durable) {
        snprintf(out, size,
            "is durable, but its data is new, so holds may be forgotten, and it does not vote for "
            "%lld s more%s",
            seconds, advice);
    } else if (left_us > 0) {
        snprintf(out, size,
            "has restarted and may have forgotten holds, so it does not vote for %lld s more%s",
            seconds, advice);
    } else {
        snprintf(out, size, "may vote by now; ask again");
    }
}

bool pawl__guard_describe(const struct pawl__node *node, bool advise, char *out, size_t size)
{
    pthread_mutex_lock(&node->quorum->guard_mutex);
    const bool passes = pawl__guard_twin(node) == NULL && !node->standing.replica;
    describe(node, advise, out, size);
    pthread_mutex_unlock(&node->quorum->guard_mutex);
    return passes;
}

/* The user hears it from the courier, who holds no mutex. */
static void warn(const struct pawl__quorum *quorum, const char *sentence)
{
    struct pawl__host *host = &quorum->nodes[0].client->host;
    host->log(host, PAWL_LOG_WARNING, sentence);
}

static void *review_later(void *arg)
{
    struct pawl__quorum *quorum = arg;
    pawl__guard_review(quorum);
    pthread_mutex_lock(&quorum->guard_mutex);
    quorum->reviewing = false;
    pawl__waiter_nudge(&quorum->panel.waiter); /* who has asked meanwhile, and waits for this */
    pthread_mutex_unlock(&quorum->guard_mutex);
    return NULL;
}

/* Guard's mutex held. The thread before has finished, or is just about to. */
static void start_review(struct pawl__quorum *quorum)
{
    if (quorum->reviewing || quorum->review_ended || are_too_few(quorum)) {
        return;
    }
    if (quorum->reviewer_started) {
        pthread_join(quorum->reviewer, NULL);
    }
    quorum->reviewing = true;
    quorum->reviewer_started =
        pawl__thread_start(&quorum->reviewer, "pawl-guard", review_later, quorum);
    quorum->reviewing = quorum->reviewer_started;
}

/* Told once for each run, and for each jump. Guard's mutex held. */
static void tell(struct pawl__node *node, const char *consequence)
{
    char sentence[500];
    char words[320];
    if (!node->standing.told) {
        node->standing.told = true;
        describe(node, false, words, sizeof words);
        snprintf(sentence, sizeof sentence, "%s %s%s", node->where, words, consequence);
        warn(node->quorum, sentence);
    }
}

void pawl__guard_bar(
    struct pawl__node *node, int64_t jumped_us, int64_t by_us, const struct pawl__node *rival)
{
    struct pawl__standing *standing = &node->standing;
    standing->clock.jumped_us = jumped_us;
    standing->clock.by_us = by_us;
    standing->clock.rival = rival;
    standing->votes_us = pawl__max64(standing->votes_us, jumped_us + node->quorum->max_lease_us);
    standing->told = false;
    if (node->quorum->guard == PAWL_GUARD_ENFORCE) {
        tell(node, "");
    }
}

void pawl__guard_watch_clock(
    struct pawl__node *node, const struct pawl__clock_sample *sample, bool aside)
{
    struct pawl__standing *standing = &node->standing;
    const struct pawl__offset found = pawl__offset_of(sample);
    int64_t by_us = 0;
    if (!found.known || pawl__sample_is_old(sample, &standing->clock.newest, aside)) {
        return;
    }
    standing->clock.newest = *sample;
    if (pawl__offset_jumped(&standing->clock.offset, &found, &by_us)) {
        standing->clock.offset = found;
        standing->reviewed = false;
        standing->clock.untold = true;
        pawl__guard_bar(node, pawl__now_us(), by_us, NULL);
    } else {
        standing->clock.offset = pawl__offset_narrowed(&standing->clock.offset, &found);
    }
}

/* What the last acquire has brought, each only once. Guard's mutex held. */
static void look_at_clock(struct pawl__node *node, const struct pawl__clock_sample *sample)
{
    struct pawl__standing_clock *clock = &node->standing.clock;
    if (sample->clock_us != 0 && sample->heard_us != clock->looked_us) {
        clock->looked_us = sample->heard_us;
        pawl__guard_watch_clock(node, sample, false);
    }
}

/* By how long it has been there, and what its clock did. Guard's mutex held. */
static enum pawl__admission admit(struct pawl__node *node, int64_t now_us)
{
    const struct pawl__standing *standing = &node->standing;
    const bool only_warned = node->quorum->guard == PAWL_GUARD_WARN;
    const bool early = now_us < standing->votes_us;
    if (!standing->reviewed) {
        start_review(node->quorum);
    }
    if (!early) {
        return standing->reviewed || only_warned ? PAWL__ADMITTED : PAWL__IN_REVIEW;
    }
    if (only_warned) {
        tell(node, ", but is let vote: restart_guard is 'warn'");
    }
    return only_warned ? PAWL__ADMITTED : PAWL__BARRED;
}

enum pawl__admission pawl__guard_admits(struct pawl__node *node)
{
    struct pawl__quorum *quorum = node->quorum;
    struct pawl__server_identity identity;
    enum pawl__admission admission = PAWL__ADMITTED;
    /* A server that has not been met yet is asked, and met by that. One that does not say who it is
     * (INFO is denied) cannot be guarded; its client has warned of that. */
    if (!pawl__guard_identify(node, &identity)) {
        return admission;
    }
    pthread_mutex_lock(&quorum->guard_mutex);
    pawl__guard_meet(node, &identity);
    if (identity.replica || pawl__guard_twin(node) != NULL) { /* whatever the setting */
        tell(node, ", and does not vote; each must be a server of its own");
        admission = PAWL__BARRED;
    } else if (quorum->guard != PAWL_GUARD_OFF) {
        look_at_clock(node, &identity.sample);
        admission = admit(node, pawl__now_us());
    }
    pthread_mutex_unlock(&quorum->guard_mutex);
    return admission;
}

enum pawl__admission pawl__guard_counts(struct pawl__node *node, uint64_t id)
{
    if (node->counted_id == id) {
        return PAWL__ADMITTED;
    }
    const enum pawl__admission admission = pawl__guard_admits(node);
    node->counted_id = admission == PAWL__ADMITTED ? id : 0;
    return admission;
}

/* ===== The end ===== */

void pawl__guard_stop(struct pawl__quorum *quorum)
{
    pthread_mutex_lock(&quorum->guard_mutex);
    quorum->review_ended = true;
    const bool started = quorum->reviewer_started;
    pthread_mutex_unlock(&quorum->guard_mutex);
    if (started) {
        pthread_join(quorum->reviewer, NULL);
    }
}
