/* SPDX-License-Identifier: Apache-2.0 */
/* P4 on a clock of our own, for releases that their caller does not wait for: the next of us asks
 * at once, behind it, and whatever its answer says, early, late or never, is still acted on. */
#include "promise/lib/clock.h"

#define LEASE_US 3000000
#define HEARD_US 100000 /* when somebody is to read an answer that nobody has read */
#define TURN_US 10000   /* how long this process may keep a lock that others want */

static int begin(void **state)
{
    (void)state;
    clock_begin_with(LEASE_US, false);
    handle.terms->unawaited = true;
    return 0;
}

/* The oldest question is this one; it reaches the backend, which answers, but nobody hears it. */
static struct pawl__op *reach(enum pawl__op_kind kind)
{
    assert_non_null(stage.out);
    assert_int_equal(stage.out->kind, kind);
    return stage_reach(&stage);
}

/* Hold it and let go: the release lies in stage.out. */
static void hold_and_release(void)
{
    stage.connected = true;
    assert_int_equal(stage_acquire_now(&stage, &handle, OWNER), PAWL_OK);
    stage.connected = false;
    assert_int_equal(stage_release_now(&stage, &handle, OWNER), PAWL_OK);
    assert_int_equal(stage.out->kind, PAWL__OP_RELEASE);
}

static void get(struct pawl__request *request, uint64_t owner)
{
    stage_acquire(&stage, request, &handle, owner, 0);
    assert_false(request->finished);
}

static void release_and_heal(uint64_t owner)
{
    stage.connected = true;
    assert_int_equal(stage_release_now(&stage, &handle, owner), PAWL_OK);
    const struct pawl__memory_entry *entry = pawl__memory_look(&stage.table, "x", 1);
    assert_true(entry == NULL || !entry->held);
}

static void the_next_of_us_asks_behind_it(void **state)
{
    (void)state;
    struct pawl__request request;
    hold_and_release();
    assert_true(stage.out->lazy);
    get(&request, OTHER);
    struct pawl__op *release = reach(PAWL__OP_RELEASE);
    struct pawl__op *acquire = reach(PAWL__OP_ACQUIRE);
    assert_int_equal(acquire->answer, PAWL__DONE);
    stage_answer(&stage, release);
    stage_answer(&stage, acquire);
    assert_int_equal(clock_ended(&request), PAWL_OK);
    release_and_heal(OTHER);
    assert_int_equal(stage.notice_count, 0);
}

static void the_same_caller_may_have_it_again_before_the_answer(void **state)
{
    (void)state;
    struct pawl__request request;
    hold_and_release();
    get(&request, OWNER);
    struct pawl__op *release = reach(PAWL__OP_RELEASE);
    stage_answer(&stage, reach(PAWL__OP_ACQUIRE));
    assert_int_equal(clock_ended(&request), PAWL_OK);
    stage_answer(&stage, release); /* by another connection, say */
    const struct pawl__tenure *hold =
        pawl__machine_find(&stage.machine, &handle, OWNER, stage.now_us);
    assert_int_equal(hold->state, PAWL__TENURE_HELD);
    assert_int_equal(hold->count, 1);
    release_and_heal(OWNER);
}

static void an_answer_that_nobody_has_read_is_asked_for(void **state)
{
    (void)state;
    hold_and_release();
    struct pawl__op *release = reach(PAWL__OP_RELEASE);
    stage_pass(&stage, HEARD_US - 1);
    assert_false(stage.machine.hear);
    stage_pass(&stage, 1);
    assert_true(stage.machine.hear);
    stage_pass(&stage, HEARD_US); /* once */
    assert_null(stage.out);
    stage_answer(&stage, release);
    assert_true(pawl__machine_idle(&stage.machine));
    assert_true(pawl__machine_due(&stage.machine) == PAWL__NEVER);
}

static void with_a_short_timeout_it_is_asked_for_in_time(void **state)
{
    (void)state;
    stage.machine.timeout_us = HEARD_US / 10;
    hold_and_release();
    stage_pass(&stage, HEARD_US / 20);
    assert_true(stage.machine.hear);
    stage_answer(&stage, reach(PAWL__OP_RELEASE));
}

static void one_that_was_read_is_not_asked_for(void **state)
{
    (void)state;
    hold_and_release();
    stage_answer(&stage, reach(PAWL__OP_RELEASE));
    stage_pass(&stage, 2 * HEARD_US);
    assert_false(stage.machine.hear);
}

/* How long it took until somebody read it says nothing about the way to the backend. */
static void a_late_look_does_not_make_us_slow(void **state)
{
    (void)state;
    hold_and_release();
    struct pawl__op *release = reach(PAWL__OP_RELEASE);
    const int64_t rtt_us = stage.machine.rtt_us;
    stage_pass(&stage, HEARD_US);
    stage_answer(&stage, release);
    assert_int_equal(stage.machine.rtt_us, rtt_us);
}

static void a_loss_in_a_late_answer_is_told_once(void **state)
{
    (void)state;
    struct pawl__request request;
    hold_and_release();
    clock_break_quietly(); /* just before the release arrives */
    struct pawl__op *release = reach(PAWL__OP_RELEASE);
    assert_int_equal(release->answer, PAWL__GONE);
    get(&request, OWNER);
    struct pawl__op *acquire = reach(PAWL__OP_ACQUIRE);
    const uint64_t next_token = acquire->token;
    stage_answer(&stage, release);
    stage_answer(&stage, acquire);
    assert_int_equal(clock_ended(&request), PAWL_OK);
    assert_int_equal(stage.notice_count, 1);
    assert_int_equal(stage.notices[0].status, PAWL_LOST);
    assert_true(stage.notices[0].token < next_token); /* that of the hold before */
    release_and_heal(OWNER);
    assert_int_equal(stage.notice_count, 1);
}

/* The connection broke: the release may have arrived or not, and the next question has not. */
static void without_an_answer_it_is_repeated_beside_the_next(void **state)
{
    (void)state;
    struct pawl__request request;
    hold_and_release();
    struct pawl__op *release = clock_take(); /* it has not arrived */
    const uint64_t id = release->id;
    stage_acquire(&stage, &request, &handle, OTHER, PAWL__NEVER);
    stage_answer_as(&stage, release, PAWL__UNKNOWN);
    struct pawl__op *acquire = reach(PAWL__OP_ACQUIRE);
    assert_int_equal(acquire->answer, PAWL__HELD); /* by us, still */
    stage_answer(&stage, acquire);
    stage_answer(&stage, reach(PAWL__OP_WATCH));
    stage_answer(&stage, reach(PAWL__OP_ACQUIRE));
    assert_false(request.finished);
    stage_pass(&stage, 30000); /* a pause, then again */
    assert_int_equal(stage.out->id, id);
    stage.connected = true;
    stage_flush(&stage);
    assert_int_equal(clock_ended(&request), PAWL_OK);
    assert_int_equal(stage.notice_count, 0);
    release_and_heal(OTHER);
    stage_pass(&stage, GIVE_UP_US); /* the watch ends */
}

/* Whoever is to read it may have looked before it was sent, or found that it has to be sent anew.
 */
static void it_is_asked_for_until_it_was_read(void **state)
{
    (void)state;
    hold_and_release();
    stage_pass(&stage, HEARD_US);
    assert_true(stage.machine.hear);
    stage.machine.hear = false;
    stage_pass(&stage, HEARD_US);
    assert_true(stage.machine.hear);
    stage_answer(&stage, reach(PAWL__OP_RELEASE));
    assert_true(pawl__machine_due(&stage.machine) == PAWL__NEVER);
}

/* Two threads of us: the question of the one overtakes the release of the other on the way to the
 * backend. The release, and the waiter, who has heard twice that it is held. */
static struct pawl__op *overtake(struct pawl__request *waiter)
{
    hold_and_release();
    struct pawl__op *release = clock_take();
    stage_acquire(&stage, waiter, &handle, OTHER, PAWL__NEVER);
    stage_answer(&stage, reach(PAWL__OP_ACQUIRE));
    stage_answer(&stage, reach(PAWL__OP_WATCH));
    stage_answer(&stage, reach(PAWL__OP_ACQUIRE));
    assert_null(stage.out);
    return release;
}

/* Not every engine tells us what we do ourselves. */
static void who_has_overtaken_it_asks_when_it_is_answered(void **state)
{
    (void)state;
    struct pawl__request request;
    struct pawl__op *release = overtake(&request);
    clock_break_quietly();
    stage_answer_as(&stage, release, PAWL__DONE);
    stage_answer(&stage, reach(PAWL__OP_ACQUIRE));
    assert_int_equal(clock_ended(&request), PAWL_OK);
    release_and_heal(OTHER);
    stage_pass(&stage, GIVE_UP_US); /* the watch ends */
}

/* The same if the answers overtake each other. */
static void who_hears_too_late_that_it_is_held_asks_again(void **state)
{
    (void)state;
    struct pawl__request request;
    struct pawl__op *release = overtake(&request);
    pawl__machine_wake(&stage.machine, "x", 1, 0, stage.now_us);
    stage_pass(&stage, 0);
    struct pawl__op *acquire = reach(PAWL__OP_ACQUIRE);
    assert_int_equal(acquire->answer, PAWL__HELD);
    clock_break_quietly();
    stage_answer_as(&stage, release, PAWL__DONE);
    stage_answer(&stage, acquire);
    stage_answer(&stage, reach(PAWL__OP_ACQUIRE));
    assert_int_equal(clock_ended(&request), PAWL_OK);
    release_and_heal(OTHER);
    stage_pass(&stage, GIVE_UP_US);
}

/* One of us has asked already, so it is too late to stand back, and it has to hear who calls. */
static void who_has_asked_already_hears_of_the_release_of_others(void **state)
{
    (void)state;
    struct pawl__request request;
    struct pawl__op *release = overtake(&request);
    stage_pass(&stage, TURN_US);
    clock_break_quietly();
    assert_true(stage_stranger_gets(&stage, "x", LEASE_US));
    release->others = true;
    stage_answer_as(&stage, release, PAWL__DONE);
    while (stage.out != NULL) {
        stage_answer(&stage, reach(PAWL__OP_ACQUIRE));
    }
    assert_false(request.finished);
    clock_break_quietly();
    pawl__machine_wake(&stage.machine, "x", 1, 0, stage.now_us);
    stage_pass(&stage, 0);
    stage_answer(&stage, reach(PAWL__OP_ACQUIRE));
    assert_int_equal(clock_ended(&request), PAWL_OK);
    release_and_heal(OTHER);
    stage_pass(&stage, GIVE_UP_US);
}

/* A stranger listens for releases of "x". */
static void stranger_waits(void)
{
    struct pawl__place place = {.name = "x", .name_size = 1};
    struct pawl__op op = {.place = &place, .kind = PAWL__OP_WATCH};
    pawl__memory_apply(&stage.table, &stage.stranger, &op, stage.now_us);
    assert_int_equal(op.answer, PAWL__DONE);
}

/* That others wait is known from the last release. Then they get their turn: the next of us asks
 * when the answer is there, and has stood back. */
static void when_it_is_the_turn_of_others_its_answer_is_awaited(void **state)
{
    (void)state;
    struct pawl__request request;
    stranger_waits();
    hold_and_release();
    stage_answer(&stage, reach(PAWL__OP_RELEASE));
    stage.connected = true;
    assert_int_equal(stage_acquire_now(&stage, &handle, OWNER), PAWL_OK);
    stage.connected = false;
    stage_pass(&stage, TURN_US);
    assert_int_equal(stage_release_now(&stage, &handle, OWNER), PAWL_OK);
    assert_false(stage.out->lazy);
    get(&request, OTHER);
    struct pawl__op *release = reach(PAWL__OP_RELEASE);
    assert_null(stage.out);
    assert_true(stage_stranger_gets(&stage, "x", LEASE_US));
    stage_answer(&stage, release);
    assert_null(stage.out); /* we stand back */
    stage_pass(&stage, TURN_US);
    stage_flush(&stage);
    assert_int_equal(clock_ended(&request), PAWL_BUSY);
}

/* Before that we may go on, as with a release that is awaited. */
static void until_then_the_next_of_us_goes_on(void **state)
{
    (void)state;
    stranger_waits();
    hold_and_release();
    stage_answer(&stage, reach(PAWL__OP_RELEASE));
    hold_and_release();
    assert_true(stage.out->lazy);
    stage_answer(&stage, reach(PAWL__OP_RELEASE));
}

/* Who waits for a spin lock is told by nobody: it would hardly ever find it free. */
static void a_lock_that_tells_nobody_waits_for_its_answer(void **state)
{
    (void)state;
    struct pawl__handle spin;
    struct pawl__request request;
    stage_open_kind(&stage, &spin, "y", PAWL_SPIN, LEASE_US, false);
    spin.terms->unawaited = true;
    assert_int_equal(stage_acquire_now(&stage, &spin, OWNER), PAWL_OK);
    stage.connected = false;
    assert_int_equal(stage_release_now(&stage, &spin, OWNER), PAWL_OK);
    stage_acquire(&stage, &request, &spin, OTHER, 0);
    struct pawl__op *release = reach(PAWL__OP_RELEASE);
    assert_false(release->lazy);
    assert_null(stage.out);
    stage.connected = true;
    stage_answer(&stage, release);
    assert_int_equal(clock_ended(&request), PAWL_OK);
    assert_int_equal(stage_release_now(&stage, &spin, OTHER), PAWL_OK);
    stage_close(&stage, &spin);
}

static void with_somebody_in_line_it_is_passed_on(void **state)
{
    (void)state;
    struct pawl__request request;
    assert_int_equal(stage_acquire_now(&stage, &handle, OWNER), PAWL_OK);
    stage_acquire(&stage, &request, &handle, OTHER, PAWL__NEVER);
    stage.connected = false;
    assert_int_equal(stage_release_now(&stage, &handle, OWNER), PAWL_OK);
    struct pawl__op *pass = reach(PAWL__OP_PASS);
    assert_false(pass->lazy);
    stage_answer(&stage, pass);
    assert_int_equal(clock_ended(&request), PAWL_OK);
    release_and_heal(OTHER);
}

static void a_close_waits_for_it(void **state)
{
    (void)state;
    hold_and_release();
    pawl__machine_release_all(&stage.machine, stage.now_us);
    assert_false(pawl__machine_idle(&stage.machine));
    stage_answer(&stage, reach(PAWL__OP_RELEASE));
    assert_true(pawl__machine_idle(&stage.machine));
    assert_false(stage.machine.unheard);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(begin, the_next_of_us_asks_behind_it),
        CASE(begin, the_same_caller_may_have_it_again_before_the_answer),
        CASE(begin, an_answer_that_nobody_has_read_is_asked_for),
        CASE(begin, with_a_short_timeout_it_is_asked_for_in_time),
        CASE(begin, one_that_was_read_is_not_asked_for),
        CASE(begin, a_late_look_does_not_make_us_slow),
        CASE(begin, a_loss_in_a_late_answer_is_told_once),
        CASE(begin, without_an_answer_it_is_repeated_beside_the_next),
        CASE(begin, it_is_asked_for_until_it_was_read),
        CASE(begin, who_has_overtaken_it_asks_when_it_is_answered),
        CASE(begin, who_hears_too_late_that_it_is_held_asks_again),
        CASE(begin, who_has_asked_already_hears_of_the_release_of_others),
        CASE(begin, when_it_is_the_turn_of_others_its_answer_is_awaited),
        CASE(begin, until_then_the_next_of_us_goes_on),
        CASE(begin, a_lock_that_tells_nobody_waits_for_its_answer),
        CASE(begin, with_somebody_in_line_it_is_passed_on),
        CASE(begin, a_close_waits_for_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
