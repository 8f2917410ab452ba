/* SPDX-License-Identifier: Apache-2.0 */
/* Multi-locks with a fair member on a real server: one script for all while nobody waits for it,
 * what that leaves in its queue, and that nobody who stands there is overtaken. */
#include "fault/lib/sets.h"

#include "engine/redis/lua_scripts.h"

enum { MUTEX, FAIR, WRITE, KINDS };

#define QUEUE "redisson_lock_queue:{m001}"
#define TIMES "redisson_lock_timeout:{m001}"
#define THEIRS "0123abcd-4567-4901-a345-0123456789ab:7" /* Redisson's: a UUID of version 4 */
#define OURS "0123abcd-4567-8901-a345-0123456789ab:7"
#define OTHER "0123abcd-4567-8901-a345-0123456789ab:8"

static const pawl_kind kinds[KINDS] = {PAWL_MUTEX, PAWL_FAIR, PAWL_WRITE};

static pawl_lock *open_fair_set(pawl_client *client, pawl_lock *members_out[KINDS])
{
    for (size_t i = 0; i < KINDS; i++) {
        members_out[i] = open_kind(client, i, kinds[i]);
    }
    return open_multi(members_out, KINDS);
}

/* Somebody stands in the queue of m001, and counts as dead in so long, or since. */
static void stand(const char *owner, int64_t left_ms)
{
    char *time = server_command(servers[0], "TIME");
    const long long now_ms = strtoll(time, NULL, 10) * 1000;
    free(time);
    free(server_command(servers[0], "RPUSH %s %s", QUEUE, owner));
    free(server_command(servers[0], "ZADD %s %lld %s", TIMES, now_ms + left_ms, owner));
}

static void assert_no_queue(void)
{
    assert_int_equal(server_integer(servers[0], "EXISTS " QUEUE " " TIMES), 0);
}

static void assert_given_at_once(pawl_lock *multi)
{
    script_calls(0);
    ASSERT_OK(pawl_lock_acquire(multi, PAWL_TRY));
    assert_int_equal(script_calls(0), 1);
    assert_int_equal(held_count(0), KINDS);
    assert_no_queue();
    ASSERT_OK(pawl_lock_release(multi));
    assert_int_equal(held_count(0), 0);
}

/* By one script, because of the fair member. */
static void assert_not_given(pawl_lock *multi, pawl_status status, int64_t held)
{
    script_calls(0);
    ASSERT_STATUS(status, pawl_lock_acquire(multi, PAWL_TRY));
    assert_int_equal(script_calls(0), 1);
    assert_non_null(strstr(pawl_last_error(), "member 2 of 3"));
    assert_non_null(strstr(pawl_last_error(), "m001"));
    assert_int_equal(pawl_lock_member_status(multi, FAIR), status);
    assert_int_equal(pawl_lock_member_status(multi, MUTEX), PAWL_OK);
    assert_int_equal(held_count(0), held);
}

/* ===== One command ===== */

static void one_script(void **state)
{
    (void)state;
    pawl_lock *members[KINDS];
    pawl_lock *multi = open_fair_set(open_client(0), members);
    uint64_t tokens[KINDS] = {0};
    char owner[PAWL_OWNER_SIZE];
    warm_up(multi);
    for (int round = 0; round < 4; round++) {
        script_calls(0);
        ASSERT_OK(pawl_lock_acquire(multi, round % 2 == 0 ? PAWL_TRY : BOUND_MS));
        assert_int_equal(script_calls(0), 1);
        for (size_t i = 0; i < KINDS; i++) {
            assert_true(pawl_lock_token(members[i]) > tokens[i]);
            tokens[i] = pawl_lock_token(members[i]);
            assert_true(server_integer(servers[0], "PTTL m%03zu", i) > 0);
        }
        ASSERT_OK(pawl_lock_owner(members[FAIR], owner, sizeof owner));
        assert_true(server_answers(servers[0], "1", "HGET m001 %s", owner));
        assert_no_queue();
        ASSERT_OK(pawl_lock_release(multi));
        assert_int_equal(held_count(0), 0);
    }
}

static void only_fair_ones(void **state)
{
    (void)state;
    pawl_client *client = open_client(0);
    pawl_lock *members[EIGHT];
    for (size_t i = 0; i < EIGHT; i++) {
        members[i] = open_kind(client, i, PAWL_FAIR);
    }
    pawl_lock *multi = open_multi(members, EIGHT);
    warm_up(multi);
    script_calls(0);
    ASSERT_OK(pawl_lock_acquire(multi, PAWL_TRY));
    assert_int_equal(script_calls(0), 1);
    assert_int_equal(held_count(0), EIGHT);
    ASSERT_OK(pawl_lock_release(multi));
    assert_int_equal(held_count(0), 0);
}

static void held_before(void **state)
{
    (void)state;
    pawl_lock *members[KINDS];
    pawl_lock *multi = open_fair_set(open_client(0), members);
    warm_up(multi);
    ASSERT_OK(pawl_lock_acquire(members[FAIR], PAWL_TRY));
    const uint64_t token = pawl_lock_token(members[FAIR]);
    stand(THEIRS, 60000); /* who has it already goes before everybody */
    ASSERT_OK(pawl_lock_acquire(multi, PAWL_TRY));
    assert_int_equal(pawl_lock_hold_count(members[FAIR]), 2);
    assert_int_equal(pawl_lock_token(members[FAIR]), token);
    ASSERT_OK(pawl_lock_release(multi));
    assert_int_equal(held_count(0), 1);
    ASSERT_OK(pawl_lock_release(members[FAIR]));
    assert_true(server_answers(servers[0], THEIRS, "LRANGE " QUEUE " 0 -1"));
}

/* By the same tenures nothing is counted twice. Who stands first in the queue gets it and leaves,
 * and others stay. */
static void asked_again(void **state)
{
    (void)state;
    const char *const words[] = {"EVAL", pawl__script_acquire_mixed.text, "6", "t:{a}", "a",
        "t:{m001}", "m001", QUEUE, TIMES, "0", "1", "mf", "x:1", "9000", "1", OURS, "9000", "1",
        "channel", "5000"};
    const size_t count = sizeof words / sizeof words[0];
    stand(OURS, -5000);
    stand(THEIRS, 60000);
    char *first = server_command_words(servers[0], count, words);
    assert_true(server_answers(servers[0], "1", "HGET m001 " OURS));
    assert_true(server_answers(servers[0], THEIRS, "LRANGE " QUEUE " 0 -1"));
    assert_true(server_answers(servers[0], THEIRS, "ZRANGE " TIMES " 0 -1"));
    char *second = server_command_words(servers[0], count, words);
    assert_string_equal(first, second);
    assert_true(server_answers(servers[0], "1", "HGET m001 " OURS));
    assert_true(server_answers(servers[0], THEIRS, "LRANGE " QUEUE " 0 -1"));
    free(first);
    free(second);
}

/* ===== The queue ===== */

static void somebody_stands_there(void **state)
{
    (void)state;
    static const char *const waiters[] = {THEIRS, OURS};
    pawl_lock *members[KINDS];
    pawl_lock *multi = open_fair_set(open_client(0), members);
    warm_up(multi);
    for (size_t i = 0; i < 2; i++) {
        stand(waiters[i], 60000);
        assert_not_given(multi, PAWL_BUSY, 0);
        assert_true(server_answers(servers[0], waiters[i], "LRANGE " QUEUE " 0 -1"));
        assert_true(server_answers(servers[0], waiters[i], "ZRANGE " TIMES " 0 -1"));
        free(server_command(servers[0], "DEL " QUEUE " " TIMES));
        assert_given_at_once(multi);
    }
}

/* As for a single one that tries: the dead keep nobody out, and who comes after them is told. */
static void the_dead_are_removed(void **state)
{
    (void)state;
    pawl_lock *members[KINDS];
    pawl_lock *multi = open_fair_set(open_client(0), members);
    warm_up(multi);
    stand(THEIRS, -2000);
    stand(OURS, -1000);
    assert_given_at_once(multi);

    stand(THEIRS, -2000);
    stand(OURS, 60000);
    free(server_command(servers[0], "CONFIG RESETSTAT"));
    ASSERT_STATUS(PAWL_BUSY, pawl_lock_acquire(multi, PAWL_TRY));
    char *stats = server_command(servers[0], "INFO commandstats");
    assert_non_null(strstr(stats, "cmdstat_publish:calls=1,"));
    free(stats);
    assert_true(server_answers(servers[0], OURS, "LRANGE " QUEUE " 0 -1"));
    assert_true(server_answers(servers[0], OURS, "ZRANGE " TIMES " 0 -1"));
    assert_int_equal(held_count(0), 0);
}

/* No more than a thousand by one script, in all queues of the set: the next goes on. */
static void many_dead(void **state)
{
    (void)state;
    static const char fill[] = "for i = 1, 600 do redis.call('RPUSH', KEYS[1], 'dead:' .. i) end";
    pawl_client *client = open_client(0);
    pawl_lock *members[] = {open_kind(client, 0, PAWL_FAIR), open_kind(client, 1, PAWL_FAIR)};
    pawl_lock *multi = open_multi(members, 2);
    static const char *const queues[] = {"redisson_lock_queue:{m000}", QUEUE};
    for (size_t i = 0; i < 2; i++) {
        const char *const words[] = {"EVAL", fill, "1", queues[i]};
        free(server_command_words(servers[0], 4, words));
    }
    ASSERT_STATUS(PAWL_BUSY, pawl_lock_acquire(multi, PAWL_TRY));
    assert_int_equal(server_integer(servers[0], "LLEN %s", queues[0]), 0);
    assert_int_equal(server_integer(servers[0], "LLEN %s", queues[1]), 200);
    ASSERT_OK(pawl_lock_acquire(multi, PAWL_TRY));
    ASSERT_OK(pawl_lock_release(multi));
    assert_no_queue();
}

/* One of ours was believed to live for long because of those who stood before it, and they have
 * gone. */
static void too_long_a_life_is_cut(void **state)
{
    (void)state;
    pawl_lock *members[KINDS];
    pawl_lock *multi = open_fair_set(open_client(0), members);
    stand(OURS, 3600000);
    const int64_t before = server_integer(servers[0], "ZSCORE " TIMES " " OURS);
    ASSERT_STATUS(PAWL_BUSY, pawl_lock_acquire(multi, PAWL_TRY));
    assert_true(server_integer(servers[0], "ZSCORE " TIMES " " OURS) < before - 3000000);
}

static void half_a_queue(void **state)
{
    (void)state;
    pawl_lock *members[KINDS];
    pawl_lock *multi = open_fair_set(open_client(0), members);
    warm_up(multi);
    free(server_command(servers[0], "ZADD " TIMES " 9000000000000 " OURS));
    assert_given_at_once(multi);
    free(server_command(servers[0], "RPUSH " QUEUE " " OURS));
    assert_given_at_once(multi);
}

static void a_queue_that_is_none(void **state)
{
    (void)state;
    static const char *const keys[] = {QUEUE, TIMES};
    pawl_lock *members[KINDS];
    pawl_lock *multi = open_fair_set(open_client(0), members);
    warm_up(multi);
    for (size_t i = 0; i < 2; i++) {
        free(server_command(servers[0], "SET %s data", keys[i]));
        ASSERT_STATUS(PAWL_REFUSED, pawl_lock_acquire(members[FAIR], PAWL_TRY));
        char alone[512];
        snprintf(alone, sizeof alone, "%s", pawl_last_error());
        assert_not_given(multi, PAWL_REFUSED, 0);
        assert_non_null(strstr(pawl_last_error(), alone));
        free(server_command(servers[0], "DEL %s", keys[i]));
        assert_given_at_once(multi);
    }
}

static void one_that_is_held(void **state)
{
    (void)state;
    pawl_lock *members[KINDS];
    pawl_lock *multi = open_fair_set(open_client(0), members);
    warm_up(multi);
    occupy(0, FAIR);
    assert_not_given(multi, PAWL_BUSY, 1);
    assert_no_queue();
    vacate(0, FAIR);
    occupy(0, WRITE);
    ASSERT_STATUS(PAWL_BUSY, pawl_lock_acquire(multi, PAWL_TRY));
    assert_non_null(strstr(pawl_last_error(), "member 3 of 3"));
    assert_int_equal(held_count(0), 1);
    vacate(0, WRITE);
    assert_given_at_once(multi);
}

/* ===== Order ===== */

static int64_t line(void)
{
    return server_integer(servers[0], "LLEN " QUEUE);
}

static _Atomic int turns;
static int got[3];

/* `arg` is where to write which turn it was: one has it at a time, and who reads it waits for
 * `turns`. */
static void note_turn(pawl_lock *lock, pawl_status status, void *arg)
{
    (void)lock;
    ASSERT_OK(status);
    *(int *)arg = atomic_load(&turns);
    atomic_fetch_add(&turns, 1);
}

static void start_turn(pawl_lock *lock, size_t which)
{
    ASSERT_OK(pawl_lock_acquire_async(lock, PAWL_FOREVER, note_turn, &got[which]));
}

/* A set that waits stands in the queue, between those who came before and after; one that tries
 * never overtakes. Of its own client, or of another. */
static void nobody_is_overtaken(void **state)
{
    (void)state;
    for (int same = 0; same < 2; same++) {
        pawl_client *client = open_client(0);
        pawl_client *other = same == 1 ? client : open_client(0);
        pawl_lock *members[KINDS];
        pawl_lock *multi = open_fair_set(client, members);
        pawl_lock *tries = open_fair_set(client, members);
        pawl_lock *holder = open_kind(other, FAIR, PAWL_FAIR);
        pawl_lock *locks[] = {
            open_kind(other, FAIR, PAWL_FAIR), multi, open_kind(other, FAIR, PAWL_FAIR)};
        ASSERT_OK(pawl_lock_acquire(holder, PAWL_TRY));
        atomic_store(&turns, 0);
        for (size_t i = 0; i < 3; i++) {
            start_turn(locks[i], i);
            WAIT_UNTIL(line() == (int64_t)i + 1, BOUND_MS);
        }
        ASSERT_OK(pawl_lock_release(holder));
        for (int i = 0; i < 3; i++) {
            while (atomic_load(&turns) <= i) {
                ASSERT_STATUS(PAWL_BUSY, pawl_lock_acquire(tries, PAWL_TRY));
            }
            assert_int_equal(got[i], i);
            ASSERT_OK(pawl_lock_release(locks[i]));
        }
        WAIT_UNTIL(held_count(0) == 0, BOUND_MS);
        assert_no_queue();
    }
}

/* Everybody comes and goes, sets and single ones, of one client and of two. */
static _Atomic bool over;
static _Atomic int inside;
static _Atomic int surprise;

static void *come_and_go(void *lock)
{
    while (!atomic_load(&over)) {
        const pawl_status status = pawl_lock_acquire(lock, 50);
        if (status == PAWL_OK) {
            if (atomic_fetch_add(&inside, 1) != 0) {
                atomic_store(&surprise, 1);
            }
            atomic_fetch_sub(&inside, 1);
            pawl_lock_release(lock);
        } else if (status != PAWL_BUSY) {
            atomic_store(&surprise, 2);
        }
    }
    return NULL;
}

static void a_crowd(void **state)
{
    (void)state;
    enum { CROWD = 6, TIMES_ALL = 60 };
    pawl_client *clients[2] = {open_client(0), open_client(0)};
    pawl_lock *members[KINDS];
    pthread_t threads[CROWD];
    atomic_store(&over, false);
    atomic_store(&surprise, 0);
    for (size_t i = 0; i < CROWD; i++) {
        pawl_client *client = clients[i % 2];
        pawl_lock *lock =
            i < 3 ? open_fair_set(client, members) : open_kind(client, FAIR, PAWL_FAIR);
        assert_int_equal(pthread_create(&threads[i], NULL, come_and_go, lock), 0);
    }
    pawl_lock *multi = open_fair_set(clients[0], members);
    for (int i = 0; i < TIMES_ALL; i++) {
        ASSERT_OK(pawl_lock_acquire(multi, BOUND_MS));
        assert_int_equal(held_count(0), KINDS);
        assert_int_equal(atomic_load(&inside), 0);
        ASSERT_OK(pawl_lock_release(multi));
    }
    atomic_store(&over, true);
    for (size_t i = 0; i < CROWD; i++) {
        pthread_join(threads[i], NULL);
    }
    assert_int_equal(atomic_load(&surprise), 0);
    WAIT_UNTIL(held_count(0) == 0 && line() == 0, BOUND_MS);
}

/* ===== When something goes wrong ===== */

static void lost_answer(void **state)
{
    (void)state;
    for (int waits = 0; waits < 2; waits++) {
        struct proxy *proxy = proxy_start_for(servers[0]);
        pawl_client *client = open_at(proxy_url(proxy), TIMEOUT_MS);
        pawl_lock *members[KINDS];
        pawl_lock *multi = open_fair_set(client, members);
        warm_up(multi);
        proxy_cut_reply_of(proxy, "EVALSHA", 1, PROXY_RST);
        const pawl_status status = pawl_lock_acquire(multi, waits == 0 ? PAWL_TRY : BOUND_MS);
        if (waits == 1) {
            ASSERT_OK(status);
        }
        if (status == PAWL_OK) {
            assert_int_equal(held_count(0), KINDS);
            assert_true(server_answers(servers[0], "1", "HVALS m001"));
            ASSERT_OK(pawl_lock_release(multi));
        }
        WAIT_UNTIL(held_count(0) == 0, BOUND_MS);
        assert_no_queue();
    }
}

static void frozen_server(void **state)
{
    (void)state;
    pawl_lock *members[KINDS];
    pawl_lock *multi = open_fair_set(open_client(0), members);
    warm_up(multi);
    server_pause(servers[0]);
    ASSERT_STATUS(PAWL_UNAVAILABLE, pawl_lock_acquire(multi, PAWL_TRY));
    ASSERT_STATUS(PAWL_UNAVAILABLE, pawl_lock_acquire(multi, 50));
    server_resume(servers[0]);
    WAIT_UNTIL(held_count(0) == 0 && line() == 0, BOUND_MS);
    ASSERT_OK(pawl_lock_acquire(multi, BOUND_MS));
    assert_int_equal(held_count(0), KINDS);
    ASSERT_OK(pawl_lock_release(multi));
}

static void forbidden(const char *rights)
{
    pawl_client *client = NULL;
    char url[128];
    pawl_lock *members[KINDS];
    free(server_command(servers[0], "ACL SETUSER part reset on >secret &* +@all %s", rights));
    snprintf(url, sizeof url, "redis://part:secret@127.0.0.1:%u?lazy=1",
        (unsigned)server_port(servers[0]));
    ASSERT_OK(pawl_client_open(url, NULL, &client));
    cleanup_add(end_client, client);
    pawl_lock *multi = open_fair_set(client, members);
    for (int64_t wait_ms = 0; wait_ms < 3000; wait_ms += 2000) {
        ASSERT_STATUS(PAWL_DENIED, pawl_lock_acquire(multi, wait_ms));
        assert_non_null(strstr(pawl_last_error(), "member 2 of 3"));
        WAIT_UNTIL(held_count(0) == 0, BOUND_MS);
        assert_no_queue();
    }
}

/* The server refuses the whole command because of one key, or the script comes to it. */
static void a_queue_that_is_denied(void **state)
{
    (void)state;
    forbidden("~m* ~redisson_lock_token* ~redisson_rwlock* ~{m* ~redisson_lock_timeout*");
    forbidden("~* -llen");
    forbidden("~* -zcard");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(one_script),
        CASE(only_fair_ones),
        CASE(held_before),
        CASE(asked_again),
        CASE(somebody_stands_there),
        CASE(the_dead_are_removed),
        CASE(many_dead),
        CASE(too_long_a_life_is_cut),
        CASE(half_a_queue),
        CASE(a_queue_that_is_none),
        CASE(one_that_is_held),
        CASE(nobody_is_overtaken),
        CASE(a_crowd),
        CASE(lost_answer),
        CASE(frozen_server),
        CASE(a_queue_that_is_denied),
    };
    return cmocka_run_group_tests(tests, start_servers, NULL);
}
