/* SPDX-License-Identifier: Apache-2.0 */
/* Thousands of orders wait for a lock of pawl without a thread each: see pool.h.
 *
 * Each order that waits has a handle of its own (PAWL_OWNER_HANDLE: whoever has the handle holds
 * the lock, whatever the thread), because it is acquired on a thread of the library and released on
 * one of ours. Handles are kept for the next order. All belong to one client, which asks the server
 * for one of them at a time; the others stand in its queue.
 *
 * The next order of a mutex may be inside as soon as the one before has left: with hand-off without
 * a word to the server, else with the server's answer to the release, which has passed the lock on.
 * The seller waits for that answer, and then goes on with the next order at once: it runs the
 * client's callbacks itself (options.dispatch), and no thread has to be woken while the lock is
 * held. For all other callbacks there is an usher, who rests while a seller is inside, for it will
 * come by; the last one to leave wakes the usher, and an order that takes long does not. */
#include "strategies/pool.h"

#include "common/clock.h"
#include "pawl.h"
#include "shop/shop.h"
#include "shop/tally.h"

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

/* One handle. `all` never changes once it is in the list. */
struct handle {
    pawl_lock *lock;
    struct handle *next_free;
    struct handle *all;
};

enum { USHER_RESTS_MS = 20 };

struct pool {
    struct shop *shop;
    pawl_client *client;
    pawl_lock_options options;
    pthread_mutex_t mutex;
    struct handle *free;
    struct handle *all;

    /* Of a mutex. */
    bool ushered;
    pthread_t usher;
    int bell; /* an eventfd: the usher may go home */
    pthread_mutex_t rest_mutex;
    pthread_cond_t all_left;
    int inside; /* sellers who will run the callbacks when they leave; under rest_mutex */
};

void pool_lost(const pawl_event *event, void *arg)
{
    (void)event;
    shop_lock_lost(arg);
}

/* ===== The usher ===== */

/* Until nobody is inside, but not for long; whether somebody still is. */
static bool usher_rest(struct pool *pool)
{
    struct timespec end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_nsec += USHER_RESTS_MS * 1000000;
    end.tv_sec += end.tv_nsec / 1000000000;
    end.tv_nsec %= 1000000000;
    pthread_mutex_lock(&pool->rest_mutex);
    int result = 0;
    while (pool->inside > 0 && result == 0) {
        result = pthread_cond_timedwait(&pool->all_left, &pool->rest_mutex, &end);
    }
    const bool occupied = pool->inside > 0;
    pthread_mutex_unlock(&pool->rest_mutex);
    return occupied;
}

static void *usher(void *arg)
{
    struct pool *pool = arg;
    struct pollfd fds[2] = {{.fd = pawl_client_fd(pool->client), .events = POLLIN},
        {.fd = pool->bell, .events = POLLIN}};
    while (fds[1].revents == 0) {
        const bool occupied = usher_rest(pool);
        if (poll(fds, 2, occupied ? 0 : -1) > 0) {
            pawl_client_dispatch(pool->client);
        }
    }
    return NULL;
}

/* Somebody goes in (1) or has left (-1). */
static void usher_count(struct pool *pool, int change)
{
    pthread_mutex_lock(&pool->rest_mutex);
    pool->inside += change;
    if (pool->inside == 0) {
        pthread_cond_signal(&pool->all_left);
    }
    pthread_mutex_unlock(&pool->rest_mutex);
}

static bool usher_start(struct pool *pool)
{
    pthread_mutex_init(&pool->rest_mutex, NULL);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&pool->all_left, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pool->bell = eventfd(0, EFD_CLOEXEC);
    pool->ushered = pool->bell >= 0 && pthread_create(&pool->usher, NULL, usher, pool) == 0;
    if (!pool->ushered && pool->bell >= 0) {
        close(pool->bell);
    }
    return pool->ushered;
}

static void usher_stop(struct pool *pool)
{
    if (pool->ushered) {
        eventfd_write(pool->bell, 1);
        pthread_join(pool->usher, NULL);
        close(pool->bell);
        pthread_cond_destroy(&pool->all_left);
        pthread_mutex_destroy(&pool->rest_mutex);
    }
}

/* A seller has left, and goes on with the order that got in by that, if there is one. */
static void usher_help(struct pool *pool, struct seller *seller)
{
    if (pool->ushered) {
        crew_keep_next(seller, true);
        pawl_client_dispatch(pool->client);
        crew_keep_next(seller, false);
        usher_count(pool, -1);
    }
}

/* ===== Handles ===== */

/* NULL: it cannot be had, and `why` says why. */
static struct handle *make_handle(struct pool *pool, char *why, size_t why_size)
{
    struct handle *handle = calloc(1, sizeof *handle);
    if (handle == NULL ||
        pawl_lock_open(pool->client, SHOP_LOCK_NAME, &pool->options, &handle->lock) != PAWL_OK) {
        snprintf(why, why_size, "%s", handle == NULL ? "out of memory" : pawl_last_error());
        free(handle);
        return NULL;
    }
    pthread_mutex_lock(&pool->mutex);
    handle->all = pool->all;
    pool->all = handle;
    pthread_mutex_unlock(&pool->mutex);
    return handle;
}

/* A handle that nobody uses, or a new one; NULL: it cannot be had, and order->why says why. */
static struct handle *pool_take(struct pool *pool, struct order *order)
{
    pthread_mutex_lock(&pool->mutex);
    struct handle *handle = pool->free;
    if (handle != NULL) {
        pool->free = handle->next_free;
    }
    pthread_mutex_unlock(&pool->mutex);
    return handle != NULL ? handle : make_handle(pool, order->why, sizeof order->why);
}

static void pool_give_back(struct pool *pool, struct handle *handle)
{
    pthread_mutex_lock(&pool->mutex);
    handle->next_free = pool->free;
    pool->free = handle;
    pthread_mutex_unlock(&pool->mutex);
}

/* ===== Its life ===== */

bool pool_open_kind(struct shop *shop, pawl_kind kind, unsigned handoff, void **state_out,
    char *why, size_t why_size)
{
    struct pool *pool = calloc(1, sizeof *pool);
    if (pool == NULL) {
        snprintf(why, why_size, "out of memory");
        return false;
    }
    pawl_client_options client_options = PAWL_CLIENT_OPTIONS_INIT;
    client_options.lazy = true; /* a Redis that is away now comes back by itself */
    client_options.dispatch = kind == PAWL_MUTEX;
    const pawl_status status =
        pawl_client_open(shop_lock_url(shop), &client_options, &pool->client);
    if (status != PAWL_OK) {
        snprintf(why, why_size, "%s", pawl_last_error());
        free(pool);
        return false;
    }
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    options.kind = kind;
    options.handoff = handoff;
    options.owner = PAWL_OWNER_HANDLE;
    options.lease_ms = shop_settings(shop)->lease_ms;
    /* The order is written; nobody waits to hear that the lock is free, unless the same answer may
     * say that the next one has got it. */
    options.release_unawaited = handoff > 0 || kind != PAWL_MUTEX;
    options.on_lost = pool_lost;
    options.event_arg = shop;
    pool->options = options;
    pool->shop = shop;
    pthread_mutex_init(&pool->mutex, NULL);
    if (client_options.dispatch && !usher_start(pool)) {
        snprintf(why, why_size, "out of threads or descriptors");
        pool_close(shop, pool);
        return false;
    }
    /* The first handle is made now: it is known then whether this kind of lock can be kept there.
     */
    struct handle *first = make_handle(pool, why, why_size);
    if (first == NULL) {
        pool_close(shop, pool);
        return false;
    }
    pool_give_back(pool, first);
    *state_out = pool;
    return true;
}

bool pool_open(struct shop *shop, void **state_out, char *why, size_t why_size)
{
    return pool_open_kind(shop, PAWL_MUTEX, 0, state_out, why, why_size);
}

void pool_cancel(struct shop *shop, void *state)
{
    (void)shop;
    struct pool *pool = state;
    pthread_mutex_lock(&pool->mutex);
    struct handle *handle = pool->all;
    pthread_mutex_unlock(&pool->mutex);
    for (; handle != NULL; handle = handle->all) {
        pawl_lock_cancel(handle->lock);
    }
}

void pool_close(struct shop *shop, void *state)
{
    (void)shop;
    struct pool *pool = state;
    usher_stop(pool);
    pawl_client_close(pool->client); /* what is still held is released */
    while (pool->all != NULL) {
        struct handle *handle = pool->all;
        pool->all = handle->all;
        pawl_lock_close(handle->lock);
        free(handle);
    }
    pthread_mutex_destroy(&pool->mutex);
    free(pool);
}

/* ===== In and out ===== */

enum entry pool_entry_of(pawl_status status)
{
    if (status == PAWL_OK) {
        return ENTERED;
    }
    if (status == PAWL_BUSY) {
        return ENTRY_BUSY;
    }
    const bool passes =
        status == PAWL_UNAVAILABLE || status == PAWL_REFUSED || status == PAWL_CANCELED;
    return passes ? ENTRY_UNAVAILABLE : ENTRY_FAILED;
}

/* A callback of the client: nothing here may wait. */
static void acquired(pawl_lock *lock, pawl_status status, void *arg)
{
    struct order *order = arg;
    struct pool *pool = strategy_state(order->shop, order->strategy);
    if (status == PAWL_OK) {
        order->ticket.token = pawl_lock_token(lock);
        if (pool->ushered) {
            usher_count(pool, 1);
        }
    } else {
        if (status == PAWL_CANCELED) {
            snprintf(order->why, sizeof order->why, "this instance is closing; nothing was sold");
        } else if (status != PAWL_BUSY) {
            snprintf(order->why, sizeof order->why, "the lock: %s", pawl_status_string(status));
        }
        pool_give_back(pool, order->ticket.own);
    }
    shop_entered(order, pool_entry_of(status));
}

void pool_enter(struct shop *shop, struct order *order)
{
    struct pool *pool = strategy_state(shop, order->strategy);
    struct handle *handle = pool_take(pool, order);
    if (handle == NULL) {
        shop_entered(order, ENTRY_FAILED);
        return;
    }
    order->ticket.own = handle;
    order->ticket.lock = handle->lock;
    const int64_t left_us = order->deadline_us - now_us();
    const int64_t wait_ms = left_us > 0 && !shop_is_closing(shop) ? left_us / 1000 : PAWL_TRY;
    const pawl_status status = pawl_lock_acquire_async(handle->lock, wait_ms, acquired, order);
    if (status != PAWL_OK) {
        snprintf(order->why, sizeof order->why, "%s", pawl_last_error());
        pool_give_back(pool, handle);
        shop_entered(order, pool_entry_of(status));
    }
}

void pool_leave(struct seller *seller, struct order *order)
{
    struct pool *pool = strategy_state(seller->shop, order->strategy);
    pawl_lock_release(order->ticket.lock);
    pool_give_back(pool, order->ticket.own);
    usher_help(pool, seller);
}
