/* SPDX-License-Identifier: Apache-2.0 */
/* Loopback sockets for tests: listen on a free port, connect, send and receive with a bound.
 *
 * Ports are chosen below the kernel's ephemeral range. A port inside it could be taken by any
 * outgoing connection while its server is down, even by the one that tries to reach that server. */
#ifndef PAWL_SUPPORT_SOCKETS_H
#define PAWL_SUPPORT_SOCKETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* A loopback port on which nobody listens at this moment. */
uint16_t socket_pick_port(void);

/* Listen on a free loopback port; non-blocking, close-on-exec. Fails the test if none is found. */
int socket_listen(uint16_t *port_out);

/* Connect and wait; -1 with errno when it does not work within 5 s. The socket is blocking. */
int socket_connect(uint16_t port);
int socket_connect_unix(const char *path);

/* Begin to connect without waiting; -1 with errno. The socket is non-blocking. */
int socket_begin(uint16_t port);
int socket_begin_unix(const char *path);

/* Send everything; false with errno when it does not work within the time. */
bool socket_send(int fd, const void *data, size_t size, int64_t timeout_ms);
bool socket_send_string(int fd, const char *string);

/* Receive what is there: 0 at the end of the stream, -1 with errno (ETIMEDOUT: nothing came). */
ssize_t socket_receive(int fd, void *data, size_t size, int64_t timeout_ms);

/* Receive exactly `size` bytes; false when the stream or the time ended first. */
bool socket_receive_all(int fd, void *data, size_t size, int64_t timeout_ms);

/* End the connection for good even if a forked child still has a copy of the descriptor: with FIN,
 * or with RST, which a TCP peer sees as ECONNRESET. The descriptor is closed. */
void socket_close(int fd);
void socket_reset(int fd);

#endif
