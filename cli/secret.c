/* SPDX-License-Identifier: Apache-2.0 */
/* Finding and wiping secrets in text that may be or hold a URL; see secret.h.
 *
 * The rules are generous: a word that only looks like a URL with a password loses it too. The user
 * part ends at the last '@' before the host ends, because a password that was not percent-encoded
 * may have an '@' inside. */
#include "secret.h"

#include <string.h>

static const char mask[] = "***";
static const char query_key[] = "password=";

/* The password in scheme://user:password@host, if `text` has one behind its first "://". */
static struct cli_secret find_userinfo(const char *text)
{
    const char *authority = strstr(text, "://");
    if (authority == NULL) {
        return (struct cli_secret){0, 0};
    }
    authority += 3;
    const size_t size = strcspn(authority, "/?# \t\n");
    const char *at = memrchr(authority, '@', size);
    const char *colon = at != NULL ? memchr(authority, ':', (size_t)(at - authority)) : NULL;
    if (colon == NULL || colon + 1 == at) {
        /* A slash or a question mark in a password that was not encoded ends the authority early.
         */
        const char *end = authority + strcspn(authority, " \t\n");
        at = memrchr(authority, '@', (size_t)(end - authority));
        colon = at != NULL ? memchr(authority, ':', (size_t)(at - authority)) : NULL;
    }
    if (colon == NULL || colon + 1 == at) {
        return (struct cli_secret){0, 0};
    }
    return (struct cli_secret){(size_t)(colon + 1 - text), (size_t)(at - colon - 1)};
}

static struct cli_secret find_parameter(const char *text)
{
    const char *key = strstr(text, query_key);
    if (key == NULL) {
        return (struct cli_secret){0, 0};
    }
    const char *value = key + strlen(query_key);
    return (struct cli_secret){(size_t)(value - text), strcspn(value, "&# \t\n")};
}

struct cli_secret cli_secret_find(const char *text, size_t from)
{
    struct cli_secret first = find_userinfo(text + from);
    struct cli_secret second = find_parameter(text + from);
    if (first.size == 0 || (second.size > 0 && second.start < first.start)) {
        first = second;
    }
    first.start += from;
    return first;
}

void cli_secret_wipe(char *argument)
{
    size_t at = 0;
    for (;;) {
        struct cli_secret secret = cli_secret_find(argument, at);
        if (secret.size == 0) {
            return;
        }
        const size_t length = strlen(argument);
        const size_t shown = secret.size < sizeof mask - 1 ? secret.size : sizeof mask - 1;
        char *rest = argument + secret.start + secret.size;
        const size_t rest_size = length - secret.start - secret.size;
        memcpy(argument + secret.start, mask, shown);
        memmove(argument + secret.start + shown, rest, rest_size);
        explicit_bzero(argument + secret.start + shown + rest_size, secret.size - shown);
        at = secret.start + shown;
    }
}
