/* SPDX-License-Identifier: Apache-2.0 */
/* Semaphores and latches in the table: what scripts of a server do, as native functions. The table
 * keeps counts apart from locks; table.h says who guards it. */
#ifndef PAWL_ENGINE_MEMORY_TABLE_TALLY_H
#define PAWL_ENGINE_MEMORY_TABLE_TALLY_H

#include "engine/memory/table.h"

/* Carry out one PAWL__OP_TALLY. True: who watches the name has to be woken. */
bool pawl__memory_tally(struct pawl__memory_table *table, const struct pawl__memory_client *client,
    struct pawl__op *op, int64_t now_us);

/* Forget all counts. */
void pawl__memory_tally_free(struct pawl__memory_table *table);

#endif
