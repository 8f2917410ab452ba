/* SPDX-License-Identifier: Apache-2.0 */
/* Multi-locks whose members one server gives with one script, on real servers: that it is one
 * command, and that nobody ever sees a part of a set held. */
#include "fault/lib/sets.h"

#include "base/clock.h"

enum { ROUNDS = 300, PATIENT_MS = 10000 };

/* ===== One command ===== */

static void one_script_for_all(void **state)
{
    (void)state;
    pawl_lock *members[EIGHT];
    pawl_lock *multi = open_set(open_client(0), EIGHT, members);
    uint64_t tokens[EIGHT] = {0};
    warm_up(multi);
    for (int round = 0; round < 3; round++) {
        script_calls(0);
        ASSERT_OK(pawl_lock_acquire(multi, PAWL_TRY));
        assert_int_equal(script_calls(0), 1);
        assert_int_equal(held_count(0), EIGHT);
        for (size_t i = 0; i < EIGHT; i++) {
            assert_true(pawl_lock_token(members[i]) > tokens[i]);
            tokens[i] = pawl_lock_token(members[i]);
        }
        script_calls(0);
        ASSERT_OK(pawl_lock_release(multi));
        assert_int_equal(script_calls(0), 1);
        assert_int_equal(held_count(0), 0);
    }
}

/* Each is told by itself, and a wrong one keeps no other from being released. */
static void one_script_to_release_all(void **state)
{
    (void)state;
    pawl_lock *members[FEW];
    pawl_lock *multi = open_set(open_client(0), FEW, members);
    pawl_lock *waiter = open_lock(open_client(0), 3);
    ASSERT_OK(pawl_lock_acquire(multi, PAWL_TRY));
    start_waiting(waiter, 3);
    free(server_command(servers[0], "DEL m000 m001"));
    free(server_command(servers[0], "SET m001 data"));
    ASSERT_STATUS(PAWL_LOST, pawl_lock_release(multi));
    assert_int_equal(pawl_lock_member_status(multi, 3), PAWL_LOST);
    assert_int_equal(pawl_lock_member_status(multi, 2), PAWL_LOST);
    assert_int_equal(pawl_lock_member_status(multi, 1), PAWL_OK);
    assert_int_equal(pawl_lock_member_status(multi, 0), PAWL_OK);
    await_grant(waiter);
    assert_int_equal(server_integer(servers[0], "EXISTS m000 m001 m002 m003"), 1);
}

static void one_script_that_says_no(void **state)
{
    (void)state;
    pawl_lock *members[EIGHT];
    pawl_lock *multi = open_set(open_client(0), EIGHT, members);
    warm_up(multi);
    occupy(0, 5);
    script_calls(0);
    ASSERT_STATUS(PAWL_BUSY, pawl_lock_acquire(multi, PAWL_TRY));
    assert_int_equal(script_calls(0), 1); /* nothing was given, so nothing goes back */
    assert_non_null(strstr(pawl_last_error(), "member 3 of 8"));
    assert_non_null(strstr(pawl_last_error(), "m005"));
    assert_int_equal(pawl_lock_member_status(multi, 2), PAWL_BUSY);
    assert_int_equal(pawl_lock_member_status(multi, 3), PAWL_OK);
    assert_int_equal(held_count(0), 1);
}

static void forgotten_script(void **state)
{
    (void)state;
    pawl_lock *members[FEW];
    pawl_lock *multi = open_set(open_client(0), FEW, members);
    warm_up(multi);
    free(server_command(servers[0], "SCRIPT FLUSH"));
    ASSERT_OK(pawl_lock_acquire(multi, PAWL_TRY));
    assert_int_equal(held_count(0), FEW);
    ASSERT_OK(pawl_lock_release(multi));
    assert_int_equal(held_count(0), 0);
}

static void one_script_for_many(void **state)
{
    (void)state;
    pawl_lock *members[MANY];
    pawl_lock *multi = open_set(open_client(0), MANY, members);
    warm_up(multi);
    script_calls(0);
    ASSERT_OK(pawl_lock_acquire(multi, PAWL_TRY));
    assert_int_equal(script_calls(0), 1);
    assert_int_equal(held_count(0), MANY);
    ASSERT_OK(pawl_lock_release(multi));
    occupy(0, MANY - 1);
    ASSERT_STATUS(PAWL_BUSY, pawl_lock_acquire(multi, PAWL_TRY));
    assert_non_null(strstr(pawl_last_error(), "member 1 of 300"));
    assert_int_equal(held_count(0), 1);
    start_waiting(multi, MANY - 1);
    vacate(0, MANY - 1);
    await_grant(multi);
    assert_int_equal(held_count(0), 0);
}

static void a_script_for_each_server(void **state)
{
    (void)state;
    pawl_client *clients[2] = {open_client(0), open_client(1)};
    pawl_lock *members[EIGHT];
    for (size_t i = 0; i < EIGHT; i++) {
        members[i] = open_lock(clients[i % 2], i);
    }
    pawl_lock *multi = open_multi(members, EIGHT);
    warm_up(multi);
    script_calls(0);
    script_calls(1);
    ASSERT_OK(pawl_lock_acquire(multi, PAWL_TRY));
    assert_int_equal(script_calls(0), 1);
    assert_int_equal(script_calls(1), 1);
    ASSERT_OK(pawl_lock_release(multi));
    occupy(0, 4);
    ASSERT_STATUS(PAWL_BUSY, pawl_lock_acquire(multi, PAWL_TRY));
    assert_non_null(strstr(pawl_last_error(), "member 5 of 8"));
    assert_int_equal(held_count(0), 1);
    assert_int_equal(held_count(1), 0);
    start_waiting(multi, 4);
    WAIT_UNTIL(held_count(1) == 2, BOUND_MS); /* 1 and 3, which come before it */
    assert_int_equal(held_count(0), 1);
    vacate(0, 4);
    await_grant(multi);
    assert_int_equal(held_count(0) + held_count(1), 0);
}

/* As many members as there may be, with the longest names. */
static pawl_lock *open_largest(pawl_client *client, const pawl_kind *kinds, size_t count)
{
    enum { NAME_SIZE = 1024 };
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    pawl_lock **members = calloc(PAWL_MULTI_MAX, sizeof(pawl_lock *));
    assert_non_null(members);
    cleanup_add(free, members);
    for (size_t i = 0; i < PAWL_MULTI_MAX; i++) {
        char name[NAME_SIZE + 1];
        memset(name, 'x', sizeof name);
        name[snprintf(name, sizeof name, "m%03zu", i)] = 'x';
        name[NAME_SIZE] = '\0';
        options.kind = kinds[i % count];
        ASSERT_OK(pawl_lock_open(client, name, &options, &members[i]));
        cleanup_add(end_lock, members[i]);
    }
    return open_multi(members, PAWL_MULTI_MAX);
}

static void the_largest_set(void **state)
{
    (void)state;
    static const pawl_kind kinds[] = {
        PAWL_FAIR, PAWL_MUTEX, PAWL_READ, PAWL_WRITE, PAWL_SPIN, PAWL_PLAIN};
    for (size_t count = 1; count <= 6; count += 5) { /* only fair ones, which need most; all */
        pawl_lock *multi = open_largest(open_patient(0, PATIENT_MS), kinds, count);
        warm_up(multi);
        script_calls(0);
        ASSERT_OK(pawl_lock_acquire(multi, PAWL_TRY));
        assert_int_equal(script_calls(0), 1);
        assert_int_equal(held_count(0), PAWL_MULTI_MAX);
        ASSERT_OK(pawl_lock_release(multi));
        assert_int_equal(held_count(0), 0);
    }
}

/* One that is fair is no exception. */
static void a_fair_member(void **state)
{
    (void)state;
    pawl_client *client = open_client(0);
    pawl_lock *members[] = {open_kind(client, 0, PAWL_MUTEX), open_kind(client, 1, PAWL_FAIR),
        open_kind(client, 2, PAWL_READ), open_kind(client, 3, PAWL_SPIN),
        open_kind(client, 4, PAWL_MUTEX), open_kind(client, 5, PAWL_PLAIN)};
    pawl_lock *multi = open_multi(members, 6);
    warm_up(multi);
    script_calls(0);
    ASSERT_OK(pawl_lock_acquire(multi, PAWL_TRY));
    assert_int_equal(script_calls(0), 1);
    assert_int_equal(held_count(0), 6);
    ASSERT_OK(pawl_lock_release(multi));
    occupy(0, 1);
    ASSERT_STATUS(PAWL_BUSY, pawl_lock_acquire(multi, PAWL_TRY));
    assert_int_equal(held_count(0), 1);
    vacate(0, 1);
    occupy(0, 3);
    ASSERT_STATUS(PAWL_BUSY, pawl_lock_acquire(multi, PAWL_TRY));
    assert_non_null(strstr(pawl_last_error(), "member 4 of 6"));
    assert_int_equal(held_count(0), 1);
}

static void members_held_before(void **state)
{
    (void)state;
    pawl_lock *members[FEW];
    pawl_lock *multi = open_set(open_client(0), FEW, members);
    warm_up(multi);
    ASSERT_OK(pawl_lock_acquire(members[1], PAWL_TRY));
    const uint64_t token = pawl_lock_token(members[1]);
    script_calls(0);
    ASSERT_OK(pawl_lock_acquire(multi, PAWL_TRY));
    assert_int_equal(pawl_lock_hold_count(members[1]), 2);
    assert_int_equal(pawl_lock_token(members[1]), token);
    ASSERT_OK(pawl_lock_acquire(multi, PAWL_TRY));
    assert_int_equal(pawl_lock_hold_count(members[0]), 2);
    ASSERT_OK(pawl_lock_release(multi));
    ASSERT_OK(pawl_lock_release(multi));
    assert_int_equal(held_count(0), 1);
    occupy(0, 2);
    ASSERT_STATUS(PAWL_BUSY, pawl_lock_acquire(multi, 50));
    assert_int_equal(pawl_lock_hold_count(members[1]), 1);
    ASSERT_OK(pawl_lock_release(members[1]));
    assert_int_equal(held_count(0), 1);
}

/* ===== Nobody sees a part ===== */

static _Atomic bool stop;
static _Atomic int surprise; /* what a fighter was told and should not have been */

static void fight_anew(void)
{
    atomic_store(&stop, false);
    atomic_store(&surprise, PAWL_OK);
}

static void *fight(void *multi)
{
    while (!atomic_load(&stop)) {
        pawl_status status = pawl_lock_acquire(multi, 20);
        if (status == PAWL_OK) {
            status = pawl_lock_release(multi);
        }
        if (status != PAWL_OK && status != PAWL_BUSY) {
            atomic_store(&surprise, (int)status);
        }
    }
    return NULL;
}

/* Two clients want the same in both orders, and somebody has the last, or the one in the middle. */
static void nothing_beside_a_busy_one(void **state)
{
    (void)state;
    pawl_client *clients[2] = {open_client(0), open_client(0)};
    for (size_t busy = 1; busy < FEW; busy += 2) {
        pawl_lock *multis[2];
        pthread_t threads[2];
        occupy(0, busy);
        fight_anew();
        for (size_t i = 0; i < 2; i++) {
            pawl_lock *members[FEW];
            for (size_t k = 0; k < FEW; k++) {
                members[k] = open_lock(clients[i], i == 0 ? k : FEW - 1 - k);
            }
            multis[i] = open_multi(members, FEW);
            assert_int_equal(pthread_create(&threads[i], NULL, fight, multis[i]), 0);
        }
        for (int i = 0; i < ROUNDS; i++) {
            assert_int_equal(server_integer(servers[0], "EXISTS m000 m001 m002 m003"), 1);
        }
        vacate(0, busy);
        WAIT_UNTIL(server_integer(servers[0], "EXISTS m000 m001 m002 m003") == FEW, BOUND_MS);
        atomic_store(&stop, true);
        pthread_join(threads[0], NULL);
        pthread_join(threads[1], NULL);
        assert_int_equal(atomic_load(&surprise), PAWL_OK);
        assert_int_equal(held_count(0), 0);
    }
}

/* The owners of m000 to m003, each as the beginning of its client's name, or dots. */
static const char look[] = "local seen = ''\n"
                           "for i, key in ipairs(KEYS) do\n"
                           "    local owner = redis.call('HKEYS', key)[1]\n"
                           "    seen = seen .. (owner and owner:sub(1, 8) or '........')\n"
                           "end\n"
                           "return seen";

enum { SHORT = 8, SET = 3 };

/* How the names of this multi-lock's owners begin. */
static void get_owner(pawl_lock *multi, char out[PAWL_OWNER_SIZE])
{
    ASSERT_OK(pawl_lock_acquire(multi, BOUND_MS));
    ASSERT_OK(pawl_lock_owner(multi, out, PAWL_OWNER_SIZE));
    ASSERT_OK(pawl_lock_release(multi));
}

/* Of the set that begins with number `first`, a part is seen only while it is given back, which the
 * first is before the others: who has one has all behind it. */
static bool is_legal(const char *seen, const char *owner, size_t first)
{
    bool has = false;
    for (size_t i = first; i < first + SET; i++) {
        const bool held = memcmp(seen + i * SHORT, owner, SHORT) == 0;
        if (has && !held) {
            return false;
        }
        has = held;
    }
    return true;
}

static void overlapping_sets(void **state)
{
    (void)state;
    pawl_lock *multis[2];
    char owners[2][PAWL_OWNER_SIZE];
    pthread_t threads[2];
    int seen_whole = 0;
    const char *const words[] = {"EVAL", look, "4", "m000", "m001", "m002", "m003"};
    fight_anew();
    for (size_t i = 0; i < 2; i++) {
        pawl_client *client = open_client(0);
        pawl_lock *members[] = {open_lock(client, i == 0 ? 0 : 3),
            open_lock(client, i == 0 ? 1 : 2), open_lock(client, i == 0 ? 2 : 1)};
        multis[i] = open_multi(members, SET);
        get_owner(multis[i], owners[i]);
    }
    assert_memory_not_equal(owners[0], owners[1], SHORT);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, fight, multis[i]), 0);
    }
    for (int i = 0; i < 10 * ROUNDS; i++) {
        char *seen = server_command_words(servers[0], 7, words);
        assert_int_equal(strlen(seen), FEW * SHORT);
        seen_whole += memcmp(seen + SHORT, owners[i % 2], SHORT) == 0 ? 1 : 0;
        if (!is_legal(seen, owners[0], 0) || !is_legal(seen, owners[1], 1)) {
            support_fail("a part of a set was held: %s", seen);
        }
        free(seen);
    }
    atomic_store(&stop, true);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    assert_int_equal(atomic_load(&surprise), PAWL_OK);
    assert_true(seen_whole > 10); /* it was looked at while they fought */
    assert_int_equal(held_count(0), 0);
}

/* Somebody always has one of the two, and lets go of each in turn. Who waits for both gets them all
 * the same: after a while it keeps the first and waits for the second. */
static void members_that_are_never_free_together(void **state)
{
    (void)state;
    pawl_lock *members[2];
    pawl_client *other = open_client(0);
    pawl_lock *rivals[2] = {open_lock(other, 0), open_lock(other, 1)};
    pawl_lock *multi = open_set(open_client(0), 2, members);
    const int64_t end_us = pawl__now_us() + BOUND_MS * INT64_C(1000);
    size_t has = 0;
    ASSERT_OK(pawl_lock_acquire(rivals[has], PAWL_TRY));
    start_waiting(multi, 0);
    while (pawl_lock_acquire(rivals[1 - has], 100) == PAWL_OK) {
        assert_true(pawl__now_us() < end_us);
        ASSERT_OK(pawl_lock_release(rivals[has]));
        has = 1 - has;
    }
    ASSERT_OK(pawl_lock_release(rivals[has]));
    await_grant(multi);
    assert_int_equal(held_count(0), 0);
}

static _Atomic int losses;

static void note_loss(const pawl_event *event, void *arg)
{
    (void)event;
    (void)arg;
    atomic_fetch_add(&losses, 1);
}

/* The caller held one for itself, and has yet to hear that it is lost. The set is not to be had,
 * and nothing is said of the others. */
static void a_member_that_was_lost(void **state)
{
    (void)state;
    pawl_client *client = open_client(0);
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    pawl_lock *members[3] = {NULL};
    const char *const names[] = {"m000", "m001", "m002"};
    options.lease_ms = 200;
    options.renew = false;
    options.on_lost = note_loss;
    atomic_store(&losses, 0);
    for (size_t i = 0; i < 3; i++) {
        ASSERT_OK(pawl_lock_open(client, names[i], &options, &members[i]));
        cleanup_add(end_lock, members[i]);
    }
    pawl_lock *multi = open_multi(members, 3);
    ASSERT_OK(pawl_lock_acquire(members[1], PAWL_TRY));
    WAIT_UNTIL(atomic_load(&losses) == 1, BOUND_MS);
    ASSERT_STATUS(PAWL_LOST, pawl_lock_acquire(multi, 1000));
    assert_non_null(
        strstr(pawl_last_error(), "member 2 of 3 of a multi-lock: lock 'm001' was lost"));
    assert_int_equal(pawl_lock_member_status(multi, 0), PAWL_OK);
    assert_int_equal(pawl_lock_member_status(multi, 1), PAWL_LOST);
    assert_int_equal(pawl_lock_member_status(multi, 2), PAWL_OK);
    ASSERT_STATUS(PAWL_LOST, pawl_lock_release(members[1]));
    assert_int_equal(held_count(0), 0);
}

/* While it waits, it has its turns up to the one that it waits for in its own client, none beyond;
 * and other clients see nothing of it. */
static void turns_while_it_waits(void **state)
{
    (void)state;
    pawl_client *client = open_client(0);
    pawl_client *other = open_client(0);
    pawl_lock *members[3];
    pawl_lock *multi = open_set(client, 3, members);
    pawl_lock *first = open_lock(client, 0);
    pawl_lock *third = open_lock(client, 2);
    pawl_lock *rival = open_lock(other, 0);
    occupy(0, 1);
    start_waiting(multi, 1);
    ASSERT_STATUS(PAWL_BUSY, pawl_lock_acquire(first, PAWL_TRY));
    ASSERT_OK(pawl_lock_acquire(third, PAWL_TRY));
    ASSERT_OK(pawl_lock_acquire(rival, PAWL_TRY));
    vacate(0, 1);
    ASSERT_OK(pawl_lock_release(third));
    assert_int_equal(atomic_load(&answers), 0);
    ASSERT_OK(pawl_lock_release(rival));
    await_grant(multi);
    ASSERT_OK(pawl_lock_acquire(first, PAWL_TRY));
    ASSERT_OK(pawl_lock_release(first));
    assert_int_equal(held_count(0), 0);
}

/* Who is next in line here is handed what is released, but not one member of a set. */
static void no_heir_of_a_part(void **state)
{
    (void)state;
    pawl_client *client = open_client(0);
    pawl_lock *members[2];
    pawl_lock *multi = open_set(client, 2, members);
    pawl_lock *single = open_lock(client, 0);
    ASSERT_OK(pawl_lock_acquire(single, PAWL_TRY));
    occupy(0, 1);
    atomic_store(&answers, 0);
    ASSERT_OK(pawl_lock_acquire_async(multi, PAWL_FOREVER, note, NULL));
    ASSERT_OK(pawl_lock_release(single));
    WAIT_UNTIL(server_answers(servers[0], "redisson_lock__channel:{m001} 1",
                   "PUBSUB NUMSUB redisson_lock__channel:{m001}"),
        BOUND_MS);
    assert_int_equal(server_integer(servers[0], "EXISTS m000"), 0);
    vacate(0, 1);
    await_grant(multi);
}

/* Callers of one client, in line behind each other, with sets that overlap and with single locks.
 */
static void a_crowd_in_one_client(void **state)
{
    (void)state;
    enum { CROWD = 6, TIMES = 100 };
    static const size_t numbers[CROWD][3] = {
        {0, 1, 2}, {2, 1, 0}, {1, 2, 3}, {3, 0, 1}, {0, 2, 3}, {3, 2, 0}};
    pawl_client *client = open_client(0);
    pthread_t threads[CROWD];
    fight_anew();
    for (size_t i = 0; i < CROWD; i++) {
        pawl_lock *members[] = {open_lock(client, numbers[i][0]), open_lock(client, numbers[i][1]),
            open_lock(client, numbers[i][2])};
        pawl_lock *multi = i < CROWD - 1 ? open_multi(members, 3) : members[0];
        assert_int_equal(pthread_create(&threads[i], NULL, fight, multi), 0);
    }
    pawl_lock *members[FEW];
    pawl_lock *all = open_set(client, FEW, members);
    for (int i = 0; i < TIMES; i++) {
        ASSERT_OK(pawl_lock_acquire(all, BOUND_MS));
        assert_int_equal(held_count(0), FEW);
        ASSERT_OK(pawl_lock_release(all));
    }
    atomic_store(&stop, true);
    for (size_t i = 0; i < CROWD; i++) {
        pthread_join(threads[i], NULL);
    }
    assert_int_equal(atomic_load(&surprise), PAWL_OK);
    assert_int_equal(held_count(0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(one_script_for_all),
        CASE(one_script_to_release_all),
        CASE(one_script_that_says_no),
        CASE(forgotten_script),
        CASE(one_script_for_many),
        CASE(the_largest_set),
        CASE(a_script_for_each_server),
        CASE(a_fair_member),
        CASE(members_held_before),
        CASE(nothing_beside_a_busy_one),
        CASE(overlapping_sets),
        CASE(members_that_are_never_free_together),
        CASE(a_member_that_was_lost),
        CASE(turns_while_it_waits),
        CASE(no_heir_of_a_part),
        CASE(a_crowd_in_one_client),
    };
    return cmocka_run_group_tests(tests, start_servers, NULL);
}
