/* SPDX-License-Identifier: Apache-2.0 */
/* Corners of a quorum lock that need no server: three tables in memory stand for three servers. */
#include "nodes.h"

#include "base/alloc.h"
#include "support/process.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

static struct party ours;
static struct party theirs;

static void open_clients(struct party *party)
{
    memset(party, 0, sizeof *party);
    party->count = 3;
    for (int i = 0; i < 3; i++) {
        char url[32];
        snprintf(url, sizeof url, "memory:corner-%d", i);
        assert_ok(pawl_client_open(url, NULL, &party->clients[i]));
    }
}

static int begin(void **state)
{
    open_clients(&ours);
    open_clients(&theirs);
    assert_ok(pawl_lock_open_quorum(theirs.clients, 3, NAME, NULL, &theirs.lock));
    return cleanup_setup(state);
}

static int end(void **state)
{
    pawl__alloc_hook = NULL;
    party_close(&ours);
    party_close(&theirs);
    return cleanup_teardown(state);
}

static void open_ours(const pawl_lock_options *options)
{
    assert_ok(pawl_lock_open_quorum(ours.clients, 3, NAME, options, &ours.lock));
}

/* ===== Memory ===== */

static _Atomic long allowed;

static bool allow(size_t size)
{
    (void)size;
    return atomic_fetch_sub(&allowed, 1) > 0;
}

/* Whichever allocation fails: the call that needed it says so, and nothing is held or lost. */
static void every_allocation_fails_once(void **state)
{
    (void)state;
    for (long count = 0;; count++) {
        pawl_lock *lock = NULL;
        atomic_store(&allowed, count);
        pawl__alloc_hook = allow;
        pawl_status status = pawl_lock_open_quorum(ours.clients, 3, NAME, NULL, &lock);
        if (status == PAWL_OK) {
            status = pawl_lock_acquire(lock, PAWL_TRY);
        }
        const bool plenty = atomic_load(&allowed) > 0;
        pawl__alloc_hook = NULL;
        if (status == PAWL_OK) {
            assert_ok(pawl_lock_release(lock));
        } else {
            assert_true(status == PAWL_NO_MEMORY || status == PAWL_UNAVAILABLE);
        }
        assert_ok(pawl_lock_close(lock));
        assert_ok(pawl_lock_acquire(theirs.lock, PAWL_TRY));
        assert_ok(pawl_lock_release(theirs.lock));
        if (plenty) {
            assert_int_equal(status, PAWL_OK);
            assert_true(count > 5);
            return;
        }
    }
}

/* ===== Order and forks ===== */

static void clients_closed_first(void **state)
{
    (void)state;
    open_ours(NULL);
    assert_ok(pawl_lock_acquire(ours.lock, PAWL_TRY));
    for (int i = 0; i < 3; i++) {
        pawl_client_close(ours.clients[i]);
        ours.clients[i] = NULL;
    }
    assert_int_equal(pawl_lock_remaining_ms(ours.lock), 0);
    assert_status(pawl_lock_release(ours.lock), PAWL_LOST);
    assert_int_equal(pawl_lock_acquire(ours.lock, PAWL_TRY), PAWL_UNAVAILABLE);
    assert_non_null(strstr(pawl_last_error(), "its client is closed"));
    assert_ok(pawl_lock_close(ours.lock));
    ours.lock = NULL;
    assert_ok(pawl_lock_acquire(theirs.lock, PAWL_TRY));
    assert_ok(pawl_lock_release(theirs.lock));
}

/* One of three clients closed is one of three servers gone. */
static void one_client_closed(void **state)
{
    (void)state;
    open_ours(NULL);
    assert_ok(pawl_lock_acquire(ours.lock, PAWL_TRY));
    assert_ok(pawl_client_close(ours.clients[1]));
    ours.clients[1] = NULL;
    assert_true(pawl_lock_remaining_ms(ours.lock) > 0);
    assert_ok(pawl_lock_release(ours.lock));
    assert_ok(pawl_lock_acquire(ours.lock, PAWL_TRY));
    assert_ok(pawl_lock_release(ours.lock));
}

static void a_close_releases_what_is_held(void **state)
{
    (void)state;
    open_ours(NULL);
    assert_ok(pawl_lock_acquire(ours.lock, PAWL_TRY));
    assert_ok(pawl_lock_acquire(ours.lock, PAWL_TRY));
    assert_ok(pawl_lock_close(ours.lock));
    ours.lock = NULL;
    assert_ok(pawl_lock_acquire(theirs.lock, PAWL_TRY));
    assert_ok(pawl_lock_release(theirs.lock));
}

static _Atomic int about_to_wait;

static void *wait_for_it(void *arg)
{
    atomic_fetch_add(&about_to_wait, 1);
    return (void *)(intptr_t)pawl_lock_acquire(arg, PAWL_FOREVER);
}

static void a_close_ends_waits(void **state)
{
    (void)state;
    pthread_t threads[3];
    open_ours(NULL);
    assert_ok(pawl_lock_acquire(theirs.lock, PAWL_TRY));
    atomic_store(&about_to_wait, 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, wait_for_it, ours.lock), 0);
    }
    WAIT_UNTIL(atomic_load(&about_to_wait) == 3, 10000);
    nap_ms(200); /* from there into the call, which nobody can see from outside */
    assert_ok(pawl_lock_close(ours.lock));
    ours.lock = NULL;
    for (int i = 0; i < 3; i++) {
        void *status = NULL;
        pthread_join(threads[i], &status);
        assert_int_equal((intptr_t)status, PAWL_CANCELED);
    }
    assert_ok(pawl_lock_release(theirs.lock));
}

static int use_inherited(const struct child_pipes *pipes, void *arg)
{
    (void)pipes;
    pawl_lock *lock = arg;
    const bool refused = pawl_lock_acquire(lock, PAWL_TRY) == PAWL_MISUSE &&
                         pawl_lock_release(lock) == PAWL_MISUSE &&
                         pawl_lock_remaining_ms(lock) == 0 && pawl_lock_close(lock) == PAWL_MISUSE;
    return refused ? 0 : 1;
}

static void a_child_inherits_nothing(void **state)
{
    (void)state;
    open_ours(NULL);
    assert_ok(pawl_lock_acquire(ours.lock, PAWL_TRY));
    struct child *child = child_fork(use_inherited, ours.lock);
    assert_int_equal(child_wait(child, 5000), 0);
    assert_true(pawl_lock_remaining_ms(ours.lock) > 0);
    assert_ok(pawl_lock_release(ours.lock));
}

/* ===== Owners ===== */

enum { THREADS = 8, TURNS = 50 };

static long guarded; /* by the lock */
static _Atomic int failures;

static void *take_turns(void *arg)
{
    for (int i = 0; i < TURNS; i++) {
        if (pawl_lock_acquire(arg, 20000) != PAWL_OK) {
            atomic_fetch_add(&failures, 1);
            continue;
        }
        const long before = guarded;
        sched_yield();
        guarded = before + 1;
        if (pawl_lock_release(arg) != PAWL_OK) {
            atomic_fetch_add(&failures, 1);
        }
    }
    return NULL;
}

/* Threads of one handle, and of another client. */
static void threads_take_turns(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    open_ours(NULL);
    guarded = 0;
    atomic_store(&failures, 0);
    for (int i = 0; i < THREADS; i++) {
        pawl_lock *lock = i % 2 == 0 ? ours.lock : theirs.lock;
        assert_int_equal(pthread_create(&threads[i], NULL, take_turns, lock), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    assert_int_equal(atomic_load(&failures), 0);
    assert_int_equal(guarded, THREADS * TURNS);
}

static void *try_it(void *arg)
{
    return (void *)(intptr_t)pawl_lock_acquire(arg, PAWL_TRY);
}

static void another_thread_is_another_owner(void **state)
{
    (void)state;
    pthread_t thread;
    void *status = NULL;
    open_ours(NULL);
    assert_ok(pawl_lock_acquire(ours.lock, PAWL_TRY));
    assert_int_equal(pthread_create(&thread, NULL, try_it, ours.lock), 0);
    pthread_join(thread, &status);
    assert_int_equal((intptr_t)status, PAWL_BUSY);
    assert_ok(pawl_lock_release(ours.lock));
}

static void a_handle_holds_for_all_threads(void **state)
{
    (void)state;
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    pthread_t thread;
    void *status = NULL;
    options.owner = PAWL_OWNER_HANDLE;
    options.reentry = PAWL_REENTRY_ALLOW;
    open_ours(&options);
    assert_int_equal(pthread_create(&thread, NULL, try_it, ours.lock), 0);
    pthread_join(thread, &status);
    assert_int_equal((intptr_t)status, PAWL_OK);
    assert_ok(pawl_lock_acquire(ours.lock, PAWL_TRY));
    assert_int_equal(pawl_lock_hold_count(ours.lock), 2);
    assert_ok(pawl_lock_release(ours.lock));
    assert_ok(pawl_lock_release(ours.lock));
    assert_status(pawl_lock_release(ours.lock), PAWL_NOT_HELD);
}

struct inside {
    _Atomic int waited;
    _Atomic int done;
};

static void note_inside(pawl_lock *lock, pawl_status status, void *arg)
{
    struct inside *inside = arg;
    (void)status;
    atomic_store(&inside->waited, (int)pawl_lock_acquire(lock, PAWL_TRY));
    atomic_store(&inside->done, 1);
}

static void no_waiting_inside_a_callback(void **state)
{
    (void)state;
    struct inside inside = {0};
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    options.owner = PAWL_OWNER_HANDLE;
    open_ours(&options);
    assert_ok(pawl_lock_acquire_async(ours.lock, PAWL_TRY, note_inside, &inside));
    WAIT_UNTIL(atomic_load(&inside.done) == 1, 2000);
    assert_int_equal(atomic_load(&inside.waited), PAWL_MISUSE);
    assert_ok(pawl_lock_release(ours.lock));
}

/* By what it says of itself, which does not depend on when it is asked. */
static bool lasts_beyond(int64_t end_ms)
{
    const int64_t now_ms = boottime_ms();
    return now_ms + pawl_lock_remaining_ms(ours.lock) > end_ms + 1; /* both are rounded */
}

static void max_hold_ends_it(void **state)
{
    (void)state;
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    options.lease_ms = 1000;
    options.max_hold_ms = 1500;
    open_ours(&options);
    assert_ok(pawl_lock_acquire(ours.lock, PAWL_TRY));
    const int64_t start_ms = boottime_ms();
    WAIT_UNTIL(pawl_lock_token(ours.lock) == 0 || lasts_beyond(start_ms + 1500), 5000);
    assert_int_equal(pawl_lock_token(ours.lock), 0);
    assert_true(boottime_ms() - start_ms >= 1250);
    assert_status(pawl_lock_extend(ours.lock, 1000), PAWL_LOST);
    assert_status(pawl_lock_release(ours.lock), PAWL_LOST);
}

struct news {
    _Atomic int risks;
    _Atomic int losses;
};

static void note_news(const pawl_event *event, void *arg)
{
    struct news *news = arg;
    atomic_fetch_add(event->status == PAWL_LOST ? &news->losses : &news->risks, 1);
}

/* As with any other lock: what cannot last longer is not said to be in danger. */
static void max_hold_is_no_danger(void **state)
{
    (void)state;
    struct news news = {0};
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    options.lease_ms = 2400;
    options.max_hold_ms = 3000;
    options.on_risk = note_news;
    options.on_lost = note_news;
    options.event_arg = &news;
    open_ours(&options);
    assert_ok(pawl_lock_acquire(ours.lock, PAWL_TRY));
    WAIT_UNTIL(atomic_load(&news.losses) == 1, 8000);
    assert_int_equal(atomic_load(&news.risks), 0);
    assert_status(pawl_lock_release(ours.lock), PAWL_LOST);
}

/* Take one node's part away, as an operator of that server might. */
static void break_part(int number)
{
    pawl_lock *part = NULL;
    assert_ok(pawl_lock_open(theirs.clients[number], NAME, NULL, &part));
    assert_ok(pawl_lock_break(part));
    assert_ok(pawl_lock_close(part));
}

static pawl_lock_info info_at(int number)
{
    pawl_lock *part = NULL;
    pawl_lock_info info = {.size = sizeof info};
    assert_ok(pawl_lock_open(theirs.clients[number], NAME, NULL, &part));
    assert_ok(pawl_lock_inspect(part, &info));
    assert_ok(pawl_lock_close(part));
    return info;
}

static bool is_held_at(int number)
{
    return info_at(number).held;
}

/* A part that was granted again counts once the others have been renewed since: with the second
 * renewal that is seen from now on at the latest. */
static void await_renewals_at(int number)
{
    for (int i = 0; i < 2; i++) {
        int64_t before_ms = 0;
        int64_t left_ms = info_at(number).remaining_ms;
        const int64_t end_ms = boottime_ms() + 2000;
        do {
            before_ms = left_ms;
            nap_ms(1);
            left_ms = info_at(number).remaining_ms;
        } while (left_ms <= before_ms && boottime_ms() < end_ms);
        assert_true(left_ms > before_ms);
    }
}

/* What is granted anew would last longer than the others, and be anew for ever. */
static void a_fixed_lease_is_not_healed(void **state)
{
    (void)state;
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    options.lease_ms = 1000;
    options.renew = false;
    open_ours(&options);
    assert_ok(pawl_lock_acquire(ours.lock, PAWL_TRY));
    break_part(0);
    assert_ok(pawl_lock_extend(ours.lock, 1000)); /* the others carry it; the loss is seen */
    const int64_t start_ms = boottime_ms();
    while (pawl_lock_token(ours.lock) != 0 && boottime_ms() - start_ms < 3000) {
        assert_false(is_held_at(0));
        nap_ms(10);
    }
    assert_true(boottime_ms() - start_ms < 2900);
    assert_status(pawl_lock_release(ours.lock), PAWL_LOST);
}

/* Two of three parts are lost one after the other: what is asked for again must not outlast the
 * hold as it was granted. */
static void healing_does_not_prolong_max_hold(void **state)
{
    (void)state;
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    options.lease_ms = 900;
    options.max_hold_ms = 4500;
    open_ours(&options);
    assert_ok(pawl_lock_acquire(ours.lock, PAWL_TRY));
    const int64_t start_ms = boottime_ms();
    for (int part = 0; part < 3; part += 2) {
        break_part(part);
        WAIT_UNTIL(is_held_at(part), 1000);
        await_renewals_at(2 - part);
    }
    assert_true(pawl_lock_token(ours.lock) != 0);
    WAIT_UNTIL(pawl_lock_token(ours.lock) == 0, 12000);
    assert_true(boottime_ms() - start_ms < 5400);
    assert_status(pawl_lock_release(ours.lock), PAWL_LOST);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_allocation_fails_once),
        TEST(clients_closed_first),
        TEST(one_client_closed),
        TEST(a_close_releases_what_is_held),
        TEST(a_close_ends_waits),
        TEST(a_child_inherits_nothing),
        TEST(threads_take_turns),
        TEST(another_thread_is_another_owner),
        TEST(a_handle_holds_for_all_threads),
        TEST(no_waiting_inside_a_callback),
        TEST(max_hold_ends_it),
        TEST(max_hold_is_no_danger),
        TEST(a_fixed_lease_is_not_healed),
        TEST(healing_does_not_prolong_max_hold),
    };
    return cmocka_run_group_tests_name("quorum corners", tests, NULL, NULL);
}
