/* SPDX-License-Identifier: Apache-2.0 */
/* What an acquire of a quorum lock says that nobody grants: whose fault it is decides whether to
 * wait for it, and the sentence says which server said what, to the end. */
#include "nodes.h"

#include <stdio.h>

static struct nodes nodes;
static struct party ours;
static struct party theirs;

static int begin(void **state)
{
    nodes.count = 3;
    nodes_reset(&nodes);
    return cleanup_setup(state);
}

static int end(void **state)
{
    nodes_resume(&nodes);
    party_close(&ours);
    party_close(&theirs);
    return cleanup_teardown(state);
}

/* Rounds are given time: on a busy machine the answers may be late. */
static void open_party(struct party *party)
{
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    options.node_timeout_ms = 1000;
    party_open(party, &nodes, NULL, &options);
}

/* ===== The name is something else ===== */

static void occupy(size_t from, size_t end, const char *command)
{
    for (size_t i = from; i < end; i++) {
        free(server_command(nodes.servers[i], "%s", command));
    }
}

/* At once, however long the caller would wait, and as one server says it. */
static void assert_refused(const char *begins, size_t first, size_t second)
{
    static const int64_t waits_ms[] = {PAWL_TRY, 20000, PAWL_FOREVER};
    for (size_t i = 0; i < sizeof waits_ms / sizeof waits_ms[0]; i++) {
        const int64_t start_ms = boottime_ms();
        assert_status(pawl_lock_acquire(ours.lock, waits_ms[i]), PAWL_REFUSED);
        assert_true(boottime_ms() - start_ms < 10000);
        assert_ptr_equal(strstr(pawl_last_error(), begins), pawl_last_error());
        assert_non_null(strstr(pawl_last_error(), server_url(nodes.servers[first])));
        assert_non_null(strstr(pawl_last_error(), server_url(nodes.servers[second])));
        assert_non_null(strstr(pawl_last_error(), "2 of 3 servers are needed"));
        assert_null(strstr(pawl_last_error(), "..."));
    }
}

static void a_list_at_a_majority(void **state)
{
    (void)state;
    open_party(&ours);
    occupy(1, 3, "RPUSH " NAME " x");
    assert_refused("lock '" NAME "': the key exists and is not a lock of this kind", 1, 2);
    WAIT_UNTIL(server_integer(nodes.servers[0], "EXISTS " NAME) == 0, 2000);
    assert_int_equal(server_integer(nodes.servers[1], "LLEN " NAME), 1);
}

static void operators_hear_of_a_list_too(void **state)
{
    (void)state;
    pawl_lock_info info = {.size = sizeof info};
    open_party(&ours);
    occupy(1, 3, "RPUSH " NAME " x");
    assert_status(pawl_lock_inspect(ours.lock, &info), PAWL_REFUSED);
    assert_non_null(strstr(pawl_last_error(), "is not a lock of this kind"));
    assert_status(pawl_lock_break(ours.lock), PAWL_REFUSED);
    assert_non_null(strstr(pawl_last_error(), server_url(nodes.servers[2])));
    assert_int_equal(server_integer(nodes.servers[1], "LLEN " NAME), 1);
}

static void a_number_at_a_majority(void **state)
{
    (void)state;
    open_party(&ours);
    occupy(0, 2, "SET " NAME " 3");
    assert_refused("lock '" NAME "': the key exists and is not a lock of this kind", 0, 1);
}

static void a_token_counter_that_is_none(void **state)
{
    (void)state;
    open_party(&ours);
    occupy(0, 2, "SADD redisson_lock_token:{" NAME "} x");
    assert_status(pawl_lock_acquire(ours.lock, 20000), PAWL_REFUSED);
    assert_non_null(strstr(pawl_last_error(), "which is to count its tokens, is something else"));
    assert_non_null(strstr(pawl_last_error(), server_url(nodes.servers[1])));
}

/* The others are a majority. */
static void a_minority_does_no_harm(void **state)
{
    (void)state;
    open_party(&ours);
    occupy(2, 3, "RPUSH " NAME " x");
    assert_ok(pawl_lock_acquire(ours.lock, PAWL_TRY));
    assert_ok(pawl_lock_release(ours.lock));
}

/* If the third comes back, they are one: that is waited for. */
static void one_and_a_server_that_is_away(void **state)
{
    (void)state;
    open_party(&ours);
    occupy(0, 1, "RPUSH " NAME " x");
    server_kill(nodes.servers[1]);
    assert_status(pawl_lock_acquire(ours.lock, 300), PAWL_UNAVAILABLE);
    assert_non_null(strstr(pawl_last_error(), "choose another name (WRONGTYPE"));
    server_restart(nodes.servers[1], false);
    free(server_command(nodes.servers[1], "SET pawl_seen:durable 1000"));
    assert_ok(pawl_lock_acquire(ours.lock, 20000));
    assert_ok(pawl_lock_release(ours.lock));
}

/* A lazy client is told so by its first question. */
static void a_majority_that_does_not_let_us_in(void **state)
{
    (void)state;
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    options.node_timeout_ms = 1000;
    occupy(0, 2, "CONFIG SET requirepass secret");
    party_open(&ours, &nodes, "?durable=1&lazy=1", &options);
    assert_status(pawl_lock_acquire(ours.lock, 20000), PAWL_DENIED);
    assert_non_null(strstr(pawl_last_error(), "password"));
    assert_non_null(strstr(pawl_last_error(), "refused by "));
    assert_non_null(strstr(pawl_last_error(), server_url(nodes.servers[1])));
    occupy(0, 1, "CONFIG SET requirepass ''");
    assert_ok(pawl_lock_acquire(ours.lock, 20000));
    assert_ok(pawl_lock_release(ours.lock));
    occupy(1, 2, "CONFIG SET requirepass ''");
}

/* It passes, however many refuse. */
static void servers_out_of_memory_are_waited_for(void **state)
{
    (void)state;
    open_party(&ours);
    occupy(0, 3, "CONFIG SET maxmemory 1");
    assert_status(pawl_lock_acquire(ours.lock, 300), PAWL_UNAVAILABLE);
    assert_null(strstr(pawl_last_error(), "..."));
    occupy(0, 3, "CONFIG SET maxmemory 0");
    assert_ok(pawl_lock_acquire(ours.lock, 20000));
    assert_ok(pawl_lock_release(ours.lock));
}

/* ===== Held elsewhere ===== */

/* Whoever answers last: it is for the holder that nobody gets it, and not for the server. */
static void busy_while_one_is_away(void **state)
{
    (void)state;
    open_party(&theirs);
    open_party(&ours);
    assert_ok(pawl_lock_acquire(theirs.lock, PAWL_TRY));
    WAIT_UNTIL(nodes_holding(&nodes) == 3, 2000);
    server_kill(nodes.servers[0]);
    for (int i = 0; i < 20; i++) {
        assert_status(pawl_lock_acquire(ours.lock, PAWL_TRY), PAWL_BUSY);
    }
}

static void busy_at_two_of_two(void **state)
{
    (void)state;
    nodes.count = 2;
    open_party(&theirs);
    open_party(&ours);
    assert_ok(pawl_lock_acquire(theirs.lock, PAWL_TRY));
    for (int i = 0; i < 20; i++) {
        assert_status(pawl_lock_acquire(ours.lock, PAWL_TRY), PAWL_BUSY);
    }
    server_kill(nodes.servers[1]);
    assert_status(pawl_lock_acquire(ours.lock, PAWL_TRY), PAWL_UNAVAILABLE);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_list_at_a_majority),
        TEST(operators_hear_of_a_list_too),
        TEST(a_number_at_a_majority),
        TEST(a_token_counter_that_is_none),
        TEST(a_minority_does_no_harm),
        TEST(one_and_a_server_that_is_away),
        TEST(a_majority_that_does_not_let_us_in),
        TEST(servers_out_of_memory_are_waited_for),
        TEST(busy_while_one_is_away),
        TEST(busy_at_two_of_two),
    };
    nodes_start(&nodes, 3, false);
    return cmocka_run_group_tests_name("quorum answers", tests, NULL, NULL);
}
