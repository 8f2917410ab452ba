/* SPDX-License-Identifier: Apache-2.0 */
/* The traffic around a name: a lock that one caller takes and gives back has none, so that very
 * many can be held; it is made for who has to wait and for what is heard of others. Without memory
 * for it a caller who would have to wait is refused, and what happens after a grant goes on. */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/limits.h"
#include "support/stage.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define SECOND INT64_C(1000000)
#define LEASE_US (3 * SECOND)
#define OWNER 7
#define OTHER 8

static struct stage stage;
static struct pawl__handle handle;

static bool refuse_traffic(size_t size)
{
    return size != sizeof(struct pawl__traffic);
}

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
    pawl__alloc_hook = NULL;
    stage.connected = true;
    stage_flush(&stage);
    stage_close(&stage, &handle);
    stage_pass(&stage, LEASE_US);
    stage_end(&stage);
    return 0;
}

static bool has_traffic(void)
{
    assert_ptr_equal(handle.name->traffic == &pawl__nobody ? NULL : handle.name->traffic,
        handle.name->traffic->own);
    return handle.name->traffic != &pawl__nobody;
}

static void one_caller_makes_none(void **state)
{
    (void)state;
    assert_true(sizeof(struct pawl__name) <= 104);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(stage_acquire_now(&stage, &handle, OWNER), PAWL_OK);
        assert_int_equal(stage_acquire_now(&stage, &handle, OTHER), PAWL_BUSY);
        stage_pass(&stage, LEASE_US); /* with renewals */
        assert_int_equal(stage_release_now(&stage, &handle, OWNER), PAWL_OK);
    }
    assert_false(has_traffic());
}

/* Who claims alone stands in a crowd until the grant. */
static void of_kinds_that_crowd_a_hold_has_none(void **state)
{
    (void)state;
    static const pawl_kind kinds[] = {PAWL_FAIR, PAWL_READ, PAWL_WRITE};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        stage_close(&stage, &handle);
        stage_open_kind(&stage, &handle, "x", kinds[i], LEASE_US, true);
        assert_int_equal(stage_acquire_now(&stage, &handle, OWNER), PAWL_OK);
        assert_false(has_traffic());
        stage_pass(&stage, LEASE_US);
        assert_false(has_traffic());
        assert_int_equal(stage_release_now(&stage, &handle, OWNER), PAWL_OK);
    }
}

static void without_memory_for_a_crowd_nobody_claims(void **state)
{
    (void)state;
    stage_close(&stage, &handle);
    stage_open_kind(&stage, &handle, "x", PAWL_READ, LEASE_US, true);
    assert_int_equal(stage_acquire_now(&stage, &handle, OWNER), PAWL_OK);
    pawl__alloc_hook = refuse_traffic;
    assert_int_equal(stage_acquire_now(&stage, &handle, OTHER), PAWL_NO_MEMORY);
    stage_pass(&stage, LEASE_US); /* what there is goes on */
    assert_int_equal(stage_release_now(&stage, &handle, OWNER), PAWL_OK);
    assert_int_equal(stage_acquire_now(&stage, &handle, OTHER), PAWL_NO_MEMORY);
    pawl__alloc_hook = NULL;
    assert_int_equal(stage_acquire_now(&stage, &handle, OTHER), PAWL_OK);
    assert_int_equal(stage_release_now(&stage, &handle, OTHER), PAWL_OK);
}

static void a_wake_up_of_all_names_makes_none(void **state)
{
    (void)state;
    assert_int_equal(stage_acquire_now(&stage, &handle, OWNER), PAWL_OK);
    pawl__machine_wake(&stage.machine, NULL, 0, 0, stage.now_us);
    pawl__machine_reconnected(&stage.machine, stage.now_us);
    stage_pass(&stage, SECOND);
    assert_int_equal(stage_release_now(&stage, &handle, OWNER), PAWL_OK);
    assert_false(has_traffic());
}

/* An outage leaves nothing behind at those who hold. */
static void silence_makes_it_for_as_long_as_it_lasts(void **state)
{
    (void)state;
    assert_int_equal(stage_acquire_now(&stage, &handle, OWNER), PAWL_OK);
    stage.connected = false;
    stage_pass(&stage, LEASE_US / 3);
    struct pawl__op *renewal = stage.out;
    assert_int_equal(renewal->kind, PAWL__OP_RENEW);
    stage.out = NULL; /* it never gets there */
    stage_answer_as(&stage, renewal, PAWL__UNKNOWN);
    assert_true(has_traffic());
    stage.connected = true;
    stage_pass(&stage, SECOND);
    assert_false(has_traffic());
    assert_int_equal(stage_release_now(&stage, &handle, OWNER), PAWL_OK);
}

static void who_waits_for_another_client_makes_it(void **state)
{
    (void)state;
    struct pawl__request request;
    assert_true(stage_stranger_gets(&stage, "x", SECOND));
    stage_acquire(&stage, &request, &handle, OWNER, PAWL__NEVER);
    assert_false(request.finished);
    assert_true(has_traffic());
    assert_int_equal(handle.name->traffic->watch, PAWL__WATCHED);
    stage_pass(&stage, 2 * SECOND);
    assert_true(request.finished);
    assert_int_equal(request.status, PAWL_OK);
    assert_int_equal(stage_release_now(&stage, &handle, OWNER), PAWL_OK);
}

static void who_would_wait_in_line_without_memory_is_refused(void **state)
{
    (void)state;
    struct pawl__request request;
    assert_int_equal(stage_acquire_now(&stage, &handle, OWNER), PAWL_OK);
    pawl__alloc_hook = refuse_traffic;
    stage_acquire(&stage, &request, &handle, OTHER, PAWL__NEVER);
    assert_true(request.finished);
    assert_int_equal(request.status, PAWL_NO_MEMORY);
    pawl__alloc_hook = NULL;
    stage_acquire(&stage, &request, &handle, OTHER, PAWL__NEVER);
    assert_false(request.finished);
    assert_int_equal(stage_release_now(&stage, &handle, OWNER), PAWL_OK);
    assert_true(request.finished);
    assert_int_equal(request.status, PAWL_OK);
    assert_int_equal(stage_release_now(&stage, &handle, OTHER), PAWL_OK);
}

/* Who waits for another client hears nothing then, and looks now and then. */
static void who_waits_for_another_client_does_without_memory(void **state)
{
    (void)state;
    struct pawl__request request;
    assert_true(stage_stranger_gets(&stage, "x", SECOND));
    pawl__alloc_hook = refuse_traffic;
    stage_acquire(&stage, &request, &handle, OWNER, PAWL__NEVER);
    assert_false(request.finished);
    stage_pass(&stage, 2 * SECOND);
    assert_true(request.finished);
    assert_int_equal(request.status, PAWL_OK);
    assert_int_equal(stage_release_now(&stage, &handle, OWNER), PAWL_OK);
    assert_false(has_traffic());
}

/* Hold it for longer than a turn, and hear from the release's answer that others wait. */
static void release_to_others(void)
{
    struct pawl__request request;
    assert_int_equal(stage_acquire_now(&stage, &handle, OWNER), PAWL_OK);
    stage_pass(&stage, PAWL__PASSES_US);
    stage.connected = false;
    stage_release(&stage, &request, &handle, OWNER);
    struct pawl__op *op = stage_reach(&stage);
    op->others = true;
    stage_answer(&stage, op);
    stage.connected = true;
    assert_true(request.finished);
    assert_int_equal(request.status, PAWL_OK);
}

static void after_its_turn_it_stands_back_if_there_is_memory(void **state)
{
    (void)state;
    struct pawl__request request;
    pawl__alloc_hook = refuse_traffic;
    release_to_others();
    assert_false(has_traffic());
    assert_int_equal(stage_acquire_now(&stage, &handle, OWNER), PAWL_OK);
    assert_int_equal(stage_release_now(&stage, &handle, OWNER), PAWL_OK);

    pawl__alloc_hook = NULL;
    release_to_others();
    assert_true(has_traffic());
    stage_acquire(&stage, &request, &handle, OWNER, PAWL__NEVER);
    assert_false(request.finished);
    stage_pass(&stage, PAWL__HOLD_OFF_MOST_US);
    assert_true(request.finished);
    assert_int_equal(request.status, PAWL_OK);
    assert_int_equal(stage_release_now(&stage, &handle, OWNER), PAWL_OK);
}

/* Whoever waits for ever is to hear of a backend that is silent, which has to be noted. */
static void who_waits_for_a_silent_backend_without_memory_is_refused(void **state)
{
    (void)state;
    struct pawl__request request;
    pawl__alloc_hook = refuse_traffic;
    stage.connected = false;
    stage_acquire(&stage, &request, &handle, OWNER, PAWL__NEVER);
    stage_answer_as(&stage, stage_reach(&stage), PAWL__UNKNOWN);
    assert_true(request.finished);
    assert_int_equal(request.status, PAWL_NO_MEMORY);
    assert_non_null(stage.out); /* it may have been granted, and is taken back */
    assert_int_equal(stage.out->kind, PAWL__OP_RELEASE);
}

static void a_loss_is_told_without_memory(void **state)
{
    (void)state;
    assert_int_equal(stage_acquire_now(&stage, &handle, OWNER), PAWL_OK);
    pawl__alloc_hook = refuse_traffic;
    stage.connected = false;
    while (stage.notice_count < 2) {
        assert_true(pawl__machine_due(&stage.machine) != PAWL__NEVER);
        stage_pass(&stage, SECOND);
        if (stage.out != NULL) {
            struct pawl__op *op = stage.out;
            stage.out = op->next;
            stage_answer_as(&stage, op, PAWL__FAILED);
        }
    }
    assert_int_equal(stage.notices[0].status, PAWL_UNAVAILABLE);
    assert_int_equal(stage.notices[1].status, PAWL_LOST);
    assert_false(has_traffic());
    assert_int_equal(stage_release_now(&stage, &handle, OWNER), PAWL_LOST);
}

static void a_name_of_those_who_count_is_made_with_it_or_not_at_all(void **state)
{
    (void)state;
    bool fresh = false;
    pawl__alloc_hook = refuse_traffic;
    assert_null(pawl__machine_name(&stage.machine, "s", 1, PAWL__FAMILY_SEMAPHORE, &fresh));
    assert_null(pawl__machine_name(&stage.machine, "l", 1, PAWL__FAMILY_LATCH, &fresh));
    assert_int_equal(stage.machine.names.count, 1);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(one_caller_makes_none),
        CASE(of_kinds_that_crowd_a_hold_has_none),
        CASE(without_memory_for_a_crowd_nobody_claims),
        CASE(a_wake_up_of_all_names_makes_none),
        CASE(silence_makes_it_for_as_long_as_it_lasts),
        CASE(who_waits_for_another_client_makes_it),
        CASE(who_would_wait_in_line_without_memory_is_refused),
        CASE(who_waits_for_another_client_does_without_memory),
        CASE(after_its_turn_it_stands_back_if_there_is_memory),
        CASE(who_waits_for_a_silent_backend_without_memory_is_refused),
        CASE(a_loss_is_told_without_memory),
        CASE(a_name_of_those_who_count_is_made_with_it_or_not_at_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
