/* SPDX-License-Identifier: Apache-2.0 */
/* Semaphores whose permits have no lease. */
#include "synchronizers/lib/cases.h"

#include <stdatomic.h>
#include <string.h>

static void counts(void **state)
{
    (void)state;
    pawl_client *client = open_client();
    pawl_semaphore *semaphore = open_semaphore(client, "counts", false);
    bool set = false;
    int64_t drained = -1;
    assert_int_equal(available(semaphore), 0);
    EXPECT(PAWL_BUSY, pawl_semaphore_acquire(semaphore, 1, PAWL_TRY));
    assert_non_null(strstr(pawl_last_error(), "pawl_semaphore_set"));
    EXPECT_OK(pawl_semaphore_set(semaphore, 5, &set));
    assert_true(set);
    EXPECT_OK(pawl_semaphore_set(semaphore, 7, &set));
    assert_false(set);
    assert_int_equal(available(semaphore), 5);
    EXPECT_OK(pawl_semaphore_acquire(semaphore, 3, PAWL_TRY));
    EXPECT(PAWL_BUSY, pawl_semaphore_acquire(semaphore, 3, PAWL_TRY));
    assert_int_equal(available(semaphore), 2);
    EXPECT_OK(pawl_semaphore_release(semaphore, 3));
    EXPECT_OK(pawl_semaphore_add(semaphore, 4));
    EXPECT_OK(pawl_semaphore_drain(semaphore, &drained));
    assert_int_equal(drained, 9);
    assert_int_equal(available(semaphore), 0);
    EXPECT_OK(pawl_semaphore_drain(semaphore, &drained));
    assert_int_equal(drained, 0);
    EXPECT_OK(pawl_semaphore_add(semaphore, -2));
    assert_int_equal(available(semaphore), -2);
    EXPECT_OK(pawl_semaphore_release(semaphore, 3));
    assert_int_equal(available(semaphore), 1);
    EXPECT_OK(pawl_semaphore_close(semaphore));
    EXPECT_OK(pawl_client_close(client));
}

static int64_t release_for_one(pawl_semaphore *mine, pawl_semaphore *other)
{
    struct caller caller;
    EXPECT_OK(pawl_semaphore_acquire(mine, 2, PAWL_TRY));
    call_acquire(&caller, other, 2, PAWL_FOREVER);
    call_await_rest(&caller);
    assert_int_equal(available(other), 0);      /* answered behind its question */
    EXPECT_OK(pawl_semaphore_release(mine, 1)); /* not enough for it */
    nap_ms(30); /* that it has looked in vain cannot be seen from outside */
    assert_false(call_is_over(&caller));
    const int64_t began_ms = boottime_ms();
    EXPECT_OK(pawl_semaphore_release(mine, 1));
    EXPECT_OK(call_join(&caller));
    const int64_t took_ms = boottime_ms() - began_ms;
    assert_int_equal(available(mine), 0);
    EXPECT_OK(pawl_semaphore_release(other, 2));
    return took_ms;
}

static void waits_for_a_release(void **state)
{
    (void)state;
    pawl_client *ours = open_client();
    pawl_client *theirs = open_client();
    pawl_semaphore *mine = open_semaphore(ours, "waits", false);
    pawl_semaphore *other = open_semaphore(theirs, "waits", false);
    int64_t took_ms = INT64_MAX;
    EXPECT_OK(pawl_semaphore_set(mine, 2, NULL));
    for (int i = 0; i < 4 && took_ms >= LOOK_MS; i++) { /* the machine may be busy */
        took_ms = release_for_one(mine, other);
    }
    assert_true(took_ms < LOOK_MS); /* by message */
    EXPECT_OK(pawl_semaphore_close(mine));
    EXPECT_OK(pawl_semaphore_close(other));
    EXPECT_OK(pawl_client_close(ours));
    EXPECT_OK(pawl_client_close(theirs));
}

static void limits_of_a_wait(void **state)
{
    (void)state;
    pawl_client *client = open_client();
    pawl_semaphore *semaphore = open_semaphore(client, "limits", false);
    EXPECT_OK(pawl_semaphore_set(semaphore, 1, NULL));
    int64_t began_ms = boottime_ms();
    EXPECT(PAWL_BUSY, pawl_semaphore_acquire(semaphore, 2, 120));
    int64_t took_ms = boottime_ms() - began_ms;
    assert_true(took_ms >= 119 && took_ms < 5000);
    assert_non_null(strstr(pawl_last_error(), "semaphore 'limits'"));
    assert_int_equal(available(semaphore), 1);
    EXPECT_OK(pawl_semaphore_close(semaphore));
    EXPECT_OK(pawl_client_close(client));
}

static void cancels(void **state)
{
    (void)state;
    pawl_client *client = open_client();
    pawl_semaphore *semaphore = open_semaphore(client, "cancels", false);
    struct caller callers[3];
    EXPECT_OK(pawl_semaphore_set(semaphore, 0, NULL));
    for (size_t i = 0; i < 3; i++) {
        call_acquire(&callers[i], semaphore, 1, PAWL_FOREVER);
        call_await_rest(&callers[i]);
    }
    assert_int_equal(available(semaphore), 0); /* answered behind the first one's question */
    pawl_semaphore_cancel(semaphore);
    for (size_t i = 0; i < 3; i++) {
        if (!call_is_over(&callers[i])) {
            WAIT_UNTIL((pawl_semaphore_cancel(semaphore), call_is_over(&callers[i])), SOON_MS);
        }
        EXPECT(PAWL_CANCELED, call_join(&callers[i]));
    }
    EXPECT_OK(pawl_semaphore_release(semaphore, 3));
    assert_int_equal(available(semaphore), 3);
    EXPECT_OK(pawl_semaphore_close(semaphore));
    EXPECT_OK(pawl_client_close(client));
}

static void closing_ends_waits(void **state)
{
    (void)state;
    pawl_client *client = open_client();
    pawl_semaphore *semaphore = open_semaphore(client, "closing", false);
    struct caller caller;
    EXPECT_OK(pawl_semaphore_set(semaphore, 0, NULL));
    call_acquire(&caller, semaphore, 1, PAWL_FOREVER);
    call_await_rest(&caller);
    EXPECT_OK(pawl_client_close(client));
    pawl_status status = call_join(&caller);
    assert_true(status == PAWL_CANCELED || status == PAWL_MISUSE);
    EXPECT_OK(pawl_semaphore_close(semaphore));
}

static void first_come_first_served(void **state)
{
    (void)state;
    pawl_client *client = open_client();
    pawl_semaphore *semaphore = open_semaphore(client, "order", false);
    struct caller many;
    struct caller few;
    EXPECT_OK(pawl_semaphore_set(semaphore, 2, NULL));
    call_acquire(&many, semaphore, 3, PAWL_FOREVER);
    call_await_rest(&many);
    assert_int_equal(available(semaphore), 2); /* answered behind it: so it stands in line now */
    call_acquire(&few, semaphore, 1, PAWL_FOREVER);
    call_await_rest(&few);
    assert_int_equal(available(semaphore), 2);
    assert_false(call_is_over(&few)); /* two are free, but another one waits for three */
    EXPECT_OK(pawl_semaphore_release(semaphore, 1));
    EXPECT_OK(call_join(&many));
    EXPECT_OK(pawl_semaphore_release(semaphore, 3));
    EXPECT_OK(call_join(&few));
    assert_int_equal(available(semaphore), 2);
    EXPECT_OK(pawl_semaphore_close(semaphore));
    EXPECT_OK(pawl_client_close(client));
}

/* Whoever waits gets on when the first of them gives up. */
static void those_behind_go_on(void **state)
{
    (void)state;
    pawl_client *client = open_client();
    pawl_semaphore *semaphore = open_semaphore(client, "behind", false);
    struct caller many;
    struct caller few;
    EXPECT_OK(pawl_semaphore_set(semaphore, 2, NULL));
    call_acquire(&many, semaphore, 3, 300);
    call_await_rest(&many);
    call_acquire(&few, semaphore, 2, PAWL_FOREVER);
    EXPECT(PAWL_BUSY, call_join(&many));
    EXPECT_OK(call_join(&few));
    EXPECT_OK(pawl_semaphore_close(semaphore));
    EXPECT_OK(pawl_client_close(client));
}

/* How long it takes until all who wait, in two clients, have what is released at once. */
static int64_t release_for_all(const char *name)
{
    enum { CALLERS = 24 };
    pawl_client *clients[2] = {open_client(), open_client()};
    pawl_semaphore *semaphores[2];
    struct caller callers[CALLERS];
    for (size_t i = 0; i < 2; i++) {
        semaphores[i] = open_semaphore(clients[i], name, false);
    }
    EXPECT_OK(pawl_semaphore_set(semaphores[0], 0, NULL));
    for (size_t i = 0; i < CALLERS; i++) {
        call_acquire(&callers[i], semaphores[i % 2], 1, PAWL_FOREVER);
        call_await_rest(&callers[i]);
    }
    assert_int_equal(available(semaphores[0]), 0);
    assert_int_equal(available(semaphores[1]), 0);
    int64_t began_ms = boottime_ms();
    EXPECT_OK(pawl_semaphore_release(semaphores[0], CALLERS));
    for (size_t i = 0; i < CALLERS; i++) {
        EXPECT_OK(call_join(&callers[i]));
    }
    const int64_t took_ms = boottime_ms() - began_ms;
    assert_int_equal(available(semaphores[0]), 0);
    for (size_t i = 0; i < 2; i++) {
        EXPECT_OK(pawl_semaphore_close(semaphores[i]));
        EXPECT_OK(pawl_client_close(clients[i]));
    }
    return took_ms;
}

/* A release of many reaches many who wait, in this process and in others, by message. */
static void crowd(void **state)
{
    (void)state;
    static const char *const names[] = {"crowd-1", "crowd-2", "crowd-3", "crowd-4"};
    int64_t took_ms = INT64_MAX;
    for (size_t i = 0; i < 4 && took_ms >= LOOK_MS; i++) { /* the machine may be busy */
        took_ms = release_for_all(names[i]);
    }
    assert_true(took_ms < LOOK_MS);
}

struct worker {
    pthread_t thread;
    pawl_semaphore *semaphore;
    int64_t permits;
    _Atomic int64_t *inside;
    _Atomic int64_t *most;
};

static void *work(void *arg)
{
    struct worker *worker = arg;
    for (int i = 0; i < 40; i++) {
        EXPECT_OK(pawl_semaphore_acquire(worker->semaphore, worker->permits, PAWL_FOREVER));
        int64_t now = atomic_fetch_add(worker->inside, worker->permits) + worker->permits;
        int64_t most = atomic_load(worker->most);
        while (now > most && !atomic_compare_exchange_weak(worker->most, &most, now)) {
        }
        atomic_fetch_sub(worker->inside, worker->permits);
        EXPECT_OK(pawl_semaphore_release(worker->semaphore, worker->permits));
    }
    return NULL;
}

static void never_too_many(void **state)
{
    (void)state;
    enum { WORKERS = 8, PERMITS = 4 };
    _Atomic int64_t inside = 0;
    _Atomic int64_t most = 0;
    pawl_client *clients[2] = {open_client(), open_client()};
    pawl_semaphore *semaphores[2];
    struct worker workers[WORKERS];
    for (size_t i = 0; i < 2; i++) {
        semaphores[i] = open_semaphore(clients[i], "hammer", false);
    }
    EXPECT_OK(pawl_semaphore_set(semaphores[0], PERMITS, NULL));
    for (size_t i = 0; i < WORKERS; i++) {
        workers[i] = (struct worker){.semaphore = semaphores[i % 2],
            .permits = 1 + (int64_t)i % 3,
            .inside = &inside,
            .most = &most};
        thread_start(&workers[i].thread, work, &workers[i]);
    }
    for (size_t i = 0; i < WORKERS; i++) {
        pthread_join(workers[i].thread, NULL);
    }
    assert_in_range(atomic_load(&most), 1, PERMITS);
    assert_int_equal(available(semaphores[0]), PERMITS);
    for (size_t i = 0; i < 2; i++) {
        EXPECT_OK(pawl_semaphore_close(semaphores[i]));
        EXPECT_OK(pawl_client_close(clients[i]));
    }
}

/* ===== Without blocking ===== */

struct told {
    _Atomic int count;
    _Atomic int status;
};

static void tell(pawl_semaphore *semaphore, pawl_status status, void *arg)
{
    struct told *told = arg;
    int64_t ignored;
    assert_non_null(semaphore);
    EXPECT(PAWL_MISUSE, pawl_semaphore_available(semaphore, &ignored));
    atomic_store(&told->status, (int)status);
    atomic_fetch_add(&told->count, 1);
}

static void asynchronously(void **state)
{
    (void)state;
    pawl_client *client = open_client();
    pawl_semaphore *semaphore = open_semaphore(client, "async", false);
    struct told told = {0, 0};
    EXPECT_OK(pawl_semaphore_set(semaphore, 1, NULL));
    EXPECT_OK(pawl_semaphore_acquire_async(semaphore, 1, PAWL_TRY, tell, &told));
    WAIT_UNTIL(atomic_load(&told.count) == 1, SOON_MS);
    assert_int_equal(atomic_load(&told.status), PAWL_OK);
    EXPECT_OK(pawl_semaphore_acquire_async(semaphore, 2, PAWL_FOREVER, tell, &told));
    assert_int_equal(available(semaphore), 0); /* answered behind it */
    assert_int_equal(atomic_load(&told.count), 1);
    EXPECT_OK(pawl_semaphore_release(semaphore, 2));
    WAIT_UNTIL(atomic_load(&told.count) == 2, SOON_MS);
    assert_int_equal(atomic_load(&told.status), PAWL_OK);
    EXPECT_OK(pawl_semaphore_acquire_async(semaphore, 1, PAWL_FOREVER, tell, &told));
    assert_int_equal(available(semaphore), 0);
    pawl_semaphore_cancel(semaphore);
    WAIT_UNTIL(atomic_load(&told.count) == 3, SOON_MS);
    assert_int_equal(atomic_load(&told.status), PAWL_CANCELED);
    EXPECT_OK(pawl_semaphore_close(semaphore));
    EXPECT_OK(pawl_client_close(client));
}

/* ===== Mistakes ===== */

static void refuses_nonsense(void **state)
{
    (void)state;
    pawl_client *client = open_client();
    pawl_semaphore *semaphore = open_semaphore(client, "nonsense", false);
    pawl_semaphore *other = NULL;
    pawl_lock *lock = NULL;
    pawl_latch *latch = NULL;
    int64_t number;
    EXPECT(PAWL_INVALID, pawl_semaphore_open(client, "", NULL, &other));
    EXPECT(PAWL_INVALID, pawl_semaphore_open(NULL, "x", NULL, &other));
    EXPECT(PAWL_INVALID, pawl_semaphore_open(client, "x", NULL, NULL));
    EXPECT(PAWL_INVALID, pawl_semaphore_set(semaphore, -1, NULL));
    EXPECT(PAWL_INVALID, pawl_semaphore_set(semaphore, INT64_C(2147483648), NULL));
    EXPECT(PAWL_INVALID, pawl_semaphore_acquire(semaphore, 0, PAWL_TRY));
    EXPECT(PAWL_INVALID, pawl_semaphore_acquire(semaphore, INT64_C(2147483648), PAWL_TRY));
    EXPECT(PAWL_INVALID, pawl_semaphore_acquire(semaphore, 1, -2));
    EXPECT(PAWL_INVALID, pawl_semaphore_acquire(NULL, 1, PAWL_TRY));
    EXPECT(PAWL_INVALID, pawl_semaphore_release(semaphore, 0));
    EXPECT(PAWL_INVALID, pawl_semaphore_available(semaphore, NULL));
    EXPECT(PAWL_INVALID, pawl_semaphore_acquire_async(semaphore, 1, PAWL_TRY, NULL, NULL));
    EXPECT_OK(pawl_semaphore_set(semaphore, 2147483647, NULL));
    EXPECT(PAWL_INVALID, pawl_semaphore_release(semaphore, 1)); /* out of range in all */
    EXPECT_OK(pawl_semaphore_available(semaphore, &number));
    assert_int_equal(number, 2147483647);
    EXPECT(PAWL_INVALID, pawl_lock_open(client, "nonsense", NULL, &lock));
    EXPECT(PAWL_INVALID, pawl_latch_open(client, "nonsense", &latch));
    assert_non_null(strstr(pawl_last_error(), "a semaphore"));
    EXPECT_OK(pawl_semaphore_close(NULL));
    EXPECT_OK(pawl_semaphore_close(semaphore));
    EXPECT_OK(pawl_client_close(client));
}

const struct CMUnitTest semaphore_cases[] = {
    cmocka_unit_test(counts),
    cmocka_unit_test(waits_for_a_release),
    cmocka_unit_test(limits_of_a_wait),
    cmocka_unit_test(cancels),
    cmocka_unit_test(closing_ends_waits),
    cmocka_unit_test(first_come_first_served),
    cmocka_unit_test(those_behind_go_on),
    cmocka_unit_test(crowd),
    cmocka_unit_test(never_too_many),
    cmocka_unit_test(asynchronously),
    cmocka_unit_test(refuses_nonsense),
};
const size_t semaphore_case_count = sizeof semaphore_cases / sizeof semaphore_cases[0];
