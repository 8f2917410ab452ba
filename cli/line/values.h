/* SPDX-License-Identifier: Apache-2.0 */
/* The values of options: reading them as what the option's type says; used by options.c alone. */
#ifndef PAWL_LINE_VALUES_H
#define PAWL_LINE_VALUES_H

#include "line/options.h"

/* What the option wants, for a sentence: "a duration". */
const char *cli_value_wanted(const struct cli_option *option);

/* Read the text and store it. CLI_GO_ON, or CLI_USAGE after a sentence; `shown` is the option as
 * the user knows it. */
int cli_value_store(const struct cli_option *option, const char *shown, char *text);

#endif
