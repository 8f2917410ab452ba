/* SPDX-License-Identifier: Apache-2.0 */
/* The engines of this build. */
#include "core/engine.h"

#include "base/error.h"

#include <stdio.h>
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

pawl_status pawl__engine_missing(const struct pawl__url *url)
{
    char text[160];
    char guess[sizeof text + 48] = "there";
    const int size =
        snprintf(text, sizeof text, "%s:%s", url->scheme, url->path != NULL ? url->path : "");
    if (!url->slashed && (size_t)size < sizeof text && pawl__url_is_address(text)) {
        snprintf(guess, sizeof guess, "did you mean redis://%s? There", text);
    }
    return pawl__fail(PAWL_UNSUPPORTED,
        "no backend '%s:'; %s are redis://, redis+unix://, file: and memory: (TLS, clusters and "
        "other backends are not there yet)",
        url->scheme, guess);
}
