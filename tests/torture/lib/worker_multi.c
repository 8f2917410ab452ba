/* SPDX-License-Identifier: Apache-2.0 */
/* Several locks at once. Each member is a hold like any other, and is judged like any other: it
 * excludes whoever wants that name alone, or in another company. And it is all or none: an acquire
 * that fails has left nothing behind, whatever stopped it. */
#include "torture/lib/worker_parts.h"

#include "support/wait.h"

enum { MEMBERS_MAX = 3, WORK_US_MAX = 500 };

/* Names by their numbers; round.c says which kinds they are. */
static const struct {
    size_t count;
    unsigned names[MEMBERS_MAX];
} companies[MULTIS_MAX] = {{2, {3, 0}}, {3, {1, 0, 2}}, {3, {4, 5, 0}}};

bool multis_open(struct caller *caller)
{
    for (unsigned i = 0; i < MULTIS_MAX; i++) {
        pawl_lock *members[MEMBERS_MAX];
        for (size_t k = 0; k < companies[i].count; k++) {
            members[k] = shared[0][STYLE_RENEWED][companies[i].names[k]].lock;
        }
        if (pawl_lock_open_multi(members, companies[i].count, NULL, &caller->multis[i]) !=
            PAWL_OK) {
            return false;
        }
    }
    return true;
}

void multis_close(struct caller *caller)
{
    for (unsigned i = 0; i < MULTIS_MAX; i++) {
        pawl_lock_close(caller->multis[i]);
    }
}

static pawl_status acquire(struct caller *caller, unsigned company)
{
    const int64_t wait_ms = draw_wait_ms(&caller->random);
    const int64_t began_us = boottime_us();
    const pawl_status status = pawl_lock_acquire(caller->multis[company], wait_ms);
    struct torture_record record = {.step = RECORD_SEVERAL,
        .hold = pawl_owner_self(),
        .at_us = began_us,
        .until_us = boottime_us()};
    for (size_t k = 0; k < companies[company].count; k++) {
        record.name = companies[company].names[k];
        write_down(&record);
    }
    if (wait_ms >= 0) {
        const int64_t limit_ms = wait_ms > arena->timeout_ms ? wait_ms : arena->timeout_ms;
        check_limit(began_us, limit_ms + arena->timeout_ms, false);
    }
    check_status(status, "acquire of several");
    atomic_fetch_add(&self->acquires[status], 1);
    return status;
}

/* After an acquire that failed: nothing is held. */
static void check_none(unsigned company, pawl_status status)
{
    for (size_t k = 0; k < companies[company].count; k++) {
        const unsigned name = companies[company].names[k];
        if (pawl_lock_hold_count(shared[0][STYLE_RENEWED][name].lock) != 0) {
            complain("an acquire of several answered %s and left name %u held",
                pawl_status_string(status), name);
        }
    }
}

static void work(struct visit *visits, size_t count)
{
    struct caller *caller = visits[0].caller;
    if (draw_below(&caller->random, 4) == 0) {
        pass_us(draw_between(&caller->random, 1, WORK_US_MAX));
    }
    for (size_t k = 0; k < count; k++) {
        look(&visits[k]);
    }
}

static void hold(struct caller *caller, unsigned company)
{
    struct visit visits[MEMBERS_MAX];
    const size_t count = companies[company].count;
    pawl_lock *multi = caller->multis[company];
    for (size_t k = 0; k < count; k++) {
        const struct handle *handle = &shared[0][STYLE_RENEWED][companies[company].names[k]];
        visits[k] = (struct visit){.caller = caller,
            .lock = handle->lock,
            .style = STYLE_RENEWED,
            .record = {.name = handle->name, .kind = handle->kind}};
        enter(&visits[k]);
    }
    work(visits, count);
    for (size_t k = 0; k < count; k++) {
        leave(&visits[k]);
    }
    const int64_t began_us = boottime_us();
    const pawl_status status = pawl_lock_release(multi);
    check_limit(began_us, arena->timeout_ms, true);
    check_status(status, "release of several");
    for (size_t k = 0; k < count; k++) {
        const pawl_status one = pawl_lock_member_status(multi, k);
        atomic_fetch_add(&self->releases[one], 1);
        left(&visits[k], one);
    }
    check_none(company, status);
    atomic_fetch_add(&arena->several_acquired, 1);
}

void visit_several(struct caller *caller)
{
    const unsigned company = (unsigned)draw_below(&caller->random, MULTIS_MAX);
    const pawl_status status = acquire(caller, company);
    if (status == PAWL_OK) {
        hold(caller, company);
    } else {
        check_none(company, status);
        pass_us(status == PAWL_BUSY ? 200 : 2000);
    }
}
