/* SPDX-License-Identifier: Apache-2.0 */
/* The growing byte string of the test support: one allocation that doubles, no sharing, no locks.
 */
#include "support/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *or_die(void *memory)
{
    if (memory == NULL) {
        fputs("test support: out of memory\n", stderr);
        abort();
    }
    return memory;
}

void *support_alloc(size_t size)
{
    return or_die(calloc(1, size > 0 ? size : 1));
}

char *support_copy(const void *data, size_t size)
{
    char *copy = support_alloc(size + 1);
    if (size > 0) {
        memcpy(copy, data, size);
    }
    return copy;
}

/* Make room for `size` more bytes and the NUL. */
static void reserve(struct text *text, size_t size)
{
    size_t wanted = text->size + size + 1;
    if (wanted <= text->capacity) {
        return;
    }
    size_t capacity = text->capacity > 0 ? text->capacity : 64;
    while (capacity < wanted) {
        capacity *= 2;
    }
    text->data = or_die(realloc(text->data, capacity));
    text->capacity = capacity;
}

void text_add(struct text *text, const void *data, size_t size)
{
    reserve(text, size);
    if (size > 0) {
        memcpy(text->data + text->size, data, size);
    }
    text->size += size;
    text->data[text->size] = '\0';
}

void text_add_string(struct text *text, const char *string)
{
    text_add(text, string, strlen(string));
}

void text_addf(struct text *text, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *formatted = NULL;
    int size = vasprintf(&formatted, format, args);
    va_end(args);
    or_die(size < 0 ? NULL : formatted);
    text_add(text, formatted, (size_t)size);
    free(formatted);
}

void text_remove(struct text *text, size_t size)
{
    if (size == 0) {
        return;
    }
    memmove(text->data, text->data + size, text->size - size);
    text->size -= size;
    text->data[text->size] = '\0';
}

char *text_take(struct text *text)
{
    reserve(text, 0);
    text->data[text->size] = '\0';
    char *taken = text->data;
    *text = (struct text){0};
    return taken;
}

void text_free(struct text *text)
{
    free(text->data);
    *text = (struct text){0};
}

bool bytes_contain(const char *data, size_t size, const char *needle)
{
    size_t length = strlen(needle);
    return length == 0 || (size > 0 && memmem(data, size, needle, length) != NULL);
}
