/* SPDX-License-Identifier: Apache-2.0 */
/* Is this directory fit to keep locks? Each question is one topic, with a remedy where the answer
 * is not a plain yes. Nothing is made in the directory but, for the trial of a lock, a file without
 * a name.
 *
 * Locality: any thread, no lock held. */
#include "engine/file/file.h"

#include "base/error.h"
#include "base/fds.h"
#include "engine/file/filesystem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define ELSEWHERE "choose a directory of your own on a local disk, by file:///dir"

enum {
    SPACE_KIB_LEAST = 64,   /* room for a handful of new names */
    SPACE_KIB_GOOD = 16384, /* below, somebody should see to it */
    INODES_GOOD = 1000,     /* new names, likewise */
};

struct report {
    const char *path;
    pawl_finding_callback each;
    void *arg;
};

__attribute__((format(printf, 5, 6))) static void tell(const struct report *report,
    pawl_verdict verdict, const char *topic, const char *remedy, const char *format, ...)
{
    char sentence[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    pawl_finding finding = {.size = sizeof finding,
        .verdict = verdict,
        .topic = topic,
        .sentence = sentence,
        .remedy = remedy};
    report->each(&finding, report->arg);
}

/* The last error: "what; remedy". */
static void tell_error(const struct report *report, const char *topic)
{
    char sentence[1024];
    snprintf(sentence, sizeof sentence, "%s", pawl__error_text());
    char *remedy = strstr(sentence, "; ");
    if (remedy != NULL) {
        *remedy = '\0';
        remedy += 2;
    }
    tell(report, PAWL_UNFIT, topic, remedy == NULL ? ELSEWHERE : remedy, "%s", sentence);
}

/* ===== Topics ===== */

static void examine_directory(const struct report *report, const struct pawl__look *seen)
{
    if (seen->owner != geteuid() || (seen->mode & (S_IWGRP | S_IWOTH)) != 0) {
        tell(report, PAWL_WARNING, "directory", ELSEWHERE,
            "other users may make files in %s: one who takes the file name of a lock first has it "
            "refused to everybody else",
            report->path);
        return;
    }
    tell(report, PAWL_FIT, "directory", "",
        "%s belongs to user %u, and nobody else can write to it", report->path,
        (unsigned)seen->owner);
}

/* Who can write to the directory above can put another one in the place of ours. */
static void examine_above(const struct report *report, int fd)
{
    struct pawl__look seen;
    if (!pawl__look_at(fd, "..", true, &seen)) {
        return;
    }
    bool open = (seen.mode & (S_IWGRP | S_IWOTH)) != 0 && (seen.mode & S_ISVTX) == 0;
    bool strange = seen.owner != 0 && seen.owner != geteuid();
    if (open || strange) {
        tell(report, PAWL_UNFIT, "above",
            open ? "chmod go-w the directory above it, or set its sticky bit (chmod +t); or choose "
                   "another one by file:///dir"
                 : ELSEWHERE,
            "other users can write to the directory above %s, and so put another one in its place",
            report->path);
        return;
    }
    tell(report, PAWL_FIT, "above", "", "nobody else can put another directory in the place of %s",
        report->path);
}

static void examine_rights(const struct report *report, int fd)
{
    if (faccessat(fd, ".", W_OK | X_OK, AT_EACCESS) == 0) {
        tell(report, PAWL_FIT, "rights", "", "files can be made in %s", report->path);
        return;
    }
    bool closed = errno == EACCES;
    tell(report, PAWL_UNFIT, "rights",
        closed ? "chmod u+rwx it, or choose another one by file:///dir" : ELSEWHERE,
        "no files can be made in %s: %s", report->path, pawl__errno_text(errno));
}

static void examine_filesystem(const struct report *report, int fd)
{
    const struct pawl__filesystem *system = pawl__filesystem_of(fd);
    switch (system->nature) {
    case PAWL__FILESYSTEM_LOCAL:
        tell(report, PAWL_FIT, "filesystem", "", "%s is on %s, of this machine alone", report->path,
            system->name);
        break;
    case PAWL__FILESYSTEM_MEMORY:
        tell(report, PAWL_FIT, "filesystem", "",
            "%s is on %s: forgotten when the machine is started anew, and so are all holders",
            report->path, system->name);
        break;
    case PAWL__FILESYSTEM_NETWORK:
        tell(report, PAWL_WARNING, "filesystem",
            "choose a directory on a local disk, by file:///dir; to lock among hosts, redis://host",
            "%s is on %s: whether a lock is seen by other hosts, and what becomes of it when the "
            "file server fails, is up to that; releases by others are found by looking only",
            report->path, system->name);
        break;
    case PAWL__FILESYSTEM_UNKNOWN:
        tell(report, PAWL_WARNING, "filesystem",
            "choose a directory on ext4, XFS, Btrfs, F2FS or tmpfs, by file:///dir",
            "%s is on %s: every operation looks at the path again", report->path, system->name);
        break;
    }
}

static void examine_space(const struct report *report, const struct statvfs *system)
{
    unsigned long long kib = (unsigned long long)system->f_bavail * system->f_frsize / 1024;
    pawl_verdict verdict = kib < SPACE_KIB_LEAST  ? PAWL_UNFIT
                           : kib < SPACE_KIB_GOOD ? PAWL_WARNING
                                                  : PAWL_FIT;
    tell(report, verdict, "space", verdict == PAWL_FIT ? "" : "make room on that disk",
        "%llu KiB are free; a new name takes about 4, a known one none", kib);
}

static void examine_inodes(const struct report *report, const struct statvfs *system)
{
    if (system->f_files == 0) {
        return; /* they are made as needed */
    }
    unsigned long long count = system->f_favail;
    pawl_verdict verdict = count == 0 ? PAWL_UNFIT : count < INODES_GOOD ? PAWL_WARNING : PAWL_FIT;
    tell(report, verdict, "inodes",
        verdict == PAWL_FIT ? "" : "delete files on that disk; lock files that nobody holds too",
        "%llu more files can be made; a new name takes one", count);
}

static void examine_inotify(const struct report *report)
{
    int fd = pawl__fd_inotify();
    int wd = fd < 0 ? -1 : inotify_add_watch(fd, report->path, IN_ATTRIB);
    if (wd >= 0) {
        tell(report, PAWL_FIT, "inotify", "", "who waits is told of releases at once");
    } else {
        tell(report, PAWL_WARNING, "inotify",
            "sysctl fs.inotify.max_user_instances=1024 fs.inotify.max_user_watches=65536",
            "no inotify watch can be had (%s): who waits has to look again and again",
            pawl__errno_text(errno));
    }
    pawl__fd_close(fd);
}

/* Lock a byte of a file without a name, and ask for it through a second descriptor. */
static bool try_lock(int fd, int *error_out)
{
    char path[48];
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};
    snprintf(path, sizeof path, "/proc/thread-self/fd/%d", fd);
    *error_out = 0;
    if (fcntl(fd, F_OFD_SETLK, &lock) != 0) {
        *error_out = errno;
        return false;
    }
    int again = pawl__fd_openat(AT_FDCWD, path, O_RDWR, 0);
    if (again < 0) {
        return true; /* no /proc: nothing to say against it */
    }
    bool seen = fcntl(again, F_OFD_GETLK, &lock) == 0 && lock.l_type == F_WRLCK;
    pawl__fd_close(again);
    return seen;
}

static void examine_locks(const struct report *report, int directory_fd)
{
    int error = 0;
    int fd = pawl__fd_openat(directory_fd, ".", O_TMPFILE | O_RDWR, 0600);
    if (fd < 0) {
        return; /* not every file system has files without a name */
    }
    if (try_lock(fd, &error)) {
        tell(report, PAWL_FIT, "locks", "", "a trial lock was taken and seen");
    } else {
        tell(report, PAWL_UNFIT, "locks", ELSEWHERE, "a trial lock failed: %s",
            error == 0 ? "it was not seen by another descriptor" : pawl__errno_text(error));
    }
    pawl__fd_close(fd);
}

/* ===== All of it ===== */

static void examine_visited(const struct report *report, int fd)
{
    struct pawl__look seen;
    struct statvfs system;
    if (pawl__look_at_fd(fd, &seen)) {
        examine_directory(report, &seen);
    }
    examine_above(report, fd);
    examine_rights(report, fd);
    examine_filesystem(report, fd);
    if (fstatvfs(fd, &system) == 0) {
        examine_space(report, &system);
        examine_inodes(report, &system);
    }
    examine_inotify(report);
    examine_locks(report, fd);
}

/* Of a client that was opened lazily. */
static void examine_missing(const struct report *report)
{
    char above[PAWL__URL_SIZE_MAX + 1];
    snprintf(above, sizeof above, "%s", report->path);
    char *slash = strrchr(above, '/');
    if (slash != NULL) {
        slash[slash == above ? 1 : 0] = '\0';
    }
    if (faccessat(AT_FDCWD, above, W_OK | X_OK, AT_EACCESS) == 0) {
        tell(report, PAWL_FIT, "directory", "", "%s does not exist; it is made for the first lock",
            report->path);
        return;
    }
    int error = errno;
    tell(report, PAWL_UNFIT, "directory",
        error == ENOENT ? "make the directory above it first (mkdir -p)" : ELSEWHERE,
        "%s does not exist and cannot be made: %s", report->path, pawl__errno_text(error));
}

pawl_status pawl__file_examine(void *self_, pawl_finding_callback each, void *arg)
{
    const struct pawl__file_engine *self = self_;
    struct report report = {.path = self->directory.path, .each = each, .arg = arg};
    struct pawl__directory directory;
    pawl_status status = pawl__directory_visit(&self->directory, &directory);
    if (status == PAWL_OK) {
        examine_visited(&report, directory.fd);
        pawl__fd_close(directory.fd);
    } else if (status == PAWL_LOST) {
        examine_missing(&report);
    } else {
        tell_error(&report, "directory");
    }
    return PAWL_OK;
}
