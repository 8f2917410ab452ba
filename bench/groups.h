/* SPDX-License-Identifier: Apache-2.0 */
/* The groups of the benchmark: each measures one thing on all its sides in one interleaved run and
 * adds its rows to the report. */
#ifndef PAWL_GROUPS_H
#define PAWL_GROUPS_H

#include "lib/pair.h"
#include "lib/report.h"
#include "lib/server.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bench {
    const struct server *server;
    struct pair_pattern pattern; /* what the library sends for a pair */
    struct report report;
    size_t rounds;
    bool quick;
};

struct group {
    const char *name; /* for --only */
    const char *title;
    bool needs_pattern;               /* repeats what the library sends */
    bool (*run)(struct bench *bench); /* false: a side failed and has said why */
};

/* How long a slice lasts. */
int64_t bench_slice_ns(const struct bench *bench, int64_t normal_ms);

/* How many rounds a group with short slices runs: the more and shorter, the more alike is what the
 * rest of the machine does to all sides. */
size_t bench_rounds_of_short(const struct bench *bench);

bool group_one_tcp(struct bench *bench);
bool group_one_unix(struct bench *bench);
bool group_waiting(struct bench *bench);
bool group_latency(struct bench *bench);
bool group_many(struct bench *bench);
bool group_hot(struct bench *bench);
bool group_shares(struct bench *bench);
bool group_fair(struct bench *bench);
bool group_handoff(struct bench *bench);
bool group_kinds(struct bench *bench);
bool group_multi(struct bench *bench);
bool group_handover(struct bench *bench);
bool group_file(struct bench *bench);
bool group_redlock(struct bench *bench);
bool group_memory(struct bench *bench);
bool group_renewal(struct bench *bench);

#endif
