/* SPDX-License-Identifier: Apache-2.0 */
/* The lock file of one place: kept open from one operation to the next, closed when it turns out to
 * be no longer the one that its path leads to.
 *
 * Alone. A process that takes a lock again and again, with nobody else near, need not read its own
 * token back each time, nor ask each time whether anybody waits. After a few grants in a row it
 * begins to hear of everybody who opens the file, and writes "alone" into the record. From then on
 * whoever else locks a byte of the file (to hold the lock, or to wait for it), and then reads that
 * record, opens the file once more before it goes on. So:
 *  - If somebody else was granted the lock, it opened the file while it held it, and we hear of
 *    that when we have locked the byte ourselves. If we hear nothing, the last token is ours.
 *  - If somebody waits whose try failed, it opened the file before that try, and so before our
 *    release; or it read the record before "alone" stood there, and then it had registered before
 *    we asked, once, at the first release after that.
 * What is heard ends it, until the next grant. Nothing is written later or less often than
 * otherwise: who reads the file finds what it would find without all this.
 *
 * Locality: any thread, with the engine's mutex held. */
#include "engine/file/file.h"

#include "base/error.h"

#include <assert.h>

#define TRIES_MAX 16      /* how often the file may be replaced under our hands in one operation */
#define ALONE_STREAK 4    /* so many grants in a row, and we believe to be alone */
#define IDLE_COUNT_MAX 64 /* files kept open only to be faster next time */

void pawl__place_close(struct pawl__file_engine *self, struct pawl__file_place *place)
{
    assert(!place->held);
    if (!pawl__list_empty(&place->idle_node)) {
        pawl__list_remove(&place->idle_node);
        self->idle_count--;
    }
    pawl__news_end(self, place);
    pawl__lockfile_close(&place->file);
    place->streak = 0;
}

static bool close_oldest_idle(struct pawl__file_engine *self)
{
    if (self->idle_count == 0) {
        return false;
    }
    pawl__place_close(self, PAWL__CONTAINER(self->idle.next, struct pawl__file_place, idle_node));
    return true;
}

void pawl__place_settle(struct pawl__file_engine *self, struct pawl__file_place *place)
{
    bool was_idle = !pawl__list_empty(&place->idle_node);
    bool is_idle = place->file.fd >= 0 && !place->held && !place->watched;
    if (was_idle) {
        pawl__list_remove(&place->idle_node);
        self->idle_count--;
    }
    if (is_idle) {
        pawl__list_push(&self->idle, &place->idle_node);
        self->idle_count++;
    }
    if (self->idle_count > IDLE_COUNT_MAX) {
        close_oldest_idle(self);
    }
}

pawl_status pawl__place_register(struct pawl__file_place *place)
{
    pawl_status status = pawl__lockfile_lock(&place->file, PAWL__BYTE_WAIT);
    if (status == PAWL_OK && pawl__lockfile_is_alone(&place->file)) {
        status = pawl__lockfile_announce(&place->file);
        if (status != PAWL_OK) {
            pawl__lockfile_unlock(&place->file, PAWL__BYTE_WAIT);
        }
    }
    return status;
}

pawl_status pawl__place_open(
    struct pawl__file_engine *self, struct pawl__file_place *place, bool create)
{
    if (place->file.fd >= 0) {
        return PAWL_OK;
    }
    pawl_status status = pawl__lockfile_open(&place->file, create);
    if (status == PAWL_UNAVAILABLE && self->idle_count > 0) {
        /* Whatever it was short of: give back what we only keep to be fast. */
        while (close_oldest_idle(self)) {
        }
        status = pawl__lockfile_open(&place->file, create);
    }
    if (status != PAWL_OK) {
        return status;
    }
    if (place->watched) {
        status = pawl__place_register(place);
        if (status != PAWL_OK) {
            pawl__lockfile_close(&place->file);
            return status;
        }
    }
    pawl__news_begin(self, place);
    return PAWL_OK;
}

void pawl__place_set_held(struct pawl__file_engine *self, struct pawl__file_place *place, bool held)
{
    if (place->held == held) {
        return;
    }
    place->held = held;
    if (held) {
        self->held_count++;
    } else {
        self->held_count--;
    }
    pawl__news_rearm(self, place);
}

void pawl__place_lose(struct pawl__file_engine *self, struct pawl__file_place *place, bool tell)
{
    if (place->held && tell) {
        pawl__news_lost(self, place);
    }
    pawl__place_set_held(self, place, false);
    pawl__place_close(self, place);
    if (place->watched) {
        pawl__news_wake(self, place); /* the next acquire opens the new file and registers there */
    }
}

/* Unlocking needs memory. If there is none, closing the file does it too; who waits hears that as
 * well. */
void pawl__place_unlock(
    struct pawl__file_engine *self, struct pawl__file_place *place, enum pawl__lock_byte byte)
{
    if (!pawl__lockfile_unlock(&place->file, byte)) {
        pawl__place_lose(self, place, true);
    }
}

/* Looking at the path costs as much as two or three other calls. The kernel tells us of every
 * change to it, before the call that changes it returns and, for all changes but a rename over the
 * file, before anybody else can find another file there; and whoever breaks a lock keeps the new
 * file locked until after its rename. So where the file is watched and nothing was told since the
 * last look, the path still leads to it. */
pawl_status pawl__place_check(struct pawl__file_engine *self, struct pawl__file_place *place)
{
    if (place->sure) {
        return PAWL_OK;
    }
    pawl_status status = pawl__lockfile_check(&place->file);
    place->sure = status == PAWL_OK && place->wd >= 0 && self->directory.is_local;
    return status;
}

/* Find out the token of the grant. If we are alone we know it, unless the news tell otherwise. */
static pawl_status prepare(
    struct pawl__file_engine *self, struct pawl__file_place *place, struct pawl__grant *grant)
{
    if (place->alone) {
        pawl__news_drain(self);
    }
    if (place->alone) {
        grant->token = place->token + 1;
        grant->ours = true;
        return PAWL_OK;
    }
    pawl_status status = pawl__lockfile_prepare(&place->file, &self->record, grant);
    pawl__news_drain(self);
    return status;
}

/* Lock a byte of the open file, prepare the grant if there is to be one, and look at the path.
 * PAWL_LOST: it leads elsewhere, and the file was let go. */
static pawl_status lock_once(struct pawl__file_engine *self, struct pawl__file_place *place,
    enum pawl__lock_byte byte, struct pawl__grant *grant)
{
    pawl_status status = pawl__lockfile_lock(&place->file, byte);
    bool locked = status == PAWL_OK;
    if (locked && grant != NULL) {
        status = prepare(self, place, grant);
    } else {
        pawl__news_drain(self);
    }
    if (place->file.fd < 0) {
        return PAWL_LOST; /* what we held ourselves is lost, and let go already */
    }
    pawl_status path = pawl__place_check(self, place);
    if (path == PAWL_LOST) {
        pawl__place_lose(self, place, true);
        return PAWL_LOST;
    }
    status = path == PAWL_OK ? status : path;
    if (locked && status != PAWL_OK) {
        pawl__place_unlock(self, place, byte);
    }
    return status;
}

static pawl_status lock_current(struct pawl__file_engine *self, struct pawl__file_place *place,
    enum pawl__lock_byte byte, struct pawl__grant *grant)
{
    bool create = byte == PAWL__BYTE_HOLD;
    for (int i = 0; i < TRIES_MAX; i++) {
        pawl_status status = pawl__place_open(self, place, create);
        if (status == PAWL_OK) {
            status = lock_once(self, place, byte, grant);
            if (status == PAWL_LOST) {
                continue;
            }
        }
        return status;
    }
    return pawl__fail(PAWL_UNAVAILABLE, "%.150s/%s is being replaced all the time; try again",
        self->directory.path, place->file.file_name);
}

pawl_status pawl__place_lock(
    struct pawl__file_engine *self, struct pawl__file_place *place, struct pawl__grant *grant_out)
{
    return lock_current(self, place, PAWL__BYTE_HOLD, grant_out);
}

pawl_status pawl__place_lock_break(struct pawl__file_engine *self, struct pawl__file_place *place)
{
    return lock_current(self, place, PAWL__BYTE_BREAK, NULL);
}

/* Whether to ask to be told of who comes. */
static bool is_solitary(struct pawl__file_engine *self, struct pawl__file_place *place)
{
    return place->streak >= ALONE_STREAK && self->directory.is_local && !place->watched &&
           pawl__news_hear_opens(self, place);
}

pawl_status pawl__place_grant(
    struct pawl__file_engine *self, struct pawl__file_place *place, struct pawl__grant *grant)
{
    bool was_alone = place->alone;
    if (grant->announce) {
        pawl_status status = pawl__lockfile_announce(&place->file);
        if (status != PAWL_OK) {
            return status;
        }
    }
    if (!was_alone) {
        bool again = grant->ours && grant->token == place->token + 1;
        place->streak = again ? place->streak + 1 : 0;
    }
    grant->alone = was_alone || is_solitary(self, place);
    place->alone = false; /* if the record is written in part only */
    pawl_status status = pawl__lockfile_grant(&place->file, &self->record, grant);
    if (status != PAWL_OK) {
        return status;
    }
    place->id = grant->id;
    place->token = grant->token;
    place->alone = grant->alone;
    place->unawaited = place->unawaited && was_alone;
    return PAWL_OK;
}

/* Nobody is missed who waits: its try failed, so the unlock comes after the try, and the question
 * after the unlock. */
static bool is_awaited(struct pawl__file_place *place)
{
    if (place->alone && place->unawaited) {
        return false;
    }
    place->unawaited = !pawl__lockfile_is_taken(&place->file, PAWL__BYTE_WAIT);
    return !place->unawaited;
}

bool pawl__place_release(struct pawl__file_engine *self, struct pawl__file_place *place)
{
    pawl__place_set_held(self, place, false);
    if (place->watched) {
        pawl__place_unlock(self, place, PAWL__BYTE_HOLD);
    } else if (!pawl__lockfile_unlock_all(&place->file)) {
        pawl__place_lose(self, place, true);
    }
    pawl__news_drain(self);
    if (place->file.fd < 0 || !is_awaited(place)) {
        return false;
    }
    pawl__lockfile_touch(&place->file);
    return true;
}

/* The path is looked at after the unlock: what happens to it before is never missed. What has
 * happened to it since is no loss of ours. Who was granted the lock in this file after us had
 * locked it after our unlock, and looked at the path after that; so it led here until then. */
pawl_status pawl__place_check_released(
    struct pawl__file_engine *self, struct pawl__file_place *place)
{
    if (place->file.fd < 0) {
        return PAWL_OK;
    }
    pawl_status status = pawl__place_check(self, place);
    if (status == PAWL_LOST) {
        struct pawl__record last;
        bool read = pawl__lockfile_read(&place->file, &last) == PAWL_OK;
        if (read && pawl__record_token(&last) > place->token) {
            status = PAWL_OK;
        }
        pawl__place_lose(self, place, false);
    }
    return status;
}
