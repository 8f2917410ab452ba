/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A private redis-server on a free port of 127.0.0.1, with its data in a directory of its own.
 */
#ifndef FLASHSALE_UP_SERVER_H
#define FLASHSALE_UP_SERVER_H

#include <stdbool.h>

#include "up/process.h"

struct redisReply;

struct server {
    struct process process;
    int port;
};

enum server_memory {
    SERVER_FORGETS,   /* after a restart it is empty, as a cache is */
    SERVER_REMEMBERS, /* it writes all down before it answers, and is the same after a restart */
};

/* Starts it and waits until it answers. `what` is for sentences and, with its spaces as dashes, for
 * its directory in `dir`: "the stock server". */
bool server_open(
    struct server *server, const char *dir, const char *what, enum server_memory memory);

/* Starts it once more, on the same port, and waits until it answers. */
bool server_start(struct server *server);

/* One command on a connection of its own. NULL: no answer. Free it with freeReplyObject(). */
struct redisReply *server_ask(const struct server *server, const char *format, ...);

/* The same for commands that answer OK. */
bool server_tell(const struct server *server, const char *format, ...);

/* Makes it the replica of another and waits until it has all of its data. */
bool server_follow(struct server *server, const struct server *master);

#endif
