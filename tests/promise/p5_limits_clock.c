/* SPDX-License-Identifier: Apache-2.0 */
/* P5 on a clock of our own: when each call ends if nobody answers, and how long a waiter sleeps
 * without a message, to the microsecond.
 *
 * The silent backend is played as an engine has to: what was submitted ends as unknown at its
 * deadline. */
#include "promise/lib/clock.h"

#define LEASE_US 60000000
#define POLL_MOST_US 1200000 /* a second + 20 % */

static int begin(void **state)
{
    (void)state;
    return clock_begin_with(LEASE_US, true);
}

static void assert_ends_after(struct pawl__request *request, int64_t limit_us, pawl_status status)
{
    clock_pass_silently(request->start_us + limit_us - 1 - stage.now_us);
    assert_false(request->finished);
    clock_pass_silently(1);
    assert_int_equal(clock_ended(request), status);
}

/* ===== Nobody answers ===== */

static void assert_wait_ends_after(int64_t wait_us, int64_t limit_us)
{
    struct pawl__request request;
    stage.connected = false;
    stage_acquire(&stage, &request, &handle, OWNER, wait_us);
    assert_ends_after(&request, limit_us, PAWL_UNAVAILABLE);
    clock_heal();
}

static void a_try_ends_by_the_timeout(void **state)
{
    (void)state;
    assert_wait_ends_after(0, TIMEOUT_US);
}

static void a_short_wait_ends_by_the_timeout(void **state)
{
    (void)state;
    assert_wait_ends_after(100000, TIMEOUT_US);
}

static void a_long_wait_ends_by_its_own_length(void **state)
{
    (void)state;
    assert_wait_ends_after(3456789, 3456789);
}

static void forever_ends_when_nobody_has_answered_for_so_long(void **state)
{
    (void)state;
    assert_wait_ends_after(PAWL__NEVER, GIVE_UP_US);
}

static void forever_goes_on_through_outages(void **state)
{
    (void)state;
    struct pawl__request request;
    assert_true(stage_stranger_gets(&stage, "x", 10 * (int64_t)LEASE_US));
    stage_acquire(&stage, &request, &handle, OWNER, PAWL__NEVER);
    for (int i = 0; i < 3; i++) {
        clock_pass_silently(GIVE_UP_US - 2 * TIMEOUT_US);
        assert_false(request.finished);
        stage.connected = true;
        stage_flush(&stage);
        stage_pass(&stage, 2 * POLL_MOST_US); /* "held" is an answer */
        assert_false(request.finished);
    }
    /* Counted from when the first question without an answer was sent, at most one sleep later. */
    const int64_t silent_us = stage.now_us;
    while (!request.finished) {
        clock_pass_silently(1000);
    }
    assert_in_range(stage.now_us - silent_us, GIVE_UP_US - 1000, GIVE_UP_US + POLL_MOST_US + 1000);
    assert_int_equal(clock_ended(&request), PAWL_UNAVAILABLE);
    clock_heal();
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
    clock_heal();
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
    clock_heal();
}

/* ===== Each answer comes when the lease is over ===== */

#define SHORT_US 50000
#define SLOW_US 80000

static void assert_blames_the_lease(const struct pawl__request *request)
{
    assert_non_null(request->error);
    assert_non_null(strstr(request->error, "lock 'x'"));
    assert_non_null(strstr(request->error, "lease of 50 ms"));
    assert_non_null(strstr(request->error, "lease_ms must be longer"));
}

/* Everything that the backend gave in vain has been given back. */
static void assert_free(void)
{
    clock_heal();
    assert_true(stage_stranger_gets(&stage, "x", 1000));
    stage_pass(&stage, 1000);
}

static void forever_ends_if_every_grant_comes_too_late(void **state)
{
    (void)state;
    struct pawl__request request;
    handle.terms->lease_us = SHORT_US;
    stage.connected = false;
    stage_acquire(&stage, &request, &handle, OWNER, PAWL__NEVER);
    clock_pass_slowly(10 * (int64_t)GIVE_UP_US, SLOW_US, &request);
    assert_true(request.finished);
    assert_in_range(stage.now_us - request.start_us, GIVE_UP_US, GIVE_UP_US + 2 * POLL_MOST_US);
    assert_blames_the_lease(&request);
    assert_int_equal(clock_ended(&request), PAWL_UNAVAILABLE);
    assert_free();
}

static void somebody_elses_turns_do_not_make_it_endless(void **state)
{
    (void)state;
    struct pawl__request request;
    handle.terms->lease_us = SHORT_US;
    stage.connected = false;
    stage_acquire(&stage, &request, &handle, OWNER, PAWL__NEVER);
    for (int i = 0; i < 200 && !request.finished; i++) {
        stage_stranger_gets(&stage, "x", 300000); /* "held" is an answer, but no grant */
        clock_pass_slowly(1000000, SLOW_US, &request);
    }
    assert_blames_the_lease(&request);
    assert_int_equal(clock_ended(&request), PAWL_UNAVAILABLE);
    stage_pass(&stage, 300000);
    assert_free();
}

static void one_slow_moment_does_not_end_it(void **state)
{
    (void)state;
    struct pawl__request request;
    handle.terms->lease_us = SHORT_US;
    stage.connected = false;
    stage_acquire(&stage, &request, &handle, OWNER, PAWL__NEVER);
    clock_pass_slowly(GIVE_UP_US / 2, SLOW_US, &request);
    assert_false(request.finished);
    clock_heal();
    assert_int_equal(clock_ended(&request), PAWL_OK);
    assert_int_equal(stage_release_now(&stage, &handle, OWNER), PAWL_OK);
}

/* Not "busy": nobody else has it. */
static void a_limited_wait_says_what_is_wrong(void **state)
{
    (void)state;
    static const int64_t waits_us[] = {0, 3000000};
    handle.terms->lease_us = SHORT_US;
    for (size_t i = 0; i < 2; i++) {
        struct pawl__request request;
        stage.connected = false;
        stage_acquire(&stage, &request, &handle, OWNER, waits_us[i]);
        clock_pass_slowly(2 * waits_us[i] + 2 * TIMEOUT_US, SLOW_US, &request);
        assert_in_range(stage.now_us - request.start_us, pawl__max64(waits_us[i], TIMEOUT_US),
            pawl__max64(waits_us[i], TIMEOUT_US) + SLOW_US);
        assert_blames_the_lease(&request);
        assert_int_equal(clock_ended(&request), PAWL_UNAVAILABLE);
        assert_free();
    }
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
    clock_heal();
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
        clock_break_quietly();
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
    clock_break_quietly();
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
    clock_break_quietly();
    stage.connected = true;
    stage_flush(&stage);
    stage_pass(&stage, POLL_MOST_US);
    assert_true(request.finished);
    assert_int_equal(request.status, PAWL_OK);
    assert_int_equal(stage_release_now(&stage, &handle, OWNER), PAWL_OK);
}

/* The first answer about the name is still under way, to somebody before it. */
static void who_stands_in_line_waits_for_the_first_word(void **state)
{
    (void)state;
    static struct pawl__request first;
    static struct pawl__request second;
    assert_true(stage_stranger_gets(&stage, "x", LEASE_US));
    stage.connected = false;
    stage_acquire(&stage, &first, &handle, OWNER, PAWL__NEVER);
    stage_acquire(&stage, &second, &handle, OTHER, 300000);
    stage_pass(&stage, 500000);
    assert_false(second.finished);
    stage_answer(&stage, stage_reach(&stage)); /* held */
    stage_pass(&stage, TIMEOUT_US - 500000);
    assert_int_equal(clock_ended(&second), PAWL_BUSY);
    pawl__machine_cancel(&stage.machine, &handle, stage.now_us);
    stage.connected = true;
    stage_pass(&stage, 0);
    stage_flush(&stage);
    assert_int_equal(clock_ended(&first), PAWL_CANCELED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(begin, a_try_ends_by_the_timeout),
        CASE(begin, a_short_wait_ends_by_the_timeout),
        CASE(begin, a_long_wait_ends_by_its_own_length),
        CASE(begin, forever_ends_when_nobody_has_answered_for_so_long),
        CASE(begin, forever_goes_on_through_outages),
        CASE(begin, release_and_extend_end_by_the_timeout),
        CASE(begin, inspect_and_break_end_by_the_timeout),
        CASE(begin, forever_ends_if_every_grant_comes_too_late),
        CASE(begin, somebody_elses_turns_do_not_make_it_endless),
        CASE(begin, one_slow_moment_does_not_end_it),
        CASE(begin, a_limited_wait_says_what_is_wrong),
        CASE(begin, busy_if_held_was_the_last_word),
        CASE(begin, unavailable_if_there_was_no_word_since),
        CASE(begin, everybody_in_the_local_queue_ends_in_time),
        CASE(begin, who_stands_in_line_waits_for_the_first_word),
        CASE(begin, a_message_that_never_comes_costs_a_second),
        CASE(begin, the_end_of_the_holders_lease_ends_the_sleep),
        CASE(begin, after_subscribing_it_asks_once_more),
        CASE(begin, a_subscription_that_fails_is_made_up_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
