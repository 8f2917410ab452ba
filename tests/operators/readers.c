/* SPDX-License-Identifier: Apache-2.0 */
/* Read/write locks for people who look: how long each of those who hold one still has.
 *
 * Method: a real server into which the test writes locks as Redisson does: a hash with the holders,
 * and for each hold of a reader a key with its lease. The lock's TTL is that of the last one. */
#include "operators/told.h"

#define UUID "5bd36e9c-7a0f-4f5e-9d6a-2a8f5a3c1b77"
#define ONE UUID ":1"
#define TWO UUID ":2"
#define HOLD(owner, number) "{shared}:" owner ":rwlock_timeout:" number

enum { LATE_MS = 5000 };

static struct server *server;

/* Two readers, one of whom has it twice. */
static int begin(void **state)
{
    const int result = flush_and_setup(server, state);
    free(server_command(server, "HSET shared mode read " ONE " 1 " TWO " 2"));
    free(server_command(server, "PEXPIRE shared 90000"));
    free(server_command(server, "SET " HOLD(ONE, "1") " 1 PX 20000"));
    free(server_command(server, "SET " HOLD(TWO, "1") " 1 PX 40000"));
    free(server_command(server, "SET " HOLD(TWO, "2") " 1 PX 60000"));
    return result;
}

static void assert_left(pawl_client *client, const char *name, const char *holder, int64_t left_ms)
{
    const int64_t told_ms = entry_of(list(client, name), name, holder)->remaining_ms;
    if (told_ms > left_ms || told_ms < left_ms - LATE_MS) {
        support_fail(
            "%s: %lld ms are told, of %lld", holder, (long long)told_ms, (long long)left_ms);
    }
}

static void each_has_a_lease_of_its_own(void **state)
{
    (void)state;
    pawl_client *client = open_client(server_url(server), NULL);
    assert_left(client, "shared", ONE, 20000);
    assert_left(client, "shared", TWO, 60000);
    free(server_command(server, "DEL " HOLD(TWO, "2")));
    assert_left(client, "shared", TWO, 40000);
}

static void a_lease_that_is_over_is_told_so(void **state)
{
    (void)state;
    pawl_client *client = open_client(server_url(server), NULL);
    free(server_command(server, "DEL " HOLD(ONE, "1")));
    assert_int_equal(entry_of(list(client, NULL), "shared", ONE)->remaining_ms, 0);
    assert_left(client, "shared", TWO, 60000);
}

static void a_writer_has_that_of_the_lock(void **state)
{
    (void)state;
    pawl_client *client = open_client(server_url(server), NULL);
    free(server_command(server, "HSET shared mode write " ONE ":write 1"));
    assert_left(client, "shared", ONE ":write", 90000);
    assert_left(client, "shared", ONE, 20000);
}

/* Braces of its own are the prefix of all its keys. */
static void a_name_with_braces(void **state)
{
    (void)state;
    pawl_client *client = open_client(server_url(server), NULL);
    free(server_command(server, "HSET {a}b mode read " ONE " 1"));
    free(server_command(server, "PEXPIRE {a}b 90000"));
    free(server_command(server, "SET {a}b:" ONE ":rwlock_timeout:1 1 PX 30000"));
    assert_left(client, "{a}b", ONE, 30000);
}

static void a_lock_without_a_limit_has_none_for_readers(void **state)
{
    (void)state;
    pawl_client *client = open_client(server_url(server), NULL);
    free(server_command(server, "PERSIST shared"));
    assert_int_equal(entry_of(list(client, NULL), "shared", ONE)->remaining_ms, -1);
}

static void who_may_not_see_the_leases_is_told_of_the_locks(void **state)
{
    (void)state;
    char url[64];
    free(server_command(server, "ACL SETUSER narrow on >pw ~shared &* +@all"));
    snprintf(url, sizeof url, "redis://narrow:pw@127.0.0.1:%u", (unsigned)server_port(server));
    assert_left(open_client(url, NULL), "shared", ONE, 90000);
}

int main(void)
{
#define CASE(test) cmocka_unit_test_setup_teardown(test, begin, cleanup_teardown)
    const struct CMUnitTest tests[] = {
        CASE(each_has_a_lease_of_its_own),
        CASE(a_lease_that_is_over_is_told_so),
        CASE(a_writer_has_that_of_the_lock),
        CASE(a_name_with_braces),
        CASE(a_lock_without_a_limit_has_none_for_readers),
        CASE(who_may_not_see_the_leases_is_told_of_the_locks),
    };
    server = server_start(NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
