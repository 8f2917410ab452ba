/* SPDX-License-Identifier: Apache-2.0 */
/* Looking up names; resolve.h says how it is used.
 *
 * The thread writes the answer, then sets `finished`, then the eventfd; after that it only lets go.
 * The asker reads the answer once it has seen `finished`. The descriptor goes with the record, so
 * the thread can never write to one that was closed. */
#include "engine/redis/resolve.h"

#include "base/alloc.h"
#include "base/fds.h"
#include "base/thread.h"

#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>

struct pawl__resolve {
    _Atomic unsigned users; /* the asker and the thread */
    _Atomic bool finished;
    int fd;
    int failure; /* of getaddrinfo() */
    struct pawl__addresses addresses;
    char *port; /* behind the host, in the same block */
    char host[];
};

static int look_up(const char *host, const char *port, int flags, struct pawl__addresses *addresses)
{
    const struct addrinfo hints = {
        .ai_flags = flags | AI_NUMERICSERV, .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    const int failure = getaddrinfo(host, port, &hints, &found);
    addresses->count = 0;
    if (failure != 0) {
        return failure;
    }
    for (struct addrinfo *at = found; at != NULL; at = at->ai_next) {
        if (addresses->count < PAWL__ADDRESSES_MAX &&
            at->ai_addrlen <= sizeof(struct sockaddr_storage)) {
            struct pawl__address *address = &addresses->items[addresses->count++];
            memcpy(&address->storage, at->ai_addr, at->ai_addrlen);
            address->size = at->ai_addrlen;
        }
    }
    freeaddrinfo(found);
    return addresses->count > 0 ? 0 : EAI_NONAME;
}

bool pawl__resolve_numeric(const char *host, const char *port, struct pawl__addresses *addresses)
{
    return look_up(host, port, AI_NUMERICHOST, addresses) == 0;
}

static void *run(void *arg)
{
    struct pawl__resolve *resolve = arg;
    resolve->failure = look_up(resolve->host, resolve->port, 0, &resolve->addresses);
    atomic_store(&resolve->finished, true);
    eventfd_write(resolve->fd, 1);
    pawl__resolve_drop(resolve);
    return NULL;
}

static struct pawl__resolve *make(const char *host, const char *port)
{
    const size_t host_size = strlen(host) + 1;
    const size_t port_size = strlen(port) + 1;
    struct pawl__resolve *resolve = pawl__alloc(sizeof *resolve + host_size + port_size);
    if (resolve == NULL) {
        errno = ENOMEM;
        return NULL;
    }
    memcpy(resolve->host, host, host_size);
    resolve->port = resolve->host + host_size;
    memcpy(resolve->port, port, port_size);
    atomic_init(&resolve->users, 1);
    atomic_init(&resolve->finished, false);
    resolve->fd = pawl__fd_eventfd();
    if (resolve->fd < 0) {
        pawl__resolve_drop(resolve);
        return NULL;
    }
    return resolve;
}

struct pawl__resolve *pawl__resolve_start(const char *host, const char *port)
{
    struct pawl__resolve *resolve = make(host, port);
    if (resolve == NULL) {
        return NULL;
    }
    pthread_t thread;
    atomic_fetch_add(&resolve->users, 1);
    if (!pawl__thread_start(&thread, "pawl-resolve", run, resolve)) {
        atomic_fetch_sub(&resolve->users, 1);
        pawl__resolve_drop(resolve);
        errno = EAGAIN;
        return NULL;
    }
    pthread_detach(thread);
    return resolve;
}

int pawl__resolve_fd(const struct pawl__resolve *resolve)
{
    return resolve->fd;
}

bool pawl__resolve_finished(
    struct pawl__resolve *resolve, struct pawl__addresses *addresses, const char **failure_out)
{
    if (!atomic_load(&resolve->finished)) {
        return false;
    }
    *addresses = resolve->addresses;
    *failure_out = resolve->failure == 0 ? NULL : gai_strerror(resolve->failure);
    return true;
}

void pawl__resolve_drop(struct pawl__resolve *resolve)
{
    if (resolve != NULL && atomic_fetch_sub(&resolve->users, 1) == 1) {
        pawl__fd_close(resolve->fd);
        pawl__free(resolve);
    }
}
