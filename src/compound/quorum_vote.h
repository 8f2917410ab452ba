/* SPDX-License-Identifier: Apache-2.0 */
/* The arithmetic of a quorum. Pure: numbers in, numbers out, so that every rule of Redlock can be
 * tested without a server.
 *
 * Of 2X + 1 servers X may fail. With an even number one more server makes the majority larger and
 * survives no more failures: 3, 4, 5, 6 servers survive 1, 1, 2, 2. */
#ifndef PAWL_COMPOUND_QUORUM_VOTE_H
#define PAWL_COMPOUND_QUORUM_VOTE_H

#include "base/random.h"
#include "pawl.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PAWL__QUORUM_MAX 15 /* servers */

/* What one server has said in one round. */
enum pawl__vote {
    PAWL__VOTE_OPEN,   /* nothing yet */
    PAWL__VOTE_YES,    /* granted, released, extended: what was asked */
    PAWL__VOTE_NO,     /* an answer, but not that: held elsewhere; for a release: gone */
    PAWL__VOTE_SILENT, /* a fault, or no answer in time */
    PAWL__VOTE_NEVER,  /* refused in a way that waiting does not mend: the name is something else */
    PAWL__VOTE_BARRED  /* not asked: it has restarted, and may have forgotten what it granted */
};

enum pawl__verdict_now {
    PAWL__UNDECIDED,
    PAWL__CARRIED, /* a majority has said yes */
    PAWL__FALLEN   /* so many have not that no majority can any more */
};

size_t pawl__majority(size_t count);
size_t pawl__votes_count(const enum pawl__vote votes[], size_t count, enum pawl__vote which);
enum pawl__verdict_now pawl__votes_judge(const enum pawl__vote votes[], size_t count);

/* Why an acquire has no majority. */
enum pawl__reason {
    PAWL__REASON_BUSY,    /* a majority has answered: the lock is held elsewhere, or contested */
    PAWL__REASON_SILENCE, /* too few have answered */
    PAWL__REASON_BARRED,  /* without the barred ones there can be none, for now */
    PAWL__REASON_TWINS,   /* servers are named twice, and are missed: somebody's mistake */
    PAWL__REASON_REFUSED  /* without those that refuse it for good there can be none, ever */
};

/* Those that are open were waited for, in vain. `twins`: so many of the barred ones are servers
 * that are named twice. */
enum pawl__reason pawl__votes_reason(const enum pawl__vote votes[], size_t count, size_t twins);

/* Those that are open could not change it, whatever they said. */
bool pawl__votes_reason_stands(const enum pawl__vote votes[], size_t count, size_t twins);

/* What a release says, by what the servers said that had granted it: OK if a majority held until
 * then, LOST if that is ruled out, UNAVAILABLE if too few have answered. */
pawl_status pawl__votes_release_status(const enum pawl__vote votes[], size_t count);

/* The majority-th largest: until then a majority holds. Missing ones are 0. */
int64_t pawl__quorum_deadline(const int64_t deadlines_us[], size_t count);

/* How many tokens are this one. */
size_t pawl__tokens_at(const uint64_t tokens[], size_t count, uint64_t token);
uint64_t pawl__tokens_greatest(const uint64_t tokens[], size_t count);

/* How long to wait before the next round: random, so that contenders who split the votes do not do
 * so again, and growing, so that a long wait asks less often. */
int64_t pawl__quorum_pause_us(struct pawl__random *random, unsigned attempt);

/* How much must be left for a renewed hold not to be in danger: less than that, and a renewal has
 * failed at so many servers that no majority has answered one. */
int64_t pawl__quorum_risk_us(int64_t lease_us, int64_t warn_us);

/* A server that was started `age_us` ago as far as anybody knows (< 0: nobody does) may have
 * forgotten a hold until max_lease_us are over. How long from now it must not vote; 0: it may. */
int64_t pawl__quarantine_us(int64_t age_us, int64_t max_lease_us);

/* How long a server that nobody has seen before has been up: by its own word, if its clock agrees
 * with ours; 0 otherwise, for its uptime is by that clock. */
int64_t pawl__uptime_believed_us(int64_t uptime_us, int64_t its_clock_us, int64_t our_clock_us);

#endif
