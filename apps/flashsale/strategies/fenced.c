/* SPDX-License-Identifier: Apache-2.0 */
/* pawl's mutex, and a stock that refuses whoever comes too late.
 *
 * Each hold has a token, greater than those of all holds before it. The sale gives it along with
 * what it reads and writes, and the stock remembers the greatest that it has seen: a seller that
 * was stopped until its lease was over, and goes on as if nothing had happened, has a smaller one
 * by then, and nothing of it is written. That needs no clock and no promise about pauses, only a
 * store that can compare two numbers: the two scripts beside this file. */
#include "strategies/strategies.h"

#include "common/redis.h"
#include "embedded.h"
#include "shop/stock.h"
#include "strategies/pool.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { NUMBER_SIZE = 24, READ_ARGUMENTS = 5, WRITE_ARGUMENTS = 9 };

/* What both scripts are told. */
struct numbers {
    char token[NUMBER_SIZE];
    char quantity[NUMBER_SIZE];
    char remaining[NUMBER_SIZE];
    char sale[SALE_SIZE];
};

/* Whether the answer begins with this word; if not, the order ends accordingly. */
static bool says(struct order *order, redisReply *reply, const char *word)
{
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements < 3) {
        order_unavailable(order, reply);
        return false;
    }
    const char *what = reply->element[0]->str;
    if (strcmp(what, word) == 0) {
        return true;
    }
    if (strcmp(what, "fenced") == 0) {
        order->end = ORDER_REFUSED;
        order->remaining = reply->element[2]->integer;
        snprintf(order->why, sizeof order->why,
            "the fence refused it: the lock was lost (token %" PRIu64
            ") and a later holder was here; order again",
            order->ticket.token);
    } else {
        order_not_sold(order, what, reply->element[1]->integer, reply->element[2]->integer);
    }
    return false;
}

static bool fenced_read(
    struct seller *seller, struct order *order, struct numbers *numbers, int64_t *stock_out)
{
    const char *const arguments[READ_ARGUMENTS] = {
        order->item, numbers->token, numbers->quantity, order->user, order->activity};
    redisReply *reply = seller_run_on_stock(
        seller, &embedded_strategies_fenced_read_lua, 1, READ_ARGUMENTS, arguments);
    if (reply == NULL) {
        order_unavailable(order, NULL);
        return false;
    }
    const bool read = says(order, reply, "read");
    if (read) {
        *stock_out = reply->element[2]->integer;
        snprintf(numbers->sale, sizeof numbers->sale, "%.23s", reply->element[3]->str);
    }
    freeReplyObject(reply);
    return read;
}

static void fenced_write(struct seller *seller, struct order *order, struct numbers *numbers)
{
    struct order_record record;
    order_record_write(order, order->item, &record);
    const struct stock_link link = seller_stock_link(seller);
    if (!redis_ready(link.context, link.place, link.place->db)) {
        order_unavailable(order, NULL);
        return;
    }
    const char *const arguments[WRITE_ARGUMENTS] = {order->item, numbers->token, numbers->quantity,
        order->user, order->activity, numbers->remaining, record.head, record.tail, numbers->sale};
    redisReply *reply = seller_run_on_stock(
        seller, &embedded_strategies_fenced_write_lua, 1, WRITE_ARGUMENTS, arguments);
    if (reply == NULL) {
        order_unknown(order);
    } else if (says(order, reply, "sold")) {
        order_sold(order, order->item, reply->element[1]->integer, reply->element[2]->integer);
    }
    freeReplyObject(reply);
}

static void sell_fenced(struct seller *seller, struct order *order)
{
    struct numbers numbers;
    snprintf(numbers.token, sizeof numbers.token, "%" PRIu64, order->ticket.token);
    snprintf(numbers.quantity, sizeof numbers.quantity, "%" PRId64, order->quantity);
    int64_t stock = 0;
    if (!fenced_read(seller, order, &numbers, &stock)) {
        return;
    }
    shop_work(seller->shop, order);
    snprintf(numbers.remaining, sizeof numbers.remaining, "%" PRId64, stock - order->quantity);
    fenced_write(seller, order, &numbers);
}

/* No flaw: the lock keeps sellers from disturbing each other, and the fence keeps the stock right
 * even when the lock is lost. */
const struct strategy strategy_pawl_fenced = {
    .name = "pawl-fenced",
    .title = "pawl's mutex with fenced writes",
    .flaw = NULL,
    .sound = true,
    .open = pool_open,
    .close = pool_close,
    .cancel = pool_cancel,
    .enter_async = pool_enter,
    .sell = sell_fenced,
    .leave = pool_leave,
};
