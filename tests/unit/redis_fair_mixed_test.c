/* SPDX-License-Identifier: Apache-2.0 */
/* Fair locks in the Redis engine behind waiters of Redisson, which take their own wait off the
 * times of all others when they get the lock: do ours keep their places however long that took, and
 * are those of ours who died passed over as soon as ever?
 *
 * Method: as in redis_fair_test.c. What Redisson does to the queue is done here step by step, with
 * the server's clock in place of its own. */
#include "redis_fair.h"

#define JAVA_2 "285475da-9152-4c83-822a-67ee2f116a79:55"
#define JAVA_3 "9a1c9b9e-0b7e-4d0e-b4a5-5d8d3cf3a1f2:54"

enum { TRY_MS = 10000, TTL_MS = 30000 };

/* ===== What Redisson does ===== */

/* NULL: nobody stands there. */
static char *member_at(int at)
{
    char *member = server_command(server, "LINDEX " QUEUE " %d", at);
    if (strcmp(member, "(nil)") == 0) {
        free(member);
        return NULL;
    }
    return member;
}

/* Before anything else: who stands first and is out of time is taken out. */
static void java_purges(void)
{
    char *first = NULL;
    while ((first = member_at(0)) != NULL && left_ms(first) <= 0) {
        free(server_command(server, "LPOP " QUEUE));
        free(server_command(server, "ZREM " TIMES " %s", first));
        free(first);
    }
    free(first);
}

/* Take so much off the times of all from this place on. */
static void java_takes_off(int64_t ms, int from)
{
    char *member = NULL;
    for (int at = from; (member = member_at(at)) != NULL; at++) {
        free(server_command(server, "ZINCRBY " TIMES " %lld %s", (long long)-ms, member));
        free(member);
    }
}

static void java_gets(const char *owner, int64_t wait_ms)
{
    java_purges();
    char *first = member_at(0);
    assert_string_equal(first, owner);
    free(first);
    assert_int_equal(server_integer(server, "EXISTS lock"), 0);
    free(server_command(server, "LPOP " QUEUE));
    free(server_command(server, "ZREM " TIMES " %s", owner));
    java_takes_off(wait_ms, 0);
    free(server_command(server, "HSET lock %s 1", owner));
    free(server_command(server, "PEXPIRE lock %d", TTL_MS));
}

static void java_releases(void)
{
    java_purges();
    assert_int_equal(server_integer(server, "DEL lock"), 1);
}

/* The first gives up. */
static void java_leaves(const char *owner, int64_t wait_ms)
{
    java_takes_off(wait_ms, 1);
    free(server_command(server, "ZREM " TIMES " %s", owner));
    free(server_command(server, "LREM " QUEUE " 0 %s", owner));
}

/* Stand behind everybody, as one who waits so long. */
static void java_stands(const char *owner, int64_t wait_ms)
{
    char *last = member_at(-1);
    put_waiter(
        owner, (last != NULL ? left_ms(last) : server_integer(server, "PTTL lock")) + wait_ms);
    free(last);
}

/* ===== Places ===== */

static void assert_turn(struct pawl__place *place, uint64_t id)
{
    struct call call;
    assert_int_equal(stand(&side, &call, place, id), PAWL__DONE);
    assert_answer(&side, place, PAWL__OP_RELEASE, id, PAWL__DONE);
}

static void behind_a_waiter_of_redisson(void **state)
{
    (void)state;
    struct pawl__place *place = fair_open(&side);
    acquire(&side, place, 1);
    java_stands(JAVA, JAVA_WAIT_MS);
    assert_stands(&side, place, 2);
    assert_stands(&side, place, 3);
    const char *const two = owner_of(&side, 2);
    const char *const three = owner_of(&side, 3);
    ASSERT_QUEUE(JAVA, two, three);
    assert_left(two, JAVA_WAIT_MS + WAIT_MS);
    assert_left(three, JAVA_WAIT_MS + WAIT_MS);

    /* What it takes off is what they have too much: who dies now is gone as soon as ever. */
    assert_answer(&side, place, PAWL__OP_RELEASE, 1, PAWL__DONE);
    java_gets(JAVA, JAVA_WAIT_MS);
    assert_left(two, WAIT_MS);
    assert_left(three, WAIT_MS);
    java_releases();
    ASSERT_QUEUE(two, three);
    assert_turn(place, 2);
    assert_turn(place, 3);
    assert_queue(0, NULL);
    place_close(&side, place);
}

/* The holder has renewed its lease and Redisson's waiter stands there for longer than its sum had
 * reckoned with; some of ours came with it, some much later. */
static void a_long_wait_costs_no_place(void **state)
{
    (void)state;
    static const int64_t waited_ms[] = {100000, 14000, 290000, JAVA_WAIT_MS + TTL_MS - 3000};
    struct pawl__place *place = fair_open(&side);
    for (size_t i = 0; i < sizeof waited_ms / sizeof waited_ms[0]; i++) {
        acquire(&side, place, 1);
        java_stands(JAVA, JAVA_WAIT_MS);
        assert_stands(&side, place, 2);
        assert_stands(&side, place, 3);
        java_takes_off(waited_ms[i], 0); /* which is as if so much time had gone by */
        for (uint64_t id = 2; id <= 5; id++) {
            assert_stands(&side, place, id);
        }
        assert_answer(&side, place, PAWL__OP_RELEASE, 1, PAWL__DONE);
        java_gets(JAVA, JAVA_WAIT_MS);
        java_releases();
        ASSERT_QUEUE(
            owner_of(&side, 2), owner_of(&side, 3), owner_of(&side, 4), owner_of(&side, 5));
        for (uint64_t id = 2; id <= 5; id++) {
            assert_left(owner_of(&side, id), WAIT_MS); /* enough, and no more */
            assert_turn(place, id);
        }
        assert_queue(0, NULL);
    }
    place_close(&side, place);
}

/* Several of them go before ours asks again, with ours between them and behind. */
static void many_turns_cost_no_place(void **state)
{
    (void)state;
    struct pawl__place *place = fair_open(&side);
    acquire(&side, place, 1);
    put_waiter(JAVA, TTL_MS + JAVA_WAIT_MS - 100000); /* it came a while ago */
    java_stands(JAVA_2, JAVA_WAIT_MS);
    assert_stands(&side, place, 2);
    java_stands(JAVA_3, JAVA_WAIT_MS);
    assert_stands(&side, place, 3);
    assert_left(owner_of(&side, 3), 3 * JAVA_WAIT_MS + WAIT_MS);
    ASSERT_QUEUE(JAVA, JAVA_2, owner_of(&side, 2), JAVA_3, owner_of(&side, 3));
    assert_answer(&side, place, PAWL__OP_RELEASE, 1, PAWL__DONE);
    java_gets(JAVA, JAVA_WAIT_MS);
    java_releases();
    java_gets(JAVA_2, JAVA_WAIT_MS);
    java_releases();
    ASSERT_QUEUE(owner_of(&side, 2), JAVA_3, owner_of(&side, 3));
    assert_left(JAVA_3, WAIT_MS + JAVA_WAIT_MS); /* all that it needs */
    assert_turn(place, 2);
    java_gets(JAVA_3, JAVA_WAIT_MS);
    java_releases();
    ASSERT_QUEUE(owner_of(&side, 3));
    assert_turn(place, 3);
    place_close(&side, place);
}

/* Who waits for longer than is usual there takes more off. As long as it has not outwaited the
 * lease that it saw, its time tells. */
static void a_longer_wait_than_usual(void **state)
{
    (void)state;
    struct pawl__place *place = fair_open(&side);
    acquire(&side, place, 1);
    java_stands(JAVA, 2 * JAVA_WAIT_MS);
    assert_stands(&side, place, 2);
    assert_left(owner_of(&side, 2), 2 * JAVA_WAIT_MS + WAIT_MS);
    assert_answer(&side, place, PAWL__OP_RELEASE, 1, PAWL__DONE);
    java_gets(JAVA, 2 * JAVA_WAIT_MS);
    java_releases();
    ASSERT_QUEUE(owner_of(&side, 2));
    assert_turn(place, 2);
    place_close(&side, place);
}

static void before_a_waiter_of_redisson(void **state)
{
    (void)state;
    struct pawl__place *place = fair_open(&side);
    acquire(&side, place, 1);
    assert_stands(&side, place, 2);
    java_stands(JAVA, JAVA_WAIT_MS);
    assert_stands(&side, place, 2);
    assert_left(owner_of(&side, 2), WAIT_MS); /* who stands behind takes nothing off */
    assert_answer(&side, place, PAWL__OP_RELEASE, 1, PAWL__DONE);
    struct call call;
    assert_int_equal(stand(&side, &call, place, 2), PAWL__DONE);
    ASSERT_QUEUE(JAVA);
    assert_left(JAVA, WAIT_MS + JAVA_WAIT_MS); /* all that it needs */
    assert_answer(&side, place, PAWL__OP_RELEASE, 2, PAWL__DONE);
    const int64_t hint_us = assert_stands(&side, place, 3); /* it is Redisson's turn */
    assert_true(hint_us > 0 && hint_us <= 1000000);
    assert_int_equal(server_integer(server, "EXISTS lock"), 0);
    place_close(&side, place);
}

/* ===== The dead and those who give up ===== */

/* Who gives up takes nothing from the others. */
static void giving_up_in_the_middle(void **state)
{
    (void)state;
    struct pawl__place *place = fair_open(&side);
    acquire(&side, place, 1);
    put_waiter(JAVA, JAVA_WAIT_MS);
    for (uint64_t id = 2; id <= 4; id++) {
        assert_stands(&side, place, id);
    }
    java_stands(JAVA_2, JAVA_WAIT_MS);
    for (int times = 0; times < 2; times++) {
        assert_answer(&side, place, PAWL__OP_RELEASE, 3, PAWL__GONE);
        ASSERT_QUEUE(JAVA, owner_of(&side, 2), owner_of(&side, 4), JAVA_2);
        assert_left(JAVA, JAVA_WAIT_MS);
        assert_left(owner_of(&side, 2), JAVA_WAIT_MS + WAIT_MS);
        assert_left(owner_of(&side, 4), JAVA_WAIT_MS + WAIT_MS);
        assert_left(JAVA_2, 2 * JAVA_WAIT_MS + WAIT_MS);
    }
    assert_answer(&side, place, PAWL__OP_VERIFY, 1, PAWL__DONE);
    place_close(&side, place);
}

/* One of Redisson's has waited for less than ours had to reckon with. Who asks gives the rest back,
 * and takes it from those of ours who stand first and have died: all of them at once. */
static void a_short_wait_leaves_nothing_behind(void **state)
{
    (void)state;
    struct pawl__place *place = fair_open(&side);
    acquire(&side, place, 1);
    java_stands(JAVA, TRY_MS);
    for (uint64_t id = 2; id <= 4; id++) {
        assert_stands(&side, place, id);
        assert_left(owner_of(&side, id), JAVA_WAIT_MS + WAIT_MS);
    }
    java_stands(JAVA_2, TRY_MS);
    assert_stands(&side, place, 5);
    java_leaves(JAVA, TRY_MS);
    assert_stands(&side, place, 4);
    assert_left(owner_of(&side, 2), WAIT_MS);
    assert_left(owner_of(&side, 3), WAIT_MS);
    assert_left(owner_of(&side, 4), WAIT_MS);
    assert_true(left_ms(JAVA_2) > TRY_MS);                   /* that is Redisson's own */
    assert_true(left_ms(owner_of(&side, 5)) > JAVA_WAIT_MS); /* who has one before it needs it */
    ASSERT_QUEUE(
        owner_of(&side, 2), owner_of(&side, 3), owner_of(&side, 4), JAVA_2, owner_of(&side, 5));
    place_close(&side, place);
}

/* However many of them try for a moment, who died behind them blocks the lock for one usual wait
 * more than they do, not for one for each. */
static void short_waits_do_not_add_up(void **state)
{
    (void)state;
    struct pawl__place *place = fair_open(&side);
    acquire(&side, place, 1);
    for (int i = 0; i < 20; i++) {
        char owner[64];
        snprintf(owner, sizeof owner, "285475da-9152-4c83-822a-67ee2f116a79:%d", i);
        java_stands(owner, 1000);
    }
    assert_stands(&side, place, 2);
    assert_left(owner_of(&side, 2), TTL_MS + 20 * 1000 + JAVA_WAIT_MS + WAIT_MS);
    place_close(&side, place);
}

/* Redisson's waiter sleeps for as long as the one before it seemed to live. If that one is taken
 * out by us, nobody else tells it that its turn has come. */
static void who_comes_next_after_the_dead_is_told(void **state)
{
    (void)state;
    struct pawl__place *place = fair_open(&side);
    acquire(&side, place, 1);
    assert_stands(&side, place, 2);
    java_stands(JAVA, JAVA_WAIT_MS);
    const int java = subscriber(JAVA);
    assert_answer(&side, place, PAWL__OP_RELEASE, 1, PAWL__DONE);
    assert_stands(&side, place, 3);
    assert_not_told(java);
    set_left(owner_of(&side, 2), 0);
    assert_stands(&side, place, 3);
    assert_told(java, JAVA);
    assert_stands(&side, place, 3); /* once */
    assert_not_told(java);

    /* While somebody holds, it is nobody's turn; and who gets it itself tells nobody. */
    java_gets(JAVA, JAVA_WAIT_MS);
    put_waiter(JAVA_2, -1);
    assert_stands(&side, place, 3);
    java_releases();
    assert_turn(place, 3);
    assert_not_told(java);
    close(java);
    place_close(&side, place);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(behind_a_waiter_of_redisson),
        CASE(a_long_wait_costs_no_place),
        CASE(many_turns_cost_no_place),
        CASE(a_longer_wait_than_usual),
        CASE(before_a_waiter_of_redisson),
        CASE(giving_up_in_the_middle),
        CASE(a_short_wait_leaves_nothing_behind),
        CASE(short_waits_do_not_add_up),
        CASE(who_comes_next_after_the_dead_is_told),
    };
    return cmocka_run_group_tests(tests, fixture_start, NULL);
}
