/* SPDX-License-Identifier: Apache-2.0 */
/* Operations as commands; commands.h describes it from outside. On the hot path a command is three
 * or four copies: the prefix, the place's part, and the numbers. Replies are read by answers.c. */
#include "engine/redis/commands.h"

#include "engine/redis/commands_fair.h"
#include "engine/redis/commands_write.h"

static const struct pawl__script *const scripts[] = {&pawl__script_acquire, &pawl__script_renew,
    &pawl__script_count, &pawl__script_release, &pawl__script_pass, &pawl__script_inspect,
    &pawl__script_break, &pawl__script_rights, &pawl__script_introduce, &pawl__script_acquire_fair,
    &pawl__script_release_fair, &pawl__script_break_fair};

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
    head_init(&commands->acquire_fair, &pawl__script_acquire_fair, 4, 6);
    head_init(&commands->release_fair, &pawl__script_release_fair, 3, 3);
    head_init(&commands->break_fair, &pawl__script_break_fair, 3, 1);
}

void pawl__commands_set_floor(struct pawl__commands *commands, int64_t token_floor)
{
    commands->token_floor = token_floor;
    commands->lease_us = 0; /* the text has the old one */
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
    at = write_parts(at, place, place->lock_at, place->lock_end);
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
    return at != NULL && finish(out, write_parts(at, place, 0, place->lock_end));
}

static bool put_break(const struct pawl__commands *commands, struct pawl__buffer *out,
    const struct pawl__op *op, bool whole)
{
    const struct pawl__redis_place *place = pawl__redis_place_of(op->place);
    char *at = begin(
        out, &commands->break_up, &pawl__script_break, whole, place->parts_size + REST_SIZE_MAX);
    return at != NULL && finish(out, write_parts(at, place, place->lock_at, place->parts_size));
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
    at = write_parts(at, place, place->lock_at, place->lock_end);
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
        at = write_parts(at, place, place->lock_at, place->lock_end);
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
    if (ops->place->family == PAWL__FAMILY_FAIR && pawl__command_is_fair(ops->kind)) {
        return pawl__command_put_fair(commands, out, ops, whole);
    }
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
    struct pawl__redis_text lock, struct pawl__redis_text channel, enum pawl__family family,
    bool whole)
{
    const struct pawl__script *script = &pawl__script_rights;
    char queue[PAWL__COMPOSED_SIZE_MAX];
    char timeouts[PAWL__COMPOSED_SIZE_MAX];
    const size_t queue_size =
        pawl__redis_compose(queue, PAWL__QUEUE_PREFIX, lock.bytes, lock.size).size;
    const size_t timeouts_size =
        pawl__redis_compose(timeouts, PAWL__TIMEOUTS_PREFIX, lock.bytes, lock.size).size;
    const char *const words[] = {whole ? "EVAL" : "EVALSHA", whole ? script->text : script->sha1,
        "0", token.bytes, lock.bytes, channel.bytes, queue, timeouts};
    const size_t sizes[] = {strlen(words[0]), strlen(words[1]), 1, token.size, lock.size,
        channel.size, queue_size, timeouts_size};
    return pawl__resp_put_command(out, family == PAWL__FAMILY_FAIR ? 8 : 6, words, sizes);
}
