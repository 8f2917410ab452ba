/* SPDX-License-Identifier: Apache-2.0 */
/* Redisson's multi-lock takes ordinary locks one after another; ours are such locks. */
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

int run_multi_cases(void)
{
    const struct CMUnitTest tests[] = {
        INTEROP_CASE(javas_multi_lock_needs_all_of_them),
    };
    return cmocka_run_group_tests_name("interop: multi", tests, NULL, NULL);
}
