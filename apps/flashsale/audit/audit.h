/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The audit: what was really sold, from the stock and the recorded orders in Redis, whatever the
 * shops believe.
 *
 * Every order records the stock that it left behind. If nobody sold beside anybody else, no two
 * orders of one stock (the item's, or that of one of its segments) left the same number behind; two
 * that did are a piece sold twice, and their ports say by whom. And what was sold and what is left
 * makes up what there was.
 */
#ifndef FLASHSALE_AUDIT_AUDIT_H
#define FLASHSALE_AUDIT_AUDIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/redis.h"

enum { AUDIT_KEY_SIZE = 96, AUDIT_PORTS_MAX = 64, AUDIT_WHY_SIZE = 400 };

struct audit_port {
    int64_t port;
    int64_t orders;
};

/* One piece that was sold more than once. */
struct audit_duplicate {
    char key[AUDIT_KEY_SIZE]; /* the item, or its segment */
    int64_t remaining;        /* what each of the orders left behind */
    int64_t times;
    int64_t ports[AUDIT_PORTS_MAX]; /* that did it, each once */
    size_t port_count;
};

struct audit {
    int64_t initial;
    int64_t orders;
    int64_t sold; /* pieces */
    int64_t left;
    int64_t oversold;   /* sold + left is so much more than there was */
    int64_t missing;    /* or less */
    int64_t unreadable; /* records that are no orders */
    int64_t unordered;  /* orders that left more behind than the order recorded before them */
    bool negative;      /* a stock is or was below 0 */
    bool exact;         /* nothing of all that */
    size_t segments;    /* 0: not split */
    struct audit_duplicate *duplicates;
    size_t duplicate_count;
    struct audit_port ports[AUDIT_PORTS_MAX];
    size_t port_count;
};

/* servers[0] keeps the stock, the others further segments, in the order of --segments-on. False: a
 * server did not answer, or there is no such item; `why` says which. Safe while the shop sells:
 * what it finds is the state of one moment (of each segment, if it is split). */
bool audit_item(redisContext *const *servers, size_t server_count, const char *item,
    struct audit *audit_out, char why[AUDIT_WHY_SIZE]);
void audit_free(struct audit *audit);

/* The result in sentences, or as one line of JSON; false if stdout does not take it. */
bool audit_print(const struct audit *audit, const char *item);
bool audit_print_json(const struct audit *audit, const char *item);

#endif
