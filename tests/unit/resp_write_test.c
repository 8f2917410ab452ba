/* SPDX-License-Identifier: Apache-2.0 */

/* The command writer: does it write exactly what a Redis server reads, or nothing?
 *
 * Method: what is written is compared byte by byte with the text of the protocol; numbers of every
 * length are read back with strtoll; whole commands are compared with hiredis' formatter and read
 * back with our own reader; a buffer with one byte too little must stay as it was. */
#include "base/alloc.h"
#include "engine/redis/resp.h"
#include "engine/redis/resp_write.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <hiredis/hiredis.h>

#define SHA "0123456789abcdef0123456789abcdef01234567"

static void assert_written(struct pawl__buffer *out, const char *expected)
{
    assert_int_equal(pawl__buffer_size(out), strlen(expected));
    assert_memory_equal(pawl__buffer_data(out), expected, strlen(expected));
    pawl__buffer_clear(out);
}

static void parts_of_a_command(void **state)
{
    (void)state;
    struct pawl__buffer out;
    pawl__buffer_init(&out, 1 << 16);
    assert_true(pawl__resp_put_array(&out, 12));
    assert_written(&out, "*12\r\n");
    assert_true(pawl__resp_put_bulk(&out, "", 0));
    assert_written(&out, "$0\r\n\r\n");
    assert_true(pawl__resp_put_bulk(&out, NULL, 0));
    assert_written(&out, "$0\r\n\r\n");
    assert_true(pawl__resp_put_text(&out, "PING"));
    assert_written(&out, "$4\r\nPING\r\n");
    assert_true(pawl__resp_put_bulk(&out, "a\0\r\nb", 5));
    assert_false(pawl__resp_put_bulk(&out, "a", SIZE_MAX)); /* no sum of it may wrap around */
    assert_int_equal(pawl__buffer_size(&out), 11);
    assert_memory_equal(pawl__buffer_data(&out), "$5\r\na\0\r\nb\r\n", 11);
    pawl__buffer_free(&out);
}

static void bulk_sizes_of_every_length(void **state)
{
    (void)state;
    char *data = calloc(1, 1234567);
    assert_non_null(data);
    struct pawl__buffer out;
    pawl__buffer_init(&out, 1 << 21);
    const size_t sizes[] = {1, 9, 10, 11, 99, 100, 101, 999, 1000, 9999, 10000, 99999, 1234567};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        char head[32];
        const int head_size = snprintf(head, sizeof head, "$%zu\r\n", sizes[i]);
        assert_true(pawl__resp_put_bulk(&out, data, sizes[i]));
        assert_int_equal(pawl__buffer_size(&out), (size_t)head_size + sizes[i] + 2);
        assert_memory_equal(pawl__buffer_data(&out), head, (size_t)head_size);
        pawl__buffer_clear(&out);
    }
    pawl__buffer_free(&out);
    free(data);
}

static void check_int(struct pawl__buffer *out, int64_t value)
{
    char digits[32];
    char expected[64];
    const int size = snprintf(digits, sizeof digits, "%" PRId64, value);
    snprintf(expected, sizeof expected, "$%d\r\n%s\r\n", size, digits);
    assert_true(pawl__resp_put_int(out, value));
    assert_written(out, expected);
}

static void numbers_of_every_length(void **state)
{
    (void)state;
    struct pawl__buffer out;
    pawl__buffer_init(&out, 64);
    check_int(&out, 0);
    check_int(&out, INT64_MAX);
    check_int(&out, INT64_MIN);
    check_int(&out, INT64_MIN + 1);
    for (int64_t power = 1; power <= INT64_MAX / 10; power *= 10) {
        for (int64_t value = power - 2; value <= power + 2; value++) {
            check_int(&out, value);
            check_int(&out, -value);
            check_int(&out, value * 7);
        }
    }
    pawl__buffer_free(&out);
}

static const char *const command_parts[] = {
    "SET", "a key", "", "a longer value with \r\n inside", "PX", "30000"};
enum { COMMAND_COUNT = sizeof command_parts / sizeof command_parts[0] };

static void a_whole_command_is_what_hiredis_writes(void **state)
{
    (void)state;
    char *expected;
    const char *argv[COMMAND_COUNT];
    size_t sizes[COMMAND_COUNT];
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        argv[i] = command_parts[i];
        sizes[i] = strlen(command_parts[i]);
    }
    const long long size = redisFormatCommandArgv(&expected, COMMAND_COUNT, argv, sizes);
    assert_true(size > 0);
    struct pawl__buffer out;
    pawl__buffer_init(&out, 1 << 16);
    assert_true(pawl__resp_put_command(&out, COMMAND_COUNT, command_parts, sizes));
    assert_written(&out, expected);
    assert_true(pawl__resp_put_command(&out, COMMAND_COUNT, command_parts, NULL));
    assert_written(&out, expected);
    pawl__buffer_free(&out);
    redisFreeCommand(expected);
}

static void a_prefix_and_its_rest_are_one_evalsha(void **state)
{
    (void)state;
    struct pawl__resp_prefix prefix;
    struct pawl__buffer out;
    pawl__buffer_init(&out, 1 << 16);
    pawl__resp_prefix_evalsha(&prefix, SHA, 2, 1);
    assert_true(pawl__resp_put_prefix(&out, &prefix));
    assert_true(pawl__resp_put_text(&out, "k1"));
    assert_true(pawl__resp_put_text(&out, "k2"));
    assert_true(pawl__resp_put_int(&out, 30000));
    assert_written(&out, "*6\r\n$7\r\nEVALSHA\r\n$40\r\n" SHA
                         "\r\n$1\r\n2\r\n$2\r\nk1\r\n$2\r\nk2\r\n$5\r\n30000\r\n");
    pawl__resp_prefix_evalsha(&prefix, SHA, 100, 203);
    assert_true(pawl__resp_put_prefix(&out, &prefix));
    assert_written(&out, "*306\r\n$7\r\nEVALSHA\r\n$40\r\n" SHA "\r\n$3\r\n100\r\n");
    pawl__resp_prefix_evalsha(&prefix, SHA, UINT32_MAX, UINT32_MAX);
    assert_true(pawl__resp_put_prefix(&out, &prefix));
    assert_written(&out, "*8589934593\r\n$7\r\nEVALSHA\r\n$40\r\n" SHA "\r\n$10\r\n4294967295\r\n");
    pawl__buffer_free(&out);
}

/* A command is an array of bulk strings, so our own reader must read it back. */
static void what_is_written_can_be_read(void **state)
{
    (void)state;
    struct pawl__buffer out;
    pawl__buffer_init(&out, 1 << 16);
    assert_true(pawl__resp_put_command(&out, COMMAND_COUNT, command_parts, NULL));
    struct pawl__resp_reader reader;
    pawl__resp_init(&reader, &pawl__resp_limits_default);
    size_t consumed;
    assert_int_equal(
        pawl__resp_parse(&reader, pawl__buffer_data(&out), pawl__buffer_size(&out), &consumed),
        PAWL__RESP_COMPLETE);
    assert_int_equal(consumed, pawl__buffer_size(&out));
    assert_int_equal(pawl__resp_root(&reader)->child_count, COMMAND_COUNT);
    for (uint32_t i = 0; i < COMMAND_COUNT; i++) {
        const struct pawl__resp_node *part = pawl__resp_child(&reader, pawl__resp_root(&reader), i);
        assert_true(pawl__resp_text_equals(&reader, part, command_parts[i]));
    }
    pawl__resp_free(&reader);
    pawl__buffer_free(&out);
}

/* Try every maximum from nothing to exactly enough: only the last one may write anything. */
static void without_room_nothing_is_written(void **state)
{
    (void)state;
    struct pawl__buffer whole;
    pawl__buffer_init(&whole, 1 << 16);
    assert_true(pawl__resp_put_command(&whole, COMMAND_COUNT, command_parts, NULL));
    const size_t needed = pawl__buffer_size(&whole);
    for (size_t room = 0; room <= needed; room++) {
        struct pawl__buffer out;
        pawl__buffer_init(&out, 3 + room);
        assert_true(pawl__buffer_append(&out, "old", 3));
        const bool put = pawl__resp_put_command(&out, COMMAND_COUNT, command_parts, NULL);
        assert_int_equal(put, room == needed);
        assert_int_equal(pawl__buffer_size(&out), put ? 3 + needed : 3);
        assert_memory_equal(pawl__buffer_data(&out), "old", 3);
        pawl__buffer_free(&out);
    }
    pawl__buffer_free(&whole);
}

static void single_puts_fit_exactly_or_leave_all_as_it_was(void **state)
{
    (void)state;
    struct pawl__buffer out;
    pawl__buffer_init(&out, 10);
    assert_false(pawl__resp_put_text(&out, "PING!"));
    assert_false(pawl__resp_put_bulk(&out, "PING", SIZE_MAX));
    assert_false(pawl__resp_put_int(&out, 12345));
    assert_int_equal(pawl__buffer_size(&out), 0);
    assert_true(pawl__resp_put_text(&out, "PING"));
    assert_false(pawl__resp_put_array(&out, 1));
    assert_written(&out, "$4\r\nPING\r\n");
    assert_true(pawl__resp_put_int(&out, -123));
    assert_written(&out, "$4\r\n-123\r\n");
    pawl__buffer_free(&out);
}

static bool refuse_allocation(size_t size)
{
    (void)size;
    return false;
}

static void without_memory_nothing_is_written(void **state)
{
    (void)state;
    struct pawl__buffer out;
    pawl__buffer_init(&out, 1 << 16);
    pawl__alloc_hook = refuse_allocation;
    const bool array = pawl__resp_put_array(&out, 1);
    const bool bulk = pawl__resp_put_text(&out, "PING");
    const bool number = pawl__resp_put_int(&out, 1);
    const bool command = pawl__resp_put_command(&out, COMMAND_COUNT, command_parts, NULL);
    pawl__alloc_hook = NULL;
    assert_false(array || bulk || number || command);
    assert_int_equal(pawl__buffer_size(&out), 0);
    pawl__buffer_free(&out);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(parts_of_a_command),
        cmocka_unit_test(bulk_sizes_of_every_length),
        cmocka_unit_test(numbers_of_every_length),
        cmocka_unit_test(a_whole_command_is_what_hiredis_writes),
        cmocka_unit_test(a_prefix_and_its_rest_are_one_evalsha),
        cmocka_unit_test(what_is_written_can_be_read),
        cmocka_unit_test(without_room_nothing_is_written),
        cmocka_unit_test(single_puts_fit_exactly_or_leave_all_as_it_was),
        cmocka_unit_test(without_memory_nothing_is_written),
    };
    return cmocka_run_group_tests_name("resp_write", cases, NULL, NULL);
}
