/* SPDX-License-Identifier: Apache-2.0 */
/* The oracles of the torture tests for locks other than mutexes, tested as in oracles.c: readers
 * may be beside readers and nobody else, and a lock without tokens is judged by the time. */
#include "support/fail.h"
#include "torture/lib/oracles.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { NEVER_US = 1000000000 };

static struct history history;
static struct arena arena; /* large, and only the cells are looked at */
static struct verdict verdict;

static struct hold *add_hold(pawl_kind kind, uint64_t token, int64_t from_us, int64_t left_us)
{
    struct hold *hold = history_add_hold(&history);
    hold->kind = kind;
    hold->slot = (unsigned)history.hold_count;
    hold->id = history.hold_count;
    hold->token = token;
    hold->asked_us = from_us - 10;
    hold->from_us = from_us;
    hold->read_us = from_us + 1;
    hold->stored_us = left_us - 10;
    hold->left_us = left_us;
    hold->answered_us = left_us + 5;
    hold->until_us = NEVER_US;
    hold->left = hold->answered = hold->added = true;
    return hold;
}

/* A writer that makes a one of the number, and two that read it together. */
static void make_good(void)
{
    history_free(&history);
    memset(&arena, 0, sizeof arena);
    memset(&verdict, 0, sizeof verdict);
    arena.names = 1;
    struct hold *writer = add_hold(PAWL_WRITE, 50, 1000, 1090);
    writer->raised = writer->wrote = true;
    writer->written = 1;
    atomic_store(&arena.cells[0].fenced, 1);
    for (unsigned i = 0; i < 2; i++) {
        struct hold *reader = add_hold(PAWL_READ, 52 - i, 1100 + i, 1200);
        reader->seen = reader->written = 1;
    }
}

static void judge(void)
{
    history_finish(&history);
    judge_history(&history, &arena, &verdict);
}

/* Judge, and expect this oracle alone to object, with these words; 0: none. */
static void expect(unsigned oracle, const char *words)
{
    judge();
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

static void readers_may_be_beside_each_other(void **state)
{
    (void)state;
    make_good();
    expect(0, "");
    assert_int_equal(verdict.handovers, 2);
    assert_int_equal(verdict.writes, 1);
    assert_int_equal(verdict.stale_refused, 0);
}

static void a_reader_beside_a_writer_is_found(void **state)
{
    (void)state;
    make_good();
    history.holds[0].left_us = 1095;
    history.holds[1].from_us = 1094;
    expect(1, "worker 2.0 (token 52) from 1094 us on");
}

static void a_writer_beside_a_reader_is_found(void **state)
{
    (void)state;
    make_good();
    struct hold *writer = add_hold(PAWL_WRITE, 60, 1150, 1250);
    writer->added = false;
    writer->seen = 1;
    writer->raised = writer->wrote = true;
    writer->written = 2;
    history.holds[1].status = history.holds[2].status = PAWL_UNAVAILABLE;
    atomic_store(&arena.cells[0].fenced, 2);
    expect(1, "worker 4.0 (token 60) from 1150 us on");
}

static void a_number_that_changes_under_a_reader_is_found(void **state)
{
    (void)state;
    make_good();
    history.holds[2].written = 2;
    expect(3, "read 1 and later 2");
}

static void a_reader_with_an_old_token_is_found(void **state)
{
    (void)state;
    make_good();
    history.holds[2].token = 49;
    expect(2, "got token 49 after worker 1.0 had 50");
}

/* Two plain holds that overlap, and the lock was deleted at 1050: the first one's grant was before
 * that, the second one was asked for afterwards. */
static void make_plain(void)
{
    make_good();
    history_free(&history);
    atomic_store(&arena.cells[0].fenced, 0);
    add_hold(PAWL_PLAIN, 0, 1000, 1200)->added = false;
    add_hold(PAWL_PLAIN, 0, 1100, 1300)->added = false;
}

static void take_away_at(int64_t at_us)
{
    struct window *window = history_add_window(&history);
    window->kind = WINDOW_TAKEN;
    window->from_us = window->to_us = at_us;
}

static void a_plain_lock_that_was_taken_away_is_excused(void **state)
{
    (void)state;
    make_plain();
    take_away_at(1050);
    expect(0, "");
    assert_int_equal(verdict.taken, 1);
}

static void a_plain_lock_taken_away_before_is_no_excuse(void **state)
{
    (void)state;
    make_plain();
    take_away_at(900);
    expect(1, "from 1100 us on");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(readers_may_be_beside_each_other),
        cmocka_unit_test(a_reader_beside_a_writer_is_found),
        cmocka_unit_test(a_writer_beside_a_reader_is_found),
        cmocka_unit_test(a_number_that_changes_under_a_reader_is_found),
        cmocka_unit_test(a_reader_with_an_old_token_is_found),
        cmocka_unit_test(a_plain_lock_that_was_taken_away_is_excused),
        cmocka_unit_test(a_plain_lock_taken_away_before_is_no_excuse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
