/* SPDX-License-Identifier: Apache-2.0 */
/* Fencing tokens: ours and those of Redisson's RFencedLock are one growing sequence, if our side
 * keeps the counter for ever (?token_ttl=0), as Redisson does. */
#include "common.h"

#include <inttypes.h>

static uint64_t java_takes(const char *name)
{
    const char *answer = peer_call(java, "T1", "fenced %s lockToken", name);
    char *end = NULL;
    const uint64_t token = strtoull(answer, &end, 10);
    if (end == answer || *end != '\0') {
        support_fail("Java answered \"%s\", which is no token", answer);
    }
    PEER_SAYS("ok", java, "T1", "fenced %s unlock", name);
    return token;
}

static uint64_t we_take(pawl_lock *lock)
{
    ASSERT_OK(pawl_lock_acquire(lock, PATIENCE_MS));
    const uint64_t token = pawl_lock_token(lock);
    ASSERT_OK(pawl_lock_release(lock));
    return token;
}

static void assert_tokens_grow(pawl_lock *lock, const char *name)
{
    uint64_t last = 0;
    for (int i = 0; i < 10; i++) {
        const uint64_t ours = we_take(lock);
        const uint64_t theirs = java_takes(name);
        assert_true(last < ours);
        assert_true(ours < theirs);
        last = theirs;
    }
}

static void tokens_grow_over_both(void **state)
{
    (void)state;
    pawl_client *client = open_client(server_url(server), "?token_ttl=0");
    assert_tokens_grow(own_lock(client, "fenced", LONG_MS, true), "fenced");
    assert_true(server_answers(server, "-1", "PTTL redisson_lock_token:{fenced}"));
}

/* Redisson began to count at 1, long before we came: we go on above. */
static void tokens_grow_where_java_was_first(void **state)
{
    (void)state;
    assert_int_equal(java_takes("older"), 1);
    assert_int_equal(java_takes("older"), 2);
    pawl_client *client = open_client(server_url(server), "?token_ttl=0");
    pawl_lock *lock = own_lock(client, "older", LONG_MS, true);
    assert_tokens_grow(lock, "older");
    assert_true(server_answers(server, "-1", "PTTL redisson_lock_token:{older}"));
}

static void a_fenced_lock_and_a_mutex_exclude_and_wake(void **state)
{
    (void)state;
    pawl_client *client = open_client(server_url(server), "?token_ttl=0");
    pawl_lock *lock = own_handle(client, "guard", LONG_MS, true);
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
    PEER_SAYS("null", java, "T1", "fenced guard tryToken 200 %d", LONG_MS);
    int64_t asked = scripts_run();
    const unsigned waiting = peer_ask(java, "T1", "fenced guard tryToken %d %d", LONG_MS, LONG_MS);
    await_lock_waiters("guard", 1, asked);
    const uint64_t ours = pawl_lock_token(lock);
    ASSERT_OK(pawl_lock_release(lock));
    const uint64_t theirs = strtoull(peer_answer(java, waiting, WOKEN_MS), NULL, 10);
    assert_true(ours > 0 && ours < theirs);
    asked = scripts_run();
    struct caller *caller = caller_start(lock, LONG_MS);
    await_lock_waiters("guard", 1, asked);
    PEER_SAYS("ok", java, "T1", "fenced guard unlock");
    ASSERT_OK(caller_end(caller, NULL));
    assert_true(theirs < pawl_lock_token(lock));
}

int run_fenced_cases(void)
{
    const struct CMUnitTest tests[] = {
        INTEROP_CASE(tokens_grow_over_both),
        INTEROP_CASE(tokens_grow_where_java_was_first),
        INTEROP_CASE(a_fenced_lock_and_a_mutex_exclude_and_wake),
    };
    return cmocka_run_group_tests_name("interop: fenced", tests, NULL, NULL);
}
