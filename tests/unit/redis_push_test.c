/* SPDX-License-Identifier: Apache-2.0 */
/* The push connection: are wake-ups heard, by whoever reads, and through every loss?
 *
 * Method: a real server on which the test publishes, kills and forbids; a scripted one for a server
 * that falls silent. A message that is lost costs its waiter a second, so none may be lost without
 * host->wake(NULL) being called afterwards. */
#include "redis_fixture.h"

#include "support/scripted.h"

#define PASSWORD "pw"

static int64_t publish(const char *name)
{
    return server_integer(server, "PUBLISH redisson_lock__channel:{%s} 0", name);
}

/* Lend this thread until so many names were woken in all. */
static void listen_until(unsigned wakes)
{
    const int64_t end_us = pawl__now_us() + BOUND_MS * 1000;
    while (atomic_load(&side.wakes) < wakes) {
        struct pawl__waiter waiter;
        pawl__waiter_init(&waiter);
        pawl__engine_redis.drive(side.self, PAWL__AWAIT_WAKE, &waiter, pawl__now_us() + 5000);
        assert_true(pawl__now_us() < end_us);
    }
}

static void messages_wake(void **state)
{
    (void)state;
    struct pawl__place *one = place_open(&side, "one");
    struct pawl__place *two = place_open(&side, "{two}x");
    assert_int_equal(server_client_count(server, "pubsub"), 0);
    assert_answer(&side, one, PAWL__OP_WATCH, 0, PAWL__DONE);
    assert_answer(&side, two, PAWL__OP_WATCH, 0, PAWL__DONE);
    assert_int_equal(server_client_count(server, "pubsub"), 1);

    assert_int_equal(publish("one"), 1);
    listen_until(1);
    assert_string_equal(side.woken, "one");
    assert_int_equal(server_integer(server, "PUBLISH redisson_lock__channel:{two}x 1"), 1);
    listen_until(2);
    assert_string_equal(side.woken, "{two}x");

    assert_answer(&side, one, PAWL__OP_UNWATCH, 0, PAWL__DONE);
    WAIT_UNTIL(publish("one") == 0, BOUND_MS);
    assert_int_equal(server_integer(server, "PUBLISH redisson_lock__channel:{two}x 0"), 1);
    listen_until(3);
    assert_string_equal(side.woken, "{two}x");
    assert_answer(&side, two, PAWL__OP_UNWATCH, 0, PAWL__DONE);
    place_close(&side, one);
    place_close(&side, two);
}

static void watch_and_unwatch_in_turn(void **state)
{
    (void)state;
    struct pawl__place *place = place_open(&side, "lock");
    for (int i = 0; i < 20; i++) {
        assert_answer(&side, place, PAWL__OP_WATCH, 0, PAWL__DONE);
        assert_int_equal(publish("lock"), 1);
        assert_answer(&side, place, PAWL__OP_UNWATCH, 0, PAWL__DONE);
    }
    WAIT_UNTIL(publish("lock") == 0, BOUND_MS);
    place_close(&side, place);
}

/* Our own subscription is not somebody else. */
static void own_ears_do_not_count(void **state)
{
    (void)state;
    struct side other;
    struct call call;
    struct pawl__place *place = place_open(&side, "lock");
    assert_answer(&side, place, PAWL__OP_WATCH, 0, PAWL__DONE);
    acquire(&side, place, 1);
    assert_int_equal(ask(&side, &call, place, PAWL__OP_RELEASE, 1), PAWL__DONE);
    assert_false(call.op.others);
    acquire(&side, place, 2);
    call_init(&call, place, PAWL__OP_PASS, 2);
    call.op.heir_id = 3;
    call.op.offer = true;
    call_run(&side, &call);
    assert_int_equal(call.op.answer, PAWL__DONE);

    side_open(&other, server_url(server));
    struct pawl__place *there = place_open(&other, "lock");
    assert_answer(&other, there, PAWL__OP_WATCH, 0, PAWL__DONE);
    call_init(&call, place, PAWL__OP_PASS, 3);
    call.op.heir_id = 4;
    call.op.offer = true;
    call_run(&side, &call);
    assert_int_equal(call.op.answer, PAWL__LEFT);
    acquire(&other, there, 1);
    assert_int_equal(ask(&other, &call, there, PAWL__OP_RELEASE, 1), PAWL__DONE);
    assert_true(call.op.others);
    assert_answer(&other, there, PAWL__OP_UNWATCH, 0, PAWL__DONE);
    place_close(&other, there);
    side_close(&other);
    place_close(&side, place);
}

/* ===== Who reads ===== */

static void keeper_listens(void **state)
{
    (void)state;
    keeper_start(&side);
    struct pawl__place *place = place_open(&side, "lock");
    struct call call;
    call_init(&call, place, PAWL__OP_WATCH, 0);
    call.op.deadline_us += BOUND_MS * 1000;
    pawl__engine_redis.submit(side.self, &call.op, false);
    WAIT_UNTIL(pawl__waiter_done(&call.waiter), BOUND_MS);
    assert_int_equal(call.op.answer, PAWL__DONE);
    publish("lock");
    WAIT_UNTIL(atomic_load(&side.wakes) == 1, BOUND_MS);
    assert_answer(&side, place, PAWL__OP_UNWATCH, 0, PAWL__DONE);
    place_close(&side, place);
}

struct listener {
    pthread_t thread;
    struct pawl__waiter waiter;
};

static void *listen_once(void *arg)
{
    struct listener *listener = arg;
    while (!pawl__waiter_done(&listener->waiter)) {
        pawl__engine_redis.drive(
            side.self, PAWL__AWAIT_WAKE, &listener->waiter, pawl__now_us() + BOUND_MS * 1000);
    }
    return NULL;
}

/* Listeners end one by one; while one is left it reads for the rest. */
static void listeners_take_turns(void **state)
{
    (void)state;
    enum { COUNT = 8 };
    struct listener listeners[COUNT];
    struct pawl__place *place = place_open(&side, "lock");
    assert_answer(&side, place, PAWL__OP_WATCH, 0, PAWL__DONE);
    for (size_t i = 0; i < COUNT; i++) {
        pawl__waiter_init(&listeners[i].waiter);
        thread_start(&listeners[i].thread, listen_once, &listeners[i]);
    }
    for (size_t i = 0; i < COUNT; i++) {
        assert_int_equal(publish("lock"), 1);
        WAIT_UNTIL(atomic_load(&side.wakes) == i + 1, BOUND_MS);
        pawl__waiter_finish(&listeners[i].waiter);
        pthread_join(listeners[i].thread, NULL);
    }
    assert_answer(&side, place, PAWL__OP_UNWATCH, 0, PAWL__DONE);
    place_close(&side, place);
}

/* A listener that is nudged goes back to look. */
static void nudge_ends_listening(void **state)
{
    (void)state;
    struct pawl__waiter waiter;
    pawl__waiter_init(&waiter);
    pawl__waiter_nudge(&waiter);
    const int64_t start_us = pawl__now_us();
    pawl__engine_redis.drive(side.self, PAWL__AWAIT_WAKE, &waiter, start_us + 2 * BOUND_MS * 1000);
    pawl__waiter_nudge(&waiter);
    pawl__engine_redis.drive(
        side.self, PAWL__AWAIT_ANSWER, &waiter, start_us + 2 * BOUND_MS * 1000);
    assert_true(pawl__now_us() < start_us + BOUND_MS * 1000);
}

/* ===== Losses ===== */

static void killed_and_subscribed_again(void **state)
{
    (void)state;
    keeper_start(&side);
    struct pawl__place *places[3];
    for (size_t i = 0; i < 3; i++) {
        char name[8];
        snprintf(name, sizeof name, "l%zu", i);
        places[i] = place_open(&side, name);
        assert_answer(&side, places[i], PAWL__OP_WATCH, 0, PAWL__DONE);
    }
    assert_int_equal(atomic_load(&side.wakes_of_all), 0);
    assert_int_equal(server_kill_clients(server, "pubsub"), 1);
    WAIT_UNTIL(atomic_load(&side.wakes_of_all) == 1, BOUND_MS);
    for (size_t i = 0; i < 3; i++) {
        char name[8];
        snprintf(name, sizeof name, "l%zu", i);
        assert_int_equal(publish(name), 1);
    }
    WAIT_UNTIL(atomic_load(&side.wakes) == 3, BOUND_MS);
    /* Commands never noticed. */
    assert_int_equal(atomic_load(&side.reconnects), 0);
    for (size_t i = 0; i < 3; i++) {
        assert_answer(&side, places[i], PAWL__OP_UNWATCH, 0, PAWL__DONE);
        place_close(&side, places[i]);
    }
}

/* An idle connection that the server has ended is noticed when it is needed again. */
static void ended_while_idle(void **state)
{
    (void)state;
    struct pawl__place *place = place_open(&side, "lock");
    assert_answer(&side, place, PAWL__OP_WATCH, 0, PAWL__DONE);
    assert_answer(&side, place, PAWL__OP_UNWATCH, 0, PAWL__DONE);
    WAIT_UNTIL(publish("lock") == 0, BOUND_MS);
    server_kill_clients(server, "normal"); /* without a subscription it is one */
    struct call call;
    call_init(&call, place, PAWL__OP_WATCH, 0);
    call.op.sent_us += 2 * TIMEOUT_US; /* as if so much time had passed */
    call.op.deadline_us += BOUND_MS * 1000;
    call_run(&side, &call);
    assert_int_equal(call.op.answer, PAWL__DONE);
    assert_int_equal(publish("lock"), 1);
    assert_answer(&side, place, PAWL__OP_UNWATCH, 0, PAWL__DONE);
    place_close(&side, place);
}

static void no_server_to_listen_to(void **state)
{
    (void)state;
    struct pawl__place *place = place_open(&side, "lock");
    struct call call;
    server_kill(server);
    ask(&side, &call, place, PAWL__OP_WATCH, 0);
    assert_ended(&call, PAWL__FAILED, PAWL_UNAVAILABLE, true, "cannot connect");
    server_restart(server, false);
    const int64_t end_us = pawl__now_us() + BOUND_MS * 1000;
    while (ask(&side, &call, place, PAWL__OP_WATCH, 0) != PAWL__DONE) {
        call_free(&call);
        assert_true(pawl__now_us() < end_us);
    }
    assert_answer(&side, place, PAWL__OP_UNWATCH, 0, PAWL__DONE);
    place_close(&side, place);
}

static void frozen_while_subscribing(void **state)
{
    (void)state;
    struct pawl__place *one = place_open(&side, "one");
    struct pawl__place *two = place_open(&side, "two");
    struct call call;
    assert_answer(&side, one, PAWL__OP_WATCH, 0, PAWL__DONE);
    server_pause(server);
    call_init(&call, two, PAWL__OP_WATCH, 0);
    call.op.deadline_us = call.op.sent_us + 200000;
    call_run(&side, &call);
    assert_ended(&call, PAWL__FAILED, PAWL_UNAVAILABLE, true, "did not confirm");
    server_resume(server);
    keeper_start(&side);
    side.host.attend(&side.host);
    WAIT_UNTIL(atomic_load(&side.wakes_of_all) == 1, BOUND_MS);
    WAIT_UNTIL(publish("one") == 1, BOUND_MS);
    assert_int_equal(publish("two"), 0);
    assert_answer(&side, one, PAWL__OP_UNWATCH, 0, PAWL__DONE);
    place_close(&side, one);
    place_close(&side, two);
}

/* A refused subscription says so and breaks nothing else. */
static void channel_is_denied(void **state)
{
    (void)state;
    struct side few;
    struct call call;
    char url[64];
    free(server_command(server, "ACL SETUSER few reset on >%s ~* &* +@all", PASSWORD));
    snprintf(url, sizeof url, "redis://few:%s@127.0.0.1:%u", PASSWORD, server_port(server));
    side_open(&few, url);
    struct pawl__place *good = place_open(&few, "good");
    struct pawl__place *bad = place_open(&few, "bad");
    free(server_command(server, "ACL SETUSER few resetchannels &redisson_lock__channel:{good}"));
    assert_answer(&few, good, PAWL__OP_WATCH, 0, PAWL__DONE);
    ask(&few, &call, bad, PAWL__OP_WATCH, 0);
    assert_ended(&call, PAWL__FAILED, PAWL_DENIED, false,
        "ACL SETUSER few +subscribe '&redisson_lock__channel:*'");
    assert_int_equal(publish("good"), 1);
    assert_int_equal(publish("bad"), 0);
    assert_answer(&few, good, PAWL__OP_UNWATCH, 0, PAWL__DONE);
    place_close(&few, good);
    place_close(&few, bad);
    side_close(&few);
}

/* ===== A server that falls silent. Time is the test's ===== */

static _Atomic int64_t skipped_us;

static int64_t test_clock(void)
{
    return boottime_us() + atomic_load(&skipped_us);
}

static void say_nothing(struct scripted_turn *turn, void *arg)
{
    (void)turn;
    (void)arg;
}

static void silence_is_not_believed(void **state)
{
    (void)state;
    struct side other;
    struct scripted *scripted = scripted_start();
    scripted_handshake(scripted);
    scripted_set_info(scripted, "redis_version", "6.2.14");
    pawl__clock_hook = test_clock;
    side_open(&other, scripted_url(scripted));
    struct pawl__place *place = place_open(&other, "lock");
    assert_answer(&other, place, PAWL__OP_WATCH, 0, PAWL__DONE);
    keeper_start(&other);

    atomic_fetch_add(&skipped_us, 11 * INT64_C(1000000));
    thread_wake(other.keeper_wake);
    WAIT_UNTIL(scripted_count(scripted, "PING") == 1, BOUND_MS);
    /* A message behind the answer, so that it can be seen that both were read. */
    scripted_play(scripted, "ON SUBSCRIBE *\n"
                            "SEND >3\\r\\n$7\\r\\nmessage\\r\\n$29\\r\\n"
                            "redisson_lock__channel:{lock}\\r\\n$1\\r\\n0\\r\\n\n");
    WAIT_UNTIL(atomic_load(&other.wakes) == 1, BOUND_MS);
    assert_int_equal(atomic_load(&other.wakes_of_all), 0);

    scripted_handle_with(scripted, "PING", say_nothing, NULL); /* from now on it says nothing */
    atomic_fetch_add(&skipped_us, 11 * INT64_C(1000000));
    thread_wake(other.keeper_wake);
    WAIT_UNTIL(scripted_count(scripted, "PING") == 2, BOUND_MS);
    atomic_fetch_add(&skipped_us, 2 * INT64_C(1000000));
    thread_wake(other.keeper_wake);
    WAIT_UNTIL(atomic_load(&other.wakes_of_all) == 1, BOUND_MS);
    assert_int_equal(scripted_count(scripted, "SUBSCRIBE *"), 2);

    assert_answer(&other, place, PAWL__OP_UNWATCH, 0, PAWL__DONE);
    place_close(&other, place);
    side_close(&other);
    pawl__clock_hook = NULL;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(messages_wake),
        CASE(watch_and_unwatch_in_turn),
        CASE(own_ears_do_not_count),
        CASE(keeper_listens),
        CASE(listeners_take_turns),
        CASE(nudge_ends_listening),
        CASE(killed_and_subscribed_again),
        CASE(ended_while_idle),
        CASE(no_server_to_listen_to),
        CASE(frozen_while_subscribing),
        CASE(channel_is_denied),
        CASE(silence_is_not_believed),
    };
    return cmocka_run_group_tests(tests, fixture_start, NULL);
}
