/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The forwarder: one poll loop over the listening socket and pairs of connections, each with a
 * buffer for either direction. A direction reads only when its buffer is empty, so that a slow
 * reader slows the writer down, as it would without us.
 */
#include "up/forward.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/say.h"
#include "up/net.h"

#define PAIRS_MAX 1024
#define BUFFER_SIZE 16384

struct direction {
    char bytes[BUFFER_SIZE];
    size_t begin, end; /* what is not written yet */
};

struct pair {
    int fds[2];               /* the client's, the server's */
    struct direction ways[2]; /* from fds[i] to the other */
};

struct forwarder {
    int listen_fd;
    int port;
    int wake_fd; /* an eventfd: look at what is below */
    pthread_t thread;

    pthread_mutex_t mutex;
    pthread_cond_t changed;
    int target_port; /* under the mutex, as the next two */
    bool cut;        /* asked for; the thread clears it when it is done */
    bool closing;

    struct pair *pairs[PAIRS_MAX]; /* of the thread alone, as all below */
    size_t pair_count;
    struct pollfd polls[2 + 2 * PAIRS_MAX];
};

static void close_pair(struct forwarder *forwarder, size_t index)
{
    struct pair *pair = forwarder->pairs[index];
    close(pair->fds[0]);
    close(pair->fds[1]);
    free(pair);
    forwarder->pairs[index] = forwarder->pairs[--forwarder->pair_count];
}

static void prepare(int fd)
{
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    fcntl(fd, F_SETFL, O_NONBLOCK);
}

static void accept_one(struct forwarder *forwarder, int target_port)
{
    int client = accept4(forwarder->listen_fd, NULL, NULL, SOCK_CLOEXEC);
    if (client < 0) {
        return;
    }
    int server = net_connect(target_port);
    struct pair *pair = NULL;
    if (server >= 0 && forwarder->pair_count < PAIRS_MAX) {
        pair = calloc(1, sizeof(*pair));
    }
    if (!pair) { /* the client sees what it would have seen of the server: nothing */
        close(client);
        if (server >= 0) {
            close(server);
        }
        return;
    }
    prepare(client);
    prepare(server);
    pair->fds[0] = client;
    pair->fds[1] = server;
    forwarder->pairs[forwarder->pair_count++] = pair;
}

static bool is_transient(ssize_t count)
{
    return count < 0 && (errno == EAGAIN || errno == EINTR);
}

/* Moves what can be moved in one direction. False: the connection has ended. */
static bool move_bytes(struct direction *way, int from, int to)
{
    if (way->begin == way->end) {
        ssize_t count = recv(from, way->bytes, BUFFER_SIZE, 0);
        if (count <= 0) {
            return is_transient(count);
        }
        way->begin = 0;
        way->end = (size_t)count;
    }
    ssize_t count = send(to, way->bytes + way->begin, way->end - way->begin, MSG_NOSIGNAL);
    if (count < 0) {
        return is_transient(count);
    }
    way->begin += (size_t)count;
    return true;
}

/* What a pair waits for: room to write if there is something to write, else something to read. */
static void fill_polls(const struct pair *pair, struct pollfd polls[2])
{
    for (int i = 0; i < 2; i++) {
        bool reads = pair->ways[i].begin == pair->ways[i].end;
        bool writes = pair->ways[!i].begin != pair->ways[!i].end;
        polls[i] = (struct pollfd){.fd = pair->fds[i]};
        polls[i].events = (short)((reads ? POLLIN : 0) | (writes ? POLLOUT : 0));
    }
}

static bool serve_pair(struct pair *pair, const struct pollfd polls[2])
{
    if (!polls[0].revents && !polls[1].revents) {
        return true;
    }
    return move_bytes(&pair->ways[0], pair->fds[0], pair->fds[1]) &&
           move_bytes(&pair->ways[1], pair->fds[1], pair->fds[0]);
}

/* Does what other threads asked for. False: it is to end. */
static bool obey(struct forwarder *forwarder, int *target_port_out)
{
    uint64_t count = 0;
    if (read(forwarder->wake_fd, &count, sizeof(count)) < 0) {
        count = 0; /* nobody asked; looking is cheap */
    }
    pthread_mutex_lock(&forwarder->mutex);
    if (forwarder->cut || forwarder->closing) {
        while (forwarder->pair_count > 0) {
            close_pair(forwarder, 0);
        }
        forwarder->cut = false;
        pthread_cond_signal(&forwarder->changed);
    }
    *target_port_out = forwarder->target_port;
    bool goes_on = !forwarder->closing;
    pthread_mutex_unlock(&forwarder->mutex);
    return goes_on;
}

static void *run(void *arg)
{
    struct forwarder *forwarder = arg;
    struct pollfd *polls = forwarder->polls;
    int target_port = 0;
    while (obey(forwarder, &target_port)) {
        size_t count = forwarder->pair_count;
        polls[0] = (struct pollfd){.fd = forwarder->wake_fd, .events = POLLIN};
        polls[1] = (struct pollfd){.fd = forwarder->listen_fd, .events = POLLIN};
        for (size_t i = 0; i < count; i++) {
            fill_polls(forwarder->pairs[i], &polls[2 + 2 * i]);
        }
        if (poll(polls, 2 + 2 * count, -1) <= 0 || polls[0].revents) {
            continue;
        }
        for (size_t i = count; i-- > 0;) { /* backwards: the last takes a closed one's place */
            if (!serve_pair(forwarder->pairs[i], &polls[2 + 2 * i])) {
                close_pair(forwarder, i);
            }
        }
        if (polls[1].revents) {
            accept_one(forwarder, target_port);
        }
    }
    return NULL;
}

struct forwarder *forwarder_open(int target_port)
{
    struct forwarder *forwarder = calloc(1, sizeof(*forwarder));
    if (!forwarder) {
        say("no memory for the forwarder");
        return NULL;
    }
    forwarder->target_port = target_port;
    forwarder->listen_fd = net_listen(0, &forwarder->port);
    forwarder->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pthread_mutex_init(&forwarder->mutex, NULL);
    pthread_cond_init(&forwarder->changed, NULL);
    if (forwarder->listen_fd < 0 || forwarder->wake_fd < 0 ||
        pthread_create(&forwarder->thread, NULL, run, forwarder) != 0) {
        say("the forwarder cannot be started: %s", strerror(errno));
        close(forwarder->listen_fd);
        close(forwarder->wake_fd);
        free(forwarder);
        return NULL;
    }
    return forwarder;
}

int forwarder_port(const struct forwarder *forwarder)
{
    return forwarder->port;
}

static void wake(struct forwarder *forwarder)
{
    uint64_t one = 1;
    if (write(forwarder->wake_fd, &one, sizeof(one)) < 0) {
        say("the forwarder cannot be woken: %s", strerror(errno));
    }
}

void forwarder_switch(struct forwarder *forwarder, int target_port)
{
    pthread_mutex_lock(&forwarder->mutex);
    forwarder->target_port = target_port;
    forwarder->cut = true;
    wake(forwarder);
    while (forwarder->cut) {
        pthread_cond_wait(&forwarder->changed, &forwarder->mutex);
    }
    pthread_mutex_unlock(&forwarder->mutex);
}

void forwarder_close(struct forwarder *forwarder)
{
    if (!forwarder) {
        return;
    }
    pthread_mutex_lock(&forwarder->mutex);
    forwarder->closing = true;
    wake(forwarder);
    pthread_mutex_unlock(&forwarder->mutex);
    pthread_join(forwarder->thread, NULL);
    close(forwarder->listen_fd);
    close(forwarder->wake_fd);
    pthread_cond_destroy(&forwarder->changed);
    pthread_mutex_destroy(&forwarder->mutex);
    free(forwarder);
}
