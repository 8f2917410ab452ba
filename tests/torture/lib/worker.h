/* SPDX-License-Identifier: Apache-2.0 */
/* The worker of the torture tests, a role of the test program (support/process.h). */
#ifndef PAWL_TORTURE_LIB_WORKER_H
#define PAWL_TORTURE_LIB_WORKER_H

#include "support/process.h"

#include <stdbool.h>

#define WORKER_ROLE "worker"

/* The argument: "<slot> <generation> <path of the arena>". */
int worker_run(const struct child_pipes *pipes, const char *arg);

/* pulse.c: write down from now on, to this log, when this process did not run. False: no thread. */
bool pulse_start(int fd);

#endif
