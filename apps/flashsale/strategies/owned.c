/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Locks that end by themselves: SET key owner NX PX lease, one command. A seller that dies costs a
 * lease, not the evening. The new question is whose lock it is that one deletes: an order that took
 * longer than the lease comes back when another is inside.
 *
 * All of them share one flaw: nothing keeps an order that takes longer than its lease from going on
 * without a lock.
 */
#include "strategies/strategies.h"

#include "strategies/hand.h"

#include <hiredis/hiredis.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static enum entry enter_with_lease(struct seller *seller, struct order *order)
{
    hand_name_owner(seller, order);
    return hand_wait(seller, order, hand_set_with_lease, PAUSE_SHORT_US);
}

/* ===== set-nx-ex ===== */

/* FLAW: a plain DEL. Who comes back after the end of the lease deletes the lock of the next one,
 * and lets a third in beside it, who deletes ... : from one slow order on, nobody is ever alone. */
const struct strategy strategy_set_nx_ex = {
    .name = "set-nx-ex",
    .title = "SET NX EX, plain DEL",
    .flaw = "an order that takes longer than the lease deletes the next one's lock: pieces are "
            "sold twice",
    .enter = enter_with_lease,
    .leave = hand_delete,
};

/* ===== owner-check ===== */

/* FLAW: looks whose lock it is before deleting it, but in two commands. If the lease ends between
 * them, it deletes the next one's lock after all. */
static void leave_checking(struct seller *seller, struct order *order)
{
    struct redisReply *reply = seller_ask_lock(seller, "GET %s", SHOP_LOCK_NAME);
    bool own = reply != NULL && reply->type == REDIS_REPLY_STRING &&
               strcmp(reply->str, order->ticket.owner) == 0;
    freeReplyObject(reply);
    if (own) {
        shop_gap(seller->shop, order);
        hand_delete(seller, order);
    }
}

const struct strategy strategy_owner_check = {
    .name = "owner-check",
    .title = "SET NX EX, owner checked, then DEL",
    .flaw = "between the check and the DEL the lease can end: then the next one's lock is deleted",
    .enter = enter_with_lease,
    .leave = leave_checking,
};

/* ===== owner-shared ===== */

/* FLAW: the lock is one object of the program, and keeps its owner in a field. So all threads share
 * it: the next one who comes overwrites the owner of the one inside, who then does not recognize
 * its own lock, leaves it, and everybody waits for the lease to end. And after a slow order the
 * field has the name of the one inside, so that the check approves of deleting another's lock.
 *
 * The mutex keeps the letters of a name together. Nothing keeps the names apart. */
static struct {
    pthread_mutex_t mutex;
    char owner[80];
} shared = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static void shared_write(const char *owner)
{
    pthread_mutex_lock(&shared.mutex);
    snprintf(shared.owner, sizeof shared.owner, "%s", owner);
    pthread_mutex_unlock(&shared.mutex);
}

static void shared_read(char *owner_out, size_t size)
{
    pthread_mutex_lock(&shared.mutex);
    snprintf(owner_out, size, "%s", shared.owner);
    pthread_mutex_unlock(&shared.mutex);
}

static enum attempt set_with_shared_owner(struct seller *seller, struct order *order)
{
    shared_read(order->ticket.owner, sizeof order->ticket.owner);
    return hand_set_with_lease(seller, order);
}

static enum entry enter_shared(struct seller *seller, struct order *order)
{
    hand_name_owner(seller, order);
    shared_write(order->ticket.owner);
    return hand_wait(seller, order, set_with_shared_owner, PAUSE_SHORT_US);
}

static void leave_shared(struct seller *seller, struct order *order)
{
    (void)order;
    char owner[sizeof shared.owner];
    shared_read(owner, sizeof owner);
    hand_delete_own(seller, owner);
}

const struct strategy strategy_owner_shared = {
    .name = "owner-shared",
    .title = "owner kept in a shared field",
    .flaw = "each order overwrites the owner of the one inside, which cannot release its lock any "
            "more: all wait for the lease to end",
    .enter = enter_shared,
    .leave = leave_shared,
};

/* ===== lua-release ===== */

/* FLAW: the release is right now: a script compares and deletes in one step. What is left is the
 * lease: an order that takes longer sells beside the next one. */
static void leave_by_script(struct seller *seller, struct order *order)
{
    hand_delete_own(seller, order->ticket.owner);
}

const struct strategy strategy_lua_release = {
    .name = "lua-release",
    .title = "SET NX EX, released by a script",
    .flaw = "an order that takes longer than the lease sells beside the next one; and who holds "
            "the lock cannot take it again",
    .enter = enter_with_lease,
    .leave = leave_by_script,
};
