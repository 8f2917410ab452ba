/* SPDX-License-Identifier: Apache-2.0 */

/* How the stream waits: are deadlines kept with a silent peer and under a storm of signals, and is
 * a thread that sleeps in it called back?
 *
 * Method: the peer is the test itself. Deadlines are asserted exactly on the early side and
 * generously on the late side. Signals come from an interval timer every millisecond, without
 * SA_RESTART. At the end no descriptor may be left. */
#include "stream_pair.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/time.h>
#include <sys/un.h>

static void connect_unix(struct pair *pair)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s/s", tempdir_make());
    const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(listener >= 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(listener, 1), 0);
    pawl__stream_init(&pair->stream);
    assert_int_equal(pawl__stream_open_unix(&pair->stream, address.sun_path), PAWL__STREAM_OK);
    pair->peer = accept_peer(listener);
    close(listener);
}

/* --- Deadlines --- */

static void check_deadlines(struct pair *pair)
{
    char room[16];
    size_t received;
    const int64_t waits_us[] = {100000, 3000, 40000, 1, 0, -5};
    for (size_t i = 0; i < sizeof waits_us / sizeof waits_us[0]; i++) {
        const int64_t deadline_us = pawl__now_us() + waits_us[i];
        check_timeout_at(deadline_us,
            pawl__stream_recv_wait(&pair->stream, room, sizeof room, deadline_us, &received));
        assert_int_equal(received, 0);
    }
    /* What has arrived is received even if the deadline is over. */
    assert_true(socket_send_string(pair->peer, "late"));
    WAIT_UNTIL(pawl__stream_recv_wait(&pair->stream, room, sizeof room, 0, &received) !=
                   PAWL__STREAM_TIMEOUT,
        BOUND_MS);
    assert_int_equal(received, 4);
}

static void a_silent_peer_costs_no_more_than_the_deadline(void **state)
{
    (void)state;
    struct pair pair;
    connect_tcp(&pair);
    check_deadlines(&pair);
    disconnect(&pair);
    connect_unix(&pair);
    check_deadlines(&pair);
    disconnect(&pair);
}

static int64_t frozen_us(void)
{
    return 1000000000;
}

static int64_t kernel_timeout_us(const struct pawl__stream *stream)
{
    struct timeval timeout;
    socklen_t timeout_size = sizeof timeout;
    assert_int_equal(getsockopt(stream->fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, &timeout_size), 0);
    return (int64_t)timeout.tv_sec * 1000000 + timeout.tv_usec;
}

/* Receive a byte that is there, with a bound; what is the kernel's timeout afterwards? The clock
 * stands still meanwhile, so that the bound is exact on a busy machine too. */
static int64_t timeout_after(struct pair *pair, int64_t bound_us)
{
    char byte;
    size_t received;
    assert_true(socket_send_string(pair->peer, "x"));
    pawl__clock_hook = frozen_us;
    const enum pawl__stream_result result = pawl__stream_recv_wait(
        &pair->stream, &byte, 1, pawl__later(frozen_us(), bound_us), &received);
    pawl__clock_hook = NULL;
    assert_int_equal(result, PAWL__STREAM_OK);
    return kernel_timeout_us(&pair->stream);
}

/* The kernel's timeout is changed only when it is too short or more than 10 ms too long. The kernel
 * counts in ticks, of 10 ms at most, and may tell one more than it was told. It may oversleep by an
 * eighth, so of a long bound it is told seven eighths. */
static void the_receive_timeout_is_set_only_when_it_must_be(void **state)
{
    (void)state;
    struct pair pair;
    connect_tcp(&pair);
    assert_in_range(timeout_after(&pair, 99001), 100000, 110000);
    assert_int_equal(pair.stream.recv_timeout_us, 100000); /* whole milliseconds, rounded up */
    assert_in_range(timeout_after(&pair, 1000000), 875000, 885000);
    assert_in_range(timeout_after(&pair, 1000008), 876000, 886000); /* longer: set */
    assert_in_range(timeout_after(&pair, 2000000), 1750000, 1760000);

    /* From here on the stream believes in 1.75 s; the kernel's 5 s show whether it sets them. */
    const struct timeval five_seconds = {.tv_sec = 5};
    assert_int_equal(
        setsockopt(pair.stream.fd, SOL_SOCKET, SO_RCVTIMEO, &five_seconds, sizeof five_seconds), 0);
    assert_int_equal(timeout_after(&pair, 2000000), 5000000);
    assert_int_equal(timeout_after(&pair, 1989000), 5000000); /* hardly shorter: kept */
    assert_int_equal(pair.stream.recv_timeout_us, 1750000);
    assert_in_range(timeout_after(&pair, 1980000), 1733000, 1743000);     /* shorter: set */
    assert_int_equal(timeout_after(&pair, PAWL__NEVER - frozen_us()), 0); /* none at all */
    assert_in_range(timeout_after(&pair, 1000000), 875000, 885000);
    disconnect(&pair);
}

/* --- Signals --- */

static atomic_int signal_count;

static void count_signal(int signal)
{
    (void)signal;
    atomic_fetch_add(&signal_count, 1);
}

static void begin_storm(void)
{
    const struct sigaction action = {.sa_handler = count_signal};
    const struct itimerval every_ms = {{0, 1000}, {0, 1000}};
    atomic_store(&signal_count, 0);
    assert_int_equal(sigaction(SIGALRM, &action, NULL), 0);
    assert_int_equal(setitimer(ITIMER_REAL, &every_ms, NULL), 0);
}

static int end_storm(void **state)
{
    const struct itimerval never = {0};
    setitimer(ITIMER_REAL, &never, NULL);
    signal(SIGALRM, SIG_DFL);
    return cleanup_teardown(state);
}

static void signals_do_not_move_a_deadline(void **state)
{
    (void)state;
    struct pair pair;
    char room[16];
    size_t received;
    struct pawl__stream_events events;
    connect_tcp(&pair);
    begin_storm();
    int64_t deadline_us = pawl__now_us() + 150000;
    check_timeout_at(deadline_us,
        pawl__stream_recv_wait(&pair.stream, room, sizeof room, deadline_us, &received));
    assert_true(atomic_load(&signal_count) >= 5);
    atomic_store(&signal_count, 0);
    deadline_us = pawl__now_us() + 150000;
    check_timeout_at(
        deadline_us, pawl__stream_wait(&pair.stream, POLLIN, -1, deadline_us, &events));
    assert_true(atomic_load(&signal_count) >= 5);
    disconnect(&pair);
}

static void *send_after_signals(void *arg)
{
    const struct pair *pair = arg;
    const int64_t end_us = soon();
    while (atomic_load(&signal_count) < 20 && pawl__now_us() < end_us) {
        nap_ms(1);
    }
    return socket_send_string(pair->peer, "made it") ? arg : NULL;
}

/* The signals go to the thread that receives: the other one blocks them. */
static void signals_do_not_lose_a_reply(void **state)
{
    (void)state;
    struct pair pair;
    pthread_t sender;
    sigset_t alarm_set;
    sigset_t before;
    void *sent;
    connect_tcp(&pair);
    sigemptyset(&alarm_set);
    sigaddset(&alarm_set, SIGALRM);
    begin_storm();
    pthread_sigmask(SIG_BLOCK, &alarm_set, &before);
    assert_int_equal(pthread_create(&sender, NULL, send_after_signals, &pair), 0);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    expect_received(&pair.stream, "made it");
    assert_int_equal(pthread_join(sender, &sent), 0);
    assert_non_null(sent);
    disconnect(&pair);
}

/* --- Being called --- */

static void waiting_tells_what_happened(void **state)
{
    (void)state;
    struct pair pair;
    struct pawl__stream_events events;
    connect_tcp(&pair);
    const int wake_fd = eventfd(0, EFD_CLOEXEC);
    assert_true(wake_fd >= 0);
    assert_int_equal(eventfd_write(wake_fd, 1), 0);
    assert_int_equal(
        pawl__stream_wait(&pair.stream, POLLIN, wake_fd, soon(), &events), PAWL__STREAM_OK);
    assert_true(events.woken);
    assert_false(events.readable || events.writable);
    assert_true(socket_send_string(pair.peer, "x"));
    WAIT_UNTIL(
        pawl__stream_wait(&pair.stream, POLLIN, wake_fd, soon(), &events) == PAWL__STREAM_OK &&
            events.readable,
        BOUND_MS);
    assert_true(events.woken); /* nobody has read it */
    close(wake_fd);
    expect_received(&pair.stream, "x");
    socket_reset(pair.peer);
    pair.peer = -1;
    assert_int_equal(pawl__stream_wait(&pair.stream, 0, -1, soon(), &events), PAWL__STREAM_OK);
    assert_true(events.readable && events.writable);
    disconnect(&pair);
}

static atomic_int receiver_id;

static void *receive_for_ever(void *arg)
{
    struct pair *pair = arg;
    atomic_store(&receiver_id, gettid());
    char byte;
    size_t received;
    const enum pawl__stream_result result =
        pawl__stream_recv_wait(&pair->stream, &byte, 1, PAWL__NEVER, &received);
    return result == PAWL__STREAM_CLOSED ? arg : NULL;
}

/* Does that thread sleep in the kernel? */
static bool is_asleep(int thread_id)
{
    char path[64];
    char thread_state = '?';
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", thread_id);
    FILE *file = fopen(path, "r");
    if (file != NULL) {
        const int read = fscanf(file, "%*d (%*[^)]) %c", &thread_state);
        fclose(file);
        return read == 1 && thread_state == 'S';
    }
    return false;
}

static void check_shutdown(struct pair *pair)
{
    pthread_t receiver;
    void *closed;
    atomic_store(&receiver_id, 0);
    assert_int_equal(pthread_create(&receiver, NULL, receive_for_ever, pair), 0);
    WAIT_UNTIL(atomic_load(&receiver_id) != 0 && is_asleep(atomic_load(&receiver_id)), BOUND_MS);
    pawl__stream_shutdown(&pair->stream);
    assert_int_equal(pthread_join(receiver, &closed), 0);
    assert_non_null(closed);
    disconnect(pair);
}

static void shutdown_calls_a_sleeping_receiver_back(void **state)
{
    (void)state;
    struct pair pair;
    connect_tcp(&pair);
    check_shutdown(&pair);
    connect_unix(&pair);
    check_shutdown(&pair);
}

#define STORM_CASE(name) cmocka_unit_test_setup_teardown(name, cleanup_setup, end_storm)

int main(void)
{
    const struct CMUnitTest cases[] = {
        CASE(a_silent_peer_costs_no_more_than_the_deadline),
        CASE(the_receive_timeout_is_set_only_when_it_must_be),
        STORM_CASE(signals_do_not_move_a_deadline),
        STORM_CASE(signals_do_not_lose_a_reply),
        CASE(waiting_tells_what_happened),
        CASE(shutdown_calls_a_sleeping_receiver_back),
    };
    return cmocka_run_group_tests_name("stream_wait", cases, begin_group, end_group);
}
