/* SPDX-License-Identifier: Apache-2.0 */
/* Command lines: see options.h. */
#include "common/options.h"

#include "common/say.h"
#include "common/values.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const struct option_row *find_row(
    const struct option_table *table, const char *name, size_t length)
{
    for (size_t i = 0; i < table->row_count; i++) {
        const char *candidate = table->rows[i].name;
        if (strlen(candidate) == length && memcmp(candidate, name, length) == 0) {
            return &table->rows[i];
        }
    }
    return NULL;
}

/* The value in the unit of the type. */
static bool parse_value(const struct option_row *row, const char *text, int64_t *value_out)
{
    if (row->type == OPTION_NUMBER) {
        return parse_number(text, value_out);
    }
    if (row->type == OPTION_SIZE) {
        return parse_size(text, value_out);
    }
    if (!parse_duration_us(text, value_out)) {
        return false;
    }
    if (row->type == OPTION_MS) {
        *value_out /= 1000;
    }
    return true;
}

static int complain_about_value(const struct option_row *row, const char *text)
{
    if (row->type == OPTION_NUMBER) {
        return say_usage("--%s takes a number from %" PRId64 " to %" PRId64 ", not '%s'", row->name,
            row->min, row->max, text);
    }
    if (row->type == OPTION_SIZE) {
        return say_usage("--%s takes a size such as 64k or 8M, %" PRId64 " to %" PRId64
                         " bytes, not '%s'",
            row->name, row->min, row->max, text);
    }
    const char *unit = row->type == OPTION_MS ? "ms" : "us";
    return say_usage("--%s takes a duration such as 500ms or 30s, %" PRId64 "%s to %" PRId64
                     "%s, not '%s'",
        row->name, row->min, unit, row->max, unit, text);
}

static int store(const struct option_row *row, const char *text)
{
    if (row->type == OPTION_TEXT) {
        *(const char **)row->value = text;
        return OPTIONS_GO_ON;
    }
    int64_t value = 0;
    if (!parse_value(row, text, &value) || value < row->min || value > row->max) {
        return complain_about_value(row, text);
    }
    *(int64_t *)row->value = value;
    return OPTIONS_GO_ON;
}

/* One option, at argv[*at]; *at is left at its last word. */
static int take_option(const struct option_table *table, char **argv, int argc, int *at)
{
    const char *name = argv[*at] + 2;
    const char *equals = strchr(name, '=');
    const size_t length = equals != NULL ? (size_t)(equals - name) : strlen(name);
    const struct option_row *row = find_row(table, name, length);
    if (row == NULL) {
        return say_usage("no option --%.*s", (int)length, name);
    }
    if (row->type == OPTION_FLAG) {
        if (equals != NULL) {
            return say_usage("--%s takes no value", row->name);
        }
        *(bool *)row->value = true;
        return OPTIONS_GO_ON;
    }
    if (equals != NULL) {
        return store(row, equals + 1);
    }
    if (*at + 1 >= argc) {
        return say_usage("--%s needs a value", row->name);
    }
    *at += 1;
    return store(row, argv[*at]);
}

int options_parse(
    const struct option_table *table, int argc, char **argv, size_t *operand_count_out)
{
    say_as(table->command);
    size_t operands = 0;
    bool ended = false;
    for (int i = 1; i < argc; i++) {
        if (!ended && (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)) {
            fputs(table->help, stdout);
            return fflush(stdout) == 0 ? EXIT_FINE : EXIT_SYSTEM;
        }
        if (!ended && strcmp(argv[i], "--") == 0) {
            ended = true;
        } else if (!ended && strncmp(argv[i], "--", 2) == 0) {
            const int result = take_option(table, argv, argc, &i);
            if (result != OPTIONS_GO_ON) {
                return result;
            }
        } else if (operands == table->operands_max) {
            return say_usage("'%s' is one word too many", argv[i]);
        } else {
            operands++;
            argv[operands] = argv[i];
        }
    }
    if (operands < table->operands_min) {
        return say_usage("which %s?", table->operand);
    }
    if (operand_count_out != NULL) {
        *operand_count_out = operands;
    }
    return OPTIONS_GO_ON;
}
