/* SPDX-License-Identifier: Apache-2.0 */
/* A fault proxy: it stands between a client under test and a real server and spoils the traffic.
 *
 * It listens on a free loopback TCP port and forwards to a TCP port or a unix socket. Without
 * faults it is transparent. Faults are set at run time, from any thread, and act on the next byte;
 * what happened can be counted and waited for. Requests are recognised (arrays of strings on the
 * wire) and can be matched by a part of their text, which is their words with one space between:
 * "EVALSHA 4f3c", "pawl:lock1". An empty text matches every request.
 *
 * The proxy follows replies to know which one answers which request: RESP3 pushes do not count,
 * and SUBSCRIBE is answered by one push (RESP2: one array) for each channel. It does not know
 * CLIENT REPLY, MONITOR or WAIT-free streams, and not RESP2 messages mixed with other commands. */
#ifndef PAWL_SUPPORT_PROXY_H
#define PAWL_SUPPORT_PROXY_H

#include "support/server.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct proxy;

enum proxy_direction { PROXY_TO_SERVER = 0, PROXY_TO_CLIENT = 1 };

/* How a connection ends. */
enum proxy_end {
    PROXY_FIN,    /* both sides see an orderly end */
    PROXY_RST,    /* both sides see a reset (the server of a unix socket: an end) */
    PROXY_ORPHAN, /* the client sees a reset; the server is not told and keeps its connection */
    PROXY_MUTE    /* nobody is told; nothing passes any more, either way */
};

/* What has happened since the start. [] is by direction. */
struct proxy_stats {
    uint64_t accepted;           /* connections of clients */
    uint64_t open;               /* of these, not over yet (one side may be) */
    uint64_t unreachable;        /* connections that failed on the server's side */
    uint64_t cuts;               /* connections ended by us */
    uint64_t bytes_received[2];  /* read from the sender */
    uint64_t bytes_passed[2];    /* written to the receiver */
    uint64_t bytes_lost[2];      /* swallowed, or the receiver had gone */
    uint64_t requests_received;  /* whole requests from clients */
    uint64_t requests_forwarded; /* of these, passed on to the last byte */
    uint64_t replies;            /* whole replies from the server */
    uint64_t replies_lost;       /* by proxy_cut_reply_of() */
    uint64_t copies_sent;        /* requests sent a second time */
    uint64_t copies_answered;    /* of these, answered by the server */
};

struct proxy *proxy_start(uint16_t upstream_port);
struct proxy *proxy_start_unix(const char *upstream_path);
struct proxy *proxy_start_for(const struct server *server);

/* End all connections, join the thread, free. Also done by the clean-up. */
void proxy_stop(struct proxy *proxy);

uint16_t proxy_port(const struct proxy *proxy);
const char *proxy_url(const struct proxy *proxy); /* redis://127.0.0.1:port */

/* --- Faults on all connections, present and future, until taken back ------------------------- */

/* Every piece of data read from now on waits so long, plus a part of the jitter drawn from the
 * seed. The order is kept. */
void proxy_set_delay(
    struct proxy *proxy, enum proxy_direction direction, int64_t delay_ms, int64_t jitter_ms);
void proxy_set_seed(struct proxy *proxy, uint64_t seed);

/* Write single bytes, each in a packet of its own, with so many microseconds between them. */
void proxy_byte_by_byte(struct proxy *proxy, bool on, int64_t gap_us);

/* Bytes of this direction vanish, and so does the news that the sender closed. A connection that
 * lost something stays dark when the light is on again, as its stream has a hole. */
void proxy_blackhole(struct proxy *proxy, enum proxy_direction direction, bool on);

/* New connections get "connection refused". */
void proxy_refuse(struct proxy *proxy, bool on);

/* --- Holding back ---------------------------------------------------------------------------- */

/* Bytes (and the end of the stream) are received but kept until proxy_release(): on all
 * connections, on those that exist now, or on the one where the next matching request arrives,
 * from that request on. Kept bytes outlive the client's connection: they are delivered on the old
 * connection to the server when released, even if the client is long gone. */
void proxy_hold(struct proxy *proxy, enum proxy_direction direction);
void proxy_hold_present(struct proxy *proxy, enum proxy_direction direction);
void proxy_hold_from(struct proxy *proxy, const char *text);
void proxy_release(struct proxy *proxy, enum proxy_direction direction);

/* --- Cutting; each of these acts once ----------------------------------------------------------
 */

/* End all present connections. */
void proxy_cut_now(struct proxy *proxy, enum proxy_end how);

/* End the present connections on which a matching request has been received. */
void proxy_cut_those(struct proxy *proxy, const char *text, enum proxy_end how);

/* Let `size` more bytes of this direction pass, counted for each connection from now on (or from
 * its beginning), and end the first connection that gets there. PROXY_MUTE truncates: the rest
 * never comes, and the connection stays open. */
void proxy_cut_after(
    struct proxy *proxy, enum proxy_direction direction, uint64_t size, enum proxy_end how);

/* Forward the nth matching request from now (1: the next), wait for its reply, which proves that
 * the server has acted, swallow the reply and end the connection. */
void proxy_cut_reply_of(struct proxy *proxy, const char *text, unsigned nth, enum proxy_end how);

/* Take back whatever of the above, and of proxy_hold_from(), has not acted yet. */
void proxy_disarm(struct proxy *proxy);

/* --- Duplicating -------------------------------------------------------------------------------
 */

/* When the next matching request has been forwarded, send the same bytes on a second connection to
 * the server, after the HELLO, AUTH and SELECT of the first. With `held` the copy waits for
 * proxy_release_copies(). The copy's reply is swallowed. */
void proxy_duplicate_next(struct proxy *proxy, const char *text, bool held);
void proxy_release_copies(struct proxy *proxy);

/* --- Looking -----------------------------------------------------------------------------------
 */

struct proxy_stats proxy_stats(struct proxy *proxy);

/* Matching requests: received from clients, passed on whole, answered by the server. */
uint64_t proxy_received(struct proxy *proxy, const char *text);
uint64_t proxy_forwarded(struct proxy *proxy, const char *text);
uint64_t proxy_answered(struct proxy *proxy, const char *text);

/* Sleep until the condition holds; false when the time is over. The condition is called with the
 * proxy locked and must not call the proxy. */
bool proxy_wait_for(struct proxy *proxy,
    bool (*condition)(const struct proxy_stats *stats, void *arg), void *arg, int64_t timeout_ms);

/* Sleep until so many matching requests were received / forwarded; false when the time is over. */
bool proxy_wait_received(struct proxy *proxy, const char *text, uint64_t count, int64_t timeout_ms);
bool proxy_wait_forwarded(
    struct proxy *proxy, const char *text, uint64_t count, int64_t timeout_ms);

#endif
