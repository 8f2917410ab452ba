/* SPDX-License-Identifier: Apache-2.0 */
/* The mutex and Redisson's RLock: exclusion, being woken, re-entry, many at once. */
#include "common.h"

static void a_java_waiter_is_woken_by_our_release(void **state)
{
    (void)state;
    pawl_lock *lock = own_lock(open_client(server_url(server), NULL), "wake-java", LONG_MS, true);
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
    PEER_SAYS("false", java, "T1", "lock wake-java tryLock");
    PEER_SAYS("true", java, "T1", "lock wake-java isLocked");
    const int64_t asked = scripts_run();
    const unsigned waiting = peer_ask(java, "T1", "lock wake-java lock %d", LONG_MS);
    await_lock_waiters("wake-java", 1, asked);
    assert_true(peer_is_waiting(java, waiting));
    ASSERT_OK(pawl_lock_release(lock));
    PEER_ANSWERS("ok", java, waiting, WOKEN_MS);
    ASSERT_STATUS(PAWL_BUSY, pawl_lock_acquire(lock, PAWL_TRY));
    PEER_SAYS("ok", java, "T1", "lock wake-java unlock");
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
}

/* We would ask again after a second anyway, so hearing is shown by being faster than that. A busy
 * machine may be slow once, but no poll can be early even once. */
static void our_waiter_hears_javas_release(void **state)
{
    (void)state;
    int64_t took_ms = PATIENCE_MS;
    for (int round = 0; round < 5 && took_ms >= HEARD_MS; round++) {
        pawl_client *client = open_client(server_url(server), NULL);
        pawl_lock *lock = own_handle(client, "wake-c", LONG_MS, true);
        PEER_SAYS("ok", java, "T1", "lock wake-c lock %d", LONG_MS);
        ASSERT_STATUS(PAWL_BUSY, pawl_lock_acquire(lock, PAWL_TRY));
        const int64_t asked = scripts_run();
        struct caller *caller = caller_start(lock, LONG_MS);
        await_lock_waiters("wake-c", 1, asked);
        assert_true(caller_is_waiting(caller));
        PEER_SAYS("ok", java, "T1", "lock wake-c unlock");
        ASSERT_OK(caller_end(caller, &took_ms));
        PEER_SAYS("false", java, "T1", "lock wake-c tryLock");
        ASSERT_OK(close_client(client));
    }
    assert_true(took_ms < HEARD_MS);
}

/* A wait that runs out leaves nothing behind, on either side. */
static void timed_waits_end_and_leave_nothing(void **state)
{
    (void)state;
    pawl_lock *lock = own_lock(open_client(server_url(server), NULL), "timed", LONG_MS, true);
    PEER_SAYS("ok", java, "T1", "lock timed lock %d", LONG_MS);
    ASSERT_STATUS(PAWL_BUSY, pawl_lock_acquire(lock, 200));
    PEER_SAYS("ok", java, "T1", "lock timed unlock");
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
    PEER_SAYS("false", java, "T1", "lock timed tryLock 200 %d", LONG_MS);
    ASSERT_OK(pawl_lock_release(lock));
    assert_false(is_locked(server, "timed"));
    PEER_SAYS("true", java, "T1", "lock timed tryLock");
    PEER_SAYS("ok", java, "T1", "lock timed unlock");
}

/* Braces in a name change how the channel's name is made. */
static void both_make_the_same_keys_of_any_name(void **state)
{
    (void)state;
    static const char *const names[][2] = {{"{tag}name", "redisson_lock__channel:{tag}name"},
        {"na{me", "redisson_lock__channel:na{me"}, {"a}b", "redisson_lock__channel:{a}b}"},
        {"sch\xc3\xb6n:1", "redisson_lock__channel:{sch\xc3\xb6n:1}"}};
    pawl_client *client = open_client(server_url(server), NULL);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        pawl_lock *lock = own_handle(client, names[i][0], LONG_MS, true);
        ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
        int64_t asked = scripts_run();
        const unsigned waiting = peer_ask(java, "T1", "lock %s lock %d", names[i][0], LONG_MS);
        await_waiters(names[i][1], 1, asked);
        ASSERT_OK(pawl_lock_release(lock));
        PEER_ANSWERS("ok", java, waiting, WOKEN_MS);
        asked = scripts_run();
        struct caller *caller = caller_start(lock, LONG_MS);
        await_waiters(names[i][1], 1, asked);
        PEER_SAYS("ok", java, "T1", "lock %s unlock", names[i][0]);
        ASSERT_OK(caller_end(caller, NULL));
        ASSERT_OK(pawl_lock_release(lock));
    }
}

static void a_hold_counts_as_often_as_it_was_acquired(void **state)
{
    (void)state;
    pawl_lock *lock = own_lock(open_client(server_url(server), NULL), "again", LONG_MS, true);
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
    WAIT_UNTIL(server_answers(server, "2", "HVALS again"), PATIENCE_MS);
    PEER_SAYS("0", java, "T1", "lock again holdCount");
    ASSERT_OK(pawl_lock_release(lock));
    PEER_SAYS("false", java, "T1", "lock again tryLock");
    ASSERT_OK(pawl_lock_release(lock));

    for (int i = 0; i < 3; i++) {
        PEER_SAYS("true", java, "T1", "lock again tryLock");
    }
    PEER_SAYS("false", java, "T2", "lock again tryLock");
    pawl_lock_info info = {.size = sizeof info};
    ASSERT_OK(pawl_lock_inspect(lock, &info));
    assert_true(info.held);
    assert_false(info.held_by_caller);
    assert_int_equal(info.hold_count, 3);
    assert_true(server_answers(server, info.holder, "HKEYS again"));
    for (int i = 0; i < 3; i++) {
        ASSERT_STATUS(PAWL_BUSY, pawl_lock_acquire(lock, PAWL_TRY));
        PEER_SAYS("ok", java, "T1", "lock again unlock");
    }
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
}

/* Waiters of both languages stand in line at once; each must get its turn although one message
 * wakes only one of them in each process. A waiter that is forgotten sleeps for 30 s. */
static void everybody_who_waits_gets_a_turn(void **state)
{
    (void)state;
    enum { EACH = 3 };
    pawl_lock *first = own_handle(open_client(server_url(server), NULL), "line", LONG_MS, true);
    ASSERT_OK(pawl_lock_acquire(first, PAWL_TRY));
    pawl_client *client = open_client(server_url(server), NULL);
    const int64_t asked_before = scripts_run();
    unsigned asked[EACH];
    struct caller *callers[EACH];
    for (int i = 0; i < EACH; i++) {
        char thread[16];
        snprintf(thread, sizeof thread, "T%d", i);
        asked[i] = peer_ask(java, thread, "lock line lock %d", LONG_MS);
        peer_ask(java, thread, "lock line unlock");
        callers[i] = caller_start_turn(own_handle(client, "line", LONG_MS, true), LONG_MS);
    }
    await_lock_waiters("line", 2, asked_before + 2 * (EACH - 1));
    ASSERT_OK(pawl_lock_release(first));
    for (int i = 0; i < EACH; i++) {
        ASSERT_OK(caller_end(callers[i], NULL));
        PEER_ANSWERS("ok", java, asked[i], WOKEN_MS);
        PEER_ANSWERS("ok", java, asked[i] + 1, WOKEN_MS);
    }
    assert_false(is_locked(server, "line"));
}

/* Redisson's spin lock tells nobody that it was released. A mutex of ours asks every second. */
static void our_mutex_finds_javas_silent_release(void **state)
{
    (void)state;
    pawl_lock *lock = own_handle(open_client(server_url(server), NULL), "silent", LONG_MS, true);
    PEER_SAYS("ok", java, "T1", "spin silent lock %d", LONG_MS);
    const int64_t asked = scripts_run();
    struct caller *caller = caller_start(lock, LONG_MS);
    await_lock_waiters("silent", 1, asked);
    PEER_SAYS("ok", java, "T1", "spin silent unlock");
    ASSERT_OK(caller_end(caller, NULL));
    ASSERT_OK(pawl_lock_release(lock));
}

static void no_update_is_lost_between_c_and_java(void **state)
{
    (void)state;
    count_together("lock", PAWL_MUTEX, 4, 250);
}

int run_mutex_cases(void)
{
    const struct CMUnitTest tests[] = {
        INTEROP_CASE(a_java_waiter_is_woken_by_our_release),
        INTEROP_CASE(our_waiter_hears_javas_release),
        INTEROP_CASE(timed_waits_end_and_leave_nothing),
        INTEROP_CASE(both_make_the_same_keys_of_any_name),
        INTEROP_CASE(a_hold_counts_as_often_as_it_was_acquired),
        INTEROP_CASE(everybody_who_waits_gets_a_turn),
        INTEROP_CASE(our_mutex_finds_javas_silent_release),
        INTEROP_CASE(no_update_is_lost_between_c_and_java),
    };
    return cmocka_run_group_tests_name("interop: mutex", tests, NULL, NULL);
}
