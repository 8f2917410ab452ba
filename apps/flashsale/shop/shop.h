/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shop: its settings, its sellers (worker threads, each with a connection to the stock and one
 * to the hand-written locks), and the queue of orders between the doors (serve/) and the sellers.
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
    const char *control; /* the supervisor's socket, or NULL */
    int64_t stack_bytes; /* of the process in which the recursive strategy recurses; 0: as it is */
};

/* A worker. */
struct seller {
    struct shop *shop;
    int number;                 /* 0 and up; part of hand-written owners */
    struct redisContext *stock; /* database 0; NULL while it is away */
    struct redisContext *lock;  /* database 1 of the same server, for hand-written locks */
    struct redisContext *segments[SEGMENT_SERVERS_MAX]; /* further stock servers */
    struct order *before; /* whose customer is answered while Redis works for the next; or NULL */
};

/* ===== Its life ===== */

/* NULL: `why` says what the settings lack. Redis need not be there yet. The settings' texts live as
 * long as the shop. */
struct shop *shop_open(const struct shop_settings *settings, char *why, size_t why_size);

/* Finish what was begun: orders that wait may do so for grace_ms and are then sent away, those
 * inside go on to their end. No order may be taken any more. false: some did not end, and the
 * process had better end without closing the shop. */
bool shop_finish(struct shop *shop, int64_t grace_ms);

/* After shop_finish(): release all locks, end all threads. */
void shop_close(struct shop *shop);

/* Make a strategy ready before the first order under it; an order would do so, too. false: it
 * cannot be used as things are, and `why` says why. */
bool shop_prepare(struct shop *shop, const struct strategy *strategy, char *why, size_t why_size);

/* ===== From the door ===== */

/* Carry the order out; order->done is called when it has ended. It belongs to the shop until then.
 */
void shop_take(struct shop *shop, struct order *order);

/* Have something else done, by a thread of the desk. */
void shop_ask_desk(struct shop *shop, struct task *task);

/* ===== For strategies ===== */

const struct shop_settings *shop_settings(const struct shop *shop);

/* Where pawl's lock lives: --lock, or database 1 of the stock's server. */
const char *shop_lock_url(const struct shop *shop);

/* The shop is about to end: whoever waits for a lock in a loop of its own should give up now. */
bool shop_is_closing(const struct shop *shop);

/* An asynchronous entry has ended: the order goes on at a seller (ENTERED) or is answered. */
void shop_entered(struct order *order, enum entry entry);

/* Read the stock, check, (work), write it back and record the order: right only if nobody else does
 * so at the same time. */
void sell_naively(struct seller *seller, struct order *order);

/* Answer the customer before, if that was left for later: Redis has been asked now. */
void seller_answer_before(struct seller *seller);

/* A command on the seller's connection that is made again if it was gone. NULL: Redis did not
 * answer, and the connection is closed. Free the reply with freeReplyObject(). */
struct redisReply;
struct redisReply *seller_ask_stock(struct seller *seller, const char *format, ...);
struct redisReply *seller_ask_lock(struct seller *seller, const char *format, ...);

/* A Lua script among the embedded files, on the stock. The first `keys` of the arguments are keys.
 */
struct embedded;
struct redisReply *seller_run_on_stock(struct seller *seller, const struct embedded *script,
    int keys, int count, const char *const arguments[]);

/* The same on the hand-written lock. */
struct redisReply *seller_run_on_lock(struct seller *seller, const struct embedded *script,
    int keys, int count, const char *const arguments[]);

/* The moment inside the lock, between the read and the write, at which faults on demand strike:
 * dies, stops, or takes its time, if one of them is armed. Every `sell` calls it once. */
void shop_work(struct shop *shop, struct order *order);

/* The moment between two commands of a strategy that should have been one. Faults can be made to
 * strike here, so that what hardly ever happens can be shown. */
void shop_gap(struct shop *shop, struct order *order);

#endif
