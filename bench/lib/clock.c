/* SPDX-License-Identifier: Apache-2.0 */
/* Clocks; clock.h describes them. */
#include "lib/clock.h"

#include <time.h>

static int64_t read_clock(clockid_t id)
{
    struct timespec time;
    return clock_gettime(id, &time) == 0 ? time.tv_sec * NS_PER_S + time.tv_nsec : -1;
}

int64_t now_ns(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

int64_t own_cpu_ns(void)
{
    return read_clock(CLOCK_PROCESS_CPUTIME_ID);
}

int64_t process_cpu_ns(pid_t pid)
{
    clockid_t id;
    return clock_getcpuclockid(pid, &id) == 0 ? read_clock(id) : -1;
}

void pause_ns(int64_t duration_ns)
{
    const struct timespec time = {duration_ns / NS_PER_S, duration_ns % NS_PER_S};
    clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL);
}
