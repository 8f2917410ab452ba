/* SPDX-License-Identifier: Apache-2.0 */
/* What the interop cases share: one server and one Java process for the whole program, C callers
 * that wait in threads of their own, and the number in a file that both languages add to. */
#ifndef PAWL_INTEROP_REDISSON_COMMON_H
#define PAWL_INTEROP_REDISSON_COMMON_H

#include "operators/common.h"
#include "peer.h"

/* The lease of Java's locks without one (renewed every third of it), and the one of holds that a
 * waiter of the other language must not have to outwait. */
#define WATCHDOG_MS 3000
#define LONG_MS 30000

/* A Java waiter sleeps as long as the TTL it saw: less than this is by message. */
#define WOKEN_MS 5000

/* Ours asks again after 800 ms at the earliest even if it hears nothing: less is by message. */
#define HEARD_MS 700

/* For everything that just has to happen. */
#define PATIENCE_MS 10000

extern struct server *server;
extern struct peer *java;

/* The setup of every case; cleanup_teardown is its counterpart. */
int interop_begin(void **state);

#define INTEROP_CASE(test) cmocka_unit_test_setup_teardown(test, interop_begin, cleanup_teardown)

/* The cases of each kind of lock: how many failed. */
int run_mutex_cases(void);
int run_loss_cases(void);
int run_fenced_cases(void);
int run_multi_cases(void);
int run_tally_cases(void);
int run_spin_cases(void);
int run_fair_cases(void);
int run_shared_cases(void);

/* A process of ours that dies: it waits so long for a lock of that kind and holds it until killed.
 * await_victim() returns when it holds. victim_body is its role in main(). */
struct child *start_victim(const char *name, pawl_kind kind, int64_t lease_ms, int64_t wait_ms);
void await_victim(struct child *victim);
void kill_victim(struct child *victim);
int victim_body(const struct child_pipes *pipes, const char *arg);

/* ===== Looking into the server ===== */

/* Wait until so many clients listen on the channel. */
void await_listeners(const char *channel, int count);

/* The same, until the waiters have also asked once more after they had subscribed, as they do on
 * both sides: until then a release is found by asking and not heard. `asked` is what
 * scripts_run() said before the waiters began; each of them runs two scripts (but a client of ours
 * only one if it has waited for this name before: use a new one). */
void await_waiters(const char *channel, int count, int64_t asked);
void await_lock_waiters(const char *name, int count, int64_t asked); /* a mutex with a plain name */

/* How many scripts the server has run without an error. */
int64_t scripts_run(void);

/* ===== Locks of any kind ===== */

/* A lock that the clean-up closes, whose owner is the handle. */
pawl_lock *own_kind(pawl_client *client, const char *name, pawl_kind kind, int64_t lease_ms);

/* ===== C callers that wait ===== */

struct caller;

/* Acquire through this handle (PAWL_OWNER_HANDLE, so that any thread may release) in a new thread.
 */
struct caller *caller_start(pawl_lock *lock, int64_t wait_ms);

/* The same, and release again at once; the status is that of both. */
struct caller *caller_start_turn(pawl_lock *lock, int64_t wait_ms);
bool caller_is_waiting(const struct caller *caller);

/* How it ended, and how long the acquire took. Waits at most PATIENCE_MS for it. */
pawl_status caller_end(struct caller *caller, int64_t *took_ms_out);

/* ===== Counting together ===== */

/* A new file with the number 0, as Java's `hammer` expects it. The path is valid for the test. */
const char *number_make(void);
int64_t number_read(const char *path);

/* Add to it so many times in each of so many threads, always under a lock of that name and kind
 * ("a,b": the multi-lock of these two).
 * Begins at once; hammers_end() waits for the end and fails the test if an acquire failed. */
struct hammers;
struct hammers *hammers_start(pawl_client *client, const char *name, pawl_kind kind,
    const char *path, unsigned threads, unsigned rounds);
void hammers_end(struct hammers *hammers, int64_t timeout_ms);

/* Threads of C and as many of Java, all under one lock of that kind: no addition may be lost. */
void count_together(const char *kind, pawl_kind our_kind, unsigned threads, unsigned rounds);

#endif
