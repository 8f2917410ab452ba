/* SPDX-License-Identifier: Apache-2.0 */
/* Fault matrix rows 21 to 24: answers that are lost, requests that come late or twice, bytes that
 * come one at a time.
 *
 * Each worker has a proxy of its own, and a seeded hand spoils them all: it swallows the answer to
 * an acquire, a release or a pass after the server has acted, keeps a request back and delivers it
 * when its sender has long gone on, sends copies at once or late, cuts in the middle of a word. All
 * oracles must hold all the time. Once as a user who may have old connections killed, once as one
 * who may not, so that the late copies really arrive. What each of these does to a single call is
 * in promise/p3_tenures.c and promise/p4_unknown.c. */
#include "fault/lib/fault.h"

#include "engine/redis/lua_scripts.h"

enum {
    LEASE_MS = 1500,
    TIMEOUT_MS = 300,
    CREW = 4,
    RUN_MS = 6000,
};

static struct server *server;
static struct proxy *proxies[CREW];

static void open_proxies(void)
{
    server = server_start(NULL);
    assert_true(
        server_answers(server, "OK", "ACL SETUSER modest on >modest ~* &* +@all -client|kill"));
    for (int i = 0; i < CREW; i++) {
        proxies[i] = proxy_start_for(server);
    }
}

static struct crew *hire(const char *user, int64_t timeout_ms)
{
    struct crew *crew = crew_make();
    for (int i = 0; i < CREW; i++) {
        char url[URL_SIZE];
        snprintf(url, sizeof url, "redis://%s127.0.0.1:%u", user, proxy_port(proxies[i]));
        struct board_plan *plan = crew_plan(crew, url);
        plan->lease_ms = LEASE_MS;
        plan->timeout_ms = timeout_ms;
        plan->wait_ms = 3000;
        plan->callers = 3;
        crew_start(crew);
    }
    crew_await_first(crew);
    return crew;
}

/* The text by which an operation is recognised. */
static const char *any_call(struct crew *crew)
{
    const char *const calls[] = {pawl__script_acquire.sha1, pawl__script_release.sha1,
        pawl__script_pass.sha1, pawl__script_renew.sha1};
    return calls[crew_draw(crew, sizeof calls / sizeof calls[0])];
}

static enum proxy_end any_end(struct crew *crew)
{
    const enum proxy_end ends[] = {PROXY_RST, PROXY_FIN, PROXY_ORPHAN};
    return crew_draw(crew, 8) == 0 ? PROXY_MUTE : ends[crew_draw(crew, 3)];
}

static enum proxy_direction any_direction(struct crew *crew)
{
    return crew_draw(crew, 2) == 0 ? PROXY_TO_SERVER : PROXY_TO_CLIENT;
}

/* One piece of mischief. Copies do no harm to a connection, so they may come more often. */
static void spoil(struct crew *crew, struct proxy *proxy)
{
    switch (crew_draw(crew, 12)) {
    case 0:
    case 1:
    case 2:
        proxy_cut_reply_of(proxy, any_call(crew), 1 + (unsigned)crew_draw(crew, 3), any_end(crew));
        break;
    case 3:
    case 4:
    case 5:
    case 6:
        proxy_duplicate_next(proxy, any_call(crew), crew_draw(crew, 2) == 0);
        break;
    case 7:
        proxy_release_copies(proxy);
        break;
    case 8:
        proxy_hold_from(proxy, any_call(crew));
        break;
    case 9:
        proxy_release(proxy, PROXY_TO_SERVER);
        break;
    case 10:
        proxy_cut_after(proxy, any_direction(crew), crew_draw(crew, 20000), any_end(crew));
        break;
    default:
        proxy_byte_by_byte(proxy, crew_draw(crew, 3) == 0, 10);
        break;
    }
}

static void heal(struct proxy *proxy)
{
    proxy_disarm(proxy);
    proxy_byte_by_byte(proxy, false, 0);
    proxy_release(proxy, PROXY_TO_SERVER);
    proxy_release_copies(proxy);
}

static void print_mischief(void)
{
    struct proxy_stats sum = {0};
    for (int i = 0; i < CREW; i++) {
        const struct proxy_stats stats = proxy_stats(proxies[i]);
        sum.cuts += stats.cuts;
        sum.replies_lost += stats.replies_lost;
        sum.copies_sent += stats.copies_sent;
    }
    print_message("%" PRIu64 " connections cut, %" PRIu64 " answers swallowed, %" PRIu64
                  " copies sent\n",
        sum.cuts, sum.replies_lost, sum.copies_sent);
    assert_true(sum.replies_lost > 3 && sum.copies_sent > 3);
}

static void work_through_mischief(const char *user)
{
    open_proxies();
    struct crew *crew = hire(user, TIMEOUT_MS);
    const int64_t end_ms = boottime_ms() + RUN_MS;
    while (boottime_ms() < end_ms) {
        spoil(crew, proxies[crew_draw(crew, CREW)]);
        nap_ms((int64_t)crew_draw(crew, 60));
    }
    for (int i = 0; i < CREW; i++) {
        heal(proxies[i]);
    }
    crew_await_progress(crew, boottime_us(), (LEASE_MS + 3000) * PACE);
    crew_finish(crew);
    print_mischief();
    check_history(crew);
    check_limits(crew);
    check_resources(crew);
    check_nothing_left(server, LEASE_MS);
}

static void with_the_right_to_kill(void **state)
{
    (void)state;
    work_through_mischief("");
}

static void without_the_right_to_kill(void **state)
{
    (void)state;
    work_through_mischief("modest:modest@");
}

/* Nothing is lost, so nothing may even be noticed. */
static void bytes_one_at_a_time(void **state)
{
    (void)state;
    open_proxies();
    for (int i = 0; i < CREW; i++) {
        proxy_byte_by_byte(proxies[i], true, 0);
    }
    struct crew *crew = hire("", 5000);
    nap_ms(1500);
    check_all(crew);
    assert_int_equal(crew_count_acquires(crew, PAWL_UNAVAILABLE), 0);
    assert_int_equal(crew_count_releases(crew, PAWL_UNAVAILABLE), 0);
    for (int i = 0; i < CREW; i++) { /* a command and a push connection, once and for all */
        assert_true(proxy_stats(proxies[i]).accepted <= 2);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(with_the_right_to_kill, cleanup_setup, cleanup_teardown),
        cmocka_unit_test_setup_teardown(without_the_right_to_kill, cleanup_setup, cleanup_teardown),
        cmocka_unit_test_setup_teardown(bytes_one_at_a_time, cleanup_setup, cleanup_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
