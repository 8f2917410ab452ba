/* SPDX-License-Identifier: Apache-2.0 */
/* Hand-off: callers of one process pass the lock on among themselves. They keep their order, tokens
 * grow, nobody else is let in meanwhile, and others get their turn. */
#include "conformance/lib/actor.h"
#include "conformance/lib/tools.h"

#include <stdatomic.h>
#include <string.h>

#define LINE 8
#define CALLERS 64
#define HANDOFF 32
#define HAMMER_MS INT64_C(1500)

static pawl_lock *open_handing(pawl_client *client, const char *name)
{
    pawl_lock_options options = thread_options();
    options.handoff = HANDOFF;
    return open_lock(client, name, &options);
}

static void refused(const struct suite *suite)
{
    pawl_lock_options options = thread_options();
    options.handoff = HANDOFF;
    expect_refused(suite, &options);
}

static void handoff_keeps_the_order(const struct suite *suite)
{
    pawl_lock *lock = open_handing(open_client(suite), suite->name);
    struct actor *actors[LINE];
    uint64_t token = 0;
    EXPECT(PAWL_OK, pawl_lock_acquire(lock, PAWL_TRY));
    for (size_t i = 0; i < LINE; i++) {
        actors[i] = actor_new();
        actor_acquire(actors[i], lock, PAWL_FOREVER);
        actor_await_sleep(actors[i]);
    }
    token = pawl_lock_token(lock);
    EXPECT(PAWL_OK, pawl_lock_release(lock));
    for (size_t i = 0; i < LINE; i++) {
        EXPECT(PAWL_OK, actor_answer(actors[i]));
        assert_true(i + 1 == LINE || !actor_is_done(actors[i + 1]));
        assert_true(actor_token(actors[i], lock) > token);
        token = actor_token(actors[i], lock);
        expect_busy(suite, suite->name);
        EXPECT(PAWL_OK, actor_release_now(actors[i], lock));
        EXPECT(PAWL_NOT_HELD, actor_release_now(actors[i], lock));
    }
    EXPECT(PAWL_OK, pawl_lock_acquire(lock, PAWL_TRY));
    assert_true(pawl_lock_token(lock) > token);
    EXPECT(PAWL_OK, pawl_lock_release(lock));
}

/* ===== Many callers ===== */

struct hammer {
    _Atomic bool enough;
    _Atomic unsigned rounds;
    unsigned number; /* without any care */
    uint64_t token;
};

struct caller {
    struct hammer *hammer;
    pawl_lock *lock;
    unsigned rounds;
};

static pawl_status strike(void *arg)
{
    struct caller *caller = arg;
    struct hammer *hammer = caller->hammer;
    while (!atomic_load(&hammer->enough)) {
        pawl_status status = pawl_lock_acquire(caller->lock, LONG_MS);
        if (status != PAWL_OK) {
            return status;
        }
        const uint64_t token = pawl_lock_token(caller->lock);
        status = token > hammer->token ? PAWL_OK : PAWL_PROTOCOL;
        hammer->token = token;
        hammer->number++;
        caller->rounds++;
        atomic_fetch_add(&hammer->rounds, 1);
        const pawl_status released = pawl_lock_release(caller->lock);
        if (status != PAWL_OK || released != PAWL_OK) {
            return status != PAWL_OK ? status : released;
        }
    }
    return PAWL_OK;
}

/* Many threads of one client, and one of another, which gets it now and then. */
static void handoff_excludes_and_leaves_others_their_share(const struct suite *suite)
{
    static struct hammer hammer;
    static struct caller callers[CALLERS + 1];
    struct actor *actors[CALLERS + 1];
    pawl_lock *lock = open_handing(open_client(suite), suite->name);
    pawl_lock *other = open_handing(open_client(suite), suite->name);
    memset(&hammer, 0, sizeof hammer);
    for (size_t i = 0; i <= CALLERS; i++) {
        callers[i] = (struct caller){&hammer, i < CALLERS ? lock : other, 0};
        actors[i] = actor_new();
    }
    stop_at_end(&hammer.enough);
    for (size_t i = 0; i <= CALLERS; i++) {
        actor_call(actors[i], strike, &callers[i]);
    }
    const int64_t end_ms = boottime_ms() + HAMMER_MS;
    WAIT_UNTIL(boottime_ms() >= end_ms && atomic_load(&hammer.rounds) > 4 * CALLERS, SOON_MS);
    atomic_store(&hammer.enough, true);
    unsigned rounds = 0;
    for (size_t i = 0; i <= CALLERS; i++) {
        EXPECT(PAWL_OK, actor_answer(actors[i]));
        rounds += callers[i].rounds;
        assert_true(callers[i].rounds > 0);
    }
    assert_int_equal(hammer.number, rounds);
    print_message("%u rounds, %u of them another client's\n", rounds, callers[CALLERS].rounds);
    assert_true(callers[CALLERS].rounds >= 5);
}

/* ===== Ends ===== */

/* The hold is broken after it was handed on: who has it now is told, by its own callback. */
static void a_loss_after_a_handoff_is_the_heirs(const struct suite *suite)
{
    struct recorder *recorders[3] = {recorder_new(), recorder_new(), recorder_new()};
    pawl_client *client = open_client(suite);
    pawl_lock *breaker = open_thread_lock(open_client(suite), suite->name);
    pawl_lock *locks[3];
    struct actor *actors[3];
    for (int i = 0; i < 3; i++) {
        pawl_lock_options options = renewed_options(LEASE_MS);
        options.handoff = HANDOFF;
        record_events(&options, recorders[i]);
        locks[i] = open_lock(client, suite->name, &options);
        actors[i] = actor_new();
        actor_acquire(actors[i], locks[i], PAWL_FOREVER);
        if (i > 0) {
            actor_await_sleep(actors[i]);
        } else {
            EXPECT(PAWL_OK, actor_answer(actors[0]));
        }
    }
    for (int i = 0; i < 2; i++) {
        EXPECT(PAWL_OK, actor_release_now(actors[i], locks[i]));
        EXPECT(PAWL_OK, actor_answer(actors[i + 1]));
    }
    const uint64_t token = actor_token(actors[2], locks[2]);
    EXPECT(PAWL_OK, pawl_lock_break(breaker));
    recorder_await(recorders[2], 1);
    assert_int_equal(recorder_get(recorders[2], 0).kind, RECORD_LOST);
    assert_int_equal(recorder_get(recorders[2], 0).token, token);
    EXPECT(PAWL_LOST, actor_release_now(actors[2], locks[2]));
    EXPECT(PAWL_OK, close_client(client));
    assert_int_equal(recorder_count(recorders[0]), 0);
    assert_int_equal(recorder_count(recorders[1]), 0);
}

static void fixed_leases_are_not_handed_on(const struct suite *suite)
{
    pawl_lock_options options = fixed_options(LONG_MS);
    options.handoff = HANDOFF;
    pawl_lock *lock = open_lock(open_client(suite), suite->name, &options);
    struct actor *actors[3];
    for (int i = 0; i < 3; i++) {
        actors[i] = actor_new();
        actor_acquire(actors[i], lock, PAWL_FOREVER);
        if (i > 0) {
            actor_await_sleep(actors[i]);
        } else {
            EXPECT(PAWL_OK, actor_answer(actors[0]));
        }
    }
    char owners[3][PAWL_OWNER_SIZE];
    pawl_lock_info info = {.size = sizeof info};
    for (int i = 0; i < 3; i++) {
        EXPECT(PAWL_OK, actor_answer(actors[i]));
        EXPECT(PAWL_OK, pawl_lock_inspect(lock, &info));
        memcpy(owners[i], info.holder, sizeof owners[i]);
        EXPECT(PAWL_OK, actor_release_now(actors[i], lock));
    }
    assert_string_not_equal(owners[0], owners[1]);
    assert_string_not_equal(owners[1], owners[2]); /* a hold of its own for each */
}

static void closing_ends_what_was_handed_on(const struct suite *suite)
{
    pawl_client *client = open_client(suite);
    pawl_lock *lock = open_handing(client, suite->name);
    struct actor *actors[LINE];
    EXPECT(PAWL_OK, pawl_lock_acquire(lock, PAWL_TRY));
    for (size_t i = 0; i < LINE; i++) {
        actors[i] = actor_new();
        actor_acquire(actors[i], lock, PAWL_FOREVER);
        actor_await_sleep(actors[i]);
    }
    EXPECT(PAWL_OK, pawl_lock_release(lock));
    for (size_t i = 0; i < 2; i++) {
        EXPECT(PAWL_OK, actor_answer(actors[i]));
        EXPECT(PAWL_OK, actor_release_now(actors[i], lock));
    }
    EXPECT(PAWL_OK, actor_answer(actors[2]));
    EXPECT(PAWL_OK, close_client(client));
    for (size_t i = 3; i < LINE; i++) {
        EXPECT(PAWL_CANCELED, actor_answer(actors[i]));
    }
    expect_free(suite, suite->name);
}

static const struct suite_case cases[] = {
    SUITE_EITHER(FLAG_HANDOFF, handoff_keeps_the_order, refused),
    SUITE_EITHER(FLAG_HANDOFF, handoff_excludes_and_leaves_others_their_share, refused),
    SUITE_EITHER(FLAG_HANDOFF, a_loss_after_a_handoff_is_the_heirs, refused),
    SUITE_EITHER(FLAG_HANDOFF, fixed_leases_are_not_handed_on, refused),
    SUITE_EITHER(FLAG_HANDOFF, closing_ends_what_was_handed_on, refused),
};

SUITE_GROUP(suite_handoff, cases);
