/* SPDX-License-Identifier: Apache-2.0 */
/* GET /metrics: what this instance has done, as Prometheus reads it. */
#include "common/redis.h"
#include "serve/door.h"
#include "serve/routes.h"
#include "shop/items.h"
#include "shop/tally.h"

#include <inttypes.h>
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>

#define TYPE_PROMETHEUS "text/plain; version=0.0.4; charset=utf-8"

static const char *const end_names[ORDER_ENDS] = {
    [ORDER_SOLD] = "sold",
    [ORDER_SOLD_OUT] = "sold_out",
    [ORDER_BUSY] = "busy",
    [ORDER_UNKNOWN_ITEM] = "unknown_item",
    [ORDER_REFUSED] = "refused",
    [ORDER_UNAVAILABLE] = "unavailable",
    [ORDER_UNKNOWN] = "unknown",
    [ORDER_FAILED] = "failed",
};

static void head(FILE *out, const char *name, const char *type, const char *help)
{
    fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void print_orders(FILE *out, const struct tally_figures *figures)
{
    head(out, "flashsale_orders_total", "counter", "Orders by strategy and by how they ended.");
    for (size_t i = 0; strategies[i] != NULL; i++) {
        for (size_t end = 0; end < ORDER_ENDS; end++) {
            if (figures->orders[i][end] > 0) {
                fprintf(out, "flashsale_orders_total{strategy=\"%s\",end=\"%s\"} %" PRIu64 "\n",
                    strategies[i]->name, end_names[end], figures->orders[i][end]);
            }
        }
    }
}

static void print_histogram(
    FILE *out, const char *name, const char *help, const struct tally_histogram *histogram)
{
    uint64_t count = 0;
    head(out, name, "histogram", help);
    for (size_t i = 0; i < TALLY_BUCKETS; i++) {
        count += histogram->buckets[i];
        fprintf(out, "%s_bucket{le=\"%g\"} %" PRIu64 "\n", name, (double)tally_bounds_us[i] / 1e6,
            count);
    }
    fprintf(out, "%s_bucket{le=\"+Inf\"} %" PRIu64 "\n", name, histogram->count);
    fprintf(out, "%s_sum %.6f\n", name, (double)histogram->sum_us / 1e6);
    fprintf(out, "%s_count %" PRIu64 "\n", name, histogram->count);
}

/* The stock of the items that somebody has asked this instance for. */
static void print_stock(FILE *out, struct seller *seller, struct door *door)
{
    char ids[DOOR_ITEMS_MAX][ITEM_SIZE];
    const size_t count = door_items(door, ids);
    struct item *item = malloc(sizeof *item);
    head(out, "flashsale_stock", "gauge", "Pieces in stock.");
    for (size_t i = 0; i < count && item != NULL; i++) {
        const enum item_answer answer = item_look(seller, ids[i], item, NULL);
        if (answer == ITEM_FOUND) {
            fprintf(out, "flashsale_stock{item=\"%s\"} %" PRId64 "\n", ids[i], item->stock);
        } else if (answer == ITEM_UNAVAILABLE) {
            break; /* Redis is away; the rest would take as long */
        }
    }
    free(item);
}

static void print_metrics(struct seller *seller, struct request *request)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    struct tally_figures *figures = malloc(sizeof *figures);
    if (out != NULL && figures != NULL) {
        shop_figures(request->shop, figures);
        print_orders(out, figures);
        print_histogram(out, "flashsale_order_seconds",
            "From an order's arrival to its answer, however it ended.", &figures->order);
        print_histogram(out, "flashsale_lock_wait_seconds",
            "From an order's arrival to its entry, of those that got in.", &figures->lock_wait);
        head(out, "flashsale_waiting", "gauge", "Orders that wait for their turn here.");
        fprintf(out, "flashsale_waiting %" PRId64 "\n", figures->waiting);
        head(out, "flashsale_locks_lost_total", "counter", "Locks that were lost while held.");
        fprintf(out, "flashsale_locks_lost_total %" PRIu64 "\n", figures->locks_lost);
        print_stock(out, seller, request->door);
    }
    free(figures);
    if (out != NULL) {
        fclose(out);
    }
    answer_text(request, MHD_HTTP_OK, TYPE_PROMETHEUS, text, size);
}

void handle_metrics(struct request *request)
{
    request_at_desk(request, print_metrics);
}
