/* SPDX-License-Identifier: Apache-2.0 */
/* The public calls that make locks out of locks: check what the user gave, then have the making of
 * compound/ do it. Once open, such a lock goes through the calls of pawl.c. */
#include "pawl.h"

#include "base/error.h"
#include "checks.h"
#include "compound/multi.h"

static pawl_status check_member(const pawl_lock *const locks[], size_t index)
{
    const pawl_lock *lock = locks[index];
    pawl_status status = pawl__check_lock(lock);
    if (status != PAWL_OK) {
        return status;
    }
    if (lock->composite != NULL) {
        return pawl__fail(PAWL_UNSUPPORTED,
            "member %zu is made of locks itself; give a multi-lock the locks that it is made of",
            index + 1);
    }
    if ((lock->handle.owner == 0) != (locks[0]->handle.owner == 0)) {
        return pawl__fail(PAWL_INVALID,
            "member %zu has another sort of owner than member 1; open all with PAWL_OWNER_THREAD, "
            "or all with PAWL_OWNER_HANDLE",
            index + 1);
    }
    return PAWL_OK;
}

static pawl_status check_members(const pawl_lock *const locks[], size_t count)
{
    if (locks == NULL || count == 0 || count > PAWL_MULTI_MAX) {
        return pawl__fail(
            PAWL_INVALID, "a multi-lock has 1 to %d members, not %zu", PAWL_MULTI_MAX, count);
    }
    for (size_t i = 0; i < count; i++) {
        const pawl_status status = check_member(locks, i);
        if (status != PAWL_OK) {
            return status;
        }
    }
    return PAWL_OK;
}

/* Members have options of their own. */
static pawl_status check_defaults(const pawl_lock_options *options, bool by_handle)
{
    static const pawl_lock_options defaults = PAWL_LOCK_OPTIONS_INIT;
    if (options->owner != PAWL_OWNER_THREAD &&
        (options->owner != PAWL_OWNER_HANDLE || !by_handle)) {
        return pawl__fail(PAWL_INVALID, "the owner of a multi-lock is that of its members");
    }
    const bool times = options->lease_ms == defaults.lease_ms && options->max_hold_ms == 0 &&
                       options->warn_ms == 0 && options->renew == defaults.renew;
    const bool ways = options->kind == defaults.kind && options->reentry == defaults.reentry &&
                      options->same_owner_as == NULL && options->handoff == 0 &&
                      !options->release_unawaited;
    const bool callbacks =
        options->on_risk == NULL && options->on_lost == NULL && options->event_arg == NULL;
    if (!times || !ways || !callbacks) {
        return pawl__fail(PAWL_INVALID,
            "a multi-lock has no lease, kind or callbacks of its own: give such options to its "
            "members, and NULL here");
    }
    return PAWL_OK;
}

pawl_status pawl_lock_open_multi(
    pawl_lock *const locks[], size_t count, const pawl_lock_options *options, pawl_lock **lock_out)
{
    pawl_lock_options known = PAWL_LOCK_OPTIONS_INIT;
    if (lock_out == NULL) {
        return pawl__fail(PAWL_INVALID, "lock_out is NULL");
    }
    *lock_out = NULL;
    pawl_status status = pawl__check_may_wait("pawl_lock_open_multi()");
    if (status == PAWL_OK && options != NULL) {
        status = pawl__check_options(&known, sizeof known, options, options->size);
    }
    if (status == PAWL_OK) {
        status = check_members((const pawl_lock *const *)locks, count);
    }
    if (status == PAWL_OK) {
        status = check_defaults(&known, locks[0]->handle.owner != 0);
    }
    return status == PAWL_OK ? pawl__multi_open(locks, count, lock_out) : status;
}

pawl_status pawl_lock_member_status(const pawl_lock *lock, size_t index)
{
    const pawl_status status = pawl__check_lock(lock);
    return status == PAWL_OK ? pawl__multi_status(lock, index) : status;
}
