/* SPDX-License-Identifier: Apache-2.0 */
/* The engine's part for people who look: listing, looking, watching, examining, each on a console
 * of its own (console.h). While somebody watches, one console is kept between two looks, because
 * these come often then; otherwise each ends with its question.
 *
 * Threads: any number may be inside; the mutex guards the spare console and nothing else, and is
 * never held while anybody waits. */
#ifndef PAWL_ENGINE_REDIS_LOOKING_H
#define PAWL_ENGINE_REDIS_LOOKING_H

#include "engine/redis/console.h"

#include <pthread.h>

struct pawl__looking {
    struct pawl__host *host;
    const struct pawl__redis_config *config;
    pthread_mutex_t mutex;
    struct pawl__console *spare; /* or NULL */
    unsigned watch_count;        /* while there are any, a console is kept */
};

void pawl__looking_init(struct pawl__looking *looking, struct pawl__host *host,
    const struct pawl__redis_config *config);
void pawl__looking_close(struct pawl__looking *looking);

/* As in engine.h. */
pawl_status pawl__looking_list(
    struct pawl__looking *looking, const char *pattern, pawl_entry_callback each, void *arg);
pawl_status pawl__looking_look(
    struct pawl__looking *looking, const char *name, size_t name_size, pawl_entry *entry_out);
pawl_status pawl__looking_queue(struct pawl__looking *looking, const char *name, size_t name_size,
    pawl_waiter_callback each, void *arg);
pawl_status pawl__looking_examine(
    struct pawl__looking *looking, pawl_finding_callback each, void *arg);

/* Somebody begins, or ends, to watch. */
void pawl__looking_keep(struct pawl__looking *looking);
void pawl__looking_let_go(struct pawl__looking *looking);

#endif
