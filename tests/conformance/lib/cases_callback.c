/* SPDX-License-Identifier: Apache-2.0 */
/* What may be done inside a callback, and what a slow one delays. */
#include "conformance/lib/actor.h"
#include "conformance/lib/tools.h"

#include "support/thread.h"

#include <stdatomic.h>
#include <string.h>

/* ===== Calls that wait ===== */

/* What each call that WAITS answered inside the callback. */
struct attempt {
    const struct suite *suite;
    pawl_client *client;
    pawl_lock *other; /* another lock, that is held */
    pawl_status statuses[9];
    bool made_client;
    bool made_lock;
    _Atomic bool done;
};

static void try_everything(pawl_lock *lock, pawl_status status, void *arg)
{
    (void)status;
    struct attempt *attempt = arg;
    pawl_client *client = NULL;
    pawl_lock *made = NULL;
    pawl_lock_info info = {.size = sizeof info};
    attempt->statuses[0] = pawl_lock_acquire(attempt->other, PAWL_TRY);
    attempt->statuses[1] = pawl_lock_release(attempt->other);
    attempt->statuses[2] = pawl_lock_extend(attempt->other, 1000);
    attempt->statuses[3] = pawl_lock_inspect(lock, &info);
    attempt->statuses[4] = pawl_lock_break(attempt->other);
    attempt->statuses[5] = pawl_lock_open(attempt->client, "inside", NULL, &made);
    attempt->statuses[6] = pawl_lock_close(attempt->other);
    attempt->statuses[7] = pawl_client_open(attempt->suite->url, NULL, &client);
    attempt->statuses[8] = pawl_client_close(attempt->client);
    attempt->made_client = client != NULL;
    attempt->made_lock = made != NULL;
    atomic_store(&attempt->done, true);
}

static void calls_that_wait_are_refused_inside(const struct suite *suite)
{
    static struct attempt attempt;
    attempt = (struct attempt){.suite = suite, .client = open_client(suite)};
    attempt.other = open_handle_lock(attempt.client, suite_name(suite, "other"));
    pawl_lock *lock = open_handle_lock(attempt.client, suite->name);
    EXPECT(PAWL_OK, pawl_lock_acquire(attempt.other, PAWL_TRY));
    EXPECT(PAWL_OK, pawl_lock_acquire_async(lock, PAWL_TRY, try_everything, &attempt));
    WAIT_UNTIL(atomic_load(&attempt.done), SOON_MS);
    for (size_t i = 0; i < sizeof attempt.statuses / sizeof attempt.statuses[0]; i++) {
        EXPECT(PAWL_MISUSE, attempt.statuses[i]);
    }
    assert_false(attempt.made_client);
    assert_false(attempt.made_lock);
    assert_int_equal(pawl_lock_hold_count(attempt.other), 1);
    EXPECT(PAWL_OK, pawl_lock_release(attempt.other));
    EXPECT(PAWL_OK, pawl_lock_release(lock));
}

static void try_everything_on_event(const pawl_event *event, void *arg)
{
    try_everything(event->lock, event->status, arg);
}

static void calls_that_wait_are_refused_inside_on_lost(const struct suite *suite)
{
    static struct attempt attempt;
    attempt = (struct attempt){.suite = suite, .client = open_client(suite)};
    attempt.other = open_handle_lock(attempt.client, suite_name(suite, "other"));
    pawl_lock_options options = fixed_options(LEASE_MS);
    options.on_lost = try_everything_on_event;
    options.event_arg = &attempt;
    pawl_lock *lock = open_lock(attempt.client, suite->name, &options);
    EXPECT(PAWL_OK, pawl_lock_acquire(lock, PAWL_TRY));
    WAIT_UNTIL(atomic_load(&attempt.done), LEASE_MS + LATE_MS);
    for (size_t i = 0; i < sizeof attempt.statuses / sizeof attempt.statuses[0]; i++) {
        EXPECT(PAWL_MISUSE, attempt.statuses[i]);
    }
    EXPECT(PAWL_LOST, pawl_lock_release(lock));
}

/* ===== Calls that do not ===== */

/* Acquire, release, acquire, ... all from callbacks. */
struct chain {
    unsigned rounds;
    _Atomic unsigned left;
    _Atomic unsigned wrong;
    _Atomic uint64_t last_token;
};

static void go_on(pawl_lock *lock, pawl_status status, void *arg)
{
    struct chain *chain = arg;
    const unsigned left = atomic_load(&chain->left);
    bool good = status == PAWL_OK;
    if (left % 2 == 1) { /* it was an acquire */
        const uint64_t token = pawl_lock_token(lock);
        good = good && token > atomic_exchange(&chain->last_token, token) &&
               pawl_lock_hold_count(lock) == 1 && pawl_lock_remaining_ms(lock) > 0;
        good = pawl_lock_release_async(lock, go_on, chain) == PAWL_OK && good;
    } else if (left > 0) {
        good = good && pawl_lock_token(lock) == 0;
        good = pawl_lock_acquire_async(lock, PAWL_FOREVER, go_on, chain) == PAWL_OK && good;
    }
    if (!good) {
        atomic_fetch_add(&chain->wrong, 1);
    }
    atomic_store(&chain->left, left > 0 ? left - 1 : UINT32_MAX);
}

static void asynchronous_calls_go_on_inside(const struct suite *suite)
{
    static struct chain chain;
    chain = (struct chain){.rounds = 100};
    atomic_store(&chain.left, 2 * chain.rounds - 1);
    pawl_lock *lock = open_handle_lock(open_client(suite), suite->name);
    EXPECT(PAWL_OK, pawl_lock_acquire_async(lock, PAWL_TRY, go_on, &chain));
    WAIT_UNTIL(atomic_load(&chain.left) == UINT32_MAX, SOON_MS);
    assert_int_equal(atomic_load(&chain.wrong), 0);
    expect_free(suite, suite->name);
}

static void cancel_inside(pawl_lock *lock, pawl_status status, void *arg)
{
    (void)lock;
    (void)status;
    pawl_lock_cancel(arg);
}

static void cancel_works_inside(const struct suite *suite)
{
    pawl_lock *holder = open_thread_lock(open_client(suite), suite->name);
    pawl_client *client = open_client(suite);
    pawl_lock *waiting = open_handle_lock(client, suite->name);
    pawl_lock *free_one = open_handle_lock(client, suite_name(suite, "free"));
    struct recorder *recorder = recorder_new();
    EXPECT(PAWL_OK, pawl_lock_acquire(holder, PAWL_TRY));
    EXPECT(PAWL_OK, pawl_lock_acquire_async(waiting, PAWL_FOREVER, record_done, recorder));
    EXPECT(PAWL_OK, pawl_lock_acquire_async(free_one, PAWL_TRY, cancel_inside, waiting));
    recorder_await(recorder, 1);
    assert_int_equal(recorder_get(recorder, 0).status, PAWL_CANCELED);
}

/* ===== A slow one ===== */

struct gate {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool inside;
    bool open;
};

static void wait_at_gate(pawl_lock *lock, pawl_status status, void *arg)
{
    (void)lock;
    (void)status;
    struct gate *gate = arg;
    pthread_mutex_lock(&gate->mutex);
    gate->inside = true;
    while (!gate->open) {
        pthread_cond_wait(&gate->changed, &gate->mutex);
    }
    pthread_mutex_unlock(&gate->mutex);
}

static bool somebody_waits_at(struct gate *gate)
{
    pthread_mutex_lock(&gate->mutex);
    const bool inside = gate->inside;
    pthread_mutex_unlock(&gate->mutex);
    return inside;
}

static void open_gate(void *arg)
{
    struct gate *gate = arg;
    pthread_mutex_lock(&gate->mutex);
    gate->open = true;
    pthread_cond_broadcast(&gate->changed);
    pthread_mutex_unlock(&gate->mutex);
}

static void set_gate(struct gate *gate)
{
    pthread_mutex_init(&gate->mutex, NULL);
    thread_make_condition(&gate->changed);
    gate->inside = false;
    gate->open = false;
}

static void a_slow_callback_delays_callbacks_alone(const struct suite *suite)
{
    static struct gate gate;
    set_gate(&gate);
    pawl_client *client = open_client(suite);
    struct recorder *recorder = recorder_new();
    pawl_lock_options options = renewed_options(RENEWED_MS);
    record_events(&options, recorder);
    pawl_lock *slow = open_handle_lock(client, suite_name(suite, "slow"));
    pawl_lock *later = open_handle_lock(client, suite_name(suite, "later"));
    pawl_lock *lock = open_lock(client, suite->name, &options);
    cleanup_add(open_gate, &gate); /* should the case fail: closing waits for the callback */
    EXPECT(PAWL_OK, pawl_lock_acquire(lock, PAWL_TRY));
    EXPECT(PAWL_OK, pawl_lock_acquire_async(slow, PAWL_TRY, wait_at_gate, &gate));
    WAIT_UNTIL(somebody_waits_at(&gate), SOON_MS);
    EXPECT(PAWL_OK, pawl_lock_acquire_async(later, PAWL_TRY, record_done, recorder));
    const int64_t end_ms = boottime_ms() + RENEWED_MS + RENEWED_MS / 4;
    while (boottime_ms() < end_ms) { /* calls work, and the lease is renewed */
        assert_true(pawl_lock_remaining_ms(lock) > 0);
        EXPECT(PAWL_OK, pawl_lock_acquire(lock, PAWL_TRY));
        EXPECT(PAWL_OK, pawl_lock_release(lock));
        nap_ms(1);
    }
    assert_int_equal(recorder_count(recorder), 0);
    open_gate(&gate);
    recorder_await(recorder, 1);
    assert_ptr_equal(recorder_get(recorder, 0).lock, later);
    EXPECT(PAWL_OK, pawl_lock_release(lock));
}

/* By then nothing is left of the lock but what the callback needs. */
static void a_call_is_told_when_its_lock_is_closed_long_since(const struct suite *suite)
{
    static struct gate gate;
    set_gate(&gate);
    pawl_client *client = open_client(suite);
    struct recorder *recorder = recorder_new();
    pawl_lock *holder = open_thread_lock(open_client(suite), suite->name);
    pawl_lock *slow = open_handle_lock(client, suite_name(suite, "slow"));
    pawl_lock *lock = open_handle_lock(client, suite->name);
    cleanup_add(open_gate, &gate);
    EXPECT(PAWL_OK, pawl_lock_acquire(holder, PAWL_TRY));
    EXPECT(PAWL_OK, pawl_lock_acquire_async(slow, PAWL_TRY, wait_at_gate, &gate));
    WAIT_UNTIL(somebody_waits_at(&gate), SOON_MS);
    EXPECT(PAWL_OK, pawl_lock_acquire_async(lock, PAWL_FOREVER, record_done, recorder));
    EXPECT(PAWL_OK, close_lock(lock));
    EXPECT(PAWL_OK, pawl_lock_release(holder));
    open_gate(&gate);
    recorder_await(recorder, 1);
    assert_int_equal(recorder_get(recorder, 0).status, PAWL_CANCELED);
    assert_non_null(strstr(recorder_get(recorder, 0).error, suite->name));
}

static pawl_status close_it(void *lock)
{
    return pawl_lock_close(lock);
}

static void close_of_the_lock_waits_for_its_callback(const struct suite *suite)
{
    static struct gate gate;
    set_gate(&gate);
    pawl_client *client = open_client(suite);
    pawl_lock *lock = open_handle_lock(client, suite->name);
    struct actor *actor = actor_new();
    cleanup_add(open_gate, &gate);
    EXPECT(PAWL_OK, pawl_lock_acquire_async(lock, PAWL_TRY, wait_at_gate, &gate));
    WAIT_UNTIL(somebody_waits_at(&gate), SOON_MS);
    cleanup_drop(lock);
    actor_call(actor, close_it, lock);
    actor_await_sleep(actor);
    open_gate(&gate);
    EXPECT(PAWL_OK, actor_answer(actor));
    expect_free(suite, suite->name);
}

static const struct suite_case cases[] = {
    SUITE_CASE(FLAG_ASYNC, calls_that_wait_are_refused_inside),
    SUITE_CASE(FLAG_ASYNC, calls_that_wait_are_refused_inside_on_lost),
    SUITE_CASE(FLAG_ASYNC, asynchronous_calls_go_on_inside),
    SUITE_CASE(FLAG_ASYNC, cancel_works_inside),
    SUITE_CASE(FLAG_ASYNC, a_slow_callback_delays_callbacks_alone),
    SUITE_CASE(FLAG_ASYNC, a_call_is_told_when_its_lock_is_closed_long_since),
    SUITE_CASE(FLAG_ASYNC, close_of_the_lock_waits_for_its_callback),
};

SUITE_GROUP(suite_callback, cases);
