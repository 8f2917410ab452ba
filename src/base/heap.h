/* SPDX-License-Identifier: Apache-2.0 */
/* Timers in order of their time: a pairing heap threaded through its members, so that arming a
 * timer needs no memory and cannot fail. Equal times come out in the order they were armed, which
 * keeps simulations reproducible. */
#ifndef PAWL_BASE_HEAP_H
#define PAWL_BASE_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pawl__timer {
    int64_t due_us;
    struct pawl__timer *child; /* the first of this node's children */
    struct pawl__timer *next;  /* the next sibling */
    struct pawl__timer *prev;  /* the previous sibling, or the parent of a first child */
    uint64_t order : 48;       /* breaks ties: first armed, first out */
    uint64_t kind : 8;         /* the owner's: what the timer is for */
    bool armed : 1;
};

struct pawl__heap {
    struct pawl__timer *root;
    uint64_t order;
};

/* Arm a timer, or move it if it is armed already. PAWL__NEVER disarms it. */
void pawl__timer_set(struct pawl__heap *heap, struct pawl__timer *timer, int64_t due_us);
void pawl__timer_clear(struct pawl__heap *heap, struct pawl__timer *timer);

/* The earliest timer, or NULL. */
static inline struct pawl__timer *pawl__heap_first(const struct pawl__heap *heap)
{
    return heap->root;
}

#endif
