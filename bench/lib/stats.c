/* SPDX-License-Identifier: Apache-2.0 */
/* Medians and the like; stats.h describes it. */
#include "lib/stats.h"

#include <stdlib.h>

static int compare_doubles(const void *a, const void *b)
{
    const double left = *(const double *)a;
    const double right = *(const double *)b;
    return (left > right) - (left < right);
}

static int compare_integers(const void *a, const void *b)
{
    const int64_t left = *(const int64_t *)a;
    const int64_t right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

static struct series sorted(const struct series *series)
{
    struct series copy = *series;
    qsort(copy.values, copy.count, sizeof copy.values[0], compare_doubles);
    return copy;
}

double series_median(const struct series *series)
{
    const struct series copy = sorted(series);
    if (copy.count == 0) {
        return 0;
    }
    const size_t middle = copy.count / 2;
    return copy.count % 2 == 1 ? copy.values[middle]
                               : (copy.values[middle - 1] + copy.values[middle]) / 2;
}

double series_min(const struct series *series)
{
    return series->count > 0 ? sorted(series).values[0] : 0;
}

double series_max(const struct series *series)
{
    return series->count > 0 ? sorted(series).values[series->count - 1] : 0;
}

struct series series_ratio(const struct series *above, const struct series *below)
{
    struct series ratio = {.count = above->count};
    for (size_t i = 0; i < ratio.count; i++) {
        ratio.values[i] = below->values[i] > 0 ? above->values[i] / below->values[i] : 0;
    }
    return ratio;
}

double percentile(int64_t *values, size_t count, double percent)
{
    if (count == 0) {
        return 0;
    }
    qsort(values, count, sizeof values[0], compare_integers);
    const size_t index = (size_t)(percent / 100 * (double)(count - 1) + 0.5);
    return (double)values[index < count ? index : count - 1];
}

double sample_rate(const struct sample *sample)
{
    return sample->seconds > 0 ? sample->count / sample->seconds : 0;
}

double sample_ns(const struct sample *sample)
{
    return sample->count > 0 ? sample->seconds * 1e9 / sample->count : 0;
}

double sample_cpu_us(const struct sample *sample)
{
    return sample->count > 0 ? sample->cpu_seconds * 1e6 / sample->count : 0;
}

double sample_server_cpu_us(const struct sample *sample)
{
    return sample->count > 0 ? sample->server_cpu_seconds * 1e6 / sample->count : 0;
}

double sample_both_cpu_us(const struct sample *sample)
{
    return sample_cpu_us(sample) + sample_server_cpu_us(sample);
}

struct series rounds_series(
    const struct rounds *rounds, size_t side, double (*metric)(const struct sample *sample))
{
    struct series series = {.count = rounds->count};
    for (size_t i = 0; i < rounds->count; i++) {
        series.values[i] = metric(&rounds->samples[i][side]);
    }
    return series;
}
