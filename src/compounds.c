/* SPDX-License-Identifier: Apache-2.0 */
/* The public calls that make locks out of locks: check what the user gave, then have the making of
 * compound/ do it. Once open, such a lock goes through the calls of pawl.c. */
#include "pawl.h"

#include "base/error.h"
#include "base/limits.h"
#include "checks.h"
#include "compound/multi.h"
#include "compound/quorum.h"

#define QUORUM_MAX_LEASE_MS 30000

/* ===== Multi-locks ===== */

static pawl_status check_member(const pawl_lock *const locks[], size_t index)
{
    const pawl_lock *lock = locks[index];
    pawl_status status = pawl__check_lock(lock);
    if (status != PAWL_OK) {
        return status;
    }
    if (pawl__lock_composite(lock) != NULL) {
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
                      !options->release_unawaited && options->node_timeout_ms == 0 &&
                      options->max_lease_ms == 0 && options->restart_guard == 0;
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

/* ===== Redlock ===== */

static pawl_status check_quorum_clients(pawl_client *const clients[], size_t count)
{
    if (clients == NULL || count == 0 || count > PAWL__QUORUM_MAX) {
        return pawl__fail(PAWL_INVALID, "a quorum has 1 to %d clients", PAWL__QUORUM_MAX);
    }
    pawl_status status = PAWL_OK;
    for (size_t i = 0; status == PAWL_OK && i < count; i++) {
        status = pawl__check_client(clients[i]);
        for (size_t other = 0; status == PAWL_OK && other < i; other++) {
            if (clients[other] == clients[i]) {
                status = pawl__fail(
                    PAWL_INVALID, "clients %zu and %zu of the quorum are the same", other, i);
            }
        }
        if (status == PAWL_OK && !clients[i]->engine->raises) {
            status = pawl__fail(PAWL_UNSUPPORTED,
                "server %zu of %zu is of the %s engine, which cannot be part of a quorum", i + 1,
                count, clients[i]->engine->name);
        }
    }
    return status;
}

/* What is not checked when the nodes' own locks are opened. */
static pawl_status check_quorum_options(const pawl_lock_options *options)
{
    if (options->kind != PAWL_MUTEX) {
        return pawl__fail(PAWL_UNSUPPORTED, "a quorum keeps locks of the kind PAWL_MUTEX only");
    }
    if (options->same_owner_as != NULL) {
        return pawl__fail(PAWL_INVALID, "same_owner_as is not for a quorum");
    }
    if (options->handoff != 0) {
        return pawl__fail(PAWL_INVALID, "hand-off is not for a quorum; leave handoff 0");
    }
    if ((unsigned)options->owner > PAWL_OWNER_HANDLE ||
        (unsigned)options->reentry > PAWL_REENTRY_REFUSE ||
        (unsigned)options->restart_guard > PAWL_GUARD_OFF) {
        return pawl__fail(
            PAWL_INVALID, "owner, reentry or restart_guard is not one of its constants");
    }
    if (options->node_timeout_ms < 0 || options->node_timeout_ms > PAWL__TIMEOUT_MS_MAX) {
        return pawl__fail(PAWL_INVALID, "node_timeout_ms is 0 (50) to an hour");
    }
    if (options->max_lease_ms < 0 || options->max_lease_ms > PAWL__LEASE_MS_MAX ||
        options->lease_ms > options->max_lease_ms) {
        return pawl__fail(PAWL_INVALID,
            "lease_ms is %lld, and max_lease_ms %lld: no lease may be longer than that, for so "
            "long a server does not vote after a restart",
            (long long)options->lease_ms, (long long)options->max_lease_ms);
    }
    return PAWL_OK;
}

pawl_status pawl_lock_open_quorum(pawl_client *const clients[], size_t count, const char *name,
    const pawl_lock_options *options, pawl_lock **lock_out)
{
    pawl_lock_options known = PAWL_LOCK_OPTIONS_INIT;
    if (lock_out == NULL) {
        return pawl__fail(PAWL_INVALID, "lock_out is NULL");
    }
    *lock_out = NULL;
    pawl_status status = pawl__check_may_wait("pawl_lock_open_quorum()");
    if (status == PAWL_OK) {
        status = check_quorum_clients(clients, count);
    }
    if (status == PAWL_OK) {
        status = pawl__check_name(name);
    }
    if (status == PAWL_OK && options != NULL) {
        status = pawl__check_options(&known, sizeof known, options, options->size);
    }
    known.max_lease_ms = known.max_lease_ms == 0 ? QUORUM_MAX_LEASE_MS : known.max_lease_ms;
    if (status == PAWL_OK) {
        status = check_quorum_options(&known);
    }
    return status == PAWL_OK ? pawl__quorum_open(clients, count, name, &known, lock_out) : status;
}
