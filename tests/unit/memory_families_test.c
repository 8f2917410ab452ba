/* SPDX-License-Identifier: Apache-2.0 */
/* The memory engine: spin, plain and read/write locks, and tokens in a row. Does the table do what
 * engine.h asks of a backend that keeps them?
 *
 * Method: the table is asked single operations at times of our choosing, as in memory_test.c. */
#include "base/alloc.h"
#include "core/engine.h"
#include "engine/memory/table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define LEASE_US 1000
#define UUID_A "aaaaaaaa-0000-4000-8000-000000000000"
#define UUID_B "bbbbbbbb-0000-4000-8000-000000000000"

static struct pawl__memory_table table;
static struct pawl__memory_client a;
static struct pawl__memory_client b;
static pawl_lock_info info;

static int begin(void **state)
{
    (void)state;
    pawl__memory_join(&a, UUID_A);
    pawl__memory_join(&b, UUID_B);
    return pawl__memory_init(&table) ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    pawl__alloc_hook = NULL;
    pawl__memory_leave(&table, &a);
    pawl__memory_leave(&table, &b);
    pawl__memory_free(&table);
    return 0;
}

/* One operation on the one name there is. */
struct question {
    struct pawl__memory_client *client;
    enum pawl__family family;
    enum pawl__op_kind kind;
    pawl_kind as;
    uint64_t id;
    int64_t now_us;
    int64_t lease_us;
    unsigned count;
    unsigned tokens;
};

static struct pawl__op ask(struct question question)
{
    struct pawl__place place = {.name = "alpha", .name_size = 5, .family = question.family};
    struct pawl__op op = {.place = &place,
        .kind = question.kind,
        .as = question.as,
        .id = question.id,
        .count = question.count,
        .tokens = question.tokens,
        .lease_us = question.lease_us > 0 ? question.lease_us : LEASE_US,
        .hint_us = -1,
        .info = &info};
    pawl__memory_apply(&table, question.client, &op, question.now_us);
    op.place = NULL;
    return op;
}

static struct pawl__op shared(struct pawl__memory_client *client, enum pawl__op_kind kind,
    pawl_kind as, uint64_t id, int64_t now_us)
{
    return ask((struct question){.client = client,
        .family = PAWL__FAMILY_SHARED,
        .kind = kind,
        .as = as,
        .id = id,
        .now_us = now_us});
}

static enum pawl__answer reads(struct pawl__memory_client *client, uint64_t id, int64_t now_us)
{
    return shared(client, PAWL__OP_ACQUIRE, PAWL_READ, id, now_us).answer;
}

static enum pawl__answer writes(struct pawl__memory_client *client, uint64_t id, int64_t now_us)
{
    return shared(client, PAWL__OP_ACQUIRE, PAWL_WRITE, id, now_us).answer;
}

static unsigned count_woken(void)
{
    unsigned count = 0;
    while (pawl__memory_woken(&table) != NULL) {
        count++;
    }
    return count;
}

static void watch(struct pawl__memory_client *client, enum pawl__family family)
{
    const struct question question = {.client = client, .family = family, .kind = PAWL__OP_WATCH};
    assert_int_equal(ask(question).answer, PAWL__DONE);
}

/* ===== Spin and plain ===== */

static void quiet_locks_tell_nobody(void **state)
{
    (void)state;
    static const enum pawl__family families[] = {PAWL__FAMILY_SPIN, PAWL__FAMILY_PLAIN};
    for (size_t i = 0; i < 2; i++) {
        struct question question = {.client = &a, .family = families[i], .id = 1};
        watch(&b, families[i]);
        assert_int_equal(ask(question).answer, PAWL__DONE);
        question.kind = PAWL__OP_RELEASE;
        question.id = 2;
        assert_int_equal(ask(question).answer, PAWL__GONE);
        question.id = 1;
        const struct pawl__op released = ask(question);
        assert_int_equal(released.answer, PAWL__DONE);
        assert_false(released.others);
        assert_int_equal(ask(question).answer, PAWL__GONE);
        question.kind = PAWL__OP_ACQUIRE;
        question.id = 3;
        assert_int_equal(ask(question).answer, PAWL__DONE);
        question.kind = PAWL__OP_BREAK;
        assert_int_equal(ask(question).answer, PAWL__DONE);
        assert_int_equal(ask(question).answer, PAWL__GONE);
        assert_int_equal(count_woken(), 0);
    }
}

static void plain_has_no_token(void **state)
{
    (void)state;
    struct question question = {.client = &a, .family = PAWL__FAMILY_PLAIN, .id = 1};
    assert_true(ask(question).token == 0);
    const struct pawl__op again = ask(question);
    assert_int_equal(again.answer, PAWL__DONE);
    assert_true(again.token == 0);
    question.kind = PAWL__OP_INSPECT;
    info.token = 77;
    ask(question);
    assert_true(info.held);
    assert_true(info.token == 0);
    question.kind = PAWL__OP_ACQUIRE;
    question.client = &b;
    assert_int_equal(ask(question).answer, PAWL__HELD);
    question.kind = PAWL__OP_COUNT;
    assert_int_equal(ask(question).answer, PAWL__GONE);
    question.client = &a;
    assert_int_equal(ask(question).answer, PAWL__DONE);
    question.kind = PAWL__OP_RENEW;
    question.now_us = 900;
    assert_int_equal(ask(question).answer, PAWL__DONE);
    question.kind = PAWL__OP_VERIFY;
    question.now_us = 1800;
    assert_int_equal(ask(question).answer, PAWL__DONE);
}

static void tokens_in_a_row(void **state)
{
    (void)state;
    struct question question = {.client = &a, .id = 1, .tokens = 5, .now_us = 100};
    const uint64_t first = ask(question).token;
    assert_true(ask(question).token == first);
    question.kind = PAWL__OP_RELEASE;
    ask(question);
    question = (struct question){.client = &a, .id = 2, .now_us = 100};
    assert_true(ask(question).token == first + 5); /* the entry was dropped meanwhile */
    question.kind = PAWL__OP_INSPECT;
    ask(question);
    assert_true(info.token == first + 5);
}

/* ===== Read/write ===== */

static void readers_share_and_a_writer_excludes(void **state)
{
    (void)state;
    assert_int_equal(reads(&a, 1, 0), PAWL__DONE);
    assert_int_equal(reads(&a, 2, 10), PAWL__DONE);
    assert_int_equal(reads(&b, 1, 20), PAWL__DONE);
    const struct pawl__op held = shared(&b, PAWL__OP_ACQUIRE, PAWL_WRITE, 2, 100);
    assert_int_equal(held.answer, PAWL__HELD);
    assert_int_equal(held.hint_us, LEASE_US - 80);
    for (uint64_t id = 1; id < 3; id++) {
        assert_int_equal(shared(&a, PAWL__OP_RELEASE, PAWL_READ, id, 100).answer, PAWL__DONE);
        assert_int_equal(shared(&a, PAWL__OP_RELEASE, PAWL_READ, id, 100).answer, PAWL__GONE);
        assert_int_equal(writes(&b, 2, 100), PAWL__HELD);
    }
    assert_int_equal(shared(&b, PAWL__OP_RELEASE, PAWL_READ, 1, 100).answer, PAWL__DONE);
    assert_int_equal(writes(&b, 2, 100), PAWL__DONE);
    assert_int_equal(writes(&a, 3, 100), PAWL__HELD);
    assert_int_equal(reads(&a, 4, 100), PAWL__HELD);
    assert_int_equal(shared(&a, PAWL__OP_RELEASE, PAWL_WRITE, 3, 100).answer, PAWL__GONE);
    assert_int_equal(shared(&b, PAWL__OP_RELEASE, PAWL_WRITE, 2, 100).answer, PAWL__DONE);
    assert_int_equal(table.entries.count, 0);
}

static void each_reader_has_its_own_lease(void **state)
{
    (void)state;
    assert_int_equal(reads(&a, 1, 0), PAWL__DONE);
    assert_int_equal(reads(&b, 1, 600), PAWL__DONE);
    assert_int_equal(shared(&a, PAWL__OP_VERIFY, PAWL_READ, 1, 999).answer, PAWL__DONE);
    assert_int_equal(shared(&a, PAWL__OP_VERIFY, PAWL_READ, 1, 1000).answer, PAWL__GONE);
    assert_int_equal(shared(&a, PAWL__OP_RENEW, PAWL_READ, 1, 1000).answer, PAWL__GONE);
    assert_int_equal(shared(&b, PAWL__OP_RENEW, PAWL_READ, 1, 1000).answer, PAWL__DONE);
    assert_int_equal(writes(&a, 2, 1999), PAWL__HELD);
    assert_int_equal(writes(&a, 2, 2000), PAWL__DONE);
    assert_int_equal(shared(&b, PAWL__OP_VERIFY, PAWL_READ, 1, 2000).answer, PAWL__GONE);
}

/* Who leaves takes its own lease with it, and nobody else's. */
static void the_longest_lease_counts(void **state)
{
    (void)state;
    struct question question = {
        .client = &a, .family = PAWL__FAMILY_SHARED, .as = PAWL_READ, .id = 1, .lease_us = 5000};
    assert_int_equal(ask(question).answer, PAWL__DONE);
    assert_int_equal(reads(&b, 1, 0), PAWL__DONE);
    assert_int_equal(shared(&b, PAWL__OP_ACQUIRE, PAWL_WRITE, 2, 0).hint_us, 5000);
    question.kind = PAWL__OP_RENEW;
    question.lease_us = 10; /* shortens nothing */
    assert_int_equal(ask(question).answer, PAWL__DONE);
    assert_int_equal(shared(&b, PAWL__OP_ACQUIRE, PAWL_WRITE, 2, 0).hint_us, 5000);
    assert_int_equal(shared(&a, PAWL__OP_RELEASE, PAWL_READ, 1, 0).answer, PAWL__DONE);
    assert_int_equal(shared(&b, PAWL__OP_ACQUIRE, PAWL_WRITE, 2, 0).hint_us, LEASE_US);
}

static void asking_again_is_the_same_acquire(void **state)
{
    (void)state;
    const struct pawl__op first = shared(&a, PAWL__OP_ACQUIRE, PAWL_READ, 1, 0);
    const struct pawl__op other = shared(&b, PAWL__OP_ACQUIRE, PAWL_READ, 1, 0);
    const struct pawl__op again = shared(&a, PAWL__OP_ACQUIRE, PAWL_READ, 1, 500);
    assert_true(other.token > first.token);
    assert_int_equal(again.answer, PAWL__DONE);
    assert_true(again.token == first.token);
    assert_int_equal(shared(&a, PAWL__OP_VERIFY, PAWL_READ, 1, 1400).answer, PAWL__DONE);
    assert_int_equal(shared(&a, PAWL__OP_RELEASE, PAWL_READ, 1, 1400).answer, PAWL__DONE);
    const struct pawl__op write = shared(&a, PAWL__OP_ACQUIRE, PAWL_WRITE, 2, 2000);
    assert_true(write.token > other.token);
    assert_true(shared(&a, PAWL__OP_ACQUIRE, PAWL_WRITE, 2, 2000).token == write.token);
}

static void a_writer_goes_on_as_a_reader(void **state)
{
    (void)state;
    assert_int_equal(writes(&a, 1, 0), PAWL__DONE);
    watch(&b, PAWL__FAMILY_SHARED);
    assert_int_equal(shared(&a, PAWL__OP_RENEW, PAWL_WRITE, 1, 100).answer, PAWL__DONE);
    assert_int_equal(reads(&b, 1, 100), PAWL__HELD);
    assert_int_equal(count_woken(), 0);
    assert_int_equal(shared(&a, PAWL__OP_RENEW, PAWL_READ, 1, 200).answer, PAWL__DONE);
    assert_int_equal(count_woken(), 1);
    assert_int_equal(reads(&b, 1, 200), PAWL__DONE);
    assert_int_equal(shared(&a, PAWL__OP_RENEW, PAWL_READ, 1, 200).answer, PAWL__DONE);
    assert_int_equal(shared(&a, PAWL__OP_RENEW, PAWL_WRITE, 1, 200).answer, PAWL__DONE); /* late */
    assert_int_equal(count_woken(), 0);
    assert_int_equal(reads(&b, 2, 200), PAWL__DONE); /* it still reads */
    assert_int_equal(writes(&a, 1, 200), PAWL__HELD);
    assert_int_equal(shared(&a, PAWL__OP_RELEASE, PAWL_READ, 1, 200).answer, PAWL__DONE);
}

static void the_last_to_leave_wakes(void **state)
{
    (void)state;
    watch(&b, PAWL__FAMILY_SHARED);
    reads(&a, 1, 0);
    reads(&a, 2, 0);
    struct pawl__op released = shared(&a, PAWL__OP_RELEASE, PAWL_READ, 1, 0);
    assert_false(released.others);
    assert_int_equal(count_woken(), 0);
    released = shared(&a, PAWL__OP_RELEASE, PAWL_READ, 2, 0);
    assert_true(released.others);
    assert_int_equal(count_woken(), 1);
    writes(&b, 1, 0);
    released = shared(&b, PAWL__OP_RELEASE, PAWL_WRITE, 1, 0);
    assert_false(released.others);
    assert_int_equal(count_woken(), 1);
    reads(&a, 3, 0);
    reads(&b, 3, 0);
    assert_int_equal(shared(&a, PAWL__OP_BREAK, PAWL_READ, 0, 0).answer, PAWL__DONE);
    assert_int_equal(count_woken(), 1);
    assert_int_equal(shared(&b, PAWL__OP_VERIFY, PAWL_READ, 3, 0).answer, PAWL__GONE);
    assert_int_equal(shared(&a, PAWL__OP_BREAK, PAWL_READ, 0, 0).answer, PAWL__GONE);
}

static void families_exclude_each_other(void **state)
{
    (void)state;
    const struct question mutex = {.client = &b, .id = 9};
    reads(&a, 1, 0);
    assert_int_equal(ask(mutex).answer, PAWL__HELD);
    shared(&a, PAWL__OP_RELEASE, PAWL_READ, 1, 0);
    assert_int_equal(ask(mutex).answer, PAWL__DONE);
    assert_int_equal(reads(&a, 2, 0), PAWL__HELD);
    assert_int_equal(writes(&a, 3, 0), PAWL__HELD);
    assert_int_equal(shared(&b, PAWL__OP_RELEASE, PAWL_READ, 9, 0).answer, PAWL__GONE);
    assert_int_equal(writes(&a, 3, LEASE_US), PAWL__DONE);
}

static void counts_and_inspection(void **state)
{
    (void)state;
    struct question question = {.client = &a,
        .family = PAWL__FAMILY_SHARED,
        .kind = PAWL__OP_COUNT,
        .as = PAWL_WRITE,
        .id = 1,
        .count = 4};
    const struct pawl__op write = shared(&a, PAWL__OP_ACQUIRE, PAWL_WRITE, 1, 0);
    assert_int_equal(ask(question).answer, PAWL__DONE);
    shared(&b, PAWL__OP_INSPECT, PAWL_READ, 0, 0);
    assert_true(info.held);
    assert_int_equal(info.hold_count, 4);
    assert_string_equal(info.holder, UUID_A ":1:write");
    assert_true(info.token == write.token);
    shared(&a, PAWL__OP_RELEASE, PAWL_WRITE, 1, 0);
    reads(&a, 2, 0);
    question.as = PAWL_READ;
    question.id = 2;
    assert_int_equal(ask(question).answer, PAWL__DONE);
    shared(&b, PAWL__OP_INSPECT, PAWL_READ, 0, 0);
    assert_int_equal(info.hold_count, 1);
    assert_string_equal(info.holder, UUID_A ":2");
}

static size_t allocations_left;

static bool allow_some(size_t size)
{
    (void)size;
    return allocations_left > 0 && allocations_left-- > 0;
}

static void want_of_memory_changes_nothing(void **state)
{
    (void)state;
    pawl__alloc_hook = allow_some;
    for (size_t allowed = 0; allowed < 3; allowed++) {
        allocations_left = allowed;
        const struct pawl__op op = shared(&a, PAWL__OP_ACQUIRE, PAWL_READ, 1, 0);
        assert_int_equal(op.answer, PAWL__FAILED);
        assert_int_equal(op.status, PAWL_NO_MEMORY);
        assert_int_equal(table.entries.count, 0);
    }
    allocations_left = 3;
    assert_int_equal(writes(&a, 1, 0), PAWL__DONE);
    assert_int_equal(shared(&a, PAWL__OP_RENEW, PAWL_READ, 1, 0).answer, PAWL__DONE);
    assert_int_equal(reads(&b, 1, 0), PAWL__FAILED);
    assert_int_equal(shared(&a, PAWL__OP_VERIFY, PAWL_READ, 1, 0).answer, PAWL__DONE);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(quiet_locks_tell_nobody),
        CASE(plain_has_no_token),
        CASE(tokens_in_a_row),
        CASE(readers_share_and_a_writer_excludes),
        CASE(each_reader_has_its_own_lease),
        CASE(the_longest_lease_counts),
        CASE(asking_again_is_the_same_acquire),
        CASE(a_writer_goes_on_as_a_reader),
        CASE(the_last_to_leave_wakes),
        CASE(families_exclude_each_other),
        CASE(counts_and_inspection),
        CASE(want_of_memory_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
