/* SPDX-License-Identifier: Apache-2.0 */
/* Values as people type them: see values.h. */
#include "common/values.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

bool parse_number(const char *text, int64_t *number_out)
{
    const char *digits = text[0] == '-' ? text + 1 : text;
    if (digits[0] == '\0' || digits[strspn(digits, "0123456789")] != '\0') {
        return false;
    }
    errno = 0;
    const long long number = strtoll(text, NULL, 10);
    if (errno != 0) {
        return false;
    }
    *number_out = number;
    return true;
}

/* A number, maybe with a decimal point, and the unit behind it. */
static bool parse_scaled(const char *text, double *number_out, const char **unit_out)
{
    const size_t length = strspn(text, "0123456789.");
    char digits[32];
    if (length == 0 || length >= sizeof digits) {
        return false;
    }
    memcpy(digits, text, length);
    digits[length] = '\0';
    char *end = NULL;
    *number_out = strtod(digits, &end);
    *unit_out = text + length;
    return *end == '\0';
}

struct unit {
    const char *name;
    double factor;
};

static bool parse_with_units(const char *text, const struct unit *units, int64_t *value_out)
{
    double number = 0;
    const char *unit = NULL;
    if (!parse_scaled(text, &number, &unit)) {
        return false;
    }
    for (; units->name != NULL; units++) {
        if (strcmp(units->name, unit) == 0) {
            const double value = number * units->factor;
            if (value > 1e15) {
                return false;
            }
            *value_out = (int64_t)llround(value);
            return true;
        }
    }
    return false;
}

bool parse_duration_us(const char *text, int64_t *us_out)
{
    static const struct unit units[] = {
        {"", 1e6}, {"us", 1}, {"ms", 1e3}, {"s", 1e6}, {"m", 60e6}, {"h", 3600e6}, {NULL, 0}};
    return parse_with_units(text, units, us_out);
}

bool parse_size(const char *text, int64_t *bytes_out)
{
    static const struct unit units[] = {{"", 1}, {"k", 1024}, {"K", 1024}, {"M", 1024 * 1024},
        {"G", 1024 * 1024 * 1024}, {NULL, 0}};
    return parse_with_units(text, units, bytes_out);
}

size_t split_list(char *text, const char **parts_out, size_t max)
{
    size_t count = 0;
    for (char *part = text; part != NULL;) {
        char *comma = strchr(part, ',');
        if (comma != NULL) {
            *comma = '\0';
        }
        if (part[0] == '\0') {
            return 0;
        }
        if (count == max) {
            return max + 1;
        }
        parts_out[count++] = part;
        part = comma != NULL ? comma + 1 : NULL;
    }
    return count;
}
