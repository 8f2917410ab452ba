/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting for a lock: how long, and how soon it is over when the lock is free. */
#include "conformance/lib/actor.h"
#include "conformance/lib/tools.h"

#include <stdio.h>
#include <string.h>

/* Acquire and measure. */
static pawl_status timed(pawl_lock *lock, int64_t wait_ms, int64_t *took_ms)
{
    const int64_t start_us = boottime_us();
    const pawl_status status = pawl_lock_acquire(lock, wait_ms);
    *took_ms = (boottime_us() - start_us) / 1000;
    return status;
}

/* What waits: a lock of the holder's own client, or of another. */
static pawl_lock *open_rival(const struct suite *suite, pawl_client *client, bool own_client)
{
    return open_handle_lock(own_client ? client : open_client(suite), suite->name);
}

static void check_try(const struct suite *suite, bool own_client)
{
    pawl_client *client = open_client(suite);
    pawl_lock *holder = open_handle_lock(client, suite->name);
    pawl_lock *rival = open_rival(suite, client, own_client);
    int64_t took_ms = 0;
    EXPECT(PAWL_OK, pawl_lock_acquire(holder, PAWL_TRY));
    EXPECT(PAWL_BUSY, timed(rival, PAWL_TRY, &took_ms));
    assert_non_null(strstr(pawl_last_error(), suite->name));
    assert_true(took_ms <= LATE_MS);
    assert_int_equal(pawl_lock_hold_count(rival), 0);
    EXPECT(PAWL_OK, pawl_lock_release(holder));
    EXPECT(PAWL_OK, pawl_lock_acquire(rival, PAWL_TRY));
}

static void try_is_busy(const struct suite *suite)
{
    check_try(suite, false);
}

static void try_is_busy_in_the_same_client(const struct suite *suite)
{
    check_try(suite, true);
}

static void check_timed_busy(const struct suite *suite, bool own_client)
{
    pawl_client *client = open_client(suite);
    pawl_lock *holder = open_handle_lock(client, suite->name);
    pawl_lock *rival = open_rival(suite, client, own_client);
    int64_t took_ms = 0;
    EXPECT(PAWL_OK, pawl_lock_acquire(holder, PAWL_TRY));
    EXPECT(PAWL_BUSY, timed(rival, LEASE_MS, &took_ms));
    suite_late("end of a timed wait", (took_ms - LEASE_MS) * 1000);
    assert_true(took_ms >= LEASE_MS - 1);
    assert_true(took_ms <= LEASE_MS + LATE_MS);
    EXPECT(PAWL_OK, pawl_lock_release(holder));
    expect_free(suite, suite->name);
}

static void timed_wait_ends_in_time(const struct suite *suite)
{
    check_timed_busy(suite, false);
}

static void timed_wait_ends_in_time_in_the_same_client(const struct suite *suite)
{
    check_timed_busy(suite, true);
}

static void wait_of_a_millisecond(const struct suite *suite)
{
    pawl_lock *holder = open_thread_lock(open_client(suite), suite->name);
    pawl_lock *rival = open_thread_lock(open_client(suite), suite->name);
    int64_t took_ms = 0;
    EXPECT(PAWL_OK, pawl_lock_acquire(rival, 1));
    EXPECT(PAWL_OK, pawl_lock_release(rival));
    EXPECT(PAWL_OK, pawl_lock_acquire(holder, 1));
    EXPECT(PAWL_BUSY, timed(rival, 1, &took_ms));
    assert_true(took_ms <= LATE_MS);
}

/* Somebody waits, the holder releases, and the wait is over at once. */
struct wake {
    pawl_lock *holder;
    pawl_lock *rival;
    struct actor *actor;
    int64_t wait_ms;
};

static int64_t wake_once(void *arg)
{
    const struct wake *wake = arg;
    EXPECT(PAWL_OK, pawl_lock_acquire(wake->holder, PAWL_TRY));
    actor_acquire(wake->actor, wake->rival, wake->wait_ms);
    actor_await_sleep(wake->actor);
    const int64_t released_us = boottime_us();
    EXPECT(PAWL_OK, pawl_lock_release(wake->holder));
    EXPECT(PAWL_OK, actor_answer(wake->actor));
    EXPECT(PAWL_BUSY, pawl_lock_acquire(wake->holder, PAWL_TRY));
    EXPECT(PAWL_OK, pawl_lock_release(wake->rival));
    return actor_ended_us(wake->actor) - released_us;
}

static void check_wake(const struct suite *suite, bool own_client, int64_t wait_ms)
{
    pawl_client *client = open_client(suite);
    struct wake wake = {.holder = open_handle_lock(client, suite->name), .wait_ms = wait_ms};
    wake.rival = open_rival(suite, client, own_client);
    wake.actor = actor_new();
    expect_quick(own_client ? "wake-up in the same client" : "wake-up", wake_once, &wake);
}

static void timed_wait_gets_it(const struct suite *suite)
{
    check_wake(suite, false, LONG_MS);
}

static void timed_wait_gets_it_in_the_same_client(const struct suite *suite)
{
    check_wake(suite, true, LONG_MS);
}

static void wait_forever_gets_it(const struct suite *suite)
{
    check_wake(suite, false, PAWL_FOREVER);
}

static void wait_forever_gets_it_in_the_same_client(const struct suite *suite)
{
    check_wake(suite, true, PAWL_FOREVER);
}

static void wait_forever_for_what_is_free(const struct suite *suite)
{
    pawl_lock *lock = open_thread_lock(open_client(suite), suite->name);
    int64_t took_ms = 0;
    EXPECT(PAWL_OK, timed(lock, PAWL_FOREVER, &took_ms));
    assert_true(took_ms <= LATE_MS);
}

#define WAITERS 4

/* One who got it and has not had it before; WAITERS: nobody yet. */
static size_t find_next(struct actor *const actors[], const bool had_it[])
{
    for (size_t i = 0; i < WAITERS; i++) {
        if (!had_it[i] && actor_is_done(actors[i])) {
            return i;
        }
    }
    return WAITERS;
}

static void every_waiting_client_gets_it(const struct suite *suite)
{
    pawl_lock *holder = open_thread_lock(open_client(suite), suite->name);
    pawl_lock *locks[WAITERS];
    struct actor *actors[WAITERS];
    EXPECT(PAWL_OK, pawl_lock_acquire(holder, PAWL_TRY));
    for (size_t i = 0; i < WAITERS; i++) {
        locks[i] = open_handle_lock(open_client(suite), suite->name);
        actors[i] = actor_new();
        actor_acquire(actors[i], locks[i], PAWL_FOREVER);
        actor_await_sleep(actors[i]);
    }
    EXPECT(PAWL_OK, pawl_lock_release(holder));
    bool had_it[WAITERS] = {false};
    for (size_t turn = 0; turn < WAITERS; turn++) {
        size_t next = WAITERS;
        WAIT_UNTIL((next = find_next(actors, had_it)) < WAITERS, SOON_MS);
        had_it[next] = true;
        assert_int_equal(find_next(actors, had_it), WAITERS);
        EXPECT(PAWL_OK, actor_answer(actors[next]));
        EXPECT(PAWL_OK, pawl_lock_release(locks[next]));
    }
    expect_free(suite, suite->name);
}

/* The holder dies with its lease; whoever waits notices by itself, since nobody tells it. */
static void wait_outlasts_a_lease(const struct suite *suite)
{
    const pawl_lock_options options = fixed_options(LEASE_MS);
    pawl_lock *holder = open_lock(open_client(suite), suite->name, &options);
    pawl_lock *rival = open_thread_lock(open_client(suite), suite->name);
    int64_t took_ms = 0;
    const int64_t start_us = boottime_us();
    EXPECT(PAWL_OK, pawl_lock_acquire(holder, PAWL_TRY));
    EXPECT(PAWL_OK, timed(rival, LONG_MS, &took_ms));
    const int64_t after_us = boottime_us() - start_us;
    suite_late("wake-up at the end of a lease", after_us - LEASE_MS * 1000);
    assert_true(after_us >= lease_least_ms(LEASE_MS) * 1000);
    assert_true(after_us <= (LEASE_MS + LATE_MS) * 1000);
    EXPECT(PAWL_LOST, pawl_lock_release(holder));
    EXPECT(PAWL_OK, pawl_lock_release(rival));
}

static void waits_that_make_no_sense(const struct suite *suite)
{
    static const int64_t waits_ms[] = {-2, INT64_MIN, INT64_MAX, INT64_MAX / 1000};
    pawl_lock *lock = open_thread_lock(open_client(suite), suite->name);
    for (size_t i = 0; i < sizeof waits_ms / sizeof waits_ms[0]; i++) {
        EXPECT(PAWL_INVALID, pawl_lock_acquire(lock, waits_ms[i]));
        assert_int_equal(pawl_lock_hold_count(lock), 0);
    }
    expect_free(suite, suite->name);
}

static const struct suite_case cases[] = {
    SUITE_CASE(FLAG_WAIT, try_is_busy),
    SUITE_CASE(FLAG_WAIT, try_is_busy_in_the_same_client),
    SUITE_CASE(FLAG_WAIT, timed_wait_ends_in_time),
    SUITE_CASE(FLAG_WAIT, timed_wait_ends_in_time_in_the_same_client),
    SUITE_CASE(FLAG_WAIT, wait_of_a_millisecond),
    SUITE_CASE(FLAG_WAIT, timed_wait_gets_it),
    SUITE_CASE(FLAG_WAIT, timed_wait_gets_it_in_the_same_client),
    SUITE_CASE(FLAG_WAIT, wait_forever_gets_it),
    SUITE_CASE(FLAG_WAIT, wait_forever_gets_it_in_the_same_client),
    SUITE_CASE(FLAG_WAIT, wait_forever_for_what_is_free),
    SUITE_CASE(FLAG_WAIT, every_waiting_client_gets_it),
    SUITE_CASE(FLAG_WAIT, wait_outlasts_a_lease),
    SUITE_CASE(FLAG_WAIT, waits_that_make_no_sense),
};

SUITE_GROUP(suite_wait, cases);
