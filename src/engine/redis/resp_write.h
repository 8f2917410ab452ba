/* SPDX-License-Identifier: Apache-2.0 */

/* The command writer: commands for a Redis server, as arrays of bulk strings, into a buffer.
 *
 * pawl__resp_put_command() writes a whole command. On the hot path a command is put together
 * instead: what never changes of it is made once as a prefix and appended as it is, and the rest
 * follows piece by piece. Every put returns false, and leaves the buffer as it was, if there is no
 * room. A command put together must be taken back as a whole then, lest the server see half:
 *
 *     const size_t before = pawl__buffer_size(out);
 *     const bool put = pawl__resp_put_prefix(out, &script->prefix) &&
 *                      pawl__resp_put_bulk(out, name, name_size) &&
 *                      pawl__resp_put_int(out, lease_ms);
 *     if (!put) {
 *         pawl__buffer_truncate(out, before);
 *     }
 *
 * No locks, no allocation besides the buffer's. It relies on base/buffer.h. */
#ifndef PAWL_ENGINE_REDIS_RESP_WRITE_H
#define PAWL_ENGINE_REDIS_RESP_WRITE_H

#include "base/buffer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PAWL__RESP_SHA_SIZE = 40,     /* a script's SHA-1 in hexadecimal */
    PAWL__RESP_PREFIX_SIZE = 128, /* bytes; more than the longest takes */
};

/* The part of a command that is the same each time. */
struct pawl__resp_prefix {
    size_t size;
    char bytes[PAWL__RESP_PREFIX_SIZE];
};

/* Make the prefix of EVALSHA with that many keys and arguments, which are to follow in this order.
 * `sha` is 40 hexadecimal digits. */
void pawl__resp_prefix_evalsha(
    struct pawl__resp_prefix *prefix, const char *sha, uint32_t key_count, uint32_t argument_count);

__attribute__((warn_unused_result)) static inline bool pawl__resp_put_prefix(
    struct pawl__buffer *out, const struct pawl__resp_prefix *prefix)
{
    return pawl__buffer_append(out, prefix->bytes, prefix->size);
}

/* The head of a command with that many parts, its name included. */
__attribute__((warn_unused_result)) bool pawl__resp_put_array(
    struct pawl__buffer *out, size_t count);

/* One part of a command. */
__attribute__((warn_unused_result)) bool pawl__resp_put_bulk(
    struct pawl__buffer *out, const void *data, size_t size);

/* One part of a command that ends in NUL in memory. */
__attribute__((warn_unused_result)) bool pawl__resp_put_text(
    struct pawl__buffer *out, const char *text);

/* One part of a command: a number in decimal. */
__attribute__((warn_unused_result)) bool pawl__resp_put_int(
    struct pawl__buffer *out, int64_t value);

/* A whole command or nothing. `sizes` may be NULL if all parts end in NUL. */
__attribute__((warn_unused_result)) bool pawl__resp_put_command(
    struct pawl__buffer *out, size_t count, const char *const parts[], const size_t sizes[]);

#endif
