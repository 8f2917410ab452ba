/* SPDX-License-Identifier: Apache-2.0 */

/* The reply reader: does it read every reply the same however it arrives, and refuse everything
 * that is none? (Its limits and its memory are resp_limits_test.c.)
 *
 * Method: replies are written as they are on the wire and compared with a printed form of the
 * nodes. Each is read whole, cut in two at every point, and byte by byte; the bytes lie in a new
 * block of exactly their size at each call, so that a pointer kept or a byte read too far is found
 * by the address sanitizer. What is broken is a table of its own, with the reason expected. */
#include "engine/redis/resp.h"
#include "support/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* --- Printing a reply --- */

static void print_node(
    const struct pawl__resp_reader *reader, const struct pawl__resp_node *node, struct text *out);

static void print_children(const struct pawl__resp_reader *reader,
    const struct pawl__resp_node *parent, const char *brackets, struct text *out)
{
    uint32_t count = 0;
    text_add(out, &brackets[0], 1);
    for (const struct pawl__resp_node *child = pawl__resp_first(reader, parent); child != NULL;
         child = pawl__resp_next(reader, parent, child)) {
        text_add_string(out, count > 0 ? " " : "");
        print_node(reader, child, out);
        assert_ptr_equal(pawl__resp_child(reader, parent, count), child);
        count++;
    }
    text_add(out, &brackets[1], 1);
    assert_int_equal(count, parent->child_count);
    assert_null(pawl__resp_child(reader, parent, count));
}

static void print_text(const struct pawl__resp_reader *reader, const struct pawl__resp_node *node,
    const char *format, struct text *out)
{
    char *text = support_copy(pawl__resp_text(reader, node), node->text_size);
    text_add_string(out, format);
    text_add_string(out, text);
    text_add_string(out, format);
    free(text);
}

static void print_node(
    const struct pawl__resp_reader *reader, const struct pawl__resp_node *node, struct text *out)
{
    switch (node->type) {
    case PAWL__RESP_NULL:
        text_add_string(out, "nil");
        break;
    case PAWL__RESP_BOOLEAN:
        text_add_string(out, node->integer == 1 ? "true" : "false");
        break;
    case PAWL__RESP_INTEGER:
        text_addf(out, "%lld", (long long)node->integer);
        break;
    case PAWL__RESP_DOUBLE:
        print_text(reader, node, ",", out);
        break;
    case PAWL__RESP_BIG:
        print_text(reader, node, "|", out);
        break;
    case PAWL__RESP_STATUS:
        print_text(reader, node, "'", out);
        break;
    case PAWL__RESP_ERROR:
        print_text(reader, node, "!", out);
        break;
    case PAWL__RESP_TEXT:
        print_text(reader, node, "\"", out);
        break;
    case PAWL__RESP_ARRAY:
        print_children(reader, node, "[]", out);
        break;
    case PAWL__RESP_SET:
        print_children(reader, node, "()", out);
        break;
    case PAWL__RESP_MAP:
        print_children(reader, node, "{}", out);
        break;
    case PAWL__RESP_PUSH:
        print_children(reader, node, "<>", out);
        break;
    }
}

static void assert_reply(const struct pawl__resp_reader *reader, const char *expected)
{
    struct text printed = {0};
    print_node(reader, pawl__resp_root(reader), &printed);
    assert_string_equal(printed.data, expected);
    text_free(&printed);
}

/* --- Feeding --- */

/* What the reader says when the first `size` bytes have arrived. They are in a block of exactly
 * that size, which the caller frees when it has looked at the reply. */
static enum pawl__resp_result feed(struct pawl__resp_reader *reader, const char *wire, size_t size,
    char **block_out, size_t *consumed_out)
{
    char *block = malloc(size > 0 ? size : 1);
    assert_non_null(block);
    memcpy(block, wire, size);
    *block_out = block;
    return pawl__resp_parse(reader, block, size, consumed_out);
}

static enum pawl__resp_result feed_unseen(
    struct pawl__resp_reader *reader, const char *wire, size_t size)
{
    char *block;
    size_t consumed;
    const enum pawl__resp_result result = feed(reader, wire, size, &block, &consumed);
    free(block);
    return result;
}

static void expect_reply(
    struct pawl__resp_reader *reader, const char *wire, size_t size, const char *expected)
{
    char *block;
    size_t consumed;
    assert_int_equal(feed(reader, wire, size, &block, &consumed), PAWL__RESP_COMPLETE);
    assert_int_equal(consumed, size);
    assert_reply(reader, expected);
    free(block);
}

static void expect_broken(
    struct pawl__resp_reader *reader, const char *wire, size_t size, const char *reason)
{
    assert_int_equal(feed_unseen(reader, wire, size), PAWL__RESP_BROKEN);
    assert_string_equal(reader->broken, reason);
    assert_int_equal(feed_unseen(reader, ":1\r\n", 4), PAWL__RESP_BROKEN); /* for ever */
    pawl__resp_reset(reader);
    assert_null(reader->broken);
}

/* --- Replies --- */

struct reply_case {
    const char *wire;
    const char *expected;
};

static const struct reply_case replies[] = {
    {"+OK\r\n", "'OK'"},
    {"+\r\n", "''"},
    {"-ERR no\r\n", "!ERR no!"},
    {":0\r\n", "0"},
    {":123\r\n", "123"},
    {":-1\r\n", "-1"},
    {":9223372036854775807\r\n", "9223372036854775807"},
    {":-9223372036854775808\r\n", "-9223372036854775808"},
    {"$0\r\n\r\n", "\"\""},
    {"$5\r\nhello\r\n", "\"hello\""},
    {"$4\r\n\r\n\r\n\r\n", "\"\r\n\r\n\""},
    {"$-1\r\n", "nil"},
    {"*-1\r\n", "nil"},
    {"_\r\n", "nil"},
    {"#t\r\n", "true"},
    {"#f\r\n", "false"},
    {",3.14\r\n", ",3.14,"},
    {",-1\r\n", ",-1,"},
    {",1.5e-7\r\n", ",1.5e-7,"},
    {",2E+10\r\n", ",2E+10,"},
    {",.5\r\n", ",.5,"},
    {",inf\r\n", ",inf,"},
    {",-inf\r\n", ",-inf,"},
    {",nan\r\n", ",nan,"},
    {"(3492890328409238509324850943850943825024385\r\n",
        "|3492890328409238509324850943850943825024385|"},
    {"(-12\r\n", "|-12|"},
    {"!9\r\nERR again\r\n", "!ERR again!"},
    {"=9\r\ntxt:a\r\nbc\r\n", "\"a\r\nbc\""},
    {"=4\r\nmkd:\r\n", "\"\""},
    {"*0\r\n", "[]"},
    {"*2\r\n:1\r\n:2\r\n", "[1 2]"},
    {"*3\r\n$1\r\na\r\n*2\r\n*0\r\n*1\r\n+x\r\n$-1\r\n", "[\"a\" [[] ['x']] nil]"},
    {"%2\r\n+a\r\n:1\r\n+b\r\n*1\r\n:2\r\n", "{'a' 1 'b' [2]}"},
    {"%0\r\n", "{}"},
    {"~2\r\n+a\r\n#t\r\n", "('a' true)"},
    {"~0\r\n", "()"},
    {">3\r\n+message\r\n$1\r\nc\r\n$1\r\n0\r\n", "<'message' \"c\" \"0\">"},
    {">0\r\n", "<>"},
    /* Attributes are left out wherever they stand. */
    {"|1\r\n+ttl\r\n:3\r\n:7\r\n", "7"},
    {"|0\r\n:7\r\n", "7"},
    {"|1\r\n+a\r\n*2\r\n:1\r\n%1\r\n:1\r\n:2\r\n*1\r\n:7\r\n", "[7]"},
    {"|1\r\n+a\r\n:1\r\n|1\r\n+b\r\n:2\r\n+x\r\n", "'x'"},
    {"*3\r\n:1\r\n|1\r\n+a\r\n:9\r\n:2\r\n|1\r\n+b\r\n:9\r\n*1\r\n:3\r\n", "[1 2 [3]]"},
    {"|1\r\n|1\r\n+x\r\n+y\r\n+a\r\n:1\r\n:7\r\n", "7"},
    {"|1\r\n+a\r\n:1\r\n>1\r\n+p\r\n", "<'p'>"},
    /* Eight aggregates inside each other. */
    {"*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*2\r\n:1\r\n:2\r\n", "[[[[[[[[1 2]]]]]]]]"},
};
enum { REPLY_COUNT = sizeof replies / sizeof replies[0] };

static void every_type_whole(void **state)
{
    (void)state;
    struct pawl__resp_reader reader;
    pawl__resp_init(&reader, &pawl__resp_limits_default);
    for (size_t i = 0; i < REPLY_COUNT; i++) {
        expect_reply(&reader, replies[i].wire, strlen(replies[i].wire), replies[i].expected);
    }
    pawl__resp_free(&reader);
}

static void every_type_cut_at_every_point(void **state)
{
    (void)state;
    struct pawl__resp_reader reader;
    pawl__resp_init(&reader, &pawl__resp_limits_default);
    for (size_t i = 0; i < REPLY_COUNT; i++) {
        const size_t size = strlen(replies[i].wire);
        for (size_t cut = 0; cut < size; cut++) {
            assert_int_equal(feed_unseen(&reader, replies[i].wire, cut), PAWL__RESP_MORE);
            expect_reply(&reader, replies[i].wire, size, replies[i].expected);
        }
    }
    pawl__resp_free(&reader);
}

static void every_type_byte_by_byte(void **state)
{
    (void)state;
    struct pawl__resp_reader reader;
    pawl__resp_init(&reader, &pawl__resp_limits_default);
    for (size_t i = 0; i < REPLY_COUNT; i++) {
        const size_t size = strlen(replies[i].wire);
        for (size_t arrived = 0; arrived < size; arrived++) {
            assert_int_equal(feed_unseen(&reader, replies[i].wire, arrived), PAWL__RESP_MORE);
        }
        expect_reply(&reader, replies[i].wire, size, replies[i].expected);
    }
    pawl__resp_free(&reader);
}

/* All replies in one block, as a pipeline gets them: each takes its own bytes and no more. */
static void replies_in_a_row(void **state)
{
    (void)state;
    struct text wire = {0};
    for (size_t i = 0; i < REPLY_COUNT; i++) {
        text_add_string(&wire, replies[i].wire);
    }
    struct pawl__resp_reader reader;
    pawl__resp_init(&reader, &pawl__resp_limits_default);
    size_t offset = 0;
    for (size_t i = 0; i < REPLY_COUNT; i++) {
        size_t consumed;
        const enum pawl__resp_result result =
            pawl__resp_parse(&reader, wire.data + offset, wire.size - offset, &consumed);
        assert_int_equal(result, PAWL__RESP_COMPLETE);
        assert_int_equal(consumed, strlen(replies[i].wire));
        assert_reply(&reader, replies[i].expected);
        offset += consumed;
    }
    assert_int_equal(offset, wire.size);
    assert_int_equal(feed_unseen(&reader, "", 0), PAWL__RESP_MORE);
    pawl__resp_free(&reader);
    text_free(&wire);
}

static void texts_may_contain_any_byte(void **state)
{
    (void)state;
    struct pawl__resp_reader reader;
    pawl__resp_init(&reader, &pawl__resp_limits_default);
    char *block;
    size_t consumed;
    assert_int_equal(
        feed(&reader, "$4\r\n\0\xff\n:\r\n", 10, &block, &consumed), PAWL__RESP_COMPLETE);
    assert_int_equal(consumed, 10);
    assert_int_equal(pawl__resp_root(&reader)->text_size, 4);
    assert_memory_equal(pawl__resp_text(&reader, pawl__resp_root(&reader)), "\0\xff\n:", 4);
    free(block);
    assert_int_equal(feed(&reader, "+a\0b\r\n", 6, &block, &consumed), PAWL__RESP_COMPLETE);
    assert_int_equal(pawl__resp_root(&reader)->text_size, 3);
    free(block);
    pawl__resp_free(&reader);
}

/* --- What is no reply --- */

#define MALFORMED "a number is malformed"
#define TOO_LARGE "a number is too large"
#define TOO_SMALL "a length is too small"
#define NOT_THERE "a line does not end where it should"
#define NO_CR_LF "a line does not end in CR LF"
#define TOO_LONG "a bulk string is too long"
#define TOO_MANY "an aggregate has too many elements"
#define TOO_DEEP "aggregates are nested too deep"
#define UNKNOWN "an unknown type of reply"

struct broken_case {
    const char *wire;
    const char *reason;
};

static const struct broken_case broken_replies[] = {
    {"x", UNKNOWN},
    {"\r\n", UNKNOWN},
    {"OK\r\n", UNKNOWN},
    {"*1\r\n@", UNKNOWN},
    {".\r\n", UNKNOWN},
    /* Numbers. */
    {":\r\n", MALFORMED},
    {":-\r\n", MALFORMED},
    {":+1\r\n", MALFORMED},
    {":--1\r\n", MALFORMED},
    {": 1\r\n", MALFORMED},
    {":01\r\n", MALFORMED},
    {":-0\r\n", MALFORMED},
    {":1 \r\n", NOT_THERE},
    {":1.0\r\n", NOT_THERE},
    {":0x10\r\n", NOT_THERE},
    {":9223372036854775808\r\n", TOO_LARGE},
    {":-9223372036854775809\r\n", TOO_LARGE},
    {":99999999999999999999\r\n", TOO_LARGE},
    {":18446744073709551616\r\n", TOO_LARGE},
    {":11111111111111111111111111", TOO_LARGE},
    {",\r\n", MALFORMED},
    {",.\r\n", MALFORMED},
    {",1e\r\n", MALFORMED},
    {",e5\r\n", MALFORMED},
    {",1,5\r\n", MALFORMED},
    {",0x1p3\r\n", MALFORMED},
    {",infinity\r\n", MALFORMED},
    {",1.5 \r\n", MALFORMED},
    {"(\r\n", MALFORMED},
    {"(-\r\n", MALFORMED},
    {"(1.5\r\n", MALFORMED},
    /* Line ends. */
    {":1\n", NOT_THERE},
    {":1\rx", NO_CR_LF},
    {"_x\r\n", NOT_THERE},
    {"_\r_", NO_CR_LF},
    {"+OK\n", NO_CR_LF},
    {"+a\rb\r\n", NO_CR_LF},
    {"+a\nb\r\n", NO_CR_LF},
    {"+a\r\r\n", NO_CR_LF},
    {"-ERR\n", NO_CR_LF},
    {"$2\r\nabc\r\n", NOT_THERE},
    {"$2\r\nab\rx", NO_CR_LF},
    {"$2\nab\r\n", NOT_THERE},
    {"*1\n:1\r\n", NOT_THERE},
    {"#t\n", NOT_THERE},
    {"#x\r\n", "a boolean is neither t nor f"},
    /* Lengths. */
    {"$-2\r\n", TOO_SMALL},
    {"*-2\r\n", TOO_SMALL},
    {"%-1\r\n", TOO_SMALL},
    {"~-1\r\n", TOO_SMALL},
    {">-1\r\n", TOO_SMALL},
    {"|-1\r\n", TOO_SMALL},
    {"!-1\r\n", TOO_SMALL},
    {"=-1\r\n", TOO_SMALL},
    {"=3\r\ntxt\r\n", TOO_SMALL},
    {"=4\r\ntext\r\n", "a verbatim string has no format"},
    {"$-9223372036854775808\r\n", TOO_SMALL},
    {"*-9223372036854775808\r\n", TOO_SMALL},
    {"$9223372036854775807\r\n", TOO_LONG},
    {"$18446744073709551615\r\n", TOO_LARGE},
    {"$4294967296\r\n", TOO_LONG},
    {"!9223372036854775807\r\n", TOO_LONG},
    {"=2147483648\r\n", TOO_LONG},
    {"*2147483647\r\n", TOO_MANY},
    {"*4294967297\r\n", TOO_MANY},
    {"*9223372036854775807\r\n", TOO_MANY},
    {"%4611686018427387904\r\n", TOO_MANY},
    {"%9223372036854775807\r\n", TOO_MANY},
    {"|9223372036854775807\r\n", TOO_MANY},
    {"~2147483647\r\n", TOO_MANY},
    {">2147483647\r\n", TOO_MANY},
    /* Streamed types. */
    {"$?\r\n", MALFORMED},
    {"*?\r\n", MALFORMED},
    {"%?\r\n", MALFORMED},
    {"~?\r\n", MALFORMED},
    {";4\r\n", UNKNOWN},
    /* In the wrong place. */
    {"*1\r\n>1\r\n:1\r\n", "a push inside another reply"},
    {"*1\r\n>0\r\n", "a push inside another reply"},
    {"*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*0\r\n", TOO_DEEP},
    {"*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n|1\r\n", TOO_DEEP},
};
enum { BROKEN_COUNT = sizeof broken_replies / sizeof broken_replies[0] };

static void what_is_no_reply_is_refused_for_ever(void **state)
{
    (void)state;
    struct pawl__resp_reader reader;
    pawl__resp_init(&reader, &pawl__resp_limits_default);
    for (size_t i = 0; i < BROKEN_COUNT; i++) {
        const struct broken_case *c = &broken_replies[i];
        expect_broken(&reader, c->wire, strlen(c->wire), c->reason);
    }
    pawl__resp_free(&reader);
}

static void what_is_no_reply_is_refused_byte_by_byte(void **state)
{
    (void)state;
    struct pawl__resp_reader reader;
    pawl__resp_init(&reader, &pawl__resp_limits_default);
    for (size_t i = 0; i < BROKEN_COUNT; i++) {
        const struct broken_case *c = &broken_replies[i];
        size_t arrived = 0;
        enum pawl__resp_result result;
        do {
            result = feed_unseen(&reader, c->wire, arrived);
            arrived++;
        } while (result == PAWL__RESP_MORE && arrived <= strlen(c->wire));
        assert_int_equal(result, PAWL__RESP_BROKEN);
        assert_string_equal(reader.broken, c->reason);
        pawl__resp_reset(&reader);
    }
    pawl__resp_free(&reader);
}

/* --- Accessors --- */

static const struct pawl__resp_node *read_constant(
    struct pawl__resp_reader *reader, const char *wire)
{
    size_t consumed;
    assert_int_equal(pawl__resp_parse(reader, wire, strlen(wire), &consumed), PAWL__RESP_COMPLETE);
    return pawl__resp_root(reader);
}

static void values_are_found_by_key(void **state)
{
    (void)state;
    struct pawl__resp_reader reader;
    pawl__resp_init(&reader, &pawl__resp_limits_default);
    const char *const wires[] = {
        "%3\r\n+id\r\n*1\r\n:1\r\n$4\r\nrole\r\n+master\r\n:3\r\n+id\r\n",
        "*6\r\n+id\r\n*1\r\n:1\r\n$4\r\nrole\r\n+master\r\n:3\r\n+id\r\n",
    };
    for (size_t i = 0; i < 2; i++) {
        const struct pawl__resp_node *map = read_constant(&reader, wires[i]);
        assert_int_equal(pawl__resp_map_get(&reader, map, "id")->type, PAWL__RESP_ARRAY);
        assert_true(
            pawl__resp_text_equals(&reader, pawl__resp_map_get(&reader, map, "role"), "master"));
        assert_null(pawl__resp_map_get(&reader, map, "master"));
        assert_null(pawl__resp_map_get(&reader, map, "rol"));
        assert_null(pawl__resp_map_get(&reader, map, ""));
    }
    assert_null(pawl__resp_map_get(&reader, read_constant(&reader, "*1\r\n+a\r\n"), "a"));
    assert_null(pawl__resp_map_get(&reader, read_constant(&reader, "~2\r\n+a\r\n+b\r\n"), "a"));
    assert_null(pawl__resp_map_get(&reader, read_constant(&reader, "+a\r\n"), "a"));
    pawl__resp_free(&reader);
}

static void texts_errors_and_pushes_are_told_apart(void **state)
{
    (void)state;
    struct pawl__resp_reader reader;
    pawl__resp_init(&reader, &pawl__resp_limits_default);
    const struct pawl__resp_node *root = read_constant(&reader, "-NOSCRIPT No such script\r\n");
    assert_true(pawl__resp_is_error(root));
    assert_true(pawl__resp_error_is(&reader, root, "NOSCRIPT"));
    assert_false(pawl__resp_error_is(&reader, root, "NOSC"));
    assert_false(pawl__resp_error_is(&reader, root, "NOSCRIPTS"));
    assert_false(pawl__resp_text_equals(&reader, root, "NOSCRIPT No such script"));
    root = read_constant(&reader, "!4\r\nBUSY\r\n");
    assert_true(pawl__resp_error_is(&reader, root, "BUSY"));
    assert_false(pawl__resp_error_is(&reader, root, "BUSYGROUP"));
    root = read_constant(&reader, "+OK\r\n");
    assert_true(pawl__resp_text_equals(&reader, root, "OK"));
    assert_false(pawl__resp_text_equals(&reader, root, "OKAY"));
    assert_false(pawl__resp_text_equals(&reader, root, "O"));
    assert_false(pawl__resp_is_error(root));
    assert_false(pawl__resp_error_is(&reader, root, "OK"));
    assert_false(pawl__resp_is_push(root));
    assert_true(pawl__resp_is_push(read_constant(&reader, ">1\r\n+x\r\n")));
    assert_false(pawl__resp_text_equals(&reader, read_constant(&reader, ":1\r\n"), ""));
    pawl__resp_free(&reader);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(every_type_whole),
        cmocka_unit_test(every_type_cut_at_every_point),
        cmocka_unit_test(every_type_byte_by_byte),
        cmocka_unit_test(replies_in_a_row),
        cmocka_unit_test(texts_may_contain_any_byte),
        cmocka_unit_test(what_is_no_reply_is_refused_for_ever),
        cmocka_unit_test(what_is_no_reply_is_refused_byte_by_byte),
        cmocka_unit_test(values_are_found_by_key),
        cmocka_unit_test(texts_errors_and_pushes_are_told_apart),
    };
    return cmocka_run_group_tests_name("resp", cases, NULL, NULL);
}
