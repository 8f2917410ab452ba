/* SPDX-License-Identifier: Apache-2.0 */
/* RESP for the test support: one recursive walk over the bytes finds the end of a value, and a
 * second one prints it. No state is kept between calls; callers ask again when more bytes came. */
#include "support/resp.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX 32

/* What the first byte of a value announces. */
enum shape { SHAPE_LINE, SHAPE_STRING, SHAPE_LIST, SHAPE_PAIRS, SHAPE_ATTRIBUTE };

struct cursor {
    const char *data;
    size_t size;
    size_t position;
};

static enum shape shape_of(char type)
{
    switch (type) {
    case '$':
    case '!':
    case '=':
        return SHAPE_STRING;
    case '*':
    case '~':
    case '>':
        return SHAPE_LIST;
    case '%':
        return SHAPE_PAIRS;
    case '|':
        return SHAPE_ATTRIBUTE;
    default:
        return SHAPE_LINE;
    }
}

/* The line at the cursor without its end; false while the end is missing. */
static bool take_line(struct cursor *cursor, const char **line_out, size_t *size_out)
{
    const char *line = cursor->data + cursor->position;
    const char *end = memchr(line, '\n', cursor->size - cursor->position);
    if (end == NULL) {
        return false;
    }
    size_t size = (size_t)(end - line);
    cursor->position += size + 1;
    if (size > 0 && line[size - 1] == '\r') {
        size--;
    }
    *line_out = line;
    *size_out = size;
    return true;
}

static bool parse_length(const char *digits, size_t size, long *length_out)
{
    char number[24];
    if (size == 0 || size >= sizeof number) {
        return false;
    }
    memcpy(number, digits, size);
    number[size] = '\0';
    char *end = NULL;
    *length_out = strtol(number, &end, 10);
    return *end == '\0' && *length_out >= -1 && *length_out < LONG_MAX / 4;
}

static enum resp_state skip_value(struct cursor *cursor, int depth);

static enum resp_state skip_values(struct cursor *cursor, long count, int depth)
{
    for (long i = 0; i < count; i++) {
        enum resp_state state = skip_value(cursor, depth + 1);
        if (state != RESP_COMPLETE) {
            return state;
        }
    }
    return RESP_COMPLETE;
}

static enum resp_state skip_string(struct cursor *cursor, long length)
{
    if (length < 0) {
        return RESP_COMPLETE;
    }
    if (cursor->size - cursor->position < (size_t)length + 2) {
        return RESP_PARTIAL;
    }
    cursor->position += (size_t)length + 2;
    return RESP_COMPLETE;
}

static enum resp_state skip_value(struct cursor *cursor, int depth)
{
    if (depth > DEPTH_MAX) {
        return RESP_BROKEN;
    }
    const char *line = NULL;
    size_t size = 0;
    if (cursor->position == cursor->size || !take_line(cursor, &line, &size)) {
        return RESP_PARTIAL;
    }
    const enum shape shape = size > 0 ? shape_of(line[0]) : SHAPE_LINE;
    long length = 0;
    if (shape != SHAPE_LINE && !parse_length(line + 1, size - 1, &length)) {
        return RESP_BROKEN;
    }
    switch (shape) {
    case SHAPE_LINE:
        return RESP_COMPLETE;
    case SHAPE_STRING:
        return skip_string(cursor, length);
    case SHAPE_LIST:
        return skip_values(cursor, length, depth);
    case SHAPE_PAIRS:
        return skip_values(cursor, 2 * length, depth);
    case SHAPE_ATTRIBUTE: /* belongs to the value that follows it */
        return skip_values(cursor, 2 * length + 1, depth);
    }
    return RESP_BROKEN;
}

enum resp_state resp_find_end(const char *data, size_t size, size_t *value_size_out)
{
    struct cursor cursor = {.data = data, .size = size};
    enum resp_state state = skip_value(&cursor, 0);
    *value_size_out = cursor.position;
    return state;
}

static void add_word(struct resp_words *words, const char *data, size_t size)
{
    words->items[words->count] = support_copy(data, size);
    words->sizes[words->count] = size;
    words->count++;
}

static void make_room(struct resp_words *words, size_t count)
{
    *words = (struct resp_words){0};
    words->items = support_alloc(count * sizeof *words->items);
    words->sizes = support_alloc(count * sizeof *words->sizes);
}

static bool read_inline(const char *line, size_t size, struct resp_words *words)
{
    make_room(words, size / 2 + 1);
    size_t start = 0;
    for (size_t i = 0; i <= size; i++) {
        if (i == size || line[i] == ' ') {
            if (i > start) {
                add_word(words, line + start, i - start);
            }
            start = i + 1;
        }
    }
    return true;
}

bool resp_read_words(const char *data, size_t size, struct resp_words *words_out)
{
    struct cursor cursor = {.data = data, .size = size};
    const char *line = NULL;
    size_t line_size = 0;
    *words_out = (struct resp_words){0};
    if (!take_line(&cursor, &line, &line_size)) {
        return false;
    }
    long count = 0;
    if (line_size == 0 || line[0] != '*') {
        return read_inline(line, line_size, words_out);
    }
    if (!parse_length(line + 1, line_size - 1, &count) || count < 0 || (size_t)count > size) {
        return false;
    }
    make_room(words_out, (size_t)count);
    for (long i = 0; i < count; i++) {
        long length = 0;
        if (!take_line(&cursor, &line, &line_size) || line_size < 2 || line[0] != '$' ||
            !parse_length(line + 1, line_size - 1, &length) || length < 0 ||
            size - cursor.position < (size_t)length + 2) {
            resp_free_words(words_out);
            return false;
        }
        add_word(words_out, cursor.data + cursor.position, (size_t)length);
        cursor.position += (size_t)length + 2;
    }
    return true;
}

void resp_free_words(struct resp_words *words)
{
    for (size_t i = 0; i < words->count; i++) {
        free(words->items[i]);
    }
    free(words->items);
    free(words->sizes);
    *words = (struct resp_words){0};
}

void resp_join_words(const struct resp_words *words, struct text *text)
{
    for (size_t i = 0; i < words->count; i++) {
        text_add(text, " ", i > 0 ? 1 : 0);
        text_add(text, words->items[i], words->sizes[i]);
    }
}

void resp_add_request(
    struct text *text, size_t count, const char *const words[], const size_t sizes[])
{
    text_addf(text, "*%zu\r\n", count);
    for (size_t i = 0; i < count; i++) {
        text_addf(text, "$%zu\r\n", sizes[i]);
        text_add(text, words[i], sizes[i]);
        text_add(text, "\r\n", 2);
    }
}

static void print_value(struct text *text, struct cursor *cursor, int depth);

static void print_values(struct text *text, struct cursor *cursor, long count, int depth)
{
    text_add(text, "[", depth > 0 ? 1 : 0);
    for (long i = 0; i < count; i++) {
        text_add(text, " ", i > 0 ? 1 : 0);
        print_value(text, cursor, depth + 1);
    }
    text_add(text, "]", depth > 0 ? 1 : 0);
}

static void print_line(struct text *text, const char *line, size_t size)
{
    if (size > 0 && line[0] == '_') {
        text_add_string(text, "(nil)");
    } else if (size > 0) {
        text_add_string(text, line[0] == '-' ? "(error) " : "");
        text_add(text, line + 1, size - 1);
    }
}

static void print_string(struct text *text, struct cursor *cursor, char type, long length)
{
    if (length < 0) {
        text_add_string(text, "(nil)");
        return;
    }
    text_add_string(text, type == '!' ? "(error) " : "");
    /* A verbatim string has its format ("txt:") in front. */
    const size_t skipped = type == '=' && length >= 4 ? 4 : 0;
    text_add(text, cursor->data + cursor->position + skipped, (size_t)length - skipped);
    cursor->position += (size_t)length + 2;
}

/* The value is known to be complete. */
static void print_value(struct text *text, struct cursor *cursor, int depth)
{
    const char *line = NULL;
    size_t size = 0;
    long length = 0;
    if (!take_line(cursor, &line, &size)) {
        return;
    }
    const enum shape shape = size > 0 ? shape_of(line[0]) : SHAPE_LINE;
    if (shape != SHAPE_LINE && !parse_length(line + 1, size - 1, &length)) {
        return;
    }
    switch (shape) {
    case SHAPE_LINE:
        print_line(text, line, size);
        break;
    case SHAPE_STRING:
        print_string(text, cursor, line[0], length);
        break;
    case SHAPE_LIST:
    case SHAPE_PAIRS:
    case SHAPE_ATTRIBUTE:
        if (length < 0) {
            text_add_string(text, "(nil)");
            break;
        }
        print_values(text, cursor, shape == SHAPE_LIST ? length : 2 * length, depth);
        if (shape == SHAPE_ATTRIBUTE) {
            text_add_string(text, " ");
            print_value(text, cursor, depth);
        }
        break;
    }
}

void resp_add_flat(struct text *text, const char *data, size_t size)
{
    struct cursor cursor = {.data = data, .size = size};
    size_t end = 0;
    if (resp_find_end(data, size, &end) == RESP_COMPLETE) {
        print_value(text, &cursor, 0);
    }
}
