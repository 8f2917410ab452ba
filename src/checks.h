/* SPDX-License-Identifier: Apache-2.0 */
/* What every public call checks of its arguments before it does anything; each sets the last error.
 * For pawl.c and operators.c alone. */
#ifndef PAWL_CHECKS_H
#define PAWL_CHECKS_H

#include "pawl.h"

/* Read an options struct of any size: a smaller one leaves defaults in place, a larger one must be
 * zero where we do not know what it means. */
pawl_status pawl__check_options(void *to, size_t to_size, const void *from, size_t from_size);

/* The client, or the lock, is there and was not inherited by a fork. */
pawl_status pawl__check_client(const pawl_client *client);
pawl_status pawl__check_lock(const pawl_lock *lock);
pawl_status pawl__check_forks(unsigned forks);

/* This is no callback, so the call may wait. */
pawl_status pawl__check_may_wait(const char *call);

pawl_status pawl__check_name(const char *name);

/* PAWL_TRY, PAWL_FOREVER or milliseconds, as a duration. */
pawl_status pawl__check_wait(int64_t wait_ms, int64_t *wait_us_out);

#endif
