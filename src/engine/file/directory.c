/* SPDX-License-Identifier: Apache-2.0 */
/* The directory of the locks.
 *
 * Whoever can write to it can replace a lock file and let two processes hold the same lock. So it
 * has to belong to this user and be closed to others, or be a shared one in which the system keeps
 * users from touching each other's files (root's, with the sticky bit, as /tmp). The descriptor is
 * kept and everything is opened relative to it; when a file is opened anew, the path is compared
 * with it, so that a directory that a cleaner removed is made again. Not noticed: somebody moves
 * the directory away while locks in it are held. */
#include "engine/file/directory.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/fds.h"
#include "engine/file/filesystem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEFAULT_FORMAT "/tmp/pawl-%lu"

/* ===== Sentences ===== */

struct fault {
    int error;
    pawl_status status;
    const char *remedy;
};

/* UNAVAILABLE: may pass by itself. */
static const struct fault faults[] = {
    {EACCES, PAWL_DENIED, "give this user the right, or choose another directory by file:///dir"},
    {EPERM, PAWL_DENIED, "give this user the right, or choose another directory by file:///dir"},
    {EROFS, PAWL_REFUSED, "choose a directory that can be written to, by file:///dir"},
    {ENOTDIR, PAWL_REFUSED, "choose a directory, by file:///dir"},
    {EISDIR, PAWL_REFUSED, "remove what lies there, or choose another directory by file:///dir"},
    {ENXIO, PAWL_REFUSED, "remove what lies there, or choose another directory by file:///dir"},
    {ELOOP, PAWL_REFUSED, "remove the symbolic link: a lock file has to be a plain file"},
    {ENAMETOOLONG, PAWL_REFUSED, "choose a directory with a shorter path"},
    {ENOLCK, PAWL_REFUSED, "choose a directory on a file system that can lock, by file:///dir"},
    {EOPNOTSUPP, PAWL_REFUSED, "choose a directory on a file system that can lock, by file:///dir"},
    {EINVAL, PAWL_REFUSED, "choose a directory on a file system that can lock, by file:///dir"},
    {ENOENT, PAWL_UNAVAILABLE, "make the directory above it first (mkdir -p)"},
    {ENOSPC, PAWL_UNAVAILABLE, "make room on that disk, or delete files if df -i shows none free"},
    {EDQUOT, PAWL_UNAVAILABLE, "make room within the quota"},
    {EFBIG, PAWL_UNAVAILABLE, "raise the limit of the size of files (ulimit -f)"},
    {EMFILE, PAWL_UNAVAILABLE, "raise the limit of open files (ulimit -n)"},
    {ENFILE, PAWL_UNAVAILABLE, "raise the system's limit of open files (fs.file-max)"},
    {ENOMEM, PAWL_NO_MEMORY, "free some memory"},
};

pawl_status pawl__file_fault(
    int error, const char *deed, const struct pawl__directory *directory, const char *file_name)
{
    pawl_status status = PAWL_UNAVAILABLE;
    const char *remedy = "see to the disk";
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        if (faults[i].error == error) {
            status = faults[i].status;
            remedy = faults[i].remedy;
        }
    }
    const char *slash = file_name == NULL ? "" : "/";
    const char *name = file_name == NULL ? "" : file_name;
    return pawl__fail(status, "cannot %s %.150s%s%s: %s; %s", deed, directory->path, slash, name,
        pawl__errno_text(error), remedy);
}

/* ===== Looking ===== */

bool pawl__identity_equal(const struct pawl__identity *a, const struct pawl__identity *b)
{
    return a->inode == b->inode && a->major == b->major && a->minor == b->minor;
}

/* Times are left out on purpose: a kernel that was asked for them has to write a new one into the
 * inode at the next write, and that costs more than the write itself. */
static bool look(int fd, const char *path, int flags, struct pawl__look *look_out)
{
    const unsigned wanted = STATX_INO | STATX_TYPE | STATX_MODE | STATX_NLINK | STATX_UID;
    struct statx found;
    if (statx(fd, path, flags, wanted, &found) != 0) {
        return false;
    }
    look_out->identity.major = found.stx_dev_major;
    look_out->identity.minor = found.stx_dev_minor;
    look_out->identity.inode = found.stx_ino;
    look_out->link_count = found.stx_nlink;
    look_out->owner = found.stx_uid;
    look_out->mode = found.stx_mode;
    return true;
}

bool pawl__look_at(int directory_fd, const char *path, bool follow, struct pawl__look *look_out)
{
    return look(directory_fd, path, follow ? 0 : AT_SYMLINK_NOFOLLOW, look_out);
}

bool pawl__look_at_fd(int fd, struct pawl__look *look_out)
{
    return look(fd, "", AT_EMPTY_PATH, look_out);
}

/* ===== The directory ===== */

static bool is_empty(const char *text)
{
    return text == NULL || text[0] == '\0';
}

/* "file://$DIR" and "file://$DIR/" without a value of DIR are slips: neither the default directory
 * nor the root was meant. */
static pawl_status check_url(const struct pawl__url *url)
{
    if (url->user != NULL || url->password != NULL ||
        (url->host_count > 0 && !is_empty(url->hosts[0].name))) {
        return pawl__fail(PAWL_INVALID, "a file URL has no host and no user: write file:///dir");
    }
    if (is_empty(url->path) && url->slashed) {
        return pawl__fail(PAWL_INVALID,
            "the file URL names no directory: write file:///dir, or file: for the default");
    }
    if (!is_empty(url->path) && url->path[0] != '/') {
        return pawl__fail(PAWL_INVALID, "the path of a file URL is absolute: write file:///dir");
    }
    if (!is_empty(url->path) && url->path[strspn(url->path, "/")] == '\0') {
        return pawl__fail(PAWL_INVALID, "the root directory is no place for locks: write "
                                        "file:///dir, or file: for the default");
    }
    return PAWL_OK;
}

pawl_status pawl__directory_init(struct pawl__directory *directory, const struct pawl__url *url)
{
    directory->fd = -1;
    directory->path = NULL;
    directory->is_default = is_empty(url->path);
    pawl_status status = check_url(url);
    if (status != PAWL_OK) {
        return status;
    }
    if (directory->is_default) {
        directory->path = pawl__format(DEFAULT_FORMAT, (unsigned long)geteuid());
    } else {
        directory->path = pawl__strdup(url->path);
    }
    if (directory->path == NULL) {
        return pawl__fail(PAWL_NO_MEMORY, "no memory to open a directory of locks");
    }
    return PAWL_OK;
}

void pawl__directory_free(struct pawl__directory *directory)
{
    pawl__fd_close(directory->fd);
    directory->fd = -1;
    pawl__free(directory->path);
    directory->path = NULL;
}

static pawl_status judge(const struct pawl__directory *directory, const struct pawl__look *seen)
{
    const char *path = directory->path;
    bool sticky = (seen->mode & S_ISVTX) != 0 && !directory->is_default;
    if (seen->owner != geteuid() && !(sticky && seen->owner == 0)) {
        return pawl__fail(PAWL_REFUSED,
            "%.150s belongs to user %u, who could replace the locks in it; choose a directory of "
            "user %u by file:///dir",
            path, (unsigned)seen->owner, (unsigned)geteuid());
    }
    if ((seen->mode & (S_IWGRP | S_IWOTH)) != 0 && !sticky) {
        return pawl__fail(PAWL_REFUSED,
            "other users can write to %.150s and so replace the locks in it; chmod go-w it, or set "
            "its sticky bit (chmod +t)",
            path);
    }
    return PAWL_OK;
}

/* Lock files are made and replaced in it. Better to hear that now than at the first lock. */
static pawl_status judge_rights(
    const struct pawl__directory *directory, int fd, const struct pawl__look *seen)
{
    if (faccessat(fd, ".", W_OK | X_OK, AT_EACCESS) == 0) {
        return PAWL_OK;
    }
    if (errno == EACCES && seen->owner == geteuid()) {
        return pawl__fail(PAWL_DENIED,
            "cannot write to the directory %.150s, which is closed to its own user; chmod u+rwx "
            "it, or choose another directory by file:///dir",
            directory->path);
    }
    return pawl__file_fault(errno, "write to the directory", directory, NULL);
}

static int open_flags(const struct pawl__directory *directory)
{
    return O_RDONLY | O_DIRECTORY | (directory->is_default ? O_NOFOLLOW : 0);
}

static int open_or_make(const struct pawl__directory *directory)
{
    int flags = open_flags(directory);
    int fd = pawl__fd_openat(AT_FDCWD, directory->path, flags, 0);
    if (fd >= 0 || errno != ENOENT) {
        return fd;
    }
    if (mkdir(directory->path, 0700) != 0 && errno != EEXIST) {
        return -1;
    }
    return pawl__fd_openat(AT_FDCWD, directory->path, flags, 0);
}

static pawl_status open_anew(struct pawl__directory *directory)
{
    int fd = open_or_make(directory);
    struct pawl__look seen;
    if (fd < 0 || !pawl__look_at_fd(fd, &seen)) {
        pawl__fd_close(fd);
        return pawl__file_fault(errno, "open the directory", directory, NULL);
    }
    pawl_status status = judge(directory, &seen);
    if (status == PAWL_OK) {
        status = judge_rights(directory, fd, &seen);
    }
    if (status != PAWL_OK) {
        pawl__fd_close(fd);
        return status;
    }
    enum pawl__filesystem_nature nature = pawl__filesystem_of(fd)->nature;
    directory->fd = fd;
    directory->identity = seen.identity;
    directory->is_local = nature == PAWL__FILESYSTEM_LOCAL || nature == PAWL__FILESYSTEM_MEMORY;
    return PAWL_OK;
}

pawl_status pawl__directory_open(struct pawl__directory *directory)
{
    struct pawl__look seen;
    if (directory->fd >= 0 && pawl__look_at(AT_FDCWD, directory->path, true, &seen) &&
        pawl__identity_equal(&seen.identity, &directory->identity)) {
        return judge(directory, &seen);
    }
    pawl__fd_close(directory->fd);
    directory->fd = -1;
    return open_anew(directory);
}

pawl_status pawl__directory_visit(
    const struct pawl__directory *directory, struct pawl__directory *visit_out)
{
    *visit_out = (struct pawl__directory){
        .path = directory->path, .is_default = directory->is_default, .fd = -1};
    int fd = pawl__fd_openat(AT_FDCWD, directory->path, open_flags(directory), 0);
    struct pawl__look seen;
    if (fd < 0 || !pawl__look_at_fd(fd, &seen)) {
        pawl__fd_close(fd);
        return errno == ENOENT ? PAWL_LOST
                               : pawl__file_fault(errno, "open the directory", directory, NULL);
    }
    pawl_status status = judge(directory, &seen);
    if (status != PAWL_OK) {
        pawl__fd_close(fd);
        return status;
    }
    visit_out->fd = fd;
    visit_out->identity = seen.identity;
    return PAWL_OK;
}
