/* SPDX-License-Identifier: Apache-2.0 */
/* The second opinion on each operation: what it has to answer and may change, worked out from what
 * engine.h says, and not from how the table does it. */
#include "picture.h"

#include "base/clock.h"
#include "base/limits.h"

#include <string.h>

static void grant(
    struct sim_verdict *verdict, const struct sim_call *call, uint64_t id, int64_t now_us)
{
    bool shared = call->copy.place->family == PAWL__FAMILY_SHARED;
    verdict->after->holds[verdict->after->held++] = (struct sim_hold){.peer = sim_peer(call->uuid),
        .id = id,
        .count = 1,
        .reads = shared && call->copy.as == PAWL_READ,
        .expires_us = pawl__later(now_us, call->copy.lease_us)};
    verdict->answer = PAWL__DONE;
    verdict->grants = true;
}

static void lengthen(
    struct sim_verdict *verdict, struct sim_hold *hold, const struct sim_call *call, int64_t now_us)
{
    int64_t until_us = pawl__later(now_us, call->copy.lease_us);
    hold->expires_us = pawl__max64(hold->expires_us, until_us);
    verdict->answer = PAWL__DONE;
}

static void end_hold(struct sim_picture *picture, struct sim_hold *hold)
{
    size_t after = (size_t)(picture->holds + picture->held - hold) - 1;
    memmove(hold, hold + 1, after * sizeof *hold);
    picture->held--;
}

static void expect_pass(
    struct sim_verdict *verdict, const struct sim_call *call, bool offered, int64_t now_us)
{
    struct sim_hold *heir =
        sim_picture_find(verdict->after, sim_peer(call->uuid), call->copy.heir_id);
    struct sim_hold *hold = sim_picture_find(verdict->after, sim_peer(call->uuid), call->copy.id);
    if (heir != NULL) {
        lengthen(verdict, heir, call, now_us);
    } else if (hold == NULL) {
        verdict->answer = PAWL__GONE;
    } else if (call->copy.offer && offered) {
        end_hold(verdict->after, hold);
        verdict->answer = PAWL__LEFT;
    } else {
        end_hold(verdict->after, hold);
        grant(verdict, call, call->copy.heir_id, now_us);
    }
}

/* ----- The queue of a fair lock ----- */

static unsigned place_of(const struct sim_picture *picture, uint64_t peer, uint64_t id)
{
    unsigned i = 0;
    while (
        i < picture->line && (picture->waiters[i].id != id || picture->waiters[i].peer != peer)) {
        i++;
    }
    return i;
}

static void leave_line(struct sim_picture *picture, unsigned place)
{
    if (place < picture->line) {
        struct sim_waiter *waiter = &picture->waiters[place];
        memmove(waiter, waiter + 1, (--picture->line - place) * sizeof *waiter);
    }
}

/* Those in front who have not asked for too long are gone, unless it is this one, who asks. */
static void bury_first(struct sim_picture *picture, uint64_t peer, uint64_t id, int64_t now_us)
{
    while (picture->line > 0 && picture->waiters[0].dead_us <= now_us &&
           place_of(picture, peer, id) != 0) {
        leave_line(picture, 0);
    }
}

static void stand(struct sim_picture *picture, uint64_t peer, uint64_t id, int64_t now_us)
{
    unsigned place = place_of(picture, peer, id);
    int64_t dead_us = pawl__later(now_us, PAWL__FAIR_WAIT_US);
    if (place < picture->line) {
        dead_us = pawl__max64(dead_us, picture->waiters[place].dead_us);
    } else {
        picture->line++;
    }
    picture->waiters[place] = (struct sim_waiter){peer, id, dead_us};
}

/* Whether it is its turn. */
static bool expect_turn(struct sim_verdict *verdict, const struct sim_call *call, int64_t now_us)
{
    struct sim_picture *after = verdict->after;
    uint64_t peer = sim_peer(call->uuid);
    bury_first(after, peer, call->copy.id, now_us);
    bool mine = sim_picture_find(after, peer, call->copy.id) != NULL;
    bool first = after->line == 0 || place_of(after, peer, call->copy.id) == 0;
    if (mine || (after->held == 0 && first)) {
        leave_line(after, place_of(after, peer, call->copy.id));
        return true;
    }
    if (call->copy.queue) {
        stand(after, peer, call->copy.id, now_us);
    }
    verdict->answer = PAWL__HELD;
    return false;
}

static void expect_leave(struct sim_verdict *verdict, const struct sim_call *call, int64_t now_us)
{
    struct sim_picture *after = verdict->after;
    unsigned place = place_of(after, sim_peer(call->uuid), call->copy.id);
    bool first = place == 0 && after->line > 0;
    leave_line(after, place);
    if (after->held == 0 && (first || verdict->answer == PAWL__DONE)) {
        bury_first(after, UINT64_MAX, 0, now_us);
    }
}

/* ----- All ----- */

static void expect_acquire(struct sim_verdict *verdict, const struct sim_call *call, int64_t now_us)
{
    struct sim_picture *after = verdict->after;
    enum pawl__family family = call->copy.place->family;
    bool reads = family == PAWL__FAMILY_SHARED && call->copy.as == PAWL_READ;
    struct sim_hold *mine = sim_picture_find(after, sim_peer(call->uuid), call->copy.id);
    if (family == PAWL__FAMILY_FAIR && !expect_turn(verdict, call, now_us)) {
        return;
    }
    if (mine != NULL && mine->reads == reads) {
        lengthen(verdict, mine, call, now_us);
    } else if (mine != NULL || (after->held > 0 && !(reads && after->holds[0].reads))) {
        verdict->answer = PAWL__HELD;
    } else {
        grant(verdict, call, call->copy.id, now_us);
    }
}

static void expect_renew(
    struct sim_verdict *verdict, struct sim_hold *mine, const struct sim_call *call, int64_t now_us)
{
    lengthen(verdict, mine, call, now_us);
    if (call->copy.place->family == PAWL__FAMILY_SHARED && call->copy.as == PAWL_READ) {
        mine->count = mine->reads ? mine->count : 1;
        mine->reads = true;
    }
}

void sim_opinion(
    struct sim_verdict *verdict, const struct sim_call *call, bool offered, int64_t now_us)
{
    struct sim_picture *after = verdict->after;
    struct sim_hold *mine = sim_picture_find(after, sim_peer(call->uuid), call->copy.id);
    verdict->answer = mine != NULL ? PAWL__DONE : PAWL__GONE;
    switch (call->copy.kind) {
    case PAWL__OP_ACQUIRE:
        expect_acquire(verdict, call, now_us);
        break;
    case PAWL__OP_RENEW:
        if (mine != NULL) {
            expect_renew(verdict, mine, call, now_us);
        }
        break;
    case PAWL__OP_COUNT:
        if (mine != NULL && !mine->reads) {
            mine->count = call->copy.count;
        }
        break;
    case PAWL__OP_RELEASE:
        if (mine != NULL) {
            end_hold(after, mine);
        }
        if (call->copy.place->family == PAWL__FAMILY_FAIR) {
            expect_leave(verdict, call, now_us);
        }
        break;
    case PAWL__OP_PASS:
        expect_pass(verdict, call, offered, now_us);
        break;
    case PAWL__OP_BREAK:
        verdict->answer = after->held > 0 ? PAWL__DONE : PAWL__GONE;
        if (after->held > 0 && call->copy.place->family == PAWL__FAMILY_FAIR) {
            bury_first(after, UINT64_MAX, 0, now_us);
        }
        after->held = 0;
        break;
    case PAWL__OP_INSPECT:
    case PAWL__OP_TALLY:
    case PAWL__OP_RAISE:
    case PAWL__OP_WATCH:
    case PAWL__OP_UNWATCH:
        verdict->answer = PAWL__DONE;
        break;
    case PAWL__OP_VERIFY:
        break;
    }
}
