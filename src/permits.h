/* SPDX-License-Identifier: Apache-2.0 */
/* What semaphore.c and permits.c know of each other. */
#ifndef PAWL_PERMITS_H
#define PAWL_PERMITS_H

#include "core/leases.h"
#include "counts.h"

struct pawl_semaphore {
    struct pawl_lock lock; /* must be first */
    bool leased;
    int64_t lease_us;
    struct pawl__leases leases; /* in use if its permits are renewed */
    pawl_permit_callback on_lost;
    void *event_arg;
};

static inline pawl_semaphore *pawl__semaphore_of(struct pawl_lock *lock)
{
    return PAWL__CONTAINER(lock, pawl_semaphore, lock);
}

/* It is there, and its permits have leases, or not. Sets the last error. */
pawl_status pawl__semaphore_check(pawl_semaphore *semaphore, bool leased);

/* Renew the permits that are acquired from now on (false: no memory); and the end of that: give
 * back what is out. Sets the last error. */
bool pawl__permits_begin(pawl_semaphore *semaphore);
pawl_status pawl__permits_end(pawl_semaphore *semaphore);

#endif
