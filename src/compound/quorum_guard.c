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
 * thread that exists for as long as that takes. Until then the node does not vote. Since the
 * connection may have been made anew between the question and the grant, a grant is checked
 * again before it counts.
 *
 * The guard's mutex is taken after the quorum's and before a client's. */
#include "compound/quorum.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/thread.h"

#include <stdio.h>
#include <string.h>

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

/* ===== Voting ===== */

/* Guard's mutex held. */
static void describe(const struct pawl__standing *standing, char *out, size_t size)
{
    const int64_t left_us = standing->votes_us - pawl__now_us();
    const long long seconds = left_us / 1000000 + 1;
    if (!standing->reviewed) {
        snprintf(out, size, "has restarted, and is being looked at");
    } else if (standing->twin) {
        snprintf(out, size, "is the same server as another one of the quorum");
    } else if (left_us > 0 && standing->durable) {
        snprintf(out, size,
            "is durable, but its data is new, so holds may be forgotten, and it does not vote for "
            "%lld s more (it would with restart_guard 'warn' of the lock's options in C)",
            seconds);
    } else if (left_us > 0) {
        snprintf(out, size,
            "has restarted and may have forgotten holds, so it does not vote for %lld s more (it "
            "would with appendfsync always, with ?durable=1 in its URL, or, in C, with "
            "restart_guard "
            "'warn')",
            seconds);
    } else {
        snprintf(out, size, "is a replica");
    }
}

void pawl__guard_describe(const struct pawl__node *node, char *out, size_t size)
{
    pthread_mutex_lock(&node->quorum->guard_mutex);
    describe(&node->standing, out, size);
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
    pthread_mutex_unlock(&quorum->guard_mutex);
    return NULL;
}

/* Guard's mutex held. The thread before has finished, or is just about to. */
static void start_review(struct pawl__quorum *quorum)
{
    if (quorum->reviewing || quorum->review_ended) {
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

/* Guard's mutex held. */
static bool may_vote(
    struct pawl__node *node, const struct pawl__server_identity *identity, int64_t now_us)
{
    struct pawl__standing *standing = &node->standing;
    if (strcmp(standing->run_id, identity->run_id) != 0) {
        *standing = (struct pawl__standing){0};
        memcpy(standing->run_id, identity->run_id, sizeof standing->run_id);
    }
    if (!standing->reviewed) {
        start_review(node->quorum);
        return false;
    }
    return !standing->twin && !identity->replica && now_us >= standing->votes_us;
}

/* A node that would be barred votes all the same, and that is told once for each run. */
static bool only_warned(struct pawl__node *node)
{
    char sentence[400];
    char words[200];
    if (node->quorum->guard != PAWL_GUARD_WARN) {
        return false;
    }
    if (node->standing.reviewed && !node->standing.told) {
        node->standing.told = true;
        describe(&node->standing, words, sizeof words);
        snprintf(sentence, sizeof sentence, "%s %s, but is let vote: restart_guard is 'warn'",
            node->where, words);
        warn(node->quorum, sentence);
    }
    return !node->standing.twin;
}

bool pawl__guard_admits(struct pawl__node *node)
{
    struct pawl__quorum *quorum = node->quorum;
    struct pawl__server_identity identity;
    /* A server that has not been met yet is asked, and met by that. One that does not say who it is
     * (INFO is denied) cannot be guarded; its client has warned of that. */
    if (quorum->guard == PAWL_GUARD_OFF || !identify(node, &identity)) {
        return true;
    }
    pthread_mutex_lock(&quorum->guard_mutex);
    const bool admitted = may_vote(node, &identity, pawl__now_us()) || only_warned(node);
    pthread_mutex_unlock(&quorum->guard_mutex);
    return admitted;
}

bool pawl__guard_counts(struct pawl__node *node, uint64_t id)
{
    if (node->counted_id != id) {
        node->counted_id = pawl__guard_admits(node) ? id : 0;
    }
    return node->counted_id == id;
}

/* ===== Reviewing ===== */

/* One node under review. */
struct review {
    bool wanted;
    bool known;
    bool durable;
    bool twin;
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
        review->wanted =
            review->known && (!node->standing.reviewed ||
                                 strcmp(node->standing.run_id, review->identity.run_id) != 0);
        pthread_mutex_unlock(&quorum->guard_mutex);
        for (size_t other = 0; other < i && review->known; other++) {
            review->twin =
                review->twin || (reviews[other].known && strcmp(reviews[other].identity.run_id,
                                                             review->identity.run_id) == 0);
        }
    }
}

static bool needs_notes(const struct review *review)
{
    return review->wanted && !review->twin;
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
        if (review->wanted) {
            *standing = (struct pawl__standing){.reviewed = true,
                .durable = review->durable,
                .twin = review->twin,
                .votes_us = now_us + pawl__quarantine_us(review->age_us, quorum->max_lease_us)};
            memcpy(standing->run_id, review->identity.run_id, sizeof standing->run_id);
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
        if (reviews[i].twin) {
            pawl__fail(PAWL_INVALID,
                "%s is the same server as another one of the quorum; each must be a server of its "
                "own",
                where);
        } else if (reviews[i].known && reviews[i].identity.replica) {
            pawl__fail(PAWL_REFUSED, "%s is a replica and cannot vote; name its master", where);
        } else {
            continue;
        }
        write_down(quorum, reviews);
        return reviews[i].twin ? PAWL_INVALID : PAWL_REFUSED;
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
