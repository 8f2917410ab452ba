/* SPDX-License-Identifier: Apache-2.0 */
/* What semaphores and latches do on every engine that keeps them, asked through pawl.h alone. An
 * engine is a program of its own that says where its backend is. Each case has names of its own. */
#ifndef PAWL_SYNCHRONIZERS_LIB_CASES_H
#define PAWL_SYNCHRONIZERS_LIB_CASES_H

#include "pawl.h"
#include "support/fail.h"
#include "support/thread.h"
#include "support/wait.h"

/* clang-format off */
#include <stdarg.h>
#include <setjmp.h>
#include <stdio.h>
#include <cmocka.h>
/* clang-format on */

enum {
    SOON_MS = 10000,
    LOOK_MS = 300, /* what takes less was not found by looking, which is done every 0.8 to 1.2 s */
};

/* Run all cases on this backend; main()'s result. `begin` answers its URL. */
int cases_main(const char *(*begin)(void));

/* ===== For cases ===== */

extern const char *cases_url;

pawl_client *open_client(void);

/* Require PAWL_OK, or this status, and tell the sentence if it is another one. */
void expect(pawl_status expected, pawl_status status, const char *file, int line);
#define EXPECT(expected, call) expect(expected, call, __FILE__, __LINE__)
#define EXPECT_OK(call) expect(PAWL_OK, call, __FILE__, __LINE__)

pawl_semaphore *open_semaphore(pawl_client *client, const char *name, bool leased);
int64_t available(pawl_semaphore *semaphore);

/* A call on a thread of its own. */
struct caller {
    pthread_t thread;
    pawl_semaphore *semaphore;
    pawl_latch *latch;
    int64_t permits;
    int64_t wait_ms;
    _Atomic int thread_id; /* 0: not yet */
    _Atomic int status;    /* -1: not yet */
};

void call_acquire(
    struct caller *caller, pawl_semaphore *semaphore, int64_t permits, int64_t wait_ms);
void call_wait(struct caller *caller, pawl_latch *latch, int64_t wait_ms);
pawl_status call_join(struct caller *caller); /* within SOON_MS */
bool call_is_over(struct caller *caller);
void call_await_rest(struct caller *caller); /* until it waits, for an answer or for its turn */

extern const struct CMUnitTest semaphore_cases[];
extern const size_t semaphore_case_count;
extern const struct CMUnitTest permit_cases[];
extern const size_t permit_case_count;
extern const struct CMUnitTest latch_cases[];
extern const size_t latch_case_count;
extern const struct CMUnitTest async_cases[];
extern const size_t async_case_count;

#endif
