/* SPDX-License-Identifier: Apache-2.0 */
/* P1 on a real server: the remaining time counts from before the request was sent, on
 * CLOCK_BOOTTIME, less drift, and only a verified answer extends it.
 *
 * A proxy makes the server slow and cuts connections; SIGSTOP freezes it; a time namespace moves
 * the clocks. To the microsecond: p1_validity_clock.c. */
#include "promise/lib/backend.h"

#include "base/clock.h"

#include <time.h>
#include <unistd.h>

#define LEASE_MS 5000
#define DELAY_MS 300

/* ===== Slow servers ===== */

static void delay_comes_off(enum proxy_direction direction)
{
    proxy = proxy_start_for(server);
    pawl_client *client = open_client(proxy_url(proxy), NULL);
    pawl_lock *lock = open_lock(client, "slow", LEASE_MS, false);
    proxy_set_delay(proxy, direction, DELAY_MS, 0);
    ASSERT_OK(pawl_lock_acquire(lock, 3000));
    const int64_t left_ms = pawl_lock_remaining_ms(lock);
    const int64_t most_ms = LEASE_MS - DELAY_MS - drift_ms(LEASE_MS);
    assert_true(left_ms <= most_ms);
    ASSERT_BY("remaining after a slow answer", 0, most_ms - left_ms);
    assert_true(server_integer(server, "PTTL slow") >= left_ms);
    proxy_set_delay(proxy, direction, 0, 0);
    ASSERT_OK(pawl_lock_release(lock));
    pawl_lock_close(lock);
    ASSERT_OK(close_client(client));
}

static void a_slow_answer_comes_off_the_remaining_time(void **state)
{
    (void)state;
    delay_comes_off(PROXY_TO_CLIENT);
}

static void a_slow_request_comes_off_the_remaining_time(void **state)
{
    (void)state;
    delay_comes_off(PROXY_TO_SERVER);
}

/* ===== What extends it, and what does not ===== */

static void without_answers_it_falls_to_zero_and_stays_there(void **state)
{
    (void)state;
    const int64_t lease_ms = 1200;
    pawl_client *client = open_client(server_url(server), NULL);
    pawl_lock *lock = open_lock(client, "frozen", lease_ms, true);
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
    nap_ms(lease_ms); /* some renewals */
    assert_true(pawl_lock_remaining_ms(lock) > 0);
    server_pause(server);
    nap_ms(20); /* an answer may still have been under way */

    const int64_t paused_ms = boottime_ms();
    int64_t left_ms = pawl_lock_remaining_ms(lock);
    const int64_t due_ms = left_ms;
    assert_in_range(left_ms, 1, lease_ms - drift_ms(lease_ms));
    while (left_ms > 0) {
        const int64_t now_ms = pawl_lock_remaining_ms(lock);
        assert_true(now_ms <= left_ms);
        left_ms = now_ms;
        assert_true(boottime_ms() - paused_ms < due_ms + SLACK_MS);
        nap_ms(1);
    }
    ASSERT_BY("remaining reaches zero", due_ms, boottime_ms() - paused_ms);
    WAIT_UNTIL(pawl_lock_token(lock) == 0, SLACK_MS); /* zero may be a part of a millisecond */
    server_resume(server);
    nap_ms(lease_ms / 2);
    assert_int_equal(pawl_lock_remaining_ms(lock), 0);
    ASSERT_STATUS(PAWL_LOST, pawl_lock_extend(lock, lease_ms));
    ASSERT_STATUS(PAWL_LOST, pawl_lock_release(lock));
    pawl_lock_close(lock);
    ASSERT_OK(close_client(client));
}

static void a_look_after_reconnecting_does_not_extend_a_fixed_lease(void **state)
{
    (void)state;
    proxy = proxy_start_for(server);
    pawl_client *client = open_client(proxy_url(proxy), NULL);
    pawl_lock *lock = open_lock(client, "fixed", LEASE_MS, false);
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
    nap_ms(300);
    const int64_t left_ms = pawl_lock_remaining_ms(lock);
    const int64_t ttl_ms = server_integer(server, "PTTL fixed");
    const int64_t looked_ms = boottime_ms(); /* no earlier than that */

    proxy_cut_now(proxy, PROXY_RST);
    pawl_lock_info info = {.size = sizeof info};
    WAIT_UNTIL(pawl_lock_inspect(lock, &info) == PAWL_OK, 2000); /* somebody needs it */
    WAIT_UNTIL(proxy_answered(proxy, "HEXISTS fixed") >= 1, 5000);
    nap_ms(100);
    const int64_t later_ms = boottime_ms();
    assert_true(pawl_lock_remaining_ms(lock) <= left_ms - (later_ms - looked_ms) + 1);
    assert_true(server_integer(server, "PTTL fixed") <= ttl_ms - (later_ms - looked_ms) + 1);
    assert_true(info.held_by_caller);
    ASSERT_OK(pawl_lock_release(lock));
    pawl_lock_close(lock);
    ASSERT_OK(close_client(client));
}

static void a_renewed_lease_is_renewed_at_once_after_reconnecting(void **state)
{
    (void)state;
    proxy = proxy_start_for(server);
    pawl_client *client = open_client(proxy_url(proxy), NULL);
    pawl_lock *lock = open_lock(client, "renewed", LEASE_MS, true);
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
    nap_ms(600);
    const int64_t left_ms = pawl_lock_remaining_ms(lock);
    proxy_cut_now(proxy, PROXY_RST);
    pawl_lock_info info = {.size = sizeof info};
    WAIT_UNTIL(pawl_lock_inspect(lock, &info) == PAWL_OK, 2000);
    WAIT_UNTIL(pawl_lock_remaining_ms(lock) > left_ms, 800); /* the next one is due much later */
    ASSERT_OK(pawl_lock_release(lock));
    pawl_lock_close(lock);
    ASSERT_OK(close_client(client));
}

static void extend_lengthens_and_never_shortens(void **state)
{
    (void)state;
    pawl_client *client = open_client(server_url(server), NULL);
    pawl_lock *lock = open_lock(client, "extended", 2000, false);
    ASSERT_STATUS(PAWL_NOT_HELD, pawl_lock_extend(lock, 1000));
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
    ASSERT_OK(pawl_lock_extend(lock, 20000));
    assert_in_range(pawl_lock_remaining_ms(lock), 15000, 20000 - drift_ms(20000));
    assert_in_range(server_integer(server, "PTTL extended"), 15000, 20000);
    ASSERT_OK(pawl_lock_extend(lock, 100));
    ASSERT_STATUS(PAWL_INVALID, pawl_lock_extend(lock, 0));
    assert_in_range(pawl_lock_remaining_ms(lock), 15000, 20000);
    assert_in_range(server_integer(server, "PTTL extended"), 15000, 20000);
    ASSERT_OK(pawl_lock_release(lock));
    pawl_lock_close(lock);
    ASSERT_OK(close_client(client));
}

static void on_files_a_renewed_hold_has_no_end_and_a_fixed_one_does(void **state)
{
    (void)state;
    char url[URL_SIZE];
    snprintf(url, sizeof url, "file://%s", tempdir_make());
    pawl_client *client = open_client(url, NULL);
    pawl_lock *renewed = open_lock(client, "renewed", 1000, true);
    pawl_lock *fixed = open_lock(client, "fixed", 1000, false);
    ASSERT_OK(pawl_lock_acquire(renewed, PAWL_TRY));
    ASSERT_OK(pawl_lock_acquire(fixed, PAWL_TRY));
    assert_true(pawl_lock_remaining_ms(renewed) == INT64_MAX);
    assert_in_range(pawl_lock_remaining_ms(fixed), 1, 1000 - drift_ms(1000));
    WAIT_UNTIL(pawl_lock_token(fixed) == 0, 1000 + SLACK_MS);
    assert_int_equal(pawl_lock_remaining_ms(fixed), 0);
    assert_true(pawl_lock_remaining_ms(renewed) == INT64_MAX);
    ASSERT_STATUS(PAWL_LOST, pawl_lock_release(fixed));
    ASSERT_OK(pawl_lock_release(renewed));
    pawl_lock_close(fixed);
    pawl_lock_close(renewed);
    ASSERT_OK(close_client(client));
}

/* ===== Which clock ===== */

static void time_is_the_boot_time(void **state)
{
    (void)state;
    const int64_t before_us = boottime_us();
    const int64_t now_us = pawl__now_us();
    assert_in_range(now_us, before_us, boottime_us());
}

/* The same small program in worlds whose clocks stand elsewhere. */
static void leases_hold_wherever_the_clocks_stand(void **state)
{
    (void)state;
    static const char *const worlds[][2] = {
        {"4300000", "4300000"}, /* up for more than 2^32 ms */
        {"86400", "0"},         /* was suspended for a day */
        {"4300000", "86400"},
    };
    if (geteuid() != 0) {
        print_message("only root can set clocks in a time namespace\n");
        skip();
    }
    snprintf(file_url, sizeof file_url, "file://%s", tempdir_make());
    for (size_t i = 0; i < sizeof worlds / sizeof worlds[0]; i++) {
        const char *const urls[] = {server_url(server), file_url};
        for (size_t j = 0; j < sizeof urls / sizeof urls[0]; j++) {
            const char *const argv[] = {"unshare", "-T", "--fork", "--boottime", worlds[i][0],
                "--monotonic", worlds[i][1], PAWL_TEST_BIN_DIR "/clockwork", urls[j], NULL};
            struct child *child = child_spawn(argv);
            char *line = child_read_line(child, 20000 * SLOWNESS);
            print_message("boot time +%s s, monotonic +%s s, %.5s: %s\n", worlds[i][0],
                worlds[i][1], urls[j], line != NULL ? line : "nothing");
            assert_non_null(line);
            assert_string_equal(line, "ok");
            free(line);
            assert_int_equal(child_wait(child, 5000), 0);
            child_free(child);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(backend_begin, a_slow_answer_comes_off_the_remaining_time),
        CASE(backend_begin, a_slow_request_comes_off_the_remaining_time),
        CASE(backend_begin, without_answers_it_falls_to_zero_and_stays_there),
        CASE(backend_begin, a_look_after_reconnecting_does_not_extend_a_fixed_lease),
        CASE(backend_begin, a_renewed_lease_is_renewed_at_once_after_reconnecting),
        CASE(backend_begin, extend_lengthens_and_never_shortens),
        CASE(backend_begin, on_files_a_renewed_hold_has_no_end_and_a_fixed_one_does),
        cmocka_unit_test(time_is_the_boot_time),
        CASE(backend_begin, leases_hold_wherever_the_clocks_stand),
    };
    return cmocka_run_group_tests(tests, backend_start, NULL);
}
