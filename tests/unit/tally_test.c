/* SPDX-License-Identifier: Apache-2.0 */
/* Semaphores and latches in the machine, on a clock that stands still: times to the microsecond,
 * and, drawn from seeds, requests and answers that are lost, late and doubled. Whatever happens,
 * there is never a permit too many, and when all is well again none is missing. */
#include "base/alloc.h"
#include "base/clock.h"
#include "core/leases.h"
#include "support/fail.h"
#include "support/stage.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MS 1000
#define SECOND INT64_C(1000000)

static struct pawl__request want(enum pawl__tally_verb verb, int64_t amount)
{
    return (struct pawl__request){.verb = verb, .amount = amount};
}

/* Ask, and require an answer at once. */
static int64_t now(struct stage *stage, struct pawl__handle *handle, enum pawl__tally_verb verb,
    int64_t amount, pawl_status expected)
{
    struct pawl__request request = want(verb, amount);
    stage_tally(stage, &request, handle, 0);
    assert_true(request.finished);
    assert_int_equal(request.status, expected);
    pawl__free(request.error);
    return request.value;
}

static int64_t count_of(struct stage *stage, struct pawl__handle *handle)
{
    return now(stage, handle, PAWL__TALLY_READ, 0, PAWL_OK);
}

/* ===== Times ===== */

static void looks_about_every_second(void **state)
{
    (void)state;
    struct stage stage;
    struct pawl__handle handle;
    struct pawl__request request = want(PAWL__TALLY_TAKE, 1);
    stage_begin(&stage);
    stage_open_count(&stage, &handle, "s", PAWL__FAMILY_SEMAPHORE);
    now(&stage, &handle, PAWL__TALLY_SET, 0, PAWL_OK);
    stage_tally(&stage, &request, &handle, PAWL__NEVER);
    const unsigned before = stage.submitted[PAWL__OP_TALLY];
    stage_pass(&stage, 20 * SECOND);
    assert_in_range(stage.submitted[PAWL__OP_TALLY] - before, 16, 25);
    assert_false(request.finished);
    now(&stage, &handle, PAWL__TALLY_GIVE, 1, PAWL_OK); /* and at once when it is told */
    assert_true(request.finished);
    assert_int_equal(request.status, PAWL_OK);
    stage_close(&stage, &handle);
    stage_pass(&stage, SECOND);
    stage_end(&stage);
}

static void ends_at_its_limit(void **state)
{
    (void)state;
    struct stage stage;
    struct pawl__handle handle;
    struct pawl__request request = want(PAWL__TALLY_TAKE, 1);
    stage_begin(&stage);
    stage_open_count(&stage, &handle, "s", PAWL__FAMILY_SEMAPHORE);
    now(&stage, &handle, PAWL__TALLY_SET, 0, PAWL_OK);
    stage_tally(&stage, &request, &handle, 300 * MS);
    stage_pass(&stage, 300 * MS - 1);
    assert_false(request.finished);
    stage_pass(&stage, 1);
    assert_true(request.finished);
    assert_int_equal(request.status, PAWL_BUSY);
    pawl__free(request.error);

    stage.connected = false; /* nobody answers any more */
    request = want(PAWL__TALLY_TAKE, 1);
    stage_tally(&stage, &request, &handle, 300 * MS);
    stage_pass(&stage, SECOND - 1);
    assert_false(request.finished); /* an answer is still worth waiting for */
    stage_pass(&stage, 1);
    assert_true(request.finished);
    assert_int_equal(request.status, PAWL_UNAVAILABLE);
    pawl__free(request.error);
    stage.connected = true;
    stage_flush(&stage);
    stage_close(&stage, &handle);
    stage_pass(&stage, SECOND);
    stage_end(&stage);
}

static void forever_ends_after_silence(void **state)
{
    (void)state;
    struct stage stage;
    struct pawl__handle handle;
    struct pawl__request request = want(PAWL__TALLY_TAKE, 1);
    stage_begin(&stage);
    stage_open_count(&stage, &handle, "s", PAWL__FAMILY_SEMAPHORE);
    now(&stage, &handle, PAWL__TALLY_SET, 0, PAWL_OK);
    stage_tally(&stage, &request, &handle, PAWL__NEVER);
    stage_pass(&stage, 100 * SECOND);
    assert_false(request.finished);
    stage.connected = false;
    int64_t passed_us = 0;
    for (; !request.finished && passed_us < 60 * SECOND; passed_us += 100 * MS) {
        stage_pass(&stage, 100 * MS);
        while (stage.out != NULL) {
            struct pawl__op *op = stage.out;
            stage.out = op->next;
            op->next = NULL;
            stage_answer_as(&stage, op, PAWL__FAILED);
        }
    }
    assert_true(request.finished);
    assert_int_equal(request.status, PAWL_UNAVAILABLE);
    assert_in_range(passed_us, 29 * SECOND, 33 * SECOND);
    pawl__free(request.error);
    stage.connected = true;
    stage_pass(&stage, 2 * SECOND);
    stage_close(&stage, &handle);
    stage_pass(&stage, SECOND);
    stage_end(&stage);
}

/* ===== Leaving while a copy is out ===== */

/* What is with the engine is the engine's: no answer is read that has not arrived. */
static void leaves_the_engine_its_part(void **state)
{
    (void)state;
    struct stage stage;
    struct pawl__handle handle;
    struct pawl__request request = want(PAWL__TALLY_TAKE, 1);
    stage_begin(&stage);
    stage_open_count(&stage, &handle, "s", PAWL__FAMILY_SEMAPHORE);
    stage_tally(&stage, &request, &handle, 1500 * MS); /* it has been told that none were set */
    stage.connected = false;
    stage_pass(&stage, 1400 * MS);
    assert_non_null(stage.out);
    stage.out->tally->unset = false;
    stage.out->tally->value = 99;
    stage_pass(&stage, 2 * SECOND);
    assert_true(request.finished);
    assert_int_equal(request.status, PAWL_BUSY);
    assert_non_null(strstr(request.error, "nobody has set its permits"));
    assert_int_equal(request.value, 0);
    pawl__free(request.error);
    stage.connected = true;
    stage_flush(&stage);
    stage_close(&stage, &handle);
    stage_pass(&stage, SECOND);
    stage_end(&stage);
}

/* ===== Answers that come late, or never ===== */

/* An answer that was given before a latch was set anew is none for who came afterwards. */
static void late_news_opens_no_new_wait(void **state)
{
    (void)state;
    struct stage stage;
    struct pawl__handle handle;
    struct pawl__request early = want(PAWL__TALLY_AWAIT, 0);
    struct pawl__request later = want(PAWL__TALLY_AWAIT, 0);
    stage_begin(&stage);
    stage_open_count(&stage, &handle, "l", PAWL__FAMILY_LATCH);
    stage.connected = false;
    stage_tally(&stage, &early, &handle, PAWL__NEVER);
    struct pawl__op *news = stage_reach(&stage); /* it is at zero, but nobody hears that yet */
    stage.connected = true;
    stage_pass(&stage, MS);
    now(&stage, &handle, PAWL__TALLY_SET, 1, PAWL_OK);
    stage_tally(&stage, &later, &handle, PAWL__NEVER);
    assert_false(later.finished);
    stage_answer(&stage, news);
    assert_true(early.finished);
    assert_int_equal(early.status, PAWL_OK);
    assert_false(later.finished);
    now(&stage, &handle, PAWL__TALLY_DOWN, 0, PAWL_OK);
    assert_true(later.finished);
    assert_int_equal(later.status, PAWL_OK);
    stage_close(&stage, &handle);
    stage_pass(&stage, SECOND);
    stage_end(&stage);
}

/* What is asked reaches the backend, and no answer comes back. */
static void lose_answer(struct stage *stage)
{
    if (stage->out != NULL) {
        stage_answer_as(stage, stage_reach(stage), PAWL__UNKNOWN);
    }
}

/* Whoever waits longer than the backend remembers must not ask again when it has forgotten. */
static void no_patience_outlives_the_record(void **state)
{
    (void)state;
    struct stage stage;
    struct pawl__handle handle;
    struct pawl__request request = want(PAWL__TALLY_TAKE, 1);
    stage_begin(&stage);
    stage_open_count(&stage, &handle, "s", PAWL__FAMILY_SEMAPHORE);
    now(&stage, &handle, PAWL__TALLY_SET, 3, PAWL_OK);
    stage.connected = false;
    stage_tally(&stage, &request, &handle, 600 * SECOND);
    for (unsigned i = 0; i < 3000 && !request.finished; i++) {
        lose_answer(&stage);
        stage_pass(&stage, 100 * MS);
    }
    assert_true(request.finished);
    assert_int_equal(request.status, PAWL_UNAVAILABLE);
    pawl__free(request.error);
    stage.connected = true;
    stage_flush(&stage);
    stage_pass(&stage, 5 * SECOND);
    assert_int_equal(count_of(&stage, &handle), 3);
    stage_close(&stage, &handle);
    stage_pass(&stage, SECOND);
    stage_end(&stage);
}

/* Nor after a long sleep of this process. */
static void no_sleep_outlives_the_record(void **state)
{
    (void)state;
    struct stage stage;
    struct pawl__handle handle;
    struct pawl__request request = want(PAWL__TALLY_GIVE, 1);
    stage_begin(&stage);
    stage_open_count(&stage, &handle, "s", PAWL__FAMILY_SEMAPHORE);
    now(&stage, &handle, PAWL__TALLY_SET, 3, PAWL_OK);
    stage.connected = false;
    stage_tally(&stage, &request, &handle, 0);
    for (unsigned i = 0; i < 100 && !request.finished; i++) {
        lose_answer(&stage);
        stage_pass(&stage, 100 * MS);
    }
    assert_true(request.finished);
    assert_int_equal(request.status, PAWL_UNAVAILABLE); /* it is repeated in the background */
    pawl__free(request.error);
    lose_answer(&stage);
    stage_jump(&stage, 600 * SECOND);
    stage.connected = true;
    stage_flush(&stage);
    stage_pass(&stage, 5 * SECOND);
    assert_int_equal(count_of(&stage, &handle), 4);
    stage_close(&stage, &handle);
    stage_pass(&stage, SECOND);
    stage_end(&stage);
}

/* ===== Leases ===== */

static void take_permit(struct stage *stage, struct pawl__handle *handle, int64_t lease_us,
    struct pawl__request *lost, struct pawl__list *permits)
{
    static const struct pawl__permit_id id = {{7}};
    struct pawl__permit *permit = pawl__alloc(sizeof *permit);
    struct pawl__request request = want(PAWL__TALLY_TAKE, 1);
    pawl__list_init(permits);
    pawl__list_init(&lost->node);
    lost->handle = handle;
    permit->id = id;
    permit->lost = lost;
    pawl__list_push(permits, &permit->node);
    request.ids = &id;
    request.permits = permits;
    request.lease_us = lease_us;
    stage_tally(stage, &request, handle, 0);
    assert_true(request.finished);
    assert_int_equal(request.status, PAWL_OK);
}

static void renews_every_third(void **state)
{
    (void)state;
    struct stage stage;
    struct pawl__handle handle;
    struct pawl__leases leases = {.lease_us = 3 * SECOND};
    struct pawl__request lost = {0};
    struct pawl__list permits;
    stage_begin(&stage);
    stage_open_count(&stage, &handle, "p", PAWL__FAMILY_PERMITS);
    assert_non_null(pawl__handle_extra(&handle));
    assert_true(pawl__leases_begin(&stage.machine, &handle, &leases));
    now(&stage, &handle, PAWL__TALLY_SET, 1, PAWL_OK);
    take_permit(&stage, &handle, leases.lease_us, &lost, &permits);
    const unsigned before = stage.submitted[PAWL__OP_TALLY];
    stage_pass(&stage, 30 * SECOND);
    assert_int_equal(stage.submitted[PAWL__OP_TALLY] - before, 30);
    assert_false(lost.finished);
    assert_int_equal(count_of(&stage, &handle), 0);

    stage.connected = false; /* the deadline counts from the last renewal that was answered */
    stage_pass(&stage, 3 * SECOND - 30 * MS - 2 * MS - 1);
    assert_false(lost.finished);
    stage_pass(&stage, 1);
    assert_true(lost.finished);
    assert_int_equal(lost.status, PAWL_LOST);
    assert_int_equal(lost.lost.why, PAWL__LOSS_SILENCE);
    stage.connected = true;
    stage_flush(&stage);
    stage_close(&stage, &handle);
    stage_pass(&stage, SECOND);
    stage_end(&stage);
}

/* ===== Drawn from seeds ===== */

enum { ACTORS = 6, TOTAL = 5, LATE_MAX = 64 };

struct actor {
    struct pawl__request request;
    bool busy;
    int64_t held;
};

/* A copy of a request that is still on its way. */
struct late {
    struct pawl__op op;
    struct pawl__tally_ask ask;
};

struct world {
    struct stage stage;
    struct pawl__handle handle;
    struct pawl__random random;
    struct actor actors[ACTORS];
    struct late late[LATE_MAX];
    unsigned late_count;
    uint64_t seed;
};

static bool chance(struct world *world, uint64_t percent)
{
    return pawl__random_below(&world->random, 100) < percent;
}

/* What the backend has, without a word to the machine. */
static int64_t backend_count(struct world *world)
{
    struct pawl__tally_ask ask = {.verb = PAWL__TALLY_READ};
    struct pawl__op op = {
        .kind = PAWL__OP_TALLY, .place = pawl__name_place(world->handle.name), .tally = &ask};
    pawl__memory_apply(&world->stage.table, &world->stage.stranger, &op, world->stage.now_us);
    return ask.value;
}

static int64_t held_in_all(const struct world *world)
{
    int64_t held = 0;
    for (int i = 0; i < ACTORS; i++) {
        held += world->actors[i].held;
    }
    return held;
}

static void check(struct world *world)
{
    const int64_t count = backend_count(world);
    if (count + held_in_all(world) > TOTAL || count < 0) {
        support_fail("seed %llu: a permit too many: %lld free, %lld held",
            (unsigned long long)world->seed, (long long)count, (long long)held_in_all(world));
    }
}

static void note_finished(struct world *world)
{
    for (int i = 0; i < ACTORS; i++) {
        struct actor *actor = &world->actors[i];
        if (actor->busy && actor->request.finished) {
            actor->busy = false;
            if (actor->request.verb == PAWL__TALLY_TAKE && actor->request.status == PAWL_OK) {
                actor->held += actor->request.amount;
            } else if (actor->request.verb == PAWL__TALLY_DRAIN &&
                       actor->request.status == PAWL_OK) {
                actor->held += actor->request.value;
            }
            pawl__free(actor->request.error);
        }
    }
}

static void act(struct world *world)
{
    static const int64_t waits[] = {0, 200 * MS, 3 * SECOND, PAWL__NEVER};
    struct actor *actor = &world->actors[pawl__random_below(&world->random, ACTORS)];
    if (actor->busy) {
        return;
    }
    const bool give = actor->held > 0 && chance(world, 70);
    actor->busy = true;
    if (give) {
        actor->request = want(PAWL__TALLY_GIVE, actor->held);
        actor->held = 0; /* whatever it ends with, it is not ours any more */
        stage_tally(&world->stage, &actor->request, &world->handle, 0);
    } else if (chance(world, 10)) {
        actor->request = want(PAWL__TALLY_DRAIN, 0);
        stage_tally(&world->stage, &actor->request, &world->handle, 0);
    } else {
        actor->request = want(PAWL__TALLY_TAKE, 1 + (int64_t)pawl__random_below(&world->random, 3));
        stage_tally(&world->stage, &actor->request, &world->handle,
            waits[pawl__random_below(&world->random, 4)]);
    }
}

/* Something happens to the oldest operation. `late`: copies may stay on their way. */
static void deliver(struct world *world, bool late)
{
    struct stage *stage = &world->stage;
    struct pawl__op *op = stage->out;
    if (op == NULL) {
        return;
    }
    const uint64_t fate = op->kind == PAWL__OP_TALLY ? pawl__random_below(&world->random, 10) : 9;
    if (fate == 0 || (fate == 1 && late && world->late_count < LATE_MAX)) {
        if (fate == 1) { /* it may arrive later */
            struct late *copy = &world->late[world->late_count++];
            copy->op = *op;
            copy->ask = *op->tally;
            copy->op.tally = &copy->ask;
        }
        stage->out = op->next;
        op->next = NULL;
        stage_answer_as(stage, op, PAWL__UNKNOWN);
    } else if (fate == 2) {
        stage->out = op->next;
        op->next = NULL;
        stage_answer_as(stage, op, PAWL__FAILED);
    } else {
        op = stage_reach(stage);
        op->fenced = world->late_count == 0;
        if (fate == 3) { /* carried out, and nobody hears of it */
            stage_answer_as(stage, op, PAWL__UNKNOWN);
        } else {
            stage_answer(stage, op);
        }
    }
}

static void arrive_late(struct world *world)
{
    if (world->late_count == 0) {
        return;
    }
    struct late *copy = &world->late[--world->late_count];
    copy->op.answer = PAWL__PENDING;
    pawl__memory_apply(&world->stage.table, &world->stage.client, &copy->op, world->stage.now_us);
}

static void run_seed(uint64_t seed, bool late)
{
    static struct world world;
    memset(&world, 0, sizeof world);
    world.seed = seed;
    pawl__random_seed(&world.random, seed);
    stage_begin(&world.stage);
    stage_open_count(&world.stage, &world.handle, "s", PAWL__FAMILY_SEMAPHORE);
    now(&world.stage, &world.handle, PAWL__TALLY_SET, TOTAL, PAWL_OK);
    world.stage.connected = false;
    for (int i = 0; i < 300; i++) {
        if (chance(&world, 40)) {
            act(&world);
        }
        if (chance(&world, 60)) {
            deliver(&world, late);
        }
        if (chance(&world, 20)) {
            stage_pass(&world.stage, (int64_t)pawl__random_below(&world.random, 100 * MS));
        }
        if (chance(&world, 10)) {
            arrive_late(&world);
        }
        if (chance(&world, 2)) {
            pawl__machine_cancel(&world.stage.machine, &world.handle, world.stage.now_us);
            stage_pass(&world.stage, 0);
        }
        note_finished(&world);
        check(&world);
    }
    /* All is well again. */
    while (world.late_count > 0) {
        arrive_late(&world);
    }
    world.stage.connected = true;
    stage_flush(&world.stage);
    pawl__machine_cancel(&world.stage.machine, &world.handle, world.stage.now_us);
    stage_pass(&world.stage, 5 * SECOND);
    note_finished(&world);
    for (int i = 0; i < ACTORS; i++) {
        assert_false(world.actors[i].busy);
    }
    if (backend_count(&world) + held_in_all(&world) != TOTAL) {
        support_fail("seed %llu: permits are missing: %lld free, %lld held",
            (unsigned long long)seed, (long long)backend_count(&world),
            (long long)held_in_all(&world));
    }
    assert_true(pawl__machine_idle(&world.stage.machine));
    stage_close(&world.stage, &world.handle);
    stage_pass(&world.stage, SECOND);
    stage_end(&world.stage);
}

/* One operation on the backend, without the machine. */
static enum pawl__answer apply(struct stage *stage, const struct pawl__handle *handle,
    enum pawl__tally_verb verb, int64_t amount, uint64_t number, int64_t *value_out)
{
    struct pawl__tally_ask ask = {.verb = verb, .amount = amount, .keep_us = SECOND};
    struct pawl__op op = {.kind = PAWL__OP_TALLY,
        .place = pawl__name_place(handle->name),
        .tally = &ask,
        .id = number};
    pawl__memory_apply(&stage->table, &stage->stranger, &op, stage->now_us);
    *value_out = ask.value;
    return op.answer;
}

/* That there was nothing to do is an answer, too: a copy that arrives late finds it, and not what
 * there is to do by then. */
static void nothing_done_stays_nothing(void **state)
{
    (void)state;
    struct stage stage;
    struct pawl__handle latch;
    struct pawl__handle semaphore;
    int64_t value = 0;
    stage_begin(&stage);
    stage_open_count(&stage, &latch, "l", PAWL__FAMILY_LATCH);
    stage_open_count(&stage, &semaphore, "s", PAWL__FAMILY_SEMAPHORE);
    assert_int_equal(apply(&stage, &latch, PAWL__TALLY_DOWN, 0, 1, &value), PAWL__DONE);
    assert_int_equal(apply(&stage, &latch, PAWL__TALLY_RESET, 0, 2, &value), PAWL__GONE);
    assert_int_equal(apply(&stage, &semaphore, PAWL__TALLY_DRAIN, 0, 3, &value), PAWL__DONE);
    now(&stage, &latch, PAWL__TALLY_SET, 5, PAWL_OK);
    now(&stage, &semaphore, PAWL__TALLY_SET, 5, PAWL_OK);
    assert_int_equal(apply(&stage, &latch, PAWL__TALLY_SET, 9, 4, &value), PAWL__GONE);

    assert_int_equal(apply(&stage, &latch, PAWL__TALLY_DOWN, 0, 1, &value), PAWL__DONE);
    assert_int_equal(apply(&stage, &latch, PAWL__TALLY_RESET, 0, 2, &value), PAWL__GONE);
    assert_int_equal(count_of(&stage, &latch), 5);
    assert_int_equal(apply(&stage, &semaphore, PAWL__TALLY_DRAIN, 0, 3, &value), PAWL__DONE);
    assert_int_equal(value, 0);
    assert_int_equal(count_of(&stage, &semaphore), 5);
    now(&stage, &latch, PAWL__TALLY_RESET, 0, PAWL_OK);
    assert_int_equal(apply(&stage, &latch, PAWL__TALLY_SET, 9, 4, &value), PAWL__GONE);
    assert_int_equal(count_of(&stage, &latch), 0);
    stage_close(&stage, &latch);
    stage_close(&stage, &semaphore);
    stage_pass(&stage, 100 * SECOND);
    stage_end(&stage);
}

static void lost_answers(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 1000; seed++) {
        run_seed(seed, false);
    }
}

static void late_copies(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 1000; seed++) {
        run_seed(seed, true);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(looks_about_every_second),
        cmocka_unit_test(ends_at_its_limit),
        cmocka_unit_test(forever_ends_after_silence),
        cmocka_unit_test(leaves_the_engine_its_part),
        cmocka_unit_test(late_news_opens_no_new_wait),
        cmocka_unit_test(no_patience_outlives_the_record),
        cmocka_unit_test(no_sleep_outlives_the_record),
        cmocka_unit_test(renews_every_third),
        cmocka_unit_test(nothing_done_stays_nothing),
        cmocka_unit_test(lost_answers),
        cmocka_unit_test(late_copies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
