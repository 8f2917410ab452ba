/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shop: its settings, its sellers (worker threads, each with a connection to the stock and one
 * to the hand-written locks), and the queue of orders between the doors (http/) and the sellers.
 */
#ifndef FLASHSALE_SHOP_SHOP_H
#define FLASHSALE_SHOP_SHOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shop/order.h"
#include "shop/strategy.h"

#define QUORUM_MAX 15
#define SEGMENT_SERVERS_MAX 16
#define SHOP_LOCK_NAME "RedisDistributedLock"

struct shop_settings {
    int port;
    const struct strategy *strategy; /* unless the order says otherwise */
    const char *redis_url;           /* the stock: redis://host:port/0 or unix:///path?db=0 */
    const char *lock_url;            /* where pawl's lock lives; NULL: the same Redis, database 1 */
    const char *quorum_urls[QUORUM_MAX];
    size_t quorum_count;
    const char *segment_urls[SEGMENT_SERVERS_MAX]; /* further stock servers for split items */
    size_t segment_url_count;
    int64_t lease_ms; /* 30,000 */
    int64_t wait_ms;  /* 5,000 */
    int64_t work_us;  /* how long an order takes inside, besides its round trips; 0 */
    int sellers;      /* worker threads */
    bool allow_faults;
};

/* A worker. */
struct seller {
    struct shop *shop;
    int number;                 /* 0 and up; part of hand-written owners */
    struct redisContext *stock; /* database 0; NULL while it is away */
    struct redisContext *lock;  /* database 1 of the same server, for hand-written locks */
};

/* ===== From the door ===== */

/* Carry the order out; order->done is called when it has ended. It belongs to the shop until then.
 */
void shop_take(struct shop *shop, struct order *order);

/* ===== For strategies ===== */

const struct shop_settings *shop_settings(const struct shop *shop);

/* An asynchronous entry has ended: the order goes on at a seller (ENTERED) or is answered. */
void shop_entered(struct order *order, enum entry entry);

/* Read the stock, check, (work), write it back and record the order: right only if nobody else does
 * so at the same time. */
void sell_naively(struct seller *seller, struct order *order);

/* A command on the seller's connection that is made again if it was gone. NULL: Redis did not
 * answer, and the connection is closed. Free the reply with freeReplyObject(). */
struct redisReply;
struct redisReply *seller_ask_stock(struct seller *seller, const char *format, ...);
struct redisReply *seller_ask_lock(struct seller *seller, const char *format, ...);

/* The moment inside the lock, between the read and the write, at which faults on demand strike:
 * dies, stops, or takes its time, if one of them is armed. Every `sell` calls it once. */
void shop_work(struct shop *shop, struct order *order);

#endif
