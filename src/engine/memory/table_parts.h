/* SPDX-License-Identifier: Apache-2.0 */
/* What table.c and table_shared.c have of each other; table.h is for everybody else. */
#ifndef PAWL_MEMORY_TABLE_PARTS_H
#define PAWL_MEMORY_TABLE_PARTS_H

#include "engine/memory/table.h"

/* ===== table.c ===== */

/* NULL: no memory. */
struct pawl__memory_entry *pawl__memory_entry_new(
    struct pawl__memory_table *table, const struct pawl__place *place);

/* The first token of a new grant, into the operation. */
void pawl__memory_next_token(struct pawl__memory_table *table, struct pawl__memory_entry *entry,
    struct pawl__op *op, int64_t now_us);

void pawl__memory_fail(struct pawl__op *op); /* for want of memory */
void pawl__memory_wake_all(struct pawl__memory_table *table, struct pawl__memory_entry *entry);
bool pawl__memory_watched_by_others(
    const struct pawl__memory_entry *entry, const struct pawl__memory_client *client);

/* ===== table_shared.c ===== */

/* Is it done otherwise for a read/write lock? */
bool pawl__memory_is_shared(enum pawl__op_kind kind);

/* Such an operation; the entry is what the table has of the name, or NULL. */
void pawl__memory_apply_shared(struct pawl__memory_table *table,
    const struct pawl__memory_client *client, struct pawl__memory_entry *entry, struct pawl__op *op,
    int64_t now_us);

void pawl__memory_shares_expire(struct pawl__memory_entry *entry, int64_t now_us);
void pawl__memory_shares_end(struct pawl__memory_entry *entry); /* all of them */

/* The first of the shares, of which there is one, as the holder. */
void pawl__memory_share_inspect(const struct pawl__memory_entry *entry,
    const struct pawl__memory_client *client, uint64_t id, pawl_lock_info *info);

#endif
