/* SPDX-License-Identifier: Apache-2.0 */
/* The calls that semaphores and latches have in common; counts.h lists them. They go the way of
 * pawl.c: check, enter, work, leave. */
#include "counts.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fds.h"
#include "base/thread.h"
#include "checks.h"

#include <string.h>

pawl_status pawl__count_check(const struct pawl_lock *lock, const char *what)
{
    if (lock == NULL) {
        return pawl__fail(PAWL_INVALID, "%s is NULL", what);
    }
    return pawl__check_forks(lock->forks);
}

pawl_status pawl__count_check_range(const char *what, int64_t value, int64_t least, int64_t most)
{
    if (value < least || value > most) {
        return pawl__fail(PAWL_INVALID, "%s is %lld; it must be from %lld to %lld", what,
            (long long)value, (long long)least, (long long)most);
    }
    return PAWL_OK;
}

/* ===== Opening and closing ===== */

static pawl_status check_open(
    struct pawl_client *client, const char *name, enum pawl__family family, const char *call)
{
    pawl_status status = pawl__check_client(client);
    if (status == PAWL_OK) {
        status = pawl__check_may_wait(call);
    }
    if (status == PAWL_OK) {
        status = pawl__check_name(name);
    }
    if (status == PAWL_OK && (client->engine->families & PAWL__FAMILY_BIT(family)) == 0) {
        return pawl__fail(PAWL_UNSUPPORTED, "the %s engine cannot keep %s", client->engine->name,
            pawl__family_word(family));
    }
    return status;
}

static struct pawl_lock *lock_new(struct pawl_client *client, enum pawl__family family, size_t size)
{
    struct pawl_lock *lock = pawl__alloc(size);
    if (lock == NULL) {
        return NULL;
    }
    lock->client = client;
    lock->forks = pawl__fork_count();
    if (family == PAWL__FAMILY_PERMITS && pawl__handle_extra(&lock->handle) == NULL) {
        pawl__free(lock);
        return NULL;
    }
    return lock;
}

pawl_status pawl__count_open(struct pawl_client *client, const char *name, enum pawl__family family,
    size_t size, const char *call, struct pawl_lock **lock_out)
{
    pawl_status status = check_open(client, name, family, call);
    if (status != PAWL_OK) {
        return status;
    }
    static const struct pawl__terms terms = {
        .kind = PAWL_SEMAPHORE}; /* it has options of its own */
    struct pawl_lock *lock = lock_new(client, family, size);
    if (lock == NULL) {
        return pawl__fail(PAWL_NO_MEMORY, "no memory for %s", pawl__family_word(family));
    }
    if (pawl__call_enter(client)) {
        status = pawl__client_attach(client, lock, name, family, &terms);
        pawl__call_leave(client);
    } else {
        status = pawl__fail(PAWL_MISUSE, "the client is closed");
    }
    if (status != PAWL_OK) {
        pawl__lock_close(lock);
        return status;
    }
    *lock_out = lock;
    return PAWL_OK;
}

pawl_status pawl__count_close(struct pawl_lock *lock, const char *call)
{
    if (lock == NULL) {
        return PAWL_OK;
    }
    pawl_status status = pawl__check_forks(lock->forks);
    if (status == PAWL_OK) {
        status = pawl__check_may_wait(call);
    }
    return status == PAWL_OK ? pawl__client_detach(lock->client, lock) : status;
}

/* ===== Requests ===== */

pawl_status pawl__count_run(struct pawl_lock *lock, struct pawl__request *request, const char *call)
{
    pawl_status status = pawl__check_may_wait(call);
    if (status != PAWL_OK) {
        return status;
    }
    struct pawl_client *client = lock->client;
    if (!pawl__call_enter(client)) {
        return pawl__fail(PAWL_MISUSE, "the client is closed");
    }
    pawl__lock_enter(lock); /* another thread may close it while we wait */
    request->kind = PAWL__WANT_TALLY;
    request->handle = &lock->handle;
    status = pawl__call_wait(client, request);
    if (status != PAWL_NOT_HELD) {
        pawl__call_explain(lock, request);
    }
    pawl__lock_leave(lock);
    pawl__call_leave(client);
    return status;
}

pawl_status pawl__count_start(
    struct pawl_lock *lock, struct pawl__request *request, pawl_callback done, void *arg)
{
    request->kind = PAWL__WANT_TALLY;
    return pawl__call_async(lock, request, done, arg);
}
