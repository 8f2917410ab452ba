/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Locks that are renewed while their order lasts, so that the lease can be short and the order
 * long. The lock is the re-entrant one; what differs is who renews, for how long, and whose lock.
 */
#include "strategies/strategies.h"

#include "common/clock.h"
#include "embedded.h"
#include "strategies/hand.h"
#include "strategies/renewal.h"

#include <hiredis/hiredis.h>
#include <stdio.h>

static enum entry enter_reentrant(struct seller *seller, struct order *order)
{
    hand_name_owner(seller, order);
    return hand_wait(seller, order, hand_reenter, PAUSE_LONG_US);
}

/* ===== renew-inline ===== */

/* FLAW: the method that gets the lock goes on to renew it, every third of the lease, for as long as
 * it is held; and it is held until the order, which waits for this very method to return, is done.
 * Nothing is ever sold. Where the tutorial's thread would hang for ever the shop cuts it off when
 * the order's patience is over; the lock is left to its lease, as it is when a thread is killed. */
static enum entry enter_and_renew(struct seller *seller, struct order *order)
{
    enum entry entry = enter_reentrant(seller, order);
    if (entry != ENTERED) {
        return entry;
    }
    int64_t third_us = hand_lease_ms(seller) * 1000 / 3;
    enum attempt renewed = ATTEMPT_GOT;
    while (renewed == ATTEMPT_GOT && now_us() + third_us < order->deadline_us &&
           !shop_is_closing(seller->shop)) {
        hand_sleep(seller, third_us);
        renewed = hand_read(
            order, hand_run(seller, &embedded_strategies_renew_own_lua, order->ticket.owner));
    }
    if (renewed == ATTEMPT_GOT) {
        hand_sleep(seller, order->deadline_us - now_us());
        snprintf(order->why, sizeof order->why,
            "the lock was had, and renewed until the order's patience was over: nobody was left "
            "to sell");
    }
    return renewed == ATTEMPT_AWAY ? ENTRY_UNAVAILABLE : ENTRY_BUSY;
}

const struct strategy strategy_renew_inline = {
    .name = "renew-inline",
    .title = "renewal in the caller's own thread",
    .flaw = "the thread that should sell is busy renewing, and the shop sells nothing",
    .enter = enter_and_renew,
    .leave = hand_release_once,
};

/* ===== renew-ownerless ===== */

/* FLAW: asks whether there is a lock, not whose. And nothing ends it at the release: a third of the
 * lease later it finds the lock of another and renews that, and so on for as long as anybody sells.
 * If a seller dies inside now, the living keep its lock alive: for ever. */
static bool open_ownerless(struct shop *shop, void **state_out, char *why, size_t why_size)
{
    *state_out = renewals_open(shop, &embedded_strategies_renew_any_lua, why, why_size);
    return *state_out != NULL;
}

static void close_renewals(struct shop *shop, void *state)
{
    (void)shop;
    renewals_close(state);
}

static enum entry enter_ownerless(struct seller *seller, struct order *order)
{
    enum entry entry = enter_reentrant(seller, order);
    if (entry == ENTERED) {
        renewal_begin(strategy_state(seller->shop, order->strategy), order->ticket.owner, true);
    }
    return entry;
}

const struct strategy strategy_renew_ownerless = {
    .name = "renew-ownerless",
    .title = "renewal of whatever lock there is",
    .flaw = "it outlives its order and renews the locks of others: that of a dead seller stays for "
            "as long as a living one renews it",
    .open = open_ownerless,
    .close = close_renewals,
    .enter = enter_ownerless,
    .leave = hand_release_once,
};

/* ===== renewed ===== */

/* FLAW: the best that is written by hand: renewed by a timer, every third of the lease, only if it
 * is still ours, and not after the release. A seller that is stopped for longer than the lease
 * cannot renew, though, and still writes when it wakes up; nobody refuses what it writes. And whose
 * turn it is after 50 ms of sleep is a matter of luck. */
static bool open_renewed(struct shop *shop, void **state_out, char *why, size_t why_size)
{
    *state_out = renewals_open(shop, &embedded_strategies_renew_own_lua, why, why_size);
    return *state_out != NULL;
}

static enum entry enter_renewed(struct seller *seller, struct order *order)
{
    enum entry entry = enter_reentrant(seller, order);
    if (entry != ENTERED) {
        return entry;
    }
    struct renewals *renewals = strategy_state(seller->shop, order->strategy);
    order->ticket.own = renewal_begin(renewals, order->ticket.owner, false);
    if (order->ticket.own == NULL) {
        hand_release_once(seller, order);
        snprintf(order->why, sizeof order->why, "out of memory");
        return ENTRY_FAILED;
    }
    return ENTERED;
}

static void leave_renewed(struct seller *seller, struct order *order)
{
    renewal_end(strategy_state(seller->shop, order->strategy), order->ticket.own);
    order->ticket.own = NULL;
    hand_release_once(seller, order);
}

const struct strategy strategy_renewed = {
    .name = "renewed",
    .title = "re-entrant, renewed by a timer",
    .flaw = "a seller that is stopped for longer than the lease writes late when it wakes up, and "
            "nobody refuses it",
    .open = open_renewed,
    .close = close_renewals,
    .enter = enter_renewed,
    .leave = leave_renewed,
};
