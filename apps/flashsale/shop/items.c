/* SPDX-License-Identifier: Apache-2.0 */
/* Looking at items and setting them: see items.h. */
#include "shop/items.h"

#include "common/clock.h"
#include "embedded.h"
#include "shop/inside.h"
#include "shop/stock.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PAGE_RECORDS = 1000,
    LOOKS_MAX = 50,       /* at an item that is being set anew, */
    LOOK_PAUSE_US = 2000, /* with so much time for the PUT to end in between */
};

/* ===== The ledger ===== */

/* The number behind "name": in a record of ours. */
static int64_t field_of(const char *record, const char *name)
{
    const char *at = strstr(record, name);
    return at != NULL ? strtoll(at + strlen(name), NULL, 10) : 0;
}

static void count_record(struct ledger *ledger, const char *record)
{
    const int64_t quantity = field_of(record, "\"quantity\":");
    const int port = (int)field_of(record, "\"port\":");
    ledger->sold += quantity;
    ledger->orders++;
    size_t i = 0;
    while (i < ledger->port_count && ledger->ports[i].port != port) {
        i++;
    }
    if (i == ledger->port_count && i < LEDGER_PORTS_MAX) {
        ledger->ports[ledger->port_count++] = (struct ledger_port){.port = port, .sold = 0};
    }
    if (i < LEDGER_PORTS_MAX) {
        ledger->ports[i].sold += quantity;
    }
}

/* Whether the records under this key are still those of the sale that the ledger began with. */
static bool same_sale(
    struct stock_link link, const struct ledger *ledger, size_t n, const char *key)
{
    if (ledger->seen[n] == 0) {
        return true;
    }
    redisReply *first =
        redis_ask(link.context, link.place, link.place->db, "LINDEX orders:%s 0", key);
    const bool same = first != NULL && first->type == REDIS_REPLY_STRING &&
                      strncmp(first->str, ledger->first[n], sizeof ledger->first[n] - 1) == 0;
    freeReplyObject(first);
    return same;
}

/* Count the records under this key that are not counted yet. */
static bool read_records(struct stock_link link, struct ledger *ledger, size_t n, const char *key)
{
    for (;;) {
        const int64_t from = ledger->seen[n];
        redisReply *page = redis_ask(link.context, link.place, link.place->db,
            "LRANGE orders:%s %" PRId64 " %" PRId64, key, from, from + PAGE_RECORDS - 1);
        if (page == NULL || page->type != REDIS_REPLY_ARRAY) {
            freeReplyObject(page);
            return false;
        }
        const size_t count = page->elements;
        if (from == 0 && count > 0) {
            snprintf(ledger->first[n], sizeof ledger->first[n], "%s", page->element[0]->str);
        }
        for (size_t i = 0; i < count; i++) {
            count_record(ledger, page->element[i]->str);
        }
        ledger->seen[n] += (int64_t)count;
        freeReplyObject(page);
        if (count < PAGE_RECORDS) {
            return true;
        }
    }
}

/* The key of the nth list of records. */
static const char *key_of(const struct item *item, size_t n)
{
    return item->segment_count > 0 ? item->segments[n].key : item->id;
}

/* And where it is. */
static struct stock_link link_of(struct seller *seller, const struct item *item, size_t n)
{
    return seller_segment_link(seller, item->segment_count > 0 ? item->segments[n].server : 0);
}

static bool update_ledger(struct seller *seller, const struct item *item, struct ledger *ledger)
{
    const size_t count = item->segment_count > 0 ? item->segment_count : 1;
    if (ledger->segment_count != item->segment_count) {
        memset(ledger, 0, sizeof *ledger);
    }
    for (size_t i = 0; i < count; i++) {
        if (!same_sale(link_of(seller, item, i), ledger, i, key_of(item, i))) {
            memset(ledger, 0, sizeof *ledger);
        }
    }
    ledger->segment_count = item->segment_count;
    for (size_t i = 0; i < count; i++) {
        if (!read_records(link_of(seller, item, i), ledger, i, key_of(item, i))) {
            return false;
        }
    }
    return true;
}

/* ===== Looking ===== */

/* An entry of the list of segments. false: it names a server that --segments-on does not. */
static bool read_entry(struct seller *seller, const char *entry, struct item_segment *segment)
{
    const size_t length = strcspn(entry, "@");
    snprintf(segment->key, sizeof segment->key, "%.*s", (int)length, entry);
    segment->server = entry[length] == '@' ? strtoul(entry + length + 1, NULL, 10) : 0;
    return segment->server <= shop_settings(seller->shop)->segment_url_count;
}

/* What one look has found. MOVED: a PUT came in between, look again. */
enum look { LOOK_FOUND, LOOK_UNKNOWN, LOOK_UNAVAILABLE, LOOK_MOVED };

static bool is_wrong_type(const redisReply *reply)
{
    return reply != NULL && reply->type == REDIS_REPLY_ERROR &&
           strncmp(reply->str, "WRONGTYPE", 9) == 0;
}

/* What is in one segment. */
static enum look look_at_segment(struct seller *seller, struct item_segment *segment)
{
    const struct stock_link link = seller_segment_link(seller, segment->server);
    redisReply *stock = redis_ask(link.context, link.place, link.place->db, "GET %s", segment->key);
    enum look look = LOOK_UNAVAILABLE;
    if (redis_number(stock, &segment->stock)) {
        look = LOOK_FOUND;
    } else if (stock != NULL && stock->type == REDIS_REPLY_NIL) {
        look = LOOK_MOVED; /* the list that named it is not the item's any more */
    }
    freeReplyObject(stock);
    return look;
}

/* An item that is split: the keys of its segments, and what is in each. */
static enum look look_at_segments(struct seller *seller, struct item *item)
{
    redisReply *keys = seller_ask_stock(seller, "LRANGE %s 0 -1", item->id);
    enum look look = LOOK_UNAVAILABLE;
    if (keys != NULL && keys->type == REDIS_REPLY_ARRAY) {
        look = keys->elements > 0 ? LOOK_FOUND : LOOK_MOVED;
        for (size_t i = 0; i < keys->elements && i < SEGMENTS_MAX && look == LOOK_FOUND; i++) {
            struct item_segment *segment = &item->segments[i];
            look = read_entry(seller, keys->element[i]->str, segment)
                       ? look_at_segment(seller, segment)
                       : LOOK_UNAVAILABLE;
            item->stock += segment->stock;
            item->segment_count++;
        }
    } else if (is_wrong_type(keys)) {
        look = LOOK_MOVED; /* it is not split any more */
    }
    freeReplyObject(keys);
    return look;
}

static enum look look_at_stock(struct seller *seller, struct item *item)
{
    redisReply *stock = seller_ask_stock(seller, "GET %s", item->id);
    enum look look = LOOK_UNAVAILABLE;
    if (redis_number(stock, &item->stock)) {
        look = LOOK_FOUND;
    } else if (stock != NULL && stock->type == REDIS_REPLY_NIL) {
        look = LOOK_UNKNOWN;
    } else if (is_wrong_type(stock)) {
        look = look_at_segments(seller, item);
    }
    freeReplyObject(stock);
    return look;
}

static bool ask_number(struct seller *seller, const char *key, const char *id, int64_t *number_out)
{
    redisReply *reply = seller_ask_stock(seller, "GET %s%s", key, id);
    const bool answered = reply != NULL && reply->type != REDIS_REPLY_ERROR;
    redis_number(reply, number_out);
    freeReplyObject(reply);
    return answered;
}

enum item_answer item_read(struct seller *seller, const char *id, struct item *item_out)
{
    static const enum item_answer answers[] = {[LOOK_FOUND] = ITEM_FOUND,
        [LOOK_UNKNOWN] = ITEM_UNKNOWN,
        [LOOK_UNAVAILABLE] = ITEM_UNAVAILABLE,
        [LOOK_MOVED] = ITEM_UNAVAILABLE};
    enum look look = LOOK_MOVED;
    for (int i = 0; i < LOOKS_MAX && look == LOOK_MOVED; i++) {
        sleep_us(i > 0 ? LOOK_PAUSE_US : 0);
        memset(item_out, 0, sizeof *item_out);
        snprintf(item_out->id, sizeof item_out->id, "%s", id);
        look = look_at_stock(seller, item_out);
    }
    return answers[look];
}

enum item_answer item_look(
    struct seller *seller, const char *id, struct item *item_out, struct ledger *ledger)
{
    const enum item_answer answer = item_read(seller, id, item_out);
    if (answer != ITEM_FOUND) {
        return answer;
    }
    item_out->initial = item_out->stock;
    const bool good = ask_number(seller, "initial:", id, &item_out->initial) &&
                      ask_number(seller, "per_user:", id, &item_out->per_user) &&
                      ask_number(seller, "sale:", id, &item_out->sale) &&
                      (ledger == NULL || update_ledger(seller, item_out, ledger));
    return good ? ITEM_FOUND : ITEM_UNAVAILABLE;
}

/* ===== Setting ===== */

enum { PUT_ARGUMENTS = 6, NUMBER_SIZE = 24 };

/* The further servers first, that of the item's own key last: sellers who go by the old list see
 * that a segment is gone or new and look again, and as soon as the list is the new one, everything
 * in it is there. */
enum item_answer item_put(struct seller *seller, const struct item *item)
{
    const size_t further = shop_settings(seller->shop)->segment_url_count;
    char stock[NUMBER_SIZE];
    char segments[NUMBER_SIZE];
    char per_user[NUMBER_SIZE];
    char servers[NUMBER_SIZE];
    snprintf(stock, sizeof stock, "%" PRId64, item->stock);
    snprintf(segments, sizeof segments, "%zu", item->segment_count);
    snprintf(per_user, sizeof per_user, "%" PRId64, item->per_user);
    snprintf(servers, sizeof servers, "%zu", further + 1);
    bool done = true;
    for (size_t i = further + 1; i > 0 && done; i--) {
        char server[NUMBER_SIZE];
        snprintf(server, sizeof server, "%zu", i - 1);
        const char *const arguments[PUT_ARGUMENTS] = {
            item->id, stock, segments, per_user, servers, server};
        const struct stock_link link = seller_segment_link(seller, i - 1);
        redisReply *reply = redis_run(link.context, link.place, link.place->db,
            &embedded_shop_put_item_lua, 1, PUT_ARGUMENTS, arguments);
        done = reply != NULL && reply->type != REDIS_REPLY_ERROR;
        freeReplyObject(reply);
    }
    return done ? ITEM_FOUND : ITEM_UNAVAILABLE;
}
