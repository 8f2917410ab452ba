/* SPDX-License-Identifier: Apache-2.0 */
/* Who stands in the queue of a fair lock, asked on a console by waiters.lua. Waiters of Redisson
 * are told like ours. */
#ifndef PAWL_ENGINE_REDIS_WAITERS_H
#define PAWL_ENGINE_REDIS_WAITERS_H

#include "engine/redis/console.h"
#include "engine/redis/place.h"

/* Tell of everybody who waits, the next one first, until the callback has enough. Sets the last
 * error. */
pawl_status pawl__redis_waiters(struct pawl__console *console, const char *name, size_t name_size,
    pawl_waiter_callback each, void *arg);

#endif
