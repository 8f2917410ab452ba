/* SPDX-License-Identifier: Apache-2.0 */
/* Who waits for permits is served in order, also if a message and the answer to our own release
 * come to two threads at once: then what the one has the machine ask may reach the backend behind
 * what the other has it ask. */
#include "base/alloc.h"
#include "base/clock.h"
#include "core/tally.h"
#include "support/fail.h"
#include "support/stage.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define SECOND INT64_C(1000000)

static struct stage stage;
static struct pawl__handle handle;

static struct pawl__request start(enum pawl__tally_verb verb, int64_t amount)
{
    return (struct pawl__request){.verb = verb, .amount = amount};
}

static void count(enum pawl__tally_verb verb, int64_t amount)
{
    struct pawl__request request = start(verb, amount);
    stage_tally(&stage, &request, &handle, 0);
    assert_true(request.finished);
    assert_int_equal(request.status, PAWL_OK);
}

static void nobody_asks_past_one_who_asks(void **state)
{
    (void)state;
    struct pawl__request many = start(PAWL__TALLY_TAKE, 3);
    struct pawl__request few = start(PAWL__TALLY_TAKE, 1);
    struct pawl__request give = start(PAWL__TALLY_GIVE, 1);
    stage_begin(&stage);
    stage_open_count(&stage, &handle, "s", PAWL__FAMILY_SEMAPHORE);
    count(PAWL__TALLY_SET, 2);
    stage_tally(&stage, &many, &handle, PAWL__NEVER);
    stage_tally(&stage, &few, &handle, PAWL__NEVER);
    assert_false(many.finished || few.finished);

    stage.connected = false;
    stage_tally(&stage, &give, &handle, 0);
    struct pawl__op *given = stage_reach(&stage);
    pawl__machine_wake(&stage.machine, "s", 1, 0, stage.now_us); /* the message was quicker */
    stage_answer(&stage, given);
    assert_true(give.finished);
    assert_non_null(stage.out);
    assert_int_equal(stage.out->tally->amount, 3);
    assert_null(stage.out->next);

    stage.connected = true;
    stage_flush(&stage);
    assert_true(many.finished);
    assert_int_equal(many.status, PAWL_OK);
    assert_false(few.finished);
    count(PAWL__TALLY_GIVE, 3);
    assert_true(few.finished);
    assert_int_equal(few.status, PAWL_OK);
    stage_close(&stage, &handle);
    stage_pass(&stage, SECOND);
    stage_end(&stage);
}

static bool refuse_operations(size_t size)
{
    return size != sizeof(struct pawl__op);
}

/* Who waits behind the first has no operation, and without memory for one it goes on waiting. */
static void who_waits_behind_is_small(void **state)
{
    (void)state;
    struct pawl__request first = start(PAWL__TALLY_TAKE, 1);
    struct pawl__request second = start(PAWL__TALLY_TAKE, 1);
    struct pawl__request give = start(PAWL__TALLY_GIVE, 2);
    stage_begin(&stage);
    stage_open_count(&stage, &handle, "s", PAWL__FAMILY_SEMAPHORE);
    count(PAWL__TALLY_SET, 0);
    stage_tally(&stage, &first, &handle, PAWL__NEVER);
    stage_tally(&stage, &second, &handle, PAWL__NEVER);
    assert_non_null(first.tally->op);
    assert_null(second.tally->op);

    stage.connected = false;
    stage_tally(&stage, &give, &handle, 0);
    pawl__alloc_hook = refuse_operations;
    stage.connected = true;
    stage_flush(&stage);
    assert_true(give.finished && first.finished);
    assert_int_equal(first.status, PAWL_OK);
    stage_pass(&stage, 5 * SECOND);
    assert_false(second.finished);
    pawl__alloc_hook = NULL;
    stage_pass(&stage, 2 * SECOND);
    assert_true(second.finished);
    assert_int_equal(second.status, PAWL_OK);
    stage_close(&stage, &handle);
    stage_pass(&stage, SECOND);
    stage_end(&stage);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_asks_past_one_who_asks),
        cmocka_unit_test(who_waits_behind_is_small),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
