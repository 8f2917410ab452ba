/* SPDX-License-Identifier: Apache-2.0 */
/* The queue of a fair lock; table.h describes the table, and scripts/acquire_fair.lua of the Redis
 * engine says why the queue is as it is. Here all waiters are ours, so each counts as dead when it
 * has not asked for a while, wherever it stands. */
#include "engine/memory/table_fair.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/limits.h"

#include <string.h>

static struct pawl__memory_waiter *waiter_of(struct pawl__list *node)
{
    return PAWL__CONTAINER(node, struct pawl__memory_waiter, node);
}

bool pawl__memory_waiter_is(
    const struct pawl__memory_waiter *waiter, const struct pawl__memory_client *client, uint64_t id)
{
    return waiter != NULL && waiter->id == id && strcmp(waiter->uuid, client->uuid) == 0;
}

struct pawl__memory_waiter *pawl__memory_queue_head(const struct pawl__memory_entry *entry)
{
    return pawl__list_empty(&entry->queue) ? NULL : waiter_of(entry->queue.next);
}

static void waiter_end(struct pawl__memory_waiter *waiter)
{
    pawl__list_remove(&waiter->node);
    pawl__free(waiter);
}

struct pawl__memory_waiter *pawl__memory_queue_purge(struct pawl__memory_entry *entry,
    const struct pawl__memory_client *keep, uint64_t keep_id, int64_t now_us)
{
    struct pawl__memory_waiter *head;
    while ((head = pawl__memory_queue_head(entry)) != NULL && head->dead_us <= now_us &&
           (keep == NULL || !pawl__memory_waiter_is(head, keep, keep_id))) {
        waiter_end(head);
    }
    return head;
}

static struct pawl__memory_waiter *find(
    const struct pawl__memory_entry *entry, const struct pawl__memory_client *client, uint64_t id)
{
    for (struct pawl__list *node = entry->queue.next; node != &entry->queue; node = node->next) {
        if (pawl__memory_waiter_is(waiter_of(node), client, id)) {
            return waiter_of(node);
        }
    }
    return NULL;
}

bool pawl__memory_queue_stand(struct pawl__memory_entry *entry,
    const struct pawl__memory_client *client, uint64_t id, int64_t now_us)
{
    struct pawl__memory_waiter *waiter = find(entry, client, id);
    if (waiter == NULL) {
        waiter = pawl__alloc(sizeof *waiter);
        if (waiter == NULL) {
            return false;
        }
        memcpy(waiter->uuid, client->uuid, sizeof waiter->uuid);
        waiter->id = id;
        waiter->dead_us = now_us;
        pawl__list_push(&entry->queue, &waiter->node);
    }
    waiter->dead_us = pawl__max64(waiter->dead_us, pawl__later(now_us, PAWL__FAIR_WAIT_US));
    return true;
}

void pawl__memory_queue_leave(
    struct pawl__memory_entry *entry, const struct pawl__memory_client *client, uint64_t id)
{
    struct pawl__memory_waiter *waiter = find(entry, client, id);
    if (waiter != NULL) {
        waiter_end(waiter);
    }
}

bool pawl__memory_queue_call(struct pawl__memory_table *table, struct pawl__memory_entry *entry)
{
    const struct pawl__memory_waiter *head = pawl__memory_queue_head(entry);
    for (struct pawl__list *node = entry->watches.next; node != &entry->watches;
         node = node->next) {
        struct pawl__memory_watch *watch =
            PAWL__CONTAINER(node, struct pawl__memory_watch, in_entry);
        if (pawl__memory_waiter_is(head, watch->client, watch->id)) {
            if (pawl__list_empty(&watch->in_due)) {
                pawl__list_push(&table->due, &watch->in_due);
            }
            return true;
        }
    }
    return false;
}

void pawl__memory_queue_end(struct pawl__memory_entry *entry)
{
    struct pawl__memory_waiter *head;
    while ((head = pawl__memory_queue_head(entry)) != NULL) {
        waiter_end(head);
    }
}
