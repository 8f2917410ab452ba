/* SPDX-License-Identifier: Apache-2.0 */
/* P5 for those who wait: nothing waits without a bound for a message that may not come.
 *
 * Somebody waits for a lock while its push connection is killed, muted, or never comes about; while
 * the server is frozen; after its holder was killed. A message makes it quick, but a second (and
 * 20 %) without one is the most it costs. */
#include "promise/lib/backend.h"

#include <signal.h>
#include <unistd.h>

#define LEASE_MS 30000
#define POLL_MS 1200
#define SUBSCRIBE "SUBSCRIBE redisson_lock__channel:{x}" /* scripts contain the bare word */

/* ===== Somebody who waits ===== */

struct waiting {
    pthread_t thread;
    pawl_client *client;
    pawl_lock *lock;
    int64_t wait_ms;
    _Atomic bool done;
    pawl_status status;
    int64_t at_ms;
};

static void *wait_for_lock(void *arg)
{
    struct waiting *waiting = arg;
    waiting->status = pawl_lock_acquire(waiting->lock, waiting->wait_ms);
    waiting->at_ms = boottime_ms();
    if (waiting->status == PAWL_OK) {
        pawl_lock_release(waiting->lock);
    }
    atomic_store(&waiting->done, true);
    return NULL;
}

static void start_waiting(
    struct waiting *waiting, const char *url, const char *query, int64_t wait_ms)
{
    *waiting = (struct waiting){.wait_ms = wait_ms};
    waiting->client = open_client(url, query);
    waiting->lock = open_lock(waiting->client, "x", LEASE_MS, true);
    assert_int_equal(pthread_create(&waiting->thread, NULL, wait_for_lock, waiting), 0);
}

/* When its wait was over; it must have got the lock. */
static int64_t end_waiting(struct waiting *waiting)
{
    WAIT_UNTIL(atomic_load(&waiting->done), 20000);
    pthread_join(waiting->thread, NULL);
    assert_int_equal(waiting->status, PAWL_OK);
    pawl_lock_close(waiting->lock);
    ASSERT_OK(close_client(waiting->client));
    return waiting->at_ms;
}

/* Somebody else has it. */
static pawl_lock *hold(pawl_client **client_out, int64_t lease_ms, bool renew)
{
    *client_out = open_client(server_url(server), NULL);
    pawl_lock *lock = open_lock(*client_out, "x", lease_ms, renew);
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
    return lock;
}

/* A waiter's own connection does not hear of the release after `spoil`. */
static void released_without_a_message(void (*spoil)(void), const char *what)
{
    struct waiting waiting;
    pawl_client *client = NULL;
    pawl_lock *lock = hold(&client, LEASE_MS, true);
    start_waiting(&waiting, proxy_url(proxy), NULL, PAWL_FOREVER);
    spoil();
    ASSERT_OK(pawl_lock_release(lock));
    const int64_t released_ms = boottime_ms();
    ASSERT_BY(what, POLL_MS, end_waiting(&waiting) - released_ms);
    pawl_lock_close(lock);
    ASSERT_OK(close_client(client));
}

static size_t subscriber_count(void)
{
    return server_client_count(server, "pubsub");
}

static void nothing(void)
{
    WAIT_UNTIL(subscriber_count() == 1, 3000);
}

static void kill_subscribers(void)
{
    WAIT_UNTIL(subscriber_count() == 1, 3000);
    server_kill_clients(server, "pubsub");
}

/* Nobody is told: the push connection just hears nothing any more. */
static void mute_subscribers(void)
{
    WAIT_UNTIL(subscriber_count() == 1, 3000);
    proxy_cut_those(proxy, SUBSCRIBE, PROXY_MUTE);
}

static void forget_subscriptions(void)
{
    assert_true(proxy_wait_received(proxy, SUBSCRIBE, 1, 3000));
    assert_int_equal(subscriber_count(), 0);
}

static void a_message_makes_it_quick(void **state)
{
    (void)state;
    struct waiting waiting;
    pawl_client *client = NULL;
    pawl_lock *lock = hold(&client, LEASE_MS, true);
    start_waiting(&waiting, proxy_url(proxy), NULL, PAWL_FOREVER);
    nothing();
    nap_ms(50); /* until it has asked once more, which looks like the first time from outside */
    ASSERT_OK(pawl_lock_release(lock));
    const int64_t released_ms = boottime_ms();
    ASSERT_BY("woken by a message", 0, end_waiting(&waiting) - released_ms);
    pawl_lock_close(lock);
    ASSERT_OK(close_client(client));
}

static void a_killed_push_connection_costs_a_second_at_most(void **state)
{
    (void)state;
    released_without_a_message(kill_subscribers, "released after the push connection was killed");
}

static void a_muted_push_connection_costs_a_second_at_most(void **state)
{
    (void)state;
    released_without_a_message(mute_subscribers, "released on a muted push connection");
}

static void a_subscription_that_never_arrives_costs_a_second_at_most(void **state)
{
    (void)state;
    proxy_hold_from(proxy, SUBSCRIBE);
    released_without_a_message(forget_subscriptions, "released without a subscription");
}

/* The push connection is killed all the time; commands go through. */
static void a_push_connection_that_never_lives_long_does_no_harm(void **state)
{
    (void)state;
    struct waiting waiting;
    pawl_client *client = NULL;
    pawl_lock *lock = hold(&client, LEASE_MS, true);
    start_waiting(&waiting, proxy_url(proxy), NULL, 20000);
    const int64_t end_ms = boottime_ms() + 1500;
    while (boottime_ms() < end_ms) {
        server_kill_clients(server, "pubsub");
        nap_ms(5);
    }
    assert_false(atomic_load(&waiting.done));
    ASSERT_OK(pawl_lock_release(lock));
    const int64_t released_ms = boottime_ms();
    ASSERT_BY("released after many kills", POLL_MS, end_waiting(&waiting) - released_ms);
    pawl_lock_close(lock);
    ASSERT_OK(close_client(client));
}

/* ===== Holders that die ===== */

static int hold_until_killed(const struct child_pipes *pipes, const char *url)
{
    pawl_client *client = NULL;
    pawl_lock *lock = NULL;
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    char word = 0;
    options.lease_ms = 1000;
    if (pawl_client_open(url, NULL, &client) != PAWL_OK ||
        pawl_lock_open(client, "x", &options, &lock) != PAWL_OK ||
        pawl_lock_acquire(lock, PAWL_TRY) != PAWL_OK || dprintf(pipes->out, "held\n") < 0) {
        return 1;
    }
    return read(pipes->in, &word, 1) == 1 ? 0 : 1;
}

static void a_killed_holder_is_succeeded(const char *url, const char *what, int64_t limit_ms)
{
    struct waiting waiting;
    struct child *child = child_start("holder", url);
    char *line = child_read_line(child, 5000 * SLOWNESS);
    assert_non_null(line);
    free(line);
    start_waiting(&waiting, url, NULL, PAWL_FOREVER);
    nap_ms(1200); /* it has been renewed since */
    assert_false(atomic_load(&waiting.done));
    child_signal(child, SIGKILL);
    const int64_t killed_ms = boottime_ms();
    ASSERT_BY(what, limit_ms, end_waiting(&waiting) - killed_ms);
    child_free(child);
}

static void a_killed_holder_is_succeeded_after_its_lease(void **state)
{
    (void)state;
    char url[URL_SIZE];
    snprintf(url, sizeof url, "file://%s", tempdir_make());
    a_killed_holder_is_succeeded(server_url(server), "after a killed holder (redis)", 1000);
    a_killed_holder_is_succeeded(url, "after a killed holder (file)", 100);
}

/* ===== Forever ===== */

static void forever_gives_up_after_silence(void **state)
{
    (void)state;
    pawl_client *client = open_client(server_url(server), "?timeout=250ms&give_up=1s");
    pawl_lock *lock = open_lock(client, "x", LEASE_MS, true);
    server_pause(server);
    ASSERT_ENDS(
        "forever, frozen server", 1000, PAWL_UNAVAILABLE, pawl_lock_acquire(lock, PAWL_FOREVER));
    server_resume(server);
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_FOREVER));
    ASSERT_OK(pawl_lock_release(lock));
    pawl_lock_close(lock);
    ASSERT_OK(close_client(client));
}

static void forever_goes_on_through_an_outage(void **state)
{
    (void)state;
    struct waiting waiting;
    pawl_client *client = NULL;
    pawl_lock *lock = hold(&client, LEASE_MS, false);
    start_waiting(&waiting, server_url(server), "?timeout=250ms&give_up=2s", PAWL_FOREVER);
    for (int i = 0; i < 2; i++) {
        nap_ms(700);
        server_pause(server);
        nap_ms(1500);
        server_resume(server);
        nap_ms(700); /* "held" is an answer */
        assert_false(atomic_load(&waiting.done));
    }
    ASSERT_OK(pawl_lock_release(lock));
    const int64_t released_ms = boottime_ms();
    ASSERT_BY("released after two outages", POLL_MS, end_waiting(&waiting) - released_ms);
    pawl_lock_close(lock);
    ASSERT_OK(close_client(client));
}

static void a_wait_goes_on_over_a_restart(void **state)
{
    (void)state;
    struct server *brittle = server_start(NULL);
    struct waiting waiting;
    pawl_client *client = open_client(server_url(brittle), NULL);
    pawl_lock *lock = open_lock(client, "x", LEASE_MS, false);
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
    start_waiting(&waiting, server_url(brittle), NULL, PAWL_FOREVER);
    WAIT_UNTIL(server_client_count(brittle, "pubsub") == 1, 3000);
    server_restart(brittle, false); /* the lock is forgotten, and free */
    const int64_t back_ms = boottime_ms();
    ASSERT_BY("granted after a restart", POLL_MS, end_waiting(&waiting) - back_ms);
    pawl_lock_info info = {.size = sizeof info};
    WAIT_UNTIL(pawl_lock_inspect(lock, &info) == PAWL_OK, 2000); /* sees that all is new */
    ASSERT_STATUS(PAWL_LOST, pawl_lock_release(lock));
    pawl_lock_close(lock);
    ASSERT_OK(close_client(client));
    server_stop(brittle);
}

int main(int argc, char *argv[])
{
    static const struct child_role roles[] = {{"holder", hold_until_killed}};
    child_dispatch(argc, argv, roles, 1);
    const struct CMUnitTest tests[] = {
        CASE(backend_begin_proxy, a_message_makes_it_quick),
        CASE(backend_begin_proxy, a_killed_push_connection_costs_a_second_at_most),
        CASE(backend_begin_proxy, a_muted_push_connection_costs_a_second_at_most),
        CASE(backend_begin_proxy, a_subscription_that_never_arrives_costs_a_second_at_most),
        CASE(backend_begin_proxy, a_push_connection_that_never_lives_long_does_no_harm),
        CASE(backend_begin_proxy, a_killed_holder_is_succeeded_after_its_lease),
        CASE(backend_begin_proxy, forever_gives_up_after_silence),
        CASE(backend_begin_proxy, forever_goes_on_through_an_outage),
        CASE(backend_begin_proxy, a_wait_goes_on_over_a_restart),
    };
    return cmocka_run_group_tests(tests, backend_start, NULL);
}
