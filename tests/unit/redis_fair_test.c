/* SPDX-License-Identifier: Apache-2.0 */
/* Fair locks in the Redis engine: do the queue and its times lie in the server as Redisson's do, is
 * exactly the one told whose turn it is, and does nobody who died or left half a trace block the
 * rest? Of waiters of Redisson before ours redis_fair_mixed_test.c knows more.
 *
 * Method: as in redis_engine_test.c. Waiters of Redisson are put into the queue by the test, with
 * the numbers that Redisson would write. */
#include "redis_fair.h"

#include <unistd.h>

static void assert_free(bool expected)
{
    assert_int_equal(server_integer(server, "EXISTS lock"), expected ? 0 : 1);
}

/* ===== Asking ===== */

static void held_as_a_mutex_is(void **state)
{
    (void)state;
    struct pawl__place *place = fair_open(&side);
    struct call call;
    assert_int_equal(stand(&side, &call, place, 1), PAWL__DONE);
    const uint64_t token = call.op.token;
    assert_true(token > UINT64_C(1500000000000000));
    char expected[96];
    snprintf(expected, sizeof expected, "%s 1", owner_of(&side, 1));
    assert_true(server_answers(server, expected, "HGETALL lock"));
    const int64_t ttl_ms = server_integer(server, "PTTL lock");
    assert_true(ttl_ms > 30000 - BOUND_MS && ttl_ms <= 30000);
    assert_queue(0, NULL);

    assert_int_equal(stand(&side, &call, place, 1), PAWL__DONE); /* a repeated question */
    assert_true(call.op.token == token);
    assert_true(server_answers(server, expected, "HGETALL lock"));
    assert_answer(&side, place, PAWL__OP_RENEW, 1, PAWL__DONE);
    assert_answer(&side, place, PAWL__OP_VERIFY, 1, PAWL__DONE);
    assert_answer(&side, place, PAWL__OP_VERIFY, 2, PAWL__GONE);
    call_init(&call, place, PAWL__OP_COUNT, 1);
    call.op.count = 3;
    call_run(&side, &call);
    assert_int_equal(call.op.answer, PAWL__DONE);
    pawl_lock_info info = {.size = sizeof info};
    call_init(&call, place, PAWL__OP_INSPECT, 0);
    call.op.info = &info;
    call_run(&side, &call);
    assert_int_equal(info.hold_count, 3);
    assert_true(info.token == token);

    assert_answer(&side, place, PAWL__OP_RELEASE, 2, PAWL__GONE);
    assert_int_equal(ask(&side, &call, place, PAWL__OP_RELEASE, 1), PAWL__DONE);
    assert_false(call.op.others);
    assert_answer(&side, place, PAWL__OP_RELEASE, 1, PAWL__GONE);
    assert_int_equal(server_integer(server, "EXISTS lock " QUEUE " " TIMES), 0);
    place_close(&side, place);
}

static void waiters_stand_in_order(void **state)
{
    (void)state;
    struct pawl__place *place = fair_open(&side);
    acquire(&side, place, 1);
    for (uint64_t id = 2; id <= 4; id++) {
        const int64_t hint_us = assert_stands(&side, place, id);
        assert_true(hint_us > (30000 - BOUND_MS) * 1000 && hint_us <= 30000000);
    }
    assert_stands(&side, place, 2); /* asked again, it stays where it is */
    const char *const two = owner_of(&side, 2);
    const char *const three = owner_of(&side, 3);
    const char *const four = owner_of(&side, 4);
    ASSERT_QUEUE(two, three, four);
    assert_left(two, WAIT_MS);
    assert_left(four, WAIT_MS);

    /* Free, but each gets it only in its turn, and a try never stands. */
    assert_answer(&side, place, PAWL__OP_RELEASE, 1, PAWL__DONE);
    const int64_t hint_us = assert_stands(&side, place, 4);
    assert_true(hint_us > 0 && hint_us <= 1000000);
    assert_answer(&side, place, PAWL__OP_ACQUIRE, 5, PAWL__HELD);
    ASSERT_QUEUE(two, three, four);
    assert_free(true);
    struct call call;
    assert_int_equal(stand(&side, &call, place, 2), PAWL__DONE);
    const uint64_t token = call.op.token;
    ASSERT_QUEUE(three, four);
    assert_answer(&side, place, PAWL__OP_RELEASE, 2, PAWL__DONE);
    assert_int_equal(ask(&side, &call, place, PAWL__OP_ACQUIRE, 3), PAWL__DONE);
    assert_true(call.op.token == token + 1);
    ASSERT_QUEUE(four);
    place_close(&side, place);
}

static void asking_keeps_alive(void **state)
{
    (void)state;
    struct pawl__place *place = fair_open(&side);
    acquire(&side, place, 1);
    assert_stands(&side, place, 2);
    const char *const two = owner_of(&side, 2);
    set_left(two, -1);
    assert_true(left_ms(two) < 0);
    assert_stands(&side, place, 2); /* late, but here: it is not its own stale head */
    ASSERT_QUEUE(two);
    assert_left(two, WAIT_MS);
    set_left(two, 60000);
    assert_stands(&side, place, 2);
    assert_left(two, WAIT_MS); /* nobody stands before it for whom it would need more */
    place_close(&side, place);
}

static void lock_without_ttl_is_no_zero(void **state)
{
    (void)state;
    struct pawl__place *place = fair_open(&side);
    free(server_command(server, "HSET lock " JAVA " 1"));
    assert_true(assert_stands(&side, place, 1) < 0);
    free(server_command(server, "PEXPIRE lock 1000000"));
    assert_true(assert_stands(&side, place, 1) > 0);
    place_close(&side, place);
}

/* ===== The dead ===== */

static void dead_heads_are_removed(void **state)
{
    (void)state;
    struct pawl__place *place = fair_open(&side);
    put_waiter(DEAD, -1);
    put_waiter(JAVA, -100000);
    server_integer(server, "RPUSH " QUEUE " half-of-one"); /* no time at all */
    acquire(&side, place, 1);
    assert_queue(0, NULL);

    put_waiter(DEAD, -1); /* by who has to wait, too, even if it only tries */
    assert_answer(&side, place, PAWL__OP_ACQUIRE, 2, PAWL__HELD);
    assert_queue(0, NULL);
    put_waiter(DEAD, -1);
    assert_stands(&side, place, 2);
    ASSERT_QUEUE(owner_of(&side, 2));
    place_close(&side, place);
}

static void dead_head_blocks_until_its_time(void **state)
{
    (void)state;
    struct pawl__place *place = fair_open(&side);
    put_waiter(DEAD, 300);
    const int64_t hint_us = assert_stands(&side, place, 1);
    assert_true(hint_us > 0 && hint_us <= 300000);
    assert_free(true);
    struct call call;
    WAIT_UNTIL(stand(&side, &call, place, 1) == PAWL__DONE, BOUND_MS);
    assert_queue(0, NULL);
    place_close(&side, place);
}

/* However many died at once, they are gone after one wait. */
static void many_dead_are_gone_at_once(void **state)
{
    (void)state;
    struct pawl__place *place = fair_open(&side);
    acquire(&side, place, 1);
    for (uint64_t id = 2; id < 40; id++) {
        assert_stands(&side, place, id);
        assert_left(owner_of(&side, id), WAIT_MS);
    }
    place_close(&side, place);
}

static void halves_are_mended(void **state)
{
    (void)state;
    struct pawl__place *place = fair_open(&side);
    acquire(&side, place, 1);
    assert_stands(&side, place, 2);
    assert_stands(&side, place, 3);
    const char *const two = owner_of(&side, 2);
    const char *const three = owner_of(&side, 3);
    free(server_command(server, "ZREM " TIMES " %s", three)); /* listed, without a time */
    assert_stands(&side, place, 3);
    ASSERT_QUEUE(two, three);
    free(server_command(server, "LREM " QUEUE " 0 %s", three)); /* a time, but not listed */
    assert_stands(&side, place, 3);
    ASSERT_QUEUE(two, three);
    free(server_command(server, "DEL " QUEUE));
    free(server_command(server, "DEL lock"));
    acquire(&side, place, 4);
    assert_queue(0, NULL); /* times of nobody do not stay for ever */
    place_close(&side, place);
}

/* ===== Who is told ===== */

static void only_the_head_is_told(void **state)
{
    (void)state;
    struct pawl__place *place = fair_open(&side);
    acquire(&side, place, 1);
    put_waiter(DEAD, -1);
    put_waiter(JAVA, JAVA_WAIT_MS);
    assert_stands(&side, place, 2);
    put_waiter(DEAD, -1); /* came back, behind */
    const int dead = subscriber(DEAD);
    const int java = subscriber(JAVA);
    struct call call;
    assert_int_equal(ask(&side, &call, place, PAWL__OP_RELEASE, 1), PAWL__DONE);
    assert_true(call.op.others);
    assert_told(java, JAVA);
    assert_not_told(dead);

    /* Who gives up without having been first tells nobody. */
    assert_stands(&side, place, 3);
    assert_answer(&side, place, PAWL__OP_RELEASE, 3, PAWL__GONE);
    assert_not_told(java);
    close(dead);
    close(java);
    place_close(&side, place);
}

static void head_that_gives_up_tells_the_next(void **state)
{
    (void)state;
    struct pawl__place *place = fair_open(&side);
    acquire(&side, place, 1);
    assert_stands(&side, place, 2);
    put_waiter(JAVA, JAVA_WAIT_MS);
    const int java = subscriber(JAVA);
    struct call call;
    assert_int_equal(ask(&side, &call, place, PAWL__OP_RELEASE, 1), PAWL__DONE);
    assert_false(call.op.others); /* the turn is our own */
    assert_not_told(java);
    assert_answer(&side, place, PAWL__OP_RELEASE, 2, PAWL__GONE);
    assert_told(java, JAVA);
    ASSERT_QUEUE(JAVA);

    /* While somebody holds, giving up is nobody's turn. */
    free(server_command(server, "HSET lock " DEAD " 1"));
    server_integer(server, "LPUSH " QUEUE " %s", owner_of(&side, 5));
    server_integer(
        server, "ZADD " TIMES " %lld %s", (long long)(server_ms() + 9999), owner_of(&side, 5));
    assert_answer(&side, place, PAWL__OP_RELEASE, 5, PAWL__GONE);
    assert_not_told(java);
    ASSERT_QUEUE(JAVA);
    close(java);
    place_close(&side, place);
}

static void break_tells_the_head(void **state)
{
    (void)state;
    struct pawl__place *place = fair_open(&side);
    assert_answer(&side, place, PAWL__OP_BREAK, 0, PAWL__GONE);
    acquire(&side, place, 1);
    put_waiter(DEAD, -1);
    put_waiter(JAVA, JAVA_WAIT_MS);
    const int java = subscriber(JAVA);
    assert_answer(&side, place, PAWL__OP_BREAK, 0, PAWL__DONE);
    assert_told(java, JAVA);
    assert_free(true);
    ASSERT_QUEUE(JAVA);
    close(java);
    free(server_command(server, "DEL " QUEUE " " TIMES));
    free(server_command(server, "SET lock data"));
    struct call call;
    assert_int_equal(ask(&side, &call, place, PAWL__OP_BREAK, 0), PAWL__FAILED);
    call_free(&call);
    assert_true(server_answers(server, "data", "GET lock"));
    place_close(&side, place);
}

/* ===== Bad days ===== */

static void keys_of_somebody_else(void **state)
{
    (void)state;
    struct pawl__place *place = fair_open(&side);
    struct call call;
    free(server_command(server, "SET " QUEUE " data"));
    assert_int_equal(stand(&side, &call, place, 1), PAWL__FAILED);
    assert_ended(&call, PAWL__FAILED, PAWL_REFUSED, false, "redisson_lock_queue");
    assert_free(true);
    free(server_command(server, "DEL " QUEUE));
    acquire(&side, place, 1);
    free(server_command(server, "SET " TIMES " data"));
    server_integer(server, "RPUSH " QUEUE " " JAVA);
    assert_int_equal(stand(&side, &call, place, 2), PAWL__FAILED);
    call_free(&call);
    assert_answer(&side, place, PAWL__OP_RELEASE, 1, PAWL__DONE); /* that works all the same */
    assert_free(true);
    free(server_command(server, "DEL " QUEUE " " TIMES));
    free(server_command(server, "SET lock data"));
    assert_int_equal(stand(&side, &call, place, 3), PAWL__FAILED);
    assert_ended(&call, PAWL__FAILED, PAWL_REFUSED, false, "lock");
    assert_queue(0, NULL);
    place_close(&side, place);
}

static void server_forgets_the_scripts(void **state)
{
    (void)state;
    struct pawl__place *place = fair_open(&side);
    free(server_command(server, "SCRIPT FLUSH"));
    acquire(&side, place, UINT64_MAX);
    free(server_command(server, "SCRIPT FLUSH"));
    assert_answer(&side, place, PAWL__OP_BREAK, 0, PAWL__DONE);
    acquire(&side, place, UINT64_MAX - 1);
    free(server_command(server, "SCRIPT FLUSH"));
    assert_answer(&side, place, PAWL__OP_RELEASE, UINT64_MAX - 1, PAWL__DONE);
    place_close(&side, place);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(held_as_a_mutex_is),
        CASE(waiters_stand_in_order),
        CASE(asking_keeps_alive),
        CASE(lock_without_ttl_is_no_zero),
        CASE(dead_heads_are_removed),
        CASE(dead_head_blocks_until_its_time),
        CASE(many_dead_are_gone_at_once),
        CASE(halves_are_mended),
        CASE(only_the_head_is_told),
        CASE(head_that_gives_up_tells_the_next),
        CASE(break_tells_the_head),
        CASE(keys_of_somebody_else),
        CASE(server_forgets_the_scripts),
    };
    return cmocka_run_group_tests(tests, fixture_start, NULL);
}
