/* SPDX-License-Identifier: Apache-2.0 */
/* P4 when memory is short: every single allocation fails once, on every engine, through a whole
 * life: open, acquire, wait, re-enter, extend, inspect, release, asynchronous calls, close.
 *
 * Whatever fails, each call answers with a clean status, a callback that was promised comes once, a
 * hold that was granted is kept and can be released, nothing is left in the backend, and (under the
 * address sanitizer) nothing leaks. In a second sweep memory stays short from the n-th allocation
 * on until the calls are over. */
#include "promise/lib/backend.h"

#include "base/alloc.h"

#include <inttypes.h>

#define LEASE_MS 20000
#define QUERY "?timeout=2s&connect_timeout=2s"
#define SHORT_QUERY "?timeout=60ms&connect_timeout=60ms"

/* ===== The hook ===== */

static _Atomic uint64_t allocation_count;
static _Atomic uint64_t fail_from; /* 0: none */
static _Atomic uint64_t fail_until;
static _Atomic uint64_t failure_count;

static bool may_allocate(size_t size)
{
    (void)size;
    const uint64_t from = atomic_load(&fail_from);
    const uint64_t nth = atomic_fetch_add(&allocation_count, 1) + 1;
    if (from == 0 || nth < from || nth > atomic_load(&fail_until)) {
        return true;
    }
    atomic_fetch_add(&failure_count, 1);
    return false;
}

static void fail_range(uint64_t from, uint64_t until)
{
    atomic_store(&fail_from, 0);
    atomic_store(&allocation_count, 0);
    atomic_store(&failure_count, 0);
    atomic_store(&fail_until, until);
    atomic_store(&fail_from, from);
}

static void fail_nth(uint64_t nth)
{
    fail_range(nth, nth);
}

static bool has_failed(void)
{
    return atomic_load(&failure_count) > 0;
}

static void enough_memory(void)
{
    atomic_store(&fail_from, 0);
}

static int start(void **state)
{
    (void)state;
    pawl__alloc_hook = may_allocate;
    server = server_start(NULL);
    return 0;
}

/* ===== One life ===== */

struct life {
    const char *url;
    const char *query;
    bool lasting; /* memory stays short: releases may go unconfirmed */
    pawl_client *client;
    pawl_lock *lock;
    pawl_lock *rival; /* another owner of the same name */
    pawl_lock *other;
    bool well; /* every call did what it should */
};

static _Atomic unsigned promised;
static _Atomic unsigned called;

struct result {
    _Atomic int status; /* -1: none yet */
};

static void note_call(pawl_lock *lock, pawl_status status, void *arg)
{
    struct result *result = arg;
    (void)lock;
    atomic_store(&result->status, (int)status);
    atomic_fetch_add(&called, 1);
}

/* A call that needs memory may say that there is none, or that it could not ask. */
static void expect(struct life *life, pawl_status wanted, pawl_status got, const char *call)
{
    if (got == wanted) {
        return;
    }
    life->well = false;
    if (got != PAWL_NO_MEMORY && got != PAWL_UNAVAILABLE) {
        support_fail("allocation %" PRIu64 ": %s answered %s, not %s: %s", atomic_load(&fail_from),
            call, pawl_status_string(got), pawl_status_string(wanted), pawl_last_error());
    }
    if (pawl_last_error()[0] == '\0') {
        support_fail("allocation %" PRIu64 ": %s says nothing", atomic_load(&fail_from), call);
    }
}

#define EXPECT(wanted, call) expect(life, wanted, call, #call)

/* What was granted is held, and its release does not depend on memory. */
static void hold_and_let_go(struct life *life)
{
    pawl_lock_info info = {.size = sizeof info};
    assert_true(pawl_lock_token(life->lock) > 0);
    assert_true(pawl_lock_remaining_ms(life->lock) > LEASE_MS / 2);
    EXPECT(PAWL_OK, pawl_lock_extend(life->lock, LEASE_MS));
    EXPECT(PAWL_BUSY, pawl_lock_acquire(life->rival, 5));
    EXPECT(PAWL_OK, pawl_lock_inspect(life->lock, &info));
    const pawl_status again = pawl_lock_acquire(life->lock, PAWL_TRY);
    expect(life, PAWL_OK, again, "a re-entry");
    assert_int_equal(pawl_lock_hold_count(life->lock), again == PAWL_OK ? 2 : 1);
    if (again == PAWL_OK) {
        ASSERT_OK(pawl_lock_release(life->lock));
    }
    assert_true(pawl_lock_remaining_ms(life->lock) > 0);
    const pawl_status status = pawl_lock_release(life->lock);
    if (life->lasting) {
        expect(life, PAWL_OK, status, "the release");
    } else {
        ASSERT_OK(status); /* one failure does not get into its way */
    }
    ASSERT_STATUS(PAWL_NOT_HELD, pawl_lock_release(life->lock));
}

static void use_async(struct life *life)
{
    static struct result result;
    atomic_store(&result.status, -1);
    pawl_status status = pawl_lock_acquire_async(life->other, 1000, note_call, &result);
    expect(life, PAWL_OK, status, "an asynchronous acquire");
    if (status != PAWL_OK) {
        return;
    }
    atomic_fetch_add(&promised, 1);
    WAIT_UNTIL(atomic_load(&result.status) >= 0, 5000);
    status = (pawl_status)atomic_load(&result.status);
    expect(life, PAWL_OK, status, "the end of an asynchronous acquire");
    if (status == PAWL_OK) {
        atomic_store(&result.status, -1);
        status = pawl_lock_release_async(life->other, note_call, &result);
        expect(life, PAWL_OK, status, "an asynchronous release");
        if (status == PAWL_OK) {
            atomic_fetch_add(&promised, 1);
            WAIT_UNTIL(atomic_load(&result.status) >= 0, 5000);
        }
    }
}

static void open_locks(struct life *life)
{
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    options.lease_ms = LEASE_MS;
    EXPECT(PAWL_OK, pawl_lock_open(life->client, "x", &options, &life->lock));
    options.owner = PAWL_OWNER_HANDLE;
    EXPECT(PAWL_OK, pawl_lock_open(life->client, "x", &options, &life->rival));
    EXPECT(PAWL_OK, pawl_lock_open(life->client, "y", &options, &life->other));
}

static void close_all(struct life *life)
{
    enough_memory();
    pawl_lock_close(life->other);
    pawl_lock_close(life->rival);
    pawl_lock_close(life->lock);
    const pawl_status status = pawl_client_close(life->client);
    assert_true(status == PAWL_OK || (life->lasting && status == PAWL_UNAVAILABLE));
    assert_int_equal(atomic_load(&called), atomic_load(&promised));
}

static bool live(void *arg)
{
    struct life *life = arg;
    char url[2 * URL_SIZE];
    life->client = NULL;
    life->lock = NULL;
    life->rival = NULL;
    life->other = NULL;
    life->well = true;
    snprintf(url, sizeof url, "%s%s", life->url, life->query);
    EXPECT(PAWL_OK, pawl_client_open(url, NULL, &life->client));
    if (life->client == NULL) {
        return false;
    }
    open_locks(life);
    if (life->lock != NULL && life->rival != NULL && life->other != NULL) {
        const pawl_status status = pawl_lock_acquire(life->lock, PAWL_TRY);
        expect(life, PAWL_OK, status, "the acquire");
        if (status == PAWL_OK) {
            hold_and_let_go(life);
        }
        use_async(life);
    }
    close_all(life);
    return life->well;
}

/* ===== Sweeps ===== */

/* Nothing of those lives is left. */
static void assert_free(const char *url)
{
    pawl_client *client = open_client(url, NULL);
    pawl_lock *first = open_lock(client, "x", LEASE_MS, true);
    pawl_lock *second = open_lock(client, "y", LEASE_MS, true);
    ASSERT_OK(pawl_lock_acquire(first, 3000));
    ASSERT_OK(pawl_lock_acquire(second, 3000));
    pawl_lock_close(first);
    pawl_lock_close(second);
    ASSERT_OK(close_client(client));
}

static void every_single_allocation_fails_once(const char *url)
{
    struct life life = {.url = url, .query = QUERY};
    const struct allocation_sweep sweep = {
        .fail_nth = fail_nth, .fired = has_failed, .attempt = live, .arg = &life, .nth_max = 5000};
    const size_t descriptors = open_descriptor_count();
    const uint64_t count = sweep_allocations(&sweep);
    print_message("%.6s: %" PRIu64 " allocations failed, one after the other\n", url, count);
    assert_true(count >= 10);
    assert_int_equal(open_descriptor_count(), descriptors);
    assert_free(url);
}

static void memory_stays_short(const char *url, uint64_t step)
{
    struct life life = {.url = url, .query = SHORT_QUERY, .lasting = true};
    uint64_t runs = 0;
    bool failed = true;
    for (uint64_t from = 1; failed && from < 5000; from += step) {
        fail_range(from, UINT64_MAX);
        live(&life);
        failed = has_failed();
        enough_memory();
        runs++;
    }
    assert_false(failed);
    print_message("%.6s: %" PRIu64 " lives in which memory stayed short\n", url, runs);
    if (strncmp(url, "redis", 5) == 0) {
        free(server_command(server, "DEL x y")); /* what went unheard ends with its lease */
    }
    assert_free(url);
}

static const char *make_file_url(void)
{
    static char url[URL_SIZE];
    snprintf(url, sizeof url, "file://%s", tempdir_make());
    return url;
}

static void one_failure_on_redis(void **state)
{
    (void)state;
    every_single_allocation_fails_once(server_url(server));
    assert_int_equal(server_integer(server, "EXISTS x y"), 0);
}

static void one_failure_on_files(void **state)
{
    (void)state;
    every_single_allocation_fails_once(make_file_url());
}

static void one_failure_in_memory(void **state)
{
    (void)state;
    every_single_allocation_fails_once("memory:shortage");
}

static void a_lasting_shortage_on_redis(void **state)
{
    (void)state;
    memory_stays_short(server_url(server), 1);
}

static void a_lasting_shortage_on_files(void **state)
{
    (void)state;
    memory_stays_short(make_file_url(), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(backend_begin, one_failure_in_memory),
        CASE(backend_begin, one_failure_on_files),
        CASE(backend_begin, one_failure_on_redis),
        CASE(backend_begin, a_lasting_shortage_on_files),
        CASE(backend_begin, a_lasting_shortage_on_redis),
    };
    return cmocka_run_group_tests(tests, start, NULL);
}
