/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See books.h. A stock and the number of its orders are read in one transaction; then that many
 * orders, in portions. Orders are only ever added at the end, so that what is sold meanwhile does
 * not change the picture.
 */
#include "audit/books.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PORTION = 2000 };

void books_free(struct books *books)
{
    for (size_t i = 0; i < books->stock_count; i++) {
        free(books->stocks[i].sales);
    }
    free(books->stocks);
    *books = (struct books){0};
}

static void say_silence(const redisContext *server, char *why)
{
    snprintf(why, AUDIT_WHY_SIZE, "Redis does not answer: %.200s",
        server->err ? server->errstr : "unexpected reply");
}

/* ===== Which stocks there are ===== */

/* "10001_3@1": the segment 10001_3, on the further server 1. */
static bool place_segment(struct stock *stock, const char *text, size_t server_count, char *why)
{
    const char *at = strchr(text, '@');
    const size_t length = at ? (size_t)(at - text) : strlen(text);
    stock->server = at ? strtoul(at + 1, NULL, 10) : 0;
    if (length == 0 || length >= sizeof stock->key) {
        snprintf(why, AUDIT_WHY_SIZE, "'%.100s' is no segment", text);
        return false;
    }
    memcpy(stock->key, text, length);
    stock->key[length] = '\0';
    if (stock->server >= server_count) {
        snprintf(why, AUDIT_WHY_SIZE,
            "segment %.100s lies on further server %zu; name them all by --segments-on", text,
            stock->server);
        return false;
    }
    return true;
}

static bool take_segments(
    struct books *books, const redisReply *list, size_t server_count, char *why)
{
    books->is_split = true;
    books->stocks = calloc(list->elements > 0 ? list->elements : 1, sizeof *books->stocks);
    if (!books->stocks || list->elements == 0) {
        snprintf(why, AUDIT_WHY_SIZE, "the item has no segments");
        return false;
    }
    books->stock_count = list->elements;
    for (size_t i = 0; i < list->elements; i++) {
        if (list->element[i]->type != REDIS_REPLY_STRING ||
            !place_segment(&books->stocks[i], list->element[i]->str, server_count, why)) {
            return false;
        }
    }
    return true;
}

/* The item's stock, or the list of its segments. */
static bool find_stocks(
    redisContext *server, size_t server_count, const char *item, struct books *books, char *why)
{
    redisReply *type = redisCommand(server, "TYPE %s", item);
    if (!type || type->type != REDIS_REPLY_STATUS) {
        freeReplyObject(type);
        say_silence(server, why);
        return false;
    }
    const bool is_list = strcmp(type->str, "list") == 0;
    freeReplyObject(type);
    if (!is_list) {
        books->stocks = calloc(1, sizeof *books->stocks);
        books->stock_count = books->stocks ? 1 : 0;
        if (!books->stocks) {
            snprintf(why, AUDIT_WHY_SIZE, "no memory left");
            return false;
        }
        snprintf(books->stocks[0].key, sizeof books->stocks[0].key, "%s", item);
        return true;
    }
    redisReply *list = redisCommand(server, "LRANGE %s 0 -1", item);
    if (!list || list->type != REDIS_REPLY_ARRAY) {
        freeReplyObject(list);
        say_silence(server, why);
        return false;
    }
    const bool taken = take_segments(books, list, server_count, why);
    freeReplyObject(list);
    return taken;
}

/* ===== One stock and its orders ===== */

static bool read_sale(const char *text, size_t length, struct sale *sale_out)
{
    json_t *record = json_loadb(text, length, 0, NULL);
    json_int_t remaining = 0;
    json_int_t quantity = 0;
    json_int_t port = 0;
    const int failed = json_unpack(
        record, "{s:I,s:I,s:I}", "remaining", &remaining, "quantity", &quantity, "port", &port);
    json_decref(record);
    sale_out->remaining = remaining;
    sale_out->quantity = quantity;
    sale_out->port = port;
    return failed == 0;
}

/* What is left, and how many orders there are, at one moment. */
static bool read_heads(redisContext *server, struct stock *stock, int64_t *orders_out, char *why)
{
    redisAppendCommand(server, "MULTI");
    redisAppendCommand(server, "GET %s", stock->key);
    redisAppendCommand(server, "LLEN orders:%s", stock->key);
    redisAppendCommand(server, "EXEC");
    redisReply *reply = NULL;
    for (int i = 0; i < 4; i++) {
        freeReplyObject(reply);
        reply = NULL;
        if (redisGetReply(server, (void **)&reply) != REDIS_OK) {
            say_silence(server, why);
            return false;
        }
    }
    int64_t left = 0;
    const bool is_there = reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 &&
                          redis_number(reply->element[0], &left) &&
                          redis_number(reply->element[1], orders_out);
    freeReplyObject(reply);
    if (!is_there) {
        snprintf(why, AUDIT_WHY_SIZE, "the stock %.95s is not there, or no number", stock->key);
        return false;
    }
    stock->left = left;
    return true;
}

static bool read_portion(
    redisContext *server, struct stock *stock, int64_t from, int64_t to, char *why)
{
    redisReply *reply =
        redisCommand(server, "LRANGE orders:%s %" PRId64 " %" PRId64, stock->key, from, to);
    if (!reply || reply->type != REDIS_REPLY_ARRAY) {
        freeReplyObject(reply);
        say_silence(server, why);
        return false;
    }
    const bool is_whole = reply->elements == (size_t)(to - from + 1);
    for (size_t i = 0; is_whole && i < reply->elements; i++) {
        struct sale *sale = &stock->sales[stock->sale_count];
        if (reply->element[i]->type == REDIS_REPLY_STRING &&
            read_sale(reply->element[i]->str, reply->element[i]->len, sale)) {
            sale->number = from + (int64_t)i;
            stock->sale_count++;
        } else {
            stock->unreadable++;
        }
    }
    freeReplyObject(reply);
    if (!is_whole) {
        snprintf(why, AUDIT_WHY_SIZE, "the stock was set anew meanwhile; look again");
    }
    return is_whole;
}

static bool read_stock(redisContext *server, struct stock *stock, char *why)
{
    int64_t orders = 0;
    if (!read_heads(server, stock, &orders, why)) {
        return false;
    }
    stock->sales = calloc((size_t)orders + 1, sizeof *stock->sales);
    if (!stock->sales) {
        snprintf(why, AUDIT_WHY_SIZE, "no memory for %" PRId64 " orders", orders);
        return false;
    }
    for (int64_t from = 0; from < orders; from += PORTION) {
        const int64_t to = from + PORTION < orders ? from + PORTION : orders;
        if (!read_portion(server, stock, from, to - 1, why)) {
            return false;
        }
    }
    return true;
}

static bool read_initial(redisContext *server, const char *item, int64_t *initial_out, char *why)
{
    redisReply *reply = redisCommand(server, "GET initial:%s", item);
    if (!reply || reply->type == REDIS_REPLY_ERROR) {
        freeReplyObject(reply);
        say_silence(server, why);
        return false;
    }
    const bool is_there = redis_number(reply, initial_out);
    freeReplyObject(reply);
    if (!is_there) {
        snprintf(why, AUDIT_WHY_SIZE, "there is no item %.64s; PUT /items/%.64s sets its stock",
            item, item);
    }
    return is_there;
}

bool books_read(redisContext *const *servers, size_t server_count, const char *item,
    struct books *books_out, char why[AUDIT_WHY_SIZE])
{
    *books_out = (struct books){0};
    bool is_read = read_initial(servers[0], item, &books_out->initial, why) &&
                   find_stocks(servers[0], server_count, item, books_out, why);
    for (size_t i = 0; is_read && i < books_out->stock_count; i++) {
        struct stock *stock = &books_out->stocks[i];
        is_read = read_stock(servers[stock->server], stock, why);
    }
    if (!is_read) {
        books_free(books_out);
    }
    return is_read;
}
