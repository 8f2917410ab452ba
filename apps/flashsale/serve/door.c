/* SPDX-License-Identifier: Apache-2.0 */
/* The door: see door.h.
 *
 * libmicrohttpd calls on_request() several times for each request: once with its head, once for
 * each piece of its body, and once at its end; and again after a suspended connection was resumed.
 * An answer in the first of these calls would close the connection afterwards, so there is none
 * but for bodies that are not wanted at all.
 *
 * A client that sends slowly keeps a connection. The library ends one on which nothing happens;
 * door_look_after() ends one that has not completed a request in twice that time, however busily it
 * drips. */
#include "serve/door.h"

#include "common/clock.h"
#include "common/say.h"
#include "serve/routes.h"

#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <netdb.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    DOOR_THREADS = 2,
    BACKLOG = 4096,
    HEAD_SIZE_MAX = 16 * 1024, /* memory for one connection: the head of its request */
    DESCRIPTORS_KEPT = 300,    /* for everything that is no customer */
    CONNECTIONS_MAX = 20000,
    UNWANTED_SIZE_MAX = 1 << 20, /* so much of a body that is too large is read and thrown away */
    FAREWELL_MS = 2000,          /* for answers to be sent when the door closes */
};

/* A connection. */
struct visitor {
    int fd;
    bool served;      /* its request is complete, and not answered yet */
    int64_t since_us; /* it has been silent, or sending, since then */
    struct visitor *previous, *next;
};

struct door {
    struct shop *shop;
    struct MHD_Daemon *daemon;
    struct events *events;
    int64_t patience_us;
    atomic_bool shut;

    pthread_mutex_t mutex; /* of all below */
    pthread_cond_t fewer;
    int64_t suspended;  /* requests whose connection is suspended */
    int64_t unanswered; /* requests that were complete, and whose answer is not sent yet */
    struct visitor *visitors;
    char items[DOOR_ITEMS_MAX][ITEM_SIZE];
    size_t item_count;
};

/* ===== Visitors ===== */

static void visitor_comes(struct door *door, struct MHD_Connection *connection, void **context)
{
    struct visitor *visitor = calloc(1, sizeof *visitor);
    *context = visitor;
    if (visitor == NULL) {
        return;
    }
    visitor->fd =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
    visitor->since_us = now_us();
    pthread_mutex_lock(&door->mutex);
    visitor->next = door->visitors;
    if (door->visitors != NULL) {
        door->visitors->previous = visitor;
    }
    door->visitors = visitor;
    pthread_mutex_unlock(&door->mutex);
}

static void visitor_goes(struct door *door, struct visitor *visitor)
{
    if (visitor == NULL) {
        return;
    }
    pthread_mutex_lock(&door->mutex);
    if (visitor->next != NULL) {
        visitor->next->previous = visitor->previous;
    }
    if (visitor->previous != NULL) {
        visitor->previous->next = visitor->next;
    } else {
        door->visitors = visitor->next;
    }
    pthread_mutex_unlock(&door->mutex);
    free(visitor);
}

static void on_connection(void *cls, struct MHD_Connection *connection, void **socket_context,
    enum MHD_ConnectionNotificationCode code)
{
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        visitor_comes(cls, connection, socket_context);
    } else {
        visitor_goes(cls, *socket_context);
    }
}

/* Its request is complete, or answered. */
static void visitor_is_served(struct door *door, struct MHD_Connection *connection, bool served)
{
    struct visitor *visitor =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
    pthread_mutex_lock(&door->mutex);
    if (visitor != NULL) {
        visitor->served = served;
        visitor->since_us = now_us();
    }
    door->unanswered += served ? 1 : -1;
    if (door->unanswered == 0) {
        pthread_cond_broadcast(&door->fewer);
    }
    pthread_mutex_unlock(&door->mutex);
}

void door_look_after(struct door *door)
{
    const int64_t limit_us = now_us() - 2 * door->patience_us;
    pthread_mutex_lock(&door->mutex);
    for (struct visitor *visitor = door->visitors; visitor != NULL; visitor = visitor->next) {
        if (!visitor->served && visitor->since_us < limit_us) {
            shutdown(visitor->fd, SHUT_RDWR); /* the library notices and closes it */
        }
    }
    pthread_mutex_unlock(&door->mutex);
}

/* ===== Requests ===== */

static enum MHD_Result send_answer(struct request *request)
{
    struct answer *answer = &request->answer;
    struct MHD_Response *response = answer->streaming;
    if (response == NULL && answer->text != NULL) {
        response =
            MHD_create_response_from_buffer(answer->size, answer->text, MHD_RESPMEM_MUST_FREE);
        answer->text = NULL;
    } else if (response == NULL) {
        /* The library does not write to it, though it takes no pointer to const. */
        const union {
            const char *text;
            void *buffer;
        } fixed = {.text = answer->fixed};
        response =
            MHD_create_response_from_buffer(answer->size, fixed.buffer, MHD_RESPMEM_PERSISTENT);
    }
    if (response == NULL) {
        return MHD_NO;
    }
    answer->streaming = NULL;
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, answer->type);
    MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    if (answer->retry_after_s > 0) {
        char seconds[12];
        snprintf(seconds, sizeof seconds, "%d", answer->retry_after_s);
        MHD_add_response_header(response, MHD_HTTP_HEADER_RETRY_AFTER, seconds);
    }
    if (answer->allow != NULL) {
        MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, answer->allow);
    }
    if (door_is_shut(request->door)) {
        MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
    }
    const enum MHD_Result result =
        MHD_queue_response(request->connection, answer->status, response);
    MHD_destroy_response(response);
    return result;
}

static void answer_too_large(struct request *request)
{
    answer_error(request, MHD_HTTP_CONTENT_TOO_LARGE, "too large",
        "a request's body may have %d bytes", BODY_SIZE_MAX);
}

/* The head of a request has come. */
static enum MHD_Result begin_request(struct door *door, struct MHD_Connection *connection,
    const char *method, const char *path, void **context)
{
    struct request *request = calloc(1, sizeof *request);
    if (request == NULL) {
        return MHD_NO;
    }
    *context = request;
    request->door = door;
    request->shop = door->shop;
    request->connection = connection;
    request->method = method;
    route_choose(request, method, path);
    const char *length =
        MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_LENGTH);
    if (length != NULL && strtoull(length, NULL, 10) > BODY_SIZE_MAX) {
        answer_too_large(request);
        return send_answer(request);
    }
    return MHD_YES;
}

static enum MHD_Result take_body(struct request *request, const char *data, size_t size)
{
    if (request->body == NULL) {
        request->body = malloc(BODY_SIZE_MAX + 1);
    }
    if (request->body == NULL || request->body_size + size > UNWANTED_SIZE_MAX) {
        return MHD_NO;
    }
    if (request->body_size + size > BODY_SIZE_MAX) {
        request->body_too_large = true;
    }
    if (!request->body_too_large) {
        memcpy(request->body + request->body_size, data, size);
        request->body[request->body_size + size] = '\0';
    }
    request->body_size += size;
    return MHD_YES;
}

static enum MHD_Result on_request(void *cls, struct MHD_Connection *connection, const char *path,
    const char *method, const char *version, const char *data, size_t *size, void **context)
{
    (void)version;
    struct request *request = *context;
    if (request == NULL) {
        return begin_request(cls, connection, method, path, context);
    }
    if (*size > 0) {
        const enum MHD_Result result = take_body(request, data, *size);
        *size = 0;
        return result;
    }
    if (!request->handled) {
        request->handled = true;
        visitor_is_served(cls, connection, true);
        if (request->body_too_large) {
            answer_too_large(request);
        } else {
            request->route->handle(request);
        }
        if (request->later) {
            return MHD_YES; /* suspended; we are called again with the answer */
        }
    }
    return send_answer(request);
}

static void on_completed(void *cls, struct MHD_Connection *connection, void **context,
    enum MHD_RequestTerminationCode code)
{
    (void)code;
    struct request *request = *context;
    if (request != NULL) {
        if (request->handled) {
            visitor_is_served(cls, connection, false);
        }
        free(request->answer.text);
        free(request->body);
        free(request);
        *context = NULL;
    }
}

/* ===== Opening ===== */

int door_listen(const char *address, int *port, char *why, size_t why_size)
{
    const struct addrinfo hints = {.ai_flags = AI_PASSIVE | AI_NUMERICHOST | AI_NUMERICSERV,
        .ai_family = AF_UNSPEC,
        .ai_socktype = SOCK_STREAM};
    char service[8];
    snprintf(service, sizeof service, "%d", *port);
    struct addrinfo *found = NULL;
    if (getaddrinfo(address, service, &hints, &found) != 0) {
        snprintf(why, why_size, "--bind takes an IP address such as 0.0.0.0, not '%s'", address);
        return DOOR_NO_ADDRESS;
    }
    const int one = 1;
    const int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int result = fd < 0 ? -1 : setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (result == 0) {
        result = bind(fd, found->ai_addr, found->ai_addrlen);
    }
    freeaddrinfo(found);
    struct sockaddr_storage own;
    socklen_t own_size = sizeof own;
    memset(&own, 0, sizeof own);
    if (result != 0 || listen(fd, BACKLOG) != 0 ||
        getsockname(fd, (struct sockaddr *)&own, &own_size) != 0) {
        if (errno == EADDRINUSE) {
            snprintf(why, why_size, "port %d of %s is in use; choose another with --port", *port,
                address);
        } else {
            snprintf(
                why, why_size, "cannot listen on %s port %d: %s", address, *port, strerror(errno));
        }
        if (fd >= 0) {
            close(fd);
        }
        return DOOR_NO_SOCKET;
    }
    *port = ntohs(own.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&own)->sin6_port
                                            : ((struct sockaddr_in *)&own)->sin_port);
    return fd;
}

/* As many connections as this process may have. */
static unsigned raise_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
        return 500;
    }
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    getrlimit(RLIMIT_NOFILE, &limit);
    const rlim_t room = limit.rlim_cur > 2 * DESCRIPTORS_KEPT ? limit.rlim_cur - DESCRIPTORS_KEPT
                                                              : limit.rlim_cur / 2;
    return room < CONNECTIONS_MAX ? (unsigned)room : CONNECTIONS_MAX;
}

struct door *door_open(struct shop *shop, struct events *events, int listener, int64_t patience_ms)
{
    struct door *door = calloc(1, sizeof *door);
    if (door == NULL) {
        close(listener);
        return NULL;
    }
    door->shop = shop;
    door->events = events;
    door->patience_us = patience_ms * 1000;
    pthread_mutex_init(&door->mutex, NULL);
    pthread_cond_init(&door->fewer, NULL);
    door->daemon = MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME, 0,
        NULL, NULL, on_request, door, MHD_OPTION_LISTEN_SOCKET, listener,
        MHD_OPTION_THREAD_POOL_SIZE, (unsigned)DOOR_THREADS, MHD_OPTION_CONNECTION_LIMIT,
        raise_limit(), MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HEAD_SIZE_MAX,
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)((patience_ms + 999) / 1000),
        MHD_OPTION_NOTIFY_COMPLETED, on_completed, door, MHD_OPTION_NOTIFY_CONNECTION,
        on_connection, door, MHD_OPTION_END);
    if (door->daemon == NULL) {
        pthread_cond_destroy(&door->fewer);
        pthread_mutex_destroy(&door->mutex);
        close(listener);
        free(door);
        return NULL;
    }
    return door;
}

/* ===== Closing ===== */

void door_shut(struct door *door)
{
    atomic_store(&door->shut, true);
    const int listener = MHD_quiesce_daemon(door->daemon);
    if (listener >= 0) {
        close(listener);
    }
}

bool door_is_shut(const struct door *door)
{
    return atomic_load(&door->shut);
}

void door_count(struct door *door, int change)
{
    pthread_mutex_lock(&door->mutex);
    door->suspended += change;
    if (door->suspended == 0) {
        pthread_cond_broadcast(&door->fewer);
    }
    pthread_mutex_unlock(&door->mutex);
}

/* Wait until nobody is suspended, which must be, and until all answers are sent, which is polite.
 */
static void wait_for_answers(struct door *door)
{
    struct timespec end;
    pthread_mutex_lock(&door->mutex);
    while (door->suspended > 0) {
        pthread_cond_wait(&door->fewer, &door->mutex);
    }
    clock_gettime(CLOCK_REALTIME, &end); /* the condition's clock */
    end.tv_sec += FAREWELL_MS / 1000;
    while (door->unanswered > 0 &&
           pthread_cond_timedwait(&door->fewer, &door->mutex, &end) != ETIMEDOUT) {
    }
    pthread_mutex_unlock(&door->mutex);
}

void door_close(struct door *door)
{
    wait_for_answers(door);
    MHD_stop_daemon(door->daemon);
    pthread_cond_destroy(&door->fewer);
    pthread_mutex_destroy(&door->mutex);
    free(door);
}

/* ===== What others ask ===== */

struct events *door_events(struct door *door)
{
    return door->events;
}

void door_remember_item(struct door *door, const char *id)
{
    pthread_mutex_lock(&door->mutex);
    size_t i = 0;
    while (i < door->item_count && strcmp(door->items[i], id) != 0) {
        i++;
    }
    if (i == door->item_count && i < DOOR_ITEMS_MAX) {
        snprintf(door->items[i], ITEM_SIZE, "%s", id);
        door->item_count++;
    }
    pthread_mutex_unlock(&door->mutex);
}

size_t door_items(struct door *door, char ids_out[DOOR_ITEMS_MAX][ITEM_SIZE])
{
    pthread_mutex_lock(&door->mutex);
    const size_t count = door->item_count;
    memcpy(ids_out, door->items, sizeof door->items);
    pthread_mutex_unlock(&door->mutex);
    return count;
}
