/* SPDX-License-Identifier: Apache-2.0 */
/* P1 on a clock of our own: how long a hold is valid, to the microsecond.
 *
 * The remaining time counts from before the request was sent, less one percent of the lease and two
 * milliseconds; nothing but an answer that proves ownership moves it. */
#include "promise/lib/clock.h"

#include "pawl.h"

#include <stdatomic.h>

#define LEASE_US 30000000
#define DRIFT_US (LEASE_US / 100 + 2000)

static int64_t deadline(void)
{
    const struct pawl__tenure *hold =
        pawl__machine_find(&stage.machine, &handle, OWNER, stage.now_us);
    assert_non_null(hold);
    assert_int_equal(hold->state, PAWL__TENURE_HELD);
    return hold->deadline_us;
}

static void counts_from_before_the_request_was_sent(void **state)
{
    (void)state;
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
    assert_int_equal(deadline(), sent_us + LEASE_US - DRIFT_US);

    stage.connected = true;
    assert_int_equal(stage_release_now(&stage, &handle, OWNER), PAWL_OK);
}

static void renewal_counts_from_its_own_sending(void **state)
{
    (void)state;
    stage_open(&stage, &handle, "x", LEASE_US, true);
    assert_int_equal(stage_acquire_now(&stage, &handle, OWNER), PAWL_OK);
    const int64_t acquired_us = stage.now_us;
    stage.connected = false;
    stage_pass(&stage, LEASE_US / 3); /* the renewal is submitted here */
    assert_int_equal(stage.submitted[PAWL__OP_RENEW], 1);
    stage_pass(&stage, 500000);
    assert_int_equal(deadline(), acquired_us + LEASE_US - DRIFT_US);
    stage_answer(&stage, stage_reach(&stage));
    assert_int_equal(deadline(), acquired_us + LEASE_US / 3 + LEASE_US - DRIFT_US);

    stage.connected = true;
    assert_int_equal(stage_release_now(&stage, &handle, OWNER), PAWL_OK);
}

static void faults_and_looks_extend_nothing(void **state)
{
    (void)state;
    stage_open(&stage, &handle, "x", LEASE_US, true);
    assert_int_equal(stage_acquire_now(&stage, &handle, OWNER), PAWL_OK);
    const int64_t until_us = deadline();
    stage.connected = false;
    stage_pass(&stage, LEASE_US / 3);
    struct pawl__op *op = stage_reach(&stage); /* the backend did it, the answer is lost */
    stage_answer_as(&stage, op, PAWL__UNKNOWN);
    assert_int_equal(deadline(), until_us);
    stage.connected = true;
    assert_int_equal(stage_release_now(&stage, &handle, OWNER), PAWL_OK);
    stage_close(&stage, &handle);

    stage_open(&stage, &handle, "fixed", LEASE_US, false);
    assert_int_equal(stage_acquire_now(&stage, &handle, OWNER), PAWL_OK);
    const int64_t fixed_us = deadline();
    stage_pass(&stage, 1000000);
    pawl__machine_reconnected(&stage.machine, stage.now_us);
    stage_pass(&stage, 1);
    assert_int_equal(stage.submitted[PAWL__OP_VERIFY], 1);
    assert_int_equal(deadline(), fixed_us);
    assert_int_equal(stage_release_now(&stage, &handle, OWNER), PAWL_OK);
}

static void a_grant_that_comes_after_its_validity_is_no_grant(void **state)
{
    (void)state;
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
    assert_int_equal(deadline(), stage.now_us + lease_us - (lease_us / 100 + 2000));
    assert_int_equal(stage_release_now(&stage, &handle, OWNER), PAWL_OK);
}

static void extend_never_shortens_and_renewal_keeps_it(void **state)
{
    (void)state;
    struct pawl__request request;
    stage_open(&stage, &handle, "x", LEASE_US, true);
    assert_int_equal(stage_acquire_now(&stage, &handle, OWNER), PAWL_OK);
    const int64_t hour_us = INT64_C(3600000000);
    const int64_t extended_us = stage.now_us + hour_us - (hour_us / 100 + 2000);
    stage_extend(&stage, &request, &handle, OWNER, hour_us);
    assert_int_equal(request.status, PAWL_OK);
    assert_int_equal(deadline(), extended_us);
    stage_extend(&stage, &request, &handle, OWNER, 1000000);
    assert_int_equal(request.status, PAWL_OK);
    assert_true(deadline() >= extended_us);
    stage_pass(&stage, LEASE_US);
    assert_true(deadline() >= extended_us);
    assert_true(stage.submitted[PAWL__OP_RENEW] >= 4);
    assert_int_equal(stage_release_now(&stage, &handle, OWNER), PAWL_OK);
}

static void max_hold_ends_it_whatever_is_renewed(void **state)
{
    (void)state;
    stage_open(&stage, &handle, "x", LEASE_US, true);
    handle.terms->max_hold_us = 2 * (int64_t)LEASE_US + 5000000;
    const int64_t acquired_us = stage.now_us;
    assert_int_equal(stage_acquire_now(&stage, &handle, OWNER), PAWL_OK);
    /* The last renewal may ask only for what is left, and its drift comes off that. */
    stage_pass(&stage, handle.terms->max_hold_us - DRIFT_US);
    assert_true(deadline() <= acquired_us + handle.terms->max_hold_us);
    stage_pass(&stage, DRIFT_US);
    assert_int_equal(stage.notice_count, 1);
    assert_true(stage.notices[0].at_us <= acquired_us + handle.terms->max_hold_us);
    assert_int_equal(stage_release_now(&stage, &handle, OWNER), PAWL_LOST);
}

/* ===== What a user is told of it ===== */

static _Atomic int64_t user_us; /* the keeper reads it too */

static int64_t user_clock(void)
{
    return atomic_load(&user_us);
}

static int64_t remaining_at(const pawl_lock *lock, int64_t now_us)
{
    atomic_store(&user_us, now_us);
    return pawl_lock_remaining_ms(lock);
}

/* In whole milliseconds, and those rounded down: what is promised is never more than what is left.
 */
static void the_last_millisecond_is_not_promised(void **state)
{
    (void)state;
    pawl_client *client = NULL;
    pawl_lock *lock = NULL;
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    options.lease_ms = LEASE_US / 1000;
    options.renew = false;
    atomic_store(&user_us, pawl__now_us());
    const int64_t until_us = user_us + VALID_FOR_US(LEASE_US);
    pawl__clock_hook = user_clock;
    assert_int_equal(pawl_client_open("memory:rounding", NULL, &client), PAWL_OK);
    assert_int_equal(pawl_lock_open(client, "x", &options, &lock), PAWL_OK);
    assert_int_equal(pawl_lock_acquire(lock, PAWL_TRY), PAWL_OK);
    for (int64_t left_us = 5000; left_us > -5; left_us--) {
        assert_int_equal(remaining_at(lock, until_us - left_us), left_us > 0 ? left_us / 1000 : 0);
    }
    assert_int_equal(pawl_lock_release(lock), PAWL_LOST);
    assert_int_equal(pawl_lock_close(lock), PAWL_OK);
    assert_int_equal(pawl_client_close(client), PAWL_OK);
    pawl__clock_hook = NULL;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(clock_begin, counts_from_before_the_request_was_sent),
        CASE(clock_begin, renewal_counts_from_its_own_sending),
        CASE(clock_begin, faults_and_looks_extend_nothing),
        CASE(clock_begin, a_grant_that_comes_after_its_validity_is_no_grant),
        CASE(clock_begin, extend_never_shortens_and_renewal_keeps_it),
        CASE(clock_begin, max_hold_ends_it_whatever_is_renewed),
        cmocka_unit_test(the_last_millisecond_is_not_promised),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
