/* SPDX-License-Identifier: Apache-2.0 */
/* Split stock: one hot item sold from several segments, each with a lock of its own.
 *
 * A counter modulo the number of segments says where an order looks first; if that segment has too
 * little left, it falls over to the next one that has enough. Which segments there are, and what
 * was in them when last seen, is remembered here: a hint, which saves a look at Redis before each
 * order. Under the lock the truth is read; if it is another one (the segment is empty, or a PUT has
 * split the item anew) all segments are looked at afresh. Nothing is ever said to be sold out by
 * the hint alone. So the last piece is found, wherever it is.
 *
 * An item that is not split is one segment, under the shop's ordinary lock. */
#include "strategies/strategies.h"

#include "common/clock.h"
#include "common/redis.h"
#include "embedded.h"
#include "pawl.h"
#include "shop/items.h"
#include "shop/stock.h"
#include "shop/tally.h"
#include "strategies/pool.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LOCK_NAME_SIZE = sizeof SHOP_LOCK_NAME + 1 + SEGMENT_KEY_SIZE };

/* An item as it was last seen. */
struct known {
    struct item item;
    struct known *next;
};

/* The lock of one segment, for all sellers: the calling thread is its owner. */
struct segment_lock {
    char name[LOCK_NAME_SIZE];
    pawl_lock *lock;
    struct segment_lock *next;
};

struct split {
    pawl_client *client;
    pawl_lock_options options;
    atomic_uint turn;
    pthread_mutex_t mutex; /* over both lists; entries are never taken out */
    struct known *items;
    struct segment_lock *locks;
};

/* What one order has in mind. */
struct choice {
    struct item item;
    int at;          /* the segment; NOWHERE: none has enough */
    pawl_lock *lock; /* of that segment, held; or NULL */
};

enum { NOWHERE = -1 };

/* ===== Opening and closing ===== */

static bool split_open(struct shop *shop, void **state_out, char *why, size_t why_size)
{
    struct split *split = calloc(1, sizeof *split);
    if (split == NULL) {
        snprintf(why, why_size, "out of memory");
        return false;
    }
    pawl_client_options client_options = PAWL_CLIENT_OPTIONS_INIT;
    client_options.lazy = true;
    if (pawl_client_open(shop_lock_url(shop), &client_options, &split->client) != PAWL_OK) {
        snprintf(why, why_size, "%s", pawl_last_error());
        free(split);
        return false;
    }
    const pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    split->options = options;
    split->options.lease_ms = shop_settings(shop)->lease_ms;
    split->options.release_unawaited = true;
    split->options.on_lost = pool_lost;
    split->options.event_arg = shop;
    pthread_mutex_init(&split->mutex, NULL);
    *state_out = split;
    return true;
}

static void split_cancel(struct shop *shop, void *state)
{
    (void)shop;
    struct split *split = state;
    pthread_mutex_lock(&split->mutex);
    for (struct segment_lock *lock = split->locks; lock != NULL; lock = lock->next) {
        pawl_lock_cancel(lock->lock);
    }
    pthread_mutex_unlock(&split->mutex);
}

static void split_close(struct shop *shop, void *state)
{
    (void)shop;
    struct split *split = state;
    pawl_client_close(split->client);
    while (split->locks != NULL) {
        struct segment_lock *lock = split->locks;
        split->locks = lock->next;
        pawl_lock_close(lock->lock);
        free(lock);
    }
    while (split->items != NULL) {
        struct known *known = split->items;
        split->items = known->next;
        free(known);
    }
    pthread_mutex_destroy(&split->mutex);
    free(split);
}

/* ===== What is known of an item ===== */

/* Called with the mutex. */
static struct known *find_known(struct split *split, const char *id)
{
    struct known *known = split->items;
    while (known != NULL && strcmp(known->item.id, id) != 0) {
        known = known->next;
    }
    return known;
}

static bool recall(struct split *split, const char *id, struct item *item_out)
{
    pthread_mutex_lock(&split->mutex);
    const struct known *known = find_known(split, id);
    if (known != NULL) {
        *item_out = known->item;
    }
    pthread_mutex_unlock(&split->mutex);
    return known != NULL;
}

static void remember(struct split *split, const struct item *item)
{
    pthread_mutex_lock(&split->mutex);
    struct known *known = find_known(split, item->id);
    if (known == NULL) {
        known = calloc(1, sizeof *known);
        if (known != NULL) {
            known->next = split->items;
            split->items = known;
        }
    }
    if (known != NULL) { /* without memory it is looked at anew each time */
        known->item = *item;
    }
    pthread_mutex_unlock(&split->mutex);
}

/* This much is left in that segment, if it is still the one that is known. */
static void remember_rest(struct split *split, const struct choice *choice, int64_t rest)
{
    pthread_mutex_lock(&split->mutex);
    struct known *known = find_known(split, choice->item.id);
    if (known != NULL && known->item.segment_count == choice->item.segment_count) {
        known->item.segments[choice->at].stock = rest;
    }
    pthread_mutex_unlock(&split->mutex);
}

/* Look at all segments. false: the order has ended. */
static bool look(struct seller *seller, struct order *order, struct choice *choice)
{
    const enum item_answer answer = item_read(seller, order->item, &choice->item);
    if (answer == ITEM_UNKNOWN) {
        order->end = ORDER_UNKNOWN_ITEM;
    } else if (answer != ITEM_FOUND) {
        order_unavailable(order, NULL);
    }
    if (answer != ITEM_FOUND) {
        return false;
    }
    struct item *item = &choice->item;
    if (item->segment_count == 0) { /* the whole stock is the only segment */
        item->segments[0].stock = item->stock;
        snprintf(item->segments[0].key, sizeof item->segments[0].key, "%s", item->id);
    }
    remember(strategy_state(seller->shop, order->strategy), item);
    return true;
}

/* The first segment from `start` on that has enough, as far as is known. */
static int pick(const struct item *item, unsigned start, int64_t quantity)
{
    const unsigned count = item->segment_count > 0 ? (unsigned)item->segment_count : 1;
    for (unsigned i = 0; i < count; i++) {
        const unsigned at = (start + i) % count;
        if (item->segments[at].stock >= quantity) {
            return (int)at;
        }
    }
    return NOWHERE;
}

/* ===== The locks of segments ===== */

static pawl_lock *lock_named(struct split *split, const char *name)
{
    pthread_mutex_lock(&split->mutex);
    struct segment_lock *found = split->locks;
    while (found != NULL && strcmp(found->name, name) != 0) {
        found = found->next;
    }
    if (found == NULL) {
        found = calloc(1, sizeof *found);
        if (found != NULL &&
            pawl_lock_open(split->client, name, &split->options, &found->lock) == PAWL_OK) {
            snprintf(found->name, sizeof found->name, "%s", name);
            found->next = split->locks;
            split->locks = found;
        } else {
            free(found);
            found = NULL;
        }
    }
    pthread_mutex_unlock(&split->mutex);
    return found != NULL ? found->lock : NULL;
}

static enum entry take_segment(struct split *split, struct order *order, struct choice *choice)
{
    char name[LOCK_NAME_SIZE] = SHOP_LOCK_NAME;
    if (choice->item.segment_count > 0) {
        snprintf(name, sizeof name, "%s:%s", SHOP_LOCK_NAME, choice->item.segments[choice->at].key);
    }
    pawl_lock *lock = lock_named(split, name);
    if (lock == NULL) {
        snprintf(order->why, sizeof order->why, "the lock of a segment cannot be opened");
        return ENTRY_FAILED;
    }
    const int64_t left_us = order->deadline_us - now_us();
    const pawl_status status = pawl_lock_acquire(lock, left_us > 0 ? left_us / 1000 : PAWL_TRY);
    if (status == PAWL_OK) {
        choice->lock = lock;
        order->ticket.token = pawl_lock_token(lock);
    } else {
        snprintf(order->why, sizeof order->why, "%.190s", pawl_last_error());
    }
    return pool_entry_of(status);
}

static void let_go(struct choice *choice)
{
    if (choice->lock != NULL) {
        pawl_lock_release(choice->lock);
        choice->lock = NULL;
    }
}

/* ===== An order's way ===== */

static enum entry split_enter(struct seller *seller, struct order *order)
{
    struct split *split = strategy_state(seller->shop, order->strategy);
    struct choice *choice = calloc(1, sizeof *choice);
    if (choice == NULL) {
        snprintf(order->why, sizeof order->why, "out of memory");
        return ENTRY_FAILED;
    }
    order->ticket.own = choice;
    const unsigned turn = atomic_fetch_add(&split->turn, 1);
    choice->at = NOWHERE;
    if (recall(split, order->item, &choice->item)) {
        choice->at = pick(&choice->item, turn, order->quantity);
    }
    if (choice->at == NOWHERE) {
        if (!look(seller, order, choice)) {
            return ENTERED; /* to be answered as it has ended */
        }
        choice->at = pick(&choice->item, turn, order->quantity);
        order->end = ORDER_SOLD_OUT;
        order->remaining = choice->item.stock;
    }
    const enum entry entry = choice->at != NOWHERE ? take_segment(split, order, choice) : ENTERED;
    if (entry != ENTERED) {
        free(choice);
        order->ticket.own = NULL;
    }
    return entry;
}

/* Sell from the segment whose lock is held. */
static void sell_segment(struct seller *seller, struct order *order, struct choice *choice)
{
    const struct item_segment *segment = &choice->item.segments[choice->at];
    const struct stock_link link = seller_segment_link(seller, segment->server);
    struct stock_reading reading;
    if (!stock_check(link, order, segment->key, &reading)) {
        return;
    }
    shop_work(seller->shop, order);
    stock_write_back(link, order, segment->key, &reading, true);
}

/* Whether the item may be another one than was known, or have its pieces elsewhere. */
static bool is_surprise(const struct order *order)
{
    return order->end == ORDER_SOLD_OUT || order->end == ORDER_UNKNOWN_ITEM || order->changed;
}

/* Take the lock of another segment. false: it is not to be had, and the order has ended. */
static bool go_on(struct split *split, struct order *order, struct choice *choice)
{
    const enum entry entry = take_segment(split, order, choice);
    if (entry != ENTERED) {
        order->end = entry == ENTRY_BUSY ? ORDER_BUSY : ORDER_UNAVAILABLE;
    }
    return entry == ENTERED;
}

static void split_sell(struct seller *seller, struct order *order)
{
    struct split *split = strategy_state(seller->shop, order->strategy);
    struct choice *choice = order->ticket.own;
    while (choice->at != NOWHERE) {
        order->changed = false;
        sell_segment(seller, order, choice);
        if (order->end == ORDER_SOLD) {
            remember_rest(split, choice, order->remaining);
        }
        if (!is_surprise(order)) {
            return;
        }
        const unsigned next = (unsigned)choice->at + 1;
        let_go(choice);
        if (!look(seller, order, choice)) {
            return;
        }
        choice->at = pick(&choice->item, next, order->quantity);
        order->end = ORDER_SOLD_OUT;
        order->remaining = choice->item.stock;
        if (choice->at != NOWHERE && !go_on(split, order, choice)) {
            return;
        }
    }
}

static void split_leave(struct seller *seller, struct order *order)
{
    (void)seller;
    struct choice *choice = order->ticket.own;
    let_go(choice);
    free(choice);
    order->ticket.own = NULL;
}

/* No flaw of its own: as many can sell at the same time as there are segments. The price is that an
 * order for several pieces finds them in one segment or not at all. What was stopped for longer
 * than the lease writes nothing that has been sold meanwhile: the write compares. */
const struct strategy strategy_split = {
    .name = "split",
    .title = "split stock, a lock for each segment",
    .flaw = NULL,
    .sound = true,
    .open = split_open,
    .close = split_close,
    .cancel = split_cancel,
    .enter = split_enter,
    .sell = split_sell,
    .leave = split_leave,
};
