/* SPDX-License-Identifier: Apache-2.0 */
/* The oracles of the torture tests, tested: each finds what it is there for in a history that was
 * made up, and lets a good one pass; and workers that do not lock at all are found out. Without
 * this a green torture would prove nothing. */
#include "fault/lib/pace.h"
#include "support/fail.h"
#include "support/resources.h"
#include "support/wait.h"
#include "torture/lib/round.h"
#include "torture/lib/worker.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum {
    NEVER_US = 1000000000,
    ENOUGH_MS = 500,
    ENOUGH_MS_MAX = 30000,
    ENOUGH_ACQUIRED = 50,
};

/* ===== Making histories up ===== */

static struct history history;
static struct arena arena; /* large, and only the cells are looked at */
static struct verdict verdict;

/* Three holds of one name, as they should be: each adds one to the number and writes once. */
static void make_good(void)
{
    history_free(&history);
    memset(&arena, 0, sizeof arena);
    memset(&verdict, 0, sizeof verdict);
    arena.names = 1;
    for (unsigned i = 0; i < 3; i++) {
        struct hold *hold = history_add_hold(&history);
        hold->slot = i % 2;
        hold->id = i;
        hold->token = 50 + i;
        hold->from_us = 1000 + 100 * i;
        hold->read_us = hold->from_us + 1;
        hold->stored_us = hold->from_us + 80;
        hold->left_us = hold->from_us + 90;
        hold->answered_us = hold->from_us + 95;
        hold->until_us = NEVER_US;
        hold->left = hold->answered = hold->added = hold->raised = hold->wrote = true;
        hold->seen = i;
        hold->written = i + 1;
    }
    atomic_store(&arena.cells[0].fenced, 3);
}

static void judge(void)
{
    history_finish(&history);
    judge_history(&history, &arena, &verdict);
}

static void add_window(enum window_kind kind, int slot, int64_t from_us, int64_t to_us)
{
    struct window *window = history_add_window(&history);
    window->kind = kind;
    window->slot = slot;
    window->from_us = from_us;
    window->to_us = to_us;
}

static void take_away(int64_t at_us, uint64_t token_max)
{
    add_window(WINDOW_TAKEN, EVERYBODY, at_us, at_us);
    history.windows[history.window_count - 1].token_max = token_max;
}

/* Judge, and expect this oracle alone to object, with these words. */
static void expect(unsigned oracle, const char *words)
{
    judge();
    for (unsigned i = 0; i < ORACLE_COUNT; i++) {
        if ((verdict.violations[i] > 0) != (i == oracle)) {
            support_fail("oracle %u: %" PRIu64 " violations: %s", i, verdict.violations[i],
                verdict.first[i]);
        }
    }
    if (strstr(verdict.first[oracle], words) == NULL) {
        support_fail("\"%s\" is not in \"%s\"", words, verdict.first[oracle]);
    }
}

static void expect_peace(void)
{
    judge();
    for (unsigned i = 0; i < ORACLE_COUNT; i++) {
        if (verdict.violations[i] > 0) {
            support_fail("oracle %u: %s", i, verdict.first[i]);
        }
    }
}

/* ===== O1 ===== */

static void a_good_history_passes(void **state)
{
    (void)state;
    make_good();
    expect_peace();
    assert_int_equal(verdict.holds, 3);
    assert_int_equal(verdict.handovers, 2);
    assert_int_equal(verdict.writes, 3);
}

/* The first one stays until the last one is inside; it adds nothing, so only its time tells. */
static void stretch_first(void)
{
    history.holds[0].left_us = 1250;
    history.holds[0].answered_us = 1260;
    history.holds[0].status = PAWL_LOST;
    history.holds[0].told = 1;
    history.holds[0].told_us = 1240;
    history.holds[0].added = history.holds[0].wrote = false;
    history.holds[1].seen = 0;
    history.holds[1].written = 1;
    history.holds[2].seen = 1;
    history.holds[2].written = 2;
    atomic_store(&arena.cells[0].fenced, 2);
}

static void two_inside_are_found(void **state)
{
    (void)state;
    make_good();
    stretch_first();
    history.holds[0].wrote = true; /* or O4 would object too */
    history.holds[0].written = 1;
    history.holds[1].written = 2;
    history.holds[2].written = 3;
    atomic_store(&arena.cells[0].fenced, 3);
    expect(1, "worker 1.0 (token 51) from 1100 us on");
}

static void an_end_in_time_excuses(void **state)
{
    (void)state;
    make_good();
    stretch_first();
    history.holds[0].until_us = 1099;
    expect_peace();
    assert_int_equal(verdict.lost, 1);
    assert_int_equal(verdict.stale_refused, 1);
}

static void a_lock_taken_away_excuses(void **state)
{
    (void)state;
    make_good();
    stretch_first();
    take_away(1095, 50);
    expect_peace();
    assert_int_equal(verdict.taken, 1);
    assert_int_equal(verdict.overlaps, 1);
    assert_int_equal(verdict.overlaps_told, 1);
}

/* It was not this one's, or not before the other came. */
static void a_lock_taken_from_others_does_not(void **state)
{
    (void)state;
    make_good();
    stretch_first();
    history.holds[0].raised = false;
    history.holds[0].token = 0; /* O4 looks at those with tokens */
    history.holds[0].told = 0;
    take_away(1150, 49);
    expect(1, "was inside until");
}

static void who_was_overtaken_must_be_told(void **state)
{
    (void)state;
    make_good();
    stretch_first();
    take_away(1095, 50);
    history.holds[0].status = PAWL_OK;
    history.holds[0].told = 0;
    expect(1, "was overtaken, and its release said ok");
}

static void unless_its_release_was_asked_twice(void **state)
{
    (void)state;
    make_good();
    stretch_first();
    take_away(1095, 50);
    history.holds[0].status = PAWL_OK;
    history.holds[0].told = 0;
    add_window(WINDOW_DOUBT, 0, 1255, 1300);
    expect_peace();
    assert_int_equal(verdict.overlaps_in_doubt, 1);
}

static void a_killed_holder_counts_until_it_was_killed(void **state)
{
    (void)state;
    make_good();
    history.holds[0].left = history.holds[0].answered = false;
    history.holds[0].added = history.holds[0].wrote = false;
    history.holds[0].killed = true;
    expect_peace(); /* it may have added one, and did */
    make_good();
    history.holds[0].left = history.holds[0].answered = false;
    history.holds[0].added = history.holds[0].wrote = false;
    history.holds[0].killed = true;
    history.holds[0].left_us = 1101;
    expect(1, "worker 0.0 (token 50) was inside until 1101");
}

/* ===== O2 ===== */

static void a_token_that_falls_is_found(void **state)
{
    (void)state;
    make_good();
    history.holds[2].token = 40;
    history.holds[2].wrote = history.holds[2].raised = false;
    history.holds[2].until_us = 1289; /* else O4 would object too */
    atomic_store(&arena.cells[0].fenced, 2);
    expect(2, "got token 40 after worker 1.0 had 51");
}

static void a_token_given_twice_is_found(void **state)
{
    (void)state;
    make_good();
    history.holds[1].token = 50;
    judge();
    assert_true(verdict.violations[2] > 0);
    assert_non_null(strstr(verdict.first[2], "token 50 was given to workers 0.0 and 1.0"));
    assert_true(verdict.violations[4] > 0); /* and the register took both */
}

static void a_grant_heard_of_too_late_is_excused(void **state)
{
    (void)state;
    make_good();
    history.holds[2].token = 40; /* granted before the others, then taken away, then heard of */
    history.holds[2].wrote = history.holds[2].raised = history.holds[2].added = false;
    history.holds[2].status = PAWL_LOST;
    history.holds[2].told = 1;
    history.holds[2].told_us = 1280;
    atomic_store(&arena.cells[0].fenced, 2);
    take_away(900, 40);
    expect_peace();
}

/* ===== O3 and O4 ===== */

static void a_lost_addition_is_found(void **state)
{
    (void)state;
    make_good();
    history.holds[2].seen = 1;
    expect(3, "left the number at 2, worker 0.0 (token 52) found 1");
}

static void a_late_store_is_excused(void **state)
{
    (void)state;
    make_good();
    history.holds[0].until_us = 1070; /* stored at 1080 */
    history.holds[1].seen = 7;
    history.holds[2].seen = 8;
    expect_peace();
    assert_int_equal(verdict.late_stores, 1);
    assert_int_equal(verdict.handovers_skipped, 1);
    assert_int_equal(verdict.handovers, 1);
}

static void a_stale_write_is_found(void **state)
{
    (void)state;
    make_good();
    history.holds[1].written = 3;
    history.holds[2].written = 2;
    expect(4, "took a write with token 51 after one with 52");
}

static void a_lost_write_is_found(void **state)
{
    (void)state;
    make_good();
    atomic_store(&arena.cells[0].fenced, 2);
    expect(4, "was written to 3 times, and counts 2");
    make_good();
    history.holds[2].written = 2;
    expect(4, "both made write 2");
}

static void a_refused_holder_is_found(void **state)
{
    (void)state;
    make_good();
    history.holds[2].wrote = false;
    atomic_store(&arena.cells[0].fenced, 2);
    expect(4, "was refused although it held");
}

/* ===== O5 and O6 ===== */

static void a_late_call_is_found(void **state)
{
    (void)state;
    make_good();
    struct late_call *call = history_add_late(&history);
    call->to_us = 1000 + (SLACK_MS + 100) * 1000;
    call->limit_us = 1000;
    expect(5, "an acquire of worker 0 at 0 us took 5");
    make_good();
    call = history_add_late(&history);
    call->to_us = 1000 + (SLACK_MS + 100) * 1000;
    call->limit_us = 1000;
    add_window(WINDOW_PAUSED, 0, 10000, 150000); /* it did not run for 140 ms */
    expect_peace();
    assert_int_equal(verdict.call_late_us_max, (SLACK_MS - 40) * 1000);
}

static void lose_last(void)
{
    make_good();
    history.holds[2].status = PAWL_LOST;
    history.holds[2].told = 1;
    history.holds[2].until_us = 1285;
    history.holds[2].told_us = 1286;
}

static void a_report_that_is_late_or_missing_is_found(void **state)
{
    (void)state;
    lose_last();
    expect_peace();
    assert_int_equal(verdict.report_late_us_max, 1);
    lose_last();
    history.holds[2].told = 2;
    expect(6, "was told 2 times");
    lose_last();
    history.holds[2].told = 0;
    expect(6, "was never told");
    lose_last();
    history.holds[2].status = PAWL_OK;
    expect(6, "was told, and its release said ok");
    lose_last();
    history.holds[2].told_us += (SLACK_MS + 1) * 1000;
    expect(6, "ms after the end of its hold");
    lose_last();
    history.strange_reports = 1;
    expect(6, "about tokens that nobody had");
}

/* Its holder had let go of it in time, and nobody knew yet whether that was heard. */
static void a_report_of_a_hold_being_released_is_never_late(void **state)
{
    (void)state;
    lose_last();
    history.holds[2].until_us = 1291;
    history.holds[2].told_us += (SLACK_MS + 1) * 1000;
    expect_peace();
    assert_int_equal(verdict.reports_after, 1);
}

static void the_dead_are_not_late(void **state)
{
    (void)state;
    lose_last();
    history.holds[2].told = 0;
    history_add_death(&history)->slot = history.holds[2].slot;
    expect_peace();
    /* Until when it was promised its hold is written down when it leaves. */
    lose_last();
    history.holds[2].left = history.holds[2].answered = false;
    history.holds[2].told_us += (SLACK_MS + 1) * 1000;
    expect_peace();
}

/* ===== Reading logs ===== */

static void write_log(const char *directory, const struct torture_record *records, size_t count)
{
    char path[ARENA_TEXT_SIZE];
    snprintf(path, sizeof path, "%s/log.0.0", directory);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_int_equal(fwrite(records, sizeof *records, count, file), count);
    fclose(file);
}

/* The report stands before the hold, whose thread was held up; the last hold was killed. */
static void a_log_is_read_in_any_order(void **state)
{
    (void)state;
    const struct torture_record records[] = {
        {.step = RECORD_TOLD, .token = 7, .at_us = 20},
        {.step = RECORD_ACQUIRED, .hold = 1, .token = 7, .at_us = 10, .until_us = 15},
        {.step = RECORD_LEAVING, .hold = 1, .token = 7, .at_us = 30, .until_us = 15},
        {.step = RECORD_RELEASED, .hold = 1, .token = 7, .at_us = 40, .status = PAWL_LOST},
        {.step = RECORD_PAUSED, .at_us = 16, .until_us = 19},
        {.step = RECORD_ACQUIRED, .hold = 2, .token = 8, .at_us = 60, .until_us = 99},
    };
    const char *directory = tempdir_make();
    write_log(directory, records, sizeof records / sizeof records[0]);
    history_free(&history);
    memset(&verdict, 0, sizeof verdict);
    history_add_death(&history)->at_us = 55; /* the look at the clock before the kill */
    history_read_log(&history, directory, 0, 0);
    history_finish(&history);
    judge_reports(&history, &verdict);
    judge_tokens(&history, &verdict);
    assert_int_equal(history.hold_count, 2);
    assert_int_equal(history.holds[0].told, 1);
    assert_true(history.holds[1].killed);
    assert_int_equal(history.holds[1].left_us, 60);
    assert_int_equal(history.strange_reports, 0);
    assert_int_equal(verdict.report_late_us_max, 2);
    assert_int_equal(verdict_violations(&verdict), 0);
}

/* Thread 1 was granted something and lost it, and had not come back when the worker was killed;
 * thread 0 went on. */
static uint64_t strange_reports_of(const struct torture_record *records, size_t count, bool killed)
{
    const char *directory = tempdir_make();
    write_log(directory, records, count);
    history_free(&history);
    history.threads = 2;
    if (killed) {
        history_add_death(&history)->at_us = 99;
    }
    history_read_log(&history, directory, 0, 0);
    return history.strange_reports;
}

static void who_was_killed_may_not_have_written_its_hold(void **state)
{
    (void)state;
    const struct torture_record records[] = {
        {.step = RECORD_TOLD, .token = 7, .at_us = 20},
        {.step = RECORD_ACQUIRED, .hold = 1, .token = 8, .at_us = 30, .until_us = 99},
        {.step = RECORD_TOLD, .token = 9, .at_us = 40},
        {.step = RECORD_TOLD, .token = 10, .at_us = 41},
    };
    assert_int_equal(strange_reports_of(records, 2, true), 0);
    assert_int_equal(strange_reports_of(records, 2, false), 1);
    assert_int_equal(strange_reports_of(records, 3, true), 0);
    assert_int_equal(strange_reports_of(records, 4, true), 1); /* there are two threads */
}

/* ===== O7 to O9, and everybody inside at once ===== */

static struct round short_round;

/* Half a second; longer on a machine that has other things to do. */
static bool has_run_enough(int64_t begin_ms)
{
    const int64_t run_ms = boottime_ms() - begin_ms;
    return run_ms > ENOUGH_MS_MAX ||
           (run_ms > ENOUGH_MS && round_acquired(&short_round) > ENOUGH_ACQUIRED);
}

/* A short round on files, in which something is wrong or not. */
static void begin_round(bool unlocked)
{
    const struct round_plan plan = {.engine = TORTURE_FILE,
        .seed = 1,
        .directory = tempdir_make(),
        .workers = 2,
        .threads = 2,
        .names = 1,
        .lease_ms = 400 * PACE,
        .unlocked = unlocked,
        .calm = true};
    round_begin(&short_round, &plan);
    const int64_t begin_ms = boottime_ms();
    while (!has_run_enough(begin_ms) && round_step(&short_round)) {
    }
}

static void workers_that_lock_pass(void **state)
{
    (void)state;
    begin_round(false);
    round_end(&short_round);
    assert_true(round_acquired(&short_round) > ENOUGH_ACQUIRED);
    for (unsigned i = 0; i < ORACLE_COUNT; i++) {
        assert_string_equal(short_round.verdict.first[i], "");
    }
}

static void workers_that_do_not_lock_are_found_out(void **state)
{
    (void)state;
    begin_round(true);
    round_end(&short_round);
    assert_true(short_round.verdict.violations[1] > 0);
    assert_true(short_round.verdict.violations[3] > 0);
}

static void a_lock_left_behind_is_found(void **state)
{
    (void)state;
    begin_round(false);
    staff_dismiss(&short_round);
    char path[ARENA_TEXT_SIZE];
    snprintf(path, sizeof path, "%s/%%new-1", short_round.lock_directory);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    fclose(file);
    short_round.worker_count = 0;
    round_end(&short_round);
    assert_non_null(strstr(short_round.verdict.first[7], "%new-1 was left behind"));
}

static void a_thread_that_starves_is_found(void **state)
{
    (void)state;
    begin_round(false);
    staff_stop(&short_round, 1);
    assert_false(staff_await_progress(&short_round, boottime_us(), 300));
    assert_non_null(strstr(short_round.verdict.first[9], "got no lock any more"));
    staff_continue(&short_round, 1);
    round_end(&short_round);
}

static void a_leak_is_found(void **state)
{
    (void)state;
    begin_round(false);
    struct arena_slot *slot = &short_round.arena->slots[0];
    atomic_store(&slot->before.descriptors, 99);
    round_end(&short_round);
    assert_non_null(strstr(short_round.verdict.first[8], "worker 0 had 99 descriptors before"));
}

static void a_complaint_is_found(void **state)
{
    (void)state;
    begin_round(false);
    snprintf(short_round.arena->slots[0].complaint, ARENA_TEXT_SIZE, "out of tea");
    atomic_store(&short_round.arena->slots[0].complained, 1);
    assert_false(round_step(&short_round));
    round_end(&short_round);
    assert_non_null(strstr(short_round.verdict.first[0], "worker 0: out of tea"));
}

int main(int argc, char *argv[])
{
    static const struct child_role roles[] = {{WORKER_ROLE, worker_run}};
    child_dispatch(argc, argv, roles, 1);
#define ROUND(test) cmocka_unit_test_setup_teardown(test, cleanup_setup, cleanup_teardown)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_good_history_passes),
        cmocka_unit_test(two_inside_are_found),
        cmocka_unit_test(an_end_in_time_excuses),
        cmocka_unit_test(a_lock_taken_away_excuses),
        cmocka_unit_test(a_lock_taken_from_others_does_not),
        cmocka_unit_test(who_was_overtaken_must_be_told),
        cmocka_unit_test(unless_its_release_was_asked_twice),
        cmocka_unit_test(a_killed_holder_counts_until_it_was_killed),
        cmocka_unit_test(a_token_that_falls_is_found),
        cmocka_unit_test(a_token_given_twice_is_found),
        cmocka_unit_test(a_grant_heard_of_too_late_is_excused),
        cmocka_unit_test(a_lost_addition_is_found),
        cmocka_unit_test(a_late_store_is_excused),
        cmocka_unit_test(a_stale_write_is_found),
        cmocka_unit_test(a_lost_write_is_found),
        cmocka_unit_test(a_refused_holder_is_found),
        cmocka_unit_test(a_late_call_is_found),
        cmocka_unit_test(a_report_that_is_late_or_missing_is_found),
        cmocka_unit_test(a_report_of_a_hold_being_released_is_never_late),
        cmocka_unit_test(the_dead_are_not_late),
        ROUND(a_log_is_read_in_any_order),
        ROUND(who_was_killed_may_not_have_written_its_hold),
        ROUND(workers_that_lock_pass),
        ROUND(workers_that_do_not_lock_are_found_out),
        ROUND(a_lock_left_behind_is_found),
        ROUND(a_thread_that_starves_is_found),
        ROUND(a_leak_is_found),
        ROUND(a_complaint_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
