/* SPDX-License-Identifier: Apache-2.0 */
/* No lock at all, and yet exact: Redis carries a script out alone, so a check and a decrement in
 * one script need nobody to keep others out. For a mere counter this is the right answer, and the
 * measure for all the others. It ends where the work does: as soon as an order has to ask a payment
 * service or a second database between the check and the write, no script can do it. */
#include "strategies/strategies.h"

#include "common/redis.h"
#include "embedded.h"
#include "shop/stock.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void sell_atomically(struct seller *seller, struct order *order)
{
    struct order_record record;
    order_record_write(order, order->item, &record);
    char quantity[24];
    snprintf(quantity, sizeof quantity, "%" PRId64, order->quantity);
    shop_work(seller->shop, order);
    /* A connection that is known to be gone has sold nothing; one that breaks now may have. */
    const struct stock_link link = seller_stock_link(seller);
    if (!redis_ready(link.context, link.place, link.place->db)) {
        order_unavailable(order, NULL);
        return;
    }
    const char *const arguments[] = {
        order->item, quantity, record.head, record.tail, order->user, order->activity};
    redisReply *reply =
        seller_run_on_stock(seller, &embedded_strategies_sell_atomically_lua, 1, 6, arguments);
    if (reply == NULL) {
        order_unknown(order);
    } else if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 3) {
        order_unavailable(order, reply);
    } else if (strcmp(reply->element[0]->str, "sold") == 0) {
        order_sold(order, order->item, reply->element[1]->integer, reply->element[2]->integer);
    } else {
        order_not_sold(
            order, reply->element[0]->str, reply->element[1]->integer, reply->element[2]->integer);
    }
    freeReplyObject(reply);
}

const struct strategy strategy_atomic = {
    .name = "atomic",
    .title = "one atomic script: a mere counter needs no lock",
    .flaw = NULL,
    .sound = true,
    .sell = sell_atomically,
};
