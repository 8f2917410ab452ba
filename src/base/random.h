/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers: a small fast generator (xoshiro256**), seeded from the kernel in real clients and
 * from the seed in simulations; and the client's UUID. */
#ifndef PAWL_BASE_RANDOM_H
#define PAWL_BASE_RANDOM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PAWL__UUID_SIZE 36 /* characters, without the final NUL */

struct pawl__random {
    uint64_t state[4];
};

void pawl__random_seed(struct pawl__random *random, uint64_t seed);
uint64_t pawl__random_next(struct pawl__random *random);

/* Evenly from 0 to bound - 1; bound > 0. */
uint64_t pawl__random_below(struct pawl__random *random, uint64_t bound);

/* The duration, shifted by up to a fifth either way, so that many clients do not move in step. */
int64_t pawl__random_jitter(struct pawl__random *random, int64_t duration_us);

/* Bytes from the kernel; false if it has none to give. */
bool pawl__random_bytes(void *bytes, size_t size);

/* A new UUID in its usual text form. It is random, but says version 8, "made in a way of its own",
 * where Redisson's say 4: that is how pawl tells its waiters in the queue of a fair lock from
 * Redisson's. False if the kernel has no randomness to give. */
bool pawl__uuid(char text[PAWL__UUID_SIZE + 1]);

#endif
