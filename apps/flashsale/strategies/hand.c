/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of hand-written locks: see hand.h. */
#include "strategies/hand.h"

#include "common/clock.h"
#include "embedded.h"

#include <hiredis/hiredis.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

/* ===== Waiting ===== */

enum entry hand_entry(enum attempt attempt)
{
    static const enum entry entries[] = {
        [ATTEMPT_GOT] = ENTERED, [ATTEMPT_HELD] = ENTRY_BUSY, [ATTEMPT_AWAY] = ENTRY_UNAVAILABLE};
    return entries[attempt];
}

enum entry hand_wait(
    struct seller *seller, struct order *order, attempt_function *attempt, int64_t pause_us)
{
    while (true) {
        enum attempt result = attempt(seller, order);
        if (result != ATTEMPT_HELD || now_us() + pause_us >= order->deadline_us ||
            shop_is_closing(seller->shop)) {
            return hand_entry(result);
        }
        sleep_us(pause_us);
    }
}

void hand_sleep(struct seller *seller, int64_t us)
{
    const int64_t end_us = now_us() + us;
    for (int64_t left_us = us; left_us > 0 && !shop_is_closing(seller->shop);
         left_us = end_us - now_us()) {
        sleep_us(left_us < PAUSE_LONG_US ? left_us : PAUSE_LONG_US);
    }
}

/* ===== Commands ===== */

void hand_name_owner(struct seller *seller, struct order *order)
{
    uint64_t random[2] = {0, 0};
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random) {
        random[0] = (uint64_t)now_us(); /* cannot happen: so few bytes always come */
    }
    snprintf(order->ticket.owner, sizeof order->ticket.owner, "%016" PRIx64 "%016" PRIx64 ":%d",
        random[0], random[1], seller->number);
}

long long hand_lease_ms(const struct seller *seller)
{
    return (long long)shop_settings(seller->shop)->lease_ms;
}

enum attempt hand_read(struct order *order, struct redisReply *reply)
{
    if (reply == NULL) {
        return ATTEMPT_AWAY;
    }
    enum attempt result = ATTEMPT_HELD;
    if (reply->type == REDIS_REPLY_STATUS ||
        (reply->type == REDIS_REPLY_INTEGER && reply->integer == 1)) {
        result = ATTEMPT_GOT;
    } else if (reply->type == REDIS_REPLY_ERROR && strstr(reply->str, "WRONGTYPE") == NULL) {
        snprintf(order->why, sizeof order->why, "Redis refused to lock: %.160s", reply->str);
        result = ATTEMPT_AWAY;
    }
    freeReplyObject(reply);
    return result;
}

enum attempt hand_set_with_lease(struct seller *seller, struct order *order)
{
    struct redisReply *reply = seller_ask_lock(
        seller, "SET %s %s NX PX %lld", SHOP_LOCK_NAME, order->ticket.owner, hand_lease_ms(seller));
    return hand_read(order, reply);
}

void hand_delete(struct seller *seller, struct order *order)
{
    (void)order;
    freeReplyObject(seller_ask_lock(seller, "DEL %s", SHOP_LOCK_NAME));
}

struct redisReply *hand_run(struct seller *seller, const struct embedded *script, const char *owner)
{
    char lease_ms[24];
    snprintf(lease_ms, sizeof lease_ms, "%lld", hand_lease_ms(seller));
    const char *const arguments[] = {SHOP_LOCK_NAME, owner, lease_ms};
    return seller_run_on_lock(seller, script, 1, 3, arguments);
}

void hand_delete_own(struct seller *seller, const char *owner)
{
    freeReplyObject(hand_run(seller, &embedded_strategies_delete_own_lua, owner));
}

/* ===== Again and again by the same owner ===== */

enum attempt hand_reenter(struct seller *seller, struct order *order)
{
    return hand_read(
        order, hand_run(seller, &embedded_strategies_reenter_lua, order->ticket.owner));
}

void hand_release_once(struct seller *seller, struct order *order)
{
    freeReplyObject(hand_run(seller, &embedded_strategies_release_once_lua, order->ticket.owner));
}
