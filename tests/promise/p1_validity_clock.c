/* SPDX-License-Identifier: Apache-2.0 */
/* P1 on a clock of our own: how long a hold is valid, to the microsecond.
 *
 * The remaining time counts from before the request was sent, less one percent of the lease and two
 * milliseconds; nothing but an answer that proves ownership moves it. */
#include "support/stage.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define OWNER 7
#define LEASE_US 30000000
#define DRIFT_US (LEASE_US / 100 + 2000)

static struct stage stage;

static int begin(void **state)
{
    (void)state;
    stage_begin(&stage);
    return 0;
}

static int end(void **state)
{
    (void)state;
    stage_end(&stage);
    return 0;
}

static int64_t deadline(struct pawl__handle *handle)
{
    const struct pawl__tenure *hold =
        pawl__machine_find(&stage.machine, handle, OWNER, stage.now_us);
    assert_non_null(hold);
    assert_int_equal(hold->state, PAWL__TENURE_HELD);
    return hold->deadline_us;
}

static void counts_from_before_the_request_was_sent(void **state)
{
    (void)state;
    struct pawl__handle handle;
    struct pawl__request request;
    stage_open(&stage, &handle, "x", LEASE_US, true);
    stage.connected = false;
    const int64_t sent_us = stage.now_us;
    stage_acquire(&stage, &request, &handle, OWNER, 0);
    stage_pass(&stage, 300000);
    struct pawl__op *op = stage_reach(&stage);
    stage_pass(&stage, 400000);
    stage_answer(&stage, op);
    assert_true(request.finished);
    assert_int_equal(request.status, PAWL_OK);
    assert_int_equal(deadline(&handle), sent_us + LEASE_US - DRIFT_US);

    stage.connected = true;
    assert_int_equal(stage_release_now(&stage, &handle, OWNER), PAWL_OK);
    stage_close(&stage, &handle);
}

static void renewal_counts_from_its_own_sending(void **state)
{
    (void)state;
    struct pawl__handle handle;
    stage_open(&stage, &handle, "x", LEASE_US, true);
    assert_int_equal(stage_acquire_now(&stage, &handle, OWNER), PAWL_OK);
    const int64_t acquired_us = stage.now_us;
    stage.connected = false;
    stage_pass(&stage, LEASE_US / 3); /* the renewal is submitted here */
    assert_int_equal(stage.submitted[PAWL__OP_RENEW], 1);
    stage_pass(&stage, 500000);
    assert_int_equal(deadline(&handle), acquired_us + LEASE_US - DRIFT_US);
    stage_answer(&stage, stage_reach(&stage));
    assert_int_equal(deadline(&handle), acquired_us + LEASE_US / 3 + LEASE_US - DRIFT_US);

    stage.connected = true;
    assert_int_equal(stage_release_now(&stage, &handle, OWNER), PAWL_OK);
    stage_close(&stage, &handle);
}

static void faults_and_looks_extend_nothing(void **state)
{
    (void)state;
    struct pawl__handle handle;
    stage_open(&stage, &handle, "x", LEASE_US, true);
    assert_int_equal(stage_acquire_now(&stage, &handle, OWNER), PAWL_OK);
    const int64_t until_us = deadline(&handle);
    stage.connected = false;
    stage_pass(&stage, LEASE_US / 3);
    struct pawl__op *op = stage_reach(&stage); /* the backend did it, the answer is lost */
    stage_answer_as(&stage, op, PAWL__UNKNOWN);
    assert_int_equal(deadline(&handle), until_us);
    stage.connected = true;
    assert_int_equal(stage_release_now(&stage, &handle, OWNER), PAWL_OK);
    stage_close(&stage, &handle);

    stage_open(&stage, &handle, "fixed", LEASE_US, false);
    assert_int_equal(stage_acquire_now(&stage, &handle, OWNER), PAWL_OK);
    const int64_t fixed_us = deadline(&handle);
    stage_pass(&stage, 1000000);
    pawl__machine_reconnected(&stage.machine, stage.now_us);
    stage_pass(&stage, 1);
    assert_int_equal(stage.submitted[PAWL__OP_VERIFY], 1);
    assert_int_equal(deadline(&handle), fixed_us);
    assert_int_equal(stage_release_now(&stage, &handle, OWNER), PAWL_OK);
    stage_close(&stage, &handle);
}

static void a_grant_that_comes_after_its_validity_is_no_grant(void **state)
{
    (void)state;
    struct pawl__handle handle;
    struct pawl__request request;
    const int64_t lease_us = 500000;
    stage_open(&stage, &handle, "x", lease_us, false);
    stage.connected = false;
    stage_acquire(&stage, &request, &handle, OWNER, 0);
    struct pawl__op *op = stage_reach(&stage);
    stage_pass(&stage, lease_us);
    stage_answer(&stage, op);
    assert_false(request.finished); /* it asks again, as the same tenure */
    assert_int_equal(stage.submitted[PAWL__OP_ACQUIRE], 2);
    stage.connected = true;
    stage_flush(&stage);
    assert_int_equal(request.status, PAWL_OK);
    assert_int_equal(deadline(&handle), stage.now_us + lease_us - (lease_us / 100 + 2000));
    assert_int_equal(stage_release_now(&stage, &handle, OWNER), PAWL_OK);
    stage_close(&stage, &handle);
}

static void extend_never_shortens_and_renewal_keeps_it(void **state)
{
    (void)state;
    struct pawl__handle handle;
    struct pawl__request request;
    stage_open(&stage, &handle, "x", LEASE_US, true);
    assert_int_equal(stage_acquire_now(&stage, &handle, OWNER), PAWL_OK);
    const int64_t hour_us = INT64_C(3600000000);
    const int64_t extended_us = stage.now_us + hour_us - (hour_us / 100 + 2000);
    stage_extend(&stage, &request, &handle, OWNER, hour_us);
    assert_int_equal(request.status, PAWL_OK);
    assert_int_equal(deadline(&handle), extended_us);
    stage_extend(&stage, &request, &handle, OWNER, 1000000);
    assert_int_equal(request.status, PAWL_OK);
    assert_true(deadline(&handle) >= extended_us);
    stage_pass(&stage, LEASE_US);
    assert_true(deadline(&handle) >= extended_us);
    assert_true(stage.submitted[PAWL__OP_RENEW] >= 4);
    assert_int_equal(stage_release_now(&stage, &handle, OWNER), PAWL_OK);
    stage_close(&stage, &handle);
}

static void max_hold_ends_it_whatever_is_renewed(void **state)
{
    (void)state;
    struct pawl__handle handle;
    stage_open(&stage, &handle, "x", LEASE_US, true);
    handle.max_hold_us = 2 * (int64_t)LEASE_US + 5000000;
    const int64_t acquired_us = stage.now_us;
    assert_int_equal(stage_acquire_now(&stage, &handle, OWNER), PAWL_OK);
    /* The last renewal may ask only for what is left, and its drift comes off that. */
    stage_pass(&stage, handle.max_hold_us - DRIFT_US);
    assert_true(deadline(&handle) <= acquired_us + handle.max_hold_us);
    stage_pass(&stage, DRIFT_US);
    assert_int_equal(stage.notice_count, 1);
    assert_true(stage.notices[0].at_us <= acquired_us + handle.max_hold_us);
    assert_int_equal(stage_release_now(&stage, &handle, OWNER), PAWL_LOST);
    stage_close(&stage, &handle);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(counts_from_before_the_request_was_sent, begin, end),
        cmocka_unit_test_setup_teardown(renewal_counts_from_its_own_sending, begin, end),
        cmocka_unit_test_setup_teardown(faults_and_looks_extend_nothing, begin, end),
        cmocka_unit_test_setup_teardown(
            a_grant_that_comes_after_its_validity_is_no_grant, begin, end),
        cmocka_unit_test_setup_teardown(extend_never_shortens_and_renewal_keeps_it, begin, end),
        cmocka_unit_test_setup_teardown(max_hold_ends_it_whatever_is_renewed, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
