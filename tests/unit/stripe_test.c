/* SPDX-License-Identifier: Apache-2.0 */
/* pawl_stripe_name(): which name a key gets.
 *
 * The vectors are a promise to everybody who has locks under such names: if one of them fails, the
 * change is wrong, never the vector. They were computed by another program from the description in
 * docs/striping.md. */
#include "pawl.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const char *name_of(const void *key, size_t size, unsigned count)
{
    static char name[64];
    assert_int_equal(pawl_stripe_name("s", key, size, count, name, sizeof name), PAWL_OK);
    return name;
}

static void vectors_never_change(void **state)
{
    static const struct {
        const char *key;
        size_t size;
        unsigned count;
        const char *name;
    } vectors[] = {
        {"", 0, 1, "s:00000"},
        {"", 0, 7, "s:00006"},
        {"", 0, 16, "s:00015"},
        {"", 0, 1024, "s:00980"},
        {"", 0, 65536, "s:62762"},
        {"a", 1, 1, "s:00000"},
        {"a", 1, 7, "s:00000"},
        {"a", 1, 16, "s:00000"},
        {"a", 1, 1024, "s:00011"},
        {"a", 1, 65536, "s:00704"},
        {"b", 1, 1, "s:00000"},
        {"b", 1, 7, "s:00001"},
        {"b", 1, 16, "s:00003"},
        {"b", 1, 1024, "s:00248"},
        {"b", 1, 65536, "s:15925"},
        {"user-42", 7, 1, "s:00000"},
        {"user-42", 7, 7, "s:00003"},
        {"user-42", 7, 16, "s:00007"},
        {"user-42", 7, 1024, "s:00488"},
        {"user-42", 7, 65536, "s:31253"},
        {"user-43", 7, 1, "s:00000"},
        {"user-43", 7, 7, "s:00003"},
        {"user-43", 7, 16, "s:00008"},
        {"user-43", 7, 1024, "s:00524"},
        {"user-43", 7, 65536, "s:33592"},
        {"order/2024-01-31/0017", 21, 1, "s:00000"},
        {"order/2024-01-31/0017", 21, 7, "s:00001"},
        {"order/2024-01-31/0017", 21, 16, "s:00003"},
        {"order/2024-01-31/0017", 21, 1024, "s:00232"},
        {"order/2024-01-31/0017", 21, 65536, "s:14887"},
        {"\x00\xff\x80", 3, 1, "s:00000"},
        {"\x00\xff\x80", 3, 7, "s:00006"},
        {"\x00\xff\x80", 3, 16, "s:00014"},
        {"\x00\xff\x80", 3, 1024, "s:00910"},
        {"\x00\xff\x80", 3, 65536, "s:58288"},
        {"na\xc3\xafve", 6, 1, "s:00000"},
        {"na\xc3\xafve", 6, 7, "s:00006"},
        {"na\xc3\xafve", 6, 16, "s:00013"},
        {"na\xc3\xafve", 6, 1024, "s:00889"},
        {"na\xc3\xafve", 6, 65536, "s:56939"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
        assert_string_equal(
            name_of(vectors[i].key, vectors[i].size, vectors[i].count), vectors[i].name);
    }
}

static void the_prefix_stays_as_it_is(void **state)
{
    char name[64];
    (void)state;
    assert_int_equal(pawl_stripe_name("{shop}:item", "", 0, 1, name, sizeof name), PAWL_OK);
    assert_string_equal(name, "{shop}:item:00000");
}

/* Keys that differ little, as numbers in a row do, and every stripe's share of them. */
static void shares_are_even(void **state)
{
    enum { STRIPES = 64, KEYS = 64000, SHARE = KEYS / STRIPES };
    static unsigned counts[STRIPES];
    (void)state;
    for (unsigned i = 0; i < KEYS; i++) {
        char key[32];
        unsigned number = 0;
        const int size = snprintf(key, sizeof key, "user-%u", i);
        assert_int_equal(sscanf(name_of(key, (size_t)size, STRIPES), "s:%u", &number), 1);
        assert_true(number < STRIPES);
        counts[number]++;
    }
    double chi = 0;
    for (unsigned i = 0; i < STRIPES; i++) {
        const double off = (double)counts[i] - SHARE;
        chi += off * off / SHARE;
    }
    assert_true(chi < 120); /* 63 degrees of freedom: one in 100,000 is greater */
}

static void keys_are_bytes(void **state)
{
    const uint32_t numbers[2] = {0, 1};
    (void)state;
    char first[64];
    snprintf(first, sizeof first, "%s", name_of(&numbers[0], sizeof numbers[0], 65536));
    assert_string_not_equal(first, name_of(&numbers[1], sizeof numbers[1], 65536));
    assert_string_not_equal(first, name_of(&numbers[0], 3, 65536)); /* zeros count */
}

static void refusals(void **state)
{
    char name[16] = "old";
    char prefix[1100];
    char large[1100];
    (void)state;
    assert_int_equal(pawl_stripe_name("s", "k", 1, 0, name, sizeof name), PAWL_INVALID);
    assert_string_equal(name, "");
    assert_int_equal(pawl_stripe_name("s", "k", 1, 65537, name, sizeof name), PAWL_INVALID);
    assert_non_null(strstr(pawl_last_error(), "65536"));
    assert_int_equal(pawl_stripe_name(NULL, "k", 1, 1, name, sizeof name), PAWL_INVALID);
    assert_int_equal(pawl_stripe_name("", "k", 1, 1, name, sizeof name), PAWL_INVALID);
    assert_int_equal(pawl_stripe_name("s", NULL, 1, 1, name, sizeof name), PAWL_INVALID);
    assert_int_equal(pawl_stripe_name("s", "k", 1, 1, NULL, 16), PAWL_INVALID);
    assert_int_equal(pawl_stripe_name("s", "k", 1, 1, name, 0), PAWL_INVALID);
    assert_int_equal(pawl_stripe_name("s", NULL, 0, 1, name, 7), PAWL_INVALID);
    assert_int_equal(pawl_stripe_name("s", NULL, 0, 1, name, 8), PAWL_OK);
    memset(prefix, 'p', sizeof prefix);
    prefix[1018] = '\0';
    assert_int_equal(pawl_stripe_name(prefix, "k", 1, 1, large, sizeof large), PAWL_OK);
    assert_int_equal(strlen(large), 1024);
    prefix[1018] = 'p';
    prefix[1019] = '\0';
    assert_int_equal(pawl_stripe_name(prefix, "k", 1, 1, large, sizeof large), PAWL_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vectors_never_change),
        cmocka_unit_test(the_prefix_stays_as_it_is),
        cmocka_unit_test(shares_are_even),
        cmocka_unit_test(keys_are_bytes),
        cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
