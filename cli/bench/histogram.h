/* SPDX-License-Identifier: Apache-2.0 */
/* Many durations in little memory: counters for ranges that grow with the duration, each about 3 %
 * wide, so that a percentile is right within that. Not for several threads at once; each has its
 * own, and they are added up. */
#ifndef PAWL_BENCH_HISTOGRAM_H
#define PAWL_BENCH_HISTOGRAM_H

#include <stddef.h>
#include <stdint.h>

enum { HISTOGRAM_STEPS = 32, HISTOGRAM_DOUBLINGS = 40 }; /* up to 2^44 ns: hours */

struct cli_histogram {
    uint64_t counts[HISTOGRAM_DOUBLINGS * HISTOGRAM_STEPS];
    uint64_t total;
    int64_t max_ns;
};

void cli_histogram_add(struct cli_histogram *histogram, int64_t duration_ns);
void cli_histogram_merge(struct cli_histogram *into, const struct cli_histogram *from);

/* The duration that this share (0 to 1) of all does not exceed; 0 if there are none. */
int64_t cli_histogram_at(const struct cli_histogram *histogram, double share);

#endif
