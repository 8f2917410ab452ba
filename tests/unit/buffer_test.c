/* SPDX-License-Identifier: Apache-2.0 */

/* The byte buffer: does it keep every byte in order, within its maximum, whatever fails?
 *
 * Method: single cases for each promise of buffer.h; a long run of random operations that is
 * compared with a plain array after each step, with and without failing allocations. Allocations
 * are counted and refused through pawl__alloc_hook. */
#include "allocations.h"
#include "base/buffer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* --- Helpers --- */

static void assert_content(const struct pawl__buffer *buffer, const char *expected)
{
    assert_int_equal(pawl__buffer_size(buffer), strlen(expected));
    if (expected[0] != '\0') {
        assert_memory_equal(pawl__buffer_data(buffer), expected, strlen(expected));
    }
}

static uint64_t random_state;

/* A small generator of our own, so that a run can be repeated. */
static size_t random_below(size_t bound)
{
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (size_t)(random_state >> 33) % bound;
}

/* --- Cases --- */

static void a_new_buffer_is_empty_and_costs_nothing(void **state)
{
    (void)state;
    struct pawl__buffer buffer;
    pawl__buffer_init(&buffer, 100);
    assert_int_equal(pawl__buffer_size(&buffer), 0);
    assert_int_equal(pawl__buffer_left(&buffer), 100);
    assert_true(pawl__buffer_append(&buffer, "", 0));
    assert_int_equal(allocation_count, 0);
    pawl__buffer_free(&buffer);
}

static void bytes_come_out_in_order(void **state)
{
    (void)state;
    struct pawl__buffer buffer;
    pawl__buffer_init(&buffer, 100);
    assert_true(pawl__buffer_append(&buffer, "one", 3));
    assert_true(pawl__buffer_append(&buffer, "two", 3));
    assert_content(&buffer, "onetwo");
    pawl__buffer_consume(&buffer, 2);
    assert_content(&buffer, "etwo");
    assert_true(pawl__buffer_append(&buffer, "three", 5));
    assert_content(&buffer, "etwothree");
    pawl__buffer_truncate(&buffer, 4);
    assert_content(&buffer, "etwo");
    pawl__buffer_clear(&buffer);
    assert_content(&buffer, "");
    assert_true(pawl__buffer_append(&buffer, "x", 1));
    assert_content(&buffer, "x");
    pawl__buffer_free(&buffer);
}

static void it_holds_its_maximum_and_not_one_byte_more(void **state)
{
    (void)state;
    struct pawl__buffer buffer;
    pawl__buffer_init(&buffer, 10);
    assert_true(pawl__buffer_append(&buffer, "01234567", 8));
    assert_false(pawl__buffer_append(&buffer, "abc", 3));
    assert_content(&buffer, "01234567");
    assert_null(pawl__buffer_reserve(&buffer, 3));
    assert_null(pawl__buffer_reserve(&buffer, SIZE_MAX));
    assert_true(pawl__buffer_append(&buffer, "89", 2));
    assert_int_equal(pawl__buffer_left(&buffer), 0);
    assert_false(pawl__buffer_append(&buffer, "a", 1));
    assert_content(&buffer, "0123456789");
    pawl__buffer_consume(&buffer, 4);
    assert_true(pawl__buffer_append(&buffer, "abcd", 4));
    assert_content(&buffer, "456789abcd");
    assert_true(largest_allocation <= 10);
    pawl__buffer_free(&buffer);
}

static void reserved_room_becomes_content_when_committed(void **state)
{
    (void)state;
    struct pawl__buffer buffer;
    pawl__buffer_init(&buffer, 100000);
    assert_true(pawl__buffer_append(&buffer, "a", 1));
    char *room = pawl__buffer_reserve(&buffer, 5000);
    assert_non_null(room);
    assert_true(pawl__buffer_room(&buffer) >= 5000);
    memcpy(room, "bcd", 3);
    assert_content(&buffer, "a");
    pawl__buffer_commit(&buffer, 2);
    assert_content(&buffer, "abc");
    pawl__buffer_free(&buffer);
}

static void consumed_bytes_stay_readable_until_more_come(void **state)
{
    (void)state;
    struct pawl__buffer buffer;
    pawl__buffer_init(&buffer, 100);
    assert_true(pawl__buffer_append(&buffer, "reply", 5));
    const char *reply = pawl__buffer_data(&buffer);
    pawl__buffer_consume(&buffer, 5);
    assert_memory_equal(reply, "reply", 5);
    pawl__buffer_free(&buffer);
}

static void a_buffer_that_found_its_size_does_not_allocate(void **state)
{
    (void)state;
    const char bytes[700] = {0};
    struct pawl__buffer buffer;
    pawl__buffer_init(&buffer, 1 << 20);
    assert_true(pawl__buffer_append(&buffer, bytes, sizeof bytes));
    pawl__buffer_consume(&buffer, sizeof bytes);
    const size_t before = allocation_count;
    for (int i = 0; i < 10000; i++) {
        assert_true(pawl__buffer_append(&buffer, bytes, sizeof bytes));
        pawl__buffer_consume(&buffer, sizeof bytes);
    }
    assert_int_equal(allocation_count, before);
    pawl__buffer_free(&buffer);
}

/* A buffer that is never quite empty must not move its content for every byte. */
static void moving_is_paid_for_by_consuming(void **state)
{
    (void)state;
    char bytes[1000] = {0};
    struct pawl__buffer buffer;
    pawl__buffer_init(&buffer, 1 << 20);
    assert_true(pawl__buffer_append(&buffer, bytes, sizeof bytes));
    size_t moved = 0;
    size_t appended = 0;
    for (int i = 0; i < 100000; i++) {
        pawl__buffer_consume(&buffer, 1);
        const size_t begin = buffer.begin;
        assert_true(pawl__buffer_append(&buffer, "x", 1));
        appended++;
        moved += buffer.begin < begin ? pawl__buffer_size(&buffer) : 0;
    }
    assert_true(moved <= 2 * appended);
    assert_true(buffer.capacity <= 8 * sizeof bytes);
    pawl__buffer_free(&buffer);
}

static void without_memory_nothing_changes(void **state)
{
    (void)state;
    char bytes[600];
    memset(bytes, 'b', sizeof bytes);
    struct pawl__buffer buffer;
    pawl__buffer_init(&buffer, 1 << 20);
    fail_every = 1;
    assert_false(pawl__buffer_append(&buffer, "a", 1));
    assert_null(pawl__buffer_reserve(&buffer, 1));
    assert_int_equal(pawl__buffer_size(&buffer), 0);
    fail_every = 0;
    assert_true(pawl__buffer_append(&buffer, "a", 1));
    fail_every = 1;
    assert_false(pawl__buffer_append(&buffer, bytes, sizeof bytes));
    assert_content(&buffer, "a");
    fail_every = 0;
    assert_true(pawl__buffer_append(&buffer, bytes, sizeof bytes));
    assert_int_equal(pawl__buffer_size(&buffer), 1 + sizeof bytes);
    pawl__buffer_free(&buffer);
}

/* When there is no memory to grow, the bytes already consumed are room enough. */
static void without_memory_consumed_room_is_used(void **state)
{
    (void)state;
    struct pawl__buffer buffer;
    pawl__buffer_init(&buffer, 1 << 20);
    char *room = pawl__buffer_reserve(&buffer, 1);
    assert_non_null(room);
    const size_t capacity = pawl__buffer_room(&buffer);
    memset(room, 'a', capacity);
    pawl__buffer_commit(&buffer, capacity);
    pawl__buffer_consume(&buffer, 3);
    fail_every = 1;
    assert_true(pawl__buffer_append(&buffer, "xyz", 3));
    assert_int_equal(pawl__buffer_size(&buffer), capacity);
    assert_memory_equal(pawl__buffer_data(&buffer) + capacity - 4, "axyz", 4);
    assert_false(pawl__buffer_append(&buffer, "!", 1));
    pawl__buffer_free(&buffer);
}

static void a_freed_buffer_can_be_used_again(void **state)
{
    (void)state;
    struct pawl__buffer buffer;
    pawl__buffer_init(&buffer, 4);
    assert_true(pawl__buffer_append(&buffer, "abcd", 4));
    pawl__buffer_free(&buffer);
    assert_int_equal(pawl__buffer_size(&buffer), 0);
    assert_true(pawl__buffer_append(&buffer, "efgh", 4));
    assert_false(pawl__buffer_append(&buffer, "i", 1));
    assert_content(&buffer, "efgh");
    pawl__buffer_free(&buffer);
}

static void an_empty_buffer_is_trimmed(void **state)
{
    (void)state;
    const char bytes[700] = {0};
    struct pawl__buffer buffer;
    pawl__buffer_init(&buffer, 1 << 20);
    pawl__buffer_trim(&buffer, 512);
    assert_null(buffer.bytes);
    assert_true(pawl__buffer_append(&buffer, bytes, sizeof bytes));
    assert_true(pawl__buffer_append(&buffer, bytes, sizeof bytes));
    const size_t grown = buffer.capacity;
    pawl__buffer_trim(&buffer, 512); /* it is not empty */
    assert_int_equal(buffer.capacity, grown);
    pawl__buffer_consume(&buffer, sizeof bytes);
    pawl__buffer_truncate(&buffer, 0);
    pawl__buffer_trim(&buffer, grown);
    assert_int_equal(buffer.capacity, grown);
    pawl__buffer_trim(&buffer, 512);
    assert_int_equal(buffer.capacity, 512);
    assert_true(pawl__buffer_append(&buffer, "abcd", 4));
    assert_content(&buffer, "abcd");
    pawl__buffer_free(&buffer);
}

enum { MODEL_MAX = 3000 };

/* The same bytes in a plain array, moved at every step. */
struct model {
    char bytes[MODEL_MAX];
    size_t size;
};

static void random_append(struct pawl__buffer *buffer, struct model *model)
{
    char piece[MODEL_MAX];
    const size_t size = 1 + random_below(random_below(4) == 0 ? MODEL_MAX : 64);
    for (size_t i = 0; i < size; i++) {
        piece[i] = (char)random_below(256);
    }
    const bool appended = pawl__buffer_append(buffer, piece, size);
    if (model->size + size > MODEL_MAX) {
        assert_false(appended);
    }
    if (fail_every == 0) {
        assert_int_equal(appended, model->size + size <= MODEL_MAX);
    }
    if (appended) {
        memcpy(model->bytes + model->size, piece, size);
        model->size += size;
    }
}

static void random_removal(struct pawl__buffer *buffer, struct model *model)
{
    const size_t size = random_below(model->size + 1);
    if (random_below(5) == 0) {
        pawl__buffer_truncate(buffer, size);
        model->size = size;
    } else {
        pawl__buffer_consume(buffer, size);
        memmove(model->bytes, model->bytes + size, model->size - size);
        model->size -= size;
    }
}

static void run_against_model(uint64_t seed)
{
    struct model model = {.size = 0};
    struct pawl__buffer buffer;
    random_state = seed;
    pawl__buffer_init(&buffer, MODEL_MAX);
    for (int i = 0; i < 20000; i++) {
        if (random_below(2) == 0) {
            random_append(&buffer, &model);
        } else {
            random_removal(&buffer, &model);
        }
        assert_int_equal(pawl__buffer_size(&buffer), model.size);
        if (model.size > 0) {
            assert_memory_equal(pawl__buffer_data(&buffer), model.bytes, model.size);
        }
    }
    assert_true(largest_allocation <= MODEL_MAX);
    pawl__buffer_free(&buffer);
}

static void random_operations_agree_with_a_plain_array(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        run_against_model(seed);
    }
}

static void random_operations_agree_when_memory_fails(void **state)
{
    (void)state;
    for (fail_every = 1; fail_every <= 4; fail_every++) {
        run_against_model(fail_every);
    }
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, begin_counting, end_counting)

int main(void)
{
    const struct CMUnitTest cases[] = {
        CASE(a_new_buffer_is_empty_and_costs_nothing),
        CASE(bytes_come_out_in_order),
        CASE(it_holds_its_maximum_and_not_one_byte_more),
        CASE(reserved_room_becomes_content_when_committed),
        CASE(consumed_bytes_stay_readable_until_more_come),
        CASE(a_buffer_that_found_its_size_does_not_allocate),
        CASE(moving_is_paid_for_by_consuming),
        CASE(without_memory_nothing_changes),
        CASE(without_memory_consumed_room_is_used),
        CASE(a_freed_buffer_can_be_used_again),
        CASE(an_empty_buffer_is_trimmed),
        CASE(random_operations_agree_with_a_plain_array),
        CASE(random_operations_agree_when_memory_fails),
    };
    return cmocka_run_group_tests_name("buffer", cases, NULL, NULL);
}
