/* SPDX-License-Identifier: Apache-2.0 */
/* The replies that a connection owes us: one slot for each command sent, first in, first out.
 *
 * A slot knows whose the answer is. It lives in a ring that grows when it must and is kept, so
 * nothing is allocated in the steady state; what only a rush has needed is given back. No locks:
 * the connection's mutex guards it. */
#ifndef PAWL_ENGINE_REDIS_SLOTS_H
#define PAWL_ENGINE_REDIS_SLOTS_H

#include "base/clock.h"
#include "core/engine.h"

#include <assert.h>

enum { PAWL__SLOTS_MAX = 64 << 10 }; /* commands without an answer on one connection */

/* Asks for the rights on a place, outside of the operations. */
struct pawl__rights_check;

struct pawl__slot {
    struct pawl__op *ops; /* one, or those of one script, linked by next; NULL: a check, or,
                             without one, who we are (introduce.h) */
    struct pawl__rights_check *check;
    uint64_t begin;      /* position of its first byte, see link.h */
    int64_t deadline_us; /* of the first of them to end */
    bool whole;          /* the script's text was sent, not its SHA-1 */
    bool lazy;           /* nobody waits for the answer */
    bool orphan;         /* somebody does, but does not drive */
};

struct pawl__slots {
    struct pawl__slot *ring;
    size_t capacity; /* a power of two, or 0 */
    size_t head;     /* index of the oldest */
    size_t count;
    size_t awaited_count; /* that are not lazy */
    size_t orphan_count;
    bool ordered; /* no slot ends before an older one */
};

void pawl__slots_init(struct pawl__slots *slots);
void pawl__slots_free(struct pawl__slots *slots);

__attribute__((warn_unused_result)) bool pawl__slots_grow(struct pawl__slots *slots);

/* Whether a rush has needed more than is kept; and give that back, if nothing is owed. */
bool pawl__slots_spacious(const struct pawl__slots *slots);
void pawl__slots_trim(struct pawl__slots *slots);

/* Somebody waits for the lazy ones too, from now on, but does not drive. */
void pawl__slots_want_all(struct pawl__slots *slots);

/* When the first of them ends if they are not ordered. */
int64_t pawl__slots_due_unordered(const struct pawl__slots *slots);

static inline struct pawl__slot *pawl__slots_at(const struct pawl__slots *slots, size_t index)
{
    return &slots->ring[(slots->head + index) & (slots->capacity - 1)];
}

/* Room for one more; false: no memory, or too many. */
__attribute__((warn_unused_result)) static inline bool pawl__slots_reserve(
    struct pawl__slots *slots)
{
    return slots->count < slots->capacity || pawl__slots_grow(slots);
}

/* After a reserve. */
static inline void pawl__slots_push(struct pawl__slots *slots, const struct pawl__slot *slot)
{
    assert(slots->count < slots->capacity);
    slots->ordered = slots->count == 0 ||
                     (slots->ordered &&
                         slot->deadline_us >= pawl__slots_at(slots, slots->count - 1)->deadline_us);
    *pawl__slots_at(slots, slots->count) = *slot;
    slots->count++;
    slots->awaited_count += slot->lazy ? 0 : 1;
    slots->orphan_count += slot->orphan ? 1 : 0;
}

/* The oldest one, which must exist, taken out. */
static inline struct pawl__slot pawl__slots_pop(struct pawl__slots *slots)
{
    assert(slots->count > 0);
    const struct pawl__slot slot = *pawl__slots_at(slots, 0);
    slots->head = (slots->head + 1) & (slots->capacity - 1);
    slots->count--;
    slots->awaited_count -= slot.lazy ? 0 : 1;
    slots->orphan_count -= slot.orphan ? 1 : 0;
    return slot;
}

/* When the first of them ends; PAWL__NEVER if there is none. */
static inline int64_t pawl__slots_due(const struct pawl__slots *slots)
{
    if (slots->count == 0) {
        return PAWL__NEVER;
    }
    return slots->ordered ? pawl__slots_at(slots, 0)->deadline_us
                          : pawl__slots_due_unordered(slots);
}

#endif
