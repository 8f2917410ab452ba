/* SPDX-License-Identifier: Apache-2.0 */
/* Which lock does a message mean? Pure.
 *
 * A lock's channel is a prefix, a colon and the name: in braces, unless the name has a brace of its
 * own. So one pattern of names becomes two of channels, and a channel is taken apart again here.
 * The lock "{a}" and the lock "a" have the same channel; "a" is meant then. If only the other one
 * matches, it may be meant. A waiter for a fair lock has a channel of its own, that of the lock, a
 * colon and its owner string. A latch's has braces always, and no colon.
 *
 * The keys of permits that are out are named like that, too. */
#ifndef PAWL_ENGINE_REDIS_CHANNELS_H
#define PAWL_ENGINE_REDIS_CHANNELS_H

#include "base/buffer.h"
#include "engine/redis/place.h"

/* How a pattern of channels came about. */
enum pawl__channel_source {
    PAWL__SOURCE_BRACED,        /* prefix:{pattern}* */
    PAWL__SOURCE_BARE,          /* prefix:pattern*, for names with a brace */
    PAWL__SOURCE_ALL,           /* prefix:*, and we choose */
    PAWL__SOURCE_LATCHES,       /* prefix*, and we choose */
    PAWL__SOURCE_KEYS,          /* __keyspace@db__:pattern */
    PAWL__SOURCE_BRACED_LEASES, /* __keyspace@db__:{pattern}:timeout */
    PAWL__SOURCE_BARE_LEASES,   /* __keyspace@db__:pattern:timeout */
    PAWL__SOURCE_ALL_KEYS,      /* __keyspace@db__:*, and we choose; leases are among them */
};

/* Write the pattern of channels (without a NUL) for names that match `pattern`, NULL: all. False:
 * no memory. */
bool pawl__channel_pattern(struct pawl__buffer *out, enum pawl__channel_source source,
    const char *prefix, const char *pattern);

/* What a channel is about. */
struct pawl__channel_meaning {
    struct pawl__redis_text name; /* size 0: none that matches, or one told by another source */
    bool sure;                    /* no other is likely */
    bool waiter;                  /* it is the channel of one who waits for a fair lock */
};

/* `channel` begins with the prefix and, but for a latch's, its colon. */
struct pawl__channel_meaning pawl__channel_meaning(struct pawl__redis_text channel,
    enum pawl__channel_source source, const char *prefix, const char *pattern);

/* What an event of the keyspace means: a change, 0 (something; look), or -1 (nothing to us). The
 * second one: an event of the key of a semaphore's leases. */
int pawl__keyspace_change(struct pawl__redis_text event);
int pawl__leases_change(struct pawl__redis_text event);

/* The semaphore whose leases this key has; size 0: it is another key, or no such name matches. */
struct pawl__redis_text pawl__leases_name(struct pawl__redis_text key, const char *pattern);

/* Does this setting of notify-keyspace-events let us hear all that we need? */
bool pawl__keyspace_suffices(const char *setting, size_t setting_size);

#endif
