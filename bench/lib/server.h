/* SPDX-License-Identifier: Apache-2.0 */
/* The benchmark's own redis-server: in a temporary directory, on a free loopback port and a unix
 * socket, nothing written to disk. It is ended at the exit of the driver, and by the kernel if the
 * driver is killed. */
#ifndef PAWL_LIB_SERVER_H
#define PAWL_LIB_SERVER_H

#include <hiredis/hiredis.h>
#include <stdint.h>
#include <sys/types.h>

enum transport { TRANSPORT_TCP, TRANSPORT_UNIX };

struct server {
    pid_t pid;
    uint16_t port;
    char directory[64];
    char socket_path[96];
};

/* Start it and wait until it answers. One per program. */
const struct server *server_start(void);
void server_stop(void);

const char *transport_name(enum transport transport);

/* "redis://127.0.0.1:port" or "redis+unix:///path"; good for the life of the process. */
const char *server_url(const struct server *server, enum transport transport);

/* A hiredis connection, and a bare blocking socket with TCP_NODELAY. */
redisContext *server_connect(const struct server *server, enum transport transport);
int server_connect_raw(const struct server *server, enum transport transport);

/* Run a command as the operator; dies if it is refused. The reply is to be freed. */
redisReply *server_command(const struct server *server, const char *format, ...);

/* A number out of INFO, such as calls= of cmdstat_pexpire; 0 if it is not there. */
double server_info(const struct server *server, const char *section, const char *key);

/* Remove all keys. Scripts stay. */
void server_empty(const struct server *server);

#endif
