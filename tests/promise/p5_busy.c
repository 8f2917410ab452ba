/* SPDX-License-Identifier: Apache-2.0 */
/* P5 on a connection that was busy until the server froze.
 *
 * On a busy connection whoever reads sleeps without a timer of its own, and the keeper ends that
 * sleep when it is time. So here callers are busy first; then the server stops, and every call that
 * was under way, or comes next, must still end by its limit + 50 ms. Also if there can be no
 * keeper. With the engine alone: unit/redis_busy_test.c. */
#include "promise/common.h"

#include <netinet/in.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>

#define TIMEOUT_MS 250
#define QUERY "?timeout=250ms&connect_timeout=250ms"
#define LEASE_MS 60000
#define CROWD 8
#define DESCRIPTORS_MAX 256

static struct server *server;

static int start_server(void **state)
{
    (void)state;
    server = server_start(NULL);
    return 0;
}

static int begin(void **state)
{
    return flush_and_setup(server, state);
}

static void lock_and_unlock(pawl_lock *lock, int times)
{
    for (int i = 0; i < times; i++) {
        ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
        ASSERT_OK(pawl_lock_release(lock));
    }
}

/* ===== One caller ===== */

/* Does a connection to the server have no receive timeout? It had one when it was new. */
static bool sleeps_without_a_timer(void)
{
    for (int fd = 0; fd < DESCRIPTORS_MAX; fd++) {
        struct sockaddr_in peer = {0};
        struct timeval timeout = {0};
        socklen_t peer_size = sizeof peer;
        socklen_t timeout_size = sizeof timeout;
        if (getpeername(fd, (struct sockaddr *)&peer, &peer_size) == 0 &&
            peer.sin_family == AF_INET && ntohs(peer.sin_port) == server_port(server) &&
            getsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, &timeout_size) == 0 &&
            timeout.tv_sec == 0 && timeout.tv_usec == 0) {
            return true;
        }
    }
    return false;
}

/* Each of these calls is the first on a connection that has been busy. */
static void call_ends(pawl_lock *lock, const char *what, int64_t limit_ms, int64_t wait_ms)
{
    server_pause(server);
    ASSERT_ENDS(what, limit_ms, PAWL_UNAVAILABLE, pawl_lock_acquire(lock, wait_ms));
    server_resume(server);
    ASSERT_OK(pawl_lock_acquire(lock, 5000));
    ASSERT_OK(pawl_lock_release(lock));
}

static void one_caller(const char *url, bool tcp)
{
    pawl_client *client = open_client(url, QUERY);
    pawl_lock *lock = open_lock(client, "busy", LEASE_MS, false);
    const int64_t waits_ms[] = {PAWL_TRY, 100, 400};
    for (size_t i = 0; i < 3; i++) {
        const int64_t limit_ms = waits_ms[i] > TIMEOUT_MS ? waits_ms[i] : TIMEOUT_MS;
        if (tcp) {
            WAIT_UNTIL((lock_and_unlock(lock, 100), sleeps_without_a_timer()), 10000);
        }
        lock_and_unlock(lock, 300);
        call_ends(lock, "acquire after a busy time", limit_ms, waits_ms[i]);
    }
    pawl_lock_close(lock);
    ASSERT_OK(close_client(client));
}

static void a_call_after_a_busy_time_ends(void **state)
{
    (void)state;
    one_caller(server_url(server), true);
}

static void a_call_after_a_busy_time_ends_behind_a_unix_socket(void **state)
{
    (void)state;
    one_caller(server_unix_url(server), false);
}

/* The keeper needs a descriptor to start, and gets none. */
static void without_a_keeper_too(void **state)
{
    (void)state;
    struct rlimit before;
    pawl_client *client = open_client(server_url(server), QUERY);
    pawl_lock *lock = open_lock(client, "busy", LEASE_MS, false);
    const size_t threads = thread_count();
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    const struct rlimit none = {.rlim_cur = 3, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    lock_and_unlock(lock, 500);
    kill(server_pid(server), SIGSTOP);
    const int64_t began_ms = boottime_ms();
    const pawl_status status = pawl_lock_acquire(lock, PAWL_TRY);
    const int64_t took_ms = boottime_ms() - began_ms;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    kill(server_pid(server), SIGCONT);
    assert_int_equal(thread_count(), threads);
    assert_int_equal(status, PAWL_UNAVAILABLE);
    ASSERT_BY("acquire without a keeper", TIMEOUT_MS, took_ms);
    ASSERT_OK(pawl_lock_acquire(lock, 5000));
    pawl_lock_close(lock);
    ASSERT_OK(close_client(client));
}

static void a_few_calls_start_no_thread(void **state)
{
    (void)state;
    const size_t threads = thread_count();
    pawl_client *client = open_client(server_url(server), QUERY);
    pawl_lock *lock = open_lock(client, "few", LEASE_MS, true);
    pawl_lock_info info = {.size = sizeof info};
    for (int i = 0; i < 10; i++) {
        ASSERT_OK(pawl_lock_inspect(lock, &info));
    }
    assert_int_equal(thread_count(), threads);
    pawl_lock_close(lock);
    ASSERT_OK(close_client(client));
}

/* ===== A crowd ===== */

struct caller {
    pthread_t thread;
    pawl_lock *lock;
    int64_t late_ms;
};

/* Be busy until a call fails: how late was that? */
static void *call_until_it_fails(void *arg)
{
    struct caller *caller = arg;
    pawl_status status = PAWL_OK;
    int64_t began_ms = 0;
    while (status == PAWL_OK) {
        began_ms = boottime_ms();
        status = pawl_lock_acquire(caller->lock, PAWL_TRY);
        if (status == PAWL_OK) {
            began_ms = boottime_ms();
            status = pawl_lock_release(caller->lock);
        }
    }
    caller->late_ms = boottime_ms() - began_ms - TIMEOUT_MS;
    return NULL;
}

static void a_busy_crowd_ends(const char *url)
{
    struct caller callers[CROWD] = {{0}};
    pawl_client *client = open_client(url, QUERY);
    for (size_t i = 0; i < CROWD; i++) {
        char name[32];
        snprintf(name, sizeof name, "crowd%zu", i);
        callers[i].lock = open_lock(client, name, LEASE_MS, true);
        assert_int_equal(
            pthread_create(&callers[i].thread, NULL, call_until_it_fails, &callers[i]), 0);
    }
    char *commands = NULL;
    WAIT_UNTIL((free(commands), commands = server_info(server, "total_commands_processed")) &&
                   atoll(commands) > 20000,
        60000);
    free(commands);
    server_pause(server);
    int64_t late_ms = 0;
    for (size_t i = 0; i < CROWD; i++) {
        pthread_join(callers[i].thread, NULL);
        late_ms = callers[i].late_ms > late_ms ? callers[i].late_ms : late_ms;
    }
    server_resume(server);
    ASSERT_BY("the latest of 8 busy threads", 0, late_ms);
    for (size_t i = 0; i < CROWD; i++) {
        pawl_lock_close(callers[i].lock);
    }
    close_client(client); /* what it says depends on how far the last releases got */
}

static void everybody_in_a_busy_crowd_ends(void **state)
{
    (void)state;
    free(server_command(server, "CONFIG RESETSTAT"));
    a_busy_crowd_ends(server_url(server));
}

static void everybody_behind_a_unix_socket_too(void **state)
{
    (void)state;
    free(server_command(server, "CONFIG RESETSTAT"));
    a_busy_crowd_ends(server_unix_url(server));
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, begin, cleanup_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_call_after_a_busy_time_ends),
        CASE(a_call_after_a_busy_time_ends_behind_a_unix_socket),
        CASE(without_a_keeper_too),
        CASE(a_few_calls_start_no_thread),
        CASE(everybody_in_a_busy_crowd_ends),
        CASE(everybody_behind_a_unix_socket_too),
    };
    return cmocka_run_group_tests(tests, start_server, NULL);
}
