/* SPDX-License-Identifier: Apache-2.0 */
/* P2 on a clock of our own: when a lost lock is reported, to the microsecond, and that it is
 * reported once.
 *
 * Every way of losing is staged: the deadline with renewals failing, a fixed lease, a process that
 * was not scheduled, proof from the backend, the end of the owning thread; and what whoever calls
 * next is told of it. */
#include "promise/lib/clock.h"

#define LEASE_US 3000000
#define VALID_US VALID_FOR_US(LEASE_US)

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
            stage_answer_as(&stage, clock_take(), PAWL__FAILED);
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
    clock_break_quietly();
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

/* ===== Why ===== */

/* Release what is lost: what it says of the loss. */
static struct pawl__lost release_lost(void)
{
    struct pawl__request request;
    stage.connected = true;
    stage_release(&stage, &request, &handle, OWNER);
    assert_int_equal(clock_ended(&request), PAWL_LOST);
    assert_int_equal(request.lost.lease_ms, LEASE_US / 1000);
    return request.lost;
}

static void the_end_of_a_fixed_lease_is_told(void **state)
{
    (void)state;
    hold(false);
    const int64_t acquired_us = stage.now_us;
    stage_pass(&stage, 2 * LEASE_US);
    const struct pawl__lost lost = release_lost();
    assert_int_equal(lost.why, PAWL__LOSS_LEASE);
    assert_int_equal(lost.at_us, acquired_us + VALID_US);
    assert_int_equal(lost.proven_us, acquired_us);
}

static void the_longest_hold_is_told(void **state)
{
    (void)state;
    stage_open(&stage, &handle, "x", LEASE_US, true);
    handle.terms->max_hold_us = 2 * (int64_t)LEASE_US;
    assert_int_equal(stage_acquire_now(&stage, &handle, OWNER), PAWL_OK);
    stage_pass(&stage, 3 * LEASE_US);
    assert_int_equal(release_lost().why, PAWL__LOSS_LIMIT);
}

static void silence_is_told_and_since_when(void **state)
{
    (void)state;
    struct pawl__request request;
    hold(true);
    stage_pass(&stage, LEASE_US / 3); /* one good renewal */
    const int64_t renewed_us = stage.now_us;
    clock_pass_silently(VALID_US - 50000);
    stage_extend(&stage, &request, &handle, OWNER, LEASE_US);
    clock_pass_silently(LEASE_US);
    assert_int_equal(clock_ended(&request), PAWL_LOST); /* who waited for more is told as well */
    assert_int_equal(request.lost.why, PAWL__LOSS_SILENCE);
    const struct pawl__lost lost = release_lost();
    assert_int_equal(lost.why, PAWL__LOSS_SILENCE);
    assert_int_equal(lost.at_us, renewed_us + VALID_US);
    assert_int_equal(lost.proven_us, renewed_us);
}

static void an_answer_that_came_too_late_is_silence(void **state)
{
    (void)state;
    hold(true);
    stage.connected = false;
    stage_pass(&stage, LEASE_US / 3);
    struct pawl__op *op = stage_reach(&stage);
    stage_jump(&stage, LEASE_US);
    stage_answer(&stage, op);
    assert_int_equal(release_lost().why, PAWL__LOSS_SILENCE);
}

static void a_process_that_did_not_run_is_told(void **state)
{
    (void)state;
    hold(true);
    stage_pass(&stage, LEASE_US / 2); /* one good renewal */
    const int64_t stopped_us = stage.now_us;
    stage_jump(&stage, 5 * LEASE_US);
    stage_pass(&stage, 0);
    struct pawl__lost lost = release_lost();
    assert_int_equal(lost.why, PAWL__LOSS_PAUSE);
    assert_true(lost.proven_us < stopped_us);
}

static void proof_is_told_by_a_renewal_and_by_a_release(void **state)
{
    (void)state;
    hold(true);
    clock_break_quietly();
    stage_pass(&stage, LEASE_US / 3);
    const int64_t heard_us = stage.now_us;
    stage_pass(&stage, LEASE_US);
    const struct pawl__lost lost = release_lost();
    assert_int_equal(lost.why, PAWL__LOSS_PROOF);
    assert_int_equal(lost.at_us, heard_us);

    assert_int_equal(stage_acquire_now(&stage, &handle, OWNER), PAWL_OK);
    clock_break_quietly();
    assert_int_equal(release_lost().why, PAWL__LOSS_PROOF);
}

static void a_release_that_was_answered_too_late_is_told(void **state)
{
    (void)state;
    struct pawl__request request;
    hold(false);
    const int64_t acquired_us = stage.now_us;
    stage_pass(&stage, VALID_US - 1000);
    stage.connected = false;
    stage_release(&stage, &request, &handle, OWNER);
    stage_pass(&stage, 100000);
    stage_answer(&stage, stage_reach(&stage));
    assert_int_equal(clock_ended(&request), PAWL_LOST);
    assert_int_equal(request.lost.why, PAWL__LOSS_RELEASE);
    assert_int_equal(request.lost.at_us, acquired_us + VALID_US);
    clock_heal();
}

static void who_enters_a_lost_hold_is_told_why(void **state)
{
    (void)state;
    struct pawl__request request;
    hold(false);
    stage_pass(&stage, LEASE_US);
    stage_acquire(&stage, &request, &handle, OWNER, 0);
    assert_int_equal(clock_ended(&request), PAWL_LOST);
    assert_int_equal(request.lost.why, PAWL__LOSS_LEASE);
    stage_extend(&stage, &request, &handle, OWNER, LEASE_US);
    assert_int_equal(clock_ended(&request), PAWL_LOST);
    assert_int_equal(request.lost.why, PAWL__LOSS_LEASE);
    release_lost();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(clock_begin, fixed_lease_is_lost_at_its_deadline),
        CASE(clock_begin, failing_renewals_warn_once_and_are_retried_until_the_deadline),
        CASE(clock_begin, a_process_that_slept_sees_it_at_its_first_look),
        CASE(clock_begin, a_late_answer_does_not_revive_it),
        CASE(clock_begin, proof_comes_before_the_deadline),
        CASE(clock_begin, each_acquire_of_a_lost_hold_is_released_with_lost),
        CASE(clock_begin, a_thread_that_ends_loses_at_once_but_frees_nothing),
        CASE(clock_begin, the_end_of_a_fixed_lease_is_told),
        CASE(clock_begin, the_longest_hold_is_told),
        CASE(clock_begin, silence_is_told_and_since_when),
        CASE(clock_begin, an_answer_that_came_too_late_is_silence),
        CASE(clock_begin, a_process_that_did_not_run_is_told),
        CASE(clock_begin, proof_is_told_by_a_renewal_and_by_a_release),
        CASE(clock_begin, a_release_that_was_answered_too_late_is_told),
        CASE(clock_begin, who_enters_a_lost_hold_is_told_why),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
