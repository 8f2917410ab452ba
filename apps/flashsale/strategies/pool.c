/* SPDX-License-Identifier: Apache-2.0 */
/* Thousands of orders wait for a lock of pawl without a thread each: see pool.h.
 *
 * Each order that waits has a handle of its own (PAWL_OWNER_HANDLE: whoever has the handle holds
 * the lock, whatever the thread), because it is acquired on a thread of the library and released on
 * one of ours. Handles are kept for the next order. All belong to one client, which asks the server
 * for one of them at a time; the others stand in its queue. */
#include "strategies/pool.h"

#include "common/clock.h"
#include "pawl.h"
#include "shop/shop.h"
#include "shop/tally.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

/* One handle. `all` never changes once it is in the list. */
struct handle {
    pawl_lock *lock;
    struct handle *next_free;
    struct handle *all;
};

struct pool {
    struct shop *shop;
    pawl_client *client;
    pawl_lock_options options;
    pthread_mutex_t mutex;
    struct handle *free;
    struct handle *all;
};

void pool_lost(const pawl_event *event, void *arg)
{
    (void)event;
    shop_lock_lost(arg);
}

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
    options.release_unawaited = true; /* the order is written; nobody waits to hear it is free */
    options.on_lost = pool_lost;
    options.event_arg = shop;
    pool->options = options;
    pool->shop = shop;
    pthread_mutex_init(&pool->mutex, NULL);
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

/* A handle that nobody uses, or a new one; NULL: it cannot be had, and order->why says why. */
static struct handle *pool_take(struct pool *pool, struct order *order)
{
    pthread_mutex_lock(&pool->mutex);
    struct handle *handle = pool->free;
    if (handle != NULL) {
        pool->free = handle->next_free;
    }
    pthread_mutex_unlock(&pool->mutex);
    if (handle != NULL) {
        return handle;
    }
    handle = calloc(1, sizeof *handle);
    if (handle == NULL ||
        pawl_lock_open(pool->client, SHOP_LOCK_NAME, &pool->options, &handle->lock) != PAWL_OK) {
        snprintf(order->why, sizeof order->why, "%s",
            handle == NULL ? "out of memory" : pawl_last_error());
        free(handle);
        return NULL;
    }
    pthread_mutex_lock(&pool->mutex);
    handle->all = pool->all;
    pool->all = handle;
    pthread_mutex_unlock(&pool->mutex);
    return handle;
}

static void pool_give_back(struct pool *pool, struct handle *handle)
{
    pthread_mutex_lock(&pool->mutex);
    handle->next_free = pool->free;
    pool->free = handle;
    pthread_mutex_unlock(&pool->mutex);
}

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

/* On the client's thread for callbacks: nothing here may wait. */
static void acquired(pawl_lock *lock, pawl_status status, void *arg)
{
    struct order *order = arg;
    if (status == PAWL_OK) {
        order->ticket.token = pawl_lock_token(lock);
    } else {
        if (status == PAWL_CANCELED) {
            snprintf(order->why, sizeof order->why, "this instance is closing; nothing was sold");
        } else if (status != PAWL_BUSY) {
            snprintf(order->why, sizeof order->why, "the lock: %s", pawl_status_string(status));
        }
        pool_give_back(strategy_state(order->shop, order->strategy), order->ticket.own);
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
    pawl_lock_release(order->ticket.lock);
    pool_give_back(strategy_state(seller->shop, order->strategy), order->ticket.own);
}
