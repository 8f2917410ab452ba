/* SPDX-License-Identifier: Apache-2.0 */
/* What can be done to locks that are kept in files: their files are broken, deleted, moved away and
 * touched, and the disk they lie on is filled up.
 *
 * A file that takes the place of another begins with a token from the wall clock of that time, far
 * above those of the old one; so the last token in the old file tells whose lock was taken away. */
#include "torture/lib/round.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILLER_SIZE = 4096, RECORD_SIZE = 300, GRANTS_UNDER_WAY = 16 };

static void path_of(const struct round *round, const char *suffix, unsigned name, char *path_out)
{
    snprintf(path_out, ARENA_TEXT_SIZE, "%s/" ARENA_NAME_FORMAT ".%s", round->lock_directory, name,
        suffix);
}

/* The file that is about to be replaced; -1: there is none. */
static int open_old(const struct round *round, unsigned name)
{
    char path[ARENA_TEXT_SIZE];
    path_of(round, "lock", name, path);
    return open(path, O_RDONLY | O_CLOEXEC);
}

/* The holds of the old file are over. What was just being granted is not in it yet. */
static void take_away(struct round *round, const struct fault *fault, int old_fd)
{
    char content[RECORD_SIZE + 1] = "";
    const ssize_t size = pread(old_fd, content, RECORD_SIZE, 0);
    const char *label = size > 0 ? strstr(content, "\ntoken") : NULL;
    const uint64_t token = label != NULL ? strtoull(label + 6, NULL, 10) : 0;
    nemesis_taken(round, (int)fault->target, fault->from_us, token + GRANTS_UNDER_WAY);
}

static bool break_lock(struct round *round, struct fault *fault)
{
    const int old_fd = open_old(round, fault->target);
    const pawl_status status = pawl_lock_break(round->operator_locks[fault->target]);
    if (status != PAWL_NOT_HELD && old_fd >= 0) {
        take_away(round, fault, old_fd);
    }
    if (old_fd >= 0) {
        close(old_fd);
    }
    return status == PAWL_OK;
}

static bool remove_file(struct round *round, struct fault *fault, bool move)
{
    char from[ARENA_TEXT_SIZE];
    char to[ARENA_TEXT_SIZE];
    path_of(round, "lock", fault->target, from);
    path_of(round, "away", fault->target, to);
    const int old_fd = open_old(round, fault->target);
    if (old_fd < 0) {
        return false;
    }
    const bool done = (move ? rename(from, to) : unlink(from)) == 0;
    take_away(round, fault, old_fd);
    close(old_fd);
    return done;
}

static bool delete_file(struct round *round, struct fault *fault)
{
    return remove_file(round, fault, false);
}

static bool move_file(struct round *round, struct fault *fault)
{
    return remove_file(round, fault, true);
}

/* News that mean nothing. */
static bool touch_file(struct round *round, struct fault *fault)
{
    char path[ARENA_TEXT_SIZE];
    path_of(round, "lock", fault->target, path);
    return utimensat(AT_FDCWD, path, NULL, 0) == 0 && chmod(path, 0600) == 0;
}

static bool fill_disk(struct round *round, struct fault *fault)
{
    static const char filler[FILLER_SIZE];
    char path[ARENA_TEXT_SIZE];
    (void)fault;
    snprintf(path, sizeof path, "%s/filler", round->lock_directory);
    const int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) {
        return false;
    }
    while (write(fd, filler, sizeof filler) > 0) {
    }
    close(fd);
    return true;
}

static bool empty_disk(struct round *round, struct fault *fault)
{
    char path[ARENA_TEXT_SIZE];
    (void)fault;
    snprintf(path, sizeof path, "%s/filler", round->lock_directory);
    unlink(path);
    return true;
}

const struct fault_kind torture_file_faults[] = {
    {"worker killed", VICTIM_WORKER, 6, 0, 0, false, worker_fault_kill, NULL},
    {"worker stopped, less than a lease", VICTIM_WORKER, 6, 20, 200, false, worker_fault_stop,
        worker_fault_continue},
    {"worker stopped, more than a lease", VICTIM_WORKER, 3, 500, 1200, false, worker_fault_stop,
        worker_fault_continue},
    {"worker closed and replaced", VICTIM_WORKER, 3, 1, 50, false, worker_fault_leave,
        worker_fault_left},
    {"lock broken by an operator", VICTIM_NAME, 8, 0, 0, false, break_lock, NULL},
    {"file deleted", VICTIM_NAME, 6, 0, 0, false, delete_file, NULL},
    {"file moved away", VICTIM_NAME, 4, 0, 0, false, move_file, NULL},
    {"file touched", VICTIM_NAME, 4, 0, 0, false, touch_file, NULL},
    {"disk full", VICTIM_DISK, 4, 20, 300, false, fill_disk, empty_disk},
    {NULL, VICTIM_NAME, 0, 0, 0, false, NULL, NULL},
};
