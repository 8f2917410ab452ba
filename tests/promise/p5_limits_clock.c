/* SPDX-License-Identifier: Apache-2.0 */
/* P5 on a clock of our own: when each call ends if nobody answers, and how long a waiter sleeps
 * without a message, to the microsecond.
 *
 * The silent backend is played as an engine has to: what was submitted ends as unknown at its
 * deadline. */
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
#define LEASE_US 60000000
#define TIMEOUT_US 1000000
#define GIVE_UP_US 30000000
#define POLL_MOST_US 1200000 /* a second + 20 % */

static struct stage stage;
static struct pawl__handle handle;

static int begin(void **state)
{
    (void)state;
    stage_begin(&stage);
    stage_open(&stage, &handle, "x", LEASE_US, true);
    return 0;
}

static int end(void **state)
{
    (void)state;
    stage_close(&stage, &handle);
    stage_end(&stage);
    return 0;
}

/* Let time pass in which no answer comes. */
static void pass_silently(int64_t duration_us)
{
    const int64_t end_us = stage.now_us + duration_us;
    stage.connected = false;
    while (stage.now_us < end_us) {
        int64_t due_us = end_us;
        for (const struct pawl__op *op = stage.out; op != NULL; op = op->next) {
            due_us = pawl__min64(due_us, op->deadline_us);
        }
        due_us = pawl__min64(due_us, pawl__machine_due(&stage.machine));
        stage_pass(&stage, pawl__max64(due_us - stage.now_us, 0));
        while (stage.out != NULL && stage.out->deadline_us <= stage.now_us) {
            struct pawl__op *op = stage.out;
            stage.out = op->next;
            op->next = NULL;
            stage_answer_as(&stage, op, PAWL__UNKNOWN);
        }
    }
}

static void assert_ends_after(struct pawl__request *request, int64_t limit_us, pawl_status status)
{
    pass_silently(request->start_us + limit_us - 1 - stage.now_us);
    assert_false(request->finished);
    pass_silently(1);
    assert_true(request->finished);
    assert_int_equal(request->status, status);
    pawl__free(request->error);
    request->error = NULL;
}

static void heal(void)
{
    stage.connected = true;
    stage_flush(&stage);
    stage_pass(&stage, 1000000);
}

/* ===== Nobody answers ===== */

static void a_try_ends_by_the_timeout(void **state)
{
    (void)state;
    struct pawl__request request;
    stage.connected = false;
    stage_acquire(&stage, &request, &handle, OWNER, 0);
    assert_ends_after(&request, TIMEOUT_US, PAWL_UNAVAILABLE);
    heal();
}

static void a_short_wait_ends_by_the_timeout(void **state)
{
    (void)state;
    struct pawl__request request;
    stage.connected = false;
    stage_acquire(&stage, &request, &handle, OWNER, 100000);
    assert_ends_after(&request, TIMEOUT_US, PAWL_UNAVAILABLE);
    heal();
}

static void a_long_wait_ends_by_its_own_length(void **state)
{
    (void)state;
    struct pawl__request request;
    stage.connected = false;
    stage_acquire(&stage, &request, &handle, OWNER, 3456789);
    assert_ends_after(&request, 3456789, PAWL_UNAVAILABLE);
    heal();
}

static void forever_ends_when_nobody_has_answered_for_so_long(void **state)
{
    (void)state;
    struct pawl__request request;
    stage.connected = false;
    stage_acquire(&stage, &request, &handle, OWNER, PAWL__NEVER);
    assert_ends_after(&request, GIVE_UP_US, PAWL_UNAVAILABLE);
    heal();
}

static void forever_goes_on_through_outages(void **state)
{
    (void)state;
    struct pawl__request request;
    assert_true(stage_stranger_gets(&stage, "x", 10 * (int64_t)LEASE_US));
    stage_acquire(&stage, &request, &handle, OWNER, PAWL__NEVER);
    for (int i = 0; i < 3; i++) {
        pass_silently(GIVE_UP_US - 2 * TIMEOUT_US);
        assert_false(request.finished);
        stage.connected = true;
        stage_flush(&stage);
        stage_pass(&stage, 2 * POLL_MOST_US); /* "held" is an answer */
        assert_false(request.finished);
    }
    /* Counted from when the first question without an answer was sent, at most one sleep later. */
    const int64_t silent_us = stage.now_us;
    while (!request.finished) {
        pass_silently(1000);
    }
    assert_in_range(stage.now_us - silent_us, GIVE_UP_US - 1000, GIVE_UP_US + POLL_MOST_US + 1000);
    assert_int_equal(request.status, PAWL_UNAVAILABLE);
    pawl__free(request.error);
    heal();
}

static void release_and_extend_end_by_the_timeout(void **state)
{
    (void)state;
    struct pawl__request request;
    assert_int_equal(stage_acquire_now(&stage, &handle, OWNER), PAWL_OK);
    stage.connected = false;
    stage_extend(&stage, &request, &handle, OWNER, LEASE_US);
    assert_ends_after(&request, TIMEOUT_US, PAWL_UNAVAILABLE);
    stage_release(&stage, &request, &handle, OWNER);
    assert_ends_after(&request, TIMEOUT_US, PAWL_UNAVAILABLE);
    heal();
}

static void inspect_and_break_end_by_the_timeout(void **state)
{
    (void)state;
    static const enum pawl__request_kind kinds[] = {PAWL__WANT_INSPECT, PAWL__WANT_BREAK};
    for (size_t i = 0; i < 2; i++) {
        pawl_lock_info info;
        struct pawl__request request = {.kind = kinds[i],
            .handle = &handle,
            .owner = OWNER,
            .start_us = stage.now_us,
            .end_us = stage.now_us + TIMEOUT_US,
            .info_out = i == 0 ? &info : NULL};
        stage.connected = false;
        pawl__machine_start(&stage.machine, &request, stage.now_us);
        assert_ends_after(&request, TIMEOUT_US, PAWL_UNAVAILABLE);
    }
    heal();
}

/* ===== Somebody holds it ===== */

static void busy_if_held_was_the_last_word(void **state)
{
    (void)state;
    struct pawl__request request;
    assert_true(stage_stranger_gets(&stage, "x", LEASE_US));
    assert_int_equal(stage_acquire_now(&stage, &handle, OWNER), PAWL_BUSY); /* a try, at once */
    stage_acquire(&stage, &request, &handle, OWNER, 300000);
    stage_pass(&stage, 299999);
    assert_false(request.finished);
    stage_pass(&stage, 1); /* at its own time, not at the timeout */
    assert_true(request.finished);
    assert_int_equal(request.status, PAWL_BUSY);
    stage_pass(&stage, 1000000);
}

static void unavailable_if_there_was_no_word_since(void **state)
{
    (void)state;
    struct pawl__request request;
    assert_true(stage_stranger_gets(&stage, "x", LEASE_US));
    stage_acquire(&stage, &request, &handle, OWNER, 5000000);
    stage_pass(&stage, 100000);
    assert_ends_after(&request, 5000000, PAWL_UNAVAILABLE);
    heal();
}

static void everybody_in_the_local_queue_ends_in_time(void **state)
{
    (void)state;
    struct pawl__request requests[5];
    assert_true(stage_stranger_gets(&stage, "x", LEASE_US));
    for (size_t i = 0; i < 5; i++) {
        stage_acquire(&stage, &requests[i], &handle, 100 + i, (int64_t)(5 - i) * 200000);
    }
    for (size_t i = 5; i-- > 0;) {
        stage_pass(&stage, 199999);
        assert_false(requests[i].finished);
        stage_pass(&stage, 1);
        assert_true(requests[i].finished);
        assert_int_equal(requests[i].status, PAWL_BUSY);
    }
    stage_pass(&stage, 1000000);
}

/* ===== Sleeping ===== */

/* The stranger lets go, and no message tells of it. */
static void let_go_quietly(void)
{
    struct pawl__place place = {"x", 1, NULL};
    struct pawl__op op = {.place = &place, .kind = PAWL__OP_BREAK};
    pawl__memory_apply(&stage.table, &stage.stranger, &op, stage.now_us);
    while (pawl__memory_woken(&stage.table) != NULL) {
    }
}

static void a_message_that_never_comes_costs_a_second(void **state)
{
    (void)state;
    int64_t most_us = 0;
    for (int i = 0; i < 50; i++) {
        struct pawl__request request;
        assert_true(stage_stranger_gets(&stage, "x", LEASE_US));
        stage_acquire(&stage, &request, &handle, OWNER, PAWL__NEVER);
        stage_pass(&stage, 37000 * (i + 1));
        assert_false(request.finished);
        let_go_quietly();
        const int64_t free_us = stage.now_us;
        while (!request.finished) {
            stage_pass(&stage, 1000);
        }
        most_us = pawl__max64(most_us, stage.now_us - free_us);
        assert_int_equal(request.status, PAWL_OK);
        assert_int_equal(stage_release_now(&stage, &handle, OWNER), PAWL_OK);
    }
    assert_in_range(most_us, 600000, POLL_MOST_US + 1000); /* it does sleep, and is bounded */
}

static void the_end_of_the_holders_lease_ends_the_sleep(void **state)
{
    (void)state;
    struct pawl__request request;
    assert_true(stage_stranger_gets(&stage, "x", 300000));
    stage_acquire(&stage, &request, &handle, OWNER, PAWL__NEVER);
    stage_pass(&stage, 299999);
    assert_false(request.finished);
    stage_pass(&stage, 2000);
    assert_true(request.finished);
    assert_int_equal(request.status, PAWL_OK);
    assert_int_equal(stage_release_now(&stage, &handle, OWNER), PAWL_OK);
}

/* Freed between the first question and the subscription: nobody would tell us. */
static void after_subscribing_it_asks_once_more(void **state)
{
    (void)state;
    struct pawl__request request;
    assert_true(stage_stranger_gets(&stage, "x", LEASE_US));
    stage.connected = false;
    stage_acquire(&stage, &request, &handle, OWNER, PAWL__NEVER);
    stage_answer(&stage, stage_reach(&stage));
    struct pawl__op *watch = stage_reach(&stage);
    assert_int_equal(watch->kind, PAWL__OP_WATCH);
    let_go_quietly();
    stage_answer(&stage, watch);
    stage.connected = true;
    stage_flush(&stage);
    assert_true(request.finished); /* in the same microsecond */
    assert_int_equal(request.status, PAWL_OK);
    assert_int_equal(stage_release_now(&stage, &handle, OWNER), PAWL_OK);
}

static void a_subscription_that_fails_is_made_up_for(void **state)
{
    (void)state;
    struct pawl__request request;
    assert_true(stage_stranger_gets(&stage, "x", LEASE_US));
    stage.connected = false;
    stage_acquire(&stage, &request, &handle, OWNER, PAWL__NEVER);
    stage_answer(&stage, stage_reach(&stage));
    struct pawl__op *watch = stage_reach(&stage);
    stage_answer_as(&stage, watch, PAWL__FAILED);
    let_go_quietly();
    stage.connected = true;
    stage_flush(&stage);
    stage_pass(&stage, POLL_MOST_US);
    assert_true(request.finished);
    assert_int_equal(request.status, PAWL_OK);
    assert_int_equal(stage_release_now(&stage, &handle, OWNER), PAWL_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_try_ends_by_the_timeout, begin, end),
        cmocka_unit_test_setup_teardown(a_short_wait_ends_by_the_timeout, begin, end),
        cmocka_unit_test_setup_teardown(a_long_wait_ends_by_its_own_length, begin, end),
        cmocka_unit_test_setup_teardown(
            forever_ends_when_nobody_has_answered_for_so_long, begin, end),
        cmocka_unit_test_setup_teardown(forever_goes_on_through_outages, begin, end),
        cmocka_unit_test_setup_teardown(release_and_extend_end_by_the_timeout, begin, end),
        cmocka_unit_test_setup_teardown(inspect_and_break_end_by_the_timeout, begin, end),
        cmocka_unit_test_setup_teardown(busy_if_held_was_the_last_word, begin, end),
        cmocka_unit_test_setup_teardown(unavailable_if_there_was_no_word_since, begin, end),
        cmocka_unit_test_setup_teardown(everybody_in_the_local_queue_ends_in_time, begin, end),
        cmocka_unit_test_setup_teardown(a_message_that_never_comes_costs_a_second, begin, end),
        cmocka_unit_test_setup_teardown(the_end_of_the_holders_lease_ends_the_sleep, begin, end),
        cmocka_unit_test_setup_teardown(after_subscribing_it_asks_once_more, begin, end),
        cmocka_unit_test_setup_teardown(a_subscription_that_fails_is_made_up_for, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
