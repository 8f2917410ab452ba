/* SPDX-License-Identifier: Apache-2.0 */
/* Asynchronous calls: each `done` comes exactly once, in order, whatever ends the call. */
#include "conformance/lib/actor.h"
#include "conformance/lib/tools.h"

#include <string.h>

static void acquire_and_release_by_callback(const struct suite *suite)
{
    pawl_client *client = open_client(suite);
    pawl_lock *lock = open_handle_lock(client, suite->name);
    struct recorder *recorder = recorder_new();
    EXPECT(PAWL_OK, pawl_lock_acquire_async(lock, PAWL_TRY, record_done, recorder));
    recorder_await(recorder, 1);
    assert_int_equal(recorder_get(recorder, 0).status, PAWL_OK);
    assert_ptr_equal(recorder_get(recorder, 0).lock, lock);
    assert_false(pthread_equal(recorder_get(recorder, 0).thread, pthread_self()));
    assert_int_equal(pawl_lock_hold_count(lock), 1);
    assert_true(pawl_lock_token(lock) > 0);
    expect_busy(suite, suite->name);
    EXPECT(PAWL_OK, pawl_lock_release_async(lock, record_done, recorder));
    recorder_await(recorder, 2);
    assert_int_equal(recorder_get(recorder, 1).status, PAWL_OK);
    expect_free(suite, suite->name);
    EXPECT(PAWL_OK, pawl_lock_release_async(lock, record_done, recorder));
    recorder_await(recorder, 3);
    assert_int_equal(recorder_get(recorder, 2).status, PAWL_NOT_HELD);
    EXPECT(PAWL_OK, close_lock(lock));
    EXPECT(PAWL_OK, close_client(client));
    assert_int_equal(recorder_count(recorder), 3);
}

static void a_failed_call_has_its_sentence(const struct suite *suite)
{
    pawl_lock *holder = open_thread_lock(open_client(suite), suite->name);
    pawl_lock *lock = open_handle_lock(open_client(suite), suite->name);
    struct recorder *recorder = recorder_new();
    EXPECT(PAWL_OK, pawl_lock_acquire(holder, PAWL_TRY));
    EXPECT(PAWL_OK, pawl_lock_acquire_async(lock, PAWL_TRY, record_done, recorder));
    recorder_await(recorder, 1);
    assert_int_equal(recorder_get(recorder, 0).status, PAWL_BUSY);
    assert_non_null(strstr(recorder_get(recorder, 0).error, suite->name));
    EXPECT(PAWL_OK, pawl_lock_release_async(lock, record_done, recorder));
    recorder_await(recorder, 2);
    assert_int_equal(recorder_get(recorder, 1).status, PAWL_NOT_HELD);
    assert_non_null(strstr(recorder_get(recorder, 1).error, suite->name));
    assert_string_not_equal(recorder_get(recorder, 1).error, recorder_get(recorder, 0).error);
}

static void a_timed_call_ends_in_time(const struct suite *suite)
{
    pawl_lock *holder = open_thread_lock(open_client(suite), suite->name);
    pawl_lock *lock = open_handle_lock(open_client(suite), suite->name);
    struct recorder *recorder = recorder_new();
    EXPECT(PAWL_OK, pawl_lock_acquire(holder, PAWL_TRY));
    const int64_t start_us = boottime_us();
    EXPECT(PAWL_OK, pawl_lock_acquire_async(lock, LEASE_MS, record_done, recorder));
    assert_int_equal(recorder_count(recorder), 0);
    recorder_await(recorder, 1);
    const struct record busy = recorder_get(recorder, 0);
    assert_int_equal(busy.status, PAWL_BUSY);
    suite_late("end of a timed call", busy.at_us - start_us - LEASE_MS * 1000);
    assert_true(busy.at_us - start_us >= (LEASE_MS - 1) * 1000);
    assert_true(busy.at_us - start_us <= (LEASE_MS + LATE_MS) * 1000);
}

static void a_waiting_call_gets_it(const struct suite *suite)
{
    pawl_lock *holder = open_thread_lock(open_client(suite), suite->name);
    pawl_lock *lock = open_handle_lock(open_client(suite), suite->name);
    struct recorder *recorder = recorder_new();
    static const int64_t waits_ms[] = {PAWL_FOREVER, LONG_MS};
    for (size_t i = 0; i < 2; i++) {
        EXPECT(PAWL_OK, pawl_lock_acquire(holder, SOON_MS));
        EXPECT(PAWL_OK, pawl_lock_acquire_async(lock, waits_ms[i], record_done, recorder));
        assert_int_equal(recorder_count(recorder), 2 * i);
        const int64_t released_us = boottime_us();
        EXPECT(PAWL_OK, pawl_lock_release(holder));
        recorder_await(recorder, 2 * i + 1);
        const struct record got = recorder_get(recorder, 2 * i);
        assert_int_equal(got.status, PAWL_OK);
        suite_late("wake-up of an asynchronous call", got.at_us - released_us);
        EXPECT(PAWL_OK, pawl_lock_release_async(lock, record_done, recorder));
        recorder_await(recorder, 2 * i + 2);
    }
}

static void calls_come_first_served(const struct suite *suite)
{
    pawl_client *client = open_client(suite);
    pawl_lock *holder = open_handle_lock(client, suite->name);
    pawl_lock *locks[6];
    struct recorder *recorder = recorder_new();
    EXPECT(PAWL_OK, pawl_lock_acquire(holder, PAWL_TRY));
    for (size_t i = 0; i < 6; i++) {
        locks[i] = open_handle_lock(client, suite->name);
        EXPECT(PAWL_OK, pawl_lock_acquire_async(locks[i], PAWL_FOREVER, record_done, recorder));
    }
    EXPECT(PAWL_OK, pawl_lock_release(holder));
    for (size_t i = 0; i < 6; i++) {
        recorder_await(recorder, i + 1);
        assert_ptr_equal(recorder_get(recorder, i).lock, locks[i]);
        assert_int_equal(recorder_get(recorder, i).status, PAWL_OK);
        EXPECT(PAWL_OK, pawl_lock_release(locks[i]));
    }
}

static void callbacks_come_in_order_and_one_at_a_time(const struct suite *suite)
{
    pawl_client *client = open_client(suite);
    pawl_lock *locks[20];
    struct recorder *recorder = recorder_new();
    for (size_t i = 0; i < 20; i++) {
        char ending[8] = {(char)('a' + i), '\0'};
        locks[i] = open_handle_lock(client, suite_name(suite, ending));
        EXPECT(PAWL_OK, pawl_lock_acquire(locks[i], PAWL_TRY));
    }
    for (size_t i = 0; i < 20; i++) {
        EXPECT(PAWL_OK, pawl_lock_release_async(locks[i], record_done, recorder));
        recorder_await(recorder, i + 1);
        assert_ptr_equal(recorder_get(recorder, i).lock, locks[i]);
        assert_true(
            pthread_equal(recorder_get(recorder, i).thread, recorder_get(recorder, 0).thread));
    }
}

/* ===== Cancel and close ===== */

static void cancel_ends_a_waiting_call(const struct suite *suite)
{
    pawl_lock *holder = open_thread_lock(open_client(suite), suite->name);
    pawl_client *client = open_client(suite);
    pawl_lock *lock = open_handle_lock(client, suite->name);
    pawl_lock *spared = open_handle_lock(client, suite->name);
    struct recorder *recorder = recorder_new();
    struct recorder *later = recorder_new();
    EXPECT(PAWL_OK, pawl_lock_acquire(holder, PAWL_TRY));
    EXPECT(PAWL_OK, pawl_lock_acquire_async(lock, PAWL_FOREVER, record_done, recorder));
    EXPECT(PAWL_OK, pawl_lock_acquire_async(spared, PAWL_FOREVER, record_done, later));
    pawl_lock_cancel(lock);
    recorder_await(recorder, 1);
    assert_int_equal(recorder_get(recorder, 0).status, PAWL_CANCELED);
    pawl_lock_cancel(lock); /* there is nothing any more */
    EXPECT(PAWL_OK, pawl_lock_release(holder));
    recorder_await(later, 1);
    assert_int_equal(recorder_get(later, 0).status, PAWL_OK);
    EXPECT(PAWL_OK, pawl_lock_release(spared));
    expect_free(suite, suite->name);
    EXPECT(PAWL_OK, close_lock(lock));
    assert_int_equal(recorder_count(recorder), 1);
}

static void cancel_ends_no_later_call(const struct suite *suite)
{
    pawl_lock *holder = open_thread_lock(open_client(suite), suite->name);
    pawl_lock *lock = open_handle_lock(open_client(suite), suite->name);
    struct recorder *recorder = recorder_new();
    EXPECT(PAWL_OK, pawl_lock_acquire(holder, PAWL_TRY));
    pawl_lock_cancel(lock);
    EXPECT(PAWL_OK, pawl_lock_acquire_async(lock, PAWL_FOREVER, record_done, recorder));
    EXPECT(PAWL_OK, pawl_lock_release(holder));
    recorder_await(recorder, 1);
    assert_int_equal(recorder_get(recorder, 0).status, PAWL_OK);
}

static void close_of_the_lock_ends_a_waiting_call(const struct suite *suite)
{
    pawl_lock *holder = open_thread_lock(open_client(suite), suite->name);
    pawl_client *client = open_client(suite);
    pawl_lock *lock = open_handle_lock(client, suite->name);
    struct recorder *recorder = recorder_new();
    EXPECT(PAWL_OK, pawl_lock_acquire(holder, PAWL_TRY));
    EXPECT(PAWL_OK, pawl_lock_acquire_async(lock, PAWL_FOREVER, record_done, recorder));
    EXPECT(PAWL_OK, close_lock(lock));
    recorder_await(recorder, 1);
    assert_int_equal(recorder_get(recorder, 0).status, PAWL_CANCELED);
    EXPECT(PAWL_OK, pawl_lock_release(holder));
    expect_free(suite, suite->name);
    EXPECT(PAWL_OK, close_client(client));
    assert_int_equal(recorder_count(recorder), 1);
}

static void close_of_the_client_ends_a_waiting_call(const struct suite *suite)
{
    pawl_lock *holder = open_thread_lock(open_client(suite), suite->name);
    pawl_client *client = open_client(suite);
    struct recorder *recorder = recorder_new();
    pawl_lock *lock = open_handle_lock(client, suite->name);
    pawl_lock *second = open_handle_lock(client, suite->name);
    EXPECT(PAWL_OK, pawl_lock_acquire(holder, PAWL_TRY));
    EXPECT(PAWL_OK, pawl_lock_acquire_async(lock, PAWL_FOREVER, record_done, recorder));
    EXPECT(PAWL_OK, pawl_lock_acquire_async(second, LONG_MS, record_done, recorder));
    EXPECT(PAWL_OK, close_client(client));
    assert_int_equal(recorder_count(recorder), 2); /* they were called before it returned */
    assert_int_equal(recorder_get(recorder, 0).status, PAWL_CANCELED);
    assert_int_equal(recorder_get(recorder, 1).status, PAWL_CANCELED);
    EXPECT(PAWL_MISUSE, pawl_lock_acquire_async(lock, PAWL_TRY, record_done, recorder));
    EXPECT(PAWL_OK, close_lock(lock));
    EXPECT(PAWL_OK, close_lock(second));
    assert_int_equal(recorder_count(recorder), 2);
    EXPECT(PAWL_OK, pawl_lock_release(holder));
    expect_free(suite, suite->name);
}

/* The release is under way when the lock is closed. */
static void close_of_the_lock_right_after_a_release(const struct suite *suite)
{
    pawl_client *client = open_client(suite);
    struct recorder *recorder = recorder_new();
    for (size_t i = 0; i < 20; i++) {
        pawl_lock *lock = open_handle_lock(client, suite->name);
        EXPECT(PAWL_OK, pawl_lock_acquire(lock, SOON_MS));
        EXPECT(PAWL_OK, pawl_lock_release_async(lock, record_done, recorder));
        EXPECT(PAWL_OK, close_lock(lock));
        recorder_await(recorder, i + 1);
        assert_int_equal(recorder_get(recorder, i).status, PAWL_OK);
    }
    expect_free(suite, suite->name);
}

/* ===== Two calls of one handle ===== */

static void a_second_wait_of_a_handle_is_a_deadlock(const struct suite *suite)
{
    pawl_lock *holder = open_thread_lock(open_client(suite), suite->name);
    pawl_lock *lock = open_handle_lock(open_client(suite), suite->name);
    struct recorder *recorder = recorder_new();
    EXPECT(PAWL_OK, pawl_lock_acquire(holder, PAWL_TRY));
    EXPECT(PAWL_OK, pawl_lock_acquire_async(lock, PAWL_FOREVER, record_done, recorder));
    EXPECT(PAWL_DEADLOCK, pawl_lock_acquire(lock, PAWL_FOREVER));
    assert_int_equal(recorder_count(recorder), 0);
    EXPECT(PAWL_OK, pawl_lock_release(holder));
    recorder_await(recorder, 1);
    assert_int_equal(recorder_get(recorder, 0).status, PAWL_OK);
    assert_int_equal(pawl_lock_hold_count(lock), 1);
}

static void a_second_wait_of_a_handle_enters_again(const struct suite *suite)
{
    pawl_lock_options options = handle_options();
    options.reentry = PAWL_REENTRY_ALLOW;
    pawl_lock *holder = open_thread_lock(open_client(suite), suite->name);
    pawl_lock *lock = open_lock(open_client(suite), suite->name, &options);
    struct recorder *recorder = recorder_new();
    EXPECT(PAWL_OK, pawl_lock_acquire(holder, PAWL_TRY));
    EXPECT(PAWL_OK, pawl_lock_acquire_async(lock, PAWL_FOREVER, record_done, recorder));
    EXPECT(PAWL_OK, pawl_lock_acquire_async(lock, PAWL_FOREVER, record_done, recorder));
    EXPECT(PAWL_OK, pawl_lock_release(holder));
    recorder_await(recorder, 2);
    assert_int_equal(recorder_get(recorder, 0).status, PAWL_OK);
    assert_int_equal(recorder_get(recorder, 1).status, PAWL_OK);
    assert_int_equal(pawl_lock_hold_count(lock), 2);
    EXPECT(PAWL_OK, pawl_lock_release(lock));
    expect_busy(suite, suite->name);
    EXPECT(PAWL_OK, pawl_lock_release(lock));
    expect_free(suite, suite->name);
}

static void try_again(pawl_lock *lock, pawl_status status, void *recorder)
{
    if (status != PAWL_OK ||
        pawl_lock_acquire_async(lock, PAWL_TRY, record_done, recorder) != PAWL_OK) {
        record_done(lock, PAWL_MISUSE, recorder);
    }
}

/* Nothing but its own release stands in its way, also if another thread is quicker to ask. */
static void who_hears_of_an_unawaited_release_comes_behind_it(const struct suite *suite)
{
    enum { COUNT = 200 };
    pawl_lock_options options = handle_options();
    options.release_unawaited = true;
    pawl_lock *lock = open_lock(open_client(suite), suite->name, &options);
    struct recorder *recorder = recorder_new();
    EXPECT(PAWL_OK, pawl_lock_acquire_async(lock, PAWL_TRY, record_done, recorder));
    for (size_t i = 0; i < COUNT; i++) {
        recorder_await(recorder, i + 1);
        assert_int_equal(recorder_get(recorder, i).status, PAWL_OK);
        EXPECT(PAWL_OK, pawl_lock_release_async(lock, try_again, recorder));
    }
    recorder_await(recorder, COUNT + 1);
    EXPECT(PAWL_OK, close_lock(lock));
}

static void calls_that_make_no_sense(const struct suite *suite)
{
    pawl_client *client = open_client(suite);
    pawl_lock *thread = open_thread_lock(client, suite->name);
    pawl_lock *handle = open_handle_lock(client, suite->name);
    struct recorder *recorder = recorder_new();
    EXPECT(PAWL_INVALID, pawl_lock_acquire_async(thread, PAWL_TRY, record_done, recorder));
    EXPECT(PAWL_INVALID, pawl_lock_release_async(thread, record_done, recorder));
    EXPECT(PAWL_INVALID, pawl_lock_acquire_async(handle, PAWL_TRY, NULL, recorder));
    EXPECT(PAWL_INVALID, pawl_lock_release_async(handle, NULL, recorder));
    EXPECT(PAWL_INVALID, pawl_lock_acquire_async(handle, -2, record_done, recorder));
    EXPECT(PAWL_INVALID, pawl_lock_acquire_async(handle, INT64_MAX, record_done, recorder));
    EXPECT(PAWL_INVALID, pawl_lock_acquire_async(NULL, PAWL_TRY, record_done, recorder));
    EXPECT(PAWL_INVALID, pawl_lock_release_async(NULL, record_done, recorder));
    EXPECT(PAWL_OK, close_lock(thread));
    EXPECT(PAWL_OK, close_lock(handle));
    EXPECT(PAWL_OK, close_client(client));
    assert_int_equal(recorder_count(recorder), 0);
}

static const struct suite_case cases[] = {
    SUITE_CASE(FLAG_ASYNC, acquire_and_release_by_callback),
    SUITE_CASE(FLAG_ASYNC, a_failed_call_has_its_sentence),
    SUITE_CASE(FLAG_ASYNC, a_timed_call_ends_in_time),
    SUITE_CASE(FLAG_ASYNC, a_waiting_call_gets_it),
    SUITE_CASE(FLAG_ASYNC, calls_come_first_served),
    SUITE_CASE(FLAG_ASYNC, callbacks_come_in_order_and_one_at_a_time),
    SUITE_CASE(FLAG_ASYNC, cancel_ends_a_waiting_call),
    SUITE_CASE(FLAG_ASYNC, cancel_ends_no_later_call),
    SUITE_CASE(FLAG_ASYNC, close_of_the_lock_ends_a_waiting_call),
    SUITE_CASE(FLAG_ASYNC, close_of_the_client_ends_a_waiting_call),
    SUITE_CASE(FLAG_ASYNC, close_of_the_lock_right_after_a_release),
    SUITE_CASE(FLAG_ASYNC, a_second_wait_of_a_handle_is_a_deadlock),
    SUITE_CASE(FLAG_ASYNC, a_second_wait_of_a_handle_enters_again),
    SUITE_CASE(FLAG_ASYNC, who_hears_of_an_unawaited_release_comes_behind_it),
    SUITE_CASE(FLAG_ASYNC, calls_that_make_no_sense),
};

SUITE_GROUP(suite_async, cases);
