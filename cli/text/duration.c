/* SPDX-License-Identifier: Apache-2.0 */
/* Durations, read and shown; see duration.h. Digits are taken one by one with checked arithmetic,
 * so that nothing but the documented forms is taken and nothing wraps around. */
#include "text/duration.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static const char malformed[] = "is no duration; write it like 5, 0.5, 500ms, 1m30s or 2h";
static const char negative[] = "is negative; a duration is 0 or more";
static const char disordered[] = "names its units out of order or twice; write it like 1m30s";
static const char too_long[] = "is too long; at most 292 years can be counted";
static const char too_fine[] = "is finer than a millisecond; the smallest step is 1ms";

static const struct unit {
    const char *name;
    int64_t ms;
} units[] = {{"d", 86400000}, {"h", 3600000}, {"m", 60000}, {"s", 1000}, {"ms", 1}, {NULL, 0}};

enum { FRACTION_DIGITS_MAX = 9 };

/* Take digits from the front. Their count, or -1 if the number is too large. */
static int take_digits(const char **at, int64_t *value_out)
{
    int count = 0;
    *value_out = 0;
    while (**at >= '0' && **at <= '9') {
        if (__builtin_mul_overflow(*value_out, 10, value_out) ||
            __builtin_add_overflow(*value_out, **at - '0', value_out)) {
            return -1;
        }
        (*at)++;
        count++;
    }
    return count;
}

/* A decimal number: whole + part / scale. */
struct decimal {
    int64_t whole;
    int64_t part;
    int64_t scale;
};

static const char *take_decimal(const char **at, struct decimal *decimal_out)
{
    *decimal_out = (struct decimal){0, 0, 1};
    const int whole = take_digits(at, &decimal_out->whole);
    int fraction = 0;
    if (whole >= 0 && **at == '.') {
        (*at)++;
        fraction = take_digits(at, &decimal_out->part);
        if (fraction < 0 || fraction > FRACTION_DIGITS_MAX) {
            return too_fine;
        }
        for (int i = 0; i < fraction; i++) {
            decimal_out->scale *= 10;
        }
    }
    return whole < 0 ? too_long : whole + fraction == 0 ? malformed : NULL;
}

static const struct unit *find_unit(const char *name, size_t size)
{
    const struct unit *unit = units;
    while (
        unit->name != NULL && (strlen(unit->name) != size || memcmp(unit->name, name, size) != 0)) {
        unit++;
    }
    return unit->name != NULL ? unit : NULL;
}

static const char *add_units(const struct decimal *count, const struct unit *unit, int64_t *ms)
{
    int64_t whole_ms = 0;
    /* Less than 10^9 days' worth: no overflow. */
    const int64_t part_ms = count->part * unit->ms;
    if (part_ms % count->scale != 0) {
        return too_fine;
    }
    if (__builtin_mul_overflow(count->whole, unit->ms, &whole_ms) ||
        __builtin_add_overflow(*ms, whole_ms, ms) ||
        __builtin_add_overflow(*ms, part_ms / count->scale, ms)) {
        return too_long;
    }
    /* Microseconds of it must fit, too. */
    return *ms <= INT64_MAX / 1000 ? NULL : too_long;
}

const char *cli_duration_parse(const char *text, int64_t *ms_out)
{
    if (text[0] == '-' && strpbrk(text, "0123456789") == text + 1) {
        return negative;
    }
    const struct unit *smallest = NULL; /* named so far */
    int64_t ms = 0;
    do {
        struct decimal count;
        const char *wrong = take_decimal(&text, &count);
        const size_t size = strspn(text, "dhms");
        const struct unit *unit = size > 0 || smallest != NULL || *text != '\0'
                                      ? find_unit(text, size)
                                      : find_unit("s", 1);
        if (wrong == NULL) {
            wrong = unit == NULL                           ? malformed
                    : smallest != NULL && unit <= smallest ? disordered
                                                           : add_units(&count, unit, &ms);
        }
        if (wrong != NULL) {
            return wrong;
        }
        text += size;
        smallest = unit;
    } while (*text != '\0');
    *ms_out = ms;
    return NULL;
}

/* The two largest units that are not zero; below ten seconds, tenths of a second. */
const char *cli_duration_show(int64_t ms, char out[CLI_DURATION_SIZE])
{
    if (ms < 1000) {
        snprintf(out, CLI_DURATION_SIZE, "%" PRId64 "ms", ms);
        return out;
    }
    if (ms < 10000 && ms % 1000 != 0) {
        snprintf(out, CLI_DURATION_SIZE, "%" PRId64 ".%" PRId64 "s", ms / 1000, ms % 1000 / 100);
        return out;
    }
    const struct unit *unit = units;
    while (ms < unit->ms) {
        unit++;
    }
    const struct unit *next = unit + 1;
    const int64_t rest = unit->ms > 1000 ? ms % unit->ms / next->ms : 0;
    int used = snprintf(out, CLI_DURATION_SIZE, "%" PRId64 "%s", ms / unit->ms, unit->name);
    if (rest > 0 && used > 0) {
        snprintf(out + used, CLI_DURATION_SIZE - (size_t)used, "%" PRId64 "%s", rest, next->name);
    }
    return out;
}
