/* SPDX-License-Identifier: Apache-2.0 */
/* Leases that are renewed, extended and limited. What happens when one ends is in cases_lost.c. */
#include "conformance/lib/actor.h"
#include "conformance/lib/tools.h"
#include "support/resources.h"

#include <stdio.h>

#define HALF_MS (RENEWED_MS / 2)
#define MANY 50

/* Watch the hold for so long. Told with a failure: the least that remained, and how long threads of
 * this process had to wait for a processor, which is not the library's fault. */
static void watch_hold(const pawl_lock *lock, int64_t duration_ms, int64_t lease_ms)
{
    int64_t least_ms = INT64_MAX;
    const int64_t waited_ms = processor_wait_ms();
    const int64_t end_ms = boottime_ms() + duration_ms;
    while (boottime_ms() < end_ms) {
        const int64_t left_ms = pawl_lock_remaining_ms(lock);
        if (left_ms <= 0 || (left_ms > lease_ms && left_ms != INT64_MAX)) {
            nap_ms(LATE_MS); /* who still waits is not counted yet */
            fail_msg("%lld ms remain, after at least %lld; threads waited %lld ms for a processor",
                (long long)left_ms, (long long)least_ms,
                (long long)(processor_wait_ms() - waited_ms));
        }
        least_ms = left_ms < least_ms ? left_ms : least_ms;
        nap_ms(1);
    }
    print_message("at least %lld of %lld ms remained\n", (long long)least_ms, (long long)lease_ms);
}

static void renewed_lease_goes_on(const struct suite *suite)
{
    struct recorder *recorder = recorder_new();
    const int64_t lease_ms = 3 * RENEWED_MS; /* at risk if a renewal is late by a third of that */
    pawl_lock_options options = renewed_options(lease_ms);
    record_events(&options, recorder);
    pawl_lock *lock = open_lock(open_client(suite), suite->name, &options);
    pawl_lock *other = open_thread_lock(open_client(suite), suite->name);
    EXPECT(PAWL_OK, pawl_lock_acquire(lock, PAWL_TRY));
    const uint64_t token = pawl_lock_token(lock);
    if (suite->engine->sessions) {
        assert_true(pawl_lock_remaining_ms(lock) == INT64_MAX);
    }
    for (int i = 0; i < 4; i++) {
        watch_hold(lock, lease_ms / 3 + 10, lease_ms);
        EXPECT(PAWL_BUSY, pawl_lock_acquire(other, PAWL_TRY));
    }
    assert_int_equal(pawl_lock_token(lock), token);
    EXPECT(PAWL_OK, pawl_lock_release(lock));
    EXPECT(PAWL_OK, close_lock(lock));
    assert_int_equal(recorder_count(recorder), 0); /* neither lost nor ever at risk */
}

static void many_renewed_leases_go_on(const struct suite *suite)
{
    pawl_client *client = open_client(suite);
    struct recorder *recorder = recorder_new();
    const int64_t lease_ms = 2 * RENEWED_MS; /* at risk if a renewal is late by a third of that */
    pawl_lock_options options = renewed_options(lease_ms);
    pawl_lock *locks[MANY];
    record_events(&options, recorder);
    for (int i = 0; i < MANY; i++) {
        char name[100];
        snprintf(name, sizeof name, "%s-%d", suite->name, i);
        locks[i] = open_lock(client, name, &options);
        EXPECT(PAWL_OK, pawl_lock_acquire(locks[i], PAWL_TRY));
    }
    watch_hold(locks[MANY / 2], 3 * lease_ms / 2, lease_ms);
    for (int i = 0; i < MANY; i++) {
        assert_true(pawl_lock_remaining_ms(locks[i]) > 0);
        EXPECT(PAWL_OK, pawl_lock_release(locks[i]));
    }
    assert_int_equal(recorder_count(recorder), 0);
}

static void renewed_lease_goes_on_while_others_wait(const struct suite *suite)
{
    const pawl_lock_options options = renewed_options(RENEWED_MS);
    pawl_lock *lock = open_lock(open_client(suite), suite->name, &options);
    pawl_lock *other = open_thread_lock(open_client(suite), suite->name);
    struct actor *near = actor_new();
    struct actor *far = actor_new();
    EXPECT(PAWL_OK, pawl_lock_acquire(lock, PAWL_TRY));
    actor_acquire(near, lock, PAWL_FOREVER);
    actor_acquire(far, other, PAWL_FOREVER);
    watch_hold(lock, 3 * RENEWED_MS / 2, RENEWED_MS);
    assert_false(actor_is_done(near));
    assert_false(actor_is_done(far));
    EXPECT(PAWL_OK, pawl_lock_release(lock));
    WAIT_UNTIL(actor_is_done(near) || actor_is_done(far), SOON_MS);
    struct actor *first = actor_is_done(near) ? near : far;
    EXPECT(PAWL_OK, actor_release_now(first, first == near ? lock : other));
    EXPECT(PAWL_OK, actor_answer(first == near ? far : near));
}

static void fixed_lease_counts_down(const struct suite *suite)
{
    const pawl_lock_options options = fixed_options(10 * LEASE_MS);
    pawl_lock *lock = open_lock(open_client(suite), suite->name, &options);
    const int64_t start_us = boottime_us();
    EXPECT(PAWL_OK, pawl_lock_acquire(lock, PAWL_TRY));
    int64_t last_ms = pawl_lock_remaining_ms(lock);
    assert_true(last_ms > 0 && last_ms <= 10 * LEASE_MS);
    WAIT_UNTIL(pawl_lock_remaining_ms(lock) <= 9 * LEASE_MS, SOON_MS);
    const int64_t left_ms = pawl_lock_remaining_ms(lock);
    const int64_t used_ms = (boottime_us() - start_us) / 1000;
    assert_true(left_ms <= last_ms);
    assert_true(left_ms <= 10 * LEASE_MS - (used_ms - LATE_MS)); /* it cannot stand still */
    assert_true(left_ms >= lease_least_ms(10 * LEASE_MS) - used_ms - 1);
    EXPECT(PAWL_OK, pawl_lock_release(lock));
}

/* ===== Extension ===== */

static void extend_lengthens(const struct suite *suite)
{
    const pawl_lock_options options = fixed_options(LEASE_MS);
    pawl_lock *lock = open_lock(open_client(suite), suite->name, &options);
    const int64_t start_ms = boottime_ms();
    EXPECT(PAWL_OK, pawl_lock_acquire(lock, PAWL_TRY));
    EXPECT(PAWL_OK, pawl_lock_extend(lock, LONG_MS));
    assert_true(pawl_lock_remaining_ms(lock) > LONG_MS / 2);
    assert_true(pawl_lock_remaining_ms(lock) <= LONG_MS);
    WAIT_UNTIL(boottime_ms() > start_ms + LEASE_MS + 10, SOON_MS);
    expect_busy(suite, suite->name);
    assert_true(pawl_lock_remaining_ms(lock) > 0);
    EXPECT(PAWL_OK, pawl_lock_release(lock));
}

static void extend_never_shortens(const struct suite *suite)
{
    pawl_client *client = open_client(suite);
    const pawl_lock_options fixed = fixed_options(LONG_MS);
    const pawl_lock_options renewed = renewed_options(LONG_MS);
    const char *names[] = {suite_name(suite, "fixed"), suite_name(suite, "renewed")};
    for (size_t i = 0; i < 2; i++) {
        pawl_lock *lock = open_lock(client, names[i], i == 0 ? &fixed : &renewed);
        EXPECT(PAWL_OK, pawl_lock_acquire(lock, PAWL_TRY));
        const int64_t before_ms = pawl_lock_remaining_ms(lock);
        EXPECT(PAWL_OK, pawl_lock_extend(lock, 10));
        assert_true(pawl_lock_remaining_ms(lock) > before_ms - SOON_MS);
        expect_busy(suite, names[i]);
        EXPECT(PAWL_OK, pawl_lock_release(lock));
    }
}

/* An extension beyond the lease is not taken back by the next renewal. */
static void extend_of_a_renewed_lease_lasts(const struct suite *suite)
{
    const pawl_lock_options options = renewed_options(RENEWED_MS);
    pawl_lock *lock = open_lock(open_client(suite), suite->name, &options);
    EXPECT(PAWL_OK, pawl_lock_acquire(lock, PAWL_TRY));
    EXPECT(PAWL_OK, pawl_lock_extend(lock, LONG_MS));
    const int64_t end_ms = boottime_ms() + 3 * RENEWED_MS / 2;
    while (boottime_ms() < end_ms) {
        assert_true(pawl_lock_remaining_ms(lock) > LONG_MS / 2);
        nap_ms(1);
    }
    EXPECT(PAWL_OK, pawl_lock_release(lock));
    expect_free(suite, suite->name);
}

static void extend_of_what_is_not_held(const struct suite *suite)
{
    pawl_lock *lock = open_thread_lock(open_client(suite), suite->name);
    struct actor *actor = actor_new();
    EXPECT(PAWL_NOT_HELD, pawl_lock_extend(lock, 1000));
    EXPECT(PAWL_OK, actor_acquire_now(actor, lock, PAWL_TRY));
    EXPECT(PAWL_NOT_HELD, pawl_lock_extend(lock, 1000));
    EXPECT(PAWL_OK, actor_release_now(actor, lock));
    EXPECT(PAWL_NOT_HELD, pawl_lock_extend(lock, 1000));
}

static void extensions_that_make_no_sense(const struct suite *suite)
{
    static const int64_t leases_ms[] = {9, 0, -1, INT64_MIN, INT64_MAX, INT64_MAX / 1000 + 1};
    pawl_lock *lock = open_thread_lock(open_client(suite), suite->name);
    EXPECT(PAWL_OK, pawl_lock_acquire(lock, PAWL_TRY));
    for (size_t i = 0; i < sizeof leases_ms / sizeof leases_ms[0]; i++) {
        EXPECT(PAWL_INVALID, pawl_lock_extend(lock, leases_ms[i]));
    }
    assert_true(pawl_lock_remaining_ms(lock) > 0);
    EXPECT(PAWL_OK, pawl_lock_release(lock));
}

/* ===== The longest hold ===== */

static void longest_hold_ends_a_renewed_one(const struct suite *suite)
{
    struct recorder *recorder = recorder_new();
    pawl_lock_options options = renewed_options(HALF_MS);
    options.max_hold_ms = 2 * HALF_MS;
    record_events(&options, recorder);
    pawl_lock *lock = open_lock(open_client(suite), suite->name, &options);
    pawl_lock *other = open_thread_lock(open_client(suite), suite->name);
    struct actor *actor = actor_new();
    const int64_t start_us = boottime_us();
    EXPECT(PAWL_OK, pawl_lock_acquire(lock, PAWL_TRY));
    assert_true(pawl_lock_remaining_ms(lock) <= 2 * HALF_MS);
    actor_acquire(actor, other, LONG_MS);
    await_loss(lock, 2 * HALF_MS + LATE_MS);
    const int64_t held_us = boottime_us() - start_us;
    suite_late("end of the longest hold", held_us - 2 * HALF_MS * 1000);
    assert_true(held_us > HALF_MS * 1000); /* so it was renewed */
    EXPECT(PAWL_OK, actor_answer(actor));
    assert_true(actor_ended_us(actor) - start_us > HALF_MS * 1000);
    assert_true(actor_ended_us(actor) - start_us < (2 * HALF_MS + LATE_MS) * 1000);
    EXPECT(PAWL_LOST, pawl_lock_release(lock));
    WAIT_UNTIL(recorder_count_of(recorder, RECORD_LOST) == 1, SOON_MS);
    EXPECT(PAWL_OK, actor_release_now(actor, other));
}

static void longest_hold_is_shorter_than_the_lease(const struct suite *suite)
{
    pawl_lock_options options = fixed_options(LONG_MS);
    options.max_hold_ms = LEASE_MS;
    pawl_lock *lock = open_lock(open_client(suite), suite->name, &options);
    pawl_lock *other = open_thread_lock(open_client(suite), suite->name);
    EXPECT(PAWL_OK, pawl_lock_acquire(lock, PAWL_TRY));
    assert_true(pawl_lock_remaining_ms(lock) <= LEASE_MS);
    const int64_t start_ms = boottime_ms();
    EXPECT(PAWL_OK, pawl_lock_acquire(other, LONG_MS));
    assert_true(boottime_ms() - start_ms <= LEASE_MS + LATE_MS);
    EXPECT(PAWL_LOST, pawl_lock_release(lock));
    EXPECT(PAWL_OK, pawl_lock_release(other));
}

static void extend_beyond_the_longest_hold(const struct suite *suite)
{
    pawl_lock_options options = fixed_options(LEASE_MS);
    options.max_hold_ms = LONG_MS;
    pawl_lock *lock = open_lock(open_client(suite), suite->name, &options);
    EXPECT(PAWL_OK, pawl_lock_acquire(lock, PAWL_TRY));
    EXPECT(PAWL_INVALID, pawl_lock_extend(lock, LONG_MS + 1));
    assert_true(pawl_lock_remaining_ms(lock) > 0);
    assert_true(pawl_lock_remaining_ms(lock) <= LEASE_MS);
    EXPECT(PAWL_OK, pawl_lock_extend(lock, LONG_MS / 2));
    assert_true(pawl_lock_remaining_ms(lock) > LEASE_MS);
    EXPECT(PAWL_OK, pawl_lock_release(lock));
}

static const struct suite_case cases[] = {
    SUITE_CASE(FLAG_LEASE, renewed_lease_goes_on),
    SUITE_CASE(FLAG_LEASE, many_renewed_leases_go_on),
    SUITE_CASE(FLAG_LEASE, renewed_lease_goes_on_while_others_wait),
    SUITE_CASE(FLAG_LEASE, fixed_lease_counts_down),
    SUITE_CASE(FLAG_LEASE, extend_lengthens),
    SUITE_CASE(FLAG_LEASE, extend_never_shortens),
    SUITE_CASE(FLAG_LEASE, extend_of_a_renewed_lease_lasts),
    SUITE_CASE(FLAG_LEASE, extend_of_what_is_not_held),
    SUITE_CASE(FLAG_LEASE, extensions_that_make_no_sense),
    SUITE_CASE(FLAG_LEASE, longest_hold_ends_a_renewed_one),
    SUITE_CASE(FLAG_LEASE, longest_hold_is_shorter_than_the_lease),
    SUITE_CASE(FLAG_LEASE, extend_beyond_the_longest_hold),
};

SUITE_GROUP(suite_lease, cases);
