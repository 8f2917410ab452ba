/* SPDX-License-Identifier: Apache-2.0 */
/* An operator takes the lock away: the holder learns it, and those who wait get it. */
#include "conformance/lib/actor.h"
#include "conformance/lib/tools.h"

/* A renewed hold finds out with its next renewal, a third of the lease away; by the end of its
 * lease every hold has. */
#define LEARN_MS (LEASE_MS + LATE_MS)

static void break_what_is_free(const struct suite *suite)
{
    pawl_lock *lock = open_thread_lock(open_client(suite), suite->name);
    EXPECT(PAWL_NOT_HELD, pawl_lock_break(lock));
    EXPECT(PAWL_OK, pawl_lock_acquire(lock, PAWL_TRY));
    EXPECT(PAWL_OK, pawl_lock_release(lock));
    EXPECT(PAWL_NOT_HELD, pawl_lock_break(lock));
    expect_free(suite, suite->name);
}

/* Break the hold of one client through another client, and see what its holder is told. */
static void check_break(const struct suite *suite, const pawl_lock_options *given)
{
    pawl_lock_options options = *given;
    struct recorder *recorder = recorder_new();
    record_events(&options, recorder);
    pawl_client *client = open_client(suite);
    pawl_lock *lock = open_lock(client, suite->name, &options);
    pawl_lock *breaker = open_thread_lock(open_client(suite), suite->name);
    EXPECT(PAWL_OK, pawl_lock_acquire(lock, PAWL_TRY));
    const uint64_t token = pawl_lock_token(lock);
    const int64_t broken_us = boottime_us();
    EXPECT(PAWL_OK, pawl_lock_break(breaker));
    EXPECT(PAWL_NOT_HELD, pawl_lock_break(breaker));
    EXPECT(PAWL_OK, pawl_lock_acquire(breaker, PAWL_TRY));
    assert_true(pawl_lock_token(breaker) > token);
    WAIT_UNTIL(recorder_count(recorder) > 0, LEARN_MS);
    suite_late("on_lost after a break", recorder_get(recorder, 0).at_us - broken_us);
    assert_int_equal(recorder_get(recorder, 0).kind, RECORD_LOST);
    assert_int_equal(recorder_get(recorder, 0).token, token);
    assert_int_equal(pawl_lock_token(lock), 0);
    assert_int_equal(pawl_lock_remaining_ms(lock), 0);
    EXPECT(PAWL_LOST, pawl_lock_release(lock));
    EXPECT(PAWL_NOT_HELD, pawl_lock_release(lock));
    expect_busy(suite, suite->name); /* the breaker's hold was not touched */
    EXPECT(PAWL_OK, pawl_lock_release(breaker));
    EXPECT(PAWL_OK, close_client(client));
    assert_int_equal(recorder_count(recorder), 1);
}

/* A short lease would be at risk before it is known to be lost, if the machine is busy. */
static void break_a_renewed_hold(const struct suite *suite)
{
    const pawl_lock_options options = renewed_options(RENEWED_MS);
    check_break(suite, &options);
}

static void break_a_fixed_hold(const struct suite *suite)
{
    const pawl_lock_options options = fixed_options(LEASE_MS);
    check_break(suite, &options);
}

/* The holder releases before it could have noticed. */
static void release_of_a_broken_hold(const struct suite *suite)
{
    struct recorder *recorder = recorder_new();
    pawl_lock_options options = renewed_options(LONG_MS);
    record_events(&options, recorder);
    pawl_lock *lock = open_lock(open_client(suite), suite->name, &options);
    pawl_lock *breaker = open_thread_lock(open_client(suite), suite->name);
    EXPECT(PAWL_OK, pawl_lock_acquire(lock, PAWL_TRY));
    EXPECT(PAWL_OK, pawl_lock_break(breaker));
    EXPECT(PAWL_LOST, pawl_lock_release(lock));
    EXPECT(PAWL_NOT_HELD, pawl_lock_release(lock));
    recorder_await(recorder, 1);
    EXPECT(PAWL_OK, pawl_lock_acquire(lock, PAWL_TRY));
    EXPECT(PAWL_OK, pawl_lock_release(lock));
    EXPECT(PAWL_OK, close_lock(lock));
    assert_int_equal(recorder_count(recorder), 1);
}

struct breach {
    pawl_lock *lock;
    pawl_lock *other;
    pawl_lock *breaker;
    struct actor *actor;
};

static int64_t break_once(void *arg)
{
    const struct breach *breach = arg;
    EXPECT(PAWL_OK, pawl_lock_acquire(breach->lock, PAWL_TRY));
    actor_acquire(breach->actor, breach->other, PAWL_FOREVER);
    actor_await_sleep(breach->actor);
    const int64_t broken_us = boottime_us();
    EXPECT(PAWL_OK, pawl_lock_break(breach->breaker));
    EXPECT(PAWL_OK, actor_answer(breach->actor));
    const int64_t took_us = actor_ended_us(breach->actor) - broken_us;
    EXPECT(PAWL_LOST, pawl_lock_release(breach->lock));
    EXPECT(PAWL_OK, actor_release_now(breach->actor, breach->other));
    return took_us;
}

static void break_lets_those_who_wait_in(const struct suite *suite)
{
    struct breach breach = {.lock = open_thread_lock(open_client(suite), suite->name)};
    breach.other = open_thread_lock(open_client(suite), suite->name);
    breach.breaker = open_thread_lock(open_client(suite), suite->name);
    breach.actor = actor_new();
    expect_quick("wake-up by a break", break_once, &breach);
}

static void break_lets_those_of_the_same_client_in(const struct suite *suite)
{
    pawl_client *client = open_client(suite);
    pawl_lock *lock = open_thread_lock(client, suite->name);
    pawl_lock *breaker = open_thread_lock(open_client(suite), suite->name);
    struct actor *actor = actor_new();
    const pawl_lock_options options = renewed_options(LEASE_MS);
    pawl_lock *holder = open_lock(client, suite->name, &options);
    EXPECT(PAWL_OK, pawl_lock_acquire(holder, PAWL_TRY));
    actor_acquire(actor, lock, PAWL_FOREVER);
    actor_await_sleep(actor);
    EXPECT(PAWL_OK, pawl_lock_break(breaker));
    EXPECT(PAWL_OK, actor_answer(actor));
    EXPECT(PAWL_LOST, pawl_lock_release(holder));
    EXPECT(PAWL_OK, actor_release_now(actor, lock));
}

static void break_what_the_caller_holds(const struct suite *suite)
{
    struct recorder *recorder = recorder_new();
    pawl_lock_options options = renewed_options(LONG_MS);
    record_events(&options, recorder);
    pawl_lock *lock = open_lock(open_client(suite), suite->name, &options);
    EXPECT(PAWL_OK, pawl_lock_acquire(lock, PAWL_TRY));
    EXPECT(PAWL_OK, pawl_lock_acquire(lock, PAWL_TRY));
    EXPECT(PAWL_OK, pawl_lock_break(lock));
    recorder_await(recorder, 1); /* this client knows it at once */
    assert_int_equal(pawl_lock_remaining_ms(lock), 0);
    expect_free(suite, suite->name);
    EXPECT(PAWL_LOST, pawl_lock_acquire(lock, PAWL_TRY));
    EXPECT(PAWL_LOST, pawl_lock_release(lock));
    EXPECT(PAWL_LOST, pawl_lock_release(lock));
    EXPECT(PAWL_NOT_HELD, pawl_lock_release(lock));
    EXPECT(PAWL_OK, pawl_lock_acquire(lock, PAWL_TRY));
    EXPECT(PAWL_OK, pawl_lock_release(lock));
}

static void break_again_and_again(const struct suite *suite)
{
    pawl_lock *breaker = open_thread_lock(open_client(suite), suite->name);
    pawl_client *client = open_client(suite);
    uint64_t token = 0;
    for (int i = 0; i < 20; i++) {
        pawl_lock *lock = open_handle_lock(client, suite->name);
        EXPECT(PAWL_OK, pawl_lock_acquire(lock, SOON_MS));
        assert_true(pawl_lock_token(lock) > token);
        token = pawl_lock_token(lock);
        EXPECT(PAWL_OK, pawl_lock_break(breaker));
        EXPECT(PAWL_LOST, pawl_lock_release(lock));
        EXPECT(PAWL_OK, close_lock(lock));
    }
    expect_free(suite, suite->name);
}

static const struct suite_case cases[] = {
    SUITE_CASE(FLAG_BREAK, break_what_is_free),
    SUITE_CASE(FLAG_BREAK, break_a_renewed_hold),
    SUITE_CASE(FLAG_BREAK, break_a_fixed_hold),
    SUITE_CASE(FLAG_BREAK, release_of_a_broken_hold),
    SUITE_CASE(FLAG_BREAK, break_lets_those_who_wait_in),
    SUITE_CASE(FLAG_BREAK, break_lets_those_of_the_same_client_in),
    SUITE_CASE(FLAG_BREAK, break_what_the_caller_holds),
    SUITE_CASE(FLAG_BREAK, break_again_and_again),
};

SUITE_GROUP(suite_break, cases);
