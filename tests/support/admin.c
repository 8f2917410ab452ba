/* SPDX-License-Identifier: Apache-2.0 */
/* The operator's connection to a test server: one socket under one mutex, kept between commands.
 *
 * A kept connection may have died meanwhile (restart, CLIENT KILL), which is looked for before a
 * command is sent; once sent, a command is never repeated. A forked child finds its parent's
 * process id here, and then takes a connection and a mutex of its own. */
#include "support/admin.h"

#include "support/resp.h"
#include "support/sockets.h"
#include "support/text.h"
#include "support/wait.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>

struct admin {
    pthread_mutex_t mutex; /* guards all below */
    pid_t owner;           /* the process that may use fd */
    int fd;                /* -1: not connected */
    struct text received;  /* bytes behind the last reply */
    char *socket_path;
    char *user;
    char *password;
};

static char *copy_or_null(const char *string)
{
    return string != NULL ? support_copy(string, strlen(string)) : NULL;
}

struct admin *admin_make(const char *socket_path, const char *user, const char *password)
{
    struct admin *admin = support_alloc(sizeof *admin);
    pthread_mutex_init(&admin->mutex, NULL);
    admin->owner = getpid();
    admin->fd = -1;
    admin->socket_path = copy_or_null(socket_path);
    admin->user = copy_or_null(user);
    admin->password = copy_or_null(password);
    return admin;
}

static void disconnect(struct admin *admin)
{
    if (admin->fd >= 0) {
        close(admin->fd);
        admin->fd = -1;
    }
    text_free(&admin->received);
}

/* In a forked child: forget what belongs to the parent. */
static void own(struct admin *admin)
{
    if (admin->owner != getpid()) {
        pthread_mutex_init(&admin->mutex, NULL);
        disconnect(admin);
        admin->owner = getpid();
    }
}

void admin_disconnect(struct admin *admin)
{
    own(admin);
    pthread_mutex_lock(&admin->mutex);
    disconnect(admin);
    pthread_mutex_unlock(&admin->mutex);
}

void admin_free(struct admin *admin)
{
    disconnect(admin);
    pthread_mutex_destroy(&admin->mutex);
    free(admin->socket_path);
    free(admin->user);
    free(admin->password);
    free(admin);
}

/* The next reply as flat text, or NULL with a reason. */
static char *receive_reply(struct admin *admin, int64_t end_ms, const char **error_out)
{
    for (;;) {
        size_t end = 0;
        if (resp_find_end(admin->received.data, admin->received.size, &end) == RESP_COMPLETE) {
            struct text flat = {0};
            resp_add_flat(&flat, admin->received.data, end);
            text_remove(&admin->received, end);
            return text_take(&flat);
        }
        char chunk[16384];
        const int64_t left_ms = end_ms - boottime_ms();
        ssize_t size = socket_receive(admin->fd, chunk, sizeof chunk, left_ms > 0 ? left_ms : 0);
        if (size <= 0) {
            *error_out = size == 0 ? "the server closed the connection" : strerror(errno);
            return NULL;
        }
        text_add(&admin->received, chunk, (size_t)size);
    }
}

static char *exchange(
    struct admin *admin, const struct text *request, int64_t end_ms, const char **error_out)
{
    const int64_t left_ms = end_ms - boottime_ms();
    char *reply = NULL;
    if (!socket_send(admin->fd, request->data, request->size, left_ms)) {
        *error_out = strerror(errno);
    } else {
        reply = receive_reply(admin, end_ms, error_out);
    }
    if (reply == NULL) {
        disconnect(admin);
    }
    return reply;
}

/* One command of the handshake; true if the server agreed. */
static bool greet(struct admin *admin, size_t count, const char *const words[], int64_t end_ms,
    const char **error_out)
{
    size_t sizes[4];
    for (size_t i = 0; i < count; i++) {
        sizes[i] = strlen(words[i]);
    }
    struct text request = {0};
    resp_add_request(&request, count, words, sizes);
    char *reply = exchange(admin, &request, end_ms, error_out);
    text_free(&request);
    const bool agreed = reply != NULL && strcmp(reply, "OK") == 0;
    if (reply != NULL && !agreed) {
        *error_out = "the server refused the handshake";
        disconnect(admin);
    }
    free(reply);
    return agreed;
}

static bool authenticate(struct admin *admin, int64_t end_ms, const char **error_out)
{
    if (admin->password == NULL) {
        return true;
    }
    const char *user = admin->user != NULL ? admin->user : "default";
    const char *const words[] = {"AUTH", user, admin->password};
    return greet(admin, 3, words, end_ms, error_out);
}

/* A dead connection shows as readable with nothing to read. */
static bool still_alive(const struct admin *admin)
{
    char byte;
    ssize_t size = recv(admin->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return size < 0 && errno == EAGAIN;
}

static bool ensure_connected(struct admin *admin, int64_t end_ms, const char **error_out)
{
    if (admin->fd >= 0 && !still_alive(admin)) {
        disconnect(admin);
    }
    if (admin->fd >= 0) {
        return true;
    }
    admin->fd = socket_connect_unix(admin->socket_path);
    if (admin->fd < 0) {
        *error_out = strerror(errno);
        return false;
    }
    static const char *const name[] = {"CLIENT", "SETNAME", ADMIN_CLIENT_NAME};
    return authenticate(admin, end_ms, error_out) && greet(admin, 3, name, end_ms, error_out);
}

char *admin_command(struct admin *admin, size_t count, const char *const words[],
    const size_t sizes[], int64_t timeout_ms, const char **error_out)
{
    const int64_t end_ms = boottime_ms() + timeout_ms;
    char *reply = NULL;
    own(admin);
    pthread_mutex_lock(&admin->mutex);
    if (ensure_connected(admin, end_ms, error_out)) {
        struct text request = {0};
        resp_add_request(&request, count, words, sizes);
        reply = exchange(admin, &request, end_ms, error_out);
        text_free(&request);
    }
    pthread_mutex_unlock(&admin->mutex);
    return reply;
}

/* Copy one word to `to` without its quotes; returns where the rest of the line begins. */
static const char *copy_word(const char *from, char **to)
{
    bool quoted = false;
    for (; *from != '\0' && (quoted || *from != ' '); from++) {
        if (*from == '\'') {
            quoted = !quoted;
        } else {
            *(*to)++ = *from;
        }
    }
    *(*to)++ = '\0';
    return from;
}

char **admin_split(const char *line, size_t *count_out)
{
    /* No more words than every second byte, and no more text than the line and its NULs. */
    const size_t words_max = strlen(line) / 2 + 1;
    char **words = support_alloc(words_max * sizeof *words + 2 * strlen(line) + 2);
    char *store = (char *)(words + words_max);
    size_t count = 0;
    for (;;) {
        line += strspn(line, " ");
        if (*line == '\0') {
            break;
        }
        words[count++] = store;
        line = copy_word(line, &store);
    }
    *count_out = count;
    return words;
}
