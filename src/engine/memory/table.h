/* SPDX-License-Identifier: Apache-2.0 */
/* A backend as native functions over a table.
 *
 * The table does what the scripts of a server do: it gives a lock to one tenure at a time, ends
 * leases by its own clock, counts tokens, and knows who watches which name. Time is an argument and
 * nothing else comes from outside, so the same code is the memory engine (memory.c, with the real
 * clock) and the backend of the simulator (tests/sim, with a clock that jumps). The tests of the
 * other engines compare with what this one does.
 *
 * It has no lock of its own: whoever shares a table guards it. Only acquire and watch need memory;
 * without it they fail and nothing has changed. */
#ifndef PAWL_MEMORY_TABLE_H
#define PAWL_MEMORY_TABLE_H

#include "base/list.h"
#include "base/map.h"
#include "base/random.h"
#include "core/engine.h"

struct pawl__memory_table {
    struct pawl__map entries;
    struct pawl__map counts; /* of semaphores and latches; see table_tally.h */
    struct pawl__list due;   /* watches whose clients have yet to be woken */
    uint64_t token_floor;    /* the greatest token of entries that were dropped */
};

/* One name. It is dropped when nobody holds it, waits in its queue, or watches it. */
struct pawl__memory_entry {
    struct pawl__map_node node;
    char *name;
    bool held;      /* to be believed only before expires_us */
    pawl_kind kind; /* of the last grant */
    unsigned count;
    char uuid[PAWL__UUID_SIZE + 1]; /* of the holder's client, */
    uint64_t id;                    /* and which of its tenures; nobody's if there are shares */
    uint64_t token;                 /* the first one of the last grant; 0: none yet */
    uint64_t token_more;            /* how many more that grant was given */
    int64_t expires_us;             /* of shares, of the one that lasts longest */
    struct pawl__list shares;       /* who read, or who writes, a read/write lock */
    struct pawl__list watches;
    struct pawl__list queue; /* of a fair lock, the next one first */
};

/* Who stands in a queue; see table_fair.h. */
struct pawl__memory_waiter {
    struct pawl__list node;
    char uuid[PAWL__UUID_SIZE + 1];
    uint64_t id;
    int64_t dead_us; /* from when on it counts as dead, unless it asks again */
};

/* One hold of a read/write lock. There are any number that read, or one that writes. */
struct pawl__memory_share {
    struct pawl__list node; /* in the entry's */
    char uuid[PAWL__UUID_SIZE + 1];
    uint64_t id;
    uint64_t token;
    int64_t expires_us;
    unsigned count;
    bool writes;
};

static inline struct pawl__memory_share *pawl__memory_share_of(struct pawl__list *node)
{
    return PAWL__CONTAINER(node, struct pawl__memory_share, node);
}

/* A client, as the table knows it. */
struct pawl__memory_client {
    const char *uuid;
    struct pawl__list watches;
};

struct pawl__memory_watch {
    struct pawl__list in_entry;
    struct pawl__list in_client;
    struct pawl__list in_due;
    struct pawl__memory_entry *entry;
    struct pawl__memory_client *client;
    uint64_t id; /* the tenure whose turn is watched for; 0: the name itself */
};

bool pawl__memory_init(struct pawl__memory_table *table);
void pawl__memory_free(struct pawl__memory_table *table); /* no client may be joined any more */

void pawl__memory_join(struct pawl__memory_client *client, const char *uuid);
void pawl__memory_leave(struct pawl__memory_table *table, struct pawl__memory_client *client);

/* Carry out one operation for the client and say in it how it ended. */
void pawl__memory_apply(struct pawl__memory_table *table, struct pawl__memory_client *client,
    struct pawl__op *op, int64_t now_us);

/* The next client to be woken, and for which name and tenure; NULL: none. Ask until then after each
 * operation. As a server's message does, it also reaches the client whose operation caused it. */
struct pawl__memory_watch *pawl__memory_woken(struct pawl__memory_table *table);

/* What stands in the table under this name; NULL: nothing. Leases that are over may still stand
 * there. */
const struct pawl__memory_entry *pawl__memory_look(
    const struct pawl__memory_table *table, const char *name, size_t name_size);

#endif
