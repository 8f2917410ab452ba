/* SPDX-License-Identifier: Apache-2.0 */
/* The spin lock: the mutex's key, but waiters ask again and again and hear nothing. */
#include "common.h"

static void a_spinning_java_gets_what_we_release(void **state)
{
    (void)state;
    pawl_lock *lock = own_kind(open_client(server_url(server), NULL), "spin-j", PAWL_SPIN, LONG_MS);
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
    PEER_SAYS("false", java, "T1", "spin spin-j tryLock");
    PEER_SAYS("false", java, "T1", "lock spin-j tryLock");
    const int64_t asked = scripts_run();
    const unsigned waiting = peer_ask(java, "T1", "spin spin-j lock %d", LONG_MS);
    WAIT_UNTIL(scripts_run() >= asked + 3, PATIENCE_MS);
    assert_true(peer_is_waiting(java, waiting));
    ASSERT_OK(pawl_lock_release(lock));
    PEER_ANSWERS("ok", java, waiting, WOKEN_MS);
    ASSERT_STATUS(PAWL_BUSY, pawl_lock_acquire(lock, PAWL_TRY));
    PEER_SAYS("ok", java, "T1", "spin spin-j unlock");
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
}

static void we_spin_until_java_releases(void **state)
{
    (void)state;
    pawl_lock *lock = own_kind(open_client(server_url(server), NULL), "spin-c", PAWL_SPIN, LONG_MS);
    PEER_SAYS("ok", java, "T1", "spin spin-c lock %d", LONG_MS);
    ASSERT_STATUS(PAWL_BUSY, pawl_lock_acquire(lock, PAWL_TRY));
    const int64_t asked = scripts_run();
    struct caller *caller = caller_start(lock, LONG_MS);
    WAIT_UNTIL(scripts_run() >= asked + 3, PATIENCE_MS);
    assert_true(caller_is_waiting(caller));
    PEER_SAYS("ok", java, "T1", "spin spin-c unlock");
    ASSERT_OK(caller_end(caller, NULL));
    PEER_SAYS("false", java, "T1", "spin spin-c tryLock");
    ASSERT_OK(pawl_lock_release(lock));
}

static void no_update_is_lost_among_spinners(void **state)
{
    (void)state;
    count_together("spin", PAWL_SPIN, 2, 100);
}

int run_spin_cases(void)
{
    const struct CMUnitTest tests[] = {
        INTEROP_CASE(a_spinning_java_gets_what_we_release),
        INTEROP_CASE(we_spin_until_java_releases),
        INTEROP_CASE(no_update_is_lost_among_spinners),
    };
    return cmocka_run_group_tests_name("interop: spin", tests, NULL, NULL);
}
