/* SPDX-License-Identifier: Apache-2.0 */
/* Patterns of names, as Redis has them: * any bytes, ? any one byte, [abc] [a-z] [^x] one of these
 * (or not), and a backslash before a character means that character. The same in every engine,
 * whether its backend matches or we do. Pure; bytes are bytes, whatever the locale. */
#ifndef PAWL_BASE_GLOB_H
#define PAWL_BASE_GLOB_H

#include <stdbool.h>
#include <stddef.h>

/* Does the whole name match? NULL matches all. Takes time in the order of both sizes multiplied,
 * whatever the pattern. */
bool pawl__glob_matches(const char *pattern, const char *name, size_t name_size);

/* Does the pattern mean one name only? Then it is written to name_out, which has room for as many
 * bytes as the pattern with its NUL. */
bool pawl__glob_literal(const char *pattern, char *name_out);

/* The pattern that means this name: name_size * 2 + 1 bytes at most. */
void pawl__glob_escape(const char *name, size_t name_size, char *pattern_out);

#endif
