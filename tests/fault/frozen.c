/* SPDX-License-Identifier: Apache-2.0 */
/* Fault matrix row 15: the server stands still, in each of the ways that a Redis server can.
 *
 * Workers go on calling while the server is stopped, sleeps in a command, or holds back its
 * clients' writes or all of their commands, for longer than the timeout and the lease. Every call
 * must end by its limit, every loss must be reported in time, and when the server moves again
 * nothing may be counted twice: neither in the workers' number nor in the lock's hash. */
#include "fault/lib/fault.h"

#include <unistd.h>

enum {
    LEASE_MS = 500,
    TIMEOUT_MS = 250,
    FREEZE_MS = 900,
    FREEZES = 3,
};

static struct server *server;

static int start_server(void **state)
{
    (void)state;
    server = server_start(NULL);
    return 0;
}

static int begin(void **state)
{
    free(server_command(server, "FLUSHALL"));
    return cleanup_setup(state);
}

/* No hold is ever shown as held twice; callers of this test do not re-enter. */
static void check_counts_of_one(void)
{
    for (int i = 0; i < 3; i++) {
        char *count = server_command(server, "HVALS fault:%d", i);
        assert_true(count[0] == '\0' || strcmp(count, "1") == 0);
        free(count);
    }
}

/* Three who come and go, and one who stays so long that it is inside whenever it happens. */
static struct crew *hire(void)
{
    struct crew *crew = crew_make();
    for (int i = 0; i < 4; i++) {
        struct board_plan *plan = crew_plan(crew, server_url(server));
        plan->lease_ms = LEASE_MS;
        plan->timeout_ms = TIMEOUT_MS;
        plan->wait_ms = 400;
        plan->callers = i == 3 ? 1 : 3;
        plan->name_first = i == 3 ? 2 : 0;
        plan->name_count = i == 3 ? 1 : 2;
        plan->work_us = i == 3 ? 2000000 : 10000;
        crew_start(crew);
    }
    crew_await_first(crew);
    return crew;
}

static void go_through(void (*freeze)(void))
{
    struct crew *crew = hire();
    for (int i = 0; i < FREEZES; i++) {
        nap_ms((int64_t)crew_draw(crew, 50));
        freeze();
        crew_await_progress(crew, boottime_us(), (LEASE_MS + 3000) * PACE);
        check_counts_of_one();
    }
    check_all_after_losses(crew, server, LEASE_MS);
    assert_true(crew_count_told(crew) > 0);
    assert_int_equal(crew_count_told(crew), crew_count_releases(crew, PAWL_LOST));
    assert_true(
        crew_count_acquires(crew, PAWL_UNAVAILABLE) + crew_count_releases(crew, PAWL_UNAVAILABLE) >
        0); /* they did notice */
}

static void by_sigstop(void)
{
    server_pause(server);
    nap_ms(FREEZE_MS);
    server_resume(server);
}

static void by_debug_sleep(void)
{
    char *reply = server_command(server, "DEBUG SLEEP %g", FREEZE_MS / 1000.0);
    assert_string_equal(reply, "OK");
    free(reply);
}

static void by_pause(const char *what)
{
    assert_true(server_answers(server, "OK", "CLIENT PAUSE %d %s", FREEZE_MS, what));
    nap_ms(FREEZE_MS);
    free(server_command(server, "CLIENT UNPAUSE"));
}

static void by_pausing_writes(void)
{
    by_pause("WRITE");
}

static void by_pausing_all(void)
{
    by_pause("ALL");
}

static void stopped_by_a_signal(void **state)
{
    (void)state;
    go_through(by_sigstop);
}

static void asleep_in_a_command(void **state)
{
    (void)state;
    go_through(by_debug_sleep);
}

static void holding_back_writes(void **state)
{
    (void)state;
    go_through(by_pausing_writes);
}

static void holding_back_everything(void **state)
{
    (void)state;
    go_through(by_pausing_all);
}

/* ===== One who leaves meanwhile ===== */

static _Atomic int canceled;

static void note_answer(pawl_lock *lock, pawl_status status, void *arg)
{
    (void)lock;
    (void)arg;
    atomic_fetch_add(&canceled, status == PAWL_CANCELED ? 1 : 0);
}

static pawl_lock *open_handle(pawl_client *client, const char *name, pawl_kind kind)
{
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    pawl_lock *lock = NULL;
    options.owner = PAWL_OWNER_HANDLE;
    options.kind = kind;
    ASSERT_OK(pawl_lock_open(client, name, &options, &lock));
    return lock;
}

/* It was to be given the lock when the server froze, and gave up. It may ask again, and does not
 * hear that it waits already. */
static void an_heir_that_left(void **state)
{
    (void)state;
    pawl_client *client = NULL;
    ASSERT_OK(pawl_client_open(server_url(server), NULL, &client));
    pawl_lock *giver = open_handle(client, "heir", PAWL_MUTEX);
    pawl_lock *heir = open_handle(client, "heir", PAWL_MUTEX);
    atomic_store(&canceled, 0);
    ASSERT_OK(pawl_lock_acquire(giver, PAWL_TRY));
    ASSERT_OK(pawl_lock_acquire_async(heir, PAWL_FOREVER, note_answer, NULL));
    server_pause(server);
    ASSERT_OK(pawl_lock_release_async(giver, note_answer, NULL));
    pawl_lock_cancel(heir);
    WAIT_UNTIL(atomic_load(&canceled) == 1, 5000);
    const pawl_status status = pawl_lock_acquire(heir, PAWL_TRY);
    server_resume(server);
    assert_true(status == PAWL_BUSY || status == PAWL_UNAVAILABLE);
    ASSERT_OK(pawl_lock_acquire(heir, 5000));
    ASSERT_OK(pawl_lock_release(heir));
    pawl_lock_close(heir);
    pawl_lock_close(giver);
    pawl_client_close(client);
}

/* The same for one of a crowd, whose question is with the server when it leaves. */
static void leave_a_crowd(const char *name, pawl_kind kind, pawl_kind other_kind)
{
    pawl_client *client = NULL;
    pawl_client *other = NULL;
    ASSERT_OK(pawl_client_open(server_url(server), NULL, &client));
    ASSERT_OK(pawl_client_open(server_url(server), NULL, &other));
    pawl_lock *holder = open_handle(other, name, other_kind);
    pawl_lock *waiter = open_handle(client, name, kind);
    atomic_store(&canceled, 0);
    ASSERT_OK(pawl_lock_acquire(holder, PAWL_TRY));
    assert_int_equal(pawl_lock_acquire(waiter, PAWL_TRY), PAWL_BUSY);
    server_pause(server);
    ASSERT_OK(pawl_lock_acquire_async(waiter, PAWL_FOREVER, note_answer, NULL));
    assert_int_equal(pawl_lock_acquire(waiter, PAWL_TRY), PAWL_DEADLOCK);
    pawl_lock_cancel(waiter);
    WAIT_UNTIL(atomic_load(&canceled) == 1, 5000);
    const pawl_status status = pawl_lock_acquire(waiter, PAWL_TRY);
    server_resume(server);
    assert_true(status == PAWL_BUSY || status == PAWL_UNAVAILABLE);
    ASSERT_OK(pawl_lock_release(holder));
    ASSERT_OK(pawl_lock_acquire(waiter, 5000));
    ASSERT_OK(pawl_lock_release(waiter));
    pawl_lock_close(waiter);
    pawl_lock_close(holder);
    pawl_client_close(other);
    pawl_client_close(client);
}

static void one_of_a_crowd_that_left(void **state)
{
    (void)state;
    leave_a_crowd("reader", PAWL_READ, PAWL_WRITE);
    leave_a_crowd("fair", PAWL_FAIR, PAWL_FAIR);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_heir_that_left, begin, cleanup_teardown),
        cmocka_unit_test_setup_teardown(one_of_a_crowd_that_left, begin, cleanup_teardown),
        cmocka_unit_test_setup_teardown(stopped_by_a_signal, begin, cleanup_teardown),
        cmocka_unit_test_setup_teardown(asleep_in_a_command, begin, cleanup_teardown),
        cmocka_unit_test_setup_teardown(holding_back_writes, begin, cleanup_teardown),
        cmocka_unit_test_setup_teardown(holding_back_everything, begin, cleanup_teardown),
    };
    return cmocka_run_group_tests(tests, start_server, NULL);
}
