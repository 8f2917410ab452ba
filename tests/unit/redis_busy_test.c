/* SPDX-License-Identifier: Apache-2.0 */
/* A busy connection: who reads it sleeps without a timer, because the keeper has promised to look.
 *
 * Method: the test is the keeper. It calls poll() and pump() when it likes, so it can show that
 * without a promise every sleep ends by itself, and that with one nobody but the keeper ends it,
 * and then at once. A server that is stopped does not answer. */
#include "redis_side.h"

enum {
    EXCHANGES = 80, /* enough to be busy */
    PAST_MS = 150,  /* so long beyond its deadline, a sleep with a timer is over */
};

static struct server *server;
static struct side side;
static struct pawl__place *place;
static int64_t ahead_us; /* how much later it is than the real clock says */

static int64_t clock_ahead(void)
{
    return boottime_us() + ahead_us;
}

static int start(void **state)
{
    (void)state;
    server = server_start(NULL);
    return 0;
}

static void open_at(const char *url, void **state)
{
    cleanup_setup(state);
    free(server_command(server, "FLUSHALL"));
    ahead_us = 0;
    pawl__clock_hook = clock_ahead;
    side_open(&side, url);
    place = place_open(&side, "lock");
}

static int open_tcp(void **state)
{
    open_at(server_url(server), state);
    return 0;
}

static int open_unix(void **state)
{
    open_at(server_unix_url(server), state);
    return 0;
}

static int close_side(void **state)
{
    server_resume(server);
    place_close(&side, place);
    side_close(&side);
    pawl__clock_hook = NULL;
    return cleanup_teardown(state);
}

static void be_busy(void)
{
    for (int i = 0; i < EXCHANGES; i++) {
        assert_answer(&side, place, PAWL__OP_VERIFY, 1, PAWL__GONE);
    }
}

/* Look as the keeper does; when does it have to look again? */
static int64_t look(void)
{
    struct pollfd fds[PAWL__POLL_MAX] = {{-1, 0, 0}};
    int64_t due_us = PAWL__NEVER;
    pawl__engine_redis.pump(side.self, fds, 0);
    pawl__engine_redis.poll(side.self, fds, &due_us);
    return due_us;
}

/* ===== A call in a thread of its own ===== */

struct asker {
    struct call call;
    pthread_t thread;
    _Atomic bool over;
    int64_t over_us;
};

static void *ask_in_thread(void *arg)
{
    struct asker *asker = arg;
    struct call *call = &asker->call;
    pawl__engine_redis.ask(side.self, &call->op, &call->waiter, call->op.deadline_us);
    call_finish(&side, call);
    asker->over_us = pawl__now_us();
    atomic_store(&asker->over, true);
    return NULL;
}

static void asker_start(struct asker *asker, int64_t limit_ms)
{
    call_init(&asker->call, place, PAWL__OP_VERIFY, 1);
    asker->call.op.deadline_us = asker->call.op.sent_us + limit_ms * 1000;
    atomic_init(&asker->over, false);
    thread_start(&asker->thread, ask_in_thread, asker);
}

static void asker_join(struct asker *asker)
{
    pthread_join(asker->thread, NULL);
    assert_ended(&asker->call, PAWL__UNKNOWN, PAWL_UNAVAILABLE, true, "it did not answer in time");
}

/* Nobody looks, and still it ends. */
static void assert_ends_by_itself(void)
{
    struct asker asker;
    asker_start(&asker, 200);
    WAIT_UNTIL(atomic_load(&asker.over), BOUND_MS);
    assert_true(asker.over_us >= asker.call.op.deadline_us);
    asker_join(&asker);
}

/* ===== The promise ===== */

static void an_idle_connection_is_promised_nothing(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++) {
        assert_answer(&side, place, PAWL__OP_VERIFY, 1, PAWL__GONE);
    }
    assert_true(look() == PAWL__NEVER);
    assert_int_equal(atomic_load(&side.attends), 0); /* a few calls need no keeper */
}

static void a_busy_one_asks_for_the_keeper_once(void **state)
{
    (void)state;
    be_busy();
    assert_int_equal(atomic_load(&side.attends), 1);
    be_busy();
    be_busy();
    assert_int_equal(atomic_load(&side.attends), 1); /* it may be that there can be none */
}

static void the_keeper_looks_every_half_timeout_while_it_is_busy(void **state)
{
    (void)state;
    be_busy();
    const int64_t first_us = look();
    assert_true(first_us <= pawl__now_us() + TIMEOUT_US / 2);
    assert_true(first_us > pawl__now_us());
    assert_true(look() == first_us); /* whatever else it looks for meanwhile */
    be_busy();
    ahead_us += TIMEOUT_US / 2;
    assert_true(look() > first_us);
    be_busy();
    assert_int_equal(atomic_load(&side.attends), 1);
    ahead_us += TIMEOUT_US / 2;
    assert_true(look() != PAWL__NEVER);
    ahead_us += TIMEOUT_US / 2;
    assert_true(look() == PAWL__NEVER); /* it has been idle since */
    be_busy();
    assert_int_equal(atomic_load(&side.attends), 2);
}

static void a_short_timeout_needs_no_keeper(void **state)
{
    (void)state;
    struct side other;
    side_init(&other);
    other.host.settings.timeout_us = 50000;
    assert_int_equal(side_prepare(&other, server_url(server)), PAWL_OK);
    assert_int_equal(side_try_connect(&other), PAWL_OK);
    for (int i = 0; i < 3 * EXCHANGES; i++) {
        assert_answer(&other, place, PAWL__OP_VERIFY, 1, PAWL__GONE);
    }
    assert_int_equal(atomic_load(&other.attends), 0);
    side_close(&other);
}

/* ===== A server that does not answer ===== */

/* The keeper was asked for and never came: no thread, or no processor for it. */
static void without_a_promise_it_ends_by_itself(void **state)
{
    (void)state;
    be_busy();
    server_pause(server);
    assert_ends_by_itself();
}

static void with_a_promise_the_keeper_ends_it(void **state)
{
    (void)state;
    struct asker asker;
    be_busy();
    const int64_t first_us = look();
    server_pause(server);
    asker_start(&asker, TIMEOUT_US / 1000);
    const int64_t due_us = asker.call.op.deadline_us;
    assert_true(first_us < due_us);
    WAIT_UNTIL(pawl__now_us() >= first_us, BOUND_MS);
    WAIT_UNTIL(look() == due_us, BOUND_MS); /* it comes back then, and not earlier */
    WAIT_UNTIL(pawl__now_us() >= due_us + PAST_MS * 1000, BOUND_MS);
    assert_false(atomic_load(&asker.over)); /* only the keeper can end it */
    look();
    WAIT_UNTIL(atomic_load(&asker.over), BOUND_MS);
    asker_join(&asker);
}

/* The same with a keeper that runs. */
static void the_keeper_is_in_time(void **state)
{
    (void)state;
    struct asker asker;
    keeper_start(&side);
    for (int i = 0; i < 5; i++) {
        be_busy();
    }
    server_pause(server);
    asker_start(&asker, TIMEOUT_US / 1000);
    WAIT_UNTIL(atomic_load(&asker.over), BOUND_MS);
    print_message("late by %lld us\n", (long long)(asker.over_us - asker.call.op.deadline_us));
    assert_true(asker.over_us >= asker.call.op.deadline_us);
    assert_true(asker.over_us < asker.call.op.deadline_us + BOUND_MS * 1000 / 2);
    asker_join(&asker);
}

/* The promise is about replies that are overdue; who leaves earlier has to see to that itself. */
static void a_shorter_wait_has_its_own_timer(void **state)
{
    (void)state;
    struct call call;
    be_busy();
    assert_true(look() != PAWL__NEVER);
    server_pause(server);
    call_init(&call, place, PAWL__OP_VERIFY, 1);
    const int64_t until_us = pawl__now_us() + 100000;
    pawl__engine_redis.ask(side.self, &call.op, &call.waiter, until_us);
    assert_true(pawl__now_us() >= until_us);
    assert_false(pawl__waiter_done(&call.waiter));
    server_resume(server);
    call_finish(&side, &call);
    assert_int_equal(call.op.answer, PAWL__GONE);
}

/* A promise that comes due only after the reply would have been overdue is worth nothing. */
static void a_late_promise_does_not_count(void **state)
{
    (void)state;
    be_busy();
    assert_true(look() != PAWL__NEVER);
    server_pause(server);
    assert_ends_by_itself(); /* in less than half a timeout */
}

/* ===== Getting up before the host is told ===== */

static _Atomic bool hold_back; /* complete() waits while this is set */
static _Atomic bool held_back;
static void (*complete_now)(struct pawl__host *host, struct pawl__op *ops);

static void complete_late(struct pawl__host *host, struct pawl__op *ops)
{
    while (atomic_load(&hold_back)) {
        atomic_store(&held_back, true);
        nap_ms(1);
    }
    complete_now(host, ops);
}

static void *drive_for_a_while(void *arg)
{
    (void)arg;
    struct pawl__waiter nobody;
    pawl__waiter_init(&nobody);
    pawl__engine_redis.drive(
        side.self, PAWL__AWAIT_ANSWER, &nobody, pawl__now_us() + BOUND_MS * 1000);
    return NULL;
}

static void *finish_in_thread(void *arg)
{
    call_finish(&side, arg);
    return NULL;
}

/* Others are asked to read while nobody sits. */
static bool somebody_sits(void)
{
    struct pollfd fds[PAWL__POLL_MAX];
    int64_t due_us = PAWL__NEVER;
    return pawl__engine_redis.glance(side.self, fds, &due_us) == 0;
}

/* One thread has read our answer, has got up and has not told us yet. When we sit down, with
 * somebody else's answer still to come, we must not sleep until that one is there. */
static void an_answer_that_another_thread_still_has(void **state)
{
    (void)state;
    struct call ours;
    struct call others;
    pthread_t reader;
    pthread_t sitter;
    complete_now = side.host.complete;
    side.host.complete = complete_late;
    atomic_store(&held_back, false);
    atomic_store(&hold_back, true);
    call_init(&ours, place, PAWL__OP_VERIFY, 1);
    ours.op.deadline_us += 10 * BOUND_MS * 1000;
    pawl__engine_redis.submit(side.self, &ours.op, true);
    thread_start(&reader, drive_for_a_while, NULL);
    WAIT_UNTIL(atomic_load(&held_back), BOUND_MS);

    server_pause(server);
    call_init(&others, place, PAWL__OP_VERIFY, 1);
    others.op.deadline_us = ours.op.deadline_us;
    pawl__engine_redis.submit(side.self, &others.op, false);
    assert_false(somebody_sits());
    thread_start(&sitter, finish_in_thread, &ours);
    WAIT_UNTIL(somebody_sits(), BOUND_MS);
    atomic_store(&hold_back, false);
    WAIT_UNTIL(pawl__waiter_done(&ours.waiter) && !somebody_sits(), BOUND_MS);
    pthread_join(sitter, NULL);
    pthread_join(reader, NULL);
    server_resume(server);
    call_finish(&side, &others);
    assert_int_equal(ours.op.answer, PAWL__GONE);
    assert_int_equal(others.op.answer, PAWL__GONE);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, open_tcp, close_side)
#define UNIX_CASE(test)                                           \
    {                                                             \
#test " (unix socket)", test, open_unix, close_side, NULL \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(an_idle_connection_is_promised_nothing),
        CASE(a_busy_one_asks_for_the_keeper_once),
        CASE(the_keeper_looks_every_half_timeout_while_it_is_busy),
        CASE(a_short_timeout_needs_no_keeper),
        CASE(without_a_promise_it_ends_by_itself),
        UNIX_CASE(without_a_promise_it_ends_by_itself),
        CASE(with_a_promise_the_keeper_ends_it),
        UNIX_CASE(with_a_promise_the_keeper_ends_it),
        CASE(the_keeper_is_in_time),
        UNIX_CASE(the_keeper_is_in_time),
        CASE(a_shorter_wait_has_its_own_timer),
        UNIX_CASE(a_shorter_wait_has_its_own_timer),
        CASE(a_late_promise_does_not_count),
        CASE(an_answer_that_another_thread_still_has),
    };
    return cmocka_run_group_tests(tests, start, NULL);
}
