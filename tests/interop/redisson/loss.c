/* SPDX-License-Identifier: Apache-2.0 */
/* When a mutex is taken away, runs out or outlives its process, across the languages; and leases
 * that both renew. */
#include "common.h"

#define SHORT_MS 1500

static void javas_force_unlock_is_a_loss_that_we_report(void **state)
{
    (void)state;
    static struct losses losses;
    pawl_client *client = open_client(server_url(server), NULL);
    pawl_lock *lock = open_watched(client, "forced", WATCHDOG_MS, true, &losses);
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
    PEER_SAYS("true", java, "T1", "lock forced forceUnlock");
    PEER_SAYS("true", java, "T1", "lock forced tryLock -1 %d", LONG_MS);
    WAIT_UNTIL(atomic_load(&losses.count) == 1, PATIENCE_MS);
    ASSERT_STATUS(PAWL_LOST, pawl_lock_release(lock));
    PEER_SAYS("true", java, "T1", "lock forced isHeld");
    PEER_SAYS("ok", java, "T1", "lock forced unlock");
    ASSERT_OK(pawl_lock_close(lock));
    assert_int_equal(atomic_load(&losses.count), 1);
}

static void our_break_ends_javas_hold_and_wakes_its_waiters(void **state)
{
    (void)state;
    pawl_lock *lock = own_lock(open_client(server_url(server), NULL), "broken", LONG_MS, true);
    PEER_SAYS("ok", java, "T1", "lock broken lock %d", LONG_MS);
    const int64_t asked = scripts_run();
    const unsigned waiting = peer_ask(java, "T2", "lock broken lock %d", LONG_MS);
    await_lock_waiters("broken", 1, asked);
    ASSERT_OK(pawl_lock_break(lock));
    PEER_ANSWERS("ok", java, waiting, WOKEN_MS);
    PEER_SAYS("threw IllegalMonitorStateException...", java, "T1", "lock broken unlock");
    PEER_SAYS("true", java, "T2", "lock broken isHeld");
    PEER_SAYS("ok", java, "T2", "lock broken unlock");
    ASSERT_STATUS(PAWL_NOT_HELD, pawl_lock_break(lock));
}

static void a_fixed_lease_of_java_ends_for_us(void **state)
{
    (void)state;
    pawl_lock *lock = own_lock(open_client(server_url(server), NULL), "fixed-java", LONG_MS, true);
    const int64_t began_ms = boottime_ms();
    PEER_SAYS("ok", java, "T1", "lock fixed-java lock %d", SHORT_MS);
    ASSERT_OK(pawl_lock_acquire(lock, PATIENCE_MS));
    assert_true(boottime_ms() - began_ms >= SHORT_MS - 1);
    PEER_SAYS("threw IllegalMonitorStateException...", java, "T1", "lock fixed-java unlock");
    ASSERT_OK(pawl_lock_release(lock));
}

static void our_fixed_lease_ends_for_java(void **state)
{
    (void)state;
    static struct losses losses;
    pawl_client *client = open_client(server_url(server), NULL);
    pawl_lock *lock = open_watched(client, "fixed-c", SHORT_MS, false, &losses);
    const int64_t began_ms = boottime_ms();
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
    PEER_SAYS("true", java, "T1", "lock fixed-c tryLock %d %d", PATIENCE_MS, LONG_MS);
    assert_true(boottime_ms() - began_ms >= SHORT_MS);
    WAIT_UNTIL(atomic_load(&losses.count) == 1, PATIENCE_MS);
    ASSERT_STATUS(PAWL_LOST, pawl_lock_release(lock));
    PEER_SAYS("ok", java, "T1", "lock fixed-c unlock");
    ASSERT_OK(pawl_lock_close(lock));
}

static void java_inherits_from_a_killed_process_of_ours(void **state)
{
    (void)state;
    struct child *victim = start_victim("killed-c", PAWL_MUTEX, SHORT_MS, PAWL_TRY);
    await_victim(victim);
    PEER_SAYS("false", java, "T1", "lock killed-c tryLock");
    kill_victim(victim);
    assert_true(is_locked(server, "killed-c"));
    PEER_SAYS("true", java, "T1", "lock killed-c tryLock %d %d", PATIENCE_MS, LONG_MS);
    PEER_SAYS("ok", java, "T1", "lock killed-c unlock");
}

static void we_inherit_from_a_killed_java(void **state)
{
    (void)state;
    pawl_lock *lock = own_lock(open_client(server_url(server), NULL), "killed-j", LONG_MS, true);
    struct peer *victim = peer_start(server_url(server), SHORT_MS);
    PEER_SAYS("ok", victim, "T1", "lock killed-j lock");
    ASSERT_STATUS(PAWL_BUSY, pawl_lock_acquire(lock, PAWL_TRY));
    peer_kill(victim);
    assert_true(is_locked(server, "killed-j"));
    ASSERT_OK(pawl_lock_acquire(lock, PATIENCE_MS));
    ASSERT_OK(pawl_lock_release(lock));
}

/* Redisson renews many locks in one script, we too: neither may touch or forget the other's. */
static void both_renew_many_locks_at_once(void **state)
{
    (void)state;
    enum { EACH = 40 };
    static struct losses losses;
    pawl_client *client = open_client(server_url(server), NULL);
    pawl_lock *locks[EACH];
    char name[16];
    for (int i = 0; i < EACH; i++) {
        snprintf(name, sizeof name, "c-%d", i);
        locks[i] = open_watched(client, name, WATCHDOG_MS, true, &losses);
        ASSERT_OK(pawl_lock_acquire(locks[i], PAWL_TRY));
        PEER_SAYS("ok", java, "T1", "lock j-%d lock", i);
    }
    nap_ms(WATCHDOG_MS + WATCHDOG_MS / 2);
    for (int i = 0; i < EACH; i++) {
        PEER_SAYS("false", java, "T1", "lock c-%d tryLock", i);
        assert_true(pawl_lock_remaining_ms(locks[i]) > 0);
        PEER_SAYS("true", java, "T1", "lock j-%d isHeld", i);
        ASSERT_OK(pawl_lock_release(locks[i]));
        PEER_SAYS("ok", java, "T1", "lock j-%d unlock", i);
        ASSERT_OK(pawl_lock_close(locks[i]));
    }
    assert_int_equal(atomic_load(&losses.count), 0);
}

int run_loss_cases(void)
{
    const struct CMUnitTest tests[] = {
        INTEROP_CASE(javas_force_unlock_is_a_loss_that_we_report),
        INTEROP_CASE(our_break_ends_javas_hold_and_wakes_its_waiters),
        INTEROP_CASE(a_fixed_lease_of_java_ends_for_us),
        INTEROP_CASE(our_fixed_lease_ends_for_java),
        INTEROP_CASE(java_inherits_from_a_killed_process_of_ours),
        INTEROP_CASE(we_inherit_from_a_killed_java),
        INTEROP_CASE(both_renew_many_locks_at_once),
    };
    return cmocka_run_group_tests_name("interop: loss", tests, NULL, NULL);
}
