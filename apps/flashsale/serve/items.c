/* SPDX-License-Identifier: Apache-2.0 */
/* GET and PUT /items/{id}. */
#include "shop/items.h"

#include "serve/door.h"
#include "serve/routes.h"

#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static json_t *item_json(const struct item *item, const struct ledger *ledger)
{
    json_t *json =
        json_pack("{s:s, s:I, s:I, s:I}", "item", item->id, "stock", (json_int_t)item->stock,
            "initial", (json_int_t)item->initial, "sold", (json_int_t)ledger->sold);
    if (item->per_user > 0) {
        json_object_set_new(json, "per_user", json_integer(item->per_user));
    }
    if (item->segment_count > 0) {
        json_t *segments = json_array();
        for (size_t i = 0; i < item->segment_count; i++) {
            json_array_append_new(segments, json_pack("{s:s, s:I}", "key", item->segments[i].key,
                                                "stock", (json_int_t)item->segments[i].stock));
        }
        json_object_set_new(json, "segments", segments);
    }
    return json;
}

/* ===== GET ===== */

static void look(struct seller *seller, struct request *request)
{
    struct item *item = malloc(sizeof *item);
    struct ledger *ledger = calloc(1, sizeof *ledger);
    enum item_answer answer = ITEM_UNAVAILABLE;
    if (item != NULL && ledger != NULL) {
        answer = item_look(seller, request->parameter, item, ledger);
    }
    if (answer == ITEM_FOUND) {
        answer_json(request, MHD_HTTP_OK, item_json(item, ledger));
    } else if (answer == ITEM_UNKNOWN) {
        answer_error(request, MHD_HTTP_NOT_FOUND, "unknown item",
            "nobody has set the stock of %s; PUT /items/%s {\"stock\":1000} does",
            request->parameter, request->parameter);
    } else {
        answer_unavailable(request, "does not answer; try again soon");
    }
    free(item);
    free(ledger);
}

void handle_item_get(struct request *request)
{
    if (request_check_item(request, request->parameter)) {
        request_at_desk(request, look);
    }
}

/* ===== PUT ===== */

static const char *const fields[] = {"stock", "segments", "per_user", NULL};

/* A name that is misspelt must not be taken for one that is absent. */
static bool check_names(struct request *request, json_t *body)
{
    const char *name = NULL;
    json_t *value = NULL;
    json_object_foreach(body, name, value)
    {
        size_t i = 0;
        while (fields[i] != NULL && strcmp(fields[i], name) != 0) {
            i++;
        }
        if (fields[i] == NULL) {
            answer_error(request, MHD_HTTP_BAD_REQUEST, "bad request",
                "an item has stock, segments and per_user, and no '%.64s'", name);
            return false;
        }
    }
    return true;
}

/* A whole number from min to max under this name; absent: left alone. */
static bool read_number(struct request *request, json_t *body, const char *name, int64_t min,
    int64_t max, int64_t *number_out)
{
    json_t *value = json_object_get(body, name);
    if (value == NULL) {
        return true;
    }
    const int64_t number = json_is_integer(value) ? json_integer_value(value) : min - 1;
    if (number < min || number > max) {
        answer_error(request, MHD_HTTP_BAD_REQUEST, "bad request",
            "%s must be a whole number from %lld to %lld", name, (long long)min, (long long)max);
        return false;
    }
    *number_out = number;
    return true;
}

/* What is to be set. false: it has been answered what is wrong. */
static bool read_item(struct request *request, struct item *item)
{
    json_t *body = request_object(request);
    if (body == NULL) {
        return false;
    }
    int64_t segments = 0;
    item->stock = -1;
    bool good = check_names(request, body) &&
                read_number(request, body, "stock", 0, STOCK_MAX, &item->stock) &&
                read_number(request, body, "segments", 1, SEGMENTS_MAX, &segments) &&
                read_number(request, body, "per_user", 0, QUANTITY_MAX, &item->per_user);
    if (good && item->stock < 0) {
        answer_error(request, MHD_HTTP_BAD_REQUEST, "bad request",
            "say how many: {\"stock\":1000}, and if you like \"segments\" and \"per_user\"");
        good = false;
    }
    if (good && segments > 0 && item->per_user > 0) {
        answer_error(request, MHD_HTTP_BAD_REQUEST, "bad request",
            "a split item has no per_user limit: its segments do not know of each other's buyers");
        good = false;
    }
    item->segment_count = (size_t)segments;
    json_decref(body);
    return good;
}

static void put(struct seller *seller, struct request *request)
{
    struct item item = {.stock = 0};
    snprintf(item.id, sizeof item.id, "%.64s", request->parameter);
    if (!read_item(request, &item)) {
        return;
    }
    if (item_put(seller, &item) == ITEM_FOUND) {
        door_remember_item(request->door, item.id);
        look(seller, request);
    } else { /* of several servers some may have it, and one may have done it unheard */
        answer_unavailable(request, "did not confirm it; PUT it again");
    }
}

void handle_item_put(struct request *request)
{
    if (request_check_item(request, request->parameter)) {
        request_at_desk(request, put);
    }
}
