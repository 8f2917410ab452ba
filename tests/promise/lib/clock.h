/* SPDX-License-Identifier: Apache-2.0 */
/* What the promise tests on a clock of their own have in common: one stage and one handle, made
 * anew for each case, and answers that are lost or late. */
#ifndef PAWL_PROMISE_LIB_CLOCK_H
#define PAWL_PROMISE_LIB_CLOCK_H

#include "support/stage.h"

#include "base/alloc.h"
#include "base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define OWNER 7
#define OTHER 8
#define TIMEOUT_US 1000000
#define GIVE_UP_US 30000000

extern struct stage stage;
extern struct pawl__handle handle; /* of the name "x" */

/* Until when a hold is valid that was asked for just now: less one percent and two milliseconds. */
#define VALID_FOR_US(lease_us) ((lease_us) - (lease_us) / 100 - 2000)

/* A setup and a teardown for cmocka. The handle is closed if it was opened. */
int clock_begin(void **state);
int clock_begin_with(int64_t lease_us, bool renew); /* and open the handle */
int clock_end(void **state);

#define CASE(begin, test) cmocka_unit_test_setup_teardown(test, begin, clock_end)

/* The oldest operation that lies in stage.out, taken out: it never reaches the backend. NULL: none.
 */
struct pawl__op *clock_take(void);

/* Let time pass in which no answer comes, as an engine has to play it: what was submitted ends as
 * unknown at its deadline. */
void clock_pass_silently(int64_t duration_us);

/* Let time pass in which each answer comes so long after its question, in both directions half of
 * it. The request's end ends it earlier. */
void clock_pass_slowly(
    int64_t duration_us, int64_t round_trip_us, const struct pawl__request *request);

/* Everything goes through again, and a second passes. */
void clock_heal(void);

/* A request has ended: its status, and forget its sentence. */
pawl_status clock_ended(struct pawl__request *request);

/* Somebody else frees "x" in the backend; nobody is told. */
void clock_break_quietly(void);

#endif
