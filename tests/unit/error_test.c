/* SPDX-License-Identifier: Apache-2.0 */
/* base/error.h and the words for statuses: the last error, and names made fit to print.
 *
 * Buffers for pawl__printable() are allocated in exactly the size given, so that the address
 * sanitizer sees a byte too many; every size and every byte is tried. */
#include "base/alloc.h"
#include "base/error.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ===== The last error ===== */

static void *fail_elsewhere(void *arg)
{
    const char **before = arg;
    *before = pawl__error_text()[0] == '\0' ? "empty" : "somebody else's";
    pawl__fail(PAWL_BUSY, "elsewhere");
    return strcmp(pawl__error_text(), "elsewhere") == 0 ? arg : NULL;
}

static void one_per_thread(void **state)
{
    (void)state;
    pthread_t thread;
    const char *before = NULL;
    void *result = NULL;
    assert_int_equal(pawl__fail(PAWL_LOST, "lock \"%s\" is %d", "x", 7), PAWL_LOST);
    assert_string_equal(pawl__error_text(), "lock \"x\" is 7");
    assert_int_equal(pthread_create(&thread, NULL, fail_elsewhere, &before), 0);
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_non_null(result);
    assert_string_equal(before, "empty");
    assert_string_equal(pawl__error_text(), "lock \"x\" is 7");
}

static void long_sentence_is_cut(void **state)
{
    (void)state;
    char text[2000];
    memset(text, 'y', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    pawl__fail(PAWL_INVALID, "%s", text);
    size_t size = strlen(pawl__error_text());
    assert_in_range(size, 200, 1999);
    assert_memory_equal(pawl__error_text(), text, size);
}

static bool refuse(size_t size)
{
    (void)size;
    return false;
}

static void *fail_twice_without_memory(void *arg)
{
    char *text = arg;
    pawl__alloc_hook = refuse;
    pawl__fail(PAWL_NO_MEMORY, "no memory for a lock");
    bool told = strcmp(pawl__error_text(), "no memory for a lock") == 0;
    pawl__fail(PAWL_NO_MEMORY, "%s", text);
    pawl__alloc_hook = NULL;
    const size_t size = strlen(pawl__error_text());
    told =
        told && size >= 100 && size < strlen(text) && strncmp(pawl__error_text(), text, size) == 0;
    pawl__fail(PAWL_INVALID, "%s", text); /* there is memory again */
    return told && strcmp(pawl__error_text(), text) == 0 ? arg : NULL;
}

/* In a thread that has never failed before, and so has no room for a sentence yet. */
static void shorter_sentence_without_memory(void **state)
{
    (void)state;
    char text[1000];
    pthread_t thread;
    void *result = NULL;
    memset(text, 'y', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    assert_int_equal(pthread_create(&thread, NULL, fail_twice_without_memory, text), 0);
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_non_null(result);
}

static pthread_key_t late_key;
static char late_sentence[32];

static void fail_late(void *round)
{
    if (round == &late_key) { /* the others' destructors have their turn before the second time */
        pthread_setspecific(late_key, &late_sentence);
        return;
    }
    pawl__fail(PAWL_BUSY, "a late one");
    snprintf(late_sentence, sizeof late_sentence, "%s", pawl__error_text());
}

static void *fail_at_end(void *arg)
{
    (void)arg;
    pawl__fail(PAWL_BUSY, "an early one");
    pthread_setspecific(late_key, &late_key);
    return NULL;
}

/* Its room is given back (the leak sanitizer looks), and a destructor that runs after that may
 * still fail. */
static void thread_fails_while_it_ends(void **state)
{
    (void)state;
    pthread_t thread;
    assert_int_equal(pthread_key_create(&late_key, fail_late), 0);
    assert_int_equal(pthread_create(&thread, NULL, fail_at_end, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(pthread_key_delete(late_key), 0);
    assert_string_equal(late_sentence, "a late one");
}

/* A new sentence may be made of the old one. */
static void sentence_of_itself(void **state)
{
    (void)state;
    pawl__fail(PAWL_DENIED, "the end");
    pawl__fail(PAWL_DENIED, "the beginning, %s, %s", pawl__error_text(), "of it");
    assert_string_equal(pawl__error_text(), "the beginning, the end, of it");
}

static void allocated_sentence(void **state)
{
    (void)state;
    char *text = pawl__format("100%% of %s", "it");
    assert_non_null(text);
    assert_int_equal(pawl__fail_text(PAWL_REFUSED, text), PAWL_REFUSED);
    assert_string_equal(pawl__error_text(), "100% of it");
    assert_int_equal(pawl__fail_text(PAWL_NO_MEMORY, NULL), PAWL_NO_MEMORY);
    assert_string_equal(pawl__error_text(), "no memory");
}

static void errno_texts(void **state)
{
    (void)state;
    assert_string_equal(pawl__errno_text(ENOENT), "No such file or directory");
    assert_non_null(strstr(pawl__errno_text(123456), "123456"));
}

static void status_words(void **state)
{
    (void)state;
    static const struct {
        pawl_status status;
        const char *word;
    } words[] = {
        {PAWL_OK, "ok"},
        {PAWL_BUSY, "busy"},
        {PAWL_CANCELED, "canceled"},
        {PAWL_NOT_HELD, "not held"},
        {PAWL_LOST, "lost"},
        {PAWL_DEADLOCK, "deadlock"},
        {PAWL_UNAVAILABLE, "unavailable"},
        {PAWL_DENIED, "denied"},
        {PAWL_PROTOCOL, "protocol"},
        {PAWL_NO_MEMORY, "no memory"},
        {PAWL_REFUSED, "refused"},
        {PAWL_INVALID, "invalid"},
        {PAWL_MISUSE, "misuse"},
        {PAWL_UNSUPPORTED, "unsupported"},
    };
    size_t known = 0;
    for (int status = 0; status < 64; status++) {
        bool is_known = strcmp(pawl_status_string((pawl_status)status), "unknown status") != 0;
        known += is_known ? 1 : 0;
    }
    assert_int_equal(known, sizeof words / sizeof words[0]);
    for (size_t i = 0; i < known; i++) {
        assert_string_equal(pawl_status_string(words[i].status), words[i].word);
    }
}

/* ===== Fit to print ===== */

static void check_printable(const char *name, size_t size, size_t out_size, const char *wanted)
{
    char *copy = malloc(size > 0 ? size : 1); /* without a NUL behind it */
    char *out = malloc(out_size);
    memcpy(copy, name, size);
    memset(out, '?', out_size);
    assert_ptr_equal(pawl__printable(copy, size, out, out_size), out);
    assert_string_equal(out, wanted);
    free(out);
    free(copy);
}

static void plain_names(void **state)
{
    (void)state;
    check_printable("", 0, 4, "");
    check_printable("nightly report", 14, 64, "nightly report");
    check_printable("\xc3\xa4\xe2\x82\xac", 5, 64, "\xc3\xa4\xe2\x82\xac");
    check_printable("a\\b\"c%s", 7, 64, "a\\b\"c%s");
}

static void control_bytes(void **state)
{
    (void)state;
    check_printable("a\nb", 3, 64, "a\\x0ab");
    check_printable("\0", 1, 64, "\\x00");
    check_printable("\x1b[31m\x7f", 6, 64, "\\x1b[31m\\x7f");
    for (int byte = 0; byte < 256; byte++) {
        char name = (char)byte;
        char wanted[8];
        bool shown = byte >= 0x20 && byte < 0x7f;
        if (!shown) {
            snprintf(wanted, sizeof wanted, "\\x%02x", (unsigned)byte);
        } else {
            snprintf(wanted, sizeof wanted, "%c", byte);
        }
        check_printable(&name, 1, 8, wanted);
    }
}

/* What is UTF-8 stays, at both ends of every range, and what only looks like it does not. */
static void characters(void **state)
{
    (void)state;
    static const char *const good[] = {"\xc2\xa0", "\xc2\xbf", "\xc3\x80", "\xdf\xbf",
        "\xe0\xa0\x80", "\xe1\x80\x80", "\xed\x9f\xbf", "\xee\x80\x80", "\xef\xbf\xbd",
        "\xf0\x90\x80\x80", "\xf0\x9f\x94\x92", "\xf3\xbf\xbf\xbf", "\xf4\x8f\xbf\xbf"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        check_printable(good[i], strlen(good[i]), 64, good[i]);
    }
    check_printable("\x80", 1, 64, "\\x80");
    check_printable("\xc2\x9b"
                    "31m",
        5, 64, "\\xc2\\x9b31m");                               /* a control of terminals */
    check_printable("\xc0\xaf", 2, 64, "\\xc0\\xaf");          /* '/' in two bytes */
    check_printable("\xe0\x9f\xbf", 3, 64, "\\xe0\\x9f\\xbf"); /* U+07FF in three */
    check_printable("\xed\xa0\x80", 3, 64, "\\xed\\xa0\\x80"); /* half a pair of UTF-16 */
    check_printable("\xf0\x8f\xbf\xbf", 4, 64, "\\xf0\\x8f\\xbf\\xbf");
    check_printable("\xf4\x90\x80\x80", 4, 64, "\\xf4\\x90\\x80\\x80"); /* beyond the last one */
    check_printable("\xf5\xff", 2, 64, "\\xf5\\xff");
    check_printable("\xe2\x82", 2, 64, "\\xe2\\x82"); /* ends too early */
    check_printable("\xe2\x82x", 3, 64, "\\xe2\\x82x");
    check_printable("Gr\xfc\xdf"
                    "e \xc3\xbc",
        8, 64, "Gr\\xfc\\xdfe \xc3\xbc");
}

static void cutting(void **state)
{
    (void)state;
    check_printable("123456789", 9, 10, "123456789"); /* just fits */
    check_printable("1234567890", 10, 10, "123456...");
    check_printable("abc", 3, 4, "abc");
    check_printable("abcd", 4, 4, "...");
    check_printable("abc\n", 4, 8, "abc\\x0a"); /* never half an escape */
    check_printable("abc\n", 4, 7, "abc...");
    check_printable("ab\n\n", 4, 10, "ab\\x0a...");
    check_printable("\xc3\xa4\xc3\xa4\xc3\xa4", 6, 6, "\xc3\xa4..."); /* nor half a character */
    check_printable("a\xc3\xa4\xc3\xa4\xc3\xa4", 7, 7, "a\xc3\xa4...");
    check_printable("a\xe2\x82\xac\xe2\x82\xac", 7, 7, "a...");
    check_printable("\x80\x80\x80\x80\x80\x80", 6, 6, "...");
    check_printable("\xe2\x82\xe2\x82\xac", 5, 12, "\\xe2\\x82\xe2\x82\xac");
    check_printable("\xe2\x82\xe2\x82\xac", 5, 11, "\\xe2...");
}

/* Whatever the sizes, it stays inside, ends with a NUL, and what fits is complete. */
static void all_sizes(void **state)
{
    (void)state;
    const char name[] = "ab\ncd\x7f\xc3\xa4xyz\x01";
    const size_t name_size = sizeof name - 1;
    char full[64];
    pawl__printable(name, name_size, full, sizeof full);
    for (size_t out_size = 4; out_size < 40; out_size++) {
        char *out = malloc(out_size);
        pawl__printable(name, name_size, out, out_size);
        size_t size = strlen(out);
        if (strlen(full) < out_size) {
            assert_string_equal(out, full);
        } else {
            assert_true(size < out_size && size >= 3);
            assert_string_equal(out + size - 3, "...");
            assert_memory_equal(out, full, size - 3);
        }
        free(out);
    }
}

/* ===== Fit to paste ===== */

static void shell_words(void **state)
{
    (void)state;
    static const struct {
        const char *word;
        const char *wanted;
    } words[] = {
        {"+pttl", "+pttl"},
        {"default", "default"},
        {"", "''"},
        {"+client|kill", "'+client|kill'"},
        {"~lock:1", "'~lock:1'"},
        {"&chan{x}", "'&chan{x}'"},
        {"a b", "'a b'"},
        {"$HOME", "'$HOME'"},
        {"it's", "'it'\\''s'"},
        {"'", "''\\'''"},
        {"\xc3\xa4", "'\xc3\xa4'"},
    };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        const size_t size = 4 * strlen(words[i].word) + 3;
        char *out = malloc(size);
        assert_string_equal(pawl__shell_word(words[i].word, out, size), words[i].wanted);
        free(out);
    }
}

static void shell_words_that_do_not_fit(void **state)
{
    (void)state;
    char out[12];
    assert_string_equal(pawl__shell_word("abcdefghijk", out, sizeof out), "abcdefghijk");
    for (size_t size = 3; size <= sizeof out; size++) {
        char *tight = malloc(size); /* the sanitizer sees its end */
        pawl__shell_word("it's longer than that", tight, size);
        assert_true(strlen(tight) < size);
        assert_int_equal(tight[0], '\'');
        assert_int_equal(tight[strlen(tight) - 1], '\'');
        free(tight);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_per_thread),
        cmocka_unit_test(long_sentence_is_cut),
        cmocka_unit_test(shorter_sentence_without_memory),
        cmocka_unit_test(thread_fails_while_it_ends),
        cmocka_unit_test(sentence_of_itself),
        cmocka_unit_test(allocated_sentence),
        cmocka_unit_test(errno_texts),
        cmocka_unit_test(status_words),
        cmocka_unit_test(plain_names),
        cmocka_unit_test(control_bytes),
        cmocka_unit_test(characters),
        cmocka_unit_test(cutting),
        cmocka_unit_test(all_sizes),
        cmocka_unit_test(shell_words),
        cmocka_unit_test(shell_words_that_do_not_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
