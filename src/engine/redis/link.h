/* SPDX-License-Identifier: Apache-2.0 */
/* A connection to the server, from the name to the first operation and again after each loss: what
 * the command connection and the push connection have in common.
 *
 *     DOWN ──> RESOLVING ──> CONNECTING ──> GREETING ──> READY
 *      ^            every failure and every loss           │
 *      └───────────────────────────────────────────────────┘
 *
 * Nothing here waits. Whoever drives the connection calls advance(), which does what can be done at
 * once, then polls what poll() names until due(), and calls advance() again. After a loss the next
 * attempt follows at once; after each attempt that fails, or a connection that does not last, the
 * pause doubles from 10 ms up to 1 s, with jitter.
 *
 * No locks: the owner's mutex guards everything, except that `in` and `reader` belong to the one
 * thread that reads (the owner's seat). Positions count all bytes ever queued on the current
 * connection, so that of each command it can be said whether any byte of it has left. */
#ifndef PAWL_ENGINE_REDIS_LINK_H
#define PAWL_ENGINE_REDIS_LINK_H

#include "base/buffer.h"
#include "engine/redis/config.h"
#include "engine/redis/greet.h"
#include "engine/redis/resolve.h"
#include "engine/redis/resp.h"
#include "net/stream.h"

#include <poll.h>

/* Bytes that may wait to be sent. The largest set with the longest names takes 6 million. */
enum { PAWL__LINK_OUT_SIZE_MAX = 8 << 20 };

enum pawl__link_state {
    PAWL__LINK_DOWN,
    PAWL__LINK_RESOLVING,
    PAWL__LINK_CONNECTING,
    PAWL__LINK_GREETING,
    PAWL__LINK_READY
};

enum pawl__link_event {
    PAWL__LINK_WAITING, /* nothing more can be done now */
    PAWL__LINK_OPENED,  /* it has just become READY */
    PAWL__LINK_FAILED   /* the attempt has just failed: status and sentence say why */
};

struct pawl__link {
    enum pawl__link_state state;
    struct pawl__stream stream;
    struct pawl__buffer out;
    uint64_t sent_size; /* bytes of the current connection that have left */
    struct pawl__buffer in;
    struct pawl__resp_node number; /* the last reply if it was no more than a number */
    struct pawl__resp_reader reader;

    const struct pawl__redis_config *config;
    const struct pawl__doubt *doubt; /* NULL: a push connection */
    int64_t attempt_us;              /* when all addresses must have been tried */
    int64_t limit_us;                /* when the current step must have ended */
    int64_t retry_us;                /* DOWN: when to try next */
    int64_t ready_us;                /* READY: since when */
    unsigned failure_count;
    pawl_status status; /* why the last attempt failed */
    char *sentence;
    struct pawl__random random;
    struct pawl__greet greet;
    struct pawl__resolve *resolve;
    size_t address_index; /* the one being tried */
    struct pawl__addresses addresses;
};

/* Neither connects nor allocates. */
void pawl__link_init(struct pawl__link *link, const struct pawl__redis_config *config,
    const struct pawl__doubt *doubt);
void pawl__link_free(struct pawl__link *link);

/* Do what can be done without waiting. */
enum pawl__link_event pawl__link_advance(struct pawl__link *link, int64_t now_us);

/* What to poll for; fd is -1 if there is nothing. */
struct pollfd pawl__link_poll(const struct pawl__link *link);

/* When advance() has something to do even if nothing becomes ready. */
int64_t pawl__link_due(const struct pawl__link *link);

/* Send what is queued: OK (all of it), AGAIN (the rest when there is room) or FAILED. */
enum pawl__stream_result pawl__link_flush(struct pawl__link *link);

/* Receive once, up to the deadline or only what is there, into `in`. */
enum pawl__stream_result pawl__link_receive_wait(struct pawl__link *link, int64_t deadline_us);
enum pawl__stream_result pawl__link_receive_now(struct pawl__link *link);

/* The next reply that has been received. COMPLETE: good until the next call. */
enum pawl__resp_result pawl__link_next(
    struct pawl__link *link, const struct pawl__resp_node **reply_out);

/* Close a READY connection and plan the next attempt. */
void pawl__link_drop(struct pawl__link *link, int64_t now_us);

/* Why receive or flush failed, in words: a constant or errno's text, valid until the thread asks
 * again. */
const char *pawl__link_failure(const struct pawl__link *link, enum pawl__stream_result result);
pawl_status pawl__link_failure_status(
    const struct pawl__link *link, enum pawl__stream_result result);

/* The position of the next byte to be queued. */
static inline uint64_t pawl__link_position(const struct pawl__link *link)
{
    return link->sent_size + pawl__buffer_size(&link->out);
}

/* Our end of a READY connection as the server writes it, "127.0.0.1:40000"; "" if it is a unix
 * socket. */
void pawl__link_address(const struct pawl__link *link, char address[PAWL__SOCKET_NAME_SIZE]);

#endif
