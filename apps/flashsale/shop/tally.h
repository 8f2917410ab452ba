/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What this process has sold so far, and how long it took: counters that only grow, for /metrics,
 * and the last few thousand durations, for the page's percentile.
 */
#ifndef FLASHSALE_SHOP_TALLY_H
#define FLASHSALE_SHOP_TALLY_H

#include "shop/order.h"

#include <pthread.h>
#include <stdint.h>

enum {
    STRATEGIES_MAX = 40,
    ORDER_ENDS = ORDER_FAILED + 1,
    TALLY_BUCKETS = 16,
    TALLY_RECENT = 4096
};

/* The upper ends of the buckets, in microseconds; what is longer is in none. */
extern const int64_t tally_bounds_us[TALLY_BUCKETS];

struct tally_histogram {
    uint64_t buckets[TALLY_BUCKETS]; /* each counts only its own, not those below */
    uint64_t count;
    int64_t sum_us;
};

struct tally_figures {
    uint64_t orders[STRATEGIES_MAX][ORDER_ENDS]; /* by the strategy's place in the table */
    struct tally_histogram order, lock_wait;
    int64_t waiting; /* orders that were taken and are not inside yet */
    int64_t inside;  /* orders that are, under a lock of whatever kind */
    uint64_t locks_lost;
    uint64_t faults;
};

struct tally_moment {
    int64_t at_us;
    int64_t took_us;
};

struct tally {
    pthread_mutex_t mutex;
    struct tally_figures figures;
    struct tally_moment recent[TALLY_RECENT]; /* a ring */
    uint64_t recent_count;
};

void tally_open(struct tally *tally);
void tally_close(struct tally *tally);

void tally_wait(struct tally *tally, int change);
void tally_entered(struct tally *tally, int64_t waited_us);
void tally_inside(struct tally *tally, int change);
void tally_ended(struct tally *tally, size_t strategy, enum order_end end, int64_t took_us);

/* Outside shop/, the shop's tally. */
void shop_figures(struct shop *shop, struct tally_figures *figures_out);
int64_t shop_p99_us(struct shop *shop, int64_t window_us);

/* A strategy has learned that its lock was lost while it was held. */
void shop_lock_lost(struct shop *shop);

#endif
