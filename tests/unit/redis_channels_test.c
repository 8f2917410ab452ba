/* SPDX-License-Identifier: Apache-2.0 */
/* Which lock a message means, and which settings of a server tell enough: tables. */
#include "engine/redis/channels.h"
#include "engine/redis/info.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define UUID "5bd36e9c-7a0f-4f5e-9d6a-2a8f5a3c1b77"

static void channels_become_names(void **state)
{
    (void)state;
    static const struct {
        const char *channel;
        enum pawl__channel_source source;
        const char *pattern;
        const char *name; /* "": none */
        bool sure;
    } cases[] = {
        {"p:{a}", PAWL__SOURCE_ALL, NULL, "a", true},
        {"p:{a}", PAWL__SOURCE_BRACED, "a", "a", true},
        {"p:{a}", PAWL__SOURCE_BARE, "*", "", true}, /* the braced pattern has brought it */
        {"p:{a}", PAWL__SOURCE_BARE, "{a}", "{a}", false},
        {"p:a{b}c", PAWL__SOURCE_BARE, "a*", "a{b}c", true},
        {"p:a{b}c", PAWL__SOURCE_BRACED, "a*", "", true},
        {"p:{a}b", PAWL__SOURCE_ALL, NULL, "{a}b", true},
        {"p:{{a}", PAWL__SOURCE_ALL, NULL, "{{a}", true},
        {"p:{a}", PAWL__SOURCE_ALL, "b", "", false},
        {"p:plain", PAWL__SOURCE_ALL, NULL, "", true},
        {"p:{}", PAWL__SOURCE_ALL, NULL, "{}", true},
        {"p:", PAWL__SOURCE_ALL, NULL, "", false},
        {"pa", PAWL__SOURCE_LATCHES, NULL, "", false},
        {"p{a}", PAWL__SOURCE_LATCHES, NULL, "a", true},
        {"p{{a}b}", PAWL__SOURCE_LATCHES, "{a}?", "{a}b", true},
        {"p{a}", PAWL__SOURCE_LATCHES, "b", "", true},
        /* waiters for fair locks, and what only looks like one */
        {"p:{a}:" UUID ":7", PAWL__SOURCE_ALL, NULL, "a", true},
        {"p:{a}:" UUID ":7", PAWL__SOURCE_BRACED, "a", "a", true},
        {"p:a{b}:" UUID ":7", PAWL__SOURCE_BARE, "a{b}", "a{b}", true},
        {"p:{a}b:" UUID ":7", PAWL__SOURCE_ALL, NULL, "{a}b", true},
        {"p:{" UUID ":7}", PAWL__SOURCE_ALL, NULL, UUID ":7", true},
        {"p:{a}:" UUID ":", PAWL__SOURCE_ALL, NULL, "{a}:" UUID ":", true},
        {"p:{a}:" UUID ":x", PAWL__SOURCE_ALL, NULL, "{a}:" UUID ":x", true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct pawl__redis_text channel = {cases[i].channel, strlen(cases[i].channel)};
        const struct pawl__channel_meaning meaning =
            pawl__channel_meaning(channel, cases[i].source, "p", cases[i].pattern);
        const struct pawl__redis_text name = meaning.name;
        if (name.size != strlen(cases[i].name) ||
            memcmp(name.bytes, cases[i].name, name.size) != 0 || meaning.sure != cases[i].sure) {
            fail_msg("%s: '%.*s', %d", cases[i].channel, (int)name.size, name.bytes, meaning.sure);
        }
    }
}

static void keys_of_leases_become_names(void **state)
{
    (void)state;
    static const struct {
        const char *key;
        const char *pattern;
        const char *name; /* "": none */
    } cases[] = {
        {"{a}:timeout", NULL, "a"},
        {"{a}:timeout", "b*", ""},
        {"a{b}c:timeout", NULL, "a{b}c"},
        {"a:timeout", NULL, ""},
        {":timeout", NULL, ""},
        {"{a}:timeouts", NULL, ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct pawl__redis_text key = {cases[i].key, strlen(cases[i].key)};
        const struct pawl__redis_text name = pawl__leases_name(key, cases[i].pattern);
        assert_int_equal(name.size, strlen(cases[i].name));
        assert_memory_equal(name.bytes, cases[i].name, name.size);
    }
}

static void patterns_become_patterns(void **state)
{
    (void)state;
    static const struct {
        enum pawl__channel_source source;
        const char *pattern;
        const char *expected;
    } cases[] = {
        {PAWL__SOURCE_BRACED, "a*", "p:{a*}*"},
        {PAWL__SOURCE_BARE, "a*", "p:a**"},
        {PAWL__SOURCE_ALL, "a*", "p:*"},
        {PAWL__SOURCE_BRACED, NULL, "p:{*}*"},
        {PAWL__SOURCE_LATCHES, "a*", "p*"},
        {PAWL__SOURCE_BRACED_LEASES, "a*", "p:{a*}:timeout"},
        {PAWL__SOURCE_BARE_LEASES, "a*", "p:a*:timeout"},
        {PAWL__SOURCE_KEYS, "a", "p:a"},
        {PAWL__SOURCE_ALL_KEYS, "a", "p:*"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct pawl__buffer buffer;
        pawl__buffer_init(&buffer, 64);
        assert_true(pawl__channel_pattern(&buffer, cases[i].source, "p", cases[i].pattern));
        assert_int_equal(pawl__buffer_size(&buffer), strlen(cases[i].expected));
        assert_memory_equal(
            pawl__buffer_data(&buffer), cases[i].expected, strlen(cases[i].expected));
        pawl__buffer_free(&buffer);
    }
}

static void settings_suffice_or_not(void **state)
{
    (void)state;
    static const char *const good[] = {"Kghxz", "KEA", "AK", "zxKhg$"};
    static const char *const bad[] = {"", "A", "EA", "Kghz", "Kgxz", "Khxz", "Kghx", "ghxz"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_true(pawl__keyspace_suffices(good[i], strlen(good[i])));
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_false(pawl__keyspace_suffices(bad[i], strlen(bad[i])));
    }
}

static void parts_of_a_value_are_found(void **state)
{
    (void)state;
    static const char info[] = "# Replication\r\nslave0:ip=127.0.0.1,port=63,lag=1\r\nempty:\r\n";
    const struct pawl__info_value value = pawl__info_find(info, sizeof info - 1, "slave0");
    assert_true(pawl__info_is(pawl__info_part(value, "ip"), "127.0.0.1"));
    assert_int_equal(pawl__info_number(pawl__info_part(value, "lag")), 1);
    assert_null(pawl__info_part(value, "p").text);
    assert_null(pawl__info_part(pawl__info_find(info, sizeof info - 1, "none"), "ip").text);
    assert_int_equal(pawl__info_find(info, sizeof info - 1, "empty").size, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(channels_become_names),
        cmocka_unit_test(keys_of_leases_become_names),
        cmocka_unit_test(patterns_become_patterns),
        cmocka_unit_test(settings_suffice_or_not),
        cmocka_unit_test(parts_of_a_value_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
