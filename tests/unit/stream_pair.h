/* SPDX-License-Identifier: Apache-2.0 */

/* What the tests of the stream have in common: a stream and its peer, both in this process, and
 * checks that end by themselves. Included once by each test program. */
#ifndef PAWL_UNIT_STREAM_PAIR_H
#define PAWL_UNIT_STREAM_PAIR_H

#include "base/clock.h"
#include "net/stream.h"
#include "support/fail.h"
#include "support/resources.h"
#include "support/sockets.h"
#include "support/wait.h"

#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

enum {
    BOUND_MS = 10000,      /* for what must happen at once */
    LATE_US_MAX = 1000000, /* generous: the machine may be busy */
};

struct pair {
    struct pawl__stream stream;
    int peer; /* the accepted end */
};

static inline int64_t soon(void)
{
    return pawl__now_us() + (int64_t)BOUND_MS * 1000;
}

static inline struct sockaddr_in loopback(uint16_t port)
{
    return (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

static inline enum pawl__stream_result open_port(struct pawl__stream *stream, uint16_t port)
{
    const struct sockaddr_in address = loopback(port);
    return pawl__stream_open_tcp(stream, (const struct sockaddr *)&address, sizeof address);
}

/* Follow a pending connection to its end. */
static inline enum pawl__stream_result finish(
    struct pawl__stream *stream, enum pawl__stream_result result)
{
    const int64_t deadline_us = soon();
    while (result == PAWL__STREAM_PENDING) {
        struct pawl__stream_events events;
        assert_int_equal(
            pawl__stream_wait(stream, POLLOUT, -1, deadline_us, &events), PAWL__STREAM_OK);
        assert_true(events.writable);
        result = pawl__stream_connect_finish(stream);
    }
    return result;
}

static inline int accept_peer(int listener)
{
    struct pollfd polled = {.fd = listener, .events = POLLIN};
    assert_int_equal(poll(&polled, 1, BOUND_MS), 1);
    const int peer = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    assert_true(peer >= 0);
    return peer;
}

static inline void connect_tcp(struct pair *pair)
{
    uint16_t port;
    const int listener = socket_listen(&port);
    pawl__stream_init(&pair->stream);
    assert_int_equal(finish(&pair->stream, open_port(&pair->stream, port)), PAWL__STREAM_OK);
    pair->peer = accept_peer(listener);
    close(listener);
}

static inline void disconnect(struct pair *pair)
{
    if (pair->peer >= 0) {
        close(pair->peer);
    }
    pawl__stream_close(&pair->stream);
    pawl__stream_close(&pair->stream); /* a closed one is fine */
}

static inline void send_all(struct pawl__stream *stream, const char *text)
{
    size_t sent;
    assert_int_equal(pawl__stream_send(stream, text, strlen(text), &sent), PAWL__STREAM_OK);
    assert_int_equal(sent, strlen(text));
}

static inline void expect_received(struct pawl__stream *stream, const char *expected)
{
    char room[64];
    size_t received;
    assert_int_equal(
        pawl__stream_recv_wait(stream, room, sizeof room, soon(), &received), PAWL__STREAM_OK);
    assert_int_equal(received, strlen(expected));
    assert_memory_equal(room, expected, received);
}

static inline void check_exchange(struct pair *pair)
{
    char room[64];
    size_t received;
    send_all(&pair->stream, "ping");
    assert_true(socket_receive_all(pair->peer, room, 4, BOUND_MS));
    assert_memory_equal(room, "ping", 4);
    assert_int_equal(
        pawl__stream_recv_now(&pair->stream, room, sizeof room, &received), PAWL__STREAM_AGAIN);
    assert_int_equal(received, 0);
    assert_true(socket_send_string(pair->peer, "pong"));
    expect_received(&pair->stream, "pong");
    assert_true(socket_send_string(pair->peer, "x"));
    WAIT_UNTIL(
        pawl__stream_recv_now(&pair->stream, room, 1, &received) == PAWL__STREAM_OK, BOUND_MS);
}

static inline void check_timeout_at(int64_t deadline_us, enum pawl__stream_result result)
{
    const int64_t now_us = pawl__now_us();
    assert_int_equal(result, PAWL__STREAM_TIMEOUT);
    assert_true(now_us >= deadline_us);
    assert_true(now_us < deadline_us + LATE_US_MAX);
}

/* No descriptor may be left when all cases are over. */

static size_t descriptors_before;

static inline int begin_group(void **state)
{
    (void)state;
    descriptors_before = open_descriptor_count();
    return 0;
}

static inline int end_group(void **state)
{
    (void)state;
    return open_descriptor_count() == descriptors_before ? 0 : -1;
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, cleanup_setup, cleanup_teardown)

#endif
