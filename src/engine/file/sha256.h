/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256 of a few bytes (FIPS 180-4), for the file names of very long lock names. */
#ifndef PAWL_FILE_SHA256_H
#define PAWL_FILE_SHA256_H

#include <stddef.h>
#include <stdint.h>

#define PAWL__SHA256_SIZE 32

void pawl__sha256(const void *data, size_t size, uint8_t digest_out[PAWL__SHA256_SIZE]);

#endif
