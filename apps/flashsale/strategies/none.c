/* SPDX-License-Identifier: Apache-2.0 */
/* What happens without a lock, and with one that others cannot see. */
#include "strategies/strategies.h"

#include "common/clock.h"
#include "shop/shop.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { LOOK_US = 50000 }; /* how often whoever waits looks whether the shop is closing */

/* FLAW: nobody keeps anybody out. All who read the same stock write the same rest back, and each of
 * them has sold the same piece. */
const struct strategy strategy_none = {
    .name = "none",
    .title = "no lock",
    .flaw = "everybody who reads the same stock sells the same piece",
    .sound = false,
};

/* FLAW: a mutex of this process keeps out this process's threads only. With a second instance of
 * the shop there are two mutexes, and two at a time are inside. */
static bool mutex_open(struct shop *shop, void **state_out, char *why, size_t why_size)
{
    (void)shop;
    pthread_mutex_t *mutex = malloc(sizeof *mutex);
    if (mutex == NULL) {
        snprintf(why, why_size, "out of memory");
        return false;
    }
    pthread_mutex_init(mutex, NULL);
    *state_out = mutex;
    return true;
}

static void mutex_close(struct shop *shop, void *state)
{
    (void)shop;
    pthread_mutex_destroy(state);
    free(state);
}

static bool lock_within(pthread_mutex_t *mutex, int64_t us)
{
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end); /* the clock that pthread_mutex_timedlock() goes by */
    const int64_t end_us = end.tv_sec * INT64_C(1000000) + end.tv_nsec / 1000 + us;
    end = (struct timespec){.tv_sec = end_us / 1000000, .tv_nsec = end_us % 1000000 * 1000};
    return pthread_mutex_timedlock(mutex, &end) == 0;
}

static enum entry mutex_enter(struct seller *seller, struct order *order)
{
    pthread_mutex_t *mutex = strategy_state(seller->shop, order->strategy);
    for (;;) {
        const int64_t left_us = order->deadline_us - now_us();
        if (lock_within(mutex, left_us < LOOK_US ? left_us : LOOK_US)) {
            return ENTERED;
        }
        if (left_us <= LOOK_US || shop_is_closing(seller->shop)) {
            return ENTRY_BUSY;
        }
    }
}

static void mutex_leave(struct seller *seller, struct order *order)
{
    pthread_mutex_unlock(strategy_state(seller->shop, order->strategy));
}

const struct strategy strategy_process_mutex = {
    .name = "process-mutex",
    .title = "a mutex of the process",
    .flaw = "a second instance of the shop has a mutex of its own",
    .sound = false,
    .open = mutex_open,
    .close = mutex_close,
    .enter = mutex_enter,
    .leave = mutex_leave,
};
