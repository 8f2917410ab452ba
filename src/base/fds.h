/* SPDX-License-Identifier: Apache-2.0 */
/* Every descriptor of the library, so that a forked child can close them all.
 *
 * A child that kept them would share the parent's connections and, worse, its file locks. So
 * creating and registering a descriptor is one step under a mutex that fork() waits for, and the
 * child closes whatever is registered: close only, never an unlock, a shutdown or a goodbye. All
 * are close-on-exec too. */
#ifndef PAWL_BASE_FDS_H
#define PAWL_BASE_FDS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Each gives a registered close-on-exec descriptor, or -1 with errno set. */
int pawl__fd_socket(int domain, int type, int protocol);
int pawl__fd_openat(int directory, const char *path, int flags, mode_t mode);
int pawl__fd_eventfd(void); /* non-blocking */
int pawl__fd_timerfd(void); /* CLOCK_BOOTTIME, non-blocking */
int pawl__fd_inotify(void); /* non-blocking */

void pawl__fd_close(int fd); /* -1 is fine; errno is kept */

/* How often this process has come out of a fork as the child. A handle that remembers another
 * number was inherited and must not be used. */
unsigned pawl__fork_count(void);

#endif
