/* SPDX-License-Identifier: Apache-2.0 */
/* Fair locks: who came first gets it first, whichever thread, client or process it is, and who
 * leaves the queue, by whatever way, is in nobody's way. */
#include "conformance/lib/actor.h"
#include "conformance/lib/peer.h"
#include "conformance/lib/tools.h"

#include <signal.h>
#include <string.h>

#define THREADS 6
#define PROCESSES 3
#define DEAD_MS INT64_C(15000) /* how long a dead waiter may stop the others */

static pawl_lock *open_fair(pawl_client *client, const char *name)
{
    const pawl_lock_options options = kinded(thread_options(), PAWL_FAIR);
    return open_lock(client, name, &options);
}

static bool count_waiter(const pawl_waiter *waiter, void *arg)
{
    unsigned *count = arg;
    (*count)++;
    return waiter->position == *count;
}

/* How many stand in the queue, as the backend says. */
static unsigned queue_length(const struct suite *suite, pawl_client *client)
{
    unsigned count = 0;
    EXPECT(PAWL_OK, pawl_client_queue(client, suite->name, count_waiter, &count));
    return count;
}

static void refused(const struct suite *suite)
{
    expect_kind_refused(suite, PAWL_FAIR);
}

/* ===== Order ===== */

/* Actor i waits for the lock of client i % clients, one after another; they get it so. */
static void check_order(const struct suite *suite, size_t clients)
{
    pawl_client *watcher = open_client(suite);
    pawl_lock *holder = open_fair(watcher, suite->name);
    pawl_lock *locks[THREADS];
    struct actor *actors[THREADS];
    uint64_t token = 0;
    EXPECT(PAWL_OK, pawl_lock_acquire(holder, PAWL_TRY));
    for (size_t i = 0; i < THREADS; i++) {
        locks[i] = i < clients ? open_fair(open_client(suite), suite->name) : locks[i - clients];
        actors[i] = actor_new();
        actor_acquire(actors[i], locks[i], PAWL_FOREVER);
        WAIT_UNTIL(queue_length(suite, watcher) == i + 1, SOON_MS);
    }
    EXPECT(PAWL_OK, pawl_lock_release(holder));
    for (size_t i = 0; i < THREADS; i++) {
        EXPECT(PAWL_OK, actor_answer(actors[i]));
        assert_int_equal(queue_length(suite, watcher), THREADS - 1 - i);
        assert_true(actor_token(actors[i], locks[i]) > token);
        token = actor_token(actors[i], locks[i]);
        EXPECT(PAWL_OK, actor_release_now(actors[i], locks[i]));
    }
    EXPECT(PAWL_OK, pawl_lock_acquire(holder, PAWL_TRY));
    EXPECT(PAWL_OK, pawl_lock_release(holder));
}

static void fair_threads_come_first_served(const struct suite *suite)
{
    check_order(suite, 1);
}

static void fair_threads_of_many_clients_come_first_served(const struct suite *suite)
{
    check_order(suite, 3);
}

static struct child *start_peer(const struct suite *suite)
{
    const struct peer_options options = {.lease_ms = LONG_MS, .renew = true, .kind = PAWL_FAIR};
    return peer_start(suite, suite->name, &options);
}

static void processes_come_first_served(const struct suite *suite)
{
    pawl_client *client = open_client(suite);
    pawl_lock *holder = open_fair(client, suite->name);
    struct child *peers[PROCESSES];
    struct actor *last = actor_new();
    EXPECT(PAWL_OK, pawl_lock_acquire(holder, PAWL_TRY));
    for (unsigned i = 0; i < PROCESSES; i++) {
        peers[i] = start_peer(suite);
        peer_tell(peers[i], "acquire -1");
        WAIT_UNTIL(queue_length(suite, client) == i + 1, SOON_MS);
    }
    actor_acquire(last, holder, PAWL_FOREVER);
    WAIT_UNTIL(queue_length(suite, client) == PROCESSES + 1, SOON_MS);
    EXPECT(PAWL_OK, pawl_lock_release(holder));
    for (unsigned i = 0; i < PROCESSES; i++) {
        peer_expect(peers[i], "ok");
        assert_int_equal(queue_length(suite, client), PROCESSES - i);
        peer_ask(peers[i], "release", "ok");
        child_free(peers[i]);
    }
    EXPECT(PAWL_OK, actor_answer(last));
    EXPECT(PAWL_OK, actor_release_now(last, holder));
}

static void fair_processes_come_first_served(const struct suite *suite)
{
    if (suite->engine->has[FLAG_PROCESSES]) {
        processes_come_first_served(suite);
    } else {
        check_order(suite, 2);
    }
}

/* ===== Ways out ===== */

/* A waiter stands first and another behind it. The first leaves; then the lock becomes free. */
struct line {
    pawl_client *client; /* of the first */
    pawl_lock *lock;
    struct actor *first;
};

static void check_way_out(
    const struct suite *suite, int64_t wait_ms, pawl_status status, void (*leave)(struct line *))
{
    pawl_client *client = open_client(suite);
    pawl_lock *lock = open_fair(client, suite->name);
    struct line line = {.client = open_client(suite), .first = actor_new()};
    struct actor *second = actor_new();
    line.lock = open_fair(line.client, suite->name);
    EXPECT(PAWL_OK, pawl_lock_acquire(lock, PAWL_TRY));
    actor_acquire(line.first, line.lock, wait_ms);
    WAIT_UNTIL(queue_length(suite, client) == 1, SOON_MS);
    actor_acquire(second, lock, PAWL_FOREVER);
    WAIT_UNTIL(queue_length(suite, client) == 2, SOON_MS);
    if (leave != NULL) {
        leave(&line);
    }
    EXPECT(status, actor_answer(line.first));
    WAIT_UNTIL(queue_length(suite, client) == 1, LATE_MS); /* long before it counts as dead */
    const int64_t released_us = boottime_us();
    EXPECT(PAWL_OK, pawl_lock_release(lock));
    EXPECT(PAWL_OK, actor_answer(second));
    suite_late("the next of the queue", actor_ended_us(second) - released_us);
    assert_true(actor_ended_us(second) - released_us < LATE_MS * 1000);
    EXPECT(PAWL_OK, actor_release_now(second, lock));
    assert_int_equal(queue_length(suite, client), 0);
}

static void cancel_first(struct line *line)
{
    pawl_lock_cancel(line->lock);
}

static void close_first(struct line *line)
{
    EXPECT(PAWL_OK, close_lock(line->lock));
}

static void close_first_client(struct line *line)
{
    EXPECT(PAWL_OK, close_client(line->client));
}

static void a_fair_wait_that_ends_leaves_the_queue(const struct suite *suite)
{
    check_way_out(suite, 2 * QUICK_MS, PAWL_BUSY, NULL);
}

static void a_canceled_fair_wait_leaves_the_queue(const struct suite *suite)
{
    check_way_out(suite, PAWL_FOREVER, PAWL_CANCELED, cancel_first);
}

static void closing_a_fair_lock_leaves_the_queue(const struct suite *suite)
{
    check_way_out(suite, PAWL_FOREVER, PAWL_CANCELED, close_first);
}

static void closing_a_client_leaves_the_queue(const struct suite *suite)
{
    check_way_out(suite, PAWL_FOREVER, PAWL_CANCELED, close_first_client);
}

/* The waiter that stands first is killed: nobody takes it out of the queue but time. */
static void killed_waiter(const struct suite *suite)
{
    pawl_client *client = open_client(suite);
    pawl_lock *lock = open_fair(client, suite->name);
    struct actor *actor = actor_new();
    struct child *peer = start_peer(suite);
    EXPECT(PAWL_OK, pawl_lock_acquire(lock, PAWL_TRY));
    peer_tell(peer, "acquire -1");
    WAIT_UNTIL(queue_length(suite, client) == 1, SOON_MS);
    actor_acquire(actor, lock, PAWL_FOREVER);
    WAIT_UNTIL(queue_length(suite, client) == 2, SOON_MS);
    child_signal(peer, SIGKILL);
    assert_int_equal(child_wait(peer, SOON_MS), 128 + SIGKILL);
    EXPECT(PAWL_OK, pawl_lock_release(lock));
    const int64_t free_us = boottime_us();
    WAIT_UNTIL(actor_is_done(actor), DEAD_MS);
    EXPECT(PAWL_OK, actor_answer(actor));
    suite_late("past a dead waiter", actor_ended_us(actor) - free_us);
    EXPECT(PAWL_OK, actor_release_now(actor, lock));
    assert_int_equal(queue_length(suite, client), 0);
    child_free(peer);
}

static void a_killed_fair_waiter_stops_nobody_for_long(const struct suite *suite)
{
    if (suite->engine->has[FLAG_PROCESSES]) {
        killed_waiter(suite);
    } else {
        check_order(suite, 2); /* there is nobody to be killed */
    }
}

/* ===== As other locks ===== */

static void a_fair_try_stands_in_no_queue(const struct suite *suite)
{
    pawl_client *client = open_client(suite);
    pawl_client *other = open_client(suite);
    pawl_lock *lock = open_fair(client, suite->name);
    pawl_lock *rival = open_fair(other, suite->name);
    struct actor *actor = actor_new();
    EXPECT(PAWL_OK, pawl_lock_acquire(lock, PAWL_TRY));
    EXPECT(PAWL_BUSY, pawl_lock_acquire(rival, PAWL_TRY));
    assert_int_equal(queue_length(suite, client), 0);
    actor_acquire(actor, rival, PAWL_FOREVER);
    WAIT_UNTIL(queue_length(suite, client) == 1, SOON_MS);
    EXPECT(PAWL_BUSY, pawl_lock_acquire(rival, PAWL_TRY));
    assert_int_equal(queue_length(suite, client), 1);
    EXPECT(PAWL_OK, pawl_lock_release(lock));
    EXPECT(PAWL_OK, actor_answer(actor));
    EXPECT(PAWL_OK, actor_release_now(actor, rival));
    EXPECT(PAWL_OK, pawl_lock_acquire(lock, PAWL_TRY));
    EXPECT(PAWL_OK, pawl_lock_release(lock));
}

static void fair_re_entry(const struct suite *suite)
{
    pawl_client *client = open_client(suite);
    pawl_lock *lock = open_fair(client, suite->name);
    pawl_lock *again = open_fair(client, suite->name);
    struct actor *actor = actor_new();
    EXPECT(PAWL_OK, pawl_lock_acquire(lock, PAWL_TRY));
    actor_acquire(actor, lock, PAWL_FOREVER);
    WAIT_UNTIL(queue_length(suite, client) == 1, SOON_MS);
    const uint64_t token = pawl_lock_token(lock);
    EXPECT(PAWL_OK, pawl_lock_acquire(again, PAWL_FOREVER)); /* past who waits */
    assert_int_equal(pawl_lock_hold_count(lock), 2);
    assert_int_equal(pawl_lock_token(again), token);
    EXPECT(PAWL_OK, pawl_lock_release(lock));
    assert_false(actor_is_done(actor));
    expect_busy(suite, suite->name);
    EXPECT(PAWL_OK, pawl_lock_release(again));
    EXPECT(PAWL_NOT_HELD, pawl_lock_release(again));
    EXPECT(PAWL_OK, actor_answer(actor));
    EXPECT(PAWL_OK, actor_release_now(actor, lock));
}

/* A hold is broken: its owner learns that, and the next of the queue has it. */
static void a_broken_fair_lock_goes_to_the_next(const struct suite *suite)
{
    struct recorder *recorder = recorder_new();
    pawl_lock_options options = kinded(renewed_options(LEASE_MS), PAWL_FAIR);
    record_events(&options, recorder);
    pawl_client *client = open_client(suite);
    pawl_lock *lost = open_lock(open_client(suite), suite->name, &options);
    pawl_lock *lock = open_fair(client, suite->name);
    struct actor *actor = actor_new();
    EXPECT(PAWL_OK, pawl_lock_acquire(lost, PAWL_TRY));
    actor_acquire(actor, lock, PAWL_FOREVER);
    WAIT_UNTIL(queue_length(suite, client) == 1, SOON_MS);
    EXPECT(PAWL_OK, pawl_lock_break(lock));
    EXPECT(PAWL_OK, actor_answer(actor));
    recorder_await(recorder, 1);
    assert_int_equal(recorder_get(recorder, 0).kind, RECORD_LOST);
    EXPECT(PAWL_LOST, pawl_lock_acquire(lost, PAWL_TRY));
    EXPECT(PAWL_LOST, pawl_lock_release(lost));
    expect_busy(suite, suite->name);
    EXPECT(PAWL_OK, actor_release_now(actor, lock));
}

static void a_fair_lock_whose_lease_ends_goes_to_the_next(const struct suite *suite)
{
    const pawl_lock_options options = kinded(fixed_options(LEASE_MS), PAWL_FAIR);
    pawl_lock *brief = open_lock(open_client(suite), suite->name, &options);
    pawl_lock *lock = open_fair(open_client(suite), suite->name);
    EXPECT(PAWL_OK, pawl_lock_acquire(brief, PAWL_TRY));
    EXPECT(PAWL_OK, pawl_lock_acquire(lock, LEASE_MS + LATE_MS));
    await_loss(brief, LATE_MS);
    EXPECT(PAWL_LOST, pawl_lock_release(brief));
    expect_busy(suite, suite->name);
    EXPECT(PAWL_OK, pawl_lock_release(lock));
}

static void fair_asynchronous_calls_come_first_served(const struct suite *suite)
{
    const pawl_lock_options options = kinded(handle_options(), PAWL_FAIR);
    struct recorder *recorder = recorder_new();
    pawl_client *client = open_client(suite);
    pawl_lock *holder = open_fair(client, suite->name);
    pawl_lock *locks[3];
    EXPECT(PAWL_OK, pawl_lock_acquire(holder, PAWL_TRY));
    for (unsigned i = 0; i < 3; i++) {
        locks[i] = open_lock(client, suite->name, &options);
        EXPECT(PAWL_OK, pawl_lock_acquire_async(locks[i], PAWL_FOREVER, record_done, recorder));
        WAIT_UNTIL(queue_length(suite, client) == i + 1, SOON_MS);
    }
    EXPECT(PAWL_OK, pawl_lock_release(holder));
    for (unsigned i = 0; i < 3; i++) {
        recorder_await(recorder, i + 1);
        assert_int_equal(recorder_get(recorder, i).status, PAWL_OK);
        assert_ptr_equal(recorder_get(recorder, i).lock, locks[i]);
        EXPECT(PAWL_OK, pawl_lock_release(locks[i]));
    }
    assert_int_equal(queue_length(suite, client), 0);
}

/* In one client a name is one thing. */
static void a_fair_lock_is_no_mutex(const struct suite *suite)
{
    pawl_client *client = open_client(suite);
    pawl_lock *lock = open_fair(client, suite->name);
    pawl_lock *mutex = NULL;
    EXPECT(PAWL_INVALID, pawl_lock_open(client, suite->name, NULL, &mutex));
    assert_non_null(strstr(pawl_last_error(), "a fair lock"));
    EXPECT(PAWL_OK, close_lock(lock));
    EXPECT(PAWL_OK, pawl_lock_open(client, suite->name, NULL, &mutex)); /* it was forgotten */
    EXPECT(PAWL_OK, pawl_lock_close(mutex));
}

static const struct suite_case cases[] = {
    SUITE_EITHER(FLAG_FAIR, fair_threads_come_first_served, refused),
    SUITE_EITHER(FLAG_FAIR, fair_threads_of_many_clients_come_first_served, refused),
    SUITE_EITHER(FLAG_FAIR, fair_processes_come_first_served, refused),
    SUITE_EITHER(FLAG_FAIR, a_fair_wait_that_ends_leaves_the_queue, refused),
    SUITE_EITHER(FLAG_FAIR, a_canceled_fair_wait_leaves_the_queue, refused),
    SUITE_EITHER(FLAG_FAIR, closing_a_fair_lock_leaves_the_queue, refused),
    SUITE_EITHER(FLAG_FAIR, closing_a_client_leaves_the_queue, refused),
    SUITE_EITHER(FLAG_FAIR, a_killed_fair_waiter_stops_nobody_for_long, refused),
    SUITE_EITHER(FLAG_FAIR, a_fair_try_stands_in_no_queue, refused),
    SUITE_EITHER(FLAG_FAIR, fair_re_entry, refused),
    SUITE_EITHER(FLAG_FAIR, a_broken_fair_lock_goes_to_the_next, refused),
    SUITE_EITHER(FLAG_FAIR, a_fair_lock_whose_lease_ends_goes_to_the_next, refused),
    SUITE_EITHER(FLAG_FAIR, fair_asynchronous_calls_come_first_served, refused),
    SUITE_EITHER(FLAG_FAIR, a_fair_lock_is_no_mutex, refused),
};

SUITE_GROUP(suite_fair, cases);
