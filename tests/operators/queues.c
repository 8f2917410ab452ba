/* SPDX-License-Identifier: Apache-2.0 */
/* Fair locks for people who look: pawl_client_look(), pawl_client_list() and pawl_client_queue() on
 * queues as Redisson and we write them.
 *
 * Method: a real server into which the test writes the keys of fair locks by hand. */
#include "operators/common.h"

#define UUID "5bd36e9c-7a0f-4f5e-9d6a-2a8f5a3c1b77"
#define QUEUE "redisson_lock_queue:{turns}"
#define TIMES "redisson_lock_timeout:{turns}"

static struct server *server;

static int begin(void **state)
{
    return flush_and_setup(server, state);
}

static long long server_ms(void)
{
    char *reply = server_command(server, "TIME");
    const long long seconds = strtoll(reply, NULL, 10);
    free(reply);
    return seconds * 1000;
}

struct told {
    unsigned count;
    unsigned stop_at; /* 0: never */
    pawl_waiter waiters[8];
};

static bool note(const pawl_waiter *waiter, void *arg)
{
    struct told *told = arg;
    assert_int_equal(waiter->size, sizeof *waiter);
    assert_true(told->count < 8);
    told->waiters[told->count++] = *waiter;
    return told->count != told->stop_at;
}

/* Three: one lives, one has died, one has left half of itself. */
static void fill_queue(void)
{
    free(server_command(server, "RPUSH " QUEUE " " UUID ":7 " UUID ":8 half"));
    free(server_command(server, "ZADD " TIMES " %lld " UUID ":7 %lld " UUID ":8",
        server_ms() + 300000, server_ms() - 5000));
}

static bool find_turns(const pawl_entry *entry, void *arg)
{
    pawl_entry *found = arg;
    if (strcmp(entry->name, "turns") == 0) {
        *found = *entry;
    }
    return true;
}

static void a_queue_makes_a_fair_lock(void **state)
{
    (void)state;
    pawl_client *client = open_client(server_url(server), NULL);
    pawl_entry entry = {.size = sizeof entry};
    fill_queue();
    ASSERT_OK(pawl_client_look(client, "turns", &entry)); /* free: it is somebody's turn */
    assert_int_equal(entry.kind, PAWL_FAIR);
    assert_false(entry.held);
    assert_int_equal(entry.waiters, 3);
    assert_string_equal(entry.holder, "");
    assert_int_equal(entry.remaining_ms, 0);

    free(server_command(server, "HSET turns " UUID ":3 2"));
    free(server_command(server, "PEXPIRE turns 30000"));
    ASSERT_OK(pawl_client_look(client, "turns", &entry));
    assert_int_equal(entry.kind, PAWL_FAIR);
    assert_true(entry.held);
    assert_int_equal(entry.waiters, 3);
    assert_int_equal(entry.hold_count, 2);
    assert_string_equal(entry.holder, UUID ":3");
    pawl_entry listed = {0};
    ASSERT_OK(pawl_client_list(client, NULL, find_turns, &listed));
    assert_int_equal(listed.kind, PAWL_FAIR);
    assert_int_equal(listed.waiters, 3);

    free(server_command(server, "DEL " QUEUE " " TIMES)); /* nothing is left to tell it by */
    ASSERT_OK(pawl_client_look(client, "turns", &entry));
    assert_int_equal(entry.kind, PAWL_MUTEX);
    assert_int_equal(entry.waiters, 0);
}

static void waiters_are_told_in_order(void **state)
{
    (void)state;
    pawl_client *client = open_client(server_url(server), NULL);
    struct told told = {0};
    ASSERT_OK(pawl_client_queue(client, "turns", note, &told));
    assert_int_equal(told.count, 0);
    fill_queue();
    ASSERT_OK(pawl_client_queue(client, "turns", note, &told));
    assert_int_equal(told.count, 3);
    static const char *const owners[] = {UUID ":7", UUID ":8", "half"};
    for (unsigned i = 0; i < 3; i++) {
        assert_string_equal(told.waiters[i].owner, owners[i]);
        assert_int_equal(told.waiters[i].position, i + 1);
    }
    assert_true(told.waiters[0].alive_ms > 200000 && told.waiters[0].alive_ms <= 300000);
    assert_int_equal(told.waiters[1].alive_ms, 0);
    assert_int_equal(told.waiters[2].alive_ms, 0);
    told = (struct told){.stop_at = 2};
    ASSERT_OK(pawl_client_queue(client, "turns", note, &told));
    assert_int_equal(told.count, 2);
}

static void what_is_no_queue_is_said(void **state)
{
    (void)state;
    pawl_client *client = open_client(server_url(server), NULL);
    pawl_entry entry = {.size = sizeof entry};
    struct told told = {0};
    free(server_command(server, "SET " QUEUE " data"));
    assert_int_not_equal(pawl_client_queue(client, "turns", note, &told), PAWL_OK);
    assert_int_equal(told.count, 0);
    ASSERT_OK(pawl_client_look(client, "turns", &entry)); /* the lock itself is none the worse */
    assert_int_equal(entry.kind, PAWL_MUTEX);
    ASSERT_STATUS(PAWL_INVALID, pawl_client_queue(client, "turns", NULL, NULL));
    ASSERT_STATUS(PAWL_INVALID, pawl_client_queue(client, "", note, &told));
    ASSERT_STATUS(PAWL_INVALID, pawl_client_queue(client, NULL, note, &told));
    ASSERT_STATUS(PAWL_INVALID, pawl_client_queue(NULL, "turns", note, &told));
}

int main(void)
{
#define CASE(test) cmocka_unit_test_setup_teardown(test, begin, cleanup_teardown)
    const struct CMUnitTest tests[] = {
        CASE(a_queue_makes_a_fair_lock),
        CASE(waiters_are_told_in_order),
        CASE(what_is_no_queue_is_said),
    };
    server = server_start(NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
