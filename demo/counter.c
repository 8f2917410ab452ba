/* SPDX-License-Identifier: Apache-2.0 */
/* One of the processes of scripts/demo: adds 1 to the number in a file, so many times.
 *
 *     counter FILE ADDS         without a lock
 *     counter FILE ADDS URL     with a pawl lock, kept where the URL says
 *
 * Each time it reads the number, does "some work" (a pause of 0.1 ms), and writes the number + 1.
 * Two processes that do this at the same time read the same number, and one of the two additions is
 * lost. It ends by itself after a minute, whatever happens. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pawl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LIFE_S 60
#define WAIT_MS 30000
#define WORK_NS 100000
#define DIGITS 20 /* the number in the file has a fixed width, so that one write replaces it */

static bool complain(const char *what, const char *why)
{
    fprintf(stderr, "counter: %s: %s\n", what, why);
    return false;
}

static bool read_number(int fd, uint64_t *number_out)
{
    char text[DIGITS + 1] = "";
    if (pread(fd, text, DIGITS, 0) < 0) {
        return complain("read", strerror(errno));
    }
    *number_out = strtoull(text, NULL, 10);
    return true;
}

static bool write_number(int fd, uint64_t number)
{
    char text[DIGITS + 2];
    snprintf(text, sizeof text, "%*" PRIu64 "\n", DIGITS, number);
    if (pwrite(fd, text, DIGITS + 1, 0) != DIGITS + 1) {
        return complain("write", strerror(errno));
    }
    return true;
}

static bool add_one(int fd)
{
    const struct timespec work = {0, WORK_NS};
    uint64_t number = 0;
    if (!read_number(fd, &number)) {
        return false;
    }
    nanosleep(&work, NULL);
    return write_number(fd, number + 1);
}

static bool add_one_locked(int fd, pawl_lock *lock)
{
    if (pawl_lock_acquire(lock, WAIT_MS) != PAWL_OK) {
        return complain("acquire", pawl_last_error());
    }
    bool added = add_one(fd);
    if (pawl_lock_release(lock) != PAWL_OK) {
        return complain("release", pawl_last_error());
    }
    return added;
}

static bool add_all(int fd, long adds, pawl_lock *lock)
{
    bool added = true;
    for (long i = 0; i < adds && added; i++) {
        added = lock != NULL ? add_one_locked(fd, lock) : add_one(fd);
    }
    return added;
}

static bool add_all_locked(int fd, long adds, const char *url)
{
    pawl_client *client = NULL;
    pawl_lock *lock = NULL;
    bool added = false;
    if (pawl_client_open(url, NULL, &client) != PAWL_OK ||
        pawl_lock_open(client, "demo-counter", NULL, &lock) != PAWL_OK) {
        complain("open", pawl_last_error());
    } else {
        added = add_all(fd, adds, lock);
    }
    pawl_lock_close(lock);
    pawl_client_close(client);
    return added;
}

int main(int argc, char **argv)
{
    alarm(LIFE_S);
    long adds = argc >= 3 ? strtol(argv[2], NULL, 10) : 0;
    if (argc < 3 || argc > 4 || adds < 1) {
        fprintf(stderr, "usage: counter FILE ADDS [URL]\n");
        return 64;
    }
    int fd = open(argv[1], O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) {
        complain(argv[1], strerror(errno));
        return 1;
    }
    bool added = argc == 4 ? add_all_locked(fd, adds, argv[3]) : add_all(fd, adds, NULL);
    close(fd);
    return added ? 0 : 1;
}
