/* SPDX-License-Identifier: Apache-2.0 */
/* What the promise tests on real backends have in common: opening with a sentence when it fails,
 * asserting a status together with its sentence, and judging how late something was.
 *
 * A client opened here is closed by the clean-up if the test did not get so far. What a callback
 * writes to must be static for the same reason: it may be called after a failed test has gone. */
#ifndef PAWL_PROMISE_COMMON_H
#define PAWL_PROMISE_COMMON_H

#include "pawl.h"
#include "support/fail.h"
#include "support/process.h"
#include "support/proxy.h"
#include "support/resources.h"
#include "support/scripted.h"
#include "support/server.h"
#include "support/wait.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SLOWNESS 4
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SLOWNESS 4
#endif
#endif
#ifndef SLOWNESS
#define SLOWNESS 1
#endif

/* On a busy machine. What is promised is 50 ms; the lateness is printed. */
#define SLACK_MS (400 * SLOWNESS)

#define URL_SIZE 512

/* ===== Statuses ===== */

static inline void assert_status_at(
    pawl_status got, pawl_status wanted, const char *call, const char *file, int line)
{
    if (got != wanted) {
        support_fail("%s:%d: %s answered %s, not %s: %s", file, line, call, pawl_status_string(got),
            pawl_status_string(wanted), pawl_last_error());
    }
}

#define ASSERT_STATUS(wanted, call) assert_status_at(call, wanted, #call, __FILE__, __LINE__)
#define ASSERT_OK(call) ASSERT_STATUS(PAWL_OK, call)

/* ===== Clients and locks ===== */

static inline void close_client_in_cleanup(void *object)
{
    pawl_client_close(object);
}

/* `query` goes behind the URL ("?timeout=200ms"), NULL: nothing. */
static inline pawl_client *open_client_with(
    const char *url, const char *query, const pawl_client_options *options)
{
    char whole[2 * URL_SIZE];
    pawl_client *client = NULL;
    snprintf(whole, sizeof whole, "%s%s", url, query != NULL ? query : "");
    ASSERT_OK(pawl_client_open(whole, options, &client));
    cleanup_add(close_client_in_cleanup, client);
    return client;
}

static inline pawl_client *open_client(const char *url, const char *query)
{
    return open_client_with(url, query, NULL);
}

static inline pawl_status close_client(pawl_client *client)
{
    cleanup_drop(client);
    return pawl_client_close(client);
}

static inline pawl_lock *open_lock_with(
    pawl_client *client, const char *name, const pawl_lock_options *options)
{
    pawl_lock *lock = NULL;
    ASSERT_OK(pawl_lock_open(client, name, options, &lock));
    return lock;
}

static inline pawl_lock *open_lock(
    pawl_client *client, const char *name, int64_t lease_ms, bool renew)
{
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    options.lease_ms = lease_ms;
    options.renew = renew;
    return open_lock_with(client, name, &options);
}

/* A lock whose owner is the handle, for asynchronous calls and for many owners in one thread. */
static inline pawl_lock *open_handle(
    pawl_client *client, const char *name, int64_t lease_ms, bool renew)
{
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    options.owner = PAWL_OWNER_HANDLE;
    options.lease_ms = lease_ms;
    options.renew = renew;
    return open_lock_with(client, name, &options);
}

/* One percent of the lease and two milliseconds, and one for rounding. */
static inline int64_t drift_ms(int64_t lease_ms)
{
    return lease_ms / 100 + 2;
}

/* ===== Lateness ===== */

/* It was due after so long and took so long: not much longer, and how much is printed. */
static inline void assert_by_at(
    const char *what, int64_t due_ms, int64_t took_ms, const char *file, int line)
{
    print_message("lateness: %-45s %5lld ms (limit %lld ms)\n", what,
        (long long)(took_ms > due_ms ? took_ms - due_ms : 0), (long long)due_ms);
    if (took_ms > due_ms + SLACK_MS) {
        support_fail("%s:%d: %s took %lld ms, its limit is %lld ms", file, line, what,
            (long long)took_ms, (long long)due_ms);
    }
}

#define ASSERT_BY(what, due_ms, took_ms) assert_by_at(what, due_ms, took_ms, __FILE__, __LINE__)

/* Run a call, check its status, and see that it ended by its limit. */
#define ASSERT_ENDS(what, limit_ms, wanted, call)                     \
    do {                                                              \
        const int64_t began_ms_ = boottime_ms();                      \
        const pawl_status status_ = (call);                           \
        const int64_t took_ms_ = boottime_ms() - began_ms_;           \
        assert_status_at(status_, wanted, #call, __FILE__, __LINE__); \
        ASSERT_BY(what, limit_ms, took_ms_);                          \
    } while (0)

/* ===== Losses ===== */

/* What on_lost has been told, the last event and how often. */
struct losses {
    _Atomic unsigned count;
    _Atomic int64_t at_ms;
    _Atomic uint64_t token;
    _Atomic uint64_t owner;
};

static inline void note_loss(const pawl_event *event, void *arg)
{
    struct losses *losses = arg;
    atomic_store(&losses->at_ms, boottime_ms());
    atomic_store(&losses->token, event->token);
    atomic_store(&losses->owner, event->owner);
    atomic_fetch_add(&losses->count, 1);
}

static inline void forget_losses(struct losses *losses)
{
    atomic_store(&losses->count, 0);
    atomic_store(&losses->at_ms, 0);
}

static inline pawl_lock *open_watched(
    pawl_client *client, const char *name, int64_t lease_ms, bool renew, struct losses *losses)
{
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    forget_losses(losses);
    options.lease_ms = lease_ms;
    options.renew = renew;
    options.on_lost = note_loss;
    options.event_arg = losses;
    return open_lock_with(client, name, &options);
}

/* ===== Looking into the server ===== */

/* Is this name locked, as the server sees it? */
static inline bool is_locked(struct server *server, const char *name)
{
    return server_answers(server, "1", "EXISTS %s", name);
}

/* The owner string and the count in the lock's hash, "owner count"; "" when it is free. Freed by
 * the caller. */
static inline char *holder_of(struct server *server, const char *name)
{
    return server_command(server, "HGETALL %s", name);
}

/* A group's server: started once for the program and emptied before each test. */
static inline int flush_and_setup(struct server *server, void **state)
{
    if (!server_answers(server, "OK", "FLUSHALL")) {
        return -1;
    }
    return cleanup_setup(state);
}

#endif
