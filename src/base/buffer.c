/* SPDX-License-Identifier: Apache-2.0 */

/* The growing half of the byte buffer; buffer.h describes the whole.
 *
 * When the room at the end is too small there are two ways to get more: move the content to the
 * front, or allocate. Moving is chosen when at least as many bytes were consumed as have to be
 * moved (each byte consumed pays for one moved), otherwise the capacity doubles. At the maximum
 * capacity, or without memory, moving is what is left, whatever it costs. */
#include "base/buffer.h"

#include "base/alloc.h"

#include <string.h>

enum {
    CAPACITY_MIN = 512, /* a few commands or replies */
};

void pawl__buffer_init(struct pawl__buffer *buffer, size_t size_max)
{
    assert(size_max > 0);
    *buffer = (struct pawl__buffer){.size_max = size_max};
}

void pawl__buffer_free(struct pawl__buffer *buffer)
{
    pawl__free(buffer->bytes);
    pawl__buffer_init(buffer, buffer->size_max);
}

void pawl__buffer_trim(struct pawl__buffer *buffer, size_t capacity)
{
    assert(capacity > 0);
    if (buffer->capacity <= capacity || pawl__buffer_size(buffer) > 0) {
        return;
    }
    char *bytes = pawl__realloc(buffer->bytes, capacity);
    if (bytes != NULL) {
        buffer->bytes = bytes;
        buffer->capacity = capacity;
        pawl__buffer_clear(buffer);
    }
}

static void move_to_front(struct pawl__buffer *buffer)
{
    const size_t size = pawl__buffer_size(buffer);
    if (size > 0) {
        memmove(buffer->bytes, buffer->bytes + buffer->begin, size);
    }
    buffer->begin = 0;
    buffer->end = size;
}

/* The capacity to have when `needed` bytes are to be kept: doubled, within the bounds. */
static size_t next_capacity(const struct pawl__buffer *buffer, size_t needed)
{
    size_t capacity =
        buffer->capacity > buffer->size_max / 2 ? buffer->size_max : buffer->capacity * 2;
    if (capacity < CAPACITY_MIN) {
        capacity = CAPACITY_MIN;
    }
    if (capacity > buffer->size_max) {
        capacity = buffer->size_max;
    }
    return capacity < needed ? needed : capacity;
}

static bool grow(struct pawl__buffer *buffer, size_t needed)
{
    const size_t capacity = next_capacity(buffer, needed);
    if (capacity <= buffer->capacity) {
        return false;
    }
    char *bytes = pawl__realloc(buffer->bytes, capacity);
    if (bytes == NULL) {
        return false;
    }
    buffer->bytes = bytes;
    buffer->capacity = capacity;
    return true;
}

char *pawl__buffer_reserve_slow(struct pawl__buffer *buffer, size_t size)
{
    if (size > pawl__buffer_left(buffer)) {
        return NULL;
    }
    const size_t needed = pawl__buffer_size(buffer) + size;
    const bool moving_is_cheap =
        buffer->begin >= pawl__buffer_size(buffer) && needed <= buffer->capacity;
    if (!moving_is_cheap && !grow(buffer, needed) && needed > buffer->capacity) {
        return NULL;
    }
    if (size > pawl__buffer_room(buffer)) {
        move_to_front(buffer);
    }
    assert(size <= pawl__buffer_room(buffer));
    return buffer->bytes + buffer->end;
}

bool pawl__buffer_append(struct pawl__buffer *buffer, const void *data, size_t size)
{
    if (size == 0) {
        return true;
    }
    char *room = pawl__buffer_reserve(buffer, size);
    if (room == NULL) {
        return false;
    }
    memcpy(room, data, size);
    pawl__buffer_commit(buffer, size);
    return true;
}
