/* SPDX-License-Identifier: Apache-2.0 */
/* Callers of one process that wait for a quorum lock at the same time: what each is told while
 * another one asks, servers do not answer, or clients are closed. */
#include "nodes.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

static struct nodes nodes;
static struct party ours;
static struct party theirs;

static int begin(void **state)
{
    nodes_reset(&nodes);
    return cleanup_setup(state);
}

static int end(void **state)
{
    nodes_resume(&nodes);
    party_close(&ours);
    party_close(&theirs);
    return cleanup_teardown(state);
}

/* ===== Asynchronous calls are judged when they are made ===== */

static void note_done(pawl_lock *lock, pawl_status status, void *arg)
{
    (void)lock;
    atomic_store((_Atomic int *)arg, (int)status + 1);
}

struct sentence {
    char text[100];
    _Atomic bool noted;
};

static void note_sentence(pawl_lock *lock, pawl_status status, void *arg)
{
    struct sentence *sentence = arg;
    (void)lock;
    (void)status;
    snprintf(sentence->text, sizeof sentence->text, "%s", pawl_last_error());
    atomic_store(&sentence->noted, true);
}

/* One waits for ever: what comes later is answered at once, and does not touch what it gets. */
static void behind_one_that_waits(void **state)
{
    (void)state;
    static _Atomic int forever = 0;
    static _Atomic int again = 0;
    static _Atomic int released = 0;
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    options.owner = PAWL_OWNER_HANDLE;
    party_open(&theirs, &nodes, NULL, NULL);
    party_open(&ours, &nodes, NULL, &options);
    assert_ok(pawl_lock_acquire(theirs.lock, 5000));
    assert_ok(pawl_lock_acquire_async(ours.lock, PAWL_FOREVER, note_done, &forever));
    assert_ok(pawl_lock_acquire_async(ours.lock, PAWL_TRY, note_done, &again));
    assert_ok(pawl_lock_release_async(ours.lock, note_done, &released));
    WAIT_UNTIL(atomic_load(&again) != 0 && atomic_load(&released) != 0, 2000);
    assert_int_equal(atomic_load(&again), PAWL_DEADLOCK + 1);
    assert_int_equal(atomic_load(&released), PAWL_NOT_HELD + 1);
    assert_int_equal(atomic_load(&forever), 0);
    assert_ok(pawl_lock_release(theirs.lock));
    WAIT_UNTIL(atomic_load(&forever) == PAWL_OK + 1, 5000);
    assert_true(pawl_lock_remaining_ms(ours.lock) > 0);
    assert_ok(pawl_lock_release(ours.lock));
}

/* A release that is under way, an acquire behind it, and a release of what is not held yet. */
static void a_release_ends_no_later_hold(void **state)
{
    (void)state;
    static _Atomic int first = 0;
    static _Atomic int acquired = 0;
    static _Atomic int second = 0;
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    options.owner = PAWL_OWNER_HANDLE;
    party_open(&ours, &nodes, "?durable=1&timeout=10s", &options);
    assert_ok(pawl_lock_acquire(ours.lock, 5000));
    server_pause(nodes.servers[0]);
    server_pause(nodes.servers[1]);
    assert_ok(pawl_lock_release_async(ours.lock, note_done, &first));
    assert_ok(pawl_lock_acquire_async(ours.lock, PAWL_FOREVER, note_done, &acquired));
    assert_ok(pawl_lock_release_async(ours.lock, note_done, &second));
    WAIT_UNTIL(atomic_load(&second) != 0, 5000); /* nobody waits for the servers */
    assert_int_equal(atomic_load(&second), PAWL_NOT_HELD + 1);
    server_resume(nodes.servers[0]);
    server_resume(nodes.servers[1]);
    WAIT_UNTIL(atomic_load(&acquired) == PAWL_OK + 1, 5000);
    assert_int_equal(atomic_load(&first), PAWL_OK + 1);
    assert_true(pawl_lock_remaining_ms(ours.lock) > 0);
    assert_ok(pawl_lock_release(ours.lock));
}

/* Who may re-enter does so, and is told at once; a sentence comes with every failure. */
static void asynchronous_reentry(void **state)
{
    (void)state;
    static _Atomic int entered = 0;
    static _Atomic int left[2] = {0, 0};
    static struct sentence sentence;
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    options.owner = PAWL_OWNER_HANDLE;
    options.reentry = PAWL_REENTRY_ALLOW;
    party_open(&ours, &nodes, NULL, &options);
    assert_ok(pawl_lock_release_async(ours.lock, note_sentence, &sentence));
    WAIT_UNTIL(atomic_load(&sentence.noted), 2000);
    assert_non_null(strstr(sentence.text, "does not hold it"));
    assert_ok(pawl_lock_acquire(ours.lock, 5000));
    assert_ok(pawl_lock_acquire_async(ours.lock, PAWL_TRY, note_done, &entered));
    assert_ok(pawl_lock_release_async(ours.lock, note_done, &left[0]));
    assert_ok(pawl_lock_release_async(ours.lock, note_done, &left[1]));
    WAIT_UNTIL(atomic_load(&left[1]) != 0, 2000);
    assert_int_equal(atomic_load(&entered), PAWL_OK + 1);
    assert_int_equal(atomic_load(&left[0]), PAWL_OK + 1);
    assert_int_equal(atomic_load(&left[1]), PAWL_OK + 1);
    assert_int_equal(pawl_lock_hold_count(ours.lock), 0);
    WAIT_UNTIL(nodes_holding(&nodes) == 0, 2000);
}

/* ===== Behind one that asks servers which do not answer ===== */

struct caller {
    pthread_t thread;
    int64_t wait_ms;
    pawl_status status;
    int64_t end_ms;
    char error[300];
    _Atomic bool ended;
};

static void *call(void *arg)
{
    struct caller *caller = arg;
    caller->status = pawl_lock_acquire(ours.lock, caller->wait_ms);
    caller->end_ms = boottime_ms();
    snprintf(caller->error, sizeof caller->error, "%s", pawl_last_error());
    atomic_store(&caller->ended, true);
    return NULL;
}

static void start_caller(struct caller *caller, int64_t wait_ms)
{
    memset(caller, 0, sizeof *caller);
    caller->wait_ms = wait_ms;
    assert_int_equal(pthread_create(&caller->thread, NULL, call, caller), 0);
}

static void join_caller(struct caller *caller)
{
    WAIT_UNTIL(atomic_load(&caller->ended), 20000);
    assert_int_equal(pthread_join(caller->thread, NULL), 0);
}

/* All in the line are told what the one who asks was told, and none waits longer than for itself.
 */
static void a_line_without_a_majority(void **state)
{
    (void)state;
    static struct caller forever[4];
    static struct caller timed;
    party_open(&ours, &nodes, "?durable=1&give_up=1500ms&timeout=500ms", NULL);
    server_pause(nodes.servers[0]);
    server_pause(nodes.servers[1]);
    const int64_t start_ms = boottime_ms();
    for (int i = 0; i < 4; i++) {
        start_caller(&forever[i], PAWL_FOREVER);
    }
    nap_ms(200); /* more than a round */
    start_caller(&timed, 600);
    assert_status(pawl_lock_acquire(ours.lock, PAWL_TRY), PAWL_UNAVAILABLE);
    assert_non_null(strstr(pawl_last_error(), "no answer within "));
    join_caller(&timed);
    assert_int_equal(timed.status, PAWL_UNAVAILABLE);
    assert_non_null(strstr(timed.error, server_url(nodes.servers[0])));
    for (int i = 0; i < 4; i++) {
        join_caller(&forever[i]);
        assert_int_equal(forever[i].status, PAWL_UNAVAILABLE);
        assert_non_null(strstr(forever[i].error, "no majority"));
        assert_true(forever[i].end_ms - start_ms >= 1400);
        assert_true(forever[i].end_ms - start_ms < 5000); /* and not one after the other */
    }
}

/* What was said once does not count any more when it is held. */
static void a_line_behind_a_holder(void **state)
{
    (void)state;
    static struct caller holder;
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    options.node_timeout_ms = 1000;
    party_open(&ours, &nodes, "?durable=1&give_up=1500ms&timeout=1s", &options);
    server_pause(nodes.servers[0]);
    server_pause(nodes.servers[1]);
    assert_status(pawl_lock_acquire(ours.lock, PAWL_TRY), PAWL_UNAVAILABLE);
    server_resume(nodes.servers[0]);
    server_resume(nodes.servers[1]);
    party_open(&theirs, &nodes, NULL, NULL);
    assert_ok(pawl_lock_acquire(theirs.lock, 5000));
    start_caller(&holder, PAWL_FOREVER); /* longer than give_up, but answered */
    nap_ms(2500);
    assert_status(pawl_lock_acquire(ours.lock, PAWL_TRY), PAWL_BUSY);
    assert_status(pawl_lock_acquire(ours.lock, 100), PAWL_BUSY);
    assert_false(atomic_load(&holder.ended));
    assert_ok(pawl_lock_release(theirs.lock));
    join_caller(&holder);
    assert_int_equal(holder.status, PAWL_OK);
}

/* ===== Clients that are closed ===== */

/* With one of three there is still a majority; with two there is none, and every wait ends. */
static void closing_clients_ends_waits(void **state)
{
    (void)state;
    static struct caller waiters[3];
    party_open(&theirs, &nodes, NULL, NULL);
    party_open(&ours, &nodes, NULL, NULL);
    assert_ok(pawl_lock_acquire(theirs.lock, 5000));
    for (int i = 0; i < 3; i++) {
        start_caller(&waiters[i], i < 2 ? PAWL_FOREVER : 60000);
    }
    nap_ms(100);
    assert_ok(pawl_client_close(ours.clients[0]));
    nap_ms(500);
    for (int i = 0; i < 3; i++) {
        assert_false(atomic_load(&waiters[i].ended));
    }
    assert_ok(pawl_client_close(ours.clients[2]));
    const int64_t closed_ms = boottime_ms();
    for (int i = 0; i < 3; i++) {
        join_caller(&waiters[i]);
        assert_int_equal(waiters[i].status, PAWL_CANCELED);
        assert_true(waiters[i].end_ms - closed_ms < 10000);
    }
    pawl_lock_close(ours.lock);
    assert_ok(pawl_client_close(ours.clients[1]));
    memset(&ours, 0, sizeof ours);
    assert_ok(pawl_lock_release(theirs.lock));
}

/* The same behind a holder of this process, whose hold ends with the clients. */
static void closing_clients_ends_waits_for_ourselves(void **state)
{
    (void)state;
    static struct caller waiter;
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    options.lease_ms = 15000;
    party_open(&ours, &nodes, NULL, &options);
    assert_ok(pawl_lock_acquire(ours.lock, 5000));
    start_caller(&waiter, PAWL_FOREVER);
    nap_ms(100);
    assert_ok(pawl_client_close(ours.clients[0]));
    assert_ok(pawl_client_close(ours.clients[1]));
    const int64_t closed_ms = boottime_ms();
    join_caller(&waiter);
    assert_int_equal(waiter.status, PAWL_CANCELED);
    assert_true(waiter.end_ms - closed_ms < 10000); /* before its lease is over */
    assert_status(pawl_lock_release(ours.lock), PAWL_LOST);
    pawl_lock_close(ours.lock);
    assert_ok(pawl_client_close(ours.clients[2]));
    memset(&ours, 0, sizeof ours);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(behind_one_that_waits),
        TEST(a_release_ends_no_later_hold),
        TEST(asynchronous_reentry),
        TEST(a_line_without_a_majority),
        TEST(a_line_behind_a_holder),
        TEST(closing_clients_ends_waits),
        TEST(closing_clients_ends_waits_for_ourselves),
    };
    nodes_start(&nodes, 3, false);
    return cmocka_run_group_tests_name("quorum waiting", tests, NULL, NULL);
}
