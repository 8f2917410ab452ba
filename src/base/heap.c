/* SPDX-License-Identifier: Apache-2.0 */
/* Pairing heap: insert is one comparison, removal pairs up the children from left to right and then
 * folds them from right to left, which gives logarithmic cost on the average. */
#include "base/heap.h"

#include "base/clock.h"

#include <assert.h>

#define ORDER_MAX ((UINT64_C(1) << 48) - 1)

static bool before(const struct pawl__timer *a, const struct pawl__timer *b)
{
    return a->due_us < b->due_us || (a->due_us == b->due_us && a->order < b->order);
}

/* Join two heaps; the later root becomes the first child of the earlier one. */
static struct pawl__timer *meld(struct pawl__timer *a, struct pawl__timer *b)
{
    if (a == NULL || b == NULL) {
        return a != NULL ? a : b;
    }
    if (before(b, a)) {
        struct pawl__timer *swap = a;
        a = b;
        b = swap;
    }
    b->prev = a;
    b->next = a->child;
    if (b->next != NULL) {
        b->next->prev = b;
    }
    a->child = b;
    a->next = NULL;
    a->prev = NULL;
    return a;
}

/* Join a row of siblings into one heap. */
static struct pawl__timer *meld_row(struct pawl__timer *row)
{
    struct pawl__timer *pairs = NULL; /* a stack, linked by next */
    while (row != NULL) {
        struct pawl__timer *a = row;
        struct pawl__timer *b = a->next;
        row = b != NULL ? b->next : NULL;
        a->next = NULL;
        if (b != NULL) {
            b->next = NULL;
        }
        struct pawl__timer *pair = meld(a, b);
        pair->next = pairs;
        pairs = pair;
    }

    struct pawl__timer *root = NULL;
    while (pairs != NULL) {
        struct pawl__timer *next = pairs->next;
        pairs->next = NULL;
        root = meld(root, pairs);
        pairs = next;
    }
    return root;
}

void pawl__timer_clear(struct pawl__heap *heap, struct pawl__timer *timer)
{
    if (!timer->armed) {
        return;
    }
    struct pawl__timer *rest = meld_row(timer->child);
    if (timer == heap->root) {
        heap->root = rest;
    } else {
        if (timer->prev->child == timer) {
            timer->prev->child = timer->next;
        } else {
            timer->prev->next = timer->next;
        }
        if (timer->next != NULL) {
            timer->next->prev = timer->prev;
        }
        heap->root = meld(heap->root, rest);
    }
    timer->child = NULL;
    timer->next = NULL;
    timer->prev = NULL;
    timer->armed = false;
}

void pawl__timer_set(struct pawl__heap *heap, struct pawl__timer *timer, int64_t due_us)
{
    pawl__timer_clear(heap, timer);
    if (due_us == PAWL__NEVER) {
        return;
    }
    timer->due_us = due_us;
    timer->order = heap->order++ & ORDER_MAX;
    timer->armed = true;
    heap->root = meld(heap->root, timer);
}
