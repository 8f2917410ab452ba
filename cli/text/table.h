/* SPDX-License-Identifier: Apache-2.0 */
/* A table for people: a head, rows, columns that line up, and never wider than the terminal. When
 * it would be, columns shrink as far as one can still read them (the widest first); then whole
 * columns are left out, those first that matter least; then the rest shrinks further. */
#ifndef PAWL_TEXT_TABLE_H
#define PAWL_TEXT_TABLE_H

#include "text/text.h"

#include <stdbool.h>
#include <stddef.h>

enum { CLI_TABLE_COLUMNS_MAX = 12 };

struct cli_table_column {
    const char *title;
    size_t columns_good; /* shrinks to this gladly; 0: never */
    size_t columns_min;  /* and to this rather than break the line */
    unsigned expendable; /* left out when there is no room: the greatest first; 0: never */
    bool right;          /* numbers stand at the right */
};

struct cli_table {
    const struct cli_table_column *columns;
    size_t column_count;
    char **cells; /* row by row */
    size_t row_count;
    size_t row_room;
    size_t filled; /* cells of the row that is being made */
};

/* The columns stay the caller's, and must stay. */
void cli_table_open(
    struct cli_table *table, const struct cli_table_column *columns, size_t column_count);
void cli_table_close(struct cli_table *table);

/* Fill the next cell of the last row; the first cell of a row makes it. The text is shown as it is:
 * what others wrote has to go through cli_table_add_safe(). */
void cli_table_add(struct cli_table *table, const char *text);
void cli_table_add_safe(struct cli_table *table, const char *text);
void cli_table_print(struct cli_table *table, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The table as text, one line for the head and one for each row, with at most so many columns (0:
 * as many as it takes) and rows (0: all), the head in bold if asked for. */
struct cli_table_limits {
    size_t columns_max;
    size_t rows_max;
    bool bold_head;
};
void cli_table_render(
    const struct cli_table *table, const struct cli_table_limits *limits, struct cli_text *out);

#endif
