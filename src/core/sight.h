/* SPDX-License-Identifier: Apache-2.0 */
/* What a watch remembers (observe.h): the holds that were seen, by name. One hold takes a few
 * hundred bytes and not the whole of a pawl_entry.
 *
 * When a look finds that a lock was released, the message that says so may still be on its way, and
 * must not be taken for another release then: it is *owed*. A name that nobody holds is kept for a
 * moment for the sake of that. */
#ifndef PAWL_CORE_SIGHT_H
#define PAWL_CORE_SIGHT_H

#include "base/map.h"
#include "pawl.h"

/* One hold as it was last seen. */
struct pawl__sight {
    struct pawl__sight *next; /* another hold of the same name */
    pawl_kind kind;
    unsigned hold_count;
    int64_t remaining_ms;
    int64_t since_ms;
    int64_t waiters;
    int64_t pid;
    uint64_t token;
    int64_t permits;
    int64_t free_permits;
    int64_t seen_us;
    uint64_t round;     /* of the look that saw it last */
    const char *holder; /* these three point into `text` */
    const char *host;
    const char *command;
    char text[];
};

/* A name that is held, or of which messages are owed. */
struct pawl__spot {
    struct pawl__map_node node;
    struct pawl__sight *sights; /* NULL: nobody holds it */
    unsigned owed_count;        /* messages */
    int64_t owed_us;            /* since when, at the latest */
    char name[];
};

/* NULL: no memory. */
struct pawl__sight *pawl__sight_new(const pawl_entry *entry);

/* What may change while the holder stays the same. */
void pawl__sight_update(
    struct pawl__sight *sight, const pawl_entry *entry, uint64_t round, int64_t now_us);

/* All but the name. */
void pawl__sight_show(const struct pawl__sight *sight, pawl_entry *entry);

static inline struct pawl__spot *pawl__spot_of(struct pawl__map_node *node)
{
    return (struct pawl__spot *)(void *)node; /* it is the first member */
}

/* NULL: there is none; or, when adding, no memory. */
struct pawl__spot *pawl__spot_find(const struct pawl__map *spots, const char *name);
struct pawl__spot *pawl__spot_add(struct pawl__map *spots, const char *name);
struct pawl__sight *pawl__spot_sight(const struct pawl__spot *spot, const char *holder);

/* With all that was seen there. */
void pawl__spot_drop(struct pawl__map *spots, struct pawl__spot *spot);

void pawl__text_copy(char *to, size_t to_size, const char *from);

#endif
