/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of what users pass; checks.h lists them. */
#include "checks.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/fds.h"
#include "base/limits.h"
#include "base/thread.h"
#include "core/client.h"

#include <string.h>

pawl_status pawl__check_options(void *to, size_t to_size, const void *from, size_t from_size)
{
    const char *bytes = from;
    if (from_size < sizeof(size_t)) {
        return pawl__fail(PAWL_INVALID, "options: size is not set; begin with the ..._INIT macro");
    }
    for (size_t i = to_size; i < from_size; i++) {
        if (bytes[i] != 0) {
            return pawl__fail(PAWL_INVALID, "options: made for a newer pawl, and uses what is new");
        }
    }
    memcpy(to, from, from_size < to_size ? from_size : to_size);
    return PAWL_OK;
}

pawl_status pawl__check_forks(unsigned forks)
{
    if (forks != pawl__fork_count()) {
        return pawl__fail(PAWL_MISUSE, "opened before fork(): a child has to open its own");
    }
    return PAWL_OK;
}

pawl_status pawl__check_client(const pawl_client *client)
{
    if (client == NULL) {
        return pawl__fail(PAWL_INVALID, "client is NULL");
    }
    return pawl__check_forks(client->forks);
}

pawl_status pawl__check_lock(const pawl_lock *lock)
{
    if (lock == NULL) {
        return pawl__fail(PAWL_INVALID, "lock is NULL");
    }
    return pawl__check_forks(lock->forks);
}

pawl_status pawl__check_may_wait(const char *call)
{
    if (pawl__in_callback) {
        return pawl__fail(PAWL_MISUSE,
            "%s waits, and a callback must not; call it elsewhere, or as ..._async()", call);
    }
    return PAWL_OK;
}

pawl_status pawl__check_name(const char *name)
{
    if (name == NULL || name[0] == '\0') {
        return pawl__fail(PAWL_INVALID, "the lock needs a name");
    }
    if (strnlen(name, PAWL__NAME_SIZE_MAX + 1) > PAWL__NAME_SIZE_MAX) {
        return pawl__fail(
            PAWL_INVALID, "the lock's name is longer than %d bytes", PAWL__NAME_SIZE_MAX);
    }
    return PAWL_OK;
}

pawl_status pawl__check_wait(int64_t wait_ms, int64_t *wait_us_out)
{
    if (wait_ms < PAWL_FOREVER || wait_ms > PAWL__WAIT_MS_MAX) {
        return pawl__fail(PAWL_INVALID,
            "wait_ms is %lld; it must be PAWL_TRY, PAWL_FOREVER, or 1 to %lld (10 years)",
            (long long)wait_ms, (long long)PAWL__WAIT_MS_MAX);
    }
    *wait_us_out = wait_ms == PAWL_FOREVER ? PAWL__NEVER : wait_ms * 1000;
    return PAWL_OK;
}
