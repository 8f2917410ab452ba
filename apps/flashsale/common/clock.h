/* SPDX-License-Identifier: Apache-2.0 */
/* Time: one clock for durations, another for the dates in records, and a sleep that signals do not
 * cut short. */
#ifndef FLASHSALE_COMMON_CLOCK_H
#define FLASHSALE_COMMON_CLOCK_H

#include <stdint.h>

/* Microseconds of CLOCK_BOOTTIME, for deadlines and durations. */
int64_t now_us(void);

/* Milliseconds since 1970, for people. Decides nothing. */
int64_t wall_ms(void);

void sleep_us(int64_t us);

#endif
