/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first locks that the tutorials write: SETNX, whose answer says whether the key was new, and
 * DEL. They exclude well, as long as nobody dies; what they do to those who wait is another matter.
 */
#include "strategies/strategies.h"

#include "strategies/hand.h"

#include <hiredis/hiredis.h>

static enum attempt setnx(struct seller *seller, struct order *order)
{
    struct redisReply *reply =
        seller_ask_lock(seller, "SETNX %s %s", SHOP_LOCK_NAME, order->ticket.owner);
    return hand_read(order, reply);
}

/* ===== setnx-once ===== */

/* FLAW: whoever comes while another is inside is sent away, though a piece is left; and the lock of
 * a seller that died stays for ever, because nothing ever deletes it. */
static enum entry enter_once(struct seller *seller, struct order *order)
{
    hand_name_owner(seller, order);
    return hand_entry(setnx(seller, order));
}

const struct strategy strategy_setnx_once = {
    .name = "setnx-once",
    .title = "SETNX, or go home",
    .flaw = "sends customers away while pieces are left, and a seller that dies inside closes the "
            "shop for ever",
    .enter = enter_once,
    .leave = hand_delete,
};

/* ===== setnx-sleep ===== */

/* FLAW: the lock of a seller that died stays for ever. Besides, everybody sleeps a little longer
 * than needed, and who comes next is a matter of luck. */
static enum entry enter_sleeping(struct seller *seller, struct order *order)
{
    hand_name_owner(seller, order);
    return hand_wait(seller, order, setnx, PAUSE_SHORT_US);
}

const struct strategy strategy_setnx_sleep = {
    .name = "setnx-sleep",
    .title = "SETNX, sleeping 20 ms between tries",
    .flaw = "a seller that dies inside closes the shop for ever: the key has no end",
    .enter = enter_sleeping,
    .leave = hand_delete,
};

/* ===== setnx-spin ===== */

/* FLAW: as before, and those who wait ask Redis without a pause: they take the time of the very
 * server that the one inside is waiting for. */
static enum entry enter_spinning(struct seller *seller, struct order *order)
{
    hand_name_owner(seller, order);
    return hand_wait(seller, order, setnx, PAUSE_NONE_US);
}

const struct strategy strategy_setnx_spin = {
    .name = "setnx-spin",
    .title = "SETNX in a busy loop",
    .flaw = "those who wait keep Redis and the processors busy with asking, and a seller that dies "
            "inside closes the shop for ever",
    .enter = enter_spinning,
    .leave = hand_delete,
};

/* ===== setnx-expire ===== */

/* FLAW: the lock gets an end, but by a second command. A seller that dies between the two leaves a
 * key without an end, as before: rarer, and therefore harder to find. */
static enum attempt setnx_then_expire(struct seller *seller, struct order *order)
{
    enum attempt result = setnx(seller, order);
    if (result != ATTEMPT_GOT) {
        return result;
    }
    shop_gap(seller->shop, order);
    struct redisReply *reply =
        seller_ask_lock(seller, "PEXPIRE %s %lld", SHOP_LOCK_NAME, hand_lease_ms(seller));
    return hand_read(order, reply);
}

static enum entry enter_expiring(struct seller *seller, struct order *order)
{
    hand_name_owner(seller, order);
    return hand_wait(seller, order, setnx_then_expire, PAUSE_SHORT_US);
}

const struct strategy strategy_setnx_expire = {
    .name = "setnx-expire",
    .title = "SETNX, then EXPIRE",
    .flaw = "a seller that dies between the two commands closes the shop for ever",
    .enter = enter_expiring,
    .leave = hand_delete,
};
