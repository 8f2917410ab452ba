/* SPDX-License-Identifier: Apache-2.0 */
/* Connecting, greeting, sending and receiving; link.h describes it from outside. */
#include "engine/redis/link.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"

#include <assert.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>

enum {
    US_PER_MS = 1000,
    RECEIVE_SIZE = 16 << 10, /* room for one receive */
    BACKOFF_US = 10 * US_PER_MS,
    BACKOFF_US_MAX = 1000 * US_PER_MS,
    STABLE_US = 1000 * US_PER_MS, /* a connection that lived so long was a good one */
    RECEIVES_MAX = 8,             /* in one step of the greeting */
    DIGITS_MAX = 18,              /* of a number that is read quickly: so many never overflow */
};

void pawl__link_init(struct pawl__link *link, const struct pawl__redis_config *config,
    const struct pawl__doubt *doubt)
{
    uint64_t seed = (uint64_t)(uintptr_t)link;
    *link = (struct pawl__link){.config = config, .doubt = doubt, .state = PAWL__LINK_DOWN};
    pawl__stream_init(&link->stream);
    pawl__buffer_init(&link->out, PAWL__LINK_OUT_SIZE_MAX);
    pawl__buffer_init(&link->in, pawl__resp_limits_default.reply_size + 2 * RECEIVE_SIZE);
    pawl__resp_init(&link->reader, &pawl__resp_limits_default);
    link->number = (struct pawl__resp_node){.type = PAWL__RESP_INTEGER, .next = 1};
    pawl__random_bytes(&seed, sizeof seed); /* only for jitter: any seed will do */
    pawl__random_seed(&link->random, seed);
}

/* Forget the connection, keep the memory. What was queued may hold a password. */
static void close_all(struct pawl__link *link)
{
    pawl__resolve_drop(link->resolve);
    link->resolve = NULL;
    pawl__stream_close(&link->stream);
    pawl__buffer_clear(&link->out);
    pawl__buffer_clear(&link->in);
    pawl__resp_reset(&link->reader);
    link->sent_size = 0;
    link->state = PAWL__LINK_DOWN;
}

void pawl__link_free(struct pawl__link *link)
{
    close_all(link);
    if (link->out.bytes != NULL) {
        explicit_bzero(link->out.bytes, link->out.capacity);
    }
    pawl__buffer_free(&link->out);
    pawl__buffer_free(&link->in);
    pawl__resp_free(&link->reader);
    pawl__greet_free(&link->greet);
    pawl__free(link->sentence);
    link->sentence = NULL;
}

/* ===== Failing ===== */

static int64_t backoff_us(struct pawl__link *link)
{
    if (link->failure_count == 0) {
        return 0;
    }
    const unsigned doublings = link->failure_count - 1;
    const int64_t pause_us = doublings > 6
                                 ? BACKOFF_US_MAX
                                 : pawl__min64((int64_t)BACKOFF_US << doublings, BACKOFF_US_MAX);
    return pawl__random_jitter(&link->random, pause_us);
}

/* Takes the sentence. */
static enum pawl__link_event fail(
    struct pawl__link *link, int64_t now_us, pawl_status status, char *sentence)
{
    close_all(link);
    pawl__free(link->sentence);
    link->status = status;
    link->sentence = sentence;
    link->failure_count++;
    link->retry_us = now_us + backoff_us(link);
    return PAWL__LINK_FAILED;
}

static enum pawl__link_event fail_memory(struct pawl__link *link, int64_t now_us)
{
    return fail(link, now_us, PAWL_NO_MEMORY, pawl__strdup("no memory for the greeting"));
}

static enum pawl__link_event fail_connect(struct pawl__link *link, int64_t now_us, const char *why)
{
    return fail(link, now_us, PAWL_UNAVAILABLE,
        pawl__format("cannot connect to %s: %s", link->config->peer, why));
}

void pawl__link_drop(struct pawl__link *link, int64_t now_us)
{
    assert(link->state == PAWL__LINK_READY);
    if (now_us - link->ready_us >= STABLE_US) {
        link->failure_count = 0;
    }
    close_all(link);
    link->retry_us = now_us + backoff_us(link);
    link->failure_count++;
}

const char *pawl__link_failure(const struct pawl__link *link, enum pawl__stream_result result)
{
    return result == PAWL__STREAM_CLOSED ? "the server closed the connection"
                                         : pawl__errno_text(link->stream.error);
}

pawl_status pawl__link_failure_status(
    const struct pawl__link *link, enum pawl__stream_result result)
{
    return result == PAWL__STREAM_FAILED && link->stream.error == ENOMEM ? PAWL_NO_MEMORY
                                                                         : PAWL_UNAVAILABLE;
}

/* ===== Bytes ===== */

enum pawl__stream_result pawl__link_flush(struct pawl__link *link)
{
    while (pawl__buffer_size(&link->out) > 0) {
        size_t sent;
        const enum pawl__stream_result result = pawl__stream_send(
            &link->stream, pawl__buffer_data(&link->out), pawl__buffer_size(&link->out), &sent);
        if (result != PAWL__STREAM_OK) {
            return result;
        }
        pawl__buffer_consume(&link->out, sent);
        link->sent_size += sent;
    }
    return PAWL__STREAM_OK;
}

static char *reserve(struct pawl__link *link)
{
    char *room = pawl__buffer_reserve(&link->in, RECEIVE_SIZE);
    if (room == NULL) {
        link->stream.error = ENOMEM;
    }
    return room;
}

enum pawl__stream_result pawl__link_receive_wait(struct pawl__link *link, int64_t deadline_us)
{
    char *room = reserve(link);
    if (room == NULL) {
        return PAWL__STREAM_FAILED;
    }
    size_t received;
    const enum pawl__stream_result result = pawl__stream_recv_wait(
        &link->stream, room, pawl__buffer_room(&link->in), deadline_us, &received);
    pawl__buffer_commit(&link->in, received);
    return result;
}

enum pawl__stream_result pawl__link_receive_now(struct pawl__link *link)
{
    char *room = reserve(link);
    if (room == NULL) {
        return PAWL__STREAM_FAILED;
    }
    size_t received;
    const enum pawl__stream_result result =
        pawl__stream_recv_now(&link->stream, room, pawl__buffer_room(&link->in), &received);
    pawl__buffer_commit(&link->in, received);
    return result;
}

/* Nearly all replies are one small number. That is read here, without the reader's machinery; what
 * is anything else, or not there as a whole, or not in its canonical form, is left to the reader.
 * The size of the reply, or 0. */
static size_t read_number(const char *data, size_t size, int64_t *number_out)
{
    const bool negative = size > 1 && data[1] == '-';
    const size_t first = negative ? 2 : 1;
    const size_t end = size < first + DIGITS_MAX ? size : first + DIGITS_MAX;
    int64_t number = 0;
    size_t at = first;
    while (at < end && data[at] >= '0' && data[at] <= '9') {
        number = number * 10 + (data[at] - '0');
        at++;
    }
    const bool whole = at > first && at + 1 < size && data[at] == '\r' && data[at + 1] == '\n';
    if (!whole || (data[first] == '0' && (at > first + 1 || negative))) {
        return 0;
    }
    *number_out = negative ? -number : number;
    return at + 2;
}

enum pawl__resp_result pawl__link_next(
    struct pawl__link *link, const struct pawl__resp_node **reply_out)
{
    const size_t size = pawl__buffer_size(&link->in);
    if (size == 0) {
        return PAWL__RESP_MORE;
    }
    const char *data = pawl__buffer_data(&link->in);
    if (data[0] == ':' && link->reader.at == 0) {
        const size_t number_size = read_number(data, size, &link->number.integer);
        if (number_size > 0) {
            pawl__buffer_consume(&link->in, number_size);
            *reply_out = &link->number;
            return PAWL__RESP_COMPLETE;
        }
    }
    size_t consumed;
    const enum pawl__resp_result result = pawl__resp_parse(&link->reader, data, size, &consumed);
    if (result == PAWL__RESP_COMPLETE) {
        pawl__buffer_consume(&link->in, consumed);
        *reply_out = pawl__resp_root(&link->reader);
    }
    return result;
}

/* ===== Greeting ===== */

static enum pawl__link_event open_for_use(struct pawl__link *link, int64_t now_us)
{
    explicit_bzero(link->out.bytes, link->out.capacity); /* the password was in it */
    link->state = PAWL__LINK_READY;
    link->ready_us = now_us;
    return PAWL__LINK_OPENED;
}

/* Take the replies that are there. WAITING: all were taken. */
static enum pawl__link_event take_replies(struct pawl__link *link, int64_t now_us)
{
    for (;;) {
        const struct pawl__resp_node *reply = NULL;
        const enum pawl__resp_result parsed = pawl__link_next(link, &reply);
        if (parsed == PAWL__RESP_MORE) {
            return PAWL__LINK_WAITING;
        }
        if (parsed == PAWL__RESP_NO_MEMORY) {
            return fail(link, now_us, PAWL_NO_MEMORY, pawl__strdup("no memory for the greeting"));
        }
        if (parsed != PAWL__RESP_COMPLETE) {
            return fail(link, now_us, PAWL_PROTOCOL,
                pawl__format("%s does not speak the Redis protocol: %s", link->config->peer,
                    link->reader.broken));
        }
        if (pawl__resp_is_push(reply)) {
            continue;
        }
        const enum pawl__greet_result greeted =
            pawl__greet_reply(&link->greet, &link->reader, reply, &link->out);
        if (greeted == PAWL__GREET_READY) {
            return open_for_use(link, now_us);
        }
        if (greeted == PAWL__GREET_FAILED) {
            char *sentence = link->greet.sentence;
            link->greet.sentence = NULL;
            return fail(link, now_us, link->greet.status, sentence);
        }
    }
}

/* A few rounds at a time: a server that never stops sending must not keep us from the clock. */
/* However much a server has to say, this does not take long: what is left is for the next time. */
static enum pawl__link_event go_on_greeting(struct pawl__link *link, int64_t now_us)
{
    enum pawl__stream_result result = PAWL__STREAM_OK;
    for (int i = 0; i < RECEIVES_MAX && result != PAWL__STREAM_AGAIN; i++) {
        const bool sent = pawl__link_flush(link) != PAWL__STREAM_FAILED;
        /* Even then: a server that turns us away says why before it closes. */
        result = pawl__link_receive_now(link);
        if (result == PAWL__STREAM_OK) {
            const enum pawl__link_event event = take_replies(link, now_us);
            if (event != PAWL__LINK_WAITING) {
                return event;
            }
        } else if (result != PAWL__STREAM_AGAIN || !sent) {
            return pawl__link_failure_status(link, result) == PAWL_NO_MEMORY
                       ? fail_memory(link, now_us)
                       : fail_connect(link, now_us, pawl__link_failure(link, result));
        }
    }
    if (now_us >= link->limit_us) {
        return fail(link, now_us, PAWL_UNAVAILABLE,
            pawl__format("%s does not answer the greeting within %lld ms", link->config->peer,
                (long long)(link->config->settings.timeout_us / US_PER_MS)));
    }
    return PAWL__LINK_WAITING;
}

static enum pawl__link_event start_greeting(struct pawl__link *link, int64_t now_us)
{
    link->state = PAWL__LINK_GREETING;
    link->limit_us = pawl__later(now_us, link->config->settings.timeout_us);
    const enum pawl__greet_result begun =
        pawl__greet_begin(&link->greet, link->config, link->doubt, &link->out);
    if (begun == PAWL__GREET_FAILED) {
        return fail_memory(link, now_us);
    }
    return go_on_greeting(link, now_us);
}

/* ===== Connecting ===== */

static enum pawl__link_event connect_unix(struct pawl__link *link, int64_t now_us)
{
    const enum pawl__stream_result result =
        pawl__stream_open_unix(&link->stream, link->config->path);
    if (result == PAWL__STREAM_FAILED) {
        return fail_connect(link, now_us, pawl__errno_text(link->stream.error));
    }
    link->addresses.count = 1;
    link->address_index = 0;
    link->limit_us = link->attempt_us;
    link->state = PAWL__LINK_CONNECTING;
    return result == PAWL__STREAM_OK ? start_greeting(link, now_us) : PAWL__LINK_WAITING;
}

/* Try the addresses from the current one on. Each gets its share of the time that is left, so that
 * a dead first one does not use it all up. */
static enum pawl__link_event connect_from_here(struct pawl__link *link, int64_t now_us)
{
    for (; link->address_index < link->addresses.count; link->address_index++) {
        const struct pawl__address *address = &link->addresses.items[link->address_index];
        const enum pawl__stream_result result = pawl__stream_open_tcp(
            &link->stream, (const struct sockaddr *)&address->storage, address->size);
        const int64_t left = (int64_t)(link->addresses.count - link->address_index);
        if (result == PAWL__STREAM_OK) {
            return start_greeting(link, now_us);
        }
        if (result == PAWL__STREAM_PENDING) {
            link->limit_us = now_us + (link->attempt_us - now_us) / left;
            link->state = PAWL__LINK_CONNECTING;
            return PAWL__LINK_WAITING;
        }
    }
    return fail_connect(link, now_us, pawl__errno_text(link->stream.error));
}

static enum pawl__link_event go_on_connecting(struct pawl__link *link, int64_t now_us)
{
    const enum pawl__stream_result result = pawl__stream_connect_finish(&link->stream);
    if (result == PAWL__STREAM_OK) {
        return start_greeting(link, now_us);
    }
    if (result == PAWL__STREAM_PENDING && now_us < link->limit_us) {
        return PAWL__LINK_WAITING;
    }
    if (result == PAWL__STREAM_PENDING) {
        pawl__stream_close(&link->stream);
        link->stream.error = ETIMEDOUT;
    }
    link->address_index++;
    return connect_from_here(link, now_us);
}

static enum pawl__link_event go_on_resolving(struct pawl__link *link, int64_t now_us)
{
    const char *failure = NULL;
    if (!pawl__resolve_finished(link->resolve, &link->addresses, &failure)) {
        return now_us < link->limit_us
                   ? PAWL__LINK_WAITING
                   : fail_connect(link, now_us, "the name service does not answer");
    }
    pawl__resolve_drop(link->resolve);
    link->resolve = NULL;
    if (failure != NULL) {
        return fail_connect(link, now_us, failure);
    }
    link->address_index = 0;
    return connect_from_here(link, now_us);
}

static enum pawl__link_event begin(struct pawl__link *link, int64_t now_us)
{
    const struct pawl__redis_config *config = link->config;
    link->attempt_us = pawl__later(now_us, config->settings.connect_timeout_us);
    link->limit_us = link->attempt_us;
    if (config->path != NULL) {
        return connect_unix(link, now_us);
    }
    if (pawl__resolve_numeric(config->host, config->port, &link->addresses)) {
        link->address_index = 0;
        return connect_from_here(link, now_us);
    }
    link->resolve = pawl__resolve_start(config->host, config->port);
    if (link->resolve == NULL) {
        return fail_connect(link, now_us, pawl__errno_text(errno));
    }
    link->state = PAWL__LINK_RESOLVING;
    return PAWL__LINK_WAITING;
}

enum pawl__link_event pawl__link_advance(struct pawl__link *link, int64_t now_us)
{
    switch (link->state) {
    case PAWL__LINK_DOWN:
        return now_us < link->retry_us ? PAWL__LINK_WAITING : begin(link, now_us);
    case PAWL__LINK_RESOLVING:
        return go_on_resolving(link, now_us);
    case PAWL__LINK_CONNECTING:
        return go_on_connecting(link, now_us);
    case PAWL__LINK_GREETING:
        return go_on_greeting(link, now_us);
    case PAWL__LINK_READY:
        break;
    }
    return PAWL__LINK_WAITING;
}

/* ===== For who waits ===== */

struct pollfd pawl__link_poll(const struct pawl__link *link)
{
    const short send = pawl__buffer_size(&link->out) > 0 ? POLLOUT : 0;
    switch (link->state) {
    case PAWL__LINK_RESOLVING:
        return (struct pollfd){pawl__resolve_fd(link->resolve), POLLIN, 0};
    case PAWL__LINK_CONNECTING:
        return (struct pollfd){link->stream.fd, POLLOUT, 0};
    case PAWL__LINK_GREETING:
    case PAWL__LINK_READY:
        return (struct pollfd){link->stream.fd, (short)(POLLIN | send), 0};
    case PAWL__LINK_DOWN:
        break;
    }
    return (struct pollfd){-1, 0, 0};
}

int64_t pawl__link_due(const struct pawl__link *link)
{
    if (link->state == PAWL__LINK_READY) {
        return PAWL__NEVER;
    }
    return link->state == PAWL__LINK_DOWN ? link->retry_us : link->limit_us;
}

void pawl__link_address(const struct pawl__link *link, char address[PAWL__SOCKET_NAME_SIZE])
{
    struct sockaddr_storage own = {0};
    socklen_t own_size = sizeof own;
    char host[48];
    char port[8];
    address[0] = '\0';
    if (link->stream.tcp && getsockname(link->stream.fd, (struct sockaddr *)&own, &own_size) == 0 &&
        getnameinfo((const struct sockaddr *)&own, own_size, host, sizeof host, port, sizeof port,
            NI_NUMERICHOST | NI_NUMERICSERV) == 0) {
        snprintf(address, PAWL__SOCKET_NAME_SIZE, strchr(host, ':') != NULL ? "[%s]:%s" : "%s:%s",
            host, port);
    }
}
