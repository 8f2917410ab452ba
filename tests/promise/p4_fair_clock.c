/* SPDX-License-Identifier: Apache-2.0 */
/* P4 on a clock of our own, for fair locks: who stands in the backend's queue, who is called, and
 * that nothing of a claim stays in the queue when the claim is over. */
#include "promise/lib/clock.h"

#define LEASE_US 3000000
#define DEAD_US 5000000 /* from then on a waiter that says nothing counts as dead */
#define WAITERS 3
#define MANY 20
#define EARS 8

static struct pawl__request waits[WAITERS];
static struct pawl__request many[MANY];

static int begin(void **state)
{
    (void)state;
    clock_begin(NULL);
    stage_open_kind(&stage, &handle, "x", PAWL_FAIR, LEASE_US, true);
    return 0;
}

/* Somebody of another client. */
static enum pawl__answer stranger(enum pawl__op_kind kind, uint64_t id, bool queue)
{
    struct pawl__place place = {.name = "x", .name_size = 1, .family = PAWL__FAMILY_FAIR};
    struct pawl__op op = {.place = &place,
        .kind = kind,
        .id = id,
        .queue = queue,
        .lease_us = 100 * LEASE_US,
        .sent_us = stage.now_us};
    pawl__memory_apply(&stage.table, &stage.stranger, &op, stage.now_us);
    return op.answer;
}

static void stranger_gets(void)
{
    assert_int_equal(stranger(PAWL__OP_ACQUIRE, 1000, false), PAWL__DONE);
}

/* Its release calls whose turn it is. */
static void stranger_leaves(void)
{
    assert_int_equal(stranger(PAWL__OP_RELEASE, 1000, false), PAWL__DONE);
    struct pawl__memory_watch *watch = NULL;
    while ((watch = pawl__memory_woken(&stage.table)) != NULL) {
        if (watch->client == &stage.client) {
            pawl__machine_wake(&stage.machine, "x", 1, watch->id, stage.now_us);
        }
    }
    stage_pass(&stage, 0);
}

static unsigned queue_length(void)
{
    const struct pawl__memory_entry *entry = pawl__memory_look(&stage.table, "x", 1);
    unsigned length = 0;
    for (const struct pawl__list *node = entry != NULL ? entry->queue.next : NULL;
         entry != NULL && node != &entry->queue; node = node->next) {
        length++;
    }
    return length;
}

static void wait_all(void)
{
    for (uint64_t i = 0; i < WAITERS; i++) {
        stage_acquire(&stage, &waits[i], &handle, OWNER + i, PAWL__NEVER);
        assert_false(waits[i].finished);
    }
    assert_int_equal(queue_length(), WAITERS);
}

/* ===== Whose turn it is ===== */

static void only_whose_turn_it_is_asks(void **state)
{
    (void)state;
    stranger_gets();
    wait_all();
    unsigned asked = stage.submitted[PAWL__OP_ACQUIRE];
    assert_int_equal(stage.submitted[PAWL__OP_WATCH], WAITERS);
    stranger_leaves();
    for (uint64_t i = 0; i < WAITERS; i++) {
        assert_int_equal(stage.submitted[PAWL__OP_ACQUIRE], ++asked);
        assert_int_equal(clock_ended(&waits[i]), PAWL_OK);
        assert_int_equal(stage.submitted[PAWL__OP_UNWATCH], i + 1);
        assert_int_equal(queue_length(), WAITERS - 1 - i);
        assert_int_equal(stage_release_now(&stage, &handle, OWNER + i), PAWL_OK);
    }
}

static void wait_many(int from, int to)
{
    for (int i = from; i < to; i++) {
        stage_acquire(&stage, &many[i], &handle, OWNER + (uint64_t)i, 60000000);
        assert_false(many[i].finished);
    }
}

/* The first few are called first, and only they listen. */
static void who_is_near_its_turn_listens(void **state)
{
    (void)state;
    stranger_gets();
    wait_many(0, MANY);
    assert_int_equal(queue_length(), MANY);
    assert_int_equal(stage.submitted[PAWL__OP_WATCH], EARS);
    stranger_leaves();
    for (unsigned i = 0; i < MANY; i++) {
        assert_int_equal(clock_ended(&many[i]), PAWL_OK);
        assert_int_equal(
            stage.submitted[PAWL__OP_WATCH], EARS + i + 1 < MANY ? EARS + i + 1 : MANY);
        assert_int_equal(stage_release_now(&stage, &handle, OWNER + i), PAWL_OK);
    }
    assert_int_equal(stage.submitted[PAWL__OP_UNWATCH], MANY);
}

/* One whose turn is near leaves, so that another's is. */
static void who_comes_nearer_listens(void **state)
{
    (void)state;
    stranger_gets();
    wait_many(0, EARS + 1);
    assert_int_equal(stage.submitted[PAWL__OP_WATCH], EARS);
    pawl__machine_expire(&stage.machine, &many[3], stage.now_us);
    stage_pass(&stage, 0);
    assert_true(many[3].finished);
    assert_int_equal(stage.submitted[PAWL__OP_WATCH], EARS + 1);
    pawl__machine_cancel(&stage.machine, &handle, stage.now_us);
    stage_pass(&stage, 0);
    assert_int_equal(queue_length(), 0);
}

/* How many have been granted and not released yet; those release now. */
static int release_granted(void)
{
    int count = 0;
    for (int i = 0; i < MANY; i++) {
        if (many[i].finished && many[i].owner != 0) {
            assert_int_equal(clock_ended(&many[i]), PAWL_OK);
            many[i].owner = 0;
            count++;
            assert_int_equal(stage_release_now(&stage, &handle, OWNER + (uint64_t)i), PAWL_OK);
        }
    }
    return count;
}

/* The questions of the first ten were lost, so they stand behind those who came later. The first
 * one that is called does not hear it, and asks within a second; by then it is known. */
static void in_another_order_everybody_listens(void **state)
{
    (void)state;
    stranger_gets();
    stage.connected = false;
    wait_many(0, MANY / 2);
    for (int i = 0; i < MANY / 2; i++) {
        struct pawl__op *op = clock_take();
        op->again = true;
        stage_answer_as(&stage, op, PAWL__FAILED);
    }
    assert_null(stage.out);
    stage.connected = true;
    wait_many(MANY / 2, MANY);
    stage_pass(&stage, 1200000);
    assert_int_equal(queue_length(), MANY);
    stranger_leaves();
    assert_false(many[MANY / 2].finished);
    stage_pass(&stage, 1200000);
    assert_true(many[MANY / 2].finished);
    assert_true(handle.name->traffic->mixed);
    stage_pass(&stage, 1200000);
    int rest = MANY;
    for (int granted = 1; granted > 0; rest -= granted) {
        granted = release_granted(); /* each is called by the release of the one before */
    }
    assert_int_equal(rest, 0);
}

/* Nobody is called, for messages get lost: each asks once a second. */
static void who_hears_nothing_asks_once_a_second(void **state)
{
    (void)state;
    stranger_gets();
    wait_all();
    assert_int_equal(stranger(PAWL__OP_RELEASE, 1000, false), PAWL__DONE);
    while (pawl__memory_woken(&stage.table) != NULL) {
    }
    stage_pass(&stage, 1200000);
    assert_int_equal(clock_ended(&waits[0]), PAWL_OK);
    assert_false(waits[1].finished);
    for (uint64_t i = 0; i + 1 < WAITERS; i++) {
        assert_int_equal(stage_release_now(&stage, &handle, OWNER + i), PAWL_OK);
        assert_int_equal(clock_ended(&waits[i + 1]), PAWL_OK); /* these are called */
    }
    assert_int_equal(stage_release_now(&stage, &handle, OWNER + WAITERS - 1), PAWL_OK);
}

/* An ear that could not be opened is opened at the next sleep, and meanwhile it works without. */
static void an_ear_that_failed_is_opened_again(void **state)
{
    (void)state;
    stranger_gets();
    stage.connected = false;
    stage_acquire(&stage, &waits[0], &handle, OWNER, PAWL__NEVER);
    stage_answer(&stage, stage_reach(&stage)); /* held */
    assert_int_equal(stage.out->kind, PAWL__OP_WATCH);
    stage_answer_as(&stage, clock_take(), PAWL__FAILED);
    assert_null(stage.out);
    stage_pass(&stage, 1200000);
    assert_int_equal(stage.out->kind, PAWL__OP_ACQUIRE);
    stage_answer(&stage, stage_reach(&stage));
    assert_int_equal(stage.out->kind, PAWL__OP_WATCH);
    stage.connected = true;
    stage_flush(&stage);
    stranger_leaves();
    assert_int_equal(clock_ended(&waits[0]), PAWL_OK);
    assert_int_equal(stage_release_now(&stage, &handle, OWNER), PAWL_OK);
}

/* Messages may have been missed while the question was under way. */
static void who_asks_while_all_are_called_asks_again(void **state)
{
    (void)state;
    stranger_gets();
    stage_acquire(&stage, &waits[0], &handle, OWNER, PAWL__NEVER);
    stage.connected = false;
    stage_pass(&stage, 1200000);
    struct pawl__op *op = stage_reach(&stage);
    assert_int_equal(op->kind, PAWL__OP_ACQUIRE);
    assert_int_equal(op->answer, PAWL__HELD);
    assert_int_equal(stranger(PAWL__OP_RELEASE, 1000, false), PAWL__DONE);
    while (pawl__memory_woken(&stage.table) != NULL) {
    }
    pawl__machine_wake(&stage.machine, NULL, 0, 0, stage.now_us);
    stage.connected = true;
    stage_answer(&stage, op);
    assert_int_equal(clock_ended(&waits[0]), PAWL_OK);
    assert_int_equal(stage_release_now(&stage, &handle, OWNER), PAWL_OK);
}

/* Another client's waiter stands first and is dead. */
static void a_dead_head_stops_nobody_for_long(void **state)
{
    (void)state;
    stranger_gets();
    assert_int_equal(stranger(PAWL__OP_ACQUIRE, 1001, true), PAWL__HELD);
    stage_acquire(&stage, &waits[0], &handle, OWNER, PAWL__NEVER);
    stranger_leaves();
    stage_pass(&stage, DEAD_US - 1);
    assert_false(waits[0].finished);
    stage_pass(&stage, 1200000);
    assert_int_equal(clock_ended(&waits[0]), PAWL_OK);
    assert_int_equal(queue_length(), 0);
    assert_int_equal(stage_release_now(&stage, &handle, OWNER), PAWL_OK);
}

/* One of us breaks the lock of another of us, who learns it at once. */
static void a_break_of_ours_is_looked_into(void **state)
{
    (void)state;
    static struct pawl__request breaks;
    assert_int_equal(stage_acquire_now(&stage, &handle, OWNER), PAWL_OK);
    memset(&breaks, 0, sizeof breaks);
    breaks.kind = PAWL__WANT_BREAK;
    breaks.handle = &handle;
    breaks.owner = OTHER;
    breaks.end_us = stage.now_us + TIMEOUT_US;
    pawl__machine_start(&stage.machine, &breaks, stage.now_us);
    stage_pass(&stage, 0);
    assert_int_equal(clock_ended(&breaks), PAWL_OK);
    assert_int_equal(stage.notice_count, 1);
    assert_int_equal(stage_release_now(&stage, &handle, OWNER), PAWL_LOST);
}

/* ===== Nothing stays in the queue ===== */

static void a_try_stands_in_no_queue(void **state)
{
    (void)state;
    stranger_gets();
    assert_int_equal(stage_acquire_now(&stage, &handle, OWNER), PAWL_BUSY);
    assert_int_equal(queue_length(), 0);
    assert_int_equal(stage.submitted[PAWL__OP_RELEASE], 0);
}

static void a_wait_that_ends_leaves_the_queue_at_once(void **state)
{
    (void)state;
    stranger_gets();
    stage_acquire(&stage, &waits[0], &handle, OWNER, 2500000);
    const int64_t began_us = stage.now_us;
    stage_pass(&stage, 2499999);
    assert_false(waits[0].finished);
    assert_int_equal(queue_length(), 1);
    stage_pass(&stage, 1);
    assert_int_equal(clock_ended(&waits[0]), PAWL_BUSY);
    assert_int_equal(stage.now_us, began_us + 2500000);
    assert_int_equal(queue_length(), 0);
    assert_int_equal(stage.submitted[PAWL__OP_UNWATCH], 1);
}

/* The first in the queue gives up while the lock is free and it is the first one's turn. */
static void who_gives_up_its_turn_calls_the_next(void **state)
{
    (void)state;
    struct pawl__handle second;
    stage_open_kind(&stage, &second, "x", PAWL_FAIR, LEASE_US, true);
    stranger_gets();
    stage_acquire(&stage, &waits[0], &handle, OWNER, PAWL__NEVER);
    stage_acquire(&stage, &waits[1], &second, OTHER, PAWL__NEVER);
    stage.connected = false;
    stranger_leaves();
    assert_int_equal(clock_take()->kind, PAWL__OP_ACQUIRE); /* which never comes there */
    pawl__machine_cancel(&stage.machine, &handle, stage.now_us);
    stage_pass(&stage, 0);
    assert_int_equal(clock_ended(&waits[0]), PAWL_CANCELED);
    stage.connected = true;
    struct pawl__tenure *tenure = waits[0].tenure;
    stage_answer_as(&stage, &tenure->motion->main, PAWL__FAILED);
    assert_int_equal(clock_ended(&waits[1]), PAWL_OK);
    assert_int_equal(stage_release_now(&stage, &second, OTHER), PAWL_OK);
    assert_int_equal(queue_length(), 0);
    stage_close(&stage, &second);
}

static void cancel_empties_the_queue(void **state)
{
    (void)state;
    stranger_gets();
    wait_all();
    pawl__machine_cancel(&stage.machine, &handle, stage.now_us);
    stage_pass(&stage, 0);
    for (int i = 0; i < WAITERS; i++) {
        assert_int_equal(clock_ended(&waits[i]), PAWL_CANCELED);
    }
    assert_int_equal(queue_length(), 0);
    assert_int_equal(stage.submitted[PAWL__OP_UNWATCH], WAITERS);
}

static void a_close_empties_the_queue(void **state)
{
    (void)state;
    stranger_gets();
    wait_all();
    stage_close(&stage, &handle);
    for (int i = 0; i < WAITERS; i++) {
        assert_int_equal(clock_ended(&waits[i]), PAWL_CANCELED);
    }
    assert_int_equal(queue_length(), 0);
    handle.name = NULL; /* it is gone */
}

/* The question came there, its answer did not come back, and its caller leaves. */
static void who_left_with_an_open_question_is_taken_out(void **state)
{
    (void)state;
    stranger_gets();
    stage.connected = false;
    stage_acquire(&stage, &waits[0], &handle, OWNER, PAWL__NEVER);
    struct pawl__op *op = stage_reach(&stage);
    assert_int_equal(queue_length(), 1);
    pawl__machine_cancel(&stage.machine, &handle, stage.now_us);
    stage_pass(&stage, 0);
    assert_int_equal(clock_ended(&waits[0]), PAWL_CANCELED);
    assert_null(stage.out); /* until there is an answer, or none */
    stage_answer_as(&stage, op, PAWL__UNKNOWN);
    for (int i = 0; i < 3; i++) {
        op = clock_take();
        assert_int_equal(op->kind, PAWL__OP_RELEASE);
        stage_answer_as(&stage, op, PAWL__UNKNOWN); /* nor does this one */
        assert_null(stage.out);
        stage_pass(&stage, 200000);
    }
    stage.connected = true;
    stage_flush(&stage);
    assert_int_equal(queue_length(), 0);
    stage_pass(&stage, LEASE_US);
    assert_null(stage.out);
}

static void a_late_word_that_it_is_held_is_taken_back(void **state)
{
    (void)state;
    stranger_gets();
    stage.connected = false;
    stage_acquire(&stage, &waits[0], &handle, OWNER, PAWL__NEVER);
    struct pawl__op *op = stage_reach(&stage);
    pawl__machine_cancel(&stage.machine, &handle, stage.now_us);
    stage_pass(&stage, 0);
    assert_int_equal(clock_ended(&waits[0]), PAWL_CANCELED);
    stage_answer(&stage, op);
    op = stage_reach(&stage);
    assert_int_equal(op->kind, PAWL__OP_RELEASE);
    stage_answer(&stage, op);
    assert_int_equal(queue_length(), 0);
    assert_null(stage.out);
}

/* A place in the queue outlives a short lease, so taking it back goes on for as long. */
static void a_place_is_taken_back_though_the_lease_is_short(void **state)
{
    (void)state;
    struct pawl__handle brief;
    stage_open_kind(&stage, &brief, "x", PAWL_FAIR, 100000, true);
    stranger_gets();
    stage_acquire(&stage, &waits[0], &brief, OWNER, PAWL__NEVER);
    assert_int_equal(queue_length(), 1);
    stage.connected = false;
    pawl__machine_cancel(&stage.machine, &brief, stage.now_us);
    stage_pass(&stage, 0);
    assert_int_equal(clock_ended(&waits[0]), PAWL_CANCELED);
    clock_pass_silently(2000000);
    clock_heal();
    assert_int_equal(queue_length(), 0);
    stage_close(&stage, &brief);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(begin, only_whose_turn_it_is_asks),
        CASE(begin, who_is_near_its_turn_listens),
        CASE(begin, who_comes_nearer_listens),
        CASE(begin, in_another_order_everybody_listens),
        CASE(begin, who_hears_nothing_asks_once_a_second),
        CASE(begin, an_ear_that_failed_is_opened_again),
        CASE(begin, who_asks_while_all_are_called_asks_again),
        CASE(begin, a_dead_head_stops_nobody_for_long),
        CASE(begin, a_break_of_ours_is_looked_into),
        CASE(begin, a_try_stands_in_no_queue),
        CASE(begin, a_wait_that_ends_leaves_the_queue_at_once),
        CASE(begin, who_gives_up_its_turn_calls_the_next),
        CASE(begin, cancel_empties_the_queue),
        CASE(begin, a_close_empties_the_queue),
        CASE(begin, who_left_with_an_open_question_is_taken_out),
        CASE(begin, a_late_word_that_it_is_held_is_taken_back),
        CASE(begin, a_place_is_taken_back_though_the_lease_is_short),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
