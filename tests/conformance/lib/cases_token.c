/* SPDX-License-Identifier: Apache-2.0 */
/* Fencing tokens: greater with every hold, whoever holds and however the last hold ended. */
#include "conformance/lib/actor.h"
#include "conformance/lib/tools.h"

#define HOLDS 100

/* Hold it once; the token must be greater than the last. */
static void hold_once(pawl_lock *lock, uint64_t *last_token)
{
    EXPECT(PAWL_OK, pawl_lock_acquire(lock, SOON_MS));
    const uint64_t token = pawl_lock_token(lock);
    assert_true(token > *last_token);
    *last_token = token;
    EXPECT(PAWL_OK, pawl_lock_release(lock));
    assert_int_equal(pawl_lock_token(lock), 0);
}

static void tokens_grow(const struct suite *suite)
{
    pawl_lock *lock = open_thread_lock(open_client(suite), suite->name);
    uint64_t token = 0;
    for (int i = 0; i < HOLDS; i++) {
        hold_once(lock, &token);
    }
}

static void tokens_grow_over_clients(const struct suite *suite)
{
    pawl_client *clients[4];
    pawl_lock *locks[4];
    uint64_t token = 0;
    for (size_t i = 0; i < 4; i++) {
        clients[i] = open_client(suite);
        locks[i] = i % 2 == 0 ? open_thread_lock(clients[i], suite->name)
                              : open_handle_lock(clients[i], suite->name);
    }
    for (size_t i = 0; i < HOLDS; i++) {
        hold_once(locks[i % 4], &token);
    }
}

/* Also when no client is left in between. */
static void tokens_grow_after_everybody_has_left(const struct suite *suite)
{
    pawl_client *anchor = open_client(suite); /* memory: lives as long as one client */
    uint64_t token = 0;
    for (int i = 0; i < 10; i++) {
        pawl_client *client = open_client(suite);
        pawl_lock *lock = open_thread_lock(client, suite->name);
        hold_once(lock, &token);
        EXPECT(PAWL_OK, close_lock(lock));
        EXPECT(PAWL_OK, close_client(client));
    }
    EXPECT(PAWL_OK, close_client(anchor));
}

static void tokens_grow_over_loss_and_break(const struct suite *suite)
{
    const pawl_lock_options options = fixed_options(LEASE_MS);
    pawl_lock *lock = open_lock(open_client(suite), suite->name, &options);
    pawl_lock *other = open_thread_lock(open_client(suite), suite->name);
    uint64_t token = 0;
    hold_once(other, &token);
    EXPECT(PAWL_OK, pawl_lock_acquire(lock, PAWL_TRY));
    const uint64_t lost = pawl_lock_token(lock);
    assert_true(lost > token);
    token = lost;
    await_loss(lock, LEASE_MS + LATE_MS);
    assert_int_equal(pawl_lock_token(lock), 0);
    EXPECT(PAWL_LOST, pawl_lock_release(lock));
    hold_once(other, &token);
    EXPECT(PAWL_OK, pawl_lock_acquire(lock, PAWL_TRY));
    const uint64_t broken = pawl_lock_token(lock);
    assert_true(broken > token);
    token = broken;
    EXPECT(PAWL_OK, pawl_lock_break(other));
    hold_once(other, &token);
    EXPECT(PAWL_LOST, pawl_lock_release(lock));
    hold_once(lock, &token);
}

static void tokens_grow_along_a_queue(const struct suite *suite)
{
    pawl_lock *lock = open_thread_lock(open_client(suite), suite->name);
    struct actor *actors[6];
    EXPECT(PAWL_OK, pawl_lock_acquire(lock, PAWL_TRY));
    uint64_t token = pawl_lock_token(lock);
    for (size_t i = 0; i < 6; i++) {
        actors[i] = actor_new();
        actor_acquire(actors[i], lock, PAWL_FOREVER);
        actor_await_sleep(actors[i]);
    }
    EXPECT(PAWL_OK, pawl_lock_release(lock));
    for (size_t i = 0; i < 6; i++) {
        EXPECT(PAWL_OK, actor_answer(actors[i]));
        const uint64_t next = actor_token(actors[i], lock);
        assert_true(next > token);
        token = next;
        EXPECT(PAWL_OK, actor_release_now(actors[i], lock));
    }
}

static void token_of_the_holder_alone(const struct suite *suite)
{
    pawl_client *client = open_client(suite);
    pawl_lock *lock = open_thread_lock(client, suite->name);
    pawl_lock *handle = open_handle_lock(client, suite->name);
    struct actor *actor = actor_new();
    assert_int_equal(pawl_lock_token(lock), 0);
    EXPECT(PAWL_OK, pawl_lock_acquire(lock, PAWL_TRY));
    assert_true(pawl_lock_token(lock) != 0);
    assert_int_equal(actor_token(actor, lock), 0);
    assert_int_equal(pawl_lock_token(handle), 0);
    EXPECT(PAWL_OK, pawl_lock_release(lock));
    assert_int_equal(pawl_lock_token(lock), 0);
}

static const struct suite_case cases[] = {
    SUITE_CASE(FLAG_TOKEN, tokens_grow),
    SUITE_CASE(FLAG_TOKEN, tokens_grow_over_clients),
    SUITE_CASE(FLAG_TOKEN, tokens_grow_after_everybody_has_left),
    SUITE_CASE(FLAG_TOKEN, tokens_grow_over_loss_and_break),
    SUITE_CASE(FLAG_TOKEN, tokens_grow_along_a_queue),
    SUITE_CASE(FLAG_TOKEN, token_of_the_holder_alone),
};

SUITE_GROUP(suite_token, cases);
