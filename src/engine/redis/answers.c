/* SPDX-License-Identifier: Apache-2.0 */
/* Replies as answers, the other half of commands.h. What the numbers mean is said in the scripts.
 *
 * An error reply means that nothing was done, as the scripts are written so; only of an error that
 * is not known here it cannot be said for sure. A key that is no lock any more is the proof that
 * its holder has lost it. */
#include "engine/redis/commands.h"

#include "base/alloc.h"
#include "base/error.h"
#include "engine/redis/errors.h"
#include "engine/redis/tally.h"

#include <assert.h>
#include <string.h>

enum { SHOWN_SIZE = 100 }; /* of the lock's name in a sentence */

#define CLOCK_MAX_US UINT64_C(100000000000000000) /* a clock that says more says nothing */

bool pawl__command_writes(enum pawl__op_kind kind)
{
    return kind != PAWL__OP_VERIFY && kind != PAWL__OP_INSPECT;
}

/* Whether a key of another type proves that the tenure has lost the lock: not where another key,
 * the token counter, may be meant. */
static bool needs_tenure(enum pawl__op_kind kind)
{
    return kind == PAWL__OP_RENEW || kind == PAWL__OP_VERIFY || kind == PAWL__OP_COUNT ||
           kind == PAWL__OP_RELEASE;
}

/* What people need beside the lock itself, and is not looked at when it is opened. NULL: nothing.
 */
static const char *rights_of(enum pawl__op_kind kind)
{
    return kind == PAWL__OP_BREAK     ? "+type +del +hget +hscan"
           : kind == PAWL__OP_INSPECT ? "+hscan +hget"
                                      : NULL;
}

/* Is it a command that is denied, and not a key or a password? */
static bool is_about_command(const char *text, size_t text_size)
{
    return pawl__redis_error_is_denial(text, text_size) &&
           memmem(text, text_size, "key", 3) == NULL;
}

/* The sentence about a denial, with the line that ends it. NULL: there is none. */
static char *denial(const struct pawl__op *op, const char *grant)
{
    char shown[SHOWN_SIZE];
    const char *rights = rights_of(op->kind);
    if (rights == NULL || grant == NULL) {
        return NULL;
    }
    pawl__printable(op->place->name, op->place->name_size, shown, sizeof shown);
    return pawl__format("lock '%s': the server's access list forbids the user to %s it; add the "
                        "rights with: %s %s",
        shown, op->kind == PAWL__OP_BREAK ? "break" : "inspect", grant, rights);
}

static void take_error(
    struct pawl__op *op, const char *text, size_t text_size, struct pawl__reply_context *context)
{
    const struct pawl__verdict verdict =
        pawl__redis_judge(text, text_size, op->place->name, op->place->name_size, context->secret);
    context->demoted = context->demoted || verdict.demoted;
    if (verdict.foreign && needs_tenure(op->kind)) {
        op->answer = PAWL__GONE;
        pawl__free(verdict.sentence);
        return;
    }
    const bool unsure = verdict.status == PAWL_PROTOCOL && pawl__command_writes(op->kind);
    op->answer = unsure ? PAWL__UNKNOWN : PAWL__FAILED;
    op->status = verdict.status;
    op->again = verdict.again;
    op->error = verdict.sentence;
    char *line = is_about_command(text, text_size) ? denial(op, context->grant) : NULL;
    if (line != NULL) {
        pawl__free(op->error);
        op->error = line;
    }
    if (op->kind == PAWL__OP_TALLY) {
        pawl__tally_take_error(op, text, text_size, verdict.foreign);
    }
}

static enum pawl__reply_result answer(struct pawl__op *op, enum pawl__answer how)
{
    op->answer = how;
    return PAWL__REPLY_TAKEN;
}

/* A number in decimal text, as far as it is one. */
static uint64_t number_in(
    const struct pawl__resp_reader *reader, const struct pawl__resp_node *node)
{
    const char *text = pawl__resp_text(reader, node);
    uint64_t number = 0;
    for (uint32_t i = 0; i < node->text_size && text[i] >= '0' && text[i] <= '9'; i++) {
        if (number > (UINT64_MAX - 9) / 10) {
            return 0;
        }
        number = number * 10 + (uint64_t)(text[i] - '0');
    }
    return number;
}

/* Nobody who takes locks as we do leaves a key without a TTL. */
static void tell_endless(struct pawl__op *op)
{
    char shown[SHOWN_SIZE];
    pawl__printable(op->place->name, op->place->name_size, shown, sizeof shown);
    op->error = pawl__format("lock '%s': it is held elsewhere, by a key that never expires, as no "
                             "lock of pawl's or Redisson's does; choose another name, or delete it "
                             "if nobody needs it",
        shown);
}

static enum pawl__reply_result take_acquire(struct pawl__op *op, int64_t number)
{
    if (number > 0) {
        op->token = op->place->family == PAWL__FAMILY_PLAIN ? 0 : (uint64_t)number;
        return answer(op, PAWL__DONE);
    }
    if (number == 0 || number < -INT64_C(1000000000000000)) {
        return PAWL__REPLY_STRANGE;
    }
    op->hint_us = number == -1 ? -1 : (-2 - number) * 1000;
    if (number == -1) {
        tell_endless(op);
    }
    return answer(op, PAWL__HELD);
}

int64_t pawl__command_clock(
    const struct pawl__resp_reader *reader, const struct pawl__resp_node *reply)
{
    if (reply->type != PAWL__RESP_ARRAY || reply->child_count != 2) {
        return 0;
    }
    const struct pawl__resp_node *time =
        pawl__resp_next(reader, reply, pawl__resp_first(reader, reply));
    const uint64_t us = time->type == PAWL__RESP_TEXT ? number_in(reader, time) : 0;
    return us <= CLOCK_MAX_US ? (int64_t)us : 0;
}

/* With the server's clock. */
static enum pawl__reply_result take_clocked(const struct pawl__resp_reader *reader,
    const struct pawl__resp_node *reply, struct pawl__op *op)
{
    if (pawl__command_clock(reader, reply) == 0) {
        return PAWL__REPLY_STRANGE;
    }
    const struct pawl__resp_node *result = pawl__resp_first(reader, reply);
    return result->type == PAWL__RESP_INTEGER ? take_acquire(op, result->integer)
                                              : PAWL__REPLY_STRANGE;
}

static enum pawl__reply_result take_pass(struct pawl__op *op, int64_t number)
{
    if (number < -1) {
        return PAWL__REPLY_STRANGE;
    }
    op->token = number > 0 ? (uint64_t)number : 0;
    return answer(op, number > 0 ? PAWL__DONE : number == 0 ? PAWL__GONE : PAWL__LEFT);
}

static enum pawl__reply_result take_release(struct pawl__op *op, int64_t number)
{
    if (number < 0) {
        return PAWL__REPLY_STRANGE;
    }
    const struct pawl__redis_place *place = pawl__redis_place_of(op->place);
    const int64_t own = atomic_load(&place->subscribed);
    op->others = number - 1 > own;
    return answer(op, number > 0 ? PAWL__DONE : PAWL__GONE);
}

/* 1 or 0: yes or gone. */
static enum pawl__reply_result take_flag(struct pawl__op *op, int64_t number)
{
    if (number != 0 && number != 1) {
        return PAWL__REPLY_STRANGE;
    }
    return answer(op, number == 1 ? PAWL__DONE : PAWL__GONE);
}

static enum pawl__reply_result take_inspect(const struct pawl__resp_reader *reader,
    const struct pawl__resp_node *reply, struct pawl__op *op)
{
    if (reply->type != PAWL__RESP_ARRAY || reply->child_count != 4) {
        return PAWL__REPLY_STRANGE;
    }
    const struct pawl__resp_node *holder = pawl__resp_first(reader, reply);
    const struct pawl__resp_node *count = pawl__resp_next(reader, reply, holder);
    const struct pawl__resp_node *ttl = pawl__resp_next(reader, reply, count);
    const struct pawl__resp_node *token = pawl__resp_next(reader, reply, ttl);
    if (holder->type != PAWL__RESP_TEXT || count->type != PAWL__RESP_TEXT ||
        ttl->type != PAWL__RESP_INTEGER || token->type != PAWL__RESP_TEXT) {
        return PAWL__REPLY_STRANGE;
    }
    pawl_lock_info *info = op->info;
    const uint64_t hold_count = number_in(reader, count);
    size_t size = holder->text_size;
    if (size >= sizeof info->holder) {
        size = sizeof info->holder - 1;
    }
    info->held = ttl->integer != -2;
    info->hold_count = hold_count > UINT32_MAX ? UINT32_MAX : (unsigned)hold_count;
    info->remaining_ms = info->held ? ttl->integer : 0;
    info->token = number_in(reader, token);
    memcpy(info->holder, pawl__resp_text(reader, holder), size);
    info->holder[size] = '\0';
    return answer(op, PAWL__DONE);
}

static enum pawl__reply_result take_number(struct pawl__op *op, int64_t number)
{
    switch (op->kind) {
    case PAWL__OP_ACQUIRE:
        return take_acquire(op, number);
    case PAWL__OP_RELEASE:
        return take_release(op, number);
    case PAWL__OP_PASS:
        return take_pass(op, number);
    case PAWL__OP_RENEW:
    case PAWL__OP_VERIFY:
    case PAWL__OP_COUNT:
    case PAWL__OP_BREAK:
    case PAWL__OP_RAISE:
        return take_flag(op, number);
    case PAWL__OP_TALLY:
        return pawl__tally_answer(op, number);
    case PAWL__OP_INSPECT:
    case PAWL__OP_WATCH:
    case PAWL__OP_UNWATCH:
        break;
    }
    return PAWL__REPLY_STRANGE;
}

/* Several with an answer each: renewals, or releases. */
static enum pawl__reply_result take_each(const struct pawl__resp_reader *reader,
    const struct pawl__resp_node *reply, struct pawl__op *ops, struct pawl__reply_context *context)
{
    if (reply->type != PAWL__RESP_ARRAY) {
        return PAWL__REPLY_STRANGE;
    }
    const struct pawl__resp_node *item = pawl__resp_first(reader, reply);
    struct pawl__op *op = ops;
    for (; item != NULL && op != NULL; op = op->next) {
        if (item->type == PAWL__RESP_ERROR) {
            take_error(op, pawl__resp_text(reader, item), item->text_size, context);
        } else if (item->type != PAWL__RESP_INTEGER ||
                   take_number(op, item->integer) == PAWL__REPLY_STRANGE) {
            return PAWL__REPLY_STRANGE;
        }
        item = pawl__resp_next(reader, reply, item);
    }
    return item == NULL && op == NULL ? PAWL__REPLY_TAKEN : PAWL__REPLY_STRANGE;
}

/* The one of several that keeps all from being given: its answer, and who has it. */
static enum pawl__reply_result take_held(
    const struct pawl__resp_reader *reader, const struct pawl__resp_node *item, struct pawl__op *op)
{
    char shown[SHOWN_SIZE];
    char holder[SHOWN_SIZE];
    const struct pawl__resp_node *number = pawl__resp_first(reader, item);
    const struct pawl__resp_node *who =
        item->child_count == 2 ? pawl__resp_next(reader, item, number) : NULL;
    if (who == NULL || who->type != PAWL__RESP_TEXT || number->type != PAWL__RESP_INTEGER ||
        number->integer >= 0 || take_acquire(op, number->integer) == PAWL__REPLY_STRANGE) {
        return PAWL__REPLY_STRANGE;
    }
    if (op->error == NULL && who->text_size > 0) {
        pawl__printable(op->place->name, op->place->name_size, shown, sizeof shown);
        pawl__printable(pawl__resp_text(reader, who), who->text_size, holder, sizeof holder);
        op->error = pawl__format("lock '%s': it is held elsewhere, by %s", shown, holder);
    }
    return PAWL__REPLY_TAKEN;
}

/* One of several that are one; 0: it was not given because of another. */
static enum pawl__reply_result take_joint(const struct pawl__resp_reader *reader,
    const struct pawl__resp_node *item, struct pawl__op *op, struct pawl__reply_context *context)
{
    if (item->type == PAWL__RESP_ERROR) {
        take_error(op, pawl__resp_text(reader, item), item->text_size, context);
        return PAWL__REPLY_TAKEN;
    }
    if (item->type == PAWL__RESP_ARRAY) {
        return take_held(reader, item, op);
    }
    if (item->type != PAWL__RESP_INTEGER || item->integer < 0) {
        return PAWL__REPLY_STRANGE;
    }
    return item->integer == 0 ? answer(op, PAWL__SPARED) : take_acquire(op, item->integer);
}

/* All are granted, or one says why none is. */
static enum pawl__reply_result take_acquires(const struct pawl__resp_reader *reader,
    const struct pawl__resp_node *reply, struct pawl__op *ops, struct pawl__reply_context *context)
{
    if (reply->type != PAWL__RESP_ARRAY) {
        return PAWL__REPLY_STRANGE;
    }
    const struct pawl__resp_node *item = pawl__resp_first(reader, reply);
    struct pawl__op *op = ops;
    size_t granted = 0;
    size_t spared = 0;
    size_t count = 0;
    for (; item != NULL && op != NULL; op = op->next) {
        if (take_joint(reader, item, op, context) == PAWL__REPLY_STRANGE) {
            return PAWL__REPLY_STRANGE;
        }
        granted += op->answer == PAWL__DONE ? 1 : 0;
        spared += op->answer == PAWL__SPARED ? 1 : 0;
        count++;
        item = pawl__resp_next(reader, reply, item);
    }
    const bool whole = granted == count || (granted == 0 && spared == count - 1);
    return item == NULL && op == NULL && whole ? PAWL__REPLY_TAKEN : PAWL__REPLY_STRANGE;
}

enum pawl__reply_result pawl__command_answer(const struct pawl__resp_reader *reader,
    const struct pawl__resp_node *reply, struct pawl__op *ops, struct pawl__reply_context *context)
{
    if (reply->type == PAWL__RESP_INTEGER) {
        const bool one = ops->next == NULL && ops->kind != PAWL__OP_RENEW;
        return one ? take_number(ops, reply->integer) : PAWL__REPLY_STRANGE;
    }
    if (reply->type == PAWL__RESP_ERROR) {
        for (struct pawl__op *op = ops; op != NULL; op = op->next) {
            take_error(op, pawl__resp_text(reader, reply), reply->text_size, context);
        }
        return PAWL__REPLY_TAKEN;
    }
    if (ops->kind == PAWL__OP_RENEW || (ops->kind == PAWL__OP_RELEASE && ops->next != NULL)) {
        return take_each(reader, reply, ops, context);
    }
    if (ops->kind == PAWL__OP_ACQUIRE && ops->next != NULL) {
        return take_acquires(reader, reply, ops, context);
    }
    if (ops->kind == PAWL__OP_TALLY) {
        return pawl__tally_answer_list(reader, reply, ops);
    }
    if (ops->kind == PAWL__OP_ACQUIRE) {
        return take_clocked(reader, reply, ops);
    }
    return ops->kind == PAWL__OP_INSPECT ? take_inspect(reader, reply, ops) : PAWL__REPLY_STRANGE;
}
