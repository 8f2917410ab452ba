/* SPDX-License-Identifier: Apache-2.0 */
/* An owner who enters a member while its multi-lock still waits for the rest: it has that member,
 * whatever becomes of the set, so it is told when the hold comes into danger. */
#include "fault/lib/sets.h"

enum { LONG_MS = 6000 };

static _Atomic int risks;

static void note_risk(const pawl_event *event, void *arg)
{
    (void)arg;
    assert_int_equal(event->status, PAWL_UNAVAILABLE);
    atomic_fetch_add(&risks, 1);
}

static void end_pause(void *server)
{
    server_resume(server);
}

/* m000, whose renewals fail as soon as its server is paused. */
static pawl_lock *open_watched(void)
{
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    pawl_lock *lock = NULL;
    options.owner = PAWL_OWNER_HANDLE;
    options.reentry = true;
    options.lease_ms = LONG_MS;
    options.warn_ms = LONG_MS;
    options.on_risk = note_risk;
    ASSERT_OK(pawl_lock_open(open_client(0), "m000", &options, &lock));
    cleanup_add(end_lock, lock);
    return lock;
}

static void pause_first(void)
{
    server_pause(servers[0]);
    cleanup_add(end_pause, servers[0]);
}

/* The set has m000 and waits for m001. */
static pawl_lock *begin_set(pawl_lock *members[2])
{
    members[0] = open_watched();
    members[1] = open_lock(open_client(1), 1);
    pawl_lock *multi = open_multi(members, 2);
    atomic_store(&risks, 0);
    atomic_store(&answers, 0);
    occupy(1, 1);
    ASSERT_OK(pawl_lock_acquire_async(multi, PAWL_FOREVER, note, NULL));
    WAIT_UNTIL(pawl_lock_remaining_ms(members[0]) > 0, BOUND_MS);
    return multi;
}

static void end_set(pawl_lock *multi, pawl_lock *member)
{
    assert_int_equal(atomic_load(&answers), 0); /* the set is not had yet */
    server_resume(servers[0]);
    vacate(1, 1);
    await_grant(multi);
    assert_int_equal(atomic_load(&risks), 1);
    ASSERT_OK(pawl_lock_release(member));
}

static void before_the_danger(void **state)
{
    (void)state;
    pawl_lock *members[2];
    pawl_lock *multi = begin_set(members);
    ASSERT_OK(pawl_lock_acquire(members[0], PAWL_TRY));
    pause_first();
    WAIT_UNTIL(atomic_load(&risks) == 1, LONG_MS);
    end_set(multi, members[0]);
}

static void in_the_middle_of_it(void **state)
{
    (void)state;
    pawl_lock *members[2];
    pawl_lock *multi = begin_set(members);
    pause_first();
    WAIT_UNTIL(pawl_lock_remaining_ms(members[0]) < LONG_MS / 2, BOUND_MS);
    assert_int_equal(atomic_load(&risks), 0); /* nobody has anything yet */
    ASSERT_OK(pawl_lock_acquire(members[0], PAWL_TRY));
    WAIT_UNTIL(atomic_load(&risks) == 1, LONG_MS / 2); /* after that it would be lost */
    end_set(multi, members[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(before_the_danger),
        CASE(in_the_middle_of_it),
    };
    return cmocka_run_group_tests(tests, start_servers, NULL);
}
