/* SPDX-License-Identifier: Apache-2.0 */
/* What a call on a multi-lock asks next; multi.h tells the idea. Pure: it is given the time and the
 * answers, so a test can be the driver.
 *
 * An acquire that can be asked as one is: that is its only round, and UNDO after a fault. Any
 * other, and one that has waited as one for long enough, which is no time at all if a member is
 * fair, goes through rounds, of which the first then ends before the member that is not free:
 *
 *   TRY ──all given──> done
 *    │ ^
 *    │ └──────────────given── WAIT <──── YIELD
 *    ├─ one is not free, and there is time ─┘ (nothing to give back: straight to WAIT)
 *    └─ out of time, or another trouble (also in WAIT) ──> UNDO ──> failed
 *
 * Every other call is one round of one question to each member, whatever the others answer. */
#include "compound/multi.h"

#include "base/clock.h"

#include <stdio.h>

/* Worse things first; what is not listed (OK) is no trouble. A loss is what the caller has to know
 * before all else: others may have run. */
static const pawl_status worst_first[] = {
    PAWL_LOST,
    PAWL_UNAVAILABLE,
    PAWL_DENIED,
    PAWL_PROTOCOL,
    PAWL_NO_MEMORY,
    PAWL_REFUSED,
    PAWL_MISUSE,
    PAWL_INVALID,
    PAWL_UNSUPPORTED,
    PAWL_CANCELED,
    PAWL_DEADLOCK,
    PAWL_BUSY,
    PAWL_NOT_HELD,
};

#define WHOLE_US 1000000 /* to wait for all of them as one, at most */

static size_t rank(pawl_status status)
{
    const size_t count = sizeof worst_first / sizeof worst_first[0];
    for (size_t i = 0; i < count; i++) {
        if (worst_first[i] == status) {
            return i;
        }
    }
    return count;
}

void pawl__multi_answer(
    struct pawl__multi_call *call, size_t slot, pawl_status status, const char *error)
{
    call->slots[slot].status = status;
    if (status == PAWL_OK || call->slots[slot].spared) {
        return;
    }
    bool all = call->stage == PAWL__MULTI_ALL;
    bool first = call->error_slot == call->count;
    bool before = !first && (all ? rank(status) < rank(call->slots[call->error_slot].status)
                                 : slot < call->error_slot);
    if (first || before) {
        call->error_slot = slot;
        snprintf(call->error, sizeof call->error, "%s", error);
    }
}

/* Prepare a round: nothing is asked yet. */
static void begin(struct pawl__multi_call *call, enum pawl__multi_stage stage,
    enum pawl__request_kind ask, int64_t wait_us)
{
    call->stage = stage;
    call->ask = ask;
    call->ask_wait_us = wait_us;
    call->error_slot = call->count;
    for (size_t i = 0; i < call->count; i++) {
        call->slots[i].asked = false;
        call->slots[i].spared = false;
    }
}

/* Ask everything from here on that has been acquired, or that has not. */
static bool mark(struct pawl__multi_call *call, size_t from, bool has)
{
    bool any = false;
    for (size_t i = from; i < call->count; i++) {
        call->slots[i].asked = call->slots[i].has == has;
        any = any || call->slots[i].asked;
    }
    return any;
}

static void blame(struct pawl__multi_call *call, pawl_status status, size_t slot)
{
    call->status = status;
    call->culprit = slot;
    snprintf(call->reason, sizeof call->reason, "%s", call->error);
}

static bool undo(struct pawl__multi_call *call)
{
    begin(call, PAWL__MULTI_UNDO, PAWL__WANT_RELEASE, 0);
    return mark(call, 0, true);
}

static bool try_rest(struct pawl__multi_call *call)
{
    begin(call, PAWL__MULTI_TRY, PAWL__WANT_ACQUIRE, 0);
    return mark(call, 0, false);
}

static int64_t wait_left_us(const struct pawl__multi_call *call, int64_t now_us)
{
    return call->until_us == PAWL__NEVER ? PAWL__NEVER : pawl__max64(call->until_us - now_us, 0);
}

/* Not for ever: a set that is never free as a whole can be had one by one. And who waits for a fair
 * member has to stand in its queue, which nobody can for a whole set. */
static bool try_whole(struct pawl__multi_call *call, int64_t now_us)
{
    const int64_t most_us = call->queues ? 0 : WHOLE_US;
    const int64_t wait_us = pawl__min64(wait_left_us(call, now_us), most_us);
    begin(call, PAWL__MULTI_WHOLE, PAWL__WANT_ACQUIRE, wait_us);
    return mark(call, 0, false);
}

/* False: no time is left. */
static bool wait_for_next(struct pawl__multi_call *call, int64_t now_us)
{
    if (call->until_us <= now_us) {
        return false;
    }
    begin(call, PAWL__MULTI_WAIT, PAWL__WANT_ACQUIRE, wait_left_us(call, now_us));
    call->slots[call->next].asked = true;
    return true;
}

static bool patience_helps(pawl_status status)
{
    return status == PAWL_BUSY || status == PAWL_UNAVAILABLE;
}

/* Slot `next` could not be had at once. Nothing that comes after it may be kept while we wait. */
static bool make_way(struct pawl__multi_call *call, int64_t now_us)
{
    pawl_status status = call->slots[call->next].status;
    blame(call, status, call->next);
    if (!patience_helps(status) || call->until_us <= now_us) {
        return undo(call);
    }
    begin(call, PAWL__MULTI_YIELD, PAWL__WANT_RELEASE, 0);
    return mark(call, call->next, true) || wait_for_next(call, now_us) || undo(call);
}

static void note_grants(struct pawl__multi_call *call)
{
    for (size_t i = 0; i < call->count; i++) {
        struct pawl__multi_slot *slot = &call->slots[i];
        slot->has = slot->has || (slot->asked && slot->status == PAWL_OK);
    }
    call->next = call->count;
    for (size_t i = call->count; i-- > 0;) {
        const struct pawl__multi_slot *slot = &call->slots[i];
        const bool none = call->next == call->count || call->slots[call->next].spared;
        if (!slot->has && (!slot->spared || none)) {
            call->next = i;
        }
    }
}

static void note_returns(struct pawl__multi_call *call)
{
    for (size_t i = 0; i < call->count; i++) {
        struct pawl__multi_slot *slot = &call->slots[i];
        slot->has = slot->has && !slot->asked;
    }
}

/* The backend has just said which one it is: nothing behind that is worth asking for yet. */
static bool go_on_apart(struct pawl__multi_call *call, int64_t now_us)
{
    bool any = false;
    begin(call, PAWL__MULTI_TRY, PAWL__WANT_ACQUIRE, 0);
    for (size_t i = 0; i < call->next; i++) {
        call->slots[i].asked = !call->slots[i].has;
        any = any || call->slots[i].asked;
    }
    return any || make_way(call, now_us);
}

static bool granted_whole(struct pawl__multi_call *call, int64_t now_us)
{
    note_grants(call);
    if (call->next < call->count) {
        const pawl_status status = call->slots[call->next].status;
        blame(call, status, call->next);
        call->apart = patience_helps(status) && call->until_us > now_us;
        return call->apart ? go_on_apart(call, now_us) : undo(call);
    }
    call->status = PAWL_OK;
    return false;
}

static bool granted_some(struct pawl__multi_call *call, int64_t now_us)
{
    note_grants(call);
    if (call->next < call->count) {
        return make_way(call, now_us);
    }
    call->status = PAWL_OK;
    return false;
}

static bool waited(struct pawl__multi_call *call)
{
    const size_t awaited = call->next;
    note_grants(call);
    if (!call->slots[awaited].has) {
        blame(call, call->slots[awaited].status, awaited);
        return undo(call);
    }
    call->status = PAWL_OK;
    call->apart = true;
    return try_rest(call);
}

static bool first_round(struct pawl__multi_call *call, int64_t now_us)
{
    if (call->kind == PAWL__WANT_ACQUIRE) {
        return call->whole ? try_whole(call, now_us) : try_rest(call);
    }
    begin(call, PAWL__MULTI_ALL, call->kind, 0);
    return mark(call, 0, false);
}

void pawl__multi_fail_lost(struct pawl__multi_call *call, size_t slot, const char *name)
{
    snprintf(call->error, sizeof call->error,
        "lock '%s' was lost while the others were waited for; make its lease longer than the wait, "
        "or let it be renewed",
        name);
    blame(call, PAWL_LOST, slot);
    undo(call);
}

bool pawl__multi_next(struct pawl__multi_call *call, int64_t now_us)
{
    switch (call->stage) {
    case PAWL__MULTI_BEGIN:
        return first_round(call, now_us);
    case PAWL__MULTI_WHOLE:
        return granted_whole(call, now_us);
    case PAWL__MULTI_TRY:
        return granted_some(call, now_us);
    case PAWL__MULTI_YIELD:
        note_returns(call);
        return wait_for_next(call, now_us) || undo(call);
    case PAWL__MULTI_WAIT:
        return waited(call);
    case PAWL__MULTI_UNDO:
        note_returns(call);
        return false;
    case PAWL__MULTI_ALL:
        if (call->error_slot < call->count) {
            blame(call, call->slots[call->error_slot].status, call->error_slot);
        }
        return false;
    }
    return false;
}
