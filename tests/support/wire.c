/* SPDX-License-Identifier: Apache-2.0 */
/* The raw client for tests. To find where a value ends without taking bytes of the next one, it
 * peeks first and receives only what belongs to the value. */
#include "support/wire.h"

#include "support/admin.h"
#include "support/resp.h"
#include "support/sockets.h"
#include "support/text.h"
#include "support/wait.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>

bool wire_send(int fd, const char *line)
{
    size_t count = 0;
    char **words = admin_split(line, &count);
    size_t *sizes = support_alloc((count + 1) * sizeof *sizes);
    for (size_t i = 0; i < count; i++) {
        sizes[i] = strlen(words[i]);
    }
    struct text request = {0};
    resp_add_request(&request, count, (const char *const *)words, sizes);
    const bool sent = socket_send(fd, request.data, request.size, 5000);
    text_free(&request);
    free(sizes);
    free(words);
    return sent;
}

/* Receive the bytes of one value that has been seen as a whole. */
static char *take_value(int fd, char *data, size_t size)
{
    if (!socket_receive_all(fd, data, size, 1000)) {
        return NULL;
    }
    struct text flat = {0};
    resp_add_flat(&flat, data, size);
    return text_take(&flat);
}

/* Whether the peer has closed, even if there are bytes left to read. */
static bool peer_closed(int fd)
{
    struct pollfd item = {.fd = fd, .events = POLLRDHUP};
    return poll(&item, 1, 0) == 1;
}

char *wire_receive(int fd, int64_t timeout_ms)
{
    const int64_t end_ms = boottime_ms() + timeout_ms;
    static const size_t size_max = 1 << 20;
    char *data = support_alloc(size_max);
    char *reply = NULL;
    for (;;) {
        const bool closed = peer_closed(fd); /* asked first: what is peeked then is all there is */
        ssize_t size = recv(fd, data, size_max, MSG_PEEK | MSG_DONTWAIT);
        size_t end = 0;
        if (size > 0 && resp_find_end(data, (size_t)size, &end) == RESP_COMPLETE) {
            reply = take_value(fd, data, end);
            break;
        }
        if (size < 0 && errno != EAGAIN && errno != EINTR) {
            break;
        }
        if (size == 0 || (size > 0 && closed)) {
            errno = 0;
            break;
        }
        if (boottime_ms() >= end_ms) {
            errno = ETIMEDOUT;
            break;
        }
        nap_ms(1);
    }
    const int error = errno;
    free(data);
    errno = error;
    return reply;
}

bool wire_answers(int fd, const char *line, const char *expected)
{
    if (!wire_send(fd, line)) {
        return false;
    }
    char *reply = wire_receive(fd, 5000);
    const bool same = reply != NULL && strcmp(reply, expected) == 0;
    free(reply);
    return same;
}
