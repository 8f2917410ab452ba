/* SPDX-License-Identifier: Apache-2.0 */
/* Is this server fit to keep locks? Pure: it judges the text of INFO.
 *
 * A replica, a server that is still loading and one that is failing over are no place for a lock. A
 * server that may evict keys when memory is short could drop a lock that is held. */
#ifndef PAWL_ENGINE_REDIS_GUARD_H
#define PAWL_ENGINE_REDIS_GUARD_H

#include "pawl.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PAWL__RUN_ID_SIZE = 40 };

struct pawl__redis_facts {
    char run_id[PAWL__RUN_ID_SIZE + 1]; /* "" if the server did not say */
    int64_t time_us;                    /* its wall clock; 0 if it did not say */
    int64_t uptime_us;                  /* by that clock */
    bool replica;
    bool loading;
    bool failing_over;
    bool evicts; /* a memory limit is set, and keys may be dropped to keep it */
    char policy[32];
};

/* Read what matters; fields that are missing are taken as harmless. */
void pawl__redis_facts_read(struct pawl__redis_facts *facts, const char *info, size_t info_size);

struct pawl__fitness {
    pawl_status status;   /* PAWL_OK or PAWL_REFUSED */
    const char *sentence; /* why it is refused, or a warning, or NULL. In `text` or constant */
    char text[320];
};

void pawl__redis_guard(
    const struct pawl__redis_facts *facts, pawl_guard guard, struct pawl__fitness *fitness);

#endif
