/* SPDX-License-Identifier: Apache-2.0 */
/* The wall clock of another program, which a test sets as it likes while the program runs: it is
 * started with fault/preload/clock_offset.c preloaded. No other clock is touched. */
#ifndef PAWL_SUPPORT_WALL_H
#define PAWL_SUPPORT_WALL_H

#include "support/server.h"

#include <stdatomic.h>
#include <stdint.h>

enum { WALL_TEXT_SIZE = 256 };

struct wall {
    _Atomic int64_t *offset_ns;   /* is added to the real time */
    char preload[WALL_TEXT_SIZE]; /* NAME=value, for env */
    char path[WALL_TEXT_SIZE];
};

struct wall wall_make(void);

/* A redis-server that lives by it. */
struct server *wall_start_server(const struct wall *wall, const struct server_options *options);
void wall_restart_server(const struct wall *wall, struct server *server, bool keep_data);

/* The address sanitizer would refuse to come second. */
#define WALL_WRAPPER(wall)                                                                \
    {                                                                                     \
        "env", (wall).preload, (wall).path, "ASAN_OPTIONS=verify_asan_link_order=0", NULL \
    }

#endif
