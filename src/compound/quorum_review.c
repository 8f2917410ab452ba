/* SPDX-License-Identifier: Apache-2.0 */
/* The review of servers that the guard (quorum_guard.c) has not met before: since when is this run
 * there, does it forget anything, and has its clock jumped?
 *
 * Since when: the others have noted it, and are asked first; what they do not know, they are told.
 *
 * Whether its clock has jumped before we came cannot be seen from here. So the others also note how
 * far its clock is ahead of theirs, whenever somebody comes by. If that has changed more than drift
 * explains, one of the two has jumped: it is suspect if more than half of those that can compare
 * say so. Then it waits, the others note when that was found, and how far apart the clocks are now.
 * Who comes later finds that note and waits no longer than need be. A jump that was seen by us
 * while we watched is noted in the same way; the notes of all servers are written anew then, for
 * those that the server with the jump keeps of the others are wrong, too.
 *
 * A note is by the clock of who keeps it, which may jump, too: that of the oldest sighting counts,
 * but that of the latest jump. */
#include "compound/quorum.h"

#include "base/clock.h"
#include "base/error.h"

#include <string.h>

#define DATA_NOTE "durable" /* since when a server has kept everything */

/* One node under review. */
struct review {
    bool known;
    bool wanted; /* something is to be found out */
    bool noted;  /* notes of it are read and written */
    bool durable;
    bool suspect;      /* its clock differs from others' in another way than it did, */
    int64_t by_us;     /* by about so much */
    size_t compared;   /* with so many, */
    size_t rival;      /* the last of which is this one */
    int64_t jumped_us; /* it jumped so long ago, as far as anybody knows; < 0: it did not */
    int64_t age_us;    /* < 0: nobody has noted it */
    const struct pawl__node *twin;
    struct pawl__server_identity identity;
    struct pawl__standing_clock clock;
    struct pawl__clock_note notes[PAWL__QUORUM_MAX]; /* of its clock, by each of the others */
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
    bool any_news = false;
    for (size_t i = 0; i < quorum->count; i++) {
        struct pawl__node *node = &quorum->nodes[i];
        struct review *review = &reviews[i];
        review->age_us = -1;
        review->jumped_us = -1;
        review->known = pawl__guard_identify(node, &review->identity);
        pthread_mutex_lock(&quorum->guard_mutex);
        if (review->known) {
            pawl__guard_meet(node, &review->identity);
            review->wanted = !node->standing.reviewed;
            review->twin = pawl__guard_twin(node);
            review->clock = node->standing.clock;
        }
        pthread_mutex_unlock(&quorum->guard_mutex);
        any_news = any_news || review->clock.untold;
        for (size_t witness = 0; witness < quorum->count; witness++) {
            review->notes[witness].age_us = -1;
            review->notes[witness].jumped_us = -1;
        }
    }
    for (size_t i = 0; i < quorum->count; i++) {
        struct review *review = &reviews[i];
        review->noted = review->known && review->twin == NULL && (review->wanted || any_news);
    }
}

/* ===== What the others know ===== */

/* How the clocks of two differ, to be noted by one of them. */
static struct pawl__clock_note note_clock(const struct review *one, const struct review *other)
{
    const struct pawl__offset between =
        pawl__offset_between(&one->clock.offset, &other->clock.offset, pawl__now_us());
    return (struct pawl__clock_note){
        between.least_us, between.most_us, between.known ? 0 : -1, one->jumped_us};
}

/* What is asked of one server, of the others and of its own data; with `noting` it also learns.
 * Answers how much that is, and of whom. */
static size_t make_questions(const struct pawl__quorum *quorum, const struct review reviews[],
    size_t witness, bool noting, struct pawl__sighting sightings[PAWL__QUORUM_MAX],
    size_t of[PAWL__QUORUM_MAX])
{
    size_t count = 0;
    for (size_t i = 0; i < quorum->count; i++) {
        const struct review *review = &reviews[i];
        const bool itself = i == witness;
        if (review->noted && (!itself || review->durable)) {
            of[count] = i;
            sightings[count] =
                (struct pawl__sighting){.run_id = itself ? DATA_NOTE : review->identity.run_id,
                    .note_us = noting ? review->age_us : -1,
                    .age_us = -1,
                    .lasting = itself,
                    .clock = {.age_us = -1}};
            if (noting && !itself) {
                sightings[count].clock = note_clock(review, &reviews[witness]);
            }
            count++;
        }
    }
    return count;
}

static void consult(struct pawl__quorum *quorum, struct review reviews[PAWL__QUORUM_MAX],
    size_t witness, bool noting)
{
    struct pawl__sighting sightings[PAWL__QUORUM_MAX];
    struct pawl__clock_sample sample;
    size_t of[PAWL__QUORUM_MAX];
    struct pawl__node *node = &quorum->nodes[witness];
    struct pawl_client *client = node->client;
    const size_t count = make_questions(quorum, reviews, witness, noting, sightings, of);
    if (count == 0 || !reviews[witness].known || client->engine->seen == NULL ||
        is_stopped(quorum) || !pawl__call_enter(client)) {
        return;
    }
    const pawl_status status = client->engine->seen(client->self, sightings, count, &sample);
    pawl__call_leave(client);
    if (status != PAWL_OK) {
        return;
    }
    pthread_mutex_lock(&quorum->guard_mutex);
    pawl__guard_watch_clock(node, &sample, true);
    pthread_mutex_unlock(&quorum->guard_mutex);
    for (size_t i = 0; i < count; i++) {
        struct review *review = &reviews[of[i]];
        review->age_us = pawl__max64(review->age_us, sightings[i].age_us);
        if (!noting && of[i] != witness) {
            review->notes[witness] = sightings[i].clock;
        }
    }
}

/* ===== What follows ===== */

/* Whose run nobody has noted is as old as the server says, if it can be believed. */
static void believe(struct review *review)
{
    const struct pawl__server_identity *identity = &review->identity;
    if (review->noted && review->age_us < 0) {
        review->age_us =
            pawl__uptime_believed_us(identity->uptime_us, identity->clock_us, identity->wall_us) +
            (pawl__now_us() - identity->read_us);
    }
}

/* Does its clock still differ from the others' as it did? If it was seen to jump by us, it is asked
 * whether that was it, or our own clock, which stops with a machine that is paused: then nothing
 * has changed between the servers. We wait all the same, but tell nobody. */
static void compare_clocks(
    const struct pawl__quorum *quorum, struct review reviews[PAWL__QUORUM_MAX], size_t subject)
{
    struct review *review = &reviews[subject];
    const int64_t now_us = pawl__now_us();
    size_t differing = 0;
    review->compared = 0;
    for (size_t i = 0; i < quorum->count; i++) {
        const struct pawl__clock_note *note = &review->notes[i];
        const struct pawl__offset noted = {
            note->least_us, note->most_us, now_us - note->age_us, note->age_us >= 0};
        const struct pawl__offset between =
            pawl__offset_between(&review->clock.offset, &reviews[i].clock.offset, now_us);
        if (noted.known && between.known && (review->clock.untold || !reviews[i].clock.untold)) {
            int64_t by_us = 0;
            const bool differs = pawl__offset_jumped(&noted, &between, &by_us);
            review->compared++;
            review->rival = i;
            differing += differs ? 1 : 0;
            review->by_us = differs ? by_us : review->by_us;
        }
    }
    review->suspect = review->wanted && (pawl__clock_is_suspect(differing, review->compared) ||
                                            (review->clock.untold && review->compared == 0));
}

/* When did it jump, as far as anybody knows? */
static void find_jump(const struct pawl__quorum *quorum, struct review *review)
{
    for (size_t i = 0; i < quorum->count; i++) {
        const int64_t noted_us = review->notes[i].jumped_us;
        if (noted_us >= 0 && (review->jumped_us < 0 || noted_us < review->jumped_us)) {
            review->jumped_us = noted_us;
        }
    }
    if (review->suspect) {
        review->jumped_us = review->clock.untold ? pawl__now_us() - review->clock.jumped_us : 0;
    }
}

static void judge_clocks(struct pawl__quorum *quorum, struct review reviews[PAWL__QUORUM_MAX])
{
    pthread_mutex_lock(&quorum->guard_mutex);
    for (size_t i = 0; i < quorum->count; i++) {
        reviews[i].clock = quorum->nodes[i].standing.clock; /* with the last look */
    }
    pthread_mutex_unlock(&quorum->guard_mutex);
    for (size_t i = 0; i < quorum->count; i++) {
        compare_clocks(quorum, reviews, i);
        find_jump(quorum, &reviews[i]);
    }
}

/* Of two that can only be compared with each other, both wait, and one of them for nothing. */
static const struct pawl__node *find_rival(const struct pawl__quorum *quorum,
    const struct review reviews[PAWL__QUORUM_MAX], const struct review *review)
{
    const bool alone = review->compared == 1 && reviews[review->rival].jumped_us >= 0;
    return alone ? &quorum->nodes[review->rival] : NULL;
}

/* Guard's mutex held. */
static void write_down_one(struct pawl__node *node, const struct review *review,
    const struct pawl__node *rival, int64_t now_us)
{
    struct pawl__standing *standing = &node->standing;
    const int64_t max_lease_us = node->quorum->max_lease_us;
    const int64_t wait_us = pawl__quarantine_us(review->age_us, max_lease_us);
    standing->durable = review->durable;
    standing->votes_us = pawl__max64(standing->votes_us, now_us + wait_us);
    if (standing->clock.jumped_us != review->clock.jumped_us) {
        return; /* again, meanwhile */
    }
    standing->reviewed = true;
    if (standing->clock.untold) {
        standing->clock.untold = false;
    } else if (review->jumped_us >= 0 && review->jumped_us < max_lease_us) {
        pawl__guard_bar(node, pawl__max64(now_us - review->jumped_us, 1), review->by_us, rival);
    }
}

static void write_down(struct pawl__quorum *quorum, const struct review reviews[PAWL__QUORUM_MAX])
{
    const int64_t now_us = pawl__now_us();
    pthread_mutex_lock(&quorum->guard_mutex);
    for (size_t i = 0; i < quorum->count; i++) {
        struct pawl__node *node = &quorum->nodes[i];
        const struct review *review = &reviews[i];
        if (review->wanted && strcmp(node->standing.run_id, review->identity.run_id) == 0) {
            write_down_one(node, review, find_rival(quorum, reviews, review), now_us);
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
    judge_clocks(quorum, reviews);
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
