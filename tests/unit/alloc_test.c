/* SPDX-License-Identifier: Apache-2.0 */
/* base/alloc.h: memory that tests can make scarce.
 *
 * The hook refuses chosen allocations; each function must then answer NULL, keep what it was given,
 * and ask exactly once, with the size that is really allocated. */
#include "base/alloc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static size_t asked_count;
static size_t asked_size; /* at the last time */
static bool answer;

static bool hook(size_t size)
{
    asked_count++;
    asked_size = size;
    return answer;
}

/* From now on every allocation is asked for, and gets this answer. */
static void begin(bool hook_answer)
{
    pawl__alloc_hook = hook;
    answer = hook_answer;
    asked_count = 0;
    asked_size = 0;
}

static int end(void **state)
{
    (void)state;
    pawl__alloc_hook = NULL;
    return 0;
}

static void check_asked(size_t size)
{
    assert_int_equal(asked_count, 1);
    assert_int_equal(asked_size, size);
    asked_count = 0;
}

static void zero_filled(void **state)
{
    (void)state;
    for (int round = 0; round < 10; round++) {
        unsigned char *memory = pawl__alloc(1000);
        assert_non_null(memory);
        for (size_t i = 0; i < 1000; i++) {
            assert_int_equal(memory[i], 0);
        }
        memset(memory, 0xff, 1000); /* the next round may get the same block */
        pawl__free(memory);
    }
    pawl__free(NULL);
}

static void grown_blocks_keep_their_bytes(void **state)
{
    (void)state;
    char *memory = pawl__realloc(NULL, 4);
    assert_non_null(memory);
    memcpy(memory, "abc", 4);
    memory = pawl__realloc(memory, 100000);
    assert_non_null(memory);
    assert_string_equal(memory, "abc");
    pawl__free(memory);
}

static void copies(void **state)
{
    (void)state;
    char *copy = pawl__strdup("text");
    char *empty = pawl__strdup("");
    char *text = pawl__format("%s=%d%%", "x", 5);
    assert_string_equal(copy, "text");
    assert_string_equal(empty, "");
    assert_string_equal(text, "x=5%");
    pawl__free(copy);
    pawl__free(empty);
    pawl__free(text);

    text = pawl__format("%05000d", 7); /* longer than any buffer on the way */
    assert_int_equal(strlen(text), 5000);
    assert_int_equal(text[4999], '7');
    pawl__free(text);
}

static void hook_is_asked(void **state)
{
    (void)state;
    begin(true);
    void *memory = pawl__alloc(10);
    check_asked(10);
    memory = pawl__realloc(memory, 20);
    check_asked(20);
    char *copy = pawl__strdup("text");
    check_asked(5);
    char *text = pawl__format("%d", 12345);
    check_asked(6);
    assert_non_null(memory);
    assert_non_null(copy);
    assert_non_null(text);
    pawl__free(memory);
    pawl__free(copy);
    pawl__free(text);
    assert_int_equal(asked_count, 0);
}

static void hook_refuses(void **state)
{
    (void)state;
    char *memory = pawl__strdup("kept");
    begin(false);
    assert_null(pawl__alloc(10));
    assert_null(pawl__realloc(memory, 20));
    assert_null(pawl__strdup("text"));
    assert_null(pawl__format("%d", 12345));
    assert_int_equal(asked_count, 4);
    assert_string_equal(memory, "kept"); /* a failed realloc leaves its block alone */
    pawl__free(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(zero_filled),
        cmocka_unit_test(grown_blocks_keep_their_bytes),
        cmocka_unit_test(copies),
        cmocka_unit_test_teardown(hook_is_asked, end),
        cmocka_unit_test_teardown(hook_refuses, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
