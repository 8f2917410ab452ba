/* SPDX-License-Identifier: Apache-2.0 */
/* See text.h. Escaping comes first and everything else after it, so that measuring, cutting and
 * wrapping may rely on valid and harmless UTF-8. */
#include "text/text.h"

#include "text/utf8.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

static const char CUT_MARK[] = "...";
#define CUT_MARK_COLUMNS (sizeof CUT_MARK - 1)

void *cli_memory_resize(void *memory, size_t count, size_t size)
{
    void *resized = reallocarray(memory, count, size);
    if (resized == NULL) {
        fputs("pawl: out of memory\n", stderr);
        exit(EX_OSERR);
    }
    return resized;
}

static void reserve(struct cli_text *text, size_t more)
{
    if (text->room - text->size > more) {
        return;
    }
    size_t room = text->room < 64 ? 64 : text->room;
    while (room - text->size <= more) {
        room *= 2;
    }
    text->bytes = cli_memory_resize(text->bytes, room, 1);
    text->room = room;
}

void cli_text_add(struct cli_text *text, const char *bytes, size_t size)
{
    reserve(text, size);
    memcpy(text->bytes + text->size, bytes, size);
    text->size += size;
    text->bytes[text->size] = '\0';
}

void cli_text_add_string(struct cli_text *text, const char *string)
{
    cli_text_add(text, string, strlen(string));
}

void cli_text_print(struct cli_text *text, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int size = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    assert(size >= 0);

    reserve(text, (size_t)size);
    va_start(arguments, format);
    vsnprintf(text->bytes + text->size, (size_t)size + 1, format, arguments);
    va_end(arguments);
    text->size += (size_t)size;
}

void cli_text_add_spaces(struct cli_text *text, size_t count)
{
    cli_text_print(text, "%*s", (int)count, "");
}

/* One byte that must not be shown as it is; room for 4 characters and a NUL. */
static size_t escape(char byte, char *out)
{
    static const char bytes[] = "\n\t\r";
    static const char letters[] = "ntr";
    const char *found = memchr(bytes, byte, sizeof bytes - 1);
    return (size_t)(found != NULL ? snprintf(out, 5, "\\%c", letters[found - bytes])
                                  : snprintf(out, 5, "\\x%02x", (unsigned)(unsigned char)byte));
}

size_t cli_text_show(const char *string, size_t left, char shown_out[CLI_SHOWN_SIZE])
{
    uint32_t code = 0;
    const size_t valid = cli_utf8_decode(string, left, &code);
    const size_t size = valid > 0 ? valid : 1;
    if (valid > 0 && !cli_utf8_is_harmful(code)) {
        memcpy(shown_out, string, size);
        shown_out[size] = '\0';
        return size;
    }
    size_t used = 0;
    for (size_t i = 0; i < size; i++) {
        used += escape(string[i], shown_out + used);
    }
    return size;
}

void cli_text_add_safe(struct cli_text *text, const char *string)
{
    size_t left = strlen(string);
    while (left > 0) {
        char shown[CLI_SHOWN_SIZE];
        const size_t size = cli_text_show(string, left, shown);
        cli_text_add_string(text, string[0] == '\\' ? "\\\\" : shown);
        string += size;
        left -= size;
    }
}

/* How many bytes of the string fit into so many columns, and how many columns these take. */
static size_t fitting_size(const char *string, size_t columns_max, size_t *columns_out)
{
    size_t size = 0;
    size_t columns = 0;
    size_t length = strlen(string);
    while (size < length) {
        uint32_t code = 0;
        size_t step = cli_utf8_decode(string + size, length - size, &code);
        size_t width = step == 0 ? 1 : cli_utf8_width(code);
        if (columns + width > columns_max) {
            break;
        }
        columns += width;
        size += step == 0 ? 1 : step;
    }
    *columns_out = columns;
    return size;
}

size_t cli_text_columns(const char *string)
{
    size_t columns = 0;
    fitting_size(string, SIZE_MAX, &columns);
    return columns;
}

void cli_text_add_cut(struct cli_text *text, const char *string, size_t columns_max)
{
    size_t columns = 0;
    size_t size = fitting_size(string, columns_max, &columns);
    if (string[size] == '\0') {
        cli_text_add(text, string, size);
        return;
    }
    size_t mark = columns_max < CUT_MARK_COLUMNS ? columns_max : CUT_MARK_COLUMNS;
    size = fitting_size(string, columns_max - mark, &columns);
    cli_text_add(text, string, size);
    cli_text_add(text, CUT_MARK, mark);
}

void cli_text_add_wrapped(
    struct cli_text *text, const char *string, size_t indent, size_t columns_max)
{
    size_t used = indent;
    bool begins = true;
    struct cli_text word = CLI_TEXT_INIT;
    while (*string != '\0') {
        size_t size = strcspn(string, " ");
        cli_text_clear(&word);
        cli_text_add(&word, string, size);
        size_t columns = cli_text_columns(cli_text_string(&word));
        if (!begins && used + 1 + columns > columns_max) {
            cli_text_add_string(text, "\n");
            cli_text_add_spaces(text, indent);
            used = indent;
            begins = true;
        }
        if (!begins) {
            cli_text_add_string(text, " ");
            used++;
        }
        cli_text_add(text, string, size);
        used += columns;
        begins = false;
        string += size;
        string += strspn(string, " ");
    }
    cli_text_free(&word);
}

const char *cli_text_string(const struct cli_text *text)
{
    return text->bytes == NULL ? "" : text->bytes;
}

void cli_text_clear(struct cli_text *text)
{
    text->size = 0;
    if (text->bytes != NULL) {
        text->bytes[0] = '\0';
    }
}

void cli_text_free(struct cli_text *text)
{
    free(text->bytes);
    *text = (struct cli_text)CLI_TEXT_INIT;
}

void cli_text_add_duration(struct cli_text *text, int64_t duration_ms)
{
    const int64_t seconds = (duration_ms + 500) / 1000;
    if (duration_ms < 9995) {
        cli_text_print(text, "%.2fs", (double)duration_ms / 1e3);
    } else if (duration_ms < 60 * 1000 - 50) {
        cli_text_print(text, "%.1fs", (double)duration_ms / 1e3);
    } else if (seconds < 3600) {
        cli_text_print(text, "%dm%02ds", (int)(seconds / 60), (int)(seconds % 60));
    } else if (seconds < 24 * 3600) {
        cli_text_print(text, "%dh%02dm", (int)(seconds / 3600), (int)(seconds / 60 % 60));
    } else {
        cli_text_print(text, "%lldd%dh", (long long)(seconds / 86400), (int)(seconds / 3600 % 24));
    }
}
