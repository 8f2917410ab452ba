/* SPDX-License-Identifier: Apache-2.0 */
/* base/url.h: URLs taken apart.
 *
 * Accepted URLs are compared part by part; each refused one must give PAWL_INVALID, a sentence that
 * contains the word which names the offending part, and an empty result. A canary in the place of
 * the password, also of a mistyped one, must be in no sentence. explicit_bzero() is replaced by one
 * that remembers what was wiped. */
#include "base/url.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/limits.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define CANARY "Kz9canaryQ4"

/* ===== The overridden system call ===== */

static struct {
    const void *memory;
    size_t size;
    bool had_canary;
} wiped; /* last */

/* Under both names that the library's call may have after the compiler saw it. */
void wipe(void *memory, size_t size) __asm__("explicit_bzero");
void wipe_checked(void *memory, size_t size, size_t known_size) __asm__("__explicit_bzero_chk");

void wipe(void *memory, size_t size)
{
    wiped.memory = memory;
    wiped.size = size;
    wiped.had_canary = memmem(memory, size, CANARY, strlen(CANARY)) != NULL;
    memset(memory, 0, size);
}

void wipe_checked(void *memory, size_t size, size_t known_size)
{
    assert_true(size <= known_size);
    wipe(memory, size);
}

/* ===== Helpers ===== */

/* A part that may be absent; NULL and "" differ. */
static void check_part(const char *got, const char *wanted)
{
    if (wanted == NULL) {
        assert_null(got);
    } else {
        assert_non_null(got);
        assert_string_equal(got, wanted);
    }
}

/* Parse and compare all but hosts and parameters. */
static struct pawl__url parsed(
    const char *text, const char *scheme, const char *user, const char *password, const char *path)
{
    struct pawl__url url;
    pawl_status status = pawl__url_parse(text, &url);
    if (status != PAWL_OK) {
        fail_msg("%s: %s", text, pawl__error_text());
    }
    check_part(url.scheme, scheme);
    check_part(url.user, user);
    check_part(url.password, password);
    check_part(url.path, path);
    return url;
}

static void check_host(const struct pawl__url *url, size_t index, const char *name, int port)
{
    assert_true(index < url->host_count);
    assert_string_equal(url->hosts[index].name, name);
    assert_int_equal(url->hosts[index].port, port);
}

static void check_parameter(
    const struct pawl__url *url, size_t index, const char *key, const char *value)
{
    assert_true(index < url->parameter_count);
    assert_string_equal(url->parameters[index].key, key);
    assert_string_equal(url->parameters[index].value, value);
    assert_false(url->parameters[index].used);
}

/* The sentence names the thing, and the URL that failed is empty and safe to free. */
static void check_refused(const char *text, const char *named)
{
    struct pawl__url url;
    memset(&url, 0xa5, sizeof url);
    pawl__fail(PAWL_OK, "no sentence");
    if (pawl__url_parse(text, &url) != PAWL_INVALID) {
        fail_msg("accepted: %s", text);
    }
    if (strstr(pawl__error_text(), named) == NULL) {
        fail_msg("%s: \"%s\" does not name \"%s\"", text, pawl__error_text(), named);
    }
    assert_null(url.storage);
    assert_null(url.scheme);
    assert_int_equal(url.host_count, 0);
    assert_int_equal(url.parameter_count, 0);
    pawl__url_free(&url);
}

/* ===== What is accepted ===== */

static void paths_without_hosts(void **state)
{
    (void)state;
    static const struct {
        const char *text, *scheme, *path;
    } cases[] = {
        {"file:///dir", "file", "/dir"},
        {"file:/dir", "file", "/dir"},
        {"file:///", "file", "/"},
        {"file://", "file", NULL},
        {"file:", "file", NULL},
        {"file:?", "file", NULL},
        {"file:////dir//x", "file", "//dir//x"},
        {"file:///with%20space/%C3%A4", "file", "/with space/\xc3\xa4"},
        {"file:///raw/\xc3\xa4", "file", "/raw/\xc3\xa4"},
        {"file:///a:b", "file", "/a:b"},
        {"file:///home/me@corp/x:y", "file", "/home/me@corp/x:y"},
        {"file:///a+b%2bc%2Bd", "file", "/a+b+c+d"},
        {"file:///%3f%23%40", "file", "/?#@"},
        {"memory:NAME", "memory", "NAME"},
        {"memory:a/b:c", "memory", "a/b:c"},
        {"memory:", "memory", NULL},
        {"MEMORY:Name", "memory", "Name"},
        {"x-1.a+B:y", "x-1.a+b", "y"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct pawl__url url = parsed(cases[i].text, cases[i].scheme, NULL, NULL, cases[i].path);
        assert_int_equal(url.host_count, 0);
        assert_int_equal(url.parameter_count, 0);
        pawl__url_free(&url);
    }
}

static void one_host(void **state)
{
    (void)state;
    static const struct {
        const char *text, *host;
        int port;
        const char *path;
    } cases[] = {
        {"redis://h", "h", 0, NULL},
        {"redis://h/", "h", 0, "/"},
        {"redis://h:1/0", "h", 1, "/0"},
        {"redis://h:65535", "h", 65535, NULL},
        {"redis://h:06379", "h", 6379, NULL},
        {"redis://db-1.example_x.com:6379/15", "db-1.example_x.com", 6379, "/15"},
        {"redis://127.0.0.1:6379", "127.0.0.1", 6379, NULL},
        {"redis://h%2Dx", "h-x", 0, NULL},
        {"redis://[::1]", "::1", 0, NULL},
        {"redis://[::1]:6379/0", "::1", 6379, "/0"},
        {"redis://[fe80::1%25eth0]:1", "fe80::1%eth0", 1, NULL},
        {"redis://[::ffff:127.0.0.1]?", "::ffff:127.0.0.1", 0, NULL},
        {"redis://@h", "h", 0, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct pawl__url url = parsed(cases[i].text, "redis", NULL, NULL, cases[i].path);
        assert_int_equal(url.host_count, 1);
        check_host(&url, 0, cases[i].host, cases[i].port);
        pawl__url_free(&url);
    }
}

static void users_and_passwords(void **state)
{
    (void)state;
    static const struct {
        const char *text, *user, *password;
    } cases[] = {
        {"redis://:secret@host", NULL, "secret"},
        {"redis://me@host", "me", NULL},
        {"redis://me:secret@host", "me", "secret"},
        {"redis://me:@host", "me", ""},
        {"redis://:@host", NULL, ""},
        {"redis://me:a:b@host", "me", "a:b"},
        {"redis://m%40e:%2f%3F%23%25%3a@host", "m@e", "/?#%:"},
        {"redis://me:[x],y=&@host", "me", "[x],y=&"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct pawl__url url =
            parsed(cases[i].text, "redis", cases[i].user, cases[i].password, NULL);
        assert_int_equal(url.host_count, 1);
        check_host(&url, 0, "host", 0);
        pawl__url_free(&url);
    }
}

static void many_hosts(void **state)
{
    (void)state;
    struct pawl__url url =
        parsed("redis+sentinel://me:pw@h1:26379,h2,[::1]:3,[::2]/master-name?timeout=1s",
            "redis+sentinel", "me", "pw", "/master-name");
    assert_int_equal(url.host_count, 4);
    check_host(&url, 0, "h1", 26379);
    check_host(&url, 1, "h2", 0);
    check_host(&url, 2, "::1", 3);
    check_host(&url, 3, "::2", 0);
    check_parameter(&url, 0, "timeout", "1s");
    pawl__url_free(&url);

    char text[200] = "etcd://";
    for (int i = 0; i < PAWL__URL_HOSTS_MAX; i++) {
        strcat(text, i == 0 ? "h:1" : ",h:1");
    }
    url = parsed(text, "etcd", NULL, NULL, NULL);
    assert_int_equal(url.host_count, PAWL__URL_HOSTS_MAX);
    pawl__url_free(&url);
    strcat(text, ",h:1");
    check_refused(text, "more than 16 hosts");
}

static void parameters(void **state)
{
    (void)state;
    struct pawl__url url =
        parsed("redis+unix:///path.sock?db=2&a=&b=x=y&c%3d=%26&d=p+q/?:", "redis+unix", NULL, NULL,
            "/path.sock");
    assert_int_equal(url.host_count, 0);
    assert_int_equal(url.parameter_count, 5);
    check_parameter(&url, 0, "db", "2");
    check_parameter(&url, 1, "a", "");
    check_parameter(&url, 2, "b", "x=y");
    check_parameter(&url, 3, "c=", "&");
    check_parameter(&url, 4, "d", "p+q/?:");
    assert_string_equal(pawl__url_get(&url, "db"), "2");
    assert_true(url.parameters[0].used);
    assert_null(pawl__url_get(&url, "DB"));
    pawl__url_free(&url);

    char text[400] = "file:/d?";
    for (int i = 0; i < PAWL__URL_PARAMETERS_MAX; i++) {
        sprintf(text + strlen(text), "%sk%d=v", i == 0 ? "" : "&", i);
    }
    url = parsed(text, "file", NULL, NULL, "/d");
    assert_int_equal(url.parameter_count, PAWL__URL_PARAMETERS_MAX);
    pawl__url_free(&url);
    strcat(text, "&more=v");
    check_refused(text, "more than 32 parameters");
}

/* The result is a copy: it outlives the text. */
static void copied_and_bounded(void **state)
{
    (void)state;
    char text[] = "redis://me:pw@host:1/2?k=v";
    struct pawl__url url;
    assert_int_equal(pawl__url_parse(text, &url), PAWL_OK);
    memset(text, 'x', sizeof text - 1);
    assert_string_equal(url.scheme, "redis");
    assert_string_equal(url.user, "me");
    assert_string_equal(url.password, "pw");
    check_host(&url, 0, "host", 1);
    assert_string_equal(url.path, "/2");
    check_parameter(&url, 0, "k", "v");
    pawl__url_free(&url);
    assert_null(url.storage);
    pawl__url_free(&url); /* again is fine */

    char *longest = malloc(PAWL__URL_SIZE_MAX + 2);
    memset(longest, 'a', PAWL__URL_SIZE_MAX + 1);
    memcpy(longest, "file:/", 6);
    longest[PAWL__URL_SIZE_MAX] = '\0';
    assert_int_equal(pawl__url_parse(longest, &url), PAWL_OK);
    assert_int_equal(strlen(url.path), PAWL__URL_SIZE_MAX - 5);
    pawl__url_free(&url);
    longest[PAWL__URL_SIZE_MAX] = 'a';
    longest[PAWL__URL_SIZE_MAX + 1] = '\0';
    check_refused(longest, "longer than 4096 bytes");
    free(longest);
}

/* ===== What is refused ===== */

static const struct {
    const char *text, *named;
} refusals[] = {
    {"", "empty"},
    {"redis", "scheme"},
    {"127.0.0.1:6379", "did you mean redis://127.0.0.1:6379?"},
    {"10.0.0.1:6379/0", "did you mean redis://10.0.0.1:6379/0?"},
    {"127.0.0.1:6379x", "no scheme; write"},
    {"127.0.0.1:", "no scheme; write"},
    {"1:123456", "no scheme; write"},
    {"1:1/2/3", "no scheme; write"},
    {"://h", "scheme"},
    {":", "scheme"},
    {"/dir", "scheme"},
    {"1redis://h", "scheme"},
    {"re_dis://h", "scheme"},
    {"red%69s://h", "scheme"},
    {"redis//host:6379", "scheme"},
    {"\xc3\xa4:x", "scheme"},
    {"file:/a b", "byte 8 of the URL is a space"},
    {" file:/a", "byte 1 of the URL is a space"},
    {"file:/a\n", "byte 8 of the URL is a control byte"},
    {"file:/a\x7f", "control byte"},
    {"file:/a#b", "byte 8 of the URL is a #"},
    {"file:/a%", "the path in the URL has a %"},
    {"file:/a%4", "the path"},
    {"file:/a%4g", "the path"},
    {"file:/a%g4", "the path"},
    {"file:/a%%", "%25"},
    {"file:/a%00b", "the path in the URL must not have control bytes"},
    {"file:/a%1f", "control bytes"},
    {"file:/a%7F", "control bytes"},
    {"redis://h%0a", "a host in the URL must not have control bytes"},
    {"redis://u%zz@h", "the user"},
    {"redis://u:%zz@h", "the password"},
    {"redis://u:%00@h", "the password"},
    {"redis://h?%zz=1", "the key of a parameter"},
    {"redis://h?a=%zz", "the value of a parameter"},
    {"redis://h:0", "the port of host \"h\""},
    {"redis://h:65536", "the port of host \"h\""},
    {"redis://h:4294967297", "the port"},
    {"redis://h:99999999999999999999", "the port"},
    {"redis://h:", "the port"},
    {"redis://h:x", "the port"},
    {"redis://h:1x", "the port"},
    {"redis://h:-1", "the port"},
    {"redis://h:+1", "the port"},
    {"redis://h:%31", "the port"},
    {"redis://h:1:2", "brackets"},
    {"redis://fe80::1", "brackets"},
    {"redis://::1", "brackets"},
    {"redis://:6379", "host 1 of the URL is empty"},
    {"redis://,h", "host 1 of the URL is empty"},
    {"redis://h,,i", "host 2 of the URL is empty"},
    {"redis://h,", "host 2 of the URL is empty"},
    {"redis://h,i:1,/0", "host 3 of the URL is empty"},
    {"redis://[]", "host 1 of the URL is empty"},
    {"redis://[::1", "brackets"},
    {"redis://[", "brackets"},
    {"redis://[::1,h", "brackets"},
    {"redis://[::1]6379", "brackets"},
    {"redis://[::1]]", "brackets"},
    {"redis://::1]", "brackets"},
    {"redis://h]", "host \"h]\""},
    {"redis://[[::1]]", "brackets"},
    {"redis://[h]", "\"[h]\" of the URL is not an IPv6 address"},
    {"redis://[127.0.0.1]", "not an IPv6 address"},
    {"redis://[1:2:3:4:5:6:7:8:9]", "not an IPv6 address"},
    {"redis://[fe80::1%25]", "not an IPv6 address"},
    {"redis://h%2Fx", "host \"h/x\""},
    {"redis://h\\x", "host \"h\\x\""},
    {"redis://a@b@c", "more than one @"},
    {"redis://h?a", "parameter 1 of the URL is not of the form key=value"},
    {"redis://h?=v", "parameter 1"},
    {"redis://h?a=1&", "parameter 2"},
    {"redis://h?a=1&&b=2", "parameter 2"},
    {"redis://h?&", "parameter 1"},
    {"redis://h?a=1&b=2&a=3", "\"a\" twice"},
    {"redis://h?ab=1&a%62=1", "\"ab\" twice"},
    {"memory:a@b", "%40"},
    {"redis://h/a@b", "%40"},
    {"redis://h?a=b@c", "%40"},
    {"file:/a:b@c", "%40"},
    {"file:/a@b:c@d", "%40"},
};

static void refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        check_refused(refusals[i].text, refusals[i].named);
    }
}

/* Wrong in any way, right next to the password or far away: the sentence has none of it. */
static void sentences_without_password(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "9:" CANARY,
        "9:1/" CANARY,
        "redis://u:" CANARY "%@h",
        "redis://u:%" CANARY "@h",
        "redis://u:" CANARY "%00@h",
        "redis://u:" CANARY " x@h",
        "redis://u:" CANARY "#@h",
        "redis://u:" CANARY "\n@h",
        "redis://u:" CANARY "/x@h",
        "redis://u:" CANARY "?x@h",
        "redis://u:" CANARY "?x=1&y@h",
        "redis://u:x/" CANARY "@h",
        "redis://u:1/" CANARY "@h/0",
        "redis://u:x?" CANARY "=1@h",
        "redis://u:1?x=1&" CANARY "@h",
        "redis://u:1?" CANARY "=2&" CANARY "=2@h",
        "redis://u:" CANARY "@x@h",
        "redis://u:x@" CANARY "@h",
        "redis://:x@" CANARY "/y@h",
        "redis://" CANARY ":x/y@h",
        "redis://u:" CANARY ",x/@h",
        "redis://[" CANARY "/@h",
        "redis://x,[" CANARY "]/@h",
        "redis://u:" CANARY,
        "redis://u:" CANARY "@h:0",
        "redis://u:" CANARY "@h:" CANARY,
        "redis://u:" CANARY "@,",
        "redis://u:" CANARY "@[::1",
        "redis://u:" CANARY "@h]",
        "redis://u:" CANARY "@h/%zz",
        "redis://u:" CANARY "@h?x",
        "redis://u:" CANARY "@h?x=1&x=2",
        "redis//u:" CANARY "@h",
        "redis:u:" CANARY "@h",
        "redis:/u:" CANARY "@h",
        "redis:///u:" CANARY "@h",
        "redis:///:" CANARY "@h",
        "u:" CANARY "@h",
        ":" CANARY "@h",
        CANARY "@h",
        "//u:" CANARY "@h",
        "%:" CANARY "@h",
        "redis:" CANARY "@h",
        "redis:?u:" CANARY "@h",
        "file:/?u:" CANARY "@h",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        check_refused(texts[i], "");
        assert_string_not_equal(pawl__error_text(), "no sentence");
        if (strstr(pawl__error_text(), "canary") != NULL) {
            fail_msg("%s: the password is in \"%s\"", texts[i], pawl__error_text());
        }
    }
}

/* ===== Memory ===== */

static size_t allowed_count;

static bool allow_some(size_t size)
{
    (void)size;
    return allowed_count > 0 && allowed_count-- > 0;
}

static void memory_is_short(void **state)
{
    (void)state;
    struct pawl__url url;
    char *password = NULL;
    pawl__alloc_hook = allow_some;
    allowed_count = 0;
    pawl_status parse = pawl__url_parse("redis://u:pw@h", &url);
    bool empty = url.storage == NULL && url.scheme == NULL && url.host_count == 0;
    allowed_count = 1;
    pawl_status parse_again = pawl__url_parse("redis://u:pw@h", &url);
    pawl_status copy = pawl__url_password(&url, &password);
    pawl__alloc_hook = NULL;

    assert_int_equal(parse, PAWL_NO_MEMORY);
    assert_true(empty);
    assert_int_equal(parse_again, PAWL_OK);
    assert_int_equal(copy, PAWL_NO_MEMORY);
    assert_null(password);
    pawl__url_free(&url);
}

static void secrets_are_wiped(void **state)
{
    (void)state;
    struct pawl__url url = parsed("redis://u:" CANARY "@h", "redis", "u", CANARY, NULL);
    const void *storage = url.storage;
    const size_t size = url.storage_size;
    assert_true(size > strlen("redis://u:" CANARY "@h"));
    pawl__url_free(&url);
    assert_ptr_equal(wiped.memory, storage);
    assert_int_equal(wiped.size, size);
    assert_true(wiped.had_canary);

    memset(&wiped, 0, sizeof wiped);
    check_refused("redis://u:" CANARY "@h/%zz", "the path");
    assert_true(wiped.had_canary);

    char *secret = pawl__strdup(CANARY);
    assert_non_null(secret);
    memset(&wiped, 0, sizeof wiped);
    pawl__wipe_free(secret);
    assert_ptr_equal(wiped.memory, secret);
    assert_int_equal(wiped.size, strlen(CANARY));
}

/* ===== What it names ===== */

static void check_backend(const char *text, const char *wanted)
{
    struct pawl__url url;
    assert_int_equal(pawl__url_parse(text, &url), PAWL_OK);
    char *backend = pawl__url_backend(&url);
    assert_string_equal(backend, wanted);
    pawl__free(backend);
    pawl__url_free(&url);
}

/* Nothing of who asks or how: these decide in which order locks are taken, and may be shown. */
static void test_backend(void **state)
{
    (void)state;
    check_backend("redis://me:" CANARY "@host:7000/3?timeout=5s", "redis://host:7000/3");
    check_backend("redis://host", "redis://host:0");
    check_backend("redis://a:1,b:2/0", "redis://a:1,b:2/0");
    check_backend("redis+unix:///run/x.sock?db=4&password_env=P", "redis+unix:/run/x.sock?db=4");
    check_backend("file:///var/lock", "file:/var/lock");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paths_without_hosts),
        cmocka_unit_test(one_host),
        cmocka_unit_test(users_and_passwords),
        cmocka_unit_test(many_hosts),
        cmocka_unit_test(parameters),
        cmocka_unit_test(copied_and_bounded),
        cmocka_unit_test(refused),
        cmocka_unit_test(sentences_without_password),
        cmocka_unit_test(memory_is_short),
        cmocka_unit_test(secrets_are_wiped),
        cmocka_unit_test(test_backend),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
