/* SPDX-License-Identifier: Apache-2.0 */
/* Command lines: every subcommand describes its options in a table and gets them parsed, checked
 * and stored. Whatever is wrong is one sentence that says what and how to mend it, and exit status
 * 64, before anything else happens.
 *
 * --option value, --option=value, -o value, -ovalue, and flags in one word (-nq) are taken, before
 * and behind operands. "--" ends the options. Every command has --url and --help; a URL's password
 * is wiped from the argument as soon as it is read. */
#ifndef PAWL_LINE_OPTIONS_H
#define PAWL_LINE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum cli_type {
    CLI_FLAG,     /* value: bool * */
    CLI_TEXT,     /* value: const char ** */
    CLI_DURATION, /* value: int64_t *, in milliseconds */
    CLI_NUMBER,   /* value: int64_t * */
    CLI_CHOICE,   /* value: int *, the index in choices */
};

struct cli_option {
    const char *name; /* without its dashes; NULL: it has a letter only */
    enum cli_type type;
    char letter;                /* 0: none */
    bool given;                 /* set by cli_options_parse() */
    bool by_letter;             /* as it was given: sentences repeat it so */
    void *value;                /* left alone if the option is not given */
    int64_t min, max;           /* of durations and numbers; both 0: any */
    const char *const *choices; /* ends with NULL; "word:N" takes a number for N, min to max */
    int64_t *count;             /* where that number goes */
    const char *excludes;       /* the name of an option that contradicts this one */
};

enum { CLI_OPERANDS_MAX = 4, CLI_GO_ON = -1 };

struct cli_syntax {
    const char *command; /* "pawl run" */
    const char *help;
    struct cli_option *options;
    size_t option_count;
    const char *operands[CLI_OPERANDS_MAX]; /* what they are called: "NAME" */
    size_t operands_min;                    /* how many of them must be there */
    bool takes_command; /* the first word behind the operands begins another command line */
};

struct cli_arguments {
    const char *operands[CLI_OPERANDS_MAX]; /* NULL: not given */
    char **command;                         /* the other command line, NULL at its end; or NULL */
};

/* CLI_GO_ON, or the exit status: 0 after --help, 64 after a mistake, which has been reported.
 * Also makes syntax->command the speaker of cli_say(). */
int cli_options_parse(
    const struct cli_syntax *syntax, int argc, char **argv, struct cli_arguments *arguments_out);

/* Whether an option of this name (or letter) was given. */
bool cli_option_given(const struct cli_syntax *syntax, const char *name);

/* The URL given by --url to pawl or its subcommand; NULL: none, which leaves it to PAWL_URL. */
const char *cli_url(void);

/* Wipe our copy, when the client is open. */
void cli_url_forget(void);

#endif
