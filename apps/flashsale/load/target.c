/* SPDX-License-Identifier: Apache-2.0 */
/* See target.h. http:// only: the shop speaks nothing else. */
#include "load/target.h"

#include "load/reader.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

enum { ASK_SECONDS = 30, REQUEST_SIZE = 2048 };

/* ===== Where it is ===== */

static bool is_loopback(const struct sockaddr_storage *address)
{
    if (address->ss_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)address;
        return ntohl(in->sin_addr.s_addr) >> 24 == 127;
    }
    if (address->ss_family == AF_INET6) {
        const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)address;
        return IN6_IS_ADDR_LOOPBACK(&in6->sin6_addr);
    }
    return false;
}

/* "host:port", "host", "[::1]:port" into its two parts. */
static bool split_host(const char *text, char host[TARGET_HOST_SIZE], char port[8])
{
    const bool has_brackets = text[0] == '[';
    const char *end = has_brackets ? strchr(text, ']') : strchr(text, ':');
    const char *begin = has_brackets ? text + 1 : text;
    const size_t length = end ? (size_t)(end - begin) : strlen(begin);
    if (length == 0 || length >= TARGET_HOST_SIZE || (has_brackets && !end)) {
        return false;
    }
    memcpy(host, begin, length);
    host[length] = '\0';
    const char *rest = end ? end + (has_brackets ? 1 : 0) : "";
    snprintf(port, 8, "%s", "80");
    if (rest[0] == ':') {
        const size_t digits = strspn(rest + 1, "0123456789");
        if (digits == 0 || digits > 5 || rest[1 + digits] != '\0') {
            return false;
        }
        snprintf(port, 8, "%.5s", rest + 1);
    } else if (rest[0] != '\0') {
        return false;
    }
    return true;
}

static bool look_up(struct target *target, const char *host, const char *port, char *why)
{
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    const int error = getaddrinfo(host, port, &hints, &found);
    if (error != 0 || !found) {
        snprintf(why, TARGET_WHY_SIZE, "%.150s: the host '%.100s' is not known: %s", target->url,
            host, gai_strerror(error));
        return false;
    }
    /* "localhost" may be ::1 first, where the shop does not listen unless it is told to. */
    const struct addrinfo *chosen = found;
    for (const struct addrinfo *info = found; info; info = info->ai_next) {
        if (info->ai_family == AF_INET) {
            chosen = info;
            break;
        }
    }
    memcpy(&target->address, chosen->ai_addr, chosen->ai_addrlen);
    target->address_size = chosen->ai_addrlen;
    target->is_loopback = is_loopback(&target->address);
    freeaddrinfo(found);
    return true;
}

bool target_parse(struct target *target, const char *url, char why[TARGET_WHY_SIZE])
{
    *target = (struct target){.url = url};
    static const char scheme[] = "http://";
    const char *authority = url + sizeof scheme - 1;
    const bool has_scheme = strncmp(url, scheme, sizeof scheme - 1) == 0;
    const size_t length = has_scheme ? strcspn(authority, "/?#") : 0;
    char host[TARGET_HOST_SIZE];
    char port[8];
    if (length > 0 && length < sizeof target->host) {
        memcpy(target->host, authority, length);
    }
    if (target->host[0] == '\0' || !split_host(target->host, host, port)) {
        snprintf(why, TARGET_WHY_SIZE,
            "'%.200s' is no URL of a shop; give its base, e.g. http://127.0.0.1:3786", url);
        return false;
    }
    const char *path = authority + length;
    size_t path_length = strlen(path);
    while (path_length > 0 && path[path_length - 1] == '/') {
        path_length--;
    }
    if (path_length >= sizeof target->prefix || strcspn(path, "?# \r\n") != strlen(path)) {
        snprintf(why, TARGET_WHY_SIZE,
            "'%.200s' has more than a base; the item and the strategy are options", url);
        return false;
    }
    memcpy(target->prefix, path, path_length);
    return look_up(target, host, port, why);
}

bool target_prepare(struct target *target, const char *item, const char *strategy)
{
    const int length = asprintf(&target->order,
        "POST %s/items/%s/orders%s%s HTTP/1.1\r\nHost: %s\r\nContent-Length: 0\r\n\r\n",
        target->prefix, item, strategy ? "?strategy=" : "", strategy ? strategy : "", target->host);
    if (length < 0) {
        target->order = NULL;
        return false;
    }
    target->order_length = (size_t)length;
    return true;
}

void target_close(struct target *target)
{
    free(target->order);
    target->order = NULL;
}

/* ===== Single requests ===== */

/* A connection, or -1 and why. */
static int dial(const struct target *target, char *why)
{
    const int fd = socket(target->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        snprintf(why, TARGET_WHY_SIZE, "no socket: %s", strerror(errno));
        return -1;
    }
    const struct timeval bound = {.tv_sec = ASK_SECONDS};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &bound, sizeof bound);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &bound, sizeof bound);
    if (connect(fd, (const struct sockaddr *)&target->address, target->address_size) == 0) {
        return fd;
    }
    if (errno == ECONNREFUSED) {
        snprintf(why, TARGET_WHY_SIZE,
            "nobody listens at %.200s; start a shop there: flashsale serve --port, flashsale up",
            target->url);
    } else {
        snprintf(why, TARGET_WHY_SIZE, "%.200s cannot be reached: %s", target->url,
            strerror(errno == EINPROGRESS ? ETIMEDOUT : errno));
    }
    close(fd);
    return -1;
}

bool target_listens(const struct target *target, char why[TARGET_WHY_SIZE])
{
    const int fd = dial(target, why);
    if (fd >= 0) {
        close(fd);
    }
    return fd >= 0;
}

static bool send_all(int fd, const char *data, size_t length)
{
    while (length > 0) {
        const ssize_t sent = send(fd, data, length, MSG_NOSIGNAL);
        if (sent <= 0) {
            return false;
        }
        data += sent;
        length -= (size_t)sent;
    }
    return true;
}

static bool receive(int fd, struct reader *reader)
{
    char buffer[4096];
    while (reader->state != READER_DONE) {
        const ssize_t got = recv(fd, buffer, sizeof buffer, 0);
        if (got < 0 || reader->state == READER_BAD) {
            return false;
        }
        if (got == 0) {
            return reader_end(reader);
        }
        reader_feed(reader, buffer, (size_t)got);
    }
    return true;
}

int target_ask(const struct target *target, const char *method, const char *path, const char *body,
    char *answer, size_t answer_size, char why[TARGET_WHY_SIZE])
{
    char request[REQUEST_SIZE];
    const char *content = body ? body : "";
    const int length = snprintf(request, sizeof request,
        "%s %s%s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n%sContent-Length: %zu\r\n\r\n%s",
        method, target->prefix, path, target->host,
        body ? "Content-Type: application/json\r\n" : "", strlen(content), content);
    if (length < 0 || length >= (int)sizeof request) {
        snprintf(why, TARGET_WHY_SIZE, "%s %.100s: the request is too long", method, path);
        return 0;
    }
    const int fd = dial(target, why);
    if (fd < 0) {
        return 0;
    }
    struct reader reader;
    reader_init(&reader, answer, answer_size);
    const bool answered = send_all(fd, request, (size_t)length) && receive(fd, &reader);
    close(fd);
    if (!answered) {
        snprintf(
            why, TARGET_WHY_SIZE, "%s %.100s: no answer from %.200s", method, path, target->url);
        return 0;
    }
    return reader.status;
}
