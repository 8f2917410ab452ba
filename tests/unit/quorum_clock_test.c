/* SPDX-License-Identifier: Apache-2.0 */
/* What is a jump of a server's clock, and what is not; without a server. */
#include "compound/quorum_clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define MS INT64_C(1000)
#define S (1000 * MS)
#define STEP ((int64_t)PAWL__CLOCK_STEP_US)
#define AHEAD (1700000000 * S) /* how far the server is ahead of us */
#define START (1000 * S)

/* A look that takes so long, of a clock that is set by so much. */
static struct pawl__offset look(int64_t asked_us, int64_t takes_us, int64_t set_us)
{
    const struct pawl__clock_sample sample = {
        asked_us, asked_us + takes_us, asked_us + takes_us / 2 + AHEAD + set_us};
    return pawl__offset_of(&sample);
}

static bool jumps(const struct pawl__offset *known, int64_t at_us, int64_t takes_us, int64_t set_us)
{
    int64_t by_us = 0;
    const struct pawl__offset found = look(at_us, takes_us, set_us);
    return pawl__offset_jumped(known, &found, &by_us);
}

static void a_look_tells_two_numbers(void **state)
{
    (void)state;
    const struct pawl__offset offset = look(START, 4 * MS, 0);
    assert_int_equal(offset.least_us, AHEAD - 2 * MS);
    assert_int_equal(offset.most_us, AHEAD + 2 * MS);
    assert_int_equal(offset.at_us, START + 4 * MS);
}

/* Of two that overlap the acquires' own is believed: those come in order. */
static void an_old_look_says_nothing(void **state)
{
    (void)state;
    const struct pawl__clock_sample newest = {START + 10, START + 20, AHEAD};
    const struct pawl__clock_sample before = {START, START + 10, AHEAD};
    const struct pawl__clock_sample across = {START + 5, START + 30, AHEAD};
    const struct pawl__clock_sample after = {START + 20, START + 30, AHEAD};
    for (int aside = 0; aside <= 1; aside++) {
        assert_true(pawl__sample_is_old(&before, &newest, aside));
        assert_int_equal(pawl__sample_is_old(&across, &newest, aside), aside);
        assert_false(pawl__sample_is_old(&after, &newest, aside));
    }
}

static void both_ways_it_is_a_jump(void **state)
{
    (void)state;
    const struct pawl__offset known = look(START, 0, 0);
    assert_false(jumps(&known, START, 0, 0));
    assert_false(jumps(&known, START, 0, STEP));
    assert_false(jumps(&known, START, 0, -STEP));
    assert_true(jumps(&known, START, 0, STEP + 1));
    assert_true(jumps(&known, START, 0, -STEP - 1));
    assert_true(jumps(&known, START, 0, 3600 * S));
    assert_true(jumps(&known, START, 0, -3600 * S));
}

/* Only what the way cannot explain. */
static void a_slow_answer_is_no_jump(void **state)
{
    (void)state;
    const struct pawl__offset known = look(START, 0, 0);
    assert_false(jumps(&known, START + S, 2 * S, 0));
    assert_false(jumps(&known, START + S, 2 * S, S));
    assert_true(jumps(&known, START + S, 2 * S, 2 * S));
    const struct pawl__offset vague = look(START, 2 * S, 0);
    assert_false(jumps(&vague, START + 4 * S, 0, S));
    assert_true(jumps(&vague, START + 4 * S, 0, S + STEP + 4 * MS));
}

static void drift_is_no_jump(void **state)
{
    (void)state;
    const struct pawl__offset known = look(START, 0, 0);
    for (int64_t after_us = 0; after_us <= 86400 * S; after_us += 3600 * S) {
        const int64_t drift_us = after_us / PAWL__CLOCK_DRIFT;
        assert_false(jumps(&known, START + after_us, 0, drift_us + STEP));
        assert_true(jumps(&known, START + after_us, 0, drift_us + STEP + 1));
        assert_false(jumps(&known, START + after_us, 0, -drift_us - STEP));
        assert_true(jumps(&known, START + after_us, 0, -drift_us - STEP - 1));
    }
    assert_int_equal(S / PAWL__CLOCK_DRIFT, 500); /* ppm */
}

static void looks_make_it_narrower(void **state)
{
    (void)state;
    struct pawl__offset known = {0};
    const struct pawl__offset vague = look(START, 2 * S, 0);
    known = pawl__offset_narrowed(&known, &vague);
    assert_int_equal(known.most_us - known.least_us, 2 * S);
    const struct pawl__offset sharp = look(START + 10 * S, 2 * MS, 0);
    known = pawl__offset_narrowed(&known, &sharp);
    assert_int_equal(known.most_us - known.least_us, 2 * MS);
    const struct pawl__offset again = look(START + 20 * S, 2 * S, 0);
    known = pawl__offset_narrowed(&known, &again);
    assert_int_equal(
        known.most_us - known.least_us, 2 * MS + 2 * ((12 * S - 2 * MS) / PAWL__CLOCK_DRIFT));
    assert_int_equal(known.at_us, START + 22 * S);
}

static void slewed_it_is_followed(void **state)
{
    (void)state;
    struct pawl__offset known = {0};
    int64_t by_us = 0;
    for (int64_t after_us = 0; after_us < 3600 * S; after_us += S) {
        const struct pawl__offset found = look(START + after_us, MS, after_us / 2500);
        assert_false(pawl__offset_jumped(&known, &found, &by_us));
        known = pawl__offset_narrowed(&known, &found);
    }
}

/* Each is none, but they add up. */
static void many_steps_are_a_jump(void **state)
{
    (void)state;
    struct pawl__offset known = look(START, 0, 0);
    int64_t by_us = 0;
    int steps = 0;
    bool found_out = false;
    while (!found_out && steps < 10) {
        steps++;
        const struct pawl__offset found = look(START + steps * S, 0, steps * 20 * MS);
        found_out = pawl__offset_jumped(&known, &found, &by_us);
        known = pawl__offset_narrowed(&known, &found);
    }
    assert_int_equal(steps, 3);
    assert_int_equal(by_us, 60 * MS);
}

static void of_two_servers(void **state)
{
    (void)state;
    int64_t by_us = 0;
    const struct pawl__offset unknown = {0};
    const struct pawl__offset one = look(START, 2 * MS, 5 * S);
    const struct pawl__offset other = look(START + S, 4 * MS, 0);
    const int64_t now_us = START + 2 * S;
    const struct pawl__offset between = pawl__offset_between(&one, &other, now_us);
    assert_int_equal(between.at_us, now_us);
    assert_in_range(between.least_us, 5 * S - 5 * MS, 5 * S - 3 * MS);
    assert_in_range(between.most_us, 5 * S + 3 * MS, 5 * S + 5 * MS);
    assert_false(pawl__offset_between(&one, &unknown, now_us).known);
    assert_false(pawl__offset_between(&unknown, &other, now_us).known);
    assert_false(pawl__offset_jumped(&unknown, &between, &by_us)); /* nobody has noted it */
    assert_false(pawl__offset_jumped(&between, &unknown, &by_us));
    const struct pawl__offset noted = {5 * S - MS, 5 * S + MS, now_us - 3600 * S, true};
    assert_false(pawl__offset_jumped(&noted, &between, &by_us));
    const struct pawl__offset otherwise = {9 * S - MS, 9 * S + MS, now_us - 3600 * S, true};
    assert_true(pawl__offset_jumped(&otherwise, &between, &by_us));
    assert_in_range(by_us, (uint64_t)(-4 * S - MS), (uint64_t)(-4 * S + MS));
}

static void the_odd_one_is_suspect(void **state)
{
    (void)state;
    assert_false(pawl__clock_is_suspect(0, 0));
    assert_false(pawl__clock_is_suspect(0, 1));
    assert_true(pawl__clock_is_suspect(1, 1));
    assert_false(pawl__clock_is_suspect(1, 2));
    assert_true(pawl__clock_is_suspect(2, 2));
    assert_false(pawl__clock_is_suspect(1, 3));
    assert_true(pawl__clock_is_suspect(2, 3));
    assert_false(pawl__clock_is_suspect(2, 4));
    assert_true(pawl__clock_is_suspect(3, 4));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_look_tells_two_numbers),
        cmocka_unit_test(an_old_look_says_nothing),
        cmocka_unit_test(both_ways_it_is_a_jump),
        cmocka_unit_test(a_slow_answer_is_no_jump),
        cmocka_unit_test(drift_is_no_jump),
        cmocka_unit_test(looks_make_it_narrower),
        cmocka_unit_test(slewed_it_is_followed),
        cmocka_unit_test(many_steps_are_a_jump),
        cmocka_unit_test(of_two_servers),
        cmocka_unit_test(the_odd_one_is_suspect),
    };
    return cmocka_run_group_tests_name("quorum clock", tests, NULL, NULL);
}
