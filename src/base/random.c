/* SPDX-License-Identifier: Apache-2.0 */
/* xoshiro256** for everything that need not be secret; the kernel for what must be. */
#include "base/random.h"

#include "base/clock.h"

#include <errno.h>
#include <stdio.h>
#include <sys/random.h>

/* splitmix64, to spread a small seed over the whole state. */
static uint64_t spread(uint64_t *seed)
{
    *seed += 0x9e3779b97f4a7c15u;
    uint64_t x = *seed;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static uint64_t rotate(uint64_t x, int by)
{
    return (x << by) | (x >> (64 - by));
}

void pawl__random_seed(struct pawl__random *random, uint64_t seed)
{
    for (int i = 0; i < 4; i++) {
        random->state[i] = spread(&seed);
    }
}

uint64_t pawl__random_next(struct pawl__random *random)
{
    uint64_t *s = random->state;
    uint64_t result = rotate(s[1] * 5, 7) * 9;
    uint64_t shifted = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= shifted;
    s[3] = rotate(s[3], 45);
    return result;
}

uint64_t pawl__random_below(struct pawl__random *random, uint64_t bound)
{
    /* The bias of a plain remainder is below 2^-32 for the bounds used here. */
    return pawl__random_next(random) % bound;
}

int64_t pawl__random_jitter(struct pawl__random *random, int64_t duration_us)
{
    int64_t fifth = duration_us / 5;
    uint64_t shift_us = pawl__random_below(random, (uint64_t)(2 * fifth + 1));
    return pawl__later(duration_us - fifth, (int64_t)shift_us);
}

bool pawl__random_bytes(void *bytes, size_t size)
{
    char *at = bytes;
    while (size > 0) {
        ssize_t got = getrandom(at, size, 0);
        if (got < 0 && errno != EINTR) {
            return false;
        }
        if (got > 0) {
            at += got;
            size -= (size_t)got;
        }
    }
    return true;
}

bool pawl__uuid(char text[PAWL__UUID_SIZE + 1])
{
    unsigned char b[16];
    if (!pawl__random_bytes(b, sizeof b)) {
        return false;
    }
    b[6] = (unsigned char)((b[6] & 0x0f) | 0x80);
    b[8] = (unsigned char)((b[8] & 0x3f) | 0x80);
    snprintf(text, PAWL__UUID_SIZE + 1,
        "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0], b[1], b[2],
        b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
    return true;
}
