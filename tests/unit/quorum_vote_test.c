/* SPDX-License-Identifier: Apache-2.0 */
/* The arithmetic of a quorum: every rule of Redlock that needs no server. */
#include "compound/quorum_vote.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define O PAWL__VOTE_OPEN
#define Y PAWL__VOTE_YES
#define N PAWL__VOTE_NO
#define S PAWL__VOTE_SILENT
#define X PAWL__VOTE_NEVER
#define B PAWL__VOTE_BARRED

/* 3, 4, 5, 6 servers survive 1, 1, 2, 2 failures. */
static void of_2x_plus_1_x_may_fail(void **state)
{
    (void)state;
    static const size_t survives[] = {0, 0, 0, 1, 1, 2, 2, 3};
    for (size_t count = 1; count <= 7; count++) {
        enum pawl__vote votes[7];
        for (size_t failed = 0; failed <= count; failed++) {
            for (size_t i = 0; i < count; i++) {
                votes[i] = i < failed ? PAWL__VOTE_SILENT : PAWL__VOTE_YES;
            }
            assert_int_equal(pawl__votes_judge(votes, count),
                failed <= survives[count] ? PAWL__CARRIED : PAWL__FALLEN);
        }
    }
}

static void decided_no_later_than_possible(void **state)
{
    (void)state;
    static const struct {
        enum pawl__vote votes[5];
        enum pawl__verdict_now verdict;
    } cases[] = {
        {{O, O, O, O, O}, PAWL__UNDECIDED},
        {{Y, Y, O, O, O}, PAWL__UNDECIDED},
        {{Y, Y, Y, O, O}, PAWL__CARRIED},
        {{N, N, O, O, O}, PAWL__UNDECIDED},
        {{N, N, N, O, O}, PAWL__FALLEN},
        {{Y, Y, N, S, B}, PAWL__FALLEN},
        {{Y, Y, N, S, O}, PAWL__UNDECIDED},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(pawl__votes_judge(cases[i].votes, 5), cases[i].verdict);
    }
}

static void why_a_claim_has_fallen(void **state)
{
    (void)state;
    static const struct {
        enum pawl__vote votes[3];
        bool stands; /* whatever the open one says */
        enum pawl__reason reason;
    } cases[] = {
        {{N, N, O}, true, PAWL__REASON_BUSY},
        {{Y, N, S}, true, PAWL__REASON_BUSY}, /* contested: a majority has answered */
        {{N, S, O}, false, PAWL__REASON_SILENCE},
        {{N, S, S}, true, PAWL__REASON_SILENCE},
        {{Y, O, O}, false, PAWL__REASON_SILENCE},
        {{Y, B, B}, true, PAWL__REASON_BARRED},
        {{B, B, B}, true, PAWL__REASON_BARRED},
        {{B, S, S}, true, PAWL__REASON_SILENCE}, /* not for the guard's sake */
        {{N, N, B}, true, PAWL__REASON_BUSY},
        {{B, S, O}, false, PAWL__REASON_SILENCE},
        {{S, S, O}, true, PAWL__REASON_SILENCE},
        {{X, X, O}, true, PAWL__REASON_REFUSED},
        {{X, S, O}, false, PAWL__REASON_SILENCE}, /* it may refuse it, too */
        {{X, S, S}, true, PAWL__REASON_SILENCE},
        {{X, B, S}, true, PAWL__REASON_SILENCE},
        {{X, B, B}, true, PAWL__REASON_BARRED},
        {{X, N, Y}, true, PAWL__REASON_BUSY},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(pawl__votes_reason(cases[i].votes, 3, 0), cases[i].reason);
        assert_int_equal(pawl__votes_reason_stands(cases[i].votes, 3, 0), cases[i].stands);
    }
}

static void only_twins_are_missing(void **state)
{
    (void)state;
    static const struct {
        enum pawl__vote votes[5];
        size_t count, twins;
        enum pawl__reason reason;
    } cases[] = {
        {{Y, B, S}, 3, 1, PAWL__REASON_TWINS},
        {{Y, B, S}, 3, 0, PAWL__REASON_BARRED},        /* it has restarted: that passes */
        {{Y, B, S, S, S}, 5, 1, PAWL__REASON_SILENCE}, /* too few have answered in any case */
        {{Y, Y, B, S, B}, 5, 1, PAWL__REASON_BARRED},  /* the other barred one will do */
        {{Y, B, B, Y, S}, 5, 2, PAWL__REASON_TWINS},
        {{Y, B, X}, 3, 1, PAWL__REASON_TWINS},
        {{N, N, B}, 3, 1, PAWL__REASON_BUSY},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(
            pawl__votes_reason(cases[i].votes, cases[i].count, cases[i].twins), cases[i].reason);
    }
    static const enum pawl__vote open[] = {B, B, O};
    assert_false(pawl__votes_reason_stands(open, 3, 1)); /* it and the first would do */
}

static void what_a_release_says(void **state)
{
    (void)state;
    static const struct {
        enum pawl__vote votes[3];
        pawl_status status;
    } cases[] = {
        {{Y, Y, O}, PAWL_OK},
        {{Y, Y, N}, PAWL_OK},
        {{Y, N, N}, PAWL_LOST},
        {{Y, S, N}, PAWL_UNAVAILABLE},
        {{S, S, S}, PAWL_UNAVAILABLE},
        {{N, N, S}, PAWL_LOST},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(pawl__votes_release_status(cases[i].votes, 3), cases[i].status);
    }
}

static void valid_until_the_majority_is_gone(void **state)
{
    (void)state;
    assert_int_equal(pawl__quorum_deadline((const int64_t[]){50, 30, 40}, 3), 40);
    assert_int_equal(pawl__quorum_deadline((const int64_t[]){0, 30, 40}, 3), 30);
    assert_int_equal(pawl__quorum_deadline((const int64_t[]){0, 0, 40}, 3), 0);
    assert_int_equal(pawl__quorum_deadline((const int64_t[]){9, 8, 7, 6}, 4), 7);
    assert_int_equal(pawl__quorum_deadline((const int64_t[]){1, 5, 2, 4, 3}, 5), 3);
    assert_int_equal(pawl__quorum_deadline((const int64_t[]){7}, 1), 7);
}

static void tokens_are_compared(void **state)
{
    (void)state;
    static const uint64_t tokens[] = {7, 9, 9, 8};
    assert_int_equal(pawl__tokens_greatest(tokens, 4), 9);
    assert_int_equal(pawl__tokens_at(tokens, 4, 9), 2);
    assert_int_equal(pawl__tokens_at(tokens, 1, 9), 0);
}

/* Never nothing, never much more than a tenth of a second, and seldom the same. */
static void pauses_are_random_and_bounded(void **state)
{
    (void)state;
    struct pawl__random random;
    int64_t longest_us[8] = {0};
    pawl__random_seed(&random, 4);
    for (unsigned attempt = 0; attempt < 8; attempt++) {
        int64_t last_us = 0;
        int same = 0;
        for (int i = 0; i < 1000; i++) {
            const int64_t pause_us = pawl__quorum_pause_us(&random, attempt);
            assert_true(pause_us >= 2000 && pause_us <= 102000);
            same += pause_us == last_us ? 1 : 0;
            last_us = pause_us;
            longest_us[attempt] = pause_us > longest_us[attempt] ? pause_us : longest_us[attempt];
        }
        assert_true(same < 10);
    }
    assert_true(longest_us[0] <= 12000);
    assert_true(longest_us[1] > longest_us[0] && longest_us[7] > 80000);
}

static void risk_begins_when_renewals_are_overdue(void **state)
{
    (void)state;
    assert_int_equal(pawl__quorum_risk_us(12000, 4000), 4000);
    assert_int_equal(pawl__quorum_risk_us(12000, 12000), 7000);
}

static void quarantine_ends_a_lease_after_the_start(void **state)
{
    (void)state;
    assert_int_equal(pawl__quarantine_us(0, 30), 30);
    assert_int_equal(pawl__quarantine_us(29, 30), 1);
    assert_int_equal(pawl__quarantine_us(30, 30), 0);
    assert_int_equal(pawl__quarantine_us(1000, 30), 0);
    assert_int_equal(pawl__quarantine_us(-1, 30), 30);
}

/* A clock that jumped makes a server that has just been started look old. */
static void uptime_is_believed_if_the_clocks_agree(void **state)
{
    (void)state;
    const int64_t s = 1000000;
    assert_int_equal(pawl__uptime_believed_us(90 * s, 1000 * s, 1005 * s), 90 * s);
    assert_int_equal(pawl__uptime_believed_us(90 * s, 1005 * s, 1000 * s), 90 * s);
    assert_int_equal(pawl__uptime_believed_us(3602 * s, 4600 * s, 1000 * s), 0);
    assert_int_equal(pawl__uptime_believed_us(90 * s, 1000 * s, 1005 * s + 1), 0);
    assert_int_equal(pawl__uptime_believed_us(-4, 1000 * s, 1000 * s), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_2x_plus_1_x_may_fail),
        cmocka_unit_test(decided_no_later_than_possible),
        cmocka_unit_test(why_a_claim_has_fallen),
        cmocka_unit_test(only_twins_are_missing),
        cmocka_unit_test(what_a_release_says),
        cmocka_unit_test(valid_until_the_majority_is_gone),
        cmocka_unit_test(tokens_are_compared),
        cmocka_unit_test(pauses_are_random_and_bounded),
        cmocka_unit_test(risk_begins_when_renewals_are_overdue),
        cmocka_unit_test(quarantine_ends_a_lease_after_the_start),
        cmocka_unit_test(uptime_is_believed_if_the_clocks_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
