/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The private directory: mkdtemp, a few files, and all of it gone at the end.
 */
#include "up/workdir.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/say.h"

#define DEPTH_MAX 16 /* descriptors that nftw may have open */

bool workdir_make(char dir_out[WORKDIR_SIZE])
{
    const char *parent = getenv("TMPDIR");
    if (!parent || parent[0] != '/') {
        parent = "/tmp";
    }
    int length = snprintf(dir_out, WORKDIR_SIZE, "%s/flashsale-XXXXXX", parent);
    if (length >= WORKDIR_SIZE) {
        say("TMPDIR=%s is too long a name for sockets in it; use a shorter one, such as /tmp",
            parent);
        return false;
    }
    if (!mkdtemp(dir_out)) {
        say("no directory can be made in %s: %s; set TMPDIR to one where it can", parent,
            strerror(errno));
        return false;
    }
    return true;
}

bool workdir_make_room(const char *dir, const char *name, char path_out[WORKDIR_PATH_SIZE])
{
    int length = snprintf(path_out, WORKDIR_PATH_SIZE, "%s/%s", dir, name);
    if (length >= WORKDIR_PATH_SIZE || mkdir(path_out, 0700) != 0) {
        say("%s cannot be made: %s", path_out, strerror(errno));
        return false;
    }
    return true;
}

bool workdir_write(const char *dir, const char *name, const char *text, size_t text_size)
{
    char path[WORKDIR_PATH_SIZE];
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    FILE *file = fopen(path, "we");
    bool written = file && fwrite(text, 1, text_size, file) == text_size;
    if (file && fclose(file) != 0) {
        written = false;
    }
    if (!written) {
        say("%s cannot be written: %s", path, strerror(errno));
    }
    return written;
}

static int remove_one(const char *path, const struct stat *info, int type, struct FTW *where)
{
    (void)info;
    (void)type;
    (void)where;
    return remove(path);
}

/* Servers that are just ending may still write a file; a second walk finds it. */
void workdir_remove(const char *dir)
{
    for (int walk = 0; walk < 3; walk++) {
        if (nftw(dir, remove_one, DEPTH_MAX, FTW_DEPTH | FTW_PHYS) == 0 || errno == ENOENT) {
            return;
        }
    }
    say("%s could not be removed: %s", dir, strerror(errno));
}
