/* SPDX-License-Identifier: Apache-2.0 */
/* What a worker does with a semaphore, with one whose permits have leases, and with latches.
 *
 * Permits are written down as holds are, each of the leased ones for itself. What a thread has of
 * the plain semaphore is in the arena as well, so that it can be replaced when the thread dies.
 *
 * A latch is set once and counted down by whoever draws one of its tickets, never twice for one
 * ticket. In the arena stands how many calls have begun, and how many were answered; between these
 * two lies what the latch may say, at any time. It may open when all have begun, and must when all
 * have been answered. */
#include "torture/lib/worker_parts.h"

#include "support/wait.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    TAKE_MOST = 2,
    WAIT_MS = 1500,
    WORK_US_MAX = 3000,
    LATCH_WAIT_MS = 300,
    LATCH_AGE_MS = 1500,
};

static pawl_semaphore *semaphore;
static pawl_semaphore *leased[2]; /* renewed, and not */
static _Atomic int64_t latch_seen_us[ARENA_LATCHES_MAX];

/* ===== What both semaphores share ===== */

static bool answer(pawl_status status, const char *call)
{
    check_status(status, call);
    return status == PAWL_OK;
}

static int64_t limit_of(int64_t wait_ms)
{
    return wait_ms > arena->timeout_ms ? wait_ms : arena->timeout_ms;
}

static void work(struct caller *caller)
{
    const uint64_t chance = draw_below(&caller->random, 1000);
    const int64_t most_us = chance < 600 ? 0 : chance < 995 ? WORK_US_MAX : arena->lease_ms * 1500;
    if (most_us > 0) {
        pass_us(draw_between(&caller->random, 1, most_us));
    }
}

static void begin(struct caller *caller, struct torture_record *record)
{
    record->step = RECORD_ACQUIRED;
    record->hold = (uint64_t)caller->index << RECORD_THREAD_SHIFT | ++caller->holds;
    record->at_us = boottime_us();
}

static void note_step(struct torture_record *record, enum record_step step)
{
    record->step = step;
    record->at_us = boottime_us();
    write_down(record);
}

/* ===== The plain one ===== */

static void set_stake(const struct caller *caller, enum stake_state state, unsigned amount)
{
    atomic_store(&self->stakes[caller->index][1], amount);
    atomic_store(&self->stakes[caller->index][0], state);
}

static void give(struct caller *caller, struct torture_record *record, unsigned amount)
{
    set_stake(caller, STAKE_DOUBT, amount);
    note_step(record, RECORD_LEAVING);
    const int64_t began_us = boottime_us();
    const pawl_status status = pawl_semaphore_release(semaphore, amount);
    check_limit(began_us, arena->timeout_ms, true);
    check_status(status, "release of permits");
    if (status == PAWL_LOST || status == PAWL_BUSY) {
        complain("a release of permits answered %s", pawl_status_string(status));
    }
    atomic_fetch_add(&self->releases[status], 1);
    if (status != PAWL_OK) {
        atomic_fetch_add(&self->doubts, amount);
    }
    set_stake(caller, STAKE_NONE, 0);
    record->status = (uint32_t)status;
    note_step(record, RECORD_RELEASED);
}

static pawl_status use_semaphore(struct caller *caller)
{
    const unsigned amount = 1 + (unsigned)draw_below(&caller->random, TAKE_MOST);
    const int64_t drawn_ms = draw_wait_ms(&caller->random);
    const int64_t wait_ms = drawn_ms < 0 ? WAIT_MS : drawn_ms; /* the dead may have left none */
    const int64_t began_us = boottime_us();
    struct torture_record record = {
        .name = NAME_SEMAPHORE, .kind = PAWL_PLAIN, .seen = amount, .until_us = INT64_MAX};
    set_stake(caller, STAKE_DOUBT, amount);
    const pawl_status status = pawl_semaphore_acquire(semaphore, amount, wait_ms);
    if (status == PAWL_OK) {
        begin(caller, &record);
        set_stake(caller, STAKE_HAS, amount);
        write_down(&record);
    } else {
        atomic_fetch_add(&self->doubts, status == PAWL_UNAVAILABLE ? amount : 0);
        set_stake(caller, STAKE_NONE, 0);
    }
    if (wait_ms >= 0) {
        check_limit(began_us, limit_of(wait_ms), false);
    }
    if (answer(status, "acquire of permits")) {
        note_progress(caller, record.at_us);
        work(caller);
        give(caller, &record, amount);
    }
    return status;
}

/* ===== That with leases ===== */

/* The first half of the id is enough to tell permits apart. */
static uint64_t number_of(const pawl_permit *permit)
{
    char digits[17];
    snprintf(digits, sizeof digits, "%.16s", permit->id);
    return strtoull(digits, NULL, 16);
}

static void on_lost(
    pawl_semaphore *whose, pawl_status status, const pawl_permit *permits, size_t count, void *arg)
{
    (void)whose;
    (void)arg;
    if (status != PAWL_LOST || count != 1) {
        complain("the loss of a permit was told as %s", pawl_status_string(status));
        return;
    }
    const struct torture_record record = {.step = RECORD_TOLD,
        .name = NAME_PERMITS,
        .kind = PAWL_MUTEX,
        .token = number_of(&permits[0]),
        .at_us = boottime_us()};
    write_down(&record);
    atomic_fetch_add(&self->told, 1);
}

/* Until when it is surely out: what is left is promised from before the clock is read. A lease that
 * is not renewed counts from before the call. */
static int64_t until_of(bool renews, const pawl_permit *permit, int64_t began_us)
{
    const int64_t now_us = boottime_us();
    if (renews) {
        const int64_t left_ms = pawl_permit_remaining_ms(leased[0], permit);
        return left_ms > 0 ? now_us + left_ms * 1000 : 0;
    }
    return began_us + arena->lease_ms * 1000 * 99 / 100 - 2000;
}

static void give_leased(
    struct torture_record *records, const pawl_permit *permits, size_t count, bool renews)
{
    for (size_t i = 0; i < count; i++) {
        const int64_t until_us = renews ? until_of(renews, &permits[i], 0) : 0;
        records[i].until_us = until_us > records[i].until_us ? until_us : records[i].until_us;
        note_step(&records[i], RECORD_LEAVING);
    }
    const int64_t began_us = boottime_us();
    const pawl_status status = pawl_permit_release(leased[!renews], permits, count);
    check_limit(began_us, arena->timeout_ms, true);
    check_status(status, "release of leased permits");
    atomic_fetch_add(&self->releases[status], 1);
    for (size_t i = 0; i < count; i++) {
        records[i].status = (uint32_t)status;
        note_step(&records[i], RECORD_RELEASED);
    }
}

static pawl_status use_permits(struct caller *caller)
{
    const size_t count = 1 + (size_t)draw_below(&caller->random, TAKE_MOST);
    const bool renews = draw_below(&caller->random, 4) != 0;
    const int64_t wait_ms = renews ? draw_wait_ms(&caller->random) : PAWL_TRY;
    struct torture_record records[TAKE_MOST];
    pawl_permit permits[TAKE_MOST];
    const int64_t began_us = boottime_us();
    const pawl_status status = pawl_permit_acquire(leased[!renews], count, wait_ms, permits);
    if (wait_ms >= 0) {
        check_limit(began_us, limit_of(wait_ms), false);
    }
    if (!answer(status, "acquire of leased permits")) {
        return status;
    }
    for (size_t i = 0; i < count; i++) {
        records[i] = (struct torture_record){
            .name = NAME_PERMITS, .kind = PAWL_MUTEX, .token = number_of(&permits[i])};
        begin(caller, &records[i]);
        records[i].until_us = until_of(renews, &permits[i], began_us);
        write_down(&records[i]);
    }
    note_progress(caller, records[0].at_us);
    work(caller);
    give_leased(records, permits, count, renews);
    return status;
}

/* ===== Latches ===== */

static bool open_latch(unsigned number, pawl_latch **latch_out)
{
    char name[64];
    snprintf(name, sizeof name, "torture:latch:%u", number);
    if (pawl_latch_open(clients[0], name, latch_out) != PAWL_OK) {
        complain("a latch could not be opened: %s", pawl_last_error());
        return false;
    }
    return true;
}

/* The next one: this one is open, or nobody knows whether it will be. */
static void next_latch(unsigned number)
{
    unsigned expected = number;
    atomic_compare_exchange_strong(&arena->latch, &expected, number + 1);
}

static void set_latch(pawl_latch *latch, struct arena_latch *state, unsigned number)
{
    bool set = false;
    unsigned expected = LATCH_NEW;
    if (!atomic_compare_exchange_strong(&state->stage, &expected, LATCH_BEING_SET)) {
        return; /* somebody else does it */
    }
    const pawl_status status = pawl_latch_set(latch, arena->downs, &set);
    check_status(status, "set of a latch");
    if (status == PAWL_OK && !set) {
        complain("latch %u was set before anybody did", number);
    }
    atomic_store(&state->stage, status == PAWL_OK ? LATCH_SET : LATCH_GIVEN_UP);
    if (status != PAWL_OK) {
        next_latch(number);
    }
}

static void count_down(struct caller *caller, pawl_latch *latch, struct arena_latch *state)
{
    if (atomic_fetch_add(&state->tickets, 1) >= arena->downs) {
        return;
    }
    atomic_fetch_add(&state->begun, 1);
    const int64_t began_us = boottime_us();
    const pawl_status status = pawl_latch_count_down(latch);
    check_limit(began_us, arena->timeout_ms, true);
    if (answer(status, "count down")) {
        atomic_fetch_add(&state->counted, 1);
        atomic_fetch_add(&arena->latches_counted, 1);
        note_progress(caller, boottime_us());
    }
}

/* What the latch says lies between what was answered before and what has begun since. */
static void check_count(pawl_latch *latch, const struct arena_latch *state, unsigned number)
{
    int64_t left = 0;
    const unsigned counted = atomic_load(&state->counted);
    const pawl_status status = pawl_latch_count(latch, &left);
    const unsigned begun = atomic_load(&state->begun);
    if (!answer(status, "count of a latch")) {
        return;
    }
    atomic_fetch_add(&arena->latches_checked, 1);
    const int64_t least = (int64_t)arena->downs - begun;
    const int64_t most = (int64_t)arena->downs - counted;
    if (left < least || left > most) {
        complain("latch %u has %" PRId64
                 " left, but of %u calls to count down %u were answered and "
                 "%u had begun",
            number, left, arena->downs, counted, begun);
    }
}

static void wait_for_latch(
    struct caller *caller, pawl_latch *latch, const struct arena_latch *state, unsigned number)
{
    const bool counted = atomic_load(&state->counted) == arena->downs;
    const int64_t wait_ms = counted ? PAWL_TRY : draw_between(&caller->random, 1, LATCH_WAIT_MS);
    const pawl_status status = pawl_latch_wait(latch, wait_ms);
    check_status(status, "wait for a latch");
    if (status == PAWL_OK) {
        atomic_fetch_add(&arena->latches_opened, 1);
        note_progress(caller, boottime_us());
        if (atomic_load(&state->begun) < arena->downs) {
            complain("latch %u opened when %u of %u calls had begun", number,
                atomic_load(&state->begun), arena->downs);
        }
        next_latch(number);
    } else if (status == PAWL_BUSY && counted) {
        complain("latch %u is not open, but all %u calls were answered", number, arena->downs);
    }
}

static bool is_old(unsigned number)
{
    int64_t expected = 0;
    const int64_t now_us = boottime_us();
    if (atomic_compare_exchange_strong(&latch_seen_us[number], &expected, now_us)) {
        return false;
    }
    return now_us - expected > LATCH_AGE_MS * 1000;
}

static void use_latch(struct caller *caller)
{
    const unsigned number = atomic_load(&arena->latch);
    pawl_latch *latch = NULL;
    if (number >= ARENA_LATCHES_MAX || !open_latch(number, &latch)) {
        return;
    }
    struct arena_latch *state = &arena->latches[number];
    if (atomic_load(&state->stage) == LATCH_NEW) {
        set_latch(latch, state, number);
    }
    if (atomic_load(&state->stage) == LATCH_SET) {
        const uint64_t chance = draw_below(&caller->random, 10);
        if (chance < 5) {
            count_down(caller, latch, state);
        } else if (chance < 7) {
            check_count(latch, state, number);
        } else {
            wait_for_latch(caller, latch, state, number);
        }
    }
    if (is_old(number)) {
        next_latch(number); /* whoever set it or had one of its tickets may be dead */
    }
    pawl_latch_close(latch);
}

/* ===== All ===== */

void visit_count(struct caller *caller)
{
    const uint64_t chance = draw_below(&caller->random, 10);
    if (chance < 2) {
        use_latch(caller);
        return;
    }
    const pawl_status status = chance < 6 ? use_semaphore(caller) : use_permits(caller);
    atomic_fetch_add(&self->acquires[status], 1);
    if (status == PAWL_OK) {
        note_memory();
    } else {
        pass_us(status == PAWL_BUSY ? 200 : 2000);
    }
}

static bool open_one(const char *name, bool with_leases, bool renews, pawl_semaphore **out)
{
    pawl_semaphore_options options = PAWL_SEMAPHORE_OPTIONS_INIT;
    options.leased = with_leases;
    options.lease_ms = arena->lease_ms;
    options.renew = renews;
    options.on_lost = with_leases && renews ? on_lost : NULL;
    if (pawl_semaphore_open(clients[0], name, &options, out) != PAWL_OK) {
        complain("a semaphore could not be opened: %s", pawl_last_error());
        return false;
    }
    return true;
}

bool counts_open(void)
{
    return open_one(ARENA_SEMAPHORE, false, true, &semaphore) &&
           open_one(ARENA_PERMITS, true, true, &leased[0]) &&
           open_one(ARENA_PERMITS, true, false, &leased[1]);
}

void counts_close(void)
{
    pawl_semaphore_close(semaphore);
    pawl_semaphore_close(leased[0]);
    pawl_semaphore_close(leased[1]);
}
