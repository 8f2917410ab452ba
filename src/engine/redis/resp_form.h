/* SPDX-License-Identifier: Apache-2.0 */

/* For the reply reader alone: is the text of an element what its type says? Pure. */
#ifndef PAWL_ENGINE_REDIS_RESP_FORM_H
#define PAWL_ENGINE_REDIS_RESP_FORM_H

#include "engine/redis/resp.h"

static inline bool pawl__resp_is_digit(char byte)
{
    return byte >= '0' && byte <= '9';
}

/* Types that are no numbers always are. */
bool pawl__resp_well_formed(enum pawl__resp_type type, const char *text, size_t size);

#endif
