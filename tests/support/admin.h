/* SPDX-License-Identifier: Apache-2.0 */
/* A tiny blocking Redis client with which tests look into a server and play its operator.
 *
 * It speaks RESP2 over the server's unix socket, so it does not mind what happens to TCP. It names
 * its connection, so that it can be told from the clients under test. Any thread may use it. */
#ifndef PAWL_SUPPORT_ADMIN_H
#define PAWL_SUPPORT_ADMIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ADMIN_CLIENT_NAME "pawl-test-admin"

struct admin;

/* Nothing is connected until the first command. User and password may be NULL. */
struct admin *admin_make(const char *socket_path, const char *user, const char *password);
void admin_free(struct admin *admin);

/* Close the connection; the next command opens a new one. */
void admin_disconnect(struct admin *admin);

/* Send one command and return the reply as flat text (see resp_add_flat), to be freed. NULL with
 * the reason in `error` (always set then) when there was no reply within the time. */
char *admin_command(struct admin *admin, size_t count, const char *const words[],
    const size_t sizes[], int64_t timeout_ms, const char **error_out);

/* Cut a line into words at spaces. 'quoted parts' may contain spaces; '' is an empty word. The
 * words and the array are one allocation, to be freed. */
char **admin_split(const char *line, size_t *count_out);

#endif
