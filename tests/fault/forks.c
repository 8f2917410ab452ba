/* SPDX-License-Identifier: Apache-2.0 */
/* Fault matrix rows 40 and 41: forks, and threads that end, while locks are held and others work.
 *
 * Workers with several threads fork inside their critical sections; the children use what they
 * inherited, exit, or execute another program. Threads end without releasing and are followed by
 * new ones, which the system gives the same identity; none of them may slip into the hold that was
 * left behind. What each of these does alone is in the conformance suite. */
#include "fault/lib/fault.h"

enum {
    LEASE_MS = 400,
    CREW = 2,
    RUN_MS = 2500,
};

static struct crew *run(const char *url, unsigned flags, bool renew, int64_t work_us)
{
    struct crew *crew = crew_make();
    for (int i = 0; i < CREW; i++) {
        struct board_plan *plan = crew_plan(crew, url);
        plan->lease_ms = LEASE_MS;
        plan->renew = renew;
        plan->callers = 4;
        plan->work_us = work_us;
        plan->flags = flags;
        crew_start(crew);
    }
    crew_await_first(crew);
    nap_ms(RUN_MS);
    crew_await_progress(crew, boottime_us(), 10000 * PACE);
    crew_finish(crew);
    return crew;
}

static void check_forks(struct crew *crew)
{
    check_history(crew);
    check_limits(crew);
    check_resources(crew);
    assert_int_equal(crew_count_releases(crew, PAWL_LOST), 0);
}

static void children_change_nothing(void **state)
{
    (void)state;
    struct server *server = server_start(NULL);
    check_forks(run(server_url(server), BOARD_FORKS, true, 1000));
    check_nothing_left(server, LEASE_MS);
}

static void children_change_nothing_on_files(void **state)
{
    (void)state;
    check_forks(run(make_file_url(), BOARD_FORKS, true, 1000));
}

static uint64_t count_deserted(const struct crew *crew)
{
    uint64_t count = 0;
    for (size_t i = 0; i < crew->count; i++) {
        count += atomic_load(&crew->board->workers[i].deserted);
    }
    return count;
}

static void check_desertions(struct crew *crew)
{
    const uint64_t deserted = count_deserted(crew);
    check_history(crew);
    check_limits(crew);
    check_resources(crew);
    print_message("%" PRIu64 " threads ended while they held\n", deserted);
    assert_true(deserted > 3);
    assert_int_equal(crew_count_told(crew), deserted);
    assert_int_equal(crew_count_releases(crew, PAWL_LOST), 0);
}

static void threads_end_while_they_hold(void **state)
{
    (void)state;
    struct server *server = server_start(NULL);
    check_desertions(run(server_url(server), BOARD_CHURNS, true, 1000));
    check_nothing_left(server, LEASE_MS);
}

static void threads_end_while_they_hold_on_files(void **state)
{
    (void)state;
    check_desertions(run(make_file_url(), BOARD_CHURNS, true, 1000));
}

static void threads_end_and_processes_fork(void **state)
{
    (void)state;
    struct server *server = server_start(NULL);
    check_desertions(run(server_url(server), BOARD_CHURNS | BOARD_FORKS, true, 1000));
    check_nothing_left(server, LEASE_MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(children_change_nothing, cleanup_setup, cleanup_teardown),
        cmocka_unit_test_setup_teardown(
            children_change_nothing_on_files, cleanup_setup, cleanup_teardown),
        cmocka_unit_test_setup_teardown(
            threads_end_while_they_hold, cleanup_setup, cleanup_teardown),
        cmocka_unit_test_setup_teardown(
            threads_end_while_they_hold_on_files, cleanup_setup, cleanup_teardown),
        cmocka_unit_test_setup_teardown(
            threads_end_and_processes_fork, cleanup_setup, cleanup_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
