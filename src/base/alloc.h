/* SPDX-License-Identifier: Apache-2.0 */
/* All memory of the library comes from here, zero-filled when new, so that tests can make any
 * single allocation fail and see that nothing is lost but the call that needed it. */
#ifndef PAWL_BASE_ALLOC_H
#define PAWL_BASE_ALLOC_H

#include <stdbool.h>
#include <stddef.h>

/* Asked before each allocation if set; false makes it fail. Set by tests only, before any thread
 * runs. */
extern bool (*pawl__alloc_hook)(size_t size);

void *pawl__alloc(size_t size);
void *pawl__realloc(void *memory, size_t size);
void pawl__free(void *memory);

/* Copies of text; NULL when memory is short. */
char *pawl__strdup(const char *text);
char *pawl__format(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
