/* SPDX-License-Identifier: Apache-2.0 */
/* What `pawl bench` leaves behind, and getting rid of it. Locks are released and so are gone; what
 * could stay is what engines keep for later holders: on Redis a token counter for each name, which
 * is given a life of a minute instead of a week; with files one file for each name, which is
 * deleted. */
#ifndef PAWL_BENCH_TRACES_H
#define PAWL_BENCH_TRACES_H

#include "bench/load.h"

struct bench_traces {
    char prefix[BENCH_PREFIX_SIZE]; /* of the names; the caller's */
    char *url;                      /* the caller's, with a short life for counters; NULL: none */
    char *directory;                /* of lock files; NULL: not on files */
};

/* Before the client is opened: reads cli_url() and PAWL_URL. */
void bench_traces_open(struct bench_traces *traces);

/* What to open; NULL as pawl_client_open() takes it. */
const char *bench_traces_url(const struct bench_traces *traces);

/* After the client is closed. */
void bench_traces_remove(const struct bench_traces *traces);

/* What is left, in a sentence. */
const char *bench_traces_left(const struct bench_traces *traces);

void bench_traces_close(struct bench_traces *traces);

#endif
