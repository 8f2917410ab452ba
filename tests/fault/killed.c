/* SPDX-License-Identifier: Apache-2.0 */
/* Fault matrix rows 1 and 12: who holds is killed with -9, or the server is.
 *
 * Workers add to a number under a lock. One after the other is killed at a random moment and
 * replaced by a new one; the lock of a dead holder must come to somebody else within its lease and
 * a second. A server that writes every command to its disk before it answers is killed and started
 * again; nobody may notice but by waiting. The oracles are in lib/oracle.h. */
#include "fault/lib/fault.h"

enum {
    LEASE_MS = 400,
    KILLS = 15,
    SERVER_LEASE_MS = 2500,
    SERVER_KILLS = 4,
};

static void hire_one(struct crew *crew, const char *url)
{
    struct board_plan *plan = crew_plan(crew, url);
    plan->lease_ms = LEASE_MS;
    plan->callers = 2;
    plan->work_us = 4000;
    crew_start(crew);
}

/* Kill one of those who live, at a random moment; when. */
static int64_t kill_one(struct crew *crew)
{
    size_t index = crew_draw(crew, crew->count);
    while (!crew_lives(crew, index)) {
        index = (index + 1) % crew->count;
    }
    nap_ms((int64_t)crew_draw(crew, 60));
    crew_kill(crew, index);
    return crew->killed_us[index];
}

static void kill_holders(const char *url, int64_t limit_ms)
{
    int64_t killed_us[KILLS];
    struct crew *crew = crew_make();
    for (int i = 0; i < 3; i++) {
        hire_one(crew, url);
    }
    crew_await_first(crew);
    for (int i = 0; i < KILLS; i++) {
        killed_us[i] = kill_one(crew);
        hire_one(crew, url);
        crew_await_ready(crew);
        crew_await_progress(crew, boottime_us(), limit_ms + SLACK_MS);
    }
    check_all(crew);
    for (int i = 0; i < KILLS; i++) {
        check_succession(crew, killed_us[i], limit_ms);
    }
}

static void killed_holders_are_succeeded(void **state)
{
    (void)state;
    struct server *server = server_start(NULL);
    kill_holders(server_url(server), LEASE_MS + 1000);
    check_nothing_left(server, LEASE_MS);
}

static void killed_holders_are_succeeded_on_files(void **state)
{
    (void)state;
    kill_holders(make_file_url(), 1000); /* the kernel knows at once */
}

/* One whose renewals stop in the middle: its last hold lasts as long as it was renewed to. */
static void a_killed_holder_keeps_others_out_for_its_lease(void **state)
{
    (void)state;
    struct server *server = server_start(NULL);
    struct crew *crew = crew_make();
    struct board_plan *plan = crew_plan(crew, server_url(server));
    plan->name_count = 1;
    plan->lease_ms = LEASE_MS;
    plan->work_us = 60 * 1000 * 1000;
    crew_start(crew);
    crew_await_ready(crew);
    WAIT_UNTIL(server_integer(server, "EXISTS fault:0") == 1, 5000 * PACE);
    nap_ms(LEASE_MS); /* it has been renewed by now */
    crew_kill(crew, 0);
    const int64_t left_ms = server_integer(server, "PTTL fault:0");
    assert_true(left_ms > 0 && left_ms <= LEASE_MS);

    pawl_client *client = NULL;
    pawl_lock *lock = NULL;
    ASSERT_OK(pawl_client_open(server_url(server), NULL, &client));
    ASSERT_OK(pawl_lock_open(client, "fault:0", NULL, &lock));
    ASSERT_STATUS(PAWL_BUSY, pawl_lock_acquire(lock, PAWL_TRY));
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_FOREVER));
    const int64_t after_ms = (boottime_us() - crew->killed_us[0]) / 1000;
    print_message(
        "free %" PRId64 " ms after the kill, %" PRId64 " ms were left\n", after_ms, left_ms);
    assert_true(after_ms >= left_ms - 50);
    assert_true(after_ms <= LEASE_MS + 1000 * PACE);
    ASSERT_OK(pawl_lock_close(lock));
    ASSERT_OK(pawl_client_close(client));
}

/* ===== The server ===== */

static void a_killed_server_with_its_data_forgets_nothing(void **state)
{
    (void)state;
    static const char *const args[] = {"--appendfsync", "always", NULL};
    const struct server_options options = {.args = args, .aof = true};
    struct server *server = server_start(&options);
    struct crew *crew = crew_make();
    for (int i = 0; i < 3; i++) {
        struct board_plan *plan = crew_plan(crew, server_url(server));
        plan->lease_ms = SERVER_LEASE_MS;
        plan->callers = 2;
        crew_start(crew);
    }
    crew_await_ready(crew);
    for (int i = 0; i < SERVER_KILLS; i++) {
        crew_await_progress(crew, boottime_us(), 10000 * PACE);
        nap_ms((int64_t)crew_draw(crew, 100));
        server_kill(server);
        nap_ms((int64_t)crew_draw(crew, 100));
        server_restart(server, true);
    }
    crew_await_progress(crew, boottime_us(), (SERVER_LEASE_MS + 2000) * PACE);
    crew_finish(crew);
    check_history(crew);
    check_limits(crew);
    check_resources(crew);
    check_nothing_left(server, SERVER_LEASE_MS);
    if (PACE == 1) { /* else the restart may take longer than the lease */
        assert_int_equal(crew_count_releases(crew, PAWL_LOST), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            killed_holders_are_succeeded, cleanup_setup, cleanup_teardown),
        cmocka_unit_test_setup_teardown(
            killed_holders_are_succeeded_on_files, cleanup_setup, cleanup_teardown),
        cmocka_unit_test_setup_teardown(
            a_killed_holder_keeps_others_out_for_its_lease, cleanup_setup, cleanup_teardown),
        cmocka_unit_test_setup_teardown(
            a_killed_server_with_its_data_forgets_nothing, cleanup_setup, cleanup_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
