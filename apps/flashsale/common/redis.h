/* SPDX-License-Identifier: Apache-2.0 */
/* Connections to Redis, by URL, through hiredis, with time-outs. All of this blocks the caller. */
#ifndef FLASHSALE_COMMON_REDIS_H
#define FLASHSALE_COMMON_REDIS_H

#include "embedded.h"

#include <hiredis/hiredis.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REDIS_TIMEOUT_MS 1000 /* for connecting, and for each answer */

/* Where a server is. */
struct redis_place {
    char host[256]; /* "" if it is a socket */
    int port;
    char path[108]; /* of a unix socket */
    int db;
    char user[128]; /* as it is in the URL, percent signs and all */
    char password[256];
};

/* redis://[user:password@]host[:port][/db], redis+unix:///path.sock[?db=n] or unix:///path.sock.
 * false: `why` says what is wrong with it. What else pawl takes in a URL's query is passed over. */
bool redis_place_parse(const char *url, struct redis_place *place_out, char *why, size_t why_size);

/* The URL of the same server with another database, as pawl takes it. */
void redis_place_url(const struct redis_place *place, int db, char *url_out, size_t size);

/* A connection to that database, or NULL: nobody answers, or the password is wrong; `why`, if not
 * NULL, says which. Close it with redisFree(). */
redisContext *redis_open(
    const struct redis_place *place, int db, int64_t timeout_ms, char *why, size_t why_size);

/* What the server means that has answered redis_open() so: nothing that the URL could change (or it
 * did not answer), that we may not come in, or that the URL asks for what is not there. */
enum redis_verdict { REDIS_NOT_NOW, REDIS_DENIED, REDIS_NEVER };
enum redis_verdict redis_judge(const char *why);

/* Ask on a connection that is made when there is none, and once more if it turns out to be broken
 * before anything was sent. NULL: no answer; *link is then NULL too. */
redisReply *redis_ask(
    redisContext **link, const struct redis_place *place, int db, const char *format, ...);
redisReply *redis_ask_list(redisContext **link, const struct redis_place *place, int db,
    const char *format, va_list arguments);

/* Run an embedded Lua script, by its SHA-1 if the server knows it. The first `keys` of the
 * arguments are its keys. NULL: no answer. */
enum { REDIS_ARGUMENTS_MAX = 32 };
redisReply *redis_run(redisContext **link, const struct redis_place *place, int db,
    const struct embedded *script, int keys, int count, const char *const arguments[]);

/* Make sure that there is a connection and that its server has not closed it. */
bool redis_ready(redisContext **link, const struct redis_place *place, int db);

/* Forget it. */
void redis_drop(redisContext **link);

/* An integer in a reply: of an integer or of a string of digits. false: it is none. */
bool redis_number(const redisReply *reply, int64_t *number_out);

#endif
