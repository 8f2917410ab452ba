/* SPDX-License-Identifier: Apache-2.0 */
/* Time: see clock.h. */
#include "common/clock.h"

#include <errno.h>
#include <time.h>

static int64_t read_us(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return (int64_t)time.tv_sec * 1000000 + time.tv_nsec / 1000;
}

int64_t now_us(void)
{
    return read_us(CLOCK_BOOTTIME);
}

int64_t wall_ms(void)
{
    return read_us(CLOCK_REALTIME) / 1000;
}

void sleep_us(int64_t us)
{
    struct timespec left = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};
    while (us > 0 && nanosleep(&left, &left) != 0 && errno == EINTR) {
    }
}
