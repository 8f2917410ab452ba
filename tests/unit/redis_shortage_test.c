/* SPDX-License-Identifier: Apache-2.0 */
/* The Redis engine without memory: any single allocation may fail, and nothing but the call that
 * needed it is lost.
 *
 * Method: the first, second, third ... allocation of a whole client's life is made to fail, until
 * one life meets no failure. Whatever happens, every operation ends, no lock is left behind for
 * longer than its lease, and no descriptor stays open (memory is the leak checker's business). */
#include "redis_side.h"

static struct server *server;
static _Atomic uint64_t countdown;
static _Atomic bool fired;

static bool fail_one(size_t size)
{
    (void)size;
    if (atomic_load(&countdown) == 0 || atomic_fetch_sub(&countdown, 1) != 1) {
        return true;
    }
    atomic_store(&fired, true);
    return false;
}

static void fail_nth(uint64_t nth)
{
    atomic_store(&fired, false);
    atomic_store(&countdown, nth);
    pawl__alloc_hook = nth > 0 ? fail_one : NULL;
}

static bool has_fired(void)
{
    return atomic_load(&fired);
}

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
        good = pawl__engine_redis.place_open(side.self, place) == PAWL_OK;
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
    const struct allocation_sweep sweep = {
        .fail_nth = fail_nth, .fired = has_fired, .attempt = live, .nth_max = 1000};
    assert_true(sweep_allocations(&sweep) > 10); /* so it did reach the engine */
    assert_int_equal(open_descriptor_count(), descriptors);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(any_allocation_may_fail, cleanup_setup, cleanup_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
