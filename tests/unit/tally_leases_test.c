/* SPDX-License-Identifier: Apache-2.0 */
/* Very many permits of one handle, on a clock that stands still: each is renewed in time, in few
 * operations, and each is lost, released and extended for itself, whatever becomes of the others.
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "core/leases.h"
#include "support/stage.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MS INT64_C(1000)
#define SECOND INT64_C(1000000)
#define LEASE_US (3 * SECOND)

enum { CROWD = 5300, AT_ONCE = 500 };

static struct stage stage;
static struct pawl__handle handle;
static struct pawl__leases leases;
static struct pawl__permit_id ids[CROWD];
static struct pawl__request lost[CROWD];

/* ===== Asking ===== */

static struct pawl__request start(enum pawl__tally_verb verb, size_t first, size_t count)
{
    struct pawl__request request = {
        .verb = verb, .amount = (int64_t)count, .ids = count > 0 ? ids + first : NULL};
    return request;
}

static pawl_status run(struct pawl__request *request)
{
    stage_tally(&stage, request, &handle, 0);
    assert_true(request->finished);
    pawl__free(request->error);
    return request->status;
}

static void take(size_t first, size_t count)
{
    struct pawl__request request = start(PAWL__TALLY_TAKE, first, count);
    struct pawl__list permits;
    pawl__list_init(&permits);
    for (size_t i = first; i < first + count; i++) {
        struct pawl__permit *permit = pawl__alloc(sizeof *permit);
        memset(&lost[i], 0, sizeof lost[i]);
        pawl__list_init(&lost[i].node);
        lost[i].handle = &handle;
        permit->id = ids[i];
        permit->lost = &lost[i];
        pawl__list_push(&permits, &permit->node);
    }
    request.permits = &permits;
    request.lease_us = LEASE_US;
    assert_int_equal(run(&request), PAWL_OK);
}

static int64_t count_free(void)
{
    struct pawl__request request = {.verb = PAWL__TALLY_READ};
    assert_int_equal(run(&request), PAWL_OK);
    return request.value;
}

/* Extend these; how many of them were out. */
static int64_t extend(size_t first, size_t count, int64_t lease_us)
{
    struct pawl__request request = start(PAWL__TALLY_EXTEND, first, count);
    request.lease_us = lease_us;
    assert_int_equal(run(&request), PAWL_OK);
    return request.value;
}

/* A stranger gives these back. */
static void take_away(size_t first, size_t count)
{
    struct pawl__tally_ask ask = {
        .verb = PAWL__TALLY_GIVE, .amount = (int64_t)count, .ids = ids + first, .keep_us = SECOND};
    struct pawl__op op = {.kind = PAWL__OP_TALLY,
        .place = pawl__name_place(handle.name),
        .tally = &ask,
        .id = 1000000 + first};
    pawl__memory_apply(&stage.table, &stage.stranger, &op, stage.now_us);
    assert_int_equal(op.answer, PAWL__DONE);
}

/* Do not renew these any more, or any so many. */
static size_t drop(size_t first, size_t count, bool any)
{
    struct pawl__list dropped;
    struct pawl__list *node = NULL;
    pawl__list_init(&dropped);
    const size_t found =
        pawl__leases_drop(&stage.machine, &leases, any ? NULL : ids + first, count, &dropped);
    size_t freed = 0;
    while ((node = pawl__list_pop(&dropped)) != NULL) {
        pawl__free(PAWL__CONTAINER(node, struct pawl__permit, node));
        freed++;
    }
    assert_int_equal(found, freed);
    return found;
}

static bool is_out(size_t i)
{
    return pawl__leases_deadline(&leases, &ids[i]) > stage.now_us;
}

static size_t count_lost(size_t first, size_t count)
{
    size_t found = 0;
    for (size_t i = first; i < first + count; i++) {
        if (lost[i].finished && lost[i].status == PAWL_LOST) {
            assert_false(is_out(i));
            found++;
        }
    }
    return found;
}

static size_t count_out(size_t first, size_t count)
{
    size_t found = 0;
    for (size_t i = first; i < first + count; i++) {
        found += is_out(i) ? 1 : 0;
    }
    return found;
}

/* ===== The frame ===== */

/* All permits are taken, some every 20 ms. */
static int begin(void **state)
{
    (void)state;
    stage_begin(&stage);
    stage_open_count(&stage, &handle, "p", PAWL__FAMILY_PERMITS);
    assert_non_null(pawl__handle_extra(&handle));
    memset(&leases, 0, sizeof leases);
    leases.lease_us = LEASE_US;
    assert_true(pawl__leases_begin(&stage.machine, &handle, &leases));
    struct pawl__request request = {.verb = PAWL__TALLY_SET, .amount = CROWD};
    assert_int_equal(run(&request), PAWL_OK);
    for (size_t i = 0; i < CROWD; i++) {
        ids[i] = (struct pawl__permit_id){{(unsigned char)i, (unsigned char)(i >> 8), 7}};
    }
    for (size_t i = 0; i < CROWD; i += AT_ONCE) {
        take(i, i + AT_ONCE <= CROWD ? AT_ONCE : CROWD - i);
        stage_pass(&stage, 20 * MS);
    }
    assert_int_equal(count_free(), 0);
    return 0;
}

static int end(void **state)
{
    (void)state;
    stage.connected = true;
    stage_flush(&stage);
    stage_close(&stage, &handle);
    stage_pass(&stage, 200 * SECOND); /* leases and records, too */
    stage_end(&stage);
    return 0;
}

/* ===== Cases ===== */

static void all_are_renewed_in_few_operations(void **state)
{
    (void)state;
    const unsigned before = stage.submitted[PAWL__OP_TALLY];
    stage_pass(&stage, 30 * SECOND);
    const unsigned asked = stage.submitted[PAWL__OP_TALLY] - before;
    assert_in_range(asked, 30 * CROWD / PAWL__PERMITS_AT_ONCE, 32 * (CROWD / AT_ONCE + 1));
    assert_int_equal(count_out(0, CROWD), CROWD);
    assert_int_equal(count_lost(0, CROWD), 0);
    assert_int_equal(count_free(), 0);
}

/* One operation at a time is with the engine, however many are due. */
static void others_come_in_between(void **state)
{
    (void)state;
    stage.connected = false;
    stage_pass(&stage, LEASE_US / 3);
    assert_non_null(stage.out);
    assert_null(stage.out->next);
    assert_in_range(stage.out->tally->amount, 1, PAWL__PERMITS_AT_ONCE);
    unsigned rounds = 0;
    for (; stage.out != NULL; rounds++) {
        assert_null(stage.out->next);
        stage_answer(&stage, stage_reach(&stage));
        assert_null(stage.out); /* nobody is asked while an answer is taken, */
        stage_pass(&stage, 0);  /* but at once afterwards */
    }
    assert_in_range(rounds, CROWD / PAWL__PERMITS_AT_ONCE, CROWD / AT_ONCE + 1);
    assert_int_equal(count_out(0, CROWD), CROWD);
}

static void only_those_taken_away_are_lost(void **state)
{
    (void)state;
    take_away(100, 3);
    take_away(4999, 301);
    stage_pass(&stage, LEASE_US);
    assert_int_equal(count_lost(100, 3), 3);
    assert_int_equal(count_lost(4999, 301), 301);
    assert_int_equal(count_lost(0, CROWD), 304);
    assert_int_equal(lost[100].lost.why, PAWL__LOSS_PROOF);
    assert_int_equal(count_out(0, CROWD), CROWD - 304);
    assert_int_equal(count_free(), 304);
}

/* Renewals fail for a while, and then all are asked for again, in time. */
static void a_fault_is_survived(void **state)
{
    (void)state;
    stage.connected = false;
    for (int64_t us = 0; us < LEASE_US / 2; us += 10 * MS) {
        stage_pass(&stage, 10 * MS);
        while (stage.out != NULL) {
            struct pawl__op *op = stage.out;
            stage.out = op->next;
            op->next = NULL;
            stage_answer_as(&stage, op, us % 20000 == 0 ? PAWL__FAILED : PAWL__UNKNOWN);
        }
    }
    stage.connected = true;
    stage_pass(&stage, 10 * SECOND);
    assert_int_equal(count_lost(0, CROWD), 0);
    assert_int_equal(count_out(0, CROWD), CROWD);
    assert_int_equal(count_free(), 0);
}

/* The next renewal that is asked for, which does not get through. */
static struct pawl__permit_id first_of_failed_batch(void)
{
    for (int64_t us = 0; stage.out == NULL; us += MS) {
        assert_true(us < LEASE_US);
        stage_pass(&stage, MS);
    }
    struct pawl__op *op = stage.out;
    const struct pawl__permit_id first = op->tally->ids[0];
    stage.out = op->next;
    op->next = NULL;
    stage_answer_as(&stage, op, PAWL__FAILED);
    return first;
}

/* Whoever was asked for first has the least time left, and is asked for first again. */
static void a_failed_batch_stays_in_front(void **state)
{
    (void)state;
    stage.connected = false;
    const struct pawl__permit_id first = first_of_failed_batch();
    for (int i = 0; i < 3; i++) {
        const struct pawl__permit_id again = first_of_failed_batch();
        assert_memory_equal(&again, &first, sizeof first);
    }
}

static void a_new_connection_has_all_looked_at(void **state)
{
    (void)state;
    take_away(2000, 1500);
    pawl__machine_reconnected(&stage.machine, stage.now_us);
    stage_pass(&stage, 0);
    assert_int_equal(count_lost(0, CROWD), 1500);
    assert_int_equal(count_lost(2000, 1500), 1500);
}

/* Each ends at its own deadline: those that a user has extended later than the others. */
static void silence_ends_each_at_its_time(void **state)
{
    (void)state;
    assert_int_equal(extend(1000, 1000, 10 * SECOND), 1000);
    stage.connected = false;
    stage_pass(&stage, LEASE_US - 300 * MS); /* they were taken up to 220 ms ago */
    assert_int_equal(count_lost(0, CROWD), 0);
    stage_pass(&stage, 300 * MS);
    assert_int_equal(count_lost(0, CROWD), CROWD - 1000);
    assert_int_equal(count_out(1000, 1000), 1000);
    assert_int_equal(lost[0].lost.why, PAWL__LOSS_SILENCE);
    stage_pass(&stage, 10 * SECOND);
    assert_int_equal(count_lost(0, CROWD), CROWD);
}

/* Asking for less than the lease gives no less, again and again; and so often that none of them is
 * renewed only because others are. */
static void a_short_extension_puts_nothing_off(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++) {
        assert_int_equal(extend(0, 700, 50 * MS), 700);
        stage_pass(&stage, LEASE_US / 6);
        for (size_t k = 0; k < 700; k++) { /* not only at the last moment */
            assert_true(pawl__leases_deadline(&leases, &ids[k]) - stage.now_us > LEASE_US / 2);
        }
    }
    assert_int_equal(count_lost(0, CROWD), 0);
    assert_int_equal(count_out(0, CROWD), CROWD);
}

static void released_while_they_are_renewed(void **state)
{
    (void)state;
    stage.connected = false;
    stage_pass(&stage, LEASE_US / 3);
    struct pawl__op *op = stage_reach(&stage);
    assert_int_equal(drop(0, 250, false), 250); /* among those that are asked for */
    assert_int_equal(drop(0, 250, false), 0);
    assert_int_equal(drop(5000, 100, false), 100);
    stage_answer(&stage, op);
    assert_int_equal(count_out(0, 250), 0);
    assert_int_equal(count_lost(0, CROWD), 0); /* they were not lost */
    stage.connected = true;
    stage_flush(&stage);
    stage_pass(&stage, 2 * LEASE_US);
    assert_int_equal(count_out(0, CROWD), CROWD - 350);
    assert_int_equal(count_lost(0, CROWD), 0);
    assert_int_equal(count_free(), 350); /* nobody renewed them */
}

/* Giving them back ends their renewal in the same step. Without memory for that they are renewed
 * as before. */
static bool no_memory(size_t size)
{
    (void)size;
    return false;
}

static void given_back_while_they_are_renewed(void **state)
{
    (void)state;
    struct pawl__list dropped;
    struct pawl__request request = start(PAWL__TALLY_GIVE, 200, 800);
    pawl__list_init(&dropped);
    request.permits = &dropped;
    request.ids = ids + 200;
    pawl__tally_free_spares(handle.name->traffic->own);
    pawl__alloc_hook = no_memory;
    assert_int_equal(run(&request), PAWL_NO_MEMORY);
    pawl__alloc_hook = NULL;
    assert_true(pawl__list_empty(&dropped));
    assert_int_equal(count_out(0, CROWD), CROWD);

    stage.connected = false;
    stage_pass(&stage, LEASE_US / 3);
    struct pawl__op *op = stage_reach(&stage);
    request = start(PAWL__TALLY_GIVE, 200, 800);
    request.permits = &dropped;
    stage_tally(&stage, &request, &handle, 0);
    assert_int_equal(count_out(200, 800), 0);
    assert_int_equal(count_out(0, CROWD), CROWD - 800);
    stage_answer(&stage, op);
    stage.connected = true;
    stage_flush(&stage);
    assert_true(request.finished);
    assert_int_equal(request.value, 800);
    for (int i = 0; i < 800; i++) {
        pawl__free(PAWL__CONTAINER(pawl__list_pop(&dropped), struct pawl__permit, node));
    }
    assert_true(pawl__list_empty(&dropped));
    stage_pass(&stage, 2 * LEASE_US);
    assert_int_equal(count_lost(0, CROWD), 0);
    assert_int_equal(count_free(), 800);
}

static void dropped_any_so_many(void **state)
{
    (void)state;
    size_t dropped = 0;
    size_t now = 0;
    while ((now = drop(0, 999, true)) > 0) {
        dropped += now;
        assert_int_equal(count_out(0, CROWD), CROWD - dropped);
    }
    assert_int_equal(dropped, CROWD);
    stage_pass(&stage, 2 * LEASE_US);
    assert_int_equal(count_free(), CROWD);
    take(0, 1000); /* and there may be others afterwards */
    stage_pass(&stage, 5 * LEASE_US);
    assert_int_equal(count_out(0, 1000), 1000);
}

static void a_close_gives_all_back(void **state)
{
    (void)state;
    pawl__machine_release_all(&stage.machine, stage.now_us);
    stage_pass(&stage, 0);
    assert_int_equal(count_free(), CROWD);
    assert_int_equal(count_lost(0, CROWD), 0);
    for (size_t i = 0; i < CROWD; i++) {
        assert_true(lost[i].finished); /* whoever prepared it may free it */
    }
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(all_are_renewed_in_few_operations),
        CASE(others_come_in_between),
        CASE(only_those_taken_away_are_lost),
        CASE(a_fault_is_survived),
        CASE(a_failed_batch_stays_in_front),
        CASE(a_new_connection_has_all_looked_at),
        CASE(silence_ends_each_at_its_time),
        CASE(a_short_extension_puts_nothing_off),
        CASE(released_while_they_are_renewed),
        CASE(given_back_while_they_are_renewed),
        CASE(dropped_any_so_many),
        CASE(a_close_gives_all_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
