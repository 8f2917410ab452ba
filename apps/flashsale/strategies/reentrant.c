/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Locks that their holder may take again. Under these strategies every order does: inside the lock
 * it calls a method that takes the same lock for its own sake, as the tutorials' nested method
 * does. With a simple lock the order would wait for itself.
 */
#include "strategies/strategies.h"

#include "embedded.h"
#include "strategies/hand.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <string.h>

/* The method that is called inside: it may also be called from elsewhere, so it locks. */
static bool nested_method(struct seller *seller, struct order *order)
{
    enum entry entry = order->strategy->enter(seller, order);
    if (entry != ENTERED) {
        order->end = entry == ENTRY_UNAVAILABLE ? ORDER_UNAVAILABLE : ORDER_FAILED;
        snprintf(order->why, sizeof order->why, "the order's own lock was not had a second time");
        return false;
    }
    order->strategy->leave(seller, order);
    return true;
}

static void sell_nested(struct seller *seller, struct order *order)
{
    if (nested_method(seller, order)) {
        sell_naively(seller, order);
    }
}

/* The owner is named once: the second time it must be recognized. */
static void name_owner_once(struct seller *seller, struct order *order)
{
    if (order->ticket.owner[0] == '\0') {
        hand_name_owner(seller, order);
    }
}

/* ===== reentry-flag ===== */

static enum attempt attempt_flagged(struct seller *seller, struct order *order)
{
    return hand_read(
        order, hand_run(seller, &embedded_strategies_set_or_own_lua, order->ticket.owner));
}

/* FLAW: the holder is let in again, but nobody counts how often. The release of the inner one
 * deletes the lock of the outer one, which goes on without: others sell beside it. */
static enum entry enter_flagged(struct seller *seller, struct order *order)
{
    name_owner_once(seller, order);
    return hand_wait(seller, order, attempt_flagged, PAUSE_LONG_US);
}

static void leave_flagged(struct seller *seller, struct order *order)
{
    hand_delete_own(seller, order->ticket.owner);
}

const struct strategy strategy_reentry_flag = {
    .name = "reentry-flag",
    .title = "re-entry without a count",
    .flaw = "the first release frees a lock that was taken twice: the rest of the order runs "
            "without one",
    .enter = enter_flagged,
    .sell = sell_nested,
    .leave = leave_flagged,
};

/* ===== reentrant ===== */

/* FLAW: none in the re-entry: a hash keeps owner and count, and the last release deletes it. An
 * order that takes longer than the lease still sells beside the next one. */
static enum entry enter_counted(struct seller *seller, struct order *order)
{
    name_owner_once(seller, order);
    return hand_wait(seller, order, hand_reenter, PAUSE_LONG_US);
}

const struct strategy strategy_reentrant = {
    .name = "reentrant",
    .title = "re-entrant: owner and count in a hash",
    .flaw = "an order that takes longer than the lease sells beside the next one: nothing renews "
            "the lease",
    .enter = enter_counted,
    .sell = sell_nested,
    .leave = hand_release_once,
};
