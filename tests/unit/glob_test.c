/* SPDX-License-Identifier: Apache-2.0 */
/* Patterns of names: a table of what matches and what does not, the same for escapes both ways, and
 * a pattern made to take for ever. Where Redis reads a strange pattern in its own way, so do we. */
#include "base/glob.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

struct match {
    const char *pattern;
    const char *name;
    bool matches;
};

static void patterns_match(void **state)
{
    (void)state;
    static const struct match cases[] = {
        {"", "", true},
        {"", "a", false},
        {"a", "", false},
        {"a", "a", true},
        {"a", "A", false},
        {"ab", "a", false},
        {"*", "", true},
        {"*", "anything", true},
        {"**", "x", true},
        {"a*", "a", true},
        {"a*c", "abbbc", true},
        {"a*c", "abbbcd", false},
        {"*b*", "abc", true},
        {"*a*b*c", "xaxbxbc", true},
        {"?", "", false},
        {"?", "x", true},
        {"a?c", "abc", true},
        {"a?c", "ac", false},
        {"[abc]", "b", true},
        {"[abc]", "d", false},
        {"[a-c]x", "bx", true},
        {"[c-a]x", "bx", true},
        {"[^a-c]", "d", true},
        {"[^a-c]", "b", false},
        {"[\\]]", "]", true},
        {"[a\\-c]", "-", true},
        {"[a\\-c]", "b", false},
        {"[]", "]", false},
        {"[abc", "c", true},
        {"[a-]x", "]", true}, /* a range up to the bracket, and a set that is not closed */
        {"\\*", "*", true},
        {"\\*", "x", false},
        {"a\\", "a\\", true},
        {"{*}", "{x}", true},
        {"*]", "]", true},
        {"\xc3?", "\xc3\xa4", true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const bool matches =
            pawl__glob_matches(cases[i].pattern, cases[i].name, strlen(cases[i].name));
        if (matches != cases[i].matches) {
            fail_msg("'%s' and '%s': %d", cases[i].pattern, cases[i].name, matches);
        }
    }
    assert_true(pawl__glob_matches(NULL, "x", 1));
}

static void a_nasty_pattern_ends(void **state)
{
    (void)state;
    char name[1024];
    memset(name, 'a', sizeof name);
    assert_false(pawl__glob_matches("*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b", name, sizeof name));
}

static void a_name_becomes_its_pattern(void **state)
{
    (void)state;
    static const char *const names[] = {"plain", "*", "a?b", "[x]", "back\\slash", "^-]", "{a}"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char pattern[64];
        char name[64];
        const size_t size = strlen(names[i]);
        pawl__glob_escape(names[i], size, pattern);
        assert_true(pawl__glob_matches(pattern, names[i], size));
        assert_true(pawl__glob_literal(pattern, name));
        assert_string_equal(name, names[i]);
    }
}

static void only_one_name_is_literal(void **state)
{
    (void)state;
    char name[64];
    assert_false(pawl__glob_literal(NULL, name));
    assert_false(pawl__glob_literal("a*", name));
    assert_false(pawl__glob_literal("a?", name));
    assert_false(pawl__glob_literal("a[b]", name));
    assert_true(pawl__glob_literal("a\\*", name));
    assert_string_equal(name, "a*");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patterns_match),
        cmocka_unit_test(a_nasty_pattern_ends),
        cmocka_unit_test(a_name_becomes_its_pattern),
        cmocka_unit_test(only_one_name_is_literal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
