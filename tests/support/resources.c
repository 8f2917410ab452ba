/* SPDX-License-Identifier: Apache-2.0 */
/* Counting what a process has open, temporary directories, and the allocation sweep. Counts come
 * from /proc/self; the directories hang in the clean-up like everything the support makes. */
#include "support/resources.h"

#include "base/alloc.h"
#include "support/fail.h"
#include "support/text.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* How many entries a directory has, of those that `counts` (NULL: all). */
static size_t count_entries(const char *path, bool (*counts)(const char *name))
{
    DIR *directory = opendir(path);
    if (directory == NULL) {
        support_fail("%s: %s", path, strerror(errno));
    }
    size_t count = 0;
    for (const struct dirent *entry = readdir(directory); entry != NULL;
         entry = readdir(directory)) {
        const bool hidden = entry->d_name[0] == '.';
        count += !hidden && (counts == NULL || counts(entry->d_name)) ? 1 : 0;
    }
    closedir(directory);
    return count;
}

size_t open_descriptor_count(void)
{
    return count_entries("/proc/self/fd", NULL) - 1; /* without the one that read the directory */
}

/* The flags of a thread are its seventh field behind its name, which may have anything in it. */
static bool is_no_leaver(const char *thread)
{
    enum { IS_EXITING = 4 }; /* PF_EXITING in the kernel's sched.h */
    char path[64];
    char line[512];
    unsigned flags = 0;
    snprintf(path, sizeof path, "/proc/self/task/%.20s/stat", thread);
    FILE *file = fopen(path, "re");
    const bool is_read = file != NULL && fgets(line, sizeof line, file) != NULL;
    if (file != NULL) {
        fclose(file);
    }
    const char *name_end = is_read ? strrchr(line, ')') : NULL;
    return name_end != NULL && sscanf(name_end + 1, " %*c %*d %*d %*d %*d %*d %u", &flags) == 1 &&
           (flags & IS_EXITING) == 0;
}

/* The kernel wakes who joins a thread before it has taken it from the list. */
size_t thread_count(void)
{
    return count_entries("/proc/self/task", is_no_leaver);
}

static int64_t wait_ns; /* of the threads that were looked at */

static bool add_wait(const char *thread)
{
    char path[64];
    long long waited_ns = 0;
    snprintf(path, sizeof path, "/proc/self/task/%.20s/schedstat", thread);
    FILE *file = fopen(path, "re");
    if (file != NULL) {
        wait_ns += fscanf(file, "%*u %lld", &waited_ns) == 1 ? waited_ns : 0;
        fclose(file);
    }
    return true;
}

int64_t processor_wait_ms(void)
{
    wait_ns = 0;
    count_entries("/proc/self/task", add_wait);
    return wait_ns / 1000000;
}

size_t resident_size(void)
{
    FILE *file = fopen("/proc/self/statm", "re");
    unsigned long pages = 0;
    int fields = file != NULL ? fscanf(file, "%*u %lu", &pages) : 0;
    if (file != NULL) {
        fclose(file);
    }
    if (fields != 1) {
        support_fail("/proc/self/statm cannot be read");
    }
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

static int remove_entry(const char *path, const struct stat *info, int type, struct FTW *where)
{
    (void)info;
    (void)type;
    (void)where;
    return remove(path) == 0 || errno == ENOENT ? 0 : -1;
}

bool remove_tree(const char *path)
{
    if (nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT) == 0) {
        return true;
    }
    return errno == ENOENT;
}

static void end_tempdir(void *object)
{
    char *path = object;
    if (!remove_tree(path)) {
        fprintf(stderr, "test support: %s could not be removed: %s\n", path, strerror(errno));
    }
    free(path);
}

const char *tempdir_make(void)
{
    const char *parent = getenv("TMPDIR");
    struct text path = {0};
    /* A unix socket's path may have 107 bytes only, so a long TMPDIR is not used. */
    const bool fits = parent != NULL && parent[0] == '/' && strlen(parent) < 60;
    text_addf(&path, "%s/pawl-test-XXXXXX", fits ? parent : "/tmp");
    if (mkdtemp(path.data) == NULL) {
        support_fail("%s: %s", path.data, strerror(errno));
    }
    char *made = text_take(&path);
    cleanup_add(end_tempdir, made);
    return made;
}

void tempdir_remove(const char *path)
{
    union {
        const char *given;
        char *owned; /* it was ours all the time */
    } name = {.given = path};
    cleanup_drop(name.owned);
    end_tempdir(name.owned);
}

static _Atomic uint64_t allocations_left;
static _Atomic bool allocation_failed;

static bool may_allocate(size_t size)
{
    (void)size;
    if (atomic_load(&allocations_left) == 0 || atomic_fetch_sub(&allocations_left, 1) != 1) {
        return true;
    }
    atomic_store(&allocation_failed, true);
    return false;
}

uint64_t fail_allocation(uint64_t nth)
{
    if (nth > 0) {
        atomic_store(&allocation_failed, false);
    }
    if (nth > 0 && pawl__alloc_hook != may_allocate) { /* it stays: threads may be about to ask */
        pawl__alloc_hook = may_allocate;
    }
    return atomic_exchange(&allocations_left, nth);
}

bool allocation_has_failed(void)
{
    return atomic_load(&allocation_failed);
}

static void arm(const struct allocation_sweep *sweep, uint64_t nth)
{
    if (sweep->fail_nth != NULL) {
        sweep->fail_nth(nth);
    } else {
        fail_allocation(nth);
    }
}

static bool has_fired(const struct allocation_sweep *sweep, bool succeeded)
{
    if (sweep->fail_nth == NULL) {
        return allocation_has_failed();
    }
    return sweep->fired != NULL ? sweep->fired() : !succeeded;
}

uint64_t sweep_allocations(const struct allocation_sweep *sweep)
{
    const uint64_t nth_max = sweep->nth_max > 0 ? sweep->nth_max : 100000;
    for (uint64_t nth = 1; nth <= nth_max; nth++) {
        arm(sweep, nth);
        const bool succeeded = sweep->attempt(sweep->arg);
        const bool met = has_fired(sweep, succeeded);
        arm(sweep, 0);
        if (!met && !succeeded) {
            support_fail("failed although no allocation did (n = %llu)", (unsigned long long)nth);
        }
        if (!met) {
            return nth - 1;
        }
    }
    support_fail("still failing at the %llu-th allocation", (unsigned long long)nth_max);
}
