/* SPDX-License-Identifier: Apache-2.0 */
/* The beginning of a connection, and replies that no healthy server gives.
 *
 * Method: a scripted server. It counts what it was asked, so that it can be said exactly when an
 * old connection is ended at the server, and it answers what nobody expects. Whatever it says,
 * every operation ends, and the engine works again as soon as the server makes sense. */
#include "redis_side.h"

#include "engine/redis/commands.h"
#include "support/scripted.h"

static struct scripted *scripted;
static struct side side;

static void say_nothing(struct scripted_turn *turn, void *arg)
{
    (void)turn;
    (void)arg;
}

static int open_side(void **state)
{
    cleanup_setup(state);
    scripted = scripted_start();
    scripted_handshake(scripted);
    scripted_set_info(scripted, "redis_version", "6.2.14"); /* asks nothing about rights */
    scripted_handle(scripted, "EVALSHA", ":1700000000000001\\r\\n");
    side_open(&side, scripted_url(scripted));
    return 0;
}

static int close_side(void **state)
{
    side_close(&side);
    return cleanup_teardown(state);
}

/* An acquire that is never answered, so that the connection is given up with a write in doubt. */
static void lose_a_write(struct pawl__place *place)
{
    struct call call;
    scripted_handle_with(scripted, "EVALSHA", say_nothing, NULL);
    call_init(&call, place, PAWL__OP_ACQUIRE, 1);
    call.op.deadline_us = call.op.sent_us + 100000;
    call_run(&side, &call);
    assert_ended(&call, PAWL__UNKNOWN, PAWL_UNAVAILABLE, true, "did not answer in time");
    scripted_handle(scripted, "EVALSHA", ":1700000000000002\\r\\n");
}

/* The answer after a loss: was everything before it cut off? */
static bool next_is_fenced(struct pawl__place *place)
{
    struct call call;
    if (ask(&side, &call, place, PAWL__OP_ACQUIRE, 1) != PAWL__DONE) {
        support_fail("no answer: %s", call.op.error);
    }
    return call.op.fenced;
}

static void greeting_is_complete(void **state)
{
    (void)state;
    static const char *const expected[] = {"HELLO 3", "INFO"};
    struct pawl__buffer loads;
    size_t load_count = 0;
    pawl__buffer_init(&loads, 1 << 20);
    for (size_t i = 0; i < 2; i++) {
        char *command = scripted_command(scripted, i);
        assert_string_equal(command, expected[i]);
        free(command);
    }
    assert_true(pawl__command_put_loads(&loads, &load_count));
    pawl__buffer_free(&loads);
    assert_int_equal(scripted_count(scripted, "SCRIPT LOAD *"), load_count);
    assert_int_equal(scripted_count(scripted, "CLIENT ..."), 0);
    assert_int_equal(scripted_count(scripted, "SELECT ..."), 0);
}

static void credentials_and_database_are_given(void **state)
{
    (void)state;
    struct side other;
    char url[128];
    snprintf(url, sizeof url, "redis://me:pass@127.0.0.1:%u/7", scripted_port(scripted));
    side_open(&other, url);
    assert_int_equal(scripted_count(scripted, "HELLO 3 AUTH me pass"), 1);
    assert_int_equal(scripted_count(scripted, "SELECT 7"), 1);
    side_close(&other);
    snprintf(url, sizeof url, "redis://:pass@127.0.0.1:%u", scripted_port(scripted));
    side_open(&other, url);
    assert_int_equal(scripted_count(scripted, "HELLO 3 AUTH default pass"), 1);
    side_close(&other);
}

static void old_connection_is_killed(void **state)
{
    (void)state;
    struct pawl__place *place = place_open(&side, "lock");
    scripted_handle(scripted, "CLIENT KILL", ":1\\r\\n");
    lose_a_write(place);
    assert_true(next_is_fenced(place));
    assert_int_equal(scripted_count(scripted, "CLIENT KILL ID 1"), 1);

    /* Already gone is as good. */
    scripted_handle(scripted, "CLIENT KILL", ":0\\r\\n");
    lose_a_write(place);
    assert_true(next_is_fenced(place));
    assert_int_equal(scripted_count(scripted, "CLIENT KILL ID 2"), 1);
    assert_int_equal(scripted_count(scripted, "CLIENT KILL ..."), 2);
    place_close(&side, place);
}

static void kill_is_refused(void **state)
{
    (void)state;
    struct pawl__place *place = place_open(&side, "lock");
    scripted_handle(scripted, "CLIENT KILL", "-NOPERM this user has no permissions\\r\\n");
    lose_a_write(place);
    assert_false(next_is_fenced(place));
    assert_true(side_logged(&side, "ACL SETUSER default '+client|kill'"));

    /* Two of them now, and only the last can be named: nothing is sure even if that one is killed.
     */
    scripted_handle(scripted, "CLIENT KILL", ":1\\r\\n");
    lose_a_write(place);
    assert_false(next_is_fenced(place));

    /* A new server knows none of them. */
    scripted_set_info(scripted, "run_id", "fedcba9876543210fedcba9876543210fedcba98");
    lose_a_write(place);
    assert_true(next_is_fenced(place));
    place_close(&side, place);
}

static void another_run_is_left_alone(void **state)
{
    (void)state;
    struct pawl__place *place = place_open(&side, "lock");
    scripted_handle(scripted, "CLIENT KILL", ":1\\r\\n");
    scripted_set_info(scripted, "run_id", "fedcba9876543210fedcba9876543210fedcba98");
    lose_a_write(place);
    assert_true(next_is_fenced(place));
    assert_int_equal(scripted_count(scripted, "CLIENT KILL ..."), 0);
    assert_true(side_logged(&side, "restarted"));
    place_close(&side, place);
}

static void reads_leave_no_doubt(void **state)
{
    (void)state;
    struct pawl__place *place = place_open(&side, "lock");
    struct call call;
    scripted_handle_with(scripted, "HEXISTS", say_nothing, NULL);
    call_init(&call, place, PAWL__OP_VERIFY, 1);
    call.op.deadline_us = call.op.sent_us + 100000;
    call_run(&side, &call);
    assert_ended(&call, PAWL__UNKNOWN, PAWL_UNAVAILABLE, true, "did not answer in time");
    assert_true(next_is_fenced(place));
    assert_int_equal(scripted_count(scripted, "CLIENT KILL ..."), 0);
    place_close(&side, place);
}

/* Without INFO the old client is named by its address as well. */
static void named_by_address(void **state)
{
    (void)state;
    scripted_handle(scripted, "INFO", "-NOPERM this user has no permissions\\r\\n");
    scripted_handle(scripted, "CLIENT KILL", ":1\\r\\n");
    side_close(&side);
    side_open(&side, scripted_url(scripted));
    struct pawl__place *place = place_open(&side, "lock");
    lose_a_write(place);
    assert_true(next_is_fenced(place));
    assert_int_equal(scripted_count(scripted, "CLIENT KILL ID 2 ADDR *"), 1);

    /* Not found: perhaps the server saw another address. */
    scripted_handle(scripted, "CLIENT KILL", ":0\\r\\n");
    lose_a_write(place);
    assert_false(next_is_fenced(place));
    place_close(&side, place);
}

/* ===== Nonsense ===== */

static void assert_nonsense(const char *reply, enum pawl__op_kind kind, const char *part)
{
    struct pawl__place *place = place_open(&side, "lock");
    struct call call;
    scripted_handle(scripted, "CLIENT KILL", ":1\\r\\n");
    scripted_handle(scripted, "EVALSHA", reply);
    call_init(&call, place, kind, 1);
    pawl_lock_info info = {.size = sizeof info};
    call.op.info = &info;
    call_run(&side, &call);
    assert_ended(&call, PAWL__UNKNOWN, PAWL_PROTOCOL, true, part);
    scripted_handle(scripted, "EVALSHA", ":1700000000000002\\r\\n");
    assert_true(next_is_fenced(place));
    place_close(&side, place);
}

static void replies_without_sense(void **state)
{
    (void)state;
    static const struct {
        const char *reply;
        enum pawl__op_kind kind;
        const char *part;
    } cases[] = {
        {":0\\r\\n", PAWL__OP_ACQUIRE, "makes no sense"},
        {"+OK\\r\\n", PAWL__OP_ACQUIRE, "makes no sense"},
        {"_\\r\\n", PAWL__OP_RELEASE, "makes no sense"},
        {":-1\\r\\n", PAWL__OP_RELEASE, "makes no sense"},
        {":7\\r\\n", PAWL__OP_COUNT, "makes no sense"},
        {":-2\\r\\n", PAWL__OP_PASS, "makes no sense"},
        {"*0\\r\\n", PAWL__OP_RENEW, "makes no sense"},
        {"*2\\r\\n:1\\r\\n:1\\r\\n", PAWL__OP_RENEW, "makes no sense"},
        {"*1\\r\\n:2\\r\\n", PAWL__OP_RENEW, "makes no sense"},
        {":1\\r\\n", PAWL__OP_RENEW, "makes no sense"},
        {"*1\\r\\n:1\\r\\n", PAWL__OP_INSPECT, "makes no sense"},
        {"*4\\r\\n:1\\r\\n:1\\r\\n:1\\r\\n:1\\r\\n", PAWL__OP_INSPECT, "makes no sense"},
        {"$99999999\\r\\n", PAWL__OP_ACQUIRE, "given up"},
        {"what\\r\\n", PAWL__OP_ACQUIRE, "given up"},
        {":01\\r\\n", PAWL__OP_ACQUIRE, "given up"},
        {":-0\\r\\n", PAWL__OP_ACQUIRE, "given up"},
        {":\\r\\n", PAWL__OP_ACQUIRE, "given up"},
        {":-\\r\\n", PAWL__OP_ACQUIRE, "given up"},
        {":1x\\r\\n", PAWL__OP_ACQUIRE, "given up"},
        {":99999999999999999999\\r\\n", PAWL__OP_ACQUIRE, "given up"},
        {":-9223372036854775808\\r\\n", PAWL__OP_ACQUIRE, "makes no sense"},
        {":1\\r\\n:1\\r\\n", PAWL__OP_INSPECT, "makes no sense"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_nonsense(cases[i].reply, cases[i].kind, cases[i].part);
        side_close(&side); /* a new one is not yet careful with this server */
        side_open(&side, scripted_url(scripted));
    }
}

/* The same number whole, in pieces, and together with the next one. */
static void numbers_in_pieces(void **state)
{
    (void)state;
    struct pawl__place *place = place_open(&side, "lock");
    struct call calls[2];
    scripted_play(scripted, "EXPECT EVALSHA ...\nSEND :1\\r\\n\n" /* who we are */
                            "EXPECT EVALSHA ...\nSEND :\nSILENCE 10\nSEND 17000\nSILENCE 10\n"
                            "SEND 00000000005\\r\nSILENCE 10\nSEND \\n\n");
    assert_true(acquire(&side, place, 1) == UINT64_C(1700000000000005));
    scripted_play(scripted, "EXPECT EVALSHA ...\nEXPECT EVALSHA ...\n"
                            "SEND :-1\\r\\n:1700000000000006\\r\\n\n");
    call_init(&calls[0], place, PAWL__OP_ACQUIRE, 1);
    call_init(&calls[1], place, PAWL__OP_ACQUIRE, 2);
    calls[0].op.next = &calls[1].op;
    pawl__engine_redis.submit(side.self, &calls[0].op, true);
    call_finish(&side, &calls[0]);
    call_finish(&side, &calls[1]);
    assert_int_equal(calls[0].op.answer, PAWL__HELD);
    assert_true(calls[0].op.hint_us < 0);
    assert_true(calls[1].op.token == UINT64_C(1700000000000006));
    call_free(&calls[0]);
    scripted_play(scripted, "EXPECT EVALSHA ...\nSEND :-12347\\r\\n\n");
    call_init(&calls[0], place, PAWL__OP_ACQUIRE, 1);
    call_run(&side, &calls[0]);
    assert_int_equal(calls[0].op.hint_us, 12345000);
    place_close(&side, place);
    scripted_check(scripted);
}

static void pushes_are_passed_over(void **state)
{
    (void)state;
    struct pawl__place *place = place_open(&side, "lock");
    scripted_handle(
        scripted, "EVALSHA", ">2\\r\\n$10\\r\\ninvalidate\\r\\n_\\r\\n:1700000000000003\\r\\n");
    assert_true(acquire(&side, place, 1) == UINT64_C(1700000000000003));
    assert_true(acquire(&side, place, 1) == UINT64_C(1700000000000003));
    place_close(&side, place);
}

/* Always something to read and never an answer: the deadline counts, and the next one is better. */
static void flood_ends_in_time(void **state)
{
    (void)state;
    struct pawl__place *place = place_open(&side, "lock");
    struct call call;
    scripted_handle(scripted, "CLIENT KILL", ":1\\r\\n");
    scripted_play(scripted, "EXPECT EVALSHA ...\n"
                            "BYTES 1000000000000 >2\\r\\n$10\\r\\ninvalidate\\r\\n_\\r\\n\n");
    call_init(&call, place, PAWL__OP_ACQUIRE, 1);
    call.op.deadline_us = call.op.sent_us + 200000;
    call_run(&side, &call);
    assert_true(pawl__now_us() - call.op.deadline_us < BOUND_MS * 1000 / 2);
    assert_ended(&call, PAWL__UNKNOWN, PAWL_UNAVAILABLE, true, "did not answer in time");
    assert_true(next_is_fenced(place));
    place_close(&side, place);
}

static void strange_errors(void **state)
{
    (void)state;
    struct pawl__place *place = place_open(&side, "lock");
    struct call call;
    scripted_handle(scripted, "EVALSHA", "-ERR what \\x1b[31m was that\\r\\n");
    ask(&side, &call, place, PAWL__OP_ACQUIRE, 1);
    assert_ended(&call, PAWL__UNKNOWN, PAWL_PROTOCOL, false, "ERR what \\x1b[31m was that");
    scripted_handle(scripted, "EVALSHA", "-NOSCRIPT no\\r\\n");
    scripted_handle(scripted, "EVAL", "-NOSCRIPT no\\r\\n");
    ask(&side, &call, place, PAWL__OP_ACQUIRE, 1);
    assert_ended(&call, PAWL__UNKNOWN, PAWL_PROTOCOL, false, "NOSCRIPT");
    assert_int_equal(scripted_count(scripted, "EVAL ..."), 1); /* once and not for ever */
    place_close(&side, place);
}

/* A server that was demoted is left, when it has answered all, for whoever took over. */
static void demoted_server_is_left(void **state)
{
    (void)state;
    struct pawl__place *place = place_open(&side, "lock");
    struct call calls[2];
    scripted_handle(scripted, "EVALSHA", "-READONLY You can't write against a replica.\\r\\n");
    call_init(&calls[0], place, PAWL__OP_ACQUIRE, 1);
    call_init(&calls[1], place, PAWL__OP_RELEASE, 2);
    calls[0].op.next = &calls[1].op;
    pawl__engine_redis.submit(side.self, &calls[0].op, true);
    for (size_t i = 0; i < 2; i++) {
        call_finish(&side, &calls[i]);
        assert_ended(&calls[i], PAWL__FAILED, PAWL_REFUSED, true, "read-only replica");
    }
    scripted_handle(scripted, "EVALSHA", ":1700000000000004\\r\\n");
    assert_true(next_is_fenced(place));
    assert_int_equal(scripted_accepted(scripted), 2);
    assert_int_equal(scripted_count(scripted, "CLIENT KILL ..."), 0);
    place_close(&side, place);
}

/* At a later connection a refusal ends what waits for it, and it is tried again. */
static void refused_later(void **state)
{
    (void)state;
    struct pawl__place *place = place_open(&side, "lock");
    struct call call;
    scripted_set_info(scripted, "loading", "1");
    lose_a_write(place);
    ask(&side, &call, place, PAWL__OP_ACQUIRE, 1);
    assert_ended(&call, PAWL__FAILED, PAWL_REFUSED, true, "still loading");
    scripted_handle(scripted, "HELLO", "-WRONGPASS invalid username-password pair\\r\\n");
    ask(&side, &call, place, PAWL__OP_ACQUIRE, 1);
    assert_ended(&call, PAWL__FAILED, PAWL_DENIED, false, "does not let user 'default' in");
    place_close(&side, place);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, open_side, close_side)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(greeting_is_complete),
        CASE(credentials_and_database_are_given),
        CASE(old_connection_is_killed),
        CASE(kill_is_refused),
        CASE(another_run_is_left_alone),
        CASE(reads_leave_no_doubt),
        CASE(named_by_address),
        CASE(replies_without_sense),
        CASE(numbers_in_pieces),
        CASE(pushes_are_passed_over),
        CASE(flood_ends_in_time),
        CASE(strange_errors),
        CASE(demoted_server_is_left),
        CASE(refused_later),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
