/* SPDX-License-Identifier: Apache-2.0 */
/* The load that `pawl bench` puts on a backend: threads that take and release locks, as fast as it
 * goes, for a given time, and how long that took them. */
#ifndef PAWL_BENCH_LOAD_H
#define PAWL_BENCH_LOAD_H

#include "bench/histogram.h"
#include "pawl.h"

#include <stdatomic.h>
#include <stdbool.h>

enum { BENCH_PREFIX_SIZE = 32, BENCH_ERROR_SIZE = 512, BENCH_THREADS_MAX = 1024 };

struct bench_load {
    pawl_client *client;
    const char *prefix; /* of the names of all locks */
    unsigned thread_count;
    bool hot; /* all want the same lock; otherwise each has its own */
    int64_t duration_ms;
    atomic_bool *stop; /* set from outside: end early */
};

struct bench_result {
    struct cli_histogram pairs; /* from before the acquire until after the release */
    double seconds;
    double rate;                  /* pairs per second, of all threads */
    uint64_t least, most;         /* pairs of the unluckiest and of the luckiest thread */
    pawl_status status;           /* of the first call that failed */
    char error[BENCH_ERROR_SIZE]; /* its sentence */
};

/* Run it. When this returns no lock of it is held. `each_time` is called about ten times a second.
 */
void bench_load_run(const struct bench_load *load, struct bench_result *result_out,
    void (*each_time)(int64_t left_ms));

#endif
