/* SPDX-License-Identifier: Apache-2.0 */
/* P8, secrets: a password appears in no sentence and in no log message, whatever goes wrong, and
 * not even if a server repeats it to us.
 *
 * The canary stands in the password and is looked for, plain and percent-encoded, in everything
 * that the library says. */
#include "promise/common.h"

#include "support/sockets.h"

#include <fcntl.h>
#include <unistd.h>

#define CANARY "s3cr3t-c4n4ry"
#define CANARY_ENCODED "s3cr3t%2Dc4n4ry"
#define QUERY "timeout=200ms&connect_timeout=200ms"

/* Everything said in log messages; guarded by the mutex. */
static struct text said;
static pthread_mutex_t said_mutex = PTHREAD_MUTEX_INITIALIZER;

static void note_log(pawl_log_level level, const char *message, void *arg)
{
    (void)level;
    (void)arg;
    pthread_mutex_lock(&said_mutex);
    text_addf(&said, "%s\n", message);
    pthread_mutex_unlock(&said_mutex);
}

static void assert_no_canary(const char *text, const char *where)
{
    if (strstr(text, CANARY) != NULL || strstr(text, CANARY_ENCODED) != NULL ||
        strstr(text, "c4n4ry") != NULL) {
        support_fail("%s: the password is in '%s'", where, text);
    }
}

static void assert_nothing_leaked(const char *where)
{
    assert_no_canary(pawl_last_error(), where);
    pthread_mutex_lock(&said_mutex);
    char *all = text_take(&said);
    pthread_mutex_unlock(&said_mutex);
    if (all != NULL) {
        assert_no_canary(all, where);
    }
    free(all);
}

static pawl_status open_with_log(const char *url, pawl_client **client_out)
{
    pawl_client_options options = PAWL_CLIENT_OPTIONS_INIT;
    options.log = note_log;
    return pawl_client_open(url, &options, client_out);
}

/* The status, and a sentence without the password in it. */
static void fails_with(pawl_status wanted, const char *url)
{
    pawl_client *client = NULL;
    const pawl_status status = open_with_log(url, &client);
    if (status != wanted) {
        support_fail("answered %s, not %s: %s", pawl_status_string(status),
            pawl_status_string(wanted), pawl_last_error());
    }
    print_message("%s: %s\n", pawl_status_string(status), pawl_last_error());
    assert_true(strlen(pawl_last_error()) > 10);
    assert_nothing_leaked(url);
}

static void urls_that_make_no_sense(void **state)
{
    (void)state;
    static const char *const urls[] = {
        "redis://user:" CANARY "@",
        "redis://user:" CANARY "@host:99999",
        "redis://user:" CANARY "@host:port",
        "redis://user:" CANARY "%zz@host",
        "redis://user:" CANARY "@host/notanumber",
        "redis://user:" CANARY "@host?nonsense=1",
        "redis://user:" CANARY "@host?timeout=never",
        "redis://user:" CANARY "@ho st",
        "redis://user:" CANARY "@[::1",
        "redis://user:" CANARY "@host?guard=" CANARY,
        "redis://:" CANARY "@@host",
        "redis:/" CANARY "@host",
        "redis+unix://user:" CANARY "@host/path",
    };
    for (size_t i = 0; i < sizeof urls / sizeof urls[0]; i++) {
        pawl_client *client = NULL;
        const pawl_status status = open_with_log(urls[i], &client);
        print_message("%s: %s\n", pawl_status_string(status), pawl_last_error());
        assert_int_not_equal(status, PAWL_OK);
        assert_nothing_leaked(urls[i]);
    }
}

static void schemes_that_nobody_serves(void **state)
{
    (void)state;
    fails_with(PAWL_UNSUPPORTED, "mysql://user:" CANARY "@host/db");
    fails_with(PAWL_UNSUPPORTED, "rediss://user:" CANARY "@host");
}

static void servers_that_cannot_be_reached(void **state)
{
    (void)state;
    char url[URL_SIZE];
    snprintf(url, sizeof url, "redis://user:" CANARY "@127.0.0.1:%u?" QUERY, socket_pick_port());
    fails_with(PAWL_UNAVAILABLE, url);
    fails_with(PAWL_UNAVAILABLE, "redis://user:" CANARY_ENCODED "@no-such-host.invalid?" QUERY);
}

static void passwords_that_are_wrong(void **state)
{
    (void)state;
    char url[URL_SIZE];
    char path[URL_SIZE];
    struct server *server = server_start(NULL);
    snprintf(path, sizeof path, "%s/password", tempdir_make());
    const int fd = open(path, O_WRONLY | O_CREAT, 0600);
    assert_int_equal(write(fd, CANARY "\n", strlen(CANARY) + 1), strlen(CANARY) + 1);
    close(fd);
    setenv("PAWL_TEST_PASSWORD", CANARY, 1);
    snprintf(url, sizeof url, "redis://user:" CANARY "@127.0.0.1:%u", server_port(server));
    fails_with(PAWL_DENIED, url);
    snprintf(url, sizeof url, "redis://user:%s@127.0.0.1:%u", CANARY_ENCODED, server_port(server));
    fails_with(PAWL_DENIED, url);
    snprintf(url, sizeof url, "redis://user@127.0.0.1:%u?password_env=PAWL_TEST_PASSWORD",
        server_port(server));
    fails_with(PAWL_DENIED, url);
    snprintf(url, sizeof url, "redis://user@127.0.0.1:%u?password_file=%.200s", server_port(server),
        path);
    fails_with(PAWL_DENIED, url);
    unsetenv("PAWL_TEST_PASSWORD");
}

/* Some servers, and some proxies before them, repeat what they do not understand. */
static void servers_that_repeat_the_password(void **state)
{
    (void)state;
    static const char *const replies[] = {
        "-ERR unknown command 'HELLO', with args beginning with: '3' 'AUTH' 'user' '%{4}'\\r\\n",
        "-ERR what is '%{0} %{1} %{2} %{3} %{4}'?\\r\\n",
        "-WRONGPASS %{4} is wrong\\r\\n",
        "-NOPERM no rights for %{4}\\r\\n",
        "-NOAUTH %{4}\\r\\n",
        "-LOADING %{4}\\r\\n",
        "+%{4}\\r\\n",
    };
    for (size_t i = 0; i < sizeof replies / sizeof replies[0]; i++) {
        char url[URL_SIZE];
        pawl_client *client = NULL;
        struct scripted *scripted = scripted_start();
        scripted_handshake(scripted);
        scripted_handle(scripted, "HELLO", replies[i]);
        snprintf(url, sizeof url, "redis://user:" CANARY "@127.0.0.1:%u?" QUERY,
            scripted_port(scripted));
        const pawl_status status = open_with_log(url, &client);
        print_message("%s: %s\n", pawl_status_string(status), pawl_last_error());
        assert_int_not_equal(status, PAWL_OK);
        assert_nothing_leaked(replies[i]);
        scripted_stop(scripted);
    }
}

/* A client that works, then does not: warnings and faults in the middle of its life. */
static void everything_that_is_said_later(void **state)
{
    (void)state;
    char url[URL_SIZE];
    pawl_client *client = NULL;
    pawl_lock *lock = NULL;
    struct server *server = server_start(NULL);
    free(server_command(server, "ACL SETUSER user on >" CANARY " ~* &* +@all -info -client|kill"));
    snprintf(url, sizeof url, "redis://user:" CANARY "@127.0.0.1:%u?" QUERY, server_port(server));
    ASSERT_OK(open_with_log(url, &client));
    cleanup_add(close_client_in_cleanup, client);
    ASSERT_OK(pawl_lock_open(client, "x", NULL, &lock));
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
    server_pause(server);
    ASSERT_STATUS(PAWL_UNAVAILABLE, pawl_lock_release(lock));
    assert_nothing_leaked("release");
    server_resume(server);
    free(server_command(server, "ACL SETUSER user resetpass >another"));
    server_kill_clients(server, "normal");
    pawl_status status = PAWL_OK;
    for (int i = 0; i < 20 && status != PAWL_DENIED; i++) {
        status = pawl_lock_acquire(lock, PAWL_TRY);
        assert_nothing_leaked("acquire");
        status == PAWL_OK ? (void)pawl_lock_release(lock) : nap_ms(50);
    }
    assert_int_equal(status, PAWL_DENIED);
    print_message("%s: %s\n", pawl_status_string(status), pawl_last_error());
    pawl_lock_close(lock);
    assert_nothing_leaked("close of the lock");
    close_client(client);
    assert_nothing_leaked("close");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(urls_that_make_no_sense, cleanup_setup, cleanup_teardown),
        cmocka_unit_test_setup_teardown(
            schemes_that_nobody_serves, cleanup_setup, cleanup_teardown),
        cmocka_unit_test_setup_teardown(
            servers_that_cannot_be_reached, cleanup_setup, cleanup_teardown),
        cmocka_unit_test_setup_teardown(passwords_that_are_wrong, cleanup_setup, cleanup_teardown),
        cmocka_unit_test_setup_teardown(
            servers_that_repeat_the_password, cleanup_setup, cleanup_teardown),
        cmocka_unit_test_setup_teardown(
            everything_that_is_said_later, cleanup_setup, cleanup_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
