/* SPDX-License-Identifier: Apache-2.0 */
/* The public calls of latches. */
#include "base/alloc.h"
#include "base/error.h"
#include "checks.h"
#include "counts.h"

struct pawl_latch {
    struct pawl_lock lock; /* must be first */
};

static struct pawl_lock *lock_of(pawl_latch *latch)
{
    return latch != NULL ? &latch->lock : NULL;
}

static pawl_status run(pawl_latch *latch, struct pawl__request *request, const char *call)
{
    pawl_status status = pawl__count_check(lock_of(latch), "latch");
    return status == PAWL_OK ? pawl__count_run(&latch->lock, request, call) : status;
}

pawl_status pawl_latch_open(pawl_client *client, const char *name, pawl_latch **latch_out)
{
    struct pawl_lock *lock = NULL;
    if (latch_out == NULL) {
        return pawl__fail(PAWL_INVALID, "latch_out is NULL");
    }
    *latch_out = NULL;
    pawl_status status = pawl__count_open(
        client, name, PAWL__FAMILY_LATCH, sizeof(pawl_latch), "pawl_latch_open()", &lock);
    if (status == PAWL_OK) {
        *latch_out = PAWL__CONTAINER(lock, pawl_latch, lock);
    }
    return status;
}

pawl_status pawl_latch_close(pawl_latch *latch)
{
    return pawl__count_close(lock_of(latch), "pawl_latch_close()");
}

pawl_status pawl_latch_set(pawl_latch *latch, int64_t count, bool *set_out)
{
    struct pawl__request request = {.verb = PAWL__TALLY_SET, .amount = count};
    pawl_status status = pawl__count_check_range("count", count, 1, PAWL__COUNT_MAX);
    if (status == PAWL_OK) {
        status = run(latch, &request, "pawl_latch_set()");
    }
    if (set_out != NULL) {
        *set_out = status == PAWL_OK;
    }
    return status == PAWL_NOT_HELD ? PAWL_OK : status;
}

pawl_status pawl_latch_count_down(pawl_latch *latch)
{
    struct pawl__request request = {.verb = PAWL__TALLY_DOWN};
    return run(latch, &request, "pawl_latch_count_down()");
}

pawl_status pawl_latch_count(pawl_latch *latch, int64_t *count_out)
{
    struct pawl__request request = {.verb = PAWL__TALLY_READ};
    if (count_out == NULL) {
        return pawl__fail(PAWL_INVALID, "count_out is NULL");
    }
    pawl_status status = run(latch, &request, "pawl_latch_count()");
    *count_out = status == PAWL_OK ? request.value : 0;
    return status;
}

pawl_status pawl_latch_wait(pawl_latch *latch, int64_t wait_ms)
{
    struct pawl__request request = {.verb = PAWL__TALLY_AWAIT};
    pawl_status status = pawl__check_wait(wait_ms, &request.wait_us);
    return status == PAWL_OK ? run(latch, &request, "pawl_latch_wait()") : status;
}

pawl_status pawl_latch_reset(pawl_latch *latch)
{
    struct pawl__request request = {.verb = PAWL__TALLY_RESET};
    pawl_status status = run(latch, &request, "pawl_latch_reset()");
    return status == PAWL_NOT_HELD ? PAWL_OK : status;
}

/* What a user's function is to be called with. */
struct hop {
    pawl_latch_callback done;
    void *arg;
};

static void on_done(pawl_lock *lock, pawl_status status, void *arg)
{
    struct hop hop = *(struct hop *)arg;
    pawl__free(arg);
    hop.done(PAWL__CONTAINER(lock, pawl_latch, lock), status, hop.arg);
}

static pawl_status start(
    pawl_latch *latch, struct pawl__request *request, pawl_latch_callback done, void *arg)
{
    pawl_status status = pawl__count_check(lock_of(latch), "latch");
    if (status == PAWL_OK && done == NULL) {
        status = pawl__fail(PAWL_INVALID, "an asynchronous call needs `done`");
    }
    if (status != PAWL_OK) {
        return status;
    }
    struct hop *hop = pawl__alloc(sizeof *hop);
    if (hop == NULL) {
        return pawl__fail(PAWL_NO_MEMORY, "no memory for an asynchronous call");
    }
    *hop = (struct hop){done, arg};
    status = pawl__count_start(&latch->lock, request, on_done, hop);
    if (status != PAWL_OK) {
        pawl__free(hop);
    }
    return status;
}

pawl_status pawl_latch_wait_async(
    pawl_latch *latch, int64_t wait_ms, pawl_latch_callback done, void *arg)
{
    struct pawl__request request = {.verb = PAWL__TALLY_AWAIT};
    pawl_status status = pawl__check_wait(wait_ms, &request.wait_us);
    return status == PAWL_OK ? start(latch, &request, done, arg) : status;
}

pawl_status pawl_latch_count_down_async(pawl_latch *latch, pawl_latch_callback done, void *arg)
{
    struct pawl__request request = {.verb = PAWL__TALLY_DOWN};
    return start(latch, &request, done, arg);
}

void pawl_latch_cancel(pawl_latch *latch)
{
    if (pawl__count_check(lock_of(latch), "latch") == PAWL_OK) {
        pawl__call_cancel(&latch->lock);
    }
}
