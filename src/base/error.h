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

/* Name, bytes and all, made fit to print: control bytes as \xNN, cut with "..." when it does not
 * fit. */
const char *pawl__printable(const char *name, size_t name_size, char *out, size_t out_size);

/* strerror without its shared buffer. Valid until the thread asks again. */
const char *pawl__errno_text(int error);

#endif
