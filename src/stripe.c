/* SPDX-License-Identifier: Apache-2.0 */
/* Striping: an unbounded space of keys on a bounded number of lock names.
 *
 * The mapping is a promise, for two processes that compute different names for one key would both
 * be inside. So it is written down here in full and must never change: the key's bytes go through
 * FNV-1a of 64 bits; FNV leaves the low bits of short keys too regular, so the finisher of
 * SplitMix64 mixes them; the upper 32 bits of the product of the upper half and the count are the
 * number (each stripe gets the same share, to within 2^-16 even for the largest count). */
#include "pawl.h"

#include "base/error.h"
#include "base/limits.h"

#include <stdio.h>
#include <string.h>

#define FNV_BASIS UINT64_C(14695981039346656037)
#define FNV_PRIME UINT64_C(1099511628211)

static uint64_t hash(const unsigned char *key, size_t size)
{
    uint64_t h = FNV_BASIS;
    for (size_t i = 0; i < size; i++) {
        h = (h ^ key[i]) * FNV_PRIME;
    }
    h = (h ^ (h >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    h = (h ^ (h >> 27)) * UINT64_C(0x94d049bb133111eb);
    return h ^ (h >> 31);
}

pawl_status pawl_stripe_name(const char *prefix, const void *key, size_t key_size, unsigned count,
    char *name_out, size_t size)
{
    if (name_out == NULL || size == 0) {
        return pawl__fail(PAWL_INVALID, "name_out is NULL, or has no room");
    }
    name_out[0] = '\0';
    if (prefix == NULL || prefix[0] == '\0' || (key == NULL && key_size > 0)) {
        return pawl__fail(PAWL_INVALID, "a stripe needs a prefix, and a key");
    }
    if (count == 0 || count > PAWL_STRIPES_MAX) {
        return pawl__fail(PAWL_INVALID, "count is %u; it must be 1 to %d", count, PAWL_STRIPES_MAX);
    }
    const size_t needed = strnlen(prefix, PAWL__NAME_SIZE_MAX) + sizeof ":00000";
    if (needed - 1 > PAWL__NAME_SIZE_MAX || needed > size) {
        return pawl__fail(PAWL_INVALID,
            "the stripe's name takes %zu bytes with its NUL; there is room for %zu, and the "
            "longest is %d",
            needed, size, PAWL__NAME_SIZE_MAX + 1);
    }
    const uint64_t number = ((hash(key, key_size) >> 32) * count) >> 32;
    snprintf(name_out, size, "%s:%05u", prefix, (unsigned)number);
    return PAWL_OK;
}
