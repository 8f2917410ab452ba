/* SPDX-License-Identifier: Apache-2.0 */

/* The stream: does it connect, carry bytes and report every failure, whatever the peer does? (How
 * it waits is stream_wait_test.c.)
 *
 * Method: the peer is a listener of the test itself, on a free loopback port or a unix socket in
 * a temporary directory, so that it can be silent, full, gone or reset at will. At the end no
 * descriptor may be left. */
#include "base/alloc.h"
#include "stream_pair.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/un.h>
#include <sys/wait.h>

enum {
    BACKLOG_TRIES_MAX = 64, /* connections until a listener without backlog is full */
};

/* --- Connecting --- */

static void tcp_connects_and_carries_bytes(void **state)
{
    (void)state;
    struct pair pair;
    connect_tcp(&pair);
    check_exchange(&pair);
    disconnect(&pair);
}

static void tcp_over_ipv6_connects(void **state)
{
    (void)state;
    struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    socklen_t address_size = sizeof address;
    const int listener = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener < 0 || bind(listener, (struct sockaddr *)&address, sizeof address) != 0) {
        close(listener);
        skip(); /* no IPv6 here */
    }
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &address_size), 0);
    struct pair pair;
    pawl__stream_init(&pair.stream);
    assert_int_equal(finish(&pair.stream, pawl__stream_open_tcp(&pair.stream,
                                              (struct sockaddr *)&address, sizeof address)),
        PAWL__STREAM_OK);
    pair.peer = accept_peer(listener);
    check_exchange(&pair);
    disconnect(&pair);
    close(listener);
}

static int flag_of(int fd, int level, int option)
{
    int value = -1;
    socklen_t value_size = sizeof value;
    assert_int_equal(getsockopt(fd, level, option, &value, &value_size), 0);
    return value;
}

static void a_connected_socket_has_its_options(void **state)
{
    (void)state;
    struct pair pair;
    connect_tcp(&pair);
    assert_int_not_equal(flag_of(pair.stream.fd, IPPROTO_TCP, TCP_NODELAY), 0);
    assert_int_not_equal(flag_of(pair.stream.fd, SOL_SOCKET, SO_KEEPALIVE), 0);
    assert_int_equal(fcntl(pair.stream.fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    assert_int_equal(fcntl(pair.stream.fd, F_GETFL) & O_NONBLOCK, 0);
    disconnect(&pair);
}

static void a_refused_connection_says_so(void **state)
{
    (void)state;
    struct pawl__stream stream;
    pawl__stream_init(&stream);
    assert_int_equal(finish(&stream, open_port(&stream, socket_pick_port())), PAWL__STREAM_FAILED);
    assert_int_equal(atomic_load(&stream.error), ECONNREFUSED);
    assert_int_equal(stream.fd, -1);
    assert_false(stream.connecting);
}

/* A listener whose queue is full drops the first packet of a connection: it stays pending, and the
 * kernel tries again after a second. */
static void a_connection_may_stay_pending(void **state)
{
    (void)state;
    uint16_t port;
    int fillers[BACKLOG_TRIES_MAX];
    size_t filler_count = 0;
    struct pawl__stream_events events;
    const int listener = socket_listen(&port);
    assert_int_equal(listen(listener, 0), 0);
    struct pawl__stream stream;
    pawl__stream_init(&stream);
    enum pawl__stream_result result = PAWL__STREAM_OK;
    while (result == PAWL__STREAM_OK && filler_count < BACKLOG_TRIES_MAX) {
        fillers[filler_count] = socket_begin(port);
        assert_true(fillers[filler_count] >= 0);
        filler_count++;
        assert_int_equal(open_port(&stream, port), PAWL__STREAM_PENDING);
        result = pawl__stream_wait(&stream, POLLOUT, -1, pawl__now_us() + 50000, &events);
        if (result == PAWL__STREAM_OK) {
            pawl__stream_close(&stream);
        }
    }
    assert_int_equal(result, PAWL__STREAM_TIMEOUT);
    assert_int_equal(pawl__stream_connect_finish(&stream), PAWL__STREAM_PENDING);
    assert_true(stream.connecting);
    for (size_t i = 0; i < filler_count; i++) {
        socket_reset(fillers[i]);
    }
    int accepted = 0;
    while (accepted >= 0) { /* empty the queue, so that the next try gets through */
        accepted = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (accepted >= 0) {
            close(accepted);
        }
    }
    assert_int_equal(finish(&stream, PAWL__STREAM_PENDING), PAWL__STREAM_OK);
    pawl__stream_close(&stream);
    close(listener);
}

enum { SELF_PORT = 40123, SELF_SKIPPED = 77 };

/* In a network of its own, with one single port to give away, a connection to that port is bound
 * to get it for itself. Exit status 0: it was refused. */
static int connect_to_itself(void)
{
    struct ifreq loopback_interface = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
    if (unshare(CLONE_NEWNET) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) {
        return SELF_SKIPPED;
    }
    const int control = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    FILE *range = fopen("/proc/sys/net/ipv4/ip_local_port_range", "w");
    if (control < 0 || ioctl(control, SIOCSIFFLAGS, &loopback_interface) != 0 || range == NULL ||
        fprintf(range, "%d %d\n", SELF_PORT, SELF_PORT) < 0 || fclose(range) != 0) {
        return SELF_SKIPPED;
    }
    struct sockaddr_in address = loopback(SELF_PORT);
    const int plain = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(plain, (struct sockaddr *)&address, sizeof address) != 0) {
        return SELF_SKIPPED; /* the trap does not exist here */
    }
    socket_reset(plain);
    struct pawl__stream stream;
    pawl__stream_init(&stream);
    enum pawl__stream_result result = open_port(&stream, SELF_PORT);
    if (result == PAWL__STREAM_PENDING) {
        result = pawl__stream_connect_finish(&stream);
    }
    return result == PAWL__STREAM_FAILED && atomic_load(&stream.error) == ECONNREFUSED ? 0 : 1;
}

static void a_connection_to_itself_is_refused(void **state)
{
    (void)state;
    int status;
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        _exit(connect_to_itself());
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == SELF_SKIPPED) {
        skip(); /* not allowed to make a network */
    }
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void a_unix_socket_connects(void **state)
{
    (void)state;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s/s", tempdir_make());
    const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(listener >= 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(listener, 0), 0);
    struct pair pair;
    pawl__stream_init(&pair.stream);
    assert_int_equal(pawl__stream_open_unix(&pair.stream, address.sun_path), PAWL__STREAM_OK);
    /* Its queue is full now, and the kernel would not tell when it is not. */
    struct pawl__stream second;
    pawl__stream_init(&second);
    assert_int_equal(pawl__stream_open_unix(&second, address.sun_path), PAWL__STREAM_FAILED);
    assert_int_equal(atomic_load(&second.error), EAGAIN);
    pair.peer = accept_peer(listener);
    check_exchange(&pair);
    disconnect(&pair);
    close(listener);
    assert_int_equal(pawl__stream_open_unix(&second, address.sun_path), PAWL__STREAM_FAILED);
    assert_int_equal(atomic_load(&second.error), ECONNREFUSED);
}

static void an_impossible_path_says_so(void **state)
{
    (void)state;
    char path[200];
    struct pawl__stream stream;
    pawl__stream_init(&stream);
    memset(path, 'p', sizeof path);
    path[0] = '/';
    path[sizeof((struct sockaddr_un *)NULL)->sun_path] = '\0';
    assert_int_equal(pawl__stream_open_unix(&stream, path), PAWL__STREAM_FAILED);
    assert_int_equal(atomic_load(&stream.error), ENAMETOOLONG);
    path[sizeof((struct sockaddr_un *)NULL)->sun_path - 1] = '\0';
    assert_int_equal(pawl__stream_open_unix(&stream, path), PAWL__STREAM_FAILED);
    assert_int_equal(atomic_load(&stream.error), ENOENT);
    assert_int_equal(pawl__stream_open_unix(&stream, ""), PAWL__STREAM_FAILED);
    assert_int_equal(atomic_load(&stream.error), EINVAL);
    assert_int_equal(stream.fd, -1);
}

static bool refuse_allocation(size_t size)
{
    (void)size;
    return false;
}

/* Neither a full descriptor table nor a lack of memory may leave a descriptor behind. */
static void without_descriptors_or_memory_it_fails(void **state)
{
    (void)state;
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    struct rlimit none = {.rlim_cur = 0, .rlim_max = before.rlim_max};
    struct pawl__stream stream;
    pawl__stream_init(&stream);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    const enum pawl__stream_result result = open_port(&stream, 1);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(result, PAWL__STREAM_FAILED);
    assert_int_equal(atomic_load(&stream.error), EMFILE);

    /* A high number makes the table of descriptors grow. */
    const int high = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 500);
    assert_true(high >= 500);
    int fillers[600];
    size_t filler_count = 0;
    for (int fd = 0; fd < 500; fd = fillers[filler_count - 1]) {
        fillers[filler_count] = dup(STDERR_FILENO);
        assert_true(fillers[filler_count] >= 0);
        filler_count++;
    }
    pawl__alloc_hook = refuse_allocation;
    const enum pawl__stream_result without_memory = open_port(&stream, 1);
    pawl__alloc_hook = NULL;
    for (size_t i = 0; i < filler_count; i++) {
        close(fillers[i]);
    }
    close(high);
    assert_int_equal(without_memory, PAWL__STREAM_FAILED);
    assert_int_equal(atomic_load(&stream.error), ENOMEM);
    assert_int_equal(stream.fd, -1);
}

/* --- What else the peer may do --- */

static void a_peer_that_closes_is_heard_out_first(void **state)
{
    (void)state;
    struct pair pair;
    char room[16];
    size_t received;
    connect_tcp(&pair);
    assert_true(socket_send_string(pair.peer, "bye"));
    socket_close(pair.peer);
    pair.peer = -1;
    expect_received(&pair.stream, "bye");
    assert_int_equal(pawl__stream_recv_wait(&pair.stream, room, sizeof room, soon(), &received),
        PAWL__STREAM_CLOSED);
    assert_int_equal(
        pawl__stream_recv_now(&pair.stream, room, sizeof room, &received), PAWL__STREAM_CLOSED);
    disconnect(&pair);
}

/* SIGPIPE keeps its deadly default here: a send that raised it would end this program. */
static void a_reset_connection_fails_without_a_signal(void **state)
{
    (void)state;
    struct pair pair;
    char room[16];
    size_t count;
    connect_tcp(&pair);
    socket_reset(pair.peer);
    pair.peer = -1;
    assert_int_equal(pawl__stream_recv_wait(&pair.stream, room, sizeof room, soon(), &count),
        PAWL__STREAM_FAILED);
    assert_int_equal(atomic_load(&pair.stream.error), ECONNRESET);
    assert_int_equal(pawl__stream_send(&pair.stream, "x", 1, &count), PAWL__STREAM_FAILED);
    assert_int_equal(count, 0);
    assert_int_equal(atomic_load(&pair.stream.error), EPIPE);
    disconnect(&pair);
    assert_int_equal(atomic_load(&pair.stream.error), EPIPE); /* kept for whoever asks why */
}

static void a_full_send_buffer_never_blocks(void **state)
{
    (void)state;
    static const char bytes[65536];
    char room[65536];
    struct pair pair;
    struct pawl__stream_events events;
    size_t sent;
    size_t total = 0;
    connect_tcp(&pair);
    enum pawl__stream_result result = PAWL__STREAM_OK;
    while (result == PAWL__STREAM_OK && total < ((size_t)1 << 30)) {
        result = pawl__stream_send(&pair.stream, bytes, sizeof bytes, &sent);
        total += sent;
    }
    assert_int_equal(result, PAWL__STREAM_AGAIN);
    assert_int_equal(sent, 0);
    const int64_t deadline_us = pawl__now_us() + 20000;
    check_timeout_at(
        deadline_us, pawl__stream_wait(&pair.stream, POLLOUT, -1, deadline_us, &events));
    size_t drained = 0;
    while (drained < total) {
        const ssize_t count = socket_receive(pair.peer, room, sizeof room, BOUND_MS);
        assert_true(count > 0);
        drained += (size_t)count;
    }
    assert_int_equal(
        pawl__stream_wait(&pair.stream, POLLOUT, -1, soon(), &events), PAWL__STREAM_OK);
    assert_true(events.writable);
    assert_false(events.readable);
    send_all(&pair.stream, "again");
    disconnect(&pair);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        CASE(tcp_connects_and_carries_bytes),
        CASE(tcp_over_ipv6_connects),
        CASE(a_connected_socket_has_its_options),
        CASE(a_refused_connection_says_so),
        CASE(a_connection_may_stay_pending),
        CASE(a_connection_to_itself_is_refused),
        CASE(a_unix_socket_connects),
        CASE(an_impossible_path_says_so),
        CASE(without_descriptors_or_memory_it_fails),
        CASE(a_peer_that_closes_is_heard_out_first),
        CASE(a_reset_connection_fails_without_a_signal),
        CASE(a_full_send_buffer_never_blocks),
    };
    return cmocka_run_group_tests_name("stream", cases, begin_group, end_group);
}
