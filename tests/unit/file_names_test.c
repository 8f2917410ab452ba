/* SPDX-License-Identifier: Apache-2.0 */
/* engine/file/names.h and sha256.h: names of locks become names of files.
 *
 * Known examples; then random names that are hard to keep apart (few different bytes, many of them
 * special), of which each pair must get different file names, and every file name must be harmless.
 */
#include "engine/file/names.h"

#include "base/random.h"
#include "engine/file/sha256.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void assert_digest(const char *message, size_t size, const char *hex)
{
    uint8_t digest[PAWL__SHA256_SIZE];
    char text[2 * PAWL__SHA256_SIZE + 1];
    pawl__sha256(message, size, digest);
    for (size_t i = 0; i < sizeof digest; i++) {
        snprintf(text + 2 * i, 3, "%02x", digest[i]);
    }
    assert_string_equal(text, hex);
}

/* The examples of FIPS 180-4, and the sizes at which the padding changes its form. */
static void sha256_is_right(void **state)
{
    (void)state;
    char a[128];
    memset(a, 'a', sizeof a);
    assert_digest("", 0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    assert_digest("abc", 3, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_digest("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56,
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    assert_digest(a, 55, "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318");
    assert_digest(a, 56, "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a");
    assert_digest(a, 63, "7d3e74a05d7db15bce4ad9ec0658ea98e3f06eeecf16b4c6fff2da457ddc2f34");
    assert_digest(a, 64, "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb");
    assert_digest(a, 65, "635361c48bb9eab14198e76ea8ab7f1a41685d6ad62aa9146d301d4f17eb0ae0");
    assert_digest(a, 128, "6836cf13bac400e9105071cd6af47084dfacad4e5e302c94bfed24e013afb73e");
}

static void assert_file(const char *name, const char *file_name)
{
    char text[PAWL__FILE_NAME_SIZE_MAX + 1];
    size_t size = pawl__name_to_file(name, strlen(name), text);
    assert_string_equal(text, file_name);
    assert_int_equal(size, strlen(file_name));
}

static void plain_names_are_readable(void **state)
{
    (void)state;
    assert_file("nightly-report", "nightly-report.lock");
    assert_file("stock:4711@eu_west,a+b=c", "stock:4711@eu_west,a+b=c.lock");
    assert_file("jobs/nightly report", "jobs%2Fnightly%20report.lock");
    assert_file("100%", "100%25.lock");
    assert_file("../../etc/passwd", "%2E.%2F..%2Fetc%2Fpasswd.lock");
    assert_file(".", "%2E.lock");
    assert_file("..", "%2E..lock");
    assert_file("-rf", "%2Drf.lock");
    assert_file("a\nb\x7f\xc3\xa9", "a%0Ab%7F%C3%A9.lock");
}

static void long_names_are_hashed(void **state)
{
    (void)state;
    char name[PAWL__NAME_SIZE_MAX + 1];
    char text[PAWL__FILE_NAME_SIZE_MAX + 1];
    memset(name, 'a', sizeof name);
    assert_int_equal(pawl__name_to_file(name, 200, text), 205);
    assert_int_equal(text[199], 'a');
    assert_int_equal(pawl__name_to_file(name, 201, text), 100 + 2 + 64 + 5);
    assert_memory_equal(text + 99, "a%-", 3);

    memset(name, '/', sizeof name); /* the readable part must not end in half a %2F */
    size_t size = pawl__name_to_file(name, PAWL__NAME_SIZE_MAX, text);
    assert_int_equal(size, 99 + 2 + 64 + 5);
    assert_memory_equal(text + 96, "%2F%-", 5);
}

/* ===== Random names ===== */

#define NAME_COUNT 20000

struct entry {
    char name[PAWL__NAME_SIZE_MAX];
    size_t name_size;
    char file_name[PAWL__FILE_NAME_SIZE_MAX + 1];
};

static void draw_name(struct pawl__random *random, struct entry *entry)
{
    static const char hard[] = "a%2FfA/.-\n\x01\xff";
    bool is_long = pawl__random_below(random, 8) == 0;
    entry->name_size = 1 + pawl__random_below(random, is_long ? PAWL__NAME_SIZE_MAX : 5);
    for (size_t i = 0; i < entry->name_size; i++) {
        entry->name[i] = hard[pawl__random_below(random, sizeof hard - 1)];
    }
}

static int by_file_name(const void *a, const void *b)
{
    return strcmp(((const struct entry *)a)->file_name, ((const struct entry *)b)->file_name);
}

static void assert_harmless(const char *file_name)
{
    assert_true(strlen(file_name) <= PAWL__FILE_NAME_SIZE_MAX);
    assert_true(file_name[0] != '.' && file_name[0] != '-');
    assert_null(strchr(file_name, '/'));
    for (const char *c = file_name; *c != '\0'; c++) {
        assert_true(*c > ' ' && *c < 0x7f);
    }
}

static void different_names_get_different_files(void **state)
{
    (void)state;
    struct entry *entries = calloc(NAME_COUNT, sizeof *entries);
    struct pawl__random random;
    assert_non_null(entries);
    pawl__random_seed(&random, 20260101);
    for (size_t i = 0; i < NAME_COUNT; i++) {
        draw_name(&random, &entries[i]);
        pawl__name_to_file(entries[i].name, entries[i].name_size, entries[i].file_name);
        assert_harmless(entries[i].file_name);
    }
    qsort(entries, NAME_COUNT, sizeof *entries, by_file_name);
    size_t different = 1;
    for (size_t i = 1; i < NAME_COUNT; i++) {
        const struct entry *a = &entries[i - 1];
        const struct entry *b = &entries[i];
        bool same_name =
            a->name_size == b->name_size && memcmp(a->name, b->name, a->name_size) == 0;
        assert_int_equal(same_name, by_file_name(a, b) == 0);
        different += same_name ? 0 : 1;
    }
    assert_true(different > NAME_COUNT / 2);
    free(entries);
}

static void names_come_back(void **state)
{
    (void)state;
    struct entry entry;
    struct pawl__random random;
    pawl__random_seed(&random, 20260102);
    for (size_t i = 0; i < NAME_COUNT; i++) {
        char encoded[PAWL__ENCODED_SIZE_MAX + 1];
        char name[PAWL__NAME_SIZE_MAX + 1];
        size_t name_size = 0;
        draw_name(&random, &entry);
        size_t size = pawl__name_encode(entry.name, entry.name_size, encoded);
        assert_true(pawl__name_decode(encoded, size, name, &name_size));
        assert_int_equal(name_size, entry.name_size);
        assert_memory_equal(name, entry.name, name_size);
        assert_int_equal(name[name_size], '\0');
        pawl__name_to_file(entry.name, entry.name_size, entry.file_name);
        enum pawl__file_name_kind kind = pawl__name_from_file(entry.file_name, name, &name_size);
        assert_int_equal(kind, size > 200 ? PAWL__FILE_NAME_HASHED : PAWL__FILE_NAME_PLAIN);
    }
}

/* What no name is written as: a byte that needs no %, one that needs one, small digits, half of it,
 * no byte at all, too many. */
static void other_texts_are_no_names(void **state)
{
    (void)state;
    static const char *const texts[] = {"", "%41", ".a", "-a", "a b", "a/b", "%2f", "%", "%2",
        "%2G", "%%", "%00", "a%", "%-", "%2Ea%2E"};
    char longest[PAWL__NAME_SIZE_MAX + 2];
    char name[PAWL__NAME_SIZE_MAX + 1];
    size_t size = 0;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        assert_false(pawl__name_decode(texts[i], strlen(texts[i]), name, &size));
    }
    memset(longest, 'a', sizeof longest);
    assert_true(pawl__name_decode(longest, PAWL__NAME_SIZE_MAX, name, &size));
    assert_false(pawl__name_decode(longest, PAWL__NAME_SIZE_MAX + 1, name, &size));
    static const char *const others[] = {".lock", "lock", "a.lock.x", "a", "%new-0123456789abcdef"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        assert_int_equal(pawl__name_from_file(others[i], name, &size), PAWL__FILE_NAME_OTHER);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sha256_is_right),
        cmocka_unit_test(plain_names_are_readable),
        cmocka_unit_test(long_names_are_hashed),
        cmocka_unit_test(different_names_get_different_files),
        cmocka_unit_test(names_come_back),
        cmocka_unit_test(other_texts_are_no_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
