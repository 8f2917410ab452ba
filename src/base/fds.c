/* SPDX-License-Identifier: Apache-2.0 */
/* One bit per descriptor number, guarded by one mutex. The fork handlers hold that mutex over the
 * fork, so the child sees the table as it was and no descriptor is between being made and being
 * registered. The child's handler runs when nothing but async-signal-safe calls is allowed: it only
 * closes. */
#include "base/fds.h"

#include "base/alloc.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define BITS 64

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static uint64_t *table;   /* guarded by mutex */
static size_t word_count; /* guarded by mutex */
static _Atomic unsigned forks;

static void before_fork(void)
{
    pthread_mutex_lock(&mutex);
}

static void after_fork_parent(void)
{
    pthread_mutex_unlock(&mutex);
}

static void after_fork_child(void)
{
    for (size_t i = 0; i < word_count; i++) {
        for (int bit = 0; table[i] != 0 && bit < BITS; bit++) {
            if ((table[i] >> bit) & 1) {
                close((int)(i * BITS) + bit);
            }
        }
        table[i] = 0;
    }
    atomic_fetch_add(&forks, 1);
    pthread_mutex_unlock(&mutex);
}

/* When the library is loaded, not at the first descriptor: a fork that has already run its prepare
 * handlers skips those that are installed while it goes on, and its child would keep the
 * descriptor. */
__attribute__((constructor)) static void install(void)
{
    pthread_atfork(before_fork, after_fork_parent, after_fork_child);
}

static bool make_room(size_t words)
{
    if (words <= word_count) {
        return true;
    }
    uint64_t *bigger = pawl__realloc(table, words * sizeof *bigger);
    if (bigger == NULL) {
        return false;
    }
    for (size_t i = word_count; i < words; i++) {
        bigger[i] = 0;
    }
    table = bigger;
    word_count = words;
    return true;
}

/* Register the new descriptor and let go of the mutex. */
static int end(int fd)
{
    int error = errno;
    if (fd >= 0) {
        size_t word = (size_t)fd / BITS;
        if (make_room(word + 1)) {
            table[word] |= UINT64_C(1) << (fd % BITS);
        } else {
            close(fd);
            fd = -1;
            error = ENOMEM;
        }
    }
    pthread_mutex_unlock(&mutex);
    errno = error;
    return fd;
}

int pawl__fd_socket(int domain, int type, int protocol)
{
    pthread_mutex_lock(&mutex);
    return end(socket(domain, type | SOCK_CLOEXEC, protocol));
}

int pawl__fd_openat(int directory, const char *path, int flags, mode_t mode)
{
    pthread_mutex_lock(&mutex);
    return end(openat(directory, path, flags | O_CLOEXEC, mode));
}

int pawl__fd_eventfd(void)
{
    pthread_mutex_lock(&mutex);
    return end(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
}

int pawl__fd_timerfd(void)
{
    pthread_mutex_lock(&mutex);
    return end(timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK));
}

int pawl__fd_inotify(void)
{
    pthread_mutex_lock(&mutex);
    return end(inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
}

void pawl__fd_close(int fd)
{
    if (fd < 0) {
        return;
    }
    int error = errno;
    size_t word = (size_t)fd / BITS;
    uint64_t bit = UINT64_C(1) << (fd % BITS);
    pthread_mutex_lock(&mutex);
    /* A number that was inherited over a fork may be somebody else's descriptor by now. */
    if (word < word_count && (table[word] & bit) != 0) {
        table[word] &= ~bit;
        close(fd);
    }
    pthread_mutex_unlock(&mutex);
    errno = error;
}

unsigned pawl__fork_count(void)
{
    return atomic_load_explicit(&forks, memory_order_relaxed);
}
