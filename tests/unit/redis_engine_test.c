/* SPDX-License-Identifier: Apache-2.0 */
/* The Redis engine: does every operation do in the server what it says, and lie there as Redisson's
 * locks lie?
 *
 * Method: a host that only writes down what it is told, the engine, and a real server into which
 * the test looks with commands of its own. Each operation is also repeated, as the core repeats one
 * whose answer was lost. */
#include "redis_fixture.h"

#include "engine/redis/lua_scripts.h"
#include "support/sockets.h"
#include "support/wire.h"

#include <sys/socket.h>
#include <unistd.h>

static void owner_of(uint64_t id, char *owner, size_t size)
{
    snprintf(owner, size, "%s:%llu", side.host.uuid, (unsigned long long)id);
}

/* The lock as it lies in the server: one field, this count, and a TTL of about so much. */
static void assert_lock(const char *name, uint64_t id, const char *count, int64_t ttl_ms)
{
    char owner[64];
    char expected[96];
    owner_of(id, owner, sizeof owner);
    snprintf(expected, sizeof expected, "%s %s", owner, count);
    assert_true(server_answers(server, expected, "HGETALL %s", name));
    const int64_t left_ms = server_integer(server, "PTTL %s", name);
    assert_true(left_ms > ttl_ms - BOUND_MS && left_ms <= ttl_ms);
}

/* ===== Operations ===== */

static void acquire_and_release(void **state)
{
    (void)state;
    struct pawl__place *place = place_open(&side, "lock");
    const uint64_t token = acquire(&side, place, 1);
    assert_lock("lock", 1, "1", 30000);
    char text[32];
    snprintf(text, sizeof text, "%llu", (unsigned long long)token);
    assert_true(server_answers(server, text, "GET redisson_lock_token:{lock}"));
    assert_true(token > UINT64_C(1500000000000000));

    assert_answer(&side, place, PAWL__OP_VERIFY, 1, PAWL__DONE);
    assert_answer(&side, place, PAWL__OP_VERIFY, 2, PAWL__GONE);
    assert_answer(&side, place, PAWL__OP_RELEASE, 2, PAWL__GONE);
    assert_lock("lock", 1, "1", 30000);
    assert_answer(&side, place, PAWL__OP_RELEASE, 1, PAWL__DONE);
    assert_int_equal(server_integer(server, "EXISTS lock"), 0);
    assert_answer(&side, place, PAWL__OP_RELEASE, 1, PAWL__GONE);
    assert_answer(&side, place, PAWL__OP_VERIFY, 1, PAWL__GONE);
    place_close(&side, place);
}

static void acquire_again_is_the_same_acquire(void **state)
{
    (void)state;
    struct pawl__place *place = place_open(&side, "lock");
    const uint64_t token = acquire(&side, place, 7);
    struct call call;
    call_init(&call, place, PAWL__OP_COUNT, 7);
    call.op.count = 3;
    call_run(&side, &call);
    assert_int_equal(call.op.answer, PAWL__DONE);
    assert_true(acquire(&side, place, 7) == token);
    assert_lock("lock", 7, "3", 30000);
    assert_answer(&side, place, PAWL__OP_RELEASE, 7, PAWL__DONE);
    assert_true(acquire(&side, place, 8) == token + 1);
    place_close(&side, place);
}

static void lease_is_rounded_up(void **state)
{
    (void)state;
    struct pawl__place *place = place_open(&side, "lock");
    struct call call;
    call_init(&call, place, PAWL__OP_ACQUIRE, 1);
    call.op.lease_us = 59999001;
    call_run(&side, &call);
    assert_int_equal(call.op.answer, PAWL__DONE);
    assert_lock("lock", 1, "1", 60000);

    /* A lease below the server's unit is not none, which would delete the key at once. */
    assert_answer(&side, place, PAWL__OP_RELEASE, 1, PAWL__DONE);
    call_init(&call, place, PAWL__OP_ACQUIRE, 2);
    call.op.lease_us = 1;
    call_run(&side, &call);
    assert_int_equal(call.op.answer, PAWL__DONE);
    place_close(&side, place);
}

static void held_says_for_how_long(void **state)
{
    (void)state;
    struct pawl__place *place = place_open(&side, "lock");
    acquire(&side, place, 1);
    struct call call;
    assert_int_equal(ask(&side, &call, place, PAWL__OP_ACQUIRE, 2), PAWL__HELD);
    assert_true(call.op.hint_us > (30000 - BOUND_MS) * 1000 && call.op.hint_us <= 30000000);
    assert_lock("lock", 1, "1", 30000);

    free(server_command(server, "PERSIST lock"));
    assert_int_equal(ask(&side, &call, place, PAWL__OP_ACQUIRE, 2), PAWL__HELD);
    assert_true(call.op.hint_us < 0);
    call_free(&call);
    place_close(&side, place);
}

static void foreign_lock_is_held(void **state)
{
    (void)state;
    struct pawl__place *place = place_open(&side, "lock");
    free(server_command(server, "HSET lock 285475da-9152-4c83-822a-67ee2f116a79:54 2"));
    free(server_command(server, "PEXPIRE lock 30000"));
    assert_answer(&side, place, PAWL__OP_ACQUIRE, 1, PAWL__HELD);
    assert_answer(&side, place, PAWL__OP_RELEASE, 1, PAWL__GONE);
    assert_true(
        server_answers(server, "285475da-9152-4c83-822a-67ee2f116a79:54 2", "HGETALL lock"));
    place_close(&side, place);
}

static void renew_moves_the_end(void **state)
{
    (void)state;
    struct pawl__place *place = place_open(&side, "lock");
    acquire(&side, place, 1);
    struct call call;
    call_init(&call, place, PAWL__OP_RENEW, 1);
    call.op.lease_us = 90000000;
    call_run(&side, &call);
    assert_int_equal(call.op.answer, PAWL__DONE);
    assert_lock("lock", 1, "1", 90000);
    assert_true(server_integer(server, "PTTL lock") > 60000);

    assert_answer(&side, place, PAWL__OP_RENEW, 2, PAWL__GONE);
    assert_true(server_integer(server, "PTTL lock") > 60000);
    free(server_command(server, "DEL lock"));
    assert_answer(&side, place, PAWL__OP_RENEW, 1, PAWL__GONE);
    assert_int_equal(server_integer(server, "EXISTS lock"), 0);
    place_close(&side, place);
}

static void count_is_shown_only_to_the_holder(void **state)
{
    (void)state;
    struct pawl__place *place = place_open(&side, "lock");
    struct call call;
    call_init(&call, place, PAWL__OP_COUNT, 1);
    call.op.count = 2;
    call_run(&side, &call);
    assert_int_equal(call.op.answer, PAWL__GONE);
    assert_int_equal(server_integer(server, "EXISTS lock"), 0);

    acquire(&side, place, 1);
    call_init(&call, place, PAWL__OP_COUNT, 1);
    call.op.count = 12;
    call_run(&side, &call);
    assert_int_equal(call.op.answer, PAWL__DONE);
    assert_lock("lock", 1, "12", 30000);
    place_close(&side, place);
}

static void pass_gives_it_to_the_heir(void **state)
{
    (void)state;
    struct pawl__place *place = place_open(&side, "lock");
    const uint64_t token = acquire(&side, place, 1);
    for (int copy = 0; copy < 2; copy++) { /* the second is a repetition */
        struct call call;
        call_init(&call, place, PAWL__OP_PASS, 1);
        call.op.heir_id = 2;
        call.op.lease_us = 60000000;
        call_run(&side, &call);
        assert_int_equal(call.op.answer, PAWL__DONE);
        assert_true(call.op.token == token + 1);
        assert_lock("lock", 2, "1", 60000);
    }
    struct call call;
    call_init(&call, place, PAWL__OP_PASS, 3);
    call.op.heir_id = 4;
    call_run(&side, &call);
    assert_int_equal(call.op.answer, PAWL__GONE);
    assert_lock("lock", 2, "1", 60000);
    place_close(&side, place);
}

static void break_frees_whoever_holds(void **state)
{
    (void)state;
    struct pawl__place *place = place_open(&side, "lock");
    assert_answer(&side, place, PAWL__OP_BREAK, 0, PAWL__GONE);
    acquire(&side, place, 1);
    assert_answer(&side, place, PAWL__OP_BREAK, 0, PAWL__DONE);
    assert_int_equal(server_integer(server, "EXISTS lock"), 0);
    assert_answer(&side, place, PAWL__OP_VERIFY, 1, PAWL__GONE);
    place_close(&side, place);
}

static void inspect_tells_all(void **state)
{
    (void)state;
    struct pawl__place *place = place_open(&side, "lock");
    pawl_lock_info info = {.size = sizeof info, .hold_count = 99};
    struct call call;
    call_init(&call, place, PAWL__OP_INSPECT, 0);
    call.op.info = &info;
    call_run(&side, &call);
    assert_int_equal(call.op.answer, PAWL__DONE);
    assert_false(info.held);
    assert_int_equal(info.hold_count, 0);
    assert_int_equal(info.remaining_ms, 0);
    assert_true(info.token == 0);
    assert_string_equal(info.holder, "");

    const uint64_t token = acquire(&side, place, 5);
    char owner[64];
    owner_of(5, owner, sizeof owner);
    call_init(&call, place, PAWL__OP_INSPECT, 0);
    call.op.info = &info;
    call_run(&side, &call);
    assert_true(info.held);
    assert_int_equal(info.hold_count, 1);
    assert_true(info.remaining_ms > 30000 - BOUND_MS && info.remaining_ms <= 30000);
    assert_true(info.token == token);
    assert_string_equal(info.holder, owner);
    place_close(&side, place);
}

static void inspect_of_strange_locks(void **state)
{
    (void)state;
    struct pawl__place *place = place_open(&side, "lock");
    pawl_lock_info info = {.size = sizeof info};
    struct call call;
    char field[256];
    memset(field, 'o', sizeof field - 1);
    field[sizeof field - 1] = '\0';
    free(server_command(server, "HSET lock mode read %s 99999999999", field));
    call_init(&call, place, PAWL__OP_INSPECT, 0);
    call.op.info = &info;
    call_run(&side, &call);
    assert_int_equal(call.op.answer, PAWL__DONE);
    assert_true(info.held);
    assert_int_equal(info.remaining_ms, -1);
    assert_true(info.hold_count == UINT32_MAX);
    assert_int_equal(strlen(info.holder), sizeof info.holder - 1);
    place_close(&side, place);
}

/* ===== The wire as Redisson sees it ===== */

static int subscriber(const char *channel)
{
    const int fd = socket_connect(server_port(server));
    char line[256];
    snprintf(line, sizeof line, "SUBSCRIBE '%s'", channel);
    char expected[256];
    snprintf(expected, sizeof expected, "subscribe %s 1", channel);
    assert_true(wire_answers(fd, line, expected));
    return fd;
}

static void assert_heard(int fd, const char *channel)
{
    char expected[256];
    snprintf(expected, sizeof expected, "message %s 0", channel);
    char *message = wire_receive(fd, BOUND_MS);
    assert_non_null(message);
    assert_string_equal(message, expected);
    free(message);
}

static void releases_are_published(void **state)
{
    (void)state;
    static const struct {
        const char *name, *channel, *token;
    } cases[] = {
        {"plain", "redisson_lock__channel:{plain}", "redisson_lock_token:{plain}"},
        {"a}b", "redisson_lock__channel:{a}b}", "redisson_lock_token:{a}b}"},
        {"{tag}rest", "redisson_lock__channel:{tag}rest", "redisson_lock_token:{tag}rest"},
        {"open{brace", "redisson_lock__channel:open{brace", "redisson_lock_token:open{brace"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const int fd = subscriber(cases[i].channel);
        struct pawl__place *place = place_open(&side, cases[i].name);
        acquire(&side, place, 1);
        assert_int_equal(server_integer(server, "EXISTS %s", cases[i].token), 1);
        struct call call;
        assert_int_equal(ask(&side, &call, place, PAWL__OP_RELEASE, 1), PAWL__DONE);
        assert_true(call.op.others);
        assert_heard(fd, cases[i].channel);
        acquire(&side, place, 2);
        assert_answer(&side, place, PAWL__OP_BREAK, 0, PAWL__DONE);
        assert_heard(fd, cases[i].channel);
        close(fd);
        place_close(&side, place);
    }
}

static void nobody_else_listens(void **state)
{
    (void)state;
    struct pawl__place *place = place_open(&side, "lock");
    acquire(&side, place, 1);
    struct call call;
    assert_int_equal(ask(&side, &call, place, PAWL__OP_RELEASE, 1), PAWL__DONE);
    assert_false(call.op.others);
    place_close(&side, place);
}

static void offer_leaves_it_to_others(void **state)
{
    (void)state;
    struct pawl__place *place = place_open(&side, "lock");
    const uint64_t token = acquire(&side, place, 1);
    struct call call;
    call_init(&call, place, PAWL__OP_PASS, 1);
    call.op.heir_id = 2;
    call.op.offer = true;
    call_run(&side, &call);
    assert_int_equal(call.op.answer, PAWL__DONE); /* nobody else wants it */
    assert_true(call.op.token == token + 1);

    const int fd = subscriber("redisson_lock__channel:{lock}");
    call_init(&call, place, PAWL__OP_PASS, 2);
    call.op.heir_id = 3;
    call_run(&side, &call);
    assert_int_equal(call.op.answer, PAWL__DONE); /* no offer, no message */

    call_init(&call, place, PAWL__OP_PASS, 3);
    call.op.heir_id = 4;
    call.op.offer = true;
    call_run(&side, &call);
    assert_int_equal(call.op.answer, PAWL__LEFT);
    assert_heard(fd, "redisson_lock__channel:{lock}");
    assert_int_equal(server_integer(server, "EXISTS lock"), 0);
    close(fd);
    place_close(&side, place);
}

static void names_are_bytes(void **state)
{
    (void)state;
    const char name[] = "\r\n$5\r\n\xff\x01 'x'";
    struct pawl__place *place = place_open(&side, name);
    acquire(&side, place, 1);
    const char *const words[] = {"HLEN", name};
    char *reply = server_command_words(server, 2, words);
    assert_string_equal(reply, "1");
    free(reply);
    assert_answer(&side, place, PAWL__OP_RELEASE, 1, PAWL__DONE);
    place_close(&side, place);
}

static void longest_name(void **state)
{
    (void)state;
    char name[1025];
    memset(name, 'n', 1024);
    name[1024] = '\0';
    struct pawl__place *place = place_open(&side, name);
    acquire(&side, place, UINT64_MAX);
    assert_answer(&side, place, PAWL__OP_RENEW, UINT64_MAX, PAWL__DONE);
    assert_answer(&side, place, PAWL__OP_RELEASE, UINT64_MAX, PAWL__DONE);
    place_close(&side, place);
}

/* ===== Tokens ===== */

static void tokens_grow_whatever_was_there(void **state)
{
    (void)state;
    struct pawl__place *place = place_open(&side, "lock");
    const char *key = "redisson_lock_token:{lock}";
    free(server_command(server, "SET %s 41", key)); /* as Redisson's fenced lock leaves it */
    const uint64_t first = acquire(&side, place, 1);
    assert_true(first > UINT64_C(1500000000000000));
    const int64_t ttl_s = server_integer(server, "TTL %s", key);
    assert_true(ttl_s > 7 * 24 * 3600 - 60 && ttl_s <= 7 * 24 * 3600);

    free(server_command(server, "DEL %s", key)); /* lost while held */
    const uint64_t again = acquire(&side, place, 1);
    assert_true(again > first);
    assert_answer(&side, place, PAWL__OP_RELEASE, 1, PAWL__DONE);
    free(server_command(server, "DEL %s", key));
    assert_true(acquire(&side, place, 2) > again);
    place_close(&side, place);
}

static void token_ttl_is_an_option(void **state)
{
    (void)state;
    struct side other;
    char url[128];
    snprintf(url, sizeof url, "%s?token_ttl=0", server_url(server));
    side_open(&other, url);
    struct pawl__place *place = place_open(&other, "lock");
    acquire(&other, place, 1);
    assert_int_equal(server_integer(server, "TTL redisson_lock_token:{lock}"), -1);
    assert_answer(&other, place, PAWL__OP_RELEASE, 1, PAWL__DONE);
    free(server_command(server, "DEL redisson_lock_token:{lock}"));
    place_close(&other, place);
    side_close(&other);

    snprintf(url, sizeof url, "%s?token_ttl=1500ms", server_url(server));
    side_open(&other, url);
    place = place_open(&other, "lock");
    acquire(&other, place, 1);
    const int64_t ttl_ms = server_integer(server, "PTTL redisson_lock_token:{lock}");
    assert_true(ttl_ms <= 2000 && ttl_ms != -1);
    place_close(&other, place);
    side_close(&other);
}

/* ===== Errors of the server ===== */

static void key_of_another_type(void **state)
{
    (void)state;
    struct pawl__place *place = place_open(&side, "lock");
    free(server_command(server, "SET lock something"));
    struct call call;
    pawl_lock_info info = {.size = sizeof info};
    ask(&side, &call, place, PAWL__OP_ACQUIRE, 1);
    assert_ended(
        &call, PAWL__FAILED, PAWL_REFUSED, false, "'lock': the key exists and is not a lock");
    ask(&side, &call, place, PAWL__OP_BREAK, 1);
    assert_ended(&call, PAWL__FAILED, PAWL_REFUSED, false, "is not a lock");
    call_init(&call, place, PAWL__OP_INSPECT, 0);
    call.op.info = &info;
    call_run(&side, &call);
    assert_ended(&call, PAWL__FAILED, PAWL_REFUSED, false, "is not a lock");
    assert_true(server_answers(server, "something", "GET lock"));
    /* Whoever held a lock there holds it no longer. */
    assert_answer(&side, place, PAWL__OP_RENEW, 1, PAWL__GONE);
    assert_answer(&side, place, PAWL__OP_VERIFY, 1, PAWL__GONE);
    assert_answer(&side, place, PAWL__OP_COUNT, 1, PAWL__GONE);
    assert_answer(&side, place, PAWL__OP_RELEASE, 1, PAWL__GONE);
    place_close(&side, place);
}

/* The lock's key is fine, so the sentence must not blame it; and nothing is done. */
static void counter_of_another_type(void **state)
{
    (void)state;
    static const char blame[] =
        "the key 'redisson_lock_token:{lock}', which is to count its tokens";
    struct pawl__place *place = place_open(&side, "lock");
    struct call call;
    free(server_command(server, "RPUSH redisson_lock_token:{lock} x"));
    ask(&side, &call, place, PAWL__OP_ACQUIRE, 1);
    assert_ended(&call, PAWL__FAILED, PAWL_REFUSED, false, blame);
    assert_int_equal(server_integer(server, "EXISTS lock"), 0);

    free(server_command(server, "DEL redisson_lock_token:{lock}"));
    acquire(&side, place, 1);
    free(server_command(server, "DEL redisson_lock_token:{lock}"));
    free(server_command(server, "RPUSH redisson_lock_token:{lock} x"));
    ask(&side, &call, place, PAWL__OP_ACQUIRE, 1); /* asked again: the token is looked up */
    assert_ended(&call, PAWL__FAILED, PAWL_REFUSED, false, blame);
    call_init(&call, place, PAWL__OP_PASS, 1);
    call.op.heir_id = 2;
    call_run(&side, &call);
    assert_ended(&call, PAWL__FAILED, PAWL_REFUSED, false, blame);
    assert_answer(&side, place, PAWL__OP_VERIFY, 1, PAWL__DONE);
    assert_answer(&side, place, PAWL__OP_VERIFY, 2, PAWL__GONE);
    assert_answer(&side, place, PAWL__OP_RELEASE, 1, PAWL__DONE);
    place_close(&side, place);
}

static void memory_is_full(void **state)
{
    (void)state;
    struct pawl__place *place = place_open(&side, "lock");
    free(server_command(server, "CONFIG SET maxmemory 1"));
    struct call call;
    ask(&side, &call, place, PAWL__OP_ACQUIRE, 1);
    free(server_command(server, "CONFIG SET maxmemory 0"));
    assert_ended(&call, PAWL__FAILED, PAWL_REFUSED, true, "memory limit");
    acquire(&side, place, 1);
    place_close(&side, place);
}

static void scripts_are_flushed(void **state)
{
    (void)state;
    struct pawl__place *place = place_open(&side, "lock");
    pawl_lock_info info = {.size = sizeof info};
    struct call call;
    for (int round = 0; round < 2; round++) {
        free(server_command(server, "SCRIPT FLUSH"));
        acquire(&side, place, 1);
        assert_answer(&side, place, PAWL__OP_RENEW, 1, PAWL__DONE);
        call_init(&call, place, PAWL__OP_INSPECT, 0);
        call.op.info = &info;
        call_run(&side, &call);
        assert_int_equal(call.op.answer, PAWL__DONE);
        assert_answer(&side, place, PAWL__OP_COUNT, 1, PAWL__DONE);
        call_init(&call, place, PAWL__OP_PASS, 1);
        call.op.heir_id = 2;
        call_run(&side, &call);
        assert_int_equal(call.op.answer, PAWL__DONE);
        assert_answer(&side, place, PAWL__OP_RELEASE, 2, PAWL__DONE);
        assert_answer(&side, place, PAWL__OP_BREAK, 1, PAWL__GONE);
        assert_true(server_answers(server, "1", "SCRIPT EXISTS %s",
            pawl__script_acquire.sha1)); /* sent whole it is kept */
    }
    place_close(&side, place);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(acquire_and_release),
        CASE(acquire_again_is_the_same_acquire),
        CASE(lease_is_rounded_up),
        CASE(held_says_for_how_long),
        CASE(foreign_lock_is_held),
        CASE(renew_moves_the_end),
        CASE(count_is_shown_only_to_the_holder),
        CASE(pass_gives_it_to_the_heir),
        CASE(break_frees_whoever_holds),
        CASE(inspect_tells_all),
        CASE(inspect_of_strange_locks),
        CASE(releases_are_published),
        CASE(nobody_else_listens),
        CASE(offer_leaves_it_to_others),
        CASE(names_are_bytes),
        CASE(longest_name),
        CASE(tokens_grow_whatever_was_there),
        CASE(token_ttl_is_an_option),
        CASE(key_of_another_type),
        CASE(counter_of_another_type),
        CASE(memory_is_full),
        CASE(scripts_are_flushed),
    };
    return cmocka_run_group_tests(tests, fixture_start, NULL);
}
