/* SPDX-License-Identifier: Apache-2.0 */
/* Fault matrix row 31: the operator throws things away under the workers' hands.
 *
 * Forgotten scripts (SCRIPT FLUSH) must not be noticed at all. Deleted locks (FLUSHALL, DEL, and
 * pawl_lock_break) let others in, which nobody can help; but whoever was overtaken must be told,
 * tokens must go on growing even when their counter was deleted too, and the register must refuse
 * what comes late. */
#include "fault/lib/fault.h"

enum {
    LEASE_MS = 600,
    RUN_MS = 3000,
};

static struct server *server;

static struct crew *hire(const char *url, int64_t work_us)
{
    struct crew *crew = crew_make();
    for (int i = 0; i < 3; i++) {
        struct board_plan *plan = crew_plan(crew, url);
        plan->lease_ms = LEASE_MS;
        plan->callers = 2;
        plan->work_us = work_us;
        crew_start(crew);
    }
    crew_await_first(crew);
    return crew;
}

static void repeat(struct crew *crew, void (*what)(struct crew *crew))
{
    const int64_t end_ms = boottime_ms() + RUN_MS;
    while (boottime_ms() < end_ms) {
        what(crew);
        nap_ms((int64_t)crew_draw(crew, 60));
    }
    crew_await_progress(crew, boottime_us(), (LEASE_MS + 3000) * PACE);
}

static void forget_scripts(struct crew *crew)
{
    assert_true(server_answers(
        server, "OK", "SCRIPT FLUSH %s", crew_draw(crew, 2) == 0 ? "SYNC" : "ASYNC"));
}

static void flush_all(struct crew *crew)
{
    (void)crew;
    assert_true(server_answers(server, "OK", "FLUSHALL"));
}

static void delete_one(struct crew *crew)
{
    server_integer(server, "DEL fault:%u", (unsigned)crew_draw(crew, 2));
}

static void scripts_are_forgotten(void **state)
{
    (void)state;
    server = server_start(NULL);
    struct crew *crew = hire(server_url(server), 2000);
    repeat(crew, forget_scripts);
    check_all(crew);
    check_nothing_left(server, LEASE_MS);
    assert_int_equal(crew_count_acquires(crew, PAWL_UNAVAILABLE), 0);
}

static void lose_by(void (*what)(struct crew *crew))
{
    server = server_start(NULL);
    struct crew *crew = hire(server_url(server), 30000);
    repeat(crew, what);
    crew_finish(crew);
    check_history_with_losses(crew, false);
    check_limits(crew);
    check_resources(crew);
    check_nothing_left(server, LEASE_MS);
    assert_true(crew_count_told(crew) > 3);
    assert_int_equal(crew_count_told(crew), crew_count_releases(crew, PAWL_LOST));
}

static void everything_is_flushed(void **state)
{
    (void)state;
    lose_by(flush_all);
}

static void locks_are_deleted(void **state)
{
    (void)state;
    lose_by(delete_one);
}

/* A holder who stays inside learns it from its next renewal. */
static void a_renewal_finds_it_gone(void **state)
{
    (void)state;
    server = server_start(NULL);
    struct crew *crew = crew_make();
    struct board_plan *plan = crew_plan(crew, server_url(server));
    plan->name_count = 1;
    plan->lease_ms = LEASE_MS;
    plan->work_us = 3 * LEASE_MS * 1000;
    plan->rounds = 1;
    crew_start(crew);
    crew_await_first(crew);
    flush_all(crew);
    const int64_t flushed_ms = boottime_ms();
    WAIT_UNTIL(atomic_load(&crew->board->workers[0].told) == 1, LEASE_MS / 3 + SLACK_MS);
    print_message("told %" PRId64 " ms after it was deleted, a third of the lease is %d ms\n",
        boottime_ms() - flushed_ms, LEASE_MS / 3);
    assert_int_equal(server_integer(server, "EXISTS fault:0"), 0); /* not made anew by a renewal */
    crew_await_end(crew, 10000 * PACE);
    assert_int_equal(crew_count_releases(crew, PAWL_LOST), 1);
}

/* ===== Breaking, on both engines ===== */

static pawl_client *breaker;
static pawl_lock *broken[2];

static void break_one(struct crew *crew)
{
    const pawl_status status = pawl_lock_break(broken[crew_draw(crew, 2)]);
    if (status != PAWL_OK && status != PAWL_NOT_HELD) {
        support_fail("break answered %s: %s", pawl_status_string(status), pawl_last_error());
    }
}

static void lose_by_breaking(const char *url)
{
    struct crew *crew = hire(url, 30000);
    ASSERT_OK(pawl_client_open(url, NULL, &breaker));
    ASSERT_OK(pawl_lock_open(breaker, "fault:0", NULL, &broken[0]));
    ASSERT_OK(pawl_lock_open(breaker, "fault:1", NULL, &broken[1]));
    repeat(crew, break_one);
    crew_finish(crew);
    check_history_with_losses(crew, false);
    check_limits(crew);
    check_resources(crew);
    assert_true(crew_count_told(crew) > 3);
    assert_int_equal(crew_count_told(crew), crew_count_releases(crew, PAWL_LOST));
    ASSERT_OK(pawl_client_close(breaker));
    ASSERT_OK(pawl_lock_close(broken[0]));
    ASSERT_OK(pawl_lock_close(broken[1]));
}

static void locks_are_broken(void **state)
{
    (void)state;
    server = server_start(NULL);
    lose_by_breaking(server_url(server));
    check_nothing_left(server, LEASE_MS);
}

static void locks_are_broken_on_files(void **state)
{
    (void)state;
    lose_by_breaking(make_file_url());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(scripts_are_forgotten, cleanup_setup, cleanup_teardown),
        cmocka_unit_test_setup_teardown(everything_is_flushed, cleanup_setup, cleanup_teardown),
        cmocka_unit_test_setup_teardown(locks_are_deleted, cleanup_setup, cleanup_teardown),
        cmocka_unit_test_setup_teardown(a_renewal_finds_it_gone, cleanup_setup, cleanup_teardown),
        cmocka_unit_test_setup_teardown(locks_are_broken, cleanup_setup, cleanup_teardown),
        cmocka_unit_test_setup_teardown(locks_are_broken_on_files, cleanup_setup, cleanup_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
