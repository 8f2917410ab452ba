/* SPDX-License-Identifier: Apache-2.0 */

/* The command writer; resp_write.h describes it from outside.
 *
 * Each piece computes its exact size, reserves once and writes straight into the buffer. Decimal
 * numbers are written by hand, two digits at a time from the end: printf would take longer than
 * the whole command. */
#include "engine/redis/resp_write.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

enum {
    DIGITS_MAX = 20, /* of a 64-bit number without its sign */
    LINE_END_SIZE = 2,
};

static const char digit_pairs[] = "00010203040506070809"
                                  "10111213141516171819"
                                  "20212223242526272829"
                                  "30313233343536373839"
                                  "40414243444546474849"
                                  "50515253545556575859"
                                  "60616263646566676869"
                                  "70717273747576777879"
                                  "80818283848586878889"
                                  "90919293949596979899";

static inline size_t count_digits(uint64_t value)
{
    size_t count = 1;
    for (; value >= 100; value /= 100) {
        count += 2;
    }
    return value >= 10 ? count + 1 : count;
}

/* Write a number of `count` digits. */
static inline char *write_digits(char *at, uint64_t value, size_t count)
{
    char *digit = at + count;
    for (; value >= 100; value /= 100) {
        digit -= 2;
        memcpy(digit, digit_pairs + 2 * (value % 100), 2);
    }
    if (value >= 10) {
        memcpy(digit - 2, digit_pairs + 2 * value, 2);
    } else {
        digit[-1] = (char)('0' + value);
    }
    return at + count;
}

static inline char *write_line_end(char *at)
{
    memcpy(at, "\r\n", LINE_END_SIZE);
    return at + LINE_END_SIZE;
}

/* "$12\r\n" and the like: a type byte and a count. */
static inline char *write_head(char *at, char type, uint64_t count, size_t digit_count)
{
    *at = type;
    return write_line_end(write_digits(at + 1, count, digit_count));
}

static inline size_t head_size(size_t digit_count)
{
    return 1 + digit_count + LINE_END_SIZE;
}

bool pawl__resp_put_array(struct pawl__buffer *out, size_t count)
{
    const size_t digit_count = count_digits(count);
    const size_t size = head_size(digit_count);
    char *at = pawl__buffer_reserve(out, size);
    if (at == NULL) {
        return false;
    }
    write_head(at, '*', count, digit_count);
    pawl__buffer_commit(out, size);
    return true;
}

bool pawl__resp_put_bulk(struct pawl__buffer *out, const void *data, size_t size)
{
    if (size > out->size_max) { /* and the sum below cannot overflow */
        return false;
    }
    const size_t digit_count = count_digits(size);
    const size_t total_size = head_size(digit_count) + size + LINE_END_SIZE;
    char *at = pawl__buffer_reserve(out, total_size);
    if (at == NULL) {
        return false;
    }
    at = write_head(at, '$', size, digit_count);
    if (size > 0) {
        memcpy(at, data, size);
    }
    write_line_end(at + size);
    pawl__buffer_commit(out, total_size);
    return true;
}

bool pawl__resp_put_text(struct pawl__buffer *out, const char *text)
{
    return pawl__resp_put_bulk(out, text, strlen(text));
}

bool pawl__resp_put_int(struct pawl__buffer *out, int64_t value)
{
    const bool negative = value < 0;
    const uint64_t magnitude = negative ? 0 - (uint64_t)value : (uint64_t)value;
    const size_t magnitude_digits = count_digits(magnitude);
    assert(magnitude_digits <= DIGITS_MAX);
    const size_t size = magnitude_digits + (negative ? 1 : 0);
    const size_t digit_count = size < 10 ? 1 : 2;
    const size_t total_size = head_size(digit_count) + size + LINE_END_SIZE;
    char *at = pawl__buffer_reserve(out, total_size);
    if (at == NULL) {
        return false;
    }
    at = write_head(at, '$', size, digit_count);
    if (negative) {
        *at = '-';
        at++;
    }
    write_line_end(write_digits(at, magnitude, magnitude_digits));
    pawl__buffer_commit(out, total_size);
    return true;
}

bool pawl__resp_put_command(
    struct pawl__buffer *out, size_t count, const char *const parts[], const size_t sizes[])
{
    assert(count > 0);
    const size_t before = pawl__buffer_size(out);
    bool put = pawl__resp_put_array(out, count);
    for (size_t i = 0; put && i < count; i++) {
        put = pawl__resp_put_bulk(out, parts[i], sizes != NULL ? sizes[i] : strlen(parts[i]));
    }
    if (!put) {
        pawl__buffer_truncate(out, before);
    }
    return put;
}

void pawl__resp_prefix_evalsha(
    struct pawl__resp_prefix *prefix, const char *sha, uint32_t key_count, uint32_t argument_count)
{
    assert(strlen(sha) == PAWL__RESP_SHA_SIZE);
    const uint64_t part_count = UINT64_C(3) + key_count + argument_count;
    const int size = snprintf(prefix->bytes, sizeof prefix->bytes,
        "*%llu\r\n$7\r\nEVALSHA\r\n$%d\r\n%s\r\n$%zu\r\n%u\r\n", (unsigned long long)part_count,
        PAWL__RESP_SHA_SIZE, sha, count_digits(key_count), key_count);
    assert(size > 0 && (size_t)size < sizeof prefix->bytes);
    prefix->size = (size_t)size;
}
