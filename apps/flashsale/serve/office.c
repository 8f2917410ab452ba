/* SPDX-License-Identifier: Apache-2.0 */
/* What is no order and no item: health, the list of strategies, the results of runs. */
#include "serve/routes.h"

#include "common/redis.h"

#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { UNDER_MAX = 64, RESULT_FIELD_SIZE = PARAMETER_SIZE + 2 + UNDER_MAX };
#define RESULTS_KEY "shop:results" /* no item can be called so */

/* ===== GET /healthz ===== */

static void check_health(struct seller *seller, struct request *request)
{
    const struct shop_settings *settings = shop_settings(request->shop);
    redisReply *reply = seller_ask_stock(seller, "PING");
    const bool healthy = reply != NULL && reply->type == REDIS_REPLY_STATUS;
    freeReplyObject(reply);
    answer_json(request, healthy ? MHD_HTTP_OK : MHD_HTTP_SERVICE_UNAVAILABLE,
        json_pack("{s:s, s:s, s:i}", "status", healthy ? "ok" : "redis does not answer", "strategy",
            settings->strategy->name, "port", settings->port));
}

void handle_healthz(struct request *request)
{
    request_at_desk(request, check_health);
}

/* ===== GET /strategies ===== */

void handle_strategies(struct request *request)
{
    json_t *list = json_array();
    for (size_t i = 0; strategies[i] != NULL; i++) {
        const struct strategy *row = strategies[i];
        json_array_append_new(
            list, json_pack("{s:s, s:s, s:s?, s:b, s:s?}", "name", row->name, "title", row->title,
                      "flaw", row->flaw, "sound", row->sound, "needs", row->needs));
    }
    answer_json(request, MHD_HTTP_OK, list);
}

/* ===== Results ===== */

json_t *read_results(struct seller *seller)
{
    redisReply *rows = seller_ask_stock(seller, "HGETALL " RESULTS_KEY);
    if (rows == NULL || rows->type != REDIS_REPLY_ARRAY) {
        freeReplyObject(rows);
        return NULL;
    }
    json_t *results = json_object();
    for (size_t i = 0; i + 1 < rows->elements; i += 2) {
        const redisReply *row = rows->element[i + 1];
        json_object_set_new(
            results, rows->element[i]->str, json_loadb(row->str, (size_t)row->len, 0, NULL));
    }
    freeReplyObject(rows);
    return results;
}

static void get_results(struct seller *seller, struct request *request)
{
    json_t *results = read_results(seller);
    if (results != NULL) {
        answer_json(request, MHD_HTTP_OK, results);
    } else {
        answer_unavailable(request, "does not answer; try again soon");
    }
}

void handle_results_get(struct request *request)
{
    request_at_desk(request, get_results);
}

/* One row for each strategy, or with ?under= for each strategy and fault. false: it has been
 * answered that this is no name for one. */
static bool name_result(struct request *request, char field_out[RESULT_FIELD_SIZE])
{
    const char *under = request_query(request, "under");
    snprintf(field_out, RESULT_FIELD_SIZE, "%s%s%s", request->parameter, under != NULL ? ", " : "",
        under != NULL ? under : "");
    json_t *text = json_string(field_out); /* NULL: it is no UTF-8 */
    const bool good = text != NULL && (under == NULL || strlen(under) <= UNDER_MAX);
    json_decref(text);
    if (!good) {
        answer_error(request, MHD_HTTP_BAD_REQUEST, "bad request",
            "under= takes a few words, in UTF-8 and at most %d bytes", UNDER_MAX);
    }
    return good;
}

static void put_result(struct seller *seller, struct request *request)
{
    json_t *row = request_object(request);
    if (row == NULL) {
        return;
    }
    char *text = json_dumps(row, JSON_COMPACT);
    json_decref(row);
    char field[RESULT_FIELD_SIZE];
    if (!name_result(request, field)) {
        free(text);
        return;
    }
    redisReply *reply = NULL;
    if (text != NULL) {
        reply = seller_ask_stock(seller, "HSET " RESULTS_KEY " %s %s", field, text);
    }
    if (reply != NULL && reply->type == REDIS_REPLY_INTEGER) {
        answer_text(request, MHD_HTTP_OK, TYPE_JSON, text, strlen(text));
        text = NULL;
    } else {
        answer_unavailable(request, "did not confirm it; PUT it again");
    }
    freeReplyObject(reply);
    free(text);
}

void handle_result_put(struct request *request)
{
    if (!shop_settings(request->shop)->allow_faults) {
        answer_error(request, MHD_HTTP_FORBIDDEN, "forbidden",
            "results are put by demonstrations; start the shop with --allow-faults");
        return;
    }
    if (strategy_find(request->parameter) == NULL) {
        answer_error(request, MHD_HTTP_NOT_FOUND, "unknown strategy",
            "results are kept by strategy; GET /strategies lists them");
        return;
    }
    request_at_desk(request, put_result);
}
