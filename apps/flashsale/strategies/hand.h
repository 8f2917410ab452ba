/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the locks that people write by hand have in common: one key, RedisDistributedLock in
 * database 1; an attempt to get it; a pause before the next attempt; something to delete it with.
 * They differ in how the attempt and the deletion are made, and that is where their flaws are.
 */
#ifndef FLASHSALE_STRATEGIES_HAND_H
#define FLASHSALE_STRATEGIES_HAND_H

#include "shop/order.h"
#include "shop/shop.h"
#include "shop/strategy.h"

/* The pauses between attempts, as the tutorials have them. */
#define PAUSE_NONE_US 0
#define PAUSE_SHORT_US 20000 /* the simple locks */
#define PAUSE_LONG_US 50000  /* the re-entrant ones */

enum attempt {
    ATTEMPT_GOT,
    ATTEMPT_HELD, /* by somebody else: try again */
    ATTEMPT_AWAY, /* Redis did not answer, or with an error, which order->why has */
};

typedef enum attempt attempt_function(struct seller *seller, struct order *order);

/* Attempt, pause, attempt again, until the lock is ours or the order's patience is over. */
enum entry hand_wait(
    struct seller *seller, struct order *order, attempt_function *attempt, int64_t pause_us);

/* What an attempt means if it is the only one. */
enum entry hand_entry(enum attempt attempt);

/* Write a name that nobody else has into order->ticket.owner: "<random>:<number of the seller>". */
void hand_name_owner(struct seller *seller, struct order *order);

/* The lease, as Redis takes it. */
long long hand_lease_ms(const struct seller *seller);

/* Read the answer of an attempt, and free it. The number 1 and the status OK mean that the lock is
 * ours; 0 and nil, and a key of a type that other strategies write, that it is somebody else's. */
struct redisReply;
enum attempt hand_read(struct order *order, struct redisReply *reply);

/* SET key owner NX PX lease: the lock and its end in one command. */
enum attempt hand_set_with_lease(struct seller *seller, struct order *order);

/* DEL key, whosever it is. */
void hand_delete(struct seller *seller, struct order *order);

/* Delete it if the owner stands in it, in one step. */
void hand_delete_own(struct seller *seller, const char *owner);

/* Run a script on the lock, with the owner and the lease in milliseconds as its arguments. */
struct embedded;
struct redisReply *hand_run(
    struct seller *seller, const struct embedded *script, const char *owner);

/* The re-entrant lock: a hash of its owner and how often the owner has got it. */
enum attempt hand_reenter(struct seller *seller, struct order *order);
void hand_release_once(struct seller *seller, struct order *order);

/* Sleep, but not beyond the moment at which the shop closes. */
void hand_sleep(struct seller *seller, int64_t us);

#endif
