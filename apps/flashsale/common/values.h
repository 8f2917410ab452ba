/* SPDX-License-Identifier: Apache-2.0 */
/* Values as people type them. Each of these answers false for what it cannot read, and then leaves
 * the result alone. */
#ifndef FLASHSALE_COMMON_VALUES_H
#define FLASHSALE_COMMON_VALUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Decimal digits, maybe behind a '-', and nothing else. */
bool parse_number(const char *text, int64_t *number_out);

/* "30s", "500ms", "20us", "1m", "1.5s"; a number alone counts seconds. */
bool parse_duration_us(const char *text, int64_t *us_out);

/* "4096", "64k", "8M": bytes. */
bool parse_size(const char *text, int64_t *bytes_out);

/* Parts of "a,b,c", as pointers into the text, whose commas become NULs. Gives how many there are,
 * or max + 1 if there are more than that. No part may be empty: then it is 0. */
size_t split_list(char *text, const char **parts_out, size_t max);

#endif
