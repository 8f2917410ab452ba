/* SPDX-License-Identifier: Apache-2.0 */
/* Many at once: numbers that only add up if nobody is inside together, order, turns, and a thousand
 * locks. */
#include "conformance/lib/actor.h"
#include "conformance/lib/tools.h"

#include "support/text.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define ROUNDS 200
#define WORKERS_MAX 8
#define LOCKS 1000

/* Threads that add to one number, each time under the lock. */
struct crowd {
    unsigned rounds;
    volatile uint64_t number; /* guarded by the lock under test, and by nothing else */
    _Atomic unsigned inside;
    _Atomic unsigned together; /* how often somebody was inside already */
    _Atomic uint64_t last_token;
    _Atomic unsigned disorder; /* how often a token was not greater than the last */
};

struct worker {
    struct crowd *crowd;
    pawl_lock *lock;
};

static void add_one(struct crowd *crowd, const pawl_lock *lock)
{
    if (atomic_fetch_add(&crowd->inside, 1) != 0) {
        atomic_fetch_add(&crowd->together, 1);
    }
    const uint64_t token = pawl_lock_token(lock);
    if (token <= atomic_exchange(&crowd->last_token, token)) {
        atomic_fetch_add(&crowd->disorder, 1);
    }
    crowd->number = crowd->number + 1;
    atomic_fetch_sub(&crowd->inside, 1);
}

static pawl_status work(void *arg)
{
    const struct worker *worker = arg;
    for (unsigned i = 0; i < worker->crowd->rounds; i++) {
        pawl_status status = pawl_lock_acquire(worker->lock, PAWL_FOREVER);
        if (status != PAWL_OK) {
            return status;
        }
        add_one(worker->crowd, worker->lock);
        status = pawl_lock_release(worker->lock);
        if (status != PAWL_OK) {
            return status;
        }
    }
    return PAWL_OK;
}

/* Let each worker have its thread, and check what the crowd did. */
static void run_crowd(struct crowd *crowd, struct worker workers[], size_t count)
{
    struct actor *actors[WORKERS_MAX];
    assert_true(count <= WORKERS_MAX);
    for (size_t i = 0; i < count; i++) {
        workers[i].crowd = crowd;
        actors[i] = actor_new();
    }
    const int64_t start_us = boottime_us();
    for (size_t i = 0; i < count; i++) {
        actor_call(actors[i], work, &workers[i]);
    }
    for (size_t i = 0; i < count; i++) {
        WAIT_UNTIL(actor_is_done(actors[i]), 4 * SOON_MS);
        EXPECT(PAWL_OK, actor_answer(actors[i]));
    }
    printf("%zu threads, %u rounds each: %lld ms\n", count, crowd->rounds,
        (long long)((boottime_us() - start_us) / 1000));
    assert_int_equal(crowd->number, crowd->rounds * count);
    assert_int_equal(crowd->together, 0);
    assert_int_equal(crowd->disorder, 0);
}

static void threads_add_up(const struct suite *suite)
{
    static struct crowd crowd;
    struct worker workers[WORKERS_MAX];
    pawl_lock *lock = open_thread_lock(open_client(suite), suite->name);
    crowd = (struct crowd){.rounds = ROUNDS};
    for (size_t i = 0; i < WORKERS_MAX; i++) {
        workers[i].lock = lock;
    }
    run_crowd(&crowd, workers, WORKERS_MAX);
    expect_free(suite, suite->name);
}

static void threads_with_handles_of_their_own_add_up(const struct suite *suite)
{
    static struct crowd crowd;
    struct worker workers[WORKERS_MAX];
    pawl_client *client = open_client(suite);
    crowd = (struct crowd){.rounds = ROUNDS};
    for (size_t i = 0; i < WORKERS_MAX; i++) {
        workers[i].lock = i % 2 == 0 ? open_thread_lock(client, suite->name)
                                     : open_handle_lock(client, suite->name);
    }
    run_crowd(&crowd, workers, WORKERS_MAX);
    expect_free(suite, suite->name);
}

static void clients_add_up(const struct suite *suite)
{
    static struct crowd crowd;
    struct worker workers[WORKERS_MAX];
    pawl_lock *lock = NULL;
    crowd = (struct crowd){.rounds = ROUNDS / 4};
    for (size_t i = 0; i < WORKERS_MAX; i++) {
        if (i % 2 == 0) {
            lock = open_thread_lock(open_client(suite), suite->name);
        }
        workers[i].lock = lock;
    }
    run_crowd(&crowd, workers, WORKERS_MAX);
    expect_free(suite, suite->name);
}

/* ===== Turns ===== */

static void threads_of_one_client_come_first_served(const struct suite *suite)
{
    pawl_lock *lock = open_thread_lock(open_client(suite), suite->name);
    struct actor *actors[5];
    EXPECT(PAWL_OK, pawl_lock_acquire(lock, PAWL_TRY));
    for (size_t i = 0; i < 5; i++) {
        actors[i] = actor_new();
        actor_acquire(actors[i], lock, PAWL_FOREVER);
        actor_await_sleep(actors[i]);
    }
    EXPECT(PAWL_OK, pawl_lock_release(lock));
    for (size_t i = 0; i < 5; i++) {
        EXPECT(PAWL_OK, actor_answer(actors[i]));
        for (size_t j = i + 1; j < 5; j++) {
            assert_false(actor_is_done(actors[j]));
        }
        EXPECT(PAWL_OK, actor_release_now(actors[i], lock));
    }
}

static void one_that_gives_up_holds_up_nobody(const struct suite *suite)
{
    pawl_lock *lock = open_thread_lock(open_client(suite), suite->name);
    struct actor *impatient = actor_new();
    struct actor *patient = actor_new();
    EXPECT(PAWL_OK, pawl_lock_acquire(lock, PAWL_TRY));
    actor_acquire(impatient, lock, LEASE_MS);
    actor_await_sleep(impatient);
    actor_acquire(patient, lock, PAWL_FOREVER);
    EXPECT(PAWL_BUSY, actor_answer(impatient));
    actor_await_sleep(patient);
    EXPECT(PAWL_OK, pawl_lock_release(lock));
    EXPECT(PAWL_OK, actor_answer(patient));
    EXPECT(PAWL_OK, actor_release_now(patient, lock));
}

static void a_try_does_not_queue(const struct suite *suite)
{
    pawl_lock *lock = open_thread_lock(open_client(suite), suite->name);
    struct actor *waiter = actor_new();
    struct actor *trier = actor_new();
    EXPECT(PAWL_OK, pawl_lock_acquire(lock, PAWL_TRY));
    actor_acquire(waiter, lock, PAWL_FOREVER);
    actor_await_sleep(waiter);
    EXPECT(PAWL_BUSY, actor_acquire_now(trier, lock, PAWL_TRY));
    assert_false(actor_is_done(waiter));
    EXPECT(PAWL_OK, pawl_lock_release(lock));
    EXPECT(PAWL_OK, actor_answer(waiter));
    EXPECT(PAWL_OK, actor_release_now(waiter, lock));
}

struct greed {
    pawl_lock *lock;
    _Atomic bool enough;
    _Atomic uint64_t rounds;
};

static pawl_status be_greedy(void *arg)
{
    struct greed *greed = arg;
    pawl_status status = PAWL_OK;
    while (status == PAWL_OK && !atomic_load(&greed->enough)) {
        status = pawl_lock_acquire(greed->lock, PAWL_FOREVER);
        if (status == PAWL_OK) {
            status = pawl_lock_release(greed->lock);
            atomic_fetch_add(&greed->rounds, 1);
        }
    }
    return status;
}

/* One client whose threads always queue again must not keep the lock to itself. */
static void a_greedy_client_starves_nobody(const struct suite *suite)
{
    static struct greed greed;
    greed.lock = open_thread_lock(open_client(suite), suite->name);
    atomic_store(&greed.enough, false);
    atomic_store(&greed.rounds, 0);
    pawl_lock *lock = open_thread_lock(open_client(suite), suite->name);
    struct actor *actors[4];
    for (size_t i = 0; i < 4; i++) {
        actors[i] = actor_new();
        actor_call(actors[i], be_greedy, &greed);
    }
    stop_at_end(&greed.enough);
    WAIT_UNTIL(atomic_load(&greed.rounds) > 20, SOON_MS);
    int64_t longest_us = 0;
    pawl_status status = PAWL_OK;
    for (int i = 0; i < 10 && status == PAWL_OK; i++) {
        const int64_t start_us = boottime_us();
        status = pawl_lock_acquire(lock, SOON_MS);
        const int64_t took_us = boottime_us() - start_us;
        longest_us = took_us > longest_us ? took_us : longest_us;
        status = status == PAWL_OK ? pawl_lock_release(lock) : status;
    }
    atomic_store(&greed.enough, true);
    for (size_t i = 0; i < 4; i++) {
        EXPECT(PAWL_OK, actor_answer(actors[i]));
    }
    EXPECT(PAWL_OK, status);
    suite_late("a turn beside a greedy client", longest_us);
}

/* ===== A thousand ===== */

static void a_thousand_locks_at_once(const struct suite *suite)
{
    pawl_client *client = open_client(suite);
    pawl_client *other = open_client(suite);
    static pawl_lock *locks[LOCKS];
    char name[100];
    for (int i = 0; i < LOCKS; i++) {
        snprintf(name, sizeof name, "%s-%d", suite->name, i);
        locks[i] = open_thread_lock(client, name);
        EXPECT(PAWL_OK, pawl_lock_acquire(locks[i], PAWL_TRY));
    }
    for (int i = 0; i < LOCKS; i += 97) {
        snprintf(name, sizeof name, "%s-%d", suite->name, i);
        pawl_lock *lock = open_thread_lock(other, name);
        EXPECT(PAWL_BUSY, pawl_lock_acquire(lock, PAWL_TRY));
        EXPECT(PAWL_OK, close_lock(lock));
    }
    for (int i = 0; i < LOCKS; i++) {
        assert_true(pawl_lock_remaining_ms(locks[i]) > 0);
        EXPECT(PAWL_OK, i % 2 == 0 ? pawl_lock_release(locks[i]) : PAWL_OK);
        EXPECT(PAWL_OK, close_lock(locks[i]));
    }
}

static const struct suite_case cases[] = {
    SUITE_CASE(FLAG_MUTEX, threads_add_up),
    SUITE_CASE(FLAG_MUTEX, threads_with_handles_of_their_own_add_up),
    SUITE_CASE(FLAG_MUTEX, clients_add_up),
    SUITE_CASE(FLAG_MUTEX, threads_of_one_client_come_first_served),
    SUITE_CASE(FLAG_MUTEX, one_that_gives_up_holds_up_nobody),
    SUITE_CASE(FLAG_MUTEX, a_try_does_not_queue),
    SUITE_CASE(FLAG_MUTEX, a_greedy_client_starves_nobody),
    SUITE_CASE(FLAG_MUTEX, a_thousand_locks_at_once),
};

SUITE_GROUP(suite_crowd, cases);
