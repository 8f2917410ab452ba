/* SPDX-License-Identifier: Apache-2.0 */
/* What a worker does with locks, drawn from its seed: which name, and with it which kind of lock;
 * waiting for ever, for a while or not at all; by thread, by handle and asynchronously; renewed and
 * fixed leases; work from nothing to longer than a lease; now and then a re-entry or an extension.
 * Nothing here looks whether a hold is still valid before it writes: the clock does that
 * afterwards, in the oracles, and the register at once. */
#include "torture/lib/worker_parts.h"

#include "support/wait.h"

#include <inttypes.h>
#include <stdio.h>

enum {
    LOOK_US = 1000, /* how often a holder at work looks whether it still holds */
    READERS_OF_TEN = 7,
    SEVERAL_OF_HUNDRED = 12,
};

struct handle shared[2][2][ARENA_NAMES_MAX];

/* ===== What the library says ===== */

static void on_lost(const pawl_event *event, void *arg)
{
    const struct handle *handle = arg;
    const struct torture_record record = {.step = RECORD_TOLD,
        .name = handle->name,
        .kind = handle->kind,
        .hold = event->owner,
        .token = event->token,
        .at_us = boottime_us()};
    write_down(&record);
    atomic_fetch_add(&self->told, 1);
    if (event->status != PAWL_LOST) {
        complain("on_lost was told %s", pawl_status_string(event->status));
    }
}

/* Take in how long the hold is promised now. The clock is read first, so this is no more than what
 * is promised. */
void look(struct visit *visit)
{
    const int64_t at_us = boottime_us();
    const int64_t left_ms = pawl_lock_remaining_ms(visit->lock);
    if (left_ms == INT64_MAX) {
        visit->record.until_us = INT64_MAX;
    } else if (left_ms > 0 && at_us + left_ms * 1000 > visit->record.until_us) {
        visit->record.until_us = at_us + left_ms * 1000;
    }
}

/* ===== Calling ===== */

static void on_done(pawl_lock *lock, pawl_status status, void *arg)
{
    (void)lock;
    struct caller *caller = arg;
    caller->answer = status;
    sem_post(&caller->answered);
}

static pawl_status await_done(struct caller *caller, pawl_status started)
{
    if (started != PAWL_OK) {
        return started;
    }
    while (sem_wait(&caller->answered) != 0) {
    }
    return caller->answer;
}

static pawl_status acquire(const struct visit *visit, int64_t wait_ms)
{
    const int64_t began_us = boottime_us();
    struct caller *caller = visit->caller;
    const pawl_status status =
        visit->style == STYLE_ASYNC
            ? await_done(caller, pawl_lock_acquire_async(visit->lock, wait_ms, on_done, caller))
            : pawl_lock_acquire(visit->lock, wait_ms);
    if (wait_ms >= 0) {
        check_limit(began_us, wait_ms > arena->timeout_ms ? wait_ms : arena->timeout_ms, false);
    }
    check_status(status, "acquire");
    if (status == PAWL_LOST) {
        complain("acquire says that this thread has something to release first");
    }
    atomic_fetch_add(&self->acquires[status], 1);
    return status;
}

static pawl_status release(const struct visit *visit)
{
    const int64_t began_us = boottime_us();
    struct caller *caller = visit->caller;
    const pawl_status status =
        visit->style == STYLE_ASYNC
            ? await_done(caller, pawl_lock_release_async(visit->lock, on_done, caller))
            : pawl_lock_release(visit->lock);
    check_limit(began_us, arena->timeout_ms, true);
    check_status(status, "release");
    if (status == PAWL_BUSY) {
        complain("release answered busy");
    }
    atomic_fetch_add(&self->releases[status], 1);
    return status;
}

/* ===== A visit ===== */

/* From nothing to a good deal longer than a lease; mostly nothing. */
static int64_t draw_work_us(uint64_t *random)
{
    const uint64_t chance = draw_below(random, 10000);
    const int64_t most_us = chance < 7000   ? 0
                            : chance < 9500 ? 300
                            : chance < 9965 ? 2000
                            : chance < 9993 ? 20000
                                            : arena->lease_ms * 2000;
    return most_us == 0 ? 0 : draw_between(random, most_us / 4, most_us);
}

/* A fixed lease is not outlived often, as that is no news. */
static void work(struct visit *visit)
{
    int64_t work_us = draw_work_us(&visit->caller->random);
    if (visit->style == STYLE_FIXED && work_us > arena->lease_ms * 500 &&
        draw_below(&visit->caller->random, 4) != 0) {
        work_us /= 4;
    }
    const int64_t end_us = boottime_us() + work_us;
    int64_t left_us = work_us;
    for (; left_us > 0 && goes_on(); left_us = end_us - boottime_us()) {
        pass_us(left_us < LOOK_US ? left_us : LOOK_US);
        look(visit);
    }
}

static void enter_again(struct visit *visit)
{
    const pawl_status status = pawl_lock_acquire(visit->lock, PAWL_TRY);
    check_status(status, "re-entry");
    if (status == PAWL_BUSY) {
        complain("re-entry answered busy");
    }
    if (status == PAWL_OK) {
        const pawl_status left = pawl_lock_release(visit->lock);
        if (left != PAWL_OK && left != PAWL_LOST) {
            complain("the inner release answered %s", pawl_status_string(left));
        }
    }
}

/* Who writes may read as well; who reads must not wait for itself to write. */
static void enter_other(struct visit *visit)
{
    const bool reads = visit->record.kind == PAWL_READ;
    pawl_lock *lock = shared[!reads][visit->style][visit->record.name].lock;
    const pawl_status status = pawl_lock_acquire(lock, PAWL_FOREVER);
    if (reads ? status != PAWL_DEADLOCK && status != PAWL_LOST : is_wrong(status)) {
        complain("to %s answered %s to who %s", reads ? "write" : "read",
            pawl_status_string(status), reads ? "reads" : "writes");
    }
    if (status == PAWL_OK) {
        const pawl_status left = pawl_lock_release(lock);
        if (left != PAWL_OK && left != PAWL_LOST) {
            complain("the inner release answered %s", pawl_status_string(left));
        }
    }
}

static void embellish(struct visit *visit)
{
    const uint64_t chance = draw_below(&visit->caller->random, 100);
    if (chance < 4 && visit->style != STYLE_ASYNC) {
        enter_again(visit);
    } else if (chance < 8 && visit->style != STYLE_ASYNC &&
               arena->kinds[visit->record.name] == PAWL_WRITE) {
        enter_other(visit);
    } else if (chance < 10) {
        const pawl_status status = pawl_lock_extend(visit->lock, arena->lease_ms);
        check_status(status, "extend");
        if (status == PAWL_BUSY) {
            complain("extend answered busy");
        }
    }
}

/* The acquire has just returned. */
void enter(struct visit *visit)
{
    struct torture_record *record = &visit->record;
    struct arena_cell *cell = &arena->cells[record->name];
    record->at_us = boottime_us();
    record->token = arena->unlocked ? (uint64_t)record->at_us : pawl_lock_token(visit->lock);
    record->hold = (uint64_t)visit->caller->index << RECORD_THREAD_SHIFT | ++visit->caller->holds;
    if (arena->unlocked) {
        record->until_us = INT64_MAX;
    } else {
        look(visit);
    }
    if (record->token != 0 && record->token < arena->token_base) {
        complain("token %" PRIu64 " is older than the run", record->token);
    }
    record->raised = record->token != 0 && record->kind != PAWL_READ &&
                     register_raise(arena, cell, record->token);
    record->seen = atomic_load(&cell->number);
    record->read_us = boottime_us();
    record->step = RECORD_ACQUIRED;
    write_down(record);
    note_progress(visit->caller, record->read_us);
}

/* Who reads looks once more, who writes stores the next one. */
static void touch_number(struct torture_record *record, struct arena_cell *cell)
{
    if (record->kind == PAWL_READ) {
        record->written = atomic_load(&cell->number);
    } else {
        atomic_store(&cell->number, record->seen + 1);
    }
    record->added = true;
    record->stored_us = boottime_us();
}

/* The release is about to be called. */
void leave(struct visit *visit)
{
    struct torture_record *record = &visit->record;
    struct arena_cell *cell = &arena->cells[record->name];
    if (!arena->unlocked) {
        look(visit);
    }
    if (arena->unlocked || pawl_lock_remaining_ms(visit->lock) > 0) {
        touch_number(record, cell);
    }
    if (record->kind != PAWL_READ) {
        record->written = record->raised ? register_write(arena, cell, record->token) : 0;
        record->wrote = record->written != 0;
    }
    record->step = RECORD_LEAVING;
    record->at_us = boottime_us();
    write_down(record);
}

void left(struct visit *visit, pawl_status status)
{
    visit->record.status = (uint32_t)status;
    visit->record.step = RECORD_RELEASED;
    visit->record.at_us = boottime_us();
    write_down(&visit->record);
    note_memory();
}

static void hold(struct visit *visit)
{
    enter(visit);
    if (!arena->unlocked) {
        embellish(visit);
    }
    work(visit);
    leave(visit);
    left(visit, arena->unlocked ? PAWL_OK : release(visit));
}

void visit_lock(struct caller *caller)
{
    if (arena->several && draw_below(&caller->random, 100) < SEVERAL_OF_HUNDRED) {
        visit_several(caller);
        return;
    }
    const unsigned name = (unsigned)draw_below(&caller->random, arena->names);
    const uint64_t chance = draw_below(&caller->random, 10);
    const enum style style = chance < 7 ? STYLE_RENEWED : chance < 9 ? STYLE_FIXED : STYLE_ASYNC;
    const int64_t wait_ms = draw_wait_ms(&caller->random);
    const bool reads =
        arena->kinds[name] == PAWL_WRITE && draw_below(&caller->random, 10) < READERS_OF_TEN;
    const struct handle *handle =
        style == STYLE_ASYNC ? &caller->own[reads][name] : &shared[reads][style][name];
    struct visit visit = {.caller = caller,
        .lock = handle->lock,
        .style = style,
        .record = {.name = name, .kind = handle->kind}};
    const pawl_status status = arena->unlocked ? PAWL_OK : acquire(&visit, wait_ms);
    if (status == PAWL_OK) {
        hold(&visit);
    } else {
        pass_us(status == PAWL_BUSY ? 200 : 2000); /* a fault may come at once */
    }
}

/* ===== Beginning and end ===== */

static pawl_status open_one(struct handle *handle, unsigned name, enum style style, bool reads)
{
    char text[64];
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    handle->kind = reads ? PAWL_READ : arena->kinds[name];
    options.kind = handle->kind;
    options.handoff = arena->handoffs[name];
    options.lease_ms = arena->lease_ms;
    options.renew = style != STYLE_FIXED;
    options.owner = style == STYLE_ASYNC ? PAWL_OWNER_HANDLE : PAWL_OWNER_THREAD;
    options.on_lost = on_lost;
    options.event_arg = handle;
    handle->name = name;
    snprintf(text, sizeof text, ARENA_NAME_FORMAT, name);
    options.max_lease_ms = arena->theme == THEME_QUORUM ? arena->lease_ms : 0;
    const pawl_status status =
        arena->theme == THEME_QUORUM
            ? pawl_lock_open_quorum(clients, arena->servers, text, &options, &handle->lock)
            : pawl_lock_open(clients[0], text, &options, &handle->lock);
    check_status(status, "open");
    return status;
}

static bool open_name(unsigned name, bool reads)
{
    struct handle(*both)[ARENA_NAMES_MAX] = shared[reads];
    bool opened = open_one(&both[STYLE_RENEWED][name], name, STYLE_RENEWED, reads) == PAWL_OK &&
                  open_one(&both[STYLE_FIXED][name], name, STYLE_FIXED, reads) == PAWL_OK;
    for (unsigned i = 0; opened && i < arena->threads; i++) {
        opened = open_one(&callers[i].own[reads][name], name, STYLE_ASYNC, reads) == PAWL_OK;
    }
    return opened;
}

bool locks_open(void)
{
    for (unsigned i = 0; i < arena->names; i++) {
        if (!open_name(i, false) || (arena->kinds[i] == PAWL_WRITE && !open_name(i, true))) {
            complain("a lock could not be opened: %s", pawl_last_error());
            return false;
        }
    }
    for (unsigned i = 0; arena->several && i < arena->threads; i++) {
        if (!multis_open(&callers[i])) {
            complain("a multi-lock could not be opened: %s", pawl_last_error());
            return false;
        }
    }
    return true;
}

void locks_close(void)
{
    for (unsigned i = 0; i < arena->threads; i++) {
        multis_close(&callers[i]);
    }
    for (unsigned i = 0; i < 2 * arena->names; i++) {
        const unsigned name = i / 2;
        pawl_lock_close(shared[i % 2][STYLE_RENEWED][name].lock);
        pawl_lock_close(shared[i % 2][STYLE_FIXED][name].lock);
        for (unsigned j = 0; j < arena->threads; j++) {
            pawl_lock_close(callers[j].own[i % 2][name].lock);
        }
    }
}
