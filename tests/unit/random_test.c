/* SPDX-License-Identifier: Apache-2.0 */
/* base/random.h: the generator, its bounds, and the UUID.
 *
 * The generator is compared with numbers worked out separately from the published algorithms
 * (splitmix64 as the seeding, xoshiro256**), so that a seed keeps its meaning for recorded
 * simulations. Bounds are checked over many draws, evenness with a wide margin. */
#include "base/clock.h"
#include "base/random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void known_numbers(void **state)
{
    (void)state;
    static const uint64_t wanted[] = {UINT64_C(0x15780b2e0c2ec716), UINT64_C(0x6104d9866d113a7e),
        UINT64_C(0xae17533239e499a1), UINT64_C(0xecb8ad4703b360a1), UINT64_C(0xfde6dc7fe2ec5e64),
        UINT64_C(0xc50da53101795238)};
    struct pawl__random random;
    pawl__random_seed(&random, 42);
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        assert_int_equal(pawl__random_next(&random), wanted[i]);
    }
}

static void seeds_differ(void **state)
{
    (void)state;
    uint64_t first[100];
    for (uint64_t seed = 0; seed < 100; seed++) {
        struct pawl__random random;
        pawl__random_seed(&random, seed);
        first[seed] = pawl__random_next(&random);
        for (uint64_t other = 0; other < seed; other++) {
            assert_int_not_equal(first[seed], first[other]);
        }
    }
}

static void below_is_even(void **state)
{
    (void)state;
    struct pawl__random random;
    pawl__random_seed(&random, 1);
    int counts[10] = {0};
    for (int i = 0; i < 100000; i++) {
        uint64_t drawn = pawl__random_below(&random, 10);
        assert_true(drawn < 10);
        counts[drawn]++;
        assert_int_equal(pawl__random_below(&random, 1), 0);
        assert_true(pawl__random_below(&random, UINT64_MAX) < UINT64_MAX);
    }
    for (int i = 0; i < 10; i++) {
        assert_in_range(counts[i], 9500, 10500);
    }
}

/* A fifth either way, and both ends are really reached. */
static void jitter_bounds(void **state)
{
    (void)state;
    static const int64_t durations[] = {
        0, 1, 4, 5, 9, 10, 100, 99999, 1000000, INT64_C(3600) * 1000000};
    struct pawl__random random;
    pawl__random_seed(&random, 2);
    for (size_t i = 0; i < sizeof durations / sizeof durations[0]; i++) {
        int64_t duration = durations[i];
        int64_t least = INT64_MAX;
        int64_t most = 0;
        for (int draw = 0; draw < 10000; draw++) {
            int64_t jittered = pawl__random_jitter(&random, duration);
            least = pawl__min64(least, jittered);
            most = pawl__max64(most, jittered);
        }
        assert_true(least >= duration - duration / 5);
        assert_true(most <= duration + duration / 5);
        assert_true(least <= duration - duration / 6);
        assert_true(most >= duration + duration / 6);
    }
}

/* "Never" and its neighbours do not overflow into the past. */
static void jitter_of_never(void **state)
{
    (void)state;
    struct pawl__random random;
    pawl__random_seed(&random, 3);
    for (int draw = 0; draw < 1000; draw++) {
        assert_true(pawl__random_jitter(&random, PAWL__NEVER) >= PAWL__NEVER / 5 * 4);
        assert_true(pawl__random_jitter(&random, PAWL__NEVER - 1) >= PAWL__NEVER / 5 * 4 - 1);
    }
}

/* Each byte of the buffer is written, none behind it. */
static void kernel_bytes(void **state)
{
    (void)state;
    unsigned char bytes[300];
    unsigned char any[300] = {0};
    for (int round = 0; round < 20; round++) {
        memset(bytes, 0, sizeof bytes);
        assert_true(pawl__random_bytes(bytes, sizeof bytes - 4));
        for (size_t i = 0; i < sizeof bytes; i++) {
            any[i] |= bytes[i];
        }
    }
    for (size_t i = 0; i < sizeof any - 4; i++) {
        assert_int_not_equal(any[i], 0);
    }
    for (size_t i = sizeof any - 4; i < sizeof any; i++) {
        assert_int_equal(any[i], 0);
    }
    assert_true(pawl__random_bytes(NULL, 0));
}

static void uuid_form(void **state)
{
    (void)state;
    static char uuids[500][PAWL__UUID_SIZE + 1];
    for (size_t i = 0; i < 500; i++) {
        char *uuid = uuids[i];
        memset(uuid, 'x', PAWL__UUID_SIZE + 1);
        assert_true(pawl__uuid(uuid));
        assert_int_equal(strlen(uuid), PAWL__UUID_SIZE);
        for (size_t at = 0; at < PAWL__UUID_SIZE; at++) {
            bool dash = at == 8 || at == 13 || at == 18 || at == 23;
            assert_non_null(strchr(dash ? "-" : "0123456789abcdef", uuid[at]));
        }
        assert_int_equal(uuid[14], '8'); /* Redisson's have a 4 */
        assert_non_null(strchr("89ab", uuid[19]));
        for (size_t other = 0; other < i; other++) {
            assert_string_not_equal(uuid, uuids[other]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_numbers),
        cmocka_unit_test(seeds_differ),
        cmocka_unit_test(below_is_even),
        cmocka_unit_test(jitter_bounds),
        cmocka_unit_test(jitter_of_never),
        cmocka_unit_test(kernel_bytes),
        cmocka_unit_test(uuid_form),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
