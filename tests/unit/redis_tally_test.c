/* SPDX-License-Identifier: Apache-2.0 */
/* What semaphores and latches are asked, as bytes, and replies as answers: no server takes part. */
#include "base/alloc.h"
#include "engine/redis/lua_scripts.h"
#include "engine/redis/tally.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define UUID "6ba7b810-9dad-41d1-80b4-00c04fd430c8"

struct fixture {
    struct pawl__redis_place place;
    struct pawl__tally_ask ask;
    struct pawl__op op;
    struct pawl__buffer out;
};

static void begin(struct fixture *fixture, const char *name, enum pawl__family family,
    enum pawl__tally_verb verb, int64_t amount)
{
    memset(fixture, 0, sizeof *fixture);
    fixture->place.place.name = name;
    fixture->place.place.name_size = (uint32_t)strlen(name);
    fixture->place.place.family = family;
    pawl__redis_place_init(&fixture->place);
    fixture->ask = (struct pawl__tally_ask){.verb = verb, .amount = amount, .keep_us = 72000000};
    fixture->op = (struct pawl__op){.kind = PAWL__OP_TALLY,
        .place = &fixture->place.place,
        .id = 7,
        .lease_us = 1500,
        .tally = &fixture->ask};
    pawl__buffer_init(&fixture->out, 1 << 16);
}

static void end(struct fixture *fixture)
{
    pawl__free(fixture->op.error);
    pawl__buffer_free(&fixture->out);
}

/* The command's words, each behind its size, must be these. */
static void expect_words(struct fixture *fixture, const char *const *words, size_t count)
{
    char expected[2048];
    int size = snprintf(expected, sizeof expected, "*%zu\r\n", count);
    for (size_t i = 0; i < count; i++) {
        size += snprintf(expected + size, sizeof expected - (size_t)size, "$%zu\r\n%s\r\n",
            strlen(words[i]), words[i]);
    }
    assert_true(pawl__tally_command_put(UUID, &fixture->out, &fixture->op, false));
    assert_int_equal(pawl__buffer_size(&fixture->out), size);
    assert_memory_equal(pawl__buffer_data(&fixture->out), expected, (size_t)size);
}

static void commands(void **state)
{
    (void)state;
    struct fixture fixture;
    const char *const take[] = {"EVALSHA", pawl__script_semaphore_take.sha1, "4", "s", "s",
        "pawl_asked:{s}:" UUID ":7", "pawl_asked:{s}:" UUID ":5", "redisson_sc:{s}", "72000", "3"};
    begin(&fixture, "s", PAWL__FAMILY_SEMAPHORE, PAWL__TALLY_TAKE, 3);
    fixture.ask.forget = 5;
    expect_words(&fixture, take, 10);
    end(&fixture);

    struct pawl__permit_id id;
    memcpy(id.bytes, "0123456789abcdef", sizeof id.bytes);
    const char *const lease[] = {"EVALSHA", pawl__script_permits_take.sha1, "4", "a{b",
        "a{b:timeout", "pawl_asked:a{b:" UUID ":7", "pawl_asked:a{b:" UUID ":7", "redisson_sc:a{b",
        "72000", "2", "0123456789abcdef"};
    begin(&fixture, "a{b", PAWL__FAMILY_PERMITS, PAWL__TALLY_TAKE, 1);
    fixture.ask.ids = &id;
    expect_words(&fixture, lease, 11);
    end(&fixture);

    const char *const down[] = {"EVALSHA", pawl__script_latch_down.sha1, "4", "{x}y", "{x}y",
        "pawl_asked:{x}y:" UUID ":7", "pawl_asked:{x}y:" UUID ":7",
        "redisson_countdownlatch__channel__{{x}y}", "72000"};
    begin(&fixture, "{x}y", PAWL__FAMILY_LATCH, PAWL__TALLY_DOWN, 0);
    expect_words(&fixture, down, 9);
    end(&fixture);
}

/* No room: nothing is written. */
static void no_room(void **state)
{
    (void)state;
    struct fixture fixture;
    begin(&fixture, "s", PAWL__FAMILY_SEMAPHORE, PAWL__TALLY_TAKE, 3);
    pawl__buffer_free(&fixture.out);
    pawl__buffer_init(&fixture.out, 120);
    assert_false(pawl__tally_command_put(UUID, &fixture.out, &fixture.op, false));
    assert_int_equal(pawl__buffer_size(&fixture.out), 0);
    end(&fixture);
}

static void numbers(void **state)
{
    (void)state;
    static const struct {
        enum pawl__tally_verb verb;
        int64_t number;
        int answer; /* -1: strange */
        int64_t value;
    } cases[] = {
        {PAWL__TALLY_TAKE, 1, PAWL__DONE, 0},
        {PAWL__TALLY_TAKE, 0, PAWL__HELD, 0},
        {PAWL__TALLY_TAKE, -1, PAWL__HELD, 0},
        {PAWL__TALLY_TAKE, 2, -1, 0},
        {PAWL__TALLY_TAKE, INT64_MIN, -1, 0},
        {PAWL__TALLY_READ, -3, PAWL__DONE, -3},
        {PAWL__TALLY_AWAIT, 0, PAWL__DONE, 0},
        {PAWL__TALLY_AWAIT, 4, PAWL__HELD, 4},
        {PAWL__TALLY_SET, 1, PAWL__DONE, 0},
        {PAWL__TALLY_SET, 0, PAWL__GONE, 0},
        {PAWL__TALLY_SET, 2, -1, 0},
        {PAWL__TALLY_DRAIN, 9, PAWL__DONE, 9},
        {PAWL__TALLY_GIVE, -1, -1, 0},
        {PAWL__TALLY_EXTEND, 1, -1, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct fixture fixture;
        begin(&fixture, "s", PAWL__FAMILY_SEMAPHORE, cases[i].verb, 1);
        const enum pawl__reply_result result = pawl__tally_answer(&fixture.op, cases[i].number);
        if (cases[i].answer < 0) {
            assert_int_equal(result, PAWL__REPLY_STRANGE);
        } else {
            assert_int_equal(result, PAWL__REPLY_TAKEN);
            assert_int_equal(fixture.op.answer, cases[i].answer);
            assert_int_equal(fixture.ask.value, cases[i].value);
            assert_int_equal(fixture.ask.unset, cases[i].number == -1);
        }
        end(&fixture);
    }
}

static void hint(void **state)
{
    (void)state;
    struct fixture fixture;
    begin(&fixture, "s", PAWL__FAMILY_PERMITS, PAWL__TALLY_TAKE, 1);
    assert_int_equal(pawl__tally_answer(&fixture.op, -252), PAWL__REPLY_TAKEN);
    assert_int_equal(fixture.op.answer, PAWL__HELD);
    assert_int_equal(fixture.op.hint_us, 250000);
    end(&fixture);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(commands),
        cmocka_unit_test(no_room),
        cmocka_unit_test(numbers),
        cmocka_unit_test(hint),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
