/* SPDX-License-Identifier: Apache-2.0 */
/* Which cores a side and redis-server run on.
 *
 * A request and its reply between two processes take 20 µs when both run on one core and 50 µs when
 * each wake-up crosses to a sleeping core, and the scheduler changes its mind every few hundred
 * milliseconds. Where only one thread talks to the server, the placement is therefore fixed, for
 * all sides alike. On one core all work is done one after the other, so a client's own overhead
 * shows most there. */
#ifndef PAWL_LIB_PLACE_H
#define PAWL_LIB_PLACE_H

#include "lib/server.h"

enum placement {
    PLACEMENT_FREE,  /* as the scheduler likes */
    PLACEMENT_SAME,  /* side and server on one core */
    PLACEMENT_APART, /* on two cores; free if the machine has only one */
};

/* For the driver; the server stays there until the next call. */
void place_server(const struct server *server, enum placement placement);

/* For a side, before it starts threads. */
void place_self(enum placement placement);

#endif
