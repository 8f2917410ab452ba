/* SPDX-License-Identifier: Apache-2.0 */
/* What semaphores and latches look like in a Redis server: keys, scores, messages, as Redisson has
 * them, and what pawl adds to them. */
#include "support/server.h"
#include "synchronizers/lib/cases.h"

#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#define SENTINEL "922337203685477"

static struct server *server;

static const char *begin(void)
{
    server = server_start(NULL);
    return server_url(server);
}

static int setup(void **state)
{
    (void)state;
    free(server_command(server, "FLUSHALL"));
    return 0;
}

/* ===== Messages ===== */

static redisContext *subscribe(const char *channel)
{
    redisContext *context = redisConnect("127.0.0.1", server_port(server));
    assert_non_null(context);
    assert_int_equal(context->err, 0);
    redisReply *reply = redisCommand(context, "SUBSCRIBE %s", channel);
    assert_non_null(reply);
    freeReplyObject(reply);
    return context;
}

/* The next message, within a limit; `expected` NULL: there is none. */
static void expect_message(redisContext *context, const char *expected)
{
    redisReply *reply = NULL;
    const struct timeval limit = {.tv_sec = expected != NULL ? 5 : 0, .tv_usec = 50000};
    redisSetTimeout(context, limit);
    const int status = redisGetReply(context, (void **)&reply);
    if (expected == NULL) {
        assert_int_equal(status, REDIS_ERR);
    } else {
        assert_int_equal(status, REDIS_OK);
        assert_string_equal(reply->element[2]->str, expected);
        freeReplyObject(reply);
    }
}

#define EXPECT_KEYS(count, pattern)                                                          \
    assert_int_equal(                                                                        \
        server_integer(server, "EVAL 'return #redis.call(\"KEYS\",ARGV[1])' 0 %s", pattern), \
        count)

/* ===== Cases ===== */

static void plain(void **state)
{
    (void)state;
    pawl_client *client = open_client();
    pawl_semaphore *semaphore = open_semaphore(client, "wire", false);
    redisContext *listener = subscribe("redisson_sc:{wire}");
    EXPECT_OK(pawl_semaphore_set(semaphore, 3, NULL));
    expect_message(listener, "3");
    assert_true(server_answers(server, "3", "GET wire"));
    assert_true(server_answers(server, "string", "TYPE wire"));
    EXPECT_OK(pawl_semaphore_acquire(semaphore, 2, PAWL_TRY));
    assert_true(server_answers(server, "1", "GET wire"));
    EXPECT_OK(pawl_semaphore_release(semaphore, 2));
    expect_message(listener, "3");
    EXPECT_OK(pawl_semaphore_add(semaphore, -5)); /* nothing to wake anybody for */
    EXPECT_OK(pawl_semaphore_release(semaphore, 1));
    EXPECT_OK(pawl_semaphore_add(semaphore, 2));
    expect_message(listener, "1");
    redisFree(listener);
    EXPECT_OK(pawl_semaphore_close(semaphore));
    EXPECT_OK(pawl_client_close(client));
}

static void names_with_braces(void **state)
{
    (void)state;
    pawl_client *client = open_client();
    pawl_semaphore *semaphore = open_semaphore(client, "a{b}c", true);
    pawl_latch *latch = NULL;
    pawl_permit permit;
    redisContext *listener = subscribe("redisson_sc:a{b}c");
    EXPECT_OK(pawl_semaphore_set(semaphore, 1, NULL));
    expect_message(listener, "1");
    EXPECT_OK(pawl_permit_acquire(semaphore, 1, PAWL_TRY, &permit));
    assert_int_equal(server_integer(server, "ZCARD a{b}c:timeout"), 1);
    redisFree(listener);
    EXPECT_OK(pawl_latch_open(client, "{x}y", &latch));
    listener = subscribe("redisson_countdownlatch__channel__{{x}y}");
    EXPECT_OK(pawl_latch_set(latch, 1, NULL));
    expect_message(listener, "1");
    EXPECT_OK(pawl_latch_count_down(latch));
    expect_message(listener, "0");
    redisFree(listener);
    EXPECT_OK(pawl_latch_close(latch));
    EXPECT_OK(pawl_semaphore_close(semaphore));
    EXPECT_OK(pawl_client_close(client));
}

static void latch(void **state)
{
    (void)state;
    pawl_client *client = open_client();
    pawl_latch *latch = NULL;
    EXPECT_OK(pawl_latch_open(client, "gate", &latch));
    redisContext *listener = subscribe("redisson_countdownlatch__channel__{gate}");
    EXPECT_OK(pawl_latch_set(latch, 2, NULL));
    expect_message(listener, "1");
    assert_true(server_answers(server, "2", "GET gate"));
    EXPECT_OK(pawl_latch_count_down(latch));
    assert_true(server_answers(server, "1", "GET gate"));
    EXPECT_OK(pawl_latch_count_down(latch));
    expect_message(listener, "0");
    assert_int_equal(server_integer(server, "EXISTS gate"), 0);
    EXPECT_OK(pawl_latch_count_down(latch));
    expect_message(listener, NULL);
    redisFree(listener);
    listener = subscribe("redisson_countdownlatch__channel__{gate}");
    EXPECT_OK(pawl_latch_set(latch, 5, NULL));
    expect_message(listener, "1");
    EXPECT_OK(pawl_latch_reset(latch));
    expect_message(listener, "0"); /* it opens Redisson's gate, too */
    redisFree(listener);
    EXPECT_OK(pawl_latch_close(latch));
    EXPECT_OK(pawl_client_close(client));
}

static int64_t count_down_as_redisson(pawl_latch *latch)
{
    struct caller caller;
    free(server_command(server, "SET theirs 1"));
    call_wait(&caller, latch, PAWL_FOREVER);
    WAIT_UNTIL(
        server_integer(server, "EVAL 'return redis.call(\"PUBSUB\",\"NUMSUB\",ARGV[1])[2]' 0 "
                               "redisson_countdownlatch__channel__{theirs}") == 1,
        SOON_MS);
    call_await_rest(&caller);
    const int64_t began_ms = boottime_ms();
    free(server_command(server, "DEL theirs"));
    free(server_command(server, "PUBLISH redisson_countdownlatch__channel__{theirs} 0"));
    EXPECT_OK(call_join(&caller));
    return boottime_ms() - began_ms;
}

/* A peer that speaks Redisson's words counts the latch down. */
static void latch_of_redisson(void **state)
{
    (void)state;
    pawl_client *client = open_client();
    pawl_latch *latch = NULL;
    int64_t took_ms = INT64_MAX;
    EXPECT_OK(pawl_latch_open(client, "theirs", &latch));
    for (int i = 0; i < 4 && took_ms >= LOOK_MS; i++) { /* the machine may be busy */
        took_ms = count_down_as_redisson(latch);
    }
    assert_true(took_ms < LOOK_MS);
    EXPECT_OK(pawl_latch_close(latch));
    EXPECT_OK(pawl_client_close(client));
}

static void leases(void **state)
{
    (void)state;
    pawl_client *client = open_client();
    pawl_semaphore *semaphore = open_semaphore(client, "leased", true);
    pawl_permit permits[2];
    char script[256];
    redisContext *listener = subscribe("redisson_sc:{leased}");
    EXPECT_OK(pawl_semaphore_set(semaphore, 2, NULL));
    expect_message(listener, "2");
    EXPECT_OK(pawl_permit_acquire(semaphore, 2, PAWL_TRY, permits));
    assert_true(server_answers(server, "0", "GET leased"));
    assert_int_equal(server_integer(server, "ZCARD {leased}:timeout"), 2);
    /* The member is the 16 bytes that the digits mean, and the score a whole number of ms. */
    snprintf(script, sizeof script,
        "local m=redis.call('ZRANGE',KEYS[1],0,-1) for i=1,#m do local h=m[i]:gsub('.',"
        "function(c) return string.format('%%02x',c:byte()) end) if h==ARGV[1] then return "
        "redis.call('ZSCORE',KEYS[1],m[i]) end end return 'none'");
    const char *const words[] = {"EVAL", script, "1", "{leased}:timeout", permits[1].id};
    char *score = server_command_words(server, 5, words);
    assert_int_equal(strspn(score, "0123456789"), strlen(score));
    assert_int_equal(strlen(score), 13);
    free(score);
    EXPECT_OK(pawl_permit_release(semaphore, permits, 2));
    expect_message(listener, "2");
    assert_int_equal(server_integer(server, "EXISTS {leased}:timeout"), 0);
    redisFree(listener);
    EXPECT_OK(pawl_semaphore_close(semaphore));
    EXPECT_OK(pawl_client_close(client));
}

/* Permits that Redisson gave out: one without a lease, and one whose lease is over. */
static void leases_of_redisson(void **state)
{
    (void)state;
    pawl_client *client = open_client();
    pawl_semaphore *semaphore = open_semaphore(client, "mixed", true);
    pawl_permit permit;
    free(server_command(server, "SET mixed 0"));
    free(server_command(server, "ZADD {mixed}:timeout " SENTINEL " 0123456789abcdef"));
    EXPECT(PAWL_BUSY, pawl_permit_acquire(semaphore, 1, 100, &permit));
    free(server_command(server, "ZADD {mixed}:timeout 1000 fedcba9876543210"));
    assert_int_equal(available(semaphore), 1);
    EXPECT_OK(pawl_permit_acquire(semaphore, 1, PAWL_TRY, &permit));
    assert_int_equal(server_integer(server, "ZCARD {mixed}:timeout"), 2);
    EXPECT_OK(pawl_permit_release(semaphore, &permit, 1));
    assert_int_equal(server_integer(server, "ZCARD {mixed}:timeout"), 1);
    strcpy(permit.id, "30313233343536373839616263646566"); /* theirs, in digits */
    EXPECT_OK(pawl_permit_release(semaphore, &permit, 1));
    assert_int_equal(available(semaphore), 2);
    EXPECT_OK(pawl_semaphore_close(semaphore));
    EXPECT_OK(pawl_client_close(client));
}

/* A TTL that somebody gave to the count stays, and the leases get it, too. */
static void ttl_is_kept(void **state)
{
    (void)state;
    pawl_client *client = open_client();
    pawl_semaphore *semaphore = open_semaphore(client, "ttl", true);
    pawl_permit permit;
    int64_t drained;
    EXPECT_OK(pawl_semaphore_set(semaphore, 3, NULL));
    assert_int_equal(server_integer(server, "PEXPIRE ttl 100000"), 1);
    EXPECT_OK(pawl_permit_acquire(semaphore, 1, PAWL_TRY, &permit));
    assert_in_range(server_integer(server, "PTTL {ttl}:timeout"), 1, 100000);
    EXPECT_OK(pawl_semaphore_add(semaphore, 2));
    EXPECT_OK(pawl_permit_release(semaphore, &permit, 1));
    EXPECT_OK(pawl_semaphore_drain(semaphore, &drained));
    assert_in_range(server_integer(server, "PTTL ttl"), 1, 100000);
    EXPECT_OK(pawl_semaphore_close(semaphore));
    EXPECT_OK(pawl_client_close(client));
}

/* Leases of an earlier life do not come back as permits of this one. */
static void new_life(void **state)
{
    (void)state;
    pawl_client *client = open_client();
    pawl_semaphore *semaphore = open_semaphore(client, "life", true);
    free(server_command(server, "ZADD {life}:timeout 1000 0123456789abcdef"));
    assert_int_equal(available(semaphore), 0);
    assert_int_equal(server_integer(server, "EXISTS life"), 0);
    free(server_command(server, "ZADD {life}:timeout " SENTINEL " 0123456789abcdef"));
    EXPECT_OK(pawl_semaphore_set(semaphore, 1, NULL));
    assert_int_equal(server_integer(server, "EXISTS {life}:timeout"), 0);
    EXPECT_OK(pawl_semaphore_close(semaphore));
    EXPECT_OK(pawl_client_close(client));
}

/* Records go with the next request, and at last by themselves. */
static void records(void **state)
{
    (void)state;
    pawl_client *client = open_client();
    pawl_semaphore *semaphore = open_semaphore(client, "records", false);
    EXPECT_OK(pawl_semaphore_set(semaphore, 3, NULL));
    for (int i = 0; i < 50; i++) {
        bool set = true;
        EXPECT_OK(pawl_semaphore_set(semaphore, 3, &set));
        assert_false(set);
        assert_int_equal(available(semaphore), 3);
        EXPECT_OK(pawl_semaphore_acquire(semaphore, 2, PAWL_TRY));
        EXPECT(PAWL_BUSY, pawl_semaphore_acquire(semaphore, 2, PAWL_TRY));
        EXPECT_OK(pawl_semaphore_release(semaphore, 2));
    }
    EXPECT_KEYS(1, "pawl_asked:{records}:*");
    EXPECT_KEYS(2, "*");
    assert_in_range(server_integer(server, "EVAL 'return redis.call(\"PTTL\","
                                           "redis.call(\"KEYS\",\"pawl_asked*\")[1])' 0"),
        1, 72000);
    EXPECT_OK(pawl_semaphore_close(semaphore));
    EXPECT_OK(pawl_client_close(client));
}

static void something_else(void **state)
{
    (void)state;
    pawl_client *client = open_client();
    pawl_semaphore *semaphore = open_semaphore(client, "hash", false);
    pawl_semaphore *leased = open_semaphore(client, "text", true);
    pawl_latch *latch = NULL;
    pawl_permit permit;
    EXPECT_OK(pawl_latch_open(client, "list", &latch));
    free(server_command(server, "HSET hash field 1"));
    free(server_command(server, "SET text hello"));
    free(server_command(server, "RPUSH list 1"));
    EXPECT(PAWL_REFUSED, pawl_semaphore_acquire(semaphore, 1, PAWL_FOREVER));
    assert_non_null(strstr(pawl_last_error(), "semaphore 'hash'"));
    EXPECT(PAWL_REFUSED, pawl_semaphore_release(semaphore, 1));
    EXPECT(PAWL_REFUSED, pawl_semaphore_set(semaphore, 1, NULL));
    EXPECT(PAWL_REFUSED, pawl_permit_acquire(leased, 1, PAWL_TRY, &permit));
    EXPECT(PAWL_REFUSED, pawl_latch_wait(latch, PAWL_FOREVER));
    assert_non_null(strstr(pawl_last_error(), "latch 'list'"));
    EXPECT(PAWL_REFUSED, pawl_latch_count_down(latch));
    assert_true(server_answers(server, "hello", "GET text"));
    EXPECT_OK(pawl_latch_close(latch));
    EXPECT_OK(pawl_semaphore_close(leased));
    EXPECT_OK(pawl_semaphore_close(semaphore));
    EXPECT_OK(pawl_client_close(client));
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(plain, setup),
        cmocka_unit_test_setup(names_with_braces, setup),
        cmocka_unit_test_setup(latch, setup),
        cmocka_unit_test_setup(latch_of_redisson, setup),
        cmocka_unit_test_setup(leases, setup),
        cmocka_unit_test_setup(leases_of_redisson, setup),
        cmocka_unit_test_setup(ttl_is_kept, setup),
        cmocka_unit_test_setup(new_life, setup),
        cmocka_unit_test_setup(records, setup),
        cmocka_unit_test_setup(something_else, setup),
    };
    cases_url = begin();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
