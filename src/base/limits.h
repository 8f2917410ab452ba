/* SPDX-License-Identifier: Apache-2.0 */
/* Every limit in one place. */
#ifndef PAWL_BASE_LIMITS_H
#define PAWL_BASE_LIMITS_H

#include <stdint.h>

#define PAWL__NAME_SIZE_MAX 1024 /* bytes of a lock's name */
#define PAWL__URL_SIZE_MAX 4096

#define PAWL__LEASE_MS_MIN INT64_C(10)                        /* below, drift would eat all of it */
#define PAWL__LEASE_MS_MAX (INT64_C(3653) * 24 * 3600 * 1000) /* ten years */
#define PAWL__WAIT_MS_MAX PAWL__LEASE_MS_MAX
#define PAWL__TIMEOUT_MS_MAX (INT64_C(3600) * 1000)

/* The longest sleep without looking, whatever message was promised. */
#define PAWL__POLL_US 1000000

/* Who stands in the queue of a fair lock and has not asked for so long counts as dead. */
#define PAWL__FAIR_WAIT_US 5000000

#define PAWL__PASSES_MAX 16          /* passes inside a process before others are offered a turn */
#define PAWL__PASSES_US 10000        /* or this long, whichever comes first */
#define PAWL__HOLD_OFF_US 300        /* the least pause after the lock was left to others */
#define PAWL__HOLD_OFF_MOST_US 10000 /* and the longest */
#define PAWL__WATCH_LINGER_US 100000 /* a subscription nobody needs is kept so long */

#endif
