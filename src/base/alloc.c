/* SPDX-License-Identifier: Apache-2.0 */
/* One gate in front of the C library's allocator; see alloc.h for why. */
#include "base/alloc.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool (*pawl__alloc_hook)(size_t size);

static bool allowed(size_t size)
{
    return pawl__alloc_hook == NULL || pawl__alloc_hook(size);
}

void *pawl__alloc(size_t size)
{
    return allowed(size) ? calloc(1, size) : NULL;
}

void *pawl__realloc(void *memory, size_t size)
{
    assert(size > 0); /* realloc would free the block and answer NULL, as if it had failed */
    return allowed(size) ? realloc(memory, size) : NULL;
}

void pawl__free(void *memory)
{
    free(memory);
}

char *pawl__strdup(const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = pawl__alloc(size);
    if (copy != NULL) {
        memcpy(copy, text, size);
    }
    return copy;
}

char *pawl__format(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int size = vsnprintf(NULL, 0, format, args);
    va_end(args);

    char *text = size < 0 ? NULL : pawl__alloc((size_t)size + 1);
    if (text != NULL) {
        va_start(args, format);
        vsnprintf(text, (size_t)size + 1, format, args);
        va_end(args);
    }
    return text;
}
