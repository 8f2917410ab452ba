/* SPDX-License-Identifier: Apache-2.0 */

/* The stream; stream.h describes it from outside.
 *
 * The one piece of cleverness is the receive timeout. A recv that blocks cannot take a deadline,
 * only the socket's SO_RCVTIMEO, and setting that for every reply would cost a system call each.
 * But a caller's bound is nearly always the same one (a moment ago plus the usual limit), so the
 * last value set is remembered and used again while it is at most 10 ms too long; it is rounded up
 * to whole milliseconds, so that bounds which differ by the microseconds since they were computed
 * are one. After each timeout the clock decides whether the deadline has really come. The kernel's
 * timers for this grow coarser with their length, it may oversleep by an eighth; so a long sleep
 * aims at seven eighths of the way, and what is left then is slept as well. Without a deadline the
 * timeout is taken off, and no timer runs.
 *
 * A unix socket is polled before it is received from: a recv that sleeps on one is woken for
 * nothing each time the peer has read what we sent, which costs more than the poll. */
#include "net/stream.h"

#include "base/clock.h"
#include "base/fds.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum {
    US_PER_MS = 1000,
    US_PER_S = 1000 * 1000,
    TIMEOUT_SLACK_US = 10 * US_PER_MS, /* how much too long a receive timeout may be */
    COARSE_US = 100 * US_PER_MS,       /* beyond, the kernel may oversleep by */
    COARSENESS = 8,                    /* this part of the timeout */
    SLEEP_US_MAX = 60 * US_PER_S,      /* the longest single sleep, so that no sum overflows */
};

/* ===== Opening and closing ===== */

void pawl__stream_init(struct pawl__stream *stream)
{
    stream->fd = -1;
    stream->connecting = false;
    stream->tcp = false;
    stream->recv_timeout_us = 0;
    atomic_init(&stream->error, 0);
}

static enum pawl__stream_result failed(struct pawl__stream *stream, int error)
{
    atomic_store_explicit(&stream->error, error, memory_order_relaxed);
    return PAWL__STREAM_FAILED;
}

static enum pawl__stream_result failed_and_closed(struct pawl__stream *stream, int error)
{
    pawl__stream_close(stream);
    return failed(stream, error);
}

/* A connection to a local port that nobody listens on may, by chance, be given that very port as
 * its own and then connects to itself. It would echo our commands as replies. */
static bool is_connected_to_itself(const struct pawl__stream *stream)
{
    struct sockaddr_storage own = {0};
    struct sockaddr_storage peer = {0};
    socklen_t own_size = sizeof own;
    socklen_t peer_size = sizeof peer;
    return stream->tcp && getsockname(stream->fd, (struct sockaddr *)&own, &own_size) == 0 &&
           getpeername(stream->fd, (struct sockaddr *)&peer, &peer_size) == 0 &&
           own_size == peer_size && memcmp(&own, &peer, own_size) == 0;
}

static bool set_flag(int fd, int level, int option)
{
    const int on = 1;
    return setsockopt(fd, level, option, &on, sizeof on) == 0;
}

static bool set_blocking(int fd)
{
    const int flags = fcntl(fd, F_GETFL);
    return flags >= 0 && fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) == 0;
}

static enum pawl__stream_result connected(struct pawl__stream *stream)
{
    if (is_connected_to_itself(stream)) {
        return failed_and_closed(stream, ECONNREFUSED);
    }
    if (!set_blocking(stream->fd)) {
        return failed_and_closed(stream, errno);
    }
    stream->connecting = false;
    return PAWL__STREAM_OK;
}

static enum pawl__stream_result open_socket(
    struct pawl__stream *stream, const struct sockaddr *address, socklen_t address_size)
{
    assert(stream->fd == -1);
    pawl__stream_init(stream);
    stream->tcp = address->sa_family != AF_UNIX;
    stream->fd = pawl__fd_socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (stream->fd < 0) {
        return failed(stream, errno);
    }
    if (stream->tcp && !(set_flag(stream->fd, IPPROTO_TCP, TCP_NODELAY) &&
                           set_flag(stream->fd, SOL_SOCKET, SO_KEEPALIVE))) {
        return failed_and_closed(stream, errno);
    }
    stream->connecting = true;
    if (connect(stream->fd, address, address_size) == 0) {
        return connected(stream);
    }
    /* A connect that a signal interrupts goes on in the background. */
    if (errno == EINPROGRESS || errno == EINTR) {
        return PAWL__STREAM_PENDING;
    }
    return failed_and_closed(stream, errno);
}

enum pawl__stream_result pawl__stream_open_tcp(
    struct pawl__stream *stream, const struct sockaddr *address, socklen_t address_size)
{
    assert(address->sa_family == AF_INET || address->sa_family == AF_INET6);
    return open_socket(stream, address, address_size);
}

enum pawl__stream_result pawl__stream_open_unix(struct pawl__stream *stream, const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const size_t path_size = strlen(path);
    if (path_size == 0) {
        return failed(stream, EINVAL);
    }
    if (path_size >= sizeof address.sun_path) {
        return failed(stream, ENAMETOOLONG);
    }
    memcpy(address.sun_path, path, path_size);
    return open_socket(stream, (const struct sockaddr *)&address, sizeof address);
}

enum pawl__stream_result pawl__stream_connect_finish(struct pawl__stream *stream)
{
    assert(stream->connecting);
    struct pawl__stream_events events;
    const enum pawl__stream_result waited = pawl__stream_wait(stream, POLLOUT, -1, 0, &events);
    if (waited == PAWL__STREAM_TIMEOUT) {
        return PAWL__STREAM_PENDING;
    }
    int error = 0;
    socklen_t error_size = sizeof error;
    if (waited != PAWL__STREAM_OK ||
        getsockopt(stream->fd, SOL_SOCKET, SO_ERROR, &error, &error_size) != 0) {
        return failed_and_closed(stream, errno);
    }
    return error == 0 ? connected(stream) : failed_and_closed(stream, error);
}

void pawl__stream_shutdown(struct pawl__stream *stream)
{
    assert(stream->fd >= 0);
    shutdown(stream->fd, SHUT_RDWR); /* fails only if the peer was faster */
}

void pawl__stream_close(struct pawl__stream *stream)
{
    pawl__fd_close(stream->fd);
    stream->fd = -1;
    stream->connecting = false;
    stream->recv_timeout_us = 0;
}

/* ===== Bytes =====
 *
 * By the system calls themselves: in a program with threads, glibc's send() and recv() first make
 * themselves points at which a thread can be cancelled, which our callers have switched off anyway.
 * That is half a percent of a lock and an unlock. The thread sanitizer watches the functions only,
 * and learns from them what comes before what. */
#if defined(__SANITIZE_THREAD__)

static ssize_t send_some(int fd, const void *data, size_t size)
{
    return send(fd, data, size, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static ssize_t recv_some(int fd, void *room, size_t size, int flags)
{
    return recv(fd, room, size, flags);
}

#else

static ssize_t send_some(int fd, const void *data, size_t size)
{
    return syscall(SYS_sendto, fd, data, size, MSG_DONTWAIT | MSG_NOSIGNAL, NULL, 0);
}

static ssize_t recv_some(int fd, void *room, size_t size, int flags)
{
    return syscall(SYS_recvfrom, fd, room, size, flags, NULL, NULL);
}

#endif

enum pawl__stream_result pawl__stream_send(
    struct pawl__stream *stream, const void *data, size_t size, size_t *sent_out)
{
    assert(size > 0);
    *sent_out = 0;
    ssize_t sent;
    do {
        sent = send_some(stream->fd, data, size);
    } while (sent < 0 && errno == EINTR);
    if (sent >= 0) {
        *sent_out = (size_t)sent;
        return PAWL__STREAM_OK;
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK) {
        return PAWL__STREAM_AGAIN;
    }
    return failed(stream, errno);
}

/* One recv, whatever comes of it; EINTR counts as AGAIN. */
static enum pawl__stream_result recv_once(
    struct pawl__stream *stream, void *room, size_t size, int flags, size_t *received_out)
{
    assert(size > 0);
    const ssize_t received = recv_some(stream->fd, room, size, flags);
    if (received > 0) {
        *received_out = (size_t)received;
        return PAWL__STREAM_OK;
    }
    *received_out = 0;
    if (received == 0) {
        return PAWL__STREAM_CLOSED;
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) {
        return PAWL__STREAM_AGAIN;
    }
    return failed(stream, errno);
}

enum pawl__stream_result pawl__stream_recv_now(
    struct pawl__stream *stream, void *room, size_t size, size_t *received_out)
{
    /* A recv that does not wait cannot be interrupted, so AGAIN is what it says. */
    return recv_once(stream, room, size, MSG_DONTWAIT, received_out);
}

/* 0: none. */
static bool set_recv_timeout(struct pawl__stream *stream, int64_t timeout_us)
{
    const struct timeval timeout = {
        .tv_sec = timeout_us / US_PER_S, .tv_usec = timeout_us % US_PER_S};
    if (setsockopt(stream->fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout) != 0) {
        return false;
    }
    stream->recv_timeout_us = timeout_us;
    return true;
}

/* Make the socket's receive timeout fit a bound: not shorter, and hardly longer. */
static bool fit_recv_timeout(struct pawl__stream *stream, int64_t bound_us)
{
    const int64_t excess_us = stream->recv_timeout_us - bound_us;
    if (excess_us >= 0 && excess_us <= TIMEOUT_SLACK_US) {
        return true;
    }
    return set_recv_timeout(stream, (bound_us + US_PER_MS - 1) / US_PER_MS * US_PER_MS);
}

/* How long the next sleep may last; 0 when the deadline has come. */
static int64_t sleep_us(int64_t deadline_us)
{
    const int64_t left_us = deadline_us - pawl__now_us();
    return pawl__max64(0, pawl__min64(left_us, SLEEP_US_MAX));
}

/* Where a receive timeout has to point so that the kernel does not sleep beyond the bound. */
static int64_t aim_us(int64_t bound_us)
{
    return bound_us > COARSE_US ? bound_us - bound_us / COARSENESS : bound_us;
}

/* A sleep that only the peer, or a shutdown, ends. */
static enum pawl__stream_result recv_unbounded(
    struct pawl__stream *stream, void *room, size_t size, size_t *received_out)
{
    if (stream->recv_timeout_us != 0 && !set_recv_timeout(stream, 0)) {
        return failed(stream, errno);
    }
    enum pawl__stream_result result;
    do {
        result = recv_once(stream, room, size, 0, received_out);
    } while (result == PAWL__STREAM_AGAIN);
    return result;
}

static enum pawl__stream_result recv_bounded(
    struct pawl__stream *stream, void *room, size_t size, int64_t deadline_us, size_t *received_out)
{
    for (;;) {
        const int64_t bound_us = sleep_us(deadline_us);
        if (bound_us > 0 && !fit_recv_timeout(stream, aim_us(bound_us))) {
            return failed(stream, errno);
        }
        const int flags = bound_us > 0 ? 0 : MSG_DONTWAIT;
        const enum pawl__stream_result result = recv_once(stream, room, size, flags, received_out);
        if (result != PAWL__STREAM_AGAIN) {
            return result;
        }
        if (bound_us == 0) {
            return PAWL__STREAM_TIMEOUT;
        }
    }
}

static enum pawl__stream_result recv_polled(
    struct pawl__stream *stream, void *room, size_t size, int64_t deadline_us, size_t *received_out)
{
    for (;;) {
        struct pawl__stream_events events;
        const enum pawl__stream_result waited =
            pawl__stream_wait(stream, POLLIN, -1, deadline_us, &events);
        if (waited == PAWL__STREAM_FAILED) {
            return waited;
        }
        const enum pawl__stream_result result =
            recv_once(stream, room, size, MSG_DONTWAIT, received_out);
        if (result != PAWL__STREAM_AGAIN) {
            return result;
        }
        if (waited == PAWL__STREAM_TIMEOUT) {
            return waited;
        }
    }
}

enum pawl__stream_result pawl__stream_recv_wait(
    struct pawl__stream *stream, void *room, size_t size, int64_t deadline_us, size_t *received_out)
{
    *received_out = 0;
    if (!stream->tcp) {
        return recv_polled(stream, room, size, deadline_us, received_out);
    }
    return deadline_us == PAWL__NEVER ? recv_unbounded(stream, room, size, received_out)
                                      : recv_bounded(stream, room, size, deadline_us, received_out);
}

static struct pawl__stream_events events_of(const struct pollfd polled[2])
{
    const short broken = POLLERR | POLLHUP | POLLNVAL;
    return (struct pawl__stream_events){
        .readable = (polled[0].revents & (POLLIN | broken)) != 0,
        .writable = (polled[0].revents & (POLLOUT | broken)) != 0,
        .woken = (polled[1].revents & (POLLIN | broken)) != 0,
    };
}

enum pawl__stream_result pawl__stream_wait(struct pawl__stream *stream, short poll_events,
    int wake_fd, int64_t deadline_us, struct pawl__stream_events *events_out)
{
    struct pollfd polled[2] = {
        {.fd = stream->fd, .events = poll_events},
        {.fd = wake_fd, .events = POLLIN}, /* poll leaves out a negative one */
    };
    *events_out = (struct pawl__stream_events){0};
    for (;;) {
        const bool endless = deadline_us == PAWL__NEVER;
        const int64_t bound_us = endless ? PAWL__NEVER : sleep_us(deadline_us);
        const struct timespec timeout = {
            .tv_sec = bound_us / US_PER_S, .tv_nsec = bound_us % US_PER_S * 1000};
        const int count = ppoll(polled, wake_fd < 0 ? 1 : 2, endless ? NULL : &timeout, NULL);
        if (count > 0) {
            *events_out = events_of(polled);
            return PAWL__STREAM_OK;
        }
        if (count < 0 && errno != EINTR) {
            return failed(stream, errno);
        }
        if (bound_us == 0) {
            return PAWL__STREAM_TIMEOUT;
        }
    }
}
