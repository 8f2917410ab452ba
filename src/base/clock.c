/* SPDX-License-Identifier: Apache-2.0 */
/* The real clock, and the hook by which tests replace it. */
#include "base/clock.h"

#include <stddef.h>
#include <time.h>

int64_t (*pawl__clock_hook)(void);

int64_t pawl__now_us(void)
{
    if (pawl__clock_hook != NULL) {
        return pawl__clock_hook();
    }
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}
