/* SPDX-License-Identifier: Apache-2.0 */
/* `pawl ls`: the locks that are held, in order of their names. They are collected first, because a
 * table has to know its widths and a server gives them in no order. */
#include "commands.h"
#include "common/backend.h"
#include "common/holds.h"
#include "common/progress.h"
#include "line/options.h"
#include "line/say.h"
#include "text/terminal.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char help[] =
    "usage: pawl ls [--json | --names] [PATTERN]\n"
    "\n"
    "List the locks that are held, and who holds them.\n"
    "\n"
    "  PATTERN      names to list: * any bytes, ? one byte, [a-z] one of these; quote it:\n"
    "               pawl ls 'jobs:*'\n"
    "  --json       one JSON document: {\"locks\": [...]}\n"
    "  --names      only the names, one in a line\n"
    "  --url URL    where the locks are; see pawl --help\n"
    "\n"
    "A lock that several hold has a line for each, a semaphore one for each permit that is out.\n"
    "LEFT: until the lock ends if nobody renews it, '-': no limit. WAITERS: processes that surely\n"
    "wait for it. Exit status 0, also if there are none; 69 if nobody answers.\n";

static void print_table(const struct cli_holds *holds)
{
    const struct cli_table_limits limits = {
        .columns_max = cli_terminal_size(STDOUT_FILENO).columns,
        .bold_head = cli_terminal_has_colours(STDOUT_FILENO),
    };
    struct cli_text text = CLI_TEXT_INIT;
    cli_holds_table(holds, &limits, &text);
    fputs(cli_text_string(&text), stdout);
    cli_text_free(&text);
}

/* A name that several hold comes once. */
static void print_names(const struct cli_holds *holds)
{
    struct cli_text text = CLI_TEXT_INIT;
    for (size_t i = 0; i < holds->count; i++) {
        if (i == 0 || strcmp(holds->items[i].name, holds->items[i - 1].name) != 0) {
            cli_text_add_safe(&text, holds->items[i].name);
            cli_text_add_string(&text, "\n");
        }
    }
    fputs(cli_text_string(&text), stdout);
    cli_text_free(&text);
}

static void print_json(const struct cli_holds *holds)
{
    struct cli_json json;
    cli_json_open(&json, stdout);
    cli_json_object(&json, NULL);
    cli_holds_json(&json, "locks", holds);
    cli_json_object_end(&json);
    cli_json_close(&json);
}

static void say_empty(const char *pattern)
{
    if (pattern == NULL) {
        cli_say("no lock is held");
        return;
    }
    char shown[CLI_QUOTE_SIZE];
    cli_say("no lock is held whose name matches '%s'", cli_quote(pattern, shown));
}

enum form { FORM_TABLE, FORM_NAMES, FORM_JSON };

static void print(const struct cli_holds *holds, enum form form, const char *pattern)
{
    switch (form) {
    case FORM_JSON:
        print_json(holds);
        return; /* an empty list says it */
    case FORM_NAMES:
        print_names(holds);
        break;
    case FORM_TABLE:
        if (holds->count > 0) {
            print_table(holds);
        }
        break;
    }
    if (holds->count == 0) {
        say_empty(pattern);
    }
}

static int list(pawl_client *client, const char *pattern, enum form form)
{
    struct cli_holds holds = CLI_HOLDS_INIT;
    struct cli_progress progress;
    cli_progress_begin(&progress, "locks found so far", &holds.seen);
    pawl_status status = pawl_client_list(client, pattern, cli_holds_collect, &holds);
    cli_progress_end(&progress);
    if (status != PAWL_OK) {
        cli_holds_free(&holds);
        return cli_say_failure(status);
    }
    cli_holds_sort(&holds);
    print(&holds, form, pattern);
    cli_holds_free(&holds);
    return cli_output_end();
}

int cli_ls(int argc, char **argv)
{
    bool as_json = false;
    bool names = false;
    struct cli_option options[] = {
        {.name = "json", .type = CLI_FLAG, .value = &as_json, .excludes = "names"},
        {.name = "names", .type = CLI_FLAG, .value = &names},
    };
    const struct cli_syntax syntax = {
        .command = "pawl ls",
        .help = help,
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .operands = {"PATTERN"},
    };
    struct cli_arguments arguments;
    int result = cli_options_parse(&syntax, argc, argv, &arguments);
    if (result == CLI_GO_ON) {
        result = cli_check_pattern(arguments.operands[0]);
    }
    pawl_client *client = NULL;
    if (result == CLI_GO_ON) {
        result = cli_backend_open_to_look(&client);
    }
    if (result == CLI_GO_ON) {
        const enum form form = as_json ? FORM_JSON : names ? FORM_NAMES : FORM_TABLE;
        result = list(client, arguments.operands[0], form);
        pawl_client_close(client);
    }
    return result;
}
