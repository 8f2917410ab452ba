/* SPDX-License-Identifier: Apache-2.0 */
/* The engines of this build. */
#include "core/engine.h"

#include <string.h>

extern const struct pawl__engine pawl__engine_memory;
extern const struct pawl__engine pawl__engine_file;
extern const struct pawl__engine pawl__engine_redis;

static const struct pawl__engine *const engines[] = {
    &pawl__engine_file,
    &pawl__engine_redis,
    &pawl__engine_memory,
};

static bool serves(const struct pawl__engine *engine, const char *scheme)
{
    for (const char *const *known = engine->schemes; *known != NULL; known++) {
        if (strcmp(*known, scheme) == 0) {
            return true;
        }
    }
    return false;
}

const struct pawl__engine *pawl__engine_find(const char *scheme)
{
    for (size_t i = 0; i < sizeof engines / sizeof engines[0]; i++) {
        if (serves(engines[i], scheme)) {
            return engines[i];
        }
    }
    return NULL;
}
