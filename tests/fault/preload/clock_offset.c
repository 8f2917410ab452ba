/* SPDX-License-Identifier: Apache-2.0 */
/* Preloaded into a program, this moves its wall clock while it runs, and nothing else.
 *
 * PAWL_TEST_CLOCK names a file of eight bytes: the nanoseconds that are added to the real time. The
 * test maps the file and changes them whenever it likes. Other clocks are left alone. Nothing but
 * system calls is used, because an allocator may ask for the time before it works itself. */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S 1000000000
#define EXPORTED __attribute__((visibility("default")))

static _Atomic int64_t none;
static _Atomic int64_t *_Atomic mapped;

static _Atomic int64_t *map_offset(void)
{
    const char *path = getenv("PAWL_TEST_CLOCK");
    const long fd = path != NULL ? syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0) {
        return &none;
    }
    const long memory = syscall(SYS_mmap, NULL, sizeof none, PROT_READ, MAP_SHARED, fd, 0);
    syscall(SYS_close, fd);
    return memory == -1 ? &none : (_Atomic int64_t *)(uintptr_t)memory;
}

static int64_t offset_ns(void)
{
    _Atomic int64_t *offset = atomic_load(&mapped);
    if (offset == NULL) {
        const int error = errno;
        offset = map_offset();
        atomic_store(&mapped, offset);
        errno = error;
    }
    return atomic_load(offset);
}

static bool is_wall_clock(clockid_t clock)
{
    return clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
}

EXPORTED int clock_gettime(clockid_t clock, struct timespec *now)
{
    const int result = (int)syscall(SYS_clock_gettime, clock, now);
    if (result == 0 && is_wall_clock(clock)) {
        const int64_t ns = now->tv_sec * (int64_t)NS_PER_S + now->tv_nsec + offset_ns();
        now->tv_sec = ns / NS_PER_S;
        now->tv_nsec = ns % NS_PER_S;
    }
    return result;
}

EXPORTED int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    (void)zone;
    struct timespec precise;
    clock_gettime(CLOCK_REALTIME, &precise);
    now->tv_sec = precise.tv_sec;
    now->tv_usec = precise.tv_nsec / 1000;
    return 0;
}

EXPORTED time_t time(time_t *now_out)
{
    struct timespec precise;
    clock_gettime(CLOCK_REALTIME, &precise);
    if (now_out != NULL) {
        *now_out = precise.tv_sec;
    }
    return precise.tv_sec;
}
