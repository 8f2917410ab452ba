/* SPDX-License-Identifier: Apache-2.0 */
/* A table of file systems. Numbers that older kernel headers lack are written out. */
#include "engine/file/filesystem.h"

#include <linux/magic.h>
#include <stddef.h>
#include <sys/vfs.h>

static const struct pawl__filesystem known[] = {
    {"ext4", EXT4_SUPER_MAGIC, PAWL__FILESYSTEM_LOCAL},
    {"XFS", XFS_SUPER_MAGIC, PAWL__FILESYSTEM_LOCAL},
    {"Btrfs", BTRFS_SUPER_MAGIC, PAWL__FILESYSTEM_LOCAL},
    {"F2FS", F2FS_SUPER_MAGIC, PAWL__FILESYSTEM_LOCAL},
    {"overlayfs", OVERLAYFS_SUPER_MAGIC, PAWL__FILESYSTEM_LOCAL},
    {"tmpfs", TMPFS_MAGIC, PAWL__FILESYSTEM_MEMORY},
    {"ramfs", RAMFS_MAGIC, PAWL__FILESYSTEM_MEMORY},
    {"NFS", NFS_SUPER_MAGIC, PAWL__FILESYSTEM_NETWORK},
    {"SMB", SMB_SUPER_MAGIC, PAWL__FILESYSTEM_NETWORK},
    {"CIFS", 0xff534d42, PAWL__FILESYSTEM_NETWORK},
    {"SMB", 0xfe534d42, PAWL__FILESYSTEM_NETWORK},
    {"9p", V9FS_MAGIC, PAWL__FILESYSTEM_NETWORK},
    {"FUSE", 0x65735546, PAWL__FILESYSTEM_NETWORK},
    {"Ceph", 0x00c36400, PAWL__FILESYSTEM_NETWORK},
    {"Lustre", 0x0bd00bd0, PAWL__FILESYSTEM_NETWORK},
    {"GFS2", 0x01161970, PAWL__FILESYSTEM_NETWORK},
    {"OCFS2", 0x7461636f, PAWL__FILESYSTEM_NETWORK},
    {"GPFS", 0x47504653, PAWL__FILESYSTEM_NETWORK},
    {"BeeGFS", 0x19830326, PAWL__FILESYSTEM_NETWORK},
    {"AFS", AFS_SUPER_MAGIC, PAWL__FILESYSTEM_NETWORK},
    {"Coda", CODA_SUPER_MAGIC, PAWL__FILESYSTEM_NETWORK},
    {"vboxsf", 0x786f4256, PAWL__FILESYSTEM_NETWORK},
    {"vmhgfs", 0xbacbacbc, PAWL__FILESYSTEM_NETWORK},
};

static const struct pawl__filesystem unknown = {
    "a file system that pawl does not know", 0, PAWL__FILESYSTEM_UNKNOWN};

const struct pawl__filesystem *pawl__filesystem_of(int fd)
{
    struct statfs system;
    if (fstatfs(fd, &system) != 0) {
        return &unknown;
    }
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (known[i].magic == (uint32_t)system.f_type) {
            return &known[i];
        }
    }
    return &unknown;
}
