/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private Redis servers. Everything is said on the command line; there is no configuration file.
 */
#include "up/server.h"

#include <hiredis/hiredis.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>

#include "common/say.h"
#include "up/net.h"
#include "up/patience.h"

#define READY_MS 10000
#define ANSWER_S 2
#define PROBE "flashsale:probe"

/* A key that was just written outlives a kill -9 if it was handed to the kernel before the answer.
 * "appendfsync no" does so each time; "everysec" may put it off while the disk is busy. */
static void add_memory(struct process *process, enum server_memory memory)
{
    process_add(process, "--save");
    process_add(process, "%s", "");
    process_add(process, "--appendonly");
    process_add(process, memory == SERVER_REMEMBERS ? "yes" : "no");
    process_add(process, "--appendfsync");
    process_add(process, "no");
}

bool server_open(
    struct server *server, const char *dir, const char *what, enum server_memory memory)
{
    char room[PROCESS_NAME_SIZE];
    snprintf(room, sizeof(room), "%s", what);
    for (char *space = strchr(room, ' '); space; space = strchr(space, ' ')) {
        *space = '-';
    }
    char path[WORKDIR_PATH_SIZE];
    if (!workdir_make_room(dir, room, path)) {
        return false;
    }
    struct process *process = &server->process;
    process_init(process, "%s", what);
    server->port = net_free_port();
    process_add(process, "redis-server");
    process_add(process, "--bind");
    process_add(process, "127.0.0.1");
    process_add(process, "--port");
    process_add(process, "%d", server->port);
    process_add(process, "--dir");
    process_add(process, "%s", path);
    process_add(process, "--repl-diskless-sync-delay"); /* replicas are ready at once */
    process_add(process, "0");
    add_memory(process, memory);
    int length = snprintf(process->log_path, sizeof(process->log_path), "%s/log", path);
    if (length >= (int)sizeof(process->log_path)) {
        process->log_path[0] = '\0';
    }
    return server_start(server);
}

static bool answers_or_died(void *arg)
{
    struct server *server = arg;
    if (!process_runs(&server->process)) {
        return true;
    }
    redisReply *reply = server_ask(server, "PING");
    bool answers = reply && reply->type == REDIS_REPLY_STATUS; /* LOADING is an error */
    freeReplyObject(reply);
    return answers;
}

bool server_start(struct server *server)
{
    bool answers = process_start(&server->process) && wait_for(answers_or_died, server, READY_MS) &&
                   server->process.pid != 0;
    if (!answers && !signals_stop()) {
        say("%s does not start; its log is %s", server->process.name, server->process.log_path);
    }
    return answers;
}

static redisReply *ask(const struct server *server, const char *format, va_list arguments)
{
    struct timeval patience = {.tv_sec = ANSWER_S};
    redisContext *context = redisConnectWithTimeout("127.0.0.1", server->port, patience);
    if (!context) {
        return NULL;
    }
    redisReply *reply = NULL;
    if (!context->err && redisSetTimeout(context, patience) == REDIS_OK) {
        reply = redisvCommand(context, format, arguments);
    }
    redisFree(context);
    return reply;
}

redisReply *server_ask(const struct server *server, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    redisReply *reply = ask(server, format, arguments);
    va_end(arguments);
    return reply;
}

bool server_tell(const struct server *server, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    redisReply *reply = ask(server, format, arguments);
    va_end(arguments);
    bool ok = reply && reply->type == REDIS_REPLY_STATUS && strcmp(reply->str, "OK") == 0;
    freeReplyObject(reply);
    return ok;
}

static bool is_linked(void *arg)
{
    redisReply *reply = server_ask(arg, "INFO replication");
    bool linked =
        reply && reply->type == REDIS_REPLY_STRING && strstr(reply->str, "master_link_status:up");
    freeReplyObject(reply);
    return linked;
}

static bool has_probe(void *arg)
{
    redisReply *reply = server_ask(arg, "EXISTS " PROBE);
    bool has = reply && reply->type == REDIS_REPLY_INTEGER && reply->integer == 1;
    freeReplyObject(reply);
    return has;
}

/* A replica says that its link is up a second before it gets what is written; hence a probe, which
 * must not be written too soon, or it comes with the copy of everything. */
bool server_follow(struct server *server, const struct server *master)
{
    if (server_tell(server, "REPLICAOF 127.0.0.1 %d", master->port) &&
        wait_for(is_linked, server, READY_MS) &&
        server_tell(master, "SET " PROBE " %d PX %d", server->port, READY_MS) &&
        wait_for(has_probe, server, READY_MS)) {
        return true;
    }
    if (!signals_stop()) {
        say("%s does not follow %s; its log is %s", server->process.name, master->process.name,
            server->process.log_path);
    }
    return false;
}
