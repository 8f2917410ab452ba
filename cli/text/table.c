/* SPDX-License-Identifier: Apache-2.0 */
/* See table.h. Widths are found in two steps: what every column would like, then what it gets. A
 * column that got nothing is not shown. */
#include "text/table.h"

#include <assert.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const size_t GAP = 2; /* columns between columns */

/* What each column gets. */
struct widths {
    size_t of[CLI_TABLE_COLUMNS_MAX];
    bool shown[CLI_TABLE_COLUMNS_MAX];
};

void cli_table_open(
    struct cli_table *table, const struct cli_table_column *columns, size_t column_count)
{
    assert(column_count > 0 && column_count <= CLI_TABLE_COLUMNS_MAX);
    *table = (struct cli_table){.columns = columns, .column_count = column_count};
}

void cli_table_close(struct cli_table *table)
{
    size_t count = table->row_count * table->column_count;
    for (size_t i = 0; i < count; i++) {
        free(table->cells[i]);
    }
    free(table->cells);
    table->cells = NULL;
    table->row_count = table->row_room = table->filled = 0;
}

/* A new row of empty cells. */
static void add_row(struct cli_table *table)
{
    if (table->row_count == table->row_room) {
        table->row_room = table->row_room == 0 ? 16 : table->row_room * 2;
        table->cells = cli_memory_resize(
            table->cells, table->row_room * table->column_count, sizeof *table->cells);
    }
    char **row = table->cells + table->row_count * table->column_count;
    memset(row, 0, table->column_count * sizeof *row);
    table->row_count++;
    table->filled = 0;
}

/* The text's bytes become the cell. */
static void take_cell(struct cli_table *table, struct cli_text *text)
{
    if (table->row_count == 0 || table->filled == table->column_count) {
        add_row(table);
    }
    table->cells[(table->row_count - 1) * table->column_count + table->filled] = text->bytes;
    table->filled++;
}

void cli_table_add(struct cli_table *table, const char *text)
{
    struct cli_text cell = CLI_TEXT_INIT;
    cli_text_add_string(&cell, text);
    take_cell(table, &cell);
}

void cli_table_add_safe(struct cli_table *table, const char *text)
{
    struct cli_text cell = CLI_TEXT_INIT;
    cli_text_add_safe(&cell, text);
    take_cell(table, &cell);
}

void cli_table_print(struct cli_table *table, const char *format, ...)
{
    char text[64];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    cli_table_add(table, text);
}

static const char *cell_at(const struct cli_table *table, size_t row, size_t column)
{
    const char *cell = table->cells[row * table->column_count + column];
    return cell == NULL ? "" : cell;
}

/* ===== Widths ===== */

static void like_widths(const struct cli_table *table, size_t row_count, struct widths *widths)
{
    for (size_t c = 0; c < table->column_count; c++) {
        widths->shown[c] = true;
        widths->of[c] = cli_text_columns(table->columns[c].title);
        for (size_t r = 0; r < row_count; r++) {
            size_t columns = cli_text_columns(cell_at(table, r, c));
            widths->of[c] = columns > widths->of[c] ? columns : widths->of[c];
        }
    }
}

static size_t total_of(const struct cli_table *table, const struct widths *widths)
{
    size_t total = 0;
    for (size_t c = 0; c < table->column_count; c++) {
        if (widths->shown[c]) {
            total += (total > 0 ? GAP : 0) + widths->of[c];
        }
    }
    return total;
}

/* How far a column may shrink; SIZE_MAX: not at all. */
static size_t least_width(const struct cli_table_column *column, bool hard)
{
    size_t least = hard ? column->columns_min : column->columns_good;
    return least == 0 ? SIZE_MAX : least;
}

/* The widest column that can still shrink; column_count: none. */
static size_t widest_shrinkable(
    const struct cli_table *table, const struct widths *widths, bool hard)
{
    size_t widest = table->column_count;
    for (size_t c = 0; c < table->column_count; c++) {
        bool can = widths->shown[c] && widths->of[c] > least_width(&table->columns[c], hard);
        if (can && (widest == table->column_count || widths->of[c] > widths->of[widest])) {
            widest = c;
        }
    }
    return widest;
}

static bool shrink(
    const struct cli_table *table, size_t columns_max, bool hard, struct widths *widths)
{
    while (total_of(table, widths) > columns_max) {
        size_t column = widest_shrinkable(table, widths, hard);
        if (column == table->column_count) {
            return false;
        }
        widths->of[column]--;
    }
    return true;
}

/* Leave out the column that matters least; false if all that are left must stay. */
static bool leave_one_out(const struct cli_table *table, struct widths *widths)
{
    size_t least = table->column_count;
    unsigned rank = 0;
    for (size_t c = 0; c < table->column_count; c++) {
        if (widths->shown[c] && table->columns[c].expendable > rank) {
            rank = table->columns[c].expendable;
            least = c;
        }
    }
    if (least < table->column_count) {
        widths->shown[least] = false;
    }
    return rank > 0;
}

static void fit_widths(const struct cli_table *table, size_t columns_max, struct widths *widths)
{
    if (columns_max == 0) {
        return;
    }
    const struct widths liked = *widths;
    while (!shrink(table, columns_max, false, widths) && leave_one_out(table, widths)) {
        memcpy(widths->of, liked.of, sizeof widths->of); /* there is room again */
    }
    shrink(table, columns_max, true, widths);
}

/* ===== Lines ===== */

static void render_cell(struct cli_text *line, const char *cell, size_t width, bool right)
{
    size_t columns = cli_text_columns(cell);
    size_t padding = columns < width ? width - columns : 0;
    if (right) {
        cli_text_add_spaces(line, padding);
    }
    cli_text_add_cut(line, cell, width);
    if (!right) {
        cli_text_add_spaces(line, padding);
    }
}

static void trim_end(struct cli_text *line)
{
    while (line->size > 0 && line->bytes[line->size - 1] == ' ') {
        line->bytes[--line->size] = '\0';
    }
}

/* One line; row == SIZE_MAX is the head. */
static void render_line(const struct cli_table *table, const struct widths *widths, size_t row,
    size_t columns_max, struct cli_text *line)
{
    cli_text_clear(line);
    bool begins = true;
    for (size_t c = 0; c < table->column_count; c++) {
        if (!widths->shown[c]) {
            continue;
        }
        if (!begins) {
            cli_text_add_spaces(line, GAP);
        }
        begins = false;
        const char *cell = row == SIZE_MAX ? table->columns[c].title : cell_at(table, row, c);
        render_cell(line, cell, widths->of[c], table->columns[c].right);
    }
    trim_end(line);
    if (columns_max > 0 && cli_text_columns(cli_text_string(line)) > columns_max) {
        struct cli_text cut = CLI_TEXT_INIT;
        cli_text_add_cut(&cut, cli_text_string(line), columns_max);
        cli_text_free(line);
        *line = cut;
    }
}

void cli_table_render(
    const struct cli_table *table, const struct cli_table_limits *limits, struct cli_text *out)
{
    size_t row_count = table->row_count;
    if (limits->rows_max > 0 && row_count > limits->rows_max) {
        row_count = limits->rows_max;
    }
    struct widths widths;
    like_widths(table, row_count, &widths);
    fit_widths(table, limits->columns_max, &widths);

    struct cli_text line = CLI_TEXT_INIT;
    render_line(table, &widths, SIZE_MAX, limits->columns_max, &line);
    const char *before = limits->bold_head ? "\x1b[1m" : "";
    const char *after = limits->bold_head ? "\x1b[0m" : "";
    cli_text_print(out, "%s%s%s\n", before, cli_text_string(&line), after);
    for (size_t r = 0; r < row_count; r++) {
        render_line(table, &widths, r, limits->columns_max, &line);
        cli_text_print(out, "%s\n", cli_text_string(&line));
    }
    cli_text_free(&line);
}
