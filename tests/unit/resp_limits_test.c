/* SPDX-License-Identifier: Apache-2.0 */

/* The reply reader's limits, memory and cost: can a hostile server make it large or slow, and does
 * it survive when there is no memory?
 *
 * Method: each limit is met exactly and exceeded by one, once with the values that the design
 * gives and once with small ones. Allocations are counted, measured and refused through
 * pawl__alloc_hook. That no byte is read twice is seen in how far the reader says it has got. */
#include "allocations.h"
#include "base/alloc.h"
#include "engine/redis/resp.h"
#include "support/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* --- Helpers --- */

static const struct pawl__resp_limits small_limits = {
    .reply_size = 60,
    .bulk_size = 20,
    .line_size = 10,
    .element_count = 6,
    .node_count = 9,
    .depth = 2,
};

static void add_repeated(struct text *wire, const char *piece, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        text_add_string(wire, piece);
    }
}

/* Read one reply with the given limits and a new reader; NULL if it is complete and takes all
 * bytes, else the reason why it is broken. Frees the wire. */
static const char *read_wire(const struct pawl__resp_limits *limits, struct text *wire)
{
    struct pawl__resp_reader reader;
    pawl__resp_init(&reader, limits);
    size_t consumed;
    const enum pawl__resp_result result =
        pawl__resp_parse(&reader, wire->data, wire->size, &consumed);
    const char *reason = reader.broken;
    assert_int_equal(result, reason == NULL ? PAWL__RESP_COMPLETE : PAWL__RESP_BROKEN);
    assert_int_equal(consumed, reason == NULL ? wire->size : 0);
    pawl__resp_free(&reader);
    text_free(wire);
    return reason;
}

static const char *read_string(const struct pawl__resp_limits *limits, const char *string)
{
    struct text wire = {0};
    text_add_string(&wire, string);
    return read_wire(limits, &wire);
}

static const char *read_bulk(const struct pawl__resp_limits *limits, size_t size)
{
    struct text wire = {0};
    text_addf(&wire, "$%zu\r\n", size);
    add_repeated(&wire, "b", size);
    text_add_string(&wire, "\r\n");
    return read_wire(limits, &wire);
}

static const char *read_status(const struct pawl__resp_limits *limits, size_t size)
{
    struct text wire = {0};
    text_add_string(&wire, "+");
    add_repeated(&wire, "s", size);
    text_add_string(&wire, "\r\n");
    return read_wire(limits, &wire);
}

static const char *read_aggregate(
    const struct pawl__resp_limits *limits, const char *type, size_t count, size_t element_count)
{
    struct text wire = {0};
    text_addf(&wire, "%s%zu\r\n", type, count);
    add_repeated(&wire, "_\r\n", element_count);
    return read_wire(limits, &wire);
}

/* Four bulk strings and a rest that make up a reply of exactly that size. */
static const char *read_reply_of_size(const struct pawl__resp_limits *limits, size_t size)
{
    struct text wire = {0};
    text_add_string(&wire, "*5\r\n");
    for (int i = 0; i < 4; i++) {
        text_addf(&wire, "$%d\r\n", 1 << 19);
        add_repeated(&wire, "b", 1 << 19);
        text_add_string(&wire, "\r\n");
    }
    while (size - wire.size > 900000) { /* attributes are part of the reply too */
        text_addf(&wire, "|1\r\n_\r\n$%d\r\n", 1 << 19);
        add_repeated(&wire, "a", 1 << 19);
        text_add_string(&wire, "\r\n");
    }
    const size_t head_size = strlen("$123456\r\n\r\n");
    text_addf(&wire, "$%zu\r\n", size - wire.size - head_size);
    add_repeated(&wire, "e", size - wire.size - 2);
    text_add_string(&wire, "\r\n");
    assert_int_equal(wire.size, size);
    return read_wire(limits, &wire);
}

/* --- Limits --- */

static void the_limits_are_those_of_the_design(void **state)
{
    (void)state;
    const struct pawl__resp_limits *limits = &pawl__resp_limits_default;
    assert_int_equal(limits->bulk_size, 1024 * 1024);
    assert_int_equal(limits->element_count, 1024);
    assert_int_equal(limits->depth, 8);
    assert_int_equal(limits->line_size, 64 * 1024);
    assert_int_equal(limits->reply_size, 4 * 1024 * 1024);
    assert_int_equal(pawl__resp_limits_listing.element_count, 65536);
    assert_int_equal(pawl__resp_limits_listing.bulk_size, limits->bulk_size);
    assert_int_equal(pawl__resp_limits_listing.reply_size, limits->reply_size);
}

static void a_bulk_string_may_be_1_mib(void **state)
{
    (void)state;
    assert_null(read_bulk(&pawl__resp_limits_default, 1024 * 1024));
    assert_string_equal(
        read_bulk(&pawl__resp_limits_default, 1024 * 1024 + 1), "a bulk string is too long");
    assert_null(read_bulk(&small_limits, 20));
    assert_string_equal(read_bulk(&small_limits, 21), "a bulk string is too long");
}

static void a_line_may_be_64_kib(void **state)
{
    (void)state;
    assert_null(read_status(&pawl__resp_limits_default, 64 * 1024));
    assert_string_equal(
        read_status(&pawl__resp_limits_default, 64 * 1024 + 1), "a line is too long");
    assert_null(read_status(&small_limits, 10));
    assert_string_equal(read_status(&small_limits, 11), "a line is too long");
    assert_null(read_string(&small_limits, "(1234567890\r\n"));
    assert_string_equal(read_string(&small_limits, "(12345678901\r\n"), "a line is too long");
}

/* A line without an end is refused when its longest end has been missed, not later. */
static void a_line_without_end_is_cut_off(void **state)
{
    (void)state;
    struct text wire = {0};
    text_add_string(&wire, "-");
    add_repeated(&wire, "x", 64 * 1024 + 2);
    struct pawl__resp_reader reader;
    pawl__resp_init(&reader, &pawl__resp_limits_default);
    size_t consumed;
    assert_int_equal(
        pawl__resp_parse(&reader, wire.data, wire.size - 1, &consumed), PAWL__RESP_MORE);
    assert_int_equal(pawl__resp_parse(&reader, wire.data, wire.size, &consumed), PAWL__RESP_BROKEN);
    assert_string_equal(reader.broken, "a line is too long");
    pawl__resp_free(&reader);
    text_free(&wire);
}

static void an_array_may_have_1024_elements(void **state)
{
    (void)state;
    const struct pawl__resp_limits *limits = &pawl__resp_limits_default;
    const char *reason = "an aggregate has too many elements";
    assert_null(read_aggregate(limits, "*", 1024, 1024));
    assert_string_equal(read_aggregate(limits, "*", 1025, 1025), reason);
    assert_null(read_aggregate(limits, "~", 1024, 1024));
    assert_string_equal(read_aggregate(limits, "~", 1025, 0), reason);
    assert_null(read_aggregate(limits, ">", 1024, 1024));
    assert_string_equal(read_aggregate(limits, ">", 1025, 0), reason);
    assert_null(read_aggregate(limits, "%", 512, 1024));
    assert_string_equal(read_aggregate(limits, "%", 513, 0), reason);
    assert_null(read_aggregate(limits, "|", 512, 1025));
    assert_string_equal(read_aggregate(limits, "|", 513, 0), reason);
}

static void a_listing_may_have_65536_elements(void **state)
{
    (void)state;
    const struct pawl__resp_limits *limits = &pawl__resp_limits_listing;
    assert_null(read_aggregate(limits, "*", 65536, 65536));
    assert_string_equal(
        read_aggregate(limits, "*", 65537, 0), "an aggregate has too many elements");
}

static void aggregates_may_be_nested_to_the_limit(void **state)
{
    (void)state;
    assert_null(read_string(&small_limits, "*1\r\n*2\r\n:1\r\n:1\r\n"));
    assert_null(read_string(&small_limits, "*1\r\n*2\r\n*-1\r\n_\r\n"));
    assert_string_equal(
        read_string(&small_limits, "*1\r\n*1\r\n*0\r\n"), "aggregates are nested too deep");
    assert_string_equal(
        read_string(&small_limits, "*1\r\n*1\r\n%1\r\n"), "aggregates are nested too deep");
}

static void a_reply_may_be_4_mib_in_all(void **state)
{
    (void)state;
    const size_t size = 4 * 1024 * 1024;
    assert_null(read_reply_of_size(&pawl__resp_limits_default, size));
    assert_string_equal(
        read_reply_of_size(&pawl__resp_limits_default, size + 1), "the reply is too long");
}

/* The last element of a reply may be a line, whose length nobody announced. */
static void the_whole_size_counts_lines_too(void **state)
{
    (void)state;
    const char *full = "*5\r\n+123456789\r\n+123456789\r\n+123456789\r\n+123456789\r\n+56789\r\n";
    const char *over = "*5\r\n+123456789\r\n+123456789\r\n+123456789\r\n+123456789\r\n+567890\r\n";
    assert_int_equal(strlen(full), 60);
    assert_null(read_string(&small_limits, full));
    assert_string_equal(read_string(&small_limits, over), "the reply is too long");

    /* Byte by byte it is refused as soon as 60 bytes are there and the end is not. */
    struct pawl__resp_reader reader;
    pawl__resp_init(&reader, &small_limits);
    size_t consumed;
    for (size_t size = 0; size < 60; size++) {
        assert_int_equal(pawl__resp_parse(&reader, over, size, &consumed), PAWL__RESP_MORE);
    }
    assert_int_equal(pawl__resp_parse(&reader, over, 60, &consumed), PAWL__RESP_BROKEN);
    pawl__resp_free(&reader);
}

/* A bulk string that cannot fit any more is refused by its length, before it is waited for. */
static void the_whole_size_is_checked_ahead(void **state)
{
    (void)state;
    const char *fits = "*4\r\n+123456789\r\n+123456789\r\n+123456789\r\n$13\r\n";
    const char *over = "*4\r\n+123456789\r\n+123456789\r\n+123456789\r\n$14\r\n";
    struct pawl__resp_reader reader;
    pawl__resp_init(&reader, &small_limits);
    size_t consumed;
    assert_int_equal(strlen(fits) + 13 + 2, 60);
    assert_int_equal(pawl__resp_parse(&reader, fits, strlen(fits), &consumed), PAWL__RESP_MORE);
    pawl__resp_reset(&reader);
    assert_int_equal(pawl__resp_parse(&reader, over, strlen(over), &consumed), PAWL__RESP_BROKEN);
    assert_string_equal(reader.broken, "the reply is too long");
    pawl__resp_free(&reader);
}

/* What follows a reply in the same block does not count for it. */
static void the_next_reply_does_not_count(void **state)
{
    (void)state;
    struct text wire = {0};
    add_repeated(&wire, ":12345\r\n", 100);
    struct pawl__resp_reader reader;
    pawl__resp_init(&reader, &small_limits);
    size_t consumed;
    for (size_t offset = 0; offset < wire.size; offset += consumed) {
        assert_int_equal(
            pawl__resp_parse(&reader, wire.data + offset, wire.size - offset, &consumed),
            PAWL__RESP_COMPLETE);
        assert_int_equal(consumed, 8);
    }
    pawl__resp_free(&reader);
    text_free(&wire);
}

static void a_reply_may_have_so_many_nodes_in_all(void **state)
{
    (void)state;
    const char *nine = "*2\r\n*3\r\n_\r\n_\r\n_\r\n*3\r\n_\r\n_\r\n_\r\n";
    const char *ten = "*2\r\n*3\r\n_\r\n_\r\n_\r\n*4\r\n_\r\n_\r\n_\r\n_\r\n";
    assert_null(read_string(&small_limits, nine));
    assert_string_equal(read_string(&small_limits, ten), "too many elements in one reply");
    /* Nodes of attributes are given back. */
    assert_null(read_string(
        &small_limits, "*2\r\n|2\r\n_\r\n_\r\n_\r\n_\r\n_\r\n|2\r\n_\r\n_\r\n_\r\n_\r\n_\r\n"));
}

/* A reader that once read a long listing has the memory, but not the right, to read another. */
static void limits_can_change_between_replies(void **state)
{
    (void)state;
    struct text wire = {0};
    text_add_string(&wire, "*2000\r\n");
    add_repeated(&wire, "_\r\n", 2000);
    struct pawl__resp_reader reader;
    size_t consumed;
    pawl__resp_init(&reader, &pawl__resp_limits_listing);
    assert_int_equal(
        pawl__resp_parse(&reader, wire.data, wire.size, &consumed), PAWL__RESP_COMPLETE);
    const char *ten = "*2\r\n*3\r\n_\r\n_\r\n_\r\n*4\r\n_\r\n_\r\n_\r\n_\r\n";
    pawl__resp_set_limits(&reader, &small_limits);
    assert_int_equal(pawl__resp_parse(&reader, ten, strlen(ten), &consumed), PAWL__RESP_BROKEN);
    assert_string_equal(reader.broken, "too many elements in one reply");
    pawl__resp_reset(&reader);
    pawl__resp_set_limits(&reader, &pawl__resp_limits_default);
    assert_int_equal(pawl__resp_parse(&reader, wire.data, wire.size, &consumed), PAWL__RESP_BROKEN);
    assert_string_equal(reader.broken, "an aggregate has too many elements");
    pawl__resp_free(&reader);
    text_free(&wire);
}

/* --- Memory --- */

static void announced_elements_cost_nothing(void **state)
{
    (void)state;
    struct pawl__resp_reader reader;
    pawl__resp_init(&reader, &pawl__resp_limits_listing);
    const char *wire = "*65536\r\n*65536\r\n*65536\r\n$1048576\r\n";
    size_t consumed;
    assert_int_equal(pawl__resp_parse(&reader, wire, strlen(wire), &consumed), PAWL__RESP_MORE);
    assert_int_equal(allocation_count, 1);
    assert_true(largest_allocation <= 1024);
    pawl__resp_free(&reader);
}

/* Fill a reply with the smallest elements there are, nested as deep as allowed. */
static void the_worst_reply_stays_within_4_mib(void **state)
{
    (void)state;
    const struct pawl__resp_limits *limits[] = {
        &pawl__resp_limits_default, &pawl__resp_limits_listing};
    for (size_t i = 0; i < 2; i++) {
        struct text wire = {0};
        text_addf(&wire, "*%u\r\n", limits[i]->element_count);
        while (wire.size < limits[i]->reply_size) {
            text_addf(&wire, "*%u\r\n", limits[i]->element_count);
            add_repeated(&wire, "_\r\n", limits[i]->element_count);
        }
        assert_string_equal(read_wire(limits[i], &wire), "too many elements in one reply");
        assert_int_equal(largest_allocation, limits[i]->node_count * 32);
        assert_true(largest_allocation <= 4 * 1024 * 1024);
    }
}

static void a_reader_that_saw_its_largest_reply_does_not_allocate(void **state)
{
    (void)state;
    struct pawl__resp_reader reader;
    pawl__resp_init(&reader, &pawl__resp_limits_default);
    struct text wire = {0};
    text_add_string(&wire, "*100\r\n");
    add_repeated(&wire, "$1\r\nx\r\n", 100);
    size_t consumed;
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(
            pawl__resp_parse(&reader, wire.data, wire.size, &consumed), PAWL__RESP_COMPLETE);
        if (i == 0) {
            allocation_count = 0;
        }
        assert_int_equal(pawl__resp_parse(&reader, ":1\r\n", 4, &consumed), PAWL__RESP_COMPLETE);
    }
    assert_int_equal(allocation_count, 0);
    pawl__resp_free(&reader);
    text_free(&wire);
}

/* Fail the n-th allocation of a long reply, for each n until it no longer matters. The call that
 * fails must be good for another try, and that must find everything. */
static void without_memory_nothing_is_lost(void **state)
{
    (void)state;
    struct text wire = {0};
    text_add_string(&wire, "*300\r\n");
    add_repeated(&wire, "*2\r\n|1\r\n+a\r\n_\r\n$3\r\nabc\r\n+de\r\n", 300);
    bool was_refused = true;
    size_t refused_count = 0;
    while (was_refused) {
        struct pawl__resp_reader reader;
        pawl__resp_init(&reader, &pawl__resp_limits_default);
        allocation_count = 0;
        refused_index = refused_count + 1;
        size_t consumed;
        enum pawl__resp_result result = pawl__resp_parse(&reader, wire.data, wire.size, &consumed);
        was_refused = result == PAWL__RESP_NO_MEMORY;
        if (was_refused) {
            refused_count++;
            assert_int_equal(consumed, 0);
            assert_null(reader.broken);
            result = pawl__resp_parse(&reader, wire.data, wire.size, &consumed);
        }
        assert_int_equal(result, PAWL__RESP_COMPLETE);
        assert_int_equal(consumed, wire.size);
        assert_int_equal(reader.node_count, 1 + 300 * 3);
        const struct pawl__resp_node *last =
            pawl__resp_child(&reader, pawl__resp_root(&reader), 299);
        assert_true(pawl__resp_text_equals(&reader, pawl__resp_child(&reader, last, 1), "de"));
        pawl__resp_free(&reader);
    }
    assert_true(refused_count >= 6); /* 16 nodes, doubled until 901 fit */
    text_free(&wire);
}

/* --- Cost --- */

/* Byte by byte, the search for the end of a line never goes back. */
static void a_dripping_line_is_searched_once(void **state)
{
    (void)state;
    struct text wire = {0};
    text_add_string(&wire, "+");
    add_repeated(&wire, "s", 64 * 1024);
    struct pawl__resp_reader reader;
    pawl__resp_init(&reader, &pawl__resp_limits_default);
    for (size_t size = 2; size <= wire.size; size++) {
        size_t consumed;
        assert_int_equal(pawl__resp_parse(&reader, wire.data, size, &consumed), PAWL__RESP_MORE);
        assert_int_equal(reader.scanned, size);
    }
    pawl__resp_free(&reader);
    text_free(&wire);
}

/* Elements that have arrived are done with, and so is the length of a bulk string. */
static void a_dripping_array_is_read_once(void **state)
{
    (void)state;
    struct text wire = {0};
    text_add_string(&wire, "*1000\r\n");
    add_repeated(&wire, "$5\r\nabcde\r\n:1\r\n", 500);
    struct pawl__resp_reader reader;
    pawl__resp_init(&reader, &pawl__resp_limits_default);
    for (size_t size = 0; size < wire.size; size++) {
        size_t consumed;
        assert_int_equal(pawl__resp_parse(&reader, wire.data, size, &consumed), PAWL__RESP_MORE);
        assert_true(size - reader.at <= strlen("abcde\r\n"));
    }
    pawl__resp_free(&reader);
    text_free(&wire);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, begin_counting, end_counting)

int main(void)
{
    const struct CMUnitTest cases[] = {
        CASE(the_limits_are_those_of_the_design),
        CASE(a_bulk_string_may_be_1_mib),
        CASE(a_line_may_be_64_kib),
        CASE(a_line_without_end_is_cut_off),
        CASE(an_array_may_have_1024_elements),
        CASE(a_listing_may_have_65536_elements),
        CASE(aggregates_may_be_nested_to_the_limit),
        CASE(a_reply_may_be_4_mib_in_all),
        CASE(the_whole_size_counts_lines_too),
        CASE(the_whole_size_is_checked_ahead),
        CASE(the_next_reply_does_not_count),
        CASE(a_reply_may_have_so_many_nodes_in_all),
        CASE(limits_can_change_between_replies),
        CASE(announced_elements_cost_nothing),
        CASE(the_worst_reply_stays_within_4_mib),
        CASE(a_reader_that_saw_its_largest_reply_does_not_allocate),
        CASE(without_memory_nothing_is_lost),
        CASE(a_dripping_line_is_searched_once),
        CASE(a_dripping_array_is_read_once),
    };
    return cmocka_run_group_tests_name("resp_limits", cases, NULL, NULL);
}
