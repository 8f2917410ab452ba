/* SPDX-License-Identifier: Apache-2.0 */
/* Text that grows, and text that is safe to show. Names of locks, hosts and commands were written
 * by others, and may hold anything, escape sequences of a terminal among them. Whatever of it goes
 * to people goes through cli_text_add_safe() first; what that leaves is valid UTF-8 that can be
 * measured and cut by columns. Memory that cannot be had ends the program (status 71): a command
 * has nothing better to do. */
#ifndef PAWL_TEXT_TEXT_H
#define PAWL_TEXT_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cli_text {
    char *bytes; /* with a NUL behind them; NULL while empty */
    size_t size;
    size_t room;
};

#define CLI_TEXT_INIT \
    {                 \
        NULL, 0, 0    \
    }

/* Memory for count things of that size: larger than before, contents kept. */
void *cli_memory_resize(void *memory, size_t count, size_t size);

void cli_text_add(struct cli_text *text, const char *bytes, size_t size);
void cli_text_add_string(struct cli_text *text, const char *string);
void cli_text_print(struct cli_text *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void cli_text_add_spaces(struct cli_text *text, size_t count);

/* The first character of what others wrote, as it may be shown: bytes that are not UTF-8, control
 * characters and whatever else could deceive come as \xNN for each byte, \n, \t and \r by their
 * names. Gives the size that it has in the string. left > 0. */
enum { CLI_SHOWN_SIZE = 4 * 4 + 1 };
size_t cli_text_show(const char *string, size_t left, char shown_out[CLI_SHOWN_SIZE]);

/* Add what others wrote, all of it in this way, and a backslash as two. */
void cli_text_add_safe(struct cli_text *text, const char *string);

/* How many columns a string takes that cli_text_add_safe() made. */
size_t cli_text_columns(const char *string);

/* Add as much of such a string as has room in so many columns; "..." stands for the rest. */
void cli_text_add_cut(struct cli_text *text, const char *string, size_t columns_max);

/* Add it broken into lines of at most so many columns where it has spaces. Every line but the first
 * begins with indent spaces, which count; a word that is longer stays whole. */
void cli_text_add_wrapped(
    struct cli_text *text, const char *string, size_t indent, size_t columns_max);

/* Never NULL. */
const char *cli_text_string(const struct cli_text *text);

void cli_text_clear(struct cli_text *text); /* keeps the memory */
void cli_text_free(struct cli_text *text);

/* A duration for people, two units at most: 0.25s, 12.3s, 4m05s, 3h07m, 12d4h. */
void cli_text_add_duration(struct cli_text *text, int64_t duration_ms);

#endif
