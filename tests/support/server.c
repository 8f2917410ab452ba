/* SPDX-License-Identifier: Apache-2.0 */
/* Starting, stopping and questioning a real redis-server.
 *
 * Readiness is asked over the unix socket in the server's own directory, and the process id in the
 * answer must be the one we started: on TCP another test's server might answer on a port that both
 * chose at the same moment. If ours ends at once (most likely for that reason), another port is
 * tried; a restart keeps its port and tries again on the same one. */
#include "support/server.h"

#include "support/admin.h"
#include "support/fail.h"
#include "support/process.h"
#include "support/resources.h"
#include "support/sockets.h"
#include "support/text.h"
#include "support/wait.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define START_TRIES 5
#define START_MS 20000
#define STOP_MS 5000
#define COMMAND_MS 5000
#define ARGS_MAX 128

struct server {
    pid_t pid;     /* 0: not running */
    uint16_t port; /* the same over restarts */
    bool aof;
    char *program;         /* full path of redis-server */
    const char *directory; /* owned by the clean-up until the end */
    char *socket_path;
    char *log_path;
    char *url;
    char *unix_url;
    char **extra; /* copies of the options' arguments and of ours, NULL at the end */
    struct admin *admin;
};

/* The path of redis-server; without one there is nothing to test. */
static char *find_server(void)
{
    char *path = find_program("redis-server");
    if (path == NULL) {
        support_skip_program("no redis-server in PATH");
    }
    return path;
}

/* Versions before 7 do not know enable-debug-command and refuse to start with it. */
static bool has_debug_option(const char *program)
{
    static int major;
    if (major == 0) {
        const char *const words[] = {program, "--version", NULL};
        struct child *child = child_spawn(words);
        char *line = child_read_line(child, 5000);
        const char *version = line != NULL ? strstr(line, "v=") : NULL;
        major = version != NULL ? atoi(version + 2) : 7;
        free(line);
        child_wait(child, 5000);
        child_free(child);
    }
    return major >= 7;
}

static char *format_text(const char *format, ...) __attribute__((format(printf, 1, 2)));
static char *format_text(const char *format, ...)
{
    char *formatted = NULL;
    va_list args;
    va_start(args, format);
    if (vasprintf(&formatted, format, args) < 0) {
        abort();
    }
    va_end(args);
    return formatted;
}

/* The end of the log, for the message of a failure; to be freed. */
static char *log_tail(const struct server *server)
{
    char tail[1500] = "(no log)";
    FILE *file = fopen(server->log_path, "re");
    if (file != NULL) {
        fseek(file, 0, SEEK_END);
        const long size = ftell(file);
        fseek(file, size > 1400 ? size - 1400 : 0, SEEK_SET);
        tail[fread(tail, 1, sizeof tail - 1, file)] = '\0';
        fclose(file);
    }
    return support_copy(tail, strlen(tail));
}

static void fail_with_log(const struct server *server, const char *what) __attribute__((noreturn));
static void fail_with_log(const struct server *server, const char *what)
{
    char message[2000];
    char *tail = log_tail(server);
    snprintf(message, sizeof message, "%s; the log ends with:\n%s", what, tail);
    free(tail);
    support_fail("%s", message);
}

/* In the new process: only calls that are safe after a fork with threads. */
static void exec_server(const char *path, char *const argv[], const char *log, pid_t parent)
{
    die_with_parent(parent);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    int null_fd = open("/dev/null", O_RDWR);
    int log_fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    dup2(null_fd, STDIN_FILENO);
    dup2(log_fd, STDOUT_FILENO);
    dup2(log_fd, STDERR_FILENO);
    close_range(3, ~0u, 0); /* no socket of the test may live on in the server */
    execv(path, argv);
    _exit(127);
}

/* Our arguments, then the caller's; returns how many. */
static size_t build_args(const struct server *server, const char *argv[ARGS_MAX], char port[8])
{
    snprintf(port, 8, "%u", (unsigned)server->port);
    const char *const ours[] = {"redis-server", "--bind", "127.0.0.1", "--port", port,
        "--unixsocket", server->socket_path, "--unixsocketperm", "700", "--dir", server->directory,
        "--logfile", "", "--daemonize", "no", "--save", "", "--repl-diskless-sync-delay", "0",
        "--appendonly", server->aof ? "yes" : "no"};
    size_t count = sizeof ours / sizeof ours[0];
    memcpy(argv, ours, sizeof ours);
    if (has_debug_option(server->program)) {
        argv[count++] = "--enable-debug-command";
        argv[count++] = "local";
    }
    for (size_t i = 0; server->extra[i] != NULL; i++) {
        if (count + 1 == ARGS_MAX) {
            support_fail("too many arguments for a server");
        }
        argv[count++] = server->extra[i];
    }
    argv[count] = NULL;
    return count;
}

static void launch(struct server *server)
{
    char port[8];
    union {
        const char *given[ARGS_MAX];
        char *wanted[ARGS_MAX]; /* execv has no const for historical reasons */
    } argv;
    build_args(server, argv.given, port);
    unlink(server->socket_path); /* a killed server leaves it behind */
    const pid_t parent = getpid();
    pid_t pid = fork();
    if (pid == 0) {
        exec_server(server->program, argv.wanted, server->log_path, parent);
    }
    if (pid < 0) {
        support_fail("fork: %s", strerror(errno));
    }
    server->pid = pid;
}

static char *ask(struct server *server, const char *line, int64_t timeout_ms, const char **error)
{
    size_t count = 0;
    char **words = admin_split(line, &count);
    size_t *sizes = support_alloc((count + 1) * sizeof *sizes);
    for (size_t i = 0; i < count; i++) {
        sizes[i] = strlen(words[i]);
    }
    char *reply =
        admin_command(server->admin, count, (const char *const *)words, sizes, timeout_ms, error);
    free(sizes);
    free(words);
    return reply;
}

/* True when our own process answers and has its data loaded. */
static bool is_ready(struct server *server)
{
    const char *error = NULL;
    char *pong = ask(server, "PING", 1000, &error);
    const bool answered = pong != NULL && strcmp(pong, "PONG") == 0;
    free(pong);
    if (!answered) {
        return false;
    }
    char *info = ask(server, "INFO server", 1000, &error);
    char wanted[40];
    snprintf(wanted, sizeof wanted, "\r\nprocess_id:%d\r\n", (int)server->pid);
    const bool ours = info != NULL && strstr(info, wanted) != NULL;
    free(info);
    return ours;
}

/* Wait for readiness; false if the process ended by itself, which is then reaped. */
static bool await_ready(struct server *server)
{
    const int64_t end_ms = boottime_ms() + START_MS;
    while (boottime_ms() < end_ms) {
        int status = 0;
        if (reap(server->pid, &status, 0)) {
            server->pid = 0;
            return false;
        }
        if (is_ready(server)) {
            return true;
        }
        nap_ms(2);
    }
    fail_with_log(server, "redis-server does not answer");
}

static void set_port(struct server *server, uint16_t port)
{
    server->port = port;
    free(server->url);
    server->url = format_text("redis://127.0.0.1:%u", (unsigned)port);
}

static void start_process(struct server *server, bool keep_port)
{
    for (int i = 0; i < START_TRIES; i++) {
        if (!keep_port) {
            set_port(server, socket_pick_port());
        }
        launch(server);
        if (await_ready(server)) {
            return;
        }
    }
    fail_with_log(server, "redis-server ended by itself");
}

static char **copy_args(const char *const *args, const struct server *primary)
{
    size_t count = 0;
    while (args != NULL && args[count] != NULL) {
        count++;
    }
    char **copies = support_alloc((count + 4) * sizeof *copies);
    for (size_t i = 0; i < count; i++) {
        copies[i] = support_copy(args[i], strlen(args[i]));
    }
    if (primary != NULL) {
        copies[count] = format_text("--replicaof");
        copies[count + 1] = format_text("127.0.0.1");
        copies[count + 2] = format_text("%u", (unsigned)primary->port);
    }
    return copies;
}

static void end_process(struct server *server, int first_signal)
{
    if (server->pid == 0) {
        return;
    }
    int status = 0;
    kill(server->pid, first_signal);
    kill(server->pid, SIGCONT); /* a stopped process does not hear TERM */
    if (!reap(server->pid, &status, STOP_MS)) {
        kill(server->pid, SIGKILL);
        reap(server->pid, &status, STOP_MS);
    }
    server->pid = 0;
}

static void end_server(void *object)
{
    struct server *server = object;
    end_process(server, SIGTERM);
    tempdir_remove(server->directory);
    admin_free(server->admin);
    for (size_t i = 0; server->extra[i] != NULL; i++) {
        free(server->extra[i]);
    }
    free(server->extra);
    free(server->program);
    free(server->socket_path);
    free(server->log_path);
    free(server->url);
    free(server->unix_url);
    free(server);
}

static struct server *start(const struct server_options *options, const struct server *primary)
{
    static const struct server_options defaults;
    char *program = find_server();
    if (options == NULL) {
        options = &defaults;
    }
    struct server *server = support_alloc(sizeof *server);
    server->program = program;
    server->directory = tempdir_make();
    server->aof = options->aof;
    server->socket_path = format_text("%s/redis.sock", server->directory);
    server->unix_url = format_text("redis+unix://%s", server->socket_path);
    server->log_path = format_text("%s/log", server->directory);
    server->extra = copy_args(options->args, primary);
    server->admin = admin_make(server->socket_path, options->user, options->password);
    /* Registered after its directory, so it is ended before the directory is removed. */
    cleanup_add(end_server, server);
    start_process(server, false);
    return server;
}

struct server *server_start(const struct server_options *options)
{
    return start(options, NULL);
}

static bool is_linked(void *arg)
{
    char *status = server_info(arg, "master_link_status");
    const bool linked = status != NULL && strcmp(status, "up") == 0;
    free(status);
    return linked;
}

struct server *server_start_replica_of(struct server *primary, const struct server_options *options)
{
    struct server *replica = start(options, primary);
    if (!wait_for(is_linked, replica, START_MS)) {
        fail_with_log(replica, "the replica does not reach its primary");
    }
    return replica;
}

void server_stop(struct server *server)
{
    if (server != NULL) {
        cleanup_drop(server);
        end_server(server);
    }
}

void server_kill(struct server *server)
{
    end_process(server, SIGKILL);
    admin_disconnect(server->admin);
}

/* Everything in the directory but the log is data. */
static void remove_data(const struct server *server)
{
    DIR *directory = opendir(server->directory);
    if (directory == NULL) {
        support_fail("%s: %s", server->directory, strerror(errno));
    }
    bool removed = true;
    for (const struct dirent *entry = readdir(directory); entry != NULL;
         entry = readdir(directory)) {
        const char *name = entry->d_name;
        if (strcmp(name, ".") != 0 && strcmp(name, "..") != 0 && strcmp(name, "log") != 0) {
            char *path = format_text("%s/%s", server->directory, name);
            removed = remove_tree(path) && removed;
            free(path);
        }
    }
    closedir(directory);
    if (!removed) {
        support_fail("data in %s could not be removed", server->directory);
    }
}

void server_restart(struct server *server, bool keep_data)
{
    if (keep_data && !server->aof) {
        support_fail("a restart with data needs the option aof");
    }
    server_kill(server);
    if (!keep_data) {
        remove_data(server);
    }
    start_process(server, true);
}

void server_pause(struct server *server)
{
    kill(server->pid, SIGSTOP);
    if (!wait_stopped(server->pid)) {
        support_fail("redis-server did not stop");
    }
}

void server_resume(struct server *server)
{
    kill(server->pid, SIGCONT);
}

const char *server_url(const struct server *server)
{
    return server->url;
}

const char *server_unix_url(const struct server *server)
{
    return server->unix_url;
}

const char *server_socket_path(const struct server *server)
{
    return server->socket_path;
}

const char *server_directory(const struct server *server)
{
    return server->directory;
}

const char *server_log_path(const struct server *server)
{
    return server->log_path;
}

uint16_t server_port(const struct server *server)
{
    return server->port;
}

pid_t server_pid(const struct server *server)
{
    return server->pid;
}

static char *ask_or_fail(struct server *server, const char *line)
{
    const char *error = NULL;
    char *reply = ask(server, line, COMMAND_MS, &error);
    if (reply == NULL) {
        support_fail("no reply to \"%s\": %s", line, error);
    }
    return reply;
}

static char *command(struct server *server, const char *format, va_list args)
    __attribute__((format(printf, 2, 0)));
static char *command(struct server *server, const char *format, va_list args)
{
    char *line = NULL;
    if (vasprintf(&line, format, args) < 0) {
        abort();
    }
    char *reply = ask_or_fail(server, line);
    free(line);
    return reply;
}

char *server_command(struct server *server, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *reply = command(server, format, args);
    va_end(args);
    return reply;
}

char *server_command_words(struct server *server, size_t count, const char *const words[])
{
    size_t *sizes = support_alloc((count + 1) * sizeof *sizes);
    for (size_t i = 0; i < count; i++) {
        sizes[i] = strlen(words[i]);
    }
    const char *error = NULL;
    char *reply = admin_command(server->admin, count, words, sizes, COMMAND_MS, &error);
    free(sizes);
    if (reply == NULL) {
        support_fail("no reply to %s: %s", words[0], error);
    }
    return reply;
}

int64_t server_integer(struct server *server, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *reply = command(server, format, args);
    va_end(args);
    char *end = NULL;
    errno = 0;
    const long long number = strtoll(reply, &end, 10);
    if (errno != 0 || end == reply || *end != '\0') {
        char message[400];
        snprintf(message, sizeof message, "%.390s", reply);
        free(reply);
        support_fail("not a number: %s", message);
    }
    free(reply);
    return number;
}

bool server_answers(struct server *server, const char *expected, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *reply = command(server, format, args);
    va_end(args);
    const bool same = strcmp(reply, expected) == 0;
    free(reply);
    return same;
}

char *server_info(struct server *server, const char *field)
{
    char *info = server_command(server, "INFO everything");
    const size_t size = strlen(field);
    char *value = NULL;
    for (const char *line = info; line != NULL && value == NULL; line = strchr(line, '\n')) {
        line += *line == '\n' ? 1 : 0;
        if (strncmp(line, field, size) == 0 && line[size] == ':') {
            value = support_copy(line + size + 1, strcspn(line + size + 1, "\r\n"));
        }
    }
    free(info);
    return value;
}

size_t server_client_count(struct server *server, const char *type)
{
    char *list = type != NULL ? server_command(server, "CLIENT LIST TYPE %s", type)
                              : server_command(server, "CLIENT LIST");
    size_t count = 0;
    for (char *rest = NULL, *line = strtok_r(list, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        count += strstr(line, " name=" ADMIN_CLIENT_NAME " ") == NULL ? 1 : 0;
    }
    free(list);
    return count;
}

int64_t server_kill_clients(struct server *server, const char *type)
{
    return server_integer(server, "CLIENT KILL TYPE %s SKIPME yes", type);
}
