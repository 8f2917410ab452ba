/* SPDX-License-Identifier: Apache-2.0 */
/* The stage and what happens on it; clock.h describes it from outside. */
#include "promise/lib/clock.h"

struct stage stage;
struct pawl__handle handle;

int clock_begin(void **state)
{
    (void)state;
    memset(&handle, 0, sizeof handle);
    stage_begin(&stage);
    return 0;
}

int clock_begin_with(int64_t lease_us, bool renew)
{
    clock_begin(NULL);
    stage_open(&stage, &handle, "x", lease_us, renew);
    return 0;
}

int clock_end(void **state)
{
    (void)state;
    if (handle.name != NULL) {
        stage_close(&stage, &handle);
    }
    stage_end(&stage);
    return 0;
}

struct pawl__op *clock_take(void)
{
    struct pawl__op *op = stage.out;
    if (op != NULL) {
        stage.out = op->next;
        op->next = NULL;
    }
    return op;
}

void clock_pass_silently(int64_t duration_us)
{
    const int64_t end_us = stage.now_us + duration_us;
    stage.connected = false;
    while (stage.now_us < end_us) {
        int64_t due_us = end_us;
        for (const struct pawl__op *op = stage.out; op != NULL; op = op->next) {
            due_us = pawl__min64(due_us, op->deadline_us);
        }
        due_us = pawl__min64(due_us, pawl__machine_due(&stage.machine));
        stage_pass(&stage, pawl__max64(due_us - stage.now_us, 0));
        while (stage.out != NULL && stage.out->deadline_us <= stage.now_us) {
            stage_answer_as(&stage, clock_take(), PAWL__UNKNOWN);
        }
    }
}

void clock_pass_slowly(
    int64_t duration_us, int64_t round_trip_us, const struct pawl__request *request)
{
    const int64_t end_us = stage.now_us + duration_us;
    stage.connected = false;
    while (stage.now_us < end_us && !request->finished) {
        if (stage.out == NULL) {
            const int64_t due_us = pawl__min64(pawl__machine_due(&stage.machine), end_us);
            stage_pass(&stage, pawl__max64(due_us - stage.now_us, 0));
            continue;
        }
        stage_pass(&stage, round_trip_us / 2);
        struct pawl__op *op = stage_reach(&stage);
        stage_pass(&stage, round_trip_us - round_trip_us / 2);
        stage_answer(&stage, op);
    }
}

void clock_heal(void)
{
    stage.connected = true;
    stage_flush(&stage);
    stage_pass(&stage, 1000000);
}

pawl_status clock_ended(struct pawl__request *request)
{
    assert_true(request->finished);
    pawl__free(request->error);
    request->error = NULL;
    return request->status;
}

void clock_break_quietly(void)
{
    struct pawl__place place = {.name = "x", .name_size = 1};
    struct pawl__op op = {.place = &place, .kind = PAWL__OP_BREAK};
    pawl__memory_apply(&stage.table, &stage.stranger, &op, stage.now_us);
    assert_int_equal(op.answer, PAWL__DONE);
    while (pawl__memory_woken(&stage.table) != NULL) {
    }
}
