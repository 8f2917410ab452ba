/* SPDX-License-Identifier: Apache-2.0 */
/* Starting the command; see child.c. */
#ifndef PAWL_RUN_CHILD_H
#define PAWL_RUN_CHILD_H

#include "run/signals.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct run_child_plan {
    char **command;
    const char *name; /* of the lock */
    const char *owner;
    uint64_t token;
    bool own_group; /* a process group of its own */
    const struct run_signals *signals;
};

/* The process id; or -1, and the error: of exec, or, if !*execed_out, of making a process. */
pid_t run_child_start(const struct run_child_plan *plan, int *error_out, bool *execed_out);

#endif
