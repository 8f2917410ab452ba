/* SPDX-License-Identifier: Apache-2.0 */
/* Command lines: a subcommand lists its options in a table and gets them read, checked and stored.
 * "--name value" and "--name=value" are taken, before and behind operands; "--" ends the options.
 * Whatever is wrong is one sentence that says how to mend it, before anything else happens. */
#ifndef FLASHSALE_COMMON_OPTIONS_H
#define FLASHSALE_COMMON_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum option_type {
    OPTION_FLAG,   /* value: bool * */
    OPTION_TEXT,   /* value: const char **; the argument itself, which lives on */
    OPTION_NUMBER, /* value: int64_t * */
    OPTION_MS,     /* value: int64_t *, a duration in milliseconds */
    OPTION_US,     /* value: int64_t *, a duration in microseconds */
    OPTION_SIZE,   /* value: int64_t *, bytes */
};

struct option_row {
    const char *name; /* without its dashes */
    enum option_type type;
    void *value;      /* left alone if the option is not given */
    int64_t min, max; /* of numbers, durations (in the unit of the type) and sizes */
};

struct option_table {
    const char *command; /* "flashsale serve" */
    const char *help;    /* what --help prints */
    const struct option_row *rows;
    size_t row_count;
    size_t operands_min, operands_max;
    const char *operand; /* what one is called in sentences: "URL" */
};

enum { OPTIONS_GO_ON = -1 };

/* OPTIONS_GO_ON, or the exit status: 0 after --help, 64 after a mistake, which has been said. The
 * operands are moved to the front of argv[1...]; operand_count_out may be NULL if there are none.
 * Also makes table->command the speaker of say(). */
int options_parse(
    const struct option_table *table, int argc, char **argv, size_t *operand_count_out);

#endif
