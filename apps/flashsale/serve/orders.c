/* SPDX-License-Identifier: Apache-2.0 */
/* Orders: POST /items/{id}/orders, and the aliases that tutorials know. */
#include "common/clock.h"
#include "common/values.h"
#include "serve/door.h"
#include "serve/routes.h"

#include <inttypes.h>
#include <microhttpd.h>
#include <stdio.h>
#include <string.h>

#define ALIAS_ITEM "inventory001"
#define ALIAS_SPLIT_ITEM "10001"

/* ===== What is asked for ===== */

static bool complain(struct request *request, const char *sentence)
{
    answer_error(request, MHD_HTTP_BAD_REQUEST, "bad request", "%s", sentence);
    return false;
}

static bool take_quantity(struct request *request, int64_t quantity)
{
    if (quantity < 1 || quantity > QUANTITY_MAX) {
        answer_error(request, MHD_HTTP_BAD_REQUEST, "bad request",
            "the quantity must be a whole number from 1 to %d", QUANTITY_MAX);
        return false;
    }
    request->order.quantity = quantity;
    return true;
}

static bool take_name(struct request *request, const char *name, char out[CUSTOMER_SIZE])
{
    if (name[0] != '\0' && !is_id(name)) {
        return complain(
            request, "user and activity are 1 to 64 of letters, digits, '-', '.' and '_'");
    }
    snprintf(out, CUSTOMER_SIZE, "%s", name);
    return true;
}

static bool take_strategy(struct request *request, const char *name)
{
    const struct strategy *strategy = strategy_find(name);
    if (strategy == NULL) {
        return complain(request, "no such strategy; GET /strategies lists them");
    }
    request->order.strategy = strategy;
    return true;
}

/* One of the fields that are text; NULL: its value is none. A name that is misspelt must not be
 * taken for one that is absent. */
static bool take_text(struct request *request, const char *key, const char *text)
{
    struct order *order = &request->order;
    const bool user = strcmp(key, "user") == 0;
    const bool strategy = strcmp(key, "strategy") == 0;
    if (!user && !strategy && strcmp(key, "activity") != 0) {
        return complain(
            request, "an order has quantity, user, activity and strategy, and nothing else");
    }
    if (text == NULL) {
        return complain(request, "user, activity and strategy must be strings");
    }
    return strategy ? take_strategy(request, text)
                    : take_name(request, text, user ? order->user : order->activity);
}

/* Fields of the body. */
static bool read_field(struct request *request, const char *key, json_t *value)
{
    if (strcmp(key, "quantity") == 0) {
        return take_quantity(request, json_is_integer(value) ? json_integer_value(value) : 0);
    }
    return take_text(request, key, json_string_value(value));
}

static bool read_body(struct request *request)
{
    json_t *body = request_object(request);
    bool good = body != NULL;
    const char *key = NULL;
    json_t *value = NULL;
    if (good) {
        json_object_foreach(body, key, value)
        {
            good = good && read_field(request, key, value);
        }
    }
    json_decref(body);
    return good;
}

/* The same in the query; MHD_NO: it has been answered what is wrong. */
static enum MHD_Result read_parameter(
    void *cls, enum MHD_ValueKind kind, const char *key, const char *value)
{
    (void)kind;
    struct request *request = cls;
    int64_t number = 0;
    bool good = false;
    if (strcmp(key, "quantity") == 0) {
        const bool is_number = value != NULL && parse_number(value, &number);
        good = take_quantity(request, is_number ? number : 0);
    } else {
        good = take_text(request, key, value);
    }
    return good ? MHD_YES : MHD_NO;
}

static bool read_query(struct request *request)
{
    MHD_get_connection_values(request->connection, MHD_GET_ARGUMENT_KIND, read_parameter, request);
    return request->answer.status == 0;
}

/* ===== What came of it ===== */

static void answer_sold(struct request *request)
{
    const struct order *order = &request->order;
    answer_format(request, MHD_HTTP_CREATED, TYPE_JSON,
        "{\"order\":\"%s\",\"item\":\"%s\",\"quantity\":%" PRId64 ",\"remaining\":%" PRId64
        ",\"port\":%d,\"strategy\":\"%s\"}",
        order->number, order->item, order->quantity, order->remaining,
        shop_settings(request->shop)->port, order->strategy->name);
}

/* Status and error of each end that is no sale. */
static const struct {
    unsigned status;
    bool retry;
    const char *error;
    const char *detail; /* unless the order's why says more */
} refusals[] = {
    [ORDER_SOLD_OUT] = {MHD_HTTP_CONFLICT, false, "sold out", "fewer are left than were ordered"},
    [ORDER_BUSY] = {MHD_HTTP_SERVICE_UNAVAILABLE, true, "busy",
        "others were before you for longer than --wait; try again"},
    [ORDER_UNKNOWN_ITEM] = {MHD_HTTP_NOT_FOUND, false, "unknown item",
        "nobody has set its stock; PUT /items/{id} {\"stock\":1000} does"},
    [ORDER_REFUSED] = {MHD_HTTP_CONFLICT, false, "refused", ""},
    [ORDER_UNAVAILABLE] = {MHD_HTTP_SERVICE_UNAVAILABLE, true, "unavailable",
        "Redis does not answer; nothing was sold. Try again soon"},
    [ORDER_UNKNOWN] = {MHD_HTTP_SERVICE_UNAVAILABLE, false, "unknown",
        "Redis did not confirm the order; the audit knows"},
    [ORDER_FAILED] = {MHD_HTTP_INTERNAL_SERVER_ERROR, false, "failed", ""},
};

static void answer_order(struct request *request)
{
    const struct order *order = &request->order;
    if (order->end == ORDER_SOLD) {
        answer_sold(request);
        return;
    }
    const char *detail = order->why[0] != '\0' ? order->why : refusals[order->end].detail;
    json_t *left = order->remaining != NOT_COUNTED ? json_integer(order->remaining) : NULL;
    json_t *json = json_pack("{s:s, s:s, s:s, s:o*, s:i, s:s}", "error", refusals[order->end].error,
        "detail", detail, "item", order->item, "remaining", left, "port",
        shop_settings(request->shop)->port, "strategy", order->strategy->name);
    answer_json(request, refusals[order->end].status, json);
    request->answer.retry_after_s = refusals[order->end].retry ? 1 : 0;
}

/* The tutorials' answers: what is left, and who sold. */
static void answer_alias(struct request *request)
{
    const struct order *order = &request->order;
    const int port = shop_settings(request->shop)->port;
    if (order->end == ORDER_SOLD) {
        answer_format(request, MHD_HTTP_OK, TYPE_TEXT, "sold one, %" PRId64 " left, by port %d\n",
            order->remaining, port);
    } else if (order->end == ORDER_SOLD_OUT) {
        answer_format(request, MHD_HTTP_OK, TYPE_TEXT, "sold out, by port %d\n", port);
    } else if (order->end == ORDER_UNKNOWN_ITEM) {
        answer_format(request, MHD_HTTP_NOT_FOUND, TYPE_TEXT,
            "no item %s; PUT /items/%s {\"stock\":1000} makes it, by port %d\n", order->item,
            order->item, port);
    } else {
        answer_format(request, refusals[order->end].status, TYPE_TEXT, "%s, by port %d\n",
            order->why[0] != '\0' ? order->why : refusals[order->end].error, port);
        request->answer.retry_after_s = refusals[order->end].retry ? 1 : 0;
    }
}

static void order_done(struct order *order, void *arg)
{
    struct request *request = arg;
    if (order->end == ORDER_SOLD) {
        door_remember_item(request->door, order->item);
    }
    if (request->route->handle == handle_alias) {
        answer_alias(request);
    } else {
        answer_order(request);
    }
    request_finish(request);
}

/* ===== The routes ===== */

static void begin(struct request *request, const char *item, const struct strategy *strategy)
{
    struct order *order = &request->order;
    snprintf(order->item, sizeof order->item, "%.64s", item);
    order->quantity = 1;
    order->remaining = NOT_COUNTED;
    order->strategy = strategy;
}

static void take(struct request *request)
{
    struct order *order = &request->order;
    if (door_is_shut(request->door)) {
        answer_closing(request);
        return;
    }
    order->arrived_us = now_us();
    order->deadline_us = order->arrived_us + shop_settings(request->shop)->wait_ms * 1000;
    order->done = order_done;
    order->done_arg = request;
    request_later(request);
    shop_take(request->shop, order);
}

void handle_order(struct request *request)
{
    if (!request_check_item(request, request->parameter)) {
        return;
    }
    begin(request, request->parameter, shop_settings(request->shop)->strategy);
    if (read_query(request) && read_body(request)) {
        take(request);
    }
}

void handle_alias(struct request *request)
{
    const char *name = request->route->argument;
    const bool split = strcmp(name, "split") == 0;
    const struct strategy *strategy =
        name[0] == '\0' ? shop_settings(request->shop)->strategy : strategy_find(name);
    if (strategy == NULL) {
        answer_format(request, MHD_HTTP_NOT_IMPLEMENTED, TYPE_TEXT, "no strategy %s here\n", name);
        return;
    }
    begin(request, split ? ALIAS_SPLIT_ITEM : ALIAS_ITEM, strategy);
    take(request);
}
