/* SPDX-License-Identifier: Apache-2.0 */
/* What a Redis URL says, as far as no server is needed to see it: the start of lines that somebody
 * may paste into a shell, which must reach the server that they are about. */
#include "engine/redis/config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

static void assert_lines(const char *text, const char *redis_cli, const char *grant)
{
    struct pawl__url url;
    struct pawl__redis_config config;
    const struct pawl__settings settings = {.timeout_us = 1000};
    assert_int_equal(pawl__url_parse(text, &url), PAWL_OK);
    assert_int_equal(pawl__redis_config_read(&config, &url, &settings), PAWL_OK);
    assert_string_equal(config.redis_cli, redis_cli);
    assert_string_equal(config.grant, grant);
    pawl__redis_config_free(&config);
    pawl__url_free(&url);
}

static void the_usual_server_needs_no_options(void **state)
{
    (void)state;
    assert_lines("redis://127.0.0.1", "redis-cli", "redis-cli ACL SETUSER default");
    assert_lines("redis://me:pw@127.0.0.1:6379/3", "redis-cli", "redis-cli ACL SETUSER me");
}

static void host_and_port_are_named(void **state)
{
    (void)state;
    assert_lines("redis://db7", "redis-cli -h db7", "redis-cli -h db7 ACL SETUSER default");
    assert_lines(
        "redis://127.0.0.1:7000", "redis-cli -p 7000", "redis-cli -p 7000 ACL SETUSER default");
    assert_lines("redis://[::1]:7000", "redis-cli -h ::1 -p 7000",
        "redis-cli -h ::1 -p 7000 ACL SETUSER default");
}

static void a_socket_is_named_for_a_shell(void **state)
{
    (void)state;
    assert_lines("redis+unix:///run/r.sock", "redis-cli -s /run/r.sock",
        "redis-cli -s /run/r.sock ACL SETUSER default");
    assert_lines("redis+unix:///it%27s%20here", "redis-cli -s '/it'\\''s here'",
        "redis-cli -s '/it'\\''s here' ACL SETUSER default");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_usual_server_needs_no_options),
        cmocka_unit_test(host_and_port_are_named),
        cmocka_unit_test(a_socket_is_named_for_a_shell),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
