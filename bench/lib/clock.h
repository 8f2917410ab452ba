/* SPDX-License-Identifier: Apache-2.0 */
/* Time as the benchmark measures it: nanoseconds of the monotonic clock (the same one in all
 * processes of the machine), and CPU time of whole processes, user and system together. The kernel
 * adds CPU time up in nanoseconds, so short slices are fine. */
#ifndef PAWL_LIB_CLOCK_H
#define PAWL_LIB_CLOCK_H

#include <stdint.h>
#include <sys/types.h>

#define NS_PER_S INT64_C(1000000000)
#define NS_PER_MS INT64_C(1000000)

int64_t now_ns(void);

/* CPU time of this process, or of another one; -1 if it has gone. */
int64_t own_cpu_ns(void);
int64_t process_cpu_ns(pid_t pid);

void pause_ns(int64_t duration_ns);

#endif
