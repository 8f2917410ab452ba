/* SPDX-License-Identifier: Apache-2.0 */
/* Read/write locks: who shares and who does not, a writer that reads as well, leases of readers
 * that end one by one, and what a holder leaves behind. */
#include "conformance/lib/actor.h"
#include "conformance/lib/peer.h"
#include "conformance/lib/tools.h"

#include <signal.h>
#include <string.h>

#define READERS 5

/* The two sides of one client's lock, for threads. */
struct pair {
    pawl_client *client;
    pawl_lock *reader;
    pawl_lock *writer;
};

static struct pair open_pair_with(const struct suite *suite, pawl_lock_options options)
{
    struct pair pair = {.client = open_client(suite)};
    options.kind = PAWL_READ;
    pair.reader = open_lock(pair.client, suite->name, &options);
    options.kind = PAWL_WRITE;
    pair.writer = open_lock(pair.client, suite->name, &options);
    return pair;
}

static struct pair open_pair(const struct suite *suite)
{
    return open_pair_with(suite, thread_options());
}

/* Two handles of one holder. */
static struct pair open_twins(const struct suite *suite)
{
    struct pair pair = {.client = open_client(suite)};
    pawl_lock_options options = kinded(handle_options(), PAWL_READ);
    pair.reader = open_lock(pair.client, suite->name, &options);
    options.kind = PAWL_WRITE;
    options.same_owner_as = pair.reader;
    pair.writer = open_lock(pair.client, suite->name, &options);
    return pair;
}

/* What other clients may do now, each for itself. */
enum state { FREE, READ, WRITTEN };

static void expect_state(const struct suite *suite, enum state state)
{
    struct pair pair = open_pair(suite);
    EXPECT(state == FREE ? PAWL_OK : PAWL_BUSY, pawl_lock_acquire(pair.writer, PAWL_TRY));
    if (state == FREE) {
        EXPECT(PAWL_OK, pawl_lock_release(pair.writer));
    }
    EXPECT(state == WRITTEN ? PAWL_BUSY : PAWL_OK, pawl_lock_acquire(pair.reader, PAWL_TRY));
    if (state != WRITTEN) {
        EXPECT(PAWL_OK, pawl_lock_release(pair.reader));
    }
    EXPECT(PAWL_OK, close_lock(pair.reader));
    EXPECT(PAWL_OK, close_lock(pair.writer));
    EXPECT(PAWL_OK, close_client(pair.client));
}

static void refused(const struct suite *suite)
{
    expect_kind_refused(suite, PAWL_READ);
    expect_kind_refused(suite, PAWL_WRITE);
}

/* ===== Who shares ===== */

static void many_threads_read_together(const struct suite *suite)
{
    struct pair pair = open_pair(suite);
    struct pair other = open_pair(suite);
    struct actor *actors[READERS];
    for (size_t i = 0; i < READERS; i++) {
        actors[i] = actor_new();
        EXPECT(PAWL_OK, actor_acquire_now(actors[i], pair.reader, PAWL_TRY));
    }
    EXPECT(PAWL_OK, pawl_lock_acquire(other.reader, PAWL_TRY));
    for (size_t i = 0; i < READERS; i++) {
        EXPECT(PAWL_BUSY, pawl_lock_acquire(pair.writer, PAWL_TRY));
        expect_state(suite, READ);
        EXPECT(PAWL_OK, actor_release_now(actors[i], pair.reader));
    }
    expect_state(suite, READ);
    EXPECT(PAWL_OK, pawl_lock_release(other.reader));
    expect_state(suite, FREE);
}

static void a_writer_excludes_everybody(const struct suite *suite)
{
    struct pair pair = open_pair(suite);
    struct actor *actor = actor_new();
    EXPECT(PAWL_OK, pawl_lock_acquire(pair.writer, PAWL_TRY));
    EXPECT(PAWL_BUSY, actor_acquire_now(actor, pair.reader, PAWL_TRY));
    EXPECT(PAWL_BUSY, actor_acquire_now(actor, pair.writer, QUICK_MS));
    expect_state(suite, WRITTEN);
    EXPECT(PAWL_OK, pawl_lock_release(pair.writer));
    expect_state(suite, FREE);
}

/* Readers of two clients wait for a writer of a third, and a writer waits for them. */
static void readers_and_writers_wake_each_other(const struct suite *suite)
{
    struct pair pairs[2] = {open_pair(suite), open_pair(suite)};
    struct pair writing = open_pair(suite);
    struct actor *actors[2] = {actor_new(), actor_new()};
    for (int round = 0; round < 3; round++) {
        EXPECT(PAWL_OK, pawl_lock_acquire(writing.writer, PAWL_FOREVER));
        for (int i = 0; i < 2; i++) {
            actor_acquire(actors[i], pairs[i].reader, PAWL_FOREVER);
            actor_await_sleep(actors[i]);
        }
        EXPECT(PAWL_OK, pawl_lock_release(writing.writer));
        for (int i = 0; i < 2; i++) {
            EXPECT(PAWL_OK, actor_answer(actors[i])); /* both, with nobody having released */
        }
        for (int i = 0; i < 2; i++) {
            EXPECT(PAWL_OK, actor_release_now(actors[i], pairs[i].reader));
        }
    }
}

static void a_reader_does_not_overtake_a_writer_of_its_process(const struct suite *suite)
{
    struct pair pair = open_pair(suite);
    struct actor *writer = actor_new();
    struct actor *late = actor_new();
    EXPECT(PAWL_OK, pawl_lock_acquire(pair.reader, PAWL_TRY));
    actor_acquire(writer, pair.writer, PAWL_FOREVER);
    actor_await_sleep(writer);
    EXPECT(PAWL_BUSY, actor_acquire_now(late, pair.reader, PAWL_TRY));
    actor_acquire(late, pair.reader, PAWL_FOREVER);
    actor_await_sleep(late);
    EXPECT(PAWL_OK, pawl_lock_acquire(pair.reader, PAWL_TRY)); /* who reads may again */
    EXPECT(PAWL_OK, pawl_lock_release(pair.reader));
    EXPECT(PAWL_OK, pawl_lock_release(pair.reader));
    EXPECT(PAWL_OK, actor_answer(writer));
    assert_false(actor_is_done(late));
    EXPECT(PAWL_OK, actor_release_now(writer, pair.writer));
    EXPECT(PAWL_OK, actor_answer(late));
    EXPECT(PAWL_OK, actor_release_now(late, pair.reader));
}

/* A mutex of another client under the same name keeps both out, and they keep it out. */
static void a_mutex_excludes_readers_and_writers(const struct suite *suite)
{
    struct pair pair = open_pair(suite);
    pawl_lock *mutex = open_thread_lock(open_client(suite), suite->name);
    EXPECT(PAWL_OK, pawl_lock_acquire(mutex, PAWL_TRY));
    EXPECT(PAWL_BUSY, pawl_lock_acquire(pair.reader, PAWL_TRY));
    EXPECT(PAWL_BUSY, pawl_lock_acquire(pair.writer, PAWL_TRY));
    EXPECT(PAWL_OK, pawl_lock_release(mutex));
    EXPECT(PAWL_OK, pawl_lock_acquire(pair.reader, PAWL_TRY));
    EXPECT(PAWL_BUSY, pawl_lock_acquire(mutex, PAWL_TRY));
    EXPECT(PAWL_OK, pawl_lock_release(pair.reader));
    EXPECT(PAWL_OK, pawl_lock_acquire(pair.writer, PAWL_TRY));
    EXPECT(PAWL_BUSY, pawl_lock_acquire(mutex, PAWL_TRY));
    EXPECT(PAWL_OK, pawl_lock_release(pair.writer));
    EXPECT(PAWL_OK, pawl_lock_acquire(mutex, PAWL_TRY));
    EXPECT(PAWL_OK, pawl_lock_release(mutex));
}

/* ===== A writer may read ===== */

static void check_downgrade(const struct suite *suite, const struct pair *pair)
{
    EXPECT(PAWL_OK, pawl_lock_acquire(pair->writer, PAWL_TRY));
    EXPECT(PAWL_OK, pawl_lock_acquire(pair->reader, PAWL_TRY));
    expect_state(suite, WRITTEN);
    EXPECT(PAWL_OK, pawl_lock_release(pair->writer));
    expect_state(suite, READ);
    EXPECT(PAWL_NOT_HELD, pawl_lock_release(pair->writer));
    EXPECT(PAWL_DEADLOCK, pawl_lock_acquire(pair->writer, PAWL_FOREVER));
    assert_true(pawl_lock_remaining_ms(pair->reader) > 0);
    EXPECT(PAWL_OK, pawl_lock_release(pair->reader));
    expect_state(suite, FREE);
}

/* The other order: it goes on writing. */
static void check_reading_inside(const struct suite *suite, const struct pair *pair)
{
    EXPECT(PAWL_OK, pawl_lock_acquire(pair->writer, PAWL_TRY));
    EXPECT(PAWL_OK, pawl_lock_acquire(pair->reader, PAWL_TRY));
    EXPECT(PAWL_OK, pawl_lock_release(pair->reader));
    expect_state(suite, WRITTEN);
    EXPECT(PAWL_NOT_HELD, pawl_lock_release(pair->reader));
    EXPECT(PAWL_OK, pawl_lock_release(pair->writer));
    expect_state(suite, FREE);
}

static void a_thread_that_writes_may_go_on_reading(const struct suite *suite)
{
    struct pair pair = open_pair(suite);
    check_downgrade(suite, &pair);
    check_reading_inside(suite, &pair);
}

static void a_handle_that_writes_may_go_on_reading(const struct suite *suite)
{
    struct pair pair = open_twins(suite);
    check_downgrade(suite, &pair);
    check_reading_inside(suite, &pair);
}

static void a_fixed_lease_goes_on_reading(const struct suite *suite)
{
    struct pair pair = open_pair_with(suite, fixed_options(LONG_MS));
    check_downgrade(suite, &pair);
    check_reading_inside(suite, &pair);
}

/* Readers that wait, of this client and of another, hear that the writer only reads now. How long
 * it took both of them. */
static int64_t let_readers_in(void *arg)
{
    struct pair *pairs = arg;
    struct actor *actors[2] = {actor_new(), actor_new()};
    EXPECT(PAWL_OK, pawl_lock_acquire(pairs[0].writer, PAWL_TRY));
    EXPECT(PAWL_OK, pawl_lock_acquire(pairs[0].reader, PAWL_TRY));
    for (int i = 0; i < 2; i++) {
        actor_acquire(actors[i], pairs[i].reader, PAWL_FOREVER);
        actor_await_sleep(actors[i]);
    }
    const int64_t began_us = boottime_us();
    EXPECT(PAWL_OK, pawl_lock_release(pairs[0].writer));
    int64_t took_us = 0;
    for (int i = 0; i < 2; i++) {
        EXPECT(PAWL_OK, actor_answer(actors[i]));
        const int64_t late_us = actor_ended_us(actors[i]) - began_us;
        took_us = late_us > took_us ? late_us : took_us;
        EXPECT(PAWL_OK, actor_release_now(actors[i], pairs[i].reader));
        actor_end(actors[i]);
    }
    EXPECT(PAWL_OK, pawl_lock_release(pairs[0].reader));
    return took_us;
}

static void going_on_reading_lets_readers_in(const struct suite *suite)
{
    struct pair pairs[2] = {open_pair(suite), open_pair(suite)};
    expect_quick("readers behind a writer that reads", let_readers_in, pairs);
}

static void check_upgrade(const struct suite *suite, const struct pair *pair)
{
    EXPECT(PAWL_OK, pawl_lock_acquire(pair->reader, PAWL_TRY));
    const int64_t began_us = boottime_us();
    EXPECT(PAWL_DEADLOCK, pawl_lock_acquire(pair->writer, PAWL_FOREVER));
    EXPECT(PAWL_DEADLOCK, pawl_lock_acquire(pair->writer, PAWL_TRY));
    assert_true(boottime_us() - began_us < LATE_MS * 1000);
    assert_int_equal(pawl_lock_hold_count(pair->writer), 0);
    expect_state(suite, READ);
    EXPECT(PAWL_OK, pawl_lock_release(pair->reader));
    expect_state(suite, FREE);
}

static void who_reads_and_asks_to_write_would_wait_for_itself(const struct suite *suite)
{
    struct pair threads = open_pair(suite);
    check_upgrade(suite, &threads);
    struct pair handles = open_twins(suite);
    check_upgrade(suite, &handles);
}

static void reading_and_writing_are_counted_apart(const struct suite *suite)
{
    struct pair pair = open_pair(suite);
    EXPECT(PAWL_OK, pawl_lock_acquire(pair.writer, PAWL_TRY));
    EXPECT(PAWL_OK, pawl_lock_acquire(pair.writer, PAWL_TRY));
    assert_int_equal(pawl_lock_hold_count(pair.reader), 0);
    assert_int_equal(pawl_lock_token(pair.reader), 0);
    EXPECT(PAWL_NOT_HELD, pawl_lock_extend(pair.reader, LONG_MS));
    EXPECT(PAWL_OK, pawl_lock_acquire(pair.reader, PAWL_TRY));
    assert_int_equal(pawl_lock_hold_count(pair.writer), 2);
    assert_int_equal(pawl_lock_hold_count(pair.reader), 1);
    EXPECT(PAWL_OK, pawl_lock_release(pair.writer));
    expect_state(suite, WRITTEN); /* once more than once */
    EXPECT(PAWL_OK, pawl_lock_release(pair.writer));
    expect_state(suite, READ);
    assert_int_equal(pawl_lock_hold_count(pair.writer), 0);
    assert_int_equal(pawl_lock_hold_count(pair.reader), 1);
    EXPECT(PAWL_OK, pawl_lock_acquire(pair.reader, PAWL_TRY));
    assert_int_equal(pawl_lock_hold_count(pair.reader), 2);
    EXPECT(PAWL_OK, pawl_lock_release(pair.reader));
    expect_state(suite, READ);
    EXPECT(PAWL_OK, pawl_lock_release(pair.reader));
    expect_state(suite, FREE);
}

static void tokens_of_writers_grow(const struct suite *suite)
{
    struct pair pairs[2] = {open_pair(suite), open_pair(suite)};
    uint64_t token = 0;
    for (int i = 0; i < 6; i++) {
        pawl_lock *lock = pairs[i % 2].writer;
        EXPECT(PAWL_OK, pawl_lock_acquire(lock, PAWL_TRY));
        assert_true(pawl_lock_token(lock) > token);
        token = pawl_lock_token(lock);
        EXPECT(PAWL_OK, pawl_lock_release(lock));
        EXPECT(PAWL_OK, pawl_lock_acquire(pairs[0].reader, PAWL_TRY));
        EXPECT(PAWL_OK, pawl_lock_release(pairs[0].reader));
    }
}

/* ===== Leases ===== */

static int64_t remaining_ms(pawl_lock *lock)
{
    pawl_lock_info info = {.size = sizeof info};
    EXPECT(PAWL_OK, pawl_lock_inspect(lock, &info));
    assert_true(info.held);
    return info.remaining_ms;
}

static void reading_never_shortens_a_held_write_lock(const struct suite *suite)
{
    struct pair pair = open_pair_with(suite, renewed_options(LONG_MS));
    const pawl_lock_options options = kinded(renewed_options(RENEWED_MS), PAWL_READ);
    pawl_lock *brief = open_lock(pair.client, suite->name, &options);
    struct pair other = open_pair(suite);
    EXPECT(PAWL_OK, pawl_lock_acquire(pair.writer, PAWL_TRY));
    EXPECT(PAWL_OK, pawl_lock_acquire(brief, PAWL_TRY));
    assert_true(remaining_ms(other.writer) > LONG_MS / 2);
    EXPECT(PAWL_OK, pawl_lock_release(brief));
    assert_true(remaining_ms(other.writer) > LONG_MS / 2);
    EXPECT(PAWL_OK, pawl_lock_acquire(brief, PAWL_TRY));
    EXPECT(PAWL_OK, pawl_lock_release(pair.writer)); /* nor does going on reading */
    assert_true(remaining_ms(other.writer) > LONG_MS / 2);
    EXPECT(PAWL_OK, pawl_lock_release(brief));
    expect_state(suite, FREE);
}

static void a_reader_that_leaves_never_shortens_anothers_lease(const struct suite *suite)
{
    struct pair pair = open_pair_with(suite, fixed_options(LONG_MS));
    struct pair brief = open_pair_with(suite, fixed_options(RENEWED_MS));
    EXPECT(PAWL_OK, pawl_lock_acquire(pair.reader, PAWL_TRY));
    EXPECT(PAWL_OK, pawl_lock_acquire(brief.reader, PAWL_TRY));
    assert_true(remaining_ms(brief.writer) > LONG_MS / 2);
    EXPECT(PAWL_OK, pawl_lock_release(brief.reader));
    assert_true(remaining_ms(brief.writer) > LONG_MS / 2);
    EXPECT(PAWL_OK, pawl_lock_release(pair.reader));
    expect_state(suite, FREE);
}

/* The longest lease ends with its reader, and not before or after. */
static void readers_leases_end_one_by_one(const struct suite *suite)
{
    struct pair brief = open_pair_with(suite, fixed_options(LEASE_MS));
    struct pair pair = open_pair(suite);
    struct pair writing = open_pair(suite);
    EXPECT(PAWL_OK, pawl_lock_acquire(pair.reader, PAWL_TRY));
    EXPECT(PAWL_OK, pawl_lock_acquire(brief.reader, PAWL_TRY));
    await_loss(brief.reader, LEASE_MS + LATE_MS);
    assert_true(pawl_lock_remaining_ms(pair.reader) > 0);
    EXPECT(PAWL_BUSY, pawl_lock_acquire(writing.writer, LEASE_MS));
    EXPECT(PAWL_LOST, pawl_lock_release(brief.reader));
    expect_state(suite, READ);
    EXPECT(PAWL_OK, pawl_lock_release(pair.reader));
    expect_state(suite, FREE);
}

/* Only a reader is left whose lease ends; the longer one was released. */
static void the_last_readers_lease_ends_the_lock(const struct suite *suite)
{
    struct pair brief = open_pair_with(suite, fixed_options(LEASE_MS));
    struct pair pair = open_pair_with(suite, fixed_options(LONG_MS));
    struct pair writing = open_pair(suite);
    EXPECT(PAWL_OK, pawl_lock_acquire(brief.reader, PAWL_TRY));
    EXPECT(PAWL_OK, pawl_lock_acquire(pair.reader, PAWL_TRY));
    EXPECT(PAWL_OK, pawl_lock_release(pair.reader));
    EXPECT(PAWL_OK, pawl_lock_acquire(writing.writer, LEASE_MS + LATE_MS));
    await_loss(brief.reader, LATE_MS);
    EXPECT(PAWL_LOST, pawl_lock_release(brief.reader));
    expect_state(suite, WRITTEN);
    EXPECT(PAWL_OK, pawl_lock_release(writing.writer));
}

static void readers_are_renewed(const struct suite *suite)
{
    const int64_t lease_ms = 2 * RENEWED_MS;
    struct pair pair = open_pair_with(suite, renewed_options(lease_ms));
    struct pair other = open_pair_with(suite, renewed_options(lease_ms));
    struct pair writing = open_pair(suite);
    EXPECT(PAWL_OK, pawl_lock_acquire(pair.reader, PAWL_TRY));
    EXPECT(PAWL_OK, pawl_lock_acquire(other.reader, PAWL_TRY));
    EXPECT(PAWL_BUSY, pawl_lock_acquire(writing.writer, lease_ms * 3 / 2));
    assert_true(pawl_lock_remaining_ms(pair.reader) > 0);
    EXPECT(PAWL_OK, pawl_lock_release(other.reader));
    EXPECT(PAWL_BUSY, pawl_lock_acquire(writing.writer, lease_ms * 3 / 2));
    EXPECT(PAWL_OK, pawl_lock_release(pair.reader));
    expect_state(suite, FREE);
}

static void a_reader_may_extend_its_lease(const struct suite *suite)
{
    struct pair pair = open_pair_with(suite, fixed_options(RENEWED_MS));
    EXPECT(PAWL_OK, pawl_lock_acquire(pair.reader, PAWL_TRY));
    EXPECT(PAWL_OK, pawl_lock_extend(pair.reader, LONG_MS));
    assert_true(pawl_lock_remaining_ms(pair.reader) > LONG_MS / 2);
    assert_true(remaining_ms(pair.writer) > LONG_MS / 2);
    EXPECT(PAWL_NOT_HELD, pawl_lock_extend(pair.writer, LONG_MS));
    EXPECT(PAWL_OK, pawl_lock_release(pair.reader));
    expect_state(suite, FREE);
}

/* ===== Ends ===== */

/* Everybody who reads learns that the lock was broken. */
static void breaking_ends_every_read(const struct suite *suite)
{
    struct recorder *recorders[2] = {recorder_new(), recorder_new()};
    struct pair pairs[2];
    for (int i = 0; i < 2; i++) {
        pawl_lock_options options = renewed_options(LEASE_MS);
        record_events(&options, recorders[i]);
        pairs[i] = open_pair_with(suite, options);
        EXPECT(PAWL_OK, pawl_lock_acquire(pairs[i].reader, PAWL_TRY));
    }
    struct pair breaker = open_pair(suite);
    EXPECT(PAWL_OK, pawl_lock_break(breaker.writer));
    EXPECT(PAWL_OK, pawl_lock_acquire(breaker.writer, PAWL_TRY));
    for (int i = 0; i < 2; i++) {
        recorder_await(recorders[i], 1);
        assert_int_equal(recorder_get(recorders[i], 0).kind, RECORD_LOST);
        EXPECT(PAWL_LOST, pawl_lock_release(pairs[i].reader));
    }
    expect_state(suite, WRITTEN);
    EXPECT(PAWL_OK, pawl_lock_break(breaker.reader)); /* by either side */
    EXPECT(PAWL_LOST, pawl_lock_release(breaker.writer));
    EXPECT(PAWL_NOT_HELD, pawl_lock_break(breaker.reader));
    expect_state(suite, FREE);
}

/* What threads hold through one handle ends with it. */
static void closing_a_handle_ends_all_its_reads(const struct suite *suite)
{
    struct pair pair = open_pair(suite);
    struct actor *actors[READERS];
    for (size_t i = 0; i < READERS; i++) {
        actors[i] = actor_new();
        EXPECT(PAWL_OK, actor_acquire_now(actors[i], pair.reader, PAWL_TRY));
    }
    EXPECT(PAWL_OK, close_lock(pair.reader));
    expect_state(suite, FREE);
}

static void closing_a_handle_that_holds_nothing_any_more(const struct suite *suite)
{
    struct pair pair = open_pair(suite);
    const pawl_lock_options options = kinded(thread_options(), PAWL_READ);
    pawl_lock *second = open_lock(pair.client, suite->name, &options);
    EXPECT(PAWL_OK, pawl_lock_acquire(pair.writer, PAWL_TRY));
    EXPECT(PAWL_OK, pawl_lock_acquire(second, PAWL_TRY));
    EXPECT(PAWL_OK, pawl_lock_release(pair.reader)); /* through another one of its kind */
    EXPECT(PAWL_OK, close_lock(second));
    expect_state(suite, WRITTEN);
    EXPECT(PAWL_OK, close_lock(pair.writer));
    expect_state(suite, FREE);
}

static void closing_a_client_ends_reads_and_waits(const struct suite *suite)
{
    struct pair pair = open_pair(suite);
    struct actor *writer = actor_new();
    struct actor *late = actor_new();
    EXPECT(PAWL_OK, pawl_lock_acquire(pair.reader, PAWL_TRY));
    actor_acquire(writer, pair.writer, PAWL_FOREVER);
    actor_await_sleep(writer);
    actor_acquire(late, pair.reader, PAWL_FOREVER);
    actor_await_sleep(late);
    EXPECT(PAWL_OK, close_client(pair.client));
    EXPECT(PAWL_CANCELED, actor_answer(writer));
    EXPECT(PAWL_CANCELED, actor_answer(late));
    expect_state(suite, FREE);
}

static void asynchronous_readers_and_a_writer(const struct suite *suite)
{
    const pawl_lock_options options = kinded(handle_options(), PAWL_READ);
    struct recorder *recorder = recorder_new();
    struct pair twins = open_twins(suite);
    pawl_lock *locks[3];
    EXPECT(PAWL_OK, pawl_lock_acquire(twins.writer, PAWL_TRY));
    for (int i = 0; i < 3; i++) {
        locks[i] = open_lock(twins.client, suite->name, &options);
        EXPECT(PAWL_OK, pawl_lock_acquire_async(locks[i], PAWL_FOREVER, record_done, recorder));
    }
    EXPECT(PAWL_OK, pawl_lock_acquire(twins.reader, PAWL_TRY));
    assert_int_equal(recorder_count(recorder), 0);
    EXPECT(PAWL_OK, pawl_lock_release_async(twins.writer, record_done, recorder));
    recorder_await(recorder, 4);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(recorder_get(recorder, i).status, PAWL_OK);
    }
    for (int i = 0; i < 3; i++) {
        EXPECT(PAWL_OK, pawl_lock_release(locks[i]));
    }
    expect_state(suite, READ);
    EXPECT(PAWL_OK, pawl_lock_release(twins.reader));
    expect_state(suite, FREE);
}

/* Both are released without waiting in between. */
static void releases_one_after_another_are_both_well(const struct suite *suite)
{
    struct recorder *recorder = recorder_new();
    struct pair twins = open_twins(suite);
    for (size_t i = 0; i < 10; i++) {
        EXPECT(PAWL_OK, pawl_lock_acquire(twins.writer, PAWL_TRY));
        EXPECT(PAWL_OK, pawl_lock_acquire(twins.reader, PAWL_TRY));
        EXPECT(PAWL_OK, pawl_lock_release_async(twins.writer, record_done, recorder));
        EXPECT(PAWL_OK, pawl_lock_release_async(twins.reader, record_done, recorder));
        recorder_await(recorder, 2 * i + 2);
        assert_int_equal(recorder_get(recorder, 2 * i).status, PAWL_OK);
        assert_int_equal(recorder_get(recorder, 2 * i + 1).status, PAWL_OK);
    }
    expect_state(suite, FREE);
}

/* A process dies while it reads, beside a reader that lives on. */
static void killed_reader(const struct suite *suite)
{
    const struct peer_options options = {
        .lease_ms = 2 * LEASE_MS, .renew = true, .kind = PAWL_READ};
    struct pair pair = open_pair(suite);
    struct pair writing = open_pair(suite);
    struct actor *actor = actor_new();
    struct child *peer = peer_start(suite, suite->name, &options);
    peer_ask(peer, "acquire 0", "ok");
    EXPECT(PAWL_OK, pawl_lock_acquire(pair.reader, PAWL_TRY));
    actor_acquire(actor, writing.writer, PAWL_FOREVER);
    actor_await_sleep(actor);
    child_signal(peer, SIGKILL);
    assert_int_equal(child_wait(peer, SOON_MS), 128 + SIGKILL);
    const int64_t killed_us = boottime_us();
    EXPECT(PAWL_OK, pawl_lock_release(pair.reader));
    EXPECT(PAWL_OK, actor_answer(actor));
    const int64_t free_us = actor_ended_us(actor) - killed_us;
    suite_late("free after a reader was killed", free_us - 2 * LEASE_MS * 1000);
    assert_true(free_us <= (2 * LEASE_MS + LATE_MS) * 1000);
    EXPECT(PAWL_OK, actor_release_now(actor, writing.writer));
    child_free(peer);
}

static void a_killed_reader_keeps_it_for_its_lease(const struct suite *suite)
{
    if (suite->engine->has[FLAG_PROCESSES]) {
        killed_reader(suite);
    } else {
        the_last_readers_lease_ends_the_lock(suite); /* there is nobody to be killed */
    }
}

/* In one client a name is one thing. */
static void a_shared_lock_is_no_mutex(const struct suite *suite)
{
    struct pair pair = open_pair(suite);
    pawl_lock *mutex = NULL;
    EXPECT(PAWL_INVALID, pawl_lock_open(pair.client, suite->name, NULL, &mutex));
    assert_non_null(strstr(pawl_last_error(), "a read/write lock"));
    assert_null(mutex);
}

static const struct suite_case cases[] = {
    SUITE_EITHER(FLAG_READ_WRITE, many_threads_read_together, refused),
    SUITE_EITHER(FLAG_READ_WRITE, a_writer_excludes_everybody, refused),
    SUITE_EITHER(FLAG_READ_WRITE, readers_and_writers_wake_each_other, refused),
    SUITE_EITHER(FLAG_READ_WRITE, a_reader_does_not_overtake_a_writer_of_its_process, refused),
    SUITE_EITHER(FLAG_READ_WRITE, a_mutex_excludes_readers_and_writers, refused),
    SUITE_EITHER(FLAG_READ_WRITE, a_thread_that_writes_may_go_on_reading, refused),
    SUITE_EITHER(FLAG_READ_WRITE, a_handle_that_writes_may_go_on_reading, refused),
    SUITE_EITHER(FLAG_READ_WRITE, a_fixed_lease_goes_on_reading, refused),
    SUITE_EITHER(FLAG_READ_WRITE, going_on_reading_lets_readers_in, refused),
    SUITE_EITHER(FLAG_READ_WRITE, who_reads_and_asks_to_write_would_wait_for_itself, refused),
    SUITE_EITHER(FLAG_READ_WRITE, reading_and_writing_are_counted_apart, refused),
    SUITE_EITHER(FLAG_READ_WRITE, tokens_of_writers_grow, refused),
    SUITE_EITHER(FLAG_READ_WRITE, reading_never_shortens_a_held_write_lock, refused),
    SUITE_EITHER(FLAG_READ_WRITE, a_reader_that_leaves_never_shortens_anothers_lease, refused),
    SUITE_EITHER(FLAG_READ_WRITE, readers_leases_end_one_by_one, refused),
    SUITE_EITHER(FLAG_READ_WRITE, the_last_readers_lease_ends_the_lock, refused),
    SUITE_EITHER(FLAG_READ_WRITE, readers_are_renewed, refused),
    SUITE_EITHER(FLAG_READ_WRITE, a_reader_may_extend_its_lease, refused),
    SUITE_EITHER(FLAG_READ_WRITE, breaking_ends_every_read, refused),
    SUITE_EITHER(FLAG_READ_WRITE, closing_a_handle_ends_all_its_reads, refused),
    SUITE_EITHER(FLAG_READ_WRITE, closing_a_handle_that_holds_nothing_any_more, refused),
    SUITE_EITHER(FLAG_READ_WRITE, closing_a_client_ends_reads_and_waits, refused),
    SUITE_EITHER(FLAG_READ_WRITE, asynchronous_readers_and_a_writer, refused),
    SUITE_EITHER(FLAG_READ_WRITE, releases_one_after_another_are_both_well, refused),
    SUITE_EITHER(FLAG_READ_WRITE, a_killed_reader_keeps_it_for_its_lease, refused),
    SUITE_EITHER(FLAG_READ_WRITE, a_shared_lock_is_no_mutex, refused),
};

SUITE_GROUP(suite_shared, cases);
