/* SPDX-License-Identifier: Apache-2.0 */
/* Worker threads and their queue: see crew.h. */
#include "shop/crew.h"

#include "common/redis.h"
#include "shop/shop.h"

#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>

enum { STACK_SIZE = 512 * 1024 };

struct worker {
    struct crew *crew;
    pthread_t thread;
    pthread_cond_t wake;
    struct task *given;   /* put here by crew_give(), while it is idle or keeps */
    struct worker *below; /* in the stack of idle workers */
    struct seller seller;
};

struct crew {
    pthread_mutex_t mutex;
    struct worker *workers;
    int count;
    struct worker *idle; /* the one that became idle last */
    struct task *first, *last;
    bool stopping;
};

/* The calling thread's worker, while it keeps what is given. */
static _Thread_local struct worker *keeper;

static struct worker *worker_of(struct seller *seller)
{
    return (struct worker *)(void *)((char *)seller - offsetof(struct worker, seller));
}

void crew_keep_next(struct seller *seller, bool keep)
{
    keeper = keep ? worker_of(seller) : NULL;
}

/* Who works is given something by its own thread only. */
bool crew_has_next(struct seller *seller)
{
    return worker_of(seller)->given != NULL;
}

/* The next task for this worker, or NULL: it is over. Called with the mutex. */
static struct task *next_task(struct crew *crew, struct worker *worker)
{
    struct task *task = worker->given;
    if (task != NULL) {
        worker->given = NULL;
        return task;
    }
    task = crew->first;
    if (task != NULL) {
        crew->first = task->next;
        return task;
    }
    if (crew->stopping) {
        return NULL;
    }
    worker->below = crew->idle;
    crew->idle = worker;
    while (worker->given == NULL && !crew->stopping) {
        pthread_cond_wait(&worker->wake, &crew->mutex);
    }
    task = worker->given;
    worker->given = NULL;
    return task;
}

static void *work(void *arg)
{
    struct worker *worker = arg;
    struct crew *crew = worker->crew;
    pthread_mutex_lock(&crew->mutex);
    for (;;) {
        struct task *task = next_task(crew, worker);
        if (task == NULL) {
            break;
        }
        pthread_mutex_unlock(&crew->mutex);
        task->run(&worker->seller, task);
        pthread_mutex_lock(&crew->mutex);
    }
    pthread_mutex_unlock(&crew->mutex);
    redis_drop(&worker->seller.stock);
    redis_drop(&worker->seller.lock);
    for (size_t i = 0; i < SEGMENT_SERVERS_MAX; i++) {
        redis_drop(&worker->seller.segments[i]);
    }
    return NULL;
}

static bool start_worker(struct crew *crew, struct shop *shop, int number)
{
    struct worker *worker = &crew->workers[crew->count];
    worker->crew = crew;
    worker->seller = (struct seller){.shop = shop, .number = number};
    pthread_cond_init(&worker->wake, NULL);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_SIZE);
    const bool started = pthread_create(&worker->thread, &attributes, work, worker) == 0;
    pthread_attr_destroy(&attributes);
    if (started) {
        crew->count++;
    }
    return started;
}

struct crew *crew_start(struct shop *shop, int count, int first_number)
{
    struct crew *crew = calloc(1, sizeof *crew);
    if (crew == NULL) {
        return NULL;
    }
    pthread_mutex_init(&crew->mutex, NULL);
    crew->workers = calloc((size_t)count, sizeof *crew->workers);
    for (int i = 0; i < count; i++) {
        if (crew->workers == NULL || !start_worker(crew, shop, first_number + i)) {
            crew_stop(crew);
            return NULL;
        }
    }
    return crew;
}

void crew_give(struct crew *crew, struct task *task)
{
    task->next = NULL;
    if (keeper != NULL && keeper->crew == crew && keeper->given == NULL) {
        keeper->given = task;
        return;
    }
    pthread_mutex_lock(&crew->mutex);
    struct worker *worker = crew->idle;
    if (worker != NULL) {
        crew->idle = worker->below;
        worker->given = task;
        pthread_cond_signal(&worker->wake);
    } else if (crew->first != NULL) {
        crew->last->next = task;
        crew->last = task;
    } else {
        crew->first = crew->last = task;
    }
    pthread_mutex_unlock(&crew->mutex);
}

void crew_stop(struct crew *crew)
{
    if (crew == NULL) {
        return;
    }
    pthread_mutex_lock(&crew->mutex);
    crew->stopping = true;
    for (int i = 0; i < crew->count; i++) {
        pthread_cond_signal(&crew->workers[i].wake);
    }
    pthread_mutex_unlock(&crew->mutex);
    for (int i = 0; i < crew->count; i++) {
        pthread_join(crew->workers[i].thread, NULL);
        pthread_cond_destroy(&crew->workers[i].wake);
    }
    pthread_mutex_destroy(&crew->mutex);
    free(crew->workers);
    free(crew);
}
