/* SPDX-License-Identifier: Apache-2.0 */
/* An owner that holds the lock acquires it again: who may, who may not, and whose options rule. */
#include "conformance/lib/actor.h"
#include "conformance/lib/tools.h"

static void a_thread_enters_again(const struct suite *suite)
{
    pawl_lock *lock = open_thread_lock(open_client(suite), suite->name);
    EXPECT(PAWL_OK, pawl_lock_acquire(lock, PAWL_TRY));
    const uint64_t token = pawl_lock_token(lock);
    for (unsigned count = 2; count <= 5; count++) {
        EXPECT(PAWL_OK, pawl_lock_acquire(lock, count % 2 == 0 ? PAWL_TRY : PAWL_FOREVER));
        assert_int_equal(pawl_lock_hold_count(lock), count);
        assert_int_equal(pawl_lock_token(lock), token);
    }
    for (unsigned count = 4; count >= 1; count--) {
        EXPECT(PAWL_OK, pawl_lock_release(lock));
        assert_int_equal(pawl_lock_hold_count(lock), count);
        assert_int_equal(pawl_lock_token(lock), token);
        expect_busy(suite, suite->name);
    }
    EXPECT(PAWL_OK, pawl_lock_release(lock));
    EXPECT(PAWL_NOT_HELD, pawl_lock_release(lock));
    expect_free(suite, suite->name);
}

static void through_another_handle(const struct suite *suite)
{
    pawl_client *client = open_client(suite);
    pawl_lock *one = open_thread_lock(client, suite->name);
    pawl_lock *two = open_thread_lock(client, suite->name);
    EXPECT(PAWL_OK, pawl_lock_acquire(one, PAWL_TRY));
    EXPECT(PAWL_OK, pawl_lock_acquire(two, PAWL_TRY));
    assert_int_equal(pawl_lock_hold_count(one), 2);
    assert_int_equal(pawl_lock_hold_count(two), 2);
    assert_int_equal(pawl_lock_token(one), pawl_lock_token(two));
    EXPECT(PAWL_OK, pawl_lock_release(one));
    assert_int_equal(pawl_lock_hold_count(two), 1);
    expect_busy(suite, suite->name);
    EXPECT(PAWL_OK, pawl_lock_release(two));
    EXPECT(PAWL_NOT_HELD, pawl_lock_release(one));
    expect_free(suite, suite->name);
}

static void not_through_another_client(const struct suite *suite)
{
    pawl_lock *one = open_thread_lock(open_client(suite), suite->name);
    pawl_lock *two = open_thread_lock(open_client(suite), suite->name);
    EXPECT(PAWL_OK, pawl_lock_acquire(one, PAWL_TRY));
    EXPECT(PAWL_BUSY, pawl_lock_acquire(two, PAWL_TRY));
    EXPECT(PAWL_BUSY, pawl_lock_acquire(two, 20));
    assert_int_equal(pawl_lock_hold_count(two), 0);
    assert_int_equal(pawl_lock_token(two), 0);
    EXPECT(PAWL_OK, pawl_lock_release(one));
}

static void not_by_another_thread(const struct suite *suite)
{
    pawl_lock *lock = open_thread_lock(open_client(suite), suite->name);
    struct actor *actor = actor_new();
    EXPECT(PAWL_OK, pawl_lock_acquire(lock, PAWL_TRY));
    EXPECT(PAWL_BUSY, actor_acquire_now(actor, lock, PAWL_TRY));
    EXPECT(PAWL_OK, pawl_lock_release(lock));
}

static void entering_again_goes_before_those_who_wait(const struct suite *suite)
{
    pawl_lock *lock = open_thread_lock(open_client(suite), suite->name);
    pawl_lock *other = open_thread_lock(open_client(suite), suite->name);
    struct actor *near = actor_new();
    struct actor *far = actor_new();
    EXPECT(PAWL_OK, pawl_lock_acquire(lock, PAWL_TRY));
    actor_acquire(near, lock, PAWL_FOREVER);
    actor_await_sleep(near);
    actor_acquire(far, other, PAWL_FOREVER);
    actor_await_sleep(far);
    EXPECT(PAWL_OK, pawl_lock_acquire(lock, PAWL_TRY));
    EXPECT(PAWL_OK, pawl_lock_release(lock));
    assert_false(actor_is_done(near));
    assert_false(actor_is_done(far));
    EXPECT(PAWL_OK, pawl_lock_release(lock));
    WAIT_UNTIL(actor_is_done(near) || actor_is_done(far), SOON_MS);
    struct actor *first = actor_is_done(near) ? near : far;
    struct actor *second = first == near ? far : near;
    EXPECT(PAWL_OK, actor_release_now(first, first == near ? lock : other));
    EXPECT(PAWL_OK, actor_answer(second));
    EXPECT(PAWL_OK, actor_release_now(second, second == near ? lock : other));
}

static void a_thread_is_refused_on_request(const struct suite *suite)
{
    pawl_lock_options options = thread_options();
    options.reentry = PAWL_REENTRY_REFUSE;
    pawl_lock *lock = open_lock(open_client(suite), suite->name, &options);
    EXPECT(PAWL_OK, pawl_lock_acquire(lock, PAWL_TRY));
    EXPECT(PAWL_DEADLOCK, pawl_lock_acquire(lock, PAWL_TRY));
    EXPECT(PAWL_DEADLOCK, pawl_lock_acquire(lock, PAWL_FOREVER));
    assert_int_equal(pawl_lock_hold_count(lock), 1);
    EXPECT(PAWL_OK, pawl_lock_release(lock));
    EXPECT(PAWL_NOT_HELD, pawl_lock_release(lock));
    EXPECT(PAWL_OK, pawl_lock_acquire(lock, PAWL_TRY));
    EXPECT(PAWL_OK, pawl_lock_release(lock));
}

static void a_handle_is_refused(const struct suite *suite)
{
    pawl_lock *lock = open_handle_lock(open_client(suite), suite->name);
    EXPECT(PAWL_OK, pawl_lock_acquire(lock, PAWL_TRY));
    EXPECT(PAWL_DEADLOCK, pawl_lock_acquire(lock, PAWL_TRY));
    EXPECT(PAWL_DEADLOCK, pawl_lock_acquire(lock, PAWL_FOREVER));
    assert_int_equal(pawl_lock_hold_count(lock), 1);
    EXPECT(PAWL_OK, pawl_lock_release(lock));
    expect_free(suite, suite->name);
}

static void a_handle_is_allowed_on_request(const struct suite *suite)
{
    pawl_lock_options options = handle_options();
    options.reentry = PAWL_REENTRY_ALLOW;
    pawl_lock *lock = open_lock(open_client(suite), suite->name, &options);
    struct actor *actor = actor_new();
    EXPECT(PAWL_OK, pawl_lock_acquire(lock, PAWL_TRY));
    EXPECT(PAWL_OK, actor_acquire_now(actor, lock, PAWL_TRY));
    assert_int_equal(pawl_lock_hold_count(lock), 2);
    EXPECT(PAWL_OK, pawl_lock_release(lock));
    expect_busy(suite, suite->name);
    EXPECT(PAWL_OK, actor_release_now(actor, lock));
    expect_free(suite, suite->name);
}

static void two_handles_are_two_owners(const struct suite *suite)
{
    pawl_client *client = open_client(suite);
    pawl_lock *one = open_handle_lock(client, suite->name);
    pawl_lock *two = open_handle_lock(client, suite->name);
    pawl_lock *thread = open_thread_lock(client, suite->name);
    EXPECT(PAWL_OK, pawl_lock_acquire(one, PAWL_TRY));
    EXPECT(PAWL_BUSY, pawl_lock_acquire(two, PAWL_TRY));
    EXPECT(PAWL_BUSY, pawl_lock_acquire(thread, PAWL_TRY));
    EXPECT(PAWL_NOT_HELD, pawl_lock_release(two));
    EXPECT(PAWL_NOT_HELD, pawl_lock_release(thread));
    EXPECT(PAWL_OK, pawl_lock_release(one));
}

static void handles_with_the_same_owner(const struct suite *suite)
{
    pawl_client *client = open_client(suite);
    pawl_lock *one = open_handle_lock(client, suite->name);
    pawl_lock_options options = handle_options();
    options.same_owner_as = one;
    pawl_lock *refusing = open_lock(client, suite->name, &options);
    options.reentry = PAWL_REENTRY_ALLOW;
    pawl_lock *allowing = open_lock(client, suite->name, &options);
    EXPECT(PAWL_OK, pawl_lock_acquire(one, PAWL_TRY));
    EXPECT(PAWL_DEADLOCK, pawl_lock_acquire(refusing, PAWL_TRY));
    EXPECT(PAWL_OK, pawl_lock_acquire(allowing, PAWL_TRY));
    assert_int_equal(pawl_lock_hold_count(refusing), 2);
    assert_int_equal(pawl_lock_token(one), pawl_lock_token(allowing));
    EXPECT(PAWL_OK, pawl_lock_release(refusing));
    EXPECT(PAWL_OK, pawl_lock_release(allowing));
    EXPECT(PAWL_NOT_HELD, pawl_lock_release(one));
    expect_free(suite, suite->name);
}

static void the_first_acquire_rules(const struct suite *suite)
{
    pawl_client *client = open_client(suite);
    struct recorder *recorder = recorder_new();
    struct recorder *silent = recorder_new();
    pawl_lock_options options = fixed_options(LEASE_MS);
    record_events(&options, recorder);
    pawl_lock *first = open_lock(client, suite->name, &options);
    pawl_lock_options longer = renewed_options(LONG_MS);
    record_events(&longer, silent);
    pawl_lock *second = open_lock(client, suite->name, &longer);
    EXPECT(PAWL_OK, pawl_lock_acquire(first, PAWL_TRY));
    EXPECT(PAWL_OK, pawl_lock_acquire(second, PAWL_TRY));
    assert_true(pawl_lock_remaining_ms(second) <= LEASE_MS);
    await_loss(first, LEASE_MS + LATE_MS);
    recorder_await(recorder, 1);
    assert_ptr_equal(recorder_get(recorder, 0).lock, first);
    assert_int_equal(recorder_count(silent), 0);
    EXPECT(PAWL_LOST, pawl_lock_release(second));
    EXPECT(PAWL_LOST, pawl_lock_release(first));

    EXPECT(PAWL_OK, pawl_lock_acquire(second, SOON_MS));
    EXPECT(PAWL_OK, pawl_lock_acquire(first, PAWL_TRY));
    assert_true(pawl_lock_remaining_ms(first) > LEASE_MS);
    EXPECT(PAWL_OK, pawl_lock_release(first));
    EXPECT(PAWL_OK, pawl_lock_release(second));
}

static void entering_again_extends_a_fixed_lease(const struct suite *suite)
{
    const pawl_lock_options options = fixed_options(RENEWED_MS);
    pawl_lock *lock = open_lock(open_client(suite), suite->name, &options);
    const int64_t start_ms = boottime_ms();
    EXPECT(PAWL_OK, pawl_lock_acquire(lock, PAWL_TRY));
    WAIT_UNTIL(boottime_ms() - start_ms > RENEWED_MS / 4, SOON_MS);
    const int64_t again_ms = boottime_ms();
    EXPECT(PAWL_OK, pawl_lock_acquire(lock, PAWL_TRY));
    assert_int_equal(pawl_lock_hold_count(lock), 2);
    EXPECT(PAWL_OK, pawl_lock_release(lock)); /* giving back shortens nothing */
    const int64_t left_ms = pawl_lock_remaining_ms(lock);
    assert_true(left_ms >= lease_least_ms(RENEWED_MS) - (boottime_ms() - again_ms) - 1);
    WAIT_UNTIL(boottime_ms() - start_ms > RENEWED_MS + 10, SOON_MS);
    expect_busy(suite, suite->name);
    EXPECT(PAWL_OK, pawl_lock_release(lock));
}

static const struct suite_case cases[] = {
    SUITE_CASE(FLAG_REENTRY, a_thread_enters_again),
    SUITE_CASE(FLAG_REENTRY, through_another_handle),
    SUITE_CASE(FLAG_REENTRY, not_through_another_client),
    SUITE_CASE(FLAG_REENTRY, not_by_another_thread),
    SUITE_CASE(FLAG_REENTRY, entering_again_goes_before_those_who_wait),
    SUITE_CASE(FLAG_REENTRY, a_thread_is_refused_on_request),
    SUITE_CASE(FLAG_REENTRY, a_handle_is_refused),
    SUITE_CASE(FLAG_REENTRY, a_handle_is_allowed_on_request),
    SUITE_CASE(FLAG_REENTRY, two_handles_are_two_owners),
    SUITE_CASE(FLAG_REENTRY, handles_with_the_same_owner),
    SUITE_CASE(FLAG_REENTRY, the_first_acquire_rules),
    SUITE_CASE(FLAG_REENTRY, entering_again_extends_a_fixed_lease),
};

SUITE_GROUP(suite_reentry, cases);
