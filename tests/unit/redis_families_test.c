/* SPDX-License-Identifier: Apache-2.0 */
/* The Redis engine: spin and plain locks, and tokens in a row. Does every operation do in the
 * server what it says, and nothing else?
 *
 * Method: as redis_engine_test.c, with a subscriber of every channel that must hear nothing. */
#include "redis_fixture.h"

#include "support/sockets.h"
#include "support/wire.h"

#include <unistd.h>

static void owner_of(uint64_t id, char *owner, size_t size)
{
    snprintf(owner, size, "%s:%llu", side.host.uuid, (unsigned long long)id);
}

static void assert_ttl(const char *key, int64_t ttl_ms)
{
    const int64_t left_ms = server_integer(server, "PTTL %s", key);
    if (left_ms <= ttl_ms - BOUND_MS || left_ms > ttl_ms) {
        support_fail("the TTL of %s is %lld ms, expected about %lld", key, (long long)left_ms,
            (long long)ttl_ms);
    }
}

/* Who hears every message there is. */
static int eavesdropper(void)
{
    const int fd = socket_connect(server_port(server));
    assert_true(wire_answers(fd, "PSUBSCRIBE *", "psubscribe * 1"));
    return fd;
}

/* The next message it hears is ours: so nothing was said before. */
static void assert_nothing_heard(int fd)
{
    free(server_command(server, "PUBLISH end 1"));
    char *message = wire_receive(fd, BOUND_MS);
    assert_non_null(message);
    assert_string_equal(message, "pmessage * end 1");
    free(message);
}

/* ===== Spin ===== */

static void spin_is_a_mutex(void **state)
{
    (void)state;
    char owner[64];
    char lock[96];
    struct pawl__place *place = place_open_as(&side, "lock", PAWL__FAMILY_SPIN);
    const uint64_t token = acquire(&side, place, 1);
    owner_of(1, owner, sizeof owner);
    snprintf(lock, sizeof lock, "%s 1", owner);
    assert_true(server_answers(server, lock, "HGETALL lock"));
    assert_ttl("lock", 30000);
    assert_true(acquire(&side, place, 1) == token);
    assert_answer(&side, place, PAWL__OP_ACQUIRE, 2, PAWL__HELD);
    assert_answer(&side, place, PAWL__OP_VERIFY, 1, PAWL__DONE);
    assert_answer(&side, place, PAWL__OP_RENEW, 1, PAWL__DONE);
    assert_answer(&side, place, PAWL__OP_RENEW, 2, PAWL__GONE);
    struct call call;
    call_init(&call, place, PAWL__OP_COUNT, 1);
    call.op.count = 4;
    call_run(&side, &call);
    assert_int_equal(call.op.answer, PAWL__DONE);
    snprintf(lock, sizeof lock, "%s 4", owner);
    assert_true(server_answers(server, lock, "HGETALL lock"));
    assert_answer(&side, place, PAWL__OP_RELEASE, 2, PAWL__GONE);
    assert_answer(&side, place, PAWL__OP_RELEASE, 1, PAWL__DONE);
    assert_int_equal(server_integer(server, "EXISTS lock"), 0);
    assert_answer(&side, place, PAWL__OP_RELEASE, 1, PAWL__GONE);
    assert_true(acquire(&side, place, 2) == token + 1);
    place_close(&side, place);
}

static void spin_tells_nobody(void **state)
{
    (void)state;
    struct pawl__place *place = place_open_as(&side, "lock", PAWL__FAMILY_SPIN);
    const int fd = eavesdropper();
    acquire(&side, place, 1);
    struct call call;
    assert_int_equal(ask(&side, &call, place, PAWL__OP_RELEASE, 1), PAWL__DONE);
    assert_false(call.op.others);
    acquire(&side, place, 2);
    assert_answer(&side, place, PAWL__OP_BREAK, 0, PAWL__DONE);
    assert_int_equal(server_integer(server, "EXISTS lock"), 0);
    assert_answer(&side, place, PAWL__OP_BREAK, 0, PAWL__GONE);
    assert_nothing_heard(fd);
    close(fd);
    place_close(&side, place);
}

static void spin_release_of_another_type(void **state)
{
    (void)state;
    struct pawl__place *place = place_open_as(&side, "lock", PAWL__FAMILY_SPIN);
    acquire(&side, place, 1);
    free(server_command(server, "SET lock data"));
    assert_answer(&side, place, PAWL__OP_RELEASE, 1, PAWL__GONE);
    struct call call;
    ask(&side, &call, place, PAWL__OP_BREAK, 0);
    assert_ended(&call, PAWL__FAILED, PAWL_REFUSED, false, "is not a lock");
    assert_true(server_answers(server, "data", "GET lock"));
    place_close(&side, place);
}

/* ===== Plain ===== */

static void plain_acquire_and_release(void **state)
{
    (void)state;
    char owner[64];
    struct pawl__place *place = place_open_as(&side, "lock", PAWL__FAMILY_PLAIN);
    const int fd = eavesdropper();
    assert_true(acquire(&side, place, 1) == 0);
    owner_of(1, owner, sizeof owner);
    assert_true(server_answers(server, owner, "GET lock"));
    assert_ttl("lock", 30000);
    assert_int_equal(server_integer(server, "EXISTS redisson_lock_token:{lock}"), 0);
    assert_answer(&side, place, PAWL__OP_VERIFY, 1, PAWL__DONE);
    assert_answer(&side, place, PAWL__OP_VERIFY, 2, PAWL__GONE);
    assert_answer(&side, place, PAWL__OP_RELEASE, 2, PAWL__GONE);
    assert_true(server_answers(server, owner, "GET lock"));
    struct call call;
    assert_int_equal(ask(&side, &call, place, PAWL__OP_RELEASE, 1), PAWL__DONE);
    assert_false(call.op.others);
    assert_int_equal(server_integer(server, "EXISTS lock"), 0);
    assert_answer(&side, place, PAWL__OP_RELEASE, 1, PAWL__GONE);
    assert_answer(&side, place, PAWL__OP_VERIFY, 1, PAWL__GONE);
    assert_nothing_heard(fd);
    close(fd);
    place_close(&side, place);
}

static void plain_acquire_again(void **state)
{
    (void)state;
    char owner[64];
    struct pawl__place *place = place_open_as(&side, "lock", PAWL__FAMILY_PLAIN);
    acquire(&side, place, 7);
    free(server_command(server, "PEXPIRE lock 15000"));
    assert_true(acquire(&side, place, 7) == 0);
    assert_ttl("lock", 30000);
    assert_true(server_integer(server, "PTTL lock") > 15000);
    owner_of(7, owner, sizeof owner);
    assert_true(server_answers(server, owner, "GET lock"));
    place_close(&side, place);
}

static void plain_is_held_by_others(void **state)
{
    (void)state;
    struct pawl__place *place = place_open_as(&side, "lock", PAWL__FAMILY_PLAIN);
    struct call call;
    free(server_command(server, "SET lock somebody NX PX 30000"));
    assert_int_equal(ask(&side, &call, place, PAWL__OP_ACQUIRE, 1), PAWL__HELD);
    assert_true(call.op.hint_us > (30000 - BOUND_MS) * 1000 && call.op.hint_us <= 30000000);
    assert_answer(&side, place, PAWL__OP_RELEASE, 1, PAWL__GONE);
    assert_answer(&side, place, PAWL__OP_RENEW, 1, PAWL__GONE);
    assert_answer(&side, place, PAWL__OP_COUNT, 1, PAWL__GONE);
    assert_true(server_answers(server, "somebody", "GET lock"));
    place_close(&side, place);
}

/* A lock has a TTL, or at least an owner string that we know. */
static void plain_without_a_ttl(void **state)
{
    (void)state;
    struct pawl__place *place = place_open_as(&side, "lock", PAWL__FAMILY_PLAIN);
    struct call call;
    acquire(&side, place, 2);
    free(server_command(server, "PERSIST lock"));
    assert_int_equal(ask(&side, &call, place, PAWL__OP_ACQUIRE, 1), PAWL__HELD);
    assert_true(call.op.hint_us < 0);
    call_free(&call);
    acquire(&side, place, 2); /* its own again, and now with a TTL */
    assert_ttl("lock", 30000);
    static const char *const values[] = {"2", "somebody"}; /* a semaphore or a latch; data */
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        free(server_command(server, "SET lock %s", values[i]));
        ask(&side, &call, place, PAWL__OP_ACQUIRE, 1);
        assert_ended(&call, PAWL__FAILED, PAWL_REFUSED, false, "is not a lock");
        assert_true(server_answers(server, values[i], "GET lock"));
        assert_int_equal(server_integer(server, "PTTL lock"), -1);
    }
    place_close(&side, place);
}

static void plain_renew_and_count(void **state)
{
    (void)state;
    struct pawl__place *place = place_open_as(&side, "lock", PAWL__FAMILY_PLAIN);
    acquire(&side, place, 1);
    struct call call;
    call_init(&call, place, PAWL__OP_RENEW, 1);
    call.op.lease_us = 90000000;
    call_run(&side, &call);
    assert_int_equal(call.op.answer, PAWL__DONE);
    assert_ttl("lock", 90000);
    call_init(&call, place, PAWL__OP_COUNT, 1);
    call.op.count = 3;
    call_run(&side, &call);
    assert_int_equal(call.op.answer, PAWL__DONE);
    assert_ttl("lock", 90000);
    assert_answer(&side, place, PAWL__OP_RENEW, 2, PAWL__GONE);
    assert_ttl("lock", 90000);
    free(server_command(server, "DEL lock"));
    assert_answer(&side, place, PAWL__OP_RENEW, 1, PAWL__GONE);
    assert_answer(&side, place, PAWL__OP_COUNT, 1, PAWL__GONE);
    assert_int_equal(server_integer(server, "EXISTS lock"), 0);
    place_close(&side, place);
}

static void plain_inspect(void **state)
{
    (void)state;
    struct pawl__place *place = place_open_as(&side, "lock", PAWL__FAMILY_PLAIN);
    pawl_lock_info info = {.size = sizeof info, .hold_count = 99};
    char owner[64];
    struct call call;
    call_init(&call, place, PAWL__OP_INSPECT, 0);
    call.op.info = &info;
    call_run(&side, &call);
    assert_int_equal(call.op.answer, PAWL__DONE);
    assert_false(info.held);
    assert_int_equal(info.hold_count, 0);
    assert_string_equal(info.holder, "");
    acquire(&side, place, 5);
    owner_of(5, owner, sizeof owner);
    call_init(&call, place, PAWL__OP_INSPECT, 0);
    call.op.info = &info;
    call_run(&side, &call);
    assert_true(info.held);
    assert_int_equal(info.hold_count, 1);
    assert_true(info.remaining_ms > 30000 - BOUND_MS && info.remaining_ms <= 30000);
    assert_true(info.token == 0);
    assert_string_equal(info.holder, owner);
    place_close(&side, place);
}

static void plain_break(void **state)
{
    (void)state;
    struct pawl__place *place = place_open_as(&side, "lock", PAWL__FAMILY_PLAIN);
    assert_answer(&side, place, PAWL__OP_BREAK, 0, PAWL__GONE);
    acquire(&side, place, 1);
    free(server_command(server, "PERSIST lock")); /* a lock of ours is known without its TTL */
    assert_answer(&side, place, PAWL__OP_BREAK, 0, PAWL__DONE);
    assert_int_equal(server_integer(server, "EXISTS lock"), 0);
    free(server_command(server, "SET lock somebody PX 30000"));
    assert_answer(&side, place, PAWL__OP_BREAK, 0, PAWL__DONE);
    assert_int_equal(server_integer(server, "EXISTS lock"), 0);

    struct call call;
    free(server_command(server, "SET lock data"));
    ask(&side, &call, place, PAWL__OP_BREAK, 0);
    assert_ended(&call, PAWL__FAILED, PAWL_REFUSED, false, "is not a lock");
    assert_true(server_answers(server, "data", "GET lock"));
    place_close(&side, place);
}

static void plain_meets_a_hash(void **state)
{
    (void)state;
    struct pawl__place *place = place_open_as(&side, "lock", PAWL__FAMILY_PLAIN);
    free(server_command(server, "HSET lock 285475da-9152-4c83-822a-67ee2f116a79:54 2"));
    struct call call;
    ask(&side, &call, place, PAWL__OP_ACQUIRE, 1);
    assert_ended(&call, PAWL__FAILED, PAWL_REFUSED, false, "is not a lock");
    assert_answer(&side, place, PAWL__OP_RENEW, 1, PAWL__GONE);
    assert_answer(&side, place, PAWL__OP_VERIFY, 1, PAWL__GONE);
    assert_answer(&side, place, PAWL__OP_RELEASE, 1, PAWL__GONE);
    ask(&side, &call, place, PAWL__OP_BREAK, 0);
    assert_ended(&call, PAWL__FAILED, PAWL_REFUSED, false, "is not a lock");
    assert_int_equal(server_integer(server, "HLEN lock"), 1);
    place_close(&side, place);
}

/* ===== Renewals of several families at once ===== */

static void renewals_keep_to_their_scripts(void **state)
{
    (void)state;
    static const enum pawl__family families[] = {PAWL__FAMILY_MUTEX, PAWL__FAMILY_SPIN,
        PAWL__FAMILY_PLAIN, PAWL__FAMILY_PLAIN, PAWL__FAMILY_SHARED, PAWL__FAMILY_SHARED,
        PAWL__FAMILY_MUTEX};
    enum { COUNT = sizeof families / sizeof families[0] };
    struct pawl__place *places[COUNT];
    struct call calls[COUNT];
    for (int i = 0; i < COUNT; i++) {
        char name[16];
        snprintf(name, sizeof name, "lock%d", i);
        places[i] = place_open_as(&side, name, families[i]);
        call_init(&calls[i], places[i], PAWL__OP_ACQUIRE, 1);
        calls[i].op.as = i % 2 == 0 ? PAWL_READ : PAWL_WRITE;
        call_run(&side, &calls[i]);
        assert_int_equal(calls[i].op.answer, PAWL__DONE);
    }
    for (int i = 0; i < COUNT; i++) {
        call_init(&calls[i], places[i], PAWL__OP_RENEW, i == 3 || i == 5 ? 2 : 1);
        calls[i].op.as = i % 2 == 0 ? PAWL_READ : PAWL_WRITE;
        calls[i].op.lease_us = 90000000;
        calls[i].op.next = i + 1 < COUNT ? &calls[i + 1].op : NULL;
    }
    pawl__engine_redis.submit(side.self, &calls[0].op, true);
    for (int i = 0; i < COUNT; i++) {
        char name[16];
        call_finish(&side, &calls[i]);
        const bool gone = i == 3 || i == 5;
        assert_int_equal(calls[i].op.answer, gone ? PAWL__GONE : PAWL__DONE);
        snprintf(name, sizeof name, "lock%d", i);
        assert_ttl(name, gone ? 30000 : 90000);
        place_close(&side, places[i]);
    }
}

/* ===== Tokens in a row ===== */

static uint64_t acquire_row(struct pawl__place *place, pawl_kind as, uint64_t id, unsigned tokens)
{
    struct call call;
    call_init(&call, place, PAWL__OP_ACQUIRE, id);
    call.op.as = as;
    call.op.tokens = tokens;
    call_run(&side, &call);
    if (call.op.answer != PAWL__DONE) {
        support_fail("not granted: answer %d, %s", (int)call.op.answer,
            call.op.error != NULL ? call.op.error : "-");
    }
    return call.op.token;
}

static void assert_counter(uint64_t token)
{
    char text[32];
    snprintf(text, sizeof text, "%llu", (unsigned long long)token);
    assert_true(server_answers(server, text, "GET redisson_lock_token:{lock}"));
}

static void tokens_in_a_row(void **state)
{
    (void)state;
    static const struct {
        enum pawl__family family;
        pawl_kind as;
    } kinds[] = {{PAWL__FAMILY_MUTEX, PAWL_MUTEX}, {PAWL__FAMILY_SPIN, PAWL_SPIN},
        {PAWL__FAMILY_SHARED, PAWL_READ}, {PAWL__FAMILY_SHARED, PAWL_WRITE}};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        free(server_command(server, "FLUSHALL"));
        struct pawl__place *place = place_open_as(&side, "lock", kinds[i].family);
        const uint64_t first = acquire_row(place, kinds[i].as, 1, 5); /* the counter is new */
        assert_counter(first + 4);
        assert_true(server_integer(server, "TTL redisson_lock_token:{lock}") > 0);
        assert_true(acquire_row(place, kinds[i].as, 1, 5) == first);
        assert_counter(first + 4);
        assert_answer(&side, place, PAWL__OP_RELEASE, 1, PAWL__DONE);
        assert_true(acquire_row(place, kinds[i].as, 2, 3) == first + 5);
        assert_true(acquire_row(place, kinds[i].as, 2, 3) == first + 5);
        assert_counter(first + 7);
        assert_answer(&side, place, PAWL__OP_RELEASE, 2, PAWL__DONE);
        assert_true(acquire_row(place, kinds[i].as, 3, 1) == first + 8);
        place_close(&side, place);
    }
}

static void a_row_is_passed_on(void **state)
{
    (void)state;
    struct pawl__place *place = place_open(&side, "lock");
    const uint64_t token = acquire(&side, place, 1);
    for (int copy = 0; copy < 2; copy++) {
        struct call call;
        call_init(&call, place, PAWL__OP_PASS, 1);
        call.op.heir_id = 2;
        call.op.tokens = 4;
        call_run(&side, &call);
        assert_int_equal(call.op.answer, PAWL__DONE);
        assert_true(call.op.token == token + 1);
        assert_counter(token + 4);
    }
    place_close(&side, place);
}

/* ===== Rights ===== */

#define COMMANDS \
    "-@all +hello +auth +evalsha +eval +script|load +info +ping +client|kill +pttl +pexpire "
#define HASHES "+hexists +hset +hdel +incr +get +set +time ~redisson_lock_token:{lock} "
#define SHARING                                                                            \
    "+hget +hlen +hscan +del +publish +subscribe +unsubscribe ~{lock}:*:rwlock_timeout:* " \
    "&redisson_rwlock:{lock} "

static void open_restricted(struct side *few, const char *rights)
{
    char url[128];
    free(server_command(server, "ACL DELUSER few"));
    free(server_command(server, "ACL SETUSER few reset on >few-password ~lock %s", rights));
    snprintf(url, sizeof url, "redis://few:few-password@127.0.0.1:%u", server_port(server));
    side_open(few, url);
}

static void assert_denied(struct side *few, enum pawl__family family, const char *part)
{
    struct pawl__place *place = place_make("lock", 4);
    place->family = family;
    assert_int_equal(place_try(few, place), PAWL_DENIED);
    if (strstr(pawl__error_text(), part) == NULL) {
        support_fail("\"%s\" does not say \"%s\"", pawl__error_text(), part);
    }
    place_discard(place);
}

/* Everything that a holder does. */
static void assert_works(struct side *few, enum pawl__family family)
{
    static const enum pawl__op_kind kinds[] = {PAWL__OP_ACQUIRE, PAWL__OP_ACQUIRE, PAWL__OP_RENEW,
        PAWL__OP_VERIFY, PAWL__OP_COUNT, PAWL__OP_RELEASE};
    struct pawl__place *place = place_open_as(few, "lock", family);
    for (uint64_t round = 0; round < 2; round++) {
        for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
            struct call call;
            call_init(&call, place, kinds[i], 1 + round);
            call.op.as = round == 0 ? PAWL_READ : PAWL_WRITE;
            call.op.tokens = 2;
            call.op.count = 2;
            call_run(few, &call);
            if (call.op.answer != PAWL__DONE) {
                support_fail("answer %d to kind %d: %s", (int)call.op.answer, (int)kinds[i],
                    call.op.error != NULL ? call.op.error : "-");
            }
        }
    }
    place_close(few, place);
}

static void fewest_rights_suffice(void **state)
{
    (void)state;
    struct side few;
    open_restricted(&few, COMMANDS HASHES);
    assert_works(&few, PAWL__FAMILY_SPIN);
    side_close(&few);
    open_restricted(&few, COMMANDS "+get +set +del");
    assert_works(&few, PAWL__FAMILY_PLAIN);
    side_close(&few);
    open_restricted(&few, COMMANDS HASHES SHARING);
    assert_works(&few, PAWL__FAMILY_SHARED);
    side_close(&few);
}

static void missing_rights_are_named(void **state)
{
    (void)state;
    struct side few;
    open_restricted(&few, COMMANDS HASHES);
    assert_denied(&few, PAWL__FAMILY_MUTEX, "on channel 'redisson_lock__channel:{lock}'");
    assert_denied(&few, PAWL__FAMILY_PLAIN, "may not run DEL on key 'lock'; add");
    assert_denied(&few, PAWL__FAMILY_SHARED, "HGET, HLEN, HSCAN on key 'lock'");
    assert_denied(&few, PAWL__FAMILY_SHARED, "on keys '{lock}:*:rwlock_timeout:*'");
    assert_denied(&few, PAWL__FAMILY_SHARED, "on channel 'redisson_rwlock:{lock}'");
    assert_denied(&few, PAWL__FAMILY_SHARED, " '~{lock}:*:rwlock_timeout:*' ");
    assert_denied(&few, PAWL__FAMILY_SHARED, " '&redisson_rwlock:{lock}'");
    side_close(&few);
    open_restricted(&few, COMMANDS HASHES SHARING "-hscan");
    assert_denied(&few, PAWL__FAMILY_SHARED, "may not run HSCAN on key 'lock'; add");
    assert_works(&few, PAWL__FAMILY_SPIN);
    side_close(&few);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(spin_is_a_mutex),
        CASE(spin_tells_nobody),
        CASE(spin_release_of_another_type),
        CASE(plain_acquire_and_release),
        CASE(plain_acquire_again),
        CASE(plain_is_held_by_others),
        CASE(plain_without_a_ttl),
        CASE(plain_renew_and_count),
        CASE(plain_inspect),
        CASE(plain_break),
        CASE(plain_meets_a_hash),
        CASE(renewals_keep_to_their_scripts),
        CASE(tokens_in_a_row),
        CASE(a_row_is_passed_on),
        CASE(fewest_rights_suffice),
        CASE(missing_rights_are_named),
    };
    return cmocka_run_group_tests(tests, fixture_start, NULL);
}
