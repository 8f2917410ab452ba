/* SPDX-License-Identifier: Apache-2.0 */
/* pawl, the command: chooses the subcommand from the table in commands.h. Each subcommand is the
 * file of its name: `run`, `top` and `bench` with folders of their own, those that look at locks in
 * look/. What they share, from the bottom up: text/ (text, tables, JSON, durations), line/ (command
 * lines, sentences, exit statuses), common/ (the backend and the holds in it). */
#include "commands.h"
#include "line/options.h"
#include "line/say.h"
#include "line/suggest.h"
#include "pawl.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#define CLI_ENTRY(name, summary) {#name, summary, cli_##name},
static const struct cli_command commands[] = {CLI_COMMANDS(CLI_ENTRY)};
#undef CLI_ENTRY

enum { COMMAND_COUNT = sizeof commands / sizeof commands[0] };

static const char help_head[] =
    "usage: pawl [--url URL] COMMAND ...\n"
    "\n"
    "Locks that several processes or hosts share, for the shell.\n"
    "\n"
    "  pawl run backup -- rsync -a /data nas:   one at a time, anywhere; others wait\n"
    "  pawl run -n backup -- rsync ...          or give up at once, with status 75\n"
    "\n"
    "Commands:\n";

static const char help_tail[] =
    "\n"
    "  --url URL    where the locks are kept: redis://host, redis+unix:///path.sock, file:///dir;\n"
    "               else $PAWL_URL, else files in /tmp/pawl-<uid>: this user on this machine\n"
    "  --version    print the version\n"
    "  --help       this text; `pawl COMMAND --help` for one command\n";

static int print_help(void)
{
    fputs(help_head, stdout);
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        printf("  %-8s %s\n", commands[i].name, commands[i].summary);
    }
    fputs(help_tail, stdout);
    return cli_output_end();
}

static int print_version(void)
{
    printf("pawl %d.%d.%d\n", PAWL_VERSION_MAJOR, PAWL_VERSION_MINOR, PAWL_VERSION_PATCH);
    return cli_output_end();
}

static int unknown_command(const char *name)
{
    struct cli_suggestion suggestion = cli_suggest_for(name, strlen(name));
    const char *nearest = NULL;
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        if (cli_suggest_offer(&suggestion, commands[i].name)) {
            nearest = commands[i].name;
        }
    }
    char shown[CLI_QUOTE_SIZE];
    cli_quote(name, shown);
    return nearest != NULL
               ? cli_say_usage("no command '%s'; did you mean 'pawl %s'?", shown, nearest)
               : cli_say_usage("no command '%s'", shown);
}

static int run_command(char **argv)
{
    int argc = 0;
    while (argv[argc] != NULL) {
        argc++;
    }
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        if (strcmp(commands[i].name, argv[0]) == 0) {
            return commands[i].run(argc, argv);
        }
    }
    return unknown_command(argv[0]);
}

/* `pawl help`, `pawl help run` */
static int help_about(char *name)
{
    static char option[] = "--help";
    char *argv[3] = {name, option, NULL};
    return name != NULL ? run_command(argv) : print_help();
}

/* A standard descriptor that the caller closed must not become one of ours. What is opened in its
 * place fails in the same way: 0 cannot be read, 1 and 2 cannot be written. */
static void fill_standard_descriptors(void)
{
    for (int fd = 0; fd <= 2; fd++) {
        if (fcntl(fd, F_GETFD) < 0) {
            /* the lowest free number: this one */
            open("/dev/null", (fd == 0 ? O_WRONLY : O_RDONLY) | O_CLOEXEC);
        }
    }
}

int main(int argc, char **argv)
{
    fill_standard_descriptors();
    bool version = false;
    bool help = false;
    struct cli_option options[] = {
        {.name = "version", .letter = 'V', .type = CLI_FLAG, .value = &version},
        {.name = "help", .letter = 'h', .type = CLI_FLAG, .value = &help},
    };
    const struct cli_syntax syntax = {
        .command = "pawl",
        .help = "",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .takes_command = true,
    };
    struct cli_arguments arguments;
    const int result = cli_options_parse(&syntax, argc, argv, &arguments);
    if (result != CLI_GO_ON) {
        return result;
    }
    if (help || (arguments.command != NULL && strcmp(arguments.command[0], "help") == 0)) {
        return help_about(arguments.command != NULL ? arguments.command[help ? 0 : 1] : NULL);
    }
    if (version || (arguments.command != NULL && strcmp(arguments.command[0], "version") == 0)) {
        return print_version();
    }
    return arguments.command != NULL ? run_command(arguments.command)
                                     : cli_say_usage("which command?");
}
