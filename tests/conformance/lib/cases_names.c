/* SPDX-License-Identifier: Apache-2.0 */
/* A name is bytes. Whatever they look like to a file system or a server, equal names are one lock
 * and different names are two. */
#include "conformance/lib/tools.h"

#include <stdio.h>
#include <string.h>

#define NAME_SIZE_MAX 1024
#define NAMES_MAX 64

/* Hold all of these at once. So each is a lock of its own; another client finds each of them busy,
 * so each is the same lock there; and afterwards each is free. */
static void check_names(const struct suite *suite, const char *const names[], size_t count)
{
    pawl_client *client = open_client(suite);
    pawl_client *other = open_client(suite);
    pawl_lock *locks[NAMES_MAX];
    assert_true(count <= NAMES_MAX);
    for (size_t i = 0; i < count; i++) {
        locks[i] = open_handle_lock(client, names[i]);
        EXPECT(PAWL_OK, pawl_lock_acquire(locks[i], PAWL_TRY));
    }
    for (size_t i = 0; i < count; i++) {
        pawl_lock *rival = open_thread_lock(other, names[i]);
        EXPECT(PAWL_BUSY, pawl_lock_acquire(rival, PAWL_TRY));
        EXPECT(PAWL_OK, pawl_lock_release(locks[i]));
        EXPECT(PAWL_OK, pawl_lock_acquire(rival, PAWL_TRY));
        EXPECT(PAWL_OK, pawl_lock_release(rival));
    }
}

static void names_that_look_like_paths(const struct suite *suite)
{
    static const char *const names[] = {".", "..", "...", "/", "//", "./a", "../x", "../../x",
        "a/b", "a//b", "a/./b", "a/../b", "/etc/passwd", "~", "~root", "a\\b", "con", ".hidden",
        "-rf", "a.lock", "*", "?"};
    check_names(suite, names, sizeof names / sizeof names[0]);
}

static void names_that_look_like_something_else(const struct suite *suite)
{
    static const char *const names[] = {"a{b}c", "{a}", "{}", "{", "}", "a{", "a}{b", "{a}{b}",
        "{a", "a b", " a", "a ", " ", "a:b", "a:", ":", "a%2Fb", "a%2fb", "%", "%2", "%00", "a+b",
        "a_b", "a-b", "A", "a", "\"a\"", "'a'", "$(a)", "\n", "\r\n", "a\nb", "\t", "\x01", "\x7f",
        "\xff", "\xc3\xa9", "e\xcc\x81", "\xf0\x9f\x94\x92"};
    check_names(suite, names, sizeof names / sizeof names[0]);
}

static void a_name_of_every_byte(const struct suite *suite)
{
    char every[256];
    char almost[256];
    for (int i = 1; i < 256; i++) {
        every[i - 1] = (char)(unsigned char)i;
    }
    every[255] = '\0';
    memcpy(almost, every, sizeof every);
    almost[200] = '!';
    const char *const names[] = {every, almost};
    check_names(suite, names, 2);
    pawl_lock *lock = open_thread_lock(open_client(suite), every);
    EXPECT(PAWL_NOT_HELD, pawl_lock_release(lock));
    for (const char *at = pawl_last_error(); *at != '\0'; at++) {
        const unsigned char byte = (unsigned char)*at;
        assert_true(byte >= 0x20 && byte != 0x7f); /* nothing that a terminal would act on */
    }
}

/* Long names that differ in one byte, at the lengths where something might change. */
static void long_names(const struct suite *suite)
{
    static const size_t sizes[] = {150, 199, 200, 201, 250, 254, 255, 256, 1023, 1024};
    static char texts[2 * sizeof sizes / sizeof sizes[0]][NAME_SIZE_MAX + 1];
    const char *names[sizeof texts / sizeof texts[0]];
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        const size_t size = sizes[i / 2];
        memset(texts[i], 'n', size);
        texts[i][size - 1] = i % 2 == 0 ? 'x' : 'y';
        texts[i][size] = '\0';
        names[i] = texts[i];
    }
    check_names(suite, names, sizeof names / sizeof names[0]);
}

static void names_that_are_refused(const struct suite *suite)
{
    pawl_client *client = open_client(suite);
    pawl_lock *lock = NULL;
    static char longer[2 * NAME_SIZE_MAX];
    EXPECT(PAWL_INVALID, pawl_lock_open(client, "", NULL, &lock));
    assert_null(lock);
    memset(longer, 'n', NAME_SIZE_MAX + 1);
    EXPECT(PAWL_INVALID, pawl_lock_open(client, longer, NULL, &lock));
    assert_null(lock);
    memset(longer, 'n', sizeof longer - 1);
    EXPECT(PAWL_INVALID, pawl_lock_open(client, longer, NULL, &lock));
    assert_null(lock);
}

/* The library keeps copies: the caller's buffers may change. */
static void a_name_is_copied(const struct suite *suite)
{
    char name[100];
    snprintf(name, sizeof name, "%s", suite->name);
    pawl_lock *lock = open_thread_lock(open_client(suite), name);
    memset(name, 'z', sizeof name - 1);
    EXPECT(PAWL_OK, pawl_lock_acquire(lock, PAWL_TRY));
    expect_busy(suite, suite->name);
    EXPECT(PAWL_OK, pawl_lock_release(lock));
}

static const struct suite_case cases[] = {
    SUITE_CASE(FLAG_ARGUMENTS, names_that_look_like_paths),
    SUITE_CASE(FLAG_ARGUMENTS, names_that_look_like_something_else),
    SUITE_CASE(FLAG_ARGUMENTS, a_name_of_every_byte),
    SUITE_CASE(FLAG_ARGUMENTS, long_names),
    SUITE_CASE(FLAG_ARGUMENTS, names_that_are_refused),
    SUITE_CASE(FLAG_ARGUMENTS, a_name_is_copied),
};

SUITE_GROUP(suite_names, cases);
