/* SPDX-License-Identifier: Apache-2.0 */
/* A sale as every beginner writes it: read the stock, check it, write it back, record the order.
 *
 * It is right for one at a time. Two who read 50 both write 49, and both have sold the fiftieth
 * piece: between the read and the write lies a round trip, and whatever shop_work() does. Keeping
 * others out meanwhile is what the strategies are for. */
#include "shop/stock.h"

#include "common/clock.h"
#include "shop/inside.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct stock_link seller_stock_link(struct seller *seller)
{
    return (struct stock_link){.context = &seller->stock, .place = &seller->shop->stock_place};
}

struct stock_link seller_segment_link(struct seller *seller, size_t server)
{
    if (server == 0) {
        return seller_stock_link(seller);
    }
    return (struct stock_link){.context = &seller->segments[server - 1],
        .place = &seller->shop->segment_places[server - 1]};
}

/* ===== How it ends ===== */

void order_unavailable(struct order *order, const redisReply *reply)
{
    order->end = ORDER_UNAVAILABLE;
    if (reply != NULL && reply->type == REDIS_REPLY_ERROR) {
        snprintf(order->why, sizeof order->why, "Redis says: %.150s", reply->str);
    } else {
        snprintf(order->why, sizeof order->why, "Redis does not answer; nothing was sold");
    }
}

void order_sold(struct order *order, const char *key, int64_t nth, int64_t remaining)
{
    order->end = ORDER_SOLD;
    order->remaining = remaining;
    snprintf(order->segment, sizeof order->segment, "%s", key);
    snprintf(order->number, sizeof order->number, "%s-%" PRId64, key, nth);
}

void order_unknown(struct order *order)
{
    order->end = ORDER_UNKNOWN;
    snprintf(order->why, sizeof order->why,
        "Redis went away over the answer; the order may be recorded or not");
}

void order_not_sold(struct order *order, const char *what, int64_t n, int64_t stock)
{
    order->remaining = stock;
    if (strcmp(what, "unknown") == 0) {
        order->end = ORDER_UNKNOWN_ITEM;
    } else if (strcmp(what, "sold out") == 0) {
        order->end = ORDER_SOLD_OUT;
    } else if (strcmp(what, "limit") == 0) {
        order->end = ORDER_REFUSED;
        snprintf(order->why, sizeof order->why,
            "at most %" PRId64 " for each user (?user=), who has %" PRId64 " already", n, stock);
    } else {
        order->end = ORDER_REFUSED;
        snprintf(order->why, sizeof order->why,
            "the stock of %s is split; order with ?strategy=split, or PUT the item anew",
            order->item);
    }
}

/* ===== Read and check ===== */

/* The user's limit and what the user has bought, from the answers to GET per_user and HGET buyers.
 */
static bool check_user(struct order *order, const redisReply *limit, const redisReply *bought)
{
    int64_t limit_pieces = 0;
    int64_t bought_pieces = 0;
    if (!redis_number(limit, &limit_pieces) || limit_pieces == 0) {
        return true;
    }
    if (order->user[0] == '\0') {
        order->end = ORDER_REFUSED;
        snprintf(order->why, sizeof order->why,
            "this item is limited to %" PRId64 " for each user; say who, with ?user=",
            limit_pieces);
        return false;
    }
    redis_number(bought, &bought_pieces);
    if (bought_pieces + order->quantity > limit_pieces) {
        order->end = ORDER_REFUSED;
        snprintf(order->why, sizeof order->why,
            "user %s has %" PRId64 " of at most %" PRId64 " pieces already", order->user,
            bought_pieces, limit_pieces);
        return false;
    }
    return true;
}

static bool judge(struct order *order, redisReply *const replies[3], int64_t *stock_out)
{
    const redisReply *stock = replies[0];
    if (stock->type == REDIS_REPLY_ERROR && strncmp(stock->str, "WRONGTYPE", 9) == 0) {
        order->end = ORDER_REFUSED;
        snprintf(order->why, sizeof order->why,
            "the stock of %s is split; order with ?strategy=split, or PUT the item anew",
            order->item);
        return false;
    }
    if (stock->type == REDIS_REPLY_NIL) {
        order->end = ORDER_UNKNOWN_ITEM;
        return false;
    }
    if (!redis_number(stock, stock_out)) {
        order_unavailable(order, stock);
        return false;
    }
    order->remaining = *stock_out;
    if (*stock_out < order->quantity) {
        order->end = ORDER_SOLD_OUT;
        return false;
    }
    return check_user(order, replies[1], replies[2]);
}

bool stock_check(struct stock_link link, struct order *order, const char *key, int64_t *stock_out)
{
    if (!redis_ready(link.context, link.place, link.place->db)) {
        order_unavailable(order, NULL);
        return false;
    }
    redisContext *context = *link.context;
    redisAppendCommand(context, "GET %s", key);
    redisAppendCommand(context, "GET per_user:%s", order->item);
    redisAppendCommand(context, "HGET buyers:%s:%s %s", order->activity, order->item, order->user);
    redisReply *replies[3] = {NULL, NULL, NULL};
    bool answered = true;
    for (int i = 0; i < 3 && answered; i++) {
        void *reply = NULL;
        answered = redisGetReply(context, &reply) == REDIS_OK;
        replies[i] = reply;
    }
    bool good = false;
    if (answered) {
        good = judge(order, replies, stock_out);
    } else {
        order_unavailable(order, NULL);
        redis_drop(link.context);
    }
    for (int i = 0; i < 3; i++) {
        freeReplyObject(replies[i]);
    }
    return good;
}

/* ===== Write back and record ===== */

void order_record_write(const struct order *order, const char *key, struct order_record *out)
{
    snprintf(out->head, sizeof out->head,
        "{\"item\":\"%s\",\"segment\":\"%s\",\"quantity\":%" PRId64 ",\"remaining\":", order->item,
        key, order->quantity);
    snprintf(out->tail, sizeof out->tail,
        ",\"port\":%d,\"strategy\":\"%s\",\"user\":\"%s\",\"activity\":\"%s\",\"at_ms\":%" PRId64
        ",\"token\":%" PRIu64 "}",
        order->shop->settings.port, order->strategy->name, order->user, order->activity, wall_ms(),
        order->ticket.token);
}

/* The answer to EXEC: the second of its replies is how many orders are recorded now. */
static void read_exec(
    struct order *order, const redisReply *exec, const char *key, int64_t remaining)
{
    if (exec->type == REDIS_REPLY_ARRAY && exec->elements >= 2 &&
        exec->element[1]->type == REDIS_REPLY_INTEGER) {
        order_sold(order, key, exec->element[1]->integer, remaining);
    } else {
        order_unavailable(order, exec);
    }
}

void stock_write_back(
    struct stock_link link, struct order *order, const char *key, int64_t remaining)
{
    if (!redis_ready(link.context, link.place, link.place->db)) {
        order_unavailable(order, NULL);
        return;
    }
    struct order_record record;
    order_record_write(order, key, &record);
    redisContext *context = *link.context;
    int due = 4;
    redisAppendCommand(context, "MULTI");
    redisAppendCommand(context, "SET %s %" PRId64, key, remaining);
    redisAppendCommand(
        context, "RPUSH orders:%s %s%" PRId64 "%s", key, record.head, remaining, record.tail);
    if (order->user[0] != '\0') {
        redisAppendCommand(context, "HINCRBY buyers:%s:%s %s %" PRId64, order->activity,
            order->item, order->user, order->quantity);
        due++;
    }
    redisAppendCommand(context, "EXEC");
    for (int i = 0; i < due; i++) {
        void *reply = NULL;
        if (redisGetReply(context, &reply) != REDIS_OK) {
            order_unknown(order);
            redis_drop(link.context);
            return;
        }
        if (i == due - 1) {
            read_exec(order, reply, key, remaining);
        }
        freeReplyObject(reply);
    }
}

void sell_naively(struct seller *seller, struct order *order)
{
    int64_t stock = 0;
    const struct stock_link link = seller_stock_link(seller);
    if (!stock_check(link, order, order->item, &stock)) {
        return;
    }
    shop_work(seller->shop, order);
    stock_write_back(link, order, order->item, stock - order->quantity);
}
