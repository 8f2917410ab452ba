/* SPDX-License-Identifier: Apache-2.0 */
/* Finding and wiping secrets in text that may be or hold a URL; see secret.h.
 *
 * The rules are generous: a word that only looks like a URL with a password loses it too. The user
 * part ends at the last '@' of the URL, wherever that stands, because a password that was not
 * percent-encoded may have anything inside: '@', '/', '?'. */
#include "line/secret.h"

#include <string.h>

static const char mask[] = "***";
static const char query_key[] = "password=";

/* What ends a URL. An argument is one URL, and a space that was not encoded is a part of it. */
static const char *const url_ends[] = {
    [CLI_SECRET_IN_ARGUMENT] = "",
    [CLI_SECRET_IN_SENTENCE] = " \t\n",
};

/* The password of the first scheme://user:password@host that has one. */
static struct cli_secret find_userinfo(const char *text, enum cli_secret_place place)
{
    struct cli_secret secret = {0, 0};
    const char *next = text;
    while (secret.size == 0 && (next = strstr(next, "://")) != NULL) {
        next += 3;
        const char *at = memrchr(next, '@', strcspn(next, url_ends[place]));
        const char *colon = at != NULL ? memchr(next, ':', (size_t)(at - next)) : NULL;
        if (colon != NULL) {
            secret = (struct cli_secret){(size_t)(colon + 1 - text), (size_t)(at - colon - 1)};
        }
    }
    return secret;
}

static struct cli_secret find_parameter(const char *text, enum cli_secret_place place)
{
    struct cli_secret secret = {0, 0};
    const char *next = text;
    while (secret.size == 0 && (next = strstr(next, query_key)) != NULL) {
        next += strlen(query_key);
        const size_t size = strcspn(next, url_ends[place]);
        const size_t value_size = strcspn(next, "&#");
        secret.start = (size_t)(next - text);
        secret.size = value_size < size ? value_size : size;
    }
    return secret;
}

struct cli_secret cli_secret_find(const char *text, size_t from, enum cli_secret_place place)
{
    struct cli_secret first = find_userinfo(text + from, place);
    struct cli_secret second = find_parameter(text + from, place);
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
        struct cli_secret secret = cli_secret_find(argument, at, CLI_SECRET_IN_ARGUMENT);
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
