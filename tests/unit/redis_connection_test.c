/* SPDX-License-Identifier: Apache-2.0 */
/* The command connection on bad days: killed, frozen, restarted, full; and who reads for whom.
 *
 * Method: a real server that is stopped, killed and questioned. What was sent and not answered must
 * end UNKNOWN, what was not sent FAILED or later DONE, and everything by its deadline.
 * Bounds are generous, for the machine may be busy; none of them is met by waiting for ever. */
#include "redis_fixture.h"

static void init_with_limit(struct call *call, struct pawl__place *place, enum pawl__op_kind kind,
    uint64_t id, int64_t limit_ms)
{
    call_init(call, place, kind, id);
    call->op.deadline_us = call->op.sent_us + limit_ms * 1000;
}

/* Ask again, as the core does, until there is an answer. */
static void ask_until_answered(
    struct call *call, struct pawl__place *place, enum pawl__op_kind kind, uint64_t id)
{
    const int64_t end_us = pawl__now_us() + BOUND_MS * 1000;
    while (ask(&side, call, place, kind, id) >= PAWL__FAILED) {
        assert_true(call->op.again);
        call_free(call);
        assert_true(pawl__now_us() < end_us);
    }
}

/* ===== A real server ===== */

/* Has a paused server received a command? */
static bool has_postponed_client(void)
{
    char *clients = server_command(server, "CLIENT LIST TYPE normal");
    const bool found = strstr(clients, "flags=b") != NULL;
    free(clients);
    return found;
}

static void killed_in_flight(void **state)
{
    (void)state;
    struct pawl__place *place = place_open(&side, "lock");
    struct call call;
    free(server_command(server, "CLIENT PAUSE 20000 WRITE"));
    init_with_limit(&call, place, PAWL__OP_ACQUIRE, 1, BOUND_MS);
    pawl__engine_redis.submit(side.self, &call.op, false);
    WAIT_UNTIL(has_postponed_client(), BOUND_MS);
    assert_int_equal(server_kill_clients(server, "normal"), 1);
    call_finish(&side, &call);
    assert_ended(&call, PAWL__UNKNOWN, PAWL_UNAVAILABLE, true, "given up");
    assert_int_equal(atomic_load(&side.reconnects), 0);
    free(server_command(server, "CLIENT UNPAUSE"));

    ask_until_answered(&call, place, PAWL__OP_VERIFY, 1);
    assert_int_equal(call.op.answer, PAWL__GONE);
    assert_true(call.op.fenced);
    assert_int_equal(atomic_load(&side.reconnects), 1);
    acquire(&side, place, 1);
    place_close(&side, place);
}

static void frozen_server(void **state)
{
    (void)state;
    struct pawl__place *place = place_open(&side, "lock");
    struct call call;
    server_pause(server);
    init_with_limit(&call, place, PAWL__OP_ACQUIRE, 1, 200);
    call_run(&side, &call);
    const int64_t late_us = pawl__now_us() - call.op.deadline_us;
    assert_ended(&call, PAWL__UNKNOWN, PAWL_UNAVAILABLE, true, "did not answer in time");
    assert_true(late_us >= 0 && late_us < BOUND_MS * 1000 / 2);
    /* While nobody greets us the next one is not sent at all. */
    init_with_limit(&call, place, PAWL__OP_RELEASE, 1, 200);
    call_run(&side, &call);
    assert_int_equal(call.op.answer, PAWL__FAILED);
    assert_true(call.op.again);
    call_free(&call);
    server_resume(server);

    ask_until_answered(&call, place, PAWL__OP_RELEASE, 1);
    assert_true(call.op.fenced);
    assert_int_equal(server_integer(server, "EXISTS lock"), 0);
    place_close(&side, place);
}

/* A renewal that has waited long for a connection would soon have the new one given up: it is left
 * to the core, which is told that there is one, to ask again. */
static void a_new_connection_is_spared_old_renewals(void **state)
{
    (void)state;
    struct pawl__place *place = place_open(&side, "lock");
    struct call call;
    struct call stale;
    struct call wanted;
    struct call fresh;
    acquire(&side, place, 1);
    server_pause(server);
    init_with_limit(&call, place, PAWL__OP_VERIFY, 1, 200);
    call_run(&side, &call);
    assert_ended(&call, PAWL__UNKNOWN, PAWL_UNAVAILABLE, true, "did not answer in time");
    init_with_limit(&stale, place, PAWL__OP_RENEW, 1, BOUND_MS);
    stale.op.sent_us -= 2 * BOUND_MS * 1000;
    pawl__engine_redis.submit(side.self, &stale.op, false);
    init_with_limit(&wanted, place, PAWL__OP_RENEW, 1, BOUND_MS);
    wanted.op.sent_us -= 2 * BOUND_MS * 1000;
    wanted.op.wanted = true;
    pawl__engine_redis.submit(side.self, &wanted.op, false);
    init_with_limit(&fresh, place, PAWL__OP_RENEW, 1, BOUND_MS);
    pawl__engine_redis.submit(side.self, &fresh.op, false);
    server_resume(server);
    keeper_start(&side);
    WAIT_UNTIL(pawl__waiter_done(&stale.waiter) && pawl__waiter_done(&wanted.waiter) &&
                   pawl__waiter_done(&fresh.waiter),
        2 * BOUND_MS);
    assert_ended(&stale, PAWL__FAILED, PAWL_UNAVAILABLE, true, "no connection");
    assert_int_equal(wanted.op.answer, PAWL__DONE); /* a caller waits for it */
    assert_int_equal(fresh.op.answer, PAWL__DONE);
    assert_int_equal(atomic_load(&side.reconnects), 1);
    place_close(&side, place);
}

static void restarted_server(void **state)
{
    (void)state;
    struct pawl__place *place = place_open(&side, "lock");
    struct call call;
    acquire(&side, place, 1);
    server_kill(server);
    init_with_limit(&call, place, PAWL__OP_RENEW, 1, BOUND_MS);
    call_run(&side, &call); /* the connection breaks */
    assert_true(call.op.answer >= PAWL__FAILED && call.op.again);
    call_free(&call);
    init_with_limit(&call, place, PAWL__OP_RENEW, 1, BOUND_MS);
    call_run(&side, &call);
    assert_ended(&call, PAWL__FAILED, PAWL_UNAVAILABLE, true, "Connection refused");

    server_restart(server, false);
    ask_until_answered(&call, place, PAWL__OP_RENEW, 1);
    assert_int_equal(call.op.answer, PAWL__GONE);
    assert_true(call.op.fenced); /* the old connection died with the old server */
    assert_int_equal(atomic_load(&side.reconnects), 1);
    assert_true(side_logged(&side, "restarted"));
    place_close(&side, place);
}

/* A server that ended the connection long ago is noticed before anything is sent. */
static void ended_while_idle(void **state)
{
    (void)state;
    struct pawl__place *place = place_open(&side, "lock");
    struct call call;
    acquire(&side, place, 1);
    assert_int_equal(server_kill_clients(server, "normal"), 1);
    call_init(&call, place, PAWL__OP_VERIFY, 1);
    call.op.sent_us += 2 * TIMEOUT_US; /* as if so much time had passed */
    call.op.deadline_us += 2 * TIMEOUT_US;
    call_run(&side, &call);
    assert_int_equal(call.op.answer, PAWL__DONE);
    assert_int_equal(atomic_load(&side.reconnects), 1);
    place_close(&side, place);
}

static void contact_on_demand(void **state)
{
    (void)state;
    struct side lazy;
    side_init(&lazy);
    assert_int_equal(side_prepare(&lazy, server_url(server)), PAWL_OK);
    struct pawl__place *place = place_open(&lazy, "lazy");
    acquire(&lazy, place, 1);
    assert_int_equal(atomic_load(&lazy.reconnects), 0);
    place_close(&lazy, place);
    side_close(&lazy);
}

/* ===== Many at once ===== */

static int64_t evalsha_calls(void)
{
    char *stats = server_command(server, "INFO commandstats");
    const char *line = strstr(stats, "cmdstat_evalsha:calls=");
    const int64_t calls = line == NULL ? 0 : strtol(strchr(line, '=') + 1, NULL, 10);
    free(stats);
    return calls;
}

static void renewals_share_scripts(void **state)
{
    (void)state;
    enum { COUNT = 250 };
    static struct pawl__place *places[COUNT];
    static struct call calls[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        char name[16];
        snprintf(name, sizeof name, "lock-%zu", i);
        places[i] = place_open(&side, name);
        if (i != 123) {
            acquire(&side, places[i], i + 1);
        }
        call_init(&calls[i], places[i], PAWL__OP_RENEW, i + 1);
        calls[i].op.lease_us = 90000000;
        calls[i].op.deadline_us += BOUND_MS * 1000;
        if (i > 0) {
            calls[i - 1].op.next = &calls[i].op;
        }
    }
    free(server_command(server, "SET lock-77 x")); /* not a lock any more */
    free(server_command(server, "CONFIG RESETSTAT"));
    pawl__engine_redis.submit(side.self, &calls[0].op, true);
    for (size_t i = 0; i < COUNT; i++) {
        call_finish(&side, &calls[i]);
        assert_int_equal(calls[i].op.answer, i == 123 || i == 77 ? PAWL__GONE : PAWL__DONE);
        place_close(&side, places[i]);
    }
    assert_int_equal(evalsha_calls(), 4); /* and who we are, for longer leases than before */
    assert_true(server_integer(server, "PTTL lock-249") > 60000);
}

struct worker {
    pthread_t thread;
    size_t index;
    unsigned rounds;
    unsigned answered;
    bool disturbed; /* the connection is killed now and then */
};

static void *work(void *arg)
{
    struct worker *worker = arg;
    char name[16];
    snprintf(name, sizeof name, "worker-%zu", worker->index);
    struct pawl__place *place = place_open(&side, name);
    for (unsigned i = 0; i < worker->rounds; i++) {
        const uint64_t id = worker->index * 1000000 + i;
        static const enum pawl__op_kind kinds[] = {PAWL__OP_ACQUIRE, PAWL__OP_RELEASE};
        for (size_t k = 0; k < 2; k++) {
            struct call call;
            init_with_limit(&call, place, kinds[k], id, 2 * BOUND_MS);
            call_run(&side, &call);
            const bool answered = call.op.answer < PAWL__FAILED;
            if (!answered && !worker->disturbed) {
                support_fail("worker %zu: %s", worker->index, call.op.error);
            }
            worker->answered += answered ? 1 : 0;
            call_free(&call);
        }
    }
    place_close(&side, place);
    return NULL;
}

static void run_workers(struct worker *workers, size_t count, unsigned rounds, bool disturbed)
{
    for (size_t i = 0; i < count; i++) {
        workers[i] = (struct worker){.index = i + 1, .rounds = rounds, .disturbed = disturbed};
        thread_start(&workers[i].thread, work, &workers[i]);
    }
    for (int kills = 0; disturbed && kills < 10; kills++) {
        server_kill_clients(server, "normal");
        nap_ms(20); /* the disturbance is what this is about */
    }
    for (size_t i = 0; i < count; i++) {
        pthread_join(workers[i].thread, NULL);
    }
}

static void sixty_four_threads(void **state)
{
    (void)state;
    static struct worker workers[64];
    run_workers(workers, 64, 50, false);
    for (size_t i = 0; i < 64; i++) {
        assert_int_equal(workers[i].answered, 100);
    }
    assert_int_equal(server_client_count(server, "normal"), 1);
}

static void threads_through_kills(void **state)
{
    (void)state;
    static struct worker workers[16];
    keeper_start(&side);
    run_workers(workers, 16, 300, true);
    unsigned answered = 0;
    for (size_t i = 0; i < 16; i++) {
        answered += workers[i].answered;
    }
    assert_true(answered > 16 * 300);
    assert_true(atomic_load(&side.reconnects) > 0);
}

/* ===== Who reads ===== */

static void keeper_reads_for_nobody(void **state)
{
    (void)state;
    keeper_start(&side);
    struct pawl__place *place = place_open(&side, "lock");
    struct call call;
    init_with_limit(&call, place, PAWL__OP_ACQUIRE, 1, BOUND_MS);
    pawl__engine_redis.submit(side.self, &call.op, false);
    WAIT_UNTIL(pawl__waiter_done(&call.waiter), BOUND_MS);
    assert_int_equal(call.op.answer, PAWL__DONE);
    assert_true(atomic_load(&side.attends) > 0);
    place_close(&side, place);
}

static void nobody_waits_for_lazy_ones(void **state)
{
    (void)state;
    struct pawl__place *place = place_open(&side, "lock");
    acquire(&side, place, 1);
    struct call lazy;
    call_init(&lazy, place, PAWL__OP_COUNT, 1);
    lazy.op.count = 2;
    lazy.op.lazy = true;
    pawl__engine_redis.submit(side.self, &lazy.op, false);
    assert_int_equal(atomic_load(&side.attends), 0);
    WAIT_UNTIL(server_integer(server, "HVALS lock") == 2, BOUND_MS); /* but it is sent */
    assert_false(pawl__waiter_done(&lazy.waiter));
    assert_answer(&side, place, PAWL__OP_VERIFY, 1, PAWL__DONE);
    assert_true(pawl__waiter_done(&lazy.waiter));
    assert_int_equal(lazy.op.answer, PAWL__DONE);
    place_close(&side, place);
}

/* Who leaves without its answer leaves it to the keeper. */
static void strays_are_attended(void **state)
{
    (void)state;
    struct pawl__place *place = place_open(&side, "lock");
    struct call call;
    free(server_command(server, "CLIENT PAUSE 20000 WRITE"));
    init_with_limit(&call, place, PAWL__OP_ACQUIRE, 1, BOUND_MS);
    pawl__engine_redis.submit(side.self, &call.op, true);
    assert_int_equal(atomic_load(&side.attends), 0);
    pawl__engine_redis.drive(side.self, PAWL__AWAIT_ANSWER, &call.waiter, pawl__now_us() + 50000);
    assert_false(pawl__waiter_done(&call.waiter));
    assert_int_equal(atomic_load(&side.attends), 1);
    free(server_command(server, "CLIENT UNPAUSE"));
    keeper_start(&side);
    WAIT_UNTIL(pawl__waiter_done(&call.waiter), BOUND_MS);
    assert_int_equal(call.op.answer, PAWL__DONE);
    place_close(&side, place);
}

static void *finish_in_thread(void *arg)
{
    call_finish(&side, arg);
    return NULL;
}

/* The leader has time, a follower has not: it must not wait for the leader's patience. */
static void deadlines_out_of_order(void **state)
{
    (void)state;
    struct pawl__place *place = place_open(&side, "lock");
    struct call patient;
    struct call hasty;
    pthread_t thread;
    server_pause(server);
    init_with_limit(&patient, place, PAWL__OP_VERIFY, 1, 3 * BOUND_MS);
    pawl__engine_redis.submit(side.self, &patient.op, true);
    thread_start(&thread, finish_in_thread, &patient);
    init_with_limit(&hasty, place, PAWL__OP_ACQUIRE, 1, 300);
    pawl__engine_redis.submit(side.self, &hasty.op, true);
    call_finish(&side, &hasty);
    assert_true(pawl__now_us() < hasty.op.deadline_us + BOUND_MS * 1000);
    assert_true(hasty.op.answer >= PAWL__FAILED);
    call_free(&hasty);
    server_resume(server);
    pthread_join(thread, NULL);
    call_free(&patient);
    place_close(&side, place);
}

/* ===== Limits ===== */

static void too_much_is_refused(void **state)
{
    (void)state;
    enum { COUNT = 16000 };
    static struct call calls[COUNT];
    char name[1025];
    memset(name, 'n', 1024);
    name[1024] = '\0';
    struct pawl__place *place = place_open(&side, name);
    unsigned failed = 0;
    server_pause(server);
    for (size_t i = 0; i < COUNT; i++) {
        init_with_limit(&calls[i], place, PAWL__OP_VERIFY, 1, 6 * BOUND_MS);
        pawl__engine_redis.submit(side.self, &calls[i].op, false);
        if (pawl__waiter_done(&calls[i].waiter)) {
            assert_ended(&calls[i], PAWL__FAILED, PAWL_UNAVAILABLE, true, "too much is waiting");
            failed++;
        }
    }
    server_resume(server);
    assert_true(failed > 0 && failed < COUNT);
    for (size_t i = 0; i < COUNT; i++) {
        call_finish(&side, &calls[i]);
        assert_true(calls[i].op.answer == PAWL__GONE || calls[i].op.answer == PAWL__FAILED);
    }
    place_close(&side, place);
}

static void stop_ends_everything(void **state)
{
    (void)state;
    struct side other;
    struct call calls[2];
    struct call late;
    side_open(&other, server_url(server));
    struct pawl__place *place = place_open(&other, "lock");
    server_pause(server);
    for (size_t i = 0; i < 2; i++) {
        init_with_limit(&calls[i], place, PAWL__OP_ACQUIRE, 1, BOUND_MS);
        pawl__engine_redis.submit(other.self, &calls[i].op, i == 1);
    }
    pawl__engine_redis.stop(other.self);
    for (size_t i = 0; i < 2; i++) {
        assert_true(pawl__waiter_done(&calls[i].waiter));
        assert_ended(&calls[i], PAWL__UNKNOWN, PAWL_UNAVAILABLE, true, "closed");
    }
    static const enum pawl__op_kind kinds[] = {PAWL__OP_RELEASE, PAWL__OP_WATCH, PAWL__OP_UNWATCH};
    for (size_t i = 0; i < 3; i++) {
        call_init(&late, place, kinds[i], 1);
        pawl__engine_redis.submit(other.self, &late.op, false);
        assert_true(pawl__waiter_done(&late.waiter));
        assert_ended(&late, PAWL__FAILED, PAWL_UNAVAILABLE, false, "closed");
    }
    pawl__engine_redis.place_close(other.self, place);
    place_discard(place);
    pawl__engine_redis.close(other.self);
    server_resume(server);
}

static void nothing_leaks(void **state)
{
    (void)state;
    const size_t before = open_descriptor_count();
    for (int i = 0; i < 3; i++) {
        struct side other;
        side_open(&other, i % 2 == 0 ? server_url(server) : server_unix_url(server));
        struct pawl__place *place = place_open(&other, "leak");
        acquire(&other, place, 1);
        assert_answer(&other, place, PAWL__OP_WATCH, 0, PAWL__DONE);
        assert_answer(&other, place, PAWL__OP_RELEASE, 1, PAWL__DONE);
        place_close(&other, place);
        side_close(&other);
    }
    assert_int_equal(open_descriptor_count(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(killed_in_flight),
        CASE(frozen_server),
        CASE(a_new_connection_is_spared_old_renewals),
        CASE(restarted_server),
        CASE(ended_while_idle),
        CASE(contact_on_demand),
        CASE(renewals_share_scripts),
        CASE(sixty_four_threads),
        CASE(threads_through_kills),
        CASE(keeper_reads_for_nobody),
        CASE(nobody_waits_for_lazy_ones),
        CASE(strays_are_attended),
        CASE(deadlines_out_of_order),
        CASE(too_much_is_refused),
        CASE(stop_ends_everything),
        CASE(nothing_leaks),
    };
    return cmocka_run_group_tests(tests, fixture_start, NULL);
}
