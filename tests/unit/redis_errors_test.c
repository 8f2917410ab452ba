/* SPDX-License-Identifier: Apache-2.0 */
/* Error replies: does each get the right status, the right advice on trying again, and a sentence
 * that is fit to print?
 *
 * Method: the texts of Redis 7 and of Redis 6, as a command of its own and as raised inside a
 * script, and texts that no server sends. */
#include "engine/redis/errors.h"

#include "base/alloc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define IN_SCRIPT_7 " script: 995860947355f8d59c23e9bc934f278a516a901e, on @user_script:1."
#define IN_SCRIPT_6 "ERR Error running script (call to f_995860947355f8d5): @user_script:1: "

static void judge(
    const char *text, pawl_status status, bool again, bool foreign, bool demoted, const char *part)
{
    struct pawl__verdict verdict = pawl__redis_judge(text, strlen(text), "my lock", 7, NULL);
    assert_int_equal(verdict.status, status);
    assert_int_equal(verdict.again, again);
    assert_int_equal(verdict.foreign, foreign);
    assert_int_equal(verdict.demoted, demoted);
    assert_non_null(verdict.sentence);
    if (strstr(verdict.sentence, part) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", verdict.sentence, part);
    }
    assert_null(strstr(verdict.sentence, "@user_script:1."));
    pawl__free(verdict.sentence);
}

static void known_errors(void **state)
{
    (void)state;
    judge("WRONGTYPE Operation against a key holding the wrong kind of value", PAWL_REFUSED, false,
        true, false, "lock 'my lock': the key exists and is not a lock");
    judge("NOPERM this user has no permissions to run the 'evalsha' command", PAWL_DENIED, false,
        false, false, "'evalsha'");
    judge("NOAUTH Authentication required.", PAWL_DENIED, false, false, false, "password");
    judge("OOM command not allowed when used memory > 'maxmemory'.", PAWL_REFUSED, true, false,
        false, "maxmemory");
    judge("MISCONF Errors writing to the AOF file", PAWL_REFUSED, true, false, false, "disk");
    judge("NOREPLICAS Not enough good replicas to write.", PAWL_REFUSED, true, false, false,
        "min-replicas-to-write");
    judge("READONLY You can't write against a read only replica.", PAWL_REFUSED, true, false, true,
        "replica");
    judge("MASTERDOWN Link with MASTER is down", PAWL_REFUSED, true, false, true, "master");
    judge("LOADING Redis is loading the dataset in memory", PAWL_REFUSED, true, false, false,
        "loading");
    judge("BUSY Redis is busy running a script.", PAWL_REFUSED, true, false, false, "script");
    judge("TRYAGAIN Multiple keys request during rehashing of slot", PAWL_REFUSED, true, false,
        false, "moving");
    judge("CLUSTERDOWN Hash slot not served", PAWL_REFUSED, true, false, false, "down");
    judge("MOVED 3999 127.0.0.1:6381", PAWL_REFUSED, true, false, false, "another node");
    judge("ASK 3999 127.0.0.1:6381", PAWL_REFUSED, true, false, false, "another node");
    judge("CROSSSLOT Keys in request don't hash to the same slot", PAWL_REFUSED, false, false,
        false, "choose another name");
    judge("ERR value is not an integer or out of range" IN_SCRIPT_7, PAWL_REFUSED, false, false,
        false, "lock 'my lock': the key 'redisson_lock_token:{my lock}', its token counter, is");
    judge("ERR increment or decrement would overflow" IN_SCRIPT_7, PAWL_REFUSED, false, false,
        false,
        "'redisson_lock_token:{my lock}', its token counter, is not a number or has reached");
    judge("TOKENTYPE not a counter", PAWL_REFUSED, false, false, false,
        "lock 'my lock': the key 'redisson_lock_token:{my lock}', which is to count");
    judge("ERR max number of clients reached", PAWL_UNAVAILABLE, true, false, false,
        "no room for another client; raise its maxclients");
}

static void raised_in_scripts(void **state)
{
    (void)state;
    judge("WRONGTYPE Operation against a key" IN_SCRIPT_7, PAWL_REFUSED, false, true, false,
        "(WRONGTYPE Operation against a key)");
    judge("ERR The user executing the script can't run this command or subcommand" IN_SCRIPT_7,
        PAWL_DENIED, false, false, false, "can't run this command");
    judge("ERR The user executing the script can't access at least one of the keys", PAWL_DENIED,
        false, false, false, "one of the keys");
    judge(IN_SCRIPT_6 "WRONGTYPE Operation against a key", PAWL_REFUSED, false, true, false,
        "not a lock");
    judge(IN_SCRIPT_6 "READONLY You can't write", PAWL_REFUSED, true, false, true, "replica");
    judge(IN_SCRIPT_6 "NOPERM this user", PAWL_DENIED, false, false, false, "access list");
    judge(IN_SCRIPT_6 "OOM command not allowed", PAWL_REFUSED, true, false, false, "memory");
    judge("@user_script: 3: -OOM command not allowed", PAWL_REFUSED, true, false, false, "memory");
    judge("@user_script: 3: NOPERM this user", PAWL_DENIED, false, false, false, "access list");
    judge(IN_SCRIPT_6 "The user executing the script can't run this command", PAWL_DENIED, false,
        false, false, "access list");
}

/* The counter of a name with a brace has it as it is. */
static void counters_are_named(void **state)
{
    (void)state;
    static const char text[] = "TOKENTYPE not a counter";
    struct pawl__verdict verdict = pawl__redis_judge(text, sizeof text - 1, "{a}b", 4, NULL);
    assert_non_null(strstr(verdict.sentence, "'redisson_lock_token:{a}b'"));
    pawl__free(verdict.sentence);
}

static void unknown_errors(void **state)
{
    (void)state;
    judge("ERR unknown command `EVALSHA`", PAWL_PROTOCOL, false, false, false, "unknown command");
    judge("", PAWL_PROTOCOL, false, false, false, "answered with an error");
    judge("WRONGTYPEX and more", PAWL_PROTOCOL, false, false, false, "WRONGTYPEX");
    judge(
        "ERR it says READONLY in the middle", PAWL_PROTOCOL, false, false, false, "in the middle");
    judge("ERR \x1b[31mred\r\n", PAWL_PROTOCOL, false, false, false, "\\x1b[31mred\\x0d\\x0a");
    char text[5000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    struct pawl__verdict verdict =
        pawl__redis_judge(text, sizeof text - 1, text, sizeof text - 1, NULL);
    assert_true(strlen(verdict.sentence) < 400);
    pawl__free(verdict.sentence);
}

static void secrets_are_not_repeated(void **state)
{
    (void)state;
    static const char text[] = "ERR what is 'AUTH me s3cret'?";
    struct pawl__verdict verdict = pawl__redis_judge(text, sizeof text - 1, "x", 1, "s3cret");
    assert_null(strstr(verdict.sentence, "s3cret"));
    assert_non_null(strstr(verdict.sentence, "repeats the password"));
    pawl__free(verdict.sentence);
    verdict = pawl__redis_judge(text, sizeof text - 1, "x", 1, "");
    assert_non_null(strstr(verdict.sentence, "AUTH me"));
    pawl__free(verdict.sentence);
}

static void codes_are_whole_words(void **state)
{
    (void)state;
    assert_true(pawl__redis_error_is("NOSCRIPT", 8, "NOSCRIPT"));
    assert_true(pawl__redis_error_is("NOSCRIPT No", 11, "NOSCRIPT"));
    assert_false(pawl__redis_error_is("NOSCRIPTS", 9, "NOSCRIPT"));
    assert_false(pawl__redis_error_is("NOSCRIP", 7, "NOSCRIPT"));
    assert_false(pawl__redis_error_is("", 0, "NOSCRIPT"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_errors),
        cmocka_unit_test(raised_in_scripts),
        cmocka_unit_test(counters_are_named),
        cmocka_unit_test(unknown_errors),
        cmocka_unit_test(secrets_are_not_repeated),
        cmocka_unit_test(codes_are_whole_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
