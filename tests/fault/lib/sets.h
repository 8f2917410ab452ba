/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of locks on two real servers, for tests of multi-locks: members m000, m001, ..., somebody
 * else's holds on them, and what the servers have seen. */
#ifndef PAWL_FAULT_LIB_SETS_H
#define PAWL_FAULT_LIB_SETS_H

#include "fault/lib/fault.h"

enum {
    FEW = 4,
    EIGHT = 8,
    MANY = 300,
    TIMEOUT_MS = 500,
    LEASE_MS = 1500,
    BOUND_MS = 8000,
};

static struct server *servers[2];

static inline int start_servers(void **state)
{
    (void)state;
    servers[0] = server_start(NULL);
    servers[1] = server_start(NULL);
    return 0;
}

static inline int begin(void **state)
{
    for (size_t i = 0; i < 2; i++) {
        free(server_command(servers[i], "CONFIG SET maxmemory 0"));
        free(server_command(servers[i], "FLUSHALL"));
    }
    return cleanup_setup(state);
}

/* ===== Scenes ===== */

static inline void end_client(void *client)
{
    pawl_client_close(client);
}

static inline void end_lock(void *lock)
{
    pawl_lock_close(lock);
}

static inline pawl_client *open_at(const char *url, int64_t timeout_ms)
{
    pawl_client_options options = PAWL_CLIENT_OPTIONS_INIT;
    pawl_client *client = NULL;
    options.timeout_ms = timeout_ms;
    ASSERT_OK(pawl_client_open(url, &options, &client));
    cleanup_add(end_client, client);
    return client;
}

static inline pawl_client *open_patient(size_t server, int64_t timeout_ms)
{
    return open_at(server_url(servers[server]), timeout_ms);
}

static inline pawl_client *open_client(size_t server)
{
    return open_patient(server, TIMEOUT_MS);
}

static inline pawl_lock *open_kind(pawl_client *client, size_t number, pawl_kind kind)
{
    char name[32];
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    pawl_lock *lock = NULL;
    options.lease_ms = LEASE_MS;
    options.kind = kind;
    options.owner = PAWL_OWNER_HANDLE;
    options.reentry = true;
    snprintf(name, sizeof name, "m%03zu", number);
    ASSERT_OK(pawl_lock_open(client, name, &options, &lock));
    cleanup_add(end_lock, lock);
    return lock;
}

static inline pawl_lock *open_lock(pawl_client *client, size_t number)
{
    return open_kind(client, number, PAWL_MUTEX);
}

static inline pawl_lock *open_multi(pawl_lock *const members[], size_t count)
{
    pawl_lock *multi = NULL;
    ASSERT_OK(pawl_lock_open_multi(members, count, NULL, &multi));
    cleanup_add(end_lock, multi);
    return multi;
}

/* Members m000, m001, ..., given from the last to the first; members_out[i] is number i. */
static inline pawl_lock *open_set(pawl_client *client, size_t count, pawl_lock **members_out)
{
    pawl_lock *given[MANY];
    for (size_t i = 0; i < count; i++) {
        given[count - 1 - i] = open_lock(client, i);
        members_out[i] = given[count - 1 - i];
    }
    return open_multi(given, count);
}

/* The server knows all scripts, and the connection is there. */
static inline void warm_up(pawl_lock *multi)
{
    for (int i = 0; i < 2; i++) {
        ASSERT_OK(pawl_lock_acquire(multi, BOUND_MS));
        ASSERT_OK(pawl_lock_release(multi));
    }
}

static inline int64_t held_count(size_t server)
{
    char *keys = server_command(servers[server], "KEYS m[0-9]*");
    int64_t count = 0;
    for (const char *at = keys; (at = strchr(at, 'm')) != NULL; at++) {
        count++;
    }
    free(keys);
    return count;
}

/* How often scripts have been called by their SHA-1 since the last question. */
static inline long script_calls(size_t server)
{
    char *stats = server_command(servers[server], "INFO commandstats");
    const char *found = strstr(stats, "cmdstat_evalsha:calls=");
    const long calls = found != NULL ? strtol(strchr(found, '=') + 1, NULL, 10) : 0;
    free(stats);
    free(server_command(servers[server], "CONFIG RESETSTAT"));
    return calls;
}

/* Somebody else's hold. */
static inline void occupy(size_t server, size_t number)
{
    free(server_command(servers[server], "HSET m%03zu somebody:1 1", number));
    free(server_command(servers[server], "PEXPIRE m%03zu 60000", number));
}

static inline void vacate(size_t server, size_t number)
{
    free(server_command(servers[server], "DEL m%03zu", number));
    free(server_command(servers[server], "PUBLISH redisson_lock__channel:{m%03zu} 0", number));
}

static _Atomic int answers;
static _Atomic int last;

static inline void note(pawl_lock *lock, pawl_status status, void *arg)
{
    (void)lock;
    (void)arg;
    atomic_store(&last, (int)status);
    atomic_fetch_add(&answers, 1);
}

/* Acquire without a thread that waits, until it waits for this member. */
static inline void start_waiting(pawl_lock *multi, size_t number)
{
    char channel[64];
    char expected[80];
    atomic_store(&answers, 0);
    ASSERT_OK(pawl_lock_acquire_async(multi, PAWL_FOREVER, note, NULL));
    snprintf(channel, sizeof channel, "redisson_lock__channel:{m%03zu}", number);
    snprintf(expected, sizeof expected, "%s 1", channel);
    WAIT_UNTIL(server_answers(servers[0], expected, "PUBSUB NUMSUB %s", channel), BOUND_MS);
}

static inline void await_grant(pawl_lock *multi)
{
    WAIT_UNTIL(atomic_load(&answers) == 1, BOUND_MS);
    assert_int_equal(atomic_load(&last), PAWL_OK);
    ASSERT_OK(pawl_lock_release(multi));
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, begin, cleanup_teardown)

#endif
