/* SPDX-License-Identifier: Apache-2.0 */
/* A sale as every beginner writes it: read the stock, check it, write it back, record the order.
 *
 * It is right for one at a time. Two who read 50 both write 49, and both have sold the fiftieth
 * piece: between the read and the write lies a round trip, and whatever shop_work() does. Keeping
 * others out meanwhile is what the strategies are for. */
#include "shop/stock.h"

#include "common/clock.h"
#include "embedded.h"
#include "shop/inside.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct stock_link seller_stock_link(struct seller *seller)
{
    return (struct stock_link){
        .seller = seller, .context = &seller->stock, .place = &seller->shop->stock_place};
}

struct stock_link seller_segment_link(struct seller *seller, size_t server)
{
    if (server == 0) {
        return seller_stock_link(seller);
    }
    return (struct stock_link){.seller = seller,
        .context = &seller->segments[server - 1],
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
    if (strcmp(what, "unknown") == 0) {
        order->end = ORDER_UNKNOWN_ITEM;
    } else if (strcmp(what, "sold out") == 0) {
        order->end = ORDER_SOLD_OUT;
        order->remaining = stock;
    } else if (strcmp(what, "limit") == 0) {
        order->end = ORDER_REFUSED;
        snprintf(order->why, sizeof order->why,
            "at most %" PRId64 " for each user (?user=), who has %" PRId64 " already", n, stock);
    } else {
        order->end = ORDER_REFUSED;
        order->changed = true;
        snprintf(order->why, sizeof order->why,
            strcmp(what, "changed") == 0
                ? "%s was set anew while this order was inside; order again"
                : "the stock of %s is split; order with ?strategy=split, or PUT the item anew",
            order->item);
    }
}

/* ===== Read and check ===== */

enum { READS = 4 };

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

static bool judge(struct order *order, redisReply *const replies[READS], struct stock_reading *out)
{
    const redisReply *stock = replies[0];
    if (stock->type == REDIS_REPLY_ERROR && strncmp(stock->str, "WRONGTYPE", 9) == 0) {
        order_not_sold(order, "split", 0, 0);
        return false;
    }
    if (stock->type == REDIS_REPLY_NIL) {
        order->end = ORDER_UNKNOWN_ITEM;
        return false;
    }
    if (!redis_number(stock, &out->stock)) {
        order_unavailable(order, stock);
        return false;
    }
    snprintf(out->sale, sizeof out->sale, "%s",
        replies[3]->type == REDIS_REPLY_STRING ? replies[3]->str : "");
    order->remaining = out->stock;
    if (out->stock < order->quantity) {
        order->end = ORDER_SOLD_OUT;
        return false;
    }
    return check_user(order, replies[1], replies[2]);
}

/* Have what was appended leave now; a failure shows when the answers are read. */
static void send_all(redisContext *context)
{
    int done = 0;
    while (!done && redisBufferWrite(context, &done) == REDIS_OK) {
    }
}

bool stock_check(
    struct stock_link link, struct order *order, const char *key, struct stock_reading *out)
{
    if (*link.context == NULL) {
        seller_answer_before(link.seller); /* to connect may take a while */
    }
    if (!redis_ready(link.context, link.place, link.place->db)) {
        seller_answer_before(link.seller);
        order_unavailable(order, NULL);
        return false;
    }
    redisContext *context = *link.context;
    redisAppendCommand(context, "GET %s", key);
    redisAppendCommand(context, "GET per_user:%s", order->item);
    redisAppendCommand(context, "HGET buyers:%s:%s %s", order->activity, order->item, order->user);
    redisAppendCommand(context, "GET sale:%s", order->item);
    send_all(context);
    seller_answer_before(link.seller);
    redisReply *replies[READS] = {NULL};
    bool answered = true;
    for (int i = 0; i < READS && answered; i++) {
        void *reply = NULL;
        answered = redisGetReply(context, &reply) == REDIS_OK;
        replies[i] = reply;
    }
    bool good = false;
    if (answered) {
        good = judge(order, replies, out);
    } else {
        order_unavailable(order, NULL);
        redis_drop(link.context);
    }
    for (int i = 0; i < READS; i++) {
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

void stock_write_back(struct stock_link link, struct order *order, const char *key,
    const struct stock_reading *reading, bool compare)
{
    if (!redis_ready(link.context, link.place, link.place->db)) {
        order_unavailable(order, NULL);
        return;
    }
    const int64_t remaining = reading->stock - order->quantity;
    struct order_record record;
    char rest[24];
    char before[24] = "";
    char quantity[24];
    order_record_write(order, key, &record);
    snprintf(rest, sizeof rest, "%" PRId64, remaining);
    snprintf(quantity, sizeof quantity, "%" PRId64, order->quantity);
    if (compare) {
        snprintf(before, sizeof before, "%" PRId64, reading->stock);
    }
    const char *const arguments[] = {key, order->item, reading->sale, before, rest, record.head,
        record.tail, order->user, order->activity, quantity};
    redisReply *reply = redis_run(link.context, link.place, link.place->db,
        &embedded_shop_write_back_lua, 1, sizeof arguments / sizeof arguments[0], arguments);
    if (reply == NULL) {
        order_unknown(order);
    } else if (reply->type != REDIS_REPLY_INTEGER) {
        order_unavailable(order, reply);
    } else if (reply->integer == 0) {
        order_not_sold(order, "changed", 0, reading->stock);
    } else {
        order_sold(order, key, reply->integer, remaining);
    }
    freeReplyObject(reply);
}

void sell_naively(struct seller *seller, struct order *order)
{
    struct stock_reading reading;
    const struct stock_link link = seller_stock_link(seller);
    if (!stock_check(link, order, order->item, &reading)) {
        return;
    }
    shop_work(seller->shop, order);
    stock_write_back(link, order, order->item, &reading, false);
}
