/* SPDX-License-Identifier: Apache-2.0 */
/* Which lock does a message mean? Pure.
 *
 * A lock's channel is a prefix, a colon and the name: in braces, unless the name has a brace of its
 * own. So one pattern of names becomes two of channels, and a channel is taken apart again here.
 * The lock "{a}" and the lock "a" have the same channel; "a" is meant then. If only the other one
 * matches, it may be meant. */
#ifndef PAWL_ENGINE_REDIS_CHANNELS_H
#define PAWL_ENGINE_REDIS_CHANNELS_H

#include "base/buffer.h"
#include "engine/redis/place.h"

/* How a pattern of channels came about. */
enum pawl__channel_source {
    PAWL__SOURCE_BRACED,   /* prefix:{pattern} */
    PAWL__SOURCE_BARE,     /* prefix:pattern, for names with a brace */
    PAWL__SOURCE_ALL,      /* prefix:*, and we choose */
    PAWL__SOURCE_KEYS,     /* __keyspace@db__:pattern */
    PAWL__SOURCE_ALL_KEYS, /* __keyspace@db__:*, and we choose */
};

/* Write the pattern of channels (without a NUL) for names that match `pattern`, NULL: all. False:
 * no memory. */
bool pawl__channel_pattern(struct pawl__buffer *out, enum pawl__channel_source source,
    const char *prefix, const char *pattern);

/* The name that a message on a lock's channel means; size 0: none that matches, or one that is told
 * by another source. `channel` begins with the prefix and its colon. *sure_out: no other is likely.
 */
struct pawl__redis_text pawl__channel_name(struct pawl__redis_text channel,
    enum pawl__channel_source source, const char *prefix, const char *pattern, bool *sure_out);

/* What an event of the keyspace means: a change, 0 (something; look), or -1 (nothing to us). */
int pawl__keyspace_change(struct pawl__redis_text event);

/* Does this setting of notify-keyspace-events let us hear all that we need? */
bool pawl__keyspace_suffices(const char *setting, size_t setting_size);

#endif
