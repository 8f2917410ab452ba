/* SPDX-License-Identifier: Apache-2.0 */
/* Fault matrix rows 17 and 18: the line between client and server is cut.
 *
 * Each worker reaches the server through a proxy of its own. One of them loses what it sends, what
 * it is sent, or both, for longer than its lease: it must have lost its lock by its own deadline,
 * others go on, and when the line is up again it works as before. Then connections are reset, ended
 * and killed by the operator again and again while four processes work: nothing may be lost but
 * time. On a kernel where we may, the same with packets that are dropped in a network of our own.
 */
#include "fault/lib/fault.h"

enum {
    LEASE_MS = 400,
    TIMEOUT_MS = 250,
    DARK_MS = 1000,
    CREW = 3,
    STORM_MS = 3000,
};

static struct server *server;
static struct proxy *proxies[CREW];

static void hire(struct crew *crew, const char *url, int64_t lease_ms)
{
    struct board_plan *plan = crew_plan(crew, url);
    plan->lease_ms = lease_ms;
    plan->timeout_ms = TIMEOUT_MS;
    plan->wait_ms = 2000;
    plan->callers = 2;
    plan->work_us = 10000;
    crew_start(crew);
}

static struct crew *hire_behind_proxies(int64_t lease_ms)
{
    struct crew *crew = crew_make();
    server = server_start(NULL);
    for (int i = 0; i < CREW; i++) {
        proxies[i] = proxy_start_for(server);
        hire(crew, proxy_url(proxies[i]), lease_ms);
    }
    crew_await_first(crew);
    return crew;
}

/* ===== Partitions ===== */

static void go_dark(bool to_server, bool to_client)
{
    struct crew *crew = hire_behind_proxies(LEASE_MS);
    for (int i = 0; i < CREW; i++) {
        nap_ms((int64_t)crew_draw(crew, 50));
        proxy_blackhole(proxies[i], PROXY_TO_SERVER, to_server);
        proxy_blackhole(proxies[i], PROXY_TO_CLIENT, to_client);
        nap_ms(DARK_MS);
        const int64_t others_us = atomic_load(&crew->board->workers[(i + 1) % CREW].acquired_us);
        assert_true(boottime_us() - others_us < DARK_MS * 1000); /* others went on */
        proxy_blackhole(proxies[i], PROXY_TO_SERVER, false);
        proxy_blackhole(proxies[i], PROXY_TO_CLIENT, false);
        crew_await_progress(crew, boottime_us(), 4000 * PACE);
    }
    check_all_after_losses(crew, server, LEASE_MS);
}

static void nothing_passes(void **state)
{
    (void)state;
    go_dark(true, true);
}

static void requests_do_not_pass(void **state)
{
    (void)state;
    go_dark(true, false);
}

static void answers_do_not_pass(void **state)
{
    (void)state;
    go_dark(false, true);
}

/* One holder that is inside when it happens: lost by its deadline, and told so. */
static void a_holder_that_is_cut_off_has_lost_by_its_deadline(void **state)
{
    (void)state;
    server = server_start(NULL);
    struct proxy *proxy = proxy_start_for(server);
    struct crew *crew = crew_make();
    struct board_plan *plan = crew_plan(crew, proxy_url(proxy));
    plan->name_count = 1;
    plan->lease_ms = LEASE_MS;
    plan->timeout_ms = TIMEOUT_MS;
    plan->work_us = 3 * LEASE_MS * 1000;
    plan->rounds = 1;
    crew_start(crew);
    crew_await_first(crew);
    proxy_blackhole(proxy, PROXY_TO_SERVER, true);
    proxy_blackhole(proxy, PROXY_TO_CLIENT, true);
    WAIT_UNTIL(atomic_load(&crew->board->workers[0].told) == 1, LEASE_MS + SLACK_MS);
    crew_await_end(crew, 10000 * PACE);
    check_told_in_time(crew);
    assert_int_equal(crew_count_releases(crew, PAWL_LOST), 1);
    assert_int_equal(atomic_load(&crew->board->names[0].number), 0);
}

/* ===== Resets and kills ===== */

static void storm_of_resets(void **state)
{
    (void)state;
    struct crew *crew = hire_behind_proxies(5000);
    const int64_t end_ms = boottime_ms() + STORM_MS;
    while (boottime_ms() < end_ms) {
        const enum proxy_end ends[] = {PROXY_RST, PROXY_FIN, PROXY_ORPHAN};
        proxy_cut_now(proxies[crew_draw(crew, CREW)], ends[crew_draw(crew, 3)]);
        nap_ms((int64_t)crew_draw(crew, 20));
    }
    crew_await_progress(crew, boottime_us(), 6000 * PACE);
    check_all(crew);
    check_nothing_left(server, 5000);
}

static void storm_of_kills(void **state)
{
    (void)state;
    struct crew *crew = crew_make();
    server = server_start(NULL);
    for (int i = 0; i < 4; i++) {
        hire(crew, i % 2 == 0 ? server_url(server) : server_unix_url(server), 5000);
    }
    crew_await_first(crew);
    const int64_t end_ms = boottime_ms() + STORM_MS;
    int64_t killed = 0;
    while (boottime_ms() < end_ms) {
        killed += server_kill_clients(server, crew_draw(crew, 3) == 0 ? "pubsub" : "normal");
        nap_ms((int64_t)crew_draw(crew, 20));
    }
    print_message("%" PRId64 " connections were killed\n", killed);
    assert_true(killed > 50);
    crew_await_progress(crew, boottime_us(), 6000 * PACE);
    check_all(crew);
    check_nothing_left(server, 5000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(nothing_passes, cleanup_setup, cleanup_teardown),
        cmocka_unit_test_setup_teardown(requests_do_not_pass, cleanup_setup, cleanup_teardown),
        cmocka_unit_test_setup_teardown(answers_do_not_pass, cleanup_setup, cleanup_teardown),
        cmocka_unit_test_setup_teardown(
            a_holder_that_is_cut_off_has_lost_by_its_deadline, cleanup_setup, cleanup_teardown),
        cmocka_unit_test_setup_teardown(storm_of_resets, cleanup_setup, cleanup_teardown),
        cmocka_unit_test_setup_teardown(storm_of_kills, cleanup_setup, cleanup_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
