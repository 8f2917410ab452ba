/* SPDX-License-Identifier: Apache-2.0 */
/* P5 on real servers that do not answer: every call ends by its limit.
 *
 * The same calls meet a frozen server, a line that swallows one direction or the other, a peer that
 * vanished without a word, a refused port, a server that accepts and says nothing, and one that
 * does not even accept. Promised is the limit + 50 ms; the lateness is printed. To the microsecond:
 * p5_limits_clock.c; about waiting: p5_waiting.c. */
#include "promise/lib/backend.h"

#include "support/sockets.h"

#include <sys/socket.h>
#include <unistd.h>

#define TIMEOUT_MS 250
#define QUERY "?timeout=250ms&connect_timeout=250ms"
#define LEASE_MS 60000
#define CROWD 8

/* ===== Faults ===== */

static void freeze(void)
{
    server_pause(server);
}

static void thaw(void)
{
    server_resume(server);
}

static void swallow_requests(void)
{
    proxy_blackhole(proxy, PROXY_TO_SERVER, true);
}

static void swallow_replies(void)
{
    proxy_blackhole(proxy, PROXY_TO_CLIENT, true);
}

static void swallow_nothing(void)
{
    proxy_blackhole(proxy, PROXY_TO_SERVER, false);
    proxy_blackhole(proxy, PROXY_TO_CLIENT, false);
}

static void vanish(void)
{
    proxy_cut_now(proxy, PROXY_MUTE);
    proxy_hold(proxy, PROXY_TO_SERVER);
    proxy_hold(proxy, PROXY_TO_CLIENT);
}

static void come_back(void)
{
    proxy_release(proxy, PROXY_TO_SERVER);
    proxy_release(proxy, PROXY_TO_CLIENT);
}

static void refuse(void)
{
    proxy_refuse(proxy, true);
    proxy_cut_now(proxy, PROXY_RST);
}

static void accept_again(void)
{
    proxy_refuse(proxy, false);
}

/* ===== Every call ===== */

static void all_calls_end(pawl_lock *held, pawl_lock *other)
{
    pawl_lock_info info = {.size = sizeof info};
    ASSERT_ENDS("try", TIMEOUT_MS, PAWL_UNAVAILABLE, pawl_lock_acquire(other, PAWL_TRY));
    ASSERT_ENDS("acquire, 100 ms", TIMEOUT_MS, PAWL_UNAVAILABLE, pawl_lock_acquire(other, 100));
    ASSERT_ENDS("acquire, 600 ms", 600, PAWL_UNAVAILABLE, pawl_lock_acquire(other, 600));
    ASSERT_ENDS("extend", TIMEOUT_MS, PAWL_UNAVAILABLE, pawl_lock_extend(held, LEASE_MS));
    ASSERT_ENDS("inspect", TIMEOUT_MS, PAWL_UNAVAILABLE, pawl_lock_inspect(other, &info));
    ASSERT_ENDS("break", TIMEOUT_MS, PAWL_UNAVAILABLE, pawl_lock_break(other));
    ASSERT_ENDS("release", TIMEOUT_MS, PAWL_UNAVAILABLE, pawl_lock_release(held));
}

static void open_ends(const char *url, const char *what, int64_t limit_ms)
{
    char whole[2 * URL_SIZE];
    pawl_client *client = NULL;
    snprintf(whole, sizeof whole, "%s" QUERY, url);
    ASSERT_ENDS(what, limit_ms, PAWL_UNAVAILABLE, pawl_client_open(whole, NULL, &client));
    assert_null(client);
}

/* `url` leads to the server through whatever the fault acts on. */
static void all_calls_end_during(const char *url, void (*fault)(void), void (*heal)(void))
{
    pawl_client *client = open_client(url, QUERY);
    pawl_lock *held = open_lock(client, "held", LEASE_MS, false);
    pawl_lock *other = open_lock(client, "other", LEASE_MS, false);
    ASSERT_OK(pawl_lock_acquire(held, PAWL_TRY));
    fault();
    all_calls_end(held, other);
    open_ends(url, "open", 2 * TIMEOUT_MS);
    heal();
    WAIT_UNTIL(!is_locked(server, "held"), 5000); /* the release goes on in the background */
    ASSERT_OK(pawl_lock_acquire(other, 3000));
    ASSERT_OK(pawl_lock_release(other));
    pawl_lock_close(other);
    pawl_lock_close(held);
    ASSERT_OK(close_client(client));
}

static void with_a_frozen_server(void **state)
{
    (void)state;
    all_calls_end_during(server_url(server), freeze, thaw);
}

static void with_a_frozen_server_behind_a_unix_socket(void **state)
{
    (void)state;
    all_calls_end_during(server_unix_url(server), freeze, thaw);
}

static void with_requests_that_vanish(void **state)
{
    (void)state;
    all_calls_end_during(proxy_url(proxy), swallow_requests, swallow_nothing);
}

static void with_replies_that_vanish(void **state)
{
    (void)state;
    all_calls_end_during(proxy_url(proxy), swallow_replies, swallow_nothing);
}

static void with_a_peer_that_vanished(void **state)
{
    (void)state;
    all_calls_end_during(proxy_url(proxy), vanish, come_back);
}

static void with_a_refused_port(void **state)
{
    (void)state;
    all_calls_end_during(proxy_url(proxy), refuse, accept_again);
}

/* ===== Opening ===== */

static void open_on_a_server_that_says_nothing(void **state)
{
    (void)state;
    struct scripted *scripted = scripted_start();
    scripted_play(scripted, "SILENCE\n");
    open_ends(scripted_url(scripted), "open, silent server", 2 * TIMEOUT_MS);
    pawl_client *client = open_client(scripted_url(scripted), QUERY "&lazy=1");
    pawl_lock *lock = open_lock(client, "x", LEASE_MS, true);
    ASSERT_ENDS(
        "lazy client: try", TIMEOUT_MS, PAWL_UNAVAILABLE, pawl_lock_acquire(lock, PAWL_TRY));
    pawl_lock_close(lock);
    ASSERT_ENDS("lazy client: close", TIMEOUT_MS, PAWL_OK, close_client(client));
}

static void open_on_a_port_where_nobody_listens(void **state)
{
    (void)state;
    char url[64];
    snprintf(url, sizeof url, "redis://127.0.0.1:%u", socket_pick_port());
    open_ends(url, "open, refused port", 0); /* refused is refused at once */
}

/* The kernel does not even answer the first packet: the queue of a listener is full. */
static void open_on_a_port_that_never_accepts(void **state)
{
    (void)state;
    char url[64];
    int fillers[16];
    uint16_t port = 0;
    const int listener = socket_listen(&port);
    assert_int_equal(listen(listener, 0), 0);
    for (size_t i = 0; i < sizeof fillers / sizeof fillers[0]; i++) {
        fillers[i] = socket_begin(port);
    }
    snprintf(url, sizeof url, "redis://127.0.0.1:%u", port);
    open_ends(url, "open, never accepted", 2 * TIMEOUT_MS);
    for (size_t i = 0; i < sizeof fillers / sizeof fillers[0]; i++) {
        close(fillers[i]);
    }
    close(listener);
}

/* ===== Many at once ===== */

struct caller {
    pthread_t thread;
    pawl_lock *lock;
    size_t index;
    int64_t late_ms; /* the worst of its calls */
    unsigned wrong;  /* calls with another status than "unavailable" */
};

/* One reads for all, and those who do not read have to leave in time, too. */
static void *call_for_a_while(void *arg)
{
    struct caller *caller = arg;
    for (size_t i = 0; i < 4; i++) {
        const int64_t wait_ms = (caller->index + i) % 3 == 0 ? 400 : PAWL_TRY;
        const int64_t limit_ms = wait_ms > TIMEOUT_MS ? wait_ms : TIMEOUT_MS;
        const int64_t began_ms = boottime_ms();
        const pawl_status status = pawl_lock_acquire(caller->lock, wait_ms);
        const int64_t late_ms = boottime_ms() - began_ms - limit_ms;
        caller->late_ms = late_ms > caller->late_ms ? late_ms : caller->late_ms;
        caller->wrong += status == PAWL_UNAVAILABLE ? 0 : 1;
        nap_ms((int64_t)(7 * caller->index));
    }
    return NULL;
}

static void everybody_in_a_crowd_ends_in_time(void **state)
{
    (void)state;
    struct caller callers[CROWD] = {{0}};
    pawl_client *client = open_client(server_url(server), QUERY);
    for (size_t i = 0; i < CROWD; i++) {
        char name[32];
        snprintf(name, sizeof name, "crowd%zu", i / 2); /* some share a name */
        callers[i].index = i;
        callers[i].lock = open_lock(client, name, LEASE_MS, true);
    }
    server_pause(server);
    for (size_t i = 0; i < CROWD; i++) {
        assert_int_equal(
            pthread_create(&callers[i].thread, NULL, call_for_a_while, &callers[i]), 0);
    }
    int64_t late_ms = 0;
    unsigned wrong = 0;
    for (size_t i = 0; i < CROWD; i++) {
        pthread_join(callers[i].thread, NULL);
        late_ms = callers[i].late_ms > late_ms ? callers[i].late_ms : late_ms;
        wrong += callers[i].wrong;
    }
    server_resume(server);
    ASSERT_BY("the latest of 32 calls by 8 threads", 0, late_ms);
    assert_int_equal(wrong, 0);
    for (size_t i = 0; i < CROWD; i++) {
        pawl_lock_close(callers[i].lock);
    }
    ASSERT_OK(close_client(client));
}

/* ===== Asynchronously ===== */

/* How a call ended, and when. */
struct outcome {
    _Atomic int status; /* -1: not yet */
    _Atomic int64_t at_ms;
};

static void note_outcome(pawl_lock *lock, pawl_status status, void *arg)
{
    struct outcome *outcome = arg;
    (void)lock;
    atomic_store(&outcome->at_ms, boottime_ms());
    atomic_store(&outcome->status, (int)status);
}

static void assert_outcome(
    struct outcome *outcome, const char *what, int64_t began_ms, int64_t limit_ms)
{
    WAIT_UNTIL(atomic_load(&outcome->status) >= 0, 10000);
    assert_int_equal(atomic_load(&outcome->status), PAWL_UNAVAILABLE);
    ASSERT_BY(what, limit_ms, atomic_load(&outcome->at_ms) - began_ms);
}

/* Nobody waits inside: the keeper has to see to it. */
static void asynchronous_calls_end_in_time(void **state)
{
    (void)state;
    static struct outcome outcomes[3];
    pawl_client *client = open_client(server_url(server), QUERY);
    pawl_lock *held = open_handle(client, "held", LEASE_MS, false);
    pawl_lock *other = open_handle(client, "other", LEASE_MS, false);
    pawl_lock *third = open_handle(client, "third", LEASE_MS, false);
    ASSERT_OK(pawl_lock_acquire(held, PAWL_TRY));
    for (size_t i = 0; i < 3; i++) {
        atomic_store(&outcomes[i].status, -1);
    }
    server_pause(server);
    const int64_t began_ms = boottime_ms();
    ASSERT_OK(pawl_lock_release_async(held, note_outcome, &outcomes[0]));
    ASSERT_OK(pawl_lock_acquire_async(other, PAWL_TRY, note_outcome, &outcomes[1]));
    ASSERT_OK(pawl_lock_acquire_async(third, 600, note_outcome, &outcomes[2]));
    ASSERT_BY("three calls that do not wait", 0, boottime_ms() - began_ms);
    assert_outcome(&outcomes[0], "asynchronous release", began_ms, TIMEOUT_MS);
    assert_outcome(&outcomes[1], "asynchronous try", began_ms, TIMEOUT_MS);
    assert_outcome(&outcomes[2], "asynchronous acquire, 600 ms", began_ms, 600);
    server_resume(server);
    WAIT_UNTIL(!is_locked(server, "held"), 5000);
    pawl_lock_close(third);
    pawl_lock_close(other);
    pawl_lock_close(held);
    ASSERT_OK(close_client(client));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(backend_begin_proxy, with_a_frozen_server),
        CASE(backend_begin_proxy, with_a_frozen_server_behind_a_unix_socket),
        CASE(backend_begin_proxy, with_requests_that_vanish),
        CASE(backend_begin_proxy, with_replies_that_vanish),
        CASE(backend_begin_proxy, with_a_peer_that_vanished),
        CASE(backend_begin_proxy, with_a_refused_port),
        CASE(backend_begin_proxy, open_on_a_server_that_says_nothing),
        CASE(backend_begin_proxy, open_on_a_port_where_nobody_listens),
        CASE(backend_begin_proxy, open_on_a_port_that_never_accepts),
        CASE(backend_begin_proxy, everybody_in_a_crowd_ends_in_time),
        CASE(backend_begin_proxy, asynchronous_calls_end_in_time),
    };
    return cmocka_run_group_tests(tests, backend_start, NULL);
}
