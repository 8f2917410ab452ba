/* SPDX-License-Identifier: Apache-2.0 */
/* The oracles: what must be true of a round, whatever was done to the workers and to the backend.
 *
 *   O1  two holds of a name are never inside their own validity at once. A hold whose lock was
 *       taken away by force (an operator broke it, the server lost its data, the file was deleted)
 *       is promised nothing from that moment on; but if somebody overtook it, its release says so
 *   O2  tokens are unique, and grow in the order of the holds
 *   O3  the unguarded number passes from hold to hold without a gap, as long as nobody has stored
 *       it who was too late (stopped between the look and the store, or its lock was taken away)
 *   O4  the register that checks tokens counts exactly what it accepted, in the order of tokens,
 *       always; and it refuses nobody who validly holds
 *   O5  calls end by their limits
 *   O6  each lost hold is reported once, in time, and no other
 *   O7  nothing is left behind in the backend once the leases are over
 *   O8  descriptors, threads and memory of a worker are what they were before
 *   O9  after healing every thread gets on
 *
 * O1 to O6 are judged here, from a history; the rest by the round itself. */
#ifndef PAWL_TORTURE_LIB_ORACLES_H
#define PAWL_TORTURE_LIB_ORACLES_H

#include "torture/lib/arena.h"
#include "torture/lib/history.h"

enum { ORACLE_COUNT = 10, SENTENCE_SIZE = 400 }; /* [0] is for complaints of workers */

/* Lateness in powers of two: [i] counts what was below 2^i us and not below 2^(i-1). */
enum { LATENESS_BUCKETS = 40 };

struct verdict {
    uint64_t violations[ORACLE_COUNT];
    char first[ORACLE_COUNT][SENTENCE_SIZE]; /* a sentence about the first of each */

    uint64_t holds;
    uint64_t permits;         /* that were taken, with and without leases, */
    uint64_t replaced;        /* of these, that the dead had, */
    uint64_t most_out;        /* and the most at once */
    uint64_t doubted;         /* nobody knows whether they were taken, or given back */
    uint64_t missing;         /* permits that were not there at the end, and could be missing so */
    uint64_t lost;            /* releases that said so */
    uint64_t reports;         /* calls of on_lost */
    uint64_t reports_passing; /* of these, of locks that an acquire of several had for a while */
    uint64_t reports_after;   /* of these, of holds that were being released in time */
    uint64_t taken;           /* holds whose locks were taken away by force */
    uint64_t overlaps;        /* of these, overtaken while they went on: expected */
    uint64_t overlaps_told;   /* of these, by a release that said so, */
    uint64_t overlaps_in_doubt; /* or whose release may have been asked twice: see judge_told() */
    uint64_t handovers;         /* O3: from hold to hold, compared, */
    uint64_t handovers_skipped; /* and not, as a store came too late */
    uint64_t late_stores;       /* unguarded stores after the end of validity */
    uint64_t writes;            /* O4: accepted */
    uint64_t stale_refused;     /* writes that came too late, refused by the register */
    uint64_t calls_late;        /* O5: calls that took 20 ms and more beyond their limits */
    int64_t call_late_us_max;   /* without the time in which the process did not run */
    int64_t report_late_us_max; /* O6: after the end of validity, likewise */
    uint64_t report_lateness[LATENESS_BUCKETS];
};

/* Note a violation. */
void blame(struct verdict *verdict, unsigned oracle, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

void judge_exclusion(const struct history *history, struct verdict *verdict);
void judge_told(const struct history *history, struct verdict *verdict); /* O1's second half */
void judge_tokens(const struct history *history, struct verdict *verdict);
void judge_numbers(const struct history *history, struct verdict *verdict);
void judge_register(
    const struct history *history, const struct arena *arena, struct verdict *verdict);
void judge_limits(const struct history *history, struct verdict *verdict);
void judge_reports(const struct history *history, struct verdict *verdict);

/* The same for semaphores: never more permits at once than there are (O1), and each loss is told
 * once (O6). Latches are judged by the workers, as they go. */
void judge_counts(
    const struct history *history, const struct arena *arena, struct verdict *verdict);

/* All that is about locks. */
void judge_history(
    const struct history *history, const struct arena *arena, struct verdict *verdict);

/* The sum of two rounds. */
void verdict_add(struct verdict *sum, const struct verdict *verdict);
uint64_t verdict_violations(const struct verdict *verdict);

/* Below this were so many of a thousand reports, in us (the end of their bucket). */
int64_t verdict_report_late_us(const struct verdict *verdict, unsigned per_mille);

#endif
