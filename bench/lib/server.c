/* SPDX-License-Identifier: Apache-2.0 */
/* The private redis-server; server.h describes it. */
#include "lib/server.h"

#include "lib/clock.h"
#include "lib/die.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ftw.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { START_ATTEMPTS = 3, START_WAIT_MS = 5000, STOP_WAIT_MS = 3000, DEPTH_MAX = 8 };

static struct server the_server;
static pid_t driver_pid;

/* ===== Addresses ===== */

const char *transport_name(enum transport transport)
{
    return transport == TRANSPORT_TCP ? "TCP" : "unix";
}

const char *server_url(const struct server *server, enum transport transport)
{
    static char urls[2][128];
    char *url = urls[transport];
    if (transport == TRANSPORT_TCP) {
        snprintf(url, sizeof urls[0], "redis://127.0.0.1:%u", server->port);
    } else {
        snprintf(url, sizeof urls[0], "redis+unix://%s", server->socket_path);
    }
    return url;
}

static uint16_t find_free_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t size = sizeof address;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, size) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &size) != 0) {
        die("no free loopback port: %s", strerror(errno));
    }
    close(fd);
    return ntohs(address.sin_port);
}

/* ===== Its life ===== */

static void execute(const struct server *server)
{
    char port[8];
    snprintf(port, sizeof port, "%u", server->port);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != driver_pid) {
        _exit(1);
    }
    execlp("redis-server", "redis-server", "--bind", "127.0.0.1", "--port", port, "--unixsocket",
        server->socket_path, "--unixsocketperm", "700", "--dir", server->directory, "--save", "",
        "--appendonly", "no", "--logfile", "log", "--daemonize", "no", (char *)NULL);
    _exit(127);
}

static bool answers(const struct server *server)
{
    redisContext *context = redisConnectUnix(server->socket_path);
    bool good = false;
    if (context != NULL && context->err == 0) {
        redisReply *reply = redisCommand(context, "PING");
        good = reply != NULL && reply->type == REDIS_REPLY_STATUS;
        freeReplyObject(reply);
    }
    redisFree(context);
    return good;
}

/* True when it answers; false if it ended or stayed silent, and then it is gone. */
static bool wait_until_ready(struct server *server)
{
    const int64_t deadline = now_ns() + START_WAIT_MS * NS_PER_MS;
    while (now_ns() < deadline && !interrupted()) {
        int status = 0;
        if (waitpid(server->pid, &status, WNOHANG) == server->pid) {
            server->pid = 0;
            if (WIFEXITED(status) && WEXITSTATUS(status) == 127) {
                die("no redis-server in PATH: apt-get install redis-server");
            }
            return false;
        }
        if (answers(server)) {
            return true;
        }
        pause_ns(5 * NS_PER_MS);
    }
    kill(server->pid, SIGKILL);
    waitpid(server->pid, NULL, 0);
    server->pid = 0;
    return false;
}

static void make_directory(struct server *server)
{
    snprintf(server->directory, sizeof server->directory, "/tmp/pawl-bench.XXXXXX");
    if (mkdtemp(server->directory) == NULL) {
        die("no temporary directory: %s", strerror(errno));
    }
    snprintf(server->socket_path, sizeof server->socket_path, "%s/redis.sock", server->directory);
}

const struct server *server_start(void)
{
    driver_pid = getpid();
    make_directory(&the_server);
    atexit(server_stop);
    for (int attempt = 0; attempt < START_ATTEMPTS; attempt++) {
        the_server.port = find_free_port();
        the_server.pid = fork();
        if (the_server.pid == 0) {
            execute(&the_server);
        }
        if (the_server.pid > 0 && wait_until_ready(&the_server)) {
            return &the_server;
        }
    }
    die("redis-server does not start; its log was in %s", the_server.directory);
}

static void end_process(pid_t pid)
{
    const int64_t deadline = now_ns() + STOP_WAIT_MS * NS_PER_MS;
    kill(pid, SIGTERM);
    while (waitpid(pid, NULL, WNOHANG) == 0) {
        if (now_ns() > deadline) {
            kill(pid, SIGKILL);
            waitpid(pid, NULL, 0);
            return;
        }
        pause_ns(5 * NS_PER_MS);
    }
}

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *place)
{
    (void)status;
    (void)type;
    (void)place;
    return remove(path);
}

void server_stop(void)
{
    if (getpid() != driver_pid) {
        return;
    }
    if (the_server.pid > 0) {
        end_process(the_server.pid);
        the_server.pid = 0;
    }
    if (the_server.directory[0] != '\0') {
        if (nftw(the_server.directory, remove_entry, DEPTH_MAX, FTW_DEPTH | FTW_PHYS) != 0) {
            progress("bench: could not remove %s\n", the_server.directory);
        }
        the_server.directory[0] = '\0';
    }
}

/* ===== Talking to it ===== */

redisContext *server_connect(const struct server *server, enum transport transport)
{
    redisContext *context = transport == TRANSPORT_TCP ? redisConnect("127.0.0.1", server->port)
                                                       : redisConnectUnix(server->socket_path);
    if (context == NULL || context->err != 0) {
        die("hiredis cannot connect: %s", context != NULL ? context->errstr : "no memory");
    }
    return context;
}

int server_connect_raw(const struct server *server, enum transport transport)
{
    struct sockaddr_un local = {.sun_family = AF_UNIX};
    struct sockaddr_in inet = {.sin_family = AF_INET, .sin_port = htons(server->port)};
    inet.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    snprintf(local.sun_path, sizeof local.sun_path, "%s", server->socket_path);
    const bool tcp = transport == TRANSPORT_TCP;
    const int fd = socket(tcp ? AF_INET : AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const struct sockaddr *address = tcp ? (struct sockaddr *)&inet : (struct sockaddr *)&local;
    if (fd < 0 || connect(fd, address, tcp ? sizeof inet : sizeof local) != 0) {
        die("cannot connect: %s", strerror(errno));
    }
    const int on = 1;
    if (tcp && setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0) {
        die("TCP_NODELAY: %s", strerror(errno));
    }
    return fd;
}

redisReply *server_command(const struct server *server, const char *format, ...)
{
    redisContext *context = server_connect(server, TRANSPORT_UNIX);
    va_list arguments;
    va_start(arguments, format);
    redisReply *reply = redisvCommand(context, format, arguments);
    va_end(arguments);
    if (reply == NULL || reply->type == REDIS_REPLY_ERROR) {
        die("%s: %s", format, reply != NULL ? reply->str : context->errstr);
    }
    redisFree(context);
    return reply;
}

double server_info(const struct server *server, const char *section, const char *key)
{
    redisReply *reply = server_command(server, "INFO %s", section);
    const char *found = strstr(reply->str, key);
    const double value = found != NULL ? strtod(found + strlen(key), NULL) : 0;
    freeReplyObject(reply);
    return value;
}

void server_empty(const struct server *server)
{
    freeReplyObject(server_command(server, "FLUSHALL"));
}
