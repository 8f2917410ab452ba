/* SPDX-License-Identifier: Apache-2.0 */
/* The oracles of the torture tests for semaphores, tested as in oracles.c: each finds what it is
 * there for in a history that was made up, and nothing in a good one. */
#include "support/fail.h"
#include "torture/lib/oracles.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { PERMITS = 3, NEVER_US = 1000000000 };

static struct history history;
static struct arena arena; /* large, and hardly anything of it is looked at */
static struct verdict verdict;

static struct hold *add_hold(uint32_t name, uint64_t amount, int64_t from_us, int64_t left_us)
{
    struct hold *hold = history_add_hold(&history);
    hold->name = name;
    hold->kind = name == NAME_PERMITS ? PAWL_MUTEX : PAWL_PLAIN;
    hold->slot = (unsigned)history.hold_count;
    hold->id = (uint64_t)1 << RECORD_THREAD_SHIFT | history.hold_count;
    hold->token = name == NAME_PERMITS ? 1000 + history.hold_count : 0;
    hold->seen = amount;
    hold->from_us = from_us;
    hold->left_us = left_us;
    hold->until_us = NEVER_US;
    hold->left = hold->answered = true;
    return hold;
}

/* Three at once of each, and one as soon as another has gone. */
static void make_good(void)
{
    history_free(&history);
    memset(&arena, 0, sizeof arena);
    memset(&verdict, 0, sizeof verdict);
    arena.permits = PERMITS;
    for (uint32_t name = NAME_SEMAPHORE; name <= NAME_PERMITS; name++) {
        add_hold(name, 1, 1000, 2000);
        add_hold(name, 1, 1100, 1500);
        add_hold(name, 1, 1200, 2000);
        add_hold(name, 1, 1500, 1800);
    }
}

/* Judge, and expect this oracle alone to object, with these words; 0: none. */
static void expect(unsigned oracle, const char *words)
{
    history_finish(&history);
    judge_counts(&history, &arena, &verdict);
    for (unsigned i = 0; i < ORACLE_COUNT; i++) {
        if ((verdict.violations[i] > 0) != (i == oracle && oracle != 0)) {
            support_fail("oracle %u: %" PRIu64 " violations: %s", i, verdict.violations[i],
                verdict.first[i]);
        }
    }
    if (strstr(verdict.first[oracle], words) == NULL) {
        support_fail("\"%s\" is not in \"%s\"", words, verdict.first[oracle]);
    }
}

static void as_many_as_there_are_may_be_out(void **state)
{
    (void)state;
    make_good();
    expect(0, "");
    assert_int_equal(verdict.permits, 8);
    assert_int_equal(verdict.most_out, PERMITS);
}

static void one_too_many_is_found(void **state)
{
    (void)state;
    make_good();
    add_hold(NAME_SEMAPHORE, 1, 1300, 1310);
    expect(1, "4 permits of 3 are out at 1300 us");
}

static void an_amount_counts_as_such(void **state)
{
    (void)state;
    make_good();
    history.holds[3].seen = 2;
    expect(1, "4 permits of 3 are out at 1500 us");
}

static void one_leased_too_many_is_found(void **state)
{
    (void)state;
    make_good();
    add_hold(NAME_PERMITS, 1, 1300, 1310);
    expect(1, "4 leased permits of 3 are out at 1300 us");
}

static void a_leased_one_is_out_no_longer_than_its_lease(void **state)
{
    (void)state;
    make_good();
    history.holds[4].until_us = 1250;
    add_hold(NAME_PERMITS, 1, 1300, 1310);
    expect(0, "");
}

/* The second one's process was killed at 1500, when another took its permit, as it seems. */
static void kill_second(void)
{
    make_good();
    history.holds[1].left = history.holds[1].answered = false;
    history.holds[1].killed = true;
    history.holds[1].generation = 7;
}

static struct replacement *replace_second(int64_t at_us)
{
    struct replacement *replacement = history_add_replacement(&history);
    *replacement = (struct replacement){
        .slot = history.holds[1].slot, .generation = 7, .thread = 1, .at_us = at_us};
    return replacement;
}

static void what_the_dead_had_is_out_until_it_is_replaced(void **state)
{
    (void)state;
    kill_second();
    replace_second(1600);
    expect(1, "4 permits of 3 are out at 1500 us");
}

static void what_was_replaced_may_be_taken(void **state)
{
    (void)state;
    kill_second();
    replace_second(1500);
    expect(0, "");
}

static void a_loss_told_twice_is_found(void **state)
{
    (void)state;
    make_good();
    history.holds[5].told = 2;
    expect(6, "was told 2 times");
}

static void news_of_a_permit_that_nobody_had_is_found(void **state)
{
    (void)state;
    make_good();
    history.strange_reports = 1;
    expect(6, "1 reports were about permits that nobody had");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_many_as_there_are_may_be_out),
        cmocka_unit_test(one_too_many_is_found),
        cmocka_unit_test(an_amount_counts_as_such),
        cmocka_unit_test(one_leased_too_many_is_found),
        cmocka_unit_test(a_leased_one_is_out_no_longer_than_its_lease),
        cmocka_unit_test(what_the_dead_had_is_out_until_it_is_replaced),
        cmocka_unit_test(what_was_replaced_may_be_taken),
        cmocka_unit_test(a_loss_told_twice_is_found),
        cmocka_unit_test(news_of_a_permit_that_nobody_had_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
