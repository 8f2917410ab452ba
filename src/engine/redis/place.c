/* SPDX-License-Identifier: Apache-2.0 */
/* Putting keys and channel together; place.h says how they look. */
#include "engine/redis/place.h"

#include "base/limits.h"

#include <assert.h>
#include <string.h>

enum { PREFIX_SIZE_MAX = sizeof PAWL__LATCH_CHANNEL_PREFIX + 2 }; /* with colon and braces */

_Static_assert(PAWL__COMPOSED_SIZE_MAX >= PAWL__NAME_SIZE_MAX + PREFIX_SIZE_MAX, "it fits");

static bool wants_braces(const char *name, size_t name_size)
{
    return memchr(name, '{', name_size) == NULL;
}

struct pawl__redis_text pawl__redis_compose(
    char *to, const char *prefix, const char *name, size_t name_size)
{
    const bool braces = wants_braces(name, name_size);
    const size_t prefix_size = strlen(prefix);
    size_t size = prefix_size;
    memcpy(to, prefix, prefix_size);
    if (size > 0) {
        to[size++] = ':';
    }
    if (braces) {
        to[size++] = '{';
    }
    memcpy(to + size, name, name_size);
    size += name_size;
    if (braces) {
        to[size++] = '}';
    }
    return (struct pawl__redis_text){to, size};
}

struct pawl__redis_text pawl__redis_compose_leases(char *to, const char *name, size_t name_size)
{
    static const char suffix[] = ":timeout";
    const struct pawl__redis_text stem = pawl__redis_compose(to, "", name, name_size);
    memcpy(to + stem.size, suffix, sizeof suffix - 1);
    return (struct pawl__redis_text){to, stem.size + sizeof suffix - 1};
}

/* The channel of a latch is always in braces. */
static struct pawl__redis_text compose_latch(char *to, const char *name, size_t name_size)
{
    const size_t prefix_size = strlen(PAWL__LATCH_CHANNEL_PREFIX);
    memcpy(to, PAWL__LATCH_CHANNEL_PREFIX, prefix_size);
    to[prefix_size] = '{';
    memcpy(to + prefix_size + 1, name, name_size);
    to[prefix_size + 1 + name_size] = '}';
    return (struct pawl__redis_text){to, prefix_size + name_size + 2};
}

struct pawl__redis_text pawl__redis_token(char *to, const struct pawl__place *place)
{
    return pawl__redis_compose(to,
        pawl__family_counts(place->family) ? PAWL__ASKED_PREFIX : PAWL__TOKEN_PREFIX, place->name,
        place->name_size);
}

struct pawl__redis_text pawl__redis_channel(char *to, const struct pawl__place *place)
{
    switch (place->family) {
    case PAWL__FAMILY_SEMAPHORE:
    case PAWL__FAMILY_PERMITS:
        return pawl__redis_compose(to, PAWL__PERMITS_CHANNEL_PREFIX, place->name, place->name_size);
    case PAWL__FAMILY_LATCH:
        return compose_latch(to, place->name, place->name_size);
    case PAWL__FAMILY_SHARED:
        return pawl__redis_compose(to, PAWL__RW_CHANNEL_PREFIX, place->name, place->name_size);
    case PAWL__FAMILY_MUTEX:
    case PAWL__FAMILY_FAIR:
    case PAWL__FAMILY_SPIN:
    case PAWL__FAMILY_PLAIN:
        break;
    }
    return pawl__redis_compose(to, PAWL__CHANNEL_PREFIX, place->name, place->name_size);
}

struct pawl__redis_text pawl__redis_stem(char *to, const struct pawl__place *place)
{
    return place->family == PAWL__FAMILY_SHARED
               ? pawl__redis_compose(to, "", place->name, place->name_size)
               : (struct pawl__redis_text){to, 0};
}

void pawl__redis_place_init(struct pawl__redis_place *place)
{
    assert(place->place.name_size > 0 && place->place.name_size <= PAWL__NAME_SIZE_MAX);
    place->own = NULL;
    place->waiter_count = 0;
    place->braces = wants_braces(place->place.name, place->place.name_size);
    atomic_init(&place->subscribed, false);
}
