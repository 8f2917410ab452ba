/* SPDX-License-Identifier: Apache-2.0 */
/* A raw client for tests: one request as a line of words, one reply as flat text, on a plain
 * socket of the caller. Nothing is buffered between calls, so it can be mixed with other reading.
 */
#ifndef PAWL_SUPPORT_WIRE_H
#define PAWL_SUPPORT_WIRE_H

#include <stdbool.h>
#include <stdint.h>

/* Send a request; the line is cut into words at spaces, '...' keeps spaces in a word. */
bool wire_send(int fd, const char *line);

/* The next value from the peer as flat text (see resp_add_flat), to be freed. NULL with errno when
 * there is none: 0 at the end of the stream, ETIMEDOUT, ECONNRESET and so on. */
char *wire_receive(int fd, int64_t timeout_ms);

/* Send, and wait up to 5 s for a reply that is exactly this text. */
bool wire_answers(int fd, const char *line, const char *expected);

#endif
