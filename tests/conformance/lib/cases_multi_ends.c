/* SPDX-License-Identifier: Apache-2.0 */
/* How a multi-lock ends: canceled, closed, lost, without its members, client or process, and all
 * that without a thread that waits. Whatever the way, nothing is left behind. */
#include "conformance/lib/actor.h"
#include "conformance/lib/peer.h"
#include "conformance/lib/tools.h"
#include "support/text.h"

#include <signal.h>
#include <string.h>

/* A multi-lock of b and a, and another client's handles on both. */
struct scene {
    const char *a;
    const char *b;
    pawl_client *client;
    pawl_lock *members[2]; /* b, a */
    pawl_lock *multi;
    pawl_client *other;
    pawl_lock *rival_a;
    pawl_lock *rival_b;
    bool whole; /* the engine gives both or none: nothing is held while one is waited for */
};

static struct scene set_scene(const struct suite *suite, const pawl_lock_options *options)
{
    struct scene scene = {.a = suite_name(suite, "a"), .b = suite_name(suite, "b")};
    scene.other = open_client(suite);
    scene.rival_a = open_thread_lock(scene.other, scene.a);
    scene.rival_b = open_thread_lock(scene.other, scene.b);
    scene.client = open_client(suite);
    scene.members[0] = open_lock(scene.client, scene.b, options);
    scene.members[1] = open_lock(scene.client, scene.a, options);
    scene.multi = open_multi(scene.members, 2);
    scene.whole = suite->engine->joins;
    return scene;
}

/* The same with a client for each member, which no engine can give together. */
static struct scene set_scene_apart(const struct suite *suite, const pawl_lock_options *options)
{
    struct scene scene = set_scene(suite, options);
    scene.members[0] = open_lock(open_client(suite), scene.b, options);
    scene.members[1] = open_lock(open_client(suite), scene.a, options);
    scene.multi = open_multi(scene.members, 2);
    scene.whole = false;
    return scene;
}

static void expect_both_free(const struct scene *scene)
{
    EXPECT(PAWL_OK, pawl_lock_acquire(scene->rival_a, SOON_MS));
    EXPECT(PAWL_OK, pawl_lock_acquire(scene->rival_b, SOON_MS));
    EXPECT(PAWL_OK, pawl_lock_release(scene->rival_a));
    EXPECT(PAWL_OK, pawl_lock_release(scene->rival_b));
}

/* An actor waits for b, and has a, or has the turn at it in its own client. */
static struct actor *wait_half_way(const struct scene *scene)
{
    struct actor *actor = actor_new();
    EXPECT(PAWL_OK, pawl_lock_acquire(scene->rival_b, PAWL_TRY));
    actor_acquire(actor, scene->multi, PAWL_FOREVER);
    actor_await_sleep(actor);
    EXPECT(
        PAWL_BUSY, pawl_lock_acquire(scene->whole ? scene->members[1] : scene->rival_a, PAWL_TRY));
    assert_int_equal(is_held(scene->rival_a), !scene->whole);
    return actor;
}

/* The same without an actor, once somebody has asked for it. */
static void await_half_way(const struct scene *scene)
{
    pawl_lock *own = scene->whole ? open_thread_lock(scene->client, scene->a) : scene->rival_a;
    WAIT_UNTIL(pawl_lock_acquire(own, PAWL_TRY) == PAWL_BUSY || pawl_lock_release(own) != PAWL_OK,
        SOON_MS);
    assert_int_equal(is_held(scene->rival_a), !scene->whole);
}

/* ===== Canceled and closed ===== */

static void multi_cancel_gives_back(const struct suite *suite)
{
    const struct scene scene = set_scene(suite, NULL);
    struct actor *actor = wait_half_way(&scene);
    pawl_lock_cancel(scene.multi);
    EXPECT(PAWL_CANCELED, actor_answer(actor));
    EXPECT(PAWL_OK, pawl_lock_acquire(scene.rival_a, PAWL_TRY));
    EXPECT(PAWL_OK, pawl_lock_release(scene.rival_a));
    EXPECT(PAWL_OK, pawl_lock_release(scene.rival_b));
    EXPECT(PAWL_OK, pawl_lock_acquire(scene.multi, PAWL_TRY)); /* a later wait goes on */
    EXPECT(PAWL_OK, pawl_lock_release(scene.multi));
    expect_both_free(&scene);
}

static void multi_cancel_ends_no_wait_of_a_member(const struct suite *suite)
{
    const struct scene scene = set_scene(suite, NULL);
    struct actor *spared = actor_new();
    struct actor *canceled = wait_half_way(&scene);
    actor_acquire(spared, scene.members[0], PAWL_FOREVER);
    actor_await_sleep(spared);
    pawl_lock_cancel(scene.multi);
    EXPECT(PAWL_CANCELED, actor_answer(canceled));
    actor_await_sleep(spared);
    EXPECT(PAWL_OK, pawl_lock_release(scene.rival_b));
    EXPECT(PAWL_OK, actor_answer(spared));
    EXPECT(PAWL_OK, actor_release_now(spared, scene.members[0]));
    expect_both_free(&scene);
}

static void multi_close_ends_a_wait(const struct suite *suite)
{
    const struct scene scene = set_scene(suite, NULL);
    struct actor *actor = wait_half_way(&scene);
    EXPECT(PAWL_OK, close_lock(scene.multi));
    EXPECT(PAWL_CANCELED, actor_answer(actor));
    EXPECT(PAWL_OK, pawl_lock_release(scene.rival_b));
    expect_both_free(&scene);
    EXPECT(PAWL_OK, pawl_lock_acquire(scene.members[0], PAWL_TRY)); /* still open */
    EXPECT(PAWL_OK, pawl_lock_release(scene.members[0]));
}

static void multi_close_releases(const struct suite *suite)
{
    const struct scene scene = set_scene(suite, NULL);
    struct actor *actor = actor_new();
    EXPECT(PAWL_OK, actor_acquire_now(actor, scene.multi, PAWL_TRY));
    EXPECT(PAWL_OK, actor_acquire_now(actor, scene.multi, PAWL_TRY));
    EXPECT(PAWL_OK, close_lock(scene.multi)); /* by another thread than the holder */
    expect_both_free(&scene);
}

static void multi_close_leaves_other_holds(const struct suite *suite)
{
    const struct scene scene = set_scene(suite, NULL);
    EXPECT(PAWL_OK, pawl_lock_acquire(scene.members[0], PAWL_TRY));
    EXPECT(PAWL_OK, pawl_lock_acquire(scene.multi, PAWL_TRY));
    EXPECT(PAWL_OK, close_lock(scene.multi));
    assert_int_equal(pawl_lock_hold_count(scene.members[0]), 1);
    EXPECT(PAWL_BUSY, pawl_lock_acquire(scene.rival_b, PAWL_TRY));
    EXPECT(PAWL_OK, pawl_lock_release(scene.members[0]));
    expect_both_free(&scene);
}

static void multi_outlives_its_members(const struct suite *suite)
{
    const struct scene scene = set_scene(suite, NULL);
    EXPECT(PAWL_OK, pawl_lock_acquire(scene.multi, PAWL_TRY));
    EXPECT(PAWL_OK, close_lock(scene.members[0]));
    EXPECT(PAWL_OK, close_lock(scene.members[1]));
    EXPECT(PAWL_BUSY, pawl_lock_acquire(scene.rival_a, PAWL_TRY));
    EXPECT(PAWL_BUSY, pawl_lock_acquire(scene.rival_b, PAWL_TRY));
    EXPECT(PAWL_OK, pawl_lock_release(scene.multi));
    EXPECT(PAWL_OK, pawl_lock_acquire(scene.multi, PAWL_TRY));
    EXPECT(PAWL_OK, close_lock(scene.multi));
    expect_both_free(&scene);
}

static void multi_outlives_its_client(const struct suite *suite)
{
    const struct scene scene = set_scene(suite, NULL);
    EXPECT(PAWL_OK, pawl_lock_acquire(scene.multi, PAWL_TRY));
    EXPECT(PAWL_OK, close_client(scene.client));
    expect_both_free(&scene);
    EXPECT(PAWL_MISUSE, pawl_lock_release(scene.multi));
    EXPECT(PAWL_MISUSE, pawl_lock_acquire(scene.multi, PAWL_TRY));
    assert_int_equal(pawl_lock_remaining_ms(scene.multi), 0);
    EXPECT(PAWL_OK, close_lock(scene.members[0]));
    EXPECT(PAWL_OK, close_lock(scene.multi));
}

/* One of two clients is gone: what the other one keeps is given back. */
static void multi_without_one_client(const struct suite *suite)
{
    const char *a = suite_name(suite, "a");
    const char *b = suite_name(suite, "b");
    pawl_client *gone = open_client(suite);
    pawl_lock *members[2] = {open_thread_lock(open_client(suite), a), open_thread_lock(gone, b)};
    pawl_lock *multi = open_multi(members, 2);
    EXPECT(PAWL_OK, pawl_lock_acquire(multi, PAWL_TRY));
    EXPECT(PAWL_OK, close_client(gone));
    EXPECT(PAWL_MISUSE, pawl_lock_release(multi));
    assert_int_equal(pawl_lock_member_status(multi, 0), PAWL_OK);
    assert_int_equal(pawl_lock_member_status(multi, 1), PAWL_MISUSE);
    expect_free(suite, a);
    EXPECT(PAWL_MISUSE, pawl_lock_acquire(multi, SOON_MS));
    expect_free(suite, a);
    expect_free(suite, b);
}

/* ===== Lost ===== */

static void multi_release_tells_a_loss(const struct suite *suite)
{
    struct recorder *recorder = recorder_new();
    pawl_lock_options options = renewed_options(RENEWED_MS);
    record_events(&options, recorder);
    const struct scene scene = set_scene(suite, &options);
    EXPECT(PAWL_OK, pawl_lock_acquire(scene.multi, PAWL_TRY));
    EXPECT(PAWL_OK, pawl_lock_break(scene.rival_a));
    WAIT_UNTIL(recorder_count_of(recorder, RECORD_LOST) == 1, SOON_MS);
    assert_ptr_equal(recorder_get(recorder, 0).lock, scene.members[1]);
    assert_int_equal(pawl_lock_remaining_ms(scene.multi), 0);
    EXPECT(PAWL_BUSY, pawl_lock_acquire(scene.rival_b, PAWL_TRY));
    EXPECT(PAWL_LOST, pawl_lock_release(scene.multi));
    assert_int_equal(pawl_lock_member_status(scene.multi, 0), PAWL_OK);
    assert_int_equal(pawl_lock_member_status(scene.multi, 1), PAWL_LOST);
    expect_both_free(&scene);
    EXPECT(PAWL_NOT_HELD, pawl_lock_release(scene.multi));
    EXPECT(PAWL_OK, pawl_lock_acquire(scene.multi, PAWL_TRY));
    EXPECT(PAWL_OK, pawl_lock_release(scene.multi));
}

static void multi_tells_closed_members_nothing(const struct suite *suite)
{
    struct recorder *recorder = recorder_new();
    pawl_lock_options options = fixed_options(LEASE_MS);
    record_events(&options, recorder);
    const struct scene scene = set_scene(suite, &options);
    EXPECT(PAWL_OK, pawl_lock_acquire(scene.multi, PAWL_TRY));
    EXPECT(PAWL_OK, close_lock(scene.members[0]));
    await_loss(scene.members[1], LEASE_MS + LATE_MS);
    WAIT_UNTIL(recorder_count_of(recorder, RECORD_LOST) == 1, SOON_MS);
    assert_ptr_equal(recorder_get(recorder, 0).lock, scene.members[1]);
    EXPECT(PAWL_LOST, pawl_lock_release(scene.multi));
    assert_int_equal(recorder_count_of(recorder, RECORD_LOST), 1);
}

/* The lease of what it has already ends while it waits for the rest: it waits no longer, and no
 * callback tells of the loss of what nobody has had. */
static void multi_lost_while_waiting(const struct suite *suite)
{
    struct recorder *recorder = recorder_new();
    pawl_lock_options options = fixed_options(LEASE_MS);
    record_events(&options, recorder);
    const struct scene scene = set_scene_apart(suite, &options);
    struct actor *actor = wait_half_way(&scene);
    EXPECT(PAWL_LOST, actor_answer(actor));
    EXPECT(PAWL_NOT_HELD, actor_release_now(actor, scene.multi));
    EXPECT(PAWL_OK, pawl_lock_release(scene.rival_b));
    expect_both_free(&scene);
    assert_int_equal(recorder_count_of(recorder, RECORD_LOST), 0);
    EXPECT(PAWL_OK, actor_acquire_now(actor, scene.multi, SOON_MS)); /* no lost hold is left */
    EXPECT(PAWL_OK, actor_release_now(actor, scene.multi));
}

/* ===== Processes that die ===== */

static struct child *start_peer(const struct suite *suite)
{
    const struct peer_options options = {.lease_ms = RENEWED_MS, .renew = true};
    struct text names = {0};
    text_addf(&names, "%s,%s", suite_name(suite, "b"), suite_name(suite, "a"));
    struct child *peer = peer_start(suite, names.data, &options);
    text_free(&names);
    return peer;
}

static void multi_of_a_process_that_dies(const struct suite *suite)
{
    const struct scene scene = set_scene(suite, NULL);
    struct child *peer = start_peer(suite);
    peer_ask(peer, "acquire 0", "ok");
    EXPECT(PAWL_BUSY, pawl_lock_acquire(scene.multi, PAWL_TRY));
    child_signal(peer, SIGKILL);
    const int64_t start_us = boottime_us();
    EXPECT(PAWL_OK, pawl_lock_acquire(scene.multi, SOON_MS));
    assert_true(boottime_us() - start_us < (RENEWED_MS + LATE_MS) * 1000);
    EXPECT(PAWL_OK, pawl_lock_release(scene.multi));
}

/* Killed with one half in its hands, while it waits for the other. */
static void multi_of_a_process_that_dies_half_way(const struct suite *suite)
{
    const struct scene scene = set_scene(suite, NULL);
    struct child *peer = start_peer(suite);
    EXPECT(PAWL_OK, pawl_lock_acquire(scene.rival_b, PAWL_TRY));
    peer_tell(peer, "acquire -1");
    WAIT_UNTIL(is_held(scene.rival_a) == !scene.whole, SOON_MS);
    child_signal(peer, SIGKILL);
    const int64_t start_us = boottime_us();
    EXPECT(PAWL_OK, pawl_lock_acquire(scene.rival_a, SOON_MS));
    assert_true(boottime_us() - start_us < (RENEWED_MS + LATE_MS) * 1000);
    EXPECT(PAWL_OK, pawl_lock_release(scene.rival_a));
    EXPECT(PAWL_OK, pawl_lock_release(scene.rival_b));
    expect_both_free(&scene);
}

/* Without the flag: nobody else's death matters here. */
static void multi_beside_a_process_that_dies(const struct suite *suite)
{
    const struct scene scene = set_scene(suite, NULL);
    struct child *peer = start_peer(suite);
    peer_ask(peer, "acquire 0", "ok");
    EXPECT(PAWL_OK, pawl_lock_acquire(scene.multi, PAWL_TRY));
    child_signal(peer, SIGKILL);
    EXPECT(PAWL_OK, pawl_lock_release(scene.multi));
}

/* A thread that ends with it has lost it. */
static void multi_of_a_thread_that_ends(const struct suite *suite)
{
    const pawl_lock_options options = renewed_options(RENEWED_MS);
    const struct scene scene = set_scene(suite, &options);
    struct actor *actor = actor_new();
    EXPECT(PAWL_OK, actor_acquire_now(actor, scene.multi, PAWL_TRY));
    actor_end(actor);
    expect_both_free(&scene);
}

/* ===== Without waiting ===== */

static void multi_async(const struct suite *suite)
{
    const pawl_lock_options options = handle_options();
    const struct scene scene = set_scene(suite, &options);
    struct recorder *recorder = recorder_new();
    EXPECT(PAWL_OK, pawl_lock_acquire_async(scene.multi, PAWL_TRY, record_done, recorder));
    recorder_await(recorder, 1);
    EXPECT(PAWL_OK, recorder_get(recorder, 0).status);
    assert_ptr_equal(recorder_get(recorder, 0).lock, scene.multi);
    assert_int_equal(pawl_lock_hold_count(scene.multi), 1);
    assert_true(pawl_lock_token(scene.members[0]) > 0);
    EXPECT(PAWL_BUSY, pawl_lock_acquire(scene.rival_a, PAWL_TRY));
    EXPECT(PAWL_BUSY, pawl_lock_acquire(scene.rival_b, PAWL_TRY));
    EXPECT(PAWL_OK, pawl_lock_release_async(scene.multi, record_done, recorder));
    recorder_await(recorder, 2);
    EXPECT(PAWL_OK, recorder_get(recorder, 1).status);
    EXPECT(PAWL_NOT_HELD, pawl_lock_release_async(scene.multi, record_done, recorder));
    expect_both_free(&scene);
}

static void multi_async_busy(const struct suite *suite)
{
    const pawl_lock_options options = handle_options();
    const struct scene scene = set_scene(suite, &options);
    struct recorder *recorder = recorder_new();
    EXPECT(PAWL_OK, pawl_lock_acquire(scene.rival_b, PAWL_TRY));
    EXPECT(PAWL_OK, pawl_lock_acquire_async(scene.multi, 50, record_done, recorder));
    recorder_await(recorder, 1);
    EXPECT(PAWL_BUSY, recorder_get(recorder, 0).status);
    assert_non_null(strstr(recorder_get(recorder, 0).error, "member 1 of 2"));
    EXPECT(PAWL_OK, pawl_lock_acquire(scene.rival_a, PAWL_TRY));
    EXPECT(PAWL_OK, pawl_lock_release(scene.rival_a));
    EXPECT(PAWL_OK, pawl_lock_acquire_async(scene.multi, PAWL_FOREVER, record_done, recorder));
    await_half_way(&scene);
    EXPECT(PAWL_OK, pawl_lock_release(scene.rival_b));
    recorder_await(recorder, 2);
    EXPECT(PAWL_OK, recorder_get(recorder, 1).status);
    EXPECT(PAWL_OK, pawl_lock_release(scene.multi));
    expect_both_free(&scene);
}

static void multi_async_cancel(const struct suite *suite)
{
    const pawl_lock_options options = handle_options();
    const struct scene scene = set_scene(suite, &options);
    struct recorder *recorder = recorder_new();
    EXPECT(PAWL_OK, pawl_lock_acquire(scene.rival_b, PAWL_TRY));
    EXPECT(PAWL_OK, pawl_lock_acquire_async(scene.multi, PAWL_FOREVER, record_done, recorder));
    await_half_way(&scene);
    pawl_lock_cancel(scene.multi);
    recorder_await(recorder, 1);
    EXPECT(PAWL_CANCELED, recorder_get(recorder, 0).status);
    EXPECT(PAWL_OK, pawl_lock_release(scene.rival_b));
    expect_both_free(&scene); /* soon: an answer that was under way is taken back meanwhile */
}

static void multi_async_close(const struct suite *suite)
{
    const pawl_lock_options options = handle_options();
    const struct scene scene = set_scene(suite, &options);
    struct recorder *recorder = recorder_new();
    EXPECT(PAWL_OK, pawl_lock_acquire(scene.rival_b, PAWL_TRY));
    EXPECT(PAWL_OK, pawl_lock_acquire_async(scene.multi, PAWL_FOREVER, record_done, recorder));
    await_half_way(&scene);
    EXPECT(PAWL_OK, close_lock(scene.multi));
    recorder_await(recorder, 1);
    EXPECT(PAWL_CANCELED, recorder_get(recorder, 0).status);
    EXPECT(PAWL_OK, pawl_lock_release(scene.rival_b));
    expect_both_free(&scene);
}

/* At any moment of an acquire: it is canceled, or was done; and nothing stays behind. */
static void multi_cancel_at_any_moment(const struct suite *suite)
{
    const pawl_lock_options options = handle_options();
    const struct scene scene = set_scene(suite, &options);
    struct recorder *recorder = recorder_new();
    EXPECT(PAWL_OK, pawl_lock_acquire(scene.rival_b, PAWL_TRY));
    for (size_t i = 0; i < 100; i++) {
        EXPECT(PAWL_OK, pawl_lock_acquire_async(scene.multi, PAWL_FOREVER, record_done, recorder));
        const int64_t until_us = boottime_us() + (int64_t)i * 5;
        while (boottime_us() < until_us) {
        }
        pawl_lock_cancel(scene.multi);
        recorder_await(recorder, i + 1);
        EXPECT(PAWL_CANCELED, recorder_get(recorder, i).status);
    }
    EXPECT(PAWL_OK, pawl_lock_release(scene.rival_b));
    expect_both_free(&scene);
}

static void multi_dispatch(const struct suite *suite)
{
    pawl_client_options client_options = PAWL_CLIENT_OPTIONS_INIT;
    client_options.dispatch = true;
    const pawl_lock_options options = handle_options();
    pawl_client *client = open_client_with(suite, &client_options);
    pawl_lock *members[2] = {open_lock(client, suite_name(suite, "a"), &options),
        open_lock(client, suite_name(suite, "b"), &options)};
    pawl_lock *multi = open_multi(members, 2);
    struct recorder *recorder = recorder_new();
    EXPECT(PAWL_OK, pawl_lock_acquire_async(multi, SOON_MS, record_done, recorder));
    WAIT_UNTIL(pawl_client_dispatch(client) == PAWL_OK && recorder_count(recorder) == 1, SOON_MS);
    EXPECT(PAWL_OK, recorder_get(recorder, 0).status);
    assert_true(pthread_equal(recorder_get(recorder, 0).thread, pthread_self()));
    EXPECT(PAWL_OK, close_lock(multi));
    expect_free(suite, suite_name(suite, "a"));
    expect_free(suite, suite_name(suite, "b"));
}

static const struct suite_case cases[] = {
    SUITE_CASE(FLAG_MULTI, multi_cancel_gives_back),
    SUITE_CASE(FLAG_MULTI, multi_cancel_ends_no_wait_of_a_member),
    SUITE_CASE(FLAG_MULTI, multi_close_ends_a_wait),
    SUITE_CASE(FLAG_MULTI, multi_close_releases),
    SUITE_CASE(FLAG_MULTI, multi_close_leaves_other_holds),
    SUITE_CASE(FLAG_MULTI, multi_outlives_its_members),
    SUITE_CASE(FLAG_MULTI, multi_outlives_its_client),
    SUITE_CASE(FLAG_MULTI, multi_without_one_client),
    SUITE_CASE(FLAG_MULTI, multi_release_tells_a_loss),
    SUITE_CASE(FLAG_MULTI, multi_tells_closed_members_nothing),
    SUITE_CASE(FLAG_MULTI, multi_lost_while_waiting),
    SUITE_EITHER(FLAG_PROCESSES, multi_of_a_process_that_dies, multi_beside_a_process_that_dies),
    SUITE_EITHER(
        FLAG_PROCESSES, multi_of_a_process_that_dies_half_way, multi_beside_a_process_that_dies),
    SUITE_CASE(FLAG_MULTI, multi_of_a_thread_that_ends),
    SUITE_CASE(FLAG_MULTI, multi_async),
    SUITE_CASE(FLAG_MULTI, multi_async_busy),
    SUITE_CASE(FLAG_MULTI, multi_async_cancel),
    SUITE_CASE(FLAG_MULTI, multi_async_close),
    SUITE_CASE(FLAG_MULTI, multi_cancel_at_any_moment),
    SUITE_CASE(FLAG_MULTI, multi_dispatch),
};

SUITE_GROUP(suite_multi_ends, cases);
