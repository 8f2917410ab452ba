/* SPDX-License-Identifier: Apache-2.0 */
/* Fair locks in the Redis engine: do the queue and its times lie in the server as Redisson's do, is
 * exactly the one told whose turn it is, and does nobody who died or left half a trace block the
 * rest?
 *
 * Method: as in redis_engine_test.c. Waiters of Redisson are put into the queue by the test, with
 * the numbers that Redisson would write. */
#include "redis_fixture.h"

#include "support/sockets.h"
#include "support/wire.h"

#include <unistd.h>

#define QUEUE "redisson_lock_queue:{lock}"
#define TIMES "redisson_lock_timeout:{lock}"
#define CHANNEL "redisson_lock__channel:{lock}"
#define JAVA "285475da-9152-4c83-822a-67ee2f116a79:54"
#define DEAD "00000000-9152-4c83-822a-67ee2f116a79:1"

enum { WAIT_MS = 5000, JAVA_WAIT_MS = 300000, SLACK_MS = 3000 };

static struct pawl__place *fair_open(struct side *one)
{
    return place_open_as(one, "lock", PAWL__FAMILY_FAIR);
}

static const char *owner_of(const struct side *one, uint64_t id)
{
    static char owners[4][64];
    static unsigned next;
    char *owner = owners[next++ % 4];
    snprintf(owner, 64, "%s:%llu", one->host.uuid, (unsigned long long)id);
    return owner;
}

static int64_t server_ms(void)
{
    char *reply = server_command(server, "TIME");
    long long seconds = 0;
    long long rest_us = 0;
    assert_int_equal(sscanf(reply, "%lld %lld", &seconds, &rest_us), 2);
    free(reply);
    return seconds * 1000 + rest_us / 1000;
}

/* When this waiter counts as dead, from now. */
static int64_t left_ms(const char *owner)
{
    char *reply = server_command(server, "ZSCORE " TIMES " %s", owner);
    assert_null(strpbrk(reply, ".e")); /* Redisson reads an integer */
    const int64_t score = strtoll(reply, NULL, 10);
    free(reply);
    assert_true(score > 0);
    return score - server_ms();
}

static void assert_left(const char *owner, int64_t ms)
{
    const int64_t left = left_ms(owner);
    if (left > ms || left < ms - SLACK_MS) {
        support_fail("%s has %lld ms left, not about %lld", owner, (long long)left, (long long)ms);
    }
}

/* The queue, head first, and the times of the same members. */
static void assert_queue(size_t count, const char *const *owners)
{
    char expected[512] = "";
    for (size_t i = 0; i < count; i++) {
        const size_t used = strlen(expected);
        snprintf(expected + used, sizeof expected - used, "%s%s", i > 0 ? " " : "", owners[i]);
        left_ms(owners[i]);
    }
    if (count == 0) {
        assert_int_equal(server_integer(server, "EXISTS " QUEUE " " TIMES), 0);
        return;
    }
    assert_true(server_answers(server, expected, "LRANGE " QUEUE " 0 -1"));
    assert_int_equal(server_integer(server, "ZCARD " TIMES), count);
    assert_int_equal(server_integer(server, "PTTL " QUEUE), -1);
}

#define ASSERT_QUEUE(...)                                          \
    do {                                                           \
        const char *const owners_[] = {__VA_ARGS__};               \
        assert_queue(sizeof owners_ / sizeof owners_[0], owners_); \
    } while (0)

static enum pawl__answer stand(
    struct side *one, struct call *call, struct pawl__place *place, uint64_t id)
{
    call_init(call, place, PAWL__OP_ACQUIRE, id);
    call->op.queue = true;
    call_run(one, call);
    return call->op.answer;
}

/* Ask, stand in the queue, and be told not to ask in a loop. */
static int64_t assert_stands(struct side *one, struct pawl__place *place, uint64_t id)
{
    struct call call;
    assert_int_equal(stand(one, &call, place, id), PAWL__HELD);
    assert_true(call.op.hint_us != 0);
    return call.op.hint_us;
}

/* Somebody in the queue who does not ask. */
static void put_waiter(const char *owner, int64_t in_ms)
{
    assert_int_equal(
        server_integer(server, "ZADD " TIMES " %lld %s", (long long)(server_ms() + in_ms), owner),
        1);
    server_integer(server, "RPUSH " QUEUE " %s", owner);
}

static int subscriber(const char *owner)
{
    const int fd = socket_connect(server_port(server));
    char line[256];
    char expected[256];
    snprintf(line, sizeof line, "SUBSCRIBE '" CHANNEL ":%s'", owner);
    snprintf(expected, sizeof expected, "subscribe " CHANNEL ":%s 1", owner);
    assert_true(wire_answers(fd, line, expected));
    return fd;
}

static void assert_heard(int fd, const char *owner)
{
    char expected[256];
    snprintf(expected, sizeof expected, "message " CHANNEL ":%s 0", owner);
    char *message = wire_receive(fd, BOUND_MS);
    assert_non_null(message);
    assert_string_equal(message, expected);
    free(message);
}

/* Nothing came, or the answer to PING would not be the first word. */
static void assert_silent(int fd)
{
    assert_true(wire_answers(fd, "PING", "pong "));
}

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
    server_integer(server, "ZADD " TIMES " %lld %s", (long long)(server_ms() - 1), two);
    assert_true(left_ms(two) < 0);
    assert_stands(&side, place, 2); /* late, but here: it is not its own stale head */
    ASSERT_QUEUE(two);
    assert_left(two, WAIT_MS);
    server_integer(server, "ZADD " TIMES " %lld %s", (long long)(server_ms() + 60000), two);
    assert_stands(&side, place, 2);
    assert_left(two, 60000); /* never lowered */
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

/* ===== Among waiters of Redisson ===== */

static void behind_a_waiter_of_redisson(void **state)
{
    (void)state;
    struct pawl__place *place = fair_open(&side);
    acquire(&side, place, 1);
    put_waiter(JAVA, 30000 + JAVA_WAIT_MS);
    assert_stands(&side, place, 2);
    assert_stands(&side, place, 3);
    const char *const two = owner_of(&side, 2);
    const char *const three = owner_of(&side, 3);
    ASSERT_QUEUE(JAVA, two, three);
    assert_left(two, 30000 + JAVA_WAIT_MS + WAIT_MS);
    assert_left(three, 30000 + JAVA_WAIT_MS + 2 * WAIT_MS);

    /* It gets the lock: what it takes off is what it had put on. */
    free(server_command(server, "LPOP " QUEUE));
    free(server_command(server, "ZREM " TIMES " " JAVA));
    free(server_command(server, "ZINCRBY " TIMES " -300000 %s", two));
    free(server_command(server, "ZINCRBY " TIMES " -300000 %s", three));
    assert_left(two, 30000 + WAIT_MS);
    assert_answer(&side, place, PAWL__OP_RELEASE, 1, PAWL__DONE);
    struct call call;
    assert_int_equal(stand(&side, &call, place, 2), PAWL__DONE);
    ASSERT_QUEUE(three);
    assert_left(three, 30000 + WAIT_MS); /* and so do we */
    place_close(&side, place);
}

static void before_a_waiter_of_redisson(void **state)
{
    (void)state;
    struct pawl__place *place = fair_open(&side);
    acquire(&side, place, 1);
    assert_stands(&side, place, 2);
    put_waiter(JAVA, WAIT_MS + JAVA_WAIT_MS);
    assert_answer(&side, place, PAWL__OP_RELEASE, 1, PAWL__DONE);
    struct call call;
    assert_int_equal(stand(&side, &call, place, 2), PAWL__DONE);
    ASSERT_QUEUE(JAVA);
    assert_left(JAVA, WAIT_MS + JAVA_WAIT_MS); /* all that it needs */
    assert_answer(&side, place, PAWL__OP_RELEASE, 2, PAWL__DONE);
    const int64_t hint_us = assert_stands(&side, place, 3); /* it is Redisson's turn */
    assert_true(hint_us > 0 && hint_us <= 1000000);
    assert_free(true);
    place_close(&side, place);
}

/* Who leaves takes back only from those behind, and from nobody what it needs to live. */
static void giving_up_in_the_middle(void **state)
{
    (void)state;
    struct pawl__place *place = fair_open(&side);
    acquire(&side, place, 1);
    put_waiter(JAVA, JAVA_WAIT_MS);
    for (uint64_t id = 2; id <= 4; id++) {
        assert_stands(&side, place, id);
    }
    const char *const two = owner_of(&side, 2);
    const char *const four = owner_of(&side, 4);
    server_integer(server, "ZADD " TIMES " %lld %s", (long long)(server_ms() + WAIT_MS), four);
    put_waiter(DEAD, JAVA_WAIT_MS + 10 * WAIT_MS);
    assert_answer(&side, place, PAWL__OP_RELEASE, 3, PAWL__GONE);
    ASSERT_QUEUE(JAVA, two, four, DEAD);
    assert_left(JAVA, JAVA_WAIT_MS);
    assert_left(two, JAVA_WAIT_MS + WAIT_MS);
    assert_left(four, WAIT_MS);
    assert_left(DEAD, JAVA_WAIT_MS + 9 * WAIT_MS);
    assert_answer(&side, place, PAWL__OP_RELEASE, 3, PAWL__GONE); /* again: nothing changes */
    ASSERT_QUEUE(JAVA, two, four, DEAD);
    assert_left(DEAD, JAVA_WAIT_MS + 9 * WAIT_MS);
    assert_answer(&side, place, PAWL__OP_VERIFY, 1, PAWL__DONE);
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
    assert_heard(java, JAVA);
    assert_silent(dead);

    /* Who gives up without having been first tells nobody. */
    assert_stands(&side, place, 3);
    assert_answer(&side, place, PAWL__OP_RELEASE, 3, PAWL__GONE);
    assert_silent(java);
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
    assert_silent(java);
    assert_answer(&side, place, PAWL__OP_RELEASE, 2, PAWL__GONE);
    assert_heard(java, JAVA);
    ASSERT_QUEUE(JAVA);

    /* While somebody holds, giving up is nobody's turn. */
    free(server_command(server, "HSET lock " DEAD " 1"));
    server_integer(server, "LPUSH " QUEUE " %s", owner_of(&side, 5));
    server_integer(
        server, "ZADD " TIMES " %lld %s", (long long)(server_ms() + 9999), owner_of(&side, 5));
    assert_answer(&side, place, PAWL__OP_RELEASE, 5, PAWL__GONE);
    assert_silent(java);
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
    assert_heard(java, JAVA);
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
        CASE(behind_a_waiter_of_redisson),
        CASE(before_a_waiter_of_redisson),
        CASE(giving_up_in_the_middle),
        CASE(only_the_head_is_told),
        CASE(head_that_gives_up_tells_the_next),
        CASE(break_tells_the_head),
        CASE(keys_of_somebody_else),
        CASE(server_forgets_the_scripts),
    };
    return cmocka_run_group_tests(tests, fixture_start, NULL);
}
