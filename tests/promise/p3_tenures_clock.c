/* SPDX-License-Identifier: Apache-2.0 */
/* P3 on a clock of our own: a tenure has a number that is never used again; re-entry is counted
 * here and shown there, without waiting and without touching the lease; nothing that an old tenure
 * left behind touches a new one. */
#include "promise/lib/clock.h"

#define LEASE_US 3000000
#define VALID_US VALID_FOR_US(LEASE_US)

/* What the backend has under the name. */
static const struct pawl__memory_entry *entry(void)
{
    const struct pawl__memory_entry *found = pawl__memory_look(&stage.table, "x", 1);
    assert_non_null(found);
    return found;
}

static const struct pawl__tenure *hold_of(uint64_t owner)
{
    return pawl__machine_find(&stage.machine, &handle, owner, stage.now_us);
}

/* Something of this tenure reaches the backend, long after it was sent. */
static enum pawl__answer late_copy(enum pawl__op_kind kind, uint64_t id)
{
    struct pawl__place place = {.name = "x", .name_size = 1};
    struct pawl__op op = {.place = &place,
        .kind = kind,
        .id = id,
        .heir_id = id + 1000,
        .count = 5,
        .lease_us = 100 * (int64_t)LEASE_US};
    pawl__memory_apply(&stage.table, &stage.client, &op, stage.now_us);
    return op.answer;
}

static void each_tenure_has_its_own_number(void **state)
{
    (void)state;
    struct pawl__handle second;
    uint64_t last = 0;
    stage_open(&stage, &handle, "x", LEASE_US, true);
    stage_open(&stage, &second, "x", LEASE_US, false);
    for (int i = 0; i < 20; i++) {
        struct pawl__handle *by = i % 2 == 0 ? &handle : &second;
        const uint64_t owner = i % 3 == 0 ? OTHER : OWNER;
        assert_int_equal(stage_acquire_now(&stage, by, owner), PAWL_OK);
        assert_true(entry()->id > last);
        last = entry()->id;
        assert_int_equal(stage_acquire_now(&stage, by, owner), PAWL_OK);
        assert_int_equal(entry()->id, last); /* re-entry is the same tenure */
        assert_int_equal(stage_release_now(&stage, by, owner), PAWL_OK);
        assert_int_equal(entry()->id, last);
        assert_int_equal(stage_release_now(&stage, by, owner), PAWL_OK);
    }
    stage_close(&stage, &second);
}

static void a_refused_claim_uses_its_number_up(void **state)
{
    (void)state;
    stage_open(&stage, &handle, "x", LEASE_US, true);
    assert_int_equal(stage_acquire_now(&stage, &handle, OWNER), PAWL_OK);
    const uint64_t first = entry()->id;
    assert_int_equal(stage_release_now(&stage, &handle, OWNER), PAWL_OK);
    assert_true(stage_stranger_gets(&stage, "x", 1000000));
    assert_int_equal(stage_acquire_now(&stage, &handle, OWNER), PAWL_BUSY);
    stage_pass(&stage, 1000000);
    assert_int_equal(stage_acquire_now(&stage, &handle, OWNER), PAWL_OK);
    assert_true(entry()->id > first + 1);
    assert_int_equal(stage_release_now(&stage, &handle, OWNER), PAWL_OK);
}

static void late_copies_of_an_old_tenure_touch_nothing(void **state)
{
    (void)state;
    stage_open(&stage, &handle, "x", LEASE_US, true);
    assert_int_equal(stage_acquire_now(&stage, &handle, OWNER), PAWL_OK);
    const uint64_t old = entry()->id;
    assert_int_equal(stage_release_now(&stage, &handle, OWNER), PAWL_OK);
    assert_int_equal(stage_acquire_now(&stage, &handle, OWNER), PAWL_OK);
    const uint64_t id = entry()->id;
    const uint64_t token = entry()->token;
    const int64_t expires_us = entry()->expires_us;
    assert_int_equal(late_copy(PAWL__OP_RELEASE, old), PAWL__GONE);
    assert_int_equal(late_copy(PAWL__OP_RENEW, old), PAWL__GONE);
    assert_int_equal(late_copy(PAWL__OP_COUNT, old), PAWL__GONE);
    assert_int_equal(late_copy(PAWL__OP_PASS, old), PAWL__GONE);
    assert_int_equal(late_copy(PAWL__OP_ACQUIRE, old), PAWL__HELD);
    assert_true(entry()->held);
    assert_int_equal(entry()->id, id);
    assert_int_equal(entry()->token, token);
    assert_int_equal(entry()->count, 1);
    assert_int_equal(entry()->expires_us, expires_us);
    assert_int_equal(stage_release_now(&stage, &handle, OWNER), PAWL_OK);
}

static void the_count_is_shown_but_not_waited_for(void **state)
{
    (void)state;
    stage_open(&stage, &handle, "x", LEASE_US, true);
    assert_int_equal(stage_acquire_now(&stage, &handle, OWNER), PAWL_OK);
    const int64_t expires_us = entry()->expires_us;
    const int64_t deadline_us = hold_of(OWNER)->deadline_us;
    stage_pass(&stage, 100000);
    stage.connected = false;
    for (unsigned i = 2; i <= 4; i++) {
        assert_int_equal(stage_acquire_now(&stage, &handle, OWNER), PAWL_OK); /* at once */
        assert_int_equal(hold_of(OWNER)->count, i);
    }
    assert_int_equal(stage_release_now(&stage, &handle, OWNER), PAWL_OK); /* so is a part release */
    assert_int_equal(stage.submitted[PAWL__OP_RELEASE], 0);
    stage.connected = true;
    stage_flush(&stage);
    assert_int_equal(entry()->count, 3); /* in the end it is right, and absolute */
    assert_int_equal(entry()->expires_us, expires_us);
    assert_int_equal(hold_of(OWNER)->deadline_us, deadline_us);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(stage_release_now(&stage, &handle, OWNER), PAWL_OK);
    }
    assert_int_equal(stage_release_now(&stage, &handle, OWNER), PAWL_NOT_HELD);
    assert_true(stage_stranger_gets(&stage, "x", 1000));
    stage_pass(&stage, 1000);
}

static void a_count_without_a_hold_is_proof_of_loss(void **state)
{
    (void)state;
    stage_open(&stage, &handle, "x", LEASE_US, true);
    assert_int_equal(stage_acquire_now(&stage, &handle, OWNER), PAWL_OK);
    assert_int_equal(late_copy(PAWL__OP_BREAK, 0), PAWL__DONE);
    assert_int_equal(stage_acquire_now(&stage, &handle, OWNER), PAWL_OK); /* nobody knows yet */
    assert_int_equal(hold_of(OWNER)->state, PAWL__TENURE_LOST);
    assert_int_equal(stage.notice_count, 1);
    assert_int_equal(stage.notices[0].status, PAWL_LOST);
    assert_int_equal(stage_release_now(&stage, &handle, OWNER), PAWL_LOST);
    assert_int_equal(stage_release_now(&stage, &handle, OWNER), PAWL_LOST);
    assert_int_equal(stage_release_now(&stage, &handle, OWNER), PAWL_NOT_HELD);
}

/* A renewal cannot be sent while the count is under way, so the engine has to see to its end, and
 * early enough. */
static void the_count_does_not_hold_up_the_renewals(void **state)
{
    (void)state;
    stage_open(&stage, &handle, "x", LEASE_US, true);
    assert_int_equal(stage_acquire_now(&stage, &handle, OWNER), PAWL_OK);
    stage_pass(&stage, LEASE_US / 3 - 1000);
    stage.connected = false;
    assert_int_equal(stage_acquire_now(&stage, &handle, OWNER), PAWL_OK);
    struct pawl__op *op = stage.out;
    assert_int_equal(op->kind, PAWL__OP_COUNT);
    assert_false(op->lazy);
    assert_true(op->deadline_us <= stage.now_us + VALID_US / 2);
    stage_pass(&stage, op->deadline_us - stage.now_us);
    assert_ptr_equal(stage.out, op); /* nothing else has been sent */
    stage.out = NULL;
    stage_answer_as(&stage, op, PAWL__UNKNOWN);
    stage.connected = true;
    stage_pass(&stage, 1); /* the renewal has long been due */
    assert_int_equal(stage.submitted[PAWL__OP_RENEW], 1);
    assert_true(hold_of(OWNER)->deadline_us > stage.now_us + VALID_US - 1000);
    assert_int_equal(stage_release_now(&stage, &handle, OWNER), PAWL_OK);
    assert_int_equal(stage_release_now(&stage, &handle, OWNER), PAWL_OK);
}

static void a_failed_count_is_nothing(void **state)
{
    (void)state;
    stage_open(&stage, &handle, "x", LEASE_US, true);
    assert_int_equal(stage_acquire_now(&stage, &handle, OWNER), PAWL_OK);
    stage.connected = false;
    assert_int_equal(stage_acquire_now(&stage, &handle, OWNER), PAWL_OK);
    stage_answer_as(&stage, stage_reach(&stage), PAWL__UNKNOWN);
    assert_int_equal(hold_of(OWNER)->state, PAWL__TENURE_HELD);
    assert_int_equal(hold_of(OWNER)->count, 2);
    assert_int_equal(stage.notice_count, 0);
    stage.connected = true;
    assert_int_equal(stage_release_now(&stage, &handle, OWNER), PAWL_OK);
    assert_int_equal(stage_release_now(&stage, &handle, OWNER), PAWL_OK);
}

static void re_entry_on_a_fixed_lease_waits_for_the_extension(void **state)
{
    (void)state;
    struct pawl__request request;
    stage_open(&stage, &handle, "x", LEASE_US, false);
    assert_int_equal(stage_acquire_now(&stage, &handle, OWNER), PAWL_OK);
    stage_pass(&stage, 1000000);
    stage.connected = false;
    const int64_t entered_us = stage.now_us;
    stage_acquire(&stage, &request, &handle, OWNER, 0);
    assert_false(request.finished);
    assert_int_equal(hold_of(OWNER)->count, 1);
    stage_pass(&stage, 200000);
    stage_answer(&stage, stage_reach(&stage));
    assert_true(request.finished);
    assert_int_equal(request.status, PAWL_OK);
    assert_int_equal(hold_of(OWNER)->count, 2);
    assert_int_equal(hold_of(OWNER)->deadline_us, entered_us + VALID_US);
    stage.connected = true;
    stage_flush(&stage);
    assert_int_equal(stage_release_now(&stage, &handle, OWNER), PAWL_OK);
    assert_int_equal(stage_release_now(&stage, &handle, OWNER), PAWL_OK);
}

static void re_entry_never_shortens(void **state)
{
    (void)state;
    struct pawl__request request;
    const int64_t hour_us = INT64_C(3600000000);
    stage_open(&stage, &handle, "x", LEASE_US, false);
    assert_int_equal(stage_acquire_now(&stage, &handle, OWNER), PAWL_OK);
    stage_extend(&stage, &request, &handle, OWNER, hour_us);
    assert_int_equal(request.status, PAWL_OK);
    const int64_t deadline_us = hold_of(OWNER)->deadline_us;
    const int64_t expires_us = entry()->expires_us;
    stage_pass(&stage, 500000);
    assert_int_equal(stage_acquire_now(&stage, &handle, OWNER), PAWL_OK);
    assert_true(hold_of(OWNER)->deadline_us >= deadline_us);
    assert_true(entry()->expires_us >= expires_us);
    assert_int_equal(stage_release_now(&stage, &handle, OWNER), PAWL_OK);
    assert_int_equal(stage_release_now(&stage, &handle, OWNER), PAWL_OK);
}

static void a_re_entry_that_was_not_confirmed_did_not_enter(void **state)
{
    (void)state;
    struct pawl__request request;
    stage_open(&stage, &handle, "x", LEASE_US, false);
    assert_int_equal(stage_acquire_now(&stage, &handle, OWNER), PAWL_OK);
    stage.connected = false;
    stage_acquire(&stage, &request, &handle, OWNER, 0);
    stage_answer_as(&stage, stage_reach(&stage), PAWL__UNKNOWN);
    assert_true(request.finished);
    assert_int_equal(request.status, PAWL_UNAVAILABLE);
    pawl__free(request.error);
    assert_int_equal(hold_of(OWNER)->count, 1);
    stage.connected = true;
    assert_int_equal(stage_release_now(&stage, &handle, OWNER), PAWL_OK);
    assert_int_equal(stage_release_now(&stage, &handle, OWNER), PAWL_NOT_HELD);
}

static void handles_may_refuse_to_re_enter(void **state)
{
    (void)state;
    stage_open(&stage, &handle, "x", LEASE_US, true);
    handle.owner = OWNER;
    handle.terms->reentry = false;
    assert_int_equal(stage_acquire_now(&stage, &handle, OWNER), PAWL_OK);
    assert_int_equal(stage_acquire_now(&stage, &handle, OWNER), PAWL_DEADLOCK);
    assert_int_equal(hold_of(OWNER)->count, 1);
    assert_int_equal(stage_release_now(&stage, &handle, OWNER), PAWL_OK);
    assert_int_equal(stage_release_now(&stage, &handle, OWNER), PAWL_NOT_HELD);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(clock_begin, each_tenure_has_its_own_number),
        CASE(clock_begin, a_refused_claim_uses_its_number_up),
        CASE(clock_begin, late_copies_of_an_old_tenure_touch_nothing),
        CASE(clock_begin, the_count_is_shown_but_not_waited_for),
        CASE(clock_begin, a_count_without_a_hold_is_proof_of_loss),
        CASE(clock_begin, the_count_does_not_hold_up_the_renewals),
        CASE(clock_begin, a_failed_count_is_nothing),
        CASE(clock_begin, re_entry_on_a_fixed_lease_waits_for_the_extension),
        CASE(clock_begin, re_entry_never_shortens),
        CASE(clock_begin, a_re_entry_that_was_not_confirmed_did_not_enter),
        CASE(clock_begin, handles_may_refuse_to_re_enter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
