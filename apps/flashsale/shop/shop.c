/* SPDX-License-Identifier: Apache-2.0 */
/* The way of an order through the shop: see shop.h, and strategy.h for its three steps. */
#include "shop/inside.h"

#include "common/clock.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    INSIDE_MS_MAX = 5000, /* how long shop_finish() waits for orders that are inside */
    CANCEL_MS = 200,      /* how often it tells those who wait meanwhile */
};

static struct order *order_of(struct task *task)
{
    return (struct order *)(void *)((char *)task - offsetof(struct order, task));
}

/* ===== Its life ===== */

static bool read_place(
    const char *option, const char *url, struct redis_place *place_out, char *why, size_t why_size)
{
    char sentence[200];
    const bool good = redis_place_parse(url, place_out, sentence, sizeof sentence);
    if (!good) {
        snprintf(why, why_size, "%s: %s", option, sentence);
    }
    return good;
}

static bool read_places(struct shop *shop, char *why, size_t why_size)
{
    const struct shop_settings *settings = &shop->settings;
    if (!read_place("--redis", settings->redis_url, &shop->stock_place, why, why_size)) {
        return false;
    }
    for (size_t i = 0; i < settings->segment_url_count; i++) {
        struct redis_place *place = &shop->segment_places[i];
        if (!read_place("--segments-on", settings->segment_urls[i], place, why, why_size)) {
            return false;
        }
    }
    redis_place_url(&shop->stock_place, LOCK_DB, shop->own_lock_url, sizeof shop->own_lock_url);
    shop->lock_url = settings->lock_url != NULL ? settings->lock_url : shop->own_lock_url;
    return true;
}

static bool start_crews(struct shop *shop)
{
    shop->sellers = crew_start(shop, shop->settings.sellers, 0);
    shop->tills = crew_start(shop, TILLS, shop->settings.sellers);
    shop->desk = crew_start(shop, DESKS, shop->settings.sellers + TILLS);
    return shop->sellers != NULL && shop->tills != NULL && shop->desk != NULL;
}

struct shop *shop_open(const struct shop_settings *settings, char *why, size_t why_size)
{
    struct shop *shop = calloc(1, sizeof *shop);
    if (shop == NULL) {
        snprintf(why, why_size, "out of memory");
        return NULL;
    }
    shop->settings = *settings;
    pthread_mutex_init(&shop->open_mutex, NULL);
    pthread_mutex_init(&shop->hand_mutex, NULL);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&shop->hand_empty, &monotonic);
    pthread_condattr_destroy(&monotonic);
    faults_open(&shop->faults);
    tally_open(&shop->tally);
    if (!read_places(shop, why, why_size)) {
        shop_close(shop);
        return NULL;
    }
    if (!start_crews(shop)) {
        snprintf(why, why_size, "cannot start %d threads; try fewer --sellers",
            settings->sellers + TILLS + DESKS);
        shop_close(shop);
        return NULL;
    }
    return shop;
}

/* Wait until no order is in hand any more. */
static bool wait_for_empty_hands(struct shop *shop, int64_t limit_ms)
{
    struct timespec end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += limit_ms / 1000;
    end.tv_nsec += limit_ms % 1000 * 1000000;
    if (end.tv_nsec >= 1000000000) {
        end.tv_sec++;
        end.tv_nsec -= 1000000000;
    }
    pthread_mutex_lock(&shop->hand_mutex);
    int result = 0;
    while (shop->in_hand > 0 && result == 0) {
        result = pthread_cond_timedwait(&shop->hand_empty, &shop->hand_mutex, &end);
    }
    const bool empty = shop->in_hand == 0;
    pthread_mutex_unlock(&shop->hand_mutex);
    return empty;
}

static void cancel_waits(struct shop *shop)
{
    for (size_t i = 0; strategies[i] != NULL; i++) {
        if (atomic_load(&shop->uses[i].open) && strategies[i]->cancel != NULL) {
            strategies[i]->cancel(shop, shop->uses[i].state);
        }
    }
}

bool shop_finish(struct shop *shop, int64_t grace_ms)
{
    bool empty = wait_for_empty_hands(shop, grace_ms);
    atomic_store(&shop->closing, true);
    /* More than once: an order may begin to wait just after the others were told. */
    for (int64_t ms = 0; ms < INSIDE_MS_MAX && !empty; ms += CANCEL_MS) {
        cancel_waits(shop);
        empty = wait_for_empty_hands(shop, CANCEL_MS);
    }
    return empty;
}

void shop_close(struct shop *shop)
{
    crew_stop(shop->sellers);
    crew_stop(shop->tills);
    crew_stop(shop->desk);
    for (size_t i = 0; strategies[i] != NULL; i++) {
        if (atomic_load(&shop->uses[i].open) && strategies[i]->close != NULL) {
            strategies[i]->close(shop, shop->uses[i].state);
        }
    }
    tally_close(&shop->tally);
    faults_close(&shop->faults);
    pthread_cond_destroy(&shop->hand_empty);
    pthread_mutex_destroy(&shop->hand_mutex);
    pthread_mutex_destroy(&shop->open_mutex);
    free(shop);
}

/* ===== Strategies ===== */

static size_t index_of(const struct strategy *strategy)
{
    size_t i = 0;
    while (strategies[i] != strategy) {
        i++;
    }
    return i;
}

void *strategy_state(struct shop *shop, const struct strategy *strategy)
{
    return shop->uses[index_of(strategy)].state;
}

bool shop_prepare(struct shop *shop, const struct strategy *strategy, char *why, size_t why_size)
{
    struct strategy_use *use = &shop->uses[index_of(strategy)];
    if (atomic_load(&use->open)) {
        return true;
    }
    pthread_mutex_lock(&shop->open_mutex);
    bool open = atomic_load(&use->open);
    if (!open) {
        open = strategy->open == NULL || strategy->open(shop, &use->state, why, why_size);
        atomic_store(&use->open, open);
    }
    pthread_mutex_unlock(&shop->open_mutex);
    return open;
}

/* ===== An order's way ===== */

static void end_order(struct order *order)
{
    struct shop *shop = order->shop;
    tally_ended(&shop->tally, index_of(order->strategy), order->end, now_us() - order->arrived_us);
    order->done(order, order->done_arg); /* from here on the order is not ours */
    pthread_mutex_lock(&shop->hand_mutex);
    shop->in_hand--;
    if (shop->in_hand == 0) {
        pthread_cond_broadcast(&shop->hand_empty);
    }
    pthread_mutex_unlock(&shop->hand_mutex);
}

/* It did not get in. */
static void send_away(struct order *order, enum entry entry)
{
    static const enum order_end ends[] = {[ENTRY_BUSY] = ORDER_BUSY,
        [ENTRY_UNAVAILABLE] = ORDER_UNAVAILABLE,
        [ENTRY_FAILED] = ORDER_FAILED};
    order->end = ends[entry];
    tally_wait(&order->shop->tally, -1);
    end_order(order);
}

void seller_answer_before(struct seller *seller)
{
    struct order *order = seller->before;
    if (order != NULL) {
        seller->before = NULL;
        end_order(order);
    }
}

/* If the next order is inside already it must not be kept waiting: to answer a customer takes
 * longer than one thinks, for a thread has to be woken. Redis gets its question first. */
static void end_or_leave_for_later(struct seller *seller, struct order *order)
{
    if (crew_has_next(seller)) {
        seller->before = order;
    } else {
        end_order(order);
    }
}

static void sell_and_leave(struct seller *seller, struct order *order)
{
    const struct strategy *strategy = order->strategy;
    order->ticket.waited_us = now_us() - order->arrived_us;
    tally_entered(&order->shop->tally, order->ticket.waited_us);
    const int locks = strategy->enter != NULL || strategy->enter_async != NULL ? 1 : 0;
    tally_inside(&order->shop->tally, locks);
    if (strategy->sell != NULL) {
        seller_answer_before(seller);
        strategy->sell(seller, order);
    } else {
        sell_naively(seller, order);
    }
    if (strategy->leave != NULL) {
        strategy->leave(seller, order);
    }
    tally_inside(&order->shop->tally, -locks);
    end_or_leave_for_later(seller, order);
}

static void run_inside(struct seller *seller, struct task *task)
{
    sell_and_leave(seller, order_of(task));
}

static void run_from_start(struct seller *seller, struct task *task)
{
    struct order *order = order_of(task);
    if (shop_is_closing(order->shop)) {
        snprintf(order->why, sizeof order->why, "this instance is closing; nothing was sold");
        send_away(order, ENTRY_UNAVAILABLE);
        return;
    }
    if (!shop_prepare(order->shop, order->strategy, order->why, sizeof order->why)) {
        send_away(order, ENTRY_FAILED);
        return;
    }
    if (order->strategy->enter_async != NULL) {
        order->strategy->enter_async(order->shop, order);
        return;
    }
    /* It may have stood in the queue for too long already; but --wait 0 is one try. */
    const bool late = now_us() >= order->deadline_us && order->deadline_us > order->arrived_us;
    enum entry entry = late ? ENTRY_BUSY : ENTERED;
    if (entry == ENTERED && order->strategy->enter != NULL) {
        entry = order->strategy->enter(seller, order);
    }
    if (entry == ENTERED) {
        sell_and_leave(seller, order);
    } else {
        send_away(order, entry);
    }
}

void shop_take(struct shop *shop, struct order *order)
{
    order->shop = shop;
    pthread_mutex_lock(&shop->hand_mutex);
    shop->in_hand++;
    pthread_mutex_unlock(&shop->hand_mutex);
    tally_wait(&shop->tally, 1);
    if (order->strategy->enter_async != NULL &&
        atomic_load(&shop->uses[index_of(order->strategy)].open)) {
        order->strategy->enter_async(shop, order);
        return;
    }
    order->task.run = run_from_start;
    crew_give(shop->sellers, &order->task);
}

void shop_entered(struct order *order, enum entry entry)
{
    if (entry != ENTERED) {
        send_away(order, entry);
        return;
    }
    order->task.run = run_inside;
    crew_give(order->shop->tills, &order->task);
}

/* ===== Small things ===== */

void shop_ask_desk(struct shop *shop, struct task *task)
{
    crew_give(shop->desk, task);
}

const struct shop_settings *shop_settings(const struct shop *shop)
{
    return &shop->settings;
}

const char *shop_lock_url(const struct shop *shop)
{
    return shop->lock_url;
}

bool shop_is_closing(const struct shop *shop)
{
    return atomic_load(&shop->closing);
}

redisReply *seller_ask_stock(struct seller *seller, const char *format, ...)
{
    const struct redis_place *place = &seller->shop->stock_place;
    va_list arguments;
    va_start(arguments, format);
    redisReply *reply = redis_ask_list(&seller->stock, place, place->db, format, arguments);
    va_end(arguments);
    return reply;
}

redisReply *seller_ask_lock(struct seller *seller, const char *format, ...)
{
    const struct redis_place *place = &seller->shop->stock_place;
    va_list arguments;
    va_start(arguments, format);
    redisReply *reply = redis_ask_list(&seller->lock, place, LOCK_DB, format, arguments);
    va_end(arguments);
    return reply;
}

redisReply *seller_run_on_stock(struct seller *seller, const struct embedded *script, int keys,
    int count, const char *const arguments[])
{
    const struct redis_place *place = &seller->shop->stock_place;
    return redis_run(&seller->stock, place, place->db, script, keys, count, arguments);
}

redisReply *seller_run_on_lock(struct seller *seller, const struct embedded *script, int keys,
    int count, const char *const arguments[])
{
    const struct redis_place *place = &seller->shop->stock_place;
    return redis_run(&seller->lock, place, LOCK_DB, script, keys, count, arguments);
}
