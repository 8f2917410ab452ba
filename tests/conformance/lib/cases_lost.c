/* SPDX-License-Identifier: Apache-2.0 */
/* A lost hold is reported: once by on_lost, and by every call of its owner until it has been
 * released as often as it was acquired. */
#include "conformance/lib/actor.h"
#include "conformance/lib/tools.h"

#define HALF_MS (RENEWED_MS / 2)

/* A lock with a fixed lease whose losses are recorded. */
static pawl_lock *open_fixed(
    const struct suite *suite, pawl_client *client, struct recorder *recorder)
{
    pawl_lock_options options = fixed_options(LEASE_MS);
    record_events(&options, recorder);
    return open_lock(client, suite->name, &options);
}

static void a_fixed_lease_ends(const struct suite *suite)
{
    pawl_client *client = open_client(suite);
    struct recorder *recorder = recorder_new();
    pawl_lock *lock = open_fixed(suite, client, recorder);
    const int64_t start_us = boottime_us();
    EXPECT(PAWL_OK, pawl_lock_acquire(lock, PAWL_TRY));
    const uint64_t token = pawl_lock_token(lock);
    recorder_await(recorder, 1);
    const struct record lost = recorder_get(recorder, 0);
    suite_late("on_lost", lost.at_us - start_us - LEASE_MS * 1000);
    assert_true(lost.at_us - start_us >= lease_least_ms(LEASE_MS) * 1000);
    assert_true(lost.at_us - start_us <= (LEASE_MS + LATE_MS) * 1000);
    assert_int_equal(lost.kind, RECORD_LOST);
    assert_int_equal(lost.token, token);
    assert_int_equal(lost.owner, pawl_owner_self());
    assert_ptr_equal(lost.lock, lock);
    assert_int_equal(pawl_lock_remaining_ms(lock), 0);
    assert_int_equal(pawl_lock_token(lock), 0);
    EXPECT(PAWL_LOST, pawl_lock_release(lock));
    EXPECT(PAWL_NOT_HELD, pawl_lock_release(lock));
    EXPECT(PAWL_OK, close_lock(lock));
    EXPECT(PAWL_OK, close_client(client));
    assert_int_equal(recorder_count(recorder), 1);
}

static void a_lost_hold_is_released_as_often_as_acquired(const struct suite *suite)
{
    struct recorder *recorder = recorder_new();
    pawl_lock *lock = open_fixed(suite, open_client(suite), recorder);
    for (int i = 0; i < 3; i++) {
        EXPECT(PAWL_OK, pawl_lock_acquire(lock, PAWL_TRY));
    }
    await_loss(lock, LEASE_MS + LATE_MS);
    assert_int_equal(pawl_lock_hold_count(lock), 3);
    for (unsigned left = 3; left > 0; left--) {
        EXPECT(PAWL_LOST, pawl_lock_release(lock));
        assert_int_equal(pawl_lock_hold_count(lock), left - 1);
    }
    EXPECT(PAWL_NOT_HELD, pawl_lock_release(lock));
    recorder_await(recorder, 1);
}

static void acquire_inside_a_lost_hold(const struct suite *suite)
{
    pawl_client *client = open_client(suite);
    pawl_lock *lock = open_fixed(suite, client, recorder_new());
    pawl_lock *second = open_thread_lock(client, suite->name);
    EXPECT(PAWL_OK, pawl_lock_acquire(lock, PAWL_TRY));
    const uint64_t token = pawl_lock_token(lock);
    await_loss(lock, LEASE_MS + LATE_MS);
    EXPECT(PAWL_LOST, pawl_lock_acquire(lock, PAWL_TRY));
    EXPECT(PAWL_LOST, pawl_lock_acquire(second, PAWL_FOREVER));
    assert_int_equal(pawl_lock_hold_count(lock), 1);
    EXPECT(PAWL_LOST, pawl_lock_release(lock));
    EXPECT(PAWL_OK, pawl_lock_acquire(lock, SOON_MS));
    assert_true(pawl_lock_token(lock) > token);
    EXPECT(PAWL_OK, pawl_lock_release(lock));
}

static void extend_of_a_lost_hold(const struct suite *suite)
{
    pawl_lock *lock = open_fixed(suite, open_client(suite), recorder_new());
    EXPECT(PAWL_OK, pawl_lock_acquire(lock, PAWL_TRY));
    await_loss(lock, LEASE_MS + LATE_MS);
    EXPECT(PAWL_LOST, pawl_lock_extend(lock, LONG_MS));
    assert_int_equal(pawl_lock_remaining_ms(lock), 0);
    pawl_lock *other = open_thread_lock(open_client(suite), suite->name);
    EXPECT(PAWL_OK, pawl_lock_acquire(other, LATE_MS));
    EXPECT(PAWL_LOST, pawl_lock_release(lock));
    EXPECT(PAWL_OK, pawl_lock_release(other));
}

static void another_client_gets_what_was_lost(const struct suite *suite)
{
    pawl_lock *lock = open_fixed(suite, open_client(suite), recorder_new());
    pawl_lock *other = open_thread_lock(open_client(suite), suite->name);
    EXPECT(PAWL_OK, pawl_lock_acquire(lock, PAWL_TRY));
    const uint64_t token = pawl_lock_token(lock);
    EXPECT(PAWL_BUSY, pawl_lock_acquire(other, PAWL_TRY));
    await_loss(lock, LEASE_MS + LATE_MS);
    EXPECT(PAWL_OK, pawl_lock_acquire(other, LATE_MS));
    assert_true(pawl_lock_token(other) > token);
    EXPECT(PAWL_LOST, pawl_lock_release(lock)); /* and touches nothing of the other's */
    assert_true(pawl_lock_remaining_ms(other) > 0);
    expect_busy(suite, suite->name);
    EXPECT(PAWL_OK, pawl_lock_release(other));
}

static void another_thread_gets_what_was_lost(const struct suite *suite)
{
    struct recorder *recorder = recorder_new();
    pawl_lock *lock = open_fixed(suite, open_client(suite), recorder);
    struct actor *actor = actor_new();
    EXPECT(PAWL_OK, pawl_lock_acquire(lock, PAWL_TRY));
    actor_acquire(actor, lock, LONG_MS);
    const int64_t start_ms = boottime_ms();
    EXPECT(PAWL_OK, actor_answer(actor));
    assert_true(boottime_ms() - start_ms <= LEASE_MS + LATE_MS);
    EXPECT(PAWL_LOST, pawl_lock_acquire(lock, PAWL_TRY));
    EXPECT(PAWL_LOST, pawl_lock_release(lock));
    EXPECT(PAWL_OK, actor_release_now(actor, lock));
    recorder_await(recorder, 1);
    assert_int_equal(recorder_get(recorder, 0).owner, pawl_owner_self());
}

static void every_lost_hold_is_reported(const struct suite *suite)
{
    struct recorder *recorder = recorder_new();
    pawl_lock *lock = open_fixed(suite, open_client(suite), recorder);
    uint64_t tokens[3];
    for (size_t i = 0; i < 3; i++) {
        EXPECT(PAWL_OK, pawl_lock_acquire(lock, SOON_MS));
        tokens[i] = pawl_lock_token(lock);
        recorder_await(recorder, i + 1);
        EXPECT(PAWL_LOST, pawl_lock_release(lock));
    }
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(recorder_get(recorder, i).token, tokens[i]);
    }
    EXPECT(PAWL_OK, close_lock(lock));
    assert_int_equal(recorder_count(recorder), 3);
}

static void nobody_listens_to_the_loss(const struct suite *suite)
{
    const pawl_lock_options options = fixed_options(LEASE_MS);
    pawl_lock *lock = open_lock(open_client(suite), suite->name, &options);
    EXPECT(PAWL_OK, pawl_lock_acquire(lock, PAWL_TRY));
    await_loss(lock, LEASE_MS + LATE_MS);
    EXPECT(PAWL_LOST, pawl_lock_release(lock));
}

static void a_handle_loses_its_hold(const struct suite *suite)
{
    pawl_lock_options options = handle_options();
    struct recorder *recorder = recorder_new();
    options.renew = false;
    options.lease_ms = LEASE_MS;
    record_events(&options, recorder);
    pawl_lock *lock = open_lock(open_client(suite), suite->name, &options);
    EXPECT(PAWL_OK, pawl_lock_acquire(lock, PAWL_TRY));
    recorder_await(recorder, 1);
    assert_true(recorder_get(recorder, 0).owner != pawl_owner_self());
    EXPECT(PAWL_OK, pawl_lock_release_async(lock, record_done, recorder));
    recorder_await(recorder, 2);
    assert_int_equal(recorder_get(recorder, 1).status, PAWL_LOST);
    EXPECT(PAWL_NOT_HELD, pawl_lock_release(lock));
}

/* ===== A thread that ends while it holds ===== */

/* As if its process had died: lost at once, and free when the lease is over, not before. */
static void check_thread_end(const struct suite *suite, const pawl_lock_options *given)
{
    pawl_lock_options options = *given;
    struct recorder *recorder = recorder_new();
    record_events(&options, recorder);
    pawl_client *client = open_client(suite);
    pawl_lock *lock = open_lock(client, suite->name, &options);
    pawl_lock *other = open_thread_lock(open_client(suite), suite->name);
    struct actor *actor = actor_new();
    EXPECT(PAWL_OK, actor_acquire_now(actor, lock, PAWL_TRY));
    const uint64_t token = actor_token(actor, lock);
    int64_t left_ms = actor_remaining_ms(actor, lock);
    left_ms = left_ms == INT64_MAX ? lease_least_ms(options.lease_ms) : left_ms;
    const int64_t seen_us = boottime_us();
    actor_end(actor);
    recorder_await(recorder, 1);
    assert_int_equal(recorder_get(recorder, 0).kind, RECORD_LOST);
    assert_int_equal(recorder_get(recorder, 0).token, token);
    suite_late("on_lost after the thread's end", recorder_get(recorder, 0).at_us - seen_us);
    assert_true(recorder_get(recorder, 0).at_us - seen_us < left_ms * 1000);
    EXPECT(PAWL_BUSY, pawl_lock_acquire(lock, PAWL_TRY)); /* nor does this client get it early */
    EXPECT(PAWL_OK, pawl_lock_acquire(other, LONG_MS));
    const int64_t free_us = boottime_us() - seen_us;
    suite_late("free after the thread's end and the lease", free_us - options.lease_ms * 1000);
    assert_true(free_us >= (left_ms - 1) * 1000);
    assert_true(free_us <= (options.lease_ms + LATE_MS) * 1000);
    EXPECT(PAWL_OK, pawl_lock_release(other));
    EXPECT(PAWL_OK, close_client(client));
    assert_int_equal(recorder_count(recorder), 1);
}

static void a_thread_ends_with_a_renewed_lease(const struct suite *suite)
{
    const pawl_lock_options options = renewed_options(HALF_MS);
    check_thread_end(suite, &options);
}

static void a_thread_ends_with_a_fixed_lease(const struct suite *suite)
{
    const pawl_lock_options options = fixed_options(HALF_MS);
    check_thread_end(suite, &options);
}

static void a_thread_ends_after_its_hold_was_lost(const struct suite *suite)
{
    struct recorder *recorder = recorder_new();
    pawl_lock *lock = open_fixed(suite, open_client(suite), recorder);
    struct actor *actor = actor_new();
    EXPECT(PAWL_OK, actor_acquire_now(actor, lock, PAWL_TRY));
    recorder_await(recorder, 1);
    actor_end(actor);
    EXPECT(PAWL_OK, pawl_lock_acquire(lock, LATE_MS));
    EXPECT(PAWL_OK, pawl_lock_release(lock));
    EXPECT(PAWL_OK, close_lock(lock));
    assert_int_equal(recorder_count(recorder), 1);
}

static const struct suite_case cases[] = {
    SUITE_CASE(FLAG_LOST, a_fixed_lease_ends),
    SUITE_CASE(FLAG_LOST, a_lost_hold_is_released_as_often_as_acquired),
    SUITE_CASE(FLAG_LOST, acquire_inside_a_lost_hold),
    SUITE_CASE(FLAG_LOST, extend_of_a_lost_hold),
    SUITE_CASE(FLAG_LOST, another_client_gets_what_was_lost),
    SUITE_CASE(FLAG_LOST, another_thread_gets_what_was_lost),
    SUITE_CASE(FLAG_LOST, every_lost_hold_is_reported),
    SUITE_CASE(FLAG_LOST, nobody_listens_to_the_loss),
    SUITE_CASE(FLAG_LOST, a_handle_loses_its_hold),
    SUITE_CASE(FLAG_LOST, a_thread_ends_with_a_renewed_lease),
    SUITE_CASE(FLAG_LOST, a_thread_ends_with_a_fixed_lease),
    SUITE_CASE(FLAG_LOST, a_thread_ends_after_its_hold_was_lost),
};

SUITE_GROUP(suite_lost, cases);
