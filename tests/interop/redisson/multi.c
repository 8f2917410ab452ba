/* SPDX-License-Identifier: Apache-2.0 */
/* Multi-locks of both sides: neither has anything of its own on the server, both take ordinary
 * locks, Redisson one after another as listed, we in the order of their names. */
#include "common.h"

static void javas_multi_lock_needs_all_of_them(void **state)
{
    (void)state;
    pawl_client *client = open_client(server_url(server), NULL);
    pawl_lock *second = own_handle(client, "second", LONG_MS, true);
    ASSERT_OK(pawl_lock_acquire(second, PAWL_TRY));
    PEER_SAYS("false", java, "T1", "multi first,second tryLock");
    WAIT_UNTIL(!is_locked(server, "first"), PATIENCE_MS);
    const int64_t asked = scripts_run();
    const unsigned waiting = peer_ask(java, "T1", "multi first,second lock");
    await_lock_waiters("second", 1, asked);
    ASSERT_OK(pawl_lock_release(second));
    PEER_ANSWERS("ok", java, waiting, WOKEN_MS);
    ASSERT_STATUS(PAWL_BUSY, pawl_lock_acquire(second, PAWL_TRY));
    pawl_lock *first = own_handle(client, "first", LONG_MS, true);
    ASSERT_STATUS(PAWL_BUSY, pawl_lock_acquire(first, PAWL_TRY));
    PEER_SAYS("ok", java, "T1", "multi first,second unlock");
    ASSERT_OK(pawl_lock_acquire(first, PAWL_TRY));
    ASSERT_OK(pawl_lock_acquire(second, PAWL_TRY));
}

/* What is held while it waits for the rest keeps the other side out, and is given back. */
static void our_multi_lock_needs_all_of_them(void **state)
{
    (void)state;
    pawl_client *client = open_client(server_url(server), NULL);
    pawl_lock *const members[] = {
        own_handle(client, "second", LONG_MS, true), own_handle(client, "first", LONG_MS, true)};
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    options.owner = PAWL_OWNER_HANDLE;
    pawl_lock *both = NULL;
    ASSERT_OK(pawl_lock_open_multi(members, 2, &options, &both));
    cleanup_add(close_lock_in_cleanup, both);
    PEER_SAYS("ok", java, "T1", "lock second lock %d", LONG_MS);
    ASSERT_STATUS(PAWL_BUSY, pawl_lock_acquire(both, PAWL_TRY));
    WAIT_UNTIL(!is_locked(server, "first"), PATIENCE_MS);
    struct caller *caller = caller_start(both, LONG_MS);
    await_listeners("redisson_lock__channel:{second}", 1);
    assert_true(caller_is_waiting(caller));
    PEER_SAYS("ok", java, "T1", "lock second unlock");
    ASSERT_OK(caller_end(caller, NULL));
    PEER_SAYS("false", java, "T1", "lock first tryLock");
    PEER_SAYS("false", java, "T1", "lock second tryLock");
    PEER_SAYS("false", java, "T1", "multi first,second tryLock");
    ASSERT_OK(pawl_lock_release(both));
    PEER_SAYS("true", java, "T1", "multi first,second tryLock");
    PEER_SAYS("ok", java, "T1", "multi first,second unlock");
}

/* Multi-locks of both and of the single locks that they are made of. */
static void no_update_is_lost_under_multi_locks(void **state)
{
    (void)state;
    enum { ROUNDS = 60 };
    const char *path = number_make();
    pawl_client *client = open_client(server_url(server), NULL);
    const unsigned many = peer_ask(java, "T1", "multi left,right hammer %s %d", path, ROUNDS);
    struct hammers *ours = hammers_start(client, "left,right", PAWL_MUTEX, path, 2, ROUNDS);
    struct hammers *single = hammers_start(client, "right", PAWL_MUTEX, path, 1, ROUNDS);
    const unsigned one = peer_ask(java, "T2", "lock right hammer %s %d", path, ROUNDS);
    hammers_end(single, 2 * LONG_MS);
    hammers_end(ours, 2 * LONG_MS);
    PEER_ANSWERS("ok", java, many, 2 * LONG_MS);
    PEER_ANSWERS("ok", java, one, 2 * LONG_MS);
    assert_int_equal(number_read(path), 5 * ROUNDS);
}

int run_multi_cases(void)
{
    const struct CMUnitTest tests[] = {
        INTEROP_CASE(javas_multi_lock_needs_all_of_them),
        INTEROP_CASE(our_multi_lock_needs_all_of_them),
        INTEROP_CASE(no_update_is_lost_under_multi_locks),
    };
    return cmocka_run_group_tests_name("interop: multi", tests, NULL, NULL);
}
