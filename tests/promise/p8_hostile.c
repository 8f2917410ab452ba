/* SPDX-License-Identifier: Apache-2.0 */
/* P8: a hostile server can make a call fail. It cannot make it late, make us crash, or fill our
 * memory.
 *
 * Each attack is a few steps of the scripted server. It is played as the answer to every question
 * that can be asked: the greeting, INFO, acquire, release, renewal, inspect, and on the push
 * connection; each time the call has to end by its limit with a fault, and the peak of the resident
 * memory is watched. Afterwards a good server has to work as ever. */
#include "promise/common.h"

#include "engine/redis/lua_scripts.h"

#include <sys/resource.h>

#define TIMEOUT_MS (SLOWNESS > 1 ? 150 : 100)
#define LEASE_MS 60000
#define GROWTH_MAX_KIB (8 * 1024)
#define SCRIPT_SIZE 2048
#define WAIT_MS (200 * SLOWNESS)

struct attack {
    const char *name;
    const char *steps;
};

static const struct attack attacks[] = {
    {"bulk of 2^63 - 1", "SEND $9223372036854775807\\r\\n\nBYTES 4194304 a\n"},
    {"bulk beyond 64 bits", "SEND $99999999999999999999999\\r\\n\nBYTES 100000 a\n"},
    {"bulk of 2 GiB", "SEND $2147483648\\r\\n\nBYTES 16777216 a\n"},
    {"bulk of 2 MiB", "SEND $2097152\\r\\n\nBYTES 2097152 a\nSEND \\r\\n\n"},
    {"bulk of -2", "SEND $-2\\r\\n\n"},
    {"array of 2^31 - 1", "SEND *2147483647\\r\\n\nBYTES 8388608 :1\\r\\n\n"},
    {"array of 2^63 - 1", "SEND *9223372036854775807\\r\\n\n"},
    {"array of -5", "SEND *-5\\r\\n\n"},
    {"array of 1,000,000 nothings", "SEND *1000000\\r\\n\nBYTES 4194304 *0\\r\\n\n"},
    {"map of 2^31 - 1", "SEND %2147483647\\r\\n\nBYTES 4194304 +a\\r\\n\n"},
    {"five bulks of 1 MiB",
        "SEND *5\\r\\n$1048576\\r\\n\nBYTES 1048576 a\nSEND \\r\\n$1048576\\r\\n\nBYTES 1048576 a\n"
        "SEND \\r\\n$1048576\\r\\n\nBYTES 1048576 a\nSEND \\r\\n$1048576\\r\\n\nBYTES 1048576 a\n"
        "SEND \\r\\n$1048576\\r\\n\nBYTES 1048576 a\nSEND \\r\\n\n"},
    {"1,000 levels deep", "BYTES 4000 *1\\r\\n\nSEND :1\\r\\n\n"},
    {"1,000,000 levels of maps", "BYTES 8000000 %1\\r\\n+a\\r\\n\n"},
    {"an endless line", "SEND +\nBYTES 8388608 a\n"},
    {"an endless number", "SEND :\nBYTES 8388608 9\n"},
    {"an endless error", "SEND -\nBYTES 8388608 ERR \n"},
    {"a flood of messages",
        "BYTES 16777216 >3\\r\\n$7\\r\\nmessage\\r\\n$1\\r\\nx\\r\\n$1\\r\\n0\\r\\n\n"},
    {"a flood of empty pushes", "BYTES 8388608 >0\\r\\n\n"},
    {"a flood of attributes", "BYTES 8388608 |1\\r\\n+a\\r\\n+b\\r\\n\n"},
    {"binary garbage", "BYTES 100000 \\x00\\xff\\x13garbage\\r\\n\n"},
    {"empty lines", "BYTES 100000 \\r\\n\n"},
    {"a web server", "SEND HTTP/1.1 400 Bad Request\\r\\n\\r\\n\nCLOSE\n"},
    {"a number that is none", "SEND :12x\\r\\n\n"},
    {"a number beyond 64 bits", "SEND :999999999999999999999\\r\\n\n"},
    {"a line without its end", "SEND +OK\\rX\\n\n"},
    {"a stream of unknown length",
        "SEND $?\\r\\n;4\\r\\nabcd\\r\\n\nBYTES 65536 ;1\\r\\na\\r\\n\n"},
    {"an end in the middle", "SEND $100\\r\\nabc\nCLOSE\n"},
    {"a reset in the middle", "SEND *3\\r\\n:1\\r\\n\nRESET\n"},
    {"null", "SEND _\\r\\n\n"},
    {"a map for a number", "SEND %1\\r\\n+a\\r\\n+b\\r\\n\n"},
    {"a set for a number", "SEND ~1\\r\\n+a\\r\\n\n"},
    {"a bignum", "SEND (123456789012345678901234567890\\r\\n\n"},
    {"a word for a number", "SEND +OK\\r\\n\n"},
    {"a boolean for a number", "SEND #t\\r\\n\n"},
    {"a double for a number", "SEND ,1.5\\r\\n\n"},
    {"an error without words", "SEND -\\r\\n\n"},
    {"an unheard-of error", "SEND -WEIRD \\x1b[31m\\x07 things\\r\\n\n"},
};
#define ATTACK_COUNT (sizeof attacks / sizeof attacks[0])

static struct scripted *scripted;
static struct losses losses;

/* ===== The server ===== */

static void answer_script(const char *sha1, const char *reply)
{
    char words[64];
    snprintf(words, sizeof words, "EVALSHA %s", sha1);
    scripted_handle(scripted, words, reply);
}

static void start_scripted(void)
{
    scripted = scripted_start();
    scripted_handshake(scripted);
    answer_script(pawl__script_rights.sha1, "*0\\r\\n");
    answer_script(pawl__script_acquire.sha1, ":1700000000000001\\r\\n");
    answer_script(pawl__script_release.sha1, ":1\\r\\n");
    answer_script(pawl__script_renew.sha1, "*1\\r\\n:1\\r\\n");
    answer_script(
        pawl__script_inspect.sha1, "*4\\r\\n$0\\r\\n\\r\\n$1\\r\\n0\\r\\n:-2\\r\\n$1\\r\\n0\\r\\n");
}

/* From now on this command is answered so, always. */
static void attack_on(const char *command, const struct attack *attack)
{
    char script[SCRIPT_SIZE];
    const int size =
        snprintf(script, sizeof script, "REPEAT\nEXPECT %s\n%sEND\n", command, attack->steps);
    assert_true(size > 0 && (size_t)size < sizeof script);
    scripted_play(scripted, script);
}

static const char *call_of(const struct pawl__script *script)
{
    static char pattern[64];
    snprintf(pattern, sizeof pattern, "EVALSHA %s ...", script->sha1);
    return pattern;
}

static pawl_status try_to_open(pawl_client **client_out)
{
    char url[URL_SIZE];
    snprintf(url, sizeof url, "%s?timeout=%dms&connect_timeout=%dms", scripted_url(scripted),
        TIMEOUT_MS, TIMEOUT_MS);
    return pawl_client_open(url, NULL, client_out);
}

/* The limits are short, so on a busy machine the greeting may need more than one attempt. */
static pawl_client *open_hostile(void)
{
    pawl_client *client = NULL;
    WAIT_UNTIL(try_to_open(&client) == PAWL_OK, 10000);
    cleanup_add(close_client_in_cleanup, client);
    return client;
}

/* ===== Judging ===== */

static long peak_kib(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
}

struct tally {
    int64_t late_ms; /* the worst */
    long before_kib;
};

static struct tally begin_tally(void)
{
    return (struct tally){0, peak_kib()};
}

static void judge(struct tally *tally, const struct attack *attack, pawl_status status,
    int64_t limit_ms, int64_t took_ms)
{
    if (status != PAWL_PROTOCOL && status != PAWL_UNAVAILABLE) {
        support_fail(
            "%s: answered %s: %s", attack->name, pawl_status_string(status), pawl_last_error());
    }
    if (took_ms > limit_ms + SLACK_MS) {
        support_fail("%s: took %lld ms, limit %lld ms", attack->name, (long long)took_ms,
            (long long)limit_ms);
    }
    for (const char *at = pawl_last_error(); *at != '\0'; at++) {
        if ((unsigned char)*at < 32) {
            support_fail("%s: a control character in '%s'", attack->name, pawl_last_error());
        }
    }
    tally->late_ms = took_ms - limit_ms > tally->late_ms ? took_ms - limit_ms : tally->late_ms;
}

static void end_tally(const struct tally *tally, const char *what)
{
    const long growth_kib = peak_kib() - tally->before_kib;
    print_message("%s: %zu attacks, at most %lld ms late, peak memory + %ld KiB\n", what,
        ATTACK_COUNT, (long long)tally->late_ms, growth_kib);
    assert_true(SLOWNESS > 1 || growth_kib < GROWTH_MAX_KIB);
}

/* ===== Stages ===== */

/* Opening, each time anew. */
static void attack_opening(const char *command, const char *what)
{
    struct tally tally = begin_tally();
    for (size_t i = 0; i < ATTACK_COUNT; i++) {
        pawl_client *client = NULL;
        start_scripted();
        attack_on(command, &attacks[i]);
        const int64_t began_ms = boottime_ms();
        const pawl_status status = try_to_open(&client);
        judge(&tally, &attacks[i], status, 2 * TIMEOUT_MS, boottime_ms() - began_ms);
        assert_null(client);
        scripted_stop(scripted);
    }
    end_tally(&tally, what);
}

static void the_greeting(void **state)
{
    (void)state;
    attack_opening("HELLO ...", "greeting");
}

static void the_description_of_the_server(void **state)
{
    (void)state;
    attack_opening("INFO", "INFO");
}

/* One call on a lock, each time with a new client. */
static void attack_call(const struct pawl__script *script, const char *what, bool held,
    pawl_status (*call)(pawl_lock *lock))
{
    struct tally tally = begin_tally();
    for (size_t i = 0; i < ATTACK_COUNT; i++) {
        start_scripted();
        pawl_client *client = open_hostile();
        pawl_lock *lock = open_lock(client, "x", LEASE_MS, false);
        if (held) {
            ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
        }
        attack_on(call_of(script), &attacks[i]);
        const int64_t began_ms = boottime_ms();
        const pawl_status status = call(lock);
        judge(&tally, &attacks[i], status, TIMEOUT_MS, boottime_ms() - began_ms);
        scripted_stop(scripted);
        pawl_lock_close(lock);
        close_client(client);
    }
    end_tally(&tally, what);
}

static pawl_status try_acquire(pawl_lock *lock)
{
    return pawl_lock_acquire(lock, PAWL_TRY);
}

static pawl_status extend(pawl_lock *lock)
{
    return pawl_lock_extend(lock, LEASE_MS);
}

static pawl_status inspect(pawl_lock *lock)
{
    pawl_lock_info info = {.size = sizeof info};
    return pawl_lock_inspect(lock, &info);
}

static void the_answer_to_an_acquire(void **state)
{
    (void)state;
    attack_call(&pawl__script_acquire, "acquire", false, try_acquire);
}

static void the_answer_to_a_release(void **state)
{
    (void)state;
    attack_call(&pawl__script_release, "release", true, pawl_lock_release);
}

static void the_answer_to_a_renewal(void **state)
{
    (void)state;
    attack_call(&pawl__script_renew, "renewal", true, extend);
}

static void the_answer_to_an_inspection(void **state)
{
    (void)state;
    attack_call(&pawl__script_inspect, "inspect", false, inspect);
}

/* While somebody waits: the wait ends by its limit, with what was said on the other connection. */
static void the_push_connection(void **state)
{
    (void)state;
    struct tally tally = begin_tally();
    for (size_t i = 0; i < ATTACK_COUNT; i++) {
        start_scripted();
        answer_script(pawl__script_acquire.sha1, ":-30002\\r\\n"); /* held for 30 s */
        pawl_client *client = open_hostile();
        pawl_lock *lock = open_lock(client, "x", LEASE_MS, false);
        attack_on("SUBSCRIBE *", &attacks[i]);
        const int64_t began_ms = boottime_ms();
        const pawl_status status = pawl_lock_acquire(lock, WAIT_MS);
        assert_int_equal(status, PAWL_BUSY);
        judge(&tally, &attacks[i], PAWL_UNAVAILABLE, WAIT_MS, boottime_ms() - began_ms);
        assert_true(scripted_count(scripted, "SUBSCRIBE *") > 0);
        pawl_lock_close(lock);
        close_client(client);
        scripted_stop(scripted);
    }
    end_tally(&tally, "push connection");
}

/* ===== Unasked for ===== */

/* More answers than questions: nobody may be told somebody else's. */
static void answers_that_nobody_asked_for(void **state)
{
    (void)state;
    start_scripted();
    answer_script(pawl__script_acquire.sha1, ":1700000000000001\\r\\n:1\\r\\n:1\\r\\n:0\\r\\n");
    pawl_client *client = open_hostile();
    pawl_lock *lock = open_watched(client, "x", LEASE_MS, false, &losses);
    for (int i = 0; i < 5; i++) {
        const pawl_status status = pawl_lock_acquire(lock, PAWL_TRY);
        assert_true(status == PAWL_OK || status == PAWL_PROTOCOL || status == PAWL_UNAVAILABLE);
        if (status == PAWL_OK) {
            pawl_lock_release(lock); /* whatever it answers, it ends */
        }
    }
    pawl_lock_close(lock);
    close_client(client);
}

/* Well-formed messages without an end: there is always something to read. */
static void drown(const char *command)
{
    char script[SCRIPT_SIZE];
    snprintf(script, sizeof script,
        "EXPECT %s\n"
        "BYTES 1000000000000 >3\\r\\n$7\\r\\nmessage\\r\\n$1\\r\\nx\\r\\n$1\\r\\n0\\r\\n\n",
        command);
    scripted_play(scripted, script);
}

static void a_flood_without_end_while_it_opens(void **state)
{
    (void)state;
    static const char *const commands[] = {"HELLO ...", "INFO"};
    for (size_t i = 0; i < 2; i++) {
        pawl_client *client = NULL;
        start_scripted();
        drown(commands[i]);
        ASSERT_ENDS("open in a flood", 2 * TIMEOUT_MS, PAWL_UNAVAILABLE, try_to_open(&client));
        scripted_stop(scripted);
    }
}

static void a_flood_without_end_while_it_works(void **state)
{
    (void)state;
    start_scripted();
    pawl_client *client = open_hostile();
    pawl_lock *lock = open_lock(client, "x", LEASE_MS, false);
    drown(call_of(&pawl__script_acquire));
    ASSERT_ENDS("try in a flood", TIMEOUT_MS, PAWL_UNAVAILABLE, pawl_lock_acquire(lock, PAWL_TRY));
    pawl_lock_info info = {.size = sizeof info};
    /* The connection was given up by then: the next one may be as good as any, or drown too. */
    const int64_t asked_ms = boottime_ms();
    const pawl_status inspected = pawl_lock_inspect(lock, &info);
    assert_true(inspected == PAWL_OK || inspected == PAWL_UNAVAILABLE);
    ASSERT_BY("inspect in a flood", TIMEOUT_MS, boottime_ms() - asked_ms);
    ASSERT_ENDS("close of a lock in a flood", 0, PAWL_OK, pawl_lock_close(lock));
    const int64_t began_ms = boottime_ms();
    close_client(client);
    ASSERT_BY("close in a flood", TIMEOUT_MS, boottime_ms() - began_ms);
}

static void a_flood_without_end_while_it_waits(void **state)
{
    (void)state;
    start_scripted();
    answer_script(pawl__script_acquire.sha1, ":-30002\\r\\n"); /* held for 30 s */
    pawl_client *client = open_hostile();
    pawl_lock *lock = open_lock(client, "x", LEASE_MS, false);
    drown("SUBSCRIBE *");
    ASSERT_ENDS("a wait in a flood", WAIT_MS, PAWL_BUSY, pawl_lock_acquire(lock, WAIT_MS));
    pawl_lock_close(lock);
    const int64_t began_ms = boottime_ms();
    close_client(client);
    ASSERT_BY("close in a flood", TIMEOUT_MS, boottime_ms() - began_ms);
}

static void a_renewed_hold_under_attack_is_lost_in_time(void **state)
{
    (void)state;
    start_scripted();
    pawl_client *client = open_hostile();
    const int64_t lease_ms = 600;
    pawl_lock *lock = open_watched(client, "x", lease_ms, true, &losses);
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
    const int64_t due_ms = boottime_ms() + pawl_lock_remaining_ms(lock);
    attack_on(call_of(&pawl__script_renew), &attacks[ATTACK_COUNT - 1]);
    WAIT_UNTIL(atomic_load(&losses.count) > 0, 5000);
    ASSERT_BY("lost under attack", 0, atomic_load(&losses.at_ms) - due_ms);
    ASSERT_STATUS(PAWL_LOST, pawl_lock_release(lock));
    assert_int_equal(atomic_load(&losses.count), 1);
    pawl_lock_close(lock);
    close_client(client);
}

static void afterwards_a_good_server_works(void **state)
{
    (void)state;
    struct server *server = server_start(NULL);
    pawl_client *client = open_client(server_url(server), NULL);
    pawl_lock *lock = open_lock(client, "x", LEASE_MS, true);
    for (int i = 0; i < 100; i++) {
        ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
        ASSERT_OK(pawl_lock_release(lock));
    }
    pawl_lock_close(lock);
    ASSERT_OK(close_client(client));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_greeting, cleanup_setup, cleanup_teardown),
        cmocka_unit_test_setup_teardown(
            the_description_of_the_server, cleanup_setup, cleanup_teardown),
        cmocka_unit_test_setup_teardown(the_answer_to_an_acquire, cleanup_setup, cleanup_teardown),
        cmocka_unit_test_setup_teardown(the_answer_to_a_release, cleanup_setup, cleanup_teardown),
        cmocka_unit_test_setup_teardown(the_answer_to_a_renewal, cleanup_setup, cleanup_teardown),
        cmocka_unit_test_setup_teardown(
            the_answer_to_an_inspection, cleanup_setup, cleanup_teardown),
        cmocka_unit_test_setup_teardown(the_push_connection, cleanup_setup, cleanup_teardown),
        cmocka_unit_test_setup_teardown(
            answers_that_nobody_asked_for, cleanup_setup, cleanup_teardown),
        cmocka_unit_test_setup_teardown(
            a_flood_without_end_while_it_opens, cleanup_setup, cleanup_teardown),
        cmocka_unit_test_setup_teardown(
            a_flood_without_end_while_it_works, cleanup_setup, cleanup_teardown),
        cmocka_unit_test_setup_teardown(
            a_flood_without_end_while_it_waits, cleanup_setup, cleanup_teardown),
        cmocka_unit_test_setup_teardown(
            a_renewed_hold_under_attack_is_lost_in_time, cleanup_setup, cleanup_teardown),
        cmocka_unit_test_setup_teardown(
            afterwards_a_good_server_works, cleanup_setup, cleanup_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
