/* SPDX-License-Identifier: Apache-2.0 */
/* Fair locks and the push connection: does each waiter hear its own turn, and only that, also after
 * the connection was lost?
 *
 * Method: as in redis_push_test.c. */
#include "redis_fair.h"

static int64_t publish(const char *owner)
{
    return server_integer(server, "PUBLISH " CHANNEL ":%s 0", owner);
}

static void assert_woken(unsigned count, uint64_t id)
{
    WAIT_UNTIL(atomic_load(&side.wakes) == count, BOUND_MS);
    pthread_mutex_lock(&side.mutex);
    assert_string_equal(side.woken, "lock");
    assert_true(side.woken_id == id);
    pthread_mutex_unlock(&side.mutex);
}

static void each_waiter_hears_its_own(void **state)
{
    (void)state;
    keeper_start(&side);
    struct pawl__place *place = fair_open(&side);
    for (uint64_t id = 1; id <= 3; id++) {
        assert_answer(&side, place, PAWL__OP_WATCH, id, PAWL__DONE);
    }
    assert_answer(&side, place, PAWL__OP_WATCH, 2, PAWL__DONE); /* already */
    assert_int_equal(publish(owner_of(&side, 2)), 1);
    assert_woken(1, 2);
    assert_int_equal(publish(owner_of(&side, 3)), 1);
    assert_woken(2, 3);
    assert_int_equal(server_integer(server, "PUBLISH " CHANNEL " 0"), 0);
    assert_answer(&side, place, PAWL__OP_UNWATCH, 2, PAWL__DONE);
    assert_answer(&side, place, PAWL__OP_UNWATCH, 2, PAWL__DONE);
    WAIT_UNTIL(publish(owner_of(&side, 2)) == 0, BOUND_MS);
    assert_int_equal(publish(owner_of(&side, 1)), 1);
    assert_woken(3, 1);
    place_close(&side, place); /* with two who still listen */
    WAIT_UNTIL(publish(owner_of(&side, 1)) == 0, BOUND_MS);
    assert_int_equal(publish(owner_of(&side, 3)), 0);
}

static void a_turn_is_heard(void **state)
{
    (void)state;
    keeper_start(&side);
    struct side other;
    struct pawl__place *place = fair_open(&side);
    side_open(&other, server_url(server));
    struct pawl__place *there = fair_open(&other);
    acquire(&other, there, 1);
    assert_stands(&side, place, 7);
    assert_stands(&side, place, 8);
    assert_answer(&side, place, PAWL__OP_WATCH, 8, PAWL__DONE);
    assert_answer(&side, place, PAWL__OP_WATCH, 7, PAWL__DONE);
    struct call call;
    assert_int_equal(ask(&other, &call, there, PAWL__OP_RELEASE, 1), PAWL__DONE);
    assert_true(call.op.others);
    assert_woken(1, 7);
    assert_int_equal(stand(&side, &call, place, 7), PAWL__DONE);
    place_close(&other, there);
    side_close(&other);
    place_close(&side, place);
}

static void killed_and_subscribed_again(void **state)
{
    (void)state;
    keeper_start(&side);
    struct pawl__place *place = fair_open(&side);
    struct pawl__place *mutex = place_open(&side, "mutex");
    for (uint64_t id = 1; id <= 3; id++) {
        assert_answer(&side, place, PAWL__OP_WATCH, id, PAWL__DONE);
    }
    assert_answer(&side, mutex, PAWL__OP_WATCH, 0, PAWL__DONE);
    assert_int_equal(atomic_load(&side.wakes_of_all), 0);
    assert_int_equal(server_kill_clients(server, "pubsub"), 1);
    WAIT_UNTIL(atomic_load(&side.wakes_of_all) == 1, BOUND_MS);
    for (uint64_t id = 1; id <= 3; id++) {
        assert_int_equal(publish(owner_of(&side, id)), 1);
        assert_woken((unsigned)id, id);
    }
    assert_int_equal(server_integer(server, "PUBLISH redisson_lock__channel:{mutex} 0"), 1);
    WAIT_UNTIL(atomic_load(&side.wakes) == 4, BOUND_MS);
    assert_int_equal(atomic_load(&side.reconnects), 0);
    place_close(&side, mutex);
    place_close(&side, place);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(each_waiter_hears_its_own),
        CASE(a_turn_is_heard),
        CASE(killed_and_subscribed_again),
    };
    return cmocka_run_group_tests(tests, fixture_start, NULL);
}
