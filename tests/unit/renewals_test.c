/* SPDX-License-Identifier: Apache-2.0 */
/* Renewals in line: after an outage many holds have to be renewed at once, by a backend that takes
 * a while for each. Those whose time ends first go first, so many at a time that their answers can
 * come in time, and who is in line can still be released, extended, lost or closed.
 *
 * The backend of the first half is a wire to a server that answers at a steady pace, in order. As
 * with a real one, the connection is given up when one answer is overdue, whatever else is on its
 * way, and then another is made. */
#include "base/alloc.h"
#include "base/clock.h"
#include "core/machine_parts.h"
#include "support/stage.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SECOND INT64_C(1000000)
#define OWNER 7

enum { HOLDS = 20000, BATCH = 100 };

#define ANSWER_US 100 /* for each renewal: all together take two seconds, */
#define LEASE_US                                                                     \
    12000000 /* which is more than the timeout, and less than what the outage leaves \
              */
#define SPREAD_US 3000000
#define OUTAGE_US (4 * SECOND)
#define RECONNECT_US 20000

/* ===== A server at the end of a wire ===== */

struct wire {
    bool up;          /* there is a connection */
    bool stopped;     /* the server does nothing */
    int64_t ready_us; /* the server has answered the first batch by then */
    int64_t again_us; /* when there is a connection again */
    struct pawl__op *first;
    struct pawl__op **end;
    unsigned given_up;
    unsigned lost;
};

static struct stage stage;
static struct wire wire;

static void append(struct pawl__op *ops)
{
    *wire.end = ops;
    while (*wire.end != NULL) {
        wire.end = &(*wire.end)->next;
    }
}

static struct pawl__op *take(void)
{
    struct pawl__op *op = wire.first;
    wire.first = op->next;
    if (wire.first == NULL) {
        wire.end = &wire.first;
    }
    op->next = NULL;
    return op;
}

/* What the machine wants after a step. */
static void collect(void)
{
    struct pawl__machine *machine = &stage.machine;
    struct pawl__list *node = NULL;
    if (wire.first == NULL) {
        wire.ready_us = stage.now_us + BATCH * ANSWER_US;
    }
    append(machine->ops);
    machine->ops = NULL;
    machine->ops_end = &machine->ops;
    while ((node = pawl__list_pop(&machine->notices)) != NULL) {
        struct pawl__delivery *notice = PAWL__CONTAINER(node, struct pawl__delivery, node);
        wire.lost += notice->status == PAWL_LOST ? 1 : 0;
        pawl__machine_notice_done(machine, notice, stage.now_us);
    }
    while (pawl__list_pop(&machine->finished) != NULL) {
    }
}

static int64_t first_deadline(void)
{
    int64_t due_us = PAWL__NEVER;
    for (const struct pawl__op *op = wire.first; op != NULL; op = op->next) {
        due_us = pawl__min64(due_us, op->deadline_us);
    }
    return due_us;
}

static bool is_any(const struct pawl__op *op)
{
    return op != NULL;
}

static bool is_stale(const struct pawl__op *op)
{
    return stage.now_us - op->sent_us > op->deadline_us - stage.now_us;
}

/* End those that are so; the others stay. */
static void end_those(bool (*are_so)(const struct pawl__op *op), enum pawl__answer answer)
{
    struct pawl__op *ops = wire.first;
    wire.first = NULL;
    wire.end = &wire.first;
    while (ops != NULL) {
        struct pawl__op *op = ops;
        ops = op->next;
        op->next = NULL;
        if (!are_so(op)) {
            append(op);
            continue;
        }
        op->answer = answer;
        op->status = PAWL_UNAVAILABLE;
        op->again = true;
        pawl__machine_complete(&stage.machine, op, stage.now_us);
    }
}

static void give_up(void)
{
    const bool was_up = wire.up;
    wire.up = false;
    if (was_up) {
        wire.given_up++;
        wire.again_us = stage.now_us + RECONNECT_US;
    }
    end_those(is_any, was_up ? PAWL__UNKNOWN : PAWL__FAILED);
    collect();
}

static void reconnect(void)
{
    wire.up = true;
    wire.again_us = PAWL__NEVER;
    wire.ready_us = stage.now_us + BATCH * ANSWER_US;
    end_those(is_stale, PAWL__FAILED);
    pawl__machine_reconnected(&stage.machine, stage.now_us);
    collect();
}

static void answer_batch(void)
{
    wire.ready_us = stage.now_us + BATCH * ANSWER_US;
    for (int i = 0; i < BATCH && wire.first != NULL; i++) {
        struct pawl__op *op = take();
        pawl__memory_apply(&stage.table, &stage.client, op, stage.now_us);
        pawl__machine_complete(&stage.machine, op, stage.now_us);
    }
    collect();
}

/* One event, whatever comes first. */
static void step(int64_t end_us)
{
    const bool answers = wire.up && !wire.stopped && wire.first != NULL;
    const int64_t answer_us = answers ? wire.ready_us : PAWL__NEVER;
    const int64_t again_us = wire.stopped ? PAWL__NEVER : wire.again_us;
    const int64_t overdue_us = first_deadline();
    const int64_t due_us = pawl__machine_due(&stage.machine);
    const int64_t next_us = pawl__min64(
        pawl__min64(answer_us, again_us), pawl__min64(pawl__min64(overdue_us, due_us), end_us));
    stage.now_us = pawl__max64(stage.now_us, next_us);
    if (next_us == due_us) {
        pawl__machine_tick(&stage.machine, stage.now_us);
        collect();
    } else if (next_us == answer_us) {
        answer_batch();
    } else if (next_us == overdue_us) {
        give_up();
    } else if (next_us == again_us) {
        reconnect();
    }
}

static void pass(int64_t duration_us)
{
    const int64_t end_us = stage.now_us + duration_us;
    while (stage.now_us < end_us) {
        step(end_us);
    }
}

/* ===== Many holds ===== */

static struct pawl__handle handles[HOLDS];
static struct pawl__terms terms[HOLDS];

static void open_hold(int i)
{
    char name[16];
    bool fresh = false;
    snprintf(name, sizeof name, "%d", i);
    terms[i] = (struct pawl__terms){.kind = PAWL_MUTEX,
        .lease_us = LEASE_US + (i * INT64_C(7919)) % SPREAD_US,
        .renew = true,
        .warn_us = LEASE_US / 3};
    handles[i] = (struct pawl__handle){.terms = &terms[i]};
    pawl__handle_attach(&handles[i],
        pawl__machine_name(&stage.machine, name, strlen(name), PAWL__FAMILY_MUTEX, &fresh));
    stage.now_us += ANSWER_US;
    assert_int_equal(stage_acquire_now(&stage, &handles[i], OWNER), PAWL_OK);
}

static void end_holds(void)
{
    stage.connected = true;
    pawl__machine_abolish(&stage.machine);
    stage_pass(&stage, 0); /* frees the names */
    stage.machine.pending = 0;
    stage_end(&stage);
}

static void begin_holds(void)
{
    stage_begin(&stage);
    for (int i = 0; i < HOLDS; i++) {
        open_hold(i);
    }
    wire = (struct wire){.up = true, .again_us = PAWL__NEVER};
    wire.end = &wire.first;
}

static void an_outage_costs_no_hold_that_has_time_left(void **state)
{
    (void)state;
    begin_holds();
    pass(LEASE_US);
    assert_int_equal(wire.given_up, 0);
    wire.stopped = true;
    pass(OUTAGE_US);
    assert_int_equal(wire.given_up, 1);
    wire.stopped = false;
    pass(2 * LEASE_US);
    assert_int_equal(wire.lost, 0);
    assert_int_equal(wire.given_up, 1); /* a backend that answers is not left again */
    end_holds();
}

/* ===== A few, by hand ===== */

enum { FEW = 9, OUT = 2 };

static struct pawl__handle few[FEW];

/* The later ones have the shorter leases. */
static int begin_few(void **state)
{
    static const char *const names[FEW] = {"a", "b", "c", "d", "e", "f", "g", "h", "i"};
    (void)state;
    stage_begin(&stage);
    stage.machine.renewals_least = OUT;
    stage.machine.renewals_most = OUT;
    for (int i = 0; i < FEW; i++) {
        stage_open(&stage, &few[i], names[i], (30 - i) * SECOND, true);
        assert_int_equal(stage_acquire_now(&stage, &few[i], OWNER), PAWL_OK);
    }
    stage.connected = false;
    return 0;
}

static int end_few(void **state)
{
    (void)state;
    stage.connected = true;
    stage_flush(&stage);
    stage_pass(&stage, 60 * SECOND);
    for (int i = 0; i < FEW; i++) {
        stage_release_now(&stage, &few[i], OWNER);
        stage_close(&stage, &few[i]);
    }
    stage_end(&stage);
    return 0;
}

static void be_reconnected(void)
{
    pawl__machine_reconnected(&stage.machine, stage.now_us);
    stage_pass(&stage, 0);
}

static void answer_first(void)
{
    stage_answer(&stage, stage_reach(&stage));
    stage_pass(&stage, 0);
}

static void answer_all(void)
{
    while (stage.out != NULL) {
        answer_first();
    }
}

static unsigned count_out(void)
{
    unsigned count = 0;
    for (const struct pawl__op *op = stage.out; op != NULL; op = op->next) {
        count++;
    }
    return count;
}

static struct pawl__tenure *hold_of(struct pawl__handle *handle)
{
    return pawl__machine_find(&stage.machine, handle, OWNER, stage.now_us);
}

static void those_whose_time_ends_first_go_first(void **state)
{
    (void)state;
    be_reconnected();
    for (int i = FEW - 1; i >= 0; i--) {
        assert_ptr_equal(stage.out->place, pawl__name_place(few[i].name));
        answer_first();
    }
    assert_null(stage.out);
}

static void let_out(unsigned most)
{
    stage.machine.renewals_least = most;
    stage.machine.renewals_most = most;
}

static void those_in_line_come_when_half_are_answered(void **state)
{
    (void)state;
    let_out(8);
    be_reconnected();
    assert_int_equal(count_out(), 6); /* the others are kept for who has little time */
    stage_pass(&stage, SECOND / 3);   /* so that it does not become more for quick answers */
    answer_first();
    assert_int_equal(count_out(), 5);
    answer_first();
    assert_int_equal(count_out(), 6);
    assert_int_equal(stage.submitted[PAWL__OP_RENEW], 8);
}

static void who_has_little_time_does_not_wait_for_the_others(void **state)
{
    (void)state;
    struct pawl__handle brief;
    stage.connected = true;
    stage_open(&stage, &brief, "brief", 3 * SECOND / 2, true);
    assert_int_equal(stage_acquire_now(&stage, &brief, OWNER), PAWL_OK);
    stage.connected = false;
    let_out(4);
    be_reconnected();
    assert_ptr_equal(stage.out->place, pawl__name_place(brief.name));
    stage_pass(&stage, SECOND / 3);
    answer_first();
    assert_int_equal(count_out(), 3); /* which are stuck */
    stage_pass(&stage, SECOND / 2);
    assert_int_equal(count_out(), 4);
    assert_ptr_equal(stage.out->next->next->next->place, pawl__name_place(brief.name));
    stage.connected = true;
    stage_flush(&stage);
    assert_int_equal(stage_release_now(&stage, &brief, OWNER), PAWL_OK);
    stage_close(&stage, &brief);
}

static void each_has_its_time_from_when_it_is_sent(void **state)
{
    (void)state;
    be_reconnected();
    stage_pass(&stage, SECOND / 10);
    answer_first();
    const struct pawl__op *last = stage.out->next;
    assert_int_equal(last->sent_us, stage.now_us);
    assert_int_equal(last->deadline_us, stage.now_us + stage.machine.timeout_us);
}

/* How much of a lease is left at the first renewal, and how much of that when it is given up. */
static int64_t left_for_another(int64_t lease_us, int64_t *left_us_out)
{
    struct pawl__handle brief;
    stage.connected = true;
    stage_open(&stage, &brief, "brief", lease_us, true);
    assert_int_equal(stage_acquire_now(&stage, &brief, OWNER), PAWL_OK);
    const int64_t deadline_us = hold_of(&brief)->deadline_us;
    stage.connected = false;
    stage_pass(&stage, lease_us / 3);
    assert_int_equal(count_out(), 1);
    *left_us_out = deadline_us - stage.now_us;
    const int64_t left_us = deadline_us - stage.out->deadline_us;
    stage.connected = true;
    stage_flush(&stage);
    assert_int_equal(stage_release_now(&stage, &brief, OWNER), PAWL_OK);
    stage_close(&stage, &brief);
    return left_us;
}

/* A slow answer costs a short hold less than a new connection does: there is just time for one. */
static void a_short_lease_leaves_time_for_another_renewal(void **state)
{
    (void)state;
    int64_t left_us = 0;
    int64_t another_us = left_for_another(SECOND, &left_us);
    assert_true(left_us > 3 * SECOND / 5);
    assert_int_equal(another_us, SECOND / 5);
    another_us = left_for_another(SECOND / 2, &left_us);
    assert_int_equal(another_us, left_us - left_us / 2);
    another_us = left_for_another(SECOND / 10, &left_us);
    assert_int_equal(another_us, left_us - SECOND / 10); /* it does not wait for less */
    another_us = left_for_another(3 * SECOND, &left_us);
    assert_int_equal(another_us, left_us - stage.machine.timeout_us);
}

static void who_is_released_in_line_is_not_renewed(void **state)
{
    (void)state;
    struct pawl__request request;
    be_reconnected();
    stage_release(&stage, &request, &few[0], OWNER);
    stage_flush(&stage);
    assert_true(request.finished);
    assert_int_equal(request.status, PAWL_OK);
    assert_null(hold_of(&few[0]));
    stage_pass(&stage, 0);
    answer_all();
    assert_int_equal(stage.submitted[PAWL__OP_RENEW], FEW - 1);
    assert_true(stage_stranger_gets(&stage, "a", 1));
}

static void who_extends_does_not_wait_in_line(void **state)
{
    (void)state;
    struct pawl__request request;
    be_reconnected();
    stage_extend(&stage, &request, &few[0], OWNER, 60 * SECOND);
    assert_int_equal(count_out(), OUT + 1);
    stage_flush(&stage);
    assert_true(request.finished);
    assert_int_equal(request.status, PAWL_OK);
    stage_pass(&stage, 0);
    answer_all();
    assert_int_equal(stage.submitted[PAWL__OP_RENEW], FEW);
}

/* The answers of those before it do not come. */
static void who_is_lost_in_line_hears_of_it_in_time(void **state)
{
    (void)state;
    be_reconnected();
    const int64_t deadline_us = hold_of(&few[2])->deadline_us;
    stage_pass(&stage, 30 * SECOND);
    assert_int_equal(stage.submitted[PAWL__OP_RENEW], OUT);
    unsigned losses = 0;
    bool told = false;
    for (unsigned i = 0; i < stage.notice_count; i++) {
        losses += stage.notices[i].status == PAWL_LOST ? 1 : 0;
        told = told || stage.notices[i].at_us == deadline_us;
    }
    assert_int_equal(losses, FEW);
    assert_true(told);
    stage_flush(&stage);
    stage_pass(&stage, 0);
    assert_int_equal(stage.submitted[PAWL__OP_RENEW], OUT); /* nobody asks for what is lost */
    struct pawl__request request;
    stage_release(&stage, &request, &few[0], OWNER);
    assert_int_equal(request.lost.why, PAWL__LOSS_LINE);
    assert_int_equal(request.lost.before, OUT);
    stage_release(&stage, &request, &few[FEW - 1], OWNER); /* which was not in line any more */
    assert_int_equal(request.lost.why, PAWL__LOSS_SILENCE);
    assert_int_equal(request.lost.before, 0);
}

static void fixed_leases_are_looked_at_last(void **state)
{
    (void)state;
    struct pawl__handle fixed;
    stage.connected = true;
    stage_open(&stage, &fixed, "fixed", SECOND * 20, false);
    assert_int_equal(stage_acquire_now(&stage, &fixed, OWNER), PAWL_OK);
    stage.connected = false;
    be_reconnected();
    for (int i = 0; i < FEW; i++) {
        assert_int_equal(stage.out->kind, PAWL__OP_RENEW);
        answer_first();
    }
    assert_int_equal(stage.out->kind, PAWL__OP_VERIFY);
    answer_first();
    stage.connected = true;
    assert_int_equal(stage_release_now(&stage, &fixed, OWNER), PAWL_OK);
    stage_close(&stage, &fixed);
}

static void quick_answers_let_more_out(void **state)
{
    (void)state;
    be_reconnected();
    answer_first();
    assert_int_equal(stage.machine.renewals_most, OUT + 1);
    struct pawl__op *op = stage_reach(&stage);
    stage_answer_as(&stage, op, PAWL__UNKNOWN);
    assert_int_equal(stage.machine.renewals_most, OUT);
}

static void slow_answers_let_fewer_out(void **state)
{
    (void)state;
    be_reconnected();
    answer_first();
    stage_pass(&stage, stage.machine.timeout_us * 3 / 4);
    answer_first();
    assert_int_equal(stage.machine.renewals_most, OUT);
}

static void a_client_may_end_with_holds_in_line(void **state)
{
    (void)state;
    be_reconnected();
    stage.out = NULL;
    pawl__machine_abolish(&stage.machine);
    stage.machine.pending = 0;
    stage_pass(&stage, 0);
    stage_end(&stage);
}

#define SCENE(name) cmocka_unit_test_setup_teardown(name, begin_few, end_few)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_outage_costs_no_hold_that_has_time_left),
        SCENE(those_whose_time_ends_first_go_first),
        SCENE(those_in_line_come_when_half_are_answered),
        SCENE(who_has_little_time_does_not_wait_for_the_others),
        SCENE(each_has_its_time_from_when_it_is_sent),
        SCENE(a_short_lease_leaves_time_for_another_renewal),
        SCENE(who_is_released_in_line_is_not_renewed),
        SCENE(who_extends_does_not_wait_in_line),
        SCENE(who_is_lost_in_line_hears_of_it_in_time),
        SCENE(fixed_leases_are_looked_at_last),
        SCENE(quick_answers_let_more_out),
        SCENE(slow_answers_let_fewer_out),
        cmocka_unit_test_setup(a_client_may_end_with_holds_in_line, begin_few),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
