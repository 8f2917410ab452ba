/* SPDX-License-Identifier: Apache-2.0 */
/* One item's sale as the live page shows it: see view.h. */
#include "serve/view.h"

#include "common/clock.h"
#include "common/redis.h"
#include "serve/routes.h"
#include "shop/faults.h"
#include "shop/tally.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { P99_WINDOW_US = 5000000 };

/* Orders per second since a second ago. */
static double pace_of(struct view *view)
{
    struct view_moment *moments = view->moments;
    const int64_t now = now_us();
    const int64_t orders = view->ledger.orders;
    if (moments[VIEW_PACE_TICKS].orders > orders) {
        memset(moments, 0, sizeof view->moments); /* a new sale has begun */
    }
    memmove(moments, moments + 1, VIEW_PACE_TICKS * sizeof *moments);
    moments[VIEW_PACE_TICKS] = (struct view_moment){.at_us = now, .orders = orders};
    size_t oldest = 0;
    while (moments[oldest].at_us == 0) {
        oldest++;
    }
    const int64_t took_us = now - moments[oldest].at_us;
    return took_us > 0 ? (double)(orders - moments[oldest].orders) * 1e6 / (double)took_us : 0;
}

/* Who else holds pawl's lock, in a few words. */
static bool find_holder(pawl_client *lock, char *words, size_t size)
{
    pawl_entry *entry = calloc(1, sizeof *entry);
    bool held = false;
    if (entry != NULL && lock != NULL) {
        entry->size = sizeof *entry;
        held = pawl_client_look(lock, SHOP_LOCK_NAME, entry) == PAWL_OK && entry->held &&
               entry->pid != getpid();
        if (held && entry->pid > 0) {
            snprintf(words, size, "%s %" PRId64, entry->command, entry->pid);
        } else if (held) {
            snprintf(words, size, "%s", entry->holder);
        }
    }
    free(entry);
    return held;
}

/* The hand-written locks do not say whose they are; but they are there. */
static bool find_hand_lock(struct seller *seller)
{
    redisReply *reply = seller_ask_lock(seller, "EXISTS " SHOP_LOCK_NAME);
    const bool there = reply != NULL && reply->type == REDIS_REPLY_INTEGER && reply->integer > 0;
    freeReplyObject(reply);
    return there;
}

/* Who holds the lock, in a few words, or null. What is inside here we know, whatever the lock is;
 * of other instances only what their lock tells. */
static json_t *holder_of(struct seller *seller, pawl_client *lock, int64_t inside)
{
    char words[300];
    const int port = shop_settings(seller->shop)->port;
    if (inside == 1) {
        snprintf(words, sizeof words, "port %d", port);
    } else if (inside > 1) {
        snprintf(words, sizeof words, "port %d, %" PRId64 " orders at once", port, inside);
    } else if (!find_holder(lock, words, sizeof words)) {
        return find_hand_lock(seller) ? json_string("somebody else") : json_null();
    }
    json_t *holder = json_string(words);
    return holder != NULL ? holder : json_null(); /* should it be no text */
}

static json_t *ports_of(const struct ledger *ledger)
{
    json_t *ports = json_object();
    for (size_t i = 0; i < ledger->port_count; i++) {
        char port[12];
        snprintf(port, sizeof port, "%d", ledger->ports[i].port);
        json_object_set_new(ports, port, json_integer(ledger->ports[i].sold));
    }
    return ports;
}

static json_t *note_of(struct shop *shop, enum item_answer answer)
{
    char note[FAULT_NOTE_SIZE];
    if (answer == ITEM_UNAVAILABLE) {
        return json_string("Redis does not answer");
    }
    shop_fault_note(shop, note);
    return json_string(note);
}

/* Look at the item, and at its stock again after its records: an order that is written in between
 * is then in the stock and not yet among the records, never the other way round. So the page says
 * "oversold" only if it is true, as the audit does: more is sold or still on offer than there was.
 */
static enum item_answer look(struct view *view, struct seller *seller)
{
    struct item before;
    struct item after;
    enum item_answer answer = item_look(seller, view->id, &before, &view->ledger);
    if (answer == ITEM_FOUND) {
        answer = item_look(seller, view->id, &after, NULL);
    }
    if (answer == ITEM_FOUND) {
        const int64_t surplus = view->ledger.sold + after.stock - after.initial;
        view->oversold = before.sale == after.sale && surplus > 0 ? surplus : 0;
        view->item = after;
    } else if (answer == ITEM_UNKNOWN) {
        memset(&view->item, 0, sizeof view->item);
        memset(&view->ledger, 0, sizeof view->ledger);
        view->oversold = 0;
    } /* else what was seen last stays */
    return answer;
}

json_t *view_draw(struct view *view, struct seller *seller, pawl_client *lock)
{
    struct shop *shop = seller->shop;
    const struct shop_settings *settings = shop_settings(shop);
    const enum item_answer answer = look(view, seller);
    struct tally_figures *figures = calloc(1, sizeof *figures);
    if (figures != NULL) {
        shop_figures(shop, figures);
    }
    const int64_t waiting = figures != NULL ? figures->waiting : 0;
    const int64_t inside = figures != NULL ? figures->inside : 0;
    free(figures);
    json_t *results = read_results(seller);
    return json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:f, s:f, s:o, s:I, s:o, s:o, s:o, s:o}",
        "item", view->id, "strategy", settings->strategy->name, "initial",
        (json_int_t)view->item.initial, "stock", (json_int_t)view->item.stock, "sold",
        (json_int_t)view->ledger.sold, "oversold", (json_int_t)view->oversold, "rate",
        pace_of(view), "p99_ms", (double)shop_p99_us(shop, P99_WINDOW_US) / 1000, "holder",
        holder_of(seller, lock, inside), "waiting", (json_int_t)waiting, "ports",
        ports_of(&view->ledger), "results", results != NULL ? results : json_object(), "faults",
        allowed_faults(settings), "note", note_of(shop, answer));
}
