/* SPDX-License-Identifier: Apache-2.0 */
/* The fault proxy's thread: accept, read, write what is due, sleep until the next thing is.
 *
 * The list of links and their descriptors are changed by this thread only, so nothing it polls is
 * closed under it; others leave orders. See proxy_internal.h. */
#include "support/proxy_internal.h"

#include "support/sockets.h"
#include "support/thread.h"
#include "support/wait.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>

#define QUEUE_SIZE_MAX (8u << 20) /* a sender has to wait beyond this */

struct polled {
    struct link *link;
    enum proxy_direction side;
};

struct poll_set {
    struct pollfd *items;
    struct polled *who; /* in step with items */
    nfds_t count;
    nfds_t capacity;
};

/* A link with a connection to the server on its way; NULL when there is no way. */
struct link *proxy__link_make(struct proxy *proxy, int client_fd)
{
    int fd = proxy->upstream_port != 0 ? socket_begin(proxy->upstream_port)
                                       : socket_begin_unix(proxy->upstream_path);
    if (fd < 0) {
        proxy->stats.unreachable++;
        return NULL;
    }
    struct link *link = support_alloc(sizeof *link);
    link->id = ++proxy->link_count;
    link->fd[PROXY_TO_SERVER] = fd;
    link->fd[PROXY_TO_CLIENT] = client_fd;
    link->connecting = true;
    link->is_copy = client_fd < 0;
    if (link->is_copy) {
        link->flow[PROXY_TO_CLIENT].over = true;
        link->flow[PROXY_TO_SERVER].source_ended = true;
    }
    proxy->stats.open += link->is_copy ? 0 : 1;
    link->next = proxy->links;
    proxy->links = link;
    return link;
}

void proxy__link_free(struct link *link)
{
    for (enum proxy_direction side = PROXY_TO_SERVER; side <= PROXY_TO_CLIENT; side++) {
        if (link->fd[side] >= 0) {
            socket_close(link->fd[side]);
        }
        struct piece *piece = link->flow[side].first;
        while (piece != NULL) {
            struct piece *next = piece->next;
            free(piece);
            piece = next;
        }
        text_free(&link->flow[side].tail);
    }
    text_free(&link->greeting);
    free(link->pending);
    free(link);
}

static void accept_clients(struct proxy *proxy)
{
    for (;;) {
        int fd = accept4(proxy->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0) {
            return;
        }
        const int on = 1;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        proxy->stats.accepted++;
        if (proxy__link_make(proxy, fd) == NULL) {
            socket_reset(fd);
        }
    }
}

static void finish_connecting(struct proxy *proxy, struct link *link)
{
    int error = 0;
    socklen_t size = sizeof error;
    getsockopt(link->fd[PROXY_TO_SERVER], SOL_SOCKET, SO_ERROR, &error, &size);
    link->connecting = false;
    if (error != 0) {
        proxy->stats.unreachable++;
        proxy__side_gone(proxy, link, PROXY_TO_SERVER, true);
    }
}

static void read_side(struct proxy *proxy, struct link *link, enum proxy_direction side)
{
    char data[65536];
    const enum proxy_direction direction = proxy__reverse(side);
    ssize_t size = recv(link->fd[side], data, sizeof data, MSG_DONTWAIT);
    if (size > 0) {
        proxy__take_bytes(proxy, link, direction, data, (size_t)size);
    } else if (size == 0) {
        proxy__source_ended(link, direction, false);
    } else if (errno != EAGAIN && errno != EINTR) {
        proxy__side_gone(proxy, link, side, true);
    }
}

static void handle_events(
    struct proxy *proxy, struct link *link, enum proxy_direction side, short events)
{
    if (events == 0 || link->fd[side] < 0) {
        return;
    }
    if (side == PROXY_TO_SERVER && link->connecting) {
        finish_connecting(proxy, link);
    } else if (!link->flow[proxy__reverse(side)].source_ended) {
        if ((events & (POLLIN | POLLHUP | POLLERR)) != 0) {
            read_side(proxy, link, side);
        }
    } else if ((events & (POLLHUP | POLLERR)) != 0) {
        proxy__side_gone(proxy, link, side, true);
    }
}

static short wanted_events(const struct link *link, enum proxy_direction side)
{
    const struct flow *in = &link->flow[proxy__reverse(side)];
    int events = 0;
    if (side == PROXY_TO_SERVER && link->connecting) {
        return POLLOUT;
    }
    if (!in->source_ended && in->queued_size < QUEUE_SIZE_MAX) {
        events |= POLLIN;
    }
    if (link->flow[side].blocked) {
        events |= POLLOUT;
    }
    return (short)events;
}

static void poll_add(struct poll_set *set, int fd, short events, struct polled who)
{
    if (set->count == set->capacity) {
        set->capacity = set->capacity * 2 + 16;
        set->items = realloc(set->items, set->capacity * sizeof *set->items);
        set->who = realloc(set->who, set->capacity * sizeof *set->who);
        if (set->items == NULL || set->who == NULL) {
            abort();
        }
    }
    set->items[set->count] = (struct pollfd){.fd = fd, .events = events};
    set->who[set->count] = who;
    set->count++;
}

/* Fill the set and return when the next piece is due. */
static int64_t prepare(const struct proxy *proxy, struct poll_set *set)
{
    int64_t due_us = INT64_MAX;
    set->count = 0;
    poll_add(set, proxy->wake_fd, POLLIN, (struct polled){0});
    /* A socket that refuses would report a hang-up all the time; poll ignores -1. */
    poll_add(set, proxy->refusing ? -1 : proxy->listen_fd, POLLIN, (struct polled){0});
    for (struct link *link = proxy->links; link != NULL; link = link->next) {
        for (enum proxy_direction side = PROXY_TO_SERVER; side <= PROXY_TO_CLIENT; side++) {
            if (link->fd[side] >= 0) {
                poll_add(set, link->fd[side], wanted_events(link, side),
                    (struct polled){.link = link, .side = side});
            }
            const int64_t next_us = proxy__next_due_us(proxy, link, side);
            due_us = next_us < due_us ? next_us : due_us;
        }
    }
    return due_us;
}

static void poll_until(struct poll_set *set, int64_t due_us)
{
    struct timespec timeout = {0};
    if (due_us == INT64_MAX) {
        ppoll(set->items, set->count, NULL, NULL);
        return;
    }
    const int64_t left_us = due_us - boottime_us();
    if (left_us > 0) {
        timeout.tv_sec = (time_t)(left_us / 1000000);
        timeout.tv_nsec = (long)(left_us % 1000000) * 1000;
    }
    ppoll(set->items, set->count, &timeout, NULL);
}

static void carry_out_order(struct proxy *proxy)
{
    struct cut_order *order = &proxy->cut_order;
    if (!order->given) {
        return;
    }
    for (struct link *link = proxy->links; link != NULL; link = link->next) {
        if (!link->is_copy &&
            (order->text == NULL || proxy__link_matches(proxy, link, order->text))) {
            proxy__cut(proxy, link, order->how);
        }
    }
    order->given = false;
}

/* Write what is due on every link and drop the links that are over. Copies made on the way are at
 * the head of the list and get their turn in the next round. */
static void pump_all(struct proxy *proxy)
{
    struct link **place = &proxy->links;
    for (struct link *link = proxy->links; link != NULL; link = link->next) {
        proxy__pump(proxy, link, PROXY_TO_SERVER);
        proxy__pump(proxy, link, PROXY_TO_CLIENT);
    }
    while (*place != NULL) {
        struct link *link = *place;
        if (proxy__settle(proxy, link)) {
            *place = link->next;
            proxy->stats.open -= link->is_copy ? 0 : 1;
            proxy__link_free(link);
        } else {
            place = &link->next;
        }
    }
}

static void turn(struct proxy *proxy, const struct poll_set *set)
{
    if (set->items[0].revents != 0) {
        thread_clear_wake(proxy->wake_fd);
    }
    carry_out_order(proxy);
    if ((set->items[1].revents & POLLIN) != 0) {
        accept_clients(proxy);
    }
    for (nfds_t i = 2; i < set->count; i++) {
        handle_events(proxy, set->who[i].link, set->who[i].side, set->items[i].revents);
    }
    pump_all(proxy);
}

void *proxy__run(void *arg)
{
    struct proxy *proxy = arg;
    struct poll_set set = {0};
    pthread_mutex_lock(&proxy->mutex);
    while (!proxy->stopping) {
        const int64_t due_us = prepare(proxy, &set);
        pthread_cond_broadcast(&proxy->changed);
        pthread_mutex_unlock(&proxy->mutex);
        poll_until(&set, due_us);
        pthread_mutex_lock(&proxy->mutex);
        turn(proxy, &set);
    }
    pthread_mutex_unlock(&proxy->mutex);
    free(set.items);
    free(set.who);
    return NULL;
}
