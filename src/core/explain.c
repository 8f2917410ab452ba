/* SPDX-License-Identifier: Apache-2.0 */
/* Sentences for what a request ended with. Faults bring their own from the engine; answers are told
 * with the lock's name here. */
#include "core/client.h"

#include "base/error.h"

#include <string.h>

static const char *words(const struct pawl__request *request)
{
    switch (request->status) {
    case PAWL_BUSY:
        return "it is held elsewhere";
    case PAWL_CANCELED:
        return "the wait was canceled";
    case PAWL_NOT_HELD:
        return request->kind == PAWL__WANT_BREAK ? "nobody holds it"
                                                 : "the caller does not hold it";
    case PAWL_LOST:
        return "it was lost before: its lease ended, or it was broken; others may have run";
    case PAWL_DEADLOCK:
        return "the caller holds it or waits for it already, and may not re-enter";
    case PAWL_UNAVAILABLE:
        return "no answer in time";
    case PAWL_MISUSE:
        return "it is closed";
    case PAWL_OK:
    case PAWL_DENIED:
    case PAWL_PROTOCOL:
    case PAWL_NO_MEMORY:
    case PAWL_REFUSED:
    case PAWL_INVALID:
    case PAWL_UNSUPPORTED:
        break;
    }
    return pawl_status_string(request->status);
}

void pawl__call_explain(const struct pawl_lock *lock, struct pawl__request *request)
{
    char name[128];
    if (request->status == PAWL_OK) {
        return;
    }
    if (request->error != NULL) {
        pawl__fail_text(request->status, request->error);
        request->error = NULL;
        return;
    }
    pawl__printable(lock->name, strlen(lock->name), name, sizeof name);
    pawl__fail(request->status, "lock '%s': %s", name, words(request));
}
