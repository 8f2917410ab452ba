/* SPDX-License-Identifier: Apache-2.0 */
/* Matching without recursion: each time that a byte does not fit, the last star takes one byte
 * more, and only the last one ever has to (what an earlier one could take, a later one can too). */
#include "base/glob.h"

#include <string.h>

/* Inside [...]: one byte or a range. Answers where the next one begins. An escaped byte begins no
 * range, and the end of a range is taken as it is: so Redis reads it. */
static const char *match_range(const char *at, unsigned char byte, bool *fits)
{
    const bool escaped = at[0] == '\\' && at[1] != '\0';
    at += escaped ? 1 : 0;
    unsigned char low = (unsigned char)*at++;
    unsigned char high = low;
    if (!escaped && at[0] == '-' && at[1] != '\0') {
        high = (unsigned char)at[1];
        at += 2;
    }
    if (low > high) {
        const unsigned char swapped = low;
        low = high;
        high = swapped;
    }
    *fits = *fits || (byte >= low && byte <= high);
    return at;
}

/* A set whose bracket is never closed ends with the pattern. */
static const char *match_set(const char *at, unsigned char byte, bool *fits_out)
{
    const bool negated = *at == '^';
    bool fits = false;
    at += negated ? 1 : 0;
    while (*at != '\0' && *at != ']') {
        at = match_range(at, byte, &fits);
    }
    *fits_out = fits != negated;
    return *at == ']' ? at + 1 : at;
}

static const char *match_one(const char *at, unsigned char byte, bool *fits_out)
{
    if (*at == '[') {
        return match_set(at + 1, byte, fits_out);
    }
    if (*at == '?') {
        *fits_out = true;
        return at + 1;
    }
    at += at[0] == '\\' && at[1] != '\0' ? 1 : 0;
    *fits_out = (unsigned char)*at == byte;
    return at + 1;
}

bool pawl__glob_matches(const char *pattern, const char *name, size_t name_size)
{
    const char *star = NULL; /* behind the last star */
    size_t taken = 0;        /* where that star's bytes end */
    size_t i = 0;
    if (pattern == NULL) {
        return true;
    }
    while (i < name_size || *pattern == '*') {
        bool fits = false;
        const char *next = pattern;
        if (*pattern == '*') {
            star = ++pattern;
            taken = i;
            continue;
        }
        if (*pattern != '\0') {
            next = match_one(pattern, (unsigned char)name[i], &fits);
        }
        if (fits) {
            pattern = next;
            i++;
        } else if (star == NULL) {
            return false;
        } else {
            pattern = star;
            i = ++taken;
        }
    }
    return *pattern == '\0';
}

bool pawl__glob_literal(const char *pattern, char *name_out)
{
    if (pattern == NULL) {
        return false;
    }
    while (*pattern != '\0') {
        if (strchr("*?[", *pattern) != NULL) {
            return false;
        }
        pattern += pattern[0] == '\\' && pattern[1] != '\0' ? 1 : 0;
        *name_out++ = *pattern++;
    }
    *name_out = '\0';
    return true;
}

void pawl__glob_escape(const char *name, size_t name_size, char *pattern_out)
{
    for (size_t i = 0; i < name_size; i++) {
        if (strchr("*?[]\\^-", name[i]) != NULL) {
            *pattern_out++ = '\\';
        }
        *pattern_out++ = name[i];
    }
    *pattern_out = '\0';
}
