/* SPDX-License-Identifier: Apache-2.0 */
/* The fair lock: one queue for both languages, in the order of arrival, and nobody who has left or
 * died stays in it. */
#include "common.h"

#define QUEUE "redisson_lock_queue:{%s}"
#define TIMEOUTS "redisson_lock_timeout:{%s}"

static pawl_lock *open_fair(pawl_client *client, const char *name)
{
    return own_kind(client, name, PAWL_FAIR, LONG_MS);
}

/* Wait until so many stand in the queue and the last of them has gone to sleep. */
static void await_queue(const char *name, int count, int64_t asked)
{
    char channel[600];
    WAIT_UNTIL(server_integer(server, "LLEN " QUEUE, name) == count, PATIENCE_MS);
    assert_int_equal(server_integer(server, "ZCARD " TIMEOUTS, name), count);
    char *last = server_command(server, "LINDEX " QUEUE " -1", name);
    snprintf(channel, sizeof channel, "redisson_lock__channel:{%s}:%s", name, last);
    free(last);
    await_waiters(channel, 1, asked);
}

static void assert_nobody_queues(const char *name)
{
    assert_int_equal(server_integer(server, "EXISTS " QUEUE, name), 0);
    assert_int_equal(server_integer(server, "EXISTS " TIMEOUTS, name), 0);
}

static void each_wakes_the_other(void **state)
{
    (void)state;
    int64_t took_ms = PATIENCE_MS;
    for (int round = 0; round < 5 && took_ms >= HEARD_MS; round++) {
        pawl_client *client = open_client(server_url(server), NULL);
        pawl_lock *lock = open_fair(client, "fair");
        ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
        PEER_SAYS("false", java, "T1", "fair fair tryLock");
        int64_t asked = scripts_run();
        const unsigned waiting = peer_ask(java, "T1", "fair fair lock %d", LONG_MS);
        await_queue("fair", 1, asked);
        ASSERT_OK(pawl_lock_release(lock));
        PEER_ANSWERS("ok", java, waiting, WOKEN_MS);

        ASSERT_STATUS(PAWL_BUSY, pawl_lock_acquire(lock, PAWL_TRY));
        asked = scripts_run();
        struct caller *caller = caller_start(lock, LONG_MS);
        await_queue("fair", 1, asked);
        PEER_SAYS("ok", java, "T1", "fair fair unlock");
        ASSERT_OK(caller_end(caller, &took_ms));
        ASSERT_OK(close_client(client));
        assert_nobody_queues("fair");
    }
    assert_true(took_ms < HEARD_MS);
}

static void the_queue_has_the_same_key_whatever_the_name(void **state)
{
    (void)state;
    static const char *const names[][2] = {{"{tag}name", "redisson_lock_queue:{tag}name"},
        {"na{me", "redisson_lock_queue:na{me"}, {"a}b", "redisson_lock_queue:{a}b}"}};
    pawl_client *client = open_client(server_url(server), NULL);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        pawl_lock *first = open_fair(client, names[i][0]);
        pawl_lock *second = open_fair(client, names[i][0]);
        ASSERT_OK(pawl_lock_acquire(first, PAWL_TRY));
        const unsigned waiting = peer_ask(java, "T1", "fair %s lock %d", names[i][0], LONG_MS);
        WAIT_UNTIL(server_integer(server, "LLEN %s", names[i][1]) == 1, PATIENCE_MS);
        struct caller *caller = caller_start(second, LONG_MS);
        WAIT_UNTIL(server_integer(server, "LLEN %s", names[i][1]) == 2, PATIENCE_MS);
        ASSERT_OK(pawl_lock_release(first));
        PEER_ANSWERS("ok", java, waiting, WOKEN_MS);
        PEER_SAYS("ok", java, "T1", "fair %s unlock", names[i][0]);
        ASSERT_OK(caller_end(caller, NULL));
        ASSERT_OK(pawl_lock_release(second));
    }
}

/* Java, C, Java, C come one after another, each in a process or thread of its own, and go in that
 * order. Two of ours are of one client, which must not let them overtake. */
static void turns_are_in_the_order_of_arrival(void **state)
{
    (void)state;
    enum { PAIRS = 2 };
    pawl_client *client = open_client(server_url(server), NULL);
    pawl_lock *first = open_fair(client, "order");
    ASSERT_OK(pawl_lock_acquire(first, PAWL_TRY));
    pawl_lock *locks[PAIRS];
    struct caller *callers[PAIRS];
    unsigned asked[PAIRS];
    static const char *const threads[PAIRS] = {"T1", "T2"};
    for (int i = 0; i < PAIRS; i++) {
        int64_t before = scripts_run();
        asked[i] = peer_ask(java, threads[i], "fair order lock %d", LONG_MS);
        await_queue("order", 2 * i + 1, before);
        before = scripts_run();
        locks[i] = open_fair(client, "order");
        callers[i] = caller_start(locks[i], LONG_MS);
        await_queue("order", 2 * i + 2, before);
    }
    ASSERT_OK(pawl_lock_release(first));
    for (int i = 0; i < PAIRS; i++) {
        PEER_ANSWERS("ok", java, asked[i], WOKEN_MS);
        assert_true(caller_is_waiting(callers[i]));
        PEER_SAYS("ok", java, threads[i], "fair order unlock");
        ASSERT_OK(caller_end(callers[i], NULL));
        assert_true(i + 1 == PAIRS || peer_is_waiting(java, asked[i + 1]));
        ASSERT_OK(pawl_lock_release(locks[i]));
    }
    assert_nobody_queues("order");
}

/* Whoever gives up leaves the queue, and those behind lose nothing by it. */
static void who_gives_up_leaves_the_queue(void **state)
{
    (void)state;
    pawl_client *client = open_client(server_url(server), NULL);
    pawl_lock *first = open_fair(client, "leave");
    pawl_lock *second = open_fair(client, "leave");
    ASSERT_OK(pawl_lock_acquire(first, PAWL_TRY));
    int64_t asked = scripts_run();
    struct caller *caller = caller_start(second, 1000);
    await_queue("leave", 1, asked);
    const unsigned leaving = peer_ask(java, "T1", "fair leave tryLock 1000 %d", LONG_MS);
    WAIT_UNTIL(server_integer(server, "LLEN " QUEUE, "leave") == 2, PATIENCE_MS);
    asked = scripts_run();
    const unsigned staying = peer_ask(java, "T2", "fair leave lock %d", LONG_MS);
    ASSERT_STATUS(PAWL_BUSY, caller_end(caller, NULL));
    PEER_ANSWERS("false", java, leaving, PATIENCE_MS);
    await_queue("leave", 1, asked);
    ASSERT_OK(pawl_lock_release(first));
    PEER_ANSWERS("ok", java, staying, WOKEN_MS);
    PEER_SAYS("ok", java, "T2", "fair leave unlock");
    assert_nobody_queues("leave");
}

/* A process of ours is killed at the head of the queue. Its place ends with its time, and Java, who
 * stands behind, comes next. */
static void a_dead_waiter_of_ours_is_passed_over(void **state)
{
    (void)state;
    enum { SHORT_MS = 1500 };
    pawl_client *client = open_client(server_url(server), NULL);
    pawl_lock *first = own_kind(client, "dead", PAWL_FAIR, SHORT_MS);
    ASSERT_OK(pawl_lock_acquire(first, PAWL_TRY));
    struct child *waiter = start_victim("dead", PAWL_FAIR, SHORT_MS, SHORT_MS);
    WAIT_UNTIL(server_integer(server, "LLEN " QUEUE, "dead") == 1, PATIENCE_MS);
    const unsigned waiting = peer_ask(java, "T1", "fair dead lock %d", LONG_MS);
    WAIT_UNTIL(server_integer(server, "LLEN " QUEUE, "dead") == 2, PATIENCE_MS);
    kill_victim(waiter);
    ASSERT_OK(pawl_lock_release(first));
    PEER_ANSWERS("ok", java, waiting, PATIENCE_MS);
    PEER_SAYS("ok", java, "T1", "fair dead unlock");
    assert_nobody_queues("dead");
}

/* The same with a Java process that is killed, and one of ours behind it. */
static void a_dead_waiter_of_java_is_passed_over(void **state)
{
    (void)state;
    enum { SHORT_MS = 1500 };
    pawl_client *client = open_client(server_url(server), NULL);
    pawl_lock *first = own_kind(client, "dead-j", PAWL_FAIR, SHORT_MS);
    ASSERT_OK(pawl_lock_acquire(first, PAWL_TRY));
    struct peer *victim = peer_start(server_url(server), SHORT_MS);
    peer_ask(victim, "T1", "fair dead-j tryLock %d %d", SHORT_MS, LONG_MS);
    WAIT_UNTIL(server_integer(server, "LLEN " QUEUE, "dead-j") == 1, PATIENCE_MS);
    peer_kill(victim);
    pawl_lock *second = own_kind(client, "dead-j", PAWL_FAIR, SHORT_MS);
    struct caller *caller = caller_start(second, LONG_MS);
    WAIT_UNTIL(server_integer(server, "LLEN " QUEUE, "dead-j") == 2, PATIENCE_MS);
    ASSERT_OK(pawl_lock_release(first));
    ASSERT_OK(caller_end(caller, NULL));
    ASSERT_OK(pawl_lock_release(second));
    assert_nobody_queues("dead-j");
}

/* For how long the first in the queue still counts as alive. */
static int64_t first_left_ms(const char *name)
{
    char *first = server_command(server, "LINDEX " QUEUE " 0", name);
    char *time = server_command(server, "TIME");
    const int64_t left = server_integer(server, "ZSCORE " TIMEOUTS " %s", name, first) -
                         strtoll(time, NULL, 10) * 1000;
    free(first);
    free(time);
    return left;
}

/* Java waits for longer than the lease that it saw and a waiter of ours together live, gets the
 * lock and gives it back at once. What it takes off the times of the others then throws nobody out.
 */
static void a_long_wait_costs_no_place(void **state)
{
    (void)state;
    enum { SHORT_MS = 1500, WAITERS = 3, JAVA_WAIT_MS = 300000, OURS_MS = 5000 };
    pawl_lock *first = own_kind(open_client(server_url(server), NULL), "long", PAWL_FAIR, SHORT_MS);
    ASSERT_OK(pawl_lock_acquire(first, PAWL_TRY));
    const unsigned waiting = peer_ask(java, "T1", "fair long lock %d", LONG_MS);
    WAIT_UNTIL(server_integer(server, "LLEN " QUEUE, "long") == 1, PATIENCE_MS);
    pawl_lock *locks[WAITERS];
    struct caller *callers[WAITERS];
    for (int i = 0; i < WAITERS; i++) {
        const int64_t before = scripts_run();
        locks[i] = open_fair(open_client(server_url(server), NULL), "long");
        callers[i] = caller_start(locks[i], LONG_MS);
        await_queue("long", i + 2, before);
    }
    WAIT_UNTIL(first_left_ms("long") < JAVA_WAIT_MS - OURS_MS - 1000, 2 * PATIENCE_MS);
    ASSERT_OK(pawl_lock_release(first));
    PEER_ANSWERS("ok", java, waiting, WOKEN_MS);
    PEER_SAYS("ok", java, "T1", "fair long unlock");
    for (int i = 0; i < WAITERS; i++) {
        ASSERT_OK(caller_end(callers[i], NULL));
        assert_int_equal(server_integer(server, "LLEN " QUEUE, "long"), WAITERS - 1 - i);
        ASSERT_OK(pawl_lock_release(locks[i]));
    }
    assert_nobody_queues("long");
}

/* One of ours is killed between two of Java, the second of which sleeps for as long as ours seemed
 * to live, with Redisson 3.31 for five minutes. Another one of ours sees that it has died, and
 * tells who comes next. */
static void a_dead_waiter_between_two_of_java(void **state)
{
    (void)state;
    pawl_client *client = open_client(server_url(server), NULL);
    pawl_lock *first = open_fair(client, "between");
    ASSERT_OK(pawl_lock_acquire(first, PAWL_TRY));
    const unsigned waiting = peer_ask(java, "T1", "fair between lock %d", LONG_MS);
    WAIT_UNTIL(server_integer(server, "LLEN " QUEUE, "between") == 1, PATIENCE_MS);
    struct child *victim = start_victim("between", PAWL_FAIR, LONG_MS, LONG_MS);
    WAIT_UNTIL(server_integer(server, "LLEN " QUEUE, "between") == 2, PATIENCE_MS);
    const int64_t asked = scripts_run();
    const unsigned behind = peer_ask(java, "T2", "fair between lock %d", LONG_MS);
    await_queue("between", 3, asked);
    pawl_lock *last = open_fair(client, "between");
    struct caller *caller = caller_start(last, LONG_MS);
    WAIT_UNTIL(server_integer(server, "LLEN " QUEUE, "between") == 4, PATIENCE_MS);
    kill_victim(victim);
    ASSERT_OK(pawl_lock_release(first));
    PEER_ANSWERS("ok", java, waiting, WOKEN_MS);
    PEER_SAYS("ok", java, "T1", "fair between unlock");
    PEER_ANSWERS("ok", java, behind, PATIENCE_MS);
    assert_true(caller_is_waiting(caller));
    PEER_SAYS("ok", java, "T2", "fair between unlock");
    ASSERT_OK(caller_end(caller, NULL));
    ASSERT_OK(pawl_lock_release(last));
    assert_nobody_queues("between");
}

/* Of one name they exclude each other, whatever becomes of the order. */
static void fair_and_ordinary_locks_exclude_each_other(void **state)
{
    (void)state;
    pawl_lock *fair = open_fair(open_client(server_url(server), NULL), "either");
    PEER_SAYS("ok", java, "T1", "lock either lock %d", LONG_MS);
    ASSERT_STATUS(PAWL_BUSY, pawl_lock_acquire(fair, PAWL_TRY));
    PEER_SAYS("ok", java, "T1", "lock either unlock");
    ASSERT_OK(pawl_lock_acquire(fair, PAWL_TRY));
    PEER_SAYS("false", java, "T1", "lock either tryLock");
}

static void no_update_is_lost_in_the_queue(void **state)
{
    (void)state;
    count_together("fair", PAWL_FAIR, 2, 50);
    assert_nobody_queues("count");
}

int run_fair_cases(void)
{
    const struct CMUnitTest tests[] = {
        INTEROP_CASE(each_wakes_the_other),
        INTEROP_CASE(the_queue_has_the_same_key_whatever_the_name),
        INTEROP_CASE(turns_are_in_the_order_of_arrival),
        INTEROP_CASE(who_gives_up_leaves_the_queue),
        INTEROP_CASE(a_dead_waiter_of_ours_is_passed_over),
        INTEROP_CASE(a_dead_waiter_of_java_is_passed_over),
        INTEROP_CASE(a_long_wait_costs_no_place),
        INTEROP_CASE(a_dead_waiter_between_two_of_java),
        INTEROP_CASE(fair_and_ordinary_locks_exclude_each_other),
        INTEROP_CASE(no_update_is_lost_in_the_queue),
    };
    return cmocka_run_group_tests_name("interop: fair", tests, NULL, NULL);
}
