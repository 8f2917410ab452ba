/* SPDX-License-Identifier: Apache-2.0 */
/* The figures of `pawl bench`, in words and as JSON. */
#ifndef PAWL_BENCH_REPORT_H
#define PAWL_BENCH_REPORT_H

#include "bench/load.h"
#include "common/backend.h"

/* The loads, in the order in which they are run. */
enum { BENCH_ONE, BENCH_OWN, BENCH_HOT, BENCH_LOADS };

struct bench_figures {
    char title[CLI_BACKEND_TITLE_SIZE]; /* where, without secrets */
    int64_t seconds;
    unsigned thread_count; /* of the loads with several */
    struct bench_result results[BENCH_LOADS];
};

/* Both print to stdout. */
void bench_report_words(const struct bench_figures *figures);
void bench_report_json(const struct bench_figures *figures);

#endif
