/* SPDX-License-Identifier: Apache-2.0 */
/* P4 on a clock of our own: what happens to a question whose answer was lost.
 *
 * Each time the backend did carry it out, or does so much later; the test decides which copy
 * arrives when. Whatever happens, nothing of a tenure that is over may be left in the backend
 * longer than one lease after its last copy was sent. */
#include "promise/lib/clock.h"

#define LEASE_US 3000000
#define VALID_US VALID_FOR_US(LEASE_US)

static int begin(void **state)
{
    (void)state;
    return clock_begin_with(LEASE_US, false);
}

static int begin_renewed(void **state)
{
    (void)state;
    return clock_begin_with(LEASE_US, true);
}

static bool is_held(void)
{
    const struct pawl__memory_entry *entry = pawl__memory_look(&stage.table, "x", 1);
    return entry != NULL && entry->held && stage.now_us < entry->expires_us;
}

/* The backend carries out a copy of this tenure's acquire. */
static void copy_arrives(uint64_t id)
{
    struct pawl__place place = {.name = "x", .name_size = 1};
    struct pawl__op op = {
        .place = &place, .kind = PAWL__OP_ACQUIRE, .id = id, .lease_us = LEASE_US};
    pawl__memory_apply(&stage.table, &stage.client, &op, stage.now_us);
}

/* Answer the oldest operation as the backend does, from a connection that cannot rule out late
 * copies. */
static void answer_unfenced(void)
{
    struct pawl__op *op = stage_reach(&stage);
    op->fenced = false;
    stage_answer(&stage, op);
}

/* ===== Acquire ===== */

static void a_lost_answer_is_asked_for_again_by_the_same_tenure(void **state)
{
    (void)state;
    struct pawl__request request;
    stage.connected = false;
    stage_acquire(&stage, &request, &handle, OWNER, 5000000);
    struct pawl__op *op = stage_reach(&stage); /* granted, but nobody hears it */
    const uint64_t id = op->id;
    const uint64_t token = op->token;
    stage_answer_as(&stage, op, PAWL__UNKNOWN);
    assert_false(request.finished);
    stage_pass(&stage, 100000); /* a pause, then again */
    op = stage_reach(&stage);
    assert_int_equal(op->kind, PAWL__OP_ACQUIRE);
    assert_int_equal(op->id, id);
    assert_int_equal(op->token, token);
    const int64_t sent_us = op->sent_us;
    stage_answer(&stage, op);
    assert_true(request.finished);
    assert_int_equal(request.status, PAWL_OK);
    const struct pawl__tenure *hold =
        pawl__machine_find(&stage.machine, &handle, OWNER, stage.now_us);
    assert_int_equal(hold->count, 1);
    assert_int_equal(hold->deadline_us, sent_us + VALID_US); /* from its own sending */
    assert_int_equal(pawl__memory_look(&stage.table, "x", 1)->count, 1);
    stage.connected = true;
    assert_int_equal(stage_release_now(&stage, &handle, OWNER), PAWL_OK);
    assert_false(is_held());
}

static void a_try_asks_again_until_its_time_is_up(void **state)
{
    (void)state;
    struct pawl__request request;
    stage.connected = false;
    const int64_t began_us = stage.now_us;
    stage_acquire(&stage, &request, &handle, OWNER, 0);
    stage_answer_as(&stage, stage_reach(&stage), PAWL__UNKNOWN);
    assert_false(request.finished);
    stage_answer_as(&stage, stage_reach(&stage), PAWL__UNKNOWN);
    assert_false(request.finished);
    stage_pass(&stage, TIMEOUT_US - 1);
    assert_false(request.finished);
    stage_pass(&stage, 1);
    assert_int_equal(clock_ended(&request), PAWL_UNAVAILABLE);
    assert_int_equal(stage.now_us, began_us + TIMEOUT_US);
    stage.connected = true;
    stage_flush(&stage);
    stage_pass(&stage, 1);
    assert_false(is_held()); /* taken back as soon as there was an answer */
}

/* A try is granted, and its caller leaves before the answer has come, which is still to be told. */
static struct pawl__op *give_up_on_a_grant(void)
{
    struct pawl__request request;
    stage.connected = false;
    stage_acquire(&stage, &request, &handle, OWNER, 0);
    struct pawl__op *op = stage_reach(&stage);
    stage_pass(&stage, TIMEOUT_US);
    assert_int_equal(clock_ended(&request), PAWL_UNAVAILABLE);
    return op;
}

static void who_gave_up_has_it_taken_back(void **state)
{
    (void)state;
    struct pawl__op *op = give_up_on_a_grant();
    assert_true(is_held());
    stage_answer(&stage, op); /* granted, too late */
    op = stage_reach(&stage);
    assert_int_equal(op->kind, PAWL__OP_RELEASE);
    stage_answer(&stage, op);
    assert_false(is_held());
    assert_null(stage.out);
}

static void who_was_canceled_has_it_taken_back(void **state)
{
    (void)state;
    struct pawl__request request;
    stage.connected = false;
    stage_acquire(&stage, &request, &handle, OWNER, PAWL__NEVER);
    struct pawl__op *op = stage_reach(&stage);
    pawl__machine_cancel(&stage.machine, &handle, stage.now_us);
    stage_pass(&stage, 0);
    assert_int_equal(request.status, PAWL_CANCELED);
    stage_answer_as(&stage, op, PAWL__UNKNOWN);
    stage.connected = true;
    stage_flush(&stage);
    assert_false(is_held());
}

/* Releases that fail are repeated until the lease of the last copy is over, and no longer. */
static void taking_back_ends_with_the_lease(void **state)
{
    (void)state;
    const int64_t copy_us = stage.now_us;
    struct pawl__op *op = give_up_on_a_grant();
    stage_answer_as(&stage, op, PAWL__UNKNOWN);
    int64_t last_us = 0;
    while (stage.out != NULL && stage.now_us < copy_us + 2 * LEASE_US) {
        last_us = stage.now_us;
        stage_answer_as(&stage, clock_take(), PAWL__FAILED);
        for (int i = 0; i < 100 && stage.out == NULL; i++) {
            stage_pass(&stage, 10000);
        }
    }
    assert_in_range(last_us, copy_us + LEASE_US - 700000, copy_us + LEASE_US + 700000);
    assert_true(stage.submitted[PAWL__OP_RELEASE] >= 4);
    assert_false(is_held());
}

/* The engine cannot say that late copies are dead: the release is repeated, and when the copy does
 * arrive after the first of them, a later one takes it back. */
static void without_a_fence_a_copy_that_comes_late_is_taken_back(void **state)
{
    (void)state;
    struct pawl__request request;
    stage.connected = false;
    const int64_t copy_us = stage.now_us;
    stage_acquire(&stage, &request, &handle, OWNER, 0);
    struct pawl__op *op = clock_take(); /* it is somewhere on the way */
    const uint64_t id = op->id;
    stage_answer_as(&stage, op, PAWL__UNKNOWN);
    stage_pass(&stage, TIMEOUT_US);
    assert_int_equal(clock_ended(&request), PAWL_UNAVAILABLE);
    while (stage.out != NULL && stage.out->kind == PAWL__OP_ACQUIRE) {
        stage_answer_as(&stage, stage_reach(&stage), PAWL__FAILED);
    }
    assert_non_null(stage.out);
    answer_unfenced(); /* nothing there */
    copy_arrives(id);
    assert_true(is_held());
    const int64_t arrived_us = stage.now_us;
    while (is_held() && stage.now_us < copy_us + LEASE_US) {
        stage_pass(&stage, 1000);
        if (stage.out != NULL) {
            answer_unfenced();
        }
    }
    assert_false(is_held());
    assert_true(stage.now_us - arrived_us <= 620000); /* the longest pause, half a second + 20 % */
    for (int i = 0; i < 400; i++) {
        stage_pass(&stage, 10000);
        if (stage.out != NULL) {
            assert_true(stage.now_us < copy_us + LEASE_US + 700000);
            answer_unfenced();
        }
    }
}

static void with_a_fence_one_release_is_enough(void **state)
{
    (void)state;
    struct pawl__op *op = give_up_on_a_grant();
    stage_answer_as(&stage, op, PAWL__UNKNOWN);
    const unsigned before = stage.submitted[PAWL__OP_RELEASE];
    stage_answer(&stage, stage_reach(&stage));
    stage_pass(&stage, LEASE_US);
    assert_null(stage.out);
    assert_int_equal(stage.submitted[PAWL__OP_RELEASE], before);
}

/* ===== Release ===== */

/* Hold it, release, the backend does it, the answer is lost. */
static void release_unheard(struct pawl__request *request)
{
    assert_int_equal(stage_acquire_now(&stage, &handle, OWNER), PAWL_OK);
    stage_pass(&stage, LEASE_US - 500000);
    stage.connected = false;
    stage_release(&stage, request, &handle, OWNER);
    struct pawl__op *op = stage_reach(&stage);
    assert_int_equal(op->answer, PAWL__DONE);
    stage_answer_as(&stage, op, PAWL__UNKNOWN);
    assert_false(request->finished);
    stage_pass(&stage, 100000);
    assert_non_null(stage.out); /* asked again */
}

static void a_repeated_release_that_finds_nothing_is_ok_before_the_deadline(void **state)
{
    (void)state;
    struct pawl__request request;
    release_unheard(&request);
    stage_answer(&stage, stage_reach(&stage));
    assert_true(request.finished);
    assert_int_equal(request.status, PAWL_OK);
    assert_int_equal(stage.notice_count, 0);
}

static void a_repeated_release_that_finds_nothing_is_lost_after_it(void **state)
{
    (void)state;
    struct pawl__request request;
    release_unheard(&request);
    struct pawl__op *op = stage_reach(&stage);
    assert_int_equal(op->answer, PAWL__GONE);
    stage_pass(&stage, 400000);
    stage_answer(&stage, op);
    assert_true(request.finished);
    assert_int_equal(request.status, PAWL_LOST);
    assert_int_equal(stage.notice_count, 1);
}

static void a_first_release_that_finds_nothing_is_lost(void **state)
{
    (void)state;
    assert_int_equal(stage_acquire_now(&stage, &handle, OWNER), PAWL_OK);
    clock_break_quietly();
    assert_int_equal(stage_release_now(&stage, &handle, OWNER), PAWL_LOST);
    assert_int_equal(stage.notice_count, 1);
}

static void a_release_that_never_left_does_not_excuse_a_loss(void **state)
{
    (void)state;
    struct pawl__request request;
    assert_int_equal(stage_acquire_now(&stage, &handle, OWNER), PAWL_OK);
    stage.connected = false;
    stage_release(&stage, &request, &handle, OWNER);
    stage_answer_as(&stage, clock_take(), PAWL__FAILED);
    clock_break_quietly();
    stage_pass(&stage, 100000);
    stage_answer(&stage, stage_reach(&stage));
    assert_true(request.finished);
    assert_int_equal(request.status, PAWL_LOST);
}

static void after_the_deadline_it_is_lost_but_still_sent(void **state)
{
    (void)state;
    assert_int_equal(stage_acquire_now(&stage, &handle, OWNER), PAWL_OK);
    stage_jump(&stage, VALID_US); /* in the backend it stands a little longer */
    assert_true(is_held());
    assert_int_equal(stage_release_now(&stage, &handle, OWNER), PAWL_LOST);
    assert_int_equal(stage.submitted[PAWL__OP_RELEASE], 1);
    assert_false(is_held());
}

static void a_release_without_answer_goes_on_until_the_lease_is_over(void **state)
{
    (void)state;
    struct pawl__request request;
    assert_int_equal(stage_acquire_now(&stage, &handle, OWNER), PAWL_OK);
    const int64_t acquired_us = stage.now_us;
    stage.connected = false;
    stage_release(&stage, &request, &handle, OWNER);
    int64_t told_us = 0;
    while (stage.now_us < acquired_us + 2 * LEASE_US) {
        if (stage.out != NULL) {
            assert_true(stage.now_us <= acquired_us + LEASE_US);
            stage_answer_as(&stage, clock_take(), PAWL__FAILED);
        }
        told_us = request.finished && told_us == 0 ? stage.now_us : told_us;
        stage_pass(&stage, 1000);
    }
    assert_int_equal(clock_ended(&request), PAWL_UNAVAILABLE);
    assert_in_range(told_us, acquired_us + TIMEOUT_US, acquired_us + TIMEOUT_US + 1000);
    assert_true(stage.submitted[PAWL__OP_RELEASE] >= 5);
}

/* The backend has lengthened it, and nobody heard that. */
static void lengthened_unheard(struct pawl__op *op, int64_t least_us)
{
    assert_int_equal(op->kind, PAWL__OP_RENEW);
    assert_int_equal(op->answer, PAWL__DONE);
    stage_answer_as(&stage, op, PAWL__UNKNOWN);
    assert_true(pawl__memory_look(&stage.table, "x", 1)->expires_us >= stage.now_us + least_us);
}

/* The hold lasts that long from now, and its owner was not told. */
static void acquire_and_extend_unheard(int64_t lease_us)
{
    struct pawl__request extension;
    assert_int_equal(stage_acquire_now(&stage, &handle, OWNER), PAWL_OK);
    stage.connected = false;
    stage_extend(&stage, &extension, &handle, OWNER, lease_us);
    lengthened_unheard(stage_reach(&stage), lease_us);
    assert_int_equal(clock_ended(&extension), PAWL_UNAVAILABLE);
}

/* Nothing gets through until then; how often a release was tried meanwhile. */
static unsigned fail_until(int64_t until_us)
{
    const unsigned before = stage.submitted[PAWL__OP_RELEASE];
    while (stage.now_us < until_us) {
        if (stage.out != NULL) {
            stage_answer_as(&stage, clock_take(), PAWL__FAILED);
        }
        stage_pass(&stage, 10000);
    }
    return stage.submitted[PAWL__OP_RELEASE] - before;
}

static void a_release_goes_on_until_an_extension_that_was_unheard_is_over(void **state)
{
    (void)state;
    struct pawl__request release;
    acquire_and_extend_unheard(5 * LEASE_US);
    const int64_t until_us = stage.now_us + 5 * LEASE_US;
    stage_release(&stage, &release, &handle, OWNER);
    fail_until(until_us - 1500000);
    assert_int_equal(clock_ended(&release), PAWL_UNAVAILABLE);
    assert_true(is_held());
    assert_true(fail_until(until_us - 700000) > 0); /* it still tries */
    stage.connected = true;
    stage_flush(&stage);
    stage_pass(&stage, 650000);
    assert_false(is_held());
}

/* The same for a renewal, and a release that comes when the hold is lost. */
static void a_lost_hold_is_freed_until_a_renewal_that_was_unheard_is_over(void **state)
{
    (void)state;
    struct pawl__request release;
    const int64_t acquired_us = stage.now_us;
    assert_int_equal(stage_acquire_now(&stage, &handle, OWNER), PAWL_OK);
    stage.connected = false;
    while (stage.now_us < acquired_us + LEASE_US) {
        stage_pass(&stage, 10000);
        if (stage.out != NULL) {
            lengthened_unheard(stage_reach(&stage), LEASE_US);
        }
    }
    stage_release(&stage, &release, &handle, OWNER);
    assert_int_equal(clock_ended(&release), PAWL_LOST);
    assert_true(is_held());
    assert_true(fail_until(stage.now_us + 700000) > 0);
    stage.connected = true;
    stage_flush(&stage);
    stage_pass(&stage, 700000);
    assert_true(stage.now_us < acquired_us + 3 * LEASE_US / 2);
    assert_false(is_held());
}

/* An extension that was unheard keeps nobody busy for longer than it lasts. */
static void a_release_ends_with_an_extension_that_was_unheard(void **state)
{
    (void)state;
    struct pawl__request release;
    acquire_and_extend_unheard(2 * LEASE_US);
    const int64_t until_us = stage.now_us + 2 * LEASE_US;
    stage_release(&stage, &release, &handle, OWNER);
    fail_until(until_us + 1000);
    assert_int_equal(clock_ended(&release), PAWL_UNAVAILABLE);
    assert_int_equal(fail_until(until_us + LEASE_US), 0);
}

/* The first copy has freed it, unheard. Its caller has left, and the time of the hold, which nobody
 * had any more, is over when the repetition finds nothing: that is no loss. */
static void a_release_that_was_unheard_is_not_told_as_a_loss(void **state)
{
    (void)state;
    struct pawl__request release;
    acquire_and_extend_unheard(5 * LEASE_US);
    const int64_t acquired_us = stage.now_us;
    stage_release(&stage, &release, &handle, OWNER);
    stage_answer_as(&stage, stage_reach(&stage), PAWL__UNKNOWN);
    assert_false(is_held());
    fail_until(acquired_us + 2 * LEASE_US);
    assert_int_equal(clock_ended(&release), PAWL_UNAVAILABLE);
    stage.connected = true;
    stage_flush(&stage);
    stage_pass(&stage, 700000);
    assert_int_equal(stage.notice_count, 0);
    assert_true(pawl__list_empty(&stage.machine.tenures));
}

/* Two threads of us: the answer to the one who waits comes behind that to a release which takes
 * back what another was granted in vain. Not every engine tells us what we do ourselves. */
static void who_hears_too_late_that_it_is_held_asks_again(void **state)
{
    (void)state;
    struct pawl__request gone;
    struct pawl__request request;
    assert_true(stage_stranger_gets(&stage, "x", LEASE_US));
    stage_acquire(&stage, &gone, &handle, OWNER, PAWL__NEVER); /* and listens */
    stage.connected = false;
    clock_break_quietly();
    pawl__machine_wake(&stage.machine, "x", 1, 0, stage.now_us);
    stage_pass(&stage, 0);
    struct pawl__op *granted = stage_reach(&stage);
    assert_int_equal(granted->answer, PAWL__DONE);
    pawl__machine_cancel(&stage.machine, &handle, stage.now_us);
    assert_int_equal(clock_ended(&gone), PAWL_CANCELED);

    stage_acquire(&stage, &request, &handle, OTHER, PAWL__NEVER);
    struct pawl__op *held = stage_reach(&stage);
    assert_int_equal(held->answer, PAWL__HELD);
    stage_answer(&stage, granted);
    struct pawl__op *release = clock_take();
    assert_int_equal(release->kind, PAWL__OP_RELEASE);
    clock_break_quietly();
    stage_answer_as(&stage, release, PAWL__DONE);
    stage_answer(&stage, held);
    assert_non_null(stage.out);
    stage_answer(&stage, stage_reach(&stage));
    assert_int_equal(clock_ended(&request), PAWL_OK);
    stage.connected = true;
    assert_int_equal(stage_release_now(&stage, &handle, OTHER), PAWL_OK);
    stage_pass(&stage, GIVE_UP_US); /* the watch ends */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(begin, a_lost_answer_is_asked_for_again_by_the_same_tenure),
        CASE(begin, a_try_asks_again_until_its_time_is_up),
        CASE(begin, who_gave_up_has_it_taken_back),
        CASE(begin, who_was_canceled_has_it_taken_back),
        CASE(begin, taking_back_ends_with_the_lease),
        CASE(begin, without_a_fence_a_copy_that_comes_late_is_taken_back),
        CASE(begin, with_a_fence_one_release_is_enough),
        CASE(begin, a_repeated_release_that_finds_nothing_is_ok_before_the_deadline),
        CASE(begin, a_repeated_release_that_finds_nothing_is_lost_after_it),
        CASE(begin, a_first_release_that_finds_nothing_is_lost),
        CASE(begin, a_release_that_never_left_does_not_excuse_a_loss),
        CASE(begin, after_the_deadline_it_is_lost_but_still_sent),
        CASE(begin, a_release_without_answer_goes_on_until_the_lease_is_over),
        CASE(begin, a_release_goes_on_until_an_extension_that_was_unheard_is_over),
        CASE(begin_renewed, a_lost_hold_is_freed_until_a_renewal_that_was_unheard_is_over),
        CASE(begin, a_release_ends_with_an_extension_that_was_unheard),
        CASE(begin, a_release_that_was_unheard_is_not_told_as_a_loss),
        CASE(begin, who_hears_too_late_that_it_is_held_asks_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
