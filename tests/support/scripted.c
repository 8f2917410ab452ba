/* SPDX-License-Identifier: Apache-2.0 */
/* The scripted server's thread and its outside. See scripted_internal.h for how the parts work
 * together and for the rules of locking. */
#include "support/scripted_internal.h"

#include "support/fail.h"
#include "support/sockets.h"
#include "support/thread.h"
#include "support/wait.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define CONNECTIONS_MAX 256

struct poll_set {
    struct pollfd items[CONNECTIONS_MAX + 2];
    struct connection *who[CONNECTIONS_MAX + 2]; /* in step with items */
    nfds_t count;
};

static void pop_output(struct connection *connection)
{
    struct output *output = connection->first;
    connection->first = output->next;
    if (connection->first == NULL) {
        connection->last = NULL;
    }
    free(output->data);
    free(output);
}

static void end_connection(struct connection *connection, bool reset)
{
    if (connection->fd >= 0) {
        if (reset) {
            socket_reset(connection->fd);
        } else {
            socket_close(connection->fd);
        }
    }
    connection->fd = -1;
    while (connection->first != NULL) {
        pop_output(connection);
    }
}

/* Write a part of the first output; false when the peer has to read first. */
static bool write_data(struct scripted *scripted, struct connection *connection)
{
    struct output *output = connection->first;
    size_t size = output->data_size - output->position;
    size = size > output->left ? (size_t)output->left : size;
    ssize_t sent =
        send(connection->fd, output->data + output->position, size, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) {
        connection->blocked = errno == EAGAIN;
        if (errno != EAGAIN && errno != EINTR) {
            end_connection(connection, false);
        }
        return false;
    }
    scripted->sent_size += (uint64_t)sent;
    output->left -= (uint64_t)sent;
    output->position = (output->position + (size_t)sent) % output->data_size;
    if (output->left == 0) {
        pop_output(connection);
    }
    return true;
}

static void write_output(struct scripted *scripted, struct connection *connection)
{
    connection->blocked = false;
    while (connection->fd >= 0 && connection->first != NULL) {
        if (connection->first->kind != OUTPUT_DATA) {
            end_connection(connection, connection->first->kind == OUTPUT_RESET);
        } else if (!write_data(scripted, connection)) {
            return;
        }
    }
}

/* Deal with the whole commands that have come, unless the script is silent. */
static void take_commands(struct scripted *scripted, struct connection *connection)
{
    while (!scripted__is_silent(scripted) && connection->fd >= 0) {
        struct text *received = &connection->received;
        size_t end = 0;
        const enum resp_state state = resp_find_end(received->data, received->size, &end);
        if (state == RESP_PARTIAL) {
            return;
        }
        struct resp_words words;
        if (state == RESP_BROKEN || !resp_read_words(received->data, end, &words)) {
            scripted__complain(scripted, "connection %zu sent what is no command: %.100s",
                connection->number, received->data);
            end_connection(connection, true);
            return;
        }
        text_remove(received, end);
        scripted__take_command(scripted, connection, &words);
        scripted__advance(scripted);
    }
}

static void read_input(struct scripted *scripted, struct connection *connection)
{
    char data[65536];
    ssize_t size = recv(connection->fd, data, sizeof data, MSG_DONTWAIT);
    if (size > 0) {
        text_add(&connection->received, data, (size_t)size);
        take_commands(scripted, connection);
    } else if (size == 0 || (errno != EAGAIN && errno != EINTR)) {
        end_connection(connection, false);
    }
}

static void accept_clients(struct scripted *scripted)
{
    while (scripted->accepted < CONNECTIONS_MAX) {
        int fd = accept4(scripted->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0) {
            return;
        }
        const int on = 1;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        struct connection *connection = support_alloc(sizeof *connection);
        connection->fd = fd;
        connection->number = ++scripted->accepted;
        connection->next = scripted->connections;
        scripted->connections = connection;
    }
}

static void poll_add(struct poll_set *set, int fd, int events, struct connection *who)
{
    set->items[set->count] = (struct pollfd){.fd = fd, .events = (short)events};
    set->who[set->count] = who;
    set->count++;
}

static void prepare(const struct scripted *scripted, struct poll_set *set)
{
    const bool full = scripted->accepted == CONNECTIONS_MAX;
    const int reading = scripted__is_silent(scripted) ? 0 : POLLIN;
    set->count = 0;
    poll_add(set, scripted->wake_fd, POLLIN, NULL);
    poll_add(set, full ? -1 : scripted->listen_fd, POLLIN, NULL);
    for (struct connection *connection = scripted->connections; connection != NULL;
         connection = connection->next) {
        if (connection->fd >= 0) {
            poll_add(
                set, connection->fd, reading | (connection->blocked ? POLLOUT : 0), connection);
        }
    }
}

static int poll_timeout_ms(const struct scripted *scripted)
{
    if (scripted->silent_until_ms == 0 || scripted->silent_until_ms == INT64_MAX) {
        return -1;
    }
    const int64_t left_ms = scripted->silent_until_ms - boottime_ms();
    return left_ms > 0 ? (int)left_ms : 0;
}

static void turn(struct scripted *scripted, const struct poll_set *set)
{
    if (set->items[0].revents != 0) {
        thread_clear_wake(scripted->wake_fd);
    }
    if (set->items[1].revents != 0) {
        accept_clients(scripted);
    }
    scripted__advance(scripted);
    for (nfds_t i = 2; i < set->count; i++) {
        if ((set->items[i].revents & (POLLIN | POLLHUP | POLLERR)) != 0 && set->who[i]->fd >= 0) {
            read_input(scripted, set->who[i]);
        }
    }
    /* After a silence there may be commands that were received before it. */
    for (struct connection *connection = scripted->connections; connection != NULL;
         connection = connection->next) {
        take_commands(scripted, connection);
        write_output(scripted, connection);
    }
}

static void *run(void *arg)
{
    struct scripted *scripted = arg;
    struct poll_set *set = support_alloc(sizeof *set);
    pthread_mutex_lock(&scripted->mutex);
    while (!scripted->stopping) {
        prepare(scripted, set);
        const int timeout_ms = poll_timeout_ms(scripted);
        pthread_cond_broadcast(&scripted->changed);
        pthread_mutex_unlock(&scripted->mutex);
        poll(set->items, set->count, timeout_ms);
        pthread_mutex_lock(&scripted->mutex);
        turn(scripted, set);
    }
    pthread_mutex_unlock(&scripted->mutex);
    free(set);
    return NULL;
}

static void free_connections(struct scripted *scripted)
{
    while (scripted->connections != NULL) {
        struct connection *connection = scripted->connections;
        scripted->connections = connection->next;
        end_connection(connection, false);
        text_free(&connection->received);
        free(connection);
    }
}

static void free_handlers(struct scripted *scripted)
{
    while (scripted->handlers != NULL) {
        struct handler *handler = scripted->handlers;
        scripted->handlers = handler->next;
        resp_free_words(&handler->prefix);
        text_free(&handler->reply);
        free(handler);
    }
    while (scripted->info != NULL) {
        struct info_field *field = scripted->info;
        scripted->info = field->next;
        free(field->name);
        free(field->value);
        free(field);
    }
}

static void end_scripted(void *object)
{
    struct scripted *scripted = object;
    pthread_mutex_lock(&scripted->mutex);
    scripted->stopping = true;
    thread_wake(scripted->wake_fd);
    pthread_mutex_unlock(&scripted->mutex);
    pthread_join(scripted->thread, NULL);
    free_connections(scripted);
    free_handlers(scripted);
    for (size_t i = 0; i < scripted->step_count; i++) {
        scripted__step_free(&scripted->steps[i]);
    }
    for (size_t i = 0; i < scripted->record_count; i++) {
        resp_free_words(&scripted->records[i].words);
        free(scripted->records[i].joined);
    }
    free(scripted->steps);
    free(scripted->records);
    free(scripted->error);
    free(scripted->url);
    socket_close(scripted->listen_fd);
    close(scripted->wake_fd);
    pthread_cond_destroy(&scripted->changed);
    pthread_mutex_destroy(&scripted->mutex);
    free(scripted);
}

struct scripted *scripted_start(void)
{
    struct scripted *scripted = support_alloc(sizeof *scripted);
    scripted->last_record = SIZE_MAX;
    scripted->listen_fd = socket_listen(&scripted->port);
    scripted->wake_fd = thread_make_wake();
    struct text url = {0};
    text_addf(&url, "redis://127.0.0.1:%u", (unsigned)scripted->port);
    scripted->url = text_take(&url);
    pthread_mutex_init(&scripted->mutex, NULL);
    thread_make_condition(&scripted->changed);
    thread_start(&scripted->thread, run, scripted);
    cleanup_add(end_scripted, scripted);
    return scripted;
}

void scripted_stop(struct scripted *scripted)
{
    if (scripted != NULL) {
        cleanup_drop(scripted);
        end_scripted(scripted);
    }
}

uint16_t scripted_port(const struct scripted *scripted)
{
    return scripted->port;
}

const char *scripted_url(const struct scripted *scripted)
{
    return scripted->url;
}
