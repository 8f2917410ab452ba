/* SPDX-License-Identifier: Apache-2.0 */
/* A hold that stands on fewer servers than it has: whose client it is that is missing is told, once
 * for each outage, for nobody would know otherwise that the next server's failure ends it. */
#include "nodes.h"

#include "support/wall.h"

#include <stdatomic.h>
#include <stdio.h>

enum { LEASE_MS = 2400, HEAL_MS = LEASE_MS / 10 };

static struct nodes nodes;
static struct party ours;

static _Atomic int warnings;
static char warning[1000];

static void note_warning(pawl_log_level level, const char *message, void *arg)
{
    if (level == PAWL_LOG_WARNING && arg == nodes.servers[2] &&
        strstr(message, " stands on ") != NULL) {
        snprintf(warning, sizeof warning, "%s", message);
        atomic_fetch_add(&warnings, 1);
    }
}

static void open_with(const char *query, pawl_lock_options options)
{
    pawl_client_options loud = PAWL_CLIENT_OPTIONS_INIT;
    options.lease_ms = LEASE_MS;
    loud.log = note_warning;
    ours.count = 3;
    for (size_t i = 0; i < 3; i++) {
        char url[256];
        snprintf(url, sizeof url, "%s?durable=1%s",
            nodes.proxies[i] != NULL ? proxy_url(nodes.proxies[i]) : server_url(nodes.servers[i]),
            query);
        loud.log_arg = nodes.servers[i];
        assert_ok(pawl_client_open(url, &loud, &ours.clients[i]));
    }
    assert_ok(pawl_lock_open_quorum(ours.clients, 3, NAME, &options, &ours.lock));
}

static void open_all(const char *query)
{
    open_with(query, (pawl_lock_options)PAWL_LOCK_OPTIONS_INIT);
}

static int begin(void **state)
{
    const int status = cleanup_setup(state);
    atomic_store(&warnings, 0);
    return status;
}

static int end(void **state)
{
    party_close(&ours);
    return cleanup_teardown(state);
}

static void await_warning(int number, const char *why)
{
    WAIT_UNTIL(atomic_load(&warnings) >= number, 2 * LEASE_MS);
    assert_int_equal(atomic_load(&warnings), number);
    assert_non_null(strstr(warning, "the lock '" NAME "' stands on 2 of 3 servers: redis://"));
    assert_non_null(strstr(warning, why));
}

/* It is asked again and again meanwhile. */
static void it_is_told_once(void)
{
    const int before = atomic_load(&warnings);
    nap_ms(4 * HEAL_MS);
    assert_int_equal(atomic_load(&warnings), before);
}

static void a_name_that_is_something_else(void **state)
{
    (void)state;
    nodes_start(&nodes, 3, false);
    open_all("");
    free(server_command(nodes.servers[2], "SET " NAME " x"));
    assert_ok(pawl_lock_acquire(ours.lock, 2000));
    await_warning(1, "is not a lock of this kind");
    it_is_told_once();
    free(server_command(nodes.servers[2], "DEL " NAME));
    nodes_await_renewal(&nodes);
    free(server_command(nodes.servers[2], "SET " NAME " x"));
    await_warning(2, "is not a lock of this kind");
    assert_ok(pawl_lock_release(ours.lock));
}

static void a_hash_that_counts_as_held(void **state)
{
    (void)state;
    nodes_start(&nodes, 3, false);
    open_all("");
    free(server_command(nodes.servers[2], "HSET " NAME " field value"));
    assert_ok(pawl_lock_acquire(ours.lock, 2000));
    await_warning(1, "held elsewhere");
    it_is_told_once();
    assert_ok(pawl_lock_release(ours.lock));
}

static void one_that_nobody_has_met(void **state)
{
    (void)state;
    nodes_start(&nodes, 3, false);
    server_kill(nodes.servers[2]);
    open_all("&lazy=1");
    assert_ok(pawl_lock_acquire(ours.lock, 2000));
    await_warning(1, "Connection refused");
    it_is_told_once();
    assert_ok(pawl_lock_release(ours.lock));
}

static void one_that_dies(void **state)
{
    (void)state;
    nodes_start(&nodes, 3, false);
    open_all("");
    assert_ok(pawl_lock_acquire(ours.lock, 2000));
    nodes_await_renewal(&nodes);
    assert_int_equal(atomic_load(&warnings), 0);
    server_kill(nodes.servers[2]);
    await_warning(1, "it was last renewed there");
    nap_ms(LEASE_MS); /* and then its part is gone: the same outage */
    assert_int_equal(atomic_load(&warnings), 1);
    assert_ok(pawl_lock_release(ours.lock));
}

/* A fixed lease is not healed, so nothing but this look asks again. */
static void one_that_hangs_with_a_fixed_lease(void **state)
{
    (void)state;
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    options.renew = false;
    nodes_start(&nodes, 3, false);
    open_with("&timeout=500ms", options);
    server_pause(nodes.servers[2]);
    assert_ok(pawl_lock_acquire(ours.lock, 2000));
    await_warning(1, "answer");
    server_resume(nodes.servers[2]);
    assert_ok(pawl_lock_release(ours.lock));
}

/* The guard does not let it vote: it is there, and not even asked. */
static void one_whose_clock_has_jumped(void **state)
{
    (void)state;
    const struct wall wall = wall_make();
    nodes_start(&nodes, 2, false);
    nodes.servers[nodes.count++] = wall_start_server(&wall, NULL);
    free(server_command(nodes.servers[2], "SET pawl_seen:durable 1000"));
    open_all("");
    assert_ok(pawl_lock_acquire(ours.lock, 2000));
    assert_ok(pawl_lock_release(ours.lock));
    atomic_fetch_add(wall.offset_ns, INT64_C(60000000000));
    assert_ok(pawl_lock_acquire(ours.lock, 2000));
    await_warning(1, "has a clock that jumped by +60.0 s and may have ended leases early");
    assert_null(strstr(warning, "wait for it"));
    it_is_told_once();
    assert_ok(pawl_lock_release(ours.lock));
}

static void one_that_has_restarted(void **state)
{
    (void)state;
    nodes_start(&nodes, 3, false);
    open_all("");
    assert_ok(pawl_lock_acquire(ours.lock, 2000));
    server_restart(nodes.servers[2], false); /* sooner than a renewal is missed */
    await_warning(1, "is durable, but its data is new");
    it_is_told_once();
    assert_ok(pawl_lock_release(ours.lock));
}

static void one_that_is_slow_is_none(void **state)
{
    (void)state;
    nodes_start(&nodes, 3, true);
    proxy_set_delay(nodes.proxies[2], PROXY_TO_CLIENT, 150, 0); /* later than the first look */
    open_all("");
    assert_ok(pawl_lock_acquire(ours.lock, 2000));
    nap_ms(LEASE_MS);
    assert_int_equal(atomic_load(&warnings), 0);
    assert_ok(pawl_lock_release(ours.lock));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_name_that_is_something_else),
        TEST(a_hash_that_counts_as_held),
        TEST(one_that_nobody_has_met),
        TEST(one_that_dies),
        TEST(one_that_hangs_with_a_fixed_lease),
        TEST(one_whose_clock_has_jumped),
        TEST(one_that_has_restarted),
        TEST(one_that_is_slow_is_none),
    };
    return cmocka_run_group_tests_name("quorum fewer", tests, NULL, NULL);
}
