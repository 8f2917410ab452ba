/* SPDX-License-Identifier: Apache-2.0 */
/* What the backend shows of a lock. */
#include "conformance/lib/actor.h"
#include "conformance/lib/tools.h"

#include <string.h>

static pawl_lock_info inspect(pawl_lock *lock)
{
    pawl_lock_info info;
    memset(&info, 0xa5, sizeof info);
    info.size = sizeof info;
    EXPECT(PAWL_OK, pawl_lock_inspect(lock, &info));
    assert_int_equal(info.size, sizeof info);
    assert_non_null(memchr(info.holder, '\0', sizeof info.holder));
    return info;
}

static void check_free(pawl_lock *lock)
{
    const pawl_lock_info info = inspect(lock);
    assert_false(info.held);
    assert_false(info.held_by_caller);
    assert_int_equal(info.hold_count, 0);
    assert_string_equal(info.holder, "");
}

static void inspect_what_is_free(const struct suite *suite)
{
    pawl_lock *lock = open_thread_lock(open_client(suite), suite->name);
    check_free(lock);
    EXPECT(PAWL_OK, pawl_lock_acquire(lock, PAWL_TRY));
    const uint64_t token = pawl_lock_token(lock);
    EXPECT(PAWL_OK, pawl_lock_release(lock));
    check_free(lock);
    const pawl_lock_info info = inspect(lock);
    assert_true(info.token == token || info.token == 0);
    expect_free(suite, suite->name); /* looking has changed nothing */
}

static void inspect_what_is_held(const struct suite *suite)
{
    pawl_lock *lock = open_thread_lock(open_client(suite), suite->name);
    pawl_lock *other = open_thread_lock(open_client(suite), suite->name);
    struct actor *actor = actor_new();
    EXPECT(PAWL_OK, pawl_lock_acquire(lock, PAWL_TRY));
    const pawl_lock_info mine = inspect(lock);
    assert_true(mine.held);
    assert_true(mine.held_by_caller);
    assert_int_equal(mine.hold_count, 1);
    assert_int_equal(mine.token, pawl_lock_token(lock));
    assert_true(strlen(mine.holder) > 0);
    const pawl_lock_info theirs = inspect(other);
    assert_true(theirs.held);
    assert_false(theirs.held_by_caller);
    assert_int_equal(theirs.hold_count, 1);
    assert_int_equal(theirs.token, mine.token);
    assert_string_equal(theirs.holder, mine.holder);
    EXPECT(PAWL_OK, pawl_lock_release(lock));
    EXPECT(PAWL_OK, actor_acquire_now(actor, lock, PAWL_TRY));
    const pawl_lock_info after = inspect(lock); /* another thread holds it, through this handle */
    assert_true(after.held);
    assert_false(after.held_by_caller);
    EXPECT(PAWL_OK, actor_release_now(actor, lock));
}

static void inspect_by_the_owner_of_a_handle(const struct suite *suite)
{
    pawl_client *client = open_client(suite);
    pawl_lock *lock = open_handle_lock(client, suite->name);
    pawl_lock *thread = open_thread_lock(client, suite->name);
    EXPECT(PAWL_OK, pawl_lock_acquire(lock, PAWL_TRY));
    assert_true(inspect(lock).held_by_caller);
    assert_false(inspect(thread).held_by_caller);
    assert_true(inspect(thread).held);
    EXPECT(PAWL_OK, pawl_lock_release(lock));
}

/* The count is shown to people who look, and nobody waits for that. */
static void inspect_shows_the_hold_count(const struct suite *suite)
{
    pawl_lock *lock = open_thread_lock(open_client(suite), suite->name);
    pawl_lock *other = open_thread_lock(open_client(suite), suite->name);
    for (int i = 0; i < 4; i++) {
        EXPECT(PAWL_OK, pawl_lock_acquire(lock, PAWL_TRY));
    }
    WAIT_UNTIL(inspect(other).hold_count == 4, SOON_MS);
    EXPECT(PAWL_OK, pawl_lock_release(lock));
    EXPECT(PAWL_OK, pawl_lock_release(lock));
    WAIT_UNTIL(inspect(other).hold_count == 2, SOON_MS);
    EXPECT(PAWL_OK, pawl_lock_release(lock));
    WAIT_UNTIL(inspect(other).hold_count == 1, SOON_MS);
    EXPECT(PAWL_OK, pawl_lock_release(lock));
    check_free(other);
}

static void inspect_shows_a_holder_for_each_tenure(const struct suite *suite)
{
    pawl_lock *lock = open_thread_lock(open_client(suite), suite->name);
    char holders[5][sizeof((pawl_lock_info *)NULL)->holder];
    for (size_t i = 0; i < 5; i++) {
        EXPECT(PAWL_OK, pawl_lock_acquire(lock, PAWL_TRY));
        const pawl_lock_info info = inspect(lock);
        memcpy(holders[i], info.holder, sizeof holders[i]);
        EXPECT(PAWL_OK, pawl_lock_acquire(lock, PAWL_TRY));
        assert_string_equal(inspect(lock).holder, holders[i]); /* entering again is no new tenure */
        EXPECT(PAWL_OK, pawl_lock_release(lock));
        EXPECT(PAWL_OK, pawl_lock_release(lock));
        for (size_t j = 0; j < i; j++) {
            assert_string_not_equal(holders[i], holders[j]);
        }
    }
}

static void inspect_after_the_loss(const struct suite *suite)
{
    const pawl_lock_options options = fixed_options(LEASE_MS);
    pawl_lock *lock = open_lock(open_client(suite), suite->name, &options);
    pawl_lock *other = open_thread_lock(open_client(suite), suite->name);
    EXPECT(PAWL_OK, pawl_lock_acquire(lock, PAWL_TRY));
    await_loss(lock, LEASE_MS + LATE_MS);
    WAIT_UNTIL(!inspect(lock).held, LATE_MS);
    assert_false(inspect(lock).held_by_caller);
    EXPECT(PAWL_OK, pawl_lock_acquire(other, LATE_MS));
    assert_true(inspect(lock).held);
    assert_false(inspect(lock).held_by_caller);
    EXPECT(PAWL_LOST, pawl_lock_release(lock));
    EXPECT(PAWL_OK, pawl_lock_release(other));
}

/* ===== What remains ===== */

static void check_remaining(const struct suite *suite, bool enforced)
{
    const pawl_lock_options options = fixed_options(LONG_MS);
    pawl_lock *lock = open_lock(open_client(suite), suite->name, &options);
    pawl_lock *other = open_thread_lock(open_client(suite), suite->name);
    EXPECT(PAWL_OK, pawl_lock_acquire(lock, PAWL_TRY));
    const pawl_lock_info info = inspect(other);
    if (enforced) {
        assert_true(info.remaining_ms > LONG_MS - SOON_MS && info.remaining_ms <= LONG_MS);
        EXPECT(PAWL_OK, pawl_lock_extend(lock, 2 * LONG_MS));
        assert_true(inspect(other).remaining_ms > LONG_MS);
    } else {
        assert_int_equal(info.remaining_ms, -1);
    }
    EXPECT(PAWL_OK, pawl_lock_release(lock));
}

static void inspect_shows_the_end_of_the_lease(const struct suite *suite)
{
    check_remaining(suite, true);
}

static void inspect_shows_that_there_is_no_end(const struct suite *suite)
{
    check_remaining(suite, false);
}

/* ===== Sizes ===== */

static void inspect_into_a_smaller_struct(const struct suite *suite)
{
    pawl_lock *lock = open_thread_lock(open_client(suite), suite->name);
    EXPECT(PAWL_OK, pawl_lock_acquire(lock, PAWL_TRY));
    pawl_lock_info info;
    memset(&info, 0xa5, sizeof info);
    info.size = offsetof(pawl_lock_info, hold_count);
    EXPECT(PAWL_OK, pawl_lock_inspect(lock, &info));
    assert_true(info.held && info.held_by_caller);
    assert_int_equal(info.hold_count, 0xa5a5a5a5u);
    for (size_t i = 0; i < sizeof info.holder; i++) {
        assert_int_equal((unsigned char)info.holder[i], 0xa5);
    }
    EXPECT(PAWL_OK, pawl_lock_release(lock));
}

static void inspect_into_a_larger_struct(const struct suite *suite)
{
    pawl_lock *lock = open_thread_lock(open_client(suite), suite->name);
    struct {
        pawl_lock_info info;
        unsigned char tail[64];
    } larger;
    memset(&larger, 0xa5, sizeof larger);
    larger.info.size = sizeof larger;
    EXPECT(PAWL_OK, pawl_lock_inspect(lock, &larger.info));
    assert_int_equal(larger.info.size, sizeof larger);
    for (size_t i = 0; i < sizeof larger.tail; i++) {
        assert_int_equal(larger.tail[i], 0); /* what this library does not know is empty */
    }
}

static void inspect_into_nothing(const struct suite *suite)
{
    pawl_lock *lock = open_thread_lock(open_client(suite), suite->name);
    pawl_lock_info info = {.size = 0};
    EXPECT(PAWL_INVALID, pawl_lock_inspect(lock, NULL));
    EXPECT(PAWL_INVALID, pawl_lock_inspect(lock, &info));
    info.size = 1;
    EXPECT(PAWL_INVALID, pawl_lock_inspect(lock, &info));
}

/* Who reads or writes is the holder, also beside others. */
static void inspect_readers_and_a_writer(const struct suite *suite)
{
    const pawl_lock_options reading = kinded(thread_options(), PAWL_READ);
    const pawl_lock_options writing = kinded(thread_options(), PAWL_WRITE);
    pawl_lock_info info = {.size = sizeof info};
    pawl_lock *readers[3];
    pawl_client *client = NULL;
    for (int i = 0; i < 3; i++) {
        client = open_client(suite);
        readers[i] = open_lock(client, suite->name, &reading);
        EXPECT(PAWL_OK, pawl_lock_acquire(readers[i], PAWL_TRY));
    }
    pawl_lock *writer = open_lock(client, suite->name, &writing);
    for (int i = 0; i < 3; i++) {
        EXPECT(PAWL_OK, pawl_lock_inspect(readers[i], &info));
        assert_true(info.held && info.held_by_caller);
    }
    for (int i = 0; i < 3; i++) {
        EXPECT(PAWL_OK, pawl_lock_release(readers[i]));
        EXPECT(PAWL_OK, pawl_lock_inspect(readers[i], &info));
        assert_false(info.held_by_caller);
    }
    assert_false(info.held);
    EXPECT(PAWL_OK, pawl_lock_acquire(writer, PAWL_TRY));
    EXPECT(PAWL_OK, pawl_lock_inspect(readers[0], &info));
    assert_true(info.held && !info.held_by_caller);
    EXPECT(PAWL_OK, pawl_lock_inspect(writer, &info));
    assert_true(info.held_by_caller);
    EXPECT(PAWL_OK, pawl_lock_release(writer));
}

static void there_are_no_readers(const struct suite *suite)
{
    expect_kind_refused(suite, PAWL_READ);
}

static const struct suite_case cases[] = {
    SUITE_EITHER(FLAG_READ_WRITE, inspect_readers_and_a_writer, there_are_no_readers),
    SUITE_CASE(FLAG_INSPECT, inspect_what_is_free),
    SUITE_CASE(FLAG_INSPECT, inspect_what_is_held),
    SUITE_CASE(FLAG_INSPECT, inspect_by_the_owner_of_a_handle),
    SUITE_CASE(FLAG_INSPECT, inspect_shows_the_hold_count),
    SUITE_CASE(FLAG_INSPECT, inspect_shows_a_holder_for_each_tenure),
    SUITE_CASE(FLAG_INSPECT, inspect_after_the_loss),
    SUITE_CASE(FLAG_INSPECT, inspect_into_a_smaller_struct),
    SUITE_CASE(FLAG_INSPECT, inspect_into_a_larger_struct),
    SUITE_CASE(FLAG_INSPECT, inspect_into_nothing),
    SUITE_EITHER(
        FLAG_EXPIRES, inspect_shows_the_end_of_the_lease, inspect_shows_that_there_is_no_end),
};

SUITE_GROUP(suite_inspect, cases);
