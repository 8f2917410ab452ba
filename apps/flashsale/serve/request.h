/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One HTTP request and its answer, and what a route does with them.
 *
 * A route's handler runs on a thread of the HTTP library and must not wait. It either answers at
 * once with one of the answer_ functions, or calls request_later(), hands the request to another
 * thread, and that one answers and calls request_finish(). The connection is suspended in between:
 * it costs a descriptor and some memory, but no thread.
 */
#ifndef FLASHSALE_SERVE_REQUEST_H
#define FLASHSALE_SERVE_REQUEST_H

#include "shop/order.h"
#include "shop/shop.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct MHD_Connection;
struct MHD_Response;
struct door;
struct route;

enum { BODY_SIZE_MAX = 4096, PARAMETER_SIZE = 80 };

struct answer {
    unsigned status; /* 0: none yet */
    const char *type;
    char *text; /* allocated; or NULL, and `fixed` is the text */
    const char *fixed;
    size_t size;
    int retry_after_s;              /* 0: not said */
    const char *allow;              /* for 405 */
    struct MHD_Response *streaming; /* instead of a text */
};

struct request {
    struct door *door;
    struct shop *shop;
    struct MHD_Connection *connection;
    const struct route *route;
    const char *method;
    char parameter[PARAMETER_SIZE]; /* what stands for {} in the route's pattern */
    char *body;                     /* NULL: none; else NUL-terminated */
    size_t body_size;
    bool body_too_large;
    bool handled; /* the route has seen it */
    bool later;   /* and will answer from another thread */
    struct answer answer;
    struct order order; /* of the routes that sell */
    struct task task;   /* of those that ask the desk */
    int64_t asked_us;   /* since then it stands in the desk's queue */
    void (*at_desk)(struct seller *seller, struct request *request);
};

struct route {
    const char *method;
    const char *pattern; /* "/items/{}/orders" */
    void (*handle)(struct request *request);
    const char *argument; /* for routes that share a handler */
};

/* The value of a query parameter, or NULL. */
const char *request_query(const struct request *request, const char *name);

/* The answer comes later: suspend the connection. */
void request_later(struct request *request);

/* From any thread: the answer is there. The request is gone soon after. */
void request_finish(struct request *request);

/* Suspend it, and have this done at the desk; `run` answers, the rest is done here. Redis may be
 * slow, and the queue long: whoever stands in it for seconds, or when the door is shut, is told so
 * instead. */
void request_at_desk(
    struct request *request, void (*run)(struct seller *seller, struct request *request));

/* ===== Answers ===== */

/* The reference to the JSON is taken. */
void answer_json(struct request *request, unsigned status, json_t *json);

/* {"error": error, "detail": sentence} */
void answer_error(struct request *request, unsigned status, const char *error, const char *format,
    ...) __attribute__((format(printf, 4, 5)));

void answer_format(struct request *request, unsigned status, const char *type, const char *format,
    ...) __attribute__((format(printf, 4, 5)));

/* A text that was allocated and is given away. */
void answer_text(
    struct request *request, unsigned status, const char *type, char *text, size_t size);

/* A text that lives for ever. */
void answer_fixed(struct request *request, const char *type, const char *text, size_t size);

/* 503, and nobody knows when Redis is back. The sentence says what Redis did, behind its name. */
void answer_unavailable(struct request *request, const char *sentence);

/* 503: we are about to end, and nothing was done. */
void answer_closing(struct request *request);

#define TYPE_JSON "application/json"
#define TYPE_TEXT "text/plain; charset=utf-8"

/* ===== Input ===== */

/* An id: 1 to 64 of letters, digits, '-', '.', '_'. */
bool is_id(const char *text);

/* Whether it can be an item's; if not, 400 has been answered. 10001_3 cannot: it is the key of a
 * segment, should item 10001 be split, and whoever sold it as an item would not ask for the
 * segment's lock. */
bool request_check_item(struct request *request, const char *id);

/* The body as a JSON object, or NULL: then 400 has been answered. An empty body is an empty object.
 */
json_t *request_object(struct request *request);

#endif
