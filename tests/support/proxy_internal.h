/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the fault proxy share.
 *
 * One thread per proxy runs everything in a poll loop (proxy_loop.c). A *link* is one client
 * connection and its connection to the server; it has two *flows*, one per direction. A flow is a
 * queue of *pieces*: data, or marks that act when the queue gets to them (the end of the stream, a
 * cut, the beginning of a hold). proxy_flow.c moves pieces; proxy_request.c finds requests and
 * replies in the bytes and applies the rules that match requests; proxy.c is the outside.
 *
 * A link may lose its client and live on (kept bytes are delivered later); a copy of a request is
 * a link that never had a client.
 *
 * Threads: proxy->mutex guards everything in here. The loop holds it except while it polls; the
 * functions of proxy.c hold it while they change settings, then wake the loop. Functions named
 * proxy__... are called with the mutex held. No other mutex is taken. */
#ifndef PAWL_SUPPORT_PROXY_INTERNAL_H
#define PAWL_SUPPORT_PROXY_INTERNAL_H

#include "support/proxy.h"
#include "support/text.h"

#include <pthread.h>

enum piece_kind { PIECE_DATA, PIECE_END, PIECE_RESET, PIECE_CUT, PIECE_HOLD };

struct piece {
    struct piece *next;
    enum piece_kind kind;
    enum proxy_end how; /* of PIECE_CUT */
    int64_t due_us;     /* not to be written before */
    size_t size;        /* of the data */
    size_t done;        /* bytes written already */
    char data[];
};

struct flow {
    struct piece *first;
    struct piece *last;
    int64_t due_us;     /* of the newest piece: later ones are not earlier */
    int64_t pause_us;   /* byte by byte: nothing is written before */
    uint64_t received;  /* stream position: bytes queued so far */
    uint64_t passed;    /* stream position: bytes written or lost */
    uint64_t cut_base;  /* value of passed when proxy_cut_after() was called */
    size_t queued_size; /* bytes in the queue */
    struct text tail;   /* the beginning of a request or reply that is not complete */
    size_t tail_queued; /* how much of the tail is in the queue already */
    bool garbled;       /* no longer understood: bytes are passed, not followed */
    bool held;          /* kept back on this link */
    bool dark;          /* has lost bytes in a blackhole: nothing passes any more */
    bool deaf;          /* cut: what still arrives is lost at once */
    bool blocked;       /* the receiver's buffer is full */
    bool source_ended;  /* nothing more comes from the sender */
    bool over;          /* the end was passed on, or the receiver has gone */
};

/* One request, kept for counting until the proxy ends. */
struct request {
    char *text; /* its words with spaces between */
    size_t text_size;
    char *raw; /* its bytes, if a copy is to be made */
    size_t raw_size;
    uint64_t end; /* stream position behind its last byte */
    uint64_t link_id;
    unsigned replies_due; /* more than one for SUBSCRIBE of several channels */
    bool subscribes;
    bool forwarded;
    bool answered;
    bool lose_reply;
    enum proxy_end how; /* with lose_reply */
    bool copy_held;     /* with raw */
};

struct link {
    struct link *next;
    uint64_t id;
    int fd[2];       /* [PROXY_TO_SERVER]: the server's, [PROXY_TO_CLIENT]: the client's; or -1 */
    bool connecting; /* to the server */
    bool is_copy;
    struct flow flow[2];
    struct text greeting; /* its HELLO, AUTH and SELECT, for copies */
    size_t greeting_count;
    size_t copy_replies_due; /* of a copy: greeting and request */
    size_t *pending;         /* requests without a reply, as positions in proxy->requests */
    size_t pending_count;
    size_t pending_capacity;
    size_t unforwarded; /* the first request in pending that was not forwarded yet */
};

struct cut_rule {
    bool armed;
    uint64_t size;
    enum proxy_end how;
};

struct reply_rule {
    char *text;    /* NULL: not armed */
    unsigned left; /* matches to come, the last being the one */
    enum proxy_end how;
};

/* An order of proxy_cut_now() or proxy_cut_those(), carried out by the loop, which alone closes. */
struct cut_order {
    bool given;
    const char *text; /* NULL: all */
    enum proxy_end how;
};

struct copy_rule {
    char *text; /* NULL: not armed */
    bool held;
};

struct proxy {
    pthread_mutex_t mutex;
    pthread_cond_t changed; /* something was counted */
    pthread_t thread;
    bool stopping;
    int wake_fd;
    int listen_fd;
    bool refusing; /* listen_fd is bound but does not listen */
    uint16_t port;
    char *url;
    uint16_t upstream_port; /* 0: upstream_path */
    char *upstream_path;

    int64_t delay_us[2];
    int64_t jitter_us[2];
    uint64_t random;
    bool hold[2];
    bool blackhole[2];
    bool single_bytes;
    int64_t gap_us;
    struct cut_rule cut_after[2];
    struct cut_order cut_order;
    struct reply_rule cut_reply;
    struct copy_rule copy_next;
    char *hold_from; /* NULL: not armed */

    struct link *links;
    uint64_t link_count; /* ever made; ids come from it */
    struct request **requests;
    size_t request_count;
    size_t request_capacity;
    struct proxy_stats stats;
};

/* The direction in which the other end of a link talks. */
static inline enum proxy_direction proxy__reverse(enum proxy_direction direction)
{
    return direction == PROXY_TO_SERVER ? PROXY_TO_CLIENT : PROXY_TO_SERVER;
}

/* Count lost bytes; those of copies are nobody's. */
static inline void proxy__count_lost(
    struct proxy *proxy, const struct link *link, enum proxy_direction direction, size_t size)
{
    proxy->stats.bytes_lost[direction] += link->is_copy ? 0 : size;
}

/* proxy_loop.c */
void *proxy__run(void *arg);
struct link *proxy__link_make(struct proxy *proxy, int client_fd);
void proxy__link_free(struct link *link);

/* proxy_flow.c */
void proxy__queue_data(struct proxy *proxy, struct flow *flow, enum proxy_direction direction,
    const char *data, size_t size);
void proxy__queue_mark(struct flow *flow, enum piece_kind kind, enum proxy_end how);
void proxy__pump(struct proxy *proxy, struct link *link, enum proxy_direction direction);
int64_t proxy__next_due_us(
    const struct proxy *proxy, const struct link *link, enum proxy_direction direction);
void proxy__drop_queue(struct proxy *proxy, struct link *link, enum proxy_direction direction);
void proxy__drop_hold_marks(struct flow *flow);
void proxy__source_ended(struct link *link, enum proxy_direction direction, bool reset);
void proxy__side_gone(
    struct proxy *proxy, struct link *link, enum proxy_direction side, bool reset);
void proxy__cut(struct proxy *proxy, struct link *link, enum proxy_end how);
bool proxy__settle(struct proxy *proxy, struct link *link);

/* proxy_request.c */
void proxy__take_bytes(struct proxy *proxy, struct link *link, enum proxy_direction direction,
    const char *data, size_t size);
void proxy__note_passed(struct proxy *proxy, struct link *link);
bool proxy__link_matches(const struct proxy *proxy, const struct link *link, const char *text);

#endif
