/* SPDX-License-Identifier: Apache-2.0 */
/* A doubly linked list threaded through its members. A node that is in no list points to itself
 * (after pawl__list_init), so removing it again does nothing. */
#ifndef PAWL_BASE_LIST_H
#define PAWL_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct pawl__list {
    struct pawl__list *next;
    struct pawl__list *prev;
};

/* The struct that a member is embedded in. */
#define PAWL__CONTAINER(pointer, type, member) \
    ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

static inline void pawl__list_init(struct pawl__list *list)
{
    list->next = list;
    list->prev = list;
}

static inline bool pawl__list_empty(const struct pawl__list *list)
{
    return list->next == list;
}

static inline void pawl__list_insert(struct pawl__list *before, struct pawl__list *node)
{
    node->next = before;
    node->prev = before->prev;
    before->prev->next = node;
    before->prev = node;
}

static inline void pawl__list_push(struct pawl__list *list, struct pawl__list *node)
{
    pawl__list_insert(list, node);
}

static inline void pawl__list_push_front(struct pawl__list *list, struct pawl__list *node)
{
    pawl__list_insert(list->next, node);
}

static inline void pawl__list_remove(struct pawl__list *node)
{
    node->prev->next = node->next;
    node->next->prev = node->prev;
    pawl__list_init(node);
}

/* The first node, taken out; NULL if the list is empty. */
static inline struct pawl__list *pawl__list_pop(struct pawl__list *list)
{
    struct pawl__list *node = list->next;
    if (node == list) {
        return NULL;
    }
    pawl__list_remove(node);
    return node;
}

/* Move everything to the end of another list. */
static inline void pawl__list_splice(struct pawl__list *to, struct pawl__list *from)
{
    if (pawl__list_empty(from)) {
        return;
    }
    from->next->prev = to->prev;
    to->prev->next = from->next;
    from->prev->next = to;
    to->prev = from->prev;
    pawl__list_init(from);
}

#endif
