/* SPDX-License-Identifier: Apache-2.0 */
/* What a URL says behind its '?', read as the type that is wanted, and where the password of a URL
 * comes from. The parser is url.c.
 *
 * Numbers are read digit by digit with checked arithmetic, so that nothing but the forms named in
 * the sentences is taken and no value wraps around. A password passes through no buffer that is
 * not wiped afterwards, and is never part of a sentence. */
#include "base/url.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/fds.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define QUOTE_SIZE 80
#define PASSWORD_FILE_SIZE_MAX 4096
#define DURATION_SIZE 24
#define BARE_MS_MIN 10 /* fewer milliseconds have to be called so */

static const char *quote(const char *text, char out[QUOTE_SIZE])
{
    return pawl__printable(text, strlen(text), out, QUOTE_SIZE);
}

const char *pawl__url_get(struct pawl__url *url, const char *key)
{
    for (size_t i = 0; i < url->parameter_count; i++) {
        struct pawl__url_parameter *parameter = &url->parameters[i];
        if (strcmp(parameter->key, key) == 0) {
            parameter->used = true;
            return parameter->value;
        }
    }
    return NULL;
}

pawl_status pawl__url_check_unused(const struct pawl__url *url)
{
    for (size_t i = 0; i < url->parameter_count; i++) {
        if (!url->parameters[i].used) {
            char shown[QUOTE_SIZE];
            return pawl__fail(PAWL_INVALID,
                "the URL has a parameter \"%s\", which %s: URLs do not know; check its spelling or "
                "leave it out",
                quote(url->parameters[i].key, shown), url->scheme);
        }
    }
    return PAWL_OK;
}

/* ===== Numbers ===== */

/* Take digits from the front, at most `digits_max`. Their count; 0: none, or too large. */
static int take_digits(const char **at, int digits_max, int64_t *value_out)
{
    int64_t value = 0;
    int count = 0;
    while (count < digits_max && **at >= '0' && **at <= '9') {
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, **at - '0', &value)) {
            return 0;
        }
        (*at)++;
        count++;
    }
    *value_out = value;
    return count;
}

static bool parse_int(const char *text, int64_t *value_out)
{
    bool negative = *text == '-';
    text += negative ? 1 : 0;
    if (take_digits(&text, 19, value_out) == 0 || *text != '\0') {
        return false;
    }
    *value_out = negative ? -*value_out : *value_out;
    return true;
}

pawl_status pawl__url_get_int(
    struct pawl__url *url, const char *key, int64_t min, int64_t max, int64_t *value)
{
    const char *text = pawl__url_get(url, key);
    if (text == NULL) {
        return PAWL_OK;
    }
    int64_t number = 0;
    if (!parse_int(text, &number) || number < min || number > max) {
        char shown[QUOTE_SIZE];
        return pawl__fail(PAWL_INVALID,
            "%s=%s in the URL must be a whole number from %" PRId64 " to %" PRId64, key,
            quote(text, shown), min, max);
    }
    *value = number;
    return PAWL_OK;
}

pawl_status pawl__url_get_bool(struct pawl__url *url, const char *key, bool *value)
{
    static const char *const words[] = {"0", "1", "false", "true", "no", "yes", "off", "on"};
    const char *text = pawl__url_get(url, key);
    if (text == NULL) {
        return PAWL_OK;
    }
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strcmp(text, words[i]) == 0) {
            *value = i % 2 == 1;
            return PAWL_OK;
        }
    }
    char shown[QUOTE_SIZE];
    return pawl__fail(PAWL_INVALID,
        "%s=%s in the URL must be 1 or 0 (or true or false, yes or no, on or off)", key,
        quote(text, shown));
}

/* ===== Durations ===== */

/* A decimal number: whole + part / scale. */
struct decimal {
    int64_t whole;
    int64_t part;
    int64_t scale;
};

static bool take_decimal(const char **at, struct decimal *decimal_out)
{
    *decimal_out = (struct decimal){0, 0, 1};
    if (take_digits(at, 19, &decimal_out->whole) == 0) {
        return false;
    }
    if (**at != '.') {
        return true;
    }
    (*at)++;
    int digits = take_digits(at, 9, &decimal_out->part);
    for (int i = 0; i < digits; i++) {
        decimal_out->scale *= 10;
    }
    return digits > 0;
}

/* Add so many units to a duration. False: too large, or finer than a millisecond. */
static bool add_units(const struct decimal *count, int64_t unit_ms, int64_t *ms)
{
    int64_t whole_ms = 0;
    int64_t part_ms = count->part * unit_ms; /* less than 10^9 days' worth: no overflow */
    return part_ms % count->scale == 0 &&
           !__builtin_mul_overflow(count->whole, unit_ms, &whole_ms) &&
           !__builtin_add_overflow(*ms, whole_ms, ms) &&
           !__builtin_add_overflow(*ms, part_ms / count->scale, ms);
}

static const struct unit {
    const char *name;
    int64_t ms;
} units[] = {{"d", 86400000}, {"h", 3600000}, {"m", 60000}, {"s", 1000}, {"ms", 1}, {NULL, 0}};

/* The unit of this name among those from `unit` on, or NULL. */
static const struct unit *find_unit(const struct unit *unit, const char *name, size_t size)
{
    while (
        unit->name != NULL && (strlen(unit->name) != size || memcmp(unit->name, name, size) != 0)) {
        unit++;
    }
    return unit->name != NULL ? unit : NULL;
}

/* Each unit at most once, the larger ones first; a number alone counts milliseconds. */
static bool parse_duration_ms(const char *text, int64_t *ms_out)
{
    const struct unit *largest = units; /* that may still come */
    *ms_out = 0;
    do {
        struct decimal count;
        if (!take_decimal(&text, &count)) {
            return false;
        }
        bool alone = *text == '\0' && largest == units;
        size_t size = strspn(text, "dhms");
        const struct unit *unit =
            alone ? find_unit(units, "ms", 2) : find_unit(largest, text, size);
        if (unit == NULL || !add_units(&count, unit->ms, ms_out)) {
            return false;
        }
        text += size;
        largest = unit + 1;
    } while (*text != '\0');
    return true;
}

/* In the largest unit that says it exactly: "1h", "3653d". */
static const char *show_duration(int64_t duration_ms, char out[DURATION_SIZE])
{
    const struct unit *unit = units;
    while (unit->ms > 1 && (duration_ms < unit->ms || duration_ms % unit->ms != 0)) {
        unit++;
    }
    snprintf(out, DURATION_SIZE, "%" PRId64 "%s", duration_ms / unit->ms, unit->name);
    return out;
}

/* A few milliseconds without a unit were nearly always meant as seconds. Nothing at all needs none.
 */
static bool lacks_unit(const char *text, int64_t duration_ms)
{
    return duration_ms > 0 && duration_ms < BARE_MS_MIN && strpbrk(text, "dhms") == NULL;
}

pawl_status pawl__url_get_duration_ms(
    struct pawl__url *url, const char *key, int64_t min_ms, int64_t max_ms, int64_t *value)
{
    const char *text = pawl__url_get(url, key);
    if (text == NULL) {
        return PAWL_OK;
    }
    int64_t duration_ms = 0;
    char shown[QUOTE_SIZE];
    const bool parsed = parse_duration_ms(text, &duration_ms);
    if (parsed && lacks_unit(text, duration_ms)) {
        quote(text, shown);
        return pawl__fail(PAWL_INVALID,
            "%s=%s in the URL would mean milliseconds; write %ss for seconds, or %sms", key, shown,
            shown, shown);
    }
    if (!parsed || duration_ms < min_ms || duration_ms > max_ms) {
        char least[DURATION_SIZE];
        char most[DURATION_SIZE];
        return pawl__fail(PAWL_INVALID,
            "%s=%s in the URL must be a duration such as 250ms, 10s, 1m30s, 2h or 1d, from %s to "
            "%s",
            key, quote(text, shown), show_duration(min_ms, least), show_duration(max_ms, most));
    }
    *value = duration_ms;
    return PAWL_OK;
}

/* ===== The password ===== */

void pawl__wipe_free(char *secret)
{
    if (secret != NULL) {
        explicit_bzero(secret, strlen(secret));
        pawl__free(secret);
    }
}

static pawl_status copy_password(const char *password, char **password_out)
{
    *password_out = pawl__strdup(password);
    return *password_out != NULL ? PAWL_OK
                                 : pawl__fail(PAWL_NO_MEMORY, "no memory for the password");
}

static pawl_status password_from_env(const char *variable, char **password_out)
{
    const char *password = getenv(variable);
    if (password == NULL || password[0] == '\0') {
        char shown[QUOTE_SIZE];
        return pawl__fail(PAWL_INVALID,
            "password_env=%s in the URL: the environment has no such variable, or it is empty; set "
            "it to the password",
            quote(variable, shown));
    }
    return copy_password(password, password_out);
}

static pawl_status fail_open(const char *shown, int error)
{
    if (error == ENOMEM) {
        return pawl__fail(PAWL_NO_MEMORY, "no memory to read password_file=%s", shown);
    }
    bool denied = error == EACCES || error == EPERM;
    return pawl__fail(denied ? PAWL_DENIED : PAWL_INVALID,
        "password_file=%s in the URL cannot be read: %s; name a file that belongs to the user who "
        "runs this program, and chmod 600 it",
        shown, pawl__errno_text(error));
}

/* Nobody but its owner, who is the caller or root, may read or write the file. */
static pawl_status check_file(int fd, const char *shown)
{
    struct stat info;
    if (fstat(fd, &info) != 0) {
        return fail_open(shown, errno);
    }
    if (!S_ISREG(info.st_mode)) {
        return pawl__fail(PAWL_INVALID,
            "password_file=%s in the URL is not a regular file; put the password into one and "
            "chmod 600 it",
            shown);
    }
    if (info.st_uid != geteuid() && info.st_uid != 0) {
        return pawl__fail(PAWL_INVALID,
            "password_file=%s in the URL belongs to another user; chown it to the user who runs "
            "this "
            "program, and chmod 600 it",
            shown);
    }
    if ((info.st_mode & (S_IRGRP | S_IWGRP | S_IROTH | S_IWOTH)) != 0) {
        return pawl__fail(PAWL_INVALID,
            "password_file=%s in the URL can be read or changed by other users; chmod 600 it",
            shown);
    }
    return PAWL_OK;
}

/* Read up to `size` bytes; -1 with errno. */
static ssize_t read_all(int fd, char *to, size_t size)
{
    size_t used = 0;
    while (used < size) {
        ssize_t got = read(fd, to + used, size - used);
        if (got == 0) {
            break;
        }
        if (got < 0 && errno != EINTR) {
            return -1;
        }
        used += got > 0 ? (size_t)got : 0;
    }
    return (ssize_t)used;
}

/* Make a string of the file's bytes: without the newline at the end, if there is one. */
static pawl_status password_from_bytes(
    char *bytes, size_t size, const char *shown, char **password_out)
{
    if (size > PASSWORD_FILE_SIZE_MAX) {
        return pawl__fail(PAWL_INVALID,
            "password_file=%s in the URL is longer than %d bytes; it must hold the password alone",
            shown, PASSWORD_FILE_SIZE_MAX);
    }
    if (size > 0 && bytes[size - 1] == '\n') {
        size--;
        size -= size > 0 && bytes[size - 1] == '\r' ? 1 : 0;
    }
    bytes[size] = '\0';
    if (size == 0 || strlen(bytes) != size) {
        return pawl__fail(PAWL_INVALID,
            "password_file=%s in the URL %s; it must hold the password as one line of text", shown,
            size == 0 ? "is empty" : "has a NUL byte");
    }
    return copy_password(bytes, password_out);
}

/* O_NONBLOCK, so that a FIFO in the file's place is refused instead of waited for. */
static pawl_status password_from_file(const char *path, char **password_out)
{
    char shown[QUOTE_SIZE];
    quote(path, shown);
    int fd = pawl__fd_openat(AT_FDCWD, path, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
    if (fd < 0) {
        return fail_open(shown, errno);
    }
    pawl_status status = check_file(fd, shown);
    if (status == PAWL_OK) {
        char bytes[PASSWORD_FILE_SIZE_MAX + 1];
        ssize_t size = read_all(fd, bytes, sizeof bytes);
        status = size < 0 ? fail_open(shown, errno)
                          : password_from_bytes(bytes, (size_t)size, shown, password_out);
        explicit_bzero(bytes, sizeof bytes);
    }
    pawl__fd_close(fd);
    return status;
}

pawl_status pawl__url_password(struct pawl__url *url, char **password_out)
{
    *password_out = NULL;
    const char *variable = pawl__url_get(url, "password_env");
    const char *path = pawl__url_get(url, "password_file");
    if (variable != NULL) {
        return password_from_env(variable, password_out);
    }
    if (path != NULL) {
        return password_from_file(path, password_out);
    }
    return url->password != NULL ? copy_password(url->password, password_out) : PAWL_OK;
}
