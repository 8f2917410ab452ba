/* SPDX-License-Identifier: Apache-2.0 */
/* Asking the servers of --redlock who holds the lock: each by a thread of its own, because a look
 * waits for its server, and one that hangs shall not keep us from hearing the others. Such a thread
 * stays with its question; that server is not asked again before it has answered or failed.
 *
 * All calls are the keeper's, on its one thread. */
#ifndef PAWL_RUN_ASK_H
#define PAWL_RUN_ASK_H

#include "run/run.h"

struct run_asking;

/* NULL: no memory. The clients and the name have to stay until run_asking_end(). */
struct run_asking *run_asking_new(pawl_client *const clients[], size_t count, const char *name);

/* What a majority says, if as many answer in a moment. NULL: they do not, or do not agree. Valid
 * until the next call. `data_out`: it says that the name is none of a lock. */
const pawl_entry *run_asking_look(struct run_asking *asking, bool *data_out);

/* Wait until nobody is with a client any more. NULL is fine. */
void run_asking_end(struct run_asking *asking);

#endif
