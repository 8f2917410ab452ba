/* SPDX-License-Identifier: Apache-2.0 */
/* A line on the terminal that says that something takes its time, and how far it is: from two
 * seconds on, twice a second, on stderr, and only if that is a terminal. It is gone afterwards. */
#ifndef PAWL_COMMON_PROGRESS_H
#define PAWL_COMMON_PROGRESS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct cli_progress {
    const char *what; /* "locks found so far": stands behind the count */
    atomic_size_t *count;
    int64_t begun_ms;
    pthread_t thread;
    bool running;
    pthread_mutex_t mutex;
    pthread_cond_t condition;
    bool over; /* under the mutex */
};

/* Begin; the count is read by another thread until cli_progress_end(). */
void cli_progress_begin(struct cli_progress *progress, const char *what, atomic_size_t *count);
void cli_progress_end(struct cli_progress *progress);

#endif
