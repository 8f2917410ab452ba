/* SPDX-License-Identifier: Apache-2.0 */
/* Fault matrix rows 2 and 3: who holds is stopped, for less than its lease and for longer.
 *
 * SIGSTOP hits workers at random moments. Stopped for a third of the lease nothing is lost. Stopped
 * for longer it is: the first look after SIGCONT says so, on_lost is called, neither a renewal nor
 * the release touches the next holder, and what it still writes with its old token is refused. */
#include "fault/lib/fault.h"

enum {
    LEASE_MS = 1000,
    SHORT_LEASE_MS = 300,
    PAUSES = 6,
};

static void stop_for(struct crew *crew, size_t index, int64_t pause_ms)
{
    child_stop(crew->children[index]);
    nap_ms(pause_ms);
    child_continue(crew->children[index]);
}

static struct crew *hire(const char *url, int64_t lease_ms, int64_t work_us)
{
    struct crew *crew = crew_make();
    for (int i = 0; i < 3; i++) {
        struct board_plan *plan = crew_plan(crew, url);
        plan->lease_ms = lease_ms;
        plan->work_us = work_us;
        crew_start(crew);
    }
    crew_await_first(crew);
    return crew;
}

static void a_short_pause_loses_nothing(void **state)
{
    (void)state;
    struct server *server = server_start(NULL);
    struct crew *crew = hire(server_url(server), LEASE_MS, 20000);
    for (int i = 0; i < PAUSES; i++) {
        nap_ms((int64_t)crew_draw(crew, 100));
        stop_for(crew, crew_draw(crew, crew->count), LEASE_MS * 3 / 10);
    }
    crew_await_progress(crew, boottime_us(), 5000 * PACE);
    check_all(crew);
    check_nothing_left(server, LEASE_MS);
}

static void a_long_pause_loses_and_says_so(void **state)
{
    (void)state;
    struct server *server = server_start(NULL);
    struct crew *crew = hire(server_url(server), SHORT_LEASE_MS, 20000);
    for (int i = 0; i < PAUSES; i++) {
        nap_ms((int64_t)crew_draw(crew, 60));
        stop_for(
            crew, crew_draw(crew, crew->count), (int64_t)(2 + crew_draw(crew, 2)) * SHORT_LEASE_MS);
    }
    crew_await_progress(crew, boottime_us(), 5000 * PACE);
    crew_finish(crew);
    check_history_with_losses(crew, true);
    check_resources(crew);
    check_nothing_left(server, SHORT_LEASE_MS);
}

/* ===== One holder, step by step ===== */

static struct crew *hire_holder(const char *url, bool renew)
{
    struct crew *crew = crew_make();
    struct board_plan *plan = crew_plan(crew, url);
    plan->name_count = 1;
    plan->lease_ms = SHORT_LEASE_MS;
    plan->renew = renew;
    plan->work_us = 2 * SHORT_LEASE_MS * 1000; /* so it is inside when it is stopped */
    plan->rounds = 1;
    crew_start(crew);
    crew_await_first(crew);
    return crew;
}

/* What stands under a name in the server, but for the TTL. */
static void assert_same(struct server *server, const char *before)
{
    char *now = server_command(server, "HGETALL fault:0");
    assert_string_equal(now, before);
    free(now);
}

static void the_next_holder_is_left_alone(void **state)
{
    (void)state;
    struct server *server = server_start(NULL);
    struct crew *crew = hire_holder(server_url(server), true);
    pawl_client *client = NULL;
    pawl_lock *lock = NULL;
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    options.lease_ms = 10000;
    options.renew = false;
    ASSERT_OK(pawl_client_open(server_url(server), NULL, &client));
    ASSERT_OK(pawl_lock_open(client, "fault:0", &options, &lock));
    child_stop(crew->children[0]);
    ASSERT_OK(pawl_lock_acquire(lock, 5000));
    atomic_store(&crew->board->names[0].fence, pawl_lock_token(lock)); /* we have written */
    char *ours = server_command(server, "HGETALL fault:0");
    const int64_t before_ms = server_integer(server, "PTTL fault:0");
    child_continue(crew->children[0]);
    crew_await_end(crew, 10000 * PACE);

    const struct board_worker *worker = &crew->board->workers[0];
    assert_int_equal(atomic_load(&worker->releases[PAWL_LOST]), 1);
    assert_int_equal(atomic_load(&worker->told), 1);
    assert_int_equal(atomic_load(&worker->stale_refused), 1);
    assert_int_equal(atomic_load(&crew->board->names[0].number), 0); /* it looked, and kept off */
    assert_same(server, ours);
    assert_true(server_integer(server, "PTTL fault:0") <= before_ms);
    free(ours);
    ASSERT_OK(pawl_lock_release(lock));
    ASSERT_OK(pawl_lock_close(lock));
    ASSERT_OK(pawl_client_close(client));
}

/* On files the kernel keeps the lock of a stopped process: nothing is lost and nobody gets in. */
static void on_files_a_pause_keeps_everybody_out(void **state)
{
    (void)state;
    const char *url = make_file_url();
    struct crew *crew = hire_holder(url, true);
    pawl_client *client = NULL;
    pawl_lock *lock = NULL;
    ASSERT_OK(pawl_client_open(url, NULL, &client));
    ASSERT_OK(pawl_lock_open(client, "fault:0", NULL, &lock));
    child_stop(crew->children[0]);
    ASSERT_STATUS(PAWL_BUSY, pawl_lock_acquire(lock, 3 * SHORT_LEASE_MS));
    child_continue(crew->children[0]);
    ASSERT_OK(pawl_lock_acquire(lock, 5000 * PACE));
    crew_await_end(crew, 10000 * PACE);
    check_history(crew);
    assert_int_equal(crew_count_releases(crew, PAWL_OK), 1);
    ASSERT_OK(pawl_lock_close(lock));
    ASSERT_OK(pawl_client_close(client));
}

/* A fixed lease ends there as well, as soon as its holder can be told. */
static void on_files_a_fixed_lease_is_lost_in_a_long_pause(void **state)
{
    (void)state;
    struct crew *crew = hire_holder(make_file_url(), false);
    stop_for(crew, 0, 2 * SHORT_LEASE_MS);
    crew_await_end(crew, 10000 * PACE);
    check_history_with_losses(crew, true);
    assert_int_equal(crew_count_releases(crew, PAWL_LOST), 1);
    assert_int_equal(crew_count_told(crew), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            a_short_pause_loses_nothing, cleanup_setup, cleanup_teardown),
        cmocka_unit_test_setup_teardown(
            a_long_pause_loses_and_says_so, cleanup_setup, cleanup_teardown),
        cmocka_unit_test_setup_teardown(
            the_next_holder_is_left_alone, cleanup_setup, cleanup_teardown),
        cmocka_unit_test_setup_teardown(
            on_files_a_pause_keeps_everybody_out, cleanup_setup, cleanup_teardown),
        cmocka_unit_test_setup_teardown(
            on_files_a_fixed_lease_is_lost_in_a_long_pause, cleanup_setup, cleanup_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
