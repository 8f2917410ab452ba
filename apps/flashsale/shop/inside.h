/* SPDX-License-Identifier: Apache-2.0 */
/* What the shop is made of, for the files of shop/ alone; others use shop.h. */
#ifndef FLASHSALE_SHOP_INSIDE_H
#define FLASHSALE_SHOP_INSIDE_H

#include "common/redis.h"
#include "shop/faults.h"
#include "shop/shop.h"
#include "shop/tally.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
    TILLS = 16, /* as many can be inside at the same time, under locks of different segments */
    DESKS = 2,
    LOCK_DB = 1,
    URL_SIZE = 1024, /* of one that was made of a redis_place */
};

/* A strategy as this process uses it. */
struct strategy_use {
    atomic_bool open;
    void *state;
};

struct shop {
    struct shop_settings settings;
    struct redis_place stock_place;
    struct redis_place segment_places[SEGMENT_SERVERS_MAX];
    const char *lock_url; /* the settings', or the next */
    char own_lock_url[URL_SIZE];
    struct crew *sellers, *tills, *desk;
    struct strategy_use uses[STRATEGIES_MAX];
    pthread_mutex_t open_mutex; /* one strategy is opened at a time */
    struct faults faults;
    struct tally tally;

    pthread_mutex_t hand_mutex;
    pthread_cond_t hand_empty;
    int64_t in_hand; /* orders that were taken and have not ended */
    atomic_bool closing;
};

#endif
