/* SPDX-License-Identifier: Apache-2.0 */
/* The engine of memory:NAME: locks among the clients of one process, for tests of programs that use
 * them.
 *
 * All clients that name the same NAME share one table (table.h), which lives as long as one of
 * them. An operation is carried out and completed inside submit(). Then whoever has to be woken is
 * woken, on the same thread. Nobody looks after leases that end: a waiter was told how long the
 * holder's lasts and asks again then.
 *
 * One mutex guards all tables and the list of them. It is never held while a host is called. A host
 * that is being called counts as visited, and its stop() waits until the visitors have left. */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/limits.h"
#include "engine/memory/table.h"

#include <pthread.h>
#include <string.h>

struct shared {
    struct pawl__list node; /* in the list of all */
    char *name;
    unsigned users;
    struct pawl__memory_table table;
};

struct instance {
    struct pawl__memory_client client;
    struct pawl__host *host;
    struct shared *shared;
    unsigned visitors; /* threads that are calling host->wake() */
    bool stopped;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t visitors_left = PTHREAD_COND_INITIALIZER;
static struct pawl__list all = {&all, &all};

static void lock(void)
{
    pthread_mutex_lock(&mutex);
}

static void unlock(void)
{
    pthread_mutex_unlock(&mutex);
}

/* A child begins anew: the mutex may have been taken by a thread that it did not inherit, and the
 * tables are its parent's. fork() does not wait for the mutex, because whoever has it may in turn
 * wait for something else that a fork takes. */
static void forget_parent(void)
{
    pthread_mutex_init(&mutex, NULL);
    pthread_cond_init(&visitors_left, NULL);
    pawl__list_init(&all);
}

static void guard_forks(void)
{
    pthread_atfork(NULL, NULL, forget_parent);
}

/* ===== Tables ===== */

static struct shared *shared_find(const char *name)
{
    for (struct pawl__list *node = all.next; node != &all; node = node->next) {
        struct shared *shared = PAWL__CONTAINER(node, struct shared, node);
        if (strcmp(shared->name, name) == 0) {
            return shared;
        }
    }
    return NULL;
}

static struct shared *shared_new(const char *name)
{
    struct shared *shared = pawl__alloc(sizeof *shared);
    if (shared == NULL) {
        return NULL;
    }
    shared->name = pawl__strdup(name);
    if (shared->name == NULL || !pawl__memory_init(&shared->table)) {
        pawl__free(shared->name);
        pawl__free(shared);
        return NULL;
    }
    pawl__list_push(&all, &shared->node);
    return shared;
}

static struct shared *shared_use(const char *name)
{
    struct shared *shared = shared_find(name);
    if (shared == NULL) {
        shared = shared_new(name);
    }
    if (shared != NULL) {
        shared->users++;
    }
    return shared;
}

static void shared_leave(struct shared *shared)
{
    if (--shared->users == 0) {
        pawl__list_remove(&shared->node);
        pawl__memory_free(&shared->table);
        pawl__free(shared->name);
        pawl__free(shared);
    }
}

/* ===== The engine ===== */

static pawl_status memory_open(struct pawl__url *url, struct pawl__host *host, void **self_out)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, guard_forks);
    if (url->host_count > 0 || url->path == NULL || url->path[0] == '\0') {
        return pawl__fail(PAWL_INVALID, "a memory: URL is a name that clients of this process meet "
                                        "at; write it as memory:NAME");
    }
    struct instance *instance = pawl__alloc(sizeof *instance);
    if (instance == NULL) {
        return pawl__fail(PAWL_NO_MEMORY, "no memory for the client");
    }
    lock();
    instance->shared = shared_use(url->path);
    unlock();
    if (instance->shared == NULL) {
        pawl__free(instance);
        return pawl__fail(PAWL_NO_MEMORY, "no memory for the table of locks");
    }
    instance->host = host;
    pawl__memory_join(&instance->client, host->uuid);
    *self_out = instance;
    return PAWL_OK;
}

static pawl_status memory_connect(void *self, int64_t deadline_us)
{
    (void)self;
    (void)deadline_us;
    return PAWL_OK;
}

/* Nothing is ever open here, but others may be about to wake us. */
static void memory_stop(void *self)
{
    struct instance *instance = self;
    lock();
    instance->stopped = true;
    pawl__memory_leave(&instance->shared->table, &instance->client);
    while (instance->visitors > 0) {
        pthread_cond_wait(&visitors_left, &mutex);
    }
    unlock();
}

static void memory_close(void *self)
{
    struct instance *instance = self;
    memory_stop(instance);
    lock();
    shared_leave(instance->shared);
    unlock();
    pawl__free(instance);
}

static pawl_status memory_place_open(void *self, struct pawl__place *place)
{
    (void)self;
    (void)place;
    return PAWL_OK;
}

static void memory_place_close(void *self, struct pawl__place *place)
{
    (void)self;
    (void)place;
}

/* Call whoever is due; it does not matter who made them so. The mutex is held on entry and on
 * return. */
static void wake_due(struct pawl__memory_table *table)
{
    char name[PAWL__NAME_SIZE_MAX];
    struct pawl__memory_watch *watch;
    while ((watch = pawl__memory_woken(table)) != NULL) {
        struct instance *woken = PAWL__CONTAINER(watch->client, struct instance, client);
        size_t name_size = watch->entry->node.key_size;
        memcpy(name, watch->entry->name, name_size);
        woken->visitors++;
        unlock();
        woken->host->wake(woken->host, name, name_size);
        lock();
        if (--woken->visitors == 0) {
            pthread_cond_broadcast(&visitors_left);
        }
    }
}

static void memory_submit(void *self, struct pawl__op *ops, bool driven)
{
    (void)driven;
    struct instance *instance = self;
    struct pawl__memory_table *table = &instance->shared->table;
    lock();
    int64_t now_us = pawl__now_us();
    for (struct pawl__op *op = ops; op != NULL; op = op->next) {
        if (instance->stopped) {
            op->answer = PAWL__FAILED;
            op->status = PAWL_UNAVAILABLE;
            continue;
        }
        pawl__memory_apply(table, &instance->client, op, now_us);
        op->fenced = true;
    }
    unlock();
    instance->host->complete(instance->host, ops);
    lock();
    wake_due(table);
    unlock();
}

static const char *const schemes[] = {"memory", NULL};

const struct pawl__engine pawl__engine_memory = {
    .name = "memory",
    .schemes = schemes,
    .place_size = sizeof(struct pawl__place),
    .expires = true,
    .sessions = false,
    .passes = true,
    .pushes = true,
    .open = memory_open,
    .connect = memory_connect,
    .stop = memory_stop,
    .close = memory_close,
    .place_open = memory_place_open,
    .place_close = memory_place_close,
    .submit = memory_submit,
    .drive = NULL,
    .poll = NULL,
    .pump = NULL,
};
