/* SPDX-License-Identifier: Apache-2.0 */
/* One at a time: acquiring, releasing, and who may release. */
#include "conformance/lib/actor.h"
#include "conformance/lib/tools.h"

#include <stdio.h>
#include <string.h>

#define THREADS_ONCE 200

static void acquire_and_release(const struct suite *suite)
{
    pawl_lock *lock = open_thread_lock(open_client(suite), suite->name);
    EXPECT(PAWL_OK, pawl_lock_acquire(lock, PAWL_TRY));
    assert_int_equal(pawl_lock_hold_count(lock), 1);
    assert_true(pawl_lock_remaining_ms(lock) > 0);
    assert_true(pawl_lock_token(lock) > 0);
    expect_busy(suite, suite->name);
    EXPECT(PAWL_OK, pawl_lock_release(lock));
    assert_int_equal(pawl_lock_hold_count(lock), 0);
    assert_int_equal(pawl_lock_remaining_ms(lock), 0);
    expect_free(suite, suite->name);
}

static void acquire_again_and_again(const struct suite *suite)
{
    pawl_lock *lock = open_thread_lock(open_client(suite), suite->name);
    for (int i = 0; i < 100; i++) {
        EXPECT(PAWL_OK, pawl_lock_acquire(lock, i % 2 == 0 ? PAWL_TRY : SOON_MS));
        EXPECT(PAWL_OK, pawl_lock_release(lock));
    }
    expect_free(suite, suite->name);
}

static void release_of_what_is_not_held(const struct suite *suite)
{
    pawl_lock *lock = open_thread_lock(open_client(suite), suite->name);
    EXPECT(PAWL_NOT_HELD, pawl_lock_release(lock));
    assert_true(strlen(pawl_last_error()) > 0);
    assert_int_equal(pawl_lock_hold_count(lock), 0);
    assert_int_equal(pawl_lock_token(lock), 0);
    assert_int_equal(pawl_lock_remaining_ms(lock), 0);
}

static void release_twice(const struct suite *suite)
{
    pawl_lock *lock = open_thread_lock(open_client(suite), suite->name);
    EXPECT(PAWL_OK, pawl_lock_acquire(lock, PAWL_TRY));
    EXPECT(PAWL_OK, pawl_lock_release(lock));
    EXPECT(PAWL_NOT_HELD, pawl_lock_release(lock));
    EXPECT(PAWL_OK, pawl_lock_acquire(lock, PAWL_TRY));
    EXPECT(PAWL_OK, pawl_lock_release(lock));
}

static void release_by_another_thread(const struct suite *suite)
{
    pawl_lock *lock = open_thread_lock(open_client(suite), suite->name);
    struct actor *stranger = actor_new();
    EXPECT(PAWL_OK, pawl_lock_acquire(lock, PAWL_TRY));
    EXPECT(PAWL_NOT_HELD, actor_release_now(stranger, lock));
    assert_int_equal(actor_token(stranger, lock), 0);
    assert_int_equal(actor_remaining_ms(stranger, lock), 0);
    assert_int_equal(pawl_lock_hold_count(lock), 1);
    expect_busy(suite, suite->name);
    EXPECT(PAWL_OK, pawl_lock_release(lock));
}

static void release_by_another_client(const struct suite *suite)
{
    pawl_lock *lock = open_thread_lock(open_client(suite), suite->name);
    pawl_lock *other = open_thread_lock(open_client(suite), suite->name);
    EXPECT(PAWL_OK, pawl_lock_acquire(lock, PAWL_TRY));
    EXPECT(PAWL_NOT_HELD, pawl_lock_release(other));
    EXPECT(PAWL_BUSY, pawl_lock_acquire(other, PAWL_TRY));
    EXPECT(PAWL_OK, pawl_lock_release(lock));
    EXPECT(PAWL_OK, pawl_lock_acquire(other, PAWL_TRY));
    EXPECT(PAWL_OK, pawl_lock_release(other));
}

/* A thread that comes after another is another owner, even if the system gives it the same id. */
static void release_by_a_later_thread(const struct suite *suite)
{
    const pawl_lock_options options = renewed_options(LONG_MS);
    pawl_lock *lock = open_lock(open_client(suite), suite->name, &options);
    struct actor *first = actor_new();
    EXPECT(PAWL_OK, actor_acquire_now(first, lock, PAWL_TRY));
    actor_end(first);
    for (int i = 0; i < 20; i++) {
        struct actor *later = actor_new();
        EXPECT(PAWL_NOT_HELD, actor_release_now(later, lock));
        actor_end(later);
    }
    EXPECT(PAWL_BUSY, pawl_lock_acquire(lock, PAWL_TRY));
    expect_busy(suite, suite->name);
}

static void handle_is_released_by_another_thread(const struct suite *suite)
{
    pawl_lock *lock = open_handle_lock(open_client(suite), suite->name);
    struct actor *acquirer = actor_new();
    struct actor *releaser = actor_new();
    EXPECT(PAWL_OK, actor_acquire_now(acquirer, lock, PAWL_TRY));
    assert_true(pawl_lock_token(lock) > 0);
    assert_int_equal(pawl_lock_hold_count(lock), 1);
    expect_busy(suite, suite->name);
    EXPECT(PAWL_OK, actor_release_now(releaser, lock));
    EXPECT(PAWL_NOT_HELD, actor_release_now(acquirer, lock));
    expect_free(suite, suite->name);
}

static void handle_outlives_its_thread(const struct suite *suite)
{
    pawl_lock_options options = handle_options();
    struct recorder *recorder = recorder_new();
    record_events(&options, recorder);
    pawl_lock *lock = open_lock(open_client(suite), suite->name, &options);
    struct actor *acquirer = actor_new();
    EXPECT(PAWL_OK, actor_acquire_now(acquirer, lock, PAWL_TRY));
    actor_end(acquirer);
    expect_busy(suite, suite->name);
    EXPECT(PAWL_OK, pawl_lock_release(lock));
    EXPECT(PAWL_OK, close_lock(lock));
    assert_int_equal(recorder_count(recorder), 0);
}

static void two_names_are_two_locks(const struct suite *suite)
{
    pawl_client *client = open_client(suite);
    pawl_lock *one = open_thread_lock(client, suite_name(suite, "one"));
    pawl_lock *two = open_thread_lock(client, suite_name(suite, "two"));
    struct actor *actor = actor_new();
    EXPECT(PAWL_OK, pawl_lock_acquire(one, PAWL_TRY));
    EXPECT(PAWL_OK, actor_acquire_now(actor, two, PAWL_TRY));
    EXPECT(PAWL_OK, pawl_lock_release(one));
    EXPECT(PAWL_OK, actor_release_now(actor, two));
}

static pawl_status ask_number(void *arg)
{
    uint64_t *number = arg;
    *number = pawl_owner_self();
    return pawl_owner_self() == *number ? PAWL_OK : PAWL_INVALID;
}

static void owner_numbers_are_never_used_again(const struct suite *suite)
{
    (void)suite;
    uint64_t numbers[THREADS_ONCE + 1] = {pawl_owner_self()};
    for (size_t i = 1; i <= THREADS_ONCE; i++) {
        struct actor *actor = actor_new();
        actor_call(actor, ask_number, &numbers[i]);
        EXPECT(PAWL_OK, actor_answer(actor));
        actor_end(actor);
        assert_true(numbers[i] != 0);
        for (size_t j = 0; j < i; j++) {
            assert_true(numbers[i] != numbers[j]);
        }
    }
    assert_int_equal(pawl_owner_self(), numbers[0]);
}

static void release_unawaited(const struct suite *suite)
{
    pawl_lock_options options = thread_options();
    struct recorder *recorder = recorder_new();
    options.release_unawaited = true;
    record_events(&options, recorder);
    pawl_lock *lock = open_lock(open_client(suite), suite->name, &options);
    pawl_lock *other = open_thread_lock(open_client(suite), suite->name);
    for (int i = 0; i < 20; i++) {
        EXPECT(PAWL_OK, pawl_lock_acquire(lock, SOON_MS));
        EXPECT(PAWL_OK, pawl_lock_release(lock));
        assert_int_equal(pawl_lock_hold_count(lock), 0);
        EXPECT(PAWL_OK, pawl_lock_acquire(other, SOON_MS));
        EXPECT(PAWL_OK, pawl_lock_release(other));
    }
    EXPECT(PAWL_OK, close_lock(lock));
    assert_int_equal(recorder_count(recorder), 0);
}

/* Nothing but its own release stands in its way. */
static void unawaited_and_tried_again(const struct suite *suite)
{
    pawl_lock_options options = thread_options();
    options.release_unawaited = true;
    pawl_lock *lock = open_lock(open_client(suite), suite->name, &options);
    for (int i = 0; i < 200; i++) {
        EXPECT(PAWL_OK, pawl_lock_acquire(lock, PAWL_TRY));
        EXPECT(PAWL_OK, pawl_lock_release(lock));
    }
    expect_free(suite, suite->name);
}

/* Nobody calls the client again, and it has nothing else to ask. */
static void a_loss_found_by_an_unawaited_release(const struct suite *suite)
{
    pawl_lock_options options = fixed_options(LONG_MS);
    struct recorder *recorder = recorder_new();
    options.release_unawaited = true;
    record_events(&options, recorder);
    pawl_lock *lock = open_lock(open_client(suite), suite->name, &options);
    pawl_lock *breaker = open_thread_lock(open_client(suite), suite->name);
    EXPECT(PAWL_OK, pawl_lock_acquire(lock, PAWL_TRY));
    EXPECT(PAWL_OK, pawl_lock_break(breaker));
    const pawl_status status = pawl_lock_release(lock);
    assert_true(status == PAWL_OK || status == PAWL_LOST); /* an engine may know before */
    recorder_await(recorder, 1);
    assert_int_equal(recorder_get(recorder, 0).kind, RECORD_LOST);
    EXPECT(PAWL_OK, pawl_lock_acquire(lock, PAWL_TRY));
    EXPECT(PAWL_OK, pawl_lock_release(lock));
    EXPECT(PAWL_OK, close_lock(lock));
    assert_int_equal(recorder_count(recorder), 1);
}

struct greedy {
    pawl_lock *lock;
    _Atomic bool enough;
};

static pawl_status take_again_and_again(void *arg)
{
    struct greedy *greedy = arg;
    pawl_status status = PAWL_OK;
    while (status == PAWL_OK && !atomic_load(&greedy->enough)) {
        status = pawl_lock_acquire(greedy->lock, SOON_MS);
        if (status == PAWL_OK) {
            status = pawl_lock_release(greedy->lock);
        }
    }
    return status;
}

/* One that asks again with the same message in which it lets go. */
static void unawaited_leaves_others_their_turn(const struct suite *suite)
{
    pawl_lock_options options = thread_options();
    options.release_unawaited = true;
    static struct greedy greedy; /* the clean-up still looks at it */
    greedy.lock = open_lock(open_client(suite), suite->name, &options);
    atomic_store(&greedy.enough, false);
    pawl_lock *other = open_thread_lock(open_client(suite), suite->name);
    struct actor *actor = actor_new();
    stop_at_end(&greedy.enough);
    actor_call(actor, take_again_and_again, &greedy);
    for (int i = 0; i < 20; i++) {
        EXPECT(PAWL_OK, pawl_lock_acquire(other, SOON_MS));
        EXPECT(PAWL_OK, pawl_lock_release(other));
    }
    atomic_store(&greedy.enough, true);
    EXPECT(PAWL_OK, actor_answer(actor));
}

static const struct suite_case cases[] = {
    SUITE_CASE(FLAG_MUTEX, acquire_and_release),
    SUITE_CASE(FLAG_MUTEX, acquire_again_and_again),
    SUITE_CASE(FLAG_MUTEX, release_of_what_is_not_held),
    SUITE_CASE(FLAG_MUTEX, release_twice),
    SUITE_CASE(FLAG_MUTEX, release_by_another_thread),
    SUITE_CASE(FLAG_MUTEX, release_by_another_client),
    SUITE_CASE(FLAG_MUTEX, release_by_a_later_thread),
    SUITE_CASE(FLAG_MUTEX, handle_is_released_by_another_thread),
    SUITE_CASE(FLAG_MUTEX, handle_outlives_its_thread),
    SUITE_CASE(FLAG_MUTEX, two_names_are_two_locks),
    SUITE_CASE(FLAG_MUTEX, owner_numbers_are_never_used_again),
    SUITE_CASE(FLAG_MUTEX, release_unawaited),
    SUITE_CASE(FLAG_MUTEX, unawaited_and_tried_again),
    SUITE_CASE(FLAG_MUTEX, a_loss_found_by_an_unawaited_release),
    SUITE_CASE(FLAG_MUTEX, unawaited_leaves_others_their_turn),
};

SUITE_GROUP(suite_mutex, cases);
