/* SPDX-License-Identifier: Apache-2.0 */
/* The public calls that open a lock made of locks: check what the user gave, and leave the rest to
 * compound/. */
#include "pawl.h"

#include "base/error.h"
#include "base/limits.h"
#include "checks.h"
#include "compound/quorum.h"

#define MAX_LEASE_MS 30000

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
            status = pawl__fail(PAWL_UNSUPPORTED, "the %s engine cannot be part of a quorum",
                clients[i]->engine->name);
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
    known.max_lease_ms = known.max_lease_ms == 0 ? MAX_LEASE_MS : known.max_lease_ms;
    if (status == PAWL_OK) {
        status = check_quorum_options(&known);
    }
    return status == PAWL_OK ? pawl__quorum_open(clients, count, name, &known, lock_out) : status;
}
