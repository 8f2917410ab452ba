/* SPDX-License-Identifier: Apache-2.0 */
/* P9: closing never hangs; it ends all waits, drains what was sent, and says if a release went
 * unheard.
 *
 * Clients are closed while threads wait, while callbacks run, while the server is frozen, with
 * locks held and locks left open; and two hundred times in a row, with descriptors, threads and
 * memory counted. */
#include "promise/lib/backend.h"

#include "engine/redis/lua_scripts.h"

#include <inttypes.h>
#include <poll.h>

#define LEASE_MS 30000
#define TIMEOUT_MS 300
#define QUERY "?timeout=300ms&connect_timeout=300ms"
#define THREADS 6

/* ===== With threads inside ===== */

struct waiter {
    pthread_t thread;
    pawl_lock *lock;
    int64_t wait_ms;
    pawl_status status;
    pawl_status after; /* a call when the client is closed */
};

static void *wait_inside(void *arg)
{
    struct waiter *waiter = arg;
    waiter->status = pawl_lock_acquire(waiter->lock, waiter->wait_ms);
    waiter->after = pawl_lock_acquire(waiter->lock, PAWL_TRY);
    return NULL;
}

/* All of them wait for a lock that somebody else has. */
static void close_while_they_wait(const char *url, void (*before)(void), int64_t limit_ms)
{
    static struct waiter waiters[THREADS];
    pawl_client *holder = open_client(url, NULL);
    pawl_lock *held = open_lock(holder, "x", LEASE_MS, true);
    ASSERT_OK(pawl_lock_acquire(held, PAWL_TRY));
    pawl_client *client = open_client(url, QUERY);
    for (size_t i = 0; i < THREADS; i++) {
        waiters[i] = (struct waiter){.lock = open_lock(client, "x", LEASE_MS, true),
            .wait_ms = i % 2 == 0 ? PAWL_FOREVER : 20000};
        assert_int_equal(pthread_create(&waiters[i].thread, NULL, wait_inside, &waiters[i]), 0);
    }
    WAIT_UNTIL(stand_in_line(client, waiters[0].lock, THREADS - 1), 5000 * SLOWNESS);
    before();
    const int64_t began_ms = boottime_ms();
    close_client(client);
    ASSERT_BY("close with threads that wait", limit_ms, boottime_ms() - began_ms);
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(waiters[i].thread, NULL);
        assert_int_equal(waiters[i].status, PAWL_CANCELED);
        assert_true(waiters[i].after == PAWL_MISUSE || waiters[i].after == PAWL_CANCELED);
        ASSERT_OK(pawl_lock_close(waiters[i].lock)); /* after its client */
    }
    server_resume(server);
    ASSERT_OK(pawl_lock_release(held));
    pawl_lock_close(held);
    ASSERT_OK(close_client(holder));
}

static void nothing(void)
{
}

static void freeze(void)
{
    server_pause(server);
}

static void waits_end_with_canceled(void **state)
{
    (void)state;
    close_while_they_wait(server_url(server), nothing, 0);
    close_while_they_wait(file_url, nothing, 0);
}

static void waits_end_also_if_the_server_is_frozen(void **state)
{
    (void)state;
    close_while_they_wait(server_url(server), freeze, TIMEOUT_MS);
}

/* ===== What is held ===== */

static void what_is_held_is_released(void **state)
{
    (void)state;
    const char *const urls[] = {server_url(server), file_url};
    for (size_t i = 0; i < 2; i++) {
        pawl_client *client = open_client(urls[i], NULL);
        pawl_client *other = open_client(urls[i], NULL);
        pawl_lock *locks[20];
        pawl_lock *theirs[20];
        for (size_t j = 0; j < 20; j++) {
            char name[32];
            snprintf(name, sizeof name, "held%zu", j);
            locks[j] = open_lock(client, name, LEASE_MS, true);
            theirs[j] = open_lock(other, name, LEASE_MS, true);
            ASSERT_OK(pawl_lock_acquire(locks[j], PAWL_TRY));
            ASSERT_OK(pawl_lock_acquire(locks[j], PAWL_TRY));
        }
        ASSERT_OK(close_client(client));
        for (size_t j = 0; j < 20; j++) {
            ASSERT_OK(pawl_lock_acquire(theirs[j], PAWL_TRY));
            ASSERT_STATUS(PAWL_MISUSE, pawl_lock_release(locks[j]));
            assert_int_equal(pawl_lock_token(locks[j]), 0);
            ASSERT_OK(pawl_lock_close(locks[j]));
            ASSERT_OK(pawl_lock_close(theirs[j])); /* releases, too */
        }
        ASSERT_OK(close_client(other));
        assert_int_equal(server_integer(server, "EXISTS held0 held19"), 0);
    }
}

static void an_unheard_release_is_told(void **state)
{
    (void)state;
    pawl_client *client = open_client(server_url(server), QUERY);
    pawl_lock *lock = open_lock(client, "x", LEASE_MS, true);
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
    server_pause(server);
    ASSERT_ENDS("close with a frozen server", TIMEOUT_MS, PAWL_UNAVAILABLE, close_client(client));
    server_resume(server);
    ASSERT_OK(pawl_lock_close(lock));
}

static void a_lock_closed_under_a_frozen_server_says_so(void **state)
{
    (void)state;
    pawl_client *client = open_client(server_url(server), QUERY);
    pawl_lock *lock = open_lock(client, "x", LEASE_MS, true);
    pawl_lock *unused = open_lock(client, "y", LEASE_MS, true);
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
    server_pause(server);
    ASSERT_ENDS("close of a held lock", TIMEOUT_MS, PAWL_UNAVAILABLE, pawl_lock_close(lock));
    ASSERT_ENDS("close of a free lock", 0, PAWL_OK, pawl_lock_close(unused));
    server_resume(server);
    WAIT_UNTIL(!is_locked(server, "x"), 3000); /* it goes on in the background */
    ASSERT_OK(close_client(client));
}

/* Released without waiting: they are on their way, and close sees them off. */
static void unawaited_releases_are_drained(void **state)
{
    (void)state;
    enum { LOCKS = 500 };
    proxy = proxy_start_for(server);
    pawl_client *client = open_client(proxy_url(proxy), NULL);
    pawl_lock *locks[LOCKS];
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    options.release_unawaited = true;
    for (size_t i = 0; i < LOCKS; i++) {
        char name[32];
        snprintf(name, sizeof name, "drained%zu", i);
        locks[i] = open_lock_with(client, name, &options);
        ASSERT_OK(pawl_lock_acquire(locks[i], PAWL_TRY));
    }
    proxy_set_delay(proxy, PROXY_TO_CLIENT, 100, 0);
    const int64_t began_ms = boottime_ms();
    for (size_t i = 0; i < LOCKS; i++) {
        ASSERT_OK(pawl_lock_release(locks[i]));
    }
    ASSERT_BY("500 releases that nobody waits for", 100, boottime_ms() - began_ms);
    ASSERT_OK(close_client(client));
    assert_int_equal(proxy_forwarded(proxy, pawl__script_release.sha1), LOCKS);
    /* The counters alone: the client's key goes last, and nobody waits for that. */
    WAIT_UNTIL(server_integer(server, "DBSIZE") == LOCKS, SLACK_MS);
    for (size_t i = 0; i < LOCKS; i++) {
        ASSERT_OK(pawl_lock_close(locks[i]));
    }
}

/* ===== Callbacks ===== */

static _Atomic unsigned calls[PAWL_UNSUPPORTED + 1]; /* by status */

static void count_call(pawl_lock *lock, pawl_status status, void *arg)
{
    (void)lock;
    atomic_fetch_add(&calls[status], 1);
    atomic_fetch_add((_Atomic unsigned *)arg, 1);
}

static unsigned call_count(void)
{
    unsigned sum = 0;
    for (size_t i = 0; i <= PAWL_UNSUPPORTED; i++) {
        sum += atomic_load(&calls[i]);
    }
    return sum;
}

/* Many acquires under way, some of which can succeed; then the client is closed. */
static void close_with_async_under_way(const char *url, void (*before)(void), int64_t limit_ms)
{
    enum { CALLS = 60 };
    static _Atomic unsigned each[CALLS];
    pawl_lock *locks[CALLS];
    pawl_client *client = open_client(url, QUERY);
    memset(&calls, 0, sizeof calls);
    memset(&each, 0, sizeof each);
    for (size_t i = 0; i < CALLS; i++) {
        char name[32];
        snprintf(name, sizeof name, "async%zu", i % 20); /* three want the same */
        locks[i] = open_handle(client, name, LEASE_MS, true);
    }
    before();
    for (size_t i = 0; i < CALLS; i++) {
        ASSERT_OK(pawl_lock_acquire_async(locks[i], PAWL_FOREVER, count_call, &each[i]));
    }
    const int64_t began_ms = boottime_ms();
    close_client(client);
    ASSERT_BY("close with asynchronous calls", limit_ms, boottime_ms() - began_ms);
    server_resume(server);
    assert_int_equal(call_count(), CALLS);
    for (size_t i = 0; i < CALLS; i++) {
        assert_int_equal(atomic_load(&each[i]), 1);
        ASSERT_STATUS(
            PAWL_MISUSE, pawl_lock_acquire_async(locks[i], PAWL_TRY, count_call, &each[i]));
        ASSERT_OK(pawl_lock_close(locks[i]));
    }
    print_message("%u got it, %u were canceled\n", atomic_load(&calls[PAWL_OK]),
        atomic_load(&calls[PAWL_CANCELED]));
}

static void asynchronous_calls_end_exactly_once(void **state)
{
    (void)state;
    close_with_async_under_way(server_url(server), nothing, TIMEOUT_MS);
    assert_int_equal(server_integer(server, "EXISTS async0 async19"), 0);
    close_with_async_under_way(file_url, nothing, 0);
    close_with_async_under_way(server_url(server), freeze, TIMEOUT_MS);
}

static _Atomic int inside;  /* callbacks running */
static _Atomic int entered; /* callbacks begun */

static void take_your_time(pawl_lock *lock, pawl_status status, void *arg)
{
    (void)status;
    (void)arg;
    atomic_fetch_add(&entered, 1);
    atomic_fetch_add(&inside, 1);
    nap_ms(300);
    const pawl_status waits = pawl_lock_acquire(lock, PAWL_TRY);
    atomic_fetch_add(&calls[waits], 1);
    atomic_fetch_sub(&inside, 1);
}

static void close_waits_for_a_callback_that_runs(void **state)
{
    (void)state;
    pawl_client *client = open_client(server_url(server), NULL);
    pawl_lock *lock = open_handle(client, "x", LEASE_MS, true);
    pawl_lock *second = open_handle(client, "y", LEASE_MS, true);
    memset(&calls, 0, sizeof calls);
    atomic_store(&entered, 0);
    ASSERT_OK(pawl_lock_acquire_async(lock, PAWL_TRY, take_your_time, NULL));
    WAIT_UNTIL(atomic_load(&entered) == 1, 2000);
    ASSERT_OK(pawl_lock_acquire_async(second, PAWL_TRY, take_your_time, NULL));
    close_client(client);
    assert_int_equal(atomic_load(&inside), 0);
    assert_int_equal(atomic_load(&entered), 2);
    assert_int_equal(atomic_load(&calls[PAWL_MISUSE]), 2); /* a callback must not wait for us */
    ASSERT_OK(pawl_lock_close(lock));
    ASSERT_OK(pawl_lock_close(second));
}

static _Atomic pawl_status close_status;

static void close_inside(pawl_lock *lock, pawl_status status, void *arg)
{
    (void)lock;
    (void)status;
    atomic_store(&close_status, pawl_client_close(arg));
    atomic_fetch_add(&entered, 1);
}

static void a_callback_cannot_close_its_own_client(void **state)
{
    (void)state;
    pawl_client *client = open_client(server_url(server), NULL);
    pawl_lock *lock = open_handle(client, "x", LEASE_MS, true);
    atomic_store(&entered, 0);
    ASSERT_OK(pawl_lock_acquire_async(lock, PAWL_TRY, close_inside, client));
    WAIT_UNTIL(atomic_load(&entered) == 1, 2000);
    assert_int_equal(atomic_load(&close_status), PAWL_MISUSE);
    ASSERT_OK(pawl_lock_release(lock));
    pawl_lock_close(lock);
    ASSERT_OK(close_client(client));
}

static void close_runs_what_is_due_in_dispatch_mode(void **state)
{
    (void)state;
    pawl_client_options options = PAWL_CLIENT_OPTIONS_INIT;
    options.dispatch = true;
    static _Atomic unsigned once;
    atomic_store(&once, 0);
    pawl_client *client = open_client_with(server_url(server), NULL, &options);
    pawl_lock *lock = open_handle(client, "x", LEASE_MS, true);
    ASSERT_OK(pawl_lock_acquire_async(lock, PAWL_TRY, count_call, &once));
    struct pollfd due = {.fd = pawl_client_fd(client), .events = POLLIN};
    assert_int_equal(poll(&due, 1, 5000), 1);
    assert_int_equal(atomic_load(&once), 0); /* nobody has dispatched */
    ASSERT_OK(close_client(client));
    assert_int_equal(atomic_load(&once), 1);
    ASSERT_OK(pawl_lock_close(lock));
}

/* ===== Again and again ===== */

static void open_use_close(const char *url, int round)
{
    pawl_client *client = open_client(url, NULL);
    pawl_lock *lock = open_lock(client, "again", LEASE_MS, true);
    pawl_lock *handle = open_handle(client, "again", LEASE_MS, true);
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
    if (round % 4 == 0) {
        ASSERT_STATUS(PAWL_BUSY, pawl_lock_acquire(handle, 2)); /* the push connection, too */
    }
    if (round % 2 == 0) {
        ASSERT_OK(pawl_lock_release(lock));
        pawl_lock_close(lock);
        pawl_lock_close(handle);
        ASSERT_OK(close_client(client));
    } else {
        ASSERT_OK(close_client(client));
        pawl_lock_close(handle);
        pawl_lock_close(lock);
    }
}

static void two_hundred_times_leave_nothing_behind(void **state)
{
    (void)state;
    const char *const urls[] = {server_url(server), file_url};
    for (size_t i = 0; i < 2; i++) {
        for (int j = 0; j < 20; j++) {
            open_use_close(urls[i], j); /* what is made once and kept */
        }
        const size_t descriptors = open_descriptor_count();
        const size_t threads = thread_count();
        const size_t resident = resident_size();
        for (int j = 0; j < 200; j++) {
            open_use_close(urls[i], j);
        }
        assert_int_equal(open_descriptor_count(), descriptors);
        assert_int_equal(thread_count(), threads);
        const size_t now = resident_size();
        print_message(
            "%.5s: resident memory %zu KiB, was %zu KiB\n", urls[i], now / 1024, resident / 1024);
        assert_true(SLOWNESS > 1 || now < resident + (1 << 20));
        WAIT_UNTIL(server_client_count(server, NULL) == 0, 2000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(backend_begin_file, waits_end_with_canceled),
        CASE(backend_begin_file, waits_end_also_if_the_server_is_frozen),
        CASE(backend_begin_file, what_is_held_is_released),
        CASE(backend_begin_file, an_unheard_release_is_told),
        CASE(backend_begin_file, a_lock_closed_under_a_frozen_server_says_so),
        CASE(backend_begin_file, unawaited_releases_are_drained),
        CASE(backend_begin_file, asynchronous_calls_end_exactly_once),
        CASE(backend_begin_file, close_waits_for_a_callback_that_runs),
        CASE(backend_begin_file, a_callback_cannot_close_its_own_client),
        CASE(backend_begin_file, close_runs_what_is_due_in_dispatch_mode),
        CASE(backend_begin_file, two_hundred_times_leave_nothing_behind),
    };
    return cmocka_run_group_tests(tests, backend_start, NULL);
}
