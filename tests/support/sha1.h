/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-1, which Redis names scripts by. For the scripted server's answer to SCRIPT LOAD. */
#ifndef PAWL_SUPPORT_SHA1_H
#define PAWL_SUPPORT_SHA1_H

#include <stddef.h>

/* The digest of the bytes as 40 lower-case hexadecimal digits and a NUL. */
void sha1_hex(const void *data, size_t size, char hex_out[41]);

#endif
