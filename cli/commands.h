/* SPDX-License-Identifier: Apache-2.0 */
/* The subcommands of pawl. To add one, write its file and its line here: the line declares
 * cli_<name>() and puts it into the table that main.c chooses from and --help prints.
 *
 * A subcommand gets its own arguments: argv[0] is its name. What it returns is the exit status. */
#ifndef PAWL_COMMANDS_H
#define PAWL_COMMANDS_H

#define CLI_COMMANDS(COMMAND)                                \
    COMMAND(run, "run a command while holding a lock")       \
    COMMAND(ls, "list the locks that are held")              \
    COMMAND(show, "show one lock")                           \
    COMMAND(watch, "print what happens to locks")            \
    COMMAND(top, "a live view of the locks")                 \
    COMMAND(break, "take a lock away from whoever holds it") \
    COMMAND(doctor, "is this server fit to keep locks?")     \
    COMMAND(bench, "measure what locks cost here")

#define CLI_DECLARE(name, summary) int cli_##name(int argc, char **argv);
CLI_COMMANDS(CLI_DECLARE)
#undef CLI_DECLARE

struct cli_command {
    const char *name;
    const char *summary;
    int (*run)(int argc, char **argv);
};

#endif
