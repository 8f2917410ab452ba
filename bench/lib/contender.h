/* SPDX-License-Identifier: Apache-2.0 */
/* A process whose callers all want one lock: ours, or one that waits as Redisson does.
 *
 * The second is written here from the description of Redisson's protocol: every caller has its own
 * connection (hiredis); one more connection per process hears the lock's channel. Who does not get
 * the lock subscribes (the first waiter of the process does it for all), tries again, and sleeps on
 * a counting semaphore, at most for the TTL it was told; every message adds one permit, so it wakes
 * one caller, which tries again. Redisson's unlock latch is left out, in its favour. */
#ifndef PAWL_LIB_CONTENDER_H
#define PAWL_LIB_CONTENDER_H

#include "lib/server.h"

#include <stddef.h>

struct contender_kind {
    const char *name;
    void *(*open)(const struct server *server, const char *lock_name, size_t caller_count);
    void (*lock)(void *self, size_t caller);
    void (*unlock)(void *self, size_t caller);
    void (*close)(void *self);
};

extern const struct contender_kind contender_ours;
extern const struct contender_kind contender_ours_handoff;
extern const struct contender_kind contender_ours_fair;
extern const struct contender_kind
    contender_ours_file; /* the file engine, in the server's directory */
extern const struct contender_kind contender_redisson;

#endif
