/* SPDX-License-Identifier: Apache-2.0 */
/* How commands are written, for the files that write them: commands.c, commands_families.c and
 * commands_fair.c.
 *
 * The room for a command is reserved once, the pieces follow each other, then all is committed.
 * Nearly everything here is inlined: on the hot path a command is a few copies. */
#ifndef PAWL_ENGINE_REDIS_COMMANDS_WRITE_H
#define PAWL_ENGINE_REDIS_COMMANDS_WRITE_H

#include "engine/redis/commands.h"
#include "engine/redis/lua_scripts.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

enum {
    NUMBER_SIZE_MAX = 20, /* with its sign */
    OWNER_SIZE_MAX = PAWL__UUID_SIZE + 1 + 20,
    HEAD_SIZE_MAX = 128, /* of a script's call, without the text */
    KEY_SIZE_MAX = 40,   /* of a key's prefix, braces and framing */
    /* Two owners and five numbers with their framing, which is more than any operation has. */
    REST_SIZE_MAX = 2 * (OWNER_SIZE_MAX + 7) + 5 * (NUMBER_SIZE_MAX + 7),
    US_PER_MS = 1000,
};

static inline void head_init(struct pawl__script_head *head, const struct pawl__script *script,
    uint32_t key_count, uint32_t argument_count)
{
    head->key_count = key_count;
    head->argument_count = argument_count;
    pawl__resp_prefix_evalsha(&head->by_sha, script->sha1, key_count, argument_count);
}

static inline char *write_bytes(char *at, const void *bytes, size_t size)
{
    memcpy(at, bytes, size);
    return at + size;
}

/* The digits of a number, from `end` backwards; answers the first. */
static inline char *write_digits_before(char *end, uint64_t value)
{
    do {
        *--end = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    return end;
}

/* A bulk string of 1 to 99 bytes. */
static inline char *write_bulk(char *at, const char *bytes, size_t size)
{
    assert(size > 0 && size < 100);
    *at++ = '$';
    if (size >= 10) {
        *at++ = (char)('0' + size / 10);
    }
    *at++ = (char)('0' + size % 10);
    at = write_bytes(at, "\r\n", 2);
    at = write_bytes(at, bytes, size);
    return write_bytes(at, "\r\n", 2);
}

static inline char *write_number(char *at, int64_t value)
{
    char text[NUMBER_SIZE_MAX];
    char *end = text + sizeof text;
    char *first = write_digits_before(end, value < 0 ? 0 - (uint64_t)value : (uint64_t)value);
    if (value < 0) {
        *--first = '-';
    }
    return write_bulk(at, first, (size_t)(end - first));
}

/* "<client uuid>:<number>". All but the number and the size is ready; the size has two digits. */
static inline char *write_owner(char *at, const struct pawl__commands *commands, uint64_t id)
{
    size_t digit_count = 1;
    for (uint64_t rest = id; rest >= 10; rest /= 10) {
        digit_count++;
    }
    const size_t size = PAWL__UUID_SIZE + 1 + digit_count;
    memcpy(at, commands->owner, sizeof commands->owner);
    at[1] = (char)('0' + size / 10);
    at[2] = (char)('0' + size % 10);
    at += sizeof commands->owner + digit_count;
    write_digits_before(at, id);
    return write_bytes(at, "\r\n", 2);
}

/* The server counts in milliseconds; rounding up, our own count of the lease ends first. */
static inline char *write_lease(char *at, int64_t lease_us)
{
    assert(lease_us > 0);
    return write_number(at, (lease_us + US_PER_MS - 1) / US_PER_MS);
}

/* The numbers of an acquire are nearly always the same: they are written once. */
static inline void prepare_lease(struct pawl__commands *commands, int64_t lease_us)
{
    char *at = write_lease(commands->lease, lease_us);
    at = write_number(at, commands->token_ttl_s);
    at = write_number(at, commands->token_floor);
    commands->lease_us = lease_us;
    commands->lease_size = (size_t)(at - commands->lease);
}

/* How long, and what there is to know about the token; see acquire.lua. */
static inline char *write_grant(char *at, struct pawl__commands *commands, int64_t lease_us)
{
    if (lease_us != commands->lease_us) {
        prepare_lease(commands, lease_us);
    }
    return write_bytes(at, commands->lease, commands->lease_size);
}

/* More than one token in a row is one more argument: this head, made in `room`. */
static inline const struct pawl__script_head *head_for(const struct pawl__script_head *head,
    const struct pawl__script *script, const struct pawl__op *op, struct pawl__script_head *room)
{
    if (op->tokens <= 1) {
        return head;
    }
    head_init(room, script, head->key_count, head->argument_count + 1);
    return room;
}

static inline char *write_tokens(char *at, const struct pawl__op *op)
{
    return op->tokens <= 1 ? at : write_number(at, op->tokens);
}

/* The keys and channels of a place; place.h says how they look. */
enum key {
    KEY_TOKEN,
    KEY_CHANNEL,
    KEY_LOCK, /* the name itself */
    KEY_QUEUE,
    KEY_TIMEOUTS,
    KEY_RW_CHANNEL,
    KEY_STEM,
};

/* Write one of them as a bulk string. Not inlined: it is written several times in a row, and code
 * that is there already costs less than code of its own. In commands.c. */
__attribute__((noinline)) char *pawl__command_write_key(
    char *at, const struct pawl__redis_place *place, enum key key);

static inline char *write_key(char *at, const struct pawl__redis_place *place, enum key key)
{
    return pawl__command_write_key(at, place, key);
}

/* Room for so many keys of a place, and for all else but the head. */
static inline size_t rest_size(const struct pawl__redis_place *place, size_t key_count)
{
    return key_count * (place->place.name_size + KEY_SIZE_MAX) + REST_SIZE_MAX;
}

static inline char *write_eval(
    char *at, const struct pawl__script *script, size_t key_count, size_t argument_count)
{
    const int size = snprintf(at, HEAD_SIZE_MAX, "*%zu\r\n$4\r\nEVAL\r\n$%zu\r\n",
        3 + key_count + argument_count, script->text_size);
    at = write_bytes(at + size, script->text, script->text_size);
    at = write_bytes(at, "\r\n", 2);
    return write_number(at, (int64_t)key_count);
}

/* Reserve room for a script's call of `rest_size` bytes at most behind its head, and write the
 * head: by SHA-1, or with `whole` the text. NULL: no room. */
static inline char *begin(struct pawl__buffer *out, const struct pawl__script_head *head,
    const struct pawl__script *script, bool whole, size_t rest_size)
{
    const size_t head_size = whole ? script->text_size + HEAD_SIZE_MAX : head->by_sha.size;
    char *at = pawl__buffer_reserve(out, head_size + rest_size);
    if (at == NULL) {
        return NULL;
    }
    return whole ? write_eval(at, script, head->key_count, head->argument_count)
                 : write_bytes(at, head->by_sha.bytes, head->by_sha.size);
}

static inline bool finish(struct pawl__buffer *out, const char *at)
{
    pawl__buffer_commit(out, (size_t)(at - (out->bytes + out->end)));
    return true;
}

#endif
