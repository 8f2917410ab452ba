/* SPDX-License-Identifier: Apache-2.0 */
/* The torture tests as a whole: one round for the tests of every day, many for a campaign. */
#ifndef PAWL_TORTURE_LIB_TORTURE_H
#define PAWL_TORTURE_LIB_TORTURE_H

#include "torture/lib/round.h"

/* What was asked for, and what came out. */
struct campaign {
    enum torture_engine engine;
    uint64_t seed;         /* of the first round; each round's is one more */
    uint64_t acquisitions; /* go on until there were so many, */
    int64_t seconds;       /* and so long, at least */
    int64_t round_seconds;
    bool themes[THEME_COUNT]; /* what rounds are about, in turn */
    unsigned rounds_least;    /* and so many rounds */
    bool keep;                /* the logs of all rounds, not only of one that failed */
    bool talks;               /* a line about the progress every two seconds */
    unsigned workers;
    unsigned threads;
    unsigned names;
    int64_t lease_ms;
    const char *directory; /* for logs and the record */

    char commit[64];
    char server[64];
    int64_t began_s; /* wall clock */
    int64_t took_ms;
    unsigned rounds;
    uint64_t acquired;
    uint64_t acquires[ARENA_STATUS_MAX];
    uint64_t releases[ARENA_STATUS_MAX];
    uint64_t kind_counts[KINDS_MAX];
    uint64_t themed[THEME_COUNT]; /* acquisitions */
    uint64_t several;             /* of these, of several locks at once */
    uint64_t latches_counted;
    uint64_t latches_opened;
    uint64_t latches_checked;
    struct verdict verdict;
    bool disk_was_full;         /* that kind of fault was possible */
    char kept[ARENA_TEXT_SIZE]; /* where the logs of a failed round are; "": none failed */
};

/* The main() of a test program: without arguments half a minute of rounds, one about each theme, as
 * a test; --help tells the rest. */
int torture_main(int argc, char *argv[], enum torture_engine engine);

/* The record of a campaign: a table for people, and JSON in <directory>/<engine>-<seed>.json. */
void record_print(const struct campaign *campaign);
void record_write(const struct campaign *campaign);

#endif
