/* SPDX-License-Identifier: Apache-2.0 */
/* The test support's real redis-server: it starts, answers, freezes, dies, comes back with or
 * without its data, and leaves nothing behind.
 *
 * Method: what the support claims is checked from outside: by a raw client on TCP, by the process
 * table and by the file system. */
#include "support/fail.h"
#include "support/process.h"
#include "support/resources.h"
#include "support/server.h"
#include "support/sockets.h"
#include "support/wait.h"
#include "support/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static void a_server_starts_answers_and_leaves_nothing(void **state)
{
    (void)state;
    const size_t descriptors = open_descriptor_count();
    struct server *server = server_start(NULL);
    const pid_t pid = server_pid(server);
    char *directory = strdup(server_directory(server));
    assert_true(process_is_alive(pid));
    assert_int_equal(strncmp(server_url(server), "redis://127.0.0.1:", 18), 0);
    assert_int_equal(atoi(server_url(server) + 18), server_port(server));
    assert_string_equal(
        server_unix_url(server) + strlen("redis+unix://"), server_socket_path(server));

    int tcp = socket_connect(server_port(server));
    int local = socket_connect_unix(server_socket_path(server));
    assert_true(wire_answers(tcp, "SET a 'one two'", "OK"));
    assert_true(wire_answers(local, "GET a", "one two"));
    assert_true(server_answers(server, "one two", "GET %s", "a"));
    close(tcp);
    close(local);
    server_stop(server);
    assert_false(process_is_alive(pid));
    assert_int_equal(access(directory, F_OK), -1);
    assert_int_equal(open_descriptor_count(), descriptors);
    free(directory);
}

static void replies_become_flat_text(void **state)
{
    (void)state;
    struct server *server = server_start(NULL);
    assert_int_equal(server_integer(server, "INCRBY n %d", 41), 41);
    assert_true(server_integer(server, "PTTL n") == -1);
    assert_true(server_answers(server, "(nil)", "GET nothing"));
    assert_true(server_answers(server, "", "KEYS none"));
    assert_true(server_answers(server, "2", "HSET h f1 1 f2 ''"));
    assert_true(server_answers(server, "1  (nil)", "HMGET h f1 f2 f3"));
    char *reply = server_command(server, "NOSUCH");
    assert_int_equal(strncmp(reply, "(error) ERR", 11), 0);
    free(reply);
    static const char *const words[] = {"EVAL", "return {1, {'a', 'b c'}}", "0"};
    reply = server_command_words(server, 3, words);
    assert_string_equal(reply, "1 [a b c]");
    free(reply);
    char *mode = server_info(server, "redis_mode");
    assert_string_equal(mode, "standalone");
    free(mode);
    assert_null(server_info(server, "no_such_field"));
    assert_true(server_answers(server, "OK", "DEBUG SLEEP 0"));
}

static void a_restart_keeps_or_loses_the_data(void **state)
{
    (void)state;
    const struct server_options options = {.aof = true};
    struct server *server = server_start(&options);
    const uint16_t port = server_port(server);
    assert_true(server_answers(server, "OK", "SET a 1"));
    pid_t before = server_pid(server);
    server_restart(server, true);
    assert_int_not_equal(server_pid(server), before);
    assert_false(process_is_alive(before));
    assert_int_equal(server_port(server), port);
    assert_true(server_answers(server, "1", "GET a"));

    server_kill(server);
    assert_int_equal(server_pid(server), 0);
    assert_int_equal(socket_connect(port), -1);
    assert_int_equal(errno, ECONNREFUSED);
    server_restart(server, true);
    assert_true(server_answers(server, "1", "GET a"));
    server_restart(server, false);
    assert_true(server_answers(server, "(nil)", "GET a"));

    int fd = socket_connect(port);
    assert_true(wire_answers(fd, "PING", "PONG"));
    close(fd);
}

static void a_frozen_server_hangs_and_thaws(void **state)
{
    (void)state;
    struct server *server = server_start(NULL);
    int fd = socket_connect(server_port(server));
    assert_true(wire_answers(fd, "PING", "PONG"));
    server_pause(server);
    assert_true(wire_send(fd, "PING"));
    assert_null(wire_receive(fd, 100));
    assert_int_equal(errno, ETIMEDOUT);
    server_resume(server);
    char *reply = wire_receive(fd, 5000);
    assert_string_equal(reply, "PONG");
    free(reply);
    server_pause(server);
    const pid_t pid = server_pid(server);
    const int64_t start_ms = boottime_ms();
    server_stop(server); /* also when it stands still, and then without waiting for the KILL */
    assert_true(boottime_ms() - start_ms < 4000);
    assert_false(process_is_alive(pid));
    close(fd);
}

static void clients_are_counted_and_killed(void **state)
{
    (void)state;
    struct server *server = server_start(NULL);
    int command = socket_connect(server_port(server));
    int listener = socket_connect(server_port(server));
    assert_true(wire_answers(command, "PING", "PONG"));
    assert_true(wire_answers(listener, "SUBSCRIBE c", "subscribe c 1"));
    assert_int_equal(server_client_count(server, NULL), 2);
    assert_int_equal(server_client_count(server, "normal"), 1);
    assert_int_equal(server_client_count(server, "pubsub"), 1);
    assert_int_equal(server_kill_clients(server, "pubsub"), 1);
    assert_null(wire_receive(listener, 5000));
    assert_int_equal(errno, 0);
    assert_true(wire_answers(command, "PING", "PONG"));
    assert_int_equal(server_kill_clients(server, "normal"), 1);
    assert_null(wire_receive(command, 5000));
    assert_int_equal(errno, 0);
    assert_int_equal(server_client_count(server, NULL), 0);
    close(command);
    close(listener);
}

static void arguments_and_passwords_are_passed_on(void **state)
{
    (void)state;
    static const char *const args[] = {"--requirepass", "s3cret", "--maxmemory", "4mb", NULL};
    const struct server_options options = {.args = args, .password = "s3cret"};
    struct server *server = server_start(&options);
    assert_true(server_answers(server, "maxmemory 4194304", "CONFIG GET maxmemory"));
    int fd = socket_connect(server_port(server));
    assert_true(wire_answers(fd, "GET a", "(error) NOAUTH Authentication required."));
    assert_true(wire_answers(fd, "AUTH s3cret", "OK"));
    close(fd);
}

static void a_replica_follows_its_primary(void **state)
{
    (void)state;
    struct server *primary = server_start(NULL);
    assert_true(server_answers(primary, "OK", "SET a 1"));
    struct server *replica = server_start_replica_of(primary, NULL);
    WAIT_UNTIL(server_answers(replica, "1", "GET a"), 5000);
    char *role = server_info(replica, "role");
    assert_string_equal(role, "slave");
    free(role);
    char *reply = server_command(replica, "SET a 2");
    assert_int_equal(strncmp(reply, "(error) READONLY", 16), 0);
    free(reply);
}

static int use_server_in_child(const struct child_pipes *pipes, void *arg)
{
    struct server *server = arg;
    const int64_t id = server_integer(server, "CLIENT ID");
    assert_int_equal(write(pipes->out, &id, sizeof id), sizeof id);
    exit(0); /* runs the clean-up, which must spare the parent's server */
}

static void a_forked_child_may_use_the_server(void **state)
{
    (void)state;
    struct server *server = server_start(NULL);
    const int64_t id = server_integer(server, "CLIENT ID");
    struct child *child = child_fork(use_server_in_child, server);
    int64_t id_of_child = 0;
    assert_true(child_read(child, &id_of_child, sizeof id_of_child, 20000));
    assert_int_equal(child_wait(child, 20000), 0);
    assert_true(id_of_child > id); /* a connection of its own */
    assert_int_equal(server_integer(server, "CLIENT ID"), id);
    assert_int_equal(access(server_directory(server), F_OK), 0);
    child_free(child);
}

/* What the clean-up has to end when a test just stops. */
static int start_and_leave(const struct child_pipes *pipes, void *arg)
{
    const bool violently = *(const bool *)arg;
    struct server *server = server_start(NULL);
    const pid_t pid = server_pid(server);
    const char *directory = server_directory(server);
    if (write(pipes->out, &pid, sizeof pid) != (ssize_t)sizeof pid ||
        write(pipes->out, directory, strlen(directory)) < 0 || write(pipes->out, "\n", 1) < 0) {
        return 1;
    }
    if (violently) {
        raise(SIGKILL);
    }
    exit(5);
}

static void a_server_does_not_outlive_its_test(void **state)
{
    (void)state;
    bool violently = false;
    struct child *child = child_fork(start_and_leave, &violently);
    pid_t pid = 0;
    assert_true(child_read(child, &pid, sizeof pid, 20000));
    char *directory = child_read_line(child, 5000);
    assert_int_equal(child_wait(child, 20000), 5);
    assert_false(process_is_alive(pid));
    assert_int_equal(access(directory, F_OK), -1);
    free(directory);
    child_free(child);

    violently = true;
    child = child_fork(start_and_leave, &violently);
    assert_true(child_read(child, &pid, sizeof pid, 20000));
    directory = child_read_line(child, 5000);
    assert_int_equal(child_wait(child, 20000), 128 + SIGKILL);
    WAIT_UNTIL(!process_is_alive(pid), 5000);
    assert_true(remove_tree(directory)); /* nobody was left to do it */
    free(directory);
    child_free(child);
}

static int start_without_binary(const struct child_pipes *pipes, void *arg)
{
    (void)pipes;
    (void)arg;
    close(STDERR_FILENO);
    setenv("PATH", "/nonexistent", 1);
    server_start(NULL);
    return 0;
}

static int start_with_nonsense(const struct child_pipes *pipes, void *arg)
{
    (void)arg;
    /* It also has a good one, to be ended when the bad one fails. */
    const char *directory = server_directory(server_start(NULL));
    if (write(pipes->out, directory, strlen(directory)) < 0 || write(pipes->out, "\n", 1) < 0) {
        return 1;
    }
    static const char *const args[] = {"--no-such-option", "1", NULL};
    const struct server_options options = {.args = args};
    int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    dup2(fd, STDERR_FILENO);
    server_start(&options);
    return 0;
}

static void no_server_is_a_skip_and_a_bad_one_a_failure(void **state)
{
    (void)state;
    struct child *child = child_fork(start_without_binary, NULL);
    assert_int_equal(child_wait(child, 20000), 77);
    child_free(child);
    child = child_fork(start_with_nonsense, NULL);
    assert_int_equal(child_wait(child, 60000), 128 + SIGABRT);
    char *directory = child_read_line(child, 5000);
    assert_non_null(directory);
    assert_int_equal(access(directory, F_OK), -1);
    free(directory);
    child_free(child);
}

#define CASE(function) cmocka_unit_test_setup_teardown(function, cleanup_setup, cleanup_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_server_starts_answers_and_leaves_nothing),
        CASE(replies_become_flat_text),
        CASE(a_restart_keeps_or_loses_the_data),
        CASE(a_frozen_server_hangs_and_thaws),
        CASE(clients_are_counted_and_killed),
        CASE(arguments_and_passwords_are_passed_on),
        CASE(a_replica_follows_its_primary),
        CASE(a_forked_child_may_use_the_server),
        CASE(a_server_does_not_outlive_its_test),
        CASE(no_server_is_a_skip_and_a_bad_one_a_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
