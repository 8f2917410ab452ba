/* SPDX-License-Identifier: Apache-2.0 */
/* The oracles of the fault tests, tested: each finds what it is there for, and a crew that does not
 * lock at all does not pass. Without this a green fault test would prove nothing. */
#include "fault/lib/fault.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static struct hold hold_of(size_t worker, uint64_t token, int64_t from_us, int64_t until_us)
{
    return (struct hold){.worker = worker,
        .token = token,
        .from_us = from_us,
        .used_us = until_us,
        .until_us = until_us,
        .left = true,
        .answered = true,
        .valid_out = true,
        .status = PAWL_OK};
}

static void assert_found(const char *verdict, const char *part)
{
    assert_non_null(verdict);
    assert_non_null(strstr(verdict, part));
}

static void good_histories_pass(void **state)
{
    (void)state;
    struct hold holds[] = {hold_of(0, 5, 10, 20), hold_of(1, 6, 20, 30), hold_of(0, 7, 31, 40)};
    struct history history = {holds, COUNT(holds)};
    assert_null(oracle_exclusion(&history));
    assert_null(oracle_overlaps_told(&history));
    assert_null(oracle_tokens(&history));
    assert_null(oracle_fence(&history));
    holds[1].name = 1; /* of another name: may be together */
    holds[1].from_us = 10;
    history_sort(&history);
    assert_null(oracle_exclusion(&history));
    assert_null(oracle_tokens(&history));
}

static void two_inside_are_found(void **state)
{
    (void)state;
    struct hold holds[] = {hold_of(0, 5, 10, 100), hold_of(1, 6, 20, 30), hold_of(2, 7, 99, 120)};
    struct history history = {holds, COUNT(holds)};
    assert_found(oracle_exclusion(&history), "worker 1 (token 6)");
    assert_found(oracle_overlaps_told(&history), "overtaken");
    holds[1].from_us = 130; /* the long one meets the third, too */
    holds[1].until_us = holds[1].used_us = 140;
    history_sort(&history);
    assert_found(oracle_exclusion(&history), "worker 2 (token 7)");
    holds[0].status = PAWL_LOST; /* it knows */
    assert_null(oracle_overlaps_told(&history));
    holds[0].until_us = 50; /* and it had not been promised longer */
    assert_null(oracle_exclusion(&history));
}

static void tokens_that_fall_or_repeat_are_found(void **state)
{
    (void)state;
    struct hold holds[] = {hold_of(0, 6, 10, 20), hold_of(1, 5, 21, 30), hold_of(0, 7, 31, 40)};
    struct history history = {holds, COUNT(holds)};
    assert_found(oracle_tokens(&history), "token 5 after worker 0 had 6");
    holds[1].token = 7;
    assert_found(oracle_tokens(&history), "token 7 was given to workers");
    holds[1].token = 0; /* lost before it could ask */
    assert_null(oracle_tokens(&history));
}

static void a_refused_holder_is_found(void **state)
{
    (void)state;
    struct hold holds[] = {hold_of(0, 5, 10, 20)};
    struct history history = {holds, COUNT(holds)};
    holds[0].refused = true;
    assert_found(oracle_fence(&history), "refused although it held");
    holds[0].status = PAWL_LOST;
    assert_null(oracle_fence(&history));
}

/* Everybody goes in as they like. */
static void a_crew_without_locks_is_found_out(void **state)
{
    (void)state;
    struct crew *crew = crew_make();
    for (int i = 0; i < 3; i++) {
        struct board_plan *plan = crew_plan(crew, "memory:unused");
        plan->flags = BOARD_UNLOCKED;
        plan->name_count = 1;
        plan->rounds = 200;
        plan->work_us = 200;
        crew_start(crew);
    }
    crew_await_end(crew, 10000 * PACE);
    struct history history = history_read(crew);
    assert_int_equal(history.count, 600);
    assert_found(oracle_exclusion(&history), "was inside");
    assert_found(oracle_number(crew->board, crew->count), "600 additions");
    history_free(&history);
}

/* And the same crew with locks passes, so it is the locks. */
static void a_crew_with_locks_passes(void **state)
{
    (void)state;
    struct crew *crew = crew_make();
    const char *url = make_file_url();
    for (int i = 0; i < 3; i++) {
        struct board_plan *plan = crew_plan(crew, url);
        plan->name_count = 1;
        plan->rounds = 200;
        plan->work_us = 200;
        crew_start(crew);
    }
    crew_await_end(crew, 20000 * PACE);
    check_all(crew);
    assert_int_equal(crew_acquired(crew), 600);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_histories_pass),
        cmocka_unit_test(two_inside_are_found),
        cmocka_unit_test(tokens_that_fall_or_repeat_are_found),
        cmocka_unit_test(a_refused_holder_is_found),
        cmocka_unit_test_setup_teardown(
            a_crew_without_locks_is_found_out, cleanup_setup, cleanup_teardown),
        cmocka_unit_test_setup_teardown(a_crew_with_locks_passes, cleanup_setup, cleanup_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
