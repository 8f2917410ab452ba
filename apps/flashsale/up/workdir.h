/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The private directory in which everything lives that `flashsale up` starts: data and logs of the
 * servers, nginx's files, the control socket. Only its owner can look into it.
 */
#ifndef FLASHSALE_UP_WORKDIR_H
#define FLASHSALE_UP_WORKDIR_H

#include <stdbool.h>
#include <stddef.h>

/* A control socket lies in it, and those have short names only (108 bytes). */
#define WORKDIR_SIZE 72
#define WORKDIR_PATH_SIZE 108

/* Makes it, in TMPDIR or /tmp. */
bool workdir_make(char dir_out[WORKDIR_SIZE]);

/* Makes a directory in it and gives its path. */
bool workdir_make_room(const char *dir, const char *name, char path_out[WORKDIR_PATH_SIZE]);

/* Writes a file in it. */
bool workdir_write(const char *dir, const char *name, const char *text, size_t text_size);

/* Removes it with all that is in it. */
void workdir_remove(const char *dir);

#endif
