/* SPDX-License-Identifier: Apache-2.0 */
/* P4, the wire's side: a connection that was given up with unanswered writes is killed at the
 * server before anything else is asked of it, and nobody else ever is.
 *
 * A scripted server breaks off in the middle of an acquire and writes down what the next connection
 * begins with. On the real one it is seen in the list of clients. */
#include "promise/common.h"

#include "engine/redis/lua_scripts.h"

#include <strings.h>

#define LEASE_MS 30000
#define OTHER_RUN "ffffffffffffffffffffffffffffffffffffffff"

static struct scripted *scripted;

/* A server that grants and releases everything. */
static void start_scripted(void)
{
    char words[64];
    scripted = scripted_start();
    scripted_handshake(scripted);
    snprintf(words, sizeof words, "EVALSHA %s", pawl__script_rights.sha1);
    scripted_handle(scripted, words, "*0\\r\\n");
    snprintf(words, sizeof words, "EVALSHA %s", pawl__script_introduce.sha1);
    scripted_handle(scripted, words, ":1\\r\\n");
    snprintf(words, sizeof words, "EVALSHA %s", pawl__script_acquire.sha1);
    scripted_handle(scripted, words, ":1700000000000001\\r\\n");
    snprintf(words, sizeof words, "EVALSHA %s", pawl__script_release.sha1);
    scripted_handle(scripted, words, ":1\\r\\n");
}

/* The next acquire is not answered: its connection breaks. */
static void break_in_acquire(void)
{
    char script[128];
    snprintf(script, sizeof script, "EXPECT EVALSHA %s ...\nRESET\n", pawl__script_acquire.sha1);
    scripted_play(scripted, script);
}

/* The number of the first command of this connection that begins so; -1: there is none. */
static int position(size_t connection, const char *beginning)
{
    int at = 0;
    char *command = NULL;
    for (size_t i = 0; (command = scripted_command(scripted, i)) != NULL; i++) {
        const bool ours = scripted_command_connection(scripted, i) == connection;
        const bool met = ours && strncasecmp(command, beginning, strlen(beginning)) == 0;
        free(command);
        if (met) {
            return at;
        }
        at += ours ? 1 : 0;
    }
    return -1;
}

static void hold_over_a_broken_acquire(pawl_client *client)
{
    pawl_lock *lock = open_lock(client, "x", LEASE_MS, true);
    break_in_acquire();
    ASSERT_OK(pawl_lock_acquire(lock, 3000));
    scripted_check(scripted);
    assert_int_equal(scripted_accepted(scripted), 2);
    ASSERT_OK(pawl_lock_release(lock));
    pawl_lock_close(lock);
}

static void the_old_connection_is_killed_before_anything_is_asked(void **state)
{
    (void)state;
    start_scripted();
    pawl_client *client = open_client(scripted_url(scripted), NULL);
    assert_int_equal(scripted_count(scripted, "CLIENT KILL ..."), 0);
    hold_over_a_broken_acquire(client);
    const int kill = position(2, "CLIENT KILL ID 1");
    assert_true(kill > position(2, "HELLO"));
    assert_true(kill > position(2, "INFO")); /* is it the same server? */
    assert_true(kill < position(2, "SCRIPT LOAD"));
    assert_true(kill < position(2, "EVALSHA"));
    assert_int_equal(scripted_count(scripted, "CLIENT KILL ..."), 1);
    assert_int_equal(scripted_count(scripted, "CLIENT KILL ID 1"), 1);
    ASSERT_OK(close_client(client));
}

static void not_if_the_server_is_another_one(void **state)
{
    (void)state;
    start_scripted();
    pawl_client *client = open_client(scripted_url(scripted), NULL);
    scripted_set_info(scripted, "run_id", OTHER_RUN); /* there, number 1 is somebody else */
    hold_over_a_broken_acquire(client);
    assert_int_equal(scripted_count(scripted, "CLIENT KILL ..."), 0);
    ASSERT_OK(close_client(client));
}

static void not_if_nothing_was_unanswered(void **state)
{
    (void)state;
    start_scripted();
    pawl_client *client = open_client(scripted_url(scripted), NULL);
    pawl_lock *lock = open_lock(client, "x", LEASE_MS, true);
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
    scripted_play(scripted, "ON HELLO ...\nCLOSE\n");
    assert_true(scripted_wait_done(scripted, 2000));
    nap_ms(1100); /* after a second of silence the client looks before it writes */
    ASSERT_OK(pawl_lock_release(lock));
    assert_int_equal(scripted_accepted(scripted), 2);
    assert_int_equal(position(2, "CLIENT KILL"), -1);
    pawl_lock_close(lock);
    ASSERT_OK(close_client(client));
}

/* Without INFO the run is unknown: the connection is meant by its address as well. */
static void by_number_and_address_if_the_run_is_not_known(void **state)
{
    (void)state;
    start_scripted();
    scripted_handle(scripted, "INFO", "-NOPERM this user has no permissions to run INFO\\r\\n");
    pawl_client *client = open_client(scripted_url(scripted), NULL);
    hold_over_a_broken_acquire(client);
    assert_int_equal(scripted_count(scripted, "CLIENT KILL ID 1 ADDR *"), 1);
    ASSERT_OK(close_client(client));
}

/* Killed or not, the caller gets its answer; but a close says that a late copy may yet come. */
static void a_refused_kill_does_no_harm(void **state)
{
    (void)state;
    start_scripted();
    scripted_handle(scripted, "CLIENT KILL", "-NOPERM no permissions to run client|kill\\r\\n");
    pawl_client *client = open_client(scripted_url(scripted), NULL);
    hold_over_a_broken_acquire(client);
    assert_int_equal(scripted_count(scripted, "CLIENT KILL ..."), 1);
    ASSERT_STATUS(PAWL_UNAVAILABLE, close_client(client));
}

static void on_a_real_server_the_orphan_is_gone(void **state)
{
    (void)state;
    struct server *server = server_start(NULL);
    struct proxy *proxy = proxy_start_for(server);
    pawl_client *client = open_client(proxy_url(proxy), NULL);
    pawl_lock *lock = open_lock(client, "x", LEASE_MS, true);
    assert_int_equal(server_client_count(server, "normal"), 1);
    proxy_cut_reply_of(proxy, pawl__script_acquire.sha1, 1, PROXY_ORPHAN);
    ASSERT_OK(pawl_lock_acquire(lock, 3000)); /* the server was not told that we have gone */
    assert_int_equal(proxy_received(proxy, "CLIENT KILL ID"), 1);
    assert_int_equal(server_client_count(server, "normal"), 1);
    ASSERT_OK(pawl_lock_release(lock));
    pawl_lock_close(lock);
    ASSERT_OK(close_client(client));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            the_old_connection_is_killed_before_anything_is_asked, cleanup_setup, cleanup_teardown),
        cmocka_unit_test_setup_teardown(
            not_if_the_server_is_another_one, cleanup_setup, cleanup_teardown),
        cmocka_unit_test_setup_teardown(
            not_if_nothing_was_unanswered, cleanup_setup, cleanup_teardown),
        cmocka_unit_test_setup_teardown(
            by_number_and_address_if_the_run_is_not_known, cleanup_setup, cleanup_teardown),
        cmocka_unit_test_setup_teardown(
            a_refused_kill_does_no_harm, cleanup_setup, cleanup_teardown),
        cmocka_unit_test_setup_teardown(
            on_a_real_server_the_orphan_is_gone, cleanup_setup, cleanup_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
