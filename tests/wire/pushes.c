/* SPDX-License-Identifier: Apache-2.0 */
/* The push connection: confirmations that come twice, late or never, messages that are not for us,
 * refusals, and ends.
 *
 * Somebody else holds the lock; a caller waits. Whatever happens to its subscription, it gets the
 * lock when it is free, by message or by asking once in a second, and the command connection never
 * notices. */
#include "wire/lib/talk.h"

#include <strings.h>

#define CHANNEL "redisson_lock__channel:{x}"
#define CONFIRMED ">3\\r\\n$9\\r\\nsubscribe\\r\\n$26\\r\\n" CHANNEL "\\r\\n:1\\r\\n"
#define MESSAGE ">3\\r\\n$7\\r\\nmessage\\r\\n$26\\r\\n" CHANNEL "\\r\\n$1\\r\\n0\\r\\n"
#define POLL_MS 1200

static _Atomic int outcome; /* -1: not yet */
static _Atomic bool is_free;

/* Held by somebody else for long, until it is free. */
static void answer_acquire(struct scripted_turn *turn, void *arg)
{
    (void)arg;
    if (atomic_load(&is_free)) {
        text_addf(&turn->reply, ":%lld\r\n", (long long)TOKEN);
    } else {
        text_add_string(&turn->reply, ":-25002\r\n"); /* for 25 s */
    }
}

static int begin(void **state)
{
    char words[64];
    const int result = talk_begin(state);
    atomic_store(&outcome, -1);
    atomic_store(&is_free, false);
    snprintf(words, sizeof words, "EVALSHA %s", pawl__script_acquire.sha1);
    scripted_handle_with(scripted, words, answer_acquire, NULL);
    return result;
}

static void note_outcome(pawl_lock *lock, pawl_status status, void *arg)
{
    (void)lock;
    (void)arg;
    atomic_store(&outcome, (int)status);
}

static pawl_lock *start_waiting(void)
{
    pawl_lock *lock = talk_lock(talk_client(NULL));
    ASSERT_OK(pawl_lock_acquire_async(lock, 10000, note_outcome, NULL));
    return lock;
}

static bool has_subscribed(size_t times)
{
    return scripted_count(scripted, "SUBSCRIBE " CHANNEL) >= times;
}

/* Free the lock, with a message or without, and see how long it takes until the waiter has it. */
static int64_t free_it(bool message)
{
    const int64_t began_ms = boottime_ms();
    atomic_store(&is_free, true);
    if (message) {
        scripted_play(scripted, "ON SUBSCRIBE ...\nSEND " MESSAGE);
    }
    WAIT_UNTIL(atomic_load(&outcome) != -1, POLL_MS + SLACK_MS);
    assert_int_equal(atomic_load(&outcome), PAWL_OK);
    return boottime_ms() - began_ms;
}

static void assert_one_command_connection(void)
{
    size_t greeted = 0;
    for (size_t i = 1; i <= scripted_accepted(scripted); i++) {
        char *order = talk_order(i);
        greeted += strstr(order, "INFO") != NULL ? 1 : 0;
        free(order);
    }
    assert_int_equal(greeted, 1);
}

/* Asked once more after the subscription was confirmed, so that no release falls between. */
static void wait_for_second_question(void)
{
    WAIT_UNTIL(talk_calls(&pawl__script_acquire) >= 2, 3000);
}

static void a_message_wakes(void **state)
{
    (void)state;
    start_waiting();
    WAIT_UNTIL(has_subscribed(1), 3000);
    wait_for_second_question();
    assert_true(free_it(true) < 700); /* not by polling */
    char *order = talk_order(2);
    assert_string_equal(order, "HELLO SUBSCRIBE");
    free(order);
    assert_one_command_connection();
}

static void never_confirmed(void **state)
{
    (void)state;
    scripted_play(scripted, "EXPECT SUBSCRIBE " CHANNEL "\nEXPECT SUBSCRIBE " CHANNEL);
    start_waiting();
    WAIT_UNTIL(has_subscribed(1), 3000);
    free_it(false);
    assert_one_command_connection();
}

static void confirmed_twice(void **state)
{
    (void)state;
    scripted_play(scripted, "EXPECT SUBSCRIBE " CHANNEL "\nSEND " CONFIRMED CONFIRMED);
    start_waiting();
    WAIT_UNTIL(has_subscribed(2), 5000); /* a fresh one: nobody knows what was confirmed */
    free_it(false);
    assert_one_command_connection();
}

static void confirmed_as_something_else(void **state)
{
    (void)state;
    scripted_play(scripted, "EXPECT SUBSCRIBE " CHANNEL
                            "\nSEND >3\\r\\n$11\\r\\nunsubscribe\\r\\n$1\\r\\nx\\r\\n:0\\r\\n");
    start_waiting();
    WAIT_UNTIL(has_subscribed(2), 5000);
    free_it(false);
    assert_one_command_connection();
}

static void answered_as_in_resp2(void **state)
{
    (void)state;
    scripted_play(scripted, "EXPECT SUBSCRIBE " CHANNEL
                            "\nSEND *3\\r\\n$9\\r\\nsubscribe\\r\\n$1\\r\\nx\\r\\n:1\\r\\n");
    start_waiting();
    WAIT_UNTIL(has_subscribed(2), 5000);
    free_it(false);
    assert_one_command_connection();
}

static void a_message_before_the_confirmation(void **state)
{
    (void)state;
    scripted_play(scripted, "EXPECT SUBSCRIBE " CHANNEL "\nSEND " MESSAGE CONFIRMED);
    start_waiting();
    wait_for_second_question();
    assert_true(free_it(true) < 700);
    assert_int_equal(scripted_accepted(scripted), 2);
}

static void messages_that_are_not_for_us(void **state)
{
    (void)state;
    start_waiting();
    WAIT_UNTIL(has_subscribed(1), 3000);
    wait_for_second_question();
    const size_t asked = talk_calls(&pawl__script_acquire);
    scripted_play(scripted,
        "ON SUBSCRIBE ...\n"
        "SEND >3\\r\\n$7\\r\\nmessage\\r\\n$5\\r\\nother\\r\\n$1\\r\\n0\\r\\n"
        ">3\\r\\n$7\\r\\nmessage\\r\\n:7\\r\\n$1\\r\\n0\\r\\n"
        ">1\\r\\n$7\\r\\nmessage\\r\\n>0\\r\\n"
        ">4\\r\\n$8\\r\\npmessage\\r\\n$1\\r\\n*\\r\\n$1\\r\\nx\\r\\n$1\\r\\n0\\r\\n"
        ">2\\r\\n$10\\r\\ninvalidate\\r\\n_\\r\\n");
    assert_true(scripted_wait_done(scripted, 2000));
    nap_ms(100);
    assert_true(talk_calls(&pawl__script_acquire) <= asked + 1); /* a poll may fall into it */
    assert_true(free_it(true) < 700);
    assert_int_equal(scripted_accepted(scripted), 2);
}

/* The payload does not matter. */
static void odd_payloads_wake_as_well(void **state)
{
    (void)state;
    start_waiting();
    WAIT_UNTIL(has_subscribed(1), 3000);
    wait_for_second_question();
    const int64_t began_ms = boottime_ms();
    atomic_store(&is_free, true);
    scripted_play(scripted, "ON SUBSCRIBE ...\nSEND >3\\r\\n$7\\r\\nmessage\\r\\n$26\\r\\n" CHANNEL
                            "\\r\\n$7\\r\\nwhat\\0?!\\r\\n");
    WAIT_UNTIL(atomic_load(&outcome) != -1, POLL_MS + SLACK_MS);
    assert_true(boottime_ms() - began_ms < 700);
    assert_int_equal(atomic_load(&outcome), PAWL_OK);
}

/* ===== Refused ===== */

static void subscribing_is_denied(void **state)
{
    (void)state;
    scripted_handle(scripted, "SUBSCRIBE", "-NOPERM no permissions to access the channel\\r\\n");
    start_waiting();
    WAIT_UNTIL(has_subscribed(1), 3000);
    free_it(false); /* by asking */
    assert_int_equal(scripted_accepted(scripted), 2);
    assert_int_equal(scripted_count(scripted, "SUBSCRIBE ..."), 1); /* it will not help */
}

static void subscribing_fails_for_a_while(void **state)
{
    (void)state;
    scripted_play(scripted, "EXPECT SUBSCRIBE " CHANNEL "\nSEND -LOADING later\\r\\n");
    start_waiting();
    WAIT_UNTIL(has_subscribed(2), 5000);
    nap_ms(50);
    assert_true(free_it(true) < POLL_MS + SLACK_MS);
    assert_one_command_connection();
}

static void the_push_connection_is_refused(void **state)
{
    (void)state;
    pawl_lock *lock = talk_lock(talk_client(NULL));
    scripted_handle(scripted, "HELLO", "-ERR max number of clients reached\\r\\n");
    ASSERT_OK(pawl_lock_acquire_async(lock, 10000, note_outcome, NULL));
    WAIT_UNTIL(scripted_accepted(scripted) >= 2, 3000);
    free_it(false);
    assert_one_command_connection();
}

/* ===== Ended ===== */

static void closed_again_and_again(void **state)
{
    (void)state;
    scripted_play(scripted, "REPEAT 3\nEXPECT SUBSCRIBE " CHANNEL "\nCLOSE\nEND");
    start_waiting();
    WAIT_UNTIL(has_subscribed(4), 10000);
    free_it(true);
    assert_one_command_connection();
}

/* After a loss anybody may have released it: who waits asks as soon as it is subscribed again. */
static void closed_after_the_confirmation(void **state)
{
    (void)state;
    start_waiting();
    WAIT_UNTIL(has_subscribed(1), 3000);
    wait_for_second_question();
    atomic_store(&is_free, true);
    scripted_play(scripted, "ON SUBSCRIBE ...\nRESET");
    WAIT_UNTIL(atomic_load(&outcome) != -1, POLL_MS + SLACK_MS);
    assert_int_equal(atomic_load(&outcome), PAWL_OK);
    assert_one_command_connection();
}

static void garbage_on_the_push_connection(void **state)
{
    (void)state;
    start_waiting();
    WAIT_UNTIL(has_subscribed(1), 3000);
    scripted_play(scripted, "ON SUBSCRIBE ...\nSEND what is this\\r\\n");
    WAIT_UNTIL(has_subscribed(2), 5000);
    free_it(true);
    assert_one_command_connection();
}

/* Whatever ended the command connection may have ended this one without a word: it is asked. */
static void silent_after_the_other_was_lost(void **state)
{
    (void)state;
    start_waiting();
    WAIT_UNTIL(has_subscribed(1), 3000);
    wait_for_second_question();
    scripted_play(scripted, "ON EVALSHA ...\nRESET\nEXPECT PING"); /* and no answer */
    WAIT_UNTIL(has_subscribed(2), 5000);
    assert_true(free_it(true) < 700);
}

static void alive_after_the_other_was_lost(void **state)
{
    (void)state;
    start_waiting();
    WAIT_UNTIL(has_subscribed(1), 3000);
    wait_for_second_question();
    scripted_play(scripted, "ON EVALSHA ...\nRESET");
    WAIT_UNTIL(scripted_count(scripted, "PING") == 1, 5000);
    assert_true(free_it(true) < 700);
    char *order = talk_order(2);
    assert_string_equal(order, "HELLO SUBSCRIBE PING");
    free(order);
}

/* A waiter that leaves takes its subscription back, after a while, on the same connection. */
static void who_leaves_unsubscribes(void **state)
{
    (void)state;
    pawl_lock *lock = start_waiting();
    WAIT_UNTIL(has_subscribed(1), 3000);
    wait_for_second_question();
    pawl_lock_cancel(lock);
    WAIT_UNTIL(atomic_load(&outcome) == PAWL_CANCELED, 3000);
    WAIT_UNTIL(scripted_count(scripted, "UNSUBSCRIBE " CHANNEL) == 1, 3000);
    char *order = talk_order(2);
    assert_string_equal(order, "HELLO SUBSCRIBE UNSUBSCRIBE");
    free(order);
}

#define WAITING(name) cmocka_unit_test_setup_teardown(name, begin, talk_end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WAITING(a_message_wakes),
        WAITING(never_confirmed),
        WAITING(confirmed_twice),
        WAITING(confirmed_as_something_else),
        WAITING(answered_as_in_resp2),
        WAITING(a_message_before_the_confirmation),
        WAITING(messages_that_are_not_for_us),
        WAITING(odd_payloads_wake_as_well),
        WAITING(subscribing_is_denied),
        WAITING(subscribing_fails_for_a_while),
        WAITING(the_push_connection_is_refused),
        WAITING(closed_again_and_again),
        WAITING(closed_after_the_confirmation),
        WAITING(garbage_on_the_push_connection),
        WAITING(silent_after_the_other_was_lost),
        WAITING(alive_after_the_other_was_lost),
        WAITING(who_leaves_unsubscribes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
