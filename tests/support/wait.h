/* SPDX-License-Identifier: Apache-2.0 */
/* Time for tests: the boot-time clock, and waiting for a condition with a bound. */
#ifndef PAWL_SUPPORT_WAIT_H
#define PAWL_SUPPORT_WAIT_H

#include "support/fail.h"

#include <stdbool.h>
#include <stdint.h>

/* CLOCK_BOOTTIME, the clock that leases are measured by. */
int64_t boottime_us(void);
int64_t boottime_ms(void);

/* Let time pass. Only for what is itself about time (a lease running out); to wait for something
 * to happen use WAIT_UNTIL. */
void nap_ms(int64_t duration_ms);

/* Ask every millisecond until the condition holds; false when the time is over. */
bool wait_for(bool (*condition)(void *arg), void *arg, int64_t timeout_ms);

/* Evaluate `expr` every millisecond until it is true; fail the test when the time is over. The
 * clock is read before the expression, so that it gets a last chance after the bound. */
#define WAIT_UNTIL(expr, timeout_ms)                                                   \
    do {                                                                               \
        const int64_t wait_until_end_ms_ = boottime_ms() + (timeout_ms);               \
        for (;;) {                                                                     \
            const bool wait_until_over_ = boottime_ms() >= wait_until_end_ms_;         \
            if (expr) {                                                                \
                break;                                                                 \
            }                                                                          \
            if (wait_until_over_) {                                                    \
                support_fail("%s:%d: not true within %lld ms: %s", __FILE__, __LINE__, \
                    (long long)(timeout_ms), #expr);                                   \
            }                                                                          \
            nap_ms(1);                                                                 \
        }                                                                              \
    } while (0)

#endif
