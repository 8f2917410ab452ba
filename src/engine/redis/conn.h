/* SPDX-License-Identifier: Apache-2.0 */
/* The command connection: all callers share it, and one of those who wait reads for all.
 *
 * An operation is written into the output buffer and gets a slot in the queue of replies that the
 * server owes (slots.h). Whoever waits for an answer drives: the first to come sits down (the
 * leader), sends what has been queued and sleeps in recv; the others sleep on their waiters
 * (followers). What arrives, the leader completes, for whomever it is. When its own answer is in it
 * gets up and calls the oldest follower who still waits. While the leader sleeps, who queues
 * something sends it too; otherwise the leader does, so that what many threads queue at once leaves
 * in one write. In a rush, when waking all whose answers came takes as long as the server takes for
 * their next questions, half of these are sent meanwhile, by who queues the last of them; and
 * whoever is awake sits down, without regard to who was called.
 *
 * While there is no connection operations are kept, and whoever sits connects (link.h). An
 * operation that is still kept when an attempt fails, or at its deadline, has FAILED: not a byte of
 * it has left. So has a renewal that has waited for most of its time when there is a connection
 * again: it would soon be overdue. When a connection is given up, what has left in part or whole
 * ends UNKNOWN, what has not is kept. A connection is given up when it breaks, when the server
 * breaks the protocol, and when a reply is overdue. If unanswered writes are lost that way, the
 * next connection begins by having the old one killed at the server (greet.h).
 *
 * Invariants
 *  - `mutex` guards all fields that are not said to be otherwise. It is never held while the host
 *    is called.
 *  - link.in and link.reader belong to whoever sits. Only who sits closes the connection.
 *  - Operations that have left are completed by who sits, before it gets up. So somebody who sits
 *    down is either done already or its answer is still to come, and recv cannot miss the end of
 *    its own wait. A lone caller gets up first, and while it completes (`handing`) who sits polls.
 *  - Nobody sits and followers exist: at least one of them is awake and will look.
 *
 * A timer for each sleep in recv would be a good part of what an exchange costs. So once the
 * connection is busy the keeper promises to look every half timeout (keeper_us), and while it has
 * promised, the leader sleeps without one: the keeper sees it asleep before its oldest reply is
 * overdue, comes back when it is, and ends the connection. Without a promise (no keeper yet, or no
 * thread to be had) and for waits that end earlier there is a timer.
 *
 * A connection that nobody reads may end, and with it what is held if the server was restarted. So
 * the keeper, once it runs, always polls a READY connection for its end, and only for that: what
 * arrives does not wake it. If something is held or waited for it connects again at once, and the
 * core verifies; else the connection stays down until somebody asks. Who gives a connection up
 * shuts it down first, for as long as a descriptor is polled, close() alone does not end the
 * connection, and calls the keeper, whose number may be somebody else's descriptor next. When there
 * is a new connection the core calls it again. */
#ifndef PAWL_ENGINE_REDIS_CONN_H
#define PAWL_ENGINE_REDIS_CONN_H

#include "engine/redis/commands.h"
#include "engine/redis/effects.h"
#include "engine/redis/introduce.h"
#include "engine/redis/link.h"
#include "engine/redis/slots.h"

#include <pthread.h>

enum { PAWL__CONN_RUSH = 8 }; /* so many commands under way are a rush */

/* What a single caller touches on each exchange stands together at the top. */
struct pawl__conn {
    pthread_mutex_t mutex;
    _Atomic unsigned watches_open; /* answers that come on the push connection; any thread */
    _Atomic unsigned reopened;     /* how often it had to be opened again */
    bool asleep;                   /* who sits, sleeps: who queues has to send */
    bool stuck;                    /* the kernel did not take all that was queued */
    bool strays;                   /* somebody stopped driving without its answer */
    bool out_of_step;              /* what the last reply to a write belongs to is unknown */
    bool retiring;  /* no new operations on this connection: it is given up when all are answered */
    bool persist;   /* connect again without being asked */
    bool was_ready; /* at least once */
    bool fenced;
    bool restricted;      /* the user's rights have to be checked name by name */
    bool stopped;         /* nothing is accepted any more */
    bool unbounded;       /* who sits, sleeps without a timer: the keeper has to end that */
    bool overdue;         /* the connection was shut down because a reply is */
    bool watched;         /* the keeper polls it for its end, */
    bool ended;           /* and has seen that while somebody sat: it looks again */
    _Atomic bool handing; /* who sat has got up, and is still telling the host */
    struct pawl__seat seat;
    struct pawl__waiter *poller; /* who sits, while it polls and may be nudged */
    int64_t asleep_us;           /* until then, unless something arrives */
    int64_t keeper_us;       /* the keeper will have looked by then; 0: it may not look at all */
    unsigned exchange_count; /* sleeps in recv since it last judged how busy we are */
    struct pawl__waiter *called; /* a follower asked to sit down that has not looked yet */
    uint64_t called_at;          /* completion_count then */
    int64_t called_us;           /* active_us then */
    uint64_t completion_count;   /* how often operations were completed */
    int64_t active_us;           /* when something was last submitted */
    struct pawl__slots slots;
    struct pawl__op *pending; /* kept for the next connection, linked by next; engine is set of
                                 those who nobody drives for */
    struct pawl__op **pending_end;
    struct pawl__introduction introduction;

    /* Set once. */
    struct pawl__host *host;
    const struct pawl__redis_config *config;
    int wake_fd; /* for a leader that polls */
    struct pawl__commands commands;

    struct pawl__link link;
    int64_t trim_us; /* when memory is given back that a rush has needed; 0: there is none */
    unsigned warned; /* of these causes, one bit each; of the server that is connected */
    struct pawl__server_identity identity; /* of the server that was connected last */
    struct pawl__doubt self;  /* the current connection, as a later one may have to name it */
    struct pawl__doubt doubt; /* an older one that may still be heard */
};

/* False: no memory or descriptor. */
bool pawl__conn_init(
    struct pawl__conn *conn, struct pawl__host *host, const struct pawl__redis_config *config);

/* As in engine.h. Nobody else is inside. */
void pawl__conn_stop(struct pawl__conn *conn);
void pawl__conn_close(struct pawl__conn *conn);

/* First contact. Sets the last error. */
pawl_status pawl__conn_connect(struct pawl__conn *conn, int64_t deadline_us);

/* As in engine.h. */
void pawl__conn_submit(struct pawl__conn *conn, struct pawl__op *ops, bool driven);
void pawl__conn_drive(struct pawl__conn *conn, struct pawl__waiter *waiter, int64_t deadline_us);
void pawl__conn_ask(struct pawl__conn *conn, struct pawl__op *ops, struct pawl__waiter *waiter,
    int64_t deadline_us);
void pawl__conn_hear(struct pawl__conn *conn);
size_t pawl__conn_poll(struct pawl__conn *conn, struct pollfd *fds, int64_t *due_us);
void pawl__conn_pump(struct pawl__conn *conn, bool ended); /* it may have: look, even if idle */
size_t pawl__conn_glance(struct pawl__conn *conn, struct pollfd *fds, int64_t *due_us);

/* As in engine.h: what the last greeting said. False: there was none that told. */
bool pawl__conn_identity(struct pawl__conn *conn, struct pawl__server_identity *identity_out);

/* May the user work on this place? PAWL_OK also if that is not known. Sets the last error. */
pawl_status pawl__conn_check_rights(struct pawl__conn *conn, struct pawl__redis_place *place);

/* ===== Between conn.c (what goes in), replies.c (what comes out), drive.c (who does it) ===== */
/* All with the mutex held. */

static inline bool pawl__conn_in_rush(const struct pawl__conn *conn)
{
    return conn->slots.count >= PAWL__CONN_RUSH;
}

/* Queue one command for an operation, or for those of one script, linked by next, on a READY
 * connection. */
void pawl__conn_put(
    struct pawl__conn *conn, struct pawl__op *ops, bool whole, struct pawl__effects *effects);
bool pawl__conn_takes_commands(const struct pawl__conn *conn);

/* Queue these operations, and send them if nobody else is about to. True: the caller sits now,
 * because sending has failed; it has to tell the host and to get up. */
bool pawl__conn_accept(
    struct pawl__conn *conn, struct pawl__op *ops, bool driven, struct pawl__effects *effects);

/* Send what is queued if nobody else is about to: who sits, sleeps; or nobody sits or will. */
void pawl__conn_send(struct pawl__conn *conn, bool driven, struct pawl__effects *effects);

/* Nobody answers this question about rights any more: nothing was denied. */
void pawl__conn_end_check(struct pawl__rights_check *check);

/* Take all replies that have arrived. The caller sits. */
void pawl__conn_take_replies(struct pawl__conn *conn, struct pawl__effects *effects);

/* The connection is READY: begin with what was kept. */
void pawl__conn_opened(struct pawl__conn *conn, struct pawl__effects *effects);

/* An attempt has failed: so has what was kept. */
void pawl__conn_not_opened(struct pawl__conn *conn, struct pawl__effects *effects);

/* Give a READY connection up. The caller sits. `why` is a clause, without the server's name. */
void pawl__conn_lose(struct pawl__conn *conn, int64_t now_us, pawl_status status, const char *why,
    struct pawl__effects *effects);

/* End what was kept beyond its deadline; when the next one ends. */
void pawl__conn_expire(struct pawl__conn *conn, int64_t now_us, struct pawl__effects *effects);
int64_t pawl__conn_pending_due(const struct pawl__conn *conn);

/* What a thousand callers have needed who asked at once is not kept for all time, nor given back at
 * once, for they may go on like that. The answer is when to look again. */
int64_t pawl__conn_trim(struct pawl__conn *conn);

/* Is there something to do that needs a driver or the keeper? */
bool pawl__conn_needs_care(const struct pawl__conn *conn);

/* Who sat gets up; a follower is called, or the keeper if it is needed. */
void pawl__conn_get_up(struct pawl__conn *conn, struct pawl__effects *effects);

#endif
