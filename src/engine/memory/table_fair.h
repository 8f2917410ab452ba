/* SPDX-License-Identifier: Apache-2.0 */
/* The queue of a fair lock, for table.c. As there, time is an argument. */
#ifndef PAWL_MEMORY_TABLE_FAIR_H
#define PAWL_MEMORY_TABLE_FAIR_H

#include "engine/memory/table.h"

/* While the lock is free and it is somebody else's turn: when to look again, at the latest. */
#define PAWL__MEMORY_FAIR_LOOK_US INT64_C(1000000)

/* Is it the waiter of this tenure? NULL is nobody. */
bool pawl__memory_waiter_is(const struct pawl__memory_waiter *waiter,
    const struct pawl__memory_client *client, uint64_t id);

/* Who is first; NULL: nobody waits. */
struct pawl__memory_waiter *pawl__memory_queue_head(const struct pawl__memory_entry *entry);

/* The same after those who count as dead were removed from the front. Who asks (keep; NULL: nobody)
 * is alive, whatever its time says. */
struct pawl__memory_waiter *pawl__memory_queue_purge(struct pawl__memory_entry *entry,
    const struct pawl__memory_client *keep, uint64_t keep_id, int64_t now_us);

/* Stand at the end, or stay where one stands, and live on. False: no memory. */
bool pawl__memory_queue_stand(struct pawl__memory_entry *entry,
    const struct pawl__memory_client *client, uint64_t id, int64_t now_us);

void pawl__memory_queue_leave(
    struct pawl__memory_entry *entry, const struct pawl__memory_client *client, uint64_t id);

/* Wake who is first. False: nobody listens there. */
bool pawl__memory_queue_call(struct pawl__memory_table *table, struct pawl__memory_entry *entry);

/* Remove everybody. */
void pawl__memory_queue_end(struct pawl__memory_entry *entry);

#endif
