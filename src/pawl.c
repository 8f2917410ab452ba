/* SPDX-License-Identifier: Apache-2.0 */
/* The public calls: check what the user gave, turn it into a request, and set the last error.
 *
 * Each call that may wait goes the same way: checks.h refuses handles that were inherited by a fork
 * and calls made inside a callback, pawl__call_enter() refuses a client that is closing,
 * pawl__call_wait() does the work. What looks at all locks of a backend is in operators.c. */
#include "pawl.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fds.h"
#include "base/limits.h"
#include "base/thread.h"
#include "checks.h"
#include "core/client.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HANDOFF_MAX 10000U

const char *pawl_last_error(void)
{
    return pawl__error_text();
}

uint64_t pawl_owner_self(void)
{
    return pawl__owner_of_thread();
}

/* ===== Clients ===== */

static pawl_status check_client_options(const pawl_client_options *options)
{
    const int64_t times[] = {options->timeout_ms, options->connect_timeout_ms};
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
        if (times[i] < 0 || times[i] > PAWL__TIMEOUT_MS_MAX) {
            return pawl__fail(
                PAWL_INVALID, "client options: timeouts are 0 (the default) to an hour, in ms");
        }
    }
    if (options->give_up_ms < 0 || options->give_up_ms > PAWL__WAIT_MS_MAX) {
        return pawl__fail(
            PAWL_INVALID, "client options: give_up_ms is 0 (the default) to 10 years, in ms");
    }
    if ((unsigned)options->guard > PAWL_GUARD_OFF) {
        return pawl__fail(PAWL_INVALID, "client options: guard is not one of PAWL_GUARD_...");
    }
    return PAWL_OK;
}

/* The URL that is meant. Nothing at all means the default, but empty is what is left of a variable
 * that was forgotten: in files the lock would be had, and exclude nobody on other hosts. */
static pawl_status choose_url(const char **url)
{
    const char *named = "the URL";
    if (*url == NULL) {
        *url = getenv("PAWL_URL");
        named = "PAWL_URL";
    }
    if (*url == NULL) {
        *url = "file:";
    }
    return (*url)[0] != '\0'
               ? PAWL_OK
               : pawl__fail(PAWL_INVALID,
                     "%s is empty; name a backend, as redis://host, or leave it out to keep locks "
                     "in files of this machine",
                     named);
}

pawl_status pawl_client_open(
    const char *url, const pawl_client_options *options, pawl_client **client_out)
{
    pawl_client_options known = PAWL_CLIENT_OPTIONS_INIT;
    if (client_out == NULL) {
        return pawl__fail(PAWL_INVALID, "client_out is NULL");
    }
    *client_out = NULL;
    pawl_status status = pawl__check_may_wait("pawl_client_open()");
    if (status == PAWL_OK && options != NULL) {
        status = pawl__check_options(&known, sizeof known, options, options->size);
    }
    if (status == PAWL_OK) {
        status = check_client_options(&known);
    }
    if (status == PAWL_OK) {
        status = choose_url(&url);
    }
    return status == PAWL_OK ? pawl__client_open(url, &known, client_out) : status;
}

pawl_status pawl_client_close(pawl_client *client)
{
    if (client == NULL) {
        return PAWL_OK;
    }
    pawl_status status = pawl__check_client(client);
    if (status == PAWL_OK) {
        status = pawl__check_may_wait("pawl_client_close()");
    }
    return status == PAWL_OK ? pawl__client_close(client) : status;
}

int pawl_client_fd(pawl_client *client)
{
    return pawl__check_client(client) == PAWL_OK ? client->courier.fd : -1;
}

pawl_status pawl_client_dispatch(pawl_client *client)
{
    pawl_status status = pawl__check_client(client);
    if (status != PAWL_OK) {
        return status;
    }
    if (!client->courier.dispatch) {
        return pawl__fail(PAWL_MISUSE, "pawl_client_dispatch() needs options.dispatch at open");
    }
    status = pawl__check_may_wait("pawl_client_dispatch()");
    if (status != PAWL_OK) {
        return status;
    }
    if (!pawl__call_enter(client)) {
        return pawl__fail(PAWL_MISUSE, "the client is closed");
    }
    pawl__courier_run(client);
    pawl__call_leave(client);
    return PAWL_OK;
}

/* ===== Opening and closing locks ===== */

static pawl_status check_times(const pawl_lock_options *options)
{
    if (options->lease_ms < PAWL__LEASE_MS_MIN || options->lease_ms > PAWL__LEASE_MS_MAX) {
        return pawl__fail(PAWL_INVALID, "lease_ms is %lld; it must be from %lld to %lld (10 years)",
            (long long)options->lease_ms, (long long)PAWL__LEASE_MS_MIN,
            (long long)PAWL__LEASE_MS_MAX);
    }
    bool limited = options->max_hold_ms != 0;
    if (limited &&
        (options->max_hold_ms < PAWL__LEASE_MS_MIN || options->max_hold_ms > PAWL__LEASE_MS_MAX)) {
        return pawl__fail(PAWL_INVALID,
            "max_hold_ms is %lld; it must be 0 (no limit) or %lld to %lld (10 years)",
            (long long)options->max_hold_ms, (long long)PAWL__LEASE_MS_MIN,
            (long long)PAWL__LEASE_MS_MAX);
    }
    if (options->warn_ms < 0 || options->warn_ms > options->lease_ms) {
        return pawl__fail(PAWL_INVALID,
            "warn_ms is %lld; it must be 0 (a third of the lease) to lease_ms",
            (long long)options->warn_ms);
    }
    return PAWL_OK;
}

static pawl_status check_owner(const pawl_client *client, const pawl_lock_options *options)
{
    const pawl_lock *same = options->same_owner_as;
    if ((unsigned)options->owner > PAWL_OWNER_HANDLE ||
        (unsigned)options->reentry > PAWL_REENTRY_REFUSE) {
        return pawl__fail(PAWL_INVALID, "owner or reentry is not one of its constants");
    }
    if (same == NULL) {
        return PAWL_OK;
    }
    if (options->owner != PAWL_OWNER_HANDLE || same->client != client || same->handle.owner == 0) {
        return pawl__fail(PAWL_INVALID,
            "same_owner_as needs PAWL_OWNER_HANDLE on both locks, and the same client");
    }
    return PAWL_OK;
}

static pawl_status check_lock_options(const pawl_client *client, const pawl_lock_options *options)
{
    if ((unsigned)options->kind > PAWL_PLAIN) {
        return pawl__fail(PAWL_INVALID, "kind is not one of pawl_kind that is a lock");
    }
    const enum pawl__family family = pawl__family_of(options->kind);
    if ((client->engine->families & PAWL__FAMILY_BIT(family)) == 0) {
        return pawl__fail(PAWL_UNSUPPORTED, "the %s engine cannot keep %s", client->engine->name,
            pawl__family_word(family));
    }
    if (options->handoff != 0 && (!client->engine->rows || options->kind != PAWL_MUTEX)) {
        return pawl__fail(PAWL_UNSUPPORTED,
            "hand-off is for PAWL_MUTEX, and on the %s engine %s; leave handoff 0",
            client->engine->name, client->engine->rows ? "for nothing else" : "not there");
    }
    if (options->handoff > HANDOFF_MAX) {
        return pawl__fail(
            PAWL_INVALID, "handoff is %u; it must be 0 to %u", options->handoff, HANDOFF_MAX);
    }
    if (options->node_timeout_ms != 0 || options->max_lease_ms != 0 ||
        options->restart_guard != PAWL_GUARD_ENFORCE) {
        return pawl__fail(PAWL_INVALID,
            "node_timeout_ms, max_lease_ms and restart_guard are for pawl_lock_open_quorum()");
    }
    pawl_status status = check_times(options);
    return status == PAWL_OK ? check_owner(client, options) : status;
}

static struct pawl__terms terms_of(const pawl_lock_options *options)
{
    const bool by_handle = options->owner == PAWL_OWNER_HANDLE;
    return (struct pawl__terms){
        .kind = options->kind,
        .reentry = options->reentry == PAWL_REENTRY_ALLOW ||
                   (options->reentry == PAWL_REENTRY_DEFAULT && !by_handle),
        .renew = options->renew,
        .handoff = options->handoff,
        .unawaited = options->release_unawaited,
        .lease_us = options->lease_ms * 1000,
        .max_hold_us = options->max_hold_ms * 1000,
        .warn_us = (options->warn_ms > 0 ? options->warn_ms : options->lease_ms / 3) * 1000,
        .on_risk = options->on_risk,
        .on_lost = options->on_lost,
    };
}

static pawl_lock *lock_new(pawl_client *client, const pawl_lock_options *options)
{
    pawl_lock *lock = pawl__alloc(sizeof *lock);
    if (lock == NULL) {
        return NULL;
    }
    struct pawl__handle *handle = &lock->handle;
    if (options->owner == PAWL_OWNER_HANDLE) {
        handle->owner = options->same_owner_as != NULL ? options->same_owner_as->handle.owner
                                                       : pawl__owner_new();
    }
    lock->client = client;
    lock->forks = pawl__fork_count();
    if (options->event_arg != NULL) {
        if (pawl__handle_extra(handle) == NULL) {
            pawl__free(lock);
            return NULL;
        }
        handle->extra->event_arg = options->event_arg;
    }
    return lock;
}

static pawl_status open_lock(
    pawl_client *client, const char *name, const pawl_lock_options *options, pawl_lock **lock_out)
{
    const struct pawl__terms terms = terms_of(options);
    pawl_lock *lock = lock_new(client, options);
    if (lock == NULL) {
        return pawl__fail(PAWL_NO_MEMORY, "no memory for a lock");
    }
    pawl_status status = PAWL_MISUSE;
    if (pawl__call_enter(client)) {
        status = pawl__client_attach(client, lock, name, pawl__family_of(options->kind), &terms);
        pawl__call_leave(client);
    } else {
        pawl__fail(PAWL_MISUSE, "the client is closed");
    }
    if (status != PAWL_OK) {
        pawl__lock_close(lock);
        return status;
    }
    *lock_out = lock;
    return PAWL_OK;
}

pawl_status pawl_lock_open(
    pawl_client *client, const char *name, const pawl_lock_options *options, pawl_lock **lock_out)
{
    pawl_lock_options known = PAWL_LOCK_OPTIONS_INIT;
    if (lock_out == NULL) {
        return pawl__fail(PAWL_INVALID, "lock_out is NULL");
    }
    *lock_out = NULL;
    pawl_status status = pawl__check_client(client);
    if (status == PAWL_OK) {
        status = pawl__check_may_wait("pawl_lock_open()");
    }
    if (status == PAWL_OK) {
        status = pawl__check_name(name);
    }
    if (status == PAWL_OK && options != NULL) {
        status = pawl__check_options(&known, sizeof known, options, options->size);
    }
    if (status == PAWL_OK) {
        status = check_lock_options(client, &known);
    }
    return status == PAWL_OK ? open_lock(client, name, &known, lock_out) : status;
}

pawl_status pawl_lock_close(pawl_lock *lock)
{
    if (lock == NULL) {
        return PAWL_OK;
    }
    pawl_status status = pawl__check_lock(lock);
    if (status == PAWL_OK) {
        status = pawl__check_may_wait("pawl_lock_close()");
    }
    if (status != PAWL_OK) {
        return status;
    }
    const struct pawl__composite *composite = pawl__lock_composite(lock);
    return composite != NULL ? composite->close(lock) : pawl__client_detach(lock->client, lock);
}

/* ===== Calls on a lock ===== */

static uint64_t owner_of(const pawl_lock *lock)
{
    return lock->handle.owner != 0 ? lock->handle.owner : pawl__owner_of_thread();
}

/* Inside the client and the lock. False: the caller has none. */
static bool peek(pawl_lock *lock, struct pawl__hold *hold_out)
{
    pawl_client *client = lock->client;
    pawl__client_lock(client);
    int64_t now_us = pawl__now_us();
    const struct pawl__tenure *tenure =
        pawl__machine_find(&client->machine, &lock->handle, owner_of(lock), now_us);
    const unsigned count =
        tenure != NULL ? pawl__tenure_count(tenure, lock->handle.terms->kind) : 0;
    if (count > 0) {
        bool limited = tenure->deadline_us != PAWL__NEVER;
        *hold_out = (struct pawl__hold){tenure->state == PAWL__TENURE_HELD, count, tenure->id,
            tenure->token, limited ? tenure->deadline_us - now_us : PAWL__NEVER};
    }
    pawl__client_unlock(client, false);
    return count > 0;
}

/* The same from outside. */
static bool look(const pawl_lock *lock, struct pawl__hold *hold_out)
{
    if (pawl__check_lock(lock) != PAWL_OK) {
        return false;
    }
    pawl_lock *self = pawl__lock_self(lock);
    const struct pawl__composite *composite = pawl__lock_composite(lock);
    if (composite != NULL) {
        return composite->look(self, hold_out);
    }
    if (!pawl__call_enter(self->client)) {
        return false;
    }
    pawl_client *client = self->client;
    pawl__lock_enter(self);
    bool found = peek(self, hold_out);
    pawl__lock_leave(self);
    pawl__call_leave(client);
    return found;
}

/* A tenure as the backend names it. */
static void write_owner(const pawl_client *client, uint64_t id, char owner[PAWL_OWNER_SIZE])
{
    snprintf(owner, PAWL_OWNER_SIZE, "%s:%" PRIu64, client->host.uuid, id);
}

/* Whether the holder that the backend names is the caller, validly. */
static bool is_holder(pawl_lock *lock, const char *holder)
{
    struct pawl__hold hold;
    char owner[PAWL_OWNER_SIZE];
    if (!peek(lock, &hold) || !hold.valid) {
        return false;
    }
    write_owner(lock->client, hold.id, owner);
    const size_t size = strlen(owner);
    return strncmp(owner, holder, size) == 0 &&
           (holder[size] == '\0' || strcmp(holder + size, ":write") == 0);
}

/* A thread that ends is looked for among the holders only if it may be one. */
static void count_hold(const struct pawl__request *request, bool by_thread)
{
    if (!by_thread) {
        return;
    }
    if (request->kind == PAWL__WANT_ACQUIRE && request->status == PAWL_OK) {
        pawl__registry_count(1);
    }
    if (request->kind == PAWL__WANT_RELEASE && request->status != PAWL_NOT_HELD) {
        pawl__registry_count(-1);
    }
}

/* Run a request on this lock and wait for it. */
static pawl_status run(pawl_lock *lock, struct pawl__request *request, const char *call)
{
    pawl_status status = pawl__check_lock(lock);
    if (status == PAWL_OK) {
        status = pawl__check_may_wait(call);
    }
    if (status != PAWL_OK) {
        return status;
    }
    const struct pawl__composite *composite = pawl__lock_composite(lock);
    if (composite != NULL) {
        return composite->run(lock, request);
    }
    pawl_client *client = lock->client;
    if (!pawl__call_enter(client)) {
        return pawl__fail(PAWL_MISUSE, "the client is closed");
    }
    pawl__lock_enter(lock); /* another thread may close it while we wait */
    bool by_thread = lock->handle.owner == 0;
    request->handle = &lock->handle;
    request->owner = owner_of(lock);
    status = pawl__call_wait(client, request);
    count_hold(request, by_thread);
    pawl__call_explain(lock, request);
    if (request->kind == PAWL__WANT_INSPECT) {
        request->info_out->held_by_caller = is_holder(lock, request->info_out->holder);
    }
    pawl__lock_leave(lock);
    pawl__call_leave(client);
    return status;
}

pawl_status pawl_lock_acquire(pawl_lock *lock, int64_t wait_ms)
{
    struct pawl__request request = {.kind = PAWL__WANT_ACQUIRE};
    pawl_status status = pawl__check_wait(wait_ms, &request.wait_us);
    return status == PAWL_OK ? run(lock, &request, "pawl_lock_acquire()") : status;
}

pawl_status pawl_lock_release(pawl_lock *lock)
{
    struct pawl__request request = {.kind = PAWL__WANT_RELEASE};
    return run(lock, &request, "pawl_lock_release()");
}

pawl_status pawl_lock_extend(pawl_lock *lock, int64_t lease_ms)
{
    struct pawl__request request = {.kind = PAWL__WANT_EXTEND};
    if (lease_ms < PAWL__LEASE_MS_MIN || lease_ms > PAWL__LEASE_MS_MAX) {
        return pawl__fail(PAWL_INVALID, "lease_ms is %lld; it must be from %lld to %lld (10 years)",
            (long long)lease_ms, (long long)PAWL__LEASE_MS_MIN, (long long)PAWL__LEASE_MS_MAX);
    }
    request.lease_us = lease_ms * 1000;
    return run(lock, &request, "pawl_lock_extend()");
}

/* ===== What the caller holds, by the clock ===== */

uint64_t pawl_lock_token(const pawl_lock *lock)
{
    struct pawl__hold hold;
    return look(lock, &hold) && hold.valid ? hold.token : 0;
}

int64_t pawl_lock_remaining_ms(const pawl_lock *lock)
{
    struct pawl__hold hold;
    if (!look(lock, &hold) || !hold.valid) {
        return 0;
    }
    if (hold.left_us == PAWL__NEVER) {
        return INT64_MAX;
    }
    return hold.left_us / 1000; /* down: it is a promise */
}

unsigned pawl_lock_hold_count(const pawl_lock *lock)
{
    struct pawl__hold hold;
    return look(lock, &hold) ? hold.count : 0;
}

/* look() answers in the same way for a hold that was never there; here the two are told apart. */
static pawl_status no_hold(const pawl_lock *lock, bool lost)
{
    const pawl_status status = pawl__check_lock(lock);
    if (status != PAWL_OK) {
        return status;
    }
    return lost ? pawl__fail(PAWL_LOST, "the lock was lost before")
                : pawl__fail(PAWL_NOT_HELD, "the caller does not hold the lock");
}

pawl_status pawl_lock_owner(const pawl_lock *lock, char *owner_out, size_t size)
{
    struct pawl__hold hold;
    char owner[PAWL_OWNER_SIZE];
    if (owner_out == NULL || size == 0) {
        return pawl__fail(PAWL_INVALID, "owner_out is NULL, or has no room");
    }
    owner_out[0] = '\0';
    const bool found = look(lock, &hold);
    if (!found || !hold.valid) {
        return no_hold(lock, found);
    }
    const struct pawl__composite *composite = pawl__lock_composite(lock);
    if (composite != NULL) {
        composite->owner(pawl__lock_self(lock), owner);
    } else {
        write_owner(lock->client, hold.id, owner);
    }
    if (strlen(owner) >= size) {
        return pawl__fail(PAWL_INVALID, "owner_out has room for %zu bytes; PAWL_OWNER_SIZE is %d",
            size, PAWL_OWNER_SIZE);
    }
    memcpy(owner_out, owner, strlen(owner) + 1);
    return PAWL_OK;
}

/* ===== For operators ===== */

pawl_status pawl_lock_inspect(pawl_lock *lock, pawl_lock_info *info_out)
{
    pawl_lock_info info = {.size = sizeof info};
    struct pawl__request request = {.kind = PAWL__WANT_INSPECT, .info_out = &info};
    if (info_out == NULL || info_out->size < sizeof(size_t)) {
        return pawl__fail(PAWL_INVALID, "info_out is NULL, or its size is not set");
    }
    size_t size = info_out->size;
    pawl_status status = run(lock, &request, "pawl_lock_inspect()");
    if (status == PAWL_OK) {
        memset(info_out, 0, size);
        memcpy(info_out, &info, size < sizeof info ? size : sizeof info);
        info_out->size = size;
    }
    return status;
}

pawl_status pawl_lock_break(pawl_lock *lock)
{
    struct pawl__request request = {.kind = PAWL__WANT_BREAK};
    return run(lock, &request, "pawl_lock_break()");
}

/* ===== Asynchronous calls ===== */

static pawl_status start_async(
    pawl_lock *lock, enum pawl__request_kind kind, int64_t wait_us, pawl_callback done, void *arg)
{
    pawl_status status = pawl__check_lock(lock);
    if (status != PAWL_OK) {
        return status;
    }
    if (done == NULL || lock->handle.owner == 0) {
        return pawl__fail(
            PAWL_INVALID, "an asynchronous call needs `done`, and a PAWL_OWNER_HANDLE lock");
    }
    const struct pawl__composite *composite = pawl__lock_composite(lock);
    if (composite != NULL) {
        return composite->start(lock, kind, wait_us, done, arg);
    }
    const struct pawl__request request = {
        .kind = kind, .owner = lock->handle.owner, .wait_us = wait_us};
    return pawl__call_async(lock, &request, done, arg);
}

pawl_status pawl_lock_acquire_async(pawl_lock *lock, int64_t wait_ms, pawl_callback done, void *arg)
{
    int64_t wait_us = 0;
    pawl_status status = pawl__check_wait(wait_ms, &wait_us);
    return status == PAWL_OK ? start_async(lock, PAWL__WANT_ACQUIRE, wait_us, done, arg) : status;
}

pawl_status pawl_lock_release_async(pawl_lock *lock, pawl_callback done, void *arg)
{
    return start_async(lock, PAWL__WANT_RELEASE, 0, done, arg);
}

void pawl_lock_cancel(pawl_lock *lock)
{
    if (pawl__check_lock(lock) != PAWL_OK) {
        return;
    }
    const struct pawl__composite *composite = pawl__lock_composite(lock);
    if (composite != NULL) {
        composite->cancel(lock);
    } else {
        pawl__call_cancel(lock);
    }
}
