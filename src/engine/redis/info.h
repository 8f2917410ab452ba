/* SPDX-License-Identifier: Apache-2.0 */
/* Fields of the text that INFO answers: lines "field:value" with CRLF, and titles with '#'. Pure.
 */
#ifndef PAWL_ENGINE_REDIS_INFO_H
#define PAWL_ENGINE_REDIS_INFO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pawl__info_value {
    const char *text; /* in the text of INFO, without a NUL behind it; NULL: no such field */
    size_t size;
};

struct pawl__info_value pawl__info_find(const char *info, size_t info_size, const char *field);

bool pawl__info_is(struct pawl__info_value value, const char *text);

/* Copy what fits and looks like a word; anything else becomes "". */
void pawl__info_word(struct pawl__info_value value, char *to, size_t to_size);

/* A plain number of up to 18 digits; anything else is 0. */
int64_t pawl__info_number(struct pawl__info_value value);

/* The value of a key in "key=value,key=value", as in slave0:ip=127.0.0.1,port=6380. */
struct pawl__info_value pawl__info_part(struct pawl__info_value value, const char *key);

#endif
