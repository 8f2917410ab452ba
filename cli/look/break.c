/* SPDX-License-Identifier: Apache-2.0 */
/* `pawl break`: take a lock away from its holder. This is the one command here that can do damage,
 * so it shows whom it would hit and asks, and it asks anew if that is somebody else by the time the
 * answer comes. Where nobody can be asked, only --yes goes on. */
#include "commands.h"
#include "common/backend.h"
#include "common/holds.h"
#include "line/options.h"
#include "line/say.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { EXIT_NOT_DONE = 1 };

static const char help[] =
    "usage: pawl break [--yes] NAME\n"
    "\n"
    "Take a lock away from whoever holds it. Its holder is not stopped: it learns of the loss at "
    "its\n"
    "next renewal at the latest, and until then may go on as if it were alone.\n"
    "\n"
    "  -y, --yes    do not ask. Needed where there is no terminal to ask on\n"
    "  --url URL    where the lock is; see pawl --help\n"
    "\n"
    "Exit status 0 if it was taken away, 1 if it was not held or the answer was no.\n";

/* A name, safe to show. */
static void add_name(struct cli_text *text, const char *name)
{
    cli_text_add_string(text, "'");
    cli_text_add_safe(text, name);
    cli_text_add_string(text, "'");
}

static int say_not_held(const char *name)
{
    struct cli_text shown = CLI_TEXT_INIT;
    add_name(&shown, name);
    cli_say("%s is not held; nothing was done", cli_text_string(&shown));
    cli_text_free(&shown);
    return EXIT_NOT_DONE;
}

/* One line of an answer; true for y and yes. */
static bool read_yes(void)
{
    char line[64];
    if (fgets(line, sizeof line, stdin) == NULL) {
        fputc('\n', stderr);
        return false;
    }
    line[strcspn(line, "\n")] = '\0';
    return strcasecmp(line, "y") == 0 || strcasecmp(line, "yes") == 0;
}

/* Show the holder and ask. */
static bool ask(const pawl_entry *entry)
{
    struct cli_text text = CLI_TEXT_INIT;
    struct cli_hold hold = cli_hold_from(entry);
    cli_hold_add_lines(&hold, 2, &text);
    cli_text_add_string(&text, "Its holder is not stopped by this. Take the lock away? [y/N] ");
    fputs(cli_text_string(&text), stderr);
    cli_hold_free(&hold);
    cli_text_free(&text);
    return read_yes();
}

/* Ask until the one who was shown is the one who holds it. CLI_GO_ON, or the exit status. */
static int confirm(pawl_client *client, const char *name, pawl_entry *entry)
{
    for (;;) {
        if (!ask(entry)) {
            cli_say("nothing was done");
            return EXIT_NOT_DONE;
        }
        pawl_entry now = {.size = sizeof now};
        pawl_status status = pawl_client_look(client, name, &now);
        if (status != PAWL_OK) {
            return cli_say_failure(status);
        }
        if (!now.held) {
            return say_not_held(name);
        }
        bool same = strcmp(now.holder, entry->holder) == 0;
        *entry = now;
        if (same) {
            return CLI_GO_ON;
        }
        cli_say("meanwhile the holder has changed; it is now:");
    }
}

static void say_done(const pawl_entry *entry)
{
    struct cli_text text = CLI_TEXT_INIT;
    struct cli_hold hold = cli_hold_from(entry);
    add_name(&text, hold.name);
    cli_text_add_string(&text, " was taken away; it was held by ");
    cli_hold_add_who(&hold, &text);
    cli_say("%s", cli_text_string(&text));
    cli_hold_free(&hold);
    cli_text_free(&text);
}

static int take_away(pawl_client *client, const pawl_entry *entry, const char *name)
{
    pawl_lock *lock = NULL;
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    options.kind = entry->kind;
    pawl_status status = pawl_lock_open(client, name, &options, &lock);
    if (status != PAWL_OK) {
        return cli_say_failure(status);
    }
    status = pawl_lock_break(lock);
    int result = CLI_OK;
    if (status == PAWL_OK) {
        say_done(entry);
    } else {
        result = status == PAWL_NOT_HELD ? say_not_held(name) : cli_say_failure(status);
    }
    pawl_lock_close(lock);
    return result;
}

static int look_and_break(pawl_client *client, const char *name, bool yes)
{
    pawl_entry entry = {.size = sizeof entry};
    pawl_status status = pawl_client_look(client, name, &entry);
    if (status != PAWL_OK) {
        return cli_say_failure(status);
    }
    if (!entry.held) {
        return say_not_held(name);
    }
    int result = yes ? CLI_GO_ON : confirm(client, name, &entry);
    return result == CLI_GO_ON ? take_away(client, &entry, name) : result;
}

int cli_break(int argc, char **argv)
{
    bool yes = false;
    struct cli_option options[] = {
        {.name = "yes", .letter = 'y', .type = CLI_FLAG, .value = &yes},
    };
    const struct cli_syntax syntax = {
        .command = "pawl break",
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
    if (result == CLI_GO_ON && !yes && !(isatty(STDIN_FILENO) && isatty(STDERR_FILENO))) {
        result = cli_say_usage("there is no terminal to ask on; give --yes to go on unasked");
    }
    pawl_client *client = NULL;
    if (result == CLI_GO_ON) {
        result = cli_backend_open_to_look(&client);
    }
    if (result == CLI_GO_ON) {
        result = look_and_break(client, arguments.operands[0], yes);
        pawl_client_close(client);
    }
    return result;
}
