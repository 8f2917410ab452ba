/* SPDX-License-Identifier: Apache-2.0 */
/* Fault matrix rows 6 to 9: clocks that stand elsewhere, and wall clocks that jump.
 *
 * Workers whose boot time and monotonic time are weeks apart, and beyond 2^32 ms, share locks with
 * one that lives here. A worker's wall clock jumps by hours all the time, which must change
 * nothing. The server's wall clock jumps forward, by which Redis ends every lease at once: the
 * holder must find out by its next renewal, and its late write must be refused. Wall clocks are
 * moved by preload/clock_offset.c, the others by time namespaces, for which one must be root. */
#include "fault/lib/fault.h"
#include "support/wall.h"

enum {
    LEASE_MS = 400,
    RUN_MS = 2500,
    SERVER_LEASE_MS = 1500,
};

#define SECOND_NS INT64_C(1000000000)
#define HOUR_NS (3600 * SECOND_NS)

/* ===== The wall clock of somebody else ===== */

/* A program that shows the time, to see that the clock can be moved at all. */
static int64_t shown_time(const struct wall *wall)
{
    const char *const argv[] = {"env", wall->preload, wall->path, "date", "+%s", NULL};
    struct child *child = child_spawn(argv);
    char *line = child_read_line(child, 5000);
    assert_non_null(line);
    const int64_t time = strtoll(line, NULL, 10);
    free(line);
    assert_int_equal(child_wait(child, 5000), 0);
    child_free(child);
    return time;
}

static void the_wall_clock_can_be_moved(void **state)
{
    (void)state;
    struct wall wall = wall_make();
    const int64_t before = shown_time(&wall);
    atomic_store(wall.offset_ns, 2 * HOUR_NS);
    const int64_t after = shown_time(&wall);
    assert_in_range(after - before, 7200, 7260);
}

/* ===== Clients whose wall clock jumps ===== */

static void strobe(struct crew *crew, const struct wall *wall)
{
    const int64_t end_ms = boottime_ms() + RUN_MS;
    while (boottime_ms() < end_ms) {
        atomic_store(wall->offset_ns, ((int64_t)crew_draw(crew, 7201) - 3600) * SECOND_NS);
        nap_ms((int64_t)crew_draw(crew, 10));
    }
}

static void jump_about(const char *url)
{
    struct wall wall = wall_make();
    struct crew *crew = crew_make();
    for (int i = 0; i < 3; i++) {
        const char *const wrapper[] = WALL_WRAPPER(wall);
        struct board_plan *plan = crew_plan(crew, url);
        plan->lease_ms = LEASE_MS;
        plan->callers = 2;
        plan->work_us = i == 0 ? 500000 : 2000; /* one needs renewals */
        plan->name_first = i == 0 ? 2 : 0;
        plan->name_count = i == 0 ? 1 : 2;
        crew_start_by(crew, i == 2 ? NULL : wrapper);
    }
    crew_await_first(crew);
    strobe(crew, &wall);
    check_all(crew);
    assert_int_equal(crew_count_acquires(crew, PAWL_BUSY), 0);
    assert_int_equal(crew_count_acquires(crew, PAWL_UNAVAILABLE), 0);
}

static void a_clients_wall_clock_does_not_matter(void **state)
{
    (void)state;
    struct server *server = server_start(NULL);
    jump_about(server_url(server));
    check_nothing_left(server, LEASE_MS);
}

static void a_clients_wall_clock_does_not_matter_on_files(void **state)
{
    (void)state;
    jump_about(make_file_url());
}

/* ===== A server whose wall clock jumps ===== */

static void a_servers_jump_forward_is_found_by_the_next_renewal(void **state)
{
    (void)state;
    struct wall wall = wall_make();
    struct server *server = wall_start_server(&wall, NULL);
    struct crew *crew = crew_make();
    struct board_plan *plan = crew_plan(crew, server_url(server));
    plan->name_count = 1;
    plan->lease_ms = SERVER_LEASE_MS;
    plan->work_us = 3 * SERVER_LEASE_MS * 1000;
    plan->rounds = 1;
    crew_start(crew);
    crew_await_first(crew);

    atomic_store(wall.offset_ns, 60 * SECOND_NS);
    const int64_t jumped_ms = boottime_ms();
    WAIT_UNTIL(server_integer(server, "EXISTS fault:0") == 0, 1000);
    WAIT_UNTIL(atomic_load(&crew->board->workers[0].told) == 1, SERVER_LEASE_MS / 3 + SLACK_MS);
    print_message("told %" PRId64 " ms after the jump, a third of the lease is %d ms\n",
        boottime_ms() - jumped_ms, SERVER_LEASE_MS / 3);
    crew_await_end(crew, 10000 * PACE);
    assert_int_equal(crew_count_releases(crew, PAWL_LOST), 1);
}

/* Many at work: others come in early, which nobody can help, but each that was overtaken is told,
 * and the register refuses what it writes late. */
static void a_servers_jumps_do_no_harm_where_tokens_are_checked(void **state)
{
    (void)state;
    struct wall wall = wall_make();
    struct server *server = wall_start_server(&wall, NULL);
    struct crew *crew = crew_make();
    for (int i = 0; i < 3; i++) {
        struct board_plan *plan = crew_plan(crew, server_url(server));
        plan->lease_ms = LEASE_MS;
        plan->callers = 2;
        plan->work_us = 30000;
        crew_start(crew);
    }
    crew_await_first(crew);
    const int64_t end_ms = boottime_ms() + RUN_MS;
    while (boottime_ms() < end_ms) {
        atomic_fetch_add(wall.offset_ns, 60 * SECOND_NS);
        nap_ms((int64_t)crew_draw(crew, 100));
    }
    crew_await_progress(crew, boottime_us(), 5000 * PACE);
    crew_finish(crew);
    check_history_with_losses(crew, false);
    assert_true(crew_count_told(crew) > 3);
}

/* It jumps back: leases last longer there than they should, and a release still frees the lock. */
static void a_servers_jump_back_costs_time_only(void **state)
{
    (void)state;
    struct wall wall = wall_make();
    atomic_store(wall.offset_ns, HOUR_NS);
    struct server *server = wall_start_server(&wall, NULL);
    struct crew *crew = crew_make();
    crew_hire(crew, server_url(server), 3);
    crew_await_first(crew);
    for (int i = 1; i <= 3; i++) {
        atomic_store(wall.offset_ns, HOUR_NS - i * 60 * SECOND_NS);
        crew_await_progress(crew, boottime_us(), 5000 * PACE);
    }
    check_all(crew);
}

/* ===== Time namespaces ===== */

static void start_elsewhere(
    struct crew *crew, const char *url, int64_t boottime_s, int64_t monotonic_s)
{
    char boottime[24];
    char monotonic[24];
    snprintf(boottime, sizeof boottime, "%" PRId64, boottime_s);
    snprintf(monotonic, sizeof monotonic, "%" PRId64, monotonic_s);
    const char *const wrapper[] = {
        "unshare", "-T", "--boottime", boottime, "--monotonic", monotonic, "--", NULL};
    struct board_plan *plan = crew_plan(crew, url);
    plan->lease_ms = LEASE_MS;
    plan->callers = 2;
    plan->work_us = 2000;
    plan->clock_offset_us = boottime_s * 1000000;
    crew_start_by(crew, boottime_s != 0 || monotonic_s != 0 ? wrapper : NULL);
}

static void require_namespaces(void)
{
    const char *const argv[] = {"unshare", "-T", "--boottime", "1", "--", "true", NULL};
    char *path = find_program("unshare");
    struct child *child = path != NULL ? child_spawn(argv) : NULL;
    const bool allowed = child != NULL && child_wait(child, 10000) == 0;
    free(path);
    if (!allowed) {
        print_message("only root may make time namespaces\n");
        skip();
    }
}

static void stand_elsewhere(const char *url)
{
    require_namespaces();
    struct crew *crew = crew_make();
    start_elsewhere(crew, url, 0, 0);
    start_elsewhere(crew, url, 4300000, 4300000); /* beyond 2^32 ms */
    start_elsewhere(crew, url, 10000000, 0);      /* suspended for months */
    start_elsewhere(crew, url, 0, 10000000);      /* which cannot be, but shows who reads what */
    crew_await_first(crew);
    nap_ms(RUN_MS);
    check_all(crew);
}

static void clocks_may_stand_anywhere(void **state)
{
    (void)state;
    struct server *server = server_start(NULL);
    stand_elsewhere(server_url(server));
    check_nothing_left(server, LEASE_MS);
}

static void clocks_may_stand_anywhere_on_files(void **state)
{
    (void)state;
    stand_elsewhere(make_file_url());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            the_wall_clock_can_be_moved, cleanup_setup, cleanup_teardown),
        cmocka_unit_test_setup_teardown(
            a_clients_wall_clock_does_not_matter, cleanup_setup, cleanup_teardown),
        cmocka_unit_test_setup_teardown(
            a_clients_wall_clock_does_not_matter_on_files, cleanup_setup, cleanup_teardown),
        cmocka_unit_test_setup_teardown(
            a_servers_jump_forward_is_found_by_the_next_renewal, cleanup_setup, cleanup_teardown),
        cmocka_unit_test_setup_teardown(
            a_servers_jumps_do_no_harm_where_tokens_are_checked, cleanup_setup, cleanup_teardown),
        cmocka_unit_test_setup_teardown(
            a_servers_jump_back_costs_time_only, cleanup_setup, cleanup_teardown),
        cmocka_unit_test_setup_teardown(clocks_may_stand_anywhere, cleanup_setup, cleanup_teardown),
        cmocka_unit_test_setup_teardown(
            clocks_may_stand_anywhere_on_files, cleanup_setup, cleanup_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
