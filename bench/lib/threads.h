/* SPDX-License-Identifier: Apache-2.0 */
/* Many threads that begin together and are told to stop together. */
#ifndef PAWL_LIB_THREADS_H
#define PAWL_LIB_THREADS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { THREADS_MAX = 64 };

/* How long they ran, from the barrier on. */
struct threads_time {
    int64_t until_stop_ns;
    int64_t until_end_ns; /* of the last one */
};

/* Run body(arg, 0 .. count-1), each in a thread, all behind one barrier; after the time *stop
 * becomes true and they are waited for. */
struct threads_time threads_run(size_t count, void (*body)(void *arg, size_t index), void *arg,
    _Atomic bool *stop, int64_t duration_ns);

#endif
