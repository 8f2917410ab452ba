/* SPDX-License-Identifier: Apache-2.0 */
/* Closing locks and clients: what ends, what is released, in which order it may be done. */
#include "conformance/lib/actor.h"
#include "conformance/lib/tools.h"

#include "support/resources.h"

static void close_of_nothing(const struct suite *suite)
{
    (void)suite;
    EXPECT(PAWL_OK, pawl_lock_close(NULL));
    EXPECT(PAWL_OK, pawl_client_close(NULL));
}

static void close_of_the_lock_releases(const struct suite *suite)
{
    pawl_client *client = open_client(suite);
    struct recorder *recorder = recorder_new();
    pawl_lock_options options = thread_options();
    record_events(&options, recorder);
    pawl_lock *lock = open_lock(client, suite->name, &options);
    for (int i = 0; i < 3; i++) {
        EXPECT(PAWL_OK, pawl_lock_acquire(lock, PAWL_TRY));
    }
    EXPECT(PAWL_OK, close_lock(lock));
    expect_free(suite, suite->name);
    EXPECT(PAWL_OK, close_client(client));
    assert_int_equal(recorder_count(recorder), 0);
}

struct farewell {
    pawl_client *client;
    const char *name;
    pawl_lock *rival;
    struct actor *actor;
};

static int64_t close_once(void *arg)
{
    const struct farewell *farewell = arg;
    pawl_lock *lock = open_thread_lock(farewell->client, farewell->name);
    EXPECT(PAWL_OK, pawl_lock_acquire(lock, SOON_MS));
    actor_acquire(farewell->actor, farewell->rival, PAWL_FOREVER);
    actor_await_sleep(farewell->actor);
    const int64_t closed_us = boottime_us();
    EXPECT(PAWL_OK, close_lock(lock));
    EXPECT(PAWL_OK, actor_answer(farewell->actor));
    const int64_t took_us = actor_ended_us(farewell->actor) - closed_us;
    EXPECT(PAWL_OK, actor_release_now(farewell->actor, farewell->rival));
    return took_us;
}

static void close_of_the_lock_wakes_those_who_wait(const struct suite *suite)
{
    struct farewell farewell = {.client = open_client(suite), .name = suite->name};
    pawl_lock *near = open_thread_lock(farewell.client, suite->name);
    pawl_lock *far = open_thread_lock(open_client(suite), suite->name);
    farewell.actor = actor_new();
    farewell.rival = near;
    expect_quick("wake-up by a close, in the same client", close_once, &farewell);
    farewell.rival = far;
    expect_quick("wake-up by a close", close_once, &farewell);
}

/* A hold belongs to its owner; a handle gives back what came through it. */
static void close_of_the_lock_releases_its_part_alone(const struct suite *suite)
{
    pawl_client *client = open_client(suite);
    pawl_lock *one = open_thread_lock(client, suite->name);
    pawl_lock *two = open_thread_lock(client, suite->name);
    pawl_lock *unused = open_thread_lock(client, suite->name);
    EXPECT(PAWL_OK, pawl_lock_acquire(one, PAWL_TRY));
    EXPECT(PAWL_OK, pawl_lock_acquire(two, PAWL_TRY));
    EXPECT(PAWL_OK, pawl_lock_acquire(two, PAWL_TRY));
    EXPECT(PAWL_OK, close_lock(unused));
    assert_int_equal(pawl_lock_hold_count(one), 3);
    EXPECT(PAWL_OK, close_lock(two));
    assert_int_equal(pawl_lock_hold_count(one), 1);
    expect_busy(suite, suite->name);
    EXPECT(PAWL_OK, pawl_lock_release(one));
    expect_free(suite, suite->name);
}

/* The handle that the hold was first acquired through goes, the hold stays. */
static void close_of_the_first_handle_keeps_the_hold(const struct suite *suite)
{
    pawl_client *client = open_client(suite);
    const pawl_lock_options options = renewed_options(RENEWED_MS);
    pawl_lock *one = open_lock(client, suite->name, &options);
    pawl_lock *two = open_lock(client, suite->name, &options);
    EXPECT(PAWL_OK, pawl_lock_acquire(one, PAWL_TRY));
    EXPECT(PAWL_OK, pawl_lock_acquire(two, PAWL_TRY));
    const uint64_t token = pawl_lock_token(two);
    EXPECT(PAWL_OK, close_lock(one));
    const int64_t end_ms = boottime_ms() + RENEWED_MS + RENEWED_MS / 4;
    while (boottime_ms() < end_ms) {
        assert_int_equal(pawl_lock_token(two), token);
        nap_ms(1);
    }
    expect_busy(suite, suite->name);
    EXPECT(PAWL_OK, pawl_lock_release(two));
    expect_free(suite, suite->name);
}

static void close_of_the_lock_by_another_thread(const struct suite *suite)
{
    pawl_lock *lock = open_thread_lock(open_client(suite), suite->name);
    struct actor *actor = actor_new();
    EXPECT(PAWL_OK, actor_acquire_now(actor, lock, PAWL_TRY));
    EXPECT(PAWL_OK, close_lock(lock));
    expect_free(suite, suite->name);
    actor_end(actor);
    expect_free(suite, suite->name);
}

static void close_of_the_lock_ends_its_waits(const struct suite *suite)
{
    pawl_lock *holder = open_thread_lock(open_client(suite), suite->name);
    pawl_client *client = open_client(suite);
    pawl_lock *lock = open_thread_lock(client, suite->name);
    pawl_lock *spared = open_thread_lock(client, suite->name);
    struct actor *actor = actor_new();
    struct actor *other = actor_new();
    EXPECT(PAWL_OK, pawl_lock_acquire(holder, PAWL_TRY));
    actor_acquire(actor, lock, PAWL_FOREVER);
    actor_await_sleep(actor);
    actor_acquire(other, spared, PAWL_FOREVER);
    actor_await_sleep(other);
    EXPECT(PAWL_OK, close_lock(lock));
    EXPECT(PAWL_CANCELED, actor_answer(actor));
    actor_await_sleep(other);
    EXPECT(PAWL_OK, pawl_lock_release(holder));
    EXPECT(PAWL_OK, actor_answer(other));
    EXPECT(PAWL_OK, actor_release_now(other, spared));
}

static void no_event_after_the_lock_is_closed(const struct suite *suite)
{
    pawl_client *client = open_client(suite);
    struct recorder *recorder = recorder_new();
    pawl_lock_options options = fixed_options(LEASE_MS);
    record_events(&options, recorder);
    pawl_lock *lock = open_lock(client, suite->name, &options);
    pawl_lock *second = open_lock(client, suite->name, NULL);
    EXPECT(PAWL_OK, pawl_lock_acquire(lock, PAWL_TRY));
    EXPECT(PAWL_OK, pawl_lock_acquire(second, PAWL_TRY)); /* keeps the hold, whose handle goes */
    EXPECT(PAWL_OK, close_lock(lock));
    await_loss(second, LEASE_MS + LATE_MS);
    EXPECT(PAWL_LOST, pawl_lock_release(second));
    EXPECT(PAWL_OK, close_lock(second));
    EXPECT(PAWL_OK, close_client(client));
    assert_int_equal(recorder_count(recorder), 0);
}

/* ===== Clients ===== */

static void close_of_the_client_releases(const struct suite *suite)
{
    pawl_client *client = open_client(suite);
    const pawl_lock_options fixed = fixed_options(LONG_MS);
    const char *name = suite_name(suite, "second");
    pawl_lock *first = open_thread_lock(client, suite->name);
    pawl_lock *second = open_lock(client, name, &fixed);
    EXPECT(PAWL_OK, pawl_lock_acquire(first, PAWL_TRY));
    EXPECT(PAWL_OK, pawl_lock_acquire(first, PAWL_TRY));
    EXPECT(PAWL_OK, pawl_lock_acquire(second, PAWL_TRY));
    EXPECT(PAWL_OK, close_client(client));
    expect_free(suite, suite->name);
    expect_free(suite, name);
    EXPECT(PAWL_OK, close_lock(first));
    EXPECT(PAWL_OK, close_lock(second));
}

static void locks_of_a_closed_client(const struct suite *suite)
{
    pawl_client *client = open_client(suite);
    pawl_lock *lock = open_thread_lock(client, suite->name);
    pawl_lock_info info = {.size = sizeof info};
    EXPECT(PAWL_OK, pawl_lock_acquire(lock, PAWL_TRY));
    EXPECT(PAWL_OK, close_client(client));
    EXPECT(PAWL_MISUSE, pawl_lock_acquire(lock, PAWL_TRY));
    EXPECT(PAWL_MISUSE, pawl_lock_acquire(lock, PAWL_FOREVER));
    EXPECT(PAWL_MISUSE, pawl_lock_release(lock));
    EXPECT(PAWL_MISUSE, pawl_lock_extend(lock, 1000));
    EXPECT(PAWL_MISUSE, pawl_lock_inspect(lock, &info));
    EXPECT(PAWL_MISUSE, pawl_lock_break(lock));
    assert_int_equal(pawl_lock_token(lock), 0);
    assert_int_equal(pawl_lock_remaining_ms(lock), 0);
    assert_int_equal(pawl_lock_hold_count(lock), 0);
    pawl_lock_cancel(lock);
    EXPECT(PAWL_OK, close_lock(lock));
}

static void close_of_the_client_ends_waits(const struct suite *suite)
{
    pawl_lock *holder = open_thread_lock(open_client(suite), suite->name);
    pawl_client *client = open_client(suite);
    pawl_lock *locks[3];
    struct actor *actors[3];
    EXPECT(PAWL_OK, pawl_lock_acquire(holder, PAWL_TRY));
    for (size_t i = 0; i < 3; i++) {
        locks[i] = open_thread_lock(client, suite->name);
        actors[i] = actor_new();
        actor_acquire(actors[i], locks[i], i == 0 ? LONG_MS : PAWL_FOREVER);
        actor_await_sleep(actors[i]);
    }
    const int64_t start_us = boottime_us();
    EXPECT(PAWL_OK, close_client(client));
    const int64_t took_us = boottime_us() - start_us;
    suite_late("close of a client that is waited in", took_us);
    assert_true(took_us <= (1000 + LATE_MS) * 1000); /* the timeout, by default a second */
    for (size_t i = 0; i < 3; i++) {
        EXPECT(PAWL_CANCELED, actor_answer(actors[i]));
        EXPECT(PAWL_OK, close_lock(locks[i]));
    }
    EXPECT(PAWL_OK, pawl_lock_release(holder));
    expect_free(suite, suite->name);
}

static void close_of_the_client_with_a_lost_hold(const struct suite *suite)
{
    pawl_client *client = open_client(suite);
    struct recorder *recorder = recorder_new();
    pawl_lock_options options = fixed_options(LEASE_MS);
    record_events(&options, recorder);
    pawl_lock *lock = open_lock(client, suite->name, &options);
    EXPECT(PAWL_OK, pawl_lock_acquire(lock, PAWL_TRY));
    await_loss(lock, LEASE_MS + LATE_MS);
    EXPECT(PAWL_OK, close_client(client));
    assert_int_equal(recorder_count(recorder), 1); /* it was due */
    EXPECT(PAWL_OK, close_lock(lock));
}

static void clients_leave_nothing_behind(const struct suite *suite)
{
    expect_free(suite, suite->name); /* whatever is made once is made now */
    const size_t descriptors = open_descriptor_count();
    const size_t threads = thread_count();
    for (int i = 0; i < 20; i++) {
        pawl_client *client = open_client(suite);
        pawl_lock *lock = open_handle_lock(client, suite->name);
        struct recorder *recorder = recorder_new();
        EXPECT(PAWL_OK, pawl_lock_acquire_async(lock, SOON_MS, record_done, recorder));
        recorder_await(recorder, 1);
        if (i % 2 == 0) {
            EXPECT(PAWL_OK, close_lock(lock));
            EXPECT(PAWL_OK, close_client(client));
        } else {
            EXPECT(PAWL_OK, close_client(client));
            EXPECT(PAWL_OK, close_lock(lock));
        }
    }
    assert_int_equal(open_descriptor_count(), descriptors);
    WAIT_UNTIL(thread_count() <= threads, SOON_MS);
}

/* Closing while threads come and go: each of their calls has an answer. */
struct visitor {
    pawl_lock *lock;
};

static pawl_status visit(void *arg)
{
    struct visitor *visitor = arg;
    pawl_status status = PAWL_OK;
    while (status == PAWL_OK || status == PAWL_NOT_HELD || status == PAWL_LOST) {
        status = pawl_lock_acquire(visitor->lock, PAWL_FOREVER);
        if (status == PAWL_OK) {
            status = pawl_lock_release(visitor->lock);
        }
    }
    return status;
}

static void close_of_the_client_under_load(const struct suite *suite)
{
    static struct visitor visitors[4];
    for (int round = 0; round < 5; round++) {
        pawl_client *client = open_client(suite);
        struct actor *actors[4];
        for (size_t i = 0; i < 4; i++) {
            visitors[i].lock = open_thread_lock(client, suite->name);
            actors[i] = actor_new();
            actor_call(actors[i], visit, &visitors[i]);
        }
        nap_ms(5 * round); /* close at another moment each time */
        EXPECT(PAWL_OK, close_client(client));
        for (size_t i = 0; i < 4; i++) {
            const pawl_status status = actor_answer(actors[i]);
            assert_true(status == PAWL_CANCELED || status == PAWL_MISUSE);
            actor_end(actors[i]);
            EXPECT(PAWL_OK, close_lock(visitors[i].lock));
        }
        expect_free(suite, suite->name);
    }
}

static const struct suite_case cases[] = {
    SUITE_CASE(FLAG_CLOSE, close_of_nothing),
    SUITE_CASE(FLAG_CLOSE, close_of_the_lock_releases),
    SUITE_CASE(FLAG_CLOSE, close_of_the_lock_wakes_those_who_wait),
    SUITE_CASE(FLAG_CLOSE, close_of_the_lock_releases_its_part_alone),
    SUITE_CASE(FLAG_CLOSE, close_of_the_first_handle_keeps_the_hold),
    SUITE_CASE(FLAG_CLOSE, close_of_the_lock_by_another_thread),
    SUITE_CASE(FLAG_CLOSE, close_of_the_lock_ends_its_waits),
    SUITE_CASE(FLAG_CLOSE, no_event_after_the_lock_is_closed),
    SUITE_CASE(FLAG_CLOSE, close_of_the_client_releases),
    SUITE_CASE(FLAG_CLOSE, locks_of_a_closed_client),
    SUITE_CASE(FLAG_CLOSE, close_of_the_client_ends_waits),
    SUITE_CASE(FLAG_CLOSE, close_of_the_client_with_a_lost_hold),
    SUITE_CASE(FLAG_CLOSE, clients_leave_nothing_behind),
    SUITE_CASE(FLAG_CLOSE, close_of_the_client_under_load),
};

SUITE_GROUP(suite_close, cases);
