/* SPDX-License-Identifier: Apache-2.0 */
/* base/clock.h: the one clock, its replacement in tests, and sums that do not overflow. */
#include "base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <cmocka.h>

static int64_t kernel_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* Each reading lies between two of the kernel's, so it is that clock, and goes only forward. */
static void boot_time(void **state)
{
    (void)state;
    int64_t last = 0;
    for (int i = 0; i < 100000; i++) {
        int64_t before = kernel_us();
        int64_t now = pawl__now_us();
        assert_true(before <= now && now <= kernel_us());
        assert_true(now >= last);
        last = now;
    }
}

static int64_t fake_us;

static int64_t fake_clock(void)
{
    return fake_us;
}

static void hook_replaces_the_clock(void **state)
{
    (void)state;
    pawl__clock_hook = fake_clock;
    fake_us = 5;
    int64_t first = pawl__now_us();
    fake_us = 3;
    int64_t second = pawl__now_us();
    pawl__clock_hook = NULL;
    assert_int_equal(first, 5);
    assert_int_equal(second, 3);
    assert_true(pawl__now_us() <= kernel_us());
    assert_true(pawl__now_us() > 5);
}

static void later_saturates(void **state)
{
    (void)state;
    assert_int_equal(pawl__later(1000, 234), 1234);
    assert_int_equal(pawl__later(1000, 0), 1000);
    assert_int_equal(pawl__later(1000, -300), 700);
    assert_int_equal(pawl__later(0, PAWL__NEVER), PAWL__NEVER);
    assert_int_equal(pawl__later(0, PAWL__NEVER - 1), PAWL__NEVER - 1);
    assert_int_equal(pawl__later(1, PAWL__NEVER - 1), PAWL__NEVER);
    assert_int_equal(pawl__later(2, PAWL__NEVER - 1), PAWL__NEVER);
    assert_int_equal(pawl__later(1000, PAWL__NEVER), PAWL__NEVER);
    assert_int_equal(pawl__later(PAWL__NEVER, 0), PAWL__NEVER);
    assert_int_equal(pawl__later(PAWL__NEVER, 1), PAWL__NEVER);
    assert_int_equal(pawl__later(PAWL__NEVER, PAWL__NEVER), PAWL__NEVER);
    assert_int_equal(pawl__later(PAWL__NEVER - 5, 4), PAWL__NEVER - 1);
    assert_int_equal(pawl__later(PAWL__NEVER - 5, 5), PAWL__NEVER);
}

static void smaller_and_larger(void **state)
{
    (void)state;
    assert_int_equal(pawl__min64(1, 2), 1);
    assert_int_equal(pawl__min64(2, -1), -1);
    assert_int_equal(pawl__max64(1, 2), 2);
    assert_int_equal(pawl__max64(INT64_MIN, PAWL__NEVER), PAWL__NEVER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(boot_time),
        cmocka_unit_test(hook_replaces_the_clock),
        cmocka_unit_test(later_saturates),
        cmocka_unit_test(smaller_and_larger),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
