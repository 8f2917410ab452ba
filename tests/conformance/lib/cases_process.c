/* SPDX-License-Identifier: Apache-2.0 */
/* Locks among real processes, which are killed, stopped and broken into. An engine that serves one
 * process alone only has to keep processes apart. */
#include "conformance/lib/actor.h"
#include "conformance/lib/peer.h"
#include "conformance/lib/tools.h"

#include "support/resources.h"
#include "support/text.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#define COUNTERS 3
#define ROUNDS 100

static struct child *start_renewed(const struct suite *suite, int64_t lease_ms)
{
    const struct peer_options options = {.lease_ms = lease_ms, .renew = true};
    return peer_start(suite, suite->name, &options);
}

static struct child *start_fixed(const struct suite *suite, int64_t lease_ms)
{
    const struct peer_options options = {.lease_ms = lease_ms, .renew = false};
    return peer_start(suite, suite->name, &options);
}

static void kill_peer(struct child *peer)
{
    child_signal(peer, SIGKILL);
    assert_int_equal(child_wait(peer, SOON_MS), 128 + SIGKILL);
}

/* Without the flag: what another process holds under the same name is another lock. */
static void processes_do_not_meet(const struct suite *suite)
{
    struct child *peer = start_renewed(suite, LONG_MS);
    pawl_lock *lock = open_thread_lock(open_client(suite), suite->name);
    peer_ask(peer, "acquire 0", "ok");
    EXPECT(PAWL_OK, pawl_lock_acquire(lock, PAWL_TRY));
    EXPECT(PAWL_OK, pawl_lock_release(lock));
    peer_ask(peer, "release", "ok");
}

static void processes_exclude_each_other(const struct suite *suite)
{
    struct child *one = start_renewed(suite, LONG_MS);
    struct child *two = start_renewed(suite, LONG_MS);
    pawl_lock *lock = open_thread_lock(open_client(suite), suite->name);
    peer_ask(one, "acquire 0", "ok");
    peer_ask(two, "acquire 0", "busy");
    peer_ask(two, "release", "not held");
    EXPECT(PAWL_BUSY, pawl_lock_acquire(lock, PAWL_TRY));
    assert_true(is_held(lock));
    peer_ask(one, "release", "ok");
    EXPECT(PAWL_OK, pawl_lock_acquire(lock, PAWL_TRY));
    peer_ask(one, "acquire 20", "busy");
    EXPECT(PAWL_OK, pawl_lock_release(lock));
    peer_ask(two, "acquire 0", "ok");
}

struct awakening {
    struct child *peer;
    pawl_lock *lock;
    struct actor *actor;
};

static int64_t wake_once(void *arg)
{
    const struct awakening *it = arg;
    peer_ask(it->peer, "acquire 0", "ok");
    actor_acquire(it->actor, it->lock, PAWL_FOREVER);
    actor_await_sleep(it->actor);
    const int64_t start_us = boottime_us();
    peer_ask(it->peer, "release", "ok");
    EXPECT(PAWL_OK, actor_answer(it->actor));
    const int64_t took_us = actor_ended_us(it->actor) - start_us;
    EXPECT(PAWL_OK, actor_release_now(it->actor, it->lock));
    return took_us;
}

static void a_release_wakes_another_process(const struct suite *suite)
{
    struct awakening it = {.peer = start_renewed(suite, LONG_MS)};
    it.lock = open_thread_lock(open_client(suite), suite->name);
    it.actor = actor_new();
    expect_quick("wake-up over processes", wake_once, &it);
    EXPECT(PAWL_OK, actor_acquire_now(it.actor, it.lock, PAWL_TRY));
    peer_tell(it.peer, "acquire -1"); /* and the other way round */
    WAIT_UNTIL(process_state(child_pid(it.peer)) == 'S', SOON_MS);
    EXPECT(PAWL_OK, actor_release_now(it.actor, it.lock));
    peer_expect(it.peer, "ok");
}

static void tokens_grow_over_processes(const struct suite *suite)
{
    struct child *peers[] = {start_renewed(suite, LONG_MS), start_renewed(suite, LONG_MS)};
    pawl_lock *lock = open_thread_lock(open_client(suite), suite->name);
    uint64_t last = 0;
    for (size_t i = 0; i < 12; i++) {
        uint64_t token = 0;
        if (i % 3 == 2) {
            EXPECT(PAWL_OK, pawl_lock_acquire(lock, PAWL_TRY));
            token = pawl_lock_token(lock);
            EXPECT(PAWL_OK, pawl_lock_release(lock));
        } else {
            peer_ask(peers[i % 3], "acquire 0", "ok");
            peer_tell(peers[i % 3], "token");
            token = peer_number(peers[i % 3]);
            peer_ask(peers[i % 3], "release", "ok");
        }
        assert_true(token > last);
        last = token;
    }
}

static void processes_add_up(const struct suite *suite)
{
    struct text path = {0};
    struct child *counters[COUNTERS];
    text_addf(&path, "%s/number", tempdir_make());
    const int64_t start_us = boottime_us();
    for (size_t i = 0; i < COUNTERS; i++) {
        counters[i] = peer_start_counter(suite, suite->name, path.data, ROUNDS);
    }
    int worst = 0;
    for (size_t i = 0; i < COUNTERS; i++) {
        const int code = child_wait(counters[i], 4 * SOON_MS);
        worst = code != 0 ? code : worst;
    }
    const uint64_t number = number_read(path.data);
    text_free(&path);
    assert_int_equal(worst, 0);
    assert_int_equal(number, COUNTERS * ROUNDS);
    print_message("%d processes, %d rounds each: %lld ms\n", COUNTERS, ROUNDS,
        (long long)((boottime_us() - start_us) / 1000));
}

/* ===== Killed ===== */

/* A dead holder's lock ends with its lease, or where the backend sees the process die, at once. */
static void check_killed_holder(const struct suite *suite, struct child *peer, int64_t lease_ms)
{
    pawl_lock *lock = open_thread_lock(open_client(suite), suite->name);
    struct actor *actor = actor_new();
    peer_ask(peer, "acquire 0", "ok");
    actor_acquire(actor, lock, PAWL_FOREVER);
    actor_await_sleep(actor);
    const int64_t killed_us = boottime_us();
    kill_peer(peer);
    EXPECT(PAWL_OK, actor_answer(actor));
    const int64_t free_us = actor_ended_us(actor) - killed_us;
    const int64_t due_ms = suite->engine->sessions ? 0 : lease_ms;
    suite_late("free after its holder was killed", free_us - due_ms * 1000);
    assert_true(free_us <= (due_ms + LATE_MS) * 1000);
    EXPECT(PAWL_OK, actor_release_now(actor, lock));
}

static void a_killed_holder_with_a_renewed_lease(const struct suite *suite)
{
    check_killed_holder(suite, start_renewed(suite, 2 * LEASE_MS), 2 * LEASE_MS);
}

static void a_killed_holder_with_a_fixed_lease(const struct suite *suite)
{
    check_killed_holder(suite, start_fixed(suite, 2 * LEASE_MS), 2 * LEASE_MS);
}

static void a_killed_waiter_leaves_no_trace(const struct suite *suite)
{
    struct child *peer = start_renewed(suite, LONG_MS);
    pawl_lock *lock = open_thread_lock(open_client(suite), suite->name);
    EXPECT(PAWL_OK, pawl_lock_acquire(lock, PAWL_TRY));
    peer_tell(peer, "acquire -1");
    WAIT_UNTIL(process_state(child_pid(peer)) == 'S', SOON_MS);
    kill_peer(peer);
    EXPECT(PAWL_OK, pawl_lock_release(lock));
    assert_false(is_held(lock));
    expect_free(suite, suite->name);
}

/* ===== Stopped ===== */

/* A process that stands still for longer than its lease. The backend lets others in, and the
 * process learns it as soon as it runs again. */
static void a_stopped_holder_loses_its_lease(const struct suite *suite)
{
    for (int renew = 0; renew < 2; renew++) {
        struct child *peer =
            renew != 0 ? start_renewed(suite, LEASE_MS) : start_fixed(suite, LEASE_MS);
        pawl_lock *lock = open_thread_lock(open_client(suite), suite->name);
        peer_ask(peer, "acquire 0", "ok");
        child_stop(peer);
        const int64_t stopped_us = boottime_us();
        EXPECT(PAWL_OK, pawl_lock_acquire(lock, LONG_MS));
        suite_late("free after its holder was stopped", boottime_us() - stopped_us);
        assert_true(boottime_us() - stopped_us <= (LEASE_MS + LATE_MS) * 1000);
        child_continue(peer);
        peer_ask(peer, "token", "0");
        peer_ask(peer, "release", "lost");
        assert_true(pawl_lock_remaining_ms(lock) > 0);
        expect_busy(suite, suite->name);
        EXPECT(PAWL_OK, pawl_lock_release(lock));
        child_free(peer);
    }
}

/* Where nobody but the holder ends its lease, a stopped one keeps the lock, and gives it back as
 * soon as it runs again. */
static void a_stopped_holder_keeps_the_lock(const struct suite *suite)
{
    struct child *peer = start_fixed(suite, LEASE_MS);
    pawl_lock *lock = open_thread_lock(open_client(suite), suite->name);
    peer_ask(peer, "acquire 0", "ok");
    child_stop(peer);
    EXPECT(PAWL_BUSY, pawl_lock_acquire(lock, 3 * LEASE_MS));
    child_continue(peer);
    EXPECT(PAWL_OK, pawl_lock_acquire(lock, LATE_MS));
    peer_ask(peer, "release", "lost");
    EXPECT(PAWL_OK, pawl_lock_release(lock));
    child_free(peer);

    peer = start_renewed(suite, LEASE_MS);
    peer_ask(peer, "acquire 0", "ok");
    child_stop(peer);
    EXPECT(PAWL_BUSY, pawl_lock_acquire(lock, 3 * LEASE_MS));
    child_continue(peer);
    peer_ask(peer, "release", "ok"); /* a renewed one was never in danger */
}

/* Inside one process there is nobody to be stopped: a thread that ends leaves its lease to the
 * backend, which cases_lost.c looks at. Here an engine of that kind shows its own clock. */
static void a_stopped_holder(const struct suite *suite)
{
    if (suite->engine->has[FLAG_PROCESSES]) {
        a_stopped_holder_loses_its_lease(suite);
        return;
    }
    const pawl_lock_options options = fixed_options(LEASE_MS);
    pawl_lock *lock = open_lock(open_client(suite), suite->name, &options);
    pawl_lock *other = open_thread_lock(open_client(suite), suite->name);
    pawl_lock_info info = {.size = sizeof info};
    EXPECT(PAWL_OK, pawl_lock_acquire(lock, PAWL_TRY));
    EXPECT(PAWL_OK, pawl_lock_inspect(other, &info));
    assert_true(info.remaining_ms >= 0 && info.remaining_ms <= LEASE_MS);
    WAIT_UNTIL(!is_held(other), LEASE_MS + LATE_MS);
}

/* ===== Broken ===== */

static void another_process_learns_of_a_break(const struct suite *suite)
{
    struct child *peer = start_renewed(suite, LEASE_MS);
    pawl_lock *lock = open_thread_lock(open_client(suite), suite->name);
    peer_ask(peer, "acquire 0", "ok");
    EXPECT(PAWL_OK, pawl_lock_break(lock));
    EXPECT(PAWL_OK, pawl_lock_acquire(lock, PAWL_TRY));
    const int64_t broken_us = boottime_us();
    WAIT_UNTIL((peer_tell(peer, "lost"), peer_number(peer) == 1), LEASE_MS + LATE_MS);
    suite_late("on_lost in another process", boottime_us() - broken_us);
    peer_ask(peer, "token", "0");
    peer_ask(peer, "release", "lost");
    expect_busy(suite, suite->name);
    EXPECT(PAWL_OK, pawl_lock_release(lock));
}

static const struct suite_case cases[] = {
    SUITE_EITHER(FLAG_PROCESSES, processes_exclude_each_other, processes_do_not_meet),
    SUITE_EITHER(FLAG_PROCESSES, a_release_wakes_another_process, processes_do_not_meet),
    SUITE_EITHER(FLAG_PROCESSES, tokens_grow_over_processes, processes_do_not_meet),
    SUITE_EITHER(FLAG_PROCESSES, processes_add_up, processes_do_not_meet),
    SUITE_EITHER(FLAG_PROCESSES, a_killed_holder_with_a_renewed_lease, processes_do_not_meet),
    SUITE_EITHER(FLAG_PROCESSES, a_killed_holder_with_a_fixed_lease, processes_do_not_meet),
    SUITE_EITHER(FLAG_PROCESSES, a_killed_waiter_leaves_no_trace, processes_do_not_meet),
    SUITE_EITHER(FLAG_PROCESSES, another_process_learns_of_a_break, processes_do_not_meet),
    SUITE_EITHER(FLAG_EXPIRES, a_stopped_holder, a_stopped_holder_keeps_the_lock),
};

SUITE_GROUP(suite_process, cases);
