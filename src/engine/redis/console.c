/* SPDX-License-Identifier: Apache-2.0 */
/* Asking and waiting; console.h says for whom. */
#include "engine/redis/console.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "engine/redis/errors.h"

#include <poll.h>

enum {
    US_PER_MS = 1000,
    NAP_MS = 100, /* poll() counts another clock than we do, so it is asked in small pieces */
    SHOWN_SIZE = 200,
};

/* Sleep until the connection is ready for something, or that moment. */
static void wait_ready(const struct pawl__link *link, int64_t until_us)
{
    struct pollfd fd = pawl__link_poll(link);
    const int64_t left_us = until_us - pawl__now_us();
    if (left_us > 0) {
        const int64_t left_ms = left_us / US_PER_MS + 1;
        poll(&fd, fd.fd >= 0 ? 1 : 0, (int)pawl__min64(left_ms, NAP_MS));
    }
}

/* ===== Opening ===== */

/* Takes the link's sentence. */
static pawl_status not_opened(struct pawl__console *console)
{
    char *sentence = console->link.sentence;
    console->link.sentence = NULL;
    return pawl__fail_text(console->link.status, sentence);
}

void pawl__console_init(struct pawl__console *console, const struct pawl__redis_config *config)
{
    console->config = config;
    pawl__link_init(&console->link, config, NULL);
    pawl__resp_set_limits(&console->link.reader, &pawl__resp_limits_listing);
}

pawl_status pawl__console_connect(struct pawl__console *console, int64_t deadline_us)
{
    struct pawl__link *link = &console->link;
    for (;;) {
        const int64_t now_us = pawl__now_us();
        const enum pawl__link_event event = pawl__link_advance(link, now_us);
        if (event == PAWL__LINK_OPENED) {
            return PAWL_OK;
        }
        if (event == PAWL__LINK_FAILED) {
            return not_opened(console);
        }
        if (now_us >= deadline_us) {
            return PAWL_BUSY;
        }
        wait_ready(link, pawl__min64(deadline_us, pawl__link_due(link)));
    }
}

/* The greeting of an operations' connection has said what is wrong with a database, if anything;
 * here it is enough to say that. */
pawl_status pawl__console_choose(struct pawl__console *console)
{
    const struct pawl__resp_node *reply = NULL;
    struct pawl__buffer *out = &console->link.out;
    if (console->config->db == 0) {
        return PAWL_OK;
    }
    if (!pawl__resp_put_array(out, 2) || !pawl__resp_put_text(out, "SELECT") ||
        !pawl__resp_put_int(out, console->config->db)) {
        return pawl__console_no_memory();
    }
    const pawl_status status =
        pawl__console_reply(console, pawl__console_deadline(console), &reply);
    if (status == PAWL_OK && pawl__resp_is_error(reply)) {
        return pawl__console_fail(console, reply, "choose the database", "+select");
    }
    return status;
}

pawl_status pawl__console_reach(
    struct pawl__console *console, const struct pawl__redis_config *config)
{
    const int64_t limit_us = config->settings.connect_timeout_us + config->settings.timeout_us;
    pawl__console_init(console, config);
    pawl_status status = pawl__console_connect(console, pawl__now_us() + limit_us);
    if (status == PAWL_BUSY) {
        status = pawl__fail(PAWL_UNAVAILABLE, "no connection to %s in time", config->peer);
    }
    if (status != PAWL_OK) {
        pawl__console_close(console);
    }
    return status;
}

pawl_status pawl__console_open(
    struct pawl__console *console, const struct pawl__redis_config *config)
{
    pawl_status status = pawl__console_reach(console, config);
    if (status != PAWL_OK) {
        return status;
    }
    status = pawl__console_choose(console);
    if (status != PAWL_OK) {
        pawl__console_close(console);
    }
    return status;
}

void pawl__console_close(struct pawl__console *console)
{
    pawl__link_free(&console->link);
}

void pawl__console_drop(struct pawl__console *console)
{
    if (console->link.state == PAWL__LINK_READY) {
        pawl__link_drop(&console->link, pawl__now_us());
    }
}

/* ===== Asking ===== */

pawl_status pawl__console_no_memory(void)
{
    return pawl__fail(PAWL_NO_MEMORY, "no memory for a question to the server");
}

int64_t pawl__console_deadline(const struct pawl__console *console)
{
    return pawl__later(pawl__now_us(), console->config->settings.timeout_us);
}

static pawl_status broken(const struct pawl__console *console, enum pawl__resp_result result)
{
    if (result == PAWL__RESP_NO_MEMORY) {
        return pawl__fail(PAWL_NO_MEMORY, "no memory for a reply of %s", console->config->peer);
    }
    return pawl__fail(PAWL_PROTOCOL, "%s does not speak the Redis protocol: %s",
        console->config->peer, console->link.reader.broken);
}

static pawl_status lost(const struct pawl__console *console, enum pawl__stream_result result)
{
    return pawl__fail(pawl__link_failure_status(&console->link, result),
        "the connection to %s broke while we looked: %s", console->config->peer,
        pawl__link_failure(&console->link, result));
}

/* The next thing that the server says; PAWL_BUSY: nothing by the deadline. What is there is read in
 * any case, but a reply that never ends is left. */
static pawl_status next(
    struct pawl__console *console, int64_t deadline_us, const struct pawl__resp_node **reply_out)
{
    struct pawl__link *link = &console->link;
    bool late = false;
    for (;;) {
        const enum pawl__resp_result parsed = pawl__link_next(link, reply_out);
        if (parsed == PAWL__RESP_COMPLETE) {
            return PAWL_OK;
        }
        if (parsed != PAWL__RESP_MORE) {
            return broken(console, parsed);
        }
        if (late) {
            return PAWL_BUSY;
        }
        const enum pawl__stream_result sent = pawl__link_flush(link);
        /* Even if that failed: a server that ends the connection may have said why. */
        const enum pawl__stream_result received = pawl__link_receive_now(link);
        late = pawl__now_us() >= deadline_us;
        if (received == PAWL__STREAM_AGAIN && sent != PAWL__STREAM_FAILED) {
            wait_ready(link, deadline_us);
        } else if (received != PAWL__STREAM_OK) {
            return lost(console, received == PAWL__STREAM_AGAIN ? sent : received);
        }
    }
}

pawl_status pawl__console_reply(
    struct pawl__console *console, int64_t deadline_us, const struct pawl__resp_node **reply_out)
{
    pawl_status status;
    do {
        status = next(console, deadline_us, reply_out);
    } while (status == PAWL_OK && pawl__resp_is_push(*reply_out) && pawl__now_us() < deadline_us);
    if (status == PAWL_BUSY || (status == PAWL_OK && pawl__resp_is_push(*reply_out))) {
        return pawl__fail(PAWL_UNAVAILABLE, "%s does not answer within %lld ms",
            console->config->peer, (long long)(console->config->settings.timeout_us / US_PER_MS));
    }
    return status;
}

pawl_status pawl__console_push(
    struct pawl__console *console, int64_t deadline_us, const struct pawl__resp_node **reply_out)
{
    return next(console, deadline_us, reply_out);
}

pawl_status pawl__console_ask(struct pawl__console *console, size_t word_count,
    const char *const words[], const struct pawl__resp_node **reply_out)
{
    if (!pawl__resp_put_command(&console->link.out, word_count, words, NULL)) {
        return pawl__console_no_memory();
    }
    return pawl__console_reply(console, pawl__console_deadline(console), reply_out);
}

pawl_status pawl__console_fail(const struct pawl__console *console,
    const struct pawl__resp_node *reply, const char *what, const char *rights)
{
    const struct pawl__redis_config *config = console->config;
    const char *text = pawl__resp_text(&console->link.reader, reply);
    char shown[SHOWN_SIZE];
    pawl__redis_show(text, reply->text_size, config->password, shown, sizeof shown);
    if (pawl__redis_error_is_denial(text, reply->text_size)) {
        return pawl__fail(PAWL_DENIED,
            "%s does not let the user %s; add the rights with: %s %s (%s)", config->peer, what,
            config->grant, rights, shown);
    }
    const struct pawl__verdict verdict =
        pawl__redis_judge(text, reply->text_size, "", 0, config->password);
    pawl__free(verdict.sentence);
    return pawl__fail(verdict.status, "%s does not let us %s: %s", config->peer, what, shown);
}
