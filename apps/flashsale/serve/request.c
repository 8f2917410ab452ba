/* SPDX-License-Identifier: Apache-2.0 */
/* Requests and answers: see request.h. */
#include "serve/request.h"

#include "common/clock.h"
#include "common/values.h"
#include "serve/door.h"
#include "shop/items.h"

#include <microhttpd.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DESK_PATIENCE_US = 5000000 }; /* in its queue */

const char *request_query(const struct request *request, const char *name)
{
    return MHD_lookup_connection_value(request->connection, MHD_GET_ARGUMENT_KIND, name);
}

void request_later(struct request *request)
{
    request->later = true;
    door_count(request->door, 1);
    MHD_suspend_connection(request->connection);
}

void request_finish(struct request *request)
{
    struct door *door = request->door;
    MHD_resume_connection(request->connection); /* from here on the request is not ours */
    door_count(door, -1);
}

/* ===== The desk ===== */

static void run_at_desk(struct seller *seller, struct task *task)
{
    struct request *request =
        (struct request *)(void *)((char *)task - offsetof(struct request, task));
    void (*run)(struct seller *, struct request *) = request->at_desk;
    if (door_is_shut(request->door)) {
        answer_closing(request);
    } else if (now_us() - request->asked_us > DESK_PATIENCE_US) {
        answer_unavailable(request, "answers too slowly for all who ask; try again soon");
    } else {
        run(seller, request);
    }
    request_finish(request);
}

void request_at_desk(
    struct request *request, void (*run)(struct seller *seller, struct request *request))
{
    request->at_desk = run;
    request->task.run = run_at_desk;
    request->asked_us = now_us();
    request_later(request);
    shop_ask_desk(request->shop, &request->task);
}

/* ===== Answers ===== */

void answer_text(
    struct request *request, unsigned status, const char *type, char *text, size_t size)
{
    if (text == NULL) {
        static const char sorry[] = "{\"error\":\"out of memory\"}";
        answer_fixed(request, TYPE_JSON, sorry, sizeof sorry - 1);
        request->answer.status = MHD_HTTP_INTERNAL_SERVER_ERROR;
        return;
    }
    request->answer.status = status;
    request->answer.type = type;
    request->answer.text = text;
    request->answer.size = size;
}

void answer_fixed(struct request *request, const char *type, const char *text, size_t size)
{
    request->answer.status = MHD_HTTP_OK;
    request->answer.type = type;
    request->answer.fixed = text;
    request->answer.size = size;
}

void answer_json(struct request *request, unsigned status, json_t *json)
{
    char *text = json_dumps(json, JSON_COMPACT);
    json_decref(json);
    answer_text(request, status, TYPE_JSON, text, text != NULL ? strlen(text) : 0);
}

void answer_format(
    struct request *request, unsigned status, const char *type, const char *format, ...)
{
    char *text = NULL;
    va_list arguments;
    va_start(arguments, format);
    const int size = vasprintf(&text, format, arguments);
    va_end(arguments);
    answer_text(request, status, type, size >= 0 ? text : NULL, (size_t)size);
}

void answer_error(
    struct request *request, unsigned status, const char *error, const char *format, ...)
{
    char detail[400];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(detail, sizeof detail, format, arguments);
    va_end(arguments);
    json_t *json = json_pack("{s:s, s:s}", "error", error, "detail", detail);
    if (json == NULL) { /* what the client sent is no UTF-8, and is not repeated */
        json = json_pack("{s:s}", "error", error);
    }
    answer_json(request, status, json);
}

void answer_unavailable(struct request *request, const char *sentence)
{
    answer_error(request, MHD_HTTP_SERVICE_UNAVAILABLE, "unavailable", "Redis %s", sentence);
    request->answer.retry_after_s = 1;
}

void answer_closing(struct request *request)
{
    answer_error(request, MHD_HTTP_SERVICE_UNAVAILABLE, "closing",
        "this instance is closing; nothing was done. Try again at another");
    request->answer.retry_after_s = 1;
}

/* ===== Input ===== */

bool is_id(const char *text)
{
    const size_t length = strlen(text);
    return length > 0 && length < ITEM_SIZE &&
           strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._") ==
               length;
}

/* Whether it ends as the keys of segments do: _0 to _63. */
static bool is_segment(const char *id)
{
    const char *end = strrchr(id, '_');
    int64_t number = 0;
    return end != NULL && parse_number(end + 1, &number) && number >= 0 && number < SEGMENTS_MAX &&
           (end[1] != '0' || end[2] == '\0');
}

bool request_check_item(struct request *request, const char *id)
{
    if (!is_id(id)) {
        answer_error(request, MHD_HTTP_BAD_REQUEST, "bad request",
            "an item's id is 1 to 64 of letters, digits, '-', '.' and '_'");
        return false;
    }
    if (is_segment(id)) {
        answer_error(request, MHD_HTTP_BAD_REQUEST, "bad request",
            "%s is the name of a segment, as ids with _0 to _%d at their end are; take another id",
            id, SEGMENTS_MAX - 1);
        return false;
    }
    return true;
}

json_t *request_object(struct request *request)
{
    if (request->body_size == 0) {
        return json_object();
    }
    json_error_t error;
    json_t *json = json_loadb(request->body, request->body_size, JSON_REJECT_DUPLICATES, &error);
    if (json == NULL) {
        answer_error(
            request, MHD_HTTP_BAD_REQUEST, "bad request", "the body is not JSON: %s", error.text);
        return NULL;
    }
    if (!json_is_object(json)) {
        json_decref(json);
        answer_error(request, MHD_HTTP_BAD_REQUEST, "bad request",
            "the body must be a JSON object: {\"name\": value, ...}");
        return NULL;
    }
    return json;
}
