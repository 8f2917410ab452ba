/* SPDX-License-Identifier: Apache-2.0 */

/* A growing byte buffer with a maximum: what waits to be sent, and what was received.
 *
 * Bytes are added at the end and consumed from the front. Consuming only moves an offset; the bytes
 * are moved together when room is needed, and only when that is cheap or unavoidable, so that
 * a byte is copied a constant number of times on average. The memory is kept until
 * pawl__buffer_trim() or pawl__buffer_free(), so a buffer that found its size does not allocate any
 * more.
 *
 * It relies on base/alloc.h alone. It has no lock: whoever shares one guards it.
 *
 * Pointers into a buffer are good until the next append, reserve or free. Consume, truncate, clear
 * and commit neither move nor overwrite a byte, so a reply may be consumed first and looked at
 * afterwards. */
#ifndef PAWL_BASE_BUFFER_H
#define PAWL_BASE_BUFFER_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>

struct pawl__buffer {
    char *bytes;     /* NULL until something is first put in */
    size_t begin;    /* offset of the first byte not yet consumed */
    size_t end;      /* offset behind the last byte */
    size_t capacity; /* bytes allocated, at most size_max */
    size_t size_max; /* the most it may hold at once */
};

/* Make an empty buffer that never holds, nor allocates, more than size_max bytes. */
void pawl__buffer_init(struct pawl__buffer *buffer, size_t size_max);

/* Give the memory back. The buffer is empty then and may be used again. */
void pawl__buffer_free(struct pawl__buffer *buffer);

/* Give back what is over `capacity` bytes, if the buffer is empty. */
void pawl__buffer_trim(struct pawl__buffer *buffer, size_t capacity);

/* Room for at least `size` more bytes behind the last one, for the caller to write to and then to
 * commit; NULL, with the content unchanged, if that is over the maximum or there is no memory. */
__attribute__((warn_unused_result)) char *pawl__buffer_reserve_slow(
    struct pawl__buffer *buffer, size_t size);

/* The first byte. Not to be read when the buffer is empty (it may be NULL). */
static inline const char *pawl__buffer_data(const struct pawl__buffer *buffer)
{
    return buffer->bytes == NULL ? NULL : buffer->bytes + buffer->begin;
}

static inline size_t pawl__buffer_size(const struct pawl__buffer *buffer)
{
    return buffer->end - buffer->begin;
}

/* How many bytes may still be added before the maximum is reached. */
static inline size_t pawl__buffer_left(const struct pawl__buffer *buffer)
{
    return buffer->size_max - pawl__buffer_size(buffer);
}

/* How many bytes may be written behind the last one without a move or an allocation. After
 * a successful reserve it is at least what was asked for, often more: a recv may use it all. */
static inline size_t pawl__buffer_room(const struct pawl__buffer *buffer)
{
    return buffer->capacity - buffer->end;
}

/* As pawl__buffer_reserve_slow(), without a call when the room is there already. */
__attribute__((warn_unused_result)) static inline char *pawl__buffer_reserve(
    struct pawl__buffer *buffer, size_t size)
{
    assert(size > 0);
    if (size <= pawl__buffer_room(buffer)) {
        return buffer->bytes + buffer->end;
    }
    return pawl__buffer_reserve_slow(buffer, size);
}

/* Make `size` bytes that were written to reserved room part of the content. */
static inline void pawl__buffer_commit(struct pawl__buffer *buffer, size_t size)
{
    assert(size <= pawl__buffer_room(buffer));
    buffer->end += size;
}

/* Add bytes from elsewhere (not from this buffer). False: over the maximum or no memory, and
 * nothing was added. */
__attribute__((warn_unused_result)) bool pawl__buffer_append(
    struct pawl__buffer *buffer, const void *data, size_t size);

/* Drop bytes from the front. */
static inline void pawl__buffer_consume(struct pawl__buffer *buffer, size_t size)
{
    assert(size <= pawl__buffer_size(buffer));
    buffer->begin += size;
    if (buffer->begin == buffer->end) {
        buffer->begin = 0;
        buffer->end = 0;
    }
}

/* Drop bytes from the end until `size` are left: how a half-written command is taken back. */
static inline void pawl__buffer_truncate(struct pawl__buffer *buffer, size_t size)
{
    assert(size <= pawl__buffer_size(buffer));
    buffer->end = buffer->begin + size;
}

static inline void pawl__buffer_clear(struct pawl__buffer *buffer)
{
    buffer->begin = 0;
    buffer->end = 0;
}

#endif
