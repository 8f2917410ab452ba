/* SPDX-License-Identifier: Apache-2.0 */
/* Callbacks on a thread of the program's choice: pawl_client_fd() and pawl_client_dispatch(). */
#include "conformance/lib/actor.h"
#include "conformance/lib/tools.h"

#include <poll.h>

static pawl_client *open_dispatch_client(const struct suite *suite)
{
    pawl_client_options options = PAWL_CLIENT_OPTIONS_INIT;
    options.dispatch = true;
    return open_client_with(suite, &options);
}

static bool is_readable(int fd, int64_t wait_ms)
{
    struct pollfd item = {.fd = fd, .events = POLLIN};
    return poll(&item, 1, (int)wait_ms) == 1 && (item.revents & POLLIN) != 0;
}

static void without_dispatch_there_is_none(const struct suite *suite)
{
    pawl_client *client = open_client(suite);
    assert_int_equal(pawl_client_fd(client), -1);
    EXPECT(PAWL_MISUSE, pawl_client_dispatch(client));
    assert_int_equal(pawl_client_fd(NULL), -1);
    EXPECT(PAWL_INVALID, pawl_client_dispatch(NULL));
}

static void dispatch_runs_what_is_due(const struct suite *suite)
{
    pawl_client *client = open_dispatch_client(suite);
    pawl_lock *lock = open_handle_lock(client, suite->name);
    struct recorder *recorder = recorder_new();
    const int fd = pawl_client_fd(client);
    assert_true(fd >= 0);
    assert_false(is_readable(fd, 0));
    EXPECT(PAWL_OK, pawl_client_dispatch(client)); /* nothing is due */
    EXPECT(PAWL_OK, pawl_lock_acquire_async(lock, PAWL_TRY, record_done, recorder));
    assert_true(is_readable(fd, SOON_MS));
    assert_int_equal(recorder_count(recorder), 0); /* it waits for us, */
    nap_ms(20);
    assert_int_equal(recorder_count(recorder), 0); /* however long */
    EXPECT(PAWL_OK, pawl_client_dispatch(client));
    assert_int_equal(recorder_count(recorder), 1);
    assert_int_equal(recorder_get(recorder, 0).status, PAWL_OK);
    assert_true(pthread_equal(recorder_get(recorder, 0).thread, pthread_self()));
    assert_false(is_readable(fd, 0));
    EXPECT(PAWL_OK, pawl_lock_release(lock));
}

static void dispatch_of_several(const struct suite *suite)
{
    pawl_client *client = open_dispatch_client(suite);
    pawl_lock *locks[3];
    struct recorder *recorder = recorder_new();
    const char *const endings[] = {"a", "b", "c"};
    for (size_t i = 0; i < 3; i++) {
        locks[i] = open_handle_lock(client, suite_name(suite, endings[i]));
        EXPECT(PAWL_OK, pawl_lock_acquire(locks[i], PAWL_TRY));
    }
    for (size_t i = 0; i < 3; i++) {
        EXPECT(PAWL_OK, pawl_lock_release_async(locks[i], record_done, recorder));
    }
    for (size_t i = 0; i < 3; i++) {
        WAIT_UNTIL(!is_held(locks[i]), SOON_MS);
    }
    while (recorder_count(recorder) < 3 && is_readable(pawl_client_fd(client), SOON_MS)) {
        EXPECT(PAWL_OK, pawl_client_dispatch(client));
    }
    assert_int_equal(recorder_count(recorder), 3);
    for (size_t i = 0; i < 3; i++) {
        assert_ptr_equal(recorder_get(recorder, i).lock, locks[i]);
    }
}

static void dispatch_of_a_loss(const struct suite *suite)
{
    pawl_client *client = open_dispatch_client(suite);
    struct recorder *recorder = recorder_new();
    pawl_lock_options options = fixed_options(LEASE_MS);
    record_events(&options, recorder);
    pawl_lock *lock = open_lock(client, suite->name, &options);
    EXPECT(PAWL_OK, pawl_lock_acquire(lock, PAWL_TRY));
    assert_false(is_readable(pawl_client_fd(client), 0));
    assert_true(is_readable(pawl_client_fd(client), LEASE_MS + LATE_MS));
    assert_int_equal(recorder_count(recorder), 0);
    EXPECT(PAWL_OK, pawl_client_dispatch(client));
    assert_int_equal(recorder_count(recorder), 1);
    assert_int_equal(recorder_get(recorder, 0).kind, RECORD_LOST);
    assert_true(pthread_equal(recorder_get(recorder, 0).thread, pthread_self()));
    EXPECT(PAWL_LOST, pawl_lock_release(lock));
}

static void dispatch_inside(pawl_lock *lock, pawl_status status, void *arg)
{
    (void)lock;
    (void)status;
    pawl_client **client = arg;
    const pawl_status refused = pawl_client_dispatch(*client);
    *client = refused == PAWL_MISUSE ? NULL : *client;
}

static void dispatch_inside_a_callback(const struct suite *suite)
{
    pawl_client *client = open_dispatch_client(suite);
    static pawl_client *inside;
    inside = client;
    pawl_lock *lock = open_handle_lock(client, suite->name);
    EXPECT(PAWL_OK, pawl_lock_acquire_async(lock, PAWL_TRY, dispatch_inside, &inside));
    assert_true(is_readable(pawl_client_fd(client), SOON_MS));
    EXPECT(PAWL_OK, pawl_client_dispatch(client));
    assert_null(inside);
    EXPECT(PAWL_OK, pawl_lock_release(lock)); /* outside it may wait again */
}

/* What nobody has dispatched is due before the client is gone. */
static void close_runs_what_was_not_dispatched(const struct suite *suite)
{
    pawl_client *client = open_dispatch_client(suite);
    pawl_lock *lock = open_handle_lock(client, suite->name);
    struct recorder *recorder = recorder_new();
    EXPECT(PAWL_OK, pawl_lock_acquire_async(lock, PAWL_TRY, record_done, recorder));
    assert_true(is_readable(pawl_client_fd(client), SOON_MS));
    EXPECT(PAWL_OK, close_lock(lock));
    assert_int_equal(recorder_count(recorder), 0);
    EXPECT(PAWL_OK, close_client(client));
    assert_int_equal(recorder_count(recorder), 1);
    assert_true(pthread_equal(recorder_get(recorder, 0).thread, pthread_self()));
    expect_free(suite, suite->name);
}

/* `done` comes even when the lock was closed meanwhile, and is given the lock all the same. */
struct afterlife {
    pawl_status acquire;
    pawl_status release;
    uint64_t token;
    unsigned hold_count;
    unsigned calls;
};

static void use_closed_lock(pawl_lock *lock, pawl_status status, void *arg)
{
    (void)status;
    struct afterlife *afterlife = arg;
    afterlife->calls++;
    afterlife->acquire = pawl_lock_acquire_async(lock, PAWL_TRY, use_closed_lock, arg);
    afterlife->release = pawl_lock_release_async(lock, use_closed_lock, arg);
    afterlife->token = pawl_lock_token(lock);
    afterlife->hold_count = pawl_lock_hold_count(lock);
    pawl_lock_cancel(lock);
}

static void use_of_a_closed_lock_in_its_last_callback(const struct suite *suite)
{
    static struct afterlife afterlife;
    pawl_client *client = open_dispatch_client(suite);
    pawl_lock *lock = open_handle_lock(client, suite->name);
    afterlife = (struct afterlife){0};
    EXPECT(PAWL_OK, pawl_lock_acquire_async(lock, PAWL_TRY, use_closed_lock, &afterlife));
    assert_true(is_readable(pawl_client_fd(client), SOON_MS));
    EXPECT(PAWL_OK, close_lock(lock));
    expect_free(suite, suite->name);
    EXPECT(PAWL_OK, pawl_client_dispatch(client));
    EXPECT(PAWL_MISUSE, afterlife.acquire);
    EXPECT(PAWL_MISUSE, afterlife.release);
    assert_int_equal(afterlife.token, 0);
    assert_int_equal(afterlife.hold_count, 0);
    EXPECT(PAWL_OK, close_client(client));
    assert_int_equal(afterlife.calls, 1);
}

static const struct suite_case cases[] = {
    SUITE_CASE(FLAG_ASYNC, without_dispatch_there_is_none),
    SUITE_CASE(FLAG_ASYNC, dispatch_runs_what_is_due),
    SUITE_CASE(FLAG_ASYNC, dispatch_of_several),
    SUITE_CASE(FLAG_ASYNC, dispatch_of_a_loss),
    SUITE_CASE(FLAG_ASYNC, dispatch_inside_a_callback),
    SUITE_CASE(FLAG_ASYNC, close_runs_what_was_not_dispatched),
    SUITE_CASE(FLAG_ASYNC, use_of_a_closed_lock_in_its_last_callback),
};

SUITE_GROUP(suite_dispatch, cases);
