/* SPDX-License-Identifier: Apache-2.0 */
/* UTF-8, as far as somebody needs it who prints what others wrote: where a character ends, how many
 * columns it takes, and whether it may go to a terminal at all. No locale is asked: the bytes are
 * those of a lock's name, and mean the same everywhere. */
#ifndef PAWL_TEXT_UTF8_H
#define PAWL_TEXT_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The length of the character at the beginning of the bytes, and its number; 0 if that is not valid
 * UTF-8 (cut, overlong, a surrogate, beyond U+10FFFF). size > 0. */
size_t cli_utf8_decode(const char *bytes, size_t size, uint32_t *code_out);

/* How many columns of a terminal a printable character takes: 0, 1 or 2. */
size_t cli_utf8_width(uint32_t code);

/* Whether a terminal may do something else with it than show it: control characters (also those
 * above 0x80), line separators, and what is invisible or turns the direction of the text around. */
bool cli_utf8_is_harmful(uint32_t code);

#endif
