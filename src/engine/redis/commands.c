/* SPDX-License-Identifier: Apache-2.0 */
/* Operations as commands; commands.h describes it from outside. On the hot path a command is three
 * or four copies: the prefix, the place's part, and the numbers. Replies are read by answers.c. */
#include "engine/redis/commands.h"

#include "engine/redis/lua_scripts.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

enum {
    NUMBER_SIZE_MAX = 20, /* with its sign */
    OWNER_SIZE_MAX = PAWL__UUID_SIZE + 1 + 20,
    HEAD_SIZE_MAX = 128, /* of a script's call, without the text */
    /* Two owners and four numbers with their framing, which is more than any operation has. */
    REST_SIZE_MAX = 2 * (OWNER_SIZE_MAX + 7) + 4 * (NUMBER_SIZE_MAX + 7),
    US_PER_MS = 1000,
};

static const struct pawl__script *const scripts[] = {&pawl__script_acquire, &pawl__script_renew,
    &pawl__script_count, &pawl__script_release, &pawl__script_pass, &pawl__script_inspect,
    &pawl__script_break, &pawl__script_raise, &pawl__script_rights, &pawl__script_introduce};

static void head_init(struct pawl__script_head *head, const struct pawl__script *script,
    uint32_t key_count, uint32_t argument_count)
{
    head->key_count = key_count;
    head->argument_count = argument_count;
    pawl__resp_prefix_evalsha(&head->by_sha, script->sha1, key_count, argument_count);
}

void pawl__commands_init(struct pawl__commands *commands, const char *uuid, int64_t token_ttl_s)
{
    memcpy(commands->owner, "$00\r\n", 5);
    memcpy(commands->owner + 5, uuid, PAWL__UUID_SIZE);
    commands->owner[5 + PAWL__UUID_SIZE] = ':';
    commands->token_ttl_s = token_ttl_s;
    commands->lease_us = 0;
    commands->token_floor = PAWL__TOKEN_FLOOR;
    head_init(&commands->acquire, &pawl__script_acquire, 2, 4);
    head_init(&commands->count, &pawl__script_count, 1, 2);
    head_init(&commands->release, &pawl__script_release, 1, 2);
    head_init(&commands->pass, &pawl__script_pass, 2, 7);
    head_init(&commands->inspect, &pawl__script_inspect, 2, 0);
    head_init(&commands->break_up, &pawl__script_break, 1, 1);
    head_init(&commands->raise, &pawl__script_raise, 1, 2);
}

void pawl__commands_set_floor(struct pawl__commands *commands, int64_t token_floor)
{
    commands->token_floor = token_floor;
    commands->lease_us = 0; /* the text has the old one */
}

/* ===== Writing. The room is reserved once, the pieces follow each other, then all is committed
 * ===== */

static char *write_bytes(char *at, const void *bytes, size_t size)
{
    memcpy(at, bytes, size);
    return at + size;
}

/* The digits of a number, from `end` backwards; answers the first. */
static char *write_digits_before(char *end, uint64_t value)
{
    do {
        *--end = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    return end;
}

/* A bulk string of 1 to 99 bytes. */
static char *write_bulk(char *at, const char *bytes, size_t size)
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

static char *write_number(char *at, int64_t value)
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
static char *write_owner(char *at, const struct pawl__commands *commands, uint64_t id)
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
static char *write_lease(char *at, int64_t lease_us)
{
    assert(lease_us > 0);
    return write_number(at, (lease_us + US_PER_MS - 1) / US_PER_MS);
}

/* The numbers of an acquire are nearly always the same: they are written once. */
static void prepare_lease(struct pawl__commands *commands, int64_t lease_us)
{
    char *at = write_lease(commands->lease, lease_us);
    at = write_number(at, commands->token_ttl_s);
    at = write_number(at, commands->token_floor);
    commands->lease_us = lease_us;
    commands->lease_size = (size_t)(at - commands->lease);
}

/* From the counter, the lock or the channel in the place's block up to the end of a later one. */
static char *write_parts(char *at, const struct pawl__redis_place *place, size_t from, size_t to)
{
    return write_bytes(at, place->parts + from, to - from);
}

static char *write_eval(
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
static char *begin(struct pawl__buffer *out, const struct pawl__script_head *head,
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

static bool finish(struct pawl__buffer *out, const char *at)
{
    pawl__buffer_commit(out, (size_t)(at - (out->bytes + out->end)));
    return true;
}

/* ===== One operation ===== */

static bool put_acquire(struct pawl__commands *commands, struct pawl__buffer *out,
    const struct pawl__op *op, bool whole)
{
    const struct pawl__redis_place *place = pawl__redis_place_of(op->place);
    char *at = begin(
        out, &commands->acquire, &pawl__script_acquire, whole, place->parts_size + REST_SIZE_MAX);
    if (at == NULL) {
        return false;
    }
    at = write_parts(at, place, 0, place->channel_at);
    at = write_owner(at, commands, op->id);
    if (op->lease_us != commands->lease_us) {
        prepare_lease(commands, op->lease_us);
    }
    return finish(out, write_bytes(at, commands->lease, commands->lease_size));
}

static bool put_count(const struct pawl__commands *commands, struct pawl__buffer *out,
    const struct pawl__op *op, bool whole)
{
    const struct pawl__redis_place *place = pawl__redis_place_of(op->place);
    char *at =
        begin(out, &commands->count, &pawl__script_count, whole, place->parts_size + REST_SIZE_MAX);
    if (at == NULL) {
        return false;
    }
    at = write_parts(at, place, place->lock_at, place->channel_at);
    at = write_owner(at, commands, op->id);
    return finish(out, write_number(at, op->count));
}

static bool put_release(const struct pawl__commands *commands, struct pawl__buffer *out,
    const struct pawl__op *op, bool whole)
{
    const struct pawl__redis_place *place = pawl__redis_place_of(op->place);
    char *at = begin(
        out, &commands->release, &pawl__script_release, whole, place->parts_size + REST_SIZE_MAX);
    if (at == NULL) {
        return false;
    }
    at = write_parts(at, place, place->lock_at, place->parts_size);
    return finish(out, write_owner(at, commands, op->id));
}

static bool put_pass(const struct pawl__commands *commands, struct pawl__buffer *out,
    const struct pawl__op *op, bool whole)
{
    const struct pawl__redis_place *place = pawl__redis_place_of(op->place);
    char *at =
        begin(out, &commands->pass, &pawl__script_pass, whole, place->parts_size + REST_SIZE_MAX);
    if (at == NULL) {
        return false;
    }
    at = write_parts(at, place, 0, place->parts_size);
    at = write_owner(at, commands, op->id);
    at = write_owner(at, commands, op->heir_id);
    at = write_lease(at, op->lease_us);
    at = write_number(at, commands->token_ttl_s);
    at = write_number(at, commands->token_floor);
    return finish(out, write_number(at, op->offer ? atomic_load(&place->subscribed) : -1));
}

static bool put_inspect(const struct pawl__commands *commands, struct pawl__buffer *out,
    const struct pawl__op *op, bool whole)
{
    const struct pawl__redis_place *place = pawl__redis_place_of(op->place);
    char *at = begin(
        out, &commands->inspect, &pawl__script_inspect, whole, place->parts_size + REST_SIZE_MAX);
    return at != NULL && finish(out, write_parts(at, place, 0, place->channel_at));
}

static bool put_break(const struct pawl__commands *commands, struct pawl__buffer *out,
    const struct pawl__op *op, bool whole)
{
    const struct pawl__redis_place *place = pawl__redis_place_of(op->place);
    char *at = begin(
        out, &commands->break_up, &pawl__script_break, whole, place->parts_size + REST_SIZE_MAX);
    return at != NULL && finish(out, write_parts(at, place, place->lock_at, place->parts_size));
}

static bool put_raise(const struct pawl__commands *commands, struct pawl__buffer *out,
    const struct pawl__op *op, bool whole)
{
    const struct pawl__redis_place *place = pawl__redis_place_of(op->place);
    char *at =
        begin(out, &commands->raise, &pawl__script_raise, whole, place->parts_size + REST_SIZE_MAX);
    if (at == NULL) {
        return false;
    }
    at = write_parts(at, place, 0, place->lock_at);
    at = write_number(at, (int64_t)op->token);
    return finish(out, write_number(at, commands->token_ttl_s));
}

static bool put_verify(
    const struct pawl__commands *commands, struct pawl__buffer *out, const struct pawl__op *op)
{
    static const char head[] = "*3\r\n$7\r\nHEXISTS\r\n";
    const struct pawl__redis_place *place = pawl__redis_place_of(op->place);
    char *at = pawl__buffer_reserve(out, place->parts_size + REST_SIZE_MAX);
    if (at == NULL) {
        return false;
    }
    at = write_bytes(at, head, sizeof head - 1);
    at = write_parts(at, place, place->lock_at, place->channel_at);
    return finish(out, write_owner(at, commands, op->id));
}

static bool put_renewals(const struct pawl__commands *commands, struct pawl__buffer *out,
    const struct pawl__op *ops, bool whole)
{
    uint32_t count = 0;
    size_t size = 0;
    for (const struct pawl__op *op = ops; op != NULL; op = op->next) {
        assert(op->kind == PAWL__OP_RENEW);
        count++;
        size += pawl__redis_place_of(op->place)->parts_size + REST_SIZE_MAX;
    }
    assert(count <= PAWL__RENEWALS_MAX);
    struct pawl__script_head head;
    head_init(&head, &pawl__script_renew, count, 2 * count);
    char *at = begin(out, &head, &pawl__script_renew, whole, size);
    if (at == NULL) {
        return false;
    }
    for (const struct pawl__op *op = ops; op != NULL; op = op->next) {
        const struct pawl__redis_place *place = pawl__redis_place_of(op->place);
        at = write_parts(at, place, place->lock_at, place->channel_at);
    }
    for (const struct pawl__op *op = ops; op != NULL; op = op->next) {
        at = write_owner(at, commands, op->id);
        at = write_lease(at, op->lease_us);
    }
    return finish(out, at);
}

bool pawl__command_put(struct pawl__commands *commands, struct pawl__buffer *out,
    const struct pawl__op *ops, bool whole)
{
    switch (ops->kind) {
    case PAWL__OP_ACQUIRE:
        return put_acquire(commands, out, ops, whole);
    case PAWL__OP_RENEW:
        return put_renewals(commands, out, ops, whole);
    case PAWL__OP_VERIFY:
        return put_verify(commands, out, ops);
    case PAWL__OP_COUNT:
        return put_count(commands, out, ops, whole);
    case PAWL__OP_RELEASE:
        return put_release(commands, out, ops, whole);
    case PAWL__OP_PASS:
        return put_pass(commands, out, ops, whole);
    case PAWL__OP_INSPECT:
        return put_inspect(commands, out, ops, whole);
    case PAWL__OP_BREAK:
        return put_break(commands, out, ops, whole);
    case PAWL__OP_RAISE:
        return put_raise(commands, out, ops, whole);
    case PAWL__OP_WATCH:
    case PAWL__OP_UNWATCH:
        break;
    }
    return false; /* these are for the push connection */
}

bool pawl__command_put_loads(struct pawl__buffer *out, size_t *count_out)
{
    *count_out = sizeof scripts / sizeof scripts[0];
    for (size_t i = 0; i < *count_out; i++) {
        const char *const words[] = {"SCRIPT", "LOAD", scripts[i]->text};
        const size_t sizes[] = {6, 4, scripts[i]->text_size};
        if (!pawl__resp_put_command(out, 3, words, sizes)) {
            return false;
        }
    }
    return true;
}

bool pawl__command_put_rights(struct pawl__buffer *out, struct pawl__redis_text token,
    struct pawl__redis_text lock, struct pawl__redis_text channel, bool whole)
{
    const struct pawl__script *script = &pawl__script_rights;
    const char *const words[] = {whole ? "EVAL" : "EVALSHA", whole ? script->text : script->sha1,
        "0", token.bytes, lock.bytes, channel.bytes};
    const size_t sizes[] = {
        strlen(words[0]), strlen(words[1]), 1, token.size, lock.size, channel.size};
    return pawl__resp_put_command(out, 6, words, sizes);
}
