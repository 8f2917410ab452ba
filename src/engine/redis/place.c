/* SPDX-License-Identifier: Apache-2.0 */
/* Putting keys and channel together; place.h says how they look. */
#include "engine/redis/place.h"

#include "base/alloc.h"
#include "base/limits.h"
#include "engine/redis/resp_write.h"

#include <assert.h>
#include <string.h>

enum {
    PREFIX_SIZE_MAX = sizeof PAWL__LATCH_CHANNEL_PREFIX + 2, /* with its colon and the braces */
    BULK_SIZE_MAX = PAWL__NAME_SIZE_MAX + PREFIX_SIZE_MAX + 16,
    PARTS_MAX = 5,
};

_Static_assert(PARTS_MAX *BULK_SIZE_MAX <= UINT16_MAX, "positions fit");
_Static_assert(PAWL__COMPOSED_SIZE_MAX >= PAWL__NAME_SIZE_MAX + PREFIX_SIZE_MAX, "it fits");

struct pawl__redis_text pawl__redis_compose(
    char *to, const char *prefix, const char *name, size_t name_size)
{
    const bool braces = memchr(name, '{', name_size) == NULL;
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

static struct pawl__redis_text compose_channel(char *to, const struct pawl__place *place)
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

static uint16_t position(const struct pawl__buffer *buffer)
{
    return (uint16_t)pawl__buffer_size(buffer);
}

/* Add a bulk string; answers where its plain text stands in the buffer. */
static bool add(struct pawl__buffer *buffer, struct pawl__redis_text text, uint16_t *at_out)
{
    if (!pawl__resp_put_bulk(buffer, text.bytes, text.size)) {
        return false;
    }
    *at_out = (uint16_t)(position(buffer) - text.size - 2);
    return true;
}

/* The keys that only some families have, between lock and channel. */
static bool add_queue(struct pawl__buffer *buffer, const struct pawl__redis_place *place)
{
    if (place->place.family != PAWL__FAMILY_FAIR) {
        return true;
    }
    const char *name = place->place.name;
    const size_t name_size = place->place.name_size;
    char text[BULK_SIZE_MAX];
    uint16_t at = 0;
    return add(buffer, pawl__redis_compose(text, PAWL__QUEUE_PREFIX, name, name_size), &at) &&
           add(buffer, pawl__redis_compose(text, PAWL__TIMEOUTS_PREFIX, name, name_size), &at);
}

/* The parts that every place has, and the stem of those that are shared. */
static bool add_parts(struct pawl__buffer *buffer, struct pawl__redis_place *place)
{
    const char *name = place->place.name;
    const size_t name_size = place->place.name_size;
    const enum pawl__family family = place->place.family;
    char text[BULK_SIZE_MAX];
    uint16_t ignored = 0;
    bool put = add(buffer,
        pawl__redis_compose(text,
            pawl__family_counts(family) ? PAWL__ASKED_PREFIX : PAWL__TOKEN_PREFIX, name, name_size),
        &place->token_text);
    place->lock_at = position(buffer);
    put = put && add(buffer, (struct pawl__redis_text){name, name_size}, &ignored);
    place->lock_end = position(buffer);
    put = put && add_queue(buffer, place);
    place->channel_at = position(buffer);
    put = put && add(buffer, compose_channel(text, &place->place), &place->channel_text);
    place->stem_at = position(buffer);
    if (family == PAWL__FAMILY_SHARED) {
        put = put && add(buffer, pawl__redis_compose(text, "", name, name_size), &place->stem_text);
    }
    place->parts_size = position(buffer);
    return put;
}

bool pawl__redis_place_init(struct pawl__redis_place *place)
{
    struct pawl__buffer buffer;
    assert(place->place.name_size > 0 && place->place.name_size <= PAWL__NAME_SIZE_MAX);
    pawl__buffer_init(&buffer, PARTS_MAX * BULK_SIZE_MAX);
    place->stem_text = 0;
    if (!add_parts(&buffer, place)) {
        pawl__buffer_free(&buffer);
        return false;
    }
    /* Nothing was consumed, so the content begins with the block, which is larger than it need be.
     */
    char *fitted = pawl__realloc(buffer.bytes, place->parts_size);
    place->parts = fitted != NULL ? fitted : buffer.bytes;
    place->own = NULL;
    place->waiter_count = 0;
    atomic_init(&place->subscribed, false);
    return true;
}

void pawl__redis_place_free(struct pawl__redis_place *place)
{
    assert(place->own == NULL && place->waiter_count == 0);
    pawl__free(place->parts);
    place->parts = NULL;
}
