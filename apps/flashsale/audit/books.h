/* SPDX-License-Identifier: Apache-2.0 */
/* The books of one item, as they stand in Redis: every stock, with the orders that were sold from
 * it. Reading is here; judging is audit.c. */
#ifndef FLASHSALE_AUDIT_BOOKS_H
#define FLASHSALE_AUDIT_BOOKS_H

#include "audit/audit.h"

/* What the audit needs of a record. */
struct sale {
    int64_t remaining;
    int64_t quantity;
    int64_t port;
    int64_t number; /* its place among the orders of this stock, from 0 */
};

/* A stock: the item's own, or that of a segment. */
struct stock {
    char key[AUDIT_KEY_SIZE];
    size_t server;
    int64_t left;
    struct sale *sales;
    size_t sale_count;
    int64_t unreadable;
};

struct books {
    int64_t initial;
    bool is_split;
    struct stock *stocks;
    size_t stock_count;
};

bool books_read(redisContext *const *servers, size_t server_count, const char *item,
    struct books *books_out, char why[AUDIT_WHY_SIZE]);
void books_free(struct books *books);

#endif
