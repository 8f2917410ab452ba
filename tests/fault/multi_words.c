/* SPDX-License-Identifier: Apache-2.0 */
/* What a multi-lock says, and of which member, on a real server. */
#include "fault/lib/sets.h"

#include "base/clock.h"

/* A user that may do everything, but nothing to the keys of this member. */
static pawl_lock *open_forbidden(size_t forbidden, pawl_lock **members_out)
{
    pawl_client *client = NULL;
    char url[128];
    free(server_command(servers[0], "ACL SETUSER most reset on >secret ~* &* +@all"));
    snprintf(
        url, sizeof url, "redis://most:secret@127.0.0.1:%u", (unsigned)server_port(servers[0]));
    ASSERT_OK(pawl_client_open(url, NULL, &client));
    cleanup_add(end_client, client);
    pawl_lock *multi = open_set(client, FEW, members_out);
    warm_up(multi);
    free(server_command(servers[0], "ACL SETUSER most resetkeys"));
    for (size_t i = 0; i < FEW; i++) {
        if (i != forbidden) {
            free(server_command(servers[0], "ACL SETUSER most ~m%03zu ~*{m%03zu}*", i, i));
        }
    }
    return multi;
}

/* The server refuses the whole command and does not say because of which key. */
static void a_member_that_is_denied(void **state)
{
    (void)state;
    pawl_lock *members[FEW];
    pawl_lock *multi = open_forbidden(2, members);
    for (int64_t wait_ms = 0; wait_ms < 3000; wait_ms += 2000) {
        ASSERT_STATUS(PAWL_DENIED, pawl_lock_acquire(multi, wait_ms));
        assert_non_null(strstr(pawl_last_error(), "member 2 of 4 of a multi-lock: "));
        assert_non_null(strstr(pawl_last_error(), "m002"));
        assert_int_equal(pawl_lock_member_status(multi, 1), PAWL_DENIED);
        assert_int_equal(pawl_lock_member_status(multi, 2), PAWL_OK);
        WAIT_UNTIL(held_count(0) == 0, BOUND_MS);
    }
}

/* There is nothing to wait for, though another one is busy. */
static void a_denied_one_behind_a_busy_one(void **state)
{
    (void)state;
    pawl_lock *members[FEW];
    pawl_lock *multi = open_forbidden(2, members);
    occupy(0, 0);
    const int64_t start_us = pawl__now_us();
    ASSERT_STATUS(PAWL_DENIED, pawl_lock_acquire(multi, BOUND_MS));
    assert_true(pawl__now_us() - start_us < BOUND_MS * INT64_C(1000));
    assert_non_null(strstr(pawl_last_error(), "m002"));
    assert_int_equal(pawl_lock_member_status(multi, 1), PAWL_DENIED);
    WAIT_UNTIL(held_count(0) == 1, BOUND_MS);
}

/* The others are released all the same. */
static void a_release_that_is_denied(void **state)
{
    (void)state;
    pawl_lock *members[FEW];
    pawl_lock *multi = open_forbidden(FEW, members);
    ASSERT_OK(pawl_lock_acquire(multi, PAWL_TRY));
    free(server_command(servers[0], "ACL SETUSER most resetkeys ~m000 ~m002 ~m003 ~*{m*"));
    ASSERT_STATUS(PAWL_DENIED, pawl_lock_release(multi));
    assert_non_null(strstr(pawl_last_error(), "m001"));
    assert_int_equal(pawl_lock_member_status(multi, 2), PAWL_DENIED);
    assert_int_equal(pawl_lock_member_status(multi, 1), PAWL_OK);
    assert_int_equal(server_integer(servers[0], "EXISTS m000 m001 m002 m003"), 1);
}

/* ===== Busy ===== */

static void expect_busy(pawl_lock *multi, int64_t wait_ms, const char *sentence)
{
    ASSERT_STATUS(PAWL_BUSY, pawl_lock_acquire(multi, wait_ms));
    if (strstr(pawl_last_error(), sentence) == NULL) {
        support_fail("'%s' does not say '%s'", pawl_last_error(), sentence);
    }
}

#define SOMEBODY "0123abcd-4567-8901-2345-0123456789ab"

/* Somebody's key, which will expire. */
static void put(const char *command)
{
    free(server_command(servers[0], "DEL m002 m003"));
    free(server_command(servers[0], "%s", command));
    free(server_command(servers[0], "PEXPIRE m002 60000"));
    free(server_command(servers[0], "PEXPIRE m003 60000"));
}

static void a_busy_set_names_the_holder(void **state)
{
    (void)state;
    pawl_client *client = open_client(0);
    pawl_lock *members[] = {open_lock(client, 2), open_lock(client, 1)};
    pawl_lock *mutexes = open_multi(members, 2);
    client = open_client(0);
    pawl_lock *others[] = {open_kind(client, 2, PAWL_READ), open_kind(client, 3, PAWL_PLAIN)};
    pawl_lock *mixed = open_multi(others, 2);
    for (int64_t wait_ms = 0; wait_ms <= 50; wait_ms += 50) {
        put("HSET m002 " SOMEBODY ":1 1");
        expect_busy(mutexes, wait_ms,
            "member 1 of 2 of a multi-lock: lock 'm002': it is held elsewhere, by " SOMEBODY ":1");
        put("HSET m002 mode write " SOMEBODY ":23:write 1");
        expect_busy(mixed, wait_ms, "lock 'm002': it is held elsewhere, by " SOMEBODY ":23");
        assert_null(strstr(pawl_last_error(), "write"));
        put("SET m003 " SOMEBODY ":3");
        expect_busy(mixed, wait_ms, "lock 'm003': it is held elsewhere, by " SOMEBODY ":3");
    }
}

/* Of somebody's data nothing is told, and nothing is sent. */
static void data_in_the_way(void **state)
{
    (void)state;
    static const char *const data[] = {"SET m003 secret", "SETRANGE m003 3000000 secret",
        ("SET m003 " SOMEBODY ":1:secret"), "HSET m002 secret 1", "HSET m002 mode secret",
        "HSET m002 mode write secret:1:write 1"};
    pawl_client *client = open_client(0);
    pawl_lock *members[] = {open_kind(client, 2, PAWL_READ), open_kind(client, 3, PAWL_PLAIN)};
    pawl_lock *mixed = open_multi(members, 2);
    client = open_client(0);
    pawl_lock *others[] = {open_lock(client, 2), open_lock(client, 1)};
    pawl_lock *mutexes = open_multi(others, 2);
    for (size_t i = 0; i < sizeof data / sizeof data[0]; i++) {
        put(data[i]);
        for (int64_t wait_ms = 0; wait_ms <= 50; wait_ms += 50) {
            expect_busy(mixed, wait_ms, "of a multi-lock: ");
            assert_null(strstr(pawl_last_error(), "secret"));
            assert_null(strstr(pawl_last_error(), "by mode"));
        }
    }
    expect_busy(mutexes, PAWL_TRY, "of a multi-lock: ");
    assert_null(strstr(pawl_last_error(), "secret"));
}

/* As the command says it of a lock that it waits for. */
static void somebodys_hash(void **state)
{
    (void)state;
    pawl_client *client = open_client(0);
    pawl_lock *members[] = {open_lock(client, 0), open_lock(client, 1)};
    pawl_lock *multi = open_multi(members, 2);
    free(server_command(servers[0], "HSET m001 colour red size 12"));
    expect_busy(multi, PAWL_TRY, "lock 'm001': it is held elsewhere, by a key that never expires");
    expect_busy(multi, 50, "lock 'm001': it is held elsewhere, by a key that never expires");
    expect_busy(multi, 1200, "lock 'm001': it is held elsewhere, by a key that never expires");
    expect_busy(members[1], PAWL_TRY, "'m001': it is held elsewhere, by a key that never expires");
}

/* ===== Lost on the way ===== */

static _Atomic int losses;

static void note_loss(const pawl_event *event, void *arg)
{
    (void)event;
    (void)arg;
    atomic_fetch_add(&losses, 1);
}

static pawl_lock *open_fixed(pawl_client *client, const char *name)
{
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    pawl_lock *lock = NULL;
    options.lease_ms = 1000;
    options.renew = false;
    options.on_lost = note_loss;
    ASSERT_OK(pawl_lock_open(client, name, &options, &lock));
    cleanup_add(end_lock, lock);
    return lock;
}

/* The first is had, the second is not to be had before the first one's lease is over: there is no
 * sense in waiting any longer. Who has never had the set has not lost it. */
static void a_lease_that_ends_on_the_way(void **state)
{
    (void)state;
    pawl_client *clients[2] = {open_client(0), open_client(1)};
    pawl_lock *members[] = {open_fixed(clients[1], "m001"), open_fixed(clients[0], "m000")};
    pawl_lock *multi = open_multi(members, 2);
    atomic_store(&losses, 0);
    occupy(1, 1);
    const int64_t start_us = pawl__now_us();
    ASSERT_STATUS(PAWL_LOST, pawl_lock_acquire(multi, 2 * BOUND_MS));
    assert_true(pawl__now_us() - start_us < BOUND_MS * INT64_C(1000));
    assert_non_null(
        strstr(pawl_last_error(), "member 2 of 2 of a multi-lock: lock 'm000' was lost"));
    assert_int_equal(pawl_lock_member_status(multi, 1), PAWL_LOST);
    assert_int_equal(held_count(0), 0);
    assert_int_equal(pawl_lock_hold_count(members[1]), 0);
    vacate(1, 1);

    ASSERT_OK(pawl_lock_acquire(multi, PAWL_TRY)); /* this time it has */
    WAIT_UNTIL(atomic_load(&losses) == 2, BOUND_MS);
    ASSERT_STATUS(PAWL_LOST, pawl_lock_release(multi));
    assert_int_equal(atomic_load(&losses), 2);
}

/* One that the caller has besides. */
static void a_lease_of_a_member_held_otherwise(void **state)
{
    (void)state;
    pawl_client *clients[2] = {open_client(0), open_client(1)};
    pawl_lock *members[] = {open_fixed(clients[0], "m000"), open_fixed(clients[1], "m001")};
    pawl_lock *multi = open_multi(members, 2);
    atomic_store(&losses, 0);
    occupy(1, 1);
    ASSERT_OK(pawl_lock_acquire(members[0], PAWL_TRY));
    ASSERT_STATUS(PAWL_LOST, pawl_lock_acquire(multi, 2 * BOUND_MS));
    WAIT_UNTIL(atomic_load(&losses) == 1, BOUND_MS);
    ASSERT_STATUS(PAWL_LOST, pawl_lock_release(members[0]));
}

static _Atomic int risks;

static void note_risk(const pawl_event *event, void *arg)
{
    (void)event;
    (void)arg;
    atomic_fetch_add(&risks, 1);
}

static void end_pause(void *server)
{
    server_resume(server);
}

/* Its renewals fail while the set waits for the rest: whoever gets the set is told then. */
static void a_danger_on_the_way(void **state)
{
    (void)state;
    enum { LONG_MS = 6000 };
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    pawl_lock *members[2] = {NULL, open_lock(open_client(1), 1)};
    options.owner = PAWL_OWNER_HANDLE;
    options.lease_ms = LONG_MS;
    options.warn_ms = LONG_MS;
    options.on_risk = note_risk;
    ASSERT_OK(pawl_lock_open(open_client(0), "m000", &options, &members[0]));
    cleanup_add(end_lock, members[0]);
    pawl_lock *multi = open_multi(members, 2);
    atomic_store(&risks, 0);
    atomic_store(&answers, 0);
    occupy(1, 1);
    ASSERT_OK(pawl_lock_acquire_async(multi, PAWL_FOREVER, note, NULL));
    WAIT_UNTIL(pawl_lock_remaining_ms(members[0]) > 0, BOUND_MS);
    server_pause(servers[0]);
    cleanup_add(end_pause, servers[0]);
    WAIT_UNTIL(pawl_lock_remaining_ms(members[0]) < LONG_MS / 2, BOUND_MS);
    assert_int_equal(atomic_load(&risks), 0);
    vacate(1, 1);
    WAIT_UNTIL(atomic_load(&answers) == 1, BOUND_MS);
    assert_int_equal(atomic_load(&last), PAWL_OK);
    WAIT_UNTIL(atomic_load(&risks) == 1, LONG_MS / 4);
    server_resume(servers[0]);
    ASSERT_OK(pawl_lock_release(multi));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_member_that_is_denied),
        CASE(a_denied_one_behind_a_busy_one),
        CASE(a_release_that_is_denied),
        CASE(a_busy_set_names_the_holder),
        CASE(data_in_the_way),
        CASE(somebodys_hash),
        CASE(a_lease_that_ends_on_the_way),
        CASE(a_lease_of_a_member_held_otherwise),
        CASE(a_danger_on_the_way),
    };
    return cmocka_run_group_tests(tests, start_servers, NULL);
}
