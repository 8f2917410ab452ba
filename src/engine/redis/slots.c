/* SPDX-License-Identifier: Apache-2.0 */
/* The rarer half of the ring of slots; slots.h has the rest. */
#include "engine/redis/slots.h"

#include "base/alloc.h"

enum { CAPACITY_MIN = 64, CAPACITY_KEPT = 128 };

void pawl__slots_init(struct pawl__slots *slots)
{
    *slots = (struct pawl__slots){.ordered = true};
}

void pawl__slots_free(struct pawl__slots *slots)
{
    pawl__free(slots->ring);
    pawl__slots_init(slots);
}

bool pawl__slots_grow(struct pawl__slots *slots)
{
    const size_t capacity = slots->capacity == 0 ? CAPACITY_MIN : 2 * slots->capacity;
    if (capacity > PAWL__SLOTS_MAX) {
        return false;
    }
    struct pawl__slot *ring = pawl__alloc(capacity * sizeof *ring);
    if (ring == NULL) {
        return false;
    }
    for (size_t i = 0; i < slots->count; i++) {
        ring[i] = *pawl__slots_at(slots, i);
    }
    pawl__free(slots->ring);
    slots->ring = ring;
    slots->capacity = capacity;
    slots->head = 0;
    return true;
}

bool pawl__slots_spacious(const struct pawl__slots *slots)
{
    return slots->capacity > CAPACITY_KEPT;
}

void pawl__slots_trim(struct pawl__slots *slots)
{
    if (!pawl__slots_spacious(slots) || slots->count > 0) {
        return;
    }
    struct pawl__slot *ring = pawl__realloc(slots->ring, CAPACITY_KEPT * sizeof *ring);
    if (ring != NULL) {
        slots->ring = ring;
        slots->capacity = CAPACITY_KEPT;
        slots->head = 0;
    }
}

void pawl__slots_want_all(struct pawl__slots *slots)
{
    for (size_t i = 0; i < slots->count; i++) {
        struct pawl__slot *slot = pawl__slots_at(slots, i);
        if (slot->lazy) {
            slot->lazy = false;
            slot->orphan = true;
            slots->awaited_count++;
            slots->orphan_count++;
        }
    }
}

int64_t pawl__slots_due_unordered(const struct pawl__slots *slots)
{
    int64_t due_us = PAWL__NEVER;
    for (size_t i = 0; i < slots->count; i++) {
        due_us = pawl__min64(due_us, pawl__slots_at(slots, i)->deadline_us);
    }
    return due_us;
}
