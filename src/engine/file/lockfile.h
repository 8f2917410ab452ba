/* SPDX-License-Identifier: Apache-2.0 */
/* One lock file: opening it safely, its three locks, its record, and replacing it.
 *
 * Functions that can fail answer a status: PAWL_OK; PAWL_BUSY for "somebody else has it"; PAWL_LOST
 * for "the path leads to another file now, or to none"; anything else is a fault, with the last
 * error set. */
#ifndef PAWL_FILE_LOCKFILE_H
#define PAWL_FILE_LOCKFILE_H

#include "engine/file/directory.h"
#include "engine/file/record.h"
#include "pawl.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Open-file-description locks on single bytes. They belong to the descriptor: whoever closes it, or
 * dies, lets go of them all. */
enum pawl__lock_byte {
    PAWL__BYTE_HOLD = 0, /* exclusive: the lock itself */
    PAWL__BYTE_WAIT = 1, /* shared: I wait, touch the file when you release */
    PAWL__BYTE_BREAK = 2 /* exclusive: I am replacing this file */
};

struct pawl__lockfile {
    struct pawl__directory *directory;
    const char *file_name;
    const char *name; /* of the lock */
    size_t name_size;
    int fd; /* -1: not open */
    struct pawl__identity identity;
    bool judged; /* the name in the file was compared since it was opened */
};

/* Open the file; with `create` make it if it is missing, otherwise a missing one is PAWL_LOST. What
 * is not a plain file, has a second name or belongs to somebody else is refused. */
pawl_status pawl__lockfile_open(struct pawl__lockfile *file, bool create);
void pawl__lockfile_close(struct pawl__lockfile *file);

/* Open it to look only, in the directory whose `fd` is open: no lock can be taken, nothing is made.
 * PAWL_LOST: there is none. `name` need not be known. */
pawl_status pawl__lockfile_visit(struct pawl__lockfile *file);

/* Lock one byte, or say PAWL_BUSY. The byte of those who wait is shared, the others are exclusive.
 */
pawl_status pawl__lockfile_lock(struct pawl__lockfile *file, enum pawl__lock_byte byte);

/* Unlock one byte. False: the kernel has no memory for that; close the file, which unlocks
 * everything. */
bool pawl__lockfile_unlock(struct pawl__lockfile *file, enum pawl__lock_byte byte);

/* Unlock them all. Needs no memory, and is quicker than unlocking one. */
bool pawl__lockfile_unlock_all(struct pawl__lockfile *file);

/* Whether another descriptor (of this or another process) has that byte. */
bool pawl__lockfile_is_taken(const struct pawl__lockfile *file, enum pawl__lock_byte byte);

/* PAWL_OK: the path still leads to this file. */
pawl_status pawl__lockfile_check(const struct pawl__lockfile *file);

/* Tell everybody who watches the file. */
bool pawl__lockfile_touch(const struct pawl__lockfile *file);

/* Tell the last holder, if it believes to be alone, that it is not: by opening the file, which
 * nobody else listens to. See place.c. */
pawl_status pawl__lockfile_announce(const struct pawl__lockfile *file);

/* A grant in two steps, because the path has to be looked at in between: see lockfile.c. The caller
 * has locked PAWL__BYTE_HOLD. */
struct pawl__grant {
    uint64_t id;    /* the tenure that is to hold */
    uint64_t token; /* the one it will have */
    bool fresh;     /* the file is new: its name has to be written too */
    bool ours;      /* the last grant was this client's, too */
    bool announce;  /* the last holder has to be told before anything is written */
    bool alone;     /* what is to be written: we want to be told ourselves */
};

/* Find out the token; writes nothing. */
pawl_status pawl__lockfile_prepare(
    struct pawl__lockfile *file, const struct pawl__record *mine, struct pawl__grant *grant);

/* Write it down; `mine` is filled in. Nothing is granted unless this answers PAWL_OK. */
pawl_status pawl__lockfile_grant(
    struct pawl__lockfile *file, struct pawl__record *mine, const struct pawl__grant *grant);

/* Write the count only. */
pawl_status pawl__lockfile_write_count(const struct pawl__lockfile *file, unsigned count);

/* Whether the last holder wants to be told of who comes. */
bool pawl__lockfile_is_alone(struct pawl__lockfile *file);

/* Read what people see; `record_out->token` and so on are blank if there is nothing to read. */
pawl_status pawl__lockfile_read(struct pawl__lockfile *file, struct pawl__record *record_out);

/* Put a new file in the place of this one, with a token above all that were given out. The caller
 * has locked PAWL__BYTE_BREAK and checked the path. On success `*file` is the new one, of which
 * PAWL__BYTE_HOLD and PAWL__BYTE_BREAK are locked until the caller unlocks them; `old_out` is the
 * replaced one, for the caller to close. On failure nothing has changed. */
pawl_status pawl__lockfile_replace(
    struct pawl__lockfile *file, const struct pawl__record *mine, struct pawl__lockfile *old_out);

#endif
