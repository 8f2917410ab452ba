/* SPDX-License-Identifier: Apache-2.0 */
/* The directory that the lock files of one client lie in, and the sentences for what the file
 * system refuses. */
#ifndef PAWL_FILE_DIRECTORY_H
#define PAWL_FILE_DIRECTORY_H

#include "base/url.h"
#include "pawl.h"

#include <stdbool.h>
#include <stdint.h>

/* What tells one file from another. */
struct pawl__identity {
    uint32_t major; /* of the device */
    uint32_t minor;
    uint64_t inode;
};

/* The outcome of asking for a file by its path. */
struct pawl__look {
    struct pawl__identity identity;
    uint32_t link_count;
    uint32_t owner;
    uint16_t mode;
};

struct pawl__directory {
    char *path;
    bool is_default; /* /tmp/pawl-<uid>: in a place where others could have put something else */
    int fd;          /* -1: not open */
    struct pawl__identity identity;
    bool is_local; /* no other machine can change it, so the kernel hears of every change */
};

/* Take the path from the URL; touches nothing. Sets the last error. */
pawl_status pawl__directory_init(struct pawl__directory *directory, const struct pawl__url *url);
void pawl__directory_free(struct pawl__directory *directory);

/* Make sure that `fd` is the directory its path leads to: make it if it is missing, check that
 * nobody else can replace what lies in it, open it again if it was removed or replaced. Sets the
 * last error. */
pawl_status pawl__directory_open(struct pawl__directory *directory);

/* Open it to look only, as a copy of its own: nothing is made. PAWL_LOST: there is none. To be
 * closed by pawl__fd_close(visit_out->fd) and nothing else. Locks: none needed. */
pawl_status pawl__directory_visit(
    const struct pawl__directory *directory, struct pawl__directory *visit_out);

/* Look at a path (`directory_fd` may be AT_FDCWD), not through a symbolic link if `follow` is
 * false, or at a descriptor. False: errno says why. */
bool pawl__look_at(int directory_fd, const char *path, bool follow, struct pawl__look *look_out);
bool pawl__look_at_fd(int fd, struct pawl__look *look_out);

bool pawl__identity_equal(const struct pawl__identity *a, const struct pawl__identity *b);

/* The status and the sentence for an error number: "cannot <deed> <path>: <why>; <remedy>".
 * `file_name` may be NULL for the directory itself. */
pawl_status pawl__file_fault(
    int error, const char *deed, const struct pawl__directory *directory, const char *file_name);

#endif
