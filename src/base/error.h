/* SPDX-License-Identifier: Apache-2.0 */
/* The calling thread's last error: one sentence that names the thing and the remedy. */
#ifndef PAWL_BASE_ERROR_H
#define PAWL_BASE_ERROR_H

#include "pawl.h"

/* Remember the sentence and answer the status, so that "return pawl__fail(...)" reads well. */
pawl_status pawl__fail(pawl_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The same for a sentence that was allocated elsewhere (NULL: what the status says); frees it. */
pawl_status pawl__fail_text(pawl_status status, char *text);

const char *pawl__error_text(void);

/* Name, bytes and all, made fit to print: UTF-8 as it is, control bytes and what is no UTF-8 as
 * \xNN, cut with "..." when it does not fit. */
const char *pawl__printable(const char *name, size_t name_size, char *out, size_t out_size);

/* A word of a command line for people to paste into a shell: as it is, or in single quotes if a
 * shell would make something else of it. It is cut when there is no room: four times its size and
 * 3 are always enough, and 3 the least. */
const char *pawl__shell_word(const char *word, char *out, size_t out_size);

/* strerror without its shared buffer. Valid until the thread asks again. */
const char *pawl__errno_text(int error);

#endif
