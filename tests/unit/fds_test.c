/* SPDX-License-Identifier: Apache-2.0 */
/* base/fds.h: descriptors that no child inherits.
 *
 * A child looks at every descriptor number with fcntl(), which shows what /proc/self/fd shows and
 * is allowed after the fork of a program with threads, and compares with what was open before any
 * of ours. Its verdict is its exit status; a child that hangs is ended by its alarm clock. For exec
 * the program starts itself with the numbers to look at as arguments. */
#include "base/fds.h"

#include "base/alloc.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define NUMBERS_MAX 512
#define CHILD_SECONDS_MAX 60

extern char **environ;

/* ===== Helpers ===== */

static bool is_open(int fd)
{
    return fcntl(fd, F_GETFD) >= 0;
}

struct numbers {
    bool open[NUMBERS_MAX];
};

static struct numbers numbers_now(void)
{
    struct numbers now;
    for (int fd = 0; fd < NUMBERS_MAX; fd++) {
        now.open[fd] = is_open(fd);
    }
    return now;
}

static bool numbers_equal(const struct numbers *a, const struct numbers *b)
{
    return memcmp(a->open, b->open, sizeof a->open) == 0;
}

/* The exit status of a child; 1000 and more: killed by a signal. */
static int reap(pid_t child)
{
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

/* Fork, and let the child say whether exactly these numbers are open in it. */
static int fork_and_compare(const struct numbers *wanted)
{
    pid_t child = fork();
    if (child == 0) {
        alarm(CHILD_SECONDS_MAX);
        struct numbers now = numbers_now();
        _exit(numbers_equal(&now, wanted) ? 0 : 1);
    }
    assert_true(child > 0);
    return reap(child);
}

/* One of each kind. */
static void make_all(int fds[5])
{
    fds[0] = pawl__fd_socket(AF_UNIX, SOCK_STREAM, 0);
    fds[1] = pawl__fd_openat(AT_FDCWD, "/dev/null", O_RDWR, 0);
    fds[2] = pawl__fd_eventfd();
    fds[3] = pawl__fd_timerfd();
    fds[4] = pawl__fd_inotify();
    for (int i = 0; i < 5; i++) {
        assert_true(fds[i] >= 0);
    }
}

static void close_all(const int fds[5])
{
    for (int i = 0; i < 5; i++) {
        pawl__fd_close(fds[i]);
        assert_false(is_open(fds[i]));
    }
}

/* ===== The first descriptor, made while a fork is under way ===== */

static _Atomic bool meddle;
static int meddled_fd = -1;

static void *make_descriptor(void *arg)
{
    (void)arg;
    meddled_fd = pawl__fd_eventfd();
    return NULL;
}

/* Runs in the middle of fork(). */
static void meddle_with_fork(void)
{
    if (atomic_exchange(&meddle, false)) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, make_descriptor, NULL) == 0) {
            pthread_join(thread, NULL);
        }
    }
}

/* Must be the first test: nothing has used the module yet. */
static void first_descriptor_during_a_fork(void **state)
{
    (void)state;
    struct numbers before = numbers_now();
    assert_int_equal(pthread_atfork(meddle_with_fork, NULL, NULL), 0);
    atomic_store(&meddle, true);
    assert_int_equal(fork_and_compare(&before), 0);
    assert_true(is_open(meddled_fd));
    pawl__fd_close(meddled_fd);
}

/* ===== Making and closing ===== */

static void kinds(void **state)
{
    (void)state;
    struct numbers before = numbers_now();
    int fds[5];
    make_all(fds);
    for (int i = 0; i < 5; i++) {
        assert_true(fcntl(fds[i], F_GETFD) & FD_CLOEXEC);
        bool nonblocking = (fcntl(fds[i], F_GETFL) & O_NONBLOCK) != 0;
        assert_int_equal(nonblocking, i >= 2);
    }
    close_all(fds);
    struct numbers after = numbers_now();
    assert_true(numbers_equal(&before, &after));
}

static void timer_counts_boot_time(void **state)
{
    (void)state;
    int fd = pawl__fd_timerfd();
    char path[64];
    char line[128];
    bool boot_time = false;
    snprintf(path, sizeof path, "/proc/self/fdinfo/%d", fd);
    FILE *info = fopen(path, "r");
    assert_non_null(info);
    while (fgets(line, sizeof line, info) != NULL) {
        boot_time = boot_time || strcmp(line, "clockid: 7\n") == 0; /* CLOCK_BOOTTIME */
    }
    fclose(info);
    pawl__fd_close(fd);
    assert_true(boot_time);
}

static void failures(void **state)
{
    (void)state;
    struct numbers before = numbers_now();
    errno = 0;
    assert_int_equal(pawl__fd_openat(AT_FDCWD, "/nowhere/at/all", O_RDONLY, 0), -1);
    assert_int_equal(errno, ENOENT);
    assert_int_equal(pawl__fd_socket(12345, SOCK_STREAM, 0), -1);
    assert_int_equal(errno, EAFNOSUPPORT);
    struct numbers after = numbers_now();
    assert_true(numbers_equal(&before, &after));
}

static void closing(void **state)
{
    (void)state;
    errno = 4711;
    pawl__fd_close(-1);
    int fd = pawl__fd_eventfd();
    errno = 4711;
    pawl__fd_close(fd);
    assert_int_equal(errno, 4711);

    /* What is not registered is somebody else's. */
    int foreign = open("/dev/null", O_RDONLY | O_CLOEXEC);
    pawl__fd_close(foreign);
    pawl__fd_close(1000000);
    assert_true(is_open(foreign));
    assert_int_equal(errno, 4711);
    close(foreign);
}

static bool refuse(size_t size)
{
    (void)size;
    return false;
}

/* A number beyond the table's end, and no memory to make the table longer. */
static void memory_is_short(void **state)
{
    (void)state;
    int fillers[300];
    size_t count = 0;
    do {
        fillers[count] = open("/dev/null", O_RDONLY | O_CLOEXEC);
        assert_true(fillers[count] >= 0);
    } while (fillers[count++] < 256);
    struct numbers before = numbers_now();
    pawl__alloc_hook = refuse;
    errno = 0;
    int fd = pawl__fd_eventfd();
    int error = errno;
    pawl__alloc_hook = NULL;
    struct numbers after = numbers_now();
    assert_int_equal(fd, -1);
    assert_int_equal(error, ENOMEM);
    assert_true(numbers_equal(&before, &after));

    fd = pawl__fd_eventfd(); /* now there is memory */
    assert_true(fd > 256);
    assert_int_equal(fork_and_compare(&before), 0);
    pawl__fd_close(fd);
    while (count > 0) {
        close(fillers[--count]);
    }
}

/* ===== fork and exec ===== */

static void child_has_none(void **state)
{
    (void)state;
    struct numbers before = numbers_now();
    int fds[5];
    make_all(fds);
    struct numbers with_ours = numbers_now();
    assert_int_equal(fork_and_compare(&before), 0);
    struct numbers after = numbers_now(); /* the parent's are untouched */
    assert_true(numbers_equal(&with_ours, &after));
    close_all(fds);
}

/* In the child: what it makes itself is its own, and goes in its own child. */
static int check_generations(int inherited, uint64_t forks)
{
    alarm(CHILD_SECONDS_MAX);
    if (is_open(inherited) || pawl__fork_count() != forks + 1) {
        return 1;
    }
    int own = open("/dev/null", O_RDONLY); /* gets the number of the inherited one */
    pawl__fd_close(inherited);
    if (own != inherited || !is_open(own)) {
        return 2;
    }
    int made = pawl__fd_eventfd();
    pid_t grandchild = fork();
    if (grandchild == 0) {
        alarm(CHILD_SECONDS_MAX);
        _exit(!is_open(made) && is_open(own) && pawl__fork_count() == forks + 2 ? 0 : 1);
    }
    return reap(grandchild) == 0 && is_open(made) ? 0 : 3;
}

static void generations(void **state)
{
    (void)state;
    const uint64_t forks = pawl__fork_count();
    int fd = pawl__fd_eventfd();
    pid_t child = fork();
    if (child == 0) {
        _exit(check_generations(fd, forks));
    }
    assert_int_equal(reap(child), 0);
    assert_int_equal(pawl__fork_count(), forks);
    pawl__fd_close(fd);
}

/* The child's close is no unlock: the file is still locked against everybody else. */
static void locks_stay_with_the_parent(void **state)
{
    (void)state;
    char path[] = "/tmp/pawl-fds-XXXXXX";
    int other = mkostemp(path, O_CLOEXEC);
    assert_true(other >= 0);
    int fd = pawl__fd_openat(AT_FDCWD, path, O_RDWR, 0);
    unlink(path);
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};
    assert_int_equal(fcntl(fd, F_OFD_SETLK, &lock), 0);
    pid_t child = fork();
    if (child == 0) {
        _exit(is_open(fd) ? 1 : 0);
    }
    assert_int_equal(reap(child), 0);
    assert_int_equal(fcntl(other, F_OFD_SETLK, &lock), -1);
    pawl__fd_close(fd);
    assert_int_equal(fcntl(other, F_OFD_SETLK, &lock), 0);
    close(other);
}

static void program_started_has_none(void **state)
{
    (void)state;
    int fds[5];
    char numbers[6][16];
    char program[] = "/proc/self/exe";
    char *arguments[8] = {program};
    make_all(fds);
    int control = dup(fds[1]); /* the one that must be there */
    for (int i = 0; i < 6; i++) {
        snprintf(numbers[i], sizeof numbers[i], "%d", i == 0 ? control : fds[i - 1]);
        arguments[i + 1] = numbers[i];
    }
    pid_t child = 0;
    assert_int_equal(posix_spawn(&child, program, NULL, NULL, arguments, environ), 0);
    assert_int_equal(reap(child), 0);
    close(control);
    close_all(fds);
}

/* The program's other life: the first number must be open, the others must not. */
static int check_numbers(char **numbers)
{
    if (!is_open(atoi(numbers[0]))) {
        return 10;
    }
    for (int i = 1; numbers[i] != NULL; i++) {
        if (is_open(atoi(numbers[i]))) {
            return 20 + i;
        }
    }
    return 0;
}

/* ===== Forks while other threads make and close ===== */

static _Atomic bool stop;
static _Atomic long made_count;

static void *make_and_close(void *arg)
{
    (void)arg;
    int fds[8] = {-1, -1, -1, -1, -1, -1, -1, -1};
    for (size_t i = 0; !atomic_load(&stop); i = (i + 1) % 8) {
        pawl__fd_close(fds[i]);
        fds[i] =
            i % 2 == 0 ? pawl__fd_eventfd() : pawl__fd_openat(AT_FDCWD, "/dev/null", O_RDONLY, 0);
        atomic_fetch_add(&made_count, 1);
    }
    for (size_t i = 0; i < 8; i++) {
        pawl__fd_close(fds[i]);
    }
    return NULL;
}

static void forks_among_threads(void **state)
{
    (void)state;
    struct numbers before = numbers_now();
    pthread_t threads[3];
    atomic_store(&stop, false);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, make_and_close, NULL), 0);
    }
    int wrong_count = 0;
    for (int i = 0; i < 300; i++) {
        wrong_count += fork_and_compare(&before) != 0 ? 1 : 0;
    }
    atomic_store(&stop, true);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    assert_int_equal(wrong_count, 0);
    assert_true(atomic_load(&made_count) > 300);
    struct numbers after = numbers_now();
    assert_true(numbers_equal(&before, &after));
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        return check_numbers(argv + 1);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_descriptor_during_a_fork),
        cmocka_unit_test(kinds),
        cmocka_unit_test(timer_counts_boot_time),
        cmocka_unit_test(failures),
        cmocka_unit_test(closing),
        cmocka_unit_test(memory_is_short),
        cmocka_unit_test(child_has_none),
        cmocka_unit_test(generations),
        cmocka_unit_test(locks_stay_with_the_parent),
        cmocka_unit_test(program_started_has_none),
        cmocka_unit_test(forks_among_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
