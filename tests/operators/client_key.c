/* SPDX-License-Identifier: Apache-2.0 */
/* The key by which a client says who it is, pawl_client:{<uuid>}, on a real Redis server: when it
 * is there, for how long, when it is renewed, and that nothing depends on it. */
#include "operators/common.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

#define BOUND_MS (5000 * SLOWNESS)

static struct server *server;

static int begin(void **state)
{
    return flush_and_setup(server, state);
}

/* The one client's key, to be freed; NULL: there is none. */
static char *client_key(void)
{
    char *keys = server_command(server, "KEYS pawl_client:*");
    if (keys[0] == '\0') {
        free(keys);
        return NULL;
    }
    assert_null(strchr(keys, ' ')); /* one */
    return keys;
}

static bool has_key(void)
{
    char *key = client_key();
    free(key);
    return key != NULL;
}

static int64_t time_left_ms(void)
{
    char *key = client_key();
    assert_non_null(key);
    const int64_t left_ms = server_integer(server, "PTTL %s", key);
    free(key);
    return left_ms;
}

static void assert_field(const char *field, const char *expected)
{
    char *key = client_key();
    assert_non_null(key);
    char *value = server_command(server, "HGET %s %s", key, field);
    assert_string_equal(value, expected);
    free(value);
    free(key);
}

/* ===== When it is there ===== */

static void it_comes_with_the_first_lock_and_goes_with_the_client(void **state)
{
    (void)state;
    char host[65] = "";
    char pid[24];
    pawl_client *client = open_client(server_url(server), NULL);
    pawl_lock *lock = own_lock(client, "x", 20000, true);
    pawl_lock_info info = {.size = sizeof info};
    gethostname(host, 64);
    snprintf(pid, sizeof pid, "%d", (int)getpid());
    ASSERT_OK(pawl_lock_inspect(lock, &info));
    assert_false(has_key()); /* who only looks leaves no trace */
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
    assert_field("host", host);
    assert_field("pid", pid);
    assert_field("command", program_invocation_short_name);
    char owner[PAWL_OWNER_SIZE];
    ASSERT_OK(pawl_lock_owner(lock, owner, sizeof owner));
    char *key = client_key();
    assert_memory_equal(key + strlen("pawl_client:{"), owner, 36);
    char *start = server_command(server, "HGET %s start", key);
    char *now = server_command(server, "TIME");
    const int64_t age_us = strtoll(now, NULL, 10) * 1000000 - strtoll(start, NULL, 10);
    assert_true(llabs(age_us) < 60 * INT64_C(1000000));
    free(now);
    free(start);
    free(key);
    assert_true(time_left_ms() > 20000 && time_left_ms() <= 41000);
    ASSERT_OK(pawl_lock_release(lock));
    assert_true(has_key());
    ASSERT_OK(close_client(client));
    WAIT_UNTIL(!has_key(), BOUND_MS);
    assert_true(server_answers(server, "redisson_lock_token:{x}", "KEYS *"));
}

static void nothing_is_written_for_each_lock(void **state)
{
    (void)state;
    pawl_client *client = open_client(server_url(server), NULL);
    free(server_command(server, "CONFIG RESETSTAT"));
    for (int i = 0; i < 200; i++) {
        char name[16];
        snprintf(name, sizeof name, "x%d", i % 20);
        pawl_lock *lock = open_lock(client, name, 20000, true);
        ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
        ASSERT_OK(pawl_lock_release(lock));
        pawl_lock_close(lock);
    }
    char *calls = server_info(server, "cmdstat_evalsha");
    assert_non_null(calls);
    assert_int_equal(strtol(strchr(calls, '=') + 1, NULL, 10), 401);
    free(calls);
}

static void a_longer_lease_makes_it_stay_longer(void **state)
{
    (void)state;
    pawl_client *client = open_client(server_url(server), NULL);
    pawl_lock *brief = own_lock(client, "brief", 1000, true);
    pawl_lock *lasting = own_lock(client, "lasting", 600000, false);
    ASSERT_OK(pawl_lock_acquire(brief, PAWL_TRY));
    assert_true(time_left_ms() <= 3000);
    ASSERT_OK(pawl_lock_acquire(lasting, PAWL_TRY));
    assert_true(time_left_ms() > 600000);
    ASSERT_OK(pawl_lock_release(brief));
    ASSERT_OK(pawl_lock_acquire(brief, PAWL_TRY));
    assert_true(time_left_ms() > 599000); /* and nothing shortens it */
    ASSERT_OK(pawl_lock_extend(brief, 900000));
    assert_true(time_left_ms() > 900000);
}

/* It is written with a life of three seconds, so without renewal it would be gone long before. */
static void it_stays_while_anything_is_held(void **state)
{
    (void)state;
    pawl_client *client = open_client(server_url(server), NULL);
    pawl_lock *lock = own_lock(client, "x", 1000, true);
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
    const int64_t end_ms = boottime_ms() + 5000;
    while (boottime_ms() < end_ms) {
        assert_true(has_key());
        assert_true(time_left_ms() > 0);
        nap_ms(50);
    }
    ASSERT_OK(pawl_lock_release(lock));
}

static void it_is_said_again_to_a_server_that_has_forgotten(void **state)
{
    (void)state;
    pawl_client *client = open_client(server_url(server), NULL);
    pawl_lock *lock = own_lock(client, "x", 20000, true);
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
    ASSERT_OK(pawl_lock_release(lock));
    free(server_command(server, "FLUSHALL"));
    free(server_command(server, "SCRIPT FLUSH"));
    server_kill_clients(server, "normal");
    ASSERT_OK(pawl_lock_acquire(lock, 5000));
    assert_true(has_key());
}

/* ===== After a death ===== */

static int hold_and_wait(const struct child_pipes *pipes, const char *url)
{
    pawl_client *client = NULL;
    pawl_lock *lock = NULL;
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    options.lease_ms = 500;
    if (pawl_client_open(url, NULL, &client) != PAWL_OK ||
        pawl_lock_open(client, "x", &options, &lock) != PAWL_OK ||
        pawl_lock_acquire(lock, PAWL_TRY) != PAWL_OK || write(pipes->out, "held\n", 5) != 5) {
        return 1;
    }
    char byte;
    return read(pipes->in, &byte, 1) == 1 ? 0 : 2;
}

static void it_goes_by_itself_when_the_process_was_killed(void **state)
{
    (void)state;
    struct child *child = child_start("holder", server_url(server));
    char *line = child_read_line(child, BOUND_MS);
    assert_non_null(line);
    free(line);
    char pid[24];
    snprintf(pid, sizeof pid, "%d", (int)child_pid(child));
    assert_field("pid", pid);
    child_signal(child, SIGKILL);
    assert_int_equal(child_wait(child, BOUND_MS), 128 + SIGKILL);
    assert_true(time_left_ms() <= 2000);
    WAIT_UNTIL(!has_key(), 2000 + BOUND_MS);
}

/* ===== Without the right ===== */

static void a_user_without_the_right_stays_anonymous(void **state)
{
    (void)state;
    char url[URL_SIZE];
    free(server_command(server, "ACL SETUSER half reset on >pw ~x ~redisson_lock_token:{x} &* "
                                "+@all"));
    snprintf(url, sizeof url, "redis://half:pw@127.0.0.1:%u", (unsigned)server_port(server));
    pawl_client *client = open_client(url, NULL);
    pawl_lock *lock = own_lock(client, "x", 2000, true);
    for (int i = 0; i < 3; i++) {
        ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
        ASSERT_OK(pawl_lock_release(lock));
    }
    assert_false(has_key());
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
    nap_ms(3000); /* and renewals work */
    assert_true(pawl_lock_remaining_ms(lock) > 0);
    assert_int_equal(server_integer(server, "EXISTS x"), 1);
    ASSERT_OK(pawl_lock_release(lock));
    ASSERT_OK(close_client(client));
    free(server_command(server, "ACL DELUSER half"));
}

static void a_server_that_is_full_gives_and_takes_locks_as_before(void **state)
{
    (void)state;
    pawl_client *client = open_client(server_url(server), NULL);
    pawl_lock *lock = own_lock(client, "x", 20000, true);
    free(server_command(server, "CONFIG SET maxmemory 1mb"));
    ASSERT_STATUS(PAWL_REFUSED, pawl_lock_acquire(lock, PAWL_TRY));
    free(server_command(server, "CONFIG SET maxmemory 0"));
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
    ASSERT_OK(pawl_lock_release(lock));
}

int main(int argc, char *argv[])
{
#define CASE(test) cmocka_unit_test_setup_teardown(test, begin, cleanup_teardown)
    static const struct child_role roles[] = {{"holder", hold_and_wait}};
    const struct CMUnitTest tests[] = {
        CASE(it_comes_with_the_first_lock_and_goes_with_the_client),
        CASE(nothing_is_written_for_each_lock),
        CASE(a_longer_lease_makes_it_stay_longer),
        CASE(it_stays_while_anything_is_held),
        CASE(it_is_said_again_to_a_server_that_has_forgotten),
        CASE(it_goes_by_itself_when_the_process_was_killed),
        CASE(a_user_without_the_right_stays_anonymous),
        CASE(a_server_that_is_full_gives_and_takes_locks_as_before),
    };
    child_dispatch(argc, argv, roles, 1);
    server = server_start(NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
