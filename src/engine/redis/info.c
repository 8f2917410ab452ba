/* SPDX-License-Identifier: Apache-2.0 */
/* Reading INFO; info.h describes it. */
#include "engine/redis/info.h"

#include <string.h>

struct pawl__info_value pawl__info_find(const char *info, size_t info_size, const char *field)
{
    const size_t field_size = strlen(field);
    const char *end = info + info_size;
    for (const char *line = info; line < end;) {
        const char *line_end = memchr(line, '\n', (size_t)(end - line));
        const char *stop = line_end != NULL ? line_end : end;
        const size_t size = (size_t)(stop - line);
        if (size > field_size && line[field_size] == ':' && memcmp(line, field, field_size) == 0) {
            const char *text = line + field_size + 1;
            size_t text_size = (size_t)(stop - text);
            if (text_size > 0 && text[text_size - 1] == '\r') {
                text_size--;
            }
            return (struct pawl__info_value){text, text_size};
        }
        line = line_end != NULL ? line_end + 1 : end;
    }
    return (struct pawl__info_value){NULL, 0};
}

bool pawl__info_is(struct pawl__info_value value, const char *text)
{
    return value.text != NULL && value.size == strlen(text) &&
           memcmp(value.text, text, value.size) == 0;
}

void pawl__info_word(struct pawl__info_value value, char *to, size_t to_size)
{
    to[0] = '\0';
    if (value.text == NULL || value.size >= to_size) {
        return;
    }
    for (size_t i = 0; i < value.size; i++) {
        if (value.text[i] <= ' ' || value.text[i] > '~') {
            return;
        }
    }
    memcpy(to, value.text, value.size);
    to[value.size] = '\0';
}

int64_t pawl__info_number(struct pawl__info_value value)
{
    int64_t number = 0;
    for (size_t i = 0; i < value.size; i++) {
        if (value.size > 18 || value.text[i] < '0' || value.text[i] > '9') {
            return 0;
        }
        number = number * 10 + (value.text[i] - '0');
    }
    return number;
}

struct pawl__info_value pawl__info_part(struct pawl__info_value value, const char *key)
{
    const size_t key_size = strlen(key);
    if (value.text == NULL) {
        return value;
    }
    const char *end = value.text + value.size;
    for (const char *part = value.text; part != NULL && part < end;) {
        const char *comma = memchr(part, ',', (size_t)(end - part));
        const char *stop = comma != NULL ? comma : end;
        const size_t size = (size_t)(stop - part);
        if (size > key_size && part[key_size] == '=' && memcmp(part, key, key_size) == 0) {
            return (struct pawl__info_value){part + key_size + 1, size - key_size - 1};
        }
        part = comma != NULL ? comma + 1 : NULL;
    }
    return (struct pawl__info_value){NULL, 0};
}
