/* SPDX-License-Identifier: Apache-2.0 */
/* All locks of a server that match a pattern, or one of them.
 *
 * The server's keys are walked through by SCAN in small pages, first the hashes, then such strings
 * as may be locks (sift.lua); each is asked whether it is a lock (holders.h), and what was found is
 * told before the next page is asked for. Between two pages nothing is kept on the server, and
 * other clients have their turn. SCAN may show a key twice (while the server's table grows or
 * shrinks), so the names that were told are remembered. */
#ifndef PAWL_ENGINE_REDIS_LISTING_H
#define PAWL_ENGINE_REDIS_LISTING_H

#include "engine/redis/holders.h"

/* As in engine.h. */
pawl_status pawl__redis_list(struct pawl__console *console, struct pawl__host *host,
    const char *pattern, pawl_entry_callback each, void *arg);

/* One name. PAWL_OK says that the server has answered; then pawl__redis_look_result() says whether
 * there is a lock to be shown, and sets the last error if not. */
pawl_status pawl__redis_look(struct pawl__console *console, const char *name, size_t name_size,
    pawl_entry *entry_out, enum pawl__key_kind *kind_out);
pawl_status pawl__redis_look_result(
    enum pawl__key_kind kind, const char *name, size_t name_size, const char *grant);

#endif
