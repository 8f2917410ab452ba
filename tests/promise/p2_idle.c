/* SPDX-License-Identifier: Apache-2.0 */
/* P2 while nobody calls: a holder whose connection breaks comes back at once and makes sure of what
 * it holds, long before the next renewal is due; who holds nothing stays away. */
#include "promise/lib/backend.h"
#include "support/admin.h"

#define LEASE_MS 30000 /* the next renewal is 10 s away */
#define BACK_MS 1000
#define AWAY_MS 500

static struct losses losses;

/* The id of the only connection for commands; 0: there is none. */
static int64_t connection_id(struct server *to)
{
    char *list = server_command(to, "CLIENT LIST TYPE normal");
    int64_t id = 0;
    for (char *rest = NULL, *line = strtok_r(list, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        const bool ours = strstr(line, " name=" ADMIN_CLIENT_NAME " ") == NULL;
        id = ours ? strtoll(line + strlen("id="), NULL, 10) : id;
    }
    free(list);
    return id;
}

/* End the idle connection and wait for the next. */
static void kill_and_await(struct server *to)
{
    const int64_t old = connection_id(to);
    assert_int_equal(server_kill_clients(to, "normal"), 1);
    WAIT_UNTIL(connection_id(to) > old, BACK_MS * SLOWNESS);
}

static void holder_comes_back(const char *url)
{
    pawl_client *client = open_client(url, NULL);
    pawl_lock *lock = open_watched(client, "idle", LEASE_MS, true, &losses);
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
    for (int i = 0; i < 3; i++) {
        assert_int_equal(server_integer(server, "PEXPIRE idle 20000"), 1);
        kill_and_await(server);
        WAIT_UNTIL(server_integer(server, "PTTL idle") > 20000, BACK_MS * SLOWNESS);
    }
    assert_int_equal(atomic_load(&losses.count), 0);
    ASSERT_OK(pawl_lock_release(lock));
    pawl_lock_close(lock);
    ASSERT_OK(close_client(client));
}

static void it_comes_back_and_renews(void **state)
{
    (void)state;
    holder_comes_back(server_url(server));
}

static void it_does_so_on_a_unix_socket(void **state)
{
    (void)state;
    holder_comes_back(server_unix_url(server));
}

static void a_fixed_lease_is_only_looked_at(void **state)
{
    (void)state;
    pawl_client *client = open_client(server_url(server), NULL);
    pawl_lock *lock = open_watched(client, "fixed", LEASE_MS, false, &losses);
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
    assert_int_equal(server_integer(server, "PEXPIRE fixed 20000"), 1);
    kill_and_await(server);
    kill_and_await(server);
    assert_true(server_integer(server, "PTTL fixed") <= 20000);
    assert_int_equal(server_integer(server, "DEL fixed"), 1);
    server_kill_clients(server, "normal"); /* who has just found out needs no connection any more */
    WAIT_UNTIL(atomic_load(&losses.count) == 1, BACK_MS * SLOWNESS);
    ASSERT_STATUS(PAWL_LOST, pawl_lock_release(lock));
    pawl_lock_close(lock);
    ASSERT_OK(close_client(client));
}

static void note_permit(pawl_semaphore *semaphore, pawl_status status, const pawl_permit *permits,
    size_t count, void *arg)
{
    (void)semaphore, (void)permits, (void)count, (void)arg;
    if (status == PAWL_LOST) {
        atomic_fetch_add(&losses.count, 1);
    }
}

static void permits_are_asked_about_too(void **state)
{
    (void)state;
    pawl_client *client = open_client(server_url(server), NULL);
    pawl_semaphore *semaphore = NULL;
    pawl_semaphore_options options = PAWL_SEMAPHORE_OPTIONS_INIT;
    pawl_permit permit;
    forget_losses(&losses);
    options.leased = true;
    options.lease_ms = LEASE_MS;
    options.on_lost = note_permit;
    ASSERT_OK(pawl_semaphore_open(client, "seats", &options, &semaphore));
    ASSERT_OK(pawl_semaphore_set(semaphore, 1, NULL));
    ASSERT_OK(pawl_permit_acquire(semaphore, 1, PAWL_TRY, &permit));
    kill_and_await(server);
    assert_int_equal(atomic_load(&losses.count), 0);
    assert_true(server_answers(server, "OK", "FLUSHALL"));
    server_kill_clients(server, "normal");
    WAIT_UNTIL(atomic_load(&losses.count) == 1, BACK_MS * SLOWNESS);
    ASSERT_OK(pawl_semaphore_close(semaphore));
    ASSERT_OK(close_client(client));
}

/* The keeper watches a connection, too, that somebody else has opened. */
static void a_connection_that_a_caller_brought_back_is_watched(void **state)
{
    (void)state;
    pawl_client *client = open_client(server_url(server), NULL);
    pawl_lock *lock = open_watched(client, "idle", LEASE_MS, true, &losses);
    pawl_lock *other = open_lock(client, "other", LEASE_MS, true);
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
    for (int i = 0; i < 4; i++) { /* not more: the pauses get longer */
        server_kill_clients(server, "normal");
        ASSERT_OK(pawl_lock_acquire(other, 5000));
        ASSERT_OK(pawl_lock_release(other));
    }
    kill_and_await(server);
    assert_int_equal(atomic_load(&losses.count), 0);
    ASSERT_OK(pawl_lock_release(lock));
    pawl_lock_close(other);
    pawl_lock_close(lock);
    ASSERT_OK(close_client(client));
}

static void who_holds_nothing_stays_away_until_it_is_needed(void **state)
{
    (void)state;
    pawl_client *client = open_client(server_url(server), NULL);
    pawl_lock *lock = open_lock(client, "idle", LEASE_MS, true);
    for (int i = 0; i < 2; i++) {
        ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY)); /* now the keeper runs */
        ASSERT_OK(pawl_lock_release(lock));
        assert_int_equal(server_kill_clients(server, "normal"), 1);
        nap_ms(AWAY_MS);
        assert_int_equal(connection_id(server), 0);
    }
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
    kill_and_await(server); /* and now it minds */
    ASSERT_OK(pawl_lock_release(lock));
    pawl_lock_close(lock);
    ASSERT_OK(close_client(client));
}

static void a_server_that_forgot_is_found_out_at_once(void **state)
{
    (void)state;
    struct server *forgetful = server_start(NULL);
    pawl_client *client = open_client(server_url(forgetful), NULL);
    pawl_lock *lock = open_watched(client, "forgotten", LEASE_MS, true, &losses);
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
    server_restart(forgetful, false);
    const int64_t back_ms = boottime_ms();
    WAIT_UNTIL(atomic_load(&losses.count) > 0, 2 * BACK_MS * SLOWNESS);
    ASSERT_BY("lost after a restart", BACK_MS, atomic_load(&losses.at_ms) - back_ms);
    ASSERT_STATUS(PAWL_LOST, pawl_lock_release(lock));
    pawl_lock_close(lock);
    ASSERT_OK(close_client(client));
    server_stop(forgetful);
}

static void a_server_that_was_away_is_found_when_it_is_back(void **state)
{
    (void)state;
    struct server *faithful = server_start(&(struct server_options){.aof = true});
    pawl_client *client = open_client(server_url(faithful), NULL);
    pawl_lock *lock = open_watched(client, "kept", LEASE_MS, true, &losses);
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
    server_kill(faithful);
    nap_ms(3000); /* as long as it takes until the pauses are the longest */
    server_restart(faithful, true);
    const int64_t back_ms = boottime_ms();
    WAIT_UNTIL(server_integer(faithful, "PTTL kept") > LEASE_MS - 2000, 3 * BACK_MS * SLOWNESS);
    ASSERT_BY("renewed after an outage", 1200, boottime_ms() - back_ms); /* 1 s and its jitter */
    assert_int_equal(atomic_load(&losses.count), 0);
    ASSERT_OK(pawl_lock_release(lock));
    pawl_lock_close(lock);
    ASSERT_OK(close_client(client));
    server_stop(faithful);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(backend_begin, it_comes_back_and_renews),
        CASE(backend_begin, it_does_so_on_a_unix_socket),
        CASE(backend_begin, a_fixed_lease_is_only_looked_at),
        CASE(backend_begin, permits_are_asked_about_too),
        CASE(backend_begin, a_connection_that_a_caller_brought_back_is_watched),
        CASE(backend_begin, who_holds_nothing_stays_away_until_it_is_needed),
        CASE(backend_begin, a_server_that_forgot_is_found_out_at_once),
        CASE(backend_begin, a_server_that_was_away_is_found_when_it_is_back),
    };
    return cmocka_run_group_tests(tests, backend_start, NULL);
}
