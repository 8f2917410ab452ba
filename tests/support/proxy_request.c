/* SPDX-License-Identifier: Apache-2.0 */
/* The fault proxy's eye for requests and replies, and the rules that wait for a request.
 *
 * Bytes are passed on as they come, complete or not, while this file follows where requests and
 * replies end. Only where a decision depends on the whole (is this the request to hold? is this
 * the reply to lose?) the beginning is kept back until the rest is there. Replies are matched to
 * requests by their order. See proxy_internal.h for the whole and for the rules of locking. */
#include "support/proxy_internal.h"

#include "support/resp.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

static bool matches(const struct request *request, const char *text)
{
    return bytes_contain(request->text, request->text_size, text);
}

bool proxy__link_matches(const struct proxy *proxy, const struct link *link, const char *text)
{
    for (size_t i = 0; i < proxy->request_count; i++) {
        if (proxy->requests[i]->link_id == link->id && matches(proxy->requests[i], text)) {
            return true;
        }
    }
    return false;
}

/* SUBSCRIBE, UNSUBSCRIBE and their P and S forms, as a command or as the kind of a push. */
static bool is_subscription(const char *word)
{
    if (word[0] != '\0' && strchr("pPsS", word[0]) != NULL && strncasecmp(word, "sub", 3) != 0) {
        word++;
    }
    if (strncasecmp(word, "un", 2) == 0) {
        word += 2;
    }
    return strncasecmp(word, "subscribe", 9) == 0 && (word[9] == '\0' || word[9] == ' ');
}

static bool is_greeting(const char *word)
{
    return strcasecmp(word, "HELLO") == 0 || strcasecmp(word, "AUTH") == 0 ||
           strcasecmp(word, "SELECT") == 0;
}

static void remember_request(struct proxy *proxy, struct link *link, struct request *request)
{
    if (proxy->request_count == proxy->request_capacity) {
        proxy->request_capacity = proxy->request_capacity * 2 + 64;
        struct request **grown = support_alloc(proxy->request_capacity * sizeof *grown);
        if (proxy->request_count > 0) {
            memcpy(grown, proxy->requests, proxy->request_count * sizeof *grown);
        }
        free(proxy->requests);
        proxy->requests = grown;
    }
    if (link->pending_count == link->pending_capacity) {
        link->pending_capacity = link->pending_capacity * 2 + 16;
        size_t *grown = support_alloc(link->pending_capacity * sizeof *grown);
        if (link->pending_count > 0) {
            memcpy(grown, link->pending, link->pending_count * sizeof *grown);
        }
        free(link->pending);
        link->pending = grown;
    }
    link->pending[link->pending_count++] = proxy->request_count;
    proxy->requests[proxy->request_count++] = request;
}

/* Look whether a rule was waiting for this request. */
static void apply_rules(
    struct proxy *proxy, struct link *link, struct request *request, const char *raw, size_t size)
{
    if (proxy->hold_from != NULL && matches(request, proxy->hold_from)) {
        proxy__queue_mark(&link->flow[PROXY_TO_SERVER], PIECE_HOLD, PROXY_FIN);
        free(proxy->hold_from);
        proxy->hold_from = NULL;
    }
    struct reply_rule *lose = &proxy->cut_reply;
    if (lose->text != NULL && matches(request, lose->text)) {
        lose->left--;
        if (lose->left == 0) {
            request->lose_reply = true;
            request->how = lose->how;
            free(lose->text);
            lose->text = NULL;
        }
    }
    if (proxy->copy_next.text != NULL && matches(request, proxy->copy_next.text)) {
        request->raw = support_copy(raw, size);
        request->raw_size = size;
        request->copy_held = proxy->copy_next.held;
        free(proxy->copy_next.text);
        proxy->copy_next.text = NULL;
    }
}

/* What is sent into the dark can neither be held nor answered, so no rule is spent on it. */
static bool rules_apply(const struct proxy *proxy, const struct flow *flow)
{
    return !flow->dark && !flow->over && !proxy->blackhole[PROXY_TO_SERVER];
}

static void take_request(struct proxy *proxy, struct link *link, const char *raw, size_t size)
{
    struct flow *flow = &link->flow[PROXY_TO_SERVER];
    struct resp_words words;
    if (!resp_read_words(raw, size, &words) || words.count == 0) {
        resp_free_words(&words);
        return;
    }
    struct text joined = {0};
    resp_join_words(&words, &joined);
    struct request *request = support_alloc(sizeof *request);
    request->text_size = joined.size;
    request->text = text_take(&joined);
    request->link_id = link->id;
    request->end = flow->received + size - flow->tail_queued;
    request->subscribes = is_subscription(words.items[0]);
    request->replies_due = 1;
    if (request->subscribes && words.count > 2) {
        request->replies_due = (unsigned)words.count - 1;
    }
    if (is_greeting(words.items[0])) {
        text_add(&link->greeting, raw, size);
        link->greeting_count++;
    }
    resp_free_words(&words);
    proxy->stats.requests_received++;
    remember_request(proxy, link, request);
    if (rules_apply(proxy, flow)) {
        apply_rules(proxy, link, request, raw, size);
    }
}

/* Send a request a second time, on a connection of its own. */
static void send_copy(struct proxy *proxy, const struct link *original, struct request *request)
{
    struct link *copy = proxy__link_make(proxy, -1);
    if (copy == NULL) {
        return;
    }
    struct flow *flow = &copy->flow[PROXY_TO_SERVER];
    proxy__queue_data(
        proxy, flow, PROXY_TO_SERVER, original->greeting.data, original->greeting.size);
    proxy__queue_data(proxy, flow, PROXY_TO_SERVER, request->raw, request->raw_size);
    flow->held = request->copy_held;
    copy->copy_replies_due = original->greeting_count + request->replies_due;
    free(request->raw);
    request->raw = NULL;
}

/* Bytes were written to the server: which requests are now there as a whole? */
void proxy__note_passed(struct proxy *proxy, struct link *link)
{
    const struct flow *flow = &link->flow[PROXY_TO_SERVER];
    if (link->is_copy) {
        proxy->stats.copies_sent += flow->queued_size == 0 ? 1 : 0;
        return;
    }
    while (link->unforwarded < link->pending_count) {
        struct request *request = proxy->requests[link->pending[link->unforwarded]];
        if (request->end > flow->passed) {
            break;
        }
        request->forwarded = true;
        proxy->stats.requests_forwarded++;
        link->unforwarded++;
        if (request->raw != NULL) {
            send_copy(proxy, link, request);
        }
    }
}

/* The request that the next reply belongs to, or NULL. */
static struct request *awaited(const struct proxy *proxy, const struct link *link)
{
    return link->unforwarded > 0 ? proxy->requests[link->pending[0]] : NULL;
}

/* Whether this value answers the request, and is not something the server says by itself. */
static bool is_answer(const struct request *request, const char *raw, size_t size)
{
    if (raw[0] != '>' && !(raw[0] == '*' && request->subscribes)) {
        return !request->subscribes || raw[0] == '-';
    }
    struct text flat = {0};
    resp_add_flat(&flat, raw, size);
    const bool confirms = flat.size > 0 && is_subscription(flat.data);
    text_free(&flat);
    return confirms && request->subscribes;
}

static void finish_request(struct proxy *proxy, struct link *link, struct request *request)
{
    request->answered = true;
    link->pending_count--;
    link->unforwarded--;
    memmove(link->pending, link->pending + 1, link->pending_count * sizeof *link->pending);
    if (request->lose_reply) {
        proxy->stats.replies_lost++;
        link->flow[PROXY_TO_CLIENT].deaf = true;
        proxy__queue_mark(&link->flow[PROXY_TO_CLIENT], PIECE_CUT, request->how);
    }
}

/* The reply to a copy; after the last one the copy is over. */
static void take_copy_reply(struct proxy *proxy, struct link *copy)
{
    if (copy->copy_replies_due > 0) {
        copy->copy_replies_due--;
        if (copy->copy_replies_due == 0) {
            proxy->stats.copies_answered++;
            proxy__cut(proxy, copy, PROXY_FIN);
        }
    }
}

/* One whole value from the server; true if it may be passed on. */
static bool take_reply(struct proxy *proxy, struct link *link, const char *raw, size_t size)
{
    proxy->stats.replies += raw[0] != '>' ? 1 : 0;
    if (link->is_copy) {
        take_copy_reply(proxy, link);
        return false;
    }
    struct request *request = awaited(proxy, link);
    if (request == NULL || !is_answer(request, raw, size)) {
        return true;
    }
    const bool passes = !request->lose_reply;
    request->replies_due = raw[0] == '-' ? 0 : request->replies_due - 1;
    if (request->replies_due == 0) {
        finish_request(proxy, link, request);
    }
    return passes;
}

/* Whether the beginning of a value has to wait for its end. */
static bool must_be_whole(
    const struct proxy *proxy, const struct link *link, enum proxy_direction direction)
{
    if (direction == PROXY_TO_SERVER) {
        return proxy->hold_from != NULL && rules_apply(proxy, &link->flow[direction]);
    }
    const struct request *request = awaited(proxy, link);
    return link->is_copy || (request != NULL && request->lose_reply);
}

/* Pass on the tail up to `end`, if there still is somebody to receive it. */
static void queue_tail(
    struct proxy *proxy, struct link *link, enum proxy_direction direction, size_t end)
{
    struct flow *flow = &link->flow[direction];
    const size_t size = end - flow->tail_queued;
    if (flow->over) {
        proxy__count_lost(proxy, link, direction, size);
    } else {
        proxy__queue_data(proxy, flow, direction, flow->tail.data + flow->tail_queued, size);
    }
    flow->tail_queued = end;
}

/* Deal with all whole values in the tail; what is left then is the beginning of the next. */
static enum resp_state take_values(
    struct proxy *proxy, struct link *link, enum proxy_direction direction)
{
    struct flow *flow = &link->flow[direction];
    for (;;) {
        size_t end = 0;
        const enum resp_state state = resp_find_end(flow->tail.data, flow->tail.size, &end);
        if (state != RESP_COMPLETE) {
            return state;
        }
        bool passes = true;
        if (direction == PROXY_TO_SERVER) {
            take_request(proxy, link, flow->tail.data, end);
        } else {
            passes = take_reply(proxy, link, flow->tail.data, end);
        }
        if (passes) {
            queue_tail(proxy, link, direction, end);
        } else {
            proxy__count_lost(proxy, link, direction, end - flow->tail_queued);
        }
        text_remove(&flow->tail, end);
        flow->tail_queued = 0;
        if (flow->deaf) {
            return RESP_PARTIAL;
        }
    }
}

/* Bytes have come from one side of a link. */
void proxy__take_bytes(struct proxy *proxy, struct link *link, enum proxy_direction direction,
    const char *data, size_t size)
{
    struct flow *flow = &link->flow[direction];
    if (!link->is_copy) {
        proxy->stats.bytes_received[direction] += size;
    }
    if (flow->deaf) {
        proxy__count_lost(proxy, link, direction, size);
        return;
    }
    text_add(&flow->tail, data, size);
    if (!flow->garbled) {
        flow->garbled = take_values(proxy, link, direction) == RESP_BROKEN;
    }
    if (flow->deaf) {
        proxy__count_lost(proxy, link, direction, flow->tail.size);
        text_free(&flow->tail);
        flow->tail_queued = 0;
    } else if (flow->garbled || !must_be_whole(proxy, link, direction)) {
        queue_tail(proxy, link, direction, flow->tail.size);
    }
    if (flow->garbled) {
        text_free(&flow->tail);
        flow->tail_queued = 0;
    }
}
