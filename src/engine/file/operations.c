/* SPDX-License-Identifier: Apache-2.0 */
/* The operations: what acquire, release, pass and so on do to one lock file.
 *
 * Acquire: open the file if it is not open, register as a waiter if the core watches, lock byte 0,
 * look whether the path still leads to this file, count the token up. Release: unlock byte 0, ask
 * whether anybody waits on byte 1, and only then touch the file; look at the path. No wake-up is
 * lost: a waiter locks byte 1 and starts to listen *before* it tries byte 0. If its try failed, the
 * release that it waits for comes after the try, and so sees byte 1 taken.
 *
 * Locality: any thread, with the engine's mutex held. All of it is fast system calls. */
#include "engine/file/file.h"

#include "base/alloc.h"
#include "base/error.h"

#include <string.h>

/* ===== Who holds ===== */

/* Whether this tenure holds: what we know of it, confirmed by the path. Once it does not, it never
 * will. */
static pawl_status confirm(
    struct pawl__file_engine *self, struct pawl__file_place *place, uint64_t id)
{
    pawl__news_drain(self);
    if (!place->held || place->id != id) {
        return PAWL_LOST;
    }
    pawl_status status = pawl__place_check(self, place);
    if (status == PAWL_LOST) {
        pawl__place_lose(self, place, false);
    }
    return status;
}

/* ===== Answers ===== */

static void answer(struct pawl__op *op, enum pawl__answer what)
{
    op->answer = what;
    op->fenced = true; /* nothing of ours is ever under way */
}

/* The last error becomes the operation's. */
static void fail(struct pawl__op *op, pawl_status status)
{
    op->answer = PAWL__FAILED;
    op->status = status;
    op->again = status == PAWL_UNAVAILABLE || status == PAWL_NO_MEMORY;
    op->error = pawl__strdup(pawl__error_text());
}

/* ===== Operations ===== */

/* The place is held: by this tenure, whose first answer went unheard, or by one that the core
 * believes to be over. PAWL_LOST: it is not, after all. */
static pawl_status acquire_again(
    struct pawl__file_engine *self, struct pawl__file_place *place, struct pawl__op *op)
{
    pawl_status status = pawl__place_check(self, place);
    if (status == PAWL_OK) {
        op->token = place->token;
        op->hint_us = -1;
        answer(op, place->id == op->id ? PAWL__DONE : PAWL__HELD);
    } else if (status == PAWL_LOST) {
        pawl__place_lose(self, place, place->id != op->id);
    } else {
        fail(op, status);
    }
    return status;
}

/* Lock byte 0 and write down whose it is now. */
static pawl_status take(
    struct pawl__file_engine *self, struct pawl__file_place *place, struct pawl__op *op)
{
    struct pawl__grant grant = {.id = op->id};
    pawl_status status = pawl__place_lock(self, place, &grant);
    if (status != PAWL_OK) {
        return status;
    }
    status = pawl__place_grant(self, place, &grant);
    if (status != PAWL_OK) {
        pawl__place_unlock(self, place, PAWL__BYTE_HOLD);
        return status;
    }
    place->wake_due = false;
    pawl__place_set_held(self, place, true);
    return PAWL_OK;
}

static void acquire(
    struct pawl__file_engine *self, struct pawl__file_place *place, struct pawl__op *op)
{
    if (place->held) {
        pawl__news_drain(self);
    }
    if (place->held && acquire_again(self, place, op) != PAWL_LOST) {
        return;
    }
    op->hint_us = -1;
    if (place->lost_due && place->lost_id != op->id) {
        /* Another thread is about to tell the host that the tenure before this one was lost. Until
         * then that one holds. */
        pawl__news_wake(self, place);
        answer(op, PAWL__HELD);
        return;
    }
    place->lost_due = false;
    pawl_status status = take(self, place, op);
    if (status == PAWL_OK) {
        op->token = place->token;
        answer(op, PAWL__DONE);
    } else if (status == PAWL_BUSY) {
        answer(op, PAWL__HELD);
    } else {
        fail(op, status);
    }
}

/* Renew and verify. The kernel keeps the lock as long as this process lives, so there is nothing to
 * renew. */
static void verify(
    struct pawl__file_engine *self, struct pawl__file_place *place, struct pawl__op *op)
{
    pawl_status status = confirm(self, place, op->id);
    if (status == PAWL_OK) {
        answer(op, PAWL__DONE);
    } else if (status == PAWL_LOST) {
        answer(op, PAWL__GONE);
    } else {
        fail(op, status);
    }
}

static void show_count(
    struct pawl__file_engine *self, struct pawl__file_place *place, struct pawl__op *op)
{
    if (confirm(self, place, op->id) == PAWL_LOST) {
        answer(op, PAWL__GONE);
        return;
    }
    pawl_status status = pawl__lockfile_write_count(&place->file, op->count);
    if (status == PAWL_OK) {
        answer(op, PAWL__DONE);
    } else {
        fail(op, status);
    }
}

static void release(
    struct pawl__file_engine *self, struct pawl__file_place *place, struct pawl__op *op)
{
    if (!place->held || place->id != op->id) {
        answer(op, PAWL__GONE);
        return;
    }
    op->others = pawl__place_release(self, place);
    bool lost = pawl__place_check_released(self, place) == PAWL_LOST;
    answer(op, lost ? PAWL__GONE : PAWL__DONE);
}

/* Byte 0 stays locked; only the record tells that the tenure is another one. */
static void pass(
    struct pawl__file_engine *self, struct pawl__file_place *place, struct pawl__op *op)
{
    if (confirm(self, place, op->id) == PAWL_LOST) {
        answer(op, PAWL__GONE);
        return;
    }
    if (op->offer && pawl__lockfile_is_taken(&place->file, PAWL__BYTE_WAIT)) {
        op->others = pawl__place_release(self, place);
        answer(op, PAWL__LEFT);
        return;
    }
    struct pawl__grant grant = {.id = op->heir_id, .token = place->token + 1, .ours = true};
    pawl_status status = pawl__place_grant(self, place, &grant);
    if (status != PAWL_OK) {
        fail(op, status);
        return;
    }
    op->token = grant.token;
    answer(op, PAWL__DONE);
}

static void inspect(
    struct pawl__file_engine *self, struct pawl__file_place *place, struct pawl__op *op)
{
    pawl_lock_info *info = op->info;
    struct pawl__record record;
    memset(&record, ' ', sizeof record);
    pawl__news_drain(self);
    pawl_status status = place->file.fd >= 0 ? pawl__place_check(self, place) : PAWL_OK;
    if (status == PAWL_LOST) {
        pawl__place_lose(self, place, true);
        status = PAWL_OK;
    }
    if (status == PAWL_OK) {
        status = pawl__place_open(self, place, false);
    }
    if (status == PAWL_OK) {
        status = pawl__lockfile_read(&place->file, &record);
    }
    if (status != PAWL_OK && status != PAWL_LOST) {
        fail(op, status);
        return;
    }
    /* The kernel does not tell us of our own lock. */
    info->held = place->held ||
                 (status == PAWL_OK && pawl__lockfile_is_taken(&place->file, PAWL__BYTE_HOLD));
    info->hold_count = info->held ? pawl__record_count(&record) : 0;
    info->remaining_ms = info->held ? -1 : 0;
    info->token = pawl__record_token(&record);
    info->holder[0] = '\0';
    if (info->held) {
        pawl__record_holder(&record, info->holder);
    }
    answer(op, PAWL__DONE);
}

/* The new file is the place's from now on. It is still locked. */
static void adopt(struct pawl__file_engine *self, struct pawl__file_place *place,
    const struct pawl__lockfile *fresh)
{
    place->file = *fresh;
    if (place->watched && pawl__place_register(place) != PAWL_OK) {
        pawl__lockfile_close(&place->file); /* the next acquire opens it again */
        return;
    }
    pawl__news_begin(self, place);
    pawl__place_unlock(self, place, PAWL__BYTE_BREAK);
    if (place->file.fd >= 0) {
        pawl__place_release(self, place);
    }
}

/* PAWL__BYTE_BREAK is ours. */
static pawl_status replace(struct pawl__file_engine *self, struct pawl__file_place *place)
{
    struct pawl__lockfile old;
    pawl_status status = pawl__lockfile_replace(&place->file, &self->record, &old);
    if (status == PAWL_OK) {
        struct pawl__lockfile fresh = place->file;
        place->file = old;
        pawl__place_lose(self, place, true);
        adopt(self, place, &fresh);
    }
    return status;
}

static void break_lock(
    struct pawl__file_engine *self, struct pawl__file_place *place, struct pawl__op *op)
{
    pawl_status status = pawl__place_lock_break(self, place);
    if (status == PAWL_LOST) {
        answer(op, PAWL__GONE); /* there is not even a file */
        return;
    }
    if (status == PAWL_BUSY) {
        fail(op, pawl__fail(PAWL_UNAVAILABLE, "somebody else is breaking this lock; try again"));
        return;
    }
    bool locked = status == PAWL_OK;
    bool held = locked && (place->held || pawl__lockfile_is_taken(&place->file, PAWL__BYTE_HOLD));
    if (held) {
        status = replace(self, place);
    }
    if (locked && (!held || status != PAWL_OK)) {
        pawl__place_unlock(self, place, PAWL__BYTE_BREAK);
    }
    if (status == PAWL_OK) {
        answer(op, held ? PAWL__DONE : PAWL__GONE);
    } else {
        fail(op, status);
    }
}

static void watch(
    struct pawl__file_engine *self, struct pawl__file_place *place, struct pawl__op *op)
{
    pawl_status status = PAWL_OK;
    if (!place->watched) {
        place->watched = true;
        self->watched_count++;
        if (place->file.fd < 0) {
            status = pawl__place_open(self, place, true);
        } else {
            status = pawl__place_register(place);
            pawl__news_begin(self, place);
        }
    }
    if (status == PAWL_OK) {
        answer(op, PAWL__DONE);
        return;
    }
    place->watched = false;
    self->watched_count--;
    pawl__news_rearm(self, place);
    fail(op, status);
}

static void unwatch(
    struct pawl__file_engine *self, struct pawl__file_place *place, struct pawl__op *op)
{
    if (place->watched) {
        place->watched = false;
        self->watched_count--;
        place->wake_due = false;
        pawl__news_rearm(self, place);
        if (place->file.fd >= 0) {
            pawl__place_unlock(self, place, PAWL__BYTE_WAIT);
        }
    }
    answer(op, PAWL__DONE);
}

static void perform(
    struct pawl__file_engine *self, struct pawl__file_place *place, struct pawl__op *op)
{
    switch (op->kind) {
    case PAWL__OP_ACQUIRE:
        acquire(self, place, op);
        break;
    case PAWL__OP_RENEW:
    case PAWL__OP_VERIFY:
        verify(self, place, op);
        break;
    case PAWL__OP_COUNT:
        show_count(self, place, op);
        break;
    case PAWL__OP_RELEASE:
        release(self, place, op);
        break;
    case PAWL__OP_PASS:
        pass(self, place, op);
        break;
    case PAWL__OP_INSPECT:
        inspect(self, place, op);
        break;
    case PAWL__OP_BREAK:
        break_lock(self, place, op);
        break;
    case PAWL__OP_TALLY: /* never asked: not among the families */
    case PAWL__OP_RAISE: /* nobody asks: see `raises` */
        op->answer = PAWL__FAILED;
        op->status = PAWL_UNSUPPORTED;
        break;
    case PAWL__OP_WATCH:
        watch(self, place, op);
        break;
    case PAWL__OP_UNWATCH:
        unwatch(self, place, op);
        break;
    }
}

void pawl__file_perform(struct pawl__file_engine *self, struct pawl__op *op)
{
    struct pawl__file_place *place = (struct pawl__file_place *)(void *)op->place;
    perform(self, place, op);
    pawl__place_settle(self, place);
}
