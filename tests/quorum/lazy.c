/* SPDX-License-Identifier: Apache-2.0 */
/* Quorums of lazy clients: who a server is, and how long it has been there, is found out by the
 * first acquire and not when the lock is opened. */
#include "nodes.h"

#include <stdatomic.h>
#include <stdio.h>

enum { MAX_LEASE_MS = 3000 };

static struct nodes nodes;
static struct party ours;

static _Atomic int warnings; /* of twins */
static char warning[400];

static void note_warning(pawl_log_level level, const char *message, void *arg)
{
    (void)arg;
    if (level == PAWL_LOG_WARNING && strstr(message, "the same server") != NULL) {
        snprintf(warning, sizeof warning, "%s", message);
        atomic_fetch_add(&warnings, 1);
    }
}

static int end(void **state)
{
    party_close(&ours);
    return cleanup_teardown(state);
}

/* A busy machine is given time: what is asked of a round is not how short it is. */
static pawl_lock_options guarded(pawl_guard guard)
{
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    options.lease_ms = MAX_LEASE_MS;
    options.max_lease_ms = MAX_LEASE_MS;
    options.node_timeout_ms = 2000;
    options.restart_guard = guard;
    return options;
}

/* The first server twice, by its other database, and the second one. */
static void open_twins(pawl_guard guard)
{
    static const char *const queries[] = {
        "?durable=1&lazy=1", "/2?durable=1&lazy=1", "?durable=1&lazy=1"};
    pawl_client_options loud = PAWL_CLIENT_OPTIONS_INIT;
    const pawl_lock_options options = guarded(guard);
    loud.log = note_warning;
    atomic_store(&warnings, 0);
    ours.count = 3;
    for (int i = 0; i < 3; i++) {
        char url[256];
        snprintf(url, sizeof url, "%s%s", server_url(nodes.servers[i / 2]), queries[i]);
        assert_ok(pawl_client_open(url, &loud, &ours.clients[i]));
    }
    assert_ok(pawl_lock_open_quorum(ours.clients, 3, NAME, &options, &ours.lock));
}

static bool is_left_at_first(void)
{
    struct server *server = nodes.servers[0];
    free(server_command(server, "SELECT 2"));
    const bool second = server_integer(server, "EXISTS " NAME) == 1;
    free(server_command(server, "SELECT 0"));
    return server_integer(server, "EXISTS " NAME) == 1 || second;
}

static void one_server_has_one_vote(pawl_guard guard)
{
    nodes_start(&nodes, 2, false);
    server_kill(nodes.servers[1]);
    open_twins(guard);
    for (int i = 0; i < 3; i++) {
        assert_status(pawl_lock_acquire(ours.lock, i == 2 ? 500 : PAWL_TRY), PAWL_INVALID);
        assert_non_null(strstr(pawl_last_error(), "is the same server as another one"));
        assert_non_null(strstr(pawl_last_error(), server_url(nodes.servers[0])));
    }
    WAIT_UNTIL(!is_left_at_first(), 2000);
    WAIT_UNTIL(atomic_load(&warnings) >= 1, 2000);
    assert_non_null(strstr(warning, "does not vote"));
    assert_int_equal(atomic_load(&warnings), 1);
}

static void one_server_has_one_vote_with_the_guard(void **state)
{
    (void)state;
    one_server_has_one_vote(PAWL_GUARD_ENFORCE);
}

static void one_server_has_one_vote_with_a_warning(void **state)
{
    (void)state;
    one_server_has_one_vote(PAWL_GUARD_WARN);
}

static void one_server_has_one_vote_without_the_guard(void **state)
{
    (void)state;
    one_server_has_one_vote(PAWL_GUARD_OFF);
}

/* By the very same URL, so that what one of the names is granted makes the other one busy. */
static void a_twin_is_named_to_the_first_try(void **state)
{
    (void)state;
    const pawl_lock_options options = guarded(PAWL_GUARD_ENFORCE);
    nodes_start(&nodes, 1, false);
    for (size_t count = 2; count <= 3; count++) {
        ours.count = count;
        for (size_t i = 0; i < count; i++) {
            char url[256];
            snprintf(url, sizeof url, "%s?durable=1&lazy=1", server_url(nodes.servers[0]));
            assert_ok(pawl_client_open(url, NULL, &ours.clients[i]));
        }
        assert_ok(pawl_lock_open_quorum(ours.clients, count, NAME, &options, &ours.lock));
        assert_status(pawl_lock_acquire(ours.lock, PAWL_TRY), PAWL_INVALID);
        assert_non_null(strstr(pawl_last_error(), "is the same server as another one"));
        party_close(&ours);
    }
}

/* The others are a majority without it. */
static void a_twin_is_named_also_if_it_does_no_harm(void **state)
{
    (void)state;
    nodes_start(&nodes, 2, false);
    open_twins(PAWL_GUARD_OFF);
    assert_ok(pawl_lock_acquire(ours.lock, PAWL_TRY));
    assert_int_equal(server_integer(nodes.servers[1], "EXISTS " NAME), 1);
    WAIT_UNTIL(atomic_load(&warnings) == 1, 2000);
    assert_ok(pawl_lock_release(ours.lock));
    assert_ok(pawl_lock_acquire(ours.lock, PAWL_TRY));
    server_kill(nodes.servers[1]);
    WAIT_UNTIL(pawl_lock_token(ours.lock) == 0, 3 * MAX_LEASE_MS); /* by one server alone */
    assert_status(pawl_lock_release(ours.lock), PAWL_LOST);
}

/* Servers that have been there for long are looked at before the first try is answered. */
static void a_first_try_looks_first(void **state)
{
    (void)state;
    const pawl_lock_options options = guarded(PAWL_GUARD_ENFORCE);
    nodes_start(&nodes, 3, false);
    for (int i = 0; i < 5; i++) {
        party_open(&ours, &nodes, "?durable=1&lazy=1", &options);
        assert_ok(pawl_lock_acquire(ours.lock, PAWL_TRY));
        assert_ok(pawl_lock_release(ours.lock));
        party_close(&ours);
    }
    server_kill(nodes.servers[1]); /* nor does it wait for one that is away */
    party_open(&ours, &nodes, "?durable=1&lazy=1", &options);
    assert_ok(pawl_lock_acquire(ours.lock, PAWL_TRY));
    assert_ok(pawl_lock_release(ours.lock));
}

static void a_first_try_at_new_servers_says_how_long(void **state)
{
    (void)state;
    const pawl_lock_options options = guarded(PAWL_GUARD_ENFORCE);
    nodes_start(&nodes, 3, false);
    party_open(&ours, &nodes, "?lazy=1", &options);
    assert_status(pawl_lock_acquire(ours.lock, PAWL_TRY), PAWL_REFUSED);
    assert_non_null(strstr(pawl_last_error(), "does not vote for"));
    assert_non_null(strstr(pawl_last_error(), "pawl run -w"));
    WAIT_UNTIL(nodes_holding(&nodes) == 0, 2000);
    assert_ok(pawl_lock_acquire(ours.lock, 10000)); /* that was true */
    assert_ok(pawl_lock_release(ours.lock));
}

static void nobody_is_called_a_replica_who_is_none(void **state)
{
    (void)state;
    pawl_lock_options options = guarded(PAWL_GUARD_ENFORCE);
    options.node_timeout_ms = 300;
    nodes_start(&nodes, 3, false);
    server_pause(nodes.servers[1]);
    server_pause(nodes.servers[2]);
    party_open(&ours, &nodes, "?durable=1&lazy=1&timeout=600ms", &options);
    for (int i = 0; i < 3; i++) {
        assert_status(pawl_lock_acquire(ours.lock, PAWL_TRY), PAWL_UNAVAILABLE);
        assert_null(strstr(pawl_last_error(), "replica"));
    }
    assert_non_null(strstr(pawl_last_error(), "can be checked when a majority has"));
    server_resume(nodes.servers[1]);
    server_resume(nodes.servers[2]);
    assert_ok(pawl_lock_acquire(ours.lock, 5000));
    assert_ok(pawl_lock_release(ours.lock));
}

/* Have its client meet the server; the quorum has not. */
static void warm_up(pawl_client *client)
{
    pawl_lock *lock = NULL;
    assert_ok(pawl_lock_open(client, "another-lock", NULL, &lock));
    assert_ok(pawl_lock_acquire(lock, PAWL_TRY));
    assert_ok(pawl_lock_close(lock));
}

/* A and B grant it, with different tokens; B does not hear that it has to go up to A's. C, which
 * was met last, has granted it with a small one, and is found fit to vote meanwhile: that is no
 * answer to a question that it was not asked. */
static void who_is_looked_at_has_not_taken_the_token(void **state)
{
    (void)state;
    const pawl_lock_options options = guarded(PAWL_GUARD_ENFORCE);
    nodes_start(&nodes, 3, false);
    nodes.proxies[1] = proxy_start_for(nodes.servers[1]);
    free(server_command(nodes.servers[0], "SET redisson_lock_token:{" NAME "} 8000000000000000"));
    party_connect(&ours, &nodes, "?durable=1&lazy=1");
    warm_up(ours.clients[0]);
    warm_up(ours.clients[1]);
    assert_ok(pawl_lock_open_quorum(ours.clients, 3, NAME, &options, &ours.lock));
    warm_up(ours.clients[2]);
    proxy_set_delay(nodes.proxies[1], PROXY_TO_CLIENT, 50, 0); /* so C is pending by then */
    proxy_hold_from(nodes.proxies[1], "8000000000000001");
    assert_status(pawl_lock_acquire(ours.lock, PAWL_TRY), PAWL_UNAVAILABLE);
    assert_non_null(strstr(pawl_last_error(), "could not be written back"));
    proxy_release(nodes.proxies[1], PROXY_TO_SERVER);
    proxy_set_delay(nodes.proxies[1], PROXY_TO_CLIENT, 0, 0);
    assert_ok(pawl_lock_acquire(ours.lock, 10000));
    assert_true(pawl_lock_token(ours.lock) > UINT64_C(8000000000000000));
    assert_ok(pawl_lock_release(ours.lock));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, cleanup_setup, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(one_server_has_one_vote_with_the_guard),
        TEST(one_server_has_one_vote_with_a_warning),
        TEST(one_server_has_one_vote_without_the_guard),
        TEST(a_twin_is_named_to_the_first_try),
        TEST(a_twin_is_named_also_if_it_does_no_harm),
        TEST(a_first_try_looks_first),
        TEST(a_first_try_at_new_servers_says_how_long),
        TEST(nobody_is_called_a_replica_who_is_none),
        TEST(who_is_looked_at_has_not_taken_the_token),
    };
    return cmocka_run_group_tests_name("quorum lazy", tests, NULL, NULL);
}
