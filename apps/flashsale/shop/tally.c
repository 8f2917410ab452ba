/* SPDX-License-Identifier: Apache-2.0 */
/* What was sold: see tally.h. */
#include "shop/tally.h"

#include "common/clock.h"
#include "shop/inside.h"

#include <stdlib.h>
#include <string.h>

const int64_t tally_bounds_us[TALLY_BUCKETS] = {250, 500, 1000, 2500, 5000, 10000, 25000, 50000,
    100000, 250000, 500000, 1000000, 2500000, 5000000, 10000000, 30000000};

void tally_open(struct tally *tally)
{
    pthread_mutex_init(&tally->mutex, NULL);
}

void tally_close(struct tally *tally)
{
    pthread_mutex_destroy(&tally->mutex);
}

static void add(struct tally_histogram *histogram, int64_t us)
{
    histogram->count++;
    histogram->sum_us += us;
    for (size_t i = 0; i < TALLY_BUCKETS; i++) {
        if (us <= tally_bounds_us[i]) {
            histogram->buckets[i]++;
            return;
        }
    }
}

void tally_wait(struct tally *tally, int change)
{
    pthread_mutex_lock(&tally->mutex);
    tally->figures.waiting += change;
    pthread_mutex_unlock(&tally->mutex);
}

void tally_entered(struct tally *tally, int64_t waited_us)
{
    pthread_mutex_lock(&tally->mutex);
    tally->figures.waiting--;
    add(&tally->figures.lock_wait, waited_us);
    pthread_mutex_unlock(&tally->mutex);
}

void tally_inside(struct tally *tally, int change)
{
    pthread_mutex_lock(&tally->mutex);
    tally->figures.inside += change;
    pthread_mutex_unlock(&tally->mutex);
}

void tally_ended(struct tally *tally, size_t strategy, enum order_end end, int64_t took_us)
{
    pthread_mutex_lock(&tally->mutex);
    tally->figures.orders[strategy][end]++;
    add(&tally->figures.order, took_us);
    tally->recent[tally->recent_count++ % TALLY_RECENT] =
        (struct tally_moment){.at_us = now_us(), .took_us = took_us};
    pthread_mutex_unlock(&tally->mutex);
}

void shop_figures(struct shop *shop, struct tally_figures *figures_out)
{
    pthread_mutex_lock(&shop->tally.mutex);
    *figures_out = shop->tally.figures;
    pthread_mutex_unlock(&shop->tally.mutex);
}

static int compare(const void *a, const void *b)
{
    const int64_t left = *(const int64_t *)a;
    const int64_t right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

int64_t shop_p99_us(struct shop *shop, int64_t window_us)
{
    static const size_t size = TALLY_RECENT * sizeof(int64_t);
    int64_t *durations = malloc(size);
    if (durations == NULL) {
        return 0;
    }
    size_t count = 0;
    const int64_t since_us = now_us() - window_us;
    struct tally *tally = &shop->tally;
    pthread_mutex_lock(&tally->mutex);
    const uint64_t kept = tally->recent_count < TALLY_RECENT ? tally->recent_count : TALLY_RECENT;
    for (uint64_t i = 0; i < kept; i++) {
        if (tally->recent[i].at_us >= since_us) {
            durations[count++] = tally->recent[i].took_us;
        }
    }
    pthread_mutex_unlock(&tally->mutex);
    qsort(durations, count, sizeof *durations, compare);
    const int64_t p99_us = count > 0 ? durations[(count * 99 + 99) / 100 - 1] : 0;
    free(durations);
    return p99_us;
}

void shop_lock_lost(struct shop *shop)
{
    pthread_mutex_lock(&shop->tally.mutex);
    shop->tally.figures.locks_lost++;
    pthread_mutex_unlock(&shop->tally.mutex);
}
