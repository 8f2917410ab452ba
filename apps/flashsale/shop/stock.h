/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stock in Redis and the record of orders: the pieces that a sale is made of, for strategies
 * whose `sell` is not sell_naively().
 */
#ifndef FLASHSALE_SHOP_STOCK_H
#define FLASHSALE_SHOP_STOCK_H

#include "shop/shop.h"

#include <stdbool.h>
#include <stdint.h>

struct redis_place;

/* A connection to a server with stock, which is made again when it was gone. */
struct stock_link {
    struct seller *seller;
    struct redisContext **context;
    const struct redis_place *place;
};

/* The seller's own, to the server of --redis. */
struct stock_link seller_stock_link(struct seller *seller);

/* The same to a server that has segments: 0 is that of --redis, 1 and up are those of
 * --segments-on. It must be one of them. */
struct stock_link seller_segment_link(struct seller *seller, size_t server);

/* What was read, to be written back later. */
enum { SALE_SIZE = 24 };
struct stock_reading {
    int64_t stock;
    char sale[SALE_SIZE]; /* which sale it was: each PUT of the item begins a new one */
};

/* Read the stock under this key, and check that the order can be served: the item is there, enough
 * is left, the user's limit is kept. false: it cannot, and order->end and order->remaining say so.
 */
bool stock_check(
    struct stock_link link, struct order *order, const char *key, struct stock_reading *out);

/* Write the rest back under this key and record the order, in one step. Fills the order's second
 * part: ORDER_SOLD, ORDER_REFUSED (a PUT came between, nothing was written), ORDER_UNAVAILABLE
 * (nothing was written) or ORDER_UNKNOWN. With `compare` nothing is written either if the stock is
 * not what was read: a lock that does its work never needs that. */
void stock_write_back(struct stock_link link, struct order *order, const char *key,
    const struct stock_reading *reading, bool compare);

/* The JSON record of an order, in two parts: what stands before the remaining stock and behind it,
 * for scripts that only know it inside Redis. */
enum { RECORD_PART_SIZE = 512 };
struct order_record {
    char head[RECORD_PART_SIZE];
    char tail[RECORD_PART_SIZE];
};
void order_record_write(const struct order *order, const char *key, struct order_record *out);

/* The order was recorded under this key as the nth. */
void order_sold(struct order *order, const char *key, int64_t nth, int64_t remaining);

/* Redis has answered with an error, or not at all (NULL): nothing was sold. */
void order_unavailable(struct order *order, const struct redisReply *reply);

/* The write was sent and not answered. */
void order_unknown(struct order *order);

/* What a script that sells answered, if it did not sell: 'unknown', 'sold out', 'limit' (the user
 * may have n pieces and has so many as `stock` says), 'split' or 'changed' (by a PUT). */
void order_not_sold(struct order *order, const char *what, int64_t n, int64_t stock);

#endif
