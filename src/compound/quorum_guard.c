/* SPDX-License-Identifier: Apache-2.0 */
/* The restart guard.
 *
 * A server that keeps its data in memory alone forgets what it had granted when it restarts. If it
 * voted at once, two holders could each have a majority. So it does not vote before max_lease have
 * passed since its present run was first seen: by then every hold that it may have forgotten is
 * over.
 *
 * A durable server forgets nothing, and votes at once. But that it is configured so says nothing of
 * the runs before: its disk may be a new one. So it keeps a note of itself (DATA_NOTE) among its
 * data, and counts as being as old as that; without one it waits as any other.
 *
 * "First seen" must not be forgotten with us, nor with that server, so it is noted at the others. A
 * run that nobody has noted is as old as the server says, provided that its clock, by which it says
 * so, agrees with ours; otherwise it counts as new.
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

#define MARGIN_S 3          /* another process may find it younger: uptimes are whole seconds */
#define DATA_NOTE "durable" /* since when a server has kept everything */

/* Who the server of this node is. False: not known. */
static bool identify(const struct pawl__node *node, struct pawl__server_identity *identity_out)
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

/* A run that was not there before is to be reviewed. */
static void meet(struct pawl__node *node, const struct pawl__server_identity *identity)
{
    struct pawl__standing *standing = &node->standing;
    if (strcmp(standing->run_id, identity->run_id) != 0) {
        *standing = (struct pawl__standing){.met = ++node->quorum->met};
        memcpy(standing->run_id, identity->run_id, sizeof standing->run_id);
    }
    standing->replica = identity->replica;
}

/* Another node that is the same server, and was met before this one, which therefore has no vote.
 * NULL: there is none. */
static const struct pawl__node *twin_of(const struct pawl__node *node)
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

bool pawl__guard_is_twin(const struct pawl__node *node)
{
    pthread_mutex_lock(&node->quorum->guard_mutex);
    const bool twin = twin_of(node) != NULL;
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

/* Why it does not vote, and what to do about it. Guard's mutex held. */
static void describe(const struct pawl__node *node, bool advise, char *out, size_t size)
{
    const struct pawl__standing *standing = &node->standing;
    const struct pawl__node *twin = twin_of(node);
    const int64_t left_us = standing->votes_us - pawl__now_us();
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
    } else if (!standing->reviewed && are_too_few(node->quorum)) {
        snprintf(out, size, "has answered, but too few others have");
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

void pawl__guard_describe(const struct pawl__node *node, char *out, size_t size)
{
    pthread_mutex_lock(&node->quorum->guard_mutex);
    describe(node, true, out, size);
    pthread_mutex_unlock(&node->quorum->guard_mutex);
}

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

/* Told once for each run. Guard's mutex held. */
static void tell(struct pawl__node *node, const char *consequence)
{
    char sentence[400];
    char words[200];
    if (!node->standing.told) {
        node->standing.told = true;
        describe(node, false, words, sizeof words);
        snprintf(sentence, sizeof sentence, "%s %s, %s", node->where, words, consequence);
        warn(node->quorum, sentence);
    }
}

/* By how long it has been there. Guard's mutex held. */
static enum pawl__admission admit(struct pawl__node *node, int64_t now_us)
{
    const struct pawl__standing *standing = &node->standing;
    const bool only_warned = node->quorum->guard == PAWL_GUARD_WARN;
    if (!standing->reviewed) {
        start_review(node->quorum);
        return only_warned ? PAWL__ADMITTED : PAWL__IN_REVIEW;
    }
    if (now_us >= standing->votes_us) {
        return PAWL__ADMITTED;
    }
    if (only_warned) {
        tell(node, "but is let vote: restart_guard is 'warn'");
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
    if (!identify(node, &identity)) {
        return admission;
    }
    pthread_mutex_lock(&quorum->guard_mutex);
    meet(node, &identity);
    if (identity.replica || twin_of(node) != NULL) { /* whatever the setting */
        tell(node, "and does not vote; each must be a server of its own");
        admission = PAWL__BARRED;
    } else if (quorum->guard != PAWL_GUARD_OFF) {
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

/* ===== Reviewing ===== */

/* One node under review. */
struct review {
    bool wanted;
    bool known;
    bool durable;
    const struct pawl__node *twin;
    int64_t age_us; /* < 0: nobody has noted it */
    struct pawl__server_identity identity;
};

static bool is_stopped(struct pawl__quorum *quorum)
{
    pthread_mutex_lock(&quorum->guard_mutex);
    const bool stopped = quorum->review_ended;
    pthread_mutex_unlock(&quorum->guard_mutex);
    return stopped;
}

/* Who is there, and whose run is new? */
static void take_stock(struct pawl__quorum *quorum, struct review reviews[PAWL__QUORUM_MAX])
{
    for (size_t i = 0; i < quorum->count; i++) {
        struct pawl__node *node = &quorum->nodes[i];
        struct review *review = &reviews[i];
        review->age_us = -1;
        review->known = identify(node, &review->identity);
        pthread_mutex_lock(&quorum->guard_mutex);
        if (review->known) {
            meet(node, &review->identity);
            review->wanted = !node->standing.reviewed;
            review->twin = twin_of(node);
        }
        pthread_mutex_unlock(&quorum->guard_mutex);
    }
}

static bool needs_notes(const struct review *review)
{
    return review->wanted && review->twin == NULL;
}

/* What one server knows of the others, and of its own data; with `noting` it also learns. */
static void consult(struct pawl__quorum *quorum, struct review reviews[PAWL__QUORUM_MAX],
    size_t witness, bool noting)
{
    struct pawl__sighting sightings[PAWL__QUORUM_MAX];
    size_t of[PAWL__QUORUM_MAX];
    size_t count = 0;
    struct pawl_client *client = quorum->nodes[witness].client;
    for (size_t i = 0; i < quorum->count; i++) {
        const struct review *review = &reviews[i];
        const bool itself = i == witness;
        if (needs_notes(review) && (!itself || review->durable)) {
            of[count] = i;
            sightings[count++] =
                (struct pawl__sighting){itself ? DATA_NOTE : review->identity.run_id,
                    noting ? review->age_us : -1, -1, itself};
        }
    }
    if (count == 0 || !reviews[witness].known || client->engine->seen == NULL ||
        is_stopped(quorum) || !pawl__call_enter(client)) {
        return;
    }
    const pawl_status status = client->engine->seen(client->self, sightings, count);
    pawl__call_leave(client);
    if (status != PAWL_OK) {
        return;
    }
    for (size_t i = 0; i < count; i++) {
        reviews[of[i]].age_us = pawl__max64(reviews[of[i]].age_us, sightings[i].age_us);
    }
}

/* Whose run nobody has noted is as old as the server says, if it can be believed. */
static void believe(struct review *review)
{
    const struct pawl__server_identity *identity = &review->identity;
    if (needs_notes(review) && review->age_us < 0) {
        review->age_us =
            pawl__uptime_believed_us(identity->uptime_us, identity->clock_us, identity->wall_us) +
            (pawl__now_us() - identity->read_us);
    }
}

static void write_down(struct pawl__quorum *quorum, const struct review reviews[PAWL__QUORUM_MAX])
{
    const int64_t now_us = pawl__now_us();
    pthread_mutex_lock(&quorum->guard_mutex);
    for (size_t i = 0; i < quorum->count; i++) {
        struct pawl__standing *standing = &quorum->nodes[i].standing;
        const struct review *review = &reviews[i];
        if (review->wanted && strcmp(standing->run_id, review->identity.run_id) == 0) {
            standing->reviewed = true;
            standing->durable = review->durable;
            standing->votes_us = now_us + pawl__quarantine_us(review->age_us, quorum->max_lease_us);
        }
    }
    pthread_mutex_unlock(&quorum->guard_mutex);
}

static void look_around(struct pawl__quorum *quorum, struct review reviews[PAWL__QUORUM_MAX])
{
    take_stock(quorum, reviews);
    for (size_t i = 0; i < quorum->count && !is_stopped(quorum); i++) {
        struct pawl_client *client = quorum->nodes[i].client;
        if (reviews[i].wanted && client->engine->durable != NULL && pawl__call_enter(client)) {
            client->engine->durable(client->self, &reviews[i].durable); /* a fault: it is not */
            pawl__call_leave(client);
        }
    }
    for (size_t i = 0; i < quorum->count; i++) {
        consult(quorum, reviews, i, false);
    }
    for (size_t i = 0; i < quorum->count; i++) {
        believe(&reviews[i]);
    }
    for (size_t i = 0; i < quorum->count; i++) {
        consult(quorum, reviews, i, true);
    }
}

pawl_status pawl__guard_review(struct pawl__quorum *quorum)
{
    struct review reviews[PAWL__QUORUM_MAX] = {{0}};
    if (quorum->guard == PAWL_GUARD_OFF) {
        take_stock(quorum, reviews);
    } else {
        look_around(quorum, reviews);
    }
    for (size_t i = 0; i < quorum->count; i++) {
        const char *where = quorum->nodes[i].where;
        if (reviews[i].twin != NULL) {
            pawl__fail(PAWL_INVALID,
                "%s is the same server as another one of the quorum (%s); each must be a server of "
                "its own",
                where, reviews[i].twin->where);
        } else if (reviews[i].known && reviews[i].identity.replica) {
            pawl__fail(PAWL_REFUSED, "%s is a replica and cannot vote; name its master", where);
        } else {
            continue;
        }
        write_down(quorum, reviews);
        return reviews[i].twin != NULL ? PAWL_INVALID : PAWL_REFUSED;
    }
    write_down(quorum, reviews);
    return PAWL_OK;
}

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
