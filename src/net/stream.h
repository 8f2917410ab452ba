/* SPDX-License-Identifier: Apache-2.0 */

/* One connected peer, bytes in and out: TCP over IPv4 or IPv6, or a unix socket.
 *
 * A connection is begun by open_tcp or open_unix and, if that says PENDING, completed by
 * connect_finish, which never blocks; wait() says when to ask. From then on the descriptor is in
 * blocking mode: one thread, the leader, sleeps in recv itself (on TCP a poll before each recv
 * costs up to 13 %; on a unix socket it saves as much), bounded by the socket's receive timeout,
 * while sends never block.
 *
 * Threads: one may receive while another sends; `error` is theirs in common and atomic, the rest
 * belongs to the receiving side. Open, finish and close are for a time when nobody else uses the
 * stream. shutdown() may be called by any thread while the stream is open: it is how a leader that
 * sleeps in recv_wait() is called back.
 *
 * Failures leave their errno in `error`; a sentence about it is the caller's to write.
 * Signals: EINTR is never seen outside, and a deadline stays what it was. No SIGPIPE.
 *
 * How TLS will be stacked on it: the struct gets a pointer to a table of four functions
 * (handshake, send, recv, close) and their state, NULL for plain bytes. connect_finish then goes on
 * to the handshake, still PENDING, with `wants_write` saying which event it waits for; send and
 * recv_now go through the table; recv_wait becomes wait() for POLLIN and then the table's recv
 * under a mutex of that layer, since one TLS session may not be read and written at once. What
 * callers see does not change: they already take OK as "some bytes" and AGAIN as "wait()". */
#ifndef PAWL_NET_STREAM_H
#define PAWL_NET_STREAM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

enum pawl__stream_result {
    PAWL__STREAM_OK,
    PAWL__STREAM_PENDING, /* connecting: wait() for POLLOUT, then connect_finish() */
    PAWL__STREAM_AGAIN,   /* nothing to receive, or no room to send, at this moment */
    PAWL__STREAM_TIMEOUT, /* the deadline came */
    PAWL__STREAM_CLOSED,  /* the peer has ended the connection in good order */
    PAWL__STREAM_FAILED,  /* see `error` */
};

struct pawl__stream {
    int fd;                  /* -1: closed */
    bool connecting;         /* begun, not yet finished */
    bool tcp;                /* else a unix socket */
    int64_t recv_timeout_us; /* what the socket's receive timeout is set to; 0: not set yet */
    _Atomic int error;       /* errno of the last failure */
};

/* What wait() found. A peer that hung up or failed is both readable and writable: the next recv or
 * send says what happened. */
struct pawl__stream_events {
    bool readable;
    bool writable;
    bool woken; /* the wake-up descriptor is readable */
};

/* A closed stream. Needed before anything else. */
void pawl__stream_init(struct pawl__stream *stream);

/* Begin to connect a closed stream: OK, PENDING, or FAILED (the stream is closed again then).
 *
 * A unix socket whose listener has no room for one more connection is FAILED with EAGAIN: the
 * kernel does not tell when there is room, so the caller has to come back later. A path that does
 * not fit a socket address is ENAMETOOLONG, an empty one EINVAL. */
__attribute__((warn_unused_result)) enum pawl__stream_result pawl__stream_open_tcp(
    struct pawl__stream *stream, const struct sockaddr *address, socklen_t address_size);
__attribute__((warn_unused_result)) enum pawl__stream_result pawl__stream_open_unix(
    struct pawl__stream *stream, const char *path);

/* How is a pending connection getting on? OK, still PENDING, or FAILED (and closed). */
__attribute__((warn_unused_result)) enum pawl__stream_result pawl__stream_connect_finish(
    struct pawl__stream *stream);

/* Send without blocking: OK (sent_out is at least 1), AGAIN or FAILED. */
__attribute__((warn_unused_result)) enum pawl__stream_result pawl__stream_send(
    struct pawl__stream *stream, const void *data, size_t size, size_t *sent_out);

/* Receive what is there: OK (received_out is at least 1), AGAIN, CLOSED or FAILED. */
__attribute__((warn_unused_result)) enum pawl__stream_result pawl__stream_recv_now(
    struct pawl__stream *stream, void *room, size_t size, size_t *received_out);

/* The same, but sleep until something is there or the deadline (PAWL__NEVER: without end) has
 * come: OK, TIMEOUT, CLOSED or FAILED. What is there already is received whatever the deadline.
 * It may return up to 10 ms and one tick of the kernel late, never early. */
__attribute__((warn_unused_result)) enum pawl__stream_result pawl__stream_recv_wait(
    struct pawl__stream *stream, void *room, size_t size, int64_t deadline_us,
    size_t *received_out);

/* Sleep until one of `poll_events` (POLLIN, POLLOUT; 0: only failure), a byte on `wake_fd` (-1:
 * none) or the deadline: OK, TIMEOUT or FAILED. */
__attribute__((warn_unused_result)) enum pawl__stream_result pawl__stream_wait(
    struct pawl__stream *stream, short poll_events, int wake_fd, int64_t deadline_us,
    struct pawl__stream_events *events_out);

/* End the connection in both directions; whoever sleeps in recv_wait() gets CLOSED. */
void pawl__stream_shutdown(struct pawl__stream *stream);

/* Close it. A closed stream is fine. `error` is kept. */
void pawl__stream_close(struct pawl__stream *stream);

#endif
