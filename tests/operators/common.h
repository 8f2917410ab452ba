/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests for operators have in common beyond the promises': locks that the clean-up closes,
 * before or after their client. */
#ifndef PAWL_OPERATORS_COMMON_H
#define PAWL_OPERATORS_COMMON_H

#include "promise/common.h"

static inline void close_lock_in_cleanup(void *object)
{
    pawl_lock_close(object);
}

static inline pawl_lock *own_lock(
    pawl_client *client, const char *name, int64_t lease_ms, bool renew)
{
    pawl_lock *lock = open_lock(client, name, lease_ms, renew);
    cleanup_add(close_lock_in_cleanup, lock);
    return lock;
}

static inline pawl_lock *own_handle(
    pawl_client *client, const char *name, int64_t lease_ms, bool renew)
{
    pawl_lock *lock = open_handle(client, name, lease_ms, renew);
    cleanup_add(close_lock_in_cleanup, lock);
    return lock;
}

#endif
