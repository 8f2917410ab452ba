/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-1 after FIPS 180-4: the message is padded in memory and digested block by block. Short and
 * slow on purpose; nothing here is secret. */
#include "support/sha1.h"

#include "support/text.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define BLOCK_SIZE 64

static uint32_t rotate(uint32_t value, unsigned bits)
{
    return value << bits | value >> (32 - bits);
}

static uint32_t mix(unsigned round, uint32_t b, uint32_t c, uint32_t d)
{
    if (round < 20) {
        return ((b & c) | (~b & d)) + 0x5A827999u;
    }
    if (round < 40) {
        return (b ^ c ^ d) + 0x6ED9EBA1u;
    }
    if (round < 60) {
        return ((b & c) | (b & d) | (c & d)) + 0x8F1BBCDCu;
    }
    return (b ^ c ^ d) + 0xCA62C1D6u;
}

static void digest_block(uint32_t state[5], const unsigned char *block)
{
    uint32_t words[80];
    for (unsigned i = 0; i < 16; i++) {
        words[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 |
                   (uint32_t)block[4 * i + 2] << 8 | (uint32_t)block[4 * i + 3];
    }
    for (unsigned i = 16; i < 80; i++) {
        words[i] = rotate(words[i - 3] ^ words[i - 8] ^ words[i - 14] ^ words[i - 16], 1);
    }
    uint32_t a = state[0];
    uint32_t b = state[1];
    uint32_t c = state[2];
    uint32_t d = state[3];
    uint32_t e = state[4];
    for (unsigned i = 0; i < 80; i++) {
        const uint32_t next = rotate(a, 5) + mix(i, b, c, d) + e + words[i];
        e = d;
        d = c;
        c = rotate(b, 30);
        b = a;
        a = next;
    }
    state[0] += a;
    state[1] += b;
    state[2] += c;
    state[3] += d;
    state[4] += e;
}

void sha1_hex(const void *data, size_t size, char hex_out[41])
{
    struct text padded = {0};
    text_add(&padded, data, size);
    text_add(&padded, "\x80", 1);
    while (padded.size % BLOCK_SIZE != BLOCK_SIZE - 8) {
        text_add(&padded, "", 1);
    }
    for (unsigned i = 0; i < 8; i++) {
        const unsigned char byte = (unsigned char)((uint64_t)size * 8 >> (56 - 8 * i));
        text_add(&padded, &byte, 1);
    }
    uint32_t state[5] = {0x67452301u, 0xEFCDAB89u, 0x98BADCFEu, 0x10325476u, 0xC3D2E1F0u};
    for (size_t i = 0; i < padded.size; i += BLOCK_SIZE) {
        digest_block(state, (const unsigned char *)padded.data + i);
    }
    text_free(&padded);
    for (unsigned i = 0; i < 5; i++) {
        snprintf(hex_out + 8 * i, 9, "%08x", state[i]);
    }
}
