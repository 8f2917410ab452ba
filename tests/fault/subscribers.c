/* SPDX-License-Identifier: Apache-2.0 */
/* Fault matrix row 26: the connection that brings wake-ups dies, or is alive and brings nothing.
 *
 * Workers of two processes take turns, so each of them waits for a message of the other. Their push
 * connections are killed by the operator again and again, and muted by the proxy so that nobody is
 * told. Everybody gets it by polling then, once in a second and a fifth; and the subscription must
 * come back by itself, also when the old connection says nothing at all. One wait alone:
 * promise/p5_waiting.c. */
#include "fault/lib/fault.h"

enum {
    LEASE_MS = 30000, /* so nobody is woken by its end */
    POLL_MS = 1200,
    RUN_MS = 3000,
    SILENCE_MS = 10000, /* after so long the client asks for a sign of life */
    CREW = 3,
};

#define CHANNEL "redisson_lock__channel:{fault:0}"

static struct server *server;
static struct proxy *proxy;

static int64_t subscriber_count(void)
{
    char *reply = server_command(server, "PUBSUB NUMSUB " CHANNEL);
    const char *number = strrchr(reply, ' ');
    const int64_t count = number != NULL ? strtoll(number, NULL, 10) : 0;
    free(reply);
    return count;
}

static struct crew *hire(const char *url)
{
    struct crew *crew = crew_make();
    for (int i = 0; i < CREW; i++) {
        struct board_plan *plan = crew_plan(crew, url);
        plan->name_count = 1;
        plan->lease_ms = LEASE_MS;
        plan->wait_ms = 10000;
        plan->work_us = 3000;
        plan->rest_us = 30000; /* so that a poll has a chance to find it free */
        crew_start(crew);
    }
    crew_await_first(crew);
    return crew;
}

/* Everybody got it by a poll at the latest, or by a later one if it was taken at that moment. */
static void check_waits(struct crew *crew)
{
    int64_t longest_us = 0;
    for (size_t i = 0; i < crew->count; i++) {
        const int64_t waited_us = atomic_load(&crew->board->workers[i].waited_us);
        longest_us = waited_us > longest_us ? waited_us : longest_us;
    }
    print_message(
        "the longest wait was %" PRId64 " ms, a poll is %d ms\n", longest_us / 1000, POLL_MS);
    assert_int_equal(crew_count_acquires(crew, PAWL_BUSY), 0);
}

static void killed_again_and_again(void **state)
{
    (void)state;
    server = server_start(NULL);
    struct crew *crew = hire(server_url(server));
    const int64_t end_ms = boottime_ms() + RUN_MS;
    int64_t killed = 0;
    while (boottime_ms() < end_ms) {
        killed += server_kill_clients(server, "pubsub");
        nap_ms((int64_t)crew_draw(crew, 40));
    }
    print_message("%" PRId64 " push connections were killed\n", killed);
    assert_true(killed > 5);
    const int64_t healed_us = boottime_us();
    WAIT_UNTIL(subscriber_count() > 0, 5000 * PACE); /* whoever waits is subscribed again */
    crew_await_progress(crew, healed_us, 10000 * PACE);
    check_all(crew);
    check_waits(crew);
    check_nothing_left(server, 0);
}

static void muted_again_and_again(void **state)
{
    (void)state;
    server = server_start(NULL);
    proxy = proxy_start_for(server);
    struct crew *crew = hire(proxy_url(proxy));
    const int64_t end_ms = boottime_ms() + RUN_MS;
    while (boottime_ms() < end_ms) {
        proxy_cut_those(proxy, "SUBSCRIBE " CHANNEL, PROXY_MUTE);
        nap_ms(20 + (int64_t)crew_draw(crew, 200));
    }
    crew_await_progress(crew, boottime_us(), 10000 * PACE);
    check_all(crew);
    check_waits(crew);
}

/* ===== One who waits ===== */

static _Atomic bool got_it;

static void note_grant(pawl_lock *lock, pawl_status status, void *arg)
{
    (void)lock;
    (void)arg;
    atomic_store(&got_it, status == PAWL_OK);
}

static pawl_lock *open_handle(pawl_client *client)
{
    pawl_lock *lock = NULL;
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    options.owner = PAWL_OWNER_HANDLE;
    ASSERT_OK(pawl_lock_open(client, "fault:0", &options, &lock));
    return lock;
}

/* Dead without a word: after ten seconds of silence it is asked, and then replaced. */
static void a_silent_connection_is_replaced(void **state)
{
    (void)state;
    server = server_start(NULL);
    proxy = proxy_start_for(server);
    pawl_client *near = NULL;
    pawl_client *far = NULL;
    ASSERT_OK(pawl_client_open(server_url(server), NULL, &near));
    ASSERT_OK(pawl_client_open(proxy_url(proxy), NULL, &far));
    pawl_lock *holder = open_handle(near);
    pawl_lock *waiter = open_handle(far);
    atomic_store(&got_it, false);
    ASSERT_OK(pawl_lock_acquire(holder, PAWL_TRY));
    ASSERT_OK(pawl_lock_acquire_async(waiter, PAWL_FOREVER, note_grant, NULL));
    WAIT_UNTIL(subscriber_count() == 1, 5000);

    const int64_t muted_ms = boottime_ms();
    proxy_cut_those(proxy, "SUBSCRIBE " CHANNEL, PROXY_MUTE);
    server_kill_clients(server, "pubsub"); /* which the client cannot know */
    WAIT_UNTIL(subscriber_count() == 0, 1000);
    WAIT_UNTIL(subscriber_count() == 1, SILENCE_MS + 1000 + SLACK_MS);
    print_message("subscribed again after %" PRId64 " ms\n", boottime_ms() - muted_ms);
    assert_false(atomic_load(&got_it));

    nap_ms(300); /* so that the next poll is not by chance at the same time */
    const int64_t released_ms = boottime_ms();
    ASSERT_OK(pawl_lock_release(holder));
    WAIT_UNTIL(atomic_load(&got_it), POLL_MS + SLACK_MS);
    print_message("woken after %" PRId64 " ms\n", boottime_ms() - released_ms);
    ASSERT_OK(pawl_lock_close(waiter));
    ASSERT_OK(pawl_lock_close(holder));
    ASSERT_OK(pawl_client_close(far));
    ASSERT_OK(pawl_client_close(near));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(killed_again_and_again, cleanup_setup, cleanup_teardown),
        cmocka_unit_test_setup_teardown(muted_again_and_again, cleanup_setup, cleanup_teardown),
        cmocka_unit_test_setup_teardown(
            a_silent_connection_is_replaced, cleanup_setup, cleanup_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
