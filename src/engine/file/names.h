/* SPDX-License-Identifier: Apache-2.0 */
/* From the name of a lock to the name of its file. */
#ifndef PAWL_FILE_NAMES_H
#define PAWL_FILE_NAMES_H

#include "base/limits.h"

#include <stdbool.h>
#include <stddef.h>

#define PAWL__ENCODED_SIZE_MAX (3 * PAWL__NAME_SIZE_MAX)
#define PAWL__FILE_NAME_SIZE_MAX 255

/* The name in printable ASCII without '/' and blanks: other bytes as %XX. Different names stay
 * different. Room for PAWL__ENCODED_SIZE_MAX characters and a NUL; the size without the NUL is
 * returned. */
size_t pawl__name_encode(const char *name, size_t name_size, char *encoded_out);

/* The file that keeps the lock; room for PAWL__FILE_NAME_SIZE_MAX characters and a NUL. */
size_t pawl__name_to_file(const char *name, size_t name_size, char *file_name_out);

/* The other way. False: nothing that pawl__name_encode() makes. Room for PAWL__NAME_SIZE_MAX bytes
 * and a NUL. */
bool pawl__name_decode(
    const char *encoded, size_t encoded_size, char *name_out, size_t *name_size_out);

/* What a file in the directory may be, by its name. */
enum pawl__file_name_kind {
    PAWL__FILE_NAME_PLAIN,  /* a lock's; which one is told, as by pawl__name_decode() */
    PAWL__FILE_NAME_HASHED, /* a lock's; which one stands in the file only */
    PAWL__FILE_NAME_OTHER   /* no lock's */
};
enum pawl__file_name_kind pawl__name_from_file(
    const char *file_name, char *name_out, size_t *name_size_out);

/* A file name that no lock has, for a file that is about to replace a lock's. */
#define PAWL__TEMPORARY_FORMAT "%%new-%016llx"

#endif
