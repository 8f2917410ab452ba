/* SPDX-License-Identifier: Apache-2.0 */
/* The public calls of semaphores; those about permits that have leases are in permits.c. */
#include "permits.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/limits.h"
#include "checks.h"

static struct pawl_lock *lock_of(pawl_semaphore *semaphore)
{
    return semaphore != NULL ? &semaphore->lock : NULL;
}

static pawl_status run(pawl_semaphore *semaphore, struct pawl__request *request, const char *call)
{
    pawl_status status = pawl__count_check(lock_of(semaphore), "semaphore");
    return status == PAWL_OK ? pawl__count_run(&semaphore->lock, request, call) : status;
}

pawl_status pawl__semaphore_check(pawl_semaphore *semaphore, bool leased)
{
    static const char *const words[] = {
        "this semaphore's permits have ids and leases (options.leased): use the pawl_permit_ calls",
        "this semaphore's permits have no leases: use the pawl_semaphore_ calls, or open it with "
        "options.leased"};
    pawl_status status = pawl__count_check(lock_of(semaphore), "semaphore");
    if (status == PAWL_OK && semaphore->leased != leased) {
        return pawl__fail(PAWL_INVALID, "%s", words[leased]);
    }
    return status;
}

/* ===== Opening and closing ===== */

pawl_status pawl_semaphore_open(pawl_client *client, const char *name,
    const pawl_semaphore_options *options, pawl_semaphore **semaphore_out)
{
    pawl_semaphore_options known = PAWL_SEMAPHORE_OPTIONS_INIT;
    struct pawl_lock *lock = NULL;
    if (semaphore_out == NULL) {
        return pawl__fail(PAWL_INVALID, "semaphore_out is NULL");
    }
    *semaphore_out = NULL;
    pawl_status status = PAWL_OK;
    if (options != NULL) {
        status = pawl__check_options(&known, sizeof known, options, options->size);
    }
    if (status == PAWL_OK) {
        status = pawl__count_check_range(
            "lease_ms", known.lease_ms, PAWL__LEASE_MS_MIN, PAWL__LEASE_MS_MAX);
    }
    if (status == PAWL_OK) {
        status = pawl__count_open(client, name,
            known.leased ? PAWL__FAMILY_PERMITS : PAWL__FAMILY_SEMAPHORE, sizeof(pawl_semaphore),
            "pawl_semaphore_open()", &lock);
    }
    if (status != PAWL_OK) {
        return status;
    }
    pawl_semaphore *semaphore = pawl__semaphore_of(lock);
    semaphore->leased = known.leased;
    semaphore->lease_us = known.lease_ms * 1000;
    semaphore->on_lost = known.on_lost;
    semaphore->event_arg = known.event_arg;
    if (known.leased && known.renew && !pawl__permits_begin(semaphore)) {
        pawl__count_close(lock, "pawl_semaphore_open()");
        return pawl__fail(PAWL_NO_MEMORY, "no memory for a semaphore");
    }
    *semaphore_out = semaphore;
    return PAWL_OK;
}

pawl_status pawl_semaphore_close(pawl_semaphore *semaphore)
{
    pawl_status released = PAWL_OK;
    if (semaphore != NULL && pawl__semaphore_check(semaphore, true) == PAWL_OK) {
        released = pawl__permits_end(semaphore);
    }
    pawl_status status = pawl__count_close(lock_of(semaphore), "pawl_semaphore_close()");
    return status != PAWL_OK ? status : released;
}

/* ===== The number of permits ===== */

pawl_status pawl_semaphore_set(pawl_semaphore *semaphore, int64_t permits, bool *set_out)
{
    struct pawl__request request = {.verb = PAWL__TALLY_SET, .amount = permits};
    pawl_status status = pawl__count_check_range("permits", permits, 0, PAWL__COUNT_MAX);
    if (status == PAWL_OK) {
        status = run(semaphore, &request, "pawl_semaphore_set()");
    }
    if (set_out != NULL) {
        *set_out = status == PAWL_OK;
    }
    return status == PAWL_NOT_HELD ? PAWL_OK : status;
}

pawl_status pawl_semaphore_add(pawl_semaphore *semaphore, int64_t permits)
{
    struct pawl__request request = {.verb = PAWL__TALLY_ADD, .amount = permits};
    pawl_status status =
        pawl__count_check_range("permits", permits, -PAWL__COUNT_MAX, PAWL__COUNT_MAX);
    if (status == PAWL_OK) {
        status = run(semaphore, &request, "pawl_semaphore_add()");
    }
    return status;
}

static pawl_status ask_number(
    pawl_semaphore *semaphore, enum pawl__tally_verb verb, const char *call, int64_t *number_out)
{
    struct pawl__request request = {.verb = verb};
    if (number_out == NULL) {
        return pawl__fail(PAWL_INVALID, "permits_out is NULL");
    }
    pawl_status status = run(semaphore, &request, call);
    *number_out = status == PAWL_OK ? request.value : 0;
    return status;
}

pawl_status pawl_semaphore_drain(pawl_semaphore *semaphore, int64_t *permits_out)
{
    return ask_number(semaphore, PAWL__TALLY_DRAIN, "pawl_semaphore_drain()", permits_out);
}

pawl_status pawl_semaphore_available(pawl_semaphore *semaphore, int64_t *permits_out)
{
    return ask_number(semaphore, PAWL__TALLY_READ, "pawl_semaphore_available()", permits_out);
}

/* ===== Permits without a lease ===== */

static pawl_status check_acquire(
    pawl_semaphore *semaphore, int64_t permits, int64_t wait_ms, struct pawl__request *request)
{
    pawl_status status = pawl__semaphore_check(semaphore, false);
    if (status == PAWL_OK) {
        status = pawl__count_check_range("permits", permits, 1, PAWL__COUNT_MAX);
    }
    return status == PAWL_OK ? pawl__check_wait(wait_ms, &request->wait_us) : status;
}

pawl_status pawl_semaphore_acquire(pawl_semaphore *semaphore, int64_t permits, int64_t wait_ms)
{
    struct pawl__request request = {.verb = PAWL__TALLY_TAKE, .amount = permits};
    pawl_status status = check_acquire(semaphore, permits, wait_ms, &request);
    return status == PAWL_OK ? run(semaphore, &request, "pawl_semaphore_acquire()") : status;
}

static pawl_status check_release(pawl_semaphore *semaphore, int64_t permits)
{
    pawl_status status = pawl__semaphore_check(semaphore, false);
    return status == PAWL_OK ? pawl__count_check_range("permits", permits, 1, PAWL__COUNT_MAX)
                             : status;
}

pawl_status pawl_semaphore_release(pawl_semaphore *semaphore, int64_t permits)
{
    struct pawl__request request = {.verb = PAWL__TALLY_GIVE, .amount = permits};
    pawl_status status = check_release(semaphore, permits);
    return status == PAWL_OK ? run(semaphore, &request, "pawl_semaphore_release()") : status;
}

/* ===== The same without waiting ===== */

/* What a user's function is to be called with. */
struct hop {
    pawl_semaphore_callback done;
    void *arg;
};

static void on_done(pawl_lock *lock, pawl_status status, void *arg)
{
    struct hop hop = *(struct hop *)arg;
    pawl__free(arg);
    hop.done(pawl__semaphore_of(lock), status, hop.arg);
}

static pawl_status start(pawl_semaphore *semaphore, struct pawl__request *request,
    pawl_semaphore_callback done, void *arg)
{
    if (done == NULL) {
        return pawl__fail(PAWL_INVALID, "an asynchronous call needs `done`");
    }
    struct hop *hop = pawl__alloc(sizeof *hop);
    if (hop == NULL) {
        return pawl__fail(PAWL_NO_MEMORY, "no memory for an asynchronous call");
    }
    *hop = (struct hop){done, arg};
    pawl_status status = pawl__count_start(&semaphore->lock, request, on_done, hop);
    if (status != PAWL_OK) {
        pawl__free(hop);
    }
    return status;
}

pawl_status pawl_semaphore_acquire_async(pawl_semaphore *semaphore, int64_t permits,
    int64_t wait_ms, pawl_semaphore_callback done, void *arg)
{
    struct pawl__request request = {.verb = PAWL__TALLY_TAKE, .amount = permits};
    pawl_status status = check_acquire(semaphore, permits, wait_ms, &request);
    return status == PAWL_OK ? start(semaphore, &request, done, arg) : status;
}

pawl_status pawl_semaphore_release_async(
    pawl_semaphore *semaphore, int64_t permits, pawl_semaphore_callback done, void *arg)
{
    struct pawl__request request = {.verb = PAWL__TALLY_GIVE, .amount = permits};
    pawl_status status = check_release(semaphore, permits);
    return status == PAWL_OK ? start(semaphore, &request, done, arg) : status;
}

void pawl_semaphore_cancel(pawl_semaphore *semaphore)
{
    if (pawl__count_check(lock_of(semaphore), "semaphore") == PAWL_OK) {
        pawl__call_cancel(&semaphore->lock);
    }
}
