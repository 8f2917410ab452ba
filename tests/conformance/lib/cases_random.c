/* SPDX-License-Identifier: Apache-2.0 */
/* Everything at once: threads that make random calls on locks of random options, while clients are
 * closed and opened again under them.
 *
 * Nothing is known about the outcome of a single call but what every call promises: an answer that
 * is no fault, in bounded time, and one callback for every asynchronous call. The sanitizers watch
 * the rest. Chance decides about the calls by a seed that is printed; about the order of threads
 * the machine decides. */
#include "conformance/lib/actor.h"
#include "conformance/lib/tools.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CLIENTS 3
#define NAMES 3
#define THREADS 6
#define DURATION_MS 1500
#define ATTEMPTS 4

/* A client, and the lock that keeps it from being replaced while somebody uses it. */
struct seat {
    pthread_rwlock_t guard;
    pawl_client *client;
};

struct bustle {
    struct seat seats[CLIENTS];
    char names[NAMES][64];
    _Atomic bool enough;
    _Atomic uint64_t calls;
    _Atomic uint64_t begun; /* asynchronous calls */
    _Atomic uint64_t done;
    _Atomic uint64_t faults;
    _Atomic uint64_t late; /* answers of the server; renewals of a short lease cannot wait long */
};

static struct bustle bustle;

struct dice {
    unsigned seed;
};

static unsigned roll(struct dice *dice, unsigned sides)
{
    return (unsigned)rand_r(&dice->seed) % sides;
}

static void done(pawl_lock *lock, pawl_status status, void *arg);

static void begun(pawl_status status)
{
    if (status == PAWL_OK) {
        atomic_fetch_add(&bustle.begun, 1);
    }
}

/* Every second one that got the lock gives it back at once. */
static void done(pawl_lock *lock, pawl_status status, void *arg)
{
    if (status == PAWL_OK && atomic_fetch_add(&bustle.done, 1) % 2 == 0) {
        begun(pawl_lock_release_async(lock, done, arg));
    } else if (status != PAWL_OK) {
        atomic_fetch_add(&bustle.done, 1);
    }
}

static void ignore_event(const pawl_event *event, void *arg)
{
    (void)event;
    (void)arg;
}

/* An answer is fine, and so is PAWL_MISUSE by a callback that came late; a fault is not. Two who
 * break the same lock at once may be told to try again. */
static void judge(const char *call, pawl_status status)
{
    atomic_fetch_add(&bustle.calls, 1);
    if (status >= PAWL_UNAVAILABLE) {
        const bool late = strstr(pawl_last_error(), "did not answer in time") != NULL;
        fprintf(stderr, "%s: %s: %s\n", call, pawl_status_string(status), pawl_last_error());
        atomic_fetch_add(late ? &bustle.late : &bustle.faults, 1);
    }
}

static pawl_lock_options random_options(struct dice *dice)
{
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    options.lease_ms = 10 + (int64_t)roll(dice, 200);
    options.renew = roll(dice, 2) == 0;
    options.owner = roll(dice, 2) == 0 ? PAWL_OWNER_HANDLE : PAWL_OWNER_THREAD;
    options.reentry = (pawl_reentry)roll(dice, 3);
    options.release_unawaited = roll(dice, 4) == 0;
    options.max_hold_ms = roll(dice, 4) == 0 ? 20 + (int64_t)roll(dice, 100) : 0;
    options.on_lost = ignore_event;
    options.on_risk = ignore_event;
    return options;
}

static void call_asynchronously(struct dice *dice, pawl_lock *lock)
{
    if (roll(dice, 2) == 0) {
        begun(pawl_lock_acquire_async(lock, roll(dice, 3) == 0 ? PAWL_FOREVER : 20, done, NULL));
    } else {
        begun(pawl_lock_release_async(lock, done, NULL));
    }
}

static void look(pawl_lock *lock)
{
    pawl_lock_info info = {.size = sizeof info};
    judge("inspect", pawl_lock_inspect(lock, &info));
    pawl_lock_token(lock);
    pawl_lock_remaining_ms(lock);
    pawl_lock_hold_count(lock);
}

static void call_something(struct dice *dice, pawl_lock *lock, const pawl_lock_options *options)
{
    switch (roll(dice, 10)) {
    case 0:
        judge("try", pawl_lock_acquire(lock, PAWL_TRY));
        break;
    case 1:
    case 2:
        judge("timed", pawl_lock_acquire(lock, 1 + (int64_t)roll(dice, 30)));
        break;
    case 3:
    case 4:
        judge("release", pawl_lock_release(lock));
        break;
    case 5:
        if (options->max_hold_ms == 0) {
            pawl_status status = pawl_lock_extend(lock, 10 + (int64_t)roll(dice, 50));
            judge("extend", status == PAWL_INVALID ? PAWL_OK : status); /* another handle's limit */
        }
        break;
    case 6:
        look(lock);
        break;
    case 7:
        pawl_lock_cancel(lock);
        break;
    case 8:
        if (options->owner == PAWL_OWNER_HANDLE) {
            call_asynchronously(dice, lock);
        }
        break;
    default:
        if (roll(dice, 4) == 0) {
            const pawl_status status = pawl_lock_break(lock);
            judge("break", status == PAWL_UNAVAILABLE ? PAWL_OK : status);
        }
        break;
    }
}

/* Open a lock, call it a few times, close it. */
static pawl_status be_busy(void *arg)
{
    struct dice *dice = arg;
    while (!atomic_load(&bustle.enough)) {
        struct seat *seat = &bustle.seats[roll(dice, CLIENTS)];
        const pawl_lock_options options = random_options(dice);
        pawl_lock *lock = NULL;
        pthread_rwlock_rdlock(&seat->guard);
        judge(
            "open", pawl_lock_open(seat->client, bustle.names[roll(dice, NAMES)], &options, &lock));
        for (unsigned left = 1 + roll(dice, 8); lock != NULL && left > 0; left--) {
            call_something(dice, lock, &options);
        }
        judge("close", pawl_lock_close(lock));
        pthread_rwlock_unlock(&seat->guard);
    }
    return PAWL_OK;
}

/* Put a new client in the place of one; it is closed with whatever is under way in it. */
static void replace_client(const struct suite *suite, struct seat *seat)
{
    pawl_client *fresh = NULL;
    EXPECT(PAWL_OK, pawl_client_open(suite->url, NULL, &fresh));
    pthread_rwlock_wrlock(&seat->guard);
    pawl_client *old = seat->client;
    seat->client = fresh;
    pthread_rwlock_unlock(&seat->guard);
    judge("close of a client", pawl_client_close(old));
}

static void bustle_about(const struct suite *suite)
{
    static struct dice dice[THREADS + 1];
    struct actor *actors[THREADS];
    memset(&bustle, 0, sizeof bustle);
    const unsigned seed = (unsigned)boottime_us();
    printf("seed %u\n", seed);
    for (size_t i = 0; i < CLIENTS; i++) {
        pthread_rwlock_init(&bustle.seats[i].guard, NULL);
        EXPECT(PAWL_OK, pawl_client_open(suite->url, NULL, &bustle.seats[i].client));
    }
    for (int i = 0; i < NAMES; i++) {
        snprintf(bustle.names[i], sizeof bustle.names[i], "%s-%d", suite->name, i);
    }
    for (size_t i = 0; i < THREADS; i++) {
        dice[i].seed = seed + (unsigned)i;
        actors[i] = actor_new();
        actor_call(actors[i], be_busy, &dice[i]);
    }
    stop_at_end(&bustle.enough);
    dice[THREADS].seed = seed + THREADS;
    const int64_t end_ms = boottime_ms() + DURATION_MS;
    while (boottime_ms() < end_ms) {
        nap_ms(50);
        replace_client(suite, &bustle.seats[roll(&dice[THREADS], CLIENTS)]);
    }
    atomic_store(&bustle.enough, true);
    for (size_t i = 0; i < THREADS; i++) {
        EXPECT(PAWL_OK, actor_answer(actors[i]));
    }
    for (size_t i = 0; i < CLIENTS; i++) {
        judge("close of a client", pawl_client_close(bustle.seats[i].client));
    }
    printf("%llu calls, %llu asynchronous ones\n", (unsigned long long)bustle.calls,
        (unsigned long long)bustle.begun);
    assert_int_equal(atomic_load(&bustle.faults), 0);
    assert_int_equal(atomic_load(&bustle.done), atomic_load(&bustle.begun));
}

static void random_calls_keep_the_contract(const struct suite *suite)
{
    bustle_about(suite);
    for (int i = 1; i < ATTEMPTS && atomic_load(&bustle.late) > 0; i++) {
        bustle_about(suite); /* the machine may have been busy */
    }
    assert_int_equal(atomic_load(&bustle.late), 0);
    for (int i = 0; i < NAMES; i++) {
        pawl_lock *lock = open_thread_lock(open_client(suite), bustle.names[i]);
        EXPECT(PAWL_OK, pawl_lock_acquire(lock, LATE_MS)); /* nothing is left behind */
    }
}

static const struct suite_case cases[] = {
    SUITE_CASE(FLAG_MUTEX, random_calls_keep_the_contract),
};

SUITE_GROUP(suite_random, cases);
