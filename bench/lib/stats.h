/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers taken round after round, and what is said about them. */
#ifndef PAWL_LIB_STATS_H
#define PAWL_LIB_STATS_H

#include "lib/side.h"

struct series {
    size_t count;
    double values[ROUNDS_MAX];
};

/* Of a sorted copy; 0 if there are none. */
double series_median(const struct series *series);
double series_min(const struct series *series);
double series_max(const struct series *series);

/* Round by round. */
struct series series_ratio(const struct series *above, const struct series *below);

/* A percentile (0 to 100) of `count` numbers, which are sorted by this. 0 if there are none. */
double percentile(int64_t *values, size_t count, double percent);

/* What a sample says. */
double sample_rate(const struct sample *sample);          /* per second */
double sample_ns(const struct sample *sample);            /* wall time for one, in ns */
double sample_cpu_us(const struct sample *sample);        /* CPU of the side for one, in µs */
double sample_server_cpu_us(const struct sample *sample); /* CPU of redis for one, in µs */
double sample_both_cpu_us(const struct sample *sample);   /* of the two together */

/* What one side's samples say, round after round. */
struct series rounds_series(
    const struct rounds *rounds, size_t side, double (*metric)(const struct sample *sample));

#endif
