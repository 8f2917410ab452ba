/* SPDX-License-Identifier: Apache-2.0 */
/* Connections to Redis: see redis.h.
 *
 * A connection that was idle may have been closed by the server: that is seen before a command is
 * sent (redis_ready), so that a restart of Redis costs no order. What was sent and not answered is
 * not sent again here: it may have been carried out, and only the caller knows whether that
 * matters. */
#include "common/redis.h"

#include "common/values.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* ===== URLs ===== */

static bool copy_part(const char *from, size_t length, char *to, size_t size)
{
    if (length >= size) {
        return false;
    }
    memcpy(to, from, length);
    to[length] = '\0';
    return true;
}

static bool parse_db(const char *text, size_t length, int *db_out)
{
    char digits[8];
    int64_t db = 0;
    if (length == 0) {
        return true;
    }
    if (!copy_part(text, length, digits, sizeof digits) || !parse_number(digits, &db) || db < 0 ||
        db > 9999) {
        return false;
    }
    *db_out = (int)db;
    return true;
}

/* host[:port], or [::1]:port */
static bool parse_host(const char *text, size_t length, struct redis_place *place)
{
    const char *end = text + length;
    const char *colon = memrchr(text, ':', length);
    const char *bracket = memrchr(text, ']', length);
    if (colon != NULL && bracket != NULL && bracket > colon) {
        colon = NULL;
    }
    if (colon != NULL) {
        char digits[8];
        int64_t port = 0;
        if (!copy_part(colon + 1, (size_t)(end - colon - 1), digits, sizeof digits) ||
            !parse_number(digits, &port) || port < 1 || port > 65535) {
            return false;
        }
        place->port = (int)port;
        end = colon;
    }
    if (text[0] == '[' && end > text + 1 && end[-1] == ']') {
        text++;
        end--;
    }
    return end > text && copy_part(text, (size_t)(end - text), place->host, sizeof place->host);
}

/* user:password@ */
static bool parse_user(const char *text, size_t length, struct redis_place *place)
{
    const char *colon = memchr(text, ':', length);
    const size_t user = colon != NULL ? (size_t)(colon - text) : length;
    return copy_part(text, user, place->user, sizeof place->user) &&
           (colon == NULL ||
               copy_part(colon + 1, length - user - 1, place->password, sizeof place->password));
}

static bool parse_tcp(const char *rest, struct redis_place *place)
{
    const size_t length = strcspn(rest, "?");
    const char *slash = memchr(rest, '/', length);
    const size_t authority = slash != NULL ? (size_t)(slash - rest) : length;
    const char *at = memrchr(rest, '@', authority);
    const char *host = at != NULL ? at + 1 : rest;
    if (at != NULL && !parse_user(rest, (size_t)(at - rest), place)) {
        return false;
    }
    if (slash != NULL && !parse_db(slash + 1, length - authority - 1, &place->db)) {
        return false;
    }
    return parse_host(host, authority - (size_t)(host - rest), place);
}

static bool parse_unix(const char *rest, struct redis_place *place)
{
    const size_t length = strcspn(rest, "?");
    const char *db = strstr(rest + length, "db=");
    if (db != NULL && !parse_db(db + 3, strcspn(db + 3, "&"), &place->db)) {
        return false;
    }
    return rest[0] == '/' && copy_part(rest, length, place->path, sizeof place->path);
}

bool redis_place_parse(const char *url, struct redis_place *place_out, char *why, size_t why_size)
{
    static const char *const sockets[] = {"redis+unix://", "unix://"};
    memset(place_out, 0, sizeof *place_out);
    place_out->port = 6379;
    bool good = false;
    if (strncmp(url, "redis://", 8) == 0) {
        good = parse_tcp(url + 8, place_out);
    }
    for (size_t i = 0; i < 2; i++) {
        if (strncmp(url, sockets[i], strlen(sockets[i])) == 0) {
            good = parse_unix(url + strlen(sockets[i]), place_out);
        }
    }
    if (!good) {
        snprintf(why, why_size,
            "a Redis URL is redis://host[:port][/db] or redis+unix:///path.sock[?db=n]");
    }
    return good;
}

void redis_place_url(const struct redis_place *place, int db, char *url_out, size_t size)
{
    if (place->path[0] != '\0') {
        snprintf(url_out, size, "redis+unix://%s?db=%d", place->path, db);
        return;
    }
    const char *open = strchr(place->host, ':') != NULL ? "[" : "";
    const char *close = open[0] != '\0' ? "]" : "";
    const bool secret = place->password[0] != '\0';
    snprintf(url_out, size, "redis://%s%s%s%s%s%s%s:%d/%d", secret ? place->user : "",
        secret ? ":" : "", secret ? place->password : "", secret ? "@" : "", open, place->host,
        close, place->port, db);
}

/* ===== Connections ===== */

static struct timeval timeval_of(int64_t ms)
{
    return (struct timeval){.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};
}

static int digit_of(char hex)
{
    const char *digits = "0123456789abcdef";
    const char *at = hex != '\0' ? strchr(digits, hex | ' ') : NULL;
    return at != NULL ? (int)(at - digits) : -1;
}

/* What a part of a URL means: %40 is '@'. It never gets longer. */
static void decode(const char *text, char *out)
{
    char *end = out;
    for (; *text != '\0'; text++) {
        if (text[0] == '%' && digit_of(text[1]) >= 0 && digit_of(text[2]) >= 0) {
            *end++ = (char)(digit_of(text[1]) * 16 + digit_of(text[2]));
            text += 2;
        } else {
            *end++ = *text;
        }
    }
    *end = '\0';
}

/* Whether the server took the command that makes the connection ours. */
static bool greet(
    redisContext *context, const struct redis_place *place, int db, char *why, size_t why_size)
{
    char user[sizeof place->user];
    char password[sizeof place->password];
    decode(place->user, user);
    decode(place->password, password);
    if (password[0] != '\0' && user[0] != '\0') {
        redisAppendCommand(context, "AUTH %s %s", user, password);
    } else if (password[0] != '\0') {
        redisAppendCommand(context, "AUTH %s", password);
    }
    redisAppendCommand(context, "SELECT %d", db);
    for (int left = password[0] != '\0' ? 2 : 1; left > 0; left--) {
        void *reply = NULL;
        if (redisGetReply(context, &reply) != REDIS_OK) {
            snprintf(why, why_size, "%s", context->errstr);
            return false;
        }
        const redisReply *answer = reply;
        const bool good = answer->type != REDIS_REPLY_ERROR;
        if (!good) {
            snprintf(why, why_size, "%s", answer->str);
        }
        freeReplyObject(reply);
        if (!good) {
            return false;
        }
    }
    return true;
}

redisContext *redis_open(
    const struct redis_place *place, int db, int64_t timeout_ms, char *why, size_t why_size)
{
    char unwanted[128];
    if (why == NULL) {
        why = unwanted;
        why_size = sizeof unwanted;
    }
    const struct timeval limit = timeval_of(timeout_ms);
    redisContext *context = place->path[0] != '\0'
                                ? redisConnectUnixWithTimeout(place->path, limit)
                                : redisConnectWithTimeout(place->host, place->port, limit);
    if (context == NULL) {
        snprintf(why, why_size, "out of memory");
        return NULL;
    }
    if (context->err != 0) {
        snprintf(why, why_size, "%s", context->errstr);
    } else if (redisSetTimeout(context, limit) == REDIS_OK &&
               greet(context, place, db, why, why_size)) {
        return context;
    }
    redisFree(context);
    return NULL;
}

/* Errors are words in capitals before a sentence; ERR is most of them. */
enum redis_verdict redis_judge(const char *why)
{
    static const char *const denials[] = {"NOAUTH ", "WRONGPASS ", "NOPERM ", "DENIED ",
        "ERR invalid password", "ERR AUTH <password> called without any password"};
    for (size_t i = 0; i < sizeof denials / sizeof denials[0]; i++) {
        if (strncmp(why, denials[i], strlen(denials[i])) == 0) {
            return REDIS_DENIED;
        }
    }
    const bool about_us = strncmp(why, "ERR ", 4) == 0 && strstr(why, "max number") == NULL;
    return about_us ? REDIS_NEVER : REDIS_NOT_NOW;
}

void redis_drop(redisContext **link)
{
    if (*link != NULL) {
        redisFree(*link);
        *link = NULL;
    }
}

/* A connection on which nothing is due has nothing to read, unless its server has gone. */
static bool is_stale(const redisContext *context)
{
    char byte;
    const ssize_t count = recv(context->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return count >= 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
}

bool redis_ready(redisContext **link, const struct redis_place *place, int db)
{
    if (*link != NULL && ((*link)->err != 0 || is_stale(*link))) {
        redis_drop(link);
    }
    if (*link == NULL) {
        *link = redis_open(place, db, REDIS_TIMEOUT_MS, NULL, 0);
    }
    return *link != NULL;
}

redisReply *redis_ask_list(redisContext **link, const struct redis_place *place, int db,
    const char *format, va_list arguments)
{
    if (!redis_ready(link, place, db)) {
        return NULL;
    }
    redisReply *reply = redisvCommand(*link, format, arguments);
    if (reply == NULL) {
        redis_drop(link);
    }
    return reply;
}

redisReply *redis_ask(
    redisContext **link, const struct redis_place *place, int db, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    redisReply *reply = redis_ask_list(link, place, db, format, arguments);
    va_end(arguments);
    return reply;
}

static redisReply *run_by(redisContext **link, const char *verb, const char *script, int keys,
    int count, const char *const arguments[])
{
    const char *words[REDIS_ARGUMENTS_MAX + 3] = {verb, script, NULL};
    char key_count[12];
    snprintf(key_count, sizeof key_count, "%d", keys);
    words[2] = key_count;
    for (int i = 0; i < count; i++) {
        words[3 + i] = arguments[i];
    }
    redisReply *reply = redisCommandArgv(*link, count + 3, words, NULL);
    if (reply == NULL) {
        redis_drop(link);
    }
    return reply;
}

redisReply *redis_run(redisContext **link, const struct redis_place *place, int db,
    const struct embedded *script, int keys, int count, const char *const arguments[])
{
    if (!redis_ready(link, place, db)) {
        return NULL;
    }
    redisReply *reply = run_by(link, "EVALSHA", script->sha1, keys, count, arguments);
    if (reply != NULL && reply->type == REDIS_REPLY_ERROR &&
        strncmp(reply->str, "NOSCRIPT", 8) == 0) {
        freeReplyObject(reply);
        reply = run_by(link, "EVAL", script->text, keys, count, arguments);
    }
    return reply;
}

bool redis_number(const redisReply *reply, int64_t *number_out)
{
    if (reply == NULL) {
        return false;
    }
    if (reply->type == REDIS_REPLY_INTEGER) {
        *number_out = reply->integer;
        return true;
    }
    return reply->type == REDIS_REPLY_STRING && parse_number(reply->str, number_out);
}
