/* SPDX-License-Identifier: Apache-2.0 */
/* Locks whose release tells nobody: spin locks and plain ones. They do what a mutex does, and who
 * waits looks again and again. */
#include "conformance/lib/actor.h"
#include "conformance/lib/peer.h"
#include "conformance/lib/tools.h"

#include <string.h>

#define COUNTING 4
#define ROUNDS 25

static pawl_lock *open_kind(pawl_client *client, const char *name, pawl_kind kind)
{
    const pawl_lock_options options = kinded(thread_options(), kind);
    return open_lock(client, name, &options);
}

/* What another client sees: nothing but a lock of the same kind looks at a plain one. */
static void expect_try(const struct suite *suite, pawl_kind kind, pawl_status status)
{
    pawl_client *client = open_client(suite);
    pawl_lock *lock = open_kind(client, suite->name, kind);
    EXPECT(status, pawl_lock_acquire(lock, PAWL_TRY));
    EXPECT(PAWL_OK, close_lock(lock));
    EXPECT(PAWL_OK, close_client(client));
}

/* ===== For both kinds ===== */

static void check_wait(const struct suite *suite, pawl_kind kind)
{
    pawl_lock *lock = open_kind(open_client(suite), suite->name, kind);
    pawl_lock *rival = open_kind(open_client(suite), suite->name, kind);
    struct actor *actor = actor_new();
    EXPECT(PAWL_OK, pawl_lock_acquire(lock, PAWL_TRY));
    EXPECT(PAWL_BUSY, actor_acquire_now(actor, rival, QUICK_MS));
    const int64_t took_us = actor_ended_us(actor) - actor_began_us(actor);
    suite_late("end of a wait without messages", took_us - QUICK_MS * 1000);
    assert_true(took_us >= QUICK_MS * 1000 && took_us <= (QUICK_MS + LATE_MS) * 1000);
    actor_acquire(actor, rival, LONG_MS);
    actor_await_sleep(actor);
    const int64_t released_us = boottime_us();
    EXPECT(PAWL_OK, pawl_lock_release(lock));
    EXPECT(PAWL_OK, actor_answer(actor));
    suite_late("look at a free lock", actor_ended_us(actor) - released_us);
    assert_true(actor_ended_us(actor) - released_us < LATE_MS * 1000);
    expect_try(suite, kind, PAWL_BUSY);
    EXPECT(PAWL_OK, actor_release_now(actor, rival));
    expect_try(suite, kind, PAWL_OK);
}

/* A queue of threads, a cancel in the middle of it. */
static void check_cancel(const struct suite *suite, pawl_kind kind)
{
    pawl_client *client = open_client(suite);
    pawl_lock *lock = open_kind(client, suite->name, kind);
    pawl_lock *other = open_kind(client, suite->name, kind);
    struct actor *first = actor_new();
    struct actor *second = actor_new();
    EXPECT(PAWL_OK, pawl_lock_acquire(lock, PAWL_TRY));
    actor_acquire(first, other, PAWL_FOREVER);
    actor_await_sleep(first);
    actor_acquire(second, lock, PAWL_FOREVER);
    actor_await_sleep(second);
    pawl_lock_cancel(other);
    EXPECT(PAWL_CANCELED, actor_answer(first));
    EXPECT(PAWL_OK, pawl_lock_release(lock));
    EXPECT(PAWL_OK, actor_answer(second));
    EXPECT(PAWL_OK, actor_release_now(second, lock));
}

struct counting {
    pawl_lock *lock;
    _Atomic unsigned *number; /* an update between the two halves of another is lost */
};

static pawl_status count_up(void *arg)
{
    const struct counting *counting = arg;
    for (int i = 0; i < ROUNDS; i++) {
        pawl_status status = pawl_lock_acquire(counting->lock, LONG_MS);
        if (status != PAWL_OK) {
            return status;
        }
        const unsigned seen = atomic_load(counting->number);
        nap_ms(0);
        atomic_store(counting->number, seen + 1);
        status = pawl_lock_release(counting->lock);
        if (status != PAWL_OK) {
            return status;
        }
    }
    return PAWL_OK;
}

/* Two threads each of two clients add up. */
static void check_exclusion(const struct suite *suite, pawl_kind kind)
{
    static _Atomic unsigned number;
    static struct counting counting[COUNTING];
    struct actor *actors[COUNTING];
    pawl_lock *locks[2];
    atomic_store(&number, 0);
    for (size_t i = 0; i < 2; i++) {
        locks[i] = open_kind(open_client(suite), suite->name, kind);
    }
    for (size_t i = 0; i < COUNTING; i++) {
        counting[i] = (struct counting){locks[i % 2], &number};
        actors[i] = actor_new();
        actor_call(actors[i], count_up, &counting[i]);
    }
    for (size_t i = 0; i < COUNTING; i++) {
        EXPECT(PAWL_OK, actor_answer(actors[i]));
    }
    assert_int_equal(atomic_load(&number), COUNTING * ROUNDS);
}

static void check_re_entry(const struct suite *suite, pawl_kind kind)
{
    pawl_lock *lock = open_kind(open_client(suite), suite->name, kind);
    EXPECT(PAWL_OK, pawl_lock_acquire(lock, PAWL_TRY));
    EXPECT(PAWL_OK, pawl_lock_acquire(lock, PAWL_TRY));
    assert_int_equal(pawl_lock_hold_count(lock), 2);
    EXPECT(PAWL_OK, pawl_lock_release(lock));
    expect_try(suite, kind, PAWL_BUSY);
    EXPECT(PAWL_OK, pawl_lock_release(lock));
    EXPECT(PAWL_NOT_HELD, pawl_lock_release(lock));
    expect_try(suite, kind, PAWL_OK);
}

static void check_leases(const struct suite *suite, pawl_kind kind)
{
    const pawl_lock_options renewed = kinded(renewed_options(RENEWED_MS), kind);
    const pawl_lock_options fixed = kinded(fixed_options(LEASE_MS), kind);
    pawl_lock *lock = open_lock(open_client(suite), suite->name, &renewed);
    pawl_lock *brief = open_lock(open_client(suite), suite->name, &fixed);
    EXPECT(PAWL_OK, pawl_lock_acquire(lock, PAWL_TRY));
    EXPECT(PAWL_BUSY, pawl_lock_acquire(brief, RENEWED_MS * 3 / 2));
    EXPECT(PAWL_OK, pawl_lock_release(lock));
    EXPECT(PAWL_OK, pawl_lock_acquire(brief, PAWL_TRY));
    EXPECT(PAWL_OK, pawl_lock_acquire(lock, LEASE_MS + LATE_MS)); /* its lease has ended */
    await_loss(brief, LATE_MS);
    EXPECT(PAWL_LOST, pawl_lock_acquire(brief, PAWL_TRY));
    EXPECT(PAWL_LOST, pawl_lock_release(brief));
    expect_try(suite, kind, PAWL_BUSY); /* which did not touch the new hold */
    EXPECT(PAWL_OK, pawl_lock_release(lock));
}

static void check_extend(const struct suite *suite, pawl_kind kind)
{
    const pawl_lock_options options = kinded(fixed_options(RENEWED_MS), kind);
    pawl_lock *lock = open_lock(open_client(suite), suite->name, &options);
    pawl_lock *other = open_kind(open_client(suite), suite->name, kind);
    pawl_lock_info info = {.size = sizeof info};
    EXPECT(PAWL_OK, pawl_lock_acquire(lock, PAWL_TRY));
    EXPECT(PAWL_OK, pawl_lock_extend(lock, LONG_MS));
    assert_true(pawl_lock_remaining_ms(lock) > LONG_MS / 2);
    EXPECT(PAWL_OK, pawl_lock_inspect(other, &info));
    assert_true(info.held && !info.held_by_caller);
    assert_true(info.remaining_ms > LONG_MS / 2 && info.remaining_ms <= LONG_MS);
    assert_true(info.holder[0] != '\0');
    EXPECT(PAWL_OK, pawl_lock_inspect(lock, &info));
    assert_true(info.held_by_caller);
    EXPECT(PAWL_OK, pawl_lock_release(lock));
    EXPECT(PAWL_OK, pawl_lock_inspect(other, &info));
    assert_false(info.held);
}

static void check_break(const struct suite *suite, pawl_kind kind)
{
    struct recorder *recorder = recorder_new();
    pawl_lock_options options = kinded(renewed_options(LEASE_MS), kind);
    record_events(&options, recorder);
    pawl_lock *lock = open_lock(open_client(suite), suite->name, &options);
    pawl_lock *breaker = open_kind(open_client(suite), suite->name, kind);
    EXPECT(PAWL_NOT_HELD, pawl_lock_break(breaker));
    EXPECT(PAWL_OK, pawl_lock_acquire(lock, PAWL_TRY));
    EXPECT(PAWL_OK, pawl_lock_break(breaker));
    EXPECT(PAWL_OK, pawl_lock_acquire(breaker, PAWL_TRY));
    recorder_await(recorder, 1);
    assert_int_equal(recorder_get(recorder, 0).kind, RECORD_LOST);
    EXPECT(PAWL_LOST, pawl_lock_release(lock));
    EXPECT(PAWL_NOT_HELD, pawl_lock_release(lock));
    expect_try(suite, kind, PAWL_BUSY);
    EXPECT(PAWL_OK, pawl_lock_release(breaker));
}

static void check_async(const struct suite *suite, pawl_kind kind)
{
    const pawl_lock_options options = kinded(handle_options(), kind);
    struct recorder *recorder = recorder_new();
    pawl_client *client = open_client(suite);
    pawl_lock *locks[2] = {open_lock(client, suite->name, &options),
        open_lock(open_client(suite), suite->name, &options)};
    EXPECT(PAWL_OK, pawl_lock_acquire(locks[0], PAWL_TRY));
    EXPECT(PAWL_OK, pawl_lock_acquire_async(locks[1], PAWL_FOREVER, record_done, recorder));
    EXPECT(PAWL_OK, close_client(client)); /* releases it */
    recorder_await(recorder, 1);
    assert_int_equal(recorder_get(recorder, 0).status, PAWL_OK);
    EXPECT(PAWL_OK, pawl_lock_release(locks[1]));
    expect_try(suite, kind, PAWL_OK);
}

static void check_family(const struct suite *suite, pawl_kind kind, const char *word)
{
    pawl_client *client = open_client(suite);
    pawl_lock *mutex = NULL;
    open_kind(client, suite->name, kind);
    EXPECT(PAWL_INVALID, pawl_lock_open(client, suite->name, NULL, &mutex));
    assert_non_null(strstr(pawl_last_error(), word));
    assert_null(mutex);
}

#define FOR_BOTH(what)                                  \
    static void spin_##what(const struct suite *suite)  \
    {                                                   \
        check_##what(suite, PAWL_SPIN);                 \
    }                                                   \
    static void plain_##what(const struct suite *suite) \
    {                                                   \
        check_##what(suite, PAWL_PLAIN);                \
    }

FOR_BOTH(wait)
FOR_BOTH(cancel)
FOR_BOTH(exclusion)
FOR_BOTH(re_entry)
FOR_BOTH(leases)
FOR_BOTH(extend)
FOR_BOTH(break)
FOR_BOTH(async)

/* ===== What differs ===== */

static void a_spin_lock_has_tokens(const struct suite *suite)
{
    pawl_lock *locks[2];
    uint64_t token = 0;
    for (int i = 0; i < 2; i++) {
        locks[i] = open_kind(open_client(suite), suite->name, PAWL_SPIN);
    }
    for (int i = 0; i < 6; i++) {
        EXPECT(PAWL_OK, pawl_lock_acquire(locks[i % 2], PAWL_TRY));
        assert_true(pawl_lock_token(locks[i % 2]) > token);
        token = pawl_lock_token(locks[i % 2]);
        EXPECT(PAWL_OK, pawl_lock_release(locks[i % 2]));
    }
    check_family(suite, PAWL_SPIN, "a spin lock");
}

/* A spin lock and a mutex of different clients are the same thing in the backend. */
static void a_spin_lock_excludes_a_mutex(const struct suite *suite)
{
    pawl_lock *lock = open_kind(open_client(suite), suite->name, PAWL_SPIN);
    pawl_lock *mutex = open_thread_lock(open_client(suite), suite->name);
    EXPECT(PAWL_OK, pawl_lock_acquire(lock, PAWL_TRY));
    EXPECT(PAWL_BUSY, pawl_lock_acquire(mutex, PAWL_TRY));
    EXPECT(PAWL_OK, pawl_lock_release(lock));
    EXPECT(PAWL_OK, pawl_lock_acquire(mutex, PAWL_TRY));
    EXPECT(PAWL_BUSY, pawl_lock_acquire(lock, PAWL_TRY));
    EXPECT(PAWL_OK, pawl_lock_release(mutex));
}

static void a_plain_lock_has_no_token(const struct suite *suite)
{
    pawl_lock *lock = open_kind(open_client(suite), suite->name, PAWL_PLAIN);
    EXPECT(PAWL_OK, pawl_lock_acquire(lock, PAWL_TRY));
    assert_int_equal(pawl_lock_token(lock), 0);
    assert_true(pawl_lock_remaining_ms(lock) > 0);
    EXPECT(PAWL_OK, pawl_lock_release(lock));
    check_family(suite, PAWL_PLAIN, "a plain lock");
}

/* Where the backend can tell a plain lock from a mutex, neither is taken for the other; where it
 * cannot, they exclude each other. Nobody ever holds both. */
static void a_plain_lock_is_no_mutex(const struct suite *suite)
{
    pawl_lock *lock = open_kind(open_client(suite), suite->name, PAWL_PLAIN);
    pawl_lock *mutex = open_thread_lock(open_client(suite), suite->name);
    EXPECT(PAWL_OK, pawl_lock_acquire(lock, PAWL_TRY));
    pawl_status status = pawl_lock_acquire(mutex, PAWL_TRY);
    assert_true(status == PAWL_REFUSED || status == PAWL_BUSY);
    assert_true(pawl_last_error()[0] != '\0');
    EXPECT(PAWL_OK, pawl_lock_release(lock));
    EXPECT(PAWL_OK, pawl_lock_acquire(mutex, PAWL_TRY));
    status = pawl_lock_acquire(lock, PAWL_TRY);
    assert_true(status == PAWL_REFUSED || status == PAWL_BUSY);
    EXPECT(PAWL_OK, pawl_lock_release(mutex));
    EXPECT(PAWL_OK, pawl_lock_acquire(lock, PAWL_TRY));
    EXPECT(PAWL_OK, pawl_lock_release(lock));
}

static void no_spin(const struct suite *suite)
{
    expect_kind_refused(suite, PAWL_SPIN);
}

static void no_plain(const struct suite *suite)
{
    expect_kind_refused(suite, PAWL_PLAIN);
}

static const struct suite_case cases[] = {
    SUITE_EITHER(FLAG_SPIN, spin_wait, no_spin),
    SUITE_EITHER(FLAG_SPIN, spin_cancel, no_spin),
    SUITE_EITHER(FLAG_SPIN, spin_exclusion, no_spin),
    SUITE_EITHER(FLAG_SPIN, spin_re_entry, no_spin),
    SUITE_EITHER(FLAG_SPIN, spin_leases, no_spin),
    SUITE_EITHER(FLAG_SPIN, spin_extend, no_spin),
    SUITE_EITHER(FLAG_SPIN, spin_break, no_spin),
    SUITE_EITHER(FLAG_SPIN, spin_async, no_spin),
    SUITE_EITHER(FLAG_SPIN, a_spin_lock_has_tokens, no_spin),
    SUITE_EITHER(FLAG_SPIN, a_spin_lock_excludes_a_mutex, no_spin),
    SUITE_EITHER(FLAG_PLAIN, plain_wait, no_plain),
    SUITE_EITHER(FLAG_PLAIN, plain_cancel, no_plain),
    SUITE_EITHER(FLAG_PLAIN, plain_exclusion, no_plain),
    SUITE_EITHER(FLAG_PLAIN, plain_re_entry, no_plain),
    SUITE_EITHER(FLAG_PLAIN, plain_leases, no_plain),
    SUITE_EITHER(FLAG_PLAIN, plain_extend, no_plain),
    SUITE_EITHER(FLAG_PLAIN, plain_break, no_plain),
    SUITE_EITHER(FLAG_PLAIN, plain_async, no_plain),
    SUITE_EITHER(FLAG_PLAIN, a_plain_lock_has_no_token, no_plain),
    SUITE_EITHER(FLAG_PLAIN, a_plain_lock_is_no_mutex, no_plain),
};

SUITE_GROUP(suite_spin, cases);
