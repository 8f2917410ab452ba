/* SPDX-License-Identifier: Apache-2.0 */
/* Commands and replies of counts; tally.h describes it from outside, scripts/ has what they do. */
#include "engine/redis/tally.h"

#include "base/alloc.h"
#include "base/error.h"
#include "engine/redis/errors.h"
#include "engine/redis/lua_scripts.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

enum {
    US_PER_MS = 1000,
    RECORD_SIZE_MAX = PAWL__COMPOSED_SIZE_MAX + PAWL__UUID_SIZE + 24,
};

#define HINT_MS_MAX INT64_C(1000000000000000)

/* What a verb is to the server. */
struct form {
    const struct pawl__script *script;
    size_t argument_count; /* besides the channel and the ids */
};

static bool has_leases(const struct pawl__op *op)
{
    return op->place->family == PAWL__FAMILY_PERMITS;
}

/* Are permits named one by one? Those that a drain took are not, also where there are leases. */
static bool has_ids(const struct pawl__op *op)
{
    return op->tally->ids != NULL;
}

static struct form form_of(const struct pawl__op *op)
{
    const bool leases = has_leases(op);
    switch (op->tally->verb) {
    case PAWL__TALLY_READ:
    case PAWL__TALLY_AWAIT:
        return (struct form){&pawl__script_count_read, 0};
    case PAWL__TALLY_SET:
        return (struct form){&pawl__script_count_set, 3};
    case PAWL__TALLY_ADD:
        return (struct form){&pawl__script_semaphore_add, 2};
    case PAWL__TALLY_DRAIN:
        return (struct form){&pawl__script_semaphore_drain, 1};
    case PAWL__TALLY_TAKE:
        return leases ? (struct form){&pawl__script_permits_take, 2}
                      : (struct form){&pawl__script_semaphore_take, 2};
    case PAWL__TALLY_GIVE:
        return leases ? (struct form){&pawl__script_permits_give, 1}
                      : (struct form){&pawl__script_semaphore_add, 2};
    case PAWL__TALLY_UNDO:
        return has_ids(op) ? (struct form){&pawl__script_permits_give, 1}
                           : (struct form){&pawl__script_semaphore_undo, 2};
    case PAWL__TALLY_EXTEND:
        return (struct form){&pawl__script_permits_extend, 1};
    case PAWL__TALLY_DOWN:
        return (struct form){&pawl__script_latch_down, 1};
    case PAWL__TALLY_RESET:
        break;
    }
    return (struct form){&pawl__script_latch_reset, 1};
}

/* ===== Commands ===== */

static bool put_head(struct pawl__buffer *out, const struct form *form, size_t id_count, bool whole)
{
    const struct pawl__script *script = form->script;
    return pawl__resp_put_array(out, 8 + form->argument_count + id_count) &&
           pawl__resp_put_text(out, whole ? "EVAL" : "EVALSHA") &&
           pawl__resp_put_bulk(out, whole ? script->text : script->sha1,
               whole ? script->text_size : PAWL__RESP_SHA_SIZE) &&
           pawl__resp_put_int(out, 4);
}

/* The sorted set of leases, or, where permits have none, the count again. */
static bool put_leases(struct pawl__buffer *out, const struct pawl__op *op)
{
    char key[PAWL__COMPOSED_SIZE_MAX];
    const char *name = op->place->name;
    const size_t name_size = op->place->name_size;
    const struct pawl__redis_text leases = has_leases(op)
                                               ? pawl__redis_compose_leases(key, name, name_size)
                                               : (struct pawl__redis_text){name, name_size};
    return pawl__resp_put_bulk(out, leases.bytes, leases.size);
}

static bool put_record(
    struct pawl__buffer *out, const char *uuid, const struct pawl__op *op, uint64_t number)
{
    char key[RECORD_SIZE_MAX];
    size_t size = pawl__redis_token(key, op->place).size;
    size += (size_t)snprintf(key + size, sizeof key - size, ":%.*s:%llu", PAWL__UUID_SIZE, uuid,
        (unsigned long long)number);
    return pawl__resp_put_bulk(out, key, size);
}

static bool put_keys(struct pawl__buffer *out, const char *uuid, const struct pawl__op *op)
{
    const uint64_t forget = op->tally->forget;
    return pawl__resp_put_bulk(out, op->place->name, op->place->name_size) && put_leases(out, op) &&
           put_record(out, uuid, op, op->id) &&
           put_record(out, uuid, op, forget != 0 ? forget : op->id);
}

static bool put_ms(struct pawl__buffer *out, int64_t duration_us)
{
    return pawl__resp_put_int(out, (duration_us + US_PER_MS - 1) / US_PER_MS);
}

/* What a message about a new count says: a semaphore's says how many, a latch's that it is shut. */
static bool put_news(struct pawl__buffer *out, const struct pawl__op *op)
{
    return pawl__resp_put_int(out, op->place->family == PAWL__FAMILY_LATCH ? 1 : op->tally->amount);
}

/* The arguments behind the channel, in the order that the scripts say. */
static bool put_arguments(struct pawl__buffer *out, const struct pawl__op *op)
{
    const struct pawl__tally_ask *ask = op->tally;
    switch (ask->verb) {
    case PAWL__TALLY_READ:
    case PAWL__TALLY_AWAIT:
        return true;
    case PAWL__TALLY_SET:
        return put_ms(out, ask->keep_us) && pawl__resp_put_int(out, ask->amount) &&
               put_news(out, op);
    case PAWL__TALLY_TAKE:
        return put_ms(out, ask->keep_us) &&
               (has_leases(op) ? put_ms(out, op->lease_us) : pawl__resp_put_int(out, ask->amount));
    case PAWL__TALLY_ADD:
        return put_ms(out, ask->keep_us) && pawl__resp_put_int(out, ask->amount);
    case PAWL__TALLY_GIVE:
    case PAWL__TALLY_UNDO:
        return put_ms(out, ask->keep_us) && (has_ids(op) || pawl__resp_put_int(out, ask->amount));
    case PAWL__TALLY_EXTEND:
        return put_ms(out, op->lease_us);
    case PAWL__TALLY_DRAIN:
    case PAWL__TALLY_DOWN:
    case PAWL__TALLY_RESET:
        break;
    }
    return put_ms(out, ask->keep_us);
}

bool pawl__tally_command_put(
    const char *uuid, struct pawl__buffer *out, const struct pawl__op *op, bool whole)
{
    const struct pawl__tally_ask *ask = op->tally;
    char text[PAWL__COMPOSED_SIZE_MAX];
    const struct pawl__redis_text channel = pawl__redis_channel(text, op->place);
    const struct form form = form_of(op);
    const size_t before = pawl__buffer_size(out);
    const size_t id_count = ask->ids != NULL ? (size_t)ask->amount : 0;
    bool put = put_head(out, &form, id_count, whole) && put_keys(out, uuid, op) &&
               pawl__resp_put_bulk(out, channel.bytes, channel.size) && put_arguments(out, op);
    for (size_t i = 0; put && i < id_count; i++) {
        put = pawl__resp_put_bulk(out, ask->ids[i].bytes, PAWL__PERMIT_SIZE);
    }
    if (!put) {
        pawl__buffer_truncate(out, before);
    }
    return put;
}

/* ===== Replies ===== */

static enum pawl__reply_result answer(struct pawl__op *op, enum pawl__answer how, int64_t value)
{
    op->answer = how;
    op->tally->value = value;
    return PAWL__REPLY_TAKEN;
}

static enum pawl__reply_result take_taken(struct pawl__op *op, int64_t number)
{
    if (number > 1 || number < -HINT_MS_MAX) {
        return PAWL__REPLY_STRANGE;
    }
    op->tally->unset = number == -1;
    op->hint_us = number < -1 ? (-2 - number) * US_PER_MS : -1;
    return answer(op, number == 1 ? PAWL__DONE : PAWL__HELD, 0);
}

enum pawl__reply_result pawl__tally_answer(struct pawl__op *op, int64_t number)
{
    switch (op->tally->verb) {
    case PAWL__TALLY_TAKE:
        return take_taken(op, number);
    case PAWL__TALLY_READ:
        return answer(op, PAWL__DONE, number);
    case PAWL__TALLY_AWAIT:
        return answer(op, number <= 0 ? PAWL__DONE : PAWL__HELD, number);
    case PAWL__TALLY_SET:
    case PAWL__TALLY_RESET:
        return number == 0 || number == 1 ? answer(op, number == 1 ? PAWL__DONE : PAWL__GONE, 0)
                                          : PAWL__REPLY_STRANGE;
    case PAWL__TALLY_ADD:
    case PAWL__TALLY_DRAIN:
    case PAWL__TALLY_GIVE:
    case PAWL__TALLY_UNDO:
    case PAWL__TALLY_DOWN:
        return number >= 0 ? answer(op, PAWL__DONE, number) : PAWL__REPLY_STRANGE;
    case PAWL__TALLY_EXTEND:
        break;
    }
    return PAWL__REPLY_STRANGE;
}

enum pawl__reply_result pawl__tally_answer_list(const struct pawl__resp_reader *reader,
    const struct pawl__resp_node *reply, struct pawl__op *op)
{
    const struct pawl__tally_ask *ask = op->tally;
    if (ask->verb != PAWL__TALLY_EXTEND || reply->type != PAWL__RESP_ARRAY ||
        reply->child_count != ask->amount) {
        return PAWL__REPLY_STRANGE;
    }
    int64_t out_count = 0;
    const struct pawl__resp_node *item = pawl__resp_first(reader, reply);
    for (int64_t i = 0; i < ask->amount; i++) {
        if (item->type != PAWL__RESP_INTEGER) {
            return PAWL__REPLY_STRANGE;
        }
        ask->gone[i] = item->integer == 0;
        out_count += ask->gone[i] ? 0 : 1;
        item = pawl__resp_next(reader, reply, item);
    }
    return answer(op, PAWL__DONE, out_count);
}

/* What the sentence says about a key that is no count, or a sum that is out of range. */
static const char *meaning_of(bool range)
{
    return range ? "there would be more than 2147483647 permits, or fewer than -2147483648"
                 : "a key of this name exists and is something else: a lock, or somebody's data; "
                   "choose another name";
}

void pawl__tally_take_error(struct pawl__op *op, const char *text, size_t text_size, bool foreign)
{
    static const char about_lock[] = "lock ";
    const bool range = memmem(text, text_size, "PAWLRANGE", strlen("PAWLRANGE")) != NULL;
    const char *word = op->place->family == PAWL__FAMILY_LATCH ? "latch" : "semaphore";
    char *judged = op->error;
    char shown[128];
    if (foreign || range) {
        op->answer = PAWL__FAILED;
        op->again = false;
        op->status = range ? PAWL_INVALID : PAWL_REFUSED;
        op->error = pawl__format("%s '%s': %s", word,
            pawl__printable(op->place->name, op->place->name_size, shown, sizeof shown),
            meaning_of(range));
    } else if (judged != NULL && strncmp(judged, about_lock, sizeof about_lock - 1) == 0) {
        op->error = pawl__format("%s %s", word, judged + sizeof about_lock - 1);
    } else {
        return;
    }
    pawl__free(judged);
}
