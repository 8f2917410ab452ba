/* SPDX-License-Identifier: Apache-2.0 */
/* The Redis engine: read/write locks. Does every operation leave in the server what Redisson's
 * read/write lock would, with the right TTL on every key, and say what it has to say?
 *
 * Method: as redis_engine_test.c. */
#include "redis_shared.h"

#include "support/sockets.h"
#include "support/wire.h"

/* ===== Reading ===== */

static void a_reader(void **state)
{
    (void)state;
    const struct pawl__op op = operate(PAWL__OP_ACQUIRE, PAWL_READ, 1, 30000);
    assert_int_equal(op.answer, PAWL__DONE);
    assert_true(op.token > UINT64_C(1500000000000000));
    assert_mode("read", 2);
    assert_reads(1, 30000);
    assert_ttl("lock", 30000);
    char *type = server_command(server, "TYPE %s", hold(1));
    assert_string_equal(type, "string");
    free(type);
    char text[32];
    snprintf(text, sizeof text, "%llu", (unsigned long long)op.token);
    assert_true(server_answers(server, text, "GET redisson_lock_token:{lock}"));
    assert_answer(&side, place, PAWL__OP_VERIFY, 1, PAWL__DONE);
    assert_answer(&side, place, PAWL__OP_VERIFY, 2, PAWL__GONE);
    assert_int_equal(operate(PAWL__OP_COUNT, PAWL_READ, 1, 1).answer, PAWL__DONE);
    assert_field(owner(1), "1"); /* there is one key for it */
    assert_int_equal(operate(PAWL__OP_COUNT, PAWL_READ, 2, 1).answer, PAWL__GONE);
    assert_int_equal(releases(2), PAWL__GONE);
    assert_int_equal(releases(1), PAWL__DONE);
    assert_free();
    assert_int_equal(releases(1), PAWL__GONE);
    assert_answer(&side, place, PAWL__OP_VERIFY, 1, PAWL__GONE);
}

static void readers_share(void **state)
{
    (void)state;
    const struct pawl__op first = operate(PAWL__OP_ACQUIRE, PAWL_READ, 1, 60000);
    const struct pawl__op second = operate(PAWL__OP_ACQUIRE, PAWL_READ, 2, 30000);
    assert_true(second.token == first.token + 1);
    assert_mode("read", 3);
    assert_reads(1, 60000);
    assert_reads(2, 30000);
    assert_ttl("lock", 60000); /* not shortened */
    assert_int_equal(reads(3, 90000), PAWL__DONE);
    assert_ttl("lock", 90000);

    const struct pawl__op held = operate(PAWL__OP_ACQUIRE, PAWL_WRITE, 4, 30000);
    assert_int_equal(held.answer, PAWL__HELD);
    assert_true(held.hint_us > 80000000 && held.hint_us <= 90000000);
    assert_mode("read", 4);
    assert_int_equal(releases(3), PAWL__DONE); /* and now the longest of the others counts */
    assert_ttl("lock", 60000);
    assert_int_equal(server_integer(server, "EXISTS %s", hold(3)), 0);
    assert_int_equal(releases(1), PAWL__DONE);
    assert_ttl("lock", 30000);
    assert_reads(2, 30000);
    assert_int_equal(releases(2), PAWL__DONE);
    assert_free();
    assert_int_equal(writes(4, 30000), PAWL__DONE);
}

static void asked_again_a_reader_is_the_same(void **state)
{
    (void)state;
    const struct pawl__op first = operate(PAWL__OP_ACQUIRE, PAWL_READ, 1, 30000);
    const struct pawl__op second = operate(PAWL__OP_ACQUIRE, PAWL_READ, 2, 30000);
    free(server_command(server, "PEXPIRE %s 10000", hold(1)));
    const struct pawl__op again = operate(PAWL__OP_ACQUIRE, PAWL_READ, 1, 30000);
    assert_int_equal(again.answer, PAWL__DONE);
    assert_true(again.token == first.token);
    assert_reads(1, 30000);
    assert_mode("read", 3);

    /* Nobody knows its token any more: it gets one that nobody else has. */
    free(server_command(server, "DEL %s", hold(1)));
    const struct pawl__op anew = operate(PAWL__OP_ACQUIRE, PAWL_READ, 1, 30000);
    assert_int_equal(anew.answer, PAWL__DONE);
    assert_true(anew.token > second.token);
    assert_reads(1, 30000);
    assert_mode("read", 3);
}

/* ===== Writing ===== */

static void a_writer(void **state)
{
    (void)state;
    const struct pawl__op op = operate(PAWL__OP_ACQUIRE, PAWL_WRITE, 1, 30000);
    char field[80];
    snprintf(field, sizeof field, "%s:write", owner(1));
    assert_int_equal(op.answer, PAWL__DONE);
    assert_mode("write", 2);
    assert_field(field, "1");
    assert_ttl("lock", 30000);
    assert_true(operate(PAWL__OP_ACQUIRE, PAWL_WRITE, 1, 30000).token == op.token);
    assert_field(field, "1");
    assert_int_equal(writes(2, 30000), PAWL__HELD);
    const struct pawl__op held = operate(PAWL__OP_ACQUIRE, PAWL_READ, 3, 30000);
    assert_int_equal(held.answer, PAWL__HELD);
    assert_true(held.hint_us > 20000000 && held.hint_us <= 30000000);
    assert_mode("write", 2);
    assert_answer(&side, place, PAWL__OP_VERIFY, 1, PAWL__DONE);
    assert_int_equal(operate(PAWL__OP_COUNT, PAWL_WRITE, 1, 1).answer, PAWL__DONE);
    assert_field(field, "3");
    assert_int_equal(operate(PAWL__OP_COUNT, PAWL_WRITE, 2, 1).answer, PAWL__GONE);
    assert_int_equal(renews(PAWL_WRITE, 1, 60000), PAWL__DONE);
    assert_ttl("lock", 60000);
    assert_int_equal(releases(2), PAWL__GONE);
    assert_int_equal(releases(1), PAWL__DONE);
    assert_free();
    assert_true(operate(PAWL__OP_ACQUIRE, PAWL_WRITE, 2, 30000).token == op.token + 1);
}

/* ===== Renewing ===== */

static void renewals_shorten_nothing(void **state)
{
    (void)state;
    reads(1, 60000);
    reads(2, 30000);
    assert_int_equal(renews(PAWL_READ, 2, 40000), PAWL__DONE);
    assert_reads(2, 40000);
    assert_ttl("lock", 60000);
    assert_int_equal(renews(PAWL_READ, 1, 1000), PAWL__DONE);
    assert_reads(1, 60000);
    assert_int_equal(renews(PAWL_READ, 1, 90000), PAWL__DONE);
    assert_reads(1, 90000);
    assert_reads(2, 40000);
    assert_ttl("lock", 90000);
    assert_int_equal(renews(PAWL_READ, 3, 90000), PAWL__GONE);
    assert_int_equal(server_integer(server, "EXISTS %s", hold(3)), 0);
    assert_mode("read", 3);

    /* Its key has expired, but nobody has collected it. */
    free(server_command(server, "DEL %s", hold(2)));
    assert_int_equal(renews(PAWL_READ, 2, 30000), PAWL__DONE);
    assert_reads(2, 30000);
    free(server_command(server, "DEL lock"));
    assert_int_equal(renews(PAWL_READ, 1, 30000), PAWL__GONE);
    assert_int_equal(server_integer(server, "EXISTS lock"), 0);
}

static void a_writer_goes_on_as_a_reader(void **state)
{
    (void)state;
    writes(1, 60000);
    const int fd = listener();
    assert_int_equal(renews(PAWL_READ, 1, 30000), PAWL__DONE);
    assert_mode("read", 2);
    assert_reads(1, 30000);
    assert_ttl("lock", 60000);
    assert_heard(fd, "1");
    assert_int_equal(reads(2, 30000), PAWL__DONE);
    assert_int_equal(renews(PAWL_READ, 1, 40000), PAWL__DONE);  /* a copy */
    assert_int_equal(renews(PAWL_WRITE, 1, 45000), PAWL__DONE); /* an old copy */
    assert_mode("read", 3);
    assert_reads(1, 45000);
    assert_int_equal(writes(1, 30000), PAWL__HELD); /* and an older one */
    assert_mode("read", 3);
    assert_nothing_heard(fd);
    assert_answer(&side, place, PAWL__OP_VERIFY, 1, PAWL__DONE);
    assert_int_equal(releases(1), PAWL__DONE);
    assert_ttl("lock", 30000);
    assert_int_equal(renews(PAWL_READ, 1, 40000), PAWL__GONE);
    assert_mode("read", 2);
    close(fd);
}

static void many_are_renewed_at_once(void **state)
{
    (void)state;
    enum { COUNT = 130 };
    static struct call calls[COUNT];
    reads(1, 30000);
    reads(2, 30000);
    for (uint64_t i = 0; i < COUNT; i++) {
        call_init(&calls[i], place, PAWL__OP_RENEW, 1 + i % 3);
        calls[i].op.as = PAWL_READ;
        calls[i].op.lease_us = 60000000;
        calls[i].op.next = i + 1 < COUNT ? &calls[i + 1].op : NULL;
    }
    pawl__engine_redis.submit(side.self, &calls[0].op, true);
    for (uint64_t i = 0; i < COUNT; i++) {
        call_finish(&side, &calls[i]);
        assert_int_equal(calls[i].op.answer, i % 3 == 2 ? PAWL__GONE : PAWL__DONE);
    }
    assert_reads(1, 60000);
    assert_reads(2, 60000);
}

/* ===== Messages ===== */

static void only_the_last_is_heard_of(void **state)
{
    (void)state;
    const int fd = listener();
    const int waiter = socket_connect(server_port(server));
    assert_true(wire_answers(waiter, "SUBSCRIBE " CHANNEL, "subscribe " CHANNEL " 1"));
    reads(1, 30000);
    reads(2, 30000);
    assert_false(operate(PAWL__OP_RELEASE, PAWL_READ, 1, 1).others);
    assert_nothing_heard(fd);
    assert_true(operate(PAWL__OP_RELEASE, PAWL_READ, 2, 1).others);
    assert_heard(fd, "0");
    writes(3, 30000);
    assert_true(operate(PAWL__OP_RELEASE, PAWL_WRITE, 3, 1).others);
    assert_heard(fd, "1");
    reads(4, 30000);
    assert_answer(&side, place, PAWL__OP_BREAK, 0, PAWL__DONE);
    assert_heard(fd, "0");
    assert_free();
    writes(5, 30000);
    assert_answer(&side, place, PAWL__OP_BREAK, 0, PAWL__DONE);
    assert_heard(fd, "1");
    assert_answer(&side, place, PAWL__OP_BREAK, 0, PAWL__GONE);
    assert_nothing_heard(fd);
    close(waiter);
    close(fd);
}

static void our_own_ear_is_not_others(void **state)
{
    (void)state;
    assert_answer(&side, place, PAWL__OP_WATCH, 0, PAWL__DONE);
    writes(1, 30000);
    const struct pawl__op op = operate(PAWL__OP_RELEASE, PAWL_WRITE, 1, 1);
    assert_false(op.others);
    assert_int_equal(server_integer(server, "PUBLISH " CHANNEL " 0"), 1);
    assert_answer(&side, place, PAWL__OP_UNWATCH, 0, PAWL__DONE);
}

/* ===== Looking ===== */

static void inspection(void **state)
{
    (void)state;
    pawl_lock_info info = {.size = sizeof info};
    char writer[80];
    struct call call;
    call_init(&call, place, PAWL__OP_INSPECT, 0);
    call.op.info = &info;
    const struct pawl__op op = operate(PAWL__OP_ACQUIRE, PAWL_WRITE, 1, 30000);
    call_run(&side, &call);
    snprintf(writer, sizeof writer, "%s:write", owner(1));
    assert_true(info.held);
    assert_string_equal(info.holder, writer);
    assert_int_equal(info.hold_count, 1);
    assert_true(info.token == op.token);
    assert_true(info.remaining_ms > 20000 && info.remaining_ms <= 30000);
    renews(PAWL_READ, 1, 30000);
    call_init(&call, place, PAWL__OP_INSPECT, 0);
    call.op.info = &info;
    call_run(&side, &call);
    assert_string_equal(info.holder, owner(1));
}

/* A name with a brace of its own is not put into braces, as in Redisson. */
static void names_with_braces(void **state)
{
    (void)state;
    struct pawl__place *tagged = place_open_as(&side, "{tag}rest", PAWL__FAMILY_SHARED);
    const int fd = listener();
    struct call call;
    call_init(&call, tagged, PAWL__OP_ACQUIRE, 1);
    call.op.as = PAWL_READ;
    call_run(&side, &call);
    assert_int_equal(call.op.answer, PAWL__DONE);
    assert_int_equal(server_integer(server, "EXISTS {tag}rest:%s:rwlock_timeout:1", owner(1)), 1);
    assert_answer(&side, tagged, PAWL__OP_RELEASE, 1, PAWL__DONE);
    assert_message(fd, "pmessage * redisson_rwlock:{tag}rest 0");
    assert_int_equal(server_integer(server, "EXISTS {tag}rest:%s:rwlock_timeout:1", owner(1)), 0);
    close(fd);
    place_close(&side, tagged);
}

static void scripts_are_flushed(void **state)
{
    (void)state;
    free(server_command(server, "SCRIPT FLUSH"));
    assert_int_equal(writes(1, 30000), PAWL__DONE);
    free(server_command(server, "SCRIPT FLUSH"));
    assert_int_equal(renews(PAWL_READ, 1, 60000), PAWL__DONE);
    free(server_command(server, "SCRIPT FLUSH"));
    assert_int_equal(reads(2, 30000), PAWL__DONE);
    free(server_command(server, "SCRIPT FLUSH"));
    assert_answer(&side, place, PAWL__OP_VERIFY, 1, PAWL__DONE);
    free(server_command(server, "SCRIPT FLUSH"));
    assert_int_equal(releases(1), PAWL__DONE);
    free(server_command(server, "SCRIPT FLUSH"));
    assert_answer(&side, place, PAWL__OP_BREAK, 0, PAWL__DONE);
    assert_free();
}

static void memory_is_full(void **state)
{
    (void)state;
    writes(1, 30000);
    free(server_command(server, "CONFIG SET maxmemory 1"));
    assert_int_equal(renews(PAWL_WRITE, 1, 60000), PAWL__DONE);
    assert_int_equal(releases(1), PAWL__DONE);
    struct call call;
    call_init(&call, place, PAWL__OP_ACQUIRE, 2);
    call.op.as = PAWL_READ;
    call_run(&side, &call);
    assert_ended(&call, PAWL__FAILED, PAWL_REFUSED, true, "memory limit");
    assert_int_equal(server_integer(server, "EXISTS lock"), 0);
    free(server_command(server, "CONFIG SET maxmemory 0"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SHARED_CASE(a_reader),
        SHARED_CASE(readers_share),
        SHARED_CASE(asked_again_a_reader_is_the_same),
        SHARED_CASE(a_writer),
        SHARED_CASE(renewals_shorten_nothing),
        SHARED_CASE(a_writer_goes_on_as_a_reader),
        SHARED_CASE(many_are_renewed_at_once),
        SHARED_CASE(only_the_last_is_heard_of),
        SHARED_CASE(our_own_ear_is_not_others),
        SHARED_CASE(inspection),
        SHARED_CASE(names_with_braces),
        SHARED_CASE(scripts_are_flushed),
        SHARED_CASE(memory_is_full),
    };
    return cmocka_run_group_tests(tests, fixture_start, NULL);
}
