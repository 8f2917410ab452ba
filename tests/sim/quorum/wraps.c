/* SPDX-License-Identifier: Apache-2.0 */
/* What stands in for the calls that block, or that are not the same each time. The linker leads the
 * library's calls here (-Wl,--wrap). Mutexes are real ones, which are only tried: who does not get
 * one waits for it in virtual time. */
#include "qsim.h"

#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>

#define FD_BASE (1 << 20)

int __real_pthread_mutex_unlock(pthread_mutex_t *mutex);
int __real_pthread_mutex_lock(pthread_mutex_t *mutex);
long __real_syscall(long number, ...);
ssize_t __real_read(int fd, void *bytes, size_t size);
int __real_poll(struct pollfd *fds, nfds_t count, int timeout_ms);

int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex);
int __wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex);
int __wrap_pthread_cond_broadcast(pthread_cond_t *cond);
long __wrap_syscall(long number, ...);
int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout_ms);
int __wrap___poll_chk(struct pollfd *fds, nfds_t count, int timeout_ms, size_t size);
int __wrap_ppoll(
    struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask);
ssize_t __wrap_read(int fd, void *bytes, size_t size);
int __wrap_eventfd_read(int fd, eventfd_t *value);
int __wrap_eventfd_write(int fd, eventfd_t value);
int __wrap_timerfd_settime(
    int fd, int flags, const struct itimerspec *when, struct itimerspec *before);
int __wrap_pawl__fd_eventfd(void);
int __wrap_pawl__fd_timerfd(void);
void __wrap_pawl__fd_close(int fd);
ssize_t __wrap_getrandom(void *bytes, size_t size, unsigned flags);
const struct pawl__engine *__wrap_pawl__engine_find(const char *scheme);
pawl_status __wrap_pawl__engine_missing(const struct pawl__url *url);

/* ===== Mutexes and conditions ===== */

static void take(pthread_mutex_t *mutex)
{
    while (pthread_mutex_trylock(mutex) != 0) {
        qs_wait(mutex, PAWL__NEVER);
    }
}

int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
    if (qs_self == NULL) {
        return __real_pthread_mutex_lock(mutex);
    }
    qs_point();
    take(mutex);
    return 0;
}

static void give(pthread_mutex_t *mutex)
{
    __real_pthread_mutex_unlock(mutex);
    qs_wake(mutex);
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex)
{
    if (qs_self == NULL) {
        return __real_pthread_mutex_unlock(mutex);
    }
    give(mutex);
    qs_point();
    return 0;
}

int __wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex)
{
    give(mutex);
    qs_wait(cond, PAWL__NEVER);
    take(mutex);
    return 0;
}

int __wrap_pthread_cond_broadcast(pthread_cond_t *cond)
{
    qs_wake(cond);
    return 0;
}

/* ===== Futexes ===== */

static int64_t duration_of(const struct timespec *time)
{
    return time == NULL ? PAWL__NEVER
                        : (int64_t)time->tv_sec * 1000000 + (time->tv_nsec + 999) / 1000;
}

static long futex(uint32_t *word, int operation, uint32_t value, const struct timespec *timeout)
{
    if (operation == FUTEX_WAKE_PRIVATE) {
        qs_wake(word);
        return 1;
    }
    if (__atomic_load_n(word, __ATOMIC_SEQ_CST) != value) {
        errno = EAGAIN;
        return -1;
    }
    if (qs_wait(word, qs_process_later(qs_self->process, duration_of(timeout)))) {
        return 0;
    }
    errno = ETIMEDOUT;
    return -1;
}

long __wrap_syscall(long number, ...)
{
    va_list args;
    long values[6];
    va_start(args, number);
    for (int i = 0; i < 6; i++) {
        values[i] = va_arg(args, long);
    }
    va_end(args);
    if (number == SYS_futex && qs_self != NULL) {
        return futex((uint32_t *)values[0], (int)values[1], (uint32_t)values[2],
            (const struct timespec *)values[3]);
    }
    return __real_syscall(number, values[0], values[1], values[2], values[3], values[4], values[5]);
}

/* ===== Descriptors ===== */

enum fd_kind { FD_FREE, FD_EVENT, FD_TIMER, FD_LINK };

static struct descriptor {
    enum fd_kind kind;
    uint64_t count;
    int64_t due_us;
    const struct qs_link *link;
} fds_of_all[QS_FDS];

static struct descriptor *find(int fd)
{
    if (fd < FD_BASE || fd >= FD_BASE + QS_FDS) {
        qs_fail("DESCRIPTORS %d is none of ours", fd);
    }
    return &fds_of_all[fd - FD_BASE];
}

static int fd_new(enum fd_kind kind)
{
    for (int i = 0; i < QS_FDS; i++) {
        if (fds_of_all[i].kind == FD_FREE) {
            fds_of_all[i].kind = kind;
            fds_of_all[i].count = 0;
            fds_of_all[i].due_us = PAWL__NEVER;
            return FD_BASE + i;
        }
    }
    qs_fail("DESCRIPTORS more than %d at a time", QS_FDS);
}

int qs_fd_link(struct qs_link *link)
{
    const int fd = fd_new(FD_LINK);
    find(fd)->link = link;
    return fd;
}

void qs_fd_close(int fd)
{
    if (find(fd)->kind == FD_FREE) {
        qs_fail("DESCRIPTORS one is closed twice");
    }
    find(fd)->kind = FD_FREE;
}

unsigned qs_fds_open(void)
{
    unsigned count = 0;
    for (int i = 0; i < QS_FDS; i++) {
        count += fds_of_all[i].kind != FD_FREE ? 1 : 0;
    }
    return count;
}

bool qs_fd_ready(int fd)
{
    if (fd < FD_BASE) {
        return false;
    }
    switch (find(fd)->kind) {
    case FD_EVENT:
        return find(fd)->count > 0;
    case FD_TIMER:
        return find(fd)->due_us <= qs.now_us;
    case FD_LINK:
        return qs_link_readable(find(fd)->link);
    case FD_FREE:
        break;
    }
    return false;
}

int64_t qs_fds_due(const struct pollfd *fds, nfds_t count)
{
    int64_t due_us = PAWL__NEVER;
    for (nfds_t i = 0; i < count; i++) {
        if (fds[i].fd >= FD_BASE && find(fds[i].fd)->kind == FD_TIMER) {
            due_us = pawl__min64(due_us, find(fds[i].fd)->due_us);
        }
    }
    return due_us;
}

static int poll_until(struct pollfd *fds, nfds_t count, int64_t due_us)
{
    for (;;) {
        int ready = 0;
        for (nfds_t i = 0; i < count; i++) {
            fds[i].revents = qs_fd_ready(fds[i].fd) ? POLLIN : 0;
            ready += fds[i].revents != 0 ? 1 : 0;
        }
        if (ready > 0 || due_us <= qs.now_us) {
            return ready;
        }
        qs_poll(fds, count, pawl__min64(due_us, qs_fds_due(fds, count)));
    }
}

int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout_ms)
{
    if (qs_self == NULL) {
        return __real_poll(fds, count, timeout_ms);
    }
    const int64_t duration_us = timeout_ms < 0 ? PAWL__NEVER : (int64_t)timeout_ms * 1000;
    qs_point();
    return poll_until(fds, count, qs_process_later(qs_self->process, duration_us));
}

int __wrap___poll_chk(struct pollfd *fds, nfds_t count, int timeout_ms, size_t size)
{
    (void)size;
    return __wrap_poll(fds, count, timeout_ms);
}

int __wrap_ppoll(
    struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask)
{
    (void)mask;
    qs_point();
    return poll_until(fds, count, qs_process_later(qs_self->process, duration_of(timeout)));
}

static bool empty(int fd, uint64_t *value_out)
{
    struct descriptor *descriptor = find(fd);
    const bool ready = qs_fd_ready(fd);
    *value_out = ready ? descriptor->count : 0;
    descriptor->count = 0;
    descriptor->due_us = PAWL__NEVER;
    errno = ready ? 0 : EAGAIN;
    return ready;
}

ssize_t __wrap_read(int fd, void *bytes, size_t size)
{
    if (fd < FD_BASE) {
        return __real_read(fd, bytes, size);
    }
    return empty(fd, bytes) ? (ssize_t)sizeof(uint64_t) : -1;
}

int __wrap_eventfd_read(int fd, eventfd_t *value)
{
    return empty(fd, value) ? 0 : -1;
}

int __wrap_eventfd_write(int fd, eventfd_t value)
{
    if (find(fd)->kind != FD_EVENT) {
        qs_fail("DESCRIPTORS one is written to that is closed");
    }
    find(fd)->count += value;
    qs_wake_pollers(fd);
    return 0;
}

int __wrap_timerfd_settime(
    int fd, int flags, const struct itimerspec *when, struct itimerspec *before)
{
    (void)flags;
    (void)before;
    const int64_t at_us = duration_of(&when->it_value);
    const int64_t left_us = at_us - qs_process_now(qs_self->process);
    find(fd)->due_us =
        at_us == 0 ? PAWL__NEVER : qs_process_later(qs_self->process, pawl__max64(left_us, 0));
    return 0;
}

int __wrap_pawl__fd_eventfd(void)
{
    return fd_new(FD_EVENT);
}

int __wrap_pawl__fd_timerfd(void)
{
    return fd_new(FD_TIMER);
}

void __wrap_pawl__fd_close(int fd)
{
    if (fd >= 0) {
        qs_fd_close(fd);
    }
}

/* ===== The rest ===== */

ssize_t __wrap_getrandom(void *bytes, size_t size, unsigned flags)
{
    (void)flags;
    for (size_t i = 0; i < size; i++) {
        ((unsigned char *)bytes)[i] = (unsigned char)qs_below(256);
    }
    return (ssize_t)size;
}

const struct pawl__engine *__wrap_pawl__engine_find(const char *scheme)
{
    return strcmp(scheme, "sim") == 0 ? &qs_engine : NULL;
}

pawl_status __wrap_pawl__engine_missing(const struct pawl__url *url)
{
    (void)url;
    return PAWL_UNSUPPORTED;
}
