/* SPDX-License-Identifier: Apache-2.0 */
/* Durations as people type them: 5, 0.5, 500ms, 1m30s, 2h, 1d. A number alone counts seconds. */
#ifndef PAWL_TEXT_DURATION_H
#define PAWL_TEXT_DURATION_H

#include <stddef.h>
#include <stdint.h>

/* NULL and the duration, or what is wrong with the text, as the end of the sentence "'5x' ...". */
const char *cli_duration_parse(const char *text, int64_t *ms_out);

/* The other way round, short: "1m30s", "2.5s", "40ms". Gives `out`. */
#define CLI_DURATION_SIZE 32
const char *cli_duration_show(int64_t ms, char out[CLI_DURATION_SIZE]);

#endif
