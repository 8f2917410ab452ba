/* SPDX-License-Identifier: Apache-2.0 */
/* One lock file.
 *
 * Exclusion. The holder is who has byte 0 locked *in the file that the path leads to*. Between
 * opening a file and locking it, the file may have been deleted or replaced, so after locking the
 * path is looked at again (pawl__lockfile_check), and only then is anybody granted anything.
 *
 * Tokens. They are found out before that look and written after it. So a token never comes from
 * a file, or from a moment, in which somebody else could have been granted a later one already.
 *
 * Breaking. To take a lock away from a process that may be stopped there is only one way: put a new
 * file in the place of the old one. The old holder has then the lock of a file without a name; its
 * engine is told by the kernel (and looks at each operation) and reports the lock as lost. This is
 * the nature of a break: in the moment of the rename the old holder, or one who was granted the old
 * file an instant before, does not know yet. What is kept in every case: among those whose look
 * comes after the rename there is exclusion, and tokens neither repeat nor go back. For the tokens'
 * sake the new file is locked until the one in it is known to be above all others, and byte 2 keeps
 * two from replacing one file. */
#include "engine/file/lockfile.h"

#include "base/error.h"
#include "base/fds.h"
#include "base/random.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define OPEN_FLAGS (O_RDWR | O_NOATIME | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY)
#define VISIT_FLAGS (O_RDONLY | O_NOATIME | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY)
#define OPEN_TRIES_MAX 16

/* ===== Opening ===== */

static pawl_status fault(const struct pawl__lockfile *file, int error, const char *deed)
{
    return pawl__file_fault(error, deed, file->directory, file->file_name);
}

static pawl_status refuse(const struct pawl__lockfile *file, const char *why, const char *remedy)
{
    return pawl__fail(
        PAWL_REFUSED, "%.150s/%s %s; %s", file->directory->path, file->file_name, why, remedy);
}

static pawl_status refuse_owner(const struct pawl__lockfile *file, unsigned owner)
{
    return pawl__fail(PAWL_REFUSED,
        "%.150s/%s belongs to user %u, not to user %u; remove it, or choose another directory by "
        "file:///dir",
        file->directory->path, file->file_name, owner, (unsigned)geteuid());
}

/* Whether this file may be trusted to be ours alone. */
static pawl_status judge_file(const struct pawl__lockfile *file, const struct pawl__look *seen)
{
    if (!S_ISREG(seen->mode)) {
        return refuse(file, "is not a plain file", "remove it");
    }
    if (seen->owner != geteuid()) {
        return refuse_owner(file, seen->owner);
    }
    if (seen->link_count > 1) {
        return refuse(file, "has a second name (a hard link)", "remove it");
    }
    return PAWL_OK;
}

/* Somebody else's file often cannot even be opened: say whose it is rather than "permission
 * denied". */
static pawl_status explain_open(const struct pawl__lockfile *file, int error)
{
    struct pawl__look seen;
    if ((error == EACCES || error == EPERM) &&
        pawl__look_at(file->directory->fd, file->file_name, false, &seen) &&
        seen.owner != geteuid()) {
        return refuse_owner(file, seen.owner);
    }
    return fault(file, error, "open");
}

/* Never through O_CREAT alone: in a shared directory the file must be new or one of ours, not a
 * thing in between. -1 with EEXIST: it came or went meanwhile. */
static int open_or_create(const struct pawl__lockfile *file, bool create)
{
    int directory = file->directory->fd;
    int fd = pawl__fd_openat(directory, file->file_name, OPEN_FLAGS, 0);
    if (fd < 0 && errno == ENOENT && create) {
        fd = pawl__fd_openat(directory, file->file_name, OPEN_FLAGS | O_CREAT | O_EXCL, 0600);
    }
    return fd;
}

/* Make this descriptor the file's, if it may be trusted. PAWL_LOST: it went away meanwhile. */
static pawl_status take_fd(struct pawl__lockfile *file, int fd)
{
    struct pawl__look seen;
    pawl_status status = PAWL_OK;
    if (!pawl__look_at_fd(fd, &seen)) {
        status = fault(file, errno, "look at");
    } else if (seen.link_count == 0) {
        status = PAWL_LOST;
    } else {
        status = judge_file(file, &seen);
    }
    if (status != PAWL_OK) {
        pawl__fd_close(fd);
        return status;
    }
    file->fd = fd;
    file->identity = seen.identity;
    file->judged = false;
    return PAWL_OK;
}

/* One try; PAWL_LOST: the file went away between two looks. */
static pawl_status open_once(struct pawl__lockfile *file, bool create)
{
    int fd = open_or_create(file, create);
    if (fd < 0) {
        bool moving = errno == EEXIST || (errno == ENOENT && !create);
        return moving ? PAWL_LOST : explain_open(file, errno);
    }
    return take_fd(file, fd);
}

pawl_status pawl__lockfile_visit(struct pawl__lockfile *file)
{
    int fd = pawl__fd_openat(file->directory->fd, file->file_name, VISIT_FLAGS, 0);
    if (fd < 0) {
        return errno == ENOENT ? PAWL_LOST : explain_open(file, errno);
    }
    return take_fd(file, fd);
}

pawl_status pawl__lockfile_open(struct pawl__lockfile *file, bool create)
{
    pawl_status status = pawl__directory_open(file->directory);
    if (status != PAWL_OK) {
        return status;
    }
    status = open_once(file, create);
    for (int i = 1; status == PAWL_LOST && create && i < OPEN_TRIES_MAX; i++) {
        status = open_once(file, create);
    }
    if (status == PAWL_LOST && create) {
        return pawl__fail(PAWL_UNAVAILABLE, "%.150s/%s is being replaced all the time; try again",
            file->directory->path, file->file_name);
    }
    return status;
}

void pawl__lockfile_close(struct pawl__lockfile *file)
{
    pawl__fd_close(file->fd);
    file->fd = -1;
}

pawl_status pawl__lockfile_check(const struct pawl__lockfile *file)
{
    struct pawl__look seen;
    if (!pawl__look_at(file->directory->fd, file->file_name, false, &seen)) {
        return errno == ENOENT ? PAWL_LOST : fault(file, errno, "look at");
    }
    /* A file that is being deleted loses its link first, and a moment later its path. The kernel's
     * word of it comes in between. */
    bool same = pawl__identity_equal(&seen.identity, &file->identity) && seen.link_count > 0;
    return same ? PAWL_OK : PAWL_LOST;
}

/* ===== Locks ===== */

static int lock_byte(int fd, int command, short type, enum pawl__lock_byte byte, short *type_out)
{
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
    int result = fcntl(fd, command, &lock);
    if (type_out != NULL) {
        *type_out = lock.l_type;
    }
    return result;
}

pawl_status pawl__lockfile_lock(struct pawl__lockfile *file, enum pawl__lock_byte byte)
{
    short type = byte == PAWL__BYTE_WAIT ? F_RDLCK : F_WRLCK;
    if (lock_byte(file->fd, F_OFD_SETLK, type, byte, NULL) == 0) {
        return PAWL_OK;
    }
    if (errno == EAGAIN || errno == EACCES) {
        return PAWL_BUSY;
    }
    return fault(file, errno, "lock");
}

bool pawl__lockfile_unlock(struct pawl__lockfile *file, enum pawl__lock_byte byte)
{
    return lock_byte(file->fd, F_OFD_SETLK, F_UNLCK, byte, NULL) == 0;
}

bool pawl__lockfile_unlock_all(struct pawl__lockfile *file)
{
    struct flock lock = {.l_type = F_UNLCK, .l_whence = SEEK_SET}; /* no length: up to the end */
    return fcntl(file->fd, F_OFD_SETLK, &lock) == 0;
}

bool pawl__lockfile_is_taken(const struct pawl__lockfile *file, enum pawl__lock_byte byte)
{
    short type = F_UNLCK;
    return lock_byte(file->fd, F_OFD_GETLK, F_WRLCK, byte, &type) == 0 && type != F_UNLCK;
}

bool pawl__lockfile_touch(const struct pawl__lockfile *file)
{
    return futimens(file->fd, NULL) == 0;
}

/* If the path leads to another file by now, the last holder of this one has been told that, which
 * is as good. Without a descriptor to spare, a touch says it too: to everybody. */
pawl_status pawl__lockfile_announce(const struct pawl__lockfile *file)
{
    int fd = pawl__fd_openat(file->directory->fd, file->file_name, VISIT_FLAGS, 0);
    if (fd >= 0) {
        pawl__fd_close(fd);
        return PAWL_OK;
    }
    return pawl__lockfile_touch(file) ? PAWL_OK : fault(file, errno, "touch");
}

/* ===== The record ===== */

static pawl_status write_all(
    const struct pawl__lockfile *file, const void *data, size_t size, off_t at)
{
    ssize_t written = pwrite(file->fd, data, size, at);
    if (written == (ssize_t)size) {
        return PAWL_OK;
    }
    return fault(file, written < 0 ? errno : ENOSPC, "write to");
}

/* Read as much as has to be judged, and judge it. On success it is ours or new. */
static pawl_status load(
    struct pawl__lockfile *file, struct pawl__content *content, enum pawl__content_kind *kind_out)
{
    char encoded[PAWL__ENCODED_SIZE_MAX + 1];
    size_t encoded_size = 0;
    size_t wanted = sizeof content->record;
    if (!file->judged) {
        encoded_size = pawl__name_encode(file->name, file->name_size, encoded);
        wanted += encoded_size + 1;
    }
    ssize_t size = pread(file->fd, content, wanted, 0);
    if (size < 0) {
        return fault(file, errno, "read");
    }
    content->size = (size_t)size;
    *kind_out = pawl__content_judge(content, file->judged ? NULL : encoded, encoded_size);
    if (*kind_out == PAWL__CONTENT_FOREIGN) {
        return refuse(file, "is not a lock file", "remove it, or choose another directory");
    }
    if (*kind_out == PAWL__CONTENT_OTHER) {
        return refuse(file, "keeps the lock of another name", "rename one of the two locks");
    }
    file->judged = *kind_out == PAWL__CONTENT_OURS;
    return PAWL_OK;
}

/* Write a file that is new: the record and the name. */
static pawl_status write_new(struct pawl__lockfile *file, const struct pawl__record *record)
{
    char encoded[PAWL__ENCODED_SIZE_MAX + 1];
    size_t encoded_size = pawl__name_encode(file->name, file->name_size, encoded);
    struct pawl__content content;
    content.record = *record;
    pawl__content_set_name(&content, encoded, encoded_size);
    return write_all(file, &content, content.size, 0);
}

pawl_status pawl__lockfile_prepare(
    struct pawl__lockfile *file, const struct pawl__record *mine, struct pawl__grant *grant)
{
    struct pawl__content content;
    enum pawl__content_kind kind = PAWL__CONTENT_NEW;
    pawl_status status = load(file, &content, &kind);
    if (status == PAWL_OK) {
        const struct pawl__record *last = kind == PAWL__CONTENT_NEW ? NULL : &content.record;
        grant->fresh = kind != PAWL__CONTENT_OURS;
        grant->token = pawl__record_next_token(last, mine);
        grant->ours = last != NULL && pawl__record_is_by(last, mine);
        grant->announce = last != NULL && !grant->ours && pawl__record_alone(last);
    }
    return status;
}

pawl_status pawl__lockfile_grant(
    struct pawl__lockfile *file, struct pawl__record *mine, const struct pawl__grant *grant)
{
    pawl__record_set_token(mine, grant->token);
    pawl__record_set_tenure(mine, grant->id);
    pawl__record_set_count(mine, 1);
    pawl__record_set_alone(mine, grant->alone);
    return grant->fresh ? write_new(file, mine) : write_all(file, mine, sizeof *mine, 0);
}

pawl_status pawl__lockfile_write_count(const struct pawl__lockfile *file, unsigned count)
{
    struct pawl__record record;
    pawl__record_set_count(&record, count);
    off_t at = (off_t)offsetof(struct pawl__record, count);
    return write_all(file, record.count, sizeof record.count, at);
}

pawl_status pawl__lockfile_read(struct pawl__lockfile *file, struct pawl__record *record_out)
{
    struct pawl__content content;
    enum pawl__content_kind kind = PAWL__CONTENT_NEW;
    pawl_status status = load(file, &content, &kind);
    if (status == PAWL_OK && kind != PAWL__CONTENT_NEW) {
        *record_out = content.record;
    } else {
        memset(record_out, ' ', sizeof *record_out);
    }
    return status;
}

bool pawl__lockfile_is_alone(struct pawl__lockfile *file)
{
    struct pawl__record record;
    return pawl__lockfile_read(file, &record) == PAWL_OK && pawl__record_alone(&record);
}

/* ===== Replacing ===== */

/* Write the new file, from what stands in the old one at this moment. */
static pawl_status carry_over(
    struct pawl__lockfile *fresh, struct pawl__lockfile *old, const struct pawl__record *mine)
{
    struct pawl__record last;
    struct pawl__record record = *mine;
    pawl_status status = pawl__lockfile_read(old, &last);
    if (status != PAWL_OK) {
        return status;
    }
    pawl__record_clear_holder(&record);
    pawl__record_set_token(&record, pawl__record_carry_token(&last, mine));
    return write_new(fresh, &record);
}

/* Make the new file under a name of its own. Both bytes stay locked until it is finished: nobody is
 * granted it, and nobody replaces it. */
static pawl_status make_fresh(struct pawl__lockfile *fresh)
{
    fresh->fd = pawl__fd_openat(
        fresh->directory->fd, fresh->file_name, OPEN_FLAGS | O_CREAT | O_EXCL, 0600);
    struct pawl__look seen;
    if (fresh->fd < 0 || !pawl__look_at_fd(fresh->fd, &seen)) {
        return fault(fresh, errno, "make");
    }
    fresh->identity = seen.identity;
    pawl_status status = pawl__lockfile_lock(fresh, PAWL__BYTE_HOLD);
    return status == PAWL_OK ? pawl__lockfile_lock(fresh, PAWL__BYTE_BREAK) : status;
}

static pawl_status put_in_place(
    struct pawl__lockfile *fresh, struct pawl__lockfile *old, const struct pawl__record *mine)
{
    pawl_status status = carry_over(fresh, old, mine);
    if (status != PAWL_OK) {
        return status;
    }
    int directory = old->directory->fd;
    if (renameat(directory, fresh->file_name, directory, old->file_name) != 0) {
        return fault(old, errno, "replace");
    }
    /* From here on nobody new is granted the old file; who was granted it before has left its token
     * there. Should this write fail, the first one has to do. */
    (void)carry_over(fresh, old, mine);
    return PAWL_OK;
}

pawl_status pawl__lockfile_replace(
    struct pawl__lockfile *file, const struct pawl__record *mine, struct pawl__lockfile *old_out)
{
    uint64_t number = 0;
    char temporary[32];
    if (!pawl__random_bytes(&number, sizeof number)) {
        return pawl__fail(PAWL_UNAVAILABLE, "the system has no random numbers to give");
    }
    snprintf(temporary, sizeof temporary, PAWL__TEMPORARY_FORMAT, (unsigned long long)number);
    struct pawl__lockfile fresh = *file;
    fresh.file_name = temporary;
    pawl_status status = make_fresh(&fresh);
    if (status == PAWL_OK) {
        status = put_in_place(&fresh, file, mine);
    }
    if (status != PAWL_OK) {
        if (fresh.fd >= 0) {
            unlinkat(file->directory->fd, temporary, 0);
        }
        pawl__lockfile_close(&fresh);
        return status;
    }
    *old_out = *file;
    file->fd = fresh.fd;
    file->identity = fresh.identity;
    return PAWL_OK;
}
