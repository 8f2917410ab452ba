/* SPDX-License-Identifier: Apache-2.0 */

/* The form of doubles and big numbers, which are kept as text. */
#include "engine/redis/resp_form.h"

#include <string.h>

static size_t count_digits(const char *text, size_t size)
{
    size_t count = 0;
    while (count < size && pawl__resp_is_digit(text[count])) {
        count++;
    }
    return count;
}

static bool is_big_number(const char *text, size_t size)
{
    const size_t sign = size > 0 && (text[0] == '-' || text[0] == '+') ? 1 : 0;
    return size > sign && count_digits(text + sign, size - sign) == size - sign;
}

/* Is it inf, nan, or digits with an optional point and an optional exponent? The value is not
 * worked out: nothing here asks for one, and strtod() would depend on the locale. */
static bool is_double(const char *text, size_t size)
{
    size_t at = size > 0 && (text[0] == '-' || text[0] == '+') ? 1 : 0;
    if (size - at == 3 && (memcmp(text + at, "inf", 3) == 0 || memcmp(text + at, "nan", 3) == 0)) {
        return true;
    }
    size_t digits = count_digits(text + at, size - at);
    at += digits;
    if (at < size && text[at] == '.') {
        const size_t fraction = count_digits(text + at + 1, size - at - 1);
        digits += fraction;
        at += 1 + fraction;
    }
    if (digits > 0 && at < size && (text[at] == 'e' || text[at] == 'E')) {
        return is_big_number(text + at + 1, size - at - 1);
    }
    return digits > 0 && at == size;
}

bool pawl__resp_well_formed(enum pawl__resp_type type, const char *text, size_t size)
{
    if (type == PAWL__RESP_DOUBLE) {
        return is_double(text, size);
    }
    return type != PAWL__RESP_BIG || is_big_number(text, size);
}
