/* SPDX-License-Identifier: Apache-2.0 */
/* compound/multi_plan.c: what an acquire of several asks next. The test is the driver: it answers
 * each round as a script says and checks who was asked, with what, and who holds what at the end.
 */
#include "compound/multi.h"

#include "base/alloc.h"
#include "base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define COUNT 4
#define START_US 1000

static struct pawl__multi_call *new_call(enum pawl__request_kind kind, int64_t wait_us)
{
    struct pawl__multi_call *call = pawl__alloc(sizeof *call + COUNT * sizeof call->slots[0]);
    assert_non_null(call);
    call->kind = kind;
    call->count = COUNT;
    call->culprit = COUNT;
    call->error_slot = COUNT;
    call->until_us = wait_us == 0 ? START_US : pawl__later(START_US, wait_us);
    return call;
}

/* The next round asks exactly those marked x, for this, for so long. */
static void expect_round(struct pawl__multi_call *call, int64_t now_us, const char *asked,
    enum pawl__request_kind ask, int64_t wait_us)
{
    assert_true(pawl__multi_next(call, now_us));
    for (size_t i = 0; i < COUNT; i++) {
        assert_int_equal(call->slots[i].asked, asked[i] == 'x');
    }
    assert_int_equal(call->ask, ask);
    assert_int_equal(call->ask_wait_us, wait_us);
}

/* o: given, b: busy, s: spared because of another that is, u: unavailable, d: deadlock, c:
 * canceled, l: lost, n: not held, -: not asked */
static void answer(struct pawl__multi_call *call, const char *answers)
{
    for (size_t i = COUNT; i-- > 0;) { /* the last first: the order of answers must not matter */
        call->slots[i].spared = answers[i] == 's';
        const pawl_status status = answers[i] == 'b'   ? PAWL_BUSY
                                   : answers[i] == 's' ? PAWL_BUSY
                                   : answers[i] == 'u' ? PAWL_UNAVAILABLE
                                   : answers[i] == 'd' ? PAWL_DEADLOCK
                                   : answers[i] == 'c' ? PAWL_CANCELED
                                   : answers[i] == 'l' ? PAWL_LOST
                                   : answers[i] == 'n' ? PAWL_NOT_HELD
                                                       : PAWL_OK;
        const char sentence[] = {(char)('0' + i), answers[i], '\0'};
        assert_int_equal(call->slots[i].asked, answers[i] != '-');
        if (answers[i] != '-') {
            pawl__multi_answer(call, i, status, sentence);
        }
    }
}

static void expect_end(
    struct pawl__multi_call *call, int64_t now_us, pawl_status status, const char *has)
{
    assert_false(pawl__multi_next(call, now_us));
    assert_int_equal(call->status, status);
    for (size_t i = 0; i < COUNT; i++) {
        assert_int_equal(call->slots[i].has, has[i] == 'x');
    }
    pawl__free(call);
}

#define ACQUIRE PAWL__WANT_ACQUIRE
#define RELEASE PAWL__WANT_RELEASE

static void all_at_once(void **state)
{
    (void)state;
    struct pawl__multi_call *call = new_call(ACQUIRE, 0);
    expect_round(call, START_US, "xxxx", ACQUIRE, 0);
    answer(call, "oooo");
    expect_end(call, START_US + 50, PAWL_OK, "xxxx");
}

static void a_try_gives_back(void **state)
{
    (void)state;
    struct pawl__multi_call *call = new_call(ACQUIRE, 0);
    expect_round(call, START_US, "xxxx", ACQUIRE, 0);
    answer(call, "obob");
    expect_round(call, START_US + 50, "x-x-", RELEASE, 0);
    answer(call, "o-o-");
    assert_int_equal(call->culprit, 1);
    assert_string_equal(call->reason, "1b"); /* the first in order, whoever answered first */
    expect_end(call, START_US + 90, PAWL_BUSY, "----");
}

static void a_try_that_gets_nothing_has_nothing_to_give_back(void **state)
{
    (void)state;
    struct pawl__multi_call *call = new_call(ACQUIRE, 0);
    expect_round(call, START_US, "xxxx", ACQUIRE, 0);
    answer(call, "bbbb");
    expect_end(call, START_US + 50, PAWL_BUSY, "----");
}

/* Never is a later one held while an earlier one is waited for. */
static void later_ones_go_back_before_a_wait(void **state)
{
    (void)state;
    struct pawl__multi_call *call = new_call(ACQUIRE, 1000);
    expect_round(call, START_US, "xxxx", ACQUIRE, 0);
    answer(call, "oboo");
    expect_round(call, START_US + 100, "--xx", RELEASE, 0);
    answer(call, "--ol"); /* lost or not: it is not ours any more */
    expect_round(call, START_US + 200, "-x--", ACQUIRE, 800);
    answer(call, "-o--");
    expect_round(call, START_US + 300, "--xx", ACQUIRE, 0);
    answer(call, "--ob");
    expect_round(call, START_US + 400, "---x", ACQUIRE, 600);
    answer(call, "---o");
    expect_end(call, START_US + 500, PAWL_OK, "xxxx");
}

static void waiting_for_the_first(void **state)
{
    (void)state;
    struct pawl__multi_call *call = new_call(ACQUIRE, PAWL__NEVER);
    expect_round(call, START_US, "xxxx", ACQUIRE, 0);
    answer(call, "bbbb");
    expect_round(call, START_US, "x---", ACQUIRE, PAWL__NEVER);
    answer(call, "c---");
    assert_int_equal(call->culprit, 0);
    expect_end(call, START_US, PAWL_CANCELED, "----");
}

static void a_wait_that_fails_gives_back(void **state)
{
    (void)state;
    struct pawl__multi_call *call = new_call(ACQUIRE, 1000);
    expect_round(call, START_US, "xxxx", ACQUIRE, 0);
    answer(call, "oobb");
    expect_round(call, START_US + 100, "--x-", ACQUIRE, 900);
    answer(call, "--b-");
    expect_round(call, START_US + 1000, "xx--", RELEASE, 0);
    answer(call, "oo--");
    expect_end(call, START_US + 1100, PAWL_BUSY, "----");
}

static void time_can_end_while_giving_back(void **state)
{
    (void)state;
    struct pawl__multi_call *call = new_call(ACQUIRE, 1000);
    expect_round(call, START_US, "xxxx", ACQUIRE, 0);
    answer(call, "oboo");
    expect_round(call, START_US + 999, "--xx", RELEASE, 0);
    answer(call, "--oo");
    expect_round(call, START_US + 1000, "x---", RELEASE, 0);
    answer(call, "o---");
    expect_end(call, START_US + 1100, PAWL_BUSY, "----");
}

static void patience_helps_in_an_outage(void **state)
{
    (void)state;
    struct pawl__multi_call *call = new_call(ACQUIRE, 1000);
    expect_round(call, START_US, "xxxx", ACQUIRE, 0);
    answer(call, "uuuu");
    expect_round(call, START_US + 100, "x---", ACQUIRE, 900);
    answer(call, "o---");
    expect_round(call, START_US + 200, "-xxx", ACQUIRE, 0);
    answer(call, "-ooo");
    expect_end(call, START_US + 300, PAWL_OK, "xxxx");
}

static void patience_does_not_help_otherwise(void **state)
{
    (void)state;
    struct pawl__multi_call *call = new_call(ACQUIRE, PAWL__NEVER);
    expect_round(call, START_US, "xxxx", ACQUIRE, 0);
    answer(call, "odoo");
    expect_round(call, START_US, "x-xx", RELEASE, 0);
    answer(call, "u-oo");
    assert_string_equal(call->reason, "1d"); /* giving back does not change why */
    expect_end(call, START_US, PAWL_DEADLOCK, "----");
}

/* What the backend gives together needs no round but the first. */
static void as_a_whole(void **state)
{
    (void)state;
    struct pawl__multi_call *call = new_call(ACQUIRE, 1000);
    call->whole = true;
    expect_round(call, START_US + 100, "xxxx", ACQUIRE, 900);
    answer(call, "oooo");
    expect_end(call, START_US + 500, PAWL_OK, "xxxx");
    call = new_call(ACQUIRE, PAWL__NEVER);
    call->whole = true;
    expect_round(call, START_US, "xxxx", ACQUIRE, 1000000);
    answer(call, "ssds");
    assert_int_equal(call->culprit, COUNT);
    assert_false(pawl__multi_next(call, START_US));
    assert_int_equal(call->culprit, 2);
    assert_string_equal(call->reason, "2d");
    assert_int_equal(call->status, PAWL_DEADLOCK);
    pawl__free(call);
}

/* After a second each is asked by itself, and who waits keeps what comes before. */
static void a_whole_that_is_never_free(void **state)
{
    (void)state;
    struct pawl__multi_call *call = new_call(ACQUIRE, 1001000);
    const int64_t later_us = START_US + 1000000;
    call->whole = true;
    expect_round(call, START_US, "xxxx", ACQUIRE, 1000000);
    assert_false(call->apart);
    answer(call, "ssbs");
    expect_round(call, later_us, "xx--", ACQUIRE, 0);
    assert_true(call->apart);
    answer(call, "ob--");
    expect_round(call, later_us + 200, "-x--", ACQUIRE, 800);
    answer(call, "-o--");
    expect_round(call, later_us + 300, "--xx", ACQUIRE, 0);
    answer(call, "--oo");
    expect_end(call, later_us + 400, PAWL_OK, "xxxx");
}

/* Asked as one, but not waited for so: who waits stands in the fair one's queue, and keeps what
 * comes before. */
static void a_whole_with_a_fair_member(void **state)
{
    (void)state;
    struct pawl__multi_call *call = new_call(ACQUIRE, 5000);
    call->whole = call->queues = true;
    expect_round(call, START_US, "xxxx", ACQUIRE, 0);
    assert_false(call->apart);
    answer(call, "ssbs");
    expect_round(call, START_US + 100, "xx--", ACQUIRE, 0);
    assert_true(call->apart);
    answer(call, "oo--");
    expect_round(call, START_US + 300, "--x-", ACQUIRE, 4700);
    answer(call, "--o-");
    expect_round(call, START_US + 400, "---x", ACQUIRE, 0);
    answer(call, "---o");
    expect_end(call, START_US + 500, PAWL_OK, "xxxx");
    call = new_call(ACQUIRE, 0);
    call->whole = call->queues = true;
    expect_round(call, START_US, "xxxx", ACQUIRE, 0);
    answer(call, "ssbs");
    expect_end(call, START_US, PAWL_BUSY, "----");
}

/* The first is what is waited for: nothing else is asked, and what the caller entered goes back. */
static void a_whole_that_waits_for_the_first(void **state)
{
    (void)state;
    struct pawl__multi_call *call = new_call(ACQUIRE, 5000);
    call->whole = call->queues = true;
    expect_round(call, START_US, "xxxx", ACQUIRE, 0);
    answer(call, "bsss");
    expect_round(call, START_US + 100, "x---", ACQUIRE, 4900);
    answer(call, "b---");
    expect_end(call, START_US + 5000, PAWL_BUSY, "----");
    call = new_call(ACQUIRE, 5000);
    call->whole = call->queues = true;
    expect_round(call, START_US, "xxxx", ACQUIRE, 0);
    answer(call, "bsso");
    expect_round(call, START_US + 100, "---x", RELEASE, 0);
    answer(call, "---o");
    expect_round(call, START_US + 200, "x---", ACQUIRE, 4800);
    answer(call, "o---");
    expect_round(call, START_US + 300, "-xxx", ACQUIRE, 0);
    answer(call, "-ooo");
    expect_end(call, START_US + 400, PAWL_OK, "xxxx");
}

/* The caller had one before, and entered it again. */
static void a_whole_that_fails_gives_back_what_was_entered(void **state)
{
    (void)state;
    struct pawl__multi_call *call = new_call(ACQUIRE, 0);
    call->whole = true;
    expect_round(call, START_US, "xxxx", ACQUIRE, 0);
    answer(call, "sobs");
    expect_round(call, START_US, "-x--", RELEASE, 0);
    answer(call, "-o--");
    assert_int_equal(call->culprit, 2);
    expect_end(call, START_US, PAWL_BUSY, "----");
}

/* Who was spared is not waited for, but asked again. */
static void those_that_were_spared(void **state)
{
    (void)state;
    struct pawl__multi_call *call = new_call(ACQUIRE, 1000);
    expect_round(call, START_US, "xxxx", ACQUIRE, 0);
    answer(call, "sobo");
    expect_round(call, START_US + 100, "---x", RELEASE, 0);
    answer(call, "---o");
    expect_round(call, START_US + 200, "--x-", ACQUIRE, 800);
    answer(call, "--o-");
    expect_round(call, START_US + 300, "x--x", ACQUIRE, 0);
    answer(call, "b--o");
    expect_round(call, START_US + 400, "-xxx", RELEASE, 0);
    answer(call, "-ooo");
    expect_round(call, START_US + 500, "x---", ACQUIRE, 500);
    answer(call, "b---");
    assert_false(pawl__multi_next(call, START_US + 1000));
    assert_int_equal(call->culprit, 0);
    assert_int_equal(call->status, PAWL_BUSY);
    pawl__free(call);
}

static void lost_while_waiting(void **state)
{
    (void)state;
    struct pawl__multi_call *call = new_call(ACQUIRE, 1000);
    expect_round(call, START_US, "xxxx", ACQUIRE, 0);
    answer(call, "oooo");
    assert_false(pawl__multi_next(call, START_US));
    pawl__multi_fail_lost(call, 2, "x");
    answer(call, "oolo");
    assert_int_equal(call->culprit, 2);
    expect_end(call, START_US, PAWL_LOST, "----");
}

static void a_release_asks_all_and_tells_the_worst(void **state)
{
    (void)state;
    struct pawl__multi_call *call = new_call(RELEASE, 0);
    expect_round(call, START_US, "xxxx", RELEASE, 0);
    answer(call, "nulu");
    assert_false(pawl__multi_next(call, START_US));
    assert_int_equal(call->status, PAWL_LOST);
    assert_int_equal(call->culprit, 2);
    assert_string_equal(call->reason, "2l");
    pawl__free(call);
}

/* Every answer to every round of three members: whatever happens, only a full set or nothing is
 * held at the end, and nothing is held beyond what is waited for. */
static void walk(struct pawl__multi_call *call, uint64_t *seed)
{
    static const char letters[] = {'o', 'o', 'o', 'b', 'u', 'c', 'd'};
    int64_t now_us = START_US;
    while (pawl__multi_next(call, now_us)) {
        for (size_t i = 0; i < COUNT; i++) {
            if (call->stage == PAWL__MULTI_WAIT && i > call->next) {
                assert_false(call->slots[i].has);
            }
            if (!call->slots[i].asked) {
                continue;
            }
            assert_int_equal(call->slots[i].has, call->ask == RELEASE);
            *seed = *seed * UINT64_C(6364136223846793005) + 1442695040888963407U;
            const char letter = letters[(*seed >> 40) % sizeof letters];
            const pawl_status status = letter == 'o'   ? PAWL_OK
                                       : letter == 'b' ? PAWL_BUSY
                                       : letter == 'u' ? PAWL_UNAVAILABLE
                                       : letter == 'c' ? PAWL_CANCELED
                                                       : PAWL_DEADLOCK;
            pawl__multi_answer(call, i, status, "");
        }
        now_us += 100;
        assert_true(now_us < START_US + 100000); /* it comes to an end */
    }
}

static void all_or_nothing_whatever_is_answered(void **state)
{
    uint64_t seed = 1;
    unsigned full = 0;
    (void)state;
    for (unsigned round = 0; round < 20000; round++) {
        struct pawl__multi_call *call = new_call(ACQUIRE, (int64_t)(round % 4) * 300);
        walk(call, &seed);
        for (size_t i = 0; i < COUNT; i++) {
            assert_int_equal(call->slots[i].has, call->status == PAWL_OK);
        }
        full += call->status == PAWL_OK ? 1 : 0;
        pawl__free(call);
    }
    assert_true(full > 100 && full < 19900);
}

static void one_order_for_everybody(void **state)
{
    (void)state;
    assert_true(pawl__multi_compare("a", "z", PAWL_MUTEX, "b", "a", PAWL_MUTEX) < 0);
    assert_true(pawl__multi_compare("a", "z", PAWL_MUTEX, "a", "y", PAWL_MUTEX) > 0);
    assert_true(pawl__multi_compare("a", "z", PAWL_READ, "a", "z", PAWL_WRITE) < 0);
    assert_true(pawl__multi_compare("\x80", "", PAWL_MUTEX, "a", "", PAWL_MUTEX) > 0);
    assert_int_equal(pawl__multi_compare("a", "z", PAWL_FAIR, "a", "z", PAWL_FAIR), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_at_once),
        cmocka_unit_test(a_try_gives_back),
        cmocka_unit_test(a_try_that_gets_nothing_has_nothing_to_give_back),
        cmocka_unit_test(later_ones_go_back_before_a_wait),
        cmocka_unit_test(waiting_for_the_first),
        cmocka_unit_test(a_wait_that_fails_gives_back),
        cmocka_unit_test(time_can_end_while_giving_back),
        cmocka_unit_test(patience_helps_in_an_outage),
        cmocka_unit_test(patience_does_not_help_otherwise),
        cmocka_unit_test(as_a_whole),
        cmocka_unit_test(a_whole_that_is_never_free),
        cmocka_unit_test(a_whole_with_a_fair_member),
        cmocka_unit_test(a_whole_that_waits_for_the_first),
        cmocka_unit_test(a_whole_that_fails_gives_back_what_was_entered),
        cmocka_unit_test(those_that_were_spared),
        cmocka_unit_test(lost_while_waiting),
        cmocka_unit_test(a_release_asks_all_and_tells_the_worst),
        cmocka_unit_test(all_or_nothing_whatever_is_answered),
        cmocka_unit_test(one_order_for_everybody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
