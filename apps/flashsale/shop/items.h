/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Items: looking at their stock and setting it. An item's stock is under its id; a split item has a
 * list there, of the keys of its segments: "10001_3", or "10001_3@1" if it lies on the first of the
 * further servers.
 */
#ifndef FLASHSALE_SHOP_ITEMS_H
#define FLASHSALE_SHOP_ITEMS_H

#include "shop/shop.h"

#include <stdbool.h>
#include <stdint.h>

enum { SEGMENTS_MAX = 64, SEGMENT_KEY_SIZE = ITEM_SIZE + 8 };

/* What has been sold so far, read from the records of one item; a later look reads only the new
 * ones. Begins as {0}. */
enum { LEDGER_PORTS_MAX = 32 };
struct ledger_port {
    int port;
    int64_t sold;
};
struct ledger {
    int64_t sold;   /* pieces */
    int64_t orders; /* records */
    struct ledger_port ports[LEDGER_PORTS_MAX];
    size_t port_count;
    size_t segment_count;          /* of the item when it was last looked at */
    int64_t seen[SEGMENTS_MAX];    /* records of each segment that are counted */
    char first[SEGMENTS_MAX][256]; /* the first record, which shows that it is the same sale */
};

struct item_segment {
    char key[SEGMENT_KEY_SIZE]; /* without the server */
    size_t server;              /* 0: that of --redis; 1 and up: those of --segments-on */
    int64_t stock;
};

struct item {
    char id[ITEM_SIZE];
    int64_t stock; /* in all segments together */
    int64_t initial;
    int64_t sale;         /* each PUT begins the next one */
    int64_t per_user;     /* 0: no limit */
    size_t segment_count; /* 0: not split */
    struct item_segment segments[SEGMENTS_MAX];
};

enum item_answer { ITEM_FOUND, ITEM_UNKNOWN, ITEM_UNAVAILABLE };

/* Look at its stock alone: id, stock and segments. */
enum item_answer item_read(struct seller *seller, const char *id, struct item *item_out);

/* Look at it. The ledger is brought up to date; NULL: it is not wanted. */
enum item_answer item_look(
    struct seller *seller, const char *id, struct item *item_out, struct ledger *ledger);

/* Set item->stock pieces in item->segment_count segments, and item->per_user; forget what was sold
 * before. Segments go to the servers of --redis and --segments-on in turn. */
enum item_answer item_put(struct seller *seller, const struct item *item);

#endif
