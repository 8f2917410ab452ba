/* SPDX-License-Identifier: Apache-2.0 */
/* Has a server's wall clock jumped? Pure: numbers in, numbers out.
 *
 * A lease at a server ends by its wall clock. If that is set forward, leases end early, and the
 * server votes for a second holder while the first one still counts on it. Nothing but the clock
 * shows that, so it is compared with one that does not jump: ours (pawl__now_us(), which also goes
 * on while we are suspended). The time at the server was read at some moment between the question
 * and its answer, so what a look tells is not a number but two: how far it is ahead at least, and
 * at most. However long an answer takes, a frozen server or a slow way is no jump.
 *
 * What is known of a clock grows vague with time, by DRIFT, which is more than clocks drift apart
 * or are slewed. A new look that lies outside that, by more than STEP, is a jump. One that does not
 * makes the knowledge exact again; but one that is off by less than STEP leaves it as it was, so
 * that many small steps are found as one. */
#ifndef PAWL_COMPOUND_QUORUM_CLOCK_H
#define PAWL_COMPOUND_QUORUM_CLOCK_H

#include "core/engine.h"

#define PAWL__CLOCK_STEP_US 50000 /* so far off is no jump: within the drift of a lease of 5 s */
#define PAWL__CLOCK_DRIFT 2000    /* one part in so many: 500 ppm */

/* How far one clock is ahead of another. */
struct pawl__offset {
    int64_t least_us;
    int64_t most_us;
    int64_t at_us; /* it was so then, by our clock; before it began, if need be */
    bool known;    /* the rest says something */
};

/* How far a server's clock is ahead of ours. */
struct pawl__offset pawl__offset_of(const struct pawl__clock_sample *sample);

/* Whether it is older than the newest one, which has been seen already: threads bring them in any
 * order. `aside`: it came by another connection than that of the acquires, and says nothing if it
 * may be older. */
bool pawl__sample_is_old(
    const struct pawl__clock_sample *sample, const struct pawl__clock_sample *newest, bool aside);

/* How far one server's clock is ahead of another's, by what is known of both. */
struct pawl__offset pawl__offset_between(
    const struct pawl__offset *one, const struct pawl__offset *other, int64_t now_us);

/* Can what is found now not have come of what was known, without a jump? By how much it jumped. */
bool pawl__offset_jumped(
    const struct pawl__offset *known, const struct pawl__offset *found, int64_t *by_us_out);

/* There was no jump: both together. */
struct pawl__offset pawl__offset_narrowed(
    const struct pawl__offset *known, const struct pawl__offset *found);

/* Of two clocks that differ now by another amount than before, either may have jumped. The one that
 * differs so from more than half of those that can be compared is suspect: of three the odd one, of
 * two both. */
bool pawl__clock_is_suspect(size_t differing, size_t compared);

#endif
