/* SPDX-License-Identifier: Apache-2.0 */
/* base/url.h: the typed values behind the '?', and the password from its three places.
 *
 * Each value is put into a URL and asked for; what is refused must leave the variable alone and
 * name the key and the right form. Password files are made in a temporary directory, with every
 * mode, size and kind that matters. */
#include "base/url.h"

#include "base/alloc.h"
#include "base/error.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <cmocka.h>

#define UNTOUCHED (-77)
#define CANARY "Kz9canaryQ4"

static struct pawl__url parsed(const char *text)
{
    struct pawl__url url;
    if (pawl__url_parse(text, &url) != PAWL_OK) {
        fail_msg("%s: %s", text, pawl__error_text());
    }
    return url;
}

static struct pawl__url with_value(const char *value)
{
    char text[200];
    snprintf(text, sizeof text, "x:?key=%s", value);
    return parsed(text);
}

/* ===== Typed values ===== */

static void check_duration(const char *value, int64_t min_ms, int64_t max_ms, int64_t wanted)
{
    struct pawl__url url = with_value(value);
    int64_t got = UNTOUCHED;
    pawl_status status = pawl__url_get_duration_ms(&url, "key", min_ms, max_ms, &got);
    if (got != wanted || status != (wanted == UNTOUCHED ? PAWL_INVALID : PAWL_OK)) {
        fail_msg("%s: status %d, %lld ms", value, (int)status, (long long)got);
    }
    if (status != PAWL_OK) {
        assert_non_null(strstr(pawl__error_text(), "key="));
        assert_non_null(strstr(pawl__error_text(), "1m30s"));
    }
    assert_true(url.parameters[0].used);
    pawl__url_free(&url);
}

static const struct {
    const char *value;
    int64_t ms;
} right_durations[] = {
    {"0", 0},
    {"0.0", 0},
    {"10", 10},
    {"250", 250},
    {"250ms", 250},
    {"10s", 10000},
    {"1m30s", 90000},
    {"2h", 7200000},
    {"1d", 86400000},
    {"1.5d12h", 172800000},
    {"1.5s", 1500},
    {"0.25s", 250},
    {"1.000000000s", 1000},
    {"0.5m", 30000},
    {"1h1m1s1ms", 3661001},
    {"1h1ms", 3600001},
    {"1.5h30s", 5430000},
    {"007s", 7000},
    {"0.0000025h", 9},
    {"9ms", 9},
    {"20.0", 20},
    {"90m", 5400000},
    {"9223372036854775807", INT64_MAX},
    {"9223372036854775807ms", INT64_MAX},
    {"9223372036854775s807ms", INT64_MAX},
    {"2562047788015h12m55s807ms", INT64_MAX},
};

static const char *const wrong_durations[] = {
    "",
    "s",
    "ms",
    "-1",
    "-1s",
    "+1s",
    "1x",
    "1S",
    "1sm",
    "1s1s",
    "30s1m",
    "1ms1s",
    "1m30",
    "1h1",
    ".5s",
    "5.s",
    "5.",
    "1.5.5s",
    "1.5",
    "1.5ms",
    "0.0001s",
    "1.0000000001s",
    "1us",
    "1ns",
    "1e3",
    "0x10",
    "s1",
    "1,5s",
    "9223372036854775808",
    "9223372036854775s808ms",
    "9223372036854776s",
    "2562047788016h",
    "5124095576031h",
    "99999999999999999999h",
    "9223372036854775807ms1",
    "1%20s",
    "inf",
    "10sec",
};

static void durations(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof right_durations / sizeof right_durations[0]; i++) {
        check_duration(right_durations[i].value, 0, INT64_MAX, right_durations[i].ms);
    }
    for (size_t i = 0; i < sizeof wrong_durations / sizeof wrong_durations[0]; i++) {
        check_duration(wrong_durations[i], 0, INT64_MAX, UNTOUCHED);
    }
}

static void duration_bounds(void **state)
{
    (void)state;
    check_duration("9ms", 10, 1000, UNTOUCHED);
    check_duration("10", 10, 1000, 10);
    check_duration("1s", 10, 1000, 1000);
    check_duration("1001ms", 10, 1000, UNTOUCHED);
    assert_non_null(strstr(pawl__error_text(), "key=1001ms"));
    assert_non_null(strstr(pawl__error_text(), "from 10ms to 1s"));
}

/* "?timeout=3": three milliseconds would not do, and three seconds were not written. */
static void duration_without_a_unit(void **state)
{
    (void)state;
    static const char *const values[] = {"1", "3", "9", "007", "2.0"};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        struct pawl__url url = with_value(values[i]);
        int64_t got = UNTOUCHED;
        char remedy[64];
        snprintf(remedy, sizeof remedy, "write %ss for seconds, or %sms", values[i], values[i]);
        assert_int_equal(pawl__url_get_duration_ms(&url, "key", 0, INT64_MAX, &got), PAWL_INVALID);
        assert_int_equal(got, UNTOUCHED);
        assert_non_null(strstr(pawl__error_text(), "would mean milliseconds"));
        assert_non_null(strstr(pawl__error_text(), remedy));
        pawl__url_free(&url);
    }
}

static void check_int(const char *value, int64_t min, int64_t max, int64_t wanted)
{
    struct pawl__url url = with_value(value);
    int64_t got = UNTOUCHED;
    pawl_status status = pawl__url_get_int(&url, "key", min, max, &got);
    if (got != wanted || status != (wanted == UNTOUCHED ? PAWL_INVALID : PAWL_OK)) {
        fail_msg("%s: status %d, %lld", value, (int)status, (long long)got);
    }
    pawl__url_free(&url);
}

static void integers(void **state)
{
    (void)state;
    check_int("0", 0, 15, 0);
    check_int("15", 0, 15, 15);
    check_int("007", 0, 15, 7);
    check_int("-3", -5, 5, -3);
    check_int("9223372036854775807", 0, INT64_MAX, INT64_MAX);
    check_int("-9223372036854775807", INT64_MIN, 0, -INT64_MAX);
    check_int("16", 0, 15, UNTOUCHED);
    assert_non_null(strstr(pawl__error_text(), "key=16"));
    assert_non_null(strstr(pawl__error_text(), "a whole number from 0 to 15"));
    check_int("-1", 0, 15, UNTOUCHED);
    static const char *const wrong[] = {"", "-", "+1", "--1", "1.0", "1x", "x1", "0x1", "1%20",
        "%201", "9223372036854775808", "18446744073709551617", "99999999999999999999", "1e1"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        check_int(wrong[i], INT64_MIN, INT64_MAX, UNTOUCHED);
    }
}

static void booleans(void **state)
{
    (void)state;
    static const char *const words[] = {"0", "1", "false", "true", "no", "yes", "off", "on"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        struct pawl__url url = with_value(words[i]);
        bool value = i % 2 == 0;
        assert_int_equal(pawl__url_get_bool(&url, "key", &value), PAWL_OK);
        assert_int_equal(value, i % 2 == 1);
        pawl__url_free(&url);
    }
    static const char *const wrong[] = {"", "2", "TRUE", "01", "y", "1%20"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct pawl__url url = with_value(wrong[i]);
        bool value = true;
        assert_int_equal(pawl__url_get_bool(&url, "key", &value), PAWL_INVALID);
        assert_true(value);
        assert_non_null(strstr(pawl__error_text(), "key="));
        pawl__url_free(&url);
    }
}

static void absent_keys_change_nothing(void **state)
{
    (void)state;
    struct pawl__url url = parsed("x:?other=1");
    int64_t number = UNTOUCHED;
    bool flag = true;
    assert_int_equal(pawl__url_get_duration_ms(&url, "key", 0, 1, &number), PAWL_OK);
    assert_int_equal(pawl__url_get_int(&url, "key", 0, 1, &number), PAWL_OK);
    assert_int_equal(pawl__url_get_bool(&url, "key", &flag), PAWL_OK);
    assert_int_equal(number, UNTOUCHED);
    assert_true(flag);
    pawl__url_free(&url);
}

static void unused_parameters(void **state)
{
    (void)state;
    struct pawl__url url = parsed("redis://h?timeout=1s&lasy=1");
    int64_t number = 0;
    assert_int_equal(pawl__url_check_unused(&url), PAWL_INVALID);
    assert_non_null(strstr(pawl__error_text(), "\"timeout\""));
    assert_int_equal(pawl__url_get_duration_ms(&url, "timeout", 0, 5000, &number), PAWL_OK);
    assert_int_equal(pawl__url_check_unused(&url), PAWL_INVALID);
    assert_non_null(strstr(pawl__error_text(), "\"lasy\""));
    assert_non_null(pawl__url_get(&url, "lasy"));
    assert_int_equal(pawl__url_check_unused(&url), PAWL_OK);
    pawl__url_free(&url);
    url = parsed("redis://h");
    assert_int_equal(pawl__url_check_unused(&url), PAWL_OK);
    pawl__url_free(&url);
}

/* ===== Passwords ===== */

static char directory[] = "/tmp/pawl-url-XXXXXX";
static char file_path[64];

static int make_directory(void **state)
{
    (void)state;
    if (mkdtemp(directory) == NULL) {
        return -1;
    }
    snprintf(file_path, sizeof file_path, "%s/password", directory);
    return 0;
}

static int remove_directory(void **state)
{
    (void)state;
    unlink(file_path);
    unsetenv("PAWL_TEST_PASSWORD");
    return rmdir(directory);
}

static void write_file(const char *bytes, size_t size, mode_t mode)
{
    unlink(file_path);
    int fd = open(file_path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, size), size);
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
}

/* Ask a URL for its password, and look that all its parameters count as used then. */
static pawl_status ask(const char *format, const char *argument, char **password_out)
{
    char text[200];
    snprintf(text, sizeof text, "redis://u:inurl@h%s%s", format, argument);
    struct pawl__url url = parsed(text);
    pawl__fail(PAWL_OK, "no sentence");
    pawl_status status = pawl__url_password(&url, password_out);
    for (size_t i = 0; i < url.parameter_count; i++) {
        assert_true(url.parameters[i].used);
    }
    pawl__url_free(&url);
    return status;
}

static void check_password(const char *format, const char *argument, const char *wanted)
{
    char *password = NULL;
    if (ask(format, argument, &password) != PAWL_OK) {
        fail_msg("%s%s: %s", format, argument, pawl__error_text());
    }
    assert_string_equal(password, wanted);
    pawl__wipe_free(password);
}

static void check_no_password(
    const char *format, const char *argument, pawl_status wanted, const char *named)
{
    char *password = directory; /* anything but NULL */
    assert_int_equal(ask(format, argument, &password), wanted);
    assert_null(password);
    if (strstr(pawl__error_text(), named) == NULL || strstr(pawl__error_text(), "canary") != NULL) {
        fail_msg("\"%s\" should name \"%s\" and no password", pawl__error_text(), named);
    }
}

static void password_places(void **state)
{
    (void)state;
    setenv("PAWL_TEST_PASSWORD", "from env\n", 1);
    write_file("from file\n", 10, 0600);
    check_password("", "", "inurl");
    check_password("?password_env=", "PAWL_TEST_PASSWORD", "from env\n");
    check_password("?password_file=", file_path, "from file");
    check_password("?password_env=PAWL_TEST_PASSWORD&password_file=", "/nowhere", "from env\n");

    struct pawl__url url = parsed("redis://u@h");
    char *password = directory;
    assert_int_equal(pawl__url_password(&url, &password), PAWL_OK);
    assert_null(password);
    pawl__wipe_free(NULL);
    pawl__url_free(&url);
}

static void password_env_missing(void **state)
{
    (void)state;
    unsetenv("PAWL_TEST_PASSWORD");
    check_no_password("?password_env=", "PAWL_TEST_PASSWORD", PAWL_INVALID, "PAWL_TEST_PASSWORD");
    setenv("PAWL_TEST_PASSWORD", "", 1);
    check_no_password("?password_env=", "PAWL_TEST_PASSWORD", PAWL_INVALID, "empty");
    check_no_password("?password_env=", "", PAWL_INVALID, "password_env");
}

static void password_file_content(void **state)
{
    (void)state;
    static const struct {
        const char *bytes, *password;
    } cases[] = {
        {CANARY, CANARY},
        {CANARY "\n", CANARY},
        {CANARY "\r\n", CANARY},
        {CANARY "\n\n", CANARY "\n"},
        {"a\nb\n", "a\nb"},
        {" x \n", " x "},
        {"a\r", "a\r"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        write_file(cases[i].bytes, strlen(cases[i].bytes), 0600);
        check_password("?password_file=", file_path, cases[i].password);
    }
    write_file("", 0, 0600);
    check_no_password("?password_file=", file_path, PAWL_INVALID, "is empty");
    write_file("\n", 1, 0600);
    check_no_password("?password_file=", file_path, PAWL_INVALID, "is empty");
    write_file("\r\n", 2, 0600);
    check_no_password("?password_file=", file_path, PAWL_INVALID, "is empty");
    write_file(CANARY "\0x", sizeof CANARY + 1, 0600);
    check_no_password("?password_file=", file_path, PAWL_INVALID, "NUL");

    char large[4097];
    memset(large, 'p', sizeof large);
    write_file(large, sizeof large, 0600);
    check_no_password("?password_file=", file_path, PAWL_INVALID, "longer than 4096 bytes");
    write_file(large, sizeof large - 1, 0600);
    large[sizeof large - 1] = '\0';
    check_password("?password_file=", file_path, large);
}

static void password_file_rights(void **state)
{
    (void)state;
    static const mode_t wrong[] = {0640, 0604, 0620, 0602, 0644, 0666};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        write_file(CANARY, strlen(CANARY), wrong[i]);
        check_no_password("?password_file=", file_path, PAWL_INVALID, "chmod 600");
    }
    static const mode_t right[] = {0600, 0400, 0700};
    for (size_t i = 0; i < sizeof right / sizeof right[0]; i++) {
        write_file(CANARY, strlen(CANARY), right[i]);
        check_password("?password_file=", file_path, CANARY);
    }
    if (geteuid() == 0) { /* only root can give a file away, and can be kept out of none */
        assert_int_equal(chown(file_path, 12345, (gid_t)-1), 0);
        check_no_password("?password_file=", file_path, PAWL_INVALID, "another user");
        write_file(CANARY, strlen(CANARY), 0600);
        assert_int_equal(seteuid(12345), 0);
        check_no_password("?password_file=", file_path, PAWL_DENIED, "chmod 600");
        assert_int_equal(seteuid(0), 0);
    } else {
        write_file(CANARY, strlen(CANARY), 0000);
        check_no_password("?password_file=", file_path, PAWL_DENIED, "chmod 600");
    }
}

static void password_file_kinds(void **state)
{
    (void)state;
    unlink(file_path);
    check_no_password("?password_file=", file_path, PAWL_INVALID, "No such file");
    check_no_password("?password_file=", "", PAWL_INVALID, "password_file");
    check_no_password("?password_file=", directory, PAWL_INVALID, "regular file");
    check_no_password("?password_file=", "/dev/null", PAWL_INVALID, "regular file");
    assert_int_equal(mkfifo(file_path, 0600), 0);
    check_no_password("?password_file=", file_path, PAWL_INVALID, "regular file");
    write_file("linked", 6, 0600);
    char link_path[64];
    snprintf(link_path, sizeof link_path, "%s/link", directory);
    assert_int_equal(symlink(file_path, link_path), 0);
    check_password("?password_file=", link_path, "linked");
    unlink(link_path);
}

static bool allow_none(size_t size)
{
    (void)size;
    return false;
}

static void password_without_memory(void **state)
{
    (void)state;
    write_file(CANARY, strlen(CANARY), 0600);
    char text[100];
    snprintf(text, sizeof text, "redis://h?password_file=%s", file_path);
    struct pawl__url url = parsed(text);
    char *password = directory;
    pawl__alloc_hook = allow_none;
    pawl_status status = pawl__url_password(&url, &password);
    pawl__alloc_hook = NULL;
    assert_int_equal(status, PAWL_NO_MEMORY);
    assert_null(password);
    pawl__url_free(&url);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(durations),
        cmocka_unit_test(duration_bounds),
        cmocka_unit_test(duration_without_a_unit),
        cmocka_unit_test(integers),
        cmocka_unit_test(booleans),
        cmocka_unit_test(absent_keys_change_nothing),
        cmocka_unit_test(unused_parameters),
        cmocka_unit_test(password_places),
        cmocka_unit_test(password_env_missing),
        cmocka_unit_test(password_file_content),
        cmocka_unit_test(password_file_rights),
        cmocka_unit_test(password_file_kinds),
        cmocka_unit_test(password_without_memory),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
