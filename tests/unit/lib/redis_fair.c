/* SPDX-License-Identifier: Apache-2.0 */
/* Looking at the queue of a fair lock in the server, and standing in it; see redis_fair.h. */
#include "redis_fair.h"

#include "support/sockets.h"
#include "support/wire.h"

struct pawl__place *fair_open(struct side *one)
{
    return place_open_as(one, "lock", PAWL__FAMILY_FAIR);
}

const char *owner_of(const struct side *one, uint64_t id)
{
    static char owners[8][64];
    static unsigned next;
    char *owner = owners[next++ % 8];
    snprintf(owner, 64, "%s:%llu", one->host.uuid, (unsigned long long)id);
    return owner;
}

int64_t server_ms(void)
{
    char *reply = server_command(server, "TIME");
    long long seconds = 0;
    long long rest_us = 0;
    assert_int_equal(sscanf(reply, "%lld %lld", &seconds, &rest_us), 2);
    free(reply);
    return seconds * 1000 + rest_us / 1000;
}

int64_t left_ms(const char *owner)
{
    char *reply = server_command(server, "ZSCORE " TIMES " %s", owner);
    assert_null(strpbrk(reply, ".e")); /* Redisson reads an integer */
    const int64_t score = strtoll(reply, NULL, 10);
    free(reply);
    assert_true(score > 0);
    return score - server_ms();
}

void set_left(const char *owner, int64_t ms)
{
    server_integer(server, "ZADD " TIMES " XX %lld %s", (long long)(server_ms() + ms), owner);
}

void assert_left(const char *owner, int64_t ms)
{
    const int64_t left = left_ms(owner);
    if (left > ms + ROUNDED_MS || left < ms - SLACK_MS) {
        support_fail("%s has %lld ms left, not about %lld", owner, (long long)left, (long long)ms);
    }
}

void assert_queue(size_t count, const char *const *owners)
{
    char expected[512] = "";
    for (size_t i = 0; i < count; i++) {
        const size_t used = strlen(expected);
        snprintf(expected + used, sizeof expected - used, "%s%s", i > 0 ? " " : "", owners[i]);
        left_ms(owners[i]);
    }
    if (count == 0) {
        assert_int_equal(server_integer(server, "EXISTS " QUEUE " " TIMES), 0);
        return;
    }
    assert_true(server_answers(server, expected, "LRANGE " QUEUE " 0 -1"));
    assert_int_equal(server_integer(server, "ZCARD " TIMES), count);
    assert_int_equal(server_integer(server, "PTTL " QUEUE), -1);
}

enum pawl__answer stand(struct side *one, struct call *call, struct pawl__place *place, uint64_t id)
{
    call_init(call, place, PAWL__OP_ACQUIRE, id);
    call->op.queue = true;
    call_run(one, call);
    return call->op.answer;
}

int64_t assert_stands(struct side *one, struct pawl__place *place, uint64_t id)
{
    struct call call;
    assert_int_equal(stand(one, &call, place, id), PAWL__HELD);
    assert_true(call.op.hint_us != 0);
    call_free(&call);
    return call.op.hint_us;
}

void put_waiter(const char *owner, int64_t in_ms)
{
    assert_int_equal(
        server_integer(server, "ZADD " TIMES " %lld %s", (long long)(server_ms() + in_ms), owner),
        1);
    server_integer(server, "RPUSH " QUEUE " %s", owner);
}

int subscriber(const char *owner)
{
    const int fd = socket_connect(server_port(server));
    char line[256];
    char expected[256];
    snprintf(line, sizeof line, "SUBSCRIBE '" CHANNEL ":%s'", owner);
    snprintf(expected, sizeof expected, "subscribe " CHANNEL ":%s 1", owner);
    assert_true(wire_answers(fd, line, expected));
    return fd;
}

void assert_told(int fd, const char *owner)
{
    char expected[256];
    snprintf(expected, sizeof expected, "message " CHANNEL ":%s 0", owner);
    char *message = wire_receive(fd, BOUND_MS);
    assert_non_null(message);
    assert_string_equal(message, expected);
    free(message);
}

void assert_not_told(int fd)
{
    assert_true(wire_answers(fd, "PING", "pong "));
}
