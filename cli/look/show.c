/* SPDX-License-Identifier: Apache-2.0 */
/* `pawl show`: everything about one lock. The exit status answers the question that scripts ask. */
#include "commands.h"
#include "common/backend.h"
#include "common/view.h"
#include "line/options.h"
#include "line/say.h"

#include <stdio.h>

enum { EXIT_HELD = 0, EXIT_FREE = 1, WHY_SIZE = 2048 };

static const char help[] =
    "usage: pawl show [--json] [--quiet] [--kind semaphore|latch] NAME\n"
    "\n"
    "Show one lock: who holds it (readers, writer), for how long still, who waits (the queue of a\n"
    "fair lock); or a semaphore: which permits are out, and how many are free.\n"
    "\n"
    "  --json       one JSON object\n"
    "  -q, --quiet  print nothing, answer by the exit status; failures still say why\n"
    "  --kind KIND  semaphore: it is one, and nothing else; if it is missing it has 0 permits;\n"
    "               latch: it is one, which counts as held until it is at zero\n"
    "  --url URL    where the lock is; see pawl --help\n"
    "\n"
    "Exit status 0 if it is held, 1 if it is free, 65 if the name is something else, 69 if nobody\n"
    "answers:\n"
    "  pawl show -q deploy && echo 'somebody is deploying'\n";

enum { SEMAPHORE, LATCH, ANY };

static const char *const kinds[] = {[SEMAPHORE] = "semaphore", [LATCH] = "latch", NULL};

struct wanted {
    bool as_json;
    bool quiet;
    int kind;
};

static void print(const struct cli_view *view, bool as_json)
{
    if (as_json) {
        struct cli_json json;
        cli_json_open(&json, stdout);
        cli_view_json(&json, view);
        cli_json_close(&json);
    } else {
        struct cli_text text = CLI_TEXT_INIT;
        cli_view_add_lines(view, 0, &text);
        fputs(cli_text_string(&text), stdout);
        cli_text_free(&text);
    }
}

/* What is no lock may be a semaphore of which no permit is out: then it is a number. If it is
 * not, what was wrong with it at first is the reason. Gives CLI_GO_ON, or the exit status. */
static int look(pawl_client *client, const char *name, int kind, struct cli_view *view_out)
{
    pawl_status status = kind == SEMAPHORE ? cli_view_take_semaphore(client, name, view_out)
                         : kind == LATCH   ? cli_view_take_latch(client, name, view_out)
                                           : cli_view_take(client, name, view_out);
    char why[WHY_SIZE];
    snprintf(why, sizeof why, "%s", pawl_last_error());
    if (status == PAWL_REFUSED && kind == ANY &&
        cli_view_take_semaphore(client, name, view_out) == PAWL_OK) {
        status = PAWL_OK;
    }
    if (status != PAWL_OK) {
        cli_say("%s", why);
        return cli_exit_for(status, why);
    }
    return CLI_GO_ON;
}

static int show(pawl_client *client, const char *name, const struct wanted *wanted)
{
    struct cli_view view;
    const int looked = look(client, name, wanted->kind, &view);
    if (looked != CLI_GO_ON) {
        return looked;
    }
    if (!wanted->quiet) {
        print(&view, wanted->as_json);
    }
    const bool held = cli_view_lock(&view)->held;
    cli_view_free(&view);
    const int result = cli_output_end();
    return result != CLI_OK ? result : held ? EXIT_HELD : EXIT_FREE;
}

int cli_show(int argc, char **argv)
{
    struct wanted wanted = {.kind = ANY};
    struct cli_option options[] = {
        {.name = "json", .type = CLI_FLAG, .value = &wanted.as_json},
        {.name = "quiet",
            .letter = 'q',
            .type = CLI_FLAG,
            .value = &wanted.quiet,
            .excludes = "json"},
        {.name = "kind", .type = CLI_CHOICE, .value = &wanted.kind, .choices = kinds},
    };
    const struct cli_syntax syntax = {
        .command = "pawl show",
        .help = help,
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .operands = {"NAME"},
        .operands_min = 1,
    };
    struct cli_arguments arguments;
    int result = cli_options_parse(&syntax, argc, argv, &arguments);
    if (result == CLI_GO_ON) {
        result = cli_check_name(arguments.operands[0]);
    }
    pawl_client *client = NULL;
    if (result == CLI_GO_ON) {
        result = cli_backend_open_to_look(&client);
    }
    if (result == CLI_GO_ON) {
        result = show(client, arguments.operands[0], &wanted);
        pawl_client_close(client);
    }
    return result;
}
