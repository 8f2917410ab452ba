/* SPDX-License-Identifier: Apache-2.0 */
/* Replies of the wrong kind, in pieces, too many of them, too few, and connections that end around
 * them.
 *
 * A reply that does not fit its question means that nobody knows what the next one belongs to: the
 * connection is given up, the server kills what is left of it, and the same question is asked again
 * by the same tenure. So a caller sees its lock, or a fault by its limit, never somebody else's
 * answer. What a hostile server may do to memory is in promise/p8_hostile.c. */
#include "wire/lib/talk.h"

#include <strings.h>

/* None of these answers an acquire, a release or anything else that is answered by a number. */
static const char *const wrong[] = {"+OK\\r\\n", "$3\\r\\nabc\\r\\n",
    "$16\\r\\n1700000000000001\\r\\n", "*1\\r\\n:1\\r\\n", "*0\\r\\n", "_\\r\\n", "$-1\\r\\n",
    "*-1\\r\\n", "#t\\r\\n", ",1.5\\r\\n", "(1700000000000001\\r\\n", "%1\\r\\n+a\\r\\n:1\\r\\n",
    "~1\\r\\n:1\\r\\n", "=5\\r\\ntxt:1\\r\\n", ":99999999999999999999\\r\\n", ":\\r\\n", ":+\\r\\n",
    ":1 \\r\\n", ":1\\n", "hello\\r\\n", "\\r\\n", "!5\\r\\nODD x\\n"};

/* Numbers that no acquire is answered with. */
static const char *const wrong_tokens[] = {
    ":0\\r\\n", ":-9000000000000000000\\r\\n", ":-1000000000000001\\r\\n"};

static void each(
    const char *const replies[], size_t count, void (*play)(const char *reply, pawl_lock *lock))
{
    for (size_t i = 0; i < count; i++) {
        void *state = NULL;
        talk_begin(&state);
        print_message("%s\n", replies[i]);
        play(replies[i], talk_lock(talk_client("?timeout=1s")));
        scripted_check(scripted);
        talk_end(&state);
    }
}

/* ===== Of the wrong kind ===== */

static void acquire_through(const char *reply, pawl_lock *lock)
{
    talk_answer(&pawl__script_acquire, reply);
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
    assert_true(pawl_lock_token(lock) == TOKEN);
    assert_int_equal(scripted_accepted(scripted), 2);
    assert_int_equal(scripted_count(scripted, "CLIENT KILL ID 1"), 1);
    char *first = talk_owner(0);
    char *second = talk_owner(1);
    assert_string_equal(second, first);
    free(first);
    free(second);
    ASSERT_OK(pawl_lock_release(lock));
}

static void an_acquire_is_asked_again(void **state)
{
    (void)state;
    each(wrong, COUNT(wrong), acquire_through);
    each(wrong_tokens, COUNT(wrong_tokens), acquire_through);
}

/* A set of two is granted or not, and says why not once. */
static const char *const wrong_sets[] = {":1700000000000001\\r\\n", "*0\\r\\n",
    "*1\\r\\n:1700000000000001\\r\\n", "*3\\r\\n:1\\r\\n:1\\r\\n:1\\r\\n",
    "*2\\r\\n:0\\r\\n:0\\r\\n", "*2\\r\\n:1700000000000001\\r\\n:0\\r\\n",
    "*2\\r\\n:1700000000000001\\r\\n:-5000\\r\\n", "*2\\r\\n:-5000\\r\\n:-5000\\r\\n",
    "*2\\r\\n:0\\r\\n:-5000\\r\\n", "*2\\r\\n:0\\r\\n*2\\r\\n:5\\r\\n$1\\r\\na\\r\\n",
    "*2\\r\\n:0\\r\\n*2\\r\\n:-5000\\r\\n:1\\r\\n", "*2\\r\\n:0\\r\\n+OK\\r\\n",
    "*2\\r\\n:0\\r\\n*1\\r\\n:1\\r\\n"};

/* And of two releases each has its answer. */
static const char *const wrong_releases[] = {":1\\r\\n", "*0\\r\\n", "*1\\r\\n:1\\r\\n",
    "*3\\r\\n:1\\r\\n:1\\r\\n:1\\r\\n", "*2\\r\\n:1\\r\\n:-1\\r\\n", "*2\\r\\n:1\\r\\n+OK\\r\\n",
    "*2\\r\\n:1\\r\\n*1\\r\\n:1\\r\\n"};

static void set_through(void **state, const struct pawl__script *script, const char *reply)
{
    talk_begin(state);
    print_message("%s\n", reply);
    pawl_client *client = talk_client("?timeout=1s");
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    pawl_lock *members[2] = {talk_lock(client), NULL};
    pawl_lock *set = NULL;
    options.owner = PAWL_OWNER_HANDLE;
    ASSERT_OK(pawl_lock_open(client, "y", &options, &members[1]));
    ASSERT_OK(pawl_lock_open_multi(members, 2, NULL, &set));
    talk_answer(script, reply);
    ASSERT_OK(pawl_lock_acquire(set, PAWL_TRY));
    assert_true(pawl_lock_token(members[1]) == TOKEN);
    ASSERT_OK(pawl_lock_release(set));
    assert_int_equal(scripted_accepted(scripted), 2);
    assert_int_equal(scripted_count(scripted, "CLIENT KILL ID 1"), 1);
    ASSERT_OK(pawl_lock_close(set));
    ASSERT_OK(pawl_lock_close(members[1]));
    scripted_check(scripted);
    talk_end(state);
}

static void a_set_is_asked_again(void **state)
{
    for (size_t i = 0; i < COUNT(wrong_sets); i++) {
        set_through(state, &pawl__script_acquire_all, wrong_sets[i]);
    }
    for (size_t i = 0; i < COUNT(wrong_releases); i++) {
        set_through(state, &pawl__script_release_all, wrong_releases[i]);
    }
}

static void release_through(const char *reply, pawl_lock *lock)
{
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
    talk_answer(&pawl__script_release, reply);
    ASSERT_OK(pawl_lock_release(lock));
    assert_int_equal(talk_calls(&pawl__script_release), 2);
    assert_int_equal(scripted_count(scripted, "CLIENT KILL ID 1"), 1);
    assert_works(lock);
}

static void a_release_is_asked_again(void **state)
{
    (void)state;
    each(wrong, COUNT(wrong), release_through);
}

static void extend_through(const char *reply, pawl_lock *lock)
{
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
    talk_answer(&pawl__script_renew, reply);
    const pawl_status status = pawl_lock_extend(lock, 2 * LEASE_MS);
    assert_true(status == PAWL_OK || status == PAWL_PROTOCOL);
    assert_true(pawl_lock_remaining_ms(lock) > LEASE_MS / 2);
    ASSERT_OK(pawl_lock_release(lock));
}

/* An array is right here, but neither an empty one, nor one with something else in it. */
static void a_renewal_is_no_proof(void **state)
{
    (void)state;
    static const char *const renewals[] = {":1\\r\\n", "*0\\r\\n", "*2\\r\\n:1\\r\\n:1\\r\\n",
        "*1\\r\\n:2\\r\\n", "*1\\r\\n:-1\\r\\n", "*1\\r\\n+OK\\r\\n", "*1\\r\\n$1\\r\\n1\\r\\n",
        "*1\\r\\n_\\r\\n", "*1\\r\\n*1\\r\\n:1\\r\\n", "%0\\r\\n", "_\\r\\n", "+OK\\r\\n"};
    each(renewals, COUNT(renewals), extend_through);
}

static void inspect_through(const char *reply, pawl_lock *lock)
{
    pawl_lock_info info = {.size = sizeof info};
    talk_answer(&pawl__script_inspect, reply);
    const pawl_status status = pawl_lock_inspect(lock, &info);
    assert_true(status == PAWL_OK || status == PAWL_PROTOCOL);
    ASSERT_OK(pawl_lock_inspect(lock, &info));
    assert_string_equal(info.holder, "a:1");
}

static void an_inspection_is_not_made_up(void **state)
{
    (void)state;
    static const char *const inspections[] = {":1\\r\\n", "*0\\r\\n",
        "*4\\r\\n:1\\r\\n:1\\r\\n:1\\r\\n:1\\r\\n",
        "*3\\r\\n$1\\r\\na\\r\\n$1\\r\\n1\\r\\n:5000\\r\\n", "_\\r\\n", "+OK\\r\\n",
        "*4\\r\\n$1\\r\\na\\r\\n$1\\r\\n1\\r\\n$1\\r\\n1\\r\\n$1\\r\\n1\\r\\n",
        "*4\\r\\n_\\r\\n_\\r\\n:5000\\r\\n_\\r\\n"};
    each(inspections, COUNT(inspections), inspect_through);
}

/* A holder's name that is longer than any of ours is cut, a count beyond all counts is cut down. */
static void an_inspection_of_something_odd(void **state)
{
    (void)state;
    pawl_lock *lock = talk_lock(talk_client(NULL));
    pawl_lock_info info = {.size = sizeof info};
    talk_then(&pawl__script_inspect, "SEND *4\\r\\n$5000\\r\\n\nBYTES 5000 x\nSEND "
                                     "\\r\\n$25\\r\\n9999999999999999999999999\\r\\n:-1\\r\\n"
                                     "$3\\r\\nabc\\r\\n");
    ASSERT_OK(pawl_lock_inspect(lock, &info));
    assert_int_equal(strlen(info.holder), sizeof info.holder - 1);
    assert_true(info.held);
    assert_int_equal(info.remaining_ms, -1);
    assert_true(info.token == 0);
    scripted_check(scripted);
}

/* ===== In pieces ===== */

/* Send a reply in two pieces, cut at each byte in turn. */
static void cut_everywhere(
    const struct pawl__script *script, const char *reply, void (*ask)(pawl_lock *lock))
{
    struct text bytes = {0};
    pawl_lock *lock = talk_lock(talk_client("?timeout=2s"));
    text_add_string(&bytes, reply);
    for (size_t cut = 1; cut < bytes.size; cut++) {
        struct text steps = {0};
        text_add_string(&steps, "SEND ");
        for (size_t i = 0; i < bytes.size; i++) {
            text_addf(&steps, "%s\\x%02x", i == cut ? "\nSILENCE 1\nSEND " : "",
                (unsigned)(unsigned char)bytes.data[i]);
        }
        talk_then(script, steps.data);
        text_free(&steps);
        ask(lock);
    }
    text_free(&bytes);
    scripted_check(scripted);
    assert_int_equal(scripted_accepted(scripted), 1);
}

static void ask_extend(pawl_lock *lock)
{
    if (pawl_lock_token(lock) == 0) {
        ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
    }
    ASSERT_OK(pawl_lock_extend(lock, LEASE_MS));
}

static void ask_inspect(pawl_lock *lock)
{
    pawl_lock_info info = {.size = sizeof info};
    ASSERT_OK(pawl_lock_inspect(lock, &info));
    assert_string_equal(info.holder, "a:1");
    assert_int_equal(info.remaining_ms, 5000);
}

static void ask_refused(pawl_lock *lock)
{
    ASSERT_STATUS(PAWL_REFUSED, pawl_lock_acquire(lock, PAWL_TRY));
    assert_says("MISCONF no disk");
}

static void cut_at_each_byte(void **state)
{
    (void)state;
    cut_everywhere(&pawl__script_acquire, ":1700000000000001\r\n", assert_works);
}

static void cut_at_each_byte_of_a_renewal(void **state)
{
    (void)state;
    cut_everywhere(&pawl__script_renew, "*1\r\n:1\r\n", ask_extend);
}

static void cut_at_each_byte_of_an_inspection(void **state)
{
    (void)state;
    cut_everywhere(
        &pawl__script_inspect, "*4\r\n$3\r\na:1\r\n$1\r\n1\r\n:5000\r\n$1\r\n7\r\n", ask_inspect);
}

static void cut_at_each_byte_of_an_error(void **state)
{
    (void)state;
    cut_everywhere(&pawl__script_acquire, "-MISCONF no disk\r\n", ask_refused);
}

static void cut_at_each_byte_with_pushes_between(void **state)
{
    (void)state;
    cut_everywhere(&pawl__script_acquire, ">2\r\n$10\r\ninvalidate\r\n_\r\n:1700000000000001\r\n",
        assert_works);
}

/* Part of a reply, and then nothing any more: given up at the timeout, and asked again. */
static void the_rest_never_comes(void **state)
{
    (void)state;
    static const char *const parts[] = {
        ":", ":17000", ":1700000000000001", ":1700000000000001\\r", "$5\\r\\nab", "*1\\r\\n"};
    for (size_t i = 0; i < COUNT(parts); i++) {
        void *own_state = NULL;
        talk_begin(&own_state);
        pawl_lock *lock = talk_lock(talk_client(NULL));
        talk_answer(&pawl__script_acquire, parts[i]);
        const int64_t began_ms = boottime_ms();
        ASSERT_OK(pawl_lock_acquire(lock, 3000));
        const int64_t took_ms = boottime_ms() - began_ms;
        assert_true(took_ms >= TIMEOUT_MS - 50 && took_ms <= TIMEOUT_MS + SLACK_MS);
        assert_int_equal(scripted_count(scripted, "CLIENT KILL ID 1"), 1);
        ASSERT_OK(pawl_lock_release(lock));
        talk_end(&own_state);
    }
}

/* ===== Too many ===== */

static void a_second_reply_in_the_same_packet(void **state)
{
    (void)state;
    pawl_lock *lock = talk_lock(talk_client(NULL));
    talk_answer(&pawl__script_acquire, ":1700000000000001\\r\\n:1\\r\\n");
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
    ASSERT_OK(pawl_lock_release(lock));
    assert_int_equal(scripted_accepted(scripted), 2); /* it was not taken for the release's */
    assert_int_equal(talk_calls(&pawl__script_release), 1);
    assert_works(lock);
}

static void a_reply_that_nobody_asked_for(void **state)
{
    (void)state;
    pawl_lock *lock = talk_lock(talk_client(NULL));
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
    scripted_play(scripted, "ON HELLO ...\nSEND :0\\r\\n"); /* "not yours", if it were believed */
    assert_true(scripted_wait_done(scripted, 2000));
    nap_ms(1200); /* after a second of silence the client looks before it writes */
    ASSERT_OK(pawl_lock_release(lock));
    assert_int_equal(scripted_accepted(scripted), 2);
}

static void pushes_on_the_command_connection(void **state)
{
    (void)state;
    static const char *const pushes[] = {">2\\r\\n$10\\r\\ninvalidate\\r\\n*1\\r\\n$1\\r\\nx\\r\\n",
        ">3\\r\\n$7\\r\\nmessage\\r\\n$1\\r\\nc\\r\\n$1\\r\\n0\\r\\n", ">1\\r\\n_\\r\\n",
        ">0\\r\\n", ">3\\r\\n$9\\r\\nsubscribe\\r\\n$1\\r\\nc\\r\\n:1\\r\\n",
        ">2\\r\\n:1\\r\\n:1\\r\\n", "|1\\r\\n+key-popularity\\r\\n:5\\r\\n"};
    pawl_lock *lock = talk_lock(talk_client(NULL));
    for (size_t i = 0; i < COUNT(pushes); i++) {
        char reply[160];
        snprintf(reply, sizeof reply, "%s:1700000000000001\\r\\n", pushes[i]);
        talk_answer(&pawl__script_acquire, reply);
        assert_works(lock);
    }
    scripted_check(scripted);
    assert_int_equal(scripted_accepted(scripted), 1);
}

/* ===== The end of the connection ===== */

static void it_closes_before_the_reply(void **state)
{
    (void)state;
    pawl_lock *lock = talk_lock(talk_client(NULL));
    talk_then(&pawl__script_acquire, "CLOSE");
    assert_works(lock);
    talk_then(&pawl__script_release, "RESET");
    assert_works(lock);
    scripted_check(scripted);
}

static void it_closes_after_the_reply(void **state)
{
    (void)state;
    pawl_lock *lock = talk_lock(talk_client(NULL));
    talk_then(&pawl__script_acquire, "SEND :1700000000000001\\r\\n\nCLOSE");
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
    assert_true(pawl_lock_token(lock) == TOKEN);
    ASSERT_OK(pawl_lock_release(lock));
    assert_int_equal(scripted_accepted(scripted), 2);
    talk_then(&pawl__script_acquire, "SEND :17000\nCLOSE"); /* in the middle of it */
    assert_works(lock);
}

/* It answers the greeting and hangs up on every question: a fault, by the limit, and no storm. */
static void it_closes_at_each_command(void **state)
{
    (void)state;
    pawl_lock *lock = talk_lock(talk_client(NULL));
    char script[160];
    snprintf(script, sizeof script, "REPEAT\nEXPECT EVALSHA %s ...\nCLOSE\nEND",
        pawl__script_acquire.sha1);
    scripted_play(scripted, script);
    const int64_t began_ms = boottime_ms();
    ASSERT_STATUS(PAWL_UNAVAILABLE, pawl_lock_acquire(lock, PAWL_TRY));
    assert_true(boottime_ms() - began_ms <= TIMEOUT_MS + SLACK_MS);
    ASSERT_STATUS(PAWL_UNAVAILABLE, pawl_lock_acquire(lock, 1000));
    print_message("%zu connections\n", scripted_accepted(scripted));
    assert_true(scripted_accepted(scripted) < 40); /* the pauses grow */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_acquire_is_asked_again),
        cmocka_unit_test(a_set_is_asked_again),
        cmocka_unit_test(a_release_is_asked_again),
        cmocka_unit_test(a_renewal_is_no_proof),
        cmocka_unit_test(an_inspection_is_not_made_up),
        CASE(an_inspection_of_something_odd),
        CASE(cut_at_each_byte),
        CASE(cut_at_each_byte_of_a_renewal),
        CASE(cut_at_each_byte_of_an_inspection),
        CASE(cut_at_each_byte_of_an_error),
        CASE(cut_at_each_byte_with_pushes_between),
        cmocka_unit_test(the_rest_never_comes),
        CASE(a_second_reply_in_the_same_packet),
        CASE(a_reply_that_nobody_asked_for),
        CASE(pushes_on_the_command_connection),
        CASE(it_closes_before_the_reply),
        CASE(it_closes_after_the_reply),
        CASE(it_closes_at_each_command),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
