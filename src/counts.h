/* SPDX-License-Identifier: Apache-2.0 */
/* What semaphore.c and latch.c share. A handle of theirs begins with a pawl_lock, by which the
 * client knows it: it is attached, used, canceled and closed as a lock is, and never acquired. Each
 * of these functions sets the last error. */
#ifndef PAWL_COUNTS_H
#define PAWL_COUNTS_H

#include "core/client.h"

#define PAWL__COUNT_MAX INT64_C(2147483647)

/* A handle of `size` bytes for this name, opened. */
pawl_status pawl__count_open(struct pawl_client *client, const char *name, enum pawl__family family,
    size_t size, const char *call, struct pawl_lock **lock_out);
pawl_status pawl__count_close(struct pawl_lock *lock, const char *call);

/* Run a request of kind PAWL__WANT_TALLY and wait for its end. PAWL_NOT_HELD is an answer: no. */
pawl_status pawl__count_run(
    struct pawl_lock *lock, struct pawl__request *request, const char *call);

/* Start a request and return. PAWL_OK: `done` will be called, once. */
pawl_status pawl__count_start(
    struct pawl_lock *lock, struct pawl__request *request, pawl_callback done, void *arg);

/* Is it there, and was not inherited by a fork? `what`: "semaphore" */
pawl_status pawl__count_check(const struct pawl_lock *lock, const char *what);

pawl_status pawl__count_check_range(const char *what, int64_t value, int64_t least, int64_t most);

#endif
