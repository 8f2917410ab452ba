/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many durations in little memory: counters for ranges that grow with the duration, each about 3 %
 * wide, so that a percentile is right within that. Not for several threads at once: each has its
 * own, and they are added up.
 */
#ifndef FLASHSALE_LOAD_HISTOGRAM_H
#define FLASHSALE_LOAD_HISTOGRAM_H

#include <stddef.h>
#include <stdint.h>

enum { HISTOGRAM_STEPS = 32, HISTOGRAM_DOUBLINGS = 32 }; /* up to 2^36 us: hours */

struct histogram {
    uint64_t counts[HISTOGRAM_DOUBLINGS * HISTOGRAM_STEPS];
    uint64_t total;
    int64_t max_us;
    double sum_us;
};

void histogram_add(struct histogram *histogram, int64_t duration_us);
void histogram_merge(struct histogram *into, const struct histogram *from);

/* The duration that this share (0 to 1) of all does not exceed; 0 if there are none. */
int64_t histogram_at(const struct histogram *histogram, double share);

/* The mean; 0 if there are none. */
double histogram_mean(const struct histogram *histogram);

#endif
