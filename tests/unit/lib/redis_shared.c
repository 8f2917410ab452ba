/* SPDX-License-Identifier: Apache-2.0 */
/* Looking at a read/write lock in the server, and asking for it; see redis_shared.h. */
#include "redis_shared.h"

#include "support/sockets.h"
#include "support/wire.h"

struct pawl__place *place;

int shared_begin(void **state)
{
    fixture_begin(state);
    place = place_open_as(&side, "lock", PAWL__FAMILY_SHARED);
    return 0;
}

int shared_end(void **state)
{
    place_close(&side, place);
    return fixture_end(state);
}

/* ===== What stands in the server ===== */

const char *owner(uint64_t id)
{
    static char text[64];
    snprintf(text, sizeof text, "%s:%llu", side.host.uuid, (unsigned long long)id);
    return text;
}

/* The key of a tenure's hold for reading. */
const char *hold(uint64_t id)
{
    static char text[128];
    snprintf(text, sizeof text, "{lock}:%s:rwlock_timeout:1", owner(id));
    return text;
}

void assert_ttl(const char *key, int64_t ttl_ms)
{
    const int64_t left_ms = server_integer(server, "PTTL %s", key);
    if (left_ms <= ttl_ms - 5000 || left_ms > ttl_ms) {
        support_fail("the TTL of %s is %lld ms, expected about %lld", key, (long long)left_ms,
            (long long)ttl_ms);
    }
}

void assert_field(const char *field, const char *value)
{
    if (!server_answers(server, value, "HGET lock %s", field)) {
        char *found = server_command(server, "HGETALL lock");
        support_fail("the field %s is not %s: %s", field, value, found);
    }
}

void assert_mode(const char *mode, int64_t field_count)
{
    assert_field("mode", mode);
    assert_int_equal(server_integer(server, "HLEN lock"), field_count);
}

void assert_reads(uint64_t id, int64_t lease_ms)
{
    assert_field(owner(id), "1");
    assert_ttl(hold(id), lease_ms);
}

/* Nothing of it is left but the counter. */
void assert_free(void)
{
    char *keys = server_command(server, "KEYS *lock}*");
    assert_string_equal(keys, "redisson_lock_token:{lock}");
    free(keys);
    assert_int_equal(server_integer(server, "EXISTS lock"), 0);
}

/* ===== Operations ===== */

struct pawl__op operate(enum pawl__op_kind kind, pawl_kind as, uint64_t id, int64_t lease_ms)
{
    struct call call;
    call_init(&call, place, kind, id);
    call.op.as = as;
    call.op.lease_us = lease_ms * 1000;
    call.op.count = 3;
    call_run(&side, &call);
    if (call.op.error != NULL) {
        support_fail("kind %d: %s", (int)kind, call.op.error);
    }
    return call.op;
}

enum pawl__answer reads(uint64_t id, int64_t lease_ms)
{
    return operate(PAWL__OP_ACQUIRE, PAWL_READ, id, lease_ms).answer;
}

enum pawl__answer writes(uint64_t id, int64_t lease_ms)
{
    return operate(PAWL__OP_ACQUIRE, PAWL_WRITE, id, lease_ms).answer;
}

enum pawl__answer renews(pawl_kind as, uint64_t id, int64_t lease_ms)
{
    return operate(PAWL__OP_RENEW, as, id, lease_ms).answer;
}

enum pawl__answer releases(uint64_t id)
{
    return operate(PAWL__OP_RELEASE, PAWL_READ, id, 1).answer;
}

/* ===== Messages ===== */

int listener(void)
{
    const int fd = socket_connect(server_port(server));
    assert_true(wire_answers(fd, "PSUBSCRIBE *", "psubscribe * 1"));
    return fd;
}

void assert_message(int fd, const char *expected)
{
    char *message = wire_receive(fd, BOUND_MS);
    assert_non_null(message);
    assert_string_equal(message, expected);
    free(message);
}

void assert_heard(int fd, const char *payload)
{
    char expected[128];
    snprintf(expected, sizeof expected, "pmessage * " CHANNEL " %s", payload);
    assert_message(fd, expected);
}

/* The next message is ours: so nothing was said before. */
void assert_nothing_heard(int fd)
{
    free(server_command(server, "PUBLISH end 1"));
    assert_message(fd, "pmessage * end 1");
}
