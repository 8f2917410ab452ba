/* SPDX-License-Identifier: Apache-2.0 */
/* Sentences for what a request ended with. Faults bring their own from the engine; answers are told
 * with the lock's name here.
 *
 * A loss is told as far as it is known on this side, and not further: that the backend has not
 * heard from us, we know; whether somebody broke a lock or the backend forgot it, we do not. */
#include "core/client.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"

#include <stdio.h>
#include <string.h>

enum { WORDS_SIZE = 448, CAUSE_SIZE = 200 };

static long long ms(int64_t duration_us)
{
    return (long long)(duration_us / 1000);
}

/* How it was lost. `cause`: why nobody answered, or "". */
static void explain_loss(
    const struct pawl__lost *lost, const char *cause, int64_t now_us, char out[WORDS_SIZE])
{
    const long long lease_ms = (long long)lost->lease_ms;
    const long long ago_ms = ms(now_us - lost->at_us);
    const long long unproven_ms = ms(now_us - lost->proven_us);
    switch (lost->why) {
    case PAWL__LOSS_LEASE:
        snprintf(out, WORDS_SIZE,
            "its fixed lease of %lld ms ended %lld ms ago; extend it in time, make it longer, or "
            "let it be renewed",
            lease_ms, ago_ms);
        return;
    case PAWL__LOSS_LIMIT:
        snprintf(out, WORDS_SIZE, "it was held for max_hold_ms, which ended %lld ms ago", ago_ms);
        return;
    case PAWL__LOSS_DEADLINE:
    case PAWL__LOSS_SILENCE:
        snprintf(out, WORDS_SIZE,
            "its lease of %lld ms ended %lld ms ago, because no renewal was answered in time: the "
            "last one that was is %lld ms old%s",
            lease_ms, ago_ms, unproven_ms, cause);
        return;
    case PAWL__LOSS_PAUSE:
        snprintf(out, WORDS_SIZE,
            "its lease of %lld ms ended %lld ms ago, because this process did not run when it had "
            "to be renewed (stopped, suspended, or short of processor time); the last renewal is "
            "%lld ms old",
            lease_ms, ago_ms, unproven_ms);
        return;
    case PAWL__LOSS_MEMORY:
        snprintf(out, WORDS_SIZE,
            "its lease of %lld ms ended %lld ms ago, because there was no memory to renew it; the "
            "last renewal is %lld ms old",
            lease_ms, ago_ms, unproven_ms);
        return;
    case PAWL__LOSS_LINE:
        snprintf(out, WORDS_SIZE,
            "its lease of %lld ms ended %lld ms ago, while its renewal was in line: %u renewals of "
            "others had been sent before it and were not answered yet; its own last one is %lld "
            "ms old%s",
            lease_ms, ago_ms, (unsigned)lost->before, unproven_ms, cause);
        return;
    case PAWL__LOSS_RELEASE:
        snprintf(out, WORDS_SIZE,
            "its lease of %lld ms ended %lld ms ago, before the release was answered", lease_ms,
            ago_ms);
        return;
    case PAWL__LOSS_PROOF:
        snprintf(out, WORDS_SIZE,
            "the backend said %lld ms ago that another holds it, or nobody: it was broken, or the "
            "backend lost data or had its clock set; which, cannot be told from here",
            ago_ms);
        return;
    case PAWL__LOSS_OWNER:
        snprintf(out, WORDS_SIZE, "the thread that held it ended %lld ms ago", ago_ms);
        return;
    }
}

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
    case PAWL_DEADLOCK:
        return request->handle->terms->kind == PAWL_WRITE
                   ? "the caller reads it, or writes or waits for it already: it would wait for "
                     "itself. Release it first"
                   : "the caller holds it or waits for it already, and may not re-enter";
    case PAWL_UNAVAILABLE:
        return "no answer in time";
    case PAWL_MISUSE:
        return "it is closed";
    case PAWL_OK:
    case PAWL_LOST:
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

static void explain_lost(struct pawl__request *request, const char *name)
{
    char cause[CAUSE_SIZE] = "";
    char text[WORDS_SIZE];
    if (request->error != NULL) {
        snprintf(cause, sizeof cause, " (%.*s)", CAUSE_SIZE - 4, request->error);
        pawl__free(request->error);
        request->error = NULL;
    }
    explain_loss(&request->lost, cause, pawl__now_us(), text);
    pawl__fail(PAWL_LOST, "lock '%s' was lost: %s. Others may have run", name, text);
}

static const char *noun_for(const struct pawl_lock *lock)
{
    const enum pawl__family family = pawl__name_family(lock->handle.name);
    return !pawl__family_counts(family)   ? "lock"
           : family == PAWL__FAMILY_LATCH ? "latch"
                                          : "semaphore";
}

void pawl__call_explain(const struct pawl_lock *lock, struct pawl__request *request)
{
    char name[128];
    if (request->status == PAWL_OK) {
        return;
    }
    const char *text = pawl__lock_name(lock);
    pawl__printable(text, strlen(text), name, sizeof name);
    if (request->status == PAWL_LOST && !pawl__request_spared(request)) { /* or another was */
        explain_lost(request, name);
    } else if (request->error != NULL) {
        pawl__fail_text(request->status, request->error);
        request->error = NULL;
    } else {
        pawl__fail(request->status, "%s '%s': %s", noun_for(lock), name, words(request));
    }
}

pawl_status pawl__fail_unheard(unsigned unheard)
{
    static const struct {
        unsigned bit;
        const char *words;
    } left[] = {
        {PAWL__UNHEARD_LEASE, "what has a lease ends with it"},
        {PAWL__UNHEARD_PERMITS, "permits without a lease may stay taken"},
        {PAWL__UNHEARD_LATCH, "a latch may be one too high"},
    };
    const bool released = (unheard & PAWL__UNHEARD_RELEASE) != 0;
    char text[WORDS_SIZE] = "";
    for (size_t i = 0; i < sizeof left / sizeof left[0]; i++) {
        const size_t used = strlen(text);
        if ((unheard & left[i].bit) != 0) {
            snprintf(
                text + used, sizeof text - used, "%s%s", used > 0 ? ", and " : "", left[i].words);
        }
    }
    return pawl__fail(PAWL_UNAVAILABLE, "%s; %s",
        released ? "a release was not confirmed"
                 : "what an acquire without an answer may have got was not taken back",
        text);
}
