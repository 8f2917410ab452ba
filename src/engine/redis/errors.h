/* SPDX-License-Identifier: Apache-2.0 */
/* What an error reply of the server means to a lock: pure, it looks at the text alone. */
#ifndef PAWL_ENGINE_REDIS_ERRORS_H
#define PAWL_ENGINE_REDIS_ERRORS_H

#include "pawl.h"

#include <stdbool.h>
#include <stddef.h>

struct pawl__verdict {
    pawl_status status;
    bool again;          /* trying again later may help */
    bool foreign;        /* the key is no lock, so whoever held it holds it no longer */
    bool demoted;        /* the server takes no writes any more: look for it anew */
    const char *meaning; /* what the server means, and a remedy, without a name; NULL: not known */
    char *sentence;      /* from pawl__format(); NULL: no memory */
};

/* Judge an error reply to an operation on a name. Whatever stands in the text, the sentence is fit
 * to print and short, and does not have the secret (NULL: there is none). */
struct pawl__verdict pawl__redis_judge(
    const char *text, size_t text_size, const char *name, size_t name_size, const char *secret);

/* The server's words, made fit to print; not a word if they repeat the secret. */
const char *pawl__redis_show(
    const char *text, size_t text_size, const char *secret, char *out, size_t out_size);

/* Is this the first word of an error's text? */
bool pawl__redis_error_is(const char *text, size_t text_size, const char *code);

/* Was it refused by the server's access list, as a command of its own or inside a script? */
bool pawl__redis_error_is_denial(const char *text, size_t text_size);

/* The same, and it is a key that the user may not see, not a command that it may not run. */
bool pawl__redis_error_hides_key(const char *text, size_t text_size);

#endif
