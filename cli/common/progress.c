/* SPDX-License-Identifier: Apache-2.0 */
/* See progress.h. The line comes from a thread of its own, because the calling one is inside the
 * library, which may walk through many keys without meeting a lock. */
#include "common/progress.h"

#include "common/backend.h"

#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

enum { SILENT_MS = 2000, EVERY_MS = 500 };

static struct timespec moment(int64_t now_plus_ms)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    int64_t ns = at.tv_nsec + now_plus_ms % 1000 * 1000000;
    at.tv_sec += (time_t)(now_plus_ms / 1000 + ns / 1000000000);
    at.tv_nsec = (long)(ns % 1000000000);
    return at;
}

/* Sleep; true if it is over. Under the mutex. */
static bool wait_for_end(struct cli_progress *progress, int64_t ms)
{
    const struct timespec until = moment(ms);
    while (!progress->over) {
        if (pthread_cond_timedwait(&progress->condition, &progress->mutex, &until) != 0) {
            return progress->over;
        }
    }
    return true;
}

static void *tell(void *arg)
{
    struct cli_progress *progress = arg;
    bool told = false;
    pthread_mutex_lock(&progress->mutex);
    bool over = wait_for_end(progress, SILENT_MS);
    while (!over) {
        fprintf(stderr, "\r\x1b[K%lld s, %zu %s",
            (long long)(cli_now_ms() - progress->begun_ms) / 1000, atomic_load(progress->count),
            progress->what);
        told = true;
        over = wait_for_end(progress, EVERY_MS);
    }
    pthread_mutex_unlock(&progress->mutex);
    if (told) {
        fputs("\r\x1b[K", stderr);
    }
    return NULL;
}

void cli_progress_begin(struct cli_progress *progress, const char *what, atomic_size_t *count)
{
    *progress = (struct cli_progress){.what = what, .count = count, .begun_ms = cli_now_ms()};
    if (!isatty(STDERR_FILENO)) {
        return;
    }
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_mutex_init(&progress->mutex, NULL);
    pthread_cond_init(&progress->condition, &attributes);
    pthread_condattr_destroy(&attributes);

    /* Without a thread there is no line, and nothing else is lost. */
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    progress->running = pthread_create(&progress->thread, NULL, tell, progress) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void cli_progress_end(struct cli_progress *progress)
{
    if (!progress->running) {
        return;
    }
    pthread_mutex_lock(&progress->mutex);
    progress->over = true;
    pthread_cond_signal(&progress->condition);
    pthread_mutex_unlock(&progress->mutex);
    pthread_join(progress->thread, NULL);
    pthread_cond_destroy(&progress->condition);
    pthread_mutex_destroy(&progress->mutex);
    progress->running = false;
}
