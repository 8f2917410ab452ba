/* SPDX-License-Identifier: Apache-2.0 */
/* Clients and locks that a failed case leaves behind are closed by the clean-up, newest first, and
 * so before what they use. */
#include "conformance/lib/tools.h"

#include "support/text.h"

#include <stdio.h>
#include <string.h>

/* ===== Clients and locks ===== */

int64_t lease_least_ms(int64_t lease_ms)
{
    return lease_ms - lease_ms / 100 - 3; /* 1 % and 2 ms, and what rounding takes */
}

static void end_client(void *object)
{
    pawl_client_close(object);
}

static void end_lock(void *object)
{
    pawl_lock_close(object);
}

pawl_client *open_client_with(const struct suite *suite, const pawl_client_options *options)
{
    pawl_client *client = NULL;
    EXPECT(PAWL_OK, pawl_client_open(suite->url, options, &client));
    assert_non_null(client);
    cleanup_add(end_client, client);
    return client;
}

pawl_client *open_client(const struct suite *suite)
{
    return open_client_with(suite, NULL);
}

pawl_lock *open_lock(pawl_client *client, const char *name, const pawl_lock_options *options)
{
    pawl_lock *lock = NULL;
    EXPECT(PAWL_OK, pawl_lock_open(client, name, options, &lock));
    assert_non_null(lock);
    cleanup_add(end_lock, lock);
    return lock;
}

pawl_lock *open_multi(pawl_lock *const locks[], size_t count)
{
    pawl_lock *lock = NULL;
    EXPECT(PAWL_OK, pawl_lock_open_multi(locks, count, NULL, &lock));
    assert_non_null(lock);
    cleanup_add(end_lock, lock);
    return lock;
}

pawl_status close_client(pawl_client *client)
{
    cleanup_drop(client);
    return pawl_client_close(client);
}

pawl_status close_lock(pawl_lock *lock)
{
    cleanup_drop(lock);
    return pawl_lock_close(lock);
}

pawl_lock_options thread_options(void)
{
    return (pawl_lock_options)PAWL_LOCK_OPTIONS_INIT;
}

pawl_lock_options renewed_options(int64_t lease_ms)
{
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    options.lease_ms = lease_ms;
    return options;
}

pawl_lock_options fixed_options(int64_t lease_ms)
{
    pawl_lock_options options = renewed_options(lease_ms);
    options.renew = false;
    return options;
}

pawl_lock_options handle_options(void)
{
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    options.owner = PAWL_OWNER_HANDLE;
    return options;
}

pawl_lock_options kinded(pawl_lock_options options, pawl_kind kind)
{
    options.kind = kind;
    return options;
}

pawl_lock *open_thread_lock(pawl_client *client, const char *name)
{
    return open_lock(client, name, NULL);
}

pawl_lock *open_handle_lock(pawl_client *client, const char *name)
{
    const pawl_lock_options options = handle_options();
    return open_lock(client, name, &options);
}

static void stop(void *enough)
{
    atomic_store((_Atomic bool *)enough, true);
}

void stop_at_end(_Atomic bool *enough)
{
    cleanup_add(stop, enough);
}

/* ===== Expectations ===== */

void expect_status(
    pawl_status expected, pawl_status got, const char *call, const char *file, int line)
{
    if (got != expected) {
        print_error("%s\n  is %s, not %s: %s\n", call, pawl_status_string(got),
            pawl_status_string(expected), pawl_last_error());
        _fail(file, line);
    }
}

void expect_busy(const struct suite *suite, const char *name)
{
    pawl_client *client = open_client(suite);
    pawl_lock *lock = open_thread_lock(client, name);
    EXPECT(PAWL_BUSY, pawl_lock_acquire(lock, PAWL_TRY));
    EXPECT(PAWL_OK, close_lock(lock));
    EXPECT(PAWL_OK, close_client(client));
}

void expect_free(const struct suite *suite, const char *name)
{
    pawl_client *client = open_client(suite);
    pawl_lock *lock = open_thread_lock(client, name);
    EXPECT(PAWL_OK, pawl_lock_acquire(lock, PAWL_TRY));
    EXPECT(PAWL_OK, pawl_lock_release(lock));
    EXPECT(PAWL_OK, close_lock(lock));
    EXPECT(PAWL_OK, close_client(client));
}

bool is_held(pawl_lock *lock)
{
    pawl_lock_info info = {.size = sizeof info};
    EXPECT(PAWL_OK, pawl_lock_inspect(lock, &info));
    return info.held;
}

void expect_refused(const struct suite *suite, const pawl_lock_options *options)
{
    pawl_client *client = open_client(suite);
    pawl_lock *lock = NULL;
    EXPECT(PAWL_UNSUPPORTED, pawl_lock_open(client, suite->name, options, &lock));
    assert_null(lock);
    assert_true(pawl_last_error()[0] != '\0');
    expect_free(suite, suite->name); /* as a mutex it is there */
}

void expect_kind_refused(const struct suite *suite, pawl_kind kind)
{
    const pawl_lock_options options = kinded(thread_options(), kind);
    expect_refused(suite, &options);
}

void expect_quick(const char *what, int64_t (*round)(void *arg), void *arg)
{
    int64_t least_us = INT64_MAX;
    for (int i = 0; i < ROUNDS_QUICK && least_us > QUICK_MS * 1000; i++) {
        const int64_t took_us = round(arg);
        suite_late(what, took_us);
        least_us = took_us < least_us ? took_us : least_us;
    }
    assert_true(least_us <= QUICK_MS * 1000);
}

void await_loss(const pawl_lock *lock, int64_t timeout_ms)
{
    WAIT_UNTIL(pawl_lock_token(lock) == 0, timeout_ms);
    assert_int_equal(pawl_lock_remaining_ms(lock), 0);
    assert_true(pawl_lock_hold_count(lock) > 0);
}

/* ===== Callbacks ===== */

#define RECORDS_MAX 256

struct recorder {
    struct recorder *next; /* all of them: that they are reachable is no leak */
    pthread_mutex_t mutex;
    size_t count;
    struct record records[RECORDS_MAX];
};

struct recorder *recorder_new(void)
{
    static struct recorder *all;
    struct recorder *recorder = support_alloc(sizeof *recorder);
    pthread_mutex_init(&recorder->mutex, NULL);
    recorder->next = all;
    all = recorder;
    return recorder;
}

static void note(struct recorder *recorder, struct record record)
{
    record.thread = pthread_self();
    record.at_us = boottime_us();
    snprintf(record.error, sizeof record.error, "%s", pawl_last_error());
    pthread_mutex_lock(&recorder->mutex);
    if (recorder->count < RECORDS_MAX) {
        recorder->records[recorder->count] = record;
    }
    recorder->count++;
    pthread_mutex_unlock(&recorder->mutex);
}

void record_done(pawl_lock *lock, pawl_status status, void *recorder)
{
    note(recorder, (struct record){.kind = RECORD_DONE, .lock = lock, .status = status});
}

void record_event(const pawl_event *event, void *recorder)
{
    const enum record_kind kind = event->status == PAWL_LOST ? RECORD_LOST : RECORD_RISK;
    note(recorder, (struct record){.kind = kind,
                       .lock = event->lock,
                       .status = event->status,
                       .token = event->token,
                       .owner = event->owner});
}

size_t recorder_count(struct recorder *recorder)
{
    pthread_mutex_lock(&recorder->mutex);
    const size_t count = recorder->count;
    pthread_mutex_unlock(&recorder->mutex);
    return count;
}

size_t recorder_count_of(struct recorder *recorder, enum record_kind kind)
{
    size_t count = 0;
    pthread_mutex_lock(&recorder->mutex);
    for (size_t i = 0; i < recorder->count && i < RECORDS_MAX; i++) {
        count += recorder->records[i].kind == kind ? 1 : 0;
    }
    pthread_mutex_unlock(&recorder->mutex);
    return count;
}

struct record recorder_get(struct recorder *recorder, size_t index)
{
    struct record record = {0};
    pthread_mutex_lock(&recorder->mutex);
    const bool found = index < recorder->count && index < RECORDS_MAX;
    if (found) {
        record = recorder->records[index];
    }
    pthread_mutex_unlock(&recorder->mutex);
    assert_true(found);
    return record;
}

void recorder_await(struct recorder *recorder, size_t count)
{
    WAIT_UNTIL(recorder_count(recorder) >= count, SOON_MS);
    assert_int_equal(recorder_count(recorder), count);
}

void record_events(pawl_lock_options *options, struct recorder *recorder)
{
    options->on_lost = record_event;
    options->on_risk = record_event;
    options->event_arg = recorder;
}
