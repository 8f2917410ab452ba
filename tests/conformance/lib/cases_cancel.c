/* SPDX-License-Identifier: Apache-2.0 */
/* Canceling waits of threads. Asynchronous ones are in cases_async.c. */
#include "conformance/lib/actor.h"
#include "conformance/lib/tools.h"

/* A holder, and a lock of another client that threads wait for. */
struct scene {
    pawl_lock *holder;
    pawl_client *client;
    pawl_lock *rival;
    struct actor *actor;
};

static struct scene set_scene(const struct suite *suite)
{
    struct scene scene = {0};
    scene.holder = open_thread_lock(open_client(suite), suite->name);
    scene.client = open_client(suite);
    scene.rival = open_thread_lock(scene.client, suite->name);
    EXPECT(PAWL_OK, pawl_lock_acquire(scene.holder, PAWL_TRY));
    return scene;
}

/* Whoever was canceled must have left nothing behind that keeps others out. */
static void check_no_trace(const struct suite *suite, const struct scene *scene)
{
    EXPECT(PAWL_OK, pawl_lock_release(scene->holder));
    assert_false(is_held(scene->holder));
    expect_free(suite, suite->name);
    EXPECT(PAWL_OK, pawl_lock_acquire(scene->rival, PAWL_TRY));
    EXPECT(PAWL_OK, pawl_lock_release(scene->rival));
}

static int64_t cancel_once(void *arg)
{
    const struct scene *scene = arg;
    actor_acquire(scene->actor, scene->rival, PAWL_FOREVER);
    actor_await_sleep(scene->actor);
    const int64_t canceled_us = boottime_us();
    pawl_lock_cancel(scene->rival);
    EXPECT(PAWL_CANCELED, actor_answer(scene->actor));
    return actor_ended_us(scene->actor) - canceled_us;
}

static void cancel_ends_a_wait(const struct suite *suite)
{
    struct scene scene = set_scene(suite);
    scene.actor = actor_new();
    expect_quick("cancel", cancel_once, &scene);
    check_no_trace(suite, &scene);
}

static void cancel_ends_every_wait_of_the_handle(const struct suite *suite)
{
    const struct scene scene = set_scene(suite);
    struct actor *actors[4];
    for (size_t i = 0; i < 4; i++) {
        actors[i] = actor_new();
        actor_acquire(actors[i], scene.rival, i % 2 == 0 ? PAWL_FOREVER : LONG_MS);
        actor_await_sleep(actors[i]);
    }
    pawl_lock_cancel(scene.rival);
    for (size_t i = 0; i < 4; i++) {
        EXPECT(PAWL_CANCELED, actor_answer(actors[i]));
    }
    check_no_trace(suite, &scene);
}

static void cancel_ends_no_wait_of_other_handles(const struct suite *suite)
{
    const struct scene scene = set_scene(suite);
    pawl_lock *second = open_thread_lock(scene.client, suite->name);
    struct actor *canceled = actor_new();
    struct actor *spared = actor_new();
    actor_acquire(canceled, scene.rival, PAWL_FOREVER);
    actor_await_sleep(canceled);
    actor_acquire(spared, second, PAWL_FOREVER);
    actor_await_sleep(spared);
    pawl_lock_cancel(scene.rival);
    EXPECT(PAWL_CANCELED, actor_answer(canceled));
    actor_await_sleep(spared);
    EXPECT(PAWL_OK, pawl_lock_release(scene.holder));
    EXPECT(PAWL_OK, actor_answer(spared));
    EXPECT(PAWL_OK, actor_release_now(spared, second));
}

static void cancel_in_the_middle_of_the_queue(const struct suite *suite)
{
    const struct scene scene = set_scene(suite);
    pawl_lock *second = open_thread_lock(scene.client, suite->name);
    struct actor *first = actor_new();
    struct actor *middle = actor_new();
    struct actor *last = actor_new();
    actor_acquire(first, scene.rival, PAWL_FOREVER);
    actor_await_sleep(first);
    actor_acquire(middle, second, PAWL_FOREVER);
    actor_await_sleep(middle);
    actor_acquire(last, scene.rival, PAWL_FOREVER);
    actor_await_sleep(last);
    pawl_lock_cancel(second);
    EXPECT(PAWL_CANCELED, actor_answer(middle));
    EXPECT(PAWL_OK, pawl_lock_release(scene.holder));
    EXPECT(PAWL_OK, actor_answer(first));
    EXPECT(PAWL_OK, actor_release_now(first, scene.rival));
    EXPECT(PAWL_OK, actor_answer(last));
    EXPECT(PAWL_OK, actor_release_now(last, scene.rival));
    expect_free(suite, suite->name);
}

static void cancel_ends_no_later_wait(const struct suite *suite)
{
    const struct scene scene = set_scene(suite);
    pawl_lock_cancel(scene.rival);
    EXPECT(PAWL_BUSY, pawl_lock_acquire(scene.rival, 20));
    struct actor *actor = actor_new();
    actor_acquire(actor, scene.rival, PAWL_FOREVER);
    actor_await_sleep(actor);
    pawl_lock_cancel(scene.rival);
    EXPECT(PAWL_CANCELED, actor_answer(actor));
    actor_acquire(actor, scene.rival, PAWL_FOREVER);
    actor_await_sleep(actor);
    EXPECT(PAWL_OK, pawl_lock_release(scene.holder));
    EXPECT(PAWL_OK, actor_answer(actor));
    EXPECT(PAWL_OK, actor_release_now(actor, scene.rival));
}

static void cancel_ends_no_hold(const struct suite *suite)
{
    pawl_lock *lock = open_thread_lock(open_client(suite), suite->name);
    EXPECT(PAWL_OK, pawl_lock_acquire(lock, PAWL_TRY));
    const uint64_t token = pawl_lock_token(lock);
    pawl_lock_cancel(lock);
    assert_int_equal(pawl_lock_token(lock), token);
    expect_busy(suite, suite->name);
    EXPECT(PAWL_OK, pawl_lock_release(lock));
}

/* A cancel that comes together with the grant: the answer is one of the two, and whatever it is, it
 * is true. */
static void cancel_races_with_the_grant(const struct suite *suite)
{
    const struct scene scene = set_scene(suite);
    pawl_lock *handle = open_handle_lock(scene.client, suite->name);
    struct actor *actor = actor_new();
    unsigned granted = 0;
    for (int i = 0; i < 50; i++) {
        actor_acquire(actor, handle, PAWL_FOREVER);
        if (i % 2 == 0) {
            actor_await_sleep(actor);
        }
        EXPECT(PAWL_OK, pawl_lock_release(scene.holder));
        pawl_lock_cancel(handle);
        WAIT_UNTIL((pawl_lock_cancel(handle), actor_is_done(actor)), SOON_MS);
        const pawl_status status = actor_answer(actor);
        assert_true(status == PAWL_OK || status == PAWL_CANCELED);
        assert_int_equal(pawl_lock_hold_count(handle), status == PAWL_OK ? 1 : 0);
        EXPECT(status == PAWL_OK ? PAWL_OK : PAWL_NOT_HELD, pawl_lock_release(handle));
        granted += status == PAWL_OK ? 1 : 0;
        EXPECT(PAWL_OK, pawl_lock_acquire(scene.holder, SOON_MS));
    }
    print_message("%u of 50 were granted\n", granted);
    check_no_trace(suite, &scene);
}

static const struct suite_case cases[] = {
    SUITE_CASE(FLAG_WAIT, cancel_ends_a_wait),
    SUITE_CASE(FLAG_WAIT, cancel_ends_every_wait_of_the_handle),
    SUITE_CASE(FLAG_WAIT, cancel_ends_no_wait_of_other_handles),
    SUITE_CASE(FLAG_WAIT, cancel_in_the_middle_of_the_queue),
    SUITE_CASE(FLAG_WAIT, cancel_ends_no_later_wait),
    SUITE_CASE(FLAG_WAIT, cancel_ends_no_hold),
    SUITE_CASE(FLAG_WAIT, cancel_races_with_the_grant),
};

SUITE_GROUP(suite_cancel, cases);
