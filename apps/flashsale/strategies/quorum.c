/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Locks on several servers that know nothing of each other: those of --quorum.
 *
 * A multi-lock is held when all of its members are, so each server can stop it; Redlock when a
 * majority has granted it, so that some may fail. Both are one handle for the whole process, whose
 * owner is the calling thread; sellers wait on it and pawl queues them up.
 */
#include "strategies/strategies.h"

#include "common/clock.h"
#include "pawl.h"
#include "shop/shop.h"
#include "strategies/pool.h"

#include <stdio.h>
#include <stdlib.h>

enum { SERVERS_MAX = 5 };

struct quorum {
    size_t count;
    pawl_client *clients[SERVERS_MAX];
    pawl_lock *members[SERVERS_MAX]; /* of the multi-lock */
    pawl_lock *lock;
};

/* ===== Opening and closing ===== */

static void quorum_close(struct shop *shop, void *state)
{
    (void)shop;
    struct quorum *quorum = state;
    pawl_lock_close(quorum->lock);
    for (size_t i = 0; i < quorum->count; i++) {
        pawl_lock_close(quorum->members[i]);
    }
    for (size_t i = 0; i < quorum->count; i++) {
        pawl_client_close(quorum->clients[i]);
    }
    free(quorum);
}

static void quorum_cancel(struct shop *shop, void *state)
{
    (void)shop;
    struct quorum *quorum = state;
    pawl_lock_cancel(quorum->lock);
}

/* A server that is down now must not keep the shop from opening: lazy. */
static pawl_status open_clients(struct quorum *quorum, const struct shop_settings *settings)
{
    pawl_client_options options = PAWL_CLIENT_OPTIONS_INIT;
    options.lazy = true;
    pawl_status status = PAWL_OK;
    for (size_t i = 0; i < quorum->count && status == PAWL_OK; i++) {
        status = pawl_client_open(settings->quorum_urls[i], &options, &quorum->clients[i]);
    }
    return status;
}

static pawl_status open_multi(struct quorum *quorum, const pawl_lock_options *options)
{
    pawl_status status = PAWL_OK;
    for (size_t i = 0; i < quorum->count && status == PAWL_OK; i++) {
        status = pawl_lock_open(quorum->clients[i], SHOP_LOCK_NAME, options, &quorum->members[i]);
    }
    if (status == PAWL_OK) {
        status = pawl_lock_open_multi(quorum->members, quorum->count, NULL, &quorum->lock);
    }
    return status;
}

/* A server that has restarted votes again when the longest lease is over: that is the shop's own,
 * and all instances are started with the same --lease. */
static pawl_status open_redlock(struct quorum *quorum, pawl_lock_options *options)
{
    options->max_lease_ms = options->lease_ms;
    return pawl_lock_open_quorum(
        quorum->clients, quorum->count, SHOP_LOCK_NAME, options, &quorum->lock);
}

static bool quorum_open(
    struct shop *shop, size_t count, bool multi, void **state_out, char *why, size_t why_size)
{
    const struct shop_settings *settings = shop_settings(shop);
    if (settings->quorum_count < count) {
        snprintf(
            why, why_size, "this strategy needs %zu lock servers; name them with --quorum", count);
        return false;
    }
    struct quorum *quorum = calloc(1, sizeof *quorum);
    if (quorum == NULL) {
        snprintf(why, why_size, "out of memory");
        return false;
    }
    quorum->count = count;
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    options.lease_ms = settings->lease_ms;
    options.on_lost = pool_lost;
    options.event_arg = shop;
    pawl_status status = open_clients(quorum, settings);
    if (status == PAWL_OK) {
        status = multi ? open_multi(quorum, &options) : open_redlock(quorum, &options);
    }
    if (status != PAWL_OK) {
        snprintf(why, why_size, "%s", pawl_last_error());
        quorum_close(shop, quorum);
        return false;
    }
    *state_out = quorum;
    return true;
}

/* ===== Entering and leaving ===== */

static enum entry enter(struct seller *seller, struct order *order)
{
    struct quorum *quorum = strategy_state(seller->shop, order->strategy);
    const int64_t left_ms = (order->deadline_us - now_us()) / 1000;
    const pawl_status status = pawl_lock_acquire(quorum->lock, left_ms > 0 ? left_ms : PAWL_TRY);
    if (status == PAWL_OK) {
        order->ticket.token = pawl_lock_token(quorum->lock);
    } else {
        snprintf(order->why, sizeof order->why, "%.190s", pawl_last_error());
    }
    return pool_entry_of(status);
}

static void leave(struct seller *seller, struct order *order)
{
    struct quorum *quorum = strategy_state(seller->shop, order->strategy);
    pawl_lock_release(quorum->lock); /* whether it was lost, pool_lost() has been told */
}

/* ===== pawl-multi ===== */

/* FLAW: all three servers must answer: one that is down closes the shop. It is for several things
 * at once, not for servers that may fail. */
static bool open_multi_of_3(struct shop *shop, void **state_out, char *why, size_t why_size)
{
    return quorum_open(shop, 3, true, state_out, why, why_size);
}

const struct strategy strategy_pawl_multi = {
    .name = "pawl-multi",
    .title = "pawl multi-lock over three servers",
    .flaw = "every one of the three servers must be there: one that is down closes the shop",
    .needs = "--quorum with 3 servers",
    .open = open_multi_of_3,
    .close = quorum_close,
    .cancel = quorum_cancel,
    .enter = enter,
    .leave = leave,
};

/* ===== redlock ===== */

/* FLAW: one of three may fail, two may not. And a seller that is stopped for longer than the lease
 * writes late, as with every lock that has one. */
static bool open_redlock_of_3(struct shop *shop, void **state_out, char *why, size_t why_size)
{
    return quorum_open(shop, 3, false, state_out, why, why_size);
}

const struct strategy strategy_redlock = {
    .name = "redlock",
    .title = "Redlock over three servers",
    .flaw = "a seller that is stopped for longer than the lease writes late; two of three servers "
            "down close the shop",
    .needs = "--quorum with 3 servers",
    .open = open_redlock_of_3,
    .close = quorum_close,
    .cancel = quorum_cancel,
    .enter = enter,
    .leave = leave,
};

/* ===== redlock5 ===== */

/* FLAW: as before, with two of five that may fail, and five requests where there were three. */
static bool open_redlock_of_5(struct shop *shop, void **state_out, char *why, size_t why_size)
{
    return quorum_open(shop, 5, false, state_out, why, why_size);
}

const struct strategy strategy_redlock5 = {
    .name = "redlock5",
    .title = "Redlock over five servers",
    .flaw = "a seller that is stopped for longer than the lease writes late; three of five servers "
            "down close the shop",
    .needs = "--quorum with 5 servers",
    .open = open_redlock_of_5,
    .close = quorum_close,
    .cancel = quorum_cancel,
    .enter = enter,
    .leave = leave,
};
