/* SPDX-License-Identifier: Apache-2.0 */
/* A quorum lock when all is well, on three real servers: the calls of every lock, with the meaning
 * that they have for every lock. */
#include "nodes.h"

#include "support/thread.h"

#include <stdatomic.h>
#include <stdio.h>

enum { PATIENCE_MS = 1000 }; /* on a busy machine servers are late */

static struct nodes nodes;
static struct party ours;
static struct party theirs;

static int begin(void **state)
{
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    options.node_timeout_ms = PATIENCE_MS;
    nodes_reset(&nodes);
    party_open(&ours, &nodes, NULL, &options);
    party_open(&theirs, &nodes, NULL, &options);
    return cleanup_setup(state);
}

static int end(void **state)
{
    party_close(&ours);
    party_close(&theirs);
    return cleanup_teardown(state);
}

static void acquired_at_all_and_released_at_all(void **state)
{
    (void)state;
    assert_ok(pawl_lock_acquire(ours.lock, PAWL_TRY));
    WAIT_UNTIL(nodes_holding(&nodes) == 3, 1000);
    assert_true(pawl_lock_remaining_ms(ours.lock) > 25000);
    assert_true(pawl_lock_remaining_ms(ours.lock) <= 30000 - 300 - 2); /* less the drift */
    assert_int_equal(pawl_lock_hold_count(ours.lock), 1);
    assert_true(pawl_lock_token(ours.lock) > 0);
    assert_ok(pawl_lock_release(ours.lock));
    WAIT_UNTIL(nodes_holding(&nodes) == 0, 1000);
    assert_int_equal(pawl_lock_remaining_ms(ours.lock), 0);
    assert_int_equal(pawl_lock_token(ours.lock), 0);
    assert_status(pawl_lock_release(ours.lock), PAWL_NOT_HELD);
}

static void others_are_kept_out(void **state)
{
    (void)state;
    assert_ok(pawl_lock_acquire(ours.lock, PAWL_TRY));
    assert_status(pawl_lock_acquire(theirs.lock, PAWL_TRY), PAWL_BUSY);
    assert_non_null(strstr(pawl_last_error(), "2 of 3 servers are needed"));
    assert_non_null(strstr(pawl_last_error(), server_url(nodes.servers[0])));
    assert_non_null(strstr(pawl_last_error(), ": busy"));
    assert_status(pawl_lock_acquire(theirs.lock, 100), PAWL_BUSY);
    const uint64_t token = pawl_lock_token(ours.lock);
    assert_ok(pawl_lock_release(ours.lock));
    assert_ok(pawl_lock_acquire(theirs.lock, 2000));
    assert_true(pawl_lock_token(theirs.lock) > token);
    assert_ok(pawl_lock_release(theirs.lock));
}

static void tokens_grow(void **state)
{
    (void)state;
    uint64_t last = 0;
    for (int i = 0; i < 40; i++) {
        struct party *party = i % 3 == 0 ? &theirs : &ours;
        assert_ok(pawl_lock_acquire(party->lock, 2000));
        assert_true(pawl_lock_token(party->lock) > last);
        last = pawl_lock_token(party->lock);
        assert_ok(pawl_lock_release(party->lock));
    }
}

/* Where the counters differ the greatest is the hold's, and a majority has it before the grant. */
static void a_greater_token_is_written_back(void **state)
{
    (void)state;
    static const char far[] = "4000000000000000";
    assert_ok(pawl_lock_acquire(ours.lock, PAWL_TRY));
    assert_ok(pawl_lock_release(ours.lock));
    WAIT_UNTIL(nodes_holding(&nodes) == 0, 1000);
    server_kill(nodes.servers[2]);
    free(server_command(nodes.servers[0], "SET redisson_lock_token:{" NAME "} %s EX 1000", far));
    assert_ok(pawl_lock_acquire(ours.lock, 1000));
    assert_true(pawl_lock_token(ours.lock) == 4000000000000001);
    for (int i = 0; i < 2; i++) {
        assert_true(server_answers(
            nodes.servers[i], "4000000000000001", "GET redisson_lock_token:{" NAME "}"));
        assert_true(server_integer(nodes.servers[i], "TTL redisson_lock_token:{" NAME "}") > 0);
    }
    assert_true(server_integer(nodes.servers[0], "TTL redisson_lock_token:{" NAME "}") <= 1000);
    assert_ok(pawl_lock_release(ours.lock));
}

static void a_thread_re_enters(void **state)
{
    (void)state;
    assert_ok(pawl_lock_acquire(ours.lock, PAWL_TRY));
    assert_ok(pawl_lock_acquire(ours.lock, PAWL_TRY));
    assert_int_equal(pawl_lock_hold_count(ours.lock), 2);
    assert_ok(pawl_lock_release(ours.lock));
    assert_status(pawl_lock_acquire(theirs.lock, PAWL_TRY), PAWL_BUSY);
    assert_ok(pawl_lock_release(ours.lock));
    assert_ok(pawl_lock_acquire(theirs.lock, 1000));
    assert_ok(pawl_lock_release(theirs.lock));
}

static void lasts_by_renewal(void **state)
{
    (void)state;
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    pawl_lock *lock = NULL;
    options.lease_ms = 1200;
    options.node_timeout_ms = PATIENCE_MS;
    assert_ok(pawl_lock_open_quorum(ours.clients, 3, "renewed", &options, &lock));
    assert_ok(pawl_lock_acquire(lock, PAWL_TRY));
    const int64_t end_ms = boottime_ms() + 2400;
    while (boottime_ms() < end_ms) {
        assert_true(pawl_lock_remaining_ms(lock) > 0);
        nap_ms(20);
    }
    assert_ok(pawl_lock_release(lock));
    assert_ok(pawl_lock_close(lock));
}

static void a_fixed_lease_ends_and_is_told(void **state)
{
    (void)state;
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    pawl_lock *lock = NULL;
    options.lease_ms = 1000;
    options.node_timeout_ms = PATIENCE_MS;
    options.renew = false;
    assert_ok(pawl_lock_open_quorum(ours.clients, 3, "fixed", &options, &lock));
    assert_ok(pawl_lock_acquire(lock, PAWL_TRY));
    assert_ok(pawl_lock_extend(lock, 2000));
    assert_true(pawl_lock_remaining_ms(lock) > 1000);
    WAIT_UNTIL(pawl_lock_token(lock) == 0, 5000);
    assert_status(pawl_lock_extend(lock, 2000), PAWL_LOST);
    assert_status(pawl_lock_acquire(lock, PAWL_TRY), PAWL_LOST);
    assert_status(pawl_lock_release(lock), PAWL_LOST);
    assert_status(pawl_lock_release(lock), PAWL_NOT_HELD);
    assert_ok(pawl_lock_acquire(lock, 1000));
    assert_ok(pawl_lock_acquire(lock, 1000)); /* counts the fixed lease anew */
    assert_ok(pawl_lock_release(lock));
    assert_ok(pawl_lock_release(lock));
    assert_ok(pawl_lock_close(lock));
}

struct news {
    _Atomic int told;
    _Atomic int status;
    _Atomic uint64_t token;
};

static void note_event(const pawl_event *event, void *arg)
{
    struct news *news = arg;
    atomic_store(&news->status, (int)event->status);
    atomic_store(&news->token, event->token);
    atomic_fetch_add(&news->told, 1);
}

static void broken_by_an_operator(void **state)
{
    (void)state;
    struct news news = {0};
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    pawl_lock *lock = NULL;
    pawl_lock_info info = {.size = sizeof info};
    options.on_lost = note_event;
    options.event_arg = &news;
    options.lease_ms = 1500;
    options.node_timeout_ms = PATIENCE_MS;
    assert_ok(pawl_lock_open_quorum(ours.clients, 3, NAME, &options, &lock));
    assert_status(pawl_lock_break(theirs.lock), PAWL_NOT_HELD);
    assert_ok(pawl_lock_acquire(lock, PAWL_TRY));
    const uint64_t token = pawl_lock_token(lock);
    WAIT_UNTIL(nodes_holding(&nodes) == 3, 1000);
    assert_ok(pawl_lock_inspect(theirs.lock, &info));
    assert_true(info.held && !info.held_by_caller && info.token >= token);
    assert_ok(pawl_lock_inspect(lock, &info));
    assert_true(info.held_by_caller && info.remaining_ms > 0);
    char owner[PAWL_OWNER_SIZE];
    assert_ok(pawl_lock_owner(lock, owner, sizeof owner));
    assert_ok(pawl_lock_break(theirs.lock));
    WAIT_UNTIL(atomic_load(&news.told) == 1, 5000);
    assert_int_equal(atomic_load(&news.status), PAWL_LOST);
    assert_true(atomic_load(&news.token) == token);
    assert_status(pawl_lock_release(lock), PAWL_LOST);
    assert_ok(pawl_lock_inspect(lock, &info));
    assert_false(info.held);
    assert_ok(pawl_lock_close(lock));
    assert_int_equal(atomic_load(&news.told), 1);
}

static void note_done(pawl_lock *lock, pawl_status status, void *arg)
{
    (void)lock;
    atomic_store((_Atomic int *)arg, (int)status + 1);
}

static void asynchronously(void **state)
{
    (void)state;
    _Atomic int first = 0;
    _Atomic int second = 0;
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    pawl_lock *lock = NULL;
    options.owner = PAWL_OWNER_HANDLE;
    assert_ok(pawl_lock_open_quorum(ours.clients, 3, NAME, &options, &lock));
    assert_status(pawl_lock_acquire_async(ours.lock, 0, note_done, &first), PAWL_INVALID);
    assert_ok(pawl_lock_acquire_async(lock, 5000, note_done, &first));
    WAIT_UNTIL(atomic_load(&first) == PAWL_OK + 1, 6000);
    assert_true(pawl_lock_remaining_ms(lock) > 0);
    assert_status(pawl_lock_acquire(lock, PAWL_TRY), PAWL_DEADLOCK);
    assert_ok(pawl_lock_release_async(lock, note_done, &second));
    WAIT_UNTIL(atomic_load(&second) == PAWL_OK + 1, 2000);
    assert_ok(pawl_lock_acquire(theirs.lock, 1000));
    atomic_store(&first, 0);
    assert_ok(pawl_lock_acquire_async(lock, PAWL_FOREVER, note_done, &first));
    nap_ms(50);
    assert_int_equal(atomic_load(&first), 0);
    assert_ok(pawl_lock_close(lock));
    assert_int_equal(atomic_load(&first), PAWL_CANCELED + 1);
    assert_ok(pawl_lock_release(theirs.lock));
}

static void *wait_forever(void *arg)
{
    return (void *)(intptr_t)pawl_lock_acquire(arg, PAWL_FOREVER);
}

/* Only a wait that has begun is ended, and nobody can see when that is: ask until it has ended. */
static void canceled(void **state)
{
    (void)state;
    pthread_t thread;
    void *status = NULL;
    assert_ok(pawl_lock_acquire(theirs.lock, PAWL_TRY));
    assert_int_equal(pthread_create(&thread, NULL, wait_forever, ours.lock), 0);
    const int64_t end_us = boottime_us() + 10000000;
    bool ended = false;
    while (!ended && boottime_us() < end_us) {
        nap_ms(20);
        pawl_lock_cancel(ours.lock);
        ended = pthread_tryjoin_np(thread, &status) == 0;
    }
    assert_true(ended);
    assert_int_equal((intptr_t)status, PAWL_CANCELED);
    assert_ok(pawl_lock_release(theirs.lock));
}

static void *hold_and_end(void *arg)
{
    return (void *)(intptr_t)pawl_lock_acquire(arg, 1000);
}

/* As with any lock: it is not released, but its lease runs out. */
static void a_thread_that_ends_loses_it(void **state)
{
    (void)state;
    struct news news = {0};
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    pawl_lock *lock = NULL;
    pthread_t thread;
    void *status = NULL;
    options.on_lost = note_event;
    options.event_arg = &news;
    options.lease_ms = 2000;
    assert_ok(pawl_lock_open_quorum(ours.clients, 3, NAME, &options, &lock));
    assert_int_equal(pthread_create(&thread, NULL, hold_and_end, lock), 0);
    pthread_join(thread, &status);
    assert_int_equal((intptr_t)status, PAWL_OK);
    WAIT_UNTIL(atomic_load(&news.told) == 1, 1000);
    assert_status(pawl_lock_acquire(theirs.lock, PAWL_TRY), PAWL_BUSY);
    assert_ok(pawl_lock_acquire(theirs.lock, 10000));
    assert_ok(pawl_lock_release(theirs.lock));
    assert_ok(pawl_lock_close(lock));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(acquired_at_all_and_released_at_all),
        TEST(others_are_kept_out),
        TEST(tokens_grow),
        TEST(a_greater_token_is_written_back),
        TEST(a_thread_re_enters),
        TEST(lasts_by_renewal),
        TEST(a_fixed_lease_ends_and_is_told),
        TEST(broken_by_an_operator),
        TEST(asynchronously),
        TEST(canceled),
        TEST(a_thread_that_ends_loses_it),
    };
    nodes_start(&nodes, 3, false);
    return cmocka_run_group_tests_name("quorum basics", tests, NULL, NULL);
}
