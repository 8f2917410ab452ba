/* SPDX-License-Identifier: Apache-2.0 */
/* The table's operations on read/write locks; table.h describes the whole.
 *
 * Every hold is a share of the entry, with a lease of its own. While there are any, the entry is
 * held and lasts as long as the longest of them, and no tenure of another family can take it; while
 * a tenure of another family holds it, there are none. A share that is over is taken away by the
 * next operation on the name, whatever it is. */
#include "engine/memory/table_parts.h"

#include "base/alloc.h"
#include "base/clock.h"

#include <stdio.h>
#include <string.h>

/* ===== Shares ===== */

static struct pawl__memory_share *share_find(
    const struct pawl__memory_entry *entry, const struct pawl__memory_client *client, uint64_t id)
{
    if (entry == NULL) {
        return NULL;
    }
    for (struct pawl__list *node = entry->shares.next; node != &entry->shares; node = node->next) {
        struct pawl__memory_share *share = pawl__memory_share_of(node);
        if (share->id == id && strcmp(share->uuid, client->uuid) == 0) {
            return share;
        }
    }
    return NULL;
}

static void share_end(struct pawl__memory_share *share)
{
    pawl__list_remove(&share->node);
    pawl__free(share);
}

/* The entry is held as long as a share lasts. */
static void sum_up(struct pawl__memory_entry *entry)
{
    entry->held = !pawl__list_empty(&entry->shares);
    entry->expires_us = 0;
    for (struct pawl__list *node = entry->shares.next; node != &entry->shares; node = node->next) {
        entry->expires_us = pawl__max64(entry->expires_us, pawl__memory_share_of(node)->expires_us);
    }
}

void pawl__memory_shares_expire(struct pawl__memory_entry *entry, int64_t now_us)
{
    if (pawl__list_empty(&entry->shares)) {
        return;
    }
    struct pawl__list *node = entry->shares.next;
    while (node != &entry->shares) {
        struct pawl__memory_share *share = pawl__memory_share_of(node);
        node = node->next;
        if (now_us >= share->expires_us) {
            share_end(share);
        }
    }
    sum_up(entry);
}

void pawl__memory_shares_end(struct pawl__memory_entry *entry)
{
    while (!pawl__list_empty(&entry->shares)) {
        share_end(pawl__memory_share_of(entry->shares.next));
    }
}

void pawl__memory_share_inspect(const struct pawl__memory_entry *entry,
    const struct pawl__memory_client *client, uint64_t id, pawl_lock_info *info)
{
    const struct pawl__memory_share *share = share_find(entry, client, id);
    if (share == NULL) {
        share = pawl__memory_share_of(entry->shares.next);
    }
    info->hold_count = share->count;
    snprintf(info->holder, sizeof info->holder, "%s:%llu%s", share->uuid,
        (unsigned long long)share->id, share->writes ? ":write" : "");
}

/* ===== Operations ===== */

/* Who writes excludes everybody, who reads whoever writes; a mutex has no shares. */
static bool is_excluded(const struct pawl__memory_entry *entry, bool writes)
{
    if (entry == NULL || !entry->held) {
        return false;
    }
    return writes || pawl__list_empty(&entry->shares) ||
           pawl__memory_share_of(entry->shares.next)->writes;
}

static void lengthen(struct pawl__memory_entry *entry, struct pawl__memory_share *share,
    int64_t lease_us, int64_t now_us)
{
    share->expires_us = pawl__max64(share->expires_us, pawl__later(now_us, lease_us));
    entry->expires_us = pawl__max64(entry->expires_us, share->expires_us);
}

static void give(struct pawl__memory_table *table, struct pawl__memory_entry *entry,
    struct pawl__memory_share *share, struct pawl__op *op, int64_t now_us)
{
    pawl__memory_next_token(table, entry, op, now_us);
    share->token = op->token;
    share->expires_us = pawl__later(now_us, op->lease_us);
    pawl__list_push(&entry->shares, &share->node);
    sum_up(entry);
    entry->kind = share->writes ? PAWL_WRITE : PAWL_READ;
    entry->id = 0;
    entry->uuid[0] = '\0';
    op->answer = PAWL__DONE;
}

static void acquire(struct pawl__memory_table *table, const struct pawl__memory_client *client,
    struct pawl__memory_entry *entry, struct pawl__op *op, int64_t now_us)
{
    const bool writes = op->as == PAWL_WRITE;
    struct pawl__memory_share *share = share_find(entry, client, op->id);
    if (share != NULL && share->writes == writes) { /* asked again, it is the same acquire */
        lengthen(entry, share, op->lease_us, now_us);
        op->answer = PAWL__DONE;
        op->token = share->token;
        return;
    }
    if (share != NULL || is_excluded(entry, writes)) {
        op->answer = PAWL__HELD;
        op->hint_us = entry->expires_us - now_us;
        return;
    }
    share = pawl__alloc(sizeof *share);
    if (share != NULL && entry == NULL) {
        entry = pawl__memory_entry_new(table, op->place);
    }
    if (share == NULL || entry == NULL) {
        pawl__free(share);
        pawl__memory_fail(op);
        return;
    }
    memcpy(share->uuid, client->uuid, sizeof share->uuid);
    share->id = op->id;
    share->count = 1;
    share->writes = writes;
    give(table, entry, share, op, now_us);
}

/* A writer may go on as a reader, which lets others in. */
static void renew(struct pawl__memory_table *table, struct pawl__memory_entry *entry,
    struct pawl__memory_share *share, const struct pawl__op *op, int64_t now_us)
{
    lengthen(entry, share, op->lease_us, now_us);
    if (share->writes && op->as != PAWL_WRITE) {
        share->writes = false;
        share->count = 1;
        entry->kind = PAWL_READ;
        pawl__memory_wake_all(table, entry);
    }
}

static void release(struct pawl__memory_table *table, const struct pawl__memory_client *client,
    struct pawl__memory_entry *entry, struct pawl__memory_share *share, struct pawl__op *op)
{
    share_end(share);
    sum_up(entry);
    if (!entry->held) {
        pawl__memory_wake_all(table, entry);
        op->others = pawl__memory_watched_by_others(entry, client);
    }
}

/* ===== Entrances ===== */

bool pawl__memory_is_shared(enum pawl__op_kind kind)
{
    return kind == PAWL__OP_ACQUIRE || kind == PAWL__OP_RENEW || kind == PAWL__OP_VERIFY ||
           kind == PAWL__OP_COUNT || kind == PAWL__OP_RELEASE || kind == PAWL__OP_PASS;
}

void pawl__memory_apply_shared(struct pawl__memory_table *table,
    const struct pawl__memory_client *client, struct pawl__memory_entry *entry, struct pawl__op *op,
    int64_t now_us)
{
    if (op->kind == PAWL__OP_ACQUIRE) {
        acquire(table, client, entry, op, now_us);
        return;
    }
    struct pawl__memory_share *share = share_find(entry, client, op->id);
    op->answer = share != NULL && op->kind != PAWL__OP_PASS ? PAWL__DONE : PAWL__GONE;
    if (op->answer == PAWL__GONE) {
        return;
    }
    if (op->kind == PAWL__OP_RENEW) {
        renew(table, entry, share, op, now_us);
    } else if (op->kind == PAWL__OP_COUNT && op->as == PAWL_WRITE && share->writes) {
        share->count = op->count;
    } else if (op->kind == PAWL__OP_RELEASE) {
        release(table, client, entry, share, op);
    }
}
