/* SPDX-License-Identifier: Apache-2.0 */
/* How the benchmark gives up. Nothing here is a test: whatever cannot be measured ends the process
 * that wanted to measure it, with a sentence on stderr. A side's process ends alone, and its group
 * is reported as not measured; the driver's end takes the servers and directories with it (atexit).
 */
#ifndef PAWL_LIB_DIE_H
#define PAWL_LIB_DIE_H

#include <stdbool.h>

_Noreturn void die(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The process is a side's from now on: sentences name it, and its end runs no exit handlers. */
void die_as(const char *who);

/* A line on stderr that says what is going on, to be completed by the next one. */
void progress(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Make INT, TERM and HUP end the driver in order: interrupted() becomes true, waits end. */
void catch_signals(void);
bool interrupted(void);

#endif
