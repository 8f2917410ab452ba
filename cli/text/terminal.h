/* SPDX-License-Identifier: Apache-2.0 */
/* What is known about the terminal that a descriptor leads to, if it leads to one. */
#ifndef PAWL_TEXT_TERMINAL_H
#define PAWL_TEXT_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>

/* Its size. Where the terminal does not know: COLUMNS and LINES of the environment, then 80 and 24.
 * Both are 0 if the descriptor leads elsewhere: then nothing has to fit. */
struct cli_terminal_size {
    size_t columns;
    size_t rows;
};
struct cli_terminal_size cli_terminal_size(int fd);

/* Whether bold and colours are wanted there: it is a terminal, TERM is not "dumb", NO_COLOR is not
 * set. */
bool cli_terminal_has_colours(int fd);

#endif
