/* SPDX-License-Identifier: Apache-2.0 */
/* A growing byte string for the test support.
 *
 * The bytes are always followed by a NUL, so `data` can be printed as it stands. Running out of
 * memory ends the program: a test has nothing useful to do then. Start from `{0}`. */
#ifndef PAWL_SUPPORT_TEXT_H
#define PAWL_SUPPORT_TEXT_H

#include <stdbool.h>
#include <stddef.h>

struct text {
    char *data;      /* NULL while nothing was ever added */
    size_t size;     /* bytes, without the NUL */
    size_t capacity; /* bytes allocated */
};

/* Allocate zeroed memory; never returns NULL. */
void *support_alloc(size_t size);

/* A copy of `size` bytes with a NUL behind them. */
char *support_copy(const void *data, size_t size);

void text_add(struct text *text, const void *data, size_t size);
void text_add_string(struct text *text, const char *string);
void text_addf(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Forget the first `size` bytes. */
void text_remove(struct text *text, size_t size);

/* The bytes as a string that the caller frees; the text is empty afterwards. */
char *text_take(struct text *text);

void text_free(struct text *text);

/* True if `needle` occurs in the bytes; an empty needle occurs everywhere. */
bool bytes_contain(const char *data, size_t size, const char *needle);

#endif
