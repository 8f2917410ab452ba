/* SPDX-License-Identifier: Apache-2.0 */
/* Multi-locks of several kinds that one server gives with one script, on a real server: what they
 * leave there is what each kind leaves by itself, all or none. */
#include "fault/lib/sets.h"

#include "base/clock.h"
#include "engine/redis/lua_scripts.h"

#include <pthread.h>

enum { MUTEX, READ, SPIN, WRITE, PLAIN, KINDS };

static const pawl_kind kinds[KINDS] = {PAWL_MUTEX, PAWL_READ, PAWL_SPIN, PAWL_WRITE, PAWL_PLAIN};

/* Number i is of kinds[i]. */
static pawl_lock *open_kinds(pawl_client *client, pawl_lock *members_out[KINDS])
{
    for (size_t i = 0; i < KINDS; i++) {
        members_out[i] = open_kind(client, i, kinds[i]);
    }
    return open_multi(members_out, KINDS);
}

/* Of readers' holds. */
static bool any_hold_keys(void)
{
    char *keys = server_command(servers[0], "KEYS *rwlock_timeout*");
    const bool any = strchr(keys, '{') != NULL;
    free(keys);
    return any;
}

/* ===== What is left there ===== */

static void one_script_for_many_kinds(void **state)
{
    (void)state;
    pawl_lock *members[KINDS];
    pawl_lock *multi = open_kinds(open_client(0), members);
    uint64_t tokens[KINDS] = {0};
    char owner[PAWL_OWNER_SIZE];
    warm_up(multi);
    for (int round = 0; round < 3; round++) {
        script_calls(0);
        ASSERT_OK(pawl_lock_acquire(multi, PAWL_TRY));
        assert_int_equal(script_calls(0), 1);
        for (size_t i = 0; i < KINDS; i++) {
            const uint64_t token = pawl_lock_token(members[i]);
            assert_true(kinds[i] == PAWL_PLAIN ? token == 0 : token > tokens[i]);
            tokens[i] = token;
            assert_true(server_integer(servers[0], "PTTL m%03zu", i) > 0);
        }
        ASSERT_OK(pawl_lock_owner(members[READ], owner, sizeof owner));
        assert_true(server_answers(servers[0], "read", "HGET m001 mode"));
        assert_true(server_answers(servers[0], "1", "HGET m001 %s", owner));
        assert_true(server_integer(servers[0], "PTTL {m001}:%s:rwlock_timeout:1", owner) > 0);
        ASSERT_OK(pawl_lock_owner(members[WRITE], owner, sizeof owner));
        assert_true(server_answers(servers[0], "write", "HGET m003 mode"));
        assert_true(server_answers(servers[0], "1", "HGET m003 %s:write", owner));
        ASSERT_OK(pawl_lock_owner(members[PLAIN], owner, sizeof owner));
        assert_true(server_answers(servers[0], owner, "GET m004"));
        ASSERT_OK(pawl_lock_release(multi));
        assert_int_equal(held_count(0), 0);
        assert_false(any_hold_keys());
    }
}

/* By the same tenures: nothing is counted twice, and the tokens are the same. */
static void asked_again(void **state)
{
    (void)state;
    const char *const words[] = {"EVAL", pawl__script_acquire_mixed.text, "6", "t:{a}", "a",
        "t:{b}", "b", "c", "c", "0", "1", "rwp", "x:1", "9000", "1", "x:2", "9000", "3", "x:3",
        "9000", "1", "{a}"};
    const size_t count = sizeof words / sizeof words[0];
    char *first = server_command_words(servers[0], count, words);
    free(server_command(servers[0], "HSET a y:7 1"));
    free(server_command(servers[0], "INCR t:{a}"));
    char *second = server_command_words(servers[0], count, words);
    assert_string_equal(first, second);
    assert_true(server_answers(servers[0], "1", "HGET a x:1"));
    assert_true(server_answers(servers[0], "1", "HGET b x:2:write"));
    free(first);
    free(second);
}

/* ===== All or none ===== */

static void assert_refused(pawl_lock *multi, pawl_status status, size_t which)
{
    char name[32];
    char member[32];
    const int64_t others = held_count(0);
    ASSERT_STATUS(status, pawl_lock_acquire(multi, PAWL_TRY));
    snprintf(name, sizeof name, "m%03zu", which);
    snprintf(member, sizeof member, "member %zu of %d", which + 1, KINDS);
    assert_non_null(strstr(pawl_last_error(), name));
    assert_non_null(strstr(pawl_last_error(), member));
    assert_int_equal(pawl_lock_member_status(multi, which), status);
    assert_int_equal(held_count(0), others);
    assert_false(any_hold_keys());
}

static void one_that_is_busy(void **state)
{
    (void)state;
    static const char *const holds[][2] = {{"m000", "HSET m000 somebody:1 1"},
        {"m001", "HSET m001 mode write somebody:1:write 1"}, {"m001", "HSET m001 somebody:1 1"},
        {"m002", "HSET m002 somebody:1 1"}, {"m003", "HSET m003 mode read somebody:1 1"},
        {"m003", "HSET m003 mode write somebody:1:write 1"}, {"m003", "HSET m003 somebody:1 1"},
        {"m004", "SET m004 somebody"}};
    pawl_lock *members[KINDS];
    pawl_lock *multi = open_kinds(open_client(0), members);
    warm_up(multi);
    for (size_t i = 0; i < sizeof holds / sizeof holds[0]; i++) {
        free(server_command(servers[0], "%s", holds[i][1]));
        free(server_command(servers[0], "PEXPIRE %s 60000", holds[i][0]));
        script_calls(0);
        assert_refused(multi, PAWL_BUSY, (size_t)(holds[i][0][3] - '0'));
        assert_int_equal(script_calls(0), 1);
        free(server_command(servers[0], "DEL %s", holds[i][0]));
        ASSERT_OK(pawl_lock_acquire(multi, PAWL_TRY));
        ASSERT_OK(pawl_lock_release(multi));
    }
}

static void one_that_is_somebodys_key(void **state)
{
    (void)state;
    static const char *const keys[][2] = {{"m000", "SET m000 data"}, {"m001", "SET m001 data"},
        {"m003", "RPUSH m003 data"}, {"m004", "RPUSH m004 data"}, {"m004", "SET m004 data"}};
    pawl_lock *members[KINDS];
    pawl_lock *multi = open_kinds(open_client(0), members);
    warm_up(multi);
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        free(server_command(servers[0], "%s", keys[i][1]));
        assert_refused(multi, PAWL_REFUSED, (size_t)(keys[i][0][3] - '0'));
        free(server_command(servers[0], "DEL %s", keys[i][0]));
    }
    ASSERT_OK(pawl_lock_acquire(multi, PAWL_TRY));
    ASSERT_OK(pawl_lock_release(multi));
}

/* A key that the last step needs, and which is refused only then. */
static void one_that_is_refused_at_last(void **state)
{
    (void)state;
    pawl_client *client = NULL;
    char url[128];
    pawl_lock *members[KINDS];
    free(server_command(servers[0], "ACL SETUSER half on >secret ~* &* +@all -pexpire"));
    snprintf(url, sizeof url, "redis://half:secret@127.0.0.1:%u?lazy=1",
        (unsigned)server_port(servers[0]));
    ASSERT_OK(pawl_client_open(url, NULL, &client));
    cleanup_add(end_client, client);
    pawl_lock *multi = open_kinds(client, members);
    ASSERT_STATUS(PAWL_DENIED, pawl_lock_acquire(multi, PAWL_TRY));
    assert_int_equal(held_count(0), 0);
    assert_false(any_hold_keys());
}

/* ===== Holds beside others, and before ===== */

static void readers_of_two_sets(void **state)
{
    (void)state;
    pawl_lock *multis[2];
    for (size_t i = 0; i < 2; i++) {
        pawl_client *client = open_client(0);
        pawl_lock *members[] = {
            open_kind(client, 0, PAWL_READ), open_kind(client, 1 + i, PAWL_MUTEX)};
        multis[i] = open_multi(members, 2);
        warm_up(multis[i]);
    }
    for (size_t i = 0; i < 2; i++) {
        ASSERT_OK(pawl_lock_acquire(multis[i], PAWL_TRY));
    }
    assert_int_equal(server_integer(servers[0], "HLEN m000"), 3);
    ASSERT_OK(pawl_lock_release(multis[0]));
    assert_int_equal(server_integer(servers[0], "HLEN m000"), 2);
    assert_true(server_answers(servers[0], "read", "HGET m000 mode"));
    ASSERT_OK(pawl_lock_release(multis[1]));
    assert_int_equal(held_count(0), 0);
}

/* Who writes may read too, and goes on reading; who reads may not write. */
static void writers_and_readers_of_one_owner(void **state)
{
    (void)state;
    pawl_client *client = open_client(0);
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    pawl_lock *locks[3] = {NULL};
    static const pawl_kind of[] = {PAWL_WRITE, PAWL_READ, PAWL_MUTEX};
    for (size_t i = 0; i < 3; i++) {
        options.kind = of[i];
        ASSERT_OK(pawl_lock_open(client, i < 2 ? "m000" : "m001", &options, &locks[i]));
        cleanup_add(end_lock, locks[i]);
    }
    pawl_lock *const reads[] = {locks[1], locks[2]};
    pawl_lock *const writes[] = {locks[0], locks[2]};
    pawl_lock *reader = open_multi(reads, 2);
    pawl_lock *writer = open_multi(writes, 2);
    ASSERT_OK(pawl_lock_acquire(locks[0], PAWL_TRY));
    ASSERT_OK(pawl_lock_acquire(reader, PAWL_TRY));
    ASSERT_OK(pawl_lock_release(locks[0]));
    assert_true(server_answers(servers[0], "read", "HGET m000 mode"));
    assert_int_equal(held_count(0), 2);
    ASSERT_OK(pawl_lock_release(reader));
    assert_int_equal(held_count(0), 0);
    ASSERT_OK(pawl_lock_acquire(locks[1], PAWL_TRY));
    ASSERT_STATUS(PAWL_DEADLOCK, pawl_lock_acquire(writer, PAWL_TRY));
    assert_non_null(strstr(pawl_last_error(), "m000"));
    assert_int_equal(held_count(0), 1);
    ASSERT_OK(pawl_lock_release(locks[1]));
    assert_int_equal(held_count(0), 0);
}

/* ===== Waiting ===== */

/* Until the set listens for the release of m001, which somebody writes. */
static void ask_behind_a_writer(pawl_lock *multi)
{
    atomic_store(&answers, 0);
    ASSERT_OK(pawl_lock_acquire_async(multi, PAWL_FOREVER, note, NULL));
    WAIT_UNTIL(server_answers(
                   servers[0], "redisson_rwlock:{m001} 1", "PUBSUB NUMSUB redisson_rwlock:{m001}"),
        BOUND_MS);
}

static void a_writer_is_waited_for(void **state)
{
    (void)state;
    pawl_lock *members[KINDS];
    pawl_lock *multi = open_kinds(open_client(0), members);
    pawl_lock *writer = open_kind(open_client(0), READ, PAWL_WRITE);
    ASSERT_OK(pawl_lock_acquire(writer, PAWL_TRY));
    ask_behind_a_writer(multi);
    assert_int_equal(held_count(0), 1);
    ASSERT_OK(pawl_lock_release(writer));
    await_grant(multi);
    assert_int_equal(held_count(0), 0);
}

static _Atomic int singles;

static void note_single(pawl_lock *lock, pawl_status status, void *arg)
{
    (void)lock;
    (void)arg;
    ASSERT_OK(status);
    atomic_fetch_add(&singles, 1);
}

/* One owner asks for a member by itself, too, while the set is asked for: whichever comes first,
 * the other enters beside it. */
static void a_member_beside_its_set(void **state)
{
    (void)state;
    enum { TIMES = 300 };
    pawl_client *client = open_client(0);
    pawl_lock *members[] = {open_kind(client, 0, PAWL_READ), open_kind(client, 1, PAWL_MUTEX),
        open_kind(client, 2, PAWL_READ)};
    pawl_lock *multi = open_multi(members, 3);
    for (int i = 0; i < TIMES; i++) {
        atomic_store(&answers, 0);
        atomic_store(&singles, 0);
        pawl_lock *single = members[i % 2 * 2];
        ASSERT_OK(pawl_lock_acquire_async(single, PAWL_FOREVER, note_single, NULL));
        ASSERT_OK(pawl_lock_acquire_async(multi, PAWL_FOREVER, note, NULL));
        WAIT_UNTIL(atomic_load(&singles) == 1, BOUND_MS);
        await_grant(multi);
        ASSERT_OK(pawl_lock_release(single));
    }
    WAIT_UNTIL(held_count(0) == 0, BOUND_MS);
}

/* The set waits for another member while its owner gets this one by itself: what is left is asked
 * again. */
static void a_member_while_its_set_waits(void **state)
{
    (void)state;
    pawl_client *client = open_client(0);
    pawl_lock *members[] = {open_kind(client, 0, PAWL_READ), open_kind(client, 1, PAWL_READ)};
    pawl_lock *multi = open_multi(members, 2);
    pawl_lock *writer = open_kind(open_client(0), 1, PAWL_WRITE);
    ASSERT_OK(pawl_lock_acquire(writer, PAWL_TRY));
    ask_behind_a_writer(multi);
    ASSERT_OK(pawl_lock_acquire(members[0], PAWL_TRY));
    ASSERT_OK(pawl_lock_release(writer));
    await_grant(multi);
    ASSERT_OK(pawl_lock_release(members[0]));
    assert_int_equal(held_count(0), 0);
}

static _Atomic bool over;

/* Acquires and releases it until all is over. */
static void *come_and_go(void *arg)
{
    while (!atomic_load(&over)) {
        if (pawl_lock_acquire(arg, 40) == PAWL_OK) {
            pawl_lock_release(arg);
        }
    }
    return NULL;
}

/* It is refused because of the member that its owner gets to write right then: the others, which
 * were spared, are asked again. */
static void a_member_written_beside_its_set(void **state)
{
    (void)state;
    enum { TRAFFIC = 3, TIMES = 500 };
    pawl_client *client = open_client(0);
    pawl_lock *members[] = {open_kind(client, 0, PAWL_READ), open_kind(client, 1, PAWL_MUTEX)};
    pawl_lock *multi = open_multi(members, 2);
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    pawl_lock *traffic[TRAFFIC] = {
        NULL, open_kind(client, 1, PAWL_MUTEX), open_kind(open_client(0), 0, PAWL_WRITE)};
    pthread_t threads[TRAFFIC];
    options.kind = PAWL_WRITE;
    options.owner = PAWL_OWNER_HANDLE;
    options.reentry = PAWL_REENTRY_ALLOW;
    options.same_owner_as = members[0];
    ASSERT_OK(pawl_lock_open(client, "m000", &options, &traffic[0]));
    cleanup_add(end_lock, traffic[0]);
    atomic_store(&over, false);
    for (size_t i = 0; i < TRAFFIC; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, come_and_go, traffic[i]), 0);
    }
    int granted = 0;
    const int64_t end_us = pawl__now_us() + BOUND_MS * INT64_C(1000);
    while (granted < TIMES && pawl__now_us() < end_us) {
        if (pawl_lock_acquire(multi, 40) == PAWL_OK) {
            ASSERT_OK(pawl_lock_release(multi));
            granted++;
        }
    }
    atomic_store(&over, true);
    for (size_t i = 0; i < TRAFFIC; i++) {
        pthread_join(threads[i], NULL);
    }
    assert_true(granted > 0);
    WAIT_UNTIL(held_count(0) == 0, BOUND_MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(one_script_for_many_kinds),
        CASE(asked_again),
        CASE(one_that_is_busy),
        CASE(one_that_is_somebodys_key),
        CASE(one_that_is_refused_at_last),
        CASE(readers_of_two_sets),
        CASE(writers_and_readers_of_one_owner),
        CASE(a_writer_is_waited_for),
        CASE(a_member_beside_its_set),
        CASE(a_member_while_its_set_waits),
        CASE(a_member_written_beside_its_set),
    };
    return cmocka_run_group_tests(tests, start_servers, NULL);
}
