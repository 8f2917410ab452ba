/* SPDX-License-Identifier: Apache-2.0 */
/* A real redis-server for a test, in its own temporary directory, on a free loopback port and a
 * unix socket.
 *
 * If there is no redis-server in PATH the test program ends with status 77 (skipped). Whatever
 * goes wrong otherwise fails the running test, with the end of the server's log. A server ends
 * with server_stop(), else in the test's teardown (see fail.h), else at the exit of the program,
 * and if the program is killed the kernel ends the server. Start servers from the main thread: a
 * server dies with the thread that started it. */
#ifndef PAWL_SUPPORT_SERVER_H
#define PAWL_SUPPORT_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct server;

struct server_options {
    const char *const *args; /* more arguments, NULL at the end; they win over ours */
    bool aof;                /* append-only file: data can survive a restart */
    const char *user;        /* for server_command(), if the arguments ask for a password */
    const char *password;
};

/* Start and wait until it answers. NULL means defaults. */
struct server *server_start(const struct server_options *options);

/* A replica of another test server; waits until the two are linked. */
struct server *server_start_replica_of(
    struct server *primary, const struct server_options *options);

/* End it (TERM, then KILL), reap it, remove its directory. */
void server_stop(struct server *server);

/* kill -9, and reap. The port and the directory stay for server_restart(). */
void server_kill(struct server *server);

/* Start again on the same port; kills it first if it still runs. `keep_data` needs the option
 * `aof`; without it the data files are removed first. */
void server_restart(struct server *server, bool keep_data);

/* Freeze (SIGSTOP, waits until it stands still) and go on. */
void server_pause(struct server *server);
void server_resume(struct server *server);

const char *server_url(const struct server *server);      /* redis://127.0.0.1:port */
const char *server_unix_url(const struct server *server); /* redis+unix:///path */
const char *server_socket_path(const struct server *server);
const char *server_directory(const struct server *server);
const char *server_log_path(const struct server *server);
uint16_t server_port(const struct server *server);
pid_t server_pid(const struct server *server);

/* Run a command as the operator and return the reply as flat text, to be freed: numbers and
 * strings as they are, "(nil)", "(error) ...", lists with spaces between. The line is cut at
 * spaces after formatting; '...' keeps spaces in a word. No reply within 5 s fails the test. */
char *server_command(struct server *server, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The same with the words given one by one (any text, such as a script). */
char *server_command_words(struct server *server, size_t count, const char *const words[]);

/* The same for a reply that is a number; anything else fails the test. */
int64_t server_integer(struct server *server, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* True if the reply is exactly this text. */
bool server_answers(struct server *server, const char *expected, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* One field of INFO, to be freed; NULL if there is none. */
char *server_info(struct server *server, const char *field);

/* Connections of a type ("normal", "pubsub", "replica"; NULL: all), without the operator's. */
size_t server_client_count(struct server *server, const char *type);

/* CLIENT KILL TYPE, the operator excepted; returns how many were killed. */
int64_t server_kill_clients(struct server *server, const char *type);

#endif
