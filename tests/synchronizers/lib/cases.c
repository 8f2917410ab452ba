/* SPDX-License-Identifier: Apache-2.0 */
/* The frame of the cases, and what they share. */
#include "synchronizers/lib/cases.h"

#include "support/process.h"

#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

const char *cases_url;

void expect(pawl_status expected, pawl_status status, const char *file, int line)
{
    if (status != expected) {
        support_fail("%s:%d: %s instead of %s: %s", file, line, pawl_status_string(status),
            pawl_status_string(expected), status == PAWL_OK ? "" : pawl_last_error());
    }
}

pawl_client *open_client(void)
{
    pawl_client *client = NULL;
    EXPECT_OK(pawl_client_open(cases_url, NULL, &client));
    return client;
}

pawl_semaphore *open_semaphore(pawl_client *client, const char *name, bool leased)
{
    pawl_semaphore_options options = PAWL_SEMAPHORE_OPTIONS_INIT;
    pawl_semaphore *semaphore = NULL;
    options.leased = leased;
    EXPECT_OK(pawl_semaphore_open(client, name, &options, &semaphore));
    return semaphore;
}

int64_t available(pawl_semaphore *semaphore)
{
    int64_t permits = -77;
    EXPECT_OK(pawl_semaphore_available(semaphore, &permits));
    return permits;
}

/* ===== Callers ===== */

static void *run_caller(void *arg)
{
    struct caller *caller = arg;
    int status;
    atomic_store(&caller->thread_id, gettid());
    if (caller->latch != NULL) {
        status = (int)pawl_latch_wait(caller->latch, caller->wait_ms);
    } else {
        status = (int)pawl_semaphore_acquire(caller->semaphore, caller->permits, caller->wait_ms);
    }
    atomic_store(&caller->status, status);
    return NULL;
}

static void start(struct caller *caller)
{
    atomic_store(&caller->status, -1);
    thread_start(&caller->thread, run_caller, caller);
}

void call_acquire(
    struct caller *caller, pawl_semaphore *semaphore, int64_t permits, int64_t wait_ms)
{
    *caller = (struct caller){.semaphore = semaphore, .permits = permits, .wait_ms = wait_ms};
    start(caller);
}

void call_wait(struct caller *caller, pawl_latch *latch, int64_t wait_ms)
{
    *caller = (struct caller){.latch = latch, .wait_ms = wait_ms};
    start(caller);
}

bool call_is_over(struct caller *caller)
{
    return atomic_load(&caller->status) >= 0;
}

void call_await_rest(struct caller *caller)
{
    WAIT_UNTIL(atomic_load(&caller->thread_id) != 0, SOON_MS);
    WAIT_UNTIL(process_state(atomic_load(&caller->thread_id)) == 'S', SOON_MS);
}

pawl_status call_join(struct caller *caller)
{
    WAIT_UNTIL(call_is_over(caller), SOON_MS);
    pthread_join(caller->thread, NULL);
    return (pawl_status)atomic_load(&caller->status);
}

/* ===== The frame ===== */

int cases_main(const char *(*begin)(void))
{
    cases_url = begin();
    int failed =
        _cmocka_run_group_tests("semaphores", semaphore_cases, semaphore_case_count, NULL, NULL);
    failed += _cmocka_run_group_tests("permits", permit_cases, permit_case_count, NULL, NULL);
    failed += _cmocka_run_group_tests("latches", latch_cases, latch_case_count, NULL, NULL);
    failed += _cmocka_run_group_tests("asynchronous", async_cases, async_case_count, NULL, NULL);
    return failed;
}
