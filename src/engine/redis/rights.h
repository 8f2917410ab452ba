/* SPDX-License-Identifier: Apache-2.0 */
/* Missing rights in words. The script rights.lua finds them; this makes the sentence of what it
 * answers. Pure. */
#ifndef PAWL_ENGINE_REDIS_RIGHTS_H
#define PAWL_ENGINE_REDIS_RIGHTS_H

#include "engine/redis/place.h"
#include "engine/redis/resp.h"

enum { PAWL__RIGHTS_WORD_SIZE = 264 };

/* The word, for a shell, that grants a key: a pattern for it. */
const char *pawl__rights_key(struct pawl__redis_text key, char out[PAWL__RIGHTS_WORD_SIZE]);

/* Does the reply name anything at all? */
bool pawl__rights_any_missing(const struct pawl__resp_node *reply);

/* One sentence with every right that is missing and the command that grants it, for a shell, which
 * begins with `grant`. NULL: no memory. */
char *pawl__rights_sentence(const struct pawl__resp_reader *reader,
    const struct pawl__resp_node *reply, const char *grant, const struct pawl__redis_place *place);

#endif
