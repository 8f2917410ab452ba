/* SPDX-License-Identifier: Apache-2.0 */
/* Loopback sockets for tests. All descriptors are close-on-exec; TCP ones send without delay. */
#include "support/sockets.h"

#include "support/fail.h"
#include "support/wait.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define PORT_FIRST 10240u
#define PORT_COUNT 22000u /* ends below 32768, where ephemeral ports begin */
#define PORT_TRIES 200
#define CONNECT_MS 5000

_Static_assert(PORT_FIRST + PORT_COUNT < 32768u, "ports must stay below the ephemeral range");

static struct sockaddr_in loopback(uint16_t port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

/* A different start for each process and call, so that programs that run side by side rarely meet.
 */
static uint16_t next_candidate(void)
{
    static _Atomic uint64_t calls;
    uint64_t mix = (uint64_t)getpid() * 0x9E3779B97F4A7C15u + (uint64_t)boottime_us() +
                   atomic_fetch_add(&calls, 1) * 0xBF58476D1CE4E5B9u;
    mix ^= mix >> 31;
    mix *= 0x94D049BB133111EBu;
    mix ^= mix >> 29;
    return (uint16_t)(PORT_FIRST + mix % PORT_COUNT);
}

/* A socket bound to the port, or -1. */
static int bind_port(uint16_t port)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return -1;
    }
    const int on = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    const struct sockaddr_in address = loopback(port);
    if (bind(fd, (const struct sockaddr *)&address, sizeof address) != 0 || listen(fd, 128) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

int socket_listen(uint16_t *port_out)
{
    for (int i = 0; i < PORT_TRIES; i++) {
        *port_out = next_candidate();
        int fd = bind_port(*port_out);
        if (fd >= 0) {
            return fd;
        }
    }
    support_fail("no free loopback port: %s", strerror(errno));
}

uint16_t socket_pick_port(void)
{
    uint16_t port = 0;
    close(socket_listen(&port));
    return port;
}

static int begin(int family, const struct sockaddr *address, socklen_t size)
{
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return -1;
    }
    if (family == AF_INET) {
        const int on = 1;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    }
    if (connect(fd, address, size) != 0 && errno != EINPROGRESS) {
        const int error = errno;
        close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

int socket_begin(uint16_t port)
{
    const struct sockaddr_in address = loopback(port);
    return begin(AF_INET, (const struct sockaddr *)&address, sizeof address);
}

int socket_begin_unix(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(address.sun_path, path, strlen(path) + 1);
    return begin(AF_UNIX, (const struct sockaddr *)&address, sizeof address);
}

static bool wait_ready(int fd, short events, int64_t end_ms)
{
    for (;;) {
        int64_t left_ms = end_ms - boottime_ms();
        struct pollfd item = {.fd = fd, .events = events};
        int count = poll(&item, 1, left_ms > 0 ? (int)left_ms : 0);
        if (count > 0) {
            return true;
        }
        if (count == 0) {
            errno = ETIMEDOUT;
            return false;
        }
        if (errno != EINTR) {
            return false;
        }
    }
}

/* Wait for a connection that was begun; the socket is blocking afterwards. */
static int finish(int fd)
{
    if (fd < 0) {
        return -1;
    }
    int error = 0;
    socklen_t size = sizeof error;
    if (!wait_ready(fd, POLLOUT, boottime_ms() + CONNECT_MS)) {
        error = errno;
    } else {
        getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
    }
    if (error != 0) {
        close(fd);
        errno = error;
        return -1;
    }
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
    return fd;
}

int socket_connect(uint16_t port)
{
    return finish(socket_begin(port));
}

int socket_connect_unix(const char *path)
{
    return finish(socket_begin_unix(path));
}

bool socket_send(int fd, const void *data, size_t size, int64_t timeout_ms)
{
    const int64_t end_ms = boottime_ms() + timeout_ms;
    const char *next = data;
    while (size > 0) {
        ssize_t sent = send(fd, next, size, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent >= 0) {
            next += sent;
            size -= (size_t)sent;
        } else if (errno == EAGAIN) {
            if (!wait_ready(fd, POLLOUT, end_ms)) {
                return false;
            }
        } else if (errno != EINTR) {
            return false;
        }
    }
    return true;
}

bool socket_send_string(int fd, const char *string)
{
    return socket_send(fd, string, strlen(string), 5000);
}

ssize_t socket_receive(int fd, void *data, size_t size, int64_t timeout_ms)
{
    const int64_t end_ms = boottime_ms() + timeout_ms;
    for (;;) {
        if (!wait_ready(fd, POLLIN, end_ms)) {
            return -1;
        }
        ssize_t received = recv(fd, data, size, MSG_DONTWAIT);
        if (received >= 0 || (errno != EAGAIN && errno != EINTR)) {
            return received;
        }
    }
}

bool socket_receive_all(int fd, void *data, size_t size, int64_t timeout_ms)
{
    const int64_t end_ms = boottime_ms() + timeout_ms;
    char *next = data;
    while (size > 0) {
        ssize_t received = socket_receive(fd, next, size, end_ms - boottime_ms());
        if (received <= 0) {
            return false;
        }
        next += received;
        size -= (size_t)received;
    }
    return true;
}

/* A forked child may hold a copy of the descriptor, so close() alone might send nothing. */
void socket_close(int fd)
{
    shutdown(fd, SHUT_RDWR);
    close(fd);
}

/* Dissolving the association sends RST at once, whoever else has the socket open. On a unix
 * socket it does nothing; there the shutdown is all the peer can see. */
void socket_reset(int fd)
{
    const struct sockaddr nobody = {.sa_family = AF_UNSPEC};
    if (connect(fd, &nobody, sizeof nobody) != 0) {
        shutdown(fd, SHUT_RDWR);
    }
    close(fd);
}
