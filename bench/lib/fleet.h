/* SPDX-License-Identifier: Apache-2.0 */
/* Several redis-servers that are far away: each has a relay before it that holds back every answer
 * for as long as a round trip is to last. They live and end with the process that started them. */
#ifndef PAWL_LIB_FLEET_H
#define PAWL_LIB_FLEET_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { FLEET_MAX = 5 };

struct fleet {
    size_t count;
    pid_t pids[FLEET_MAX];
    uint16_t ports[FLEET_MAX]; /* of the relays */
};

/* Start them and wait until they answer. */
void fleet_start(struct fleet *fleet, size_t count, int64_t round_trip_us);
void fleet_stop(struct fleet *fleet);

#endif
