/* SPDX-License-Identifier: Apache-2.0 */
/* `pawl break`: take a lock away from its holder. This is the one command here that can do damage,
 * so it shows whom it would hit and asks, and it asks anew if that is somebody else by the time the
 * answer comes. Where nobody can be asked, only --yes goes on. */
#include "commands.h"
#include "common/backend.h"
#include "common/view.h"
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

static int say_semaphore(const char *name)
{
    struct cli_text shown = CLI_TEXT_INIT;
    add_name(&shown, name);
    cli_say("%s is a semaphore, whose permits come back when their leases end; nothing was done",
        cli_text_string(&shown));
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

/* Show who holds it and ask. */
static bool ask(const struct cli_view *view)
{
    struct cli_text text = CLI_TEXT_INIT;
    cli_view_add_lines(view, 2, &text);
    cli_text_add_string(&text,
        view->holders.count > 1
            ? "Its holders are not stopped by this. Take the lock away from all of them? [y/N] "
            : "Its holder is not stopped by this. Take the lock away? [y/N] ");
    fputs(cli_text_string(&text), stderr);
    cli_text_free(&text);
    return read_yes();
}

static bool is_holder(const struct cli_view *view, const char *holder)
{
    for (size_t i = 0; i < view->holders.count; i++) {
        if (strcmp(view->holders.items[i].holder, holder) == 0) {
            return true;
        }
    }
    return false;
}

/* Does nobody hold it now who did not before? */
static bool nobody_is_new(const struct cli_view *before, const struct cli_view *now)
{
    for (size_t i = 0; i < now->holders.count; i++) {
        if (!is_holder(before, now->holders.items[i].holder)) {
            return false;
        }
    }
    return true;
}

/* Ask until those who were shown are the ones who hold it. CLI_GO_ON, or the exit status. */
static int confirm(pawl_client *client, const char *name, struct cli_view *view)
{
    for (;;) {
        if (!ask(view)) {
            cli_say("nothing was done");
            return EXIT_NOT_DONE;
        }
        struct cli_view now;
        const pawl_status status = cli_view_take(client, name, &now);
        if (status != PAWL_OK) {
            return cli_say_failure(status);
        }
        const bool known = nobody_is_new(view, &now);
        cli_view_free(view);
        *view = now;
        if (view->holders.count == 0) {
            return say_not_held(name);
        }
        if (known) {
            return CLI_GO_ON;
        }
        cli_say("meanwhile the holder has changed; it is now:");
    }
}

static void say_done(const struct cli_view *view)
{
    struct cli_text text = CLI_TEXT_INIT;
    const struct cli_hold *hold = cli_view_lock(view);
    add_name(&text, hold->name);
    cli_text_add_string(&text, " was taken away; it was held by ");
    cli_hold_add_who(hold, &text);
    if (view->holders.count > 1) {
        cli_text_print(&text, " and %zu more", view->holders.count - 1);
    }
    cli_say("%s", cli_text_string(&text));
    cli_text_free(&text);
}

static int take_away(pawl_client *client, const struct cli_view *view, const char *name)
{
    pawl_lock *lock = NULL;
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    options.kind = cli_view_lock(view)->kind;
    pawl_status status = pawl_lock_open(client, name, &options, &lock);
    if (status != PAWL_OK) {
        return cli_say_failure(status);
    }
    status = pawl_lock_break(lock);
    int result = CLI_OK;
    if (status == PAWL_OK) {
        say_done(view);
    } else {
        result = status == PAWL_NOT_HELD ? say_not_held(name) : cli_say_failure(status);
    }
    pawl_lock_close(lock);
    return result;
}

/* Who may not look is told at once what is needed next, too. */
static int say_not_seen(pawl_status status)
{
    const bool rights = strstr(pawl_last_error(), "ACL SETUSER ") != NULL;
    const int result = cli_say_failure(status);
    if (rights) {
        cli_say("that is for looking at it; to break it, the line has to have also: +type +del");
    }
    return result;
}

static int look_and_break(pawl_client *client, const char *name, bool yes)
{
    struct cli_view view;
    const pawl_status status = cli_view_take(client, name, &view);
    if (status != PAWL_OK) {
        return say_not_seen(status);
    }
    int result = CLI_GO_ON;
    if (view.holders.count == 0) {
        result = say_not_held(name);
    } else if (cli_view_lock(&view)->kind == PAWL_SEMAPHORE) {
        result = say_semaphore(name);
    } else if (!yes) {
        result = confirm(client, name, &view);
    }
    if (result == CLI_GO_ON) {
        result = take_away(client, &view, name);
    }
    cli_view_free(&view);
    return result;
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
