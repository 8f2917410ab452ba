/* SPDX-License-Identifier: Apache-2.0 */
/* File names that a person can read, that no shell stumbles over, and that differ when the names
 * differ.
 *
 *     jobs/nightly report    jobs%2Fnightly%20report.lock
 *     <a long name>          <its beginning>%-<SHA-256 of the name, in hex>.lock
 *
 * In the first form '%' is always followed by two hex digits, so that "%-" marks the second form
 * beyond doubt. A dot or a dash at the beginning is encoded too: no hidden files, nothing that
 * looks like an option. Should two long names ever have the same hash (or a file system not tell
 * 'a' from 'A'), lockfile.c finds out: the whole name stands in the file. */
#include "engine/file/names.h"

#include "engine/file/sha256.h"

#include <string.h>

#define ENCODED_SIZE_MAX 200 /* longer ones are hashed */
#define PREFIX_SIZE_MAX 100  /* of the readable beginning of a hashed one */
#define SUFFIX ".lock"

_Static_assert(ENCODED_SIZE_MAX + sizeof SUFFIX <= PAWL__FILE_NAME_SIZE_MAX + 1, "plain form");
_Static_assert(PREFIX_SIZE_MAX + 2 + 2 * PAWL__SHA256_SIZE + sizeof SUFFIX <= 256, "hashed form");

static char *put_hex(char *out, uint8_t byte)
{
    static const char digits[] = "0123456789ABCDEF";
    *out++ = digits[byte >> 4];
    *out++ = digits[byte & 15];
    return out;
}

static bool is_plain(unsigned char c, bool first)
{
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9')) {
        return true;
    }
    if (c == '.' || c == '-') {
        return !first;
    }
    return c != '\0' && strchr("_:@,+=", c) != NULL;
}

size_t pawl__name_encode(const char *name, size_t name_size, char *encoded_out)
{
    char *out = encoded_out;
    for (size_t i = 0; i < name_size; i++) {
        unsigned char c = (unsigned char)name[i];
        if (is_plain(c, i == 0)) {
            *out++ = (char)c;
        } else {
            *out++ = '%';
            out = put_hex(out, c);
        }
    }
    *out = '\0';
    return (size_t)(out - encoded_out);
}

/* As much of the encoded name as fits, but no half %XX. */
static size_t prefix_size(const char *encoded)
{
    size_t size = PREFIX_SIZE_MAX;
    if (encoded[size - 1] == '%') {
        size -= 1;
    } else if (encoded[size - 2] == '%') {
        size -= 2;
    }
    return size;
}

size_t pawl__name_to_file(const char *name, size_t name_size, char *file_name_out)
{
    char encoded[PAWL__ENCODED_SIZE_MAX + 1];
    size_t size = pawl__name_encode(name, name_size, encoded);
    bool hashed = size > ENCODED_SIZE_MAX;
    if (hashed) {
        size = prefix_size(encoded);
    }
    memcpy(file_name_out, encoded, size);
    char *out = file_name_out + size;
    if (hashed) {
        uint8_t digest[PAWL__SHA256_SIZE];
        pawl__sha256(name, name_size, digest);
        *out++ = '%';
        *out++ = '-';
        for (size_t i = 0; i < sizeof digest; i++) {
            out = put_hex(out, digest[i]);
        }
    }
    memcpy(out, SUFFIX, sizeof SUFFIX);
    return (size_t)(out - file_name_out) + sizeof SUFFIX - 1;
}

/* ===== And back ===== */

static int hex_value(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* One byte of the name; the count of characters taken, 0: none. */
static size_t take_byte(const char *from, size_t size, bool first, char *byte_out)
{
    if (is_plain((unsigned char)from[0], first)) {
        *byte_out = from[0];
        return 1;
    }
    if (from[0] != '%' || size < 3 || hex_value(from[1]) < 0 || hex_value(from[2]) < 0) {
        return 0;
    }
    unsigned char byte = (unsigned char)(hex_value(from[1]) * 16 + hex_value(from[2]));
    *byte_out = (char)byte;
    return byte == '\0' || is_plain(byte, first) ? 0 : 3; /* there is one way to write each */
}

bool pawl__name_decode(
    const char *encoded, size_t encoded_size, char *name_out, size_t *name_size_out)
{
    size_t size = 0;
    for (size_t at = 0; at < encoded_size;) {
        if (size == PAWL__NAME_SIZE_MAX) {
            return false;
        }
        size_t taken = take_byte(encoded + at, encoded_size - at, size == 0, &name_out[size]);
        if (taken == 0) {
            return false;
        }
        at += taken;
        size++;
    }
    name_out[size] = '\0';
    *name_size_out = size;
    return size > 0;
}

enum pawl__file_name_kind pawl__name_from_file(
    const char *file_name, char *name_out, size_t *name_size_out)
{
    size_t size = strlen(file_name);
    size_t suffix_size = sizeof SUFFIX - 1;
    if (size <= suffix_size || strcmp(file_name + size - suffix_size, SUFFIX) != 0) {
        return PAWL__FILE_NAME_OTHER;
    }
    size -= suffix_size;
    if (strstr(file_name, "%-") != NULL) {
        return PAWL__FILE_NAME_HASHED;
    }
    bool plain =
        size <= ENCODED_SIZE_MAX && pawl__name_decode(file_name, size, name_out, name_size_out);
    return plain ? PAWL__FILE_NAME_PLAIN : PAWL__FILE_NAME_OTHER;
}
