/* SPDX-License-Identifier: Apache-2.0 */
/* The one clock: microseconds of CLOCK_BOOTTIME, which goes on while the machine is suspended and
 * never steps. Durations become a deadline once, at the edge of the API; below it only deadlines
 * travel. */
#ifndef PAWL_BASE_CLOCK_H
#define PAWL_BASE_CLOCK_H

#include <stdint.h>

#define PAWL__NEVER INT64_MAX /* a deadline that never comes */

int64_t pawl__now_us(void);

/* Replaced by tests that need to say what time it is; NULL: the real clock. */
extern int64_t (*pawl__clock_hook)(void);

/* now + duration, where "too far" becomes PAWL__NEVER instead of overflowing. */
static inline int64_t pawl__later(int64_t now_us, int64_t duration_us)
{
    return duration_us >= PAWL__NEVER - now_us ? PAWL__NEVER : now_us + duration_us;
}

static inline int64_t pawl__min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t pawl__max64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

#endif
