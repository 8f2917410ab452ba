/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One order, from the moment it arrives to its answer.
 *
 * Whoever takes it in fills the first part and calls shop_take(). A seller (a worker thread with
 * connections of its own) carries it out under the order's strategy and fills the second part; then
 * `done` is called, once, on whichever thread finished it.
 */
#ifndef FLASHSALE_SHOP_ORDER_H
#define FLASHSALE_SHOP_ORDER_H

#include <stdbool.h>
#include <stdint.h>

#include "pawl.h"
#include "shop/crew.h"

struct shop;
struct strategy;

#define ITEM_SIZE 65     /* an item's id: 1 to 64 of letters, digits, '-', '.', '_' */
#define CUSTOMER_SIZE 65 /* user and activity ids, of the same letters */
#define ORDER_NUMBER_SIZE 96
#define QUANTITY_MAX 1000000
#define STOCK_MAX 1000000000

/* How an order ended. The order of the names is that of the answer's kindness. */
enum order_end {
    ORDER_SOLD,         /* 201 */
    ORDER_SOLD_OUT,     /* 409 */
    ORDER_BUSY,         /* 503 with Retry-After: the lock was not had within --wait */
    ORDER_UNKNOWN_ITEM, /* 404 */
    ORDER_REFUSED,      /* 409: by the fence or by the per-user limit; `why` says which */
    ORDER_UNAVAILABLE,  /* 503 with Retry-After: Redis did not answer; nothing was sold */
    ORDER_UNKNOWN,      /* 503: the write was sent and not answered; the audit knows */
    ORDER_FAILED,       /* 500: `why` says what (e.g. the stack overflowed) */
};

/* What a strategy keeps for one order while the order is inside. */
struct ticket {
    char owner[80];    /* what a hand-written lock wrote under its key */
    uint64_t token;    /* the fencing token, if the strategy has one */
    pawl_lock *lock;   /* pawl's */
    void *own;         /* anything else; the strategy allocates and frees it */
    int64_t waited_us; /* from the order's arrival to its entry, for the metrics */
};

#define NOT_COUNTED INT64_MIN

struct order {
    /* What is asked for. */
    char item[ITEM_SIZE];
    int64_t quantity;
    char user[CUSTOMER_SIZE];     /* "": nobody in particular */
    char activity[CUSTOMER_SIZE]; /* "": none */
    const struct strategy *strategy;
    int64_t arrived_us;
    int64_t deadline_us; /* arrived_us + --wait */
    void (*done)(struct order *order, void *arg);
    void *done_arg;

    /* What came of it. */
    enum order_end end;
    char number[ORDER_NUMBER_SIZE];
    int64_t remaining;           /* NOT_COUNTED: the order ended before anybody looked */
    char segment[ITEM_SIZE + 8]; /* the key that was sold from; the item's id unless it is split */
    char why[200];
    bool changed; /* refused because the item is not, or no longer, what it was taken for */

    /* In between. */
    struct shop *shop;
    struct ticket ticket;
    struct task task; /* in the queue of the sellers */
};

#endif
