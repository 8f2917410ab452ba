/* SPDX-License-Identifier: Apache-2.0 */
/* Clock reading, napping and bounded polling for tests. */
#include "support/wait.h"

#include <errno.h>
#include <time.h>

int64_t boottime_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

int64_t boottime_ms(void)
{
    return boottime_us() / 1000;
}

void nap_ms(int64_t duration_ms)
{
    struct timespec left = {
        .tv_sec = (time_t)(duration_ms / 1000), .tv_nsec = (long)(duration_ms % 1000) * 1000000};
    while (nanosleep(&left, &left) != 0 && errno == EINTR) {
    }
}

bool wait_for(bool (*condition)(void *arg), void *arg, int64_t timeout_ms)
{
    const int64_t end_ms = boottime_ms() + timeout_ms;
    for (;;) {
        const bool over = boottime_ms() >= end_ms;
        if (condition(arg)) {
            return true;
        }
        if (over) {
            return false;
        }
        nap_ms(1);
    }
}
