/* SPDX-License-Identifier: Apache-2.0 */
/* Motions: a hold at rest has none. When there is no memory for one, claims and extensions are
 * refused, but a renewal, a release, giving up to write and the end of a lost hold only wait, for
 * what is kept for holds or for memory; and a loss is told all the same. */
#include "base/alloc.h"
#include "base/clock.h"
#include "core/client.h"
#include "core/machine_parts.h"
#include "support/stage.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define SECOND INT64_C(1000000)
#define LEASE_US (3 * SECOND)
#define SHORTLY_US (SECOND / 10)
#define OWNER 7

static struct stage stage;
static struct pawl__handle handle;

static bool refuse_motions(size_t size)
{
    return size != sizeof(struct pawl__motion);
}

static int begin(void **state)
{
    (void)state;
    stage_begin(&stage);
    stage_open(&stage, &handle, "x", LEASE_US, true);
    return 0;
}

static int end(void **state)
{
    (void)state;
    pawl__alloc_hook = NULL;
    stage.connected = true;
    stage_flush(&stage);
    stage_close(&stage, &handle);
    stage_pass(&stage, 2 * LEASE_US);
    stage_end(&stage);
    return 0;
}

static void keep(unsigned count)
{
    stage.machine.motions_kept = count;
    assert_true(pawl__motions_init(&stage.machine));
}

static struct pawl__tenure *hold_of(struct pawl__handle *of)
{
    struct pawl__tenure *tenure = pawl__machine_find(&stage.machine, of, OWNER, stage.now_us);
    assert_non_null(tenure);
    return tenure;
}

static bool is_at_rest(struct pawl__handle *of)
{
    return hold_of(of)->motion == &pawl__at_rest;
}

static void a_hold_has_one_only_while_something_is_asked(void **state)
{
    (void)state;
    assert_true(sizeof(struct pawl__tenure) <= 232);
    assert_int_equal(stage_acquire_now(&stage, &handle, OWNER), PAWL_OK);
    assert_true(is_at_rest(&handle));
    stage.connected = false;
    stage_pass(&stage, LEASE_US / 3);
    assert_int_equal(stage.out->kind, PAWL__OP_RENEW);
    assert_false(is_at_rest(&handle));
    stage.connected = true;
    stage_flush(&stage);
    assert_true(is_at_rest(&handle));
    assert_int_equal(stage_release_now(&stage, &handle, OWNER), PAWL_OK);
}

static void a_claim_leaves_what_is_kept_for_holds(void **state)
{
    (void)state;
    keep(2);
    pawl__alloc_hook = refuse_motions;
    assert_int_equal(stage_acquire_now(&stage, &handle, OWNER), PAWL_NO_MEMORY);
    assert_int_equal(stage.machine.motion_count, 2);
}

static void holds_take_turns_with_what_is_kept(void **state)
{
    (void)state;
    struct pawl__handle other;
    stage_open(&stage, &other, "y", LEASE_US, true);
    assert_int_equal(stage_acquire_now(&stage, &handle, OWNER), PAWL_OK);
    assert_int_equal(stage_acquire_now(&stage, &other, OWNER), PAWL_OK);
    keep(1);
    pawl__alloc_hook = refuse_motions;
    stage.connected = false;
    stage_pass(&stage, LEASE_US / 3 + SHORTLY_US);
    assert_int_equal(stage.submitted[PAWL__OP_RENEW], 1);
    stage.connected = true;
    stage_flush(&stage);
    stage_pass(&stage, SHORTLY_US);
    assert_int_equal(stage.submitted[PAWL__OP_RENEW], 2);
    stage_pass(&stage, 3 * LEASE_US);
    assert_int_equal(stage.notice_count, 0);
    assert_int_equal(stage_release_now(&stage, &handle, OWNER), PAWL_OK);
    assert_int_equal(stage_release_now(&stage, &other, OWNER), PAWL_OK);
    stage_close(&stage, &other);
}

static void a_release_waits_for_memory(void **state)
{
    (void)state;
    struct pawl__request request;
    assert_int_equal(stage_acquire_now(&stage, &handle, OWNER), PAWL_OK);
    pawl__alloc_hook = refuse_motions;
    stage_release(&stage, &request, &handle, OWNER);
    stage_pass(&stage, SHORTLY_US);
    assert_false(request.finished);
    assert_int_equal(stage.submitted[PAWL__OP_RELEASE], 0);
    pawl__alloc_hook = NULL;
    stage_pass(&stage, SECOND);
    assert_true(request.finished);
    assert_int_equal(request.status, PAWL_OK);
    assert_true(stage_stranger_gets(&stage, "x", 1));
}

static void a_release_that_nobody_waits_for_is_not_forgotten(void **state)
{
    (void)state;
    handle.terms->unawaited = true;
    assert_int_equal(stage_acquire_now(&stage, &handle, OWNER), PAWL_OK);
    pawl__alloc_hook = refuse_motions;
    assert_int_equal(stage_release_now(&stage, &handle, OWNER), PAWL_OK);
    assert_false(stage_stranger_gets(&stage, "x", 1));
    pawl__alloc_hook = NULL;
    stage_pass(&stage, SECOND);
    assert_true(stage_stranger_gets(&stage, "x", 1));
}

static void who_gives_up_writing_waits_for_memory(void **state)
{
    (void)state;
    struct pawl__handle reads;
    struct pawl__handle writes;
    struct pawl__request request;
    stage_open_kind(&stage, &reads, "rw", PAWL_READ, LEASE_US, true);
    stage_open_kind(&stage, &writes, "rw", PAWL_WRITE, LEASE_US, true);
    assert_int_equal(stage_acquire_now(&stage, &writes, OWNER), PAWL_OK);
    assert_int_equal(stage_acquire_now(&stage, &reads, OWNER), PAWL_OK);
    stage_flush(&stage);
    pawl__alloc_hook = refuse_motions;
    stage_release(&stage, &request, &writes, OWNER);
    stage_pass(&stage, SHORTLY_US);
    assert_false(request.finished);
    pawl__alloc_hook = NULL;
    stage_pass(&stage, SECOND);
    assert_true(request.finished);
    assert_int_equal(request.status, PAWL_OK);
    assert_int_equal(stage_release_now(&stage, &reads, OWNER), PAWL_OK);
    stage_close(&stage, &reads);
    stage_close(&stage, &writes);
}

static void an_extension_is_refused_and_changes_nothing(void **state)
{
    (void)state;
    struct pawl__request request;
    assert_int_equal(stage_acquire_now(&stage, &handle, OWNER), PAWL_OK);
    const int64_t deadline_us = hold_of(&handle)->deadline_us;
    pawl__alloc_hook = refuse_motions;
    stage_extend(&stage, &request, &handle, OWNER, 10 * LEASE_US);
    assert_true(request.finished);
    assert_int_equal(request.status, PAWL_NO_MEMORY);
    assert_int_equal(hold_of(&handle)->deadline_us, deadline_us);
    pawl__alloc_hook = NULL;
    assert_int_equal(stage_release_now(&stage, &handle, OWNER), PAWL_OK);
}

/* A fixed lease is over, and there is no memory to tell a backend that does not end leases. */
static void lose_where_leases_do_not_end(void)
{
    stage.engine.expires = false;
    handle.terms->renew = false;
    assert_int_equal(stage_acquire_now(&stage, &handle, OWNER), PAWL_OK);
    pawl__alloc_hook = refuse_motions;
    stage_pass(&stage, LEASE_US);
}

/* The backend has to be told, as soon as that is possible. */
static void a_loss_is_told_at_once_and_ended_later(void **state)
{
    (void)state;
    lose_where_leases_do_not_end();
    assert_int_equal(stage.notice_count, 1);
    assert_int_equal(stage.notices[0].status, PAWL_LOST);
    assert_int_equal(stage.submitted[PAWL__OP_RELEASE], 0);
    pawl__alloc_hook = NULL;
    stage_pass(&stage, SHORTLY_US);
    assert_int_equal(stage.submitted[PAWL__OP_RELEASE], 1);
    assert_int_equal(stage_release_now(&stage, &handle, OWNER), PAWL_LOST);
    assert_int_equal(stage.notice_count, 1);
}

/* With memory, however many renewals are under way, every hold in danger is told of. */
static void all_holds_are_warned_of_silence(void **state)
{
    (void)state;
    enum { COUNT = 12 };
    static const char *const names[COUNT] = {
        "a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"};
    struct pawl__handle handles[COUNT];
    keep(PAWL__MOTIONS_KEPT);
    for (int i = 0; i < COUNT; i++) {
        stage_open(&stage, &handles[i], names[i], LEASE_US, true);
        assert_int_equal(stage_acquire_now(&stage, &handles[i], OWNER), PAWL_OK);
    }
    stage.connected = false;
    stage_pass(&stage, LEASE_US - LEASE_US / 10);
    assert_int_equal(stage.submitted[PAWL__OP_RENEW], COUNT);
    assert_int_equal(stage.notice_count, COUNT);
    stage.connected = true;
    stage_flush(&stage);
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(stage.notices[i].status, PAWL_UNAVAILABLE);
        assert_int_equal(stage_release_now(&stage, &handles[i], OWNER), PAWL_OK);
        stage_close(&stage, &handles[i]);
    }
}

/* As in a process that has no memory for long. */
static void a_loss_for_want_of_memory_says_so(void **state)
{
    (void)state;
    struct pawl__request request;
    assert_int_equal(stage_acquire_now(&stage, &handle, OWNER), PAWL_OK);
    pawl__alloc_hook = refuse_motions;
    stage_pass(&stage, LEASE_US);
    pawl__alloc_hook = NULL;
    stage_release(&stage, &request, &handle, OWNER);
    assert_int_equal(request.status, PAWL_LOST);
    assert_int_equal(request.lost.why, PAWL__LOSS_MEMORY);
}

/* Its time was over before: there is no lease to wait for. */
static void a_thread_that_ends_after_the_loss_does_not_delay_the_end(void **state)
{
    (void)state;
    lose_where_leases_do_not_end();
    pawl__machine_owner_gone(&stage.machine, OWNER, stage.now_us);
    pawl__alloc_hook = NULL;
    stage_pass(&stage, SECOND);
    assert_int_equal(stage.submitted[PAWL__OP_RELEASE], 1);
    assert_true(pawl__machine_idle(&stage.machine));
}

static void a_client_keeps_some_from_the_start(void **state)
{
    (void)state;
    pawl_client *client = NULL;
    assert_int_equal(pawl_client_open("memory:motions", NULL, &client), PAWL_OK);
    assert_int_equal(client->machine.motion_count, PAWL__MOTIONS_KEPT);
    assert_int_equal(pawl_client_close(client), PAWL_OK);
}

#define SCENE(name) cmocka_unit_test_setup_teardown(name, begin, end)

/* ===== Of those who wait in a crowd ===== */

static void stranger(enum pawl__op_kind kind, enum pawl__family family)
{
    struct pawl__place place = {.name = "x", .name_size = 1, .family = family};
    struct pawl__op op = {.place = &place,
        .kind = kind,
        .id = 1000,
        .as = PAWL_WRITE,
        .lease_us = 100 * LEASE_US,
        .sent_us = stage.now_us};
    pawl__memory_apply(&stage.table, &stage.stranger, &op, stage.now_us);
    assert_int_equal(op.answer, PAWL__DONE);
    while (pawl__memory_woken(&stage.table) != NULL) { /* nobody is told */
    }
}

static void open_as(pawl_kind kind)
{
    stage_close(&stage, &handle);
    stage_open_kind(&stage, &handle, "x", kind, LEASE_US, true);
    stranger(PAWL__OP_ACQUIRE, pawl__family_of(kind));
}

static void a_waiter_has_one_only_while_it_asks(void **state)
{
    (void)state;
    struct pawl__request request;
    open_as(PAWL_READ);
    stage_acquire(&stage, &request, &handle, OWNER, PAWL__NEVER);
    assert_ptr_equal(request.tenure->motion, &pawl__at_rest);
    const uint64_t id = request.tenure->id;
    stage.connected = false;
    stage_pass(&stage, 2 * SECOND);
    assert_int_equal(stage.out->kind, PAWL__OP_ACQUIRE);
    assert_int_equal(stage.out->id, id); /* the same question again */
    assert_ptr_not_equal(request.tenure->motion, &pawl__at_rest);
    stage.connected = true;
    stage_flush(&stage);
    assert_ptr_equal(request.tenure->motion, &pawl__at_rest);
    stranger(PAWL__OP_RELEASE, PAWL__FAMILY_SHARED);
    stage_pass(&stage, 2 * SECOND);
    assert_true(request.finished);
    assert_int_equal(request.status, PAWL_OK);
    assert_int_equal(stage_release_now(&stage, &handle, OWNER), PAWL_OK);
}

static void without_memory_a_waiter_goes_on_waiting(void **state)
{
    (void)state;
    struct pawl__request request;
    open_as(PAWL_READ);
    stage_acquire(&stage, &request, &handle, OWNER, PAWL__NEVER);
    const unsigned asked = stage.submitted[PAWL__OP_ACQUIRE];
    pawl__alloc_hook = refuse_motions;
    stranger(PAWL__OP_RELEASE, PAWL__FAMILY_SHARED);
    stage_pass(&stage, 5 * SECOND);
    assert_int_equal(stage.submitted[PAWL__OP_ACQUIRE], asked);
    assert_false(request.finished);
    pawl__alloc_hook = NULL;
    stage_pass(&stage, 2 * SECOND);
    assert_true(request.finished);
    assert_int_equal(request.status, PAWL_OK);
    assert_int_equal(stage_release_now(&stage, &handle, OWNER), PAWL_OK);
}

/* Its place in the backend's queue has to be given up, with what is kept for what has to be, or
 * when there is memory. */
static void a_waiter_that_leaves_without_memory_leaves_the_queue(void **state)
{
    (void)state;
    static struct pawl__request requests[10];
    open_as(PAWL_FAIR);
    for (uint64_t i = 0; i < 10; i++) {
        stage_acquire(&stage, &requests[i], &handle, OWNER + i, 60 * SECOND);
    }
    struct pawl__tenure *last = requests[9].tenure;
    assert_ptr_equal(last->motion, &pawl__at_rest);
    pawl__alloc_hook = refuse_motions;
    pawl__machine_expire(&stage.machine, &requests[9], stage.now_us);
    stage_pass(&stage, SECOND);
    assert_true(requests[9].finished);
    pawl__free(requests[9].error);
    assert_int_equal(last->state, PAWL__TENURE_CLEANING);
    assert_int_equal(stage.submitted[PAWL__OP_RELEASE], 0);
    pawl__alloc_hook = NULL;
    stage_pass(&stage, SECOND);
    assert_int_equal(stage.submitted[PAWL__OP_RELEASE], 1);
    pawl__machine_cancel(&stage.machine, &handle, stage.now_us);
    stage_pass(&stage, 0);
    assert_int_equal(stage.submitted[PAWL__OP_RELEASE], 10);
    const struct pawl__memory_entry *entry = pawl__memory_look(&stage.table, "x", 1);
    assert_true(pawl__list_empty(&entry->queue));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENE(a_hold_has_one_only_while_something_is_asked),
        SCENE(a_claim_leaves_what_is_kept_for_holds),
        SCENE(holds_take_turns_with_what_is_kept),
        SCENE(a_release_waits_for_memory),
        SCENE(a_release_that_nobody_waits_for_is_not_forgotten),
        SCENE(who_gives_up_writing_waits_for_memory),
        SCENE(an_extension_is_refused_and_changes_nothing),
        SCENE(a_loss_is_told_at_once_and_ended_later),
        SCENE(all_holds_are_warned_of_silence),
        SCENE(a_loss_for_want_of_memory_says_so),
        SCENE(a_thread_that_ends_after_the_loss_does_not_delay_the_end),
        SCENE(a_waiter_has_one_only_while_it_asks),
        SCENE(without_memory_a_waiter_goes_on_waiting),
        SCENE(a_waiter_that_leaves_without_memory_leaves_the_queue),
        cmocka_unit_test(a_client_keeps_some_from_the_start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
