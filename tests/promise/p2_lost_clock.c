/* SPDX-License-Identifier: Apache-2.0 */
/* P2 on a clock of our own: when a lost lock is reported, to the microsecond, and that it is
 * reported once.
 *
 * Every way of losing is staged: the deadline with renewals failing, a fixed lease, a process that
 * was not scheduled, proof from the backend, the end of the owning thread. */
#include "support/stage.h"

#include "base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define OWNER 7
#define OTHER 8
#define LEASE_US 3000000
#define VALID_US (LEASE_US - LEASE_US / 100 - 2000)

static struct stage stage;
static struct pawl__handle handle;

static int begin(void **state)
{
    (void)state;
    stage_begin(&stage);
    return 0;
}

static int end(void **state)
{
    (void)state;
    stage_close(&stage, &handle);
    stage_end(&stage);
    return 0;
}

static void hold(bool renew)
{
    stage_open(&stage, &handle, "x", LEASE_US, renew);
    assert_int_equal(stage_acquire_now(&stage, &handle, OWNER), PAWL_OK);
}

static void assert_lost_once(int64_t at_us)
{
    unsigned lost = 0;
    for (unsigned i = 0; i < stage.notice_count; i++) {
        if (stage.notices[i].status == PAWL_LOST) {
            assert_int_equal(stage.notices[i].at_us, at_us);
            lost++;
        }
    }
    assert_int_equal(lost, 1);
}

static void fixed_lease_is_lost_at_its_deadline(void **state)
{
    (void)state;
    hold(false);
    const int64_t acquired_us = stage.now_us;
    stage_pass(&stage, VALID_US - 1);
    assert_int_equal(stage.notice_count, 0);
    stage_pass(&stage, LEASE_US);
    assert_lost_once(acquired_us + VALID_US);
    assert_int_equal(stage_release_now(&stage, &handle, OWNER), PAWL_LOST);
    assert_int_equal(stage_release_now(&stage, &handle, OWNER), PAWL_NOT_HELD);
}

static void failing_renewals_warn_once_and_are_retried_until_the_deadline(void **state)
{
    (void)state;
    hold(true);
    const int64_t acquired_us = stage.now_us;
    stage.connected = false;
    for (int i = 0; i < 400 && stage.notice_count < 2; i++) {
        stage_pass(&stage, 10000);
        while (stage.out != NULL) {
            struct pawl__op *op = stage.out;
            stage.out = op->next;
            op->next = NULL;
            stage_answer_as(&stage, op, PAWL__FAILED);
        }
    }
    assert_int_equal(stage.notice_count, 2);
    assert_int_equal(stage.notices[0].status, PAWL_UNAVAILABLE);
    assert_int_equal(stage.notices[0].at_us, acquired_us + VALID_US - LEASE_US / 3);
    assert_lost_once(acquired_us + VALID_US);
    assert_true(stage.submitted[PAWL__OP_RENEW] >= 5);
    stage.connected = true;
    assert_int_equal(stage_release_now(&stage, &handle, OWNER), PAWL_LOST);
}

static void a_process_that_slept_sees_it_at_its_first_look(void **state)
{
    (void)state;
    hold(true);
    stage_jump(&stage, 5 * LEASE_US);
    const struct pawl__tenure *tenure =
        pawl__machine_find(&stage.machine, &handle, OWNER, stage.now_us);
    assert_int_equal(tenure->state, PAWL__TENURE_LOST);
    assert_true(stage_stranger_gets(&stage, "x", 10 * LEASE_US));
    stage_pass(&stage, 0);
    assert_lost_once(stage.now_us);
    assert_int_equal(stage.submitted[PAWL__OP_RENEW], 0); /* the stranger's hold is not touched */
    assert_int_equal(stage_release_now(&stage, &handle, OWNER), PAWL_LOST);
    assert_false(stage_stranger_gets(&stage, "x", 1000)); /* nor freed by the late release */
}

static void a_late_answer_does_not_revive_it(void **state)
{
    (void)state;
    hold(true);
    const int64_t acquired_us = stage.now_us;
    stage.connected = false;
    stage_pass(&stage, LEASE_US / 3);
    struct pawl__op *op = stage_reach(&stage);
    stage_pass(&stage, LEASE_US);
    assert_lost_once(acquired_us + VALID_US);
    stage_answer(&stage, op); /* "renewed", but too late */
    const struct pawl__tenure *tenure =
        pawl__machine_find(&stage.machine, &handle, OWNER, stage.now_us);
    assert_int_equal(tenure->state, PAWL__TENURE_LOST);
    stage.connected = true;
    assert_int_equal(stage_release_now(&stage, &handle, OWNER), PAWL_LOST);
    assert_lost_once(acquired_us + VALID_US);
}

static void proof_comes_before_the_deadline(void **state)
{
    (void)state;
    hold(true);
    struct pawl__place place = {"x", 1, NULL};
    struct pawl__op op = {.place = &place, .kind = PAWL__OP_BREAK};
    pawl__memory_apply(&stage.table, &stage.stranger, &op, stage.now_us);
    assert_int_equal(op.answer, PAWL__DONE);
    const int64_t broken_us = stage.now_us;
    stage_pass(&stage, LEASE_US);
    assert_lost_once(broken_us + LEASE_US / 3);
    assert_int_equal(stage_release_now(&stage, &handle, OWNER), PAWL_LOST);
}

static void each_acquire_of_a_lost_hold_is_released_with_lost(void **state)
{
    (void)state;
    hold(true);
    assert_int_equal(stage_acquire_now(&stage, &handle, OWNER), PAWL_OK);
    assert_int_equal(stage_acquire_now(&stage, &handle, OWNER), PAWL_OK);
    stage_jump(&stage, 2 * LEASE_US);
    assert_int_equal(stage_acquire_now(&stage, &handle, OWNER), PAWL_LOST);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(stage_release_now(&stage, &handle, OWNER), PAWL_LOST);
    }
    assert_int_equal(stage_release_now(&stage, &handle, OWNER), PAWL_NOT_HELD);
    assert_int_equal(stage.notice_count, 1);
    assert_int_equal(stage_acquire_now(&stage, &handle, OWNER), PAWL_OK);
    assert_int_equal(stage_release_now(&stage, &handle, OWNER), PAWL_OK);
}

static void a_thread_that_ends_loses_at_once_but_frees_nothing(void **state)
{
    (void)state;
    hold(true);
    pawl__machine_owner_gone(&stage.machine, OWNER, stage.now_us);
    stage_pass(&stage, 1);
    assert_int_equal(stage.notice_count, 1);
    assert_false(stage_stranger_gets(&stage, "x", 1000));
    stage_pass(&stage, LEASE_US);
    assert_int_equal(stage.submitted[PAWL__OP_RENEW], 0);
    assert_true(stage_stranger_gets(&stage, "x", 1000));
    stage_pass(&stage, 1000);
    assert_int_equal(stage_acquire_now(&stage, &handle, OTHER), PAWL_OK);
    assert_int_equal(stage_release_now(&stage, &handle, OTHER), PAWL_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(fixed_lease_is_lost_at_its_deadline, begin, end),
        cmocka_unit_test_setup_teardown(
            failing_renewals_warn_once_and_are_retried_until_the_deadline, begin, end),
        cmocka_unit_test_setup_teardown(a_process_that_slept_sees_it_at_its_first_look, begin, end),
        cmocka_unit_test_setup_teardown(a_late_answer_does_not_revive_it, begin, end),
        cmocka_unit_test_setup_teardown(proof_comes_before_the_deadline, begin, end),
        cmocka_unit_test_setup_teardown(
            each_acquire_of_a_lost_hold_is_released_with_lost, begin, end),
        cmocka_unit_test_setup_teardown(
            a_thread_that_ends_loses_at_once_but_frees_nothing, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
