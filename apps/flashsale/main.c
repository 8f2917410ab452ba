/* SPDX-License-Identifier: Apache-2.0 */
/* flashsale: the shop that must not oversell. Chooses the subcommand from the table in commands.h.
 *
 * Below it, from the top: up/ (everything at once), load/ (customers), audit/ (the books), serve/
 * (the door: HTTP), page/ (what a browser sees), strategies/ (how an order gets in alone), shop/
 * (the order, the sellers, the stock), common/ (command lines, sentences, connections). */
#include "commands.h"
#include "common/say.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

struct command {
    const char *name;
    const char *summary;
    int (*run)(int argc, char **argv);
};

#define COMMAND_ENTRY(name, summary) {#name, summary, command_##name},
static const struct command commands[] = {COMMANDS(COMMAND_ENTRY)};
#undef COMMAND_ENTRY

enum { COMMAND_COUNT = sizeof commands / sizeof commands[0] };

static int print_help(void)
{
    puts("usage: flashsale COMMAND ...\n"
         "\n"
         "A shop that sells out under load, with every way of locking from none to Redlock.\n"
         "\n"
         "Commands:");
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        if (commands[i].summary[0] != '\0') {
            printf("  %-8s %s\n", commands[i].name, commands[i].summary);
        }
    }
    puts("\n`flashsale COMMAND --help` tells about one of them.");
    return fflush(stdout) == 0 ? EXIT_FINE : EXIT_SYSTEM;
}

int main(int argc, char **argv)
{
    signal(SIGPIPE, SIG_IGN);
    if (argc < 2) {
        return say_usage("which command?");
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        return print_help();
    }
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        if (strcmp(commands[i].name, argv[1]) == 0) {
            return commands[i].run(argc - 1, argv + 1);
        }
    }
    return say_usage("no command '%s'", argv[1]);
}
