/* SPDX-License-Identifier: Apache-2.0 */
/* The oracles: what must be true of a crew's work, whatever was done to it.
 *
 *   O1  no two holds of a name inside their own validity at once
 *   O2  tokens grow from hold to hold
 *   O3  the unguarded number is the sum of all additions
 *   O4  the register that checks tokens refuses nobody who holds, and nobody else writes after
 *   O5  calls end by their limits
 *   O6  on_lost comes in time
 *   O7  nothing is left behind in the server once the leases are over
 *   O8  descriptors, threads and memory are what they were before
 *   O9  everybody gets on again after the fault (crew_await_progress)
 *
 * The pure ones look at a history and answer with a sentence about the first violation, NULL if
 * there is none; so they can be tested themselves. The check_ functions fail the running test. */
#ifndef PAWL_FAULT_LIB_ORACLE_H
#define PAWL_FAULT_LIB_ORACLE_H

#include "fault/lib/crew.h"
#include "support/server.h"

/* One hold as its worker wrote it down. */
struct hold {
    size_t worker;
    uint64_t id;
    uint32_t name;
    bool left;          /* it got as far as its release */
    bool answered;      /* and the release was answered, */
    pawl_status status; /* with this */
    bool refused;       /* the register did not take its write */
    uint64_t token;
    int64_t from_us;
    int64_t used_us;  /* the end of its use: the release was about to be called, or it was killed */
    int64_t until_us; /* the same, or the end of its own validity if that came first */
    bool valid_out;   /* it was still valid when it went */
};

struct history {
    struct hold *holds; /* by name, then by their beginning */
    size_t count;
};

/* Read the files of all workers. To be freed with history_free(). */
struct history history_read(const struct crew *crew);
void history_sort(struct history *history);
void history_free(struct history *history);

const char *oracle_exclusion(const struct history *history); /* O1 */
const char *oracle_overlaps_told(
    const struct history *history);                       /* weaker: who was overtaken knows */
const char *oracle_tokens(const struct history *history); /* O2 */
const char *oracle_fence(const struct history *history);  /* O4 */
const char *oracle_number(const struct board *board, size_t worker_count); /* O3 */

/* All that holds when no lock is taken away by force: O1 to O4. Prints what was seen. */
void check_history(struct crew *crew);

/* The same where locks were taken away by force, or their holders were stopped for too long:
 * whoever was overtaken was told, tokens grow, and nothing stale was written. */
void check_history_with_losses(struct crew *crew, bool exclusion);

/* The next hold of each name began by this time. */
void check_succession(struct crew *crew, int64_t after_us, int64_t limit_ms);

void check_limits(struct crew *crew);                             /* O5 */
void check_told_in_time(struct crew *crew);                       /* O6 */
void check_nothing_left(struct server *server, int64_t lease_ms); /* O7 */
void check_resources(struct crew *crew);                          /* O8 */

/* Finish, then O1 to O5 and O8, and without losses. */
void check_all(struct crew *crew);

/* Finish, then O1 to O8: holds may be lost, but nobody is inside any more when the next one is. */
void check_all_after_losses(struct crew *crew, struct server *server, int64_t lease_ms);

#endif
