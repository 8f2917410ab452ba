/* SPDX-License-Identifier: Apache-2.0 */
/* The push connection: one subscription for each name that is watched, and for fair locks one for
 * each waiter, opened at the first.
 *
 * It is a connection of its own because a subscription may be refused or its connection killed
 * without harm to commands in flight, and because who sleeps for a message may sleep long. Those
 * who wait for a wake-up read it themselves: one sits and polls, the others sleep on their waiters.
 * When nobody sits the keeper reads.
 *
 * A message is a hint. When the connection is lost the names stay wanted: they are subscribed to
 * again, and when the last is confirmed the host is told that any name may have become free
 * meanwhile. A connection that has been silent for a while is asked for a sign of life, because one
 * that died without a word looks just like one without news; and at once when the other connection
 * was lost, for what ended that one may have ended this one, too.
 *
 * Replies come in the order of the commands, confirmations as pushes, refusals as plain errors,
 * messages in between; so `asks`, a queue of what was asked, tells what a refusal is about.
 *
 * Threads: as in conn.h; `mutex` guards everything, link.in, link.reader and `woken` belong to who
 * sits, and only who sits closes the connection. */
#ifndef PAWL_ENGINE_REDIS_PUSH_H
#define PAWL_ENGINE_REDIS_PUSH_H

#include "base/map.h"
#include "engine/redis/conn.h"
#include "engine/redis/effects.h"
#include "engine/redis/link.h"
#include "engine/redis/place.h"

#include <pthread.h>

enum pawl__ask_kind { PAWL__ASK_SUBSCRIBE, PAWL__ASK_UNSUBSCRIBE, PAWL__ASK_PING };

struct pawl__ask {
    enum pawl__ask_kind kind;
    bool renewed;                            /* it had been confirmed on an earlier connection */
    struct pawl__subscription *subscription; /* NULL: nobody cares any more */
};

/* Who is to be woken; the name follows. */
struct pawl__woken {
    uint64_t id;
    size_t name_size;
};

struct pawl__push {
    struct pawl__host *host;
    const struct pawl__redis_config *config;
    int wake_fd;                    /* for the leader's poll */
    _Atomic unsigned *watches_open; /* WATCH without an answer; changed under the mutex */
    _Atomic unsigned *reopened;     /* how often the command connection had to be opened again, */
    unsigned reopened_seen;         /* and up to which time we have looked whether ours lives */

    pthread_mutex_t mutex;
    struct pawl__link link;
    struct pawl__seat seat;
    struct pawl__waiter *poller; /* who sits, while it polls */
    bool stopped;                /* nothing is accepted any more */
    bool keeper_polls;           /* the keeper polls the connection as it is, */
    int64_t keeper_us;           /* and will look then at the latest */
    struct pawl__map channels;   /* subscriptions: all whose stage is not NONE */
    struct pawl__ask *asks;      /* a ring: what the server has not answered yet */
    size_t ask_capacity;         /* a power of two, or 0 */
    size_t ask_head;
    size_t ask_count;
    size_t renewed_count;      /* subscriptions of before, asked for again and not confirmed yet */
    bool rest;                 /* for some there was no room yet; see subscribe.c */
    bool missed;               /* messages may have been missed; tell when they are all confirmed */
    int64_t heard_us;          /* when anything last came */
    int64_t pong_us;           /* a sign of life is due by then; PAWL__NEVER: not asked for */
    struct pawl__buffer woken; /* names to wake, each with its id and size before it */
    bool wake_all;
};

/* False: no memory or descriptor. */
bool pawl__push_init(struct pawl__push *push, struct pawl__host *host,
    const struct pawl__redis_config *config, struct pawl__conn *conn);

/* As in engine.h. Nobody else is inside. */
void pawl__push_stop(struct pawl__push *push);
void pawl__push_close(struct pawl__push *push);

/* WATCH and UNWATCH operations only. */
void pawl__push_submit(struct pawl__push *push, struct pawl__op *ops);
void pawl__push_drive(struct pawl__push *push, struct pawl__waiter *waiter, int64_t deadline_us);
size_t pawl__push_poll(struct pawl__push *push, struct pollfd *fds, int64_t *due_us);
void pawl__push_pump(struct pawl__push *push);

/* The place goes away. */
void pawl__push_forget(struct pawl__push *push, struct pawl__redis_place *place);

/* ===== Between push.c (the threads) and subscribe.c (what is said). Mutex held. ===== */

/* Watch or unwatch; may queue a command. */
void pawl__push_start(struct pawl__push *push, struct pawl__op *op, struct pawl__effects *effects);

/* End all subscriptions of a place. Nobody is told: the core does not wait for them. */
void pawl__push_end_place(struct pawl__push *push, struct pawl__redis_place *place);

/* The connection is READY: subscribe to all that is wanted. And to the rest of it, if there was not
 * room for all. */
void pawl__push_opened(struct pawl__push *push, int64_t now_us, struct pawl__effects *effects);
void pawl__push_subscribe_rest(
    struct pawl__push *push, int64_t now_us, struct pawl__effects *effects);

/* An attempt has failed, or a READY connection is given up: who waits to be confirmed is told. */
void pawl__push_not_opened(struct pawl__push *push, struct pawl__effects *effects);
void pawl__push_lose(struct pawl__push *push, int64_t now_us, pawl_status status, const char *why,
    struct pawl__effects *effects);

/* Forget every subscription, and tell who waits for one. */
void pawl__push_refuse_all(
    struct pawl__push *push, const char *sentence, struct pawl__effects *effects);

/* Take all that has arrived. The caller sits. */
void pawl__push_take(struct pawl__push *push, int64_t now_us, struct pawl__effects *effects);

/* Serve the timers: ask for a sign of life, give up for want of one, end what was not confirmed in
 * time. And when to do that next. */
void pawl__push_check_time(struct pawl__push *push, int64_t now_us, struct pawl__effects *effects);
int64_t pawl__push_due(const struct pawl__push *push);

#endif
