/* SPDX-License-Identifier: Apache-2.0 */
/* Multi-locks: all or none, one order for everybody, and what the members are told. How they end is
 * in cases_multi_ends.c. */
#include "conformance/lib/actor.h"
#include "conformance/lib/peer.h"
#include "conformance/lib/tools.h"
#include "support/resources.h"
#include "support/text.h"

#include <string.h>

#define MEMBERS 3
#define ROUNDS 60

/* A multi-lock of a, b and c in one client, and another client's handles on the same names. */
struct scene {
    const char *names[MEMBERS];
    pawl_client *client;
    pawl_lock *members[MEMBERS]; /* given in the order c, a, b */
    pawl_lock *multi;
    pawl_lock *rivals[MEMBERS]; /* of names[i] */
};

static const size_t given[MEMBERS] = {2, 0, 1}; /* members[i] is names[given[i]] */

static struct scene set_scene_with(const struct suite *suite, const pawl_lock_options *options)
{
    static const char *const endings[MEMBERS] = {"a", "b", "c"};
    struct scene scene = {.client = open_client(suite)};
    pawl_client *other = open_client(suite);
    for (size_t i = 0; i < MEMBERS; i++) {
        scene.names[i] = suite_name(suite, endings[i]);
        scene.rivals[i] = open_thread_lock(other, scene.names[i]);
    }
    for (size_t i = 0; i < MEMBERS; i++) {
        scene.members[i] = open_lock(scene.client, scene.names[given[i]], options);
    }
    scene.multi = open_multi(scene.members, MEMBERS);
    return scene;
}

static struct scene set_scene(const struct suite *suite)
{
    return set_scene_with(suite, NULL);
}

/* The same with a client for each member, which no engine can give together. */
static struct scene set_scene_apart(const struct suite *suite)
{
    struct scene scene = set_scene(suite);
    for (size_t i = 0; i < MEMBERS; i++) {
        scene.members[i] = open_thread_lock(open_client(suite), scene.names[given[i]]);
    }
    scene.multi = open_multi(scene.members, MEMBERS);
    return scene;
}

static void expect_all_busy(const struct scene *scene)
{
    for (size_t i = 0; i < MEMBERS; i++) {
        EXPECT(PAWL_BUSY, pawl_lock_acquire(scene->rivals[i], PAWL_TRY));
    }
}

static void expect_all_free(const struct scene *scene)
{
    for (size_t i = 0; i < MEMBERS; i++) {
        EXPECT(PAWL_OK, pawl_lock_acquire(scene->rivals[i], PAWL_TRY));
        EXPECT(PAWL_OK, pawl_lock_release(scene->rivals[i]));
    }
}

static void expect_statuses(
    const struct scene *scene, pawl_status first, pawl_status second, pawl_status third)
{
    assert_int_equal(pawl_lock_member_status(scene->multi, 0), first);
    assert_int_equal(pawl_lock_member_status(scene->multi, 1), second);
    assert_int_equal(pawl_lock_member_status(scene->multi, 2), third);
}

/* ===== All or none ===== */

static void multi_holds_every_member(const struct suite *suite)
{
    const struct scene scene = set_scene(suite);
    char owner[PAWL_OWNER_SIZE];
    char first[PAWL_OWNER_SIZE];
    assert_int_equal(pawl_lock_hold_count(scene.multi), 0);
    EXPECT(PAWL_OK, pawl_lock_acquire(scene.multi, PAWL_TRY));
    expect_all_busy(&scene);
    for (size_t i = 0; i < MEMBERS; i++) {
        assert_int_equal(pawl_lock_hold_count(scene.members[i]), 1);
        assert_true(pawl_lock_token(scene.members[i]) > 0);
    }
    assert_int_equal(pawl_lock_token(scene.multi), 0);
    assert_int_equal(pawl_lock_hold_count(scene.multi), 1);
    assert_true(pawl_lock_remaining_ms(scene.multi) > 0);
    EXPECT(PAWL_OK, pawl_lock_owner(scene.multi, owner, sizeof owner));
    EXPECT(PAWL_OK, pawl_lock_owner(scene.members[0], first, sizeof first));
    assert_string_equal(owner, first);
    EXPECT(PAWL_OK, pawl_lock_release(scene.multi));
    assert_int_equal(pawl_lock_hold_count(scene.multi), 0);
    expect_statuses(&scene, PAWL_OK, PAWL_OK, PAWL_OK);
    expect_all_free(&scene);
    EXPECT(PAWL_NOT_HELD, pawl_lock_release(scene.multi));
}

static void multi_try_gives_back_what_it_had(const struct suite *suite)
{
    const struct scene scene = set_scene(suite);
    EXPECT(PAWL_OK, pawl_lock_acquire(scene.rivals[1], PAWL_TRY));
    EXPECT(PAWL_BUSY, pawl_lock_acquire(scene.multi, PAWL_TRY));
    assert_non_null(strstr(pawl_last_error(), "member 3 of 3"));
    assert_non_null(strstr(pawl_last_error(), scene.names[1]));
    expect_statuses(&scene, PAWL_OK, PAWL_OK, PAWL_BUSY);
    assert_int_equal(pawl_lock_hold_count(scene.multi), 0);
    EXPECT(PAWL_NOT_HELD, pawl_lock_release(scene.multi));
    EXPECT(PAWL_OK, pawl_lock_release(scene.rivals[1]));
    expect_all_free(&scene);
}

static void multi_timed_wait_is_for_the_whole(const struct suite *suite)
{
    const struct scene scene = set_scene(suite);
    EXPECT(PAWL_OK, pawl_lock_acquire(scene.rivals[0], PAWL_TRY));
    EXPECT(PAWL_OK, pawl_lock_acquire(scene.rivals[2], PAWL_TRY));
    const int64_t start_us = boottime_us();
    EXPECT(PAWL_BUSY, pawl_lock_acquire(scene.multi, 100));
    const int64_t took_us = boottime_us() - start_us;
    assert_true(took_us >= 99 * 1000);
    assert_true(took_us < (100 + LATE_MS) * 1000);
    EXPECT(PAWL_OK, pawl_lock_release(scene.rivals[0]));
    EXPECT(PAWL_OK, pawl_lock_release(scene.rivals[2]));
    expect_all_free(&scene);
}

/* It keeps what comes before the one that it waits for, and nothing that comes after. */
static void multi_waits_for_one_at_a_time(const struct suite *suite)
{
    const struct scene scene = set_scene_apart(suite);
    struct actor *actor = actor_new();
    EXPECT(PAWL_OK, pawl_lock_acquire(scene.rivals[1], PAWL_TRY));
    actor_acquire(actor, scene.multi, PAWL_FOREVER);
    actor_await_sleep(actor);
    EXPECT(PAWL_BUSY, pawl_lock_acquire(scene.rivals[0], PAWL_TRY));
    EXPECT(PAWL_OK, pawl_lock_acquire(scene.rivals[2], PAWL_TRY));
    EXPECT(PAWL_OK, pawl_lock_release(scene.rivals[1]));
    WAIT_UNTIL(pawl_lock_acquire(scene.rivals[1], PAWL_TRY) == PAWL_BUSY ||
                   pawl_lock_release(scene.rivals[1]) != PAWL_OK,
        SOON_MS);
    actor_await_sleep(actor);
    EXPECT(PAWL_OK, pawl_lock_release(scene.rivals[2]));
    EXPECT(PAWL_OK, actor_answer(actor));
    expect_all_busy(&scene);
    EXPECT(PAWL_OK, actor_release_now(actor, scene.multi));
    expect_all_free(&scene);
}

/* Members of one client: what nobody else has is kept meanwhile, or left to others, as the engine
 * can do. */
static void multi_waits_for_two(const struct suite *suite)
{
    const struct scene scene = set_scene(suite);
    const pawl_status first = suite->engine->joins ? PAWL_OK : PAWL_BUSY;
    struct actor *actor = actor_new();
    EXPECT(PAWL_OK, pawl_lock_acquire(scene.rivals[1], PAWL_TRY));
    EXPECT(PAWL_OK, pawl_lock_acquire(scene.rivals[2], PAWL_TRY));
    actor_acquire(actor, scene.multi, PAWL_FOREVER);
    actor_await_sleep(actor);
    EXPECT(first, pawl_lock_acquire(scene.rivals[0], PAWL_TRY));
    EXPECT(PAWL_OK, pawl_lock_release(scene.rivals[1]));
    actor_await_sleep(actor);
    EXPECT(PAWL_OK, pawl_lock_release(scene.rivals[2]));
    if (first == PAWL_OK) {
        actor_await_sleep(actor);
        EXPECT(PAWL_OK, pawl_lock_release(scene.rivals[0]));
    }
    EXPECT(PAWL_OK, actor_answer(actor));
    expect_all_busy(&scene);
    EXPECT(PAWL_OK, actor_release_now(actor, scene.multi));
    expect_all_free(&scene);
}

static void multi_of_several_clients(const struct suite *suite)
{
    const char *names[2] = {suite_name(suite, "a"), suite_name(suite, "b")};
    pawl_lock *members[2] = {open_thread_lock(open_client(suite), names[1]),
        open_thread_lock(open_client(suite), names[0])};
    pawl_lock *multi = open_multi(members, 2);
    EXPECT(PAWL_OK, pawl_lock_acquire(multi, SOON_MS));
    expect_busy(suite, names[0]);
    expect_busy(suite, names[1]);
    EXPECT(PAWL_OK, pawl_lock_release(multi));
    expect_free(suite, names[0]);
    expect_free(suite, names[1]);
}

/* ===== Re-entry, and holds of the members' own ===== */

static void multi_re_enters(const struct suite *suite)
{
    const struct scene scene = set_scene(suite);
    EXPECT(PAWL_OK, pawl_lock_acquire(scene.multi, PAWL_TRY));
    EXPECT(PAWL_OK, pawl_lock_acquire(scene.multi, PAWL_TRY));
    assert_int_equal(pawl_lock_hold_count(scene.multi), 2);
    assert_int_equal(pawl_lock_hold_count(scene.members[0]), 2);
    EXPECT(PAWL_OK, pawl_lock_release(scene.multi));
    expect_all_busy(&scene);
    EXPECT(PAWL_OK, pawl_lock_release(scene.multi));
    expect_all_free(&scene);
}

/* A release that nothing was acquired for must not take what the caller holds otherwise. */
static void multi_leaves_other_holds_alone(const struct suite *suite)
{
    const struct scene scene = set_scene(suite);
    EXPECT(PAWL_OK, pawl_lock_acquire(scene.members[1], PAWL_TRY));
    EXPECT(PAWL_OK, pawl_lock_acquire(scene.rivals[2], PAWL_TRY));
    EXPECT(PAWL_BUSY, pawl_lock_acquire(scene.multi, PAWL_TRY));
    EXPECT(PAWL_NOT_HELD, pawl_lock_release(scene.multi));
    assert_int_equal(pawl_lock_hold_count(scene.members[1]), 1);
    EXPECT(PAWL_OK, pawl_lock_release(scene.rivals[2]));
    EXPECT(PAWL_OK, pawl_lock_acquire(scene.multi, PAWL_TRY));
    assert_int_equal(pawl_lock_hold_count(scene.multi), 1);
    assert_int_equal(pawl_lock_hold_count(scene.members[1]), 2);
    EXPECT(PAWL_OK, pawl_lock_release(scene.multi));
    EXPECT(PAWL_BUSY, pawl_lock_acquire(scene.rivals[given[1]], PAWL_TRY));
    EXPECT(PAWL_OK, pawl_lock_release(scene.members[1]));
    expect_all_free(&scene);
}

/* What was released behind its back stops nothing. */
static void multi_releases_the_rest(const struct suite *suite)
{
    const struct scene scene = set_scene(suite);
    EXPECT(PAWL_OK, pawl_lock_acquire(scene.multi, PAWL_TRY));
    EXPECT(PAWL_OK, pawl_lock_release(scene.members[1]));
    EXPECT(PAWL_NOT_HELD, pawl_lock_release(scene.multi));
    expect_statuses(&scene, PAWL_OK, PAWL_NOT_HELD, PAWL_OK);
    expect_all_free(&scene);
}

static void multi_of_handles_refuses_re_entry(const struct suite *suite)
{
    const pawl_lock_options options = handle_options();
    const struct scene scene = set_scene_with(suite, &options);
    EXPECT(PAWL_OK, pawl_lock_acquire(scene.multi, PAWL_TRY));
    EXPECT(PAWL_DEADLOCK, pawl_lock_acquire(scene.multi, PAWL_TRY));
    struct actor *actor = actor_new();
    EXPECT(PAWL_OK, actor_release_now(actor, scene.multi)); /* whatever the thread */
    expect_all_free(&scene);
}

/* ===== Readers ===== */

static pawl_lock_options options_of_kind(pawl_kind kind)
{
    pawl_lock_options options = thread_options();
    options.kind = kind;
    return options;
}

/* Two threads hold it at the same time; a close releases for both. */
static void multi_of_readers(const struct suite *suite)
{
    const pawl_lock_options reading = options_of_kind(PAWL_READ);
    const pawl_lock_options writing = options_of_kind(PAWL_WRITE);
    const char *names[2] = {suite_name(suite, "a"), suite_name(suite, "b")};
    pawl_client *client = open_client(suite);
    pawl_lock *writer = open_lock(open_client(suite), names[1], &writing);
    pawl_lock *members[2] = {
        open_lock(client, names[1], &reading), open_lock(client, names[0], &reading)};
    pawl_lock *multi = open_multi(members, 2);
    struct actor *actor = actor_new();
    EXPECT(PAWL_OK, pawl_lock_acquire(multi, PAWL_TRY));
    EXPECT(PAWL_OK, actor_acquire_now(actor, multi, PAWL_TRY));
    EXPECT(PAWL_OK, pawl_lock_release(multi));
    EXPECT(PAWL_NOT_HELD, pawl_lock_release(multi));
    EXPECT(PAWL_BUSY, pawl_lock_acquire(writer, PAWL_TRY)); /* the other still reads */
    EXPECT(PAWL_OK, pawl_lock_acquire(multi, PAWL_TRY));
    EXPECT(PAWL_OK, close_lock(multi));
    EXPECT(PAWL_OK, pawl_lock_acquire(writer, PAWL_TRY));
    EXPECT(PAWL_OK, pawl_lock_release(writer));
}

/* Without the flag there are no such members. */
static void multi_without_readers(const struct suite *suite)
{
    const pawl_lock_options reading = options_of_kind(PAWL_READ);
    pawl_lock *lock = NULL;
    EXPECT(PAWL_UNSUPPORTED, pawl_lock_open(open_client(suite), suite->name, &reading, &lock));
}

/* ===== Looking, extending, breaking ===== */

static void multi_inspect_sums_up(const struct suite *suite)
{
    const struct scene scene = set_scene(suite);
    pawl_lock_info info = {.size = sizeof info};
    EXPECT(PAWL_OK, pawl_lock_acquire(scene.rivals[0], PAWL_TRY));
    EXPECT(PAWL_OK, pawl_lock_inspect(scene.multi, &info));
    assert_false(info.held);
    assert_string_equal(info.holder, "");
    EXPECT(PAWL_OK, pawl_lock_release(scene.rivals[0]));
    EXPECT(PAWL_OK, pawl_lock_acquire(scene.multi, PAWL_TRY));
    EXPECT(PAWL_OK, pawl_lock_inspect(scene.multi, &info));
    assert_true(info.held);
    assert_true(info.held_by_caller);
    assert_int_equal(info.hold_count, 1);
    char owner[PAWL_OWNER_SIZE];
    EXPECT(PAWL_OK, pawl_lock_owner(scene.members[0], owner, sizeof owner));
    assert_string_equal(info.holder, owner);
    EXPECT(PAWL_OK, pawl_lock_release(scene.multi));
}

static void multi_extends_all(const struct suite *suite)
{
    const pawl_lock_options options = fixed_options(LONG_MS);
    const struct scene scene = set_scene_with(suite, &options);
    EXPECT(PAWL_NOT_HELD, pawl_lock_extend(scene.multi, LONG_MS));
    EXPECT(PAWL_OK, pawl_lock_acquire(scene.multi, PAWL_TRY));
    assert_true(pawl_lock_remaining_ms(scene.multi) <= LONG_MS);
    EXPECT(PAWL_OK, pawl_lock_extend(scene.multi, 3 * LONG_MS));
    for (size_t i = 0; i < MEMBERS; i++) {
        assert_true(pawl_lock_remaining_ms(scene.members[i]) > 2 * LONG_MS);
    }
    assert_true(pawl_lock_remaining_ms(scene.multi) > 2 * LONG_MS);
    EXPECT(PAWL_OK, pawl_lock_release(scene.multi));
}

static void multi_is_not_broken_as_a_whole(const struct suite *suite)
{
    const struct scene scene = set_scene(suite);
    EXPECT(PAWL_UNSUPPORTED, pawl_lock_break(scene.multi));
    assert_non_null(strstr(pawl_last_error(), "member"));
}

/* ===== One order for everybody ===== */

struct walker {
    pawl_lock *multi;
    _Atomic uint64_t *number; /* guarded by the locks alone: an update in between is lost */
};

static pawl_status walk(void *arg)
{
    const struct walker *walker = arg;
    for (unsigned i = 0; i < ROUNDS; i++) {
        pawl_status status = pawl_lock_acquire(walker->multi, PAWL_FOREVER);
        if (status != PAWL_OK) {
            return status;
        }
        atomic_store(walker->number, atomic_load(walker->number) + 1);
        status = pawl_lock_release(walker->multi);
        if (status != PAWL_OK) {
            return status;
        }
    }
    return PAWL_OK;
}

/* Every two of these have a name in common, and each gives them in another order. */
static void multi_opposite_orders_of_threads(const struct suite *suite)
{
    static const size_t pairs[4][2] = {{0, 1}, {1, 0}, {1, 0}, {0, 1}};
    const char *names[2] = {suite_name(suite, "a"), suite_name(suite, "b")};
    _Atomic uint64_t number = 0;
    struct walker walkers[4];
    struct actor *actors[4];
    for (size_t i = 0; i < 4; i++) {
        pawl_client *client = i < 2 ? open_client(suite) : NULL;
        pawl_client *second = open_client(suite);
        pawl_lock *members[2] = {
            open_thread_lock(client != NULL ? client : second, names[pairs[i][0]]),
            open_thread_lock(second, names[pairs[i][1]])};
        walkers[i] = (struct walker){open_multi(members, 2), &number};
        actors[i] = actor_new();
    }
    for (size_t i = 0; i < 4; i++) {
        actor_call(actors[i], walk, &walkers[i]);
    }
    for (size_t i = 0; i < 4; i++) {
        WAIT_UNTIL(actor_is_done(actors[i]), 4 * SOON_MS);
        EXPECT(PAWL_OK, actor_answer(actors[i]));
    }
    assert_int_equal(number, UINT64_C(4) * ROUNDS);
}

static void multi_opposite_orders_of_processes(const struct suite *suite)
{
    struct text path = {0};
    text_addf(&path, "%s/number", tempdir_make());
    struct child *children[2];
    for (size_t i = 0; i < 2; i++) {
        struct text names = {0};
        text_addf(&names, "%s,%s", suite_name(suite, i == 0 ? "a" : "b"),
            suite_name(suite, i == 0 ? "b" : "a"));
        children[i] = peer_start_counter(suite, names.data, path.data, ROUNDS);
        text_free(&names);
    }
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(child_wait(children[i], 4 * SOON_MS), 0);
    }
    assert_int_equal(number_read(path.data), UINT64_C(2) * ROUNDS);
    text_free(&path);
}

/* Without the flag: another process holds other locks. */
static void multi_of_other_processes(const struct suite *suite)
{
    const struct peer_options options = {.lease_ms = LONG_MS, .renew = true};
    struct text names = {0};
    text_addf(&names, "%s,%s", suite_name(suite, "a"), suite_name(suite, "b"));
    struct child *peer = peer_start(suite, names.data, &options);
    text_free(&names);
    peer_ask(peer, "acquire 0", "ok");
    expect_free(suite, suite_name(suite, "a"));
    peer_ask(peer, "release", "ok");
}

/* ===== Arguments ===== */

static void multi_arguments(const struct suite *suite)
{
    const struct scene scene = set_scene(suite);
    pawl_lock *out = scene.multi;
    pawl_lock *twice[2] = {scene.members[0], open_thread_lock(scene.client, scene.names[given[0]])};
    pawl_lock *mixed[2] = {scene.members[0], open_handle_lock(scene.client, scene.names[0])};
    pawl_lock *nested[2] = {scene.members[0], scene.multi};
    pawl_lock *none[2] = {scene.members[0], NULL};
    pawl_lock *rival[2] = {scene.members[0], scene.rivals[given[0]]};
    EXPECT(PAWL_INVALID, pawl_lock_open_multi(scene.members, MEMBERS, NULL, NULL));
    EXPECT(PAWL_INVALID, pawl_lock_open_multi(scene.members, 0, NULL, &out));
    assert_null(out);
    EXPECT(PAWL_INVALID, pawl_lock_open_multi(scene.members, PAWL_MULTI_MAX + 1, NULL, &out));
    EXPECT(PAWL_INVALID, pawl_lock_open_multi(NULL, 1, NULL, &out));
    EXPECT(PAWL_INVALID, pawl_lock_open_multi(twice, 2, NULL, &out));
    assert_non_null(strstr(pawl_last_error(), scene.names[given[0]]));
    EXPECT(PAWL_INVALID, pawl_lock_open_multi(rival, 2, NULL, &out)); /* of another client */
    EXPECT(PAWL_INVALID, pawl_lock_open_multi(mixed, 2, NULL, &out));
    EXPECT(PAWL_UNSUPPORTED, pawl_lock_open_multi(nested, 2, NULL, &out));
    EXPECT(PAWL_INVALID, pawl_lock_open_multi(none, 2, NULL, &out));
    EXPECT(PAWL_INVALID, pawl_lock_member_status(scene.multi, MEMBERS));
    EXPECT(PAWL_INVALID, pawl_lock_member_status(scene.members[0], 0));
    EXPECT(PAWL_INVALID, pawl_lock_acquire_async(scene.multi, PAWL_TRY, record_done, NULL));
}

static void multi_options(const struct suite *suite)
{
    const struct scene scene = set_scene(suite);
    pawl_lock *out = NULL;
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    options.lease_ms = 1000;
    EXPECT(PAWL_INVALID, pawl_lock_open_multi(scene.members, MEMBERS, &options, &out));
    options = thread_options();
    options.on_lost = record_event;
    EXPECT(PAWL_INVALID, pawl_lock_open_multi(scene.members, MEMBERS, &options, &out));
    options = handle_options();
    EXPECT(PAWL_INVALID, pawl_lock_open_multi(scene.members, MEMBERS, &options, &out));
    pawl_lock *of_handle = open_handle_lock(scene.client, scene.names[0]);
    EXPECT(PAWL_OK, pawl_lock_open_multi(&of_handle, 1, &options, &out));
    EXPECT(PAWL_OK, pawl_lock_close(out));
}

static const struct suite_case cases[] = {
    SUITE_CASE(FLAG_MULTI, multi_holds_every_member),
    SUITE_CASE(FLAG_MULTI, multi_try_gives_back_what_it_had),
    SUITE_CASE(FLAG_MULTI, multi_timed_wait_is_for_the_whole),
    SUITE_CASE(FLAG_MULTI, multi_waits_for_one_at_a_time),
    SUITE_CASE(FLAG_MULTI, multi_waits_for_two),
    SUITE_CASE(FLAG_MULTI, multi_of_several_clients),
    SUITE_CASE(FLAG_MULTI, multi_re_enters),
    SUITE_CASE(FLAG_MULTI, multi_leaves_other_holds_alone),
    SUITE_CASE(FLAG_MULTI, multi_releases_the_rest),
    SUITE_CASE(FLAG_MULTI, multi_of_handles_refuses_re_entry),
    SUITE_EITHER(FLAG_READ_WRITE, multi_of_readers, multi_without_readers),
    SUITE_CASE(FLAG_MULTI, multi_inspect_sums_up),
    SUITE_CASE(FLAG_MULTI, multi_extends_all),
    SUITE_CASE(FLAG_MULTI, multi_is_not_broken_as_a_whole),
    SUITE_CASE(FLAG_MULTI, multi_opposite_orders_of_threads),
    SUITE_EITHER(FLAG_PROCESSES, multi_opposite_orders_of_processes, multi_of_other_processes),
    SUITE_CASE(FLAG_MULTI, multi_arguments),
    SUITE_CASE(FLAG_MULTI, multi_options),
};

SUITE_GROUP(suite_multi, cases);
