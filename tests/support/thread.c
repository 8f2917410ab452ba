/* SPDX-License-Identifier: Apache-2.0 */
/* Starting, timing and waking the server threads of the test support. No state. */
#include "support/thread.h"

#include "support/fail.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/types.h>
#include <unistd.h>

void thread_start(pthread_t *thread_out, void *(*body)(void *arg), void *arg)
{
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(thread_out, NULL, body, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error != 0) {
        support_fail("a thread cannot be started: %s", strerror(error));
    }
}

void thread_make_condition(pthread_cond_t *condition)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(condition, &attributes);
    pthread_condattr_destroy(&attributes);
}

struct timespec thread_deadline(int64_t timeout_ms)
{
    struct timespec end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    const int64_t total_ns = end.tv_nsec + timeout_ms % 1000 * 1000000;
    end.tv_sec += (time_t)(timeout_ms / 1000 + total_ns / 1000000000);
    end.tv_nsec = (long)(total_ns % 1000000000);
    return end;
}

int thread_make_wake(void)
{
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (fd < 0) {
        support_fail("eventfd: %s", strerror(errno));
    }
    return fd;
}

void thread_wake(int wake_fd)
{
    const uint64_t one = 1;
    ssize_t size = write(wake_fd, &one, sizeof one);
    (void)size; /* a full counter wakes as well */
}

void thread_clear_wake(int wake_fd)
{
    uint64_t wakes = 0;
    ssize_t size = read(wake_fd, &wakes, sizeof wakes);
    (void)size; /* nothing to read: somebody else woke us */
}
