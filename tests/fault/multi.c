/* SPDX-License-Identifier: Apache-2.0 */
/* Multi-locks on real servers that fail: whatever ends an acquire, no key of it stays behind, on no
 * server, for longer than the lease. And the reason to ask for everything in one go: together they
 * take about one way to the server and back. */
#include "fault/lib/fault.h"

enum {
    MEMBERS = 4,
    MANY = 16,
    WAY_MS = 40,
    TIMEOUT_MS = 250,
    LEASE_MS = 1500,
    BOUND_MS = 8000,
};

static struct server *servers[2];

static int start_servers(void **state)
{
    (void)state;
    servers[0] = server_start(NULL);
    servers[1] = server_start(NULL);
    return 0;
}

static int begin(void **state)
{
    free(server_command(servers[0], "FLUSHALL"));
    free(server_command(servers[1], "FLUSHALL"));
    return cleanup_setup(state);
}

/* ===== Scenes ===== */

static void end_client(void *client)
{
    pawl_client_close(client);
}

static void end_lock(void *lock)
{
    pawl_lock_close(lock);
}

static pawl_client *open_client(const char *url)
{
    pawl_client_options options = PAWL_CLIENT_OPTIONS_INIT;
    pawl_client *client = NULL;
    options.timeout_ms = TIMEOUT_MS;
    ASSERT_OK(pawl_client_open(url, &options, &client));
    cleanup_add(end_client, client);
    return client;
}

static pawl_lock *open_lock(pawl_client *client, size_t number)
{
    char name[32];
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    pawl_lock *lock = NULL;
    options.lease_ms = LEASE_MS;
    snprintf(name, sizeof name, "m%02zu", number);
    ASSERT_OK(pawl_lock_open(client, name, &options, &lock));
    cleanup_add(end_lock, lock);
    return lock;
}

/* Members m00, m01, ...: by turns of the clients. */
static pawl_lock *open_multi(pawl_client *const clients[], size_t client_count, size_t count)
{
    pawl_lock *members[MANY];
    pawl_lock *multi = NULL;
    for (size_t i = 0; i < count; i++) {
        members[i] = open_lock(clients[i % client_count], i);
    }
    ASSERT_OK(pawl_lock_open_multi(members, count, NULL, &multi));
    cleanup_add(end_lock, multi);
    return multi;
}

static int64_t key_count(size_t server)
{
    return server_integer(servers[server], "EXISTS m00 m01 m02 m03");
}

/* ===== Cases ===== */

/* Acquire and release with this delay on the way back; the best of three, in ms. */
static int64_t best_pair_ms(pawl_lock *multi, struct proxy *const proxies[], size_t count)
{
    int64_t best_ms = INT64_MAX;
    ASSERT_OK(pawl_lock_acquire(multi, PAWL_TRY)); /* scripts are known now */
    ASSERT_OK(pawl_lock_release(multi));
    for (size_t i = 0; i < count; i++) {
        proxy_set_delay(proxies[i], PROXY_TO_CLIENT, WAY_MS, 0);
    }
    for (int i = 0; i < 3 || (i < 12 && best_ms >= 4 * WAY_MS); i++) { /* a busy machine */
        const int64_t start_ms = boottime_ms();
        ASSERT_OK(pawl_lock_acquire(multi, PAWL_TRY));
        ASSERT_OK(pawl_lock_release(multi));
        const int64_t took_ms = boottime_ms() - start_ms;
        best_ms = took_ms < best_ms ? took_ms : best_ms;
    }
    printf("%d members, %zu servers, %d ms there and back: acquired and released in %lld ms\n",
        MANY, count, WAY_MS, (long long)best_ms);
    assert_true(best_ms >= 2 * WAY_MS - 1);
    return best_ms;
}

static void one_way_for_all(void **state)
{
    (void)state;
    struct proxy *proxy = proxy_start_for(servers[0]);
    pawl_client *client = open_client(proxy_url(proxy));
    pawl_lock *multi = open_multi(&client, 1, MANY);
    assert_true(best_pair_ms(multi, &proxy, 1) < 5 * WAY_MS); /* one by one it would be 32 times */
}

static void one_way_for_several_servers(void **state)
{
    (void)state;
    struct proxy *proxies[2] = {proxy_start_for(servers[0]), proxy_start_for(servers[1])};
    pawl_client *clients[2] = {
        open_client(proxy_url(proxies[0])), open_client(proxy_url(proxies[1]))};
    pawl_lock *multi = open_multi(clients, 2, MANY);
    const int64_t took_ms = best_pair_ms(multi, proxies, 2);
    assert_true(took_ms < 4 * WAY_MS); /* one server after the other would be 4 times */
}

/* A key of another type under a member's name, the last in order. */
static void foreign_key(void **state)
{
    (void)state;
    pawl_client *client = open_client(server_url(servers[0]));
    pawl_lock *multi = open_multi(&client, 1, MEMBERS);
    free(server_command(servers[0], "SET m03 something"));
    const pawl_status status = pawl_lock_acquire(multi, 1000);
    assert_true(status != PAWL_OK && status != PAWL_BUSY);
    assert_non_null(strstr(pawl_last_error(), "member 4 of 4"));
    assert_int_equal(pawl_lock_member_status(multi, 3), status);
    assert_int_equal(key_count(0), 1);
    assert_int_equal(pawl_lock_hold_count(multi), 0);
}

/* One name through two ways to one server is the same lock twice: it would wait for itself. */
static void one_server_by_two_addresses(void **state)
{
    (void)state;
    char other[64];
    char second[64];
    snprintf(other, sizeof other, "redis://localhost:%u", (unsigned)server_port(servers[0]));
    snprintf(second, sizeof second, "redis://localhost:%u/2", (unsigned)server_port(servers[0]));
    pawl_lock *members[3] = {open_lock(open_client(server_url(servers[0])), 0),
        open_lock(open_client(server_url(servers[1])), 0), open_lock(open_client(other), 0)};
    pawl_lock *multi = NULL;
    ASSERT_STATUS(PAWL_INVALID, pawl_lock_open_multi(members, 3, NULL, &multi));
    assert_null(multi);
    assert_non_null(strstr(pawl_last_error(), "'m00' is among the members twice"));
    assert_non_null(strstr(pawl_last_error(), other));

    members[2] = open_lock(open_client(second), 0); /* another database has keys of its own */
    ASSERT_OK(pawl_lock_open_multi(members, 3, NULL, &multi));
    cleanup_add(end_lock, multi);
    ASSERT_OK(pawl_lock_acquire(multi, PAWL_TRY));
    assert_int_equal(key_count(0), 1);
    assert_int_equal(key_count(1), 1);
    ASSERT_OK(pawl_lock_release(multi));
}

/* The server stands still with the questions on its way: they are granted when it wakes up. */
static void frozen_server(void **state)
{
    (void)state;
    pawl_client *client = open_client(server_url(servers[0]));
    pawl_lock *multi = open_multi(&client, 1, MEMBERS);
    ASSERT_OK(pawl_lock_acquire(multi, PAWL_TRY));
    ASSERT_OK(pawl_lock_release(multi));
    server_pause(servers[0]);
    const int64_t start_ms = boottime_ms();
    ASSERT_STATUS(PAWL_UNAVAILABLE, pawl_lock_acquire(multi, PAWL_TRY));
    assert_true(boottime_ms() - start_ms < BOUND_MS);
    server_resume(servers[0]);
    WAIT_UNTIL(key_count(0) == 0, BOUND_MS);
    ASSERT_OK(pawl_lock_acquire(multi, BOUND_MS));
    assert_int_equal(key_count(0), MEMBERS);
    ASSERT_OK(pawl_lock_release(multi));
    assert_int_equal(key_count(0), 0);
}

/* One of two servers is gone: what the other one gave goes back. */
static void one_server_gone(void **state)
{
    (void)state;
    pawl_client *clients[2] = {
        open_client(server_url(servers[0])), open_client(server_url(servers[1]))};
    pawl_lock *multi = open_multi(clients, 2, MEMBERS);
    ASSERT_OK(pawl_lock_acquire(multi, PAWL_TRY));
    assert_int_equal(key_count(0), 2);
    assert_int_equal(key_count(1), 2);
    ASSERT_OK(pawl_lock_release(multi));
    server_kill(servers[1]);
    ASSERT_STATUS(PAWL_UNAVAILABLE, pawl_lock_acquire(multi, PAWL_TRY));
    assert_int_equal(pawl_lock_member_status(multi, 0), PAWL_OK);
    assert_int_equal(pawl_lock_member_status(multi, 1), PAWL_UNAVAILABLE);
    assert_int_equal(key_count(0), 0);
    ASSERT_STATUS(PAWL_UNAVAILABLE, pawl_lock_acquire(multi, 2 * TIMEOUT_MS));
    assert_int_equal(key_count(0), 0);
    server_restart(servers[1], false);
    ASSERT_OK(pawl_lock_acquire(multi, BOUND_MS)); /* through the rest of the outage */
    ASSERT_OK(pawl_lock_release(multi));
}

/* Held, and one server goes: the others are released all the same. */
static void release_with_one_server_gone(void **state)
{
    (void)state;
    pawl_client *clients[2] = {
        open_client(server_url(servers[0])), open_client(server_url(servers[1]))};
    pawl_lock *multi = open_multi(clients, 2, MEMBERS);
    ASSERT_OK(pawl_lock_acquire(multi, PAWL_TRY));
    server_kill(servers[1]);
    ASSERT_STATUS(PAWL_UNAVAILABLE, pawl_lock_release(multi));
    assert_int_equal(pawl_lock_hold_count(multi), 0);
    assert_int_equal(pawl_lock_member_status(multi, 2), PAWL_OK);
    assert_int_equal(pawl_lock_member_status(multi, 3), PAWL_UNAVAILABLE);
    assert_int_equal(key_count(0), 0);
    server_restart(servers[1], false);
}

/* The answer to any one of the questions of an acquire is lost, and the connection with it. */
static void lost_answers(void **state)
{
    (void)state;
    for (unsigned nth = 1; nth <= MEMBERS; nth++) {
        struct proxy *proxy = proxy_start_for(servers[0]);
        pawl_client *client = open_client(proxy_url(proxy));
        pawl_lock *multi = open_multi(&client, 1, MEMBERS);
        ASSERT_OK(pawl_lock_acquire(multi, PAWL_TRY));
        ASSERT_OK(pawl_lock_release(multi));
        proxy_cut_reply_of(proxy, "EVALSHA", nth, PROXY_RST);
        const pawl_status status = pawl_lock_acquire(multi, nth % 2 == 0 ? PAWL_TRY : BOUND_MS);
        if (status == PAWL_OK) {
            assert_int_equal(key_count(0), MEMBERS);
            ASSERT_OK(pawl_lock_release(multi));
        }
        WAIT_UNTIL(key_count(0) == 0, BOUND_MS);
        cleanup_drop(multi);
        ASSERT_OK(pawl_lock_close(multi));
        cleanup_drop(client);
        ASSERT_OK(pawl_client_close(client));
        proxy_stop(proxy);
    }
}

/* ===== Memory ===== */

static _Atomic int answers;
static _Atomic int last;

static void note(pawl_lock *lock, pawl_status status, void *arg)
{
    (void)lock;
    (void)arg;
    atomic_store(&last, (int)status);
    atomic_fetch_add(&answers, 1);
}

static bool use(pawl_lock *multi)
{
    pawl_status status = pawl_lock_acquire(multi, PAWL_TRY);
    if (status == PAWL_OK) {
        assert_int_equal(key_count(0), 2);
        status = pawl_lock_release(multi);
    }
    bool good = status == PAWL_OK;
    const int before = atomic_load(&answers);
    if (pawl_lock_acquire_async(multi, PAWL_TRY, note, NULL) != PAWL_OK) {
        return false;
    }
    WAIT_UNTIL(atomic_load(&answers) == before + 1, BOUND_MS);
    if (atomic_load(&last) == PAWL_OK) {
        good = pawl_lock_release(multi) == PAWL_OK && good;
    } else {
        good = false;
    }
    return good;
}

/* A whole multi-lock's life. Whatever fails, no key is left. */
static bool live(void *arg)
{
    pawl_client *client = arg;
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    options.owner = PAWL_OWNER_HANDLE;
    pawl_lock *members[2] = {NULL, NULL};
    pawl_lock *multi = NULL;
    bool good = pawl_lock_open(client, "m00", &options, &members[0]) == PAWL_OK &&
                pawl_lock_open(client, "m01", &options, &members[1]) == PAWL_OK &&
                pawl_lock_open_multi(members, 2, NULL, &multi) == PAWL_OK;
    good = good && use(multi);
    pawl_lock_close(multi);
    pawl_lock_close(members[0]);
    pawl_lock_close(members[1]);
    WAIT_UNTIL(key_count(0) == 0, BOUND_MS);
    return good;
}

static void any_allocation_may_fail(void **state)
{
    (void)state;
    pawl_client *client = open_client(server_url(servers[0]));
    assert_true(live(client));
    const struct allocation_sweep sweep = {.attempt = live, .arg = client, .nth_max = 300};
    assert_true(sweep_allocations(&sweep) > 5);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, begin, cleanup_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(one_way_for_all),
        CASE(one_way_for_several_servers),
        CASE(foreign_key),
        CASE(one_server_by_two_addresses),
        CASE(frozen_server),
        CASE(one_server_gone),
        CASE(release_with_one_server_gone),
        CASE(lost_answers),
        CASE(any_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, start_servers, NULL);
}
