/* SPDX-License-Identifier: Apache-2.0 */
/* Everybody gets a share: processes with many callers, with one, and one that waits as Redisson's
 * clients do, want the same lock all the time.
 *
 * Inside a process the lock is passed on from caller to caller without asking others, which is
 * quick, and would starve other processes if it went on for ever. Here each process must get at
 * least a tenth of all acquisitions, over three seconds, and what they count must add up. A client
 * like Redisson's does not stand back for anybody; it must get its share, and leave us some. Exact
 * figures are the benchmark's business. */
#include "fault/lib/fault.h"

enum {
    RUN_MS = 3000,
    SHARE_LEAST = 10,        /* percent */
    SHARE_BESIDE_GREEDY = 3, /* beside one that takes back at once what it has released */
};

static void hire(struct crew *crew, const char *url, unsigned callers)
{
    struct board_plan *plan = crew_plan(crew, url);
    plan->name_count = 1;
    plan->lease_ms = 30000;
    plan->callers = callers;
    plan->wait_ms = PAWL_FOREVER;
    plan->work_us = 100;
}

static void check_shares(struct crew *crew, uint64_t first_least)
{
    crew_await_first(crew);
    nap_ms(RUN_MS);
    const uint64_t all = crew_acquired(crew);
    uint64_t shares[BOARD_WORKERS_MAX];
    for (size_t i = 0; i < crew->count; i++) {
        shares[i] = atomic_load(&crew->board->workers[i].acquires[PAWL_OK]) * 100 / all;
        print_message("worker %zu, %2u callers: %" PRIu64 " %% of %" PRIu64 "\n", i,
            crew->board->workers[i].plan.callers, shares[i], all);
    }
    crew_finish(crew);
    check_history(crew);
    assert_true(shares[0] >= first_least);
    assert_true(shares[1] >= SHARE_LEAST);
}

static void share(const char *url, unsigned callers, unsigned others)
{
    struct crew *crew = crew_make();
    hire(crew, url, callers);
    crew_start(crew);
    hire(crew, url, others);
    crew_start(crew);
    check_shares(crew, SHARE_LEAST);
    check_resources(crew);
}

static void two_processes_with_many_callers_each(void **state)
{
    (void)state;
    share(server_url(server_start(NULL)), 32, 32);
}

static void many_callers_against_one(void **state)
{
    (void)state;
    share(server_url(server_start(NULL)), 64, 1);
}

static void one_against_one(void **state)
{
    (void)state;
    share(server_url(server_start(NULL)), 1, 1);
}

static void share_with_redisson(unsigned callers)
{
    struct server *server = server_start(NULL);
    struct crew *crew = crew_make();
    hire(crew, server_url(server), callers);
    crew_start(crew);
    hire(crew, server_url(server), 1);
    crew_start_program(crew, "redisson");
    check_shares(crew, SHARE_BESIDE_GREEDY);
}

static void many_callers_against_a_redisson(void **state)
{
    (void)state;
    share_with_redisson(64);
}

static void one_against_a_redisson(void **state)
{
    (void)state;
    share_with_redisson(1);
}

static void two_processes_with_many_callers_each_on_files(void **state)
{
    (void)state;
    share(make_file_url(), 32, 32);
}

static void many_callers_against_one_on_files(void **state)
{
    (void)state;
    share(make_file_url(), 64, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            two_processes_with_many_callers_each, cleanup_setup, cleanup_teardown),
        cmocka_unit_test_setup_teardown(many_callers_against_one, cleanup_setup, cleanup_teardown),
        cmocka_unit_test_setup_teardown(one_against_one, cleanup_setup, cleanup_teardown),
        cmocka_unit_test_setup_teardown(
            many_callers_against_a_redisson, cleanup_setup, cleanup_teardown),
        cmocka_unit_test_setup_teardown(one_against_a_redisson, cleanup_setup, cleanup_teardown),
        cmocka_unit_test_setup_teardown(
            two_processes_with_many_callers_each_on_files, cleanup_setup, cleanup_teardown),
        cmocka_unit_test_setup_teardown(
            many_callers_against_one_on_files, cleanup_setup, cleanup_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
