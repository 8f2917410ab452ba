/* SPDX-License-Identifier: Apache-2.0 */
/* P2 on real backends: every way of losing a lock is reported, once, and in time; and what need
 * not be a loss is none.
 *
 * Servers are frozen, emptied and restarted, connections killed, the holder itself is stopped or
 * its thread ends; the clock is moved under the library's feet, with the keeper asleep by the real
 * one. To the microsecond: p2_lost_clock.c. */
#include "promise/lib/backend.h"

#include "base/clock.h"
#include "engine/redis/lua_scripts.h"

#include <inttypes.h>
#include <unistd.h>

#define LEASE_MS 900

static struct losses losses;
static _Atomic int64_t ahead_us; /* what the clock hook adds */

static int64_t shifted_clock(void)
{
    return boottime_us() + atomic_load(&ahead_us);
}

/* Never more than once, also a while later. */
static void assert_lost_once(void)
{
    nap_ms(100);
    assert_int_equal(atomic_load(&losses.count), 1);
}

/* ===== The server does not answer ===== */

static void a_frozen_server_means_lost_at_the_deadline(void **state)
{
    (void)state;
    pawl_client *client = open_client(server_url(server), NULL);
    pawl_lock *lock = open_watched(client, "frozen", LEASE_MS, true, &losses);
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
    const uint64_t token = pawl_lock_token(lock);
    nap_ms(LEASE_MS);
    server_pause(server);
    nap_ms(20); /* an answer may still have been under way */
    const int64_t due_ms = boottime_ms() + pawl_lock_remaining_ms(lock);
    WAIT_UNTIL(atomic_load(&losses.count) > 0, 2 * LEASE_MS + SLACK_MS);
    ASSERT_BY("on_lost after a frozen server", 0, atomic_load(&losses.at_ms) - due_ms);
    assert_true(atomic_load(&losses.at_ms) >= due_ms);
    assert_true(atomic_load(&losses.token) == token);
    assert_true(atomic_load(&losses.owner) == pawl_owner_self());

    ASSERT_STATUS(PAWL_LOST, pawl_lock_acquire(lock, PAWL_TRY)); /* until it was released */
    server_resume(server);
    ASSERT_STATUS(PAWL_LOST, pawl_lock_release(lock));
    ASSERT_STATUS(PAWL_NOT_HELD, pawl_lock_release(lock));
    assert_lost_once();
    ASSERT_OK(pawl_lock_acquire(lock, 2000));
    ASSERT_OK(pawl_lock_release(lock));
    pawl_lock_close(lock);
    ASSERT_OK(close_client(client));
}

static void a_short_freeze_is_no_loss(void **state)
{
    (void)state;
    pawl_client *client = open_client(server_url(server), NULL);
    pawl_lock *lock = open_watched(client, "chilly", 4 * LEASE_MS, true, &losses);
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
    server_pause(server);
    nap_ms(LEASE_MS);
    server_resume(server);
    nap_ms(LEASE_MS);
    assert_true(pawl_lock_remaining_ms(lock) > 0);
    assert_int_equal(atomic_load(&losses.count), 0);
    ASSERT_OK(pawl_lock_release(lock));
    pawl_lock_close(lock);
    ASSERT_OK(close_client(client));
}

static void killed_connections_are_no_loss(void **state)
{
    (void)state;
    pawl_client *client = open_client(server_url(server), NULL);
    pawl_lock *lock = open_watched(client, "shaken", LEASE_MS, true, &losses);
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
    int64_t killed = 0;
    for (int i = 0; i < 5; i++) {
        killed += server_kill_clients(server, "normal");
        nap_ms(2 * LEASE_MS / 3);
    }
    assert_true(killed >= 5);
    assert_true(pawl_lock_remaining_ms(lock) > 0);
    assert_int_equal(atomic_load(&losses.count), 0);
    ASSERT_OK(pawl_lock_release(lock));
    pawl_lock_close(lock);
    ASSERT_OK(close_client(client));
}

static void renewals_come_while_held_and_none_after(void **state)
{
    (void)state;
    proxy = proxy_start_for(server);
    pawl_client *client = open_client(proxy_url(proxy), NULL);
    pawl_lock *lock = open_watched(client, "kept", LEASE_MS, true, &losses);
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
    const int64_t end_ms = boottime_ms() + 5000;
    while (boottime_ms() < end_ms) {
        assert_true(pawl_lock_remaining_ms(lock) > 0);
        nap_ms(10);
    }
    const uint64_t renewals = proxy_answered(proxy, pawl__script_renew.sha1);
    print_message("%" PRIu64 " renewals of %d ms in 5 s\n", renewals, LEASE_MS);
    assert_in_range(renewals, 10, 30);
    assert_int_equal(atomic_load(&losses.count), 0);
    ASSERT_OK(pawl_lock_release(lock));
    const uint64_t until_release = proxy_received(proxy, pawl__script_renew.sha1);
    nap_ms(LEASE_MS);
    assert_int_equal(proxy_received(proxy, pawl__script_renew.sha1), until_release);
    pawl_lock_close(lock);
    ASSERT_OK(close_client(client));
}

/* The count of a re-entry is not waited for; its answer must not stand in the renewals' way. */
static void a_hold_that_was_entered_again_is_renewed_as_well(void **state)
{
    (void)state;
    pawl_client *client = open_client(server_url(server), NULL);
    pawl_lock *lock = open_watched(client, "entered", LEASE_MS, true, &losses);
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
    nap_ms(3 * LEASE_MS / 2);
    assert_int_equal(atomic_load(&losses.count), 0);
    ASSERT_OK(pawl_lock_release(lock));
    nap_ms(3 * LEASE_MS / 2);
    assert_int_equal(atomic_load(&losses.count), 0);
    ASSERT_OK(pawl_lock_release(lock));
    pawl_lock_close(lock);
    ASSERT_OK(close_client(client));
}

/* ===== Proof ===== */

static void taken_away_by(const char *command, const char *what)
{
    pawl_client *client = open_client(server_url(server), NULL);
    pawl_lock *lock = open_watched(client, "taken", LEASE_MS, true, &losses);
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
    const int64_t taken_ms = boottime_ms();
    free(server_command(server, "%s", command));
    WAIT_UNTIL(atomic_load(&losses.count) > 0, 2 * LEASE_MS);
    ASSERT_BY(what, LEASE_MS / 3, atomic_load(&losses.at_ms) - taken_ms);
    assert_int_equal(pawl_lock_remaining_ms(lock), 0);
    ASSERT_STATUS(PAWL_LOST, pawl_lock_release(lock));
    assert_lost_once();
    pawl_lock_close(lock);
    ASSERT_OK(close_client(client));
}

static void data_that_vanished_means_lost_by_the_next_renewal(void **state)
{
    (void)state;
    taken_away_by("FLUSHALL", "on_lost after FLUSHALL");
    taken_away_by("DEL taken", "on_lost after DEL");
    taken_away_by("SET taken foreign", "on_lost after an overwritten key");
    free(server_command(server, "DEL taken"));
}

static void a_broken_lock_is_lost_and_the_next_holder_is_left_alone(void **state)
{
    (void)state;
    pawl_client *client = open_client(server_url(server), NULL);
    pawl_client *other = open_client(server_url(server), NULL);
    pawl_lock *lock = open_watched(client, "broken", LEASE_MS, true, &losses);
    pawl_lock *handle = open_lock(other, "broken", 60000, false);
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
    ASSERT_OK(pawl_lock_break(handle));
    ASSERT_OK(pawl_lock_acquire(handle, PAWL_TRY));
    WAIT_UNTIL(atomic_load(&losses.count) > 0, LEASE_MS);
    ASSERT_STATUS(PAWL_LOST, pawl_lock_release(lock));
    assert_lost_once();
    assert_true(pawl_lock_remaining_ms(handle) > 50000);
    assert_in_range(server_integer(server, "PTTL broken"), 50000, 60000);
    ASSERT_OK(pawl_lock_release(handle));
    ASSERT_STATUS(PAWL_NOT_HELD, pawl_lock_break(handle));
    pawl_lock_close(lock);
    pawl_lock_close(handle);
    ASSERT_OK(close_client(other));
    ASSERT_OK(close_client(client));
}

static void a_release_that_finds_it_gone_reports_it_too(void **state)
{
    (void)state;
    pawl_client *client = open_client(server_url(server), NULL);
    pawl_lock *lock = open_watched(client, "gone", 30000, false, &losses);
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
    assert_int_equal(server_integer(server, "DEL gone"), 1);
    ASSERT_STATUS(PAWL_LOST, pawl_lock_release(lock));
    WAIT_UNTIL(atomic_load(&losses.count) > 0, SLACK_MS);
    assert_lost_once();
    ASSERT_STATUS(PAWL_NOT_HELD, pawl_lock_release(lock));
    pawl_lock_close(lock);
    ASSERT_OK(close_client(client));
}

static void a_restart_without_data_means_lost(void **state)
{
    (void)state;
    struct server *forgetful = server_start(NULL);
    pawl_client *client = open_client(server_url(forgetful), NULL);
    pawl_lock *lock = open_watched(client, "forgotten", 3 * LEASE_MS, true, &losses);
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
    server_restart(forgetful, false);
    const int64_t back_ms = boottime_ms();
    WAIT_UNTIL(atomic_load(&losses.count) > 0, 3 * LEASE_MS + SLACK_MS);
    print_message("lost %" PRId64 " ms after the restart\n", atomic_load(&losses.at_ms) - back_ms);
    ASSERT_STATUS(PAWL_LOST, pawl_lock_release(lock));
    assert_lost_once();
    pawl_lock_close(lock);
    ASSERT_OK(close_client(client));
    server_stop(forgetful);
}

/* ===== The holder itself ===== */

/* Holds the lock, says so, and when it is spoken to says at once what it sees. */
static int hold_and_tell(const struct child_pipes *pipes, const char *url)
{
    pawl_client *client = NULL;
    pawl_lock *lock = NULL;
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    char word = 0;
    options.lease_ms = LEASE_MS;
    options.on_lost = note_loss;
    options.event_arg = &losses;
    if (pawl_client_open(url, NULL, &client) != PAWL_OK ||
        pawl_lock_open(client, "stopped", &options, &lock) != PAWL_OK ||
        pawl_lock_acquire(lock, PAWL_TRY) != PAWL_OK || dprintf(pipes->out, "held\n") < 0 ||
        read(pipes->in, &word, 1) != 1) {
        return 1;
    }
    const int64_t left_ms = pawl_lock_remaining_ms(lock);
    const pawl_status inner = pawl_lock_acquire(lock, PAWL_TRY);
    const pawl_status status = pawl_lock_release(lock);
    for (int i = 0; i < 1000 && atomic_load(&losses.count) == 0; i++) {
        nap_ms(1);
    }
    nap_ms(100);
    dprintf(pipes->out, "%" PRId64 " %s %s %u\n", left_ms, pawl_status_string(inner),
        pawl_status_string(status), atomic_load(&losses.count));
    pawl_lock_close(lock);
    return pawl_client_close(client) == PAWL_OK ? 0 : 2;
}

static void a_holder_that_was_stopped_too_long_sees_it_at_its_first_look(void **state)
{
    (void)state;
    pawl_client *client = open_client(server_url(server), NULL);
    pawl_lock *lock = open_lock(client, "stopped", 60000, false);
    struct child *child = child_start("holder", server_url(server));
    char *line = child_read_line(child, 5000 * SLOWNESS);
    assert_non_null(line);
    assert_string_equal(line, "held");
    free(line);
    child_stop(child);
    const int64_t stopped_ms = boottime_ms();
    ASSERT_OK(pawl_lock_acquire(lock, 4 * LEASE_MS)); /* nobody renews: free after the lease */
    ASSERT_BY("granted after a stopped holder", LEASE_MS, boottime_ms() - stopped_ms);
    child_write(child, "look\n");
    child_continue(child);
    line = child_read_line(child, 5000 * SLOWNESS);
    assert_non_null(line);
    assert_string_equal(line, "0 lost lost 1");
    free(line);
    assert_int_equal(child_wait(child, 5000), 0);
    assert_true(pawl_lock_remaining_ms(lock) > 50000); /* and it did not touch ours */
    assert_in_range(server_integer(server, "PTTL stopped"), 50000, 60000);
    ASSERT_OK(pawl_lock_release(lock));
    pawl_lock_close(lock);
    ASSERT_OK(close_client(client));
}

static void by_the_clock_alone_every_call_sees_it(void **state)
{
    (void)state;
    pawl_client *client = open_client(server_url(server), NULL);
    pawl_lock *lock = open_watched(client, "late keeper", 30000, true, &losses);
    pawl_lock *untouched = open_watched(client, "other", 60000, true, &losses);
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
    ASSERT_OK(pawl_lock_acquire(untouched, PAWL_TRY));
    assert_true(pawl_lock_remaining_ms(lock) > 0);
    atomic_store(&ahead_us, INT64_C(30000000)); /* the keeper sleeps on, by the real clock */
    assert_int_equal(pawl_lock_remaining_ms(lock), 0);
    assert_int_equal(pawl_lock_token(lock), 0);
    ASSERT_STATUS(PAWL_LOST, pawl_lock_acquire(lock, PAWL_TRY));
    ASSERT_STATUS(PAWL_LOST, pawl_lock_extend(lock, 1000));
    WAIT_UNTIL(atomic_load(&losses.count) > 0, SLACK_MS);
    ASSERT_STATUS(PAWL_LOST, pawl_lock_release(lock));
    assert_lost_once();
    assert_true(pawl_lock_remaining_ms(untouched) > 0);
    ASSERT_OK(pawl_lock_release(untouched));
    pawl_lock_close(untouched);
    pawl_lock_close(lock);
    ASSERT_OK(close_client(client));
    atomic_store(&ahead_us, 0);
}

struct mortal {
    pawl_lock *lock;
    uint64_t owner;
    pawl_status status;
};

static void *acquire_and_end(void *arg)
{
    struct mortal *mortal = arg;
    mortal->owner = pawl_owner_self();
    mortal->status = pawl_lock_acquire(mortal->lock, PAWL_TRY);
    return NULL;
}

/* The url's backend ends the hold of a thread that has gone after its lease, and not before. */
static void a_thread_that_ends_loses(const char *url, const char *what)
{
    pawl_client *client = open_client(url, NULL);
    pawl_lock *lock = open_watched(client, "widow", LEASE_MS, true, &losses);
    struct mortal mortal = {lock, 0, PAWL_MISUSE};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, acquire_and_end, &mortal), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    const int64_t ended_ms = boottime_ms();
    assert_int_equal(mortal.status, PAWL_OK);
    WAIT_UNTIL(atomic_load(&losses.count) > 0, SLACK_MS);
    assert_true(atomic_load(&losses.owner) == mortal.owner);
    ASSERT_STATUS(PAWL_BUSY, pawl_lock_acquire(lock, PAWL_TRY));
    ASSERT_OK(pawl_lock_acquire(lock, 4 * LEASE_MS));
    ASSERT_BY(what, LEASE_MS, boottime_ms() - ended_ms);
    assert_true(boottime_ms() - ended_ms > LEASE_MS / 2);
    ASSERT_OK(pawl_lock_release(lock));
    assert_lost_once();
    pawl_lock_close(lock);
    ASSERT_OK(close_client(client));
}

static void a_thread_that_ends_loses_on_every_engine(void **state)
{
    (void)state;
    char url[URL_SIZE];
    snprintf(url, sizeof url, "file://%s", tempdir_make());
    a_thread_that_ends_loses(server_url(server), "granted after a thread's end (redis)");
    a_thread_that_ends_loses(url, "granted after a thread's end (file)");
}

/* ===== Files ===== */

static void on_files_it_is_lost_by_break_and_by_the_end_of_a_fixed_lease(void **state)
{
    (void)state;
    char url[URL_SIZE];
    snprintf(url, sizeof url, "file://%s", tempdir_make());
    pawl_client *client = open_client(url, NULL);
    pawl_client *other = open_client(url, NULL);
    pawl_lock *lock = open_watched(client, "x", LEASE_MS, true, &losses);
    pawl_lock *handle = open_lock(other, "x", 30000, true);
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
    ASSERT_OK(pawl_lock_break(handle));
    const int64_t broken_ms = boottime_ms();
    ASSERT_OK(pawl_lock_acquire(handle, PAWL_TRY));
    WAIT_UNTIL(atomic_load(&losses.count) > 0, SLACK_MS);
    ASSERT_BY("on_lost after a break (file)", 0, atomic_load(&losses.at_ms) - broken_ms);
    ASSERT_STATUS(PAWL_LOST, pawl_lock_release(lock));
    assert_lost_once();
    assert_true(pawl_lock_token(handle) > 0);
    ASSERT_OK(pawl_lock_release(handle));
    pawl_lock_close(lock);

    lock = open_watched(client, "x", LEASE_MS, false, &losses);
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
    const int64_t due_ms = boottime_ms() + pawl_lock_remaining_ms(lock);
    ASSERT_OK(pawl_lock_acquire(handle, 4 * LEASE_MS)); /* the keeper unlocks it */
    WAIT_UNTIL(atomic_load(&losses.count) > 0, SLACK_MS);
    ASSERT_BY("on_lost after a fixed lease (file)", 0, atomic_load(&losses.at_ms) - due_ms);
    ASSERT_STATUS(PAWL_LOST, pawl_lock_release(lock));
    assert_lost_once();
    ASSERT_OK(pawl_lock_release(handle));
    pawl_lock_close(lock);
    pawl_lock_close(handle);
    ASSERT_OK(close_client(other));
    ASSERT_OK(close_client(client));
}

int main(int argc, char *argv[])
{
    static const struct child_role roles[] = {{"holder", hold_and_tell}};
    child_dispatch(argc, argv, roles, 1);
    pawl__clock_hook = shifted_clock;
    const struct CMUnitTest tests[] = {
        CASE(backend_begin, a_frozen_server_means_lost_at_the_deadline),
        CASE(backend_begin, a_short_freeze_is_no_loss),
        CASE(backend_begin, killed_connections_are_no_loss),
        CASE(backend_begin, renewals_come_while_held_and_none_after),
        CASE(backend_begin, a_hold_that_was_entered_again_is_renewed_as_well),
        CASE(backend_begin, data_that_vanished_means_lost_by_the_next_renewal),
        CASE(backend_begin, a_broken_lock_is_lost_and_the_next_holder_is_left_alone),
        CASE(backend_begin, a_release_that_finds_it_gone_reports_it_too),
        CASE(backend_begin, a_restart_without_data_means_lost),
        CASE(backend_begin, a_holder_that_was_stopped_too_long_sees_it_at_its_first_look),
        CASE(backend_begin, by_the_clock_alone_every_call_sees_it),
        CASE(backend_begin, a_thread_that_ends_loses_on_every_engine),
        CASE(backend_begin, on_files_it_is_lost_by_break_and_by_the_end_of_a_fixed_lease),
    };
    return cmocka_run_group_tests(tests, backend_start, NULL);
}
