/* SPDX-License-Identifier: Apache-2.0 */
/* Fault matrix row 44: a storm of signals.
 *
 * Workers have handlers without SA_RESTART and an alarm every millisecond, and the test sends them
 * more signals as fast as it can, so every call that can be interrupted is. Deadlines must stay
 * what they were and nothing may be lost. SIGPIPE has its default action in the workers, which is
 * death; the line is cut under their hands all the time, so one write that raises it is seen. */
#include "fault/lib/fault.h"

enum {
    CREW = 3,
    STORM_MS = 2500,
};

static void hire(struct crew *crew, const char *url)
{
    struct board_plan *plan = crew_plan(crew, url);
    plan->lease_ms = 5000;
    plan->wait_ms = 400; /* so some waits end by time */
    plan->timeout_ms = 300;
    plan->callers = 4;
    plan->flags = BOARD_SIGNALS;
    crew_start(crew);
}

static void storm(struct crew *crew, struct proxy *proxy)
{
    const int signals[] = {SIGUSR1, SIGUSR2, SIGALRM, SIGCHLD, SIGWINCH};
    const int64_t end_ms = boottime_ms() + STORM_MS;
    int64_t cut_ms = 0;
    while (boottime_ms() < end_ms) {
        for (size_t i = 0; i < crew->count; i++) {
            child_signal(crew->children[i], signals[crew_draw(crew, 5)]);
        }
        if (proxy != NULL && boottime_ms() > cut_ms) {
            proxy_cut_now(proxy, crew_draw(crew, 4) == 0 ? PROXY_RST : PROXY_FIN);
            cut_ms = boottime_ms() + (int64_t)crew_draw(crew, 100);
        }
        nap_ms(1);
    }
}

static void calls_go_on_through_a_storm(void **state)
{
    (void)state;
    struct server *server = server_start(NULL);
    struct proxy *proxy = proxy_start_for(server);
    struct crew *crew = crew_make();
    for (int i = 0; i < CREW; i++) {
        hire(crew, proxy_url(proxy));
    }
    crew_await_first(crew);
    storm(crew, proxy);
    crew_await_progress(crew, boottime_us(), 5000 * PACE);
    check_all(crew);
    check_nothing_left(server, 5000);
}

static void calls_go_on_through_a_storm_on_files(void **state)
{
    (void)state;
    struct crew *crew = crew_make();
    const char *url = make_file_url();
    for (int i = 0; i < CREW; i++) {
        hire(crew, url);
    }
    crew_await_first(crew);
    storm(crew, NULL);
    crew_await_progress(crew, boottime_us(), 5000 * PACE);
    check_all(crew);
}

/* The server stands still as well: a deadline that started anew at each signal would never come. */
static void limits_hold_in_a_storm(void **state)
{
    (void)state;
    struct server *server = server_start(NULL);
    struct crew *crew = crew_make();
    for (int i = 0; i < CREW; i++) {
        hire(crew, server_url(server));
    }
    crew_await_first(crew);
    server_pause(server);
    storm(crew, NULL);
    server_resume(server);
    crew_await_progress(crew, boottime_us(), 5000 * PACE);
    crew_finish(crew);
    check_history(crew);
    check_limits(crew);
    check_resources(crew);
    assert_true(crew_count_acquires(crew, PAWL_UNAVAILABLE) > 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            calls_go_on_through_a_storm, cleanup_setup, cleanup_teardown),
        cmocka_unit_test_setup_teardown(
            calls_go_on_through_a_storm_on_files, cleanup_setup, cleanup_teardown),
        cmocka_unit_test_setup_teardown(limits_hold_in_a_storm, cleanup_setup, cleanup_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
