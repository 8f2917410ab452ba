/* SPDX-License-Identifier: Apache-2.0 */
/* Kinds of file systems, as far as locks in files care. */
#ifndef PAWL_FILE_FILESYSTEM_H
#define PAWL_FILE_FILESYSTEM_H

#include <stdint.h>

enum pawl__filesystem_nature {
    PAWL__FILESYSTEM_LOCAL,   /* only this machine writes to it: the kernel hears of every change */
    PAWL__FILESYSTEM_MEMORY,  /* the same, and forgotten when the machine is started anew */
    PAWL__FILESYSTEM_NETWORK, /* other machines may write to it, or a program decides everything */
    PAWL__FILESYSTEM_UNKNOWN  /* may be as good as any; is asked more often */
};

struct pawl__filesystem {
    const char *name;
    uint32_t magic; /* as statfs() tells it */
    enum pawl__filesystem_nature nature;
};

/* What this descriptor lies on; never NULL. */
const struct pawl__filesystem *pawl__filesystem_of(int fd);

#endif
