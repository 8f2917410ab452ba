/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting with an end, and the signals that end everything. Signals are blocked and read from a
 * descriptor, so that nothing is interrupted in the middle of a step; but every wait looks for
 * them.
 */
#ifndef FLASHSALE_UP_PATIENCE_H
#define FLASHSALE_UP_PATIENCE_H

#include <stdbool.h>
#include <stdint.h>

int64_t now_ms(void);

/* Blocks SIGINT, SIGTERM, SIGHUP and SIGCHLD and opens the descriptor; -1: it cannot be had. */
int signals_open(void);

/* Reads what has come. Whether one of those that end everything ever has. */
bool signals_stop(void);

/* Looks every few milliseconds until `condition` holds. False: time is up, or somebody wants to end
 * it all. */
bool wait_for(bool (*condition)(void *arg), void *arg, int64_t patience_ms);

#endif
