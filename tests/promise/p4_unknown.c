/* SPDX-License-Identifier: Apache-2.0 */
/* P4 on a real server: answers that were lost, callers that gave up, copies that come late.
 *
 * The proxy swallows a reply after the server has acted, keeps a request back until its caller has
 * left, or sends it twice. The user `modest` may not kill connections, so the late copy really
 * arrives. With a clock of our own: p4_unknown_clock.c. */
#include "promise/lib/backend.h"

#include "engine/redis/lua_scripts.h"

#define LEASE_MS 30000
#define SHORT_LEASE_MS 3000
#define CLEAN_MS 2000 /* far below the lease */
#define TOKEN_KEY "redisson_lock_token:{x}"

static struct losses losses;

static int start_server(void **state)
{
    (void)state;
    server = server_start(NULL);
    return server_answers(server, "OK", "ACL SETUSER modest on >modest ~* &* +@all -client|kill")
               ? 0
               : -1;
}

static const char *acquire_call(void)
{
    return pawl__script_acquire.sha1;
}

static const char *release_call(void)
{
    return pawl__script_release.sha1;
}

static const char *modest_url(void)
{
    static char url[URL_SIZE];
    snprintf(url, sizeof url, "redis://modest:modest@127.0.0.1:%u", proxy_port(proxy));
    return url;
}

/* One field, counted once. */
static void assert_held_once(void)
{
    char *holder = holder_of(server, "x");
    const char *space = strchr(holder, ' ');
    assert_non_null(space);
    assert_string_equal(space, " 1");
    free(holder);
}

/* ===== Acquire ===== */

static void lose_the_reply_of_an_acquire(int64_t wait_ms, enum proxy_end how)
{
    pawl_client *client = open_client(proxy_url(proxy), NULL);
    pawl_lock *lock = open_lock(client, "x", LEASE_MS, true);
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
    const uint64_t token = pawl_lock_token(lock);
    ASSERT_OK(pawl_lock_release(lock));
    proxy_cut_reply_of(proxy, acquire_call(), 1, how);
    ASSERT_OK(pawl_lock_acquire(lock, wait_ms));
    assert_int_equal(proxy_stats(proxy).replies_lost, 1);
    assert_held_once();
    assert_true(pawl_lock_token(lock) > token);
    assert_true(server_integer(server, "GET " TOKEN_KEY) == (int64_t)pawl_lock_token(lock));
    ASSERT_OK(pawl_lock_release(lock));
    assert_false(is_locked(server, "x"));
    pawl_lock_close(lock);
    ASSERT_OK(close_client(client));
}

static void a_lost_reply_is_asked_for_again(void **state)
{
    (void)state;
    lose_the_reply_of_an_acquire(3000, PROXY_RST);
}

static void a_try_asks_again_too(void **state)
{
    (void)state;
    lose_the_reply_of_an_acquire(PAWL_TRY, PROXY_FIN);
}

static void the_server_may_not_know_that_the_connection_is_gone(void **state)
{
    (void)state;
    lose_the_reply_of_an_acquire(PAWL_TRY, PROXY_ORPHAN);
}

static void who_gave_up_leaves_no_orphan(void **state)
{
    (void)state;
    pawl_client *client = open_client(proxy_url(proxy), "?timeout=300ms");
    pawl_lock *lock = open_lock(client, "x", LEASE_MS, true);
    proxy_hold(proxy, PROXY_TO_CLIENT);
    ASSERT_ENDS(
        "a try without an answer", 300, PAWL_UNAVAILABLE, pawl_lock_acquire(lock, PAWL_TRY));
    WAIT_UNTIL(is_locked(server, "x"), 1000); /* it did happen */
    proxy_release(proxy, PROXY_TO_CLIENT);
    const int64_t healed_ms = boottime_ms();
    WAIT_UNTIL(!is_locked(server, "x"), CLEAN_MS);
    print_message(
        "taken back %lld ms after the line was up again\n", (long long)(boottime_ms() - healed_ms));
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
    ASSERT_OK(pawl_lock_release(lock));
    pawl_lock_close(lock);
    ASSERT_OK(close_client(client));
}

/* The request itself is stuck until its caller has left and the lock was found free. */
static void a_late_acquire(const char *url, bool arrives)
{
    pawl_client *client = open_client(url, "?timeout=300ms");
    pawl_lock *lock = open_lock(client, "x", SHORT_LEASE_MS, true);
    proxy_hold_from(proxy, acquire_call());
    const pawl_status status = pawl_lock_acquire(lock, PAWL_TRY);
    assert_int_equal(status, PAWL_UNAVAILABLE);
    assert_true(proxy_wait_forwarded(proxy, release_call(), 1, 3000)); /* the clean-up has begun */
    const uint64_t before = proxy_forwarded(proxy, acquire_call());
    proxy_release(proxy, PROXY_TO_SERVER);
    if (arrives) {
        assert_true(proxy_wait_forwarded(proxy, acquire_call(), before + 1, 1000));
    }
    WAIT_UNTIL(!is_locked(server, "x"), CLEAN_MS);
    const int64_t end_ms = boottime_ms() + SHORT_LEASE_MS;
    while (!arrives && boottime_ms() < end_ms) {
        assert_false(is_locked(server, "x"));
        nap_ms(10);
    }
    if (arrives) { /* repeated for one lease, and no longer */
        nap_ms(SHORT_LEASE_MS + 600);
        assert_true(proxy_received(proxy, release_call()) >= 3);
        const uint64_t releases = proxy_received(proxy, release_call());
        nap_ms(1000);
        assert_int_equal(proxy_received(proxy, release_call()), releases);
        assert_false(is_locked(server, "x"));
    }
    ASSERT_OK(pawl_lock_acquire(lock, 1000));
    ASSERT_OK(pawl_lock_release(lock));
    pawl_lock_close(lock);
    ASSERT_OK(close_client(client));
}

static void a_copy_on_a_killed_connection_never_arrives(void **state)
{
    (void)state;
    a_late_acquire(proxy_url(proxy), false);
}

static void a_copy_that_does_arrive_is_taken_back(void **state)
{
    (void)state;
    a_late_acquire(modest_url(), true);
}

static void a_duplicated_acquire_counts_once(void **state)
{
    (void)state;
    pawl_client *client = open_client(proxy_url(proxy), NULL);
    pawl_lock *lock = open_lock(client, "x", LEASE_MS, true);
    proxy_duplicate_next(proxy, acquire_call(), false);
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
    WAIT_UNTIL(proxy_stats(proxy).copies_answered == 1, 3000);
    assert_held_once();
    assert_true(server_integer(server, "GET " TOKEN_KEY) == (int64_t)pawl_lock_token(lock));
    ASSERT_OK(pawl_lock_release(lock));
    assert_false(is_locked(server, "x"));
    pawl_lock_close(lock);
    ASSERT_OK(close_client(client));
}

static void a_late_duplicate_does_not_touch_the_next_holder(void **state)
{
    (void)state;
    pawl_client *client = open_client(proxy_url(proxy), NULL);
    pawl_client *other = open_client(server_url(server), NULL);
    pawl_lock *lock = open_lock(client, "x", LEASE_MS, true);
    pawl_lock *next = open_lock(other, "x", LEASE_MS, true);
    proxy_duplicate_next(proxy, acquire_call(), true);
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
    ASSERT_OK(pawl_lock_release(lock));
    ASSERT_OK(pawl_lock_acquire(next, PAWL_TRY));
    char *holder = holder_of(server, "x");
    proxy_release_copies(proxy);
    WAIT_UNTIL(proxy_stats(proxy).copies_answered == 1, 3000);
    char *after = holder_of(server, "x");
    assert_string_equal(after, holder);
    free(after);
    free(holder);
    ASSERT_OK(pawl_lock_release(next));
    pawl_lock_close(lock);
    pawl_lock_close(next);
    ASSERT_OK(close_client(client));
    ASSERT_OK(close_client(other));
}

/* ===== Release ===== */

static void a_release_asked_again_finds_it_done(void **state)
{
    (void)state;
    pawl_client *client = open_client(proxy_url(proxy), NULL);
    pawl_lock *lock = open_watched(client, "x", LEASE_MS, true, &losses);
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
    proxy_cut_reply_of(proxy, release_call(), 1, PROXY_RST);
    ASSERT_OK(pawl_lock_release(lock));
    assert_int_equal(proxy_stats(proxy).replies_lost, 1);
    assert_int_equal(atomic_load(&losses.count), 0);
    assert_false(is_locked(server, "x"));
    pawl_lock_close(lock);
    ASSERT_OK(close_client(client));
}

/* The same, but the second answer comes when the lease is over: it may have been lost before. */
static void a_release_asked_again_and_answered_too_late_is_lost(void **state)
{
    (void)state;
    const int64_t lease_ms = 700;
    pawl_client *client = open_client(proxy_url(proxy), "?timeout=3s");
    pawl_lock *lock = open_watched(client, "x", lease_ms, false, &losses);
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
    proxy_cut_reply_of(proxy, release_call(), 1, PROXY_RST);
    proxy_set_delay(proxy, PROXY_TO_CLIENT, lease_ms / 2, 0); /* two flights greet us, then ours */
    ASSERT_STATUS(PAWL_LOST, pawl_lock_release(lock));
    WAIT_UNTIL(atomic_load(&losses.count) == 1, SLACK_MS);
    proxy_set_delay(proxy, PROXY_TO_CLIENT, 0, 0);
    ASSERT_STATUS(PAWL_NOT_HELD, pawl_lock_release(lock));
    pawl_lock_close(lock);
    ASSERT_OK(close_client(client));
}

static void a_release_after_the_deadline_is_lost_but_still_sent(void **state)
{
    (void)state;
    pawl_client *client = open_client(server_url(server), NULL);
    pawl_lock *lock = open_watched(client, "x", 200, false, &losses);
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
    assert_int_equal(server_integer(server, "PERSIST x"), 1); /* the server never ends it */
    WAIT_UNTIL(pawl_lock_token(lock) == 0, 2000);
    assert_true(is_locked(server, "x"));
    ASSERT_STATUS(PAWL_LOST, pawl_lock_release(lock));
    WAIT_UNTIL(!is_locked(server, "x"), SLACK_MS);
    WAIT_UNTIL(atomic_load(&losses.count) == 1, SLACK_MS);
    pawl_lock_close(lock);
    ASSERT_OK(close_client(client));
}

static void an_unconfirmed_release_is_repeated_until_it_is_heard(void **state)
{
    (void)state;
    pawl_client *client = open_client(proxy_url(proxy), "?timeout=300ms&connect_timeout=300ms");
    pawl_lock *lock = open_lock(client, "x", LEASE_MS, true);
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
    proxy_refuse(proxy, true);
    proxy_cut_now(proxy, PROXY_RST);
    ASSERT_ENDS("a release without a server", 300, PAWL_UNAVAILABLE, pawl_lock_release(lock));
    ASSERT_STATUS(PAWL_NOT_HELD, pawl_lock_release(lock)); /* the caller is done with it */
    nap_ms(700);
    assert_true(is_locked(server, "x"));
    proxy_refuse(proxy, false);
    WAIT_UNTIL(!is_locked(server, "x"), CLEAN_MS);
    pawl_lock_close(lock);
    ASSERT_OK(close_client(client));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(backend_begin_proxy, a_lost_reply_is_asked_for_again),
        CASE(backend_begin_proxy, a_try_asks_again_too),
        CASE(backend_begin_proxy, the_server_may_not_know_that_the_connection_is_gone),
        CASE(backend_begin_proxy, who_gave_up_leaves_no_orphan),
        CASE(backend_begin_proxy, a_copy_on_a_killed_connection_never_arrives),
        CASE(backend_begin_proxy, a_copy_that_does_arrive_is_taken_back),
        CASE(backend_begin_proxy, a_duplicated_acquire_counts_once),
        CASE(backend_begin_proxy, a_late_duplicate_does_not_touch_the_next_holder),
        CASE(backend_begin_proxy, a_release_asked_again_finds_it_done),
        CASE(backend_begin_proxy, a_release_asked_again_and_answered_too_late_is_lost),
        CASE(backend_begin_proxy, a_release_after_the_deadline_is_lost_but_still_sent),
        CASE(backend_begin_proxy, an_unconfirmed_release_is_repeated_until_it_is_heard),
    };
    return cmocka_run_group_tests(tests, start_server, NULL);
}
