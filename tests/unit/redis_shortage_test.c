/* SPDX-License-Identifier: Apache-2.0 */
/* The Redis engine without memory: any single allocation may fail, and nothing but the call that
 * needed it is lost.
 *
 * Method: the first, second, third ... allocation of a whole client's life is made to fail, until
 * one life meets no failure. Whatever happens, every operation ends, no lock is left behind for
 * longer than its lease, and no descriptor stays open (memory is the leak checker's business). */
#include "redis_side.h"

static struct server *server;

/* One operation; without memory it may fail, but it ends. */
static bool run(struct side *side, struct pawl__place *place, enum pawl__op_kind kind)
{
    struct call call;
    call_init(&call, place, kind, 1);
    call.op.deadline_us += BOUND_MS * 1000;
    call_run(side, &call);
    call_free(&call);
    return call.op.answer == PAWL__DONE;
}

static bool use_place(struct side *side, struct pawl__place *place)
{
    bool good = run(side, place, PAWL__OP_ACQUIRE);
    good = run(side, place, PAWL__OP_RENEW) && good;
    good = run(side, place, PAWL__OP_WATCH) && good;
    good = run(side, place, PAWL__OP_UNWATCH) && good;
    good = run(side, place, PAWL__OP_RELEASE) && good;
    return good;
}

static bool live(void *arg)
{
    struct side side;
    (void)arg;
    side_init(&side);
    if (side_prepare(&side, server_url(server)) != PAWL_OK) {
        return false;
    }
    bool good = side_try_connect(&side) == PAWL_OK;
    if (good) {
        struct pawl__place *place = place_make("lock", 4);
        good = place_try(&side, place) == PAWL_OK;
        if (good) {
            good = use_place(&side, place);
            pawl__engine_redis.place_close(side.self, place);
        }
        place_discard(place);
    }
    side_close(&side);
    free(server_command(server, "DEL lock"));
    return good;
}

static void any_allocation_may_fail(void **state)
{
    (void)state;
    server = server_start(NULL);
    assert_true(live(NULL));
    const size_t descriptors = open_descriptor_count();
    const struct allocation_sweep sweep = {.attempt = live, .nth_max = 1000};
    assert_true(sweep_allocations(&sweep) > 10); /* so it did reach the engine */
    assert_int_equal(open_descriptor_count(), descriptors);
}

enum { PLACE_COUNT = 8, LONG_NAME_SIZE = 500 };

static int64_t publish(const struct pawl__place *place)
{
    return server_integer(
        server, "PUBLISH redisson_lock__channel:{%.*s} 0", (int)place->name_size, place->name);
}

/* Lend this thread until all were told to look, for the connection was lost. */
static void listen_again(struct side *side)
{
    const int64_t end_us = pawl__now_us() + BOUND_MS * 1000;
    while (atomic_load(&side->wakes_of_all) == 0) {
        struct pawl__waiter waiter;
        pawl__waiter_init(&waiter);
        pawl__engine_redis.drive(side->self, PAWL__AWAIT_WAKE, &waiter, pawl__now_us() + 5000);
        assert_true(pawl__now_us() < end_us);
    }
}

/* Listen to many names, lose the connection, and go on listening; memory is short from then on. */
static bool listen_on(void *arg)
{
    struct side side;
    struct pawl__place *places[PLACE_COUNT];
    const uint64_t nth = fail_allocation(0);
    (void)arg;
    side_init(&side);
    side_open(&side, server_url(server));
    for (size_t i = 0; i < PLACE_COUNT; i++) {
        char name[LONG_NAME_SIZE + 1];
        snprintf(name, sizeof name, "%0*zu", LONG_NAME_SIZE, i);
        places[i] = place_open(&side, name);
        assert_answer(&side, places[i], PAWL__OP_WATCH, 0, PAWL__DONE);
    }
    assert_int_equal(server_kill_clients(server, "pubsub"), 1);
    fail_allocation(nth);
    listen_again(&side);
    fail_allocation(0);
    for (size_t i = 0; i < PLACE_COUNT; i++) {
        assert_int_equal(publish(places[i]), 1);
        assert_answer(&side, places[i], PAWL__OP_UNWATCH, 0, PAWL__DONE);
        place_close(&side, places[i]);
    }
    side_close(&side);
    return !allocation_has_failed();
}

static void nobody_is_forgotten_who_listens(void **state)
{
    (void)state;
    server = server_start(NULL);
    const struct allocation_sweep sweep = {.attempt = listen_on, .nth_max = 100};
    assert_true(sweep_allocations(&sweep) > 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(any_allocation_may_fail, cleanup_setup, cleanup_teardown),
        cmocka_unit_test_setup_teardown(
            nobody_is_forgotten_who_listens, cleanup_setup, cleanup_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
