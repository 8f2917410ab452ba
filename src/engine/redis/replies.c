/* SPDX-License-Identifier: Apache-2.0 */
/* Replies on the command connection, and the question about rights, whose reply is not an
 * operation's; conn.h describes the whole. All but pawl__conn_check_rights() is called with the
 * mutex held, by who sits. */
#include "engine/redis/conn.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/rare.h"
#include "engine/redis/errors.h"
#include "engine/redis/rights.h"

/* A question about rights, on the stack of its asker until `waiter` is done. */
struct pawl__rights_check {
    struct pawl__waiter waiter;
    struct pawl__redis_place *place;
    bool denied;
    char *sentence;
};

/* A question about rights that nobody answers any more: nothing was denied. */
void pawl__conn_end_check(struct pawl__rights_check *check)
{
    pawl__waiter_finish(&check->waiter);
}

/* ===== Replies ===== */

PAWL__RARE static void take_check(
    struct pawl__conn *conn, const struct pawl__slot *slot, const struct pawl__resp_node *reply)
{
    struct pawl__rights_check *check = slot->check;
    const struct pawl__resp_reader *reader = &conn->link.reader;
    if (pawl__resp_error_is(reader, reply, "NOSCRIPT") && !slot->whole &&
        pawl__slots_reserve(&conn->slots)) {
        struct pawl__slot again = *slot;
        again.whole = true;
        again.begin = pawl__link_position(&conn->link);
        if (pawl__command_put_rights(&conn->link.out, check->place, true)) {
            pawl__slots_push(&conn->slots, &again);
            return;
        }
    }
    if (pawl__rights_any_missing(reply)) {
        check->denied = true;
        check->sentence = pawl__rights_sentence(reader, reply, conn->config->grant, check->place);
    }
    pawl__conn_end_check(check);
}

/* Many in one command were refused because of one key: ask for each alone. Of acquires that were
 * to be made together the core takes back what is given then, and tells of the one that is not. */
static bool split_denied(struct pawl__conn *conn, const struct pawl__slot *slot,
    const struct pawl__resp_node *reply, struct pawl__effects *effects)
{
    if (slot->ops->next == NULL || !pawl__resp_is_error(reply) ||
        !pawl__redis_error_is_denial(
            pawl__resp_text(&conn->link.reader, reply), reply->text_size)) {
        return false;
    }
    struct pawl__op *ops = slot->ops;
    while (ops != NULL) {
        struct pawl__op *op = ops;
        ops = op->next;
        op->next = NULL;
        op->joint = false; /* should it have to be put again, behind whatever */
        pawl__conn_put(conn, op, slot->whole, effects);
    }
    return true;
}

static void end_answered(
    struct pawl__conn *conn, struct pawl__op *ops, struct pawl__effects *effects)
{
    while (ops != NULL) {
        struct pawl__op *op = ops;
        ops = op->next;
        op->fenced = conn->fenced;
        pawl__effects_end(effects, op);
    }
}

/* False: it is not a reply to what was asked. */
static bool take_answer(struct pawl__conn *conn, const struct pawl__slot *slot,
    const struct pawl__resp_node *reply, struct pawl__effects *effects)
{
    struct pawl__reply_context context = {
        .secret = conn->config->password, .grant = conn->config->grant};
    if (pawl__command_answer(&conn->link.reader, reply, slot->ops, &context) ==
        PAWL__REPLY_STRANGE) {
        conn->out_of_step = pawl__command_writes(slot->ops->kind);
        pawl__effects_fail_all(effects, slot->ops, PAWL__UNKNOWN, PAWL_PROTOCOL, true,
            "the server's reply makes no sense");
        return false;
    }
    conn->retiring = conn->retiring || context.demoted;
    end_answered(conn, slot->ops, effects);
    return true;
}

/* What the server's clock says, for who asks who it is (engine.h: identity). Before the answer is
 * told, so that nobody knows of the one without the other. */
static void note_clock(
    struct pawl__conn *conn, const struct pawl__op *op, const struct pawl__resp_node *reply)
{
    const int64_t clock_us =
        op->kind == PAWL__OP_ACQUIRE ? pawl__command_clock(&conn->link.reader, reply) : 0;
    if (clock_us != 0) {
        conn->identity.sample = (struct pawl__clock_sample){op->sent_us, pawl__now_us(), clock_us};
    }
}

/* A reply that is not just a number, or not to an operation. */
PAWL__RARE static bool take_other(struct pawl__conn *conn, const struct pawl__slot *slot,
    const struct pawl__resp_node *reply, struct pawl__effects *effects)
{
    if (slot->check != NULL) {
        take_check(conn, slot, reply);
        return true;
    }
    if (slot->ops == NULL) {
        pawl__introduction_answered(&conn->introduction, &conn->link.reader, reply);
        return true;
    }
    if (!slot->whole && pawl__resp_error_is(&conn->link.reader, reply, "NOSCRIPT")) {
        pawl__conn_put(
            conn, slot->ops, true, effects); /* nothing was done; the text loads it, too */
        return true;
    }
    note_clock(conn, slot->ops, reply);
    return split_denied(conn, slot, reply, effects) || take_answer(conn, slot, reply, effects);
}

static bool take_reply(
    struct pawl__conn *conn, const struct pawl__resp_node *reply, struct pawl__effects *effects)
{
    if (pawl__resp_is_push(reply)) {
        return true;
    }
    if (conn->slots.count == 0) {
        return false;
    }
    const struct pawl__slot slot = pawl__slots_pop(&conn->slots);
    return slot.ops != NULL && reply->type == PAWL__RESP_INTEGER
               ? take_answer(conn, &slot, reply, effects)
               : take_other(conn, &slot, reply, effects);
}

void pawl__conn_take_replies(struct pawl__conn *conn, struct pawl__effects *effects)
{
    const char *broken = NULL;
    while (broken == NULL) {
        const struct pawl__resp_node *reply = NULL;
        const enum pawl__resp_result parsed = pawl__link_next(&conn->link, &reply);
        if (parsed == PAWL__RESP_MORE) {
            break;
        }
        if (parsed == PAWL__RESP_BROKEN) {
            broken = conn->link.reader.broken;
        } else if (parsed == PAWL__RESP_NO_MEMORY) {
            pawl__conn_lose(conn, pawl__now_us(), PAWL_NO_MEMORY, "no memory for a reply", effects);
            return;
        } else if (!take_reply(conn, reply, effects)) {
            broken = "a reply does not fit the question";
        }
    }
    if (broken != NULL) {
        pawl__conn_lose(conn, pawl__now_us(), PAWL_PROTOCOL, broken, effects);
    } else if (conn->retiring && conn->slots.count == 0) {
        pawl__conn_lose(
            conn, pawl__now_us(), PAWL_REFUSED, "the server takes no writes any more", effects);
    }
}

/* ===== Rights ===== */

/* Queue the question; false: it need not or cannot be asked now. */
static bool ask_rights(struct pawl__conn *conn, struct pawl__rights_check *check)
{
    const struct pawl__slot slot = {.check = check,
        .begin = pawl__link_position(&conn->link),
        .deadline_us = pawl__later(pawl__now_us(), conn->config->settings.timeout_us)};
    if (!pawl__conn_takes_commands(conn) || !conn->restricted ||
        !pawl__slots_reserve(&conn->slots) ||
        !pawl__command_put_rights(&conn->link.out, check->place, false)) {
        return false;
    }
    pawl__slots_push(&conn->slots, &slot);
    return true;
}

pawl_status pawl__conn_check_rights(struct pawl__conn *conn, struct pawl__redis_place *place)
{
    struct pawl__rights_check check = {.place = place};
    struct pawl__effects effects;
    pawl__waiter_init(&check.waiter);
    pawl__effects_init(&effects);
    pthread_mutex_lock(&conn->mutex);
    const bool asked = ask_rights(conn, &check);
    if (asked) {
        pawl__conn_send(conn, true, &effects);
    }
    pthread_mutex_unlock(&conn->mutex);
    while (asked && !pawl__waiter_done(&check.waiter)) {
        pawl__conn_drive(conn, &check.waiter, PAWL__NEVER);
    }
    return check.denied ? pawl__fail_text(PAWL_DENIED, check.sentence) : PAWL_OK;
}
