/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See histogram.h. Durations below HISTOGRAM_STEPS us have a counter each; above, every doubling is
 * divided into HISTOGRAM_STEPS ranges.
 */
#include "load/histogram.h"

enum { COUNTERS = HISTOGRAM_DOUBLINGS * HISTOGRAM_STEPS, STEP_BITS = 5 };

_Static_assert(1 << STEP_BITS == HISTOGRAM_STEPS, "a range is found by shifting");

static size_t counter_of(int64_t duration_us)
{
    const uint64_t value = duration_us < 0 ? 0 : (uint64_t)duration_us;
    if (value < HISTOGRAM_STEPS) {
        return (size_t)value;
    }
    const unsigned shift = 63U - (unsigned)__builtin_clzll(value) - STEP_BITS;
    const size_t counter = (size_t)shift * HISTOGRAM_STEPS + (size_t)(value >> shift);
    return counter < COUNTERS ? counter : COUNTERS - 1;
}

/* The greatest duration that belongs to the counter. */
static int64_t upper_end(size_t counter)
{
    if (counter < HISTOGRAM_STEPS) {
        return (int64_t)counter;
    }
    const size_t shift = counter / HISTOGRAM_STEPS - 1;
    const uint64_t step = counter % HISTOGRAM_STEPS + HISTOGRAM_STEPS;
    return (int64_t)(((step + 1) << shift) - 1);
}

void histogram_add(struct histogram *histogram, int64_t duration_us)
{
    histogram->counts[counter_of(duration_us)]++;
    histogram->total++;
    histogram->sum_us += (double)duration_us;
    histogram->max_us = duration_us > histogram->max_us ? duration_us : histogram->max_us;
}

void histogram_merge(struct histogram *into, const struct histogram *from)
{
    for (size_t i = 0; i < COUNTERS; i++) {
        into->counts[i] += from->counts[i];
    }
    into->total += from->total;
    into->sum_us += from->sum_us;
    into->max_us = from->max_us > into->max_us ? from->max_us : into->max_us;
}

int64_t histogram_at(const struct histogram *histogram, double share)
{
    const double wanted = share * (double)histogram->total;
    uint64_t sum = 0;
    for (size_t i = 0; i < COUNTERS; i++) {
        sum += histogram->counts[i];
        if (sum > 0 && (double)sum >= wanted) {
            const int64_t end = upper_end(i);
            return end < histogram->max_us ? end : histogram->max_us;
        }
    }
    return histogram->max_us;
}

double histogram_mean(const struct histogram *histogram)
{
    return histogram->total == 0 ? 0 : histogram->sum_us / (double)histogram->total;
}
