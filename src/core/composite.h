/* SPDX-License-Identifier: Apache-2.0 */
/* Locks that are made of locks: a multi-lock, a quorum of servers.
 *
 * To its user such a lock is a pawl_lock like any other. It belongs to no client and to no machine;
 * every public call on it, after the checks that all calls share, goes to the functions of its
 * making. They use the public calls of the locks that it is made of. Each sets the last error, as
 * public calls do. */
#ifndef PAWL_CORE_COMPOSITE_H
#define PAWL_CORE_COMPOSITE_H

#include "core/machine.h"

/* The caller's hold as it is now. */
struct pawl__hold {
    bool valid; /* false: lost, and still to be released */
    unsigned count;
    uint64_t id; /* of the tenure; 0 for a composite */
    uint64_t token;
    int64_t left_us; /* PAWL__NEVER: no limit */
};

struct pawl__composite {
    /* Carry out a call and wait for its end. The request says what is wanted: kind, and wait_us (a
     * duration, PAWL__NEVER, or 0 for a try), lease_us or info_out. */
    pawl_status (*run)(struct pawl_lock *lock, struct pawl__request *request);

    /* The same without waiting: acquire or release. PAWL_OK: `done` will be called, once. */
    pawl_status (*start)(struct pawl_lock *lock, enum pawl__request_kind kind, int64_t wait_us,
        pawl_callback done, void *arg);

    /* False: the caller has none. */
    bool (*look)(struct pawl_lock *lock, struct pawl__hold *hold_out);

    /* The owner string of a valid hold, into room for PAWL_OWNER_SIZE bytes. */
    void (*owner)(struct pawl_lock *lock, char *owner_out);

    void (*cancel)(struct pawl_lock *lock);
    pawl_status (*close)(struct pawl_lock *lock);
};

#endif
