/* SPDX-License-Identifier: Apache-2.0 */
/* Secrets in URLs on the command line: found wherever they stand, taken out of the process list. */
#ifndef PAWL_LINE_SECRET_H
#define PAWL_LINE_SECRET_H

#include <stddef.h>

struct cli_secret {
    size_t start;
    size_t size; /* 0: none */
};

/* Where the text comes from: in a sentence a URL ends at a space, as an argument it does not. */
enum cli_secret_place { CLI_SECRET_IN_ARGUMENT, CLI_SECRET_IN_SENTENCE };

/* The first secret at or behind `from`: the password of scheme://user:password@, or what follows
 * password= in a query. */
struct cli_secret cli_secret_find(const char *text, size_t from, enum cli_secret_place place);

/* Overwrite the secrets of an argument in place with ***, so that the process list does not show
 * them any more. What is left over at its end becomes NUL bytes. */
void cli_secret_wipe(char *argument);

#endif
