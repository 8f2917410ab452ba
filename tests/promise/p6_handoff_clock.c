/* SPDX-License-Identifier: Apache-2.0 */
/* P6 on a clock of our own, for hand-offs: who gets a hold from whom without a word to the backend,
 * when not, and what of the hold is the heir's own. Tokens grow from each to the next. */
#include "promise/lib/clock.h"

#define LEASE_US 3000000
#define HANDOFF 10
#define WAITERS 5
#define FIRST 100 /* the first waiter's owner; the others follow */

static struct pawl__request waits[WAITERS];
static struct pawl__handle second;
static uint64_t last_token;

static int begin_leased(int64_t lease_us, bool renew)
{
    clock_begin_with(lease_us, renew);
    memset(&second, 0, sizeof second);
    handle.terms->handoff = HANDOFF;
    last_token = 0;
    return 0;
}

static int begin(void **state)
{
    (void)state;
    return begin_leased(LEASE_US, true);
}

static int begin_brief(void **state)
{
    (void)state;
    return begin_leased(21000, true);
}

static int begin_fixed(void **state)
{
    (void)state;
    return begin_leased(LEASE_US, false);
}

static int end(void **state)
{
    stage.connected = true;
    stage_flush(&stage);
    pawl__machine_cancel(&stage.machine, &handle, stage.now_us);
    if (second.name != NULL) {
        pawl__machine_cancel(&stage.machine, &second, stage.now_us);
    }
    pawl__machine_release_all(&stage.machine, stage.now_us);
    stage_pass(&stage, 0);
    if (second.name != NULL) {
        stage_close(&stage, &second);
    }
    return clock_end(state);
}

#define HANDED(begin, test) cmocka_unit_test_setup_teardown(test, begin, end)

static const struct pawl__tenure *hold_of(uint64_t owner)
{
    return pawl__machine_find(&stage.machine, &handle, owner, stage.now_us);
}

static unsigned words(void)
{
    unsigned count = 0;
    for (size_t i = 0; i < sizeof stage.submitted / sizeof stage.submitted[0]; i++) {
        count += stage.submitted[i];
    }
    return count;
}

static void check_token(uint64_t owner)
{
    assert_true(hold_of(owner)->token > last_token);
    last_token = hold_of(owner)->token;
}

static void wait_for(struct pawl__handle *through, unsigned from, unsigned count)
{
    for (unsigned i = from; i < from + count; i++) {
        stage_acquire(&stage, &waits[i], through, FIRST + i, PAWL__NEVER);
        assert_false(waits[i].finished);
    }
}

/* A hold with tokens to spare: it was passed on while others stood in line. The first waiter has
 * it. */
static void hold_with_spares(struct pawl__handle *heirs)
{
    assert_int_equal(stage_acquire_now(&stage, &handle, OWNER), PAWL_OK);
    check_token(OWNER);
    wait_for(&handle, 0, 1);
    wait_for(heirs, 1, WAITERS - 1);
    assert_int_equal(stage_release_now(&stage, &handle, OWNER), PAWL_OK);
    assert_int_equal(stage.submitted[PAWL__OP_PASS], 1);
    assert_int_equal(clock_ended(&waits[0]), PAWL_OK);
    check_token(FIRST);
    assert_int_equal(hold_of(FIRST)->spare_tokens, WAITERS - 1);
}

/* The first waiter releases; it was handed on, or the backend was asked. */
static void check_handed(void)
{
    const unsigned before = words();
    assert_int_equal(stage_release_now(&stage, &handle, FIRST), PAWL_OK);
    assert_int_equal(words(), before);
    assert_int_equal(clock_ended(&waits[1]), PAWL_OK);
    check_token(FIRST + 1);
    assert_int_equal(hold_of(FIRST + 1)->state, PAWL__TENURE_HELD);
}

static void check_passed(void)
{
    struct pawl__request request;
    const unsigned passes = stage.submitted[PAWL__OP_PASS];
    stage_release(&stage, &request, &handle, FIRST);
    assert_int_equal(stage.submitted[PAWL__OP_PASS], passes + 1);
    stage.connected = true;
    stage_flush(&stage);
    assert_int_equal(clock_ended(&request), PAWL_OK);
    assert_int_equal(clock_ended(&waits[1]), PAWL_OK);
    check_token(FIRST + 1);
}

/* ===== Tokens ===== */

/* A late copy of the first question may be the one that is granted, with what it asked for. */
static void asked_again_it_asks_for_as_many_tokens(void **state)
{
    (void)state;
    assert_true(stage_stranger_gets(&stage, "x", 100000));
    wait_for(&handle, 0, 1);
    stage_pass(&stage, 1000); /* its first question is answered: held */
    wait_for(&handle, 1, WAITERS - 1);
    stage_pass(&stage, LEASE_US);
    assert_true(stage.submitted[PAWL__OP_ACQUIRE] > 1);
    assert_int_equal(clock_ended(&waits[0]), PAWL_OK);
    check_token(FIRST);
    assert_int_equal(hold_of(FIRST)->spare_tokens, 0);
}

/* ===== When ===== */

static void it_goes_down_the_line_without_a_word(void **state)
{
    (void)state;
    hold_with_spares(&handle);
    const unsigned before = words();
    for (unsigned i = 0; i + 1 < WAITERS; i++) {
        assert_false(waits[i + 1].finished);
        assert_int_equal(stage_release_now(&stage, &handle, FIRST + i), PAWL_OK);
        assert_int_equal(clock_ended(&waits[i + 1]), PAWL_OK);
        check_token(FIRST + i + 1);
        assert_null(hold_of(FIRST + i));
        assert_false(stage_stranger_gets(&stage, "x", LEASE_US));
    }
    assert_int_equal(words(), before);
    assert_int_equal(stage_release_now(&stage, &handle, FIRST + WAITERS - 1), PAWL_OK);
    assert_int_equal(stage.submitted[PAWL__OP_RELEASE], 1);
    assert_int_equal(stage_acquire_now(&stage, &handle, OWNER), PAWL_OK);
    check_token(OWNER); /* beyond all that were reserved */
}

static void it_goes_on_no_more_often_than_asked(void **state)
{
    (void)state;
    handle.terms->handoff = 2;
    assert_int_equal(stage_acquire_now(&stage, &handle, OWNER), PAWL_OK);
    wait_for(&handle, 0, WAITERS);
    assert_int_equal(stage_release_now(&stage, &handle, OWNER), PAWL_OK); /* passed on, */
    for (unsigned i = 0; i < 2; i++) {                                    /* handed on twice, */
        assert_int_equal(stage_release_now(&stage, &handle, FIRST + i), PAWL_OK);
    }
    assert_int_equal(stage.submitted[PAWL__OP_PASS], 1);
    stage.connected = false;
    struct pawl__request request;
    stage_release(&stage, &request, &handle, FIRST + 2); /* and offered to others */
    assert_int_equal(stage.out->kind, PAWL__OP_PASS);
    assert_true(stage.out->offer);
    stage.connected = true;
    stage_flush(&stage);
    assert_int_equal(clock_ended(&request), PAWL_OK);
    assert_int_equal(clock_ended(&waits[3]), PAWL_OK);
}

static void it_stays_here_for_ten_milliseconds(void **state)
{
    (void)state;
    hold_with_spares(&handle);
    stage_pass(&stage, 9999);
    check_handed();
}

static void it_does_not_stay_here_for_longer(void **state)
{
    (void)state;
    hold_with_spares(&handle);
    stage_pass(&stage, 10000);
    check_passed();
}

static void fixed_leases_are_never_handed_on(void **state)
{
    (void)state;
    hold_with_spares(&handle);
    check_passed();
}

static void an_heir_with_a_fixed_lease_gets_its_own(void **state)
{
    (void)state;
    stage_open(&stage, &second, "x", LEASE_US, false);
    second.terms->handoff = HANDOFF;
    hold_with_spares(&second);
    check_passed();
}

static void an_heir_without_handoff_gets_its_own(void **state)
{
    (void)state;
    stage_open(&stage, &second, "x", LEASE_US, true);
    hold_with_spares(&second);
    check_passed();
}

static void an_heir_that_allows_fewer_hands_it_on_no_more(void **state)
{
    (void)state;
    stage_open(&stage, &second, "x", LEASE_US, true);
    second.terms->handoff = 1;
    hold_with_spares(&second);
    check_handed();
    assert_int_equal(stage_release_now(&stage, &second, FIRST + 1), PAWL_OK);
    assert_int_equal(stage.submitted[PAWL__OP_PASS], 2);
    assert_int_equal(clock_ended(&waits[2]), PAWL_OK);
    check_token(FIRST + 2);
}

static void a_hold_with_less_than_half_of_the_heirs_lease_is_not_handed_on(void **state)
{
    (void)state;
    stage_open(&stage, &second, "x", 2 * LEASE_US, true);
    second.terms->handoff = HANDOFF;
    hold_with_spares(&second);
    check_passed();
}

/* If the heir died the lock would stay for longer than the heir's lease says. */
static void a_hold_that_lasts_longer_than_the_heirs_lease_is_not_handed_on(void **state)
{
    (void)state;
    stage_open(&stage, &second, "x", LEASE_US / 2, true);
    second.terms->handoff = HANDOFF;
    hold_with_spares(&second);
    check_passed();
    assert_int_equal(hold_of(FIRST + 1)->deadline_us, stage.now_us + VALID_FOR_US(LEASE_US / 2));
}

static void an_extended_hold_is_not_handed_on(void **state)
{
    (void)state;
    struct pawl__request request;
    hold_with_spares(&handle);
    stage_extend(&stage, &request, &handle, FIRST, 10 * LEASE_US);
    assert_int_equal(clock_ended(&request), PAWL_OK);
    check_passed();
}

static void a_hold_whose_renewal_is_under_way_is_not_handed_on(void **state)
{
    (void)state;
    hold_with_spares(&handle);
    stage.connected = false;
    stage_pass(&stage, 7000);
    assert_int_equal(stage.out->kind, PAWL__OP_RENEW);
    check_passed();
}

static void a_renewed_hold_is_handed_on_and_renewed_for_the_heir(void **state)
{
    (void)state;
    hold_with_spares(&handle);
    stage_pass(&stage, 7000);
    assert_int_equal(stage.submitted[PAWL__OP_RENEW], 1);
    check_handed();
    assert_int_equal(hold_of(FIRST + 1)->deadline_us, stage.now_us + VALID_FOR_US(21000));
    stage_pass(&stage, 6999);
    assert_int_equal(stage.submitted[PAWL__OP_RENEW], 1);
    stage_pass(&stage, 1);
    assert_int_equal(stage.submitted[PAWL__OP_RENEW], 2);
}

/* ===== What is the heir's ===== */

static void the_longest_hold_is_the_heirs_own(void **state)
{
    (void)state;
    stage_open(&stage, &second, "x", LEASE_US, true);
    second.terms->handoff = HANDOFF;
    second.terms->max_hold_us = 2 * LEASE_US;
    hold_with_spares(&second);
    stage_pass(&stage, 5000);
    const int64_t began_us = stage.now_us;
    check_handed();
    assert_int_equal(hold_of(FIRST + 1)->limit_us, began_us + 2 * LEASE_US);
    stage_pass(&stage, 2 * LEASE_US - LEASE_US / 100 - 2001); /* the drift is taken off */
    assert_int_equal(hold_of(FIRST + 1)->state, PAWL__TENURE_HELD);
    assert_int_equal(stage.notice_count, 0);
    stage_pass(&stage, LEASE_US / 100 + 2001);
    assert_int_equal(hold_of(FIRST + 1)->state, PAWL__TENURE_LOST);
    assert_int_equal(stage.notice_count, 1);
    assert_int_equal(stage.notices[0].status, PAWL_LOST);
    assert_int_equal(stage.notices[0].token, last_token);
    assert_true(stage.notices[0].at_us <= began_us + 2 * LEASE_US);
}

/* Proof of loss after a hand-off: it is the heir's hold that is lost, and nobody else's. */
static void a_loss_is_told_to_the_heir_alone(void **state)
{
    (void)state;
    hold_with_spares(&handle);
    check_handed();
    const uint64_t id = hold_of(FIRST + 1)->id;
    pawl__machine_lost(&stage.machine, "x", 1, id, stage.now_us);
    stage_pass(&stage, 0);
    assert_int_equal(stage.notice_count, 1);
    assert_int_equal(stage.notices[0].token, last_token);
    assert_null(hold_of(FIRST));
    assert_int_equal(stage_release_now(&stage, &handle, FIRST), PAWL_NOT_HELD);
    assert_int_equal(stage_release_now(&stage, &handle, FIRST + 1), PAWL_LOST);
}

/* A handle through which the giver entered again, and which it never released through. */
static void a_close_takes_nothing_away_from_the_heir(void **state)
{
    (void)state;
    stage_open(&stage, &second, "x", LEASE_US, true);
    hold_with_spares(&handle);
    assert_int_equal(stage_acquire_now(&stage, &second, FIRST), PAWL_OK);
    assert_int_equal(stage_release_now(&stage, &handle, FIRST), PAWL_OK);
    check_handed();
    assert_int_equal(pawl__handle_holder(&second), 0);
    assert_int_equal(pawl__handle_holder(&handle), FIRST + 1);
}

static void a_close_releases_what_was_handed_on(void **state)
{
    (void)state;
    hold_with_spares(&handle);
    check_handed();
    pawl__machine_cancel(&stage.machine, &handle, stage.now_us);
    pawl__machine_release_all(&stage.machine, stage.now_us);
    stage_pass(&stage, 0);
    assert_true(stage_stranger_gets(&stage, "x", 1000));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        HANDED(begin, asked_again_it_asks_for_as_many_tokens),
        HANDED(begin, it_goes_down_the_line_without_a_word),
        HANDED(begin, it_goes_on_no_more_often_than_asked),
        HANDED(begin, it_stays_here_for_ten_milliseconds),
        HANDED(begin, it_does_not_stay_here_for_longer),
        HANDED(begin_fixed, fixed_leases_are_never_handed_on),
        HANDED(begin, an_heir_with_a_fixed_lease_gets_its_own),
        HANDED(begin, an_heir_without_handoff_gets_its_own),
        HANDED(begin, an_heir_that_allows_fewer_hands_it_on_no_more),
        HANDED(begin, a_hold_with_less_than_half_of_the_heirs_lease_is_not_handed_on),
        HANDED(begin, a_hold_that_lasts_longer_than_the_heirs_lease_is_not_handed_on),
        HANDED(begin, an_extended_hold_is_not_handed_on),
        HANDED(begin_brief, a_hold_whose_renewal_is_under_way_is_not_handed_on),
        HANDED(begin_brief, a_renewed_hold_is_handed_on_and_renewed_for_the_heir),
        HANDED(begin, the_longest_hold_is_the_heirs_own),
        HANDED(begin, a_loss_is_told_to_the_heir_alone),
        HANDED(begin, a_close_takes_nothing_away_from_the_heir),
        HANDED(begin, a_close_releases_what_was_handed_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
