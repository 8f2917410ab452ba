/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of a hold that vanish at their servers, and are asked for again: one of them costs nothing,
 * a majority at one moment is a loss, whatever was granted again since. */
#include "nodes.h"

#include <stdatomic.h>
#include <stdio.h>

enum { LEASE_MS = 2400 }; /* renewed every 800 ms */

static struct nodes nodes;
static struct nodes direct; /* the same, without proxies */
static struct party ours;
static struct party theirs;

static _Atomic int losses;
static _Atomic int risks;

static void note_event(const pawl_event *event, void *arg)
{
    (void)arg;
    atomic_fetch_add(event->status == PAWL_LOST ? &losses : &risks, 1);
}

static int begin(void **state)
{
    const int status = cleanup_setup(state);
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    options.lease_ms = LEASE_MS;
    options.on_lost = note_event;
    options.on_risk = note_event;
    pawl_lock_options patient = PAWL_LOCK_OPTIONS_INIT;
    patient.node_timeout_ms = 500;
    atomic_store(&losses, 0);
    atomic_store(&risks, 0);
    nodes_start(&nodes, 3, true);
    direct = nodes;
    memset(direct.proxies, 0, sizeof direct.proxies);
    party_open(&ours, &nodes, "?durable=1&timeout=3s", &options);
    party_open(&theirs, &direct, NULL, &patient);
    assert_ok(pawl_lock_acquire(ours.lock, 2000));
    WAIT_UNTIL(nodes_holding(&nodes) == 3, 1000);
    return status;
}

static int end(void **state)
{
    party_close(&ours);
    party_close(&theirs);
    return cleanup_teardown(state);
}

static void take_away(int number)
{
    assert_int_equal(server_integer(nodes.servers[number], "DEL " NAME), 1);
}

static bool is_there(int number)
{
    return server_integer(nodes.servers[number], "EXISTS " NAME) == 1;
}

static void somebody_else_comes_and_goes(void)
{
    const uint64_t token = pawl_lock_token(ours.lock);
    assert_ok(pawl_lock_acquire(theirs.lock, PAWL_TRY));
    assert_true(pawl_lock_token(theirs.lock) > token);
    assert_ok(pawl_lock_release(theirs.lock));
}

static void is_told_of_its_loss(void)
{
    WAIT_UNTIL(atomic_load(&losses) == 1, 3 * LEASE_MS);
    assert_int_equal(pawl_lock_token(ours.lock), 0);
    assert_status(pawl_lock_release(ours.lock), PAWL_LOST);
    WAIT_UNTIL(nodes_holding(&nodes) == 0, 5000);
    assert_ok(pawl_lock_acquire(ours.lock, 2000));
    assert_ok(pawl_lock_release(ours.lock));
    assert_int_equal(atomic_load(&losses), 1);
}

/* One after the other: nobody else could have had a majority, and nobody is told anything. */
static void one_at_a_time_is_healed_without_a_word(void **state)
{
    (void)state;
    for (int number = 0; number < 3; number++) {
        take_away(number);
        WAIT_UNTIL(is_there(number), LEASE_MS);
        nodes_await_renewal(&nodes);
    }
    assert_int_equal(atomic_load(&losses) + atomic_load(&risks), 0);
    assert_ok(pawl_lock_release(ours.lock));
    WAIT_UNTIL(nodes_holding(&nodes) == 0, 2000);
}

/* The second server hears of renewals late: the first part is there again before it is known that
 * the second one is gone, and so was when the first was. */
static void two_vanish_and_one_comes_back(void)
{
    proxy_set_delay(nodes.proxies[1], PROXY_TO_SERVER, 600, 0);
    take_away(0);
    take_away(1);
    somebody_else_comes_and_goes();
    WAIT_UNTIL(is_there(0), LEASE_MS);
}

static void a_part_that_is_there_again_hides_no_loss(void **state)
{
    (void)state;
    two_vanish_and_one_comes_back();
    assert_false(is_there(1));
    proxy_set_delay(nodes.proxies[1], PROXY_TO_SERVER, 0, 0);
    is_told_of_its_loss();
}

/* The same, but nobody has found out when it is released: the release does. */
static void a_release_is_not_confirmed_by_what_came_back(void **state)
{
    (void)state;
    two_vanish_and_one_comes_back();
    assert_status(pawl_lock_release(ours.lock), PAWL_LOST);
    WAIT_UNTIL(atomic_load(&losses) == 1, 2000);
    proxy_set_delay(nodes.proxies[1], PROXY_TO_SERVER, 0, 0);
    assert_status(pawl_lock_release(ours.lock), PAWL_NOT_HELD);
}

/* Renewed at other moments than the others, as a part is that was asked for again: the first is
 * found gone, and there again, long before the second one would be renewed. */
static void parts_that_are_renewed_at_other_moments(void **state)
{
    (void)state;
    take_away(0);
    WAIT_UNTIL(is_there(0), LEASE_MS);
    const int64_t end_ms = boottime_ms() + LEASE_MS;
    int64_t first_ms = LEASE_MS;
    int64_t second_ms = 0;
    do { /* just before a renewal of the first, and long before one of the second: the parts keep in
          * step, so that this comes only if they do not */
        nap_ms(1);
        first_ms = server_integer(nodes.servers[0], "PTTL " NAME);
        second_ms = server_integer(nodes.servers[1], "PTTL " NAME);
    } while (!(first_ms < LEASE_MS * 2 / 3 + 60 && second_ms > first_ms + 100) &&
             boottime_ms() < end_ms);
    take_away(0);
    take_away(1);
    somebody_else_comes_and_goes();
    is_told_of_its_loss();
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(one_at_a_time_is_healed_without_a_word),
        TEST(a_part_that_is_there_again_hides_no_loss),
        TEST(a_release_is_not_confirmed_by_what_came_back),
        TEST(parts_that_are_renewed_at_other_moments),
    };
    return cmocka_run_group_tests_name("quorum healing", tests, NULL, NULL);
}
