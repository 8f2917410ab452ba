/* SPDX-License-Identifier: Apache-2.0 */
/* The lock file of one place: kept open from one operation to the next, closed when it turns out to
 * be no longer the one that its path leads to.
 *
 * Locality: any thread, with the engine's mutex held. */
#include "engine/file/file.h"

#include "base/error.h"

#include <assert.h>

#define TRIES_MAX 16      /* how often the file may be replaced under our hands in one operation */
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
        status = pawl__lockfile_lock(&place->file, PAWL__BYTE_WAIT);
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

/* Lock a byte of the open file, prepare the grant if there is to be one, and look at the path.
 * PAWL_LOST: it leads elsewhere, and the file was let go. */
static pawl_status lock_once(struct pawl__file_engine *self, struct pawl__file_place *place,
    enum pawl__lock_byte byte, struct pawl__grant *grant)
{
    pawl_status status = pawl__lockfile_lock(&place->file, byte);
    bool locked = status == PAWL_OK;
    if (locked && grant != NULL) {
        status = pawl__lockfile_prepare(&place->file, &self->record, grant);
    }
    pawl__news_drain(self);
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

bool pawl__place_release(struct pawl__file_engine *self, struct pawl__file_place *place)
{
    pawl__place_set_held(self, place, false);
    pawl__place_unlock(self, place, PAWL__BYTE_HOLD);
    if (place->file.fd < 0 || !pawl__lockfile_is_taken(&place->file, PAWL__BYTE_WAIT)) {
        return false;
    }
    pawl__lockfile_touch(&place->file);
    return true;
}
