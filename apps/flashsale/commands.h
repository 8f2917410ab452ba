/* SPDX-License-Identifier: Apache-2.0 */
/* The subcommands. To add one, write its folder and its line here: the line declares
 * command_<name>() and puts it into the table that main.c chooses from and --help prints. A summary
 * of "" keeps it out of --help.
 *
 * A subcommand gets its own arguments: argv[0] is its name. What it returns is the exit status. */
#ifndef FLASHSALE_COMMANDS_H
#define FLASHSALE_COMMANDS_H

#define COMMANDS(COMMAND)                                    \
    COMMAND(serve, "one instance of the shop")               \
    COMMAND(load, "many customers at once")                  \
    COMMAND(audit, "what was really sold, from the records") \
    COMMAND(up, "the whole shop: servers, instances, nginx") \
    COMMAND(recurse, "")

#define COMMAND_DECLARE(name, summary) int command_##name(int argc, char **argv);
COMMANDS(COMMAND_DECLARE)
#undef COMMAND_DECLARE

#endif
