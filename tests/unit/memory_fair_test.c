/* SPDX-License-Identifier: Apache-2.0 */
/* Fair locks in the memory engine: does the table keep a queue as the Redis scripts do, so that
 * what is simulated on it holds there, too?
 *
 * Method: single operations on a table with two clients, at times of our choosing. */
#include "base/alloc.h"
#include "engine/memory/table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define LEASE_US INT64_C(30000000)
#define WAIT_US INT64_C(5000000)
#define LOOK_US INT64_C(1000000)
#define UUID_A "aaaaaaaa-0000-4000-8000-000000000000"
#define UUID_B "bbbbbbbb-0000-4000-8000-000000000000"

struct bench {
    struct pawl__memory_table table;
    struct pawl__memory_client a;
    struct pawl__memory_client b;
    struct pawl__place place;
};

static int begin(void **state)
{
    static struct bench bench;
    memset(&bench, 0, sizeof bench);
    bench.place =
        (struct pawl__place){.name = "alpha", .name_size = 5, .family = PAWL__FAMILY_FAIR};
    pawl__memory_join(&bench.a, UUID_A);
    pawl__memory_join(&bench.b, UUID_B);
    *state = &bench;
    return pawl__memory_init(&bench.table) ? 0 : -1;
}

static int end(void **state)
{
    struct bench *bench = *state;
    pawl__alloc_hook = NULL;
    pawl__memory_leave(&bench->table, &bench->a);
    pawl__memory_leave(&bench->table, &bench->b);
    pawl__memory_free(&bench->table);
    return 0;
}

static struct pawl__op ask(struct bench *bench, struct pawl__memory_client *client,
    enum pawl__op_kind kind, uint64_t id, int64_t now_us)
{
    struct pawl__op op = {.kind = kind, .id = id, .lease_us = LEASE_US, .hint_us = -1};
    op.place = &bench->place;
    op.queue = true;
    pawl__memory_apply(&bench->table, client, &op, now_us);
    return op;
}

static enum pawl__answer try(
    struct bench *bench, struct pawl__memory_client *client, uint64_t id, int64_t now_us)
{
    struct pawl__op op = {.kind = PAWL__OP_ACQUIRE, .id = id, .lease_us = LEASE_US};
    op.place = &bench->place;
    pawl__memory_apply(&bench->table, client, &op, now_us);
    return op.answer;
}

/* Exactly this one is woken; id 0: nobody. */
static void assert_woken(struct bench *bench, const struct pawl__memory_client *client, uint64_t id)
{
    const struct pawl__memory_watch *watch = pawl__memory_woken(&bench->table);
    if (id == 0) {
        assert_null(watch);
        return;
    }
    assert_non_null(watch);
    assert_ptr_equal(watch->client, client);
    assert_true(watch->id == id);
    assert_null(pawl__memory_woken(&bench->table));
}

static void assert_acquire(struct bench *bench, struct pawl__memory_client *client, uint64_t id,
    int64_t now_us, enum pawl__answer answer)
{
    const struct pawl__op op = ask(bench, client, PAWL__OP_ACQUIRE, id, now_us);
    assert_int_equal(op.answer, answer);
    assert_true(answer != PAWL__HELD || op.hint_us > 0);
}

static void each_in_its_turn(void **state)
{
    struct bench *bench = *state;
    assert_acquire(bench, &bench->a, 1, 0, PAWL__DONE);
    struct pawl__op held = ask(bench, &bench->b, PAWL__OP_ACQUIRE, 1, 100);
    assert_int_equal(held.answer, PAWL__HELD);
    assert_true(held.hint_us == LEASE_US - 100);
    assert_acquire(bench, &bench->a, 2, 200, PAWL__HELD);
    assert_acquire(bench, &bench->b, 1, 300, PAWL__HELD); /* asked again, it stays first */
    assert_int_equal(ask(bench, &bench->a, PAWL__OP_RELEASE, 1, 400).answer, PAWL__DONE);

    held = ask(bench, &bench->a, PAWL__OP_ACQUIRE, 2, 500); /* free, but not its turn */
    assert_int_equal(held.answer, PAWL__HELD);
    assert_true(held.hint_us == LOOK_US);
    assert_int_equal(try(bench, &bench->a, 3, 500), PAWL__HELD);
    assert_acquire(bench, &bench->b, 1, 600, PAWL__DONE);
    assert_acquire(bench, &bench->b, 1, 700, PAWL__DONE); /* the same acquire */
    ask(bench, &bench->b, PAWL__OP_RELEASE, 1, 800);
    assert_int_equal(try(bench, &bench->a, 3, 900), PAWL__HELD);
    assert_acquire(bench, &bench->a, 2, 900, PAWL__DONE);
    ask(bench, &bench->a, PAWL__OP_RELEASE, 2, 1000);
    assert_int_equal(try(bench, &bench->a, 3, 1100), PAWL__DONE); /* a try never stood */
    ask(bench, &bench->a, PAWL__OP_RELEASE, 3, 1200);
    assert_int_equal(bench->table.entries.count, 0);
}

static void who_does_not_ask_is_dead(void **state)
{
    struct bench *bench = *state;
    assert_acquire(bench, &bench->a, 1, 0, PAWL__DONE);
    assert_acquire(bench, &bench->b, 1, 0, PAWL__HELD);
    assert_acquire(bench, &bench->b, 2, 0, PAWL__HELD);
    assert_acquire(bench, &bench->a, 2, 0, PAWL__HELD);
    ask(bench, &bench->a, PAWL__OP_RELEASE, 1, 1);
    struct pawl__op held = ask(bench, &bench->a, PAWL__OP_ACQUIRE, 2, WAIT_US - 10);
    assert_int_equal(held.answer, PAWL__HELD);
    assert_true(held.hint_us == 10);
    assert_acquire(bench, &bench->a, 2, WAIT_US, PAWL__DONE); /* both are gone at once */
}

static void who_asks_late_keeps_its_place(void **state)
{
    struct bench *bench = *state;
    assert_acquire(bench, &bench->a, 1, 0, PAWL__DONE);
    assert_acquire(bench, &bench->b, 1, 0, PAWL__HELD);
    assert_acquire(bench, &bench->a, 2, 0, PAWL__HELD);
    assert_acquire(bench, &bench->b, 1, 2 * WAIT_US, PAWL__HELD);
    assert_acquire(bench, &bench->a, 2, 2 * WAIT_US, PAWL__HELD);
    ask(bench, &bench->a, PAWL__OP_RELEASE, 1, 2 * WAIT_US);
    assert_acquire(bench, &bench->a, 2, 2 * WAIT_US, PAWL__HELD);
    assert_acquire(bench, &bench->b, 1, 4 * WAIT_US, PAWL__DONE);
}

static void only_the_next_is_woken(void **state)
{
    struct bench *bench = *state;
    assert_acquire(bench, &bench->a, 1, 0, PAWL__DONE);
    for (uint64_t id = 2; id <= 4; id++) {
        assert_acquire(bench, &bench->b, id, 0, PAWL__HELD);
        assert_int_equal(ask(bench, &bench->b, PAWL__OP_WATCH, id, 0).answer, PAWL__DONE);
        assert_int_equal(ask(bench, &bench->b, PAWL__OP_WATCH, id, 0).answer, PAWL__DONE);
    }
    struct pawl__op op = ask(bench, &bench->b, PAWL__OP_RELEASE, 3, 1); /* from the middle */
    assert_int_equal(op.answer, PAWL__GONE);
    assert_woken(bench, NULL, 0);
    op = ask(bench, &bench->a, PAWL__OP_RELEASE, 1, 1);
    assert_int_equal(op.answer, PAWL__DONE);
    assert_true(op.others);
    assert_woken(bench, &bench->b, 2);
    op = ask(bench, &bench->b, PAWL__OP_RELEASE, 2, 1); /* the first gives up: the next one's */
    assert_int_equal(op.answer, PAWL__GONE);
    assert_woken(bench, &bench->b, 4);
    assert_acquire(bench, &bench->b, 4, 2, PAWL__DONE);
    op = ask(bench, &bench->b, PAWL__OP_RELEASE, 4, 3);
    assert_false(op.others);
    assert_woken(bench, NULL, 0);
    for (uint64_t id = 2; id <= 4; id++) {
        assert_int_equal(ask(bench, &bench->b, PAWL__OP_UNWATCH, id, 3).answer, PAWL__DONE);
    }
    assert_int_equal(bench->table.entries.count, 0);
}

static void breaking_leaves_the_queue(void **state)
{
    struct bench *bench = *state;
    assert_acquire(bench, &bench->a, 1, 0, PAWL__DONE);
    assert_acquire(bench, &bench->a, 2, 0, PAWL__HELD);
    assert_acquire(bench, &bench->b, 2, WAIT_US, PAWL__HELD); /* the one before is dead now */
    ask(bench, &bench->b, PAWL__OP_WATCH, 2, WAIT_US);
    assert_int_equal(ask(bench, &bench->b, PAWL__OP_BREAK, 0, WAIT_US).answer, PAWL__DONE);
    assert_woken(bench, &bench->b, 2);
    assert_int_equal(ask(bench, &bench->b, PAWL__OP_BREAK, 0, WAIT_US).answer, PAWL__GONE);
    assert_acquire(bench, &bench->b, 2, WAIT_US, PAWL__DONE);
}

static bool refuse(size_t size)
{
    (void)size;
    return false;
}

static void without_memory_nobody_stands(void **state)
{
    struct bench *bench = *state;
    assert_acquire(bench, &bench->a, 1, 0, PAWL__DONE);
    pawl__alloc_hook = refuse;
    const struct pawl__op op = ask(bench, &bench->b, PAWL__OP_ACQUIRE, 1, 1);
    assert_int_equal(op.answer, PAWL__FAILED);
    assert_int_equal(op.status, PAWL_NO_MEMORY);
    assert_true(op.again);
    pawl__alloc_hook = NULL;
    ask(bench, &bench->a, PAWL__OP_RELEASE, 1, 2);
    assert_int_equal(bench->table.entries.count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(each_in_its_turn, begin, end),
        cmocka_unit_test_setup_teardown(who_does_not_ask_is_dead, begin, end),
        cmocka_unit_test_setup_teardown(who_asks_late_keeps_its_place, begin, end),
        cmocka_unit_test_setup_teardown(only_the_next_is_woken, begin, end),
        cmocka_unit_test_setup_teardown(breaking_leaves_the_queue, begin, end),
        cmocka_unit_test_setup_teardown(without_memory_nobody_stands, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
