/* SPDX-License-Identifier: Apache-2.0 */
/* One lock's name as Redis knows it: how its keys and its channel are called.
 *
 * The lock is a hash under the name itself. Its token counter and its channel have Redisson's
 * names: a prefix, a colon, and the name in braces, so that all fall into one slot of a cluster; a
 * name that has an opening brace already is taken as it is.
 *
 * A fair lock has a queue (a list of owner strings) and a sorted set of when each of these counts
 * as dead, and each waiter has a channel of its own: the lock's, a colon, and its owner string. A
 * read/write lock has another channel, and a stem with which the keys of its readers begin: the
 * name in its braces alone.
 *
 * A semaphore and a latch are numbers under the name itself. Their channels have Redisson's names,
 * too: that of a latch has braces round the name whatever the name is, and no colon. Instead of a
 * token counter they have what the records of requests begin with (tally.h).
 *
 * None of them is kept, for a client may hold very many locks: commands put them together while
 * they write (commands_write.h), everybody else in room of its own. */
#ifndef PAWL_ENGINE_REDIS_PLACE_H
#define PAWL_ENGINE_REDIS_PLACE_H

#include "base/list.h"
#include "base/map.h"
#include "core/engine.h"

#include <stdatomic.h>

#define PAWL__TOKEN_PREFIX "redisson_lock_token"
#define PAWL__CHANNEL_PREFIX "redisson_lock__channel"
#define PAWL__RW_CHANNEL_PREFIX "redisson_rwlock" /* of read/write locks */
#define PAWL__QUEUE_PREFIX "redisson_lock_queue"  /* of fair locks */
#define PAWL__TIMEOUTS_PREFIX "redisson_lock_timeout"
#define PAWL__PERMITS_CHANNEL_PREFIX "redisson_sc" /* of semaphores */
#define PAWL__LATCH_CHANNEL_PREFIX "redisson_countdownlatch__channel__"
#define PAWL__ASKED_PREFIX "pawl_asked" /* of what a semaphore or a latch was asked */

enum { PAWL__COMPOSED_SIZE_MAX = PAWL__NAME_SIZE_MAX + 40 }; /* of a name with its prefix */

struct pawl__redis_text {
    const char *bytes;
    size_t size;
};

/* How far a subscription has got. */
enum pawl__watch_stage {
    PAWL__WATCH_WANTED, /* to be sent when there is a connection */
    PAWL__WATCH_SENT,   /* the server has not confirmed it yet */
    PAWL__WATCH_CONFIRMED
};

/* What is heard for one name, or for one waiter of a fair lock. All of it is push.c's, guarded by
 * its mutex. */
struct pawl__subscription {
    struct pawl__map_node node; /* by channel */
    struct pawl__redis_place *place;
    uint64_t id; /* the waiter; 0: it is the name's own */
    enum pawl__watch_stage stage;
    struct pawl__op *watch; /* to be completed when it is confirmed, or NULL */
};

struct pawl__redis_place {
    struct pawl__place place;       /* must be first */
    struct pawl__subscription *own; /* that to the channel; push.c's; NULL: none */
    unsigned waiter_count;          /* subscriptions of waiters; push.c's, too */

    /* Whether our own push connection hears the channel at the moment. Set by push.c, read by all.
     */
    _Atomic bool subscribed;

    bool braces; /* keys have the name in braces; it has no opening one of its own */
};

static inline struct pawl__redis_place *pawl__redis_place_of(struct pawl__place *place)
{
    return (struct pawl__redis_place *)(void *)place;
}

/* The prefix and a colon, if there is a prefix, and the name in its braces, into room for
 * PAWL__COMPOSED_SIZE_MAX bytes. */
struct pawl__redis_text pawl__redis_compose(
    char *to, const char *prefix, const char *name, size_t name_size);

/* The sorted set of a semaphore's leases: the name in its braces, and what it is. */
struct pawl__redis_text pawl__redis_compose_leases(char *to, const char *name, size_t name_size);

/* Into room for PAWL__COMPOSED_SIZE_MAX bytes: the token counter, or what stands for it; the
 * channel; and the stem, of size 0 where there is none. */
struct pawl__redis_text pawl__redis_token(char *to, const struct pawl__place *place);
struct pawl__redis_text pawl__redis_channel(char *to, const struct pawl__place *place);
struct pawl__redis_text pawl__redis_stem(char *to, const struct pawl__place *place);

/* place->place is set already. */
void pawl__redis_place_init(struct pawl__redis_place *place);

#endif
