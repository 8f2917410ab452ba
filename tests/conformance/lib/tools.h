/* SPDX-License-Identifier: Apache-2.0 */
/* What cases are written with: opening and closing that tidies up after a failed case, expected
 * statuses, times, and a recorder for callbacks. */
#ifndef PAWL_CONFORMANCE_LIB_TOOLS_H
#define PAWL_CONFORMANCE_LIB_TOOLS_H

#include "conformance/lib/suite.h"
#include "pawl.h"
#include "support/fail.h"
#include "support/wait.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* ===== Times =====
 *
 * A busy machine lets a thread wait for tens of milliseconds, at worst for half a second. So bounds
 * are wide, a lease that must not end has room for a renewal that comes late, and what has to be
 * quick is done several times, of which the quickest counts. Everything takes longer under a
 * sanitizer, so leases and bounds grow with it. */

#if defined(__SANITIZE_THREAD__)
#define SUITE_TSAN 1
#define SUITE_SCALE 2
#elif defined(__SANITIZE_ADDRESS__)
#define SUITE_SCALE 2
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SUITE_TSAN 1
#define SUITE_SCALE 2
#elif __has_feature(address_sanitizer)
#define SUITE_SCALE 2
#endif
#endif
#ifndef SUITE_SCALE
#define SUITE_SCALE 1
#endif
#ifndef SUITE_TSAN
#define SUITE_TSAN 0 /* the thread sanitizer has no threads in a mere fork */
#endif

#define LEASE_MS (INT64_C(200) * SUITE_SCALE)  /* short enough to wait for its end */
#define RENEWED_MS INT64_C(1200)               /* long enough for renewals that come late */
#define LATE_MS (INT64_C(1000) * SUITE_SCALE)  /* how late what is due at a time may come */
#define QUICK_MS (INT64_C(300) * SUITE_SCALE)  /* the best of several tries at what is quick */
#define SOON_MS (INT64_C(10000) * SUITE_SCALE) /* for what depends on no time at all */
#define LONG_MS INT64_C(120000)                /* a lease or a wait that must not end by itself */

/* The least time that a lease of the library lasts: drift is taken off. */
int64_t lease_least_ms(int64_t lease_ms);

/* ===== Clients and locks ===== */

pawl_client *open_client(const struct suite *suite);
pawl_client *open_client_with(const struct suite *suite, const pawl_client_options *options);
pawl_lock *open_lock(pawl_client *client, const char *name, const pawl_lock_options *options);
pawl_lock *open_multi(pawl_lock *const locks[], size_t count);
pawl_status close_client(pawl_client *client);
pawl_status close_lock(pawl_lock *lock);

/* A lock of one of the usual kinds; all of them for options that begin so. */
pawl_lock_options thread_options(void); /* renewed, 30 s */
pawl_lock_options renewed_options(int64_t lease_ms);
pawl_lock_options fixed_options(int64_t lease_ms);
pawl_lock_options handle_options(void);                              /* the handle is the owner */
pawl_lock_options kinded(pawl_lock_options options, pawl_kind kind); /* these, of that kind */
pawl_lock *open_thread_lock(pawl_client *client, const char *name);
pawl_lock *open_handle_lock(pawl_client *client, const char *name);

/* Whatever happens to the case, this becomes true before its threads are waited for. Call it after
 * the last actor was made. */
void stop_at_end(_Atomic bool *enough);

/* ===== Expectations ===== */

/* Fail the case, with the call's own sentence, unless it answers this status. */
#define EXPECT(expected, call) expect_status(expected, call, #call, __FILE__, __LINE__)

void expect_status(
    pawl_status expected, pawl_status got, const char *call, const char *file, int line);

/* What another client sees: a try is busy, or gets it (and gives it back). */
void expect_busy(const struct suite *suite, const char *name);
void expect_free(const struct suite *suite, const char *name);

bool is_held(pawl_lock *lock); /* by anybody, as the backend says */

/* The engine refuses to open a lock of this kind, or with these options, with a sentence. */
void expect_kind_refused(const struct suite *suite, pawl_kind kind);
void expect_refused(const struct suite *suite, const pawl_lock_options *options);

/* The quickest of so many rounds must be quick; `round` answers how long it took. */
#define ROUNDS_QUICK 3
void expect_quick(const char *what, int64_t (*round)(void *arg), void *arg);

/* Wait until the caller's hold is lost. Less than a millisecond may remain before that, and is told
 * as 0. */
void await_loss(const pawl_lock *lock, int64_t timeout_ms);

/* ===== Callbacks ===== */

enum record_kind { RECORD_DONE, RECORD_LOST, RECORD_RISK };

struct record {
    enum record_kind kind;
    pawl_lock *lock;
    pawl_status status;
    uint64_t token; /* of an event */
    uint64_t owner;
    pthread_t thread;
    int64_t at_us;
    char error[160]; /* pawl_last_error() inside the callback */
};

/* Writes down every callback that it is the argument of. Lives as long as the program, because a
 * callback of a failed case may come late. */
struct recorder;

struct recorder *recorder_new(void);
void record_done(pawl_lock *lock, pawl_status status, void *recorder); /* a pawl_callback */
void record_event(const pawl_event *event, void *recorder);            /* a pawl_event_callback */
size_t recorder_count(struct recorder *recorder);
size_t recorder_count_of(struct recorder *recorder, enum record_kind kind);
struct record recorder_get(struct recorder *recorder, size_t index); /* fails if there is none */

/* Wait until this many callbacks have come; fails if there are more. */
void recorder_await(struct recorder *recorder, size_t count);

/* Set on_lost and on_risk. */
void record_events(pawl_lock_options *options, struct recorder *recorder);

#endif
