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
};

_Static_assert(PAWL__COMPOSED_SIZE_MAX >= PAWL__NAME_SIZE_MAX + PREFIX_SIZE_MAX, "it fits");

struct pawl__redis_text pawl__redis_compose(
    char *to, const char *prefix, const char *name, size_t name_size)
{
    const bool braces = memchr(name, '{', name_size) == NULL;
    const size_t prefix_size = strlen(prefix);
    size_t size = prefix_size;
    memcpy(to, prefix, prefix_size);
    to[size++] = ':';
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
    case PAWL__FAMILY_MUTEX:
    case PAWL__FAMILY_FAIR:
    case PAWL__FAMILY_SHARED:
    case PAWL__FAMILY_SPIN:
    case PAWL__FAMILY_PLAIN:
        break;
    }
    return pawl__redis_compose(to, PAWL__CHANNEL_PREFIX, place->name, place->name_size);
}

/* Add a bulk string; answers where its plain text stands in the buffer. */
static bool add(struct pawl__buffer *buffer, struct pawl__redis_text text, size_t *at_out)
{
    if (!pawl__resp_put_bulk(buffer, text.bytes, text.size)) {
        return false;
    }
    *at_out = pawl__buffer_size(buffer) - text.size - 2;
    return true;
}

bool pawl__redis_place_init(struct pawl__redis_place *place)
{
    const char *name = place->place.name;
    const size_t name_size = place->place.name_size;
    assert(name_size > 0 && name_size <= PAWL__NAME_SIZE_MAX);
    char token[BULK_SIZE_MAX];
    char channel[BULK_SIZE_MAX];
    place->token = pawl__redis_compose(token,
        pawl__family_counts(place->place.family) ? PAWL__ASKED_PREFIX : PAWL__TOKEN_PREFIX, name,
        name_size);
    place->channel = compose_channel(channel, &place->place);

    struct pawl__buffer buffer;
    size_t token_at = 0;
    size_t name_at = 0;
    size_t channel_at = 0;
    pawl__buffer_init(&buffer, 3 * BULK_SIZE_MAX);
    bool put = pawl__buffer_reserve(&buffer, 3 * name_size + 3 * PREFIX_SIZE_MAX + 24) != NULL &&
               add(&buffer, place->token, &token_at);
    place->lock_at = pawl__buffer_size(&buffer);
    put = put && add(&buffer, (struct pawl__redis_text){name, name_size}, &name_at);
    place->channel_at = pawl__buffer_size(&buffer);
    put = put && add(&buffer, place->channel, &channel_at);
    if (!put) {
        pawl__buffer_free(&buffer);
        return false;
    }
    place->parts = buffer.bytes; /* nothing was consumed, so the content begins there */
    place->parts_size = pawl__buffer_size(&buffer);
    place->token.bytes = place->parts + token_at;
    place->channel.bytes = place->parts + channel_at;
    place->stage = PAWL__WATCH_NONE;
    place->watch = NULL;
    atomic_init(&place->subscribed, false);
    return true;
}

void pawl__redis_place_free(struct pawl__redis_place *place)
{
    assert(place->stage == PAWL__WATCH_NONE);
    pawl__free(place->parts);
    place->parts = NULL;
}
