/* SPDX-License-Identifier: Apache-2.0 */
/* P3 on a clock of our own, for readers and writers: who asks for itself, who waits for whom, and
 * what the backend is told when a writer goes on as a reader.
 *
 * The test is the backend: it looks at each question and says the answer, so it is told what the
 * machine asks, and not what some table makes of it. */
#include "promise/lib/clock.h"

#define LEASE_US 3000000
#define THIRD 9

static struct pawl__handle reader;
static struct pawl__handle writer;

static int open_both(bool renew)
{
    clock_begin(NULL);
    stage.connected = false;
    stage_open_kind(&stage, &reader, "x", PAWL_READ, LEASE_US, renew);
    stage_open_kind(&stage, &writer, "x", PAWL_WRITE, LEASE_US, renew);
    return 0;
}

static int begin(void **state)
{
    (void)state;
    return open_both(true);
}

static int begin_fixed(void **state)
{
    (void)state;
    return open_both(false);
}

/* The oldest question is this one. It ends so. */
static void play(enum pawl__op_kind kind, pawl_kind as, enum pawl__answer answer)
{
    struct pawl__op *op = clock_take();
    assert_non_null(op);
    assert_int_equal(op->kind, kind);
    if (kind != PAWL__OP_WATCH && kind != PAWL__OP_UNWATCH) {
        assert_int_equal(op->as, as);
    }
    op->fenced = true;
    stage_answer_as(&stage, op, answer);
}

/* Whatever is asked from now on is answered as by a backend that nobody else uses. */
static void answer_all(void)
{
    for (int i = 0; i < 100 && stage.out != NULL; i++) {
        const enum pawl__op_kind kind = stage.out->kind;
        play(kind, stage.out->as, PAWL__DONE);
    }
    assert_null(stage.out);
}

static int end(void **state)
{
    pawl__machine_release_all(&stage.machine, stage.now_us);
    stage_pass(&stage, 0);
    answer_all();
    if (!reader.detached) {
        stage_close(&stage, &reader);
    }
    if (!writer.detached) {
        stage_close(&stage, &writer);
    }
    answer_all();
    return clock_end(state);
}

#define SHARED(begin, test) cmocka_unit_test_setup_teardown(test, begin, end)

static void get(struct pawl__handle *through, uint64_t owner)
{
    struct pawl__request request;
    stage_acquire(&stage, &request, through, owner, 0);
    if (!request.finished) {
        play(PAWL__OP_ACQUIRE, through->terms->kind, PAWL__DONE);
    }
    assert_int_equal(clock_ended(&request), PAWL_OK);
}

static const struct pawl__tenure *hold_of(uint64_t owner)
{
    return pawl__machine_find(&stage.machine, &reader, owner, stage.now_us);
}

/* A writer that reads as well, the count of which the backend was shown. */
static void write_and_read(void)
{
    get(&writer, OWNER);
    struct pawl__request request;
    stage_acquire(&stage, &request, &reader, OWNER, 0);
    if (!request.finished) {
        play(PAWL__OP_RENEW, PAWL_WRITE, PAWL__DONE); /* a fixed lease counts anew */
    }
    assert_int_equal(clock_ended(&request), PAWL_OK);
    play(PAWL__OP_COUNT, PAWL_WRITE, PAWL__DONE);
    assert_null(stage.out);
}

/* ===== Claims ===== */

static void readers_ask_each_for_itself(void **state)
{
    (void)state;
    struct pawl__request one;
    struct pawl__request two;
    stage_acquire(&stage, &one, &reader, OWNER, PAWL__NEVER);
    stage_acquire(&stage, &two, &reader, OTHER, PAWL__NEVER);
    assert_non_null(stage.out);
    assert_non_null(stage.out->next);
    assert_true(stage.out->id != stage.out->next->id);
    play(PAWL__OP_ACQUIRE, PAWL_READ, PAWL__DONE);
    assert_int_equal(clock_ended(&one), PAWL_OK);
    assert_false(two.finished);
    play(PAWL__OP_ACQUIRE, PAWL_READ, PAWL__DONE);
    assert_int_equal(clock_ended(&two), PAWL_OK);
}

static void a_try_to_write_is_busy_at_once_while_one_of_us_reads(void **state)
{
    (void)state;
    get(&reader, OWNER);
    assert_int_equal(stage_acquire_now(&stage, &writer, OTHER), PAWL_BUSY);
    assert_null(stage.out);
}

static void a_reader_stands_behind_a_writer_that_waits(void **state)
{
    (void)state;
    struct pawl__request writes;
    struct pawl__request reads;
    get(&reader, OWNER);
    stage_acquire(&stage, &writes, &writer, OTHER, PAWL__NEVER);
    play(PAWL__OP_ACQUIRE, PAWL_WRITE, PAWL__HELD);
    play(PAWL__OP_WATCH, PAWL_WRITE, PAWL__DONE);
    play(PAWL__OP_ACQUIRE, PAWL_WRITE, PAWL__HELD); /* once more, now that it listens */
    stage_acquire(&stage, &reads, &reader, THIRD, PAWL__NEVER);
    assert_null(stage.out);
    assert_int_equal(stage_acquire_now(&stage, &reader, THIRD + 1), PAWL_BUSY); /* nor does a try */
    get(&reader, OWNER); /* who reads already may again */
    pawl__machine_cancel(&stage.machine, &writer, stage.now_us);
    stage_pass(&stage, 0);
    assert_int_equal(clock_ended(&writes), PAWL_CANCELED);
    play(PAWL__OP_ACQUIRE, PAWL_READ, PAWL__DONE); /* the writer left nothing to take back */
    assert_int_equal(clock_ended(&reads), PAWL_OK);
    assert_null(stage.out);
}

static void who_reads_and_asks_to_write_is_told_at_once(void **state)
{
    (void)state;
    get(&reader, OWNER);
    assert_int_equal(stage_acquire_now(&stage, &writer, OWNER), PAWL_DEADLOCK);
    assert_null(stage.out);
    assert_int_equal(pawl__tenure_count(hold_of(OWNER), PAWL_READ), 1);
}

/* Both were asked for while another client had it. */
static void who_waits_to_read_and_to_write_does_not_wait_for_itself(void **state)
{
    (void)state;
    struct pawl__request reads;
    struct pawl__request writes;
    reader.owner = OWNER;
    writer.owner = OWNER;
    stage_acquire(&stage, &reads, &reader, OWNER, PAWL__NEVER);
    play(PAWL__OP_ACQUIRE, PAWL_READ, PAWL__HELD);
    stage_acquire(&stage, &writes, &writer, OWNER, PAWL__NEVER);
    play(PAWL__OP_WATCH, PAWL_READ, PAWL__DONE);
    play(PAWL__OP_ACQUIRE, PAWL_WRITE, PAWL__HELD);
    play(PAWL__OP_ACQUIRE, PAWL_READ, PAWL__DONE);
    assert_int_equal(clock_ended(&reads), PAWL_OK);
    assert_int_equal(clock_ended(&writes), PAWL_DEADLOCK);
}

static void cancel_ends_the_waits_of_a_crowd(void **state)
{
    (void)state;
    struct pawl__request requests[3];
    for (uint64_t i = 0; i < 3; i++) {
        stage_acquire(&stage, &requests[i], &reader, OWNER + i, PAWL__NEVER);
    }
    play(PAWL__OP_ACQUIRE, PAWL_READ, PAWL__HELD); /* one waits, two ask */
    pawl__machine_cancel(&stage.machine, &reader, stage.now_us);
    stage_pass(&stage, 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(clock_ended(&requests[i]), PAWL_CANCELED);
    }
    play(PAWL__OP_ACQUIRE, PAWL_READ, PAWL__DONE); /* granted, and nobody wants it */
    play(PAWL__OP_ACQUIRE, PAWL_READ, PAWL__HELD);
    play(PAWL__OP_WATCH, PAWL_READ, PAWL__DONE);
    play(PAWL__OP_RELEASE, PAWL_READ, PAWL__DONE);
    assert_null(stage.out);
}

/* ===== A writer goes on as a reader ===== */

static void a_downgrade_is_told_until_it_was_heard(void **state)
{
    (void)state;
    struct pawl__request request;
    write_and_read();
    stage_release(&stage, &request, &writer, OWNER);
    assert_false(request.finished);
    play(PAWL__OP_RENEW, PAWL_READ, PAWL__UNKNOWN);
    assert_int_equal(clock_ended(&request), PAWL_UNAVAILABLE);
    stage_pass(&stage, 100000);
    play(PAWL__OP_RENEW, PAWL_READ, PAWL__FAILED);
    stage_pass(&stage, 300000);
    play(PAWL__OP_RENEW, PAWL_READ, PAWL__DONE);
    assert_null(stage.out);
    stage_pass(&stage, LEASE_US / 6);
    assert_null(stage.out);
    assert_int_equal(pawl__tenure_count(hold_of(OWNER), PAWL_WRITE), 0);
    assert_int_equal(pawl__tenure_count(hold_of(OWNER), PAWL_READ), 1);
    stage_release(&stage, &request, &reader, OWNER);
    play(PAWL__OP_RELEASE, PAWL_READ, PAWL__DONE);
    assert_int_equal(clock_ended(&request), PAWL_OK);
}

/* It moves no deadline to a later time than the lease that was promised. */
static void a_downgrade_of_a_fixed_lease_is_told_and_lasts_no_longer(void **state)
{
    (void)state;
    struct pawl__request request;
    write_and_read();
    const int64_t deadline_us = hold_of(OWNER)->deadline_us;
    stage_pass(&stage, 500000);
    stage_release(&stage, &request, &writer, OWNER);
    play(PAWL__OP_RENEW, PAWL_READ, PAWL__UNKNOWN);
    assert_int_equal(clock_ended(&request), PAWL_UNAVAILABLE);
    stage_pass(&stage, 200000);
    play(PAWL__OP_RENEW, PAWL_READ, PAWL__DONE);
    assert_true(hold_of(OWNER)->deadline_us >= deadline_us);
    assert_true(hold_of(OWNER)->deadline_us <= deadline_us + LEASE_US / 100);
    stage_pass(&stage, LEASE_US - 700001);
    assert_null(stage.out);
    stage_pass(&stage, 1);
    assert_int_equal(hold_of(OWNER)->state, PAWL__TENURE_LOST);
}

static void a_downgrade_waits_for_the_renewal_that_is_under_way(void **state)
{
    (void)state;
    struct pawl__request request;
    write_and_read();
    stage_pass(&stage, LEASE_US / 3);
    assert_non_null(stage.out);
    stage_release(&stage, &request, &writer, OWNER);
    assert_null(stage.out->next);
    play(PAWL__OP_RENEW, PAWL_WRITE, PAWL__DONE);
    assert_false(request.finished);
    play(PAWL__OP_RENEW, PAWL_READ, PAWL__DONE);
    assert_int_equal(clock_ended(&request), PAWL_OK);
    assert_null(stage.out);
}

/* The same with a caller that does not wait for it. */
static void an_unawaited_downgrade_is_told_all_the_same(void **state)
{
    (void)state;
    writer.terms->unawaited = true;
    write_and_read();
    stage_pass(&stage, LEASE_US / 3);
    assert_int_equal(stage_release_now(&stage, &writer, OWNER), PAWL_OK);
    play(PAWL__OP_RENEW, PAWL_WRITE, PAWL__DONE);
    play(PAWL__OP_RENEW, PAWL_READ, PAWL__DONE);
    assert_null(stage.out);
}

static void readers_of_ours_ask_behind_the_downgrade(void **state)
{
    (void)state;
    struct pawl__request reads;
    struct pawl__request request;
    write_and_read();
    stage_acquire(&stage, &reads, &reader, OTHER, PAWL__NEVER);
    assert_null(stage.out);
    stage_release(&stage, &request, &writer, OWNER);
    play(PAWL__OP_RENEW, PAWL_READ, PAWL__DONE);
    assert_int_equal(clock_ended(&request), PAWL_OK);
    play(PAWL__OP_ACQUIRE, PAWL_READ, PAWL__DONE);
    assert_int_equal(clock_ended(&reads), PAWL_OK);
}

static void a_loss_found_by_the_downgrade_is_told(void **state)
{
    (void)state;
    struct pawl__request request;
    write_and_read();
    stage_release(&stage, &request, &writer, OWNER);
    play(PAWL__OP_RENEW, PAWL_READ, PAWL__GONE);
    assert_int_equal(clock_ended(&request), PAWL_LOST);
    assert_int_equal(stage.notice_count, 1);
    assert_int_equal(stage_release_now(&stage, &reader, OWNER), PAWL_LOST);
    assert_int_equal(stage_release_now(&stage, &reader, OWNER), PAWL_NOT_HELD);
}

/* The reader leaves before the backend has heard that it only reads. */
static void a_release_that_overtakes_the_downgrade_ends_both(void **state)
{
    (void)state;
    struct pawl__request first;
    struct pawl__request second;
    write_and_read();
    stage_release(&stage, &first, &writer, OWNER);
    stage_release(&stage, &second, &reader, OWNER);
    assert_int_equal(clock_ended(&first), PAWL_OK); /* it was a hold, and it is over */
    play(PAWL__OP_RENEW, PAWL_READ, PAWL__DONE);
    play(PAWL__OP_RELEASE, PAWL_READ, PAWL__DONE);
    assert_int_equal(clock_ended(&second), PAWL_OK);
}

/* A second acquire waits for its extension while the only hold for writing is released. */
static void nobody_enters_to_write_what_only_reads_any_more(void **state)
{
    (void)state;
    struct pawl__request enters;
    struct pawl__request leaves;
    write_and_read();
    stage_acquire(&stage, &enters, &writer, OWNER, PAWL__NEVER);
    assert_false(enters.finished);
    stage_release(&stage, &leaves, &writer, OWNER);
    play(PAWL__OP_RENEW, PAWL_WRITE, PAWL__DONE);
    play(PAWL__OP_RENEW, PAWL_READ, PAWL__DONE);
    assert_int_equal(clock_ended(&leaves), PAWL_OK);
    assert_int_equal(clock_ended(&enters), PAWL_DEADLOCK);
    assert_int_equal(pawl__tenure_count(hold_of(OWNER), PAWL_WRITE), 0);
}

/* ===== Handles ===== */

static void who_only_writes_has_nothing_to_extend_for_reading(void **state)
{
    (void)state;
    struct pawl__request request;
    get(&writer, OWNER);
    stage_extend(&stage, &request, &reader, OWNER, LEASE_US);
    assert_int_equal(clock_ended(&request), PAWL_NOT_HELD);
}

/* As a close does it. */
static void release_through(struct pawl__handle *through)
{
    uint64_t owner = 0;
    for (int i = 0; i < 10 && (owner = pawl__handle_holder(through)) != 0; i++) {
        struct pawl__request request;
        stage_release(&stage, &request, through, owner);
        answer_all();
        assert_int_equal(clock_ended(&request), PAWL_OK);
    }
    assert_int_equal(owner, 0);
}

static void a_close_finds_all_who_read_through_one_handle(void **state)
{
    (void)state;
    get(&reader, OWNER);
    get(&reader, OTHER);
    get(&reader, THIRD);
    get(&reader, OTHER);
    release_through(&reader);
    assert_null(hold_of(OWNER));
    assert_null(hold_of(OTHER));
    assert_null(hold_of(THIRD));
}

/* Acquired through one handle and released through another of the same kind. */
static void a_close_does_not_ask_for_what_was_released_elsewhere(void **state)
{
    (void)state;
    struct pawl__handle second;
    stage_open_kind(&stage, &second, "x", PAWL_READ, LEASE_US, true);
    write_and_read();
    assert_int_equal(stage_release_now(&stage, &second, OWNER), PAWL_OK);
    answer_all();
    assert_int_equal(pawl__handle_holder(&reader), 0);
    assert_int_equal(pawl__handle_holder(&writer), OWNER);
    stage_close(&stage, &second);
}

static void an_outage_ends_a_crowd_at_its_very_time(void **state)
{
    (void)state;
    struct pawl__request requests[2];
    const int64_t began_us = stage.now_us;
    stage_acquire(&stage, &requests[0], &reader, OWNER, 2500000);
    stage_acquire(&stage, &requests[1], &reader, OTHER, 2500000);
    clock_pass_silently(2499999);
    assert_false(requests[0].finished);
    assert_false(requests[1].finished);
    clock_pass_silently(1);
    assert_int_equal(clock_ended(&requests[0]), PAWL_UNAVAILABLE);
    assert_int_equal(clock_ended(&requests[1]), PAWL_UNAVAILABLE);
    assert_int_equal(stage.now_us, began_us + 2500000);
    answer_all();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SHARED(begin, readers_ask_each_for_itself),
        SHARED(begin, a_try_to_write_is_busy_at_once_while_one_of_us_reads),
        SHARED(begin, a_reader_stands_behind_a_writer_that_waits),
        SHARED(begin, who_reads_and_asks_to_write_is_told_at_once),
        SHARED(begin, who_waits_to_read_and_to_write_does_not_wait_for_itself),
        SHARED(begin, cancel_ends_the_waits_of_a_crowd),
        SHARED(begin, a_downgrade_is_told_until_it_was_heard),
        SHARED(begin_fixed, a_downgrade_of_a_fixed_lease_is_told_and_lasts_no_longer),
        SHARED(begin, a_downgrade_waits_for_the_renewal_that_is_under_way),
        SHARED(begin, an_unawaited_downgrade_is_told_all_the_same),
        SHARED(begin, readers_of_ours_ask_behind_the_downgrade),
        SHARED(begin, a_loss_found_by_the_downgrade_is_told),
        SHARED(begin, a_release_that_overtakes_the_downgrade_ends_both),
        SHARED(begin_fixed, nobody_enters_to_write_what_only_reads_any_more),
        SHARED(begin, who_only_writes_has_nothing_to_extend_for_reading),
        SHARED(begin, a_close_finds_all_who_read_through_one_handle),
        SHARED(begin, a_close_does_not_ask_for_what_was_released_elsewhere),
        SHARED(begin, an_outage_ends_a_crowd_at_its_very_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
