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
 * that is being called counts as visited, and its stop() waits until the visitors have left.
 *
 * People who look get a copy of what stood in the table at one moment. Who watches looks now and
 * then whether anything was done to the table. */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/glob.h"
#include "base/limits.h"
#include "engine/memory/table.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LOOK_MS 5        /* between two looks of a watch */
#define WAITERS_MAX 1000 /* of one queue that are told */

struct shared {
    struct pawl__list node; /* in the list of all */
    char *name;
    struct pawl__list instances; /* its users */
    uint64_t changes;            /* counts operations */
    struct pawl__memory_table table;
};

struct instance {
    struct pawl__list node; /* in the shared one's list */
    int64_t began_us;
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
    pawl__list_init(&shared->instances);
    pawl__list_push(&all, &shared->node);
    return shared;
}

static struct shared *shared_use(const char *name, struct instance *instance)
{
    struct shared *shared = shared_find(name);
    if (shared == NULL) {
        shared = shared_new(name);
    }
    if (shared != NULL) {
        pawl__list_push(&shared->instances, &instance->node);
    }
    return shared;
}

static void shared_leave(struct shared *shared, struct instance *instance)
{
    pawl__list_remove(&instance->node);
    if (pawl__list_empty(&shared->instances)) {
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
    instance->host = host;
    instance->began_us = pawl__now_us();
    pawl__memory_join(&instance->client, host->uuid);
    lock();
    instance->shared = shared_use(url->path, instance);
    unlock();
    if (instance->shared == NULL) {
        pawl__free(instance);
        return pawl__fail(PAWL_NO_MEMORY, "no memory for the table of locks");
    }
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
    shared_leave(instance->shared, instance);
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
        uint64_t id = watch->id;
        memcpy(name, watch->entry->name, name_size);
        woken->visitors++;
        unlock();
        woken->host->wake(woken->host, name, name_size, id);
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
    instance->shared->changes++;
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

/* ===== For people who look ===== */

static struct instance *instance_find(const struct shared *shared, const char *uuid)
{
    for (struct pawl__list *node = shared->instances.next; node != &shared->instances;
         node = node->next) {
        struct instance *instance = PAWL__CONTAINER(node, struct instance, node);
        if (strcmp(instance->client.uuid, uuid) == 0) {
            return instance;
        }
    }
    return NULL;
}

static int64_t count_nodes(const struct pawl__list *list)
{
    int64_t count = 0;
    for (const struct pawl__list *node = list->next; node != list; node = node->next) {
        count++;
    }
    return count;
}

/* Whoever holds is this very process. Its client may be closed already. */
static void describe_holder(const struct shared *shared, const char *uuid, uint64_t id,
    const char *suffix, pawl_entry *entry)
{
    const struct instance *instance = instance_find(shared, uuid);
    snprintf(
        entry->holder, sizeof entry->holder, "%s:%llu%s", uuid, (unsigned long long)id, suffix);
    if (gethostname(entry->host, sizeof entry->host) != 0) {
        entry->host[0] = '\0';
    }
    entry->host[sizeof entry->host - 1] = '\0';
    snprintf(entry->command, sizeof entry->command, "%s", program_invocation_short_name);
    entry->pid = getpid();
    entry->since_ms = instance == NULL ? -1 : (pawl__now_us() - instance->began_us) / 1000;
}

/* A hold that ends then, if it has not ended. */
static void describe_hold(
    pawl_entry *entry, bool held, pawl_kind kind, unsigned count, int64_t expires_us)
{
    const int64_t left_us = expires_us - pawl__now_us();
    entry->kind = kind;
    entry->held = held && left_us > 0;
    if (entry->held) {
        entry->hold_count = count;
        entry->remaining_ms = (left_us + 999) / 1000;
    }
}

/* The name is set already. The mutex is held. */
static void describe(
    const struct shared *shared, const struct pawl__memory_entry *from, pawl_entry *entry)
{
    const bool fair = from->kind == PAWL_FAIR || !pawl__list_empty(&from->queue);
    describe_hold(entry, from->held, fair ? PAWL_FAIR : from->kind, from->count, from->expires_us);
    entry->token = from->kind == PAWL_PLAIN ? 0 : from->token + from->token_more;
    entry->waiters = count_nodes(fair ? &from->queue : &from->watches);
    if (entry->held) {
        describe_holder(shared, from->uuid, from->id, "", entry);
    }
}

/* One of those who share it. */
static void describe_share(const struct shared *shared, const struct pawl__memory_entry *from,
    const struct pawl__memory_share *share, pawl_entry *entry)
{
    describe_hold(
        entry, true, share->writes ? PAWL_WRITE : PAWL_READ, share->count, share->expires_us);
    entry->token = share->token;
    entry->waiters = count_nodes(&from->watches);
    if (entry->held) {
        describe_holder(shared, share->uuid, share->id, share->writes ? ":write" : "", entry);
    }
}

static size_t count_holds(const struct pawl__map *map)
{
    size_t count = 0;
    for (struct pawl__map_node *node = NULL; (node = pawl__map_next(map, node)) != NULL;) {
        const struct pawl__memory_entry *entry =
            PAWL__CONTAINER(node, struct pawl__memory_entry, node);
        for (const struct pawl__list *share = entry->shares.next; share != &entry->shares;
             share = share->next) {
            count++;
        }
        count++;
    }
    return count;
}

static pawl_entry *begin_copy(pawl_entry *entry, const struct pawl__memory_entry *from)
{
    memset(entry, 0, sizeof *entry);
    entry->size = sizeof *entry;
    memcpy(entry->name, from->node.key, from->node.key_size);
    return entry;
}

/* Add what is held of this one; answers how many there are then. */
static size_t add_copies(const struct shared *shared, const struct pawl__memory_entry *from,
    pawl_entry *entries, size_t count)
{
    if (pawl__list_empty(&from->shares)) {
        describe(shared, from, begin_copy(&entries[count], from));
        return count + entries[count].held;
    }
    for (struct pawl__list *node = from->shares.next; node != &from->shares; node = node->next) {
        describe_share(
            shared, from, pawl__memory_share_of(node), begin_copy(&entries[count], from));
        count += entries[count].held;
    }
    return count;
}

/* Copies of all that is held and matches; to be freed. False: no memory. */
static bool take_copies(
    struct shared *shared, const char *pattern, pawl_entry **entries_out, size_t *count_out)
{
    struct pawl__map *map = &shared->table.entries;
    size_t count = 0;
    pawl_entry *entries = pawl__alloc((count_holds(map) + 1) * sizeof *entries);
    *entries_out = entries;
    if (entries == NULL) {
        return false;
    }
    for (struct pawl__map_node *node = NULL; (node = pawl__map_next(map, node)) != NULL;) {
        if (pawl__glob_matches(pattern, node->key, node->key_size)) {
            count = add_copies(
                shared, PAWL__CONTAINER(node, struct pawl__memory_entry, node), entries, count);
        }
    }
    *count_out = count;
    return true;
}

static pawl_status memory_list(void *self, const char *pattern, pawl_entry_callback each, void *arg)
{
    struct instance *instance = self;
    pawl_entry *entries = NULL;
    size_t count = 0;
    lock();
    bool copied = take_copies(instance->shared, pattern, &entries, &count);
    unlock();
    if (!copied) {
        return pawl__fail(PAWL_NO_MEMORY, "no memory for the list of locks");
    }
    for (size_t i = 0; i < count && each(&entries[i], arg); i++) {
    }
    pawl__free(entries);
    return PAWL_OK;
}

/* Of those who share it, one whose lease is not over. */
static void look_at_shares(
    const struct shared *shared, const struct pawl__memory_entry *found, pawl_entry *entry_out)
{
    struct pawl__list *node = found->shares.next;
    do {
        describe_share(shared, found, pawl__memory_share_of(node), entry_out);
        node = node->next;
    } while (!entry_out->held && node != &found->shares);
}

static pawl_status memory_look(
    void *self, const char *name, size_t name_size, pawl_entry *entry_out)
{
    struct instance *instance = self;
    entry_out->waiters = 0;
    lock();
    const struct pawl__memory_entry *found =
        pawl__memory_look(&instance->shared->table, name, name_size);
    if (found != NULL && pawl__list_empty(&found->shares)) {
        describe(instance->shared, found, entry_out);
    } else if (found != NULL) {
        look_at_shares(instance->shared, found, entry_out);
    }
    unlock();
    return PAWL_OK;
}

static void describe_waiter(
    const struct pawl__memory_waiter *from, unsigned position, int64_t now_us, pawl_waiter *waiter)
{
    *waiter = (pawl_waiter){.size = sizeof *waiter, .position = position};
    waiter->alive_ms = pawl__max64(from->dead_us - now_us + 999, 0) / 1000;
    snprintf(
        waiter->owner, sizeof waiter->owner, "%s:%llu", from->uuid, (unsigned long long)from->id);
}

/* Copies of who waits, at most so many. The mutex is held. */
static size_t take_waiters(
    const struct pawl__memory_entry *entry, pawl_waiter *waiters, size_t count_max)
{
    const int64_t now_us = pawl__now_us();
    size_t count = 0;
    for (struct pawl__list *node = entry->queue.next; node != &entry->queue && count < count_max;
         node = node->next) {
        const struct pawl__memory_waiter *from =
            PAWL__CONTAINER(node, struct pawl__memory_waiter, node);
        describe_waiter(from, (unsigned)count + 1, now_us, &waiters[count]);
        count++;
    }
    return count;
}

static pawl_status memory_queue(
    void *self, const char *name, size_t name_size, pawl_waiter_callback each, void *arg)
{
    struct instance *instance = self;
    pawl_waiter *waiters = pawl__alloc(WAITERS_MAX * sizeof *waiters);
    if (waiters == NULL) {
        return pawl__fail(PAWL_NO_MEMORY, "no memory for the list of waiters");
    }
    lock();
    const struct pawl__memory_entry *found =
        pawl__memory_look(&instance->shared->table, name, name_size);
    size_t count = found != NULL ? take_waiters(found, waiters, WAITERS_MAX) : 0;
    unlock();
    for (size_t i = 0; i < count && each(&waiters[i], arg); i++) {
    }
    pawl__free(waiters);
    return PAWL_OK;
}

/* What a watch has seen of the table's changes. */
struct lookout {
    uint64_t seen;
};

static uint64_t changes_of(const struct instance *instance)
{
    lock();
    uint64_t changes = instance->shared->changes;
    unlock();
    return changes;
}

static pawl_status memory_watch_open(void *self, const char *pattern, void **watch_out)
{
    (void)pattern;
    struct lookout *lookout = pawl__alloc(sizeof *lookout);
    if (lookout == NULL) {
        return pawl__fail(PAWL_NO_MEMORY, "no memory to watch the locks");
    }
    lookout->seen = changes_of(self);
    *watch_out = lookout;
    return PAWL_OK;
}

static pawl_status memory_watch_wait(
    void *self, void *watch, int64_t deadline_us, struct pawl__hint *hint_out)
{
    struct lookout *lookout = watch;
    uint64_t changes = changes_of(self);
    while (changes == lookout->seen && pawl__now_us() < deadline_us) {
        poll(NULL, 0, LOOK_MS);
        changes = changes_of(self);
    }
    if (changes == lookout->seen) {
        return PAWL_BUSY;
    }
    lookout->seen = changes;
    hint_out->name[0] = '\0';
    hint_out->change = 0;
    return PAWL_OK;
}

static void memory_watch_close(void *self, void *watch)
{
    (void)self;
    pawl__free(watch);
}

static bool memory_watch_exact(void *self, void *watch)
{
    (void)self;
    (void)watch;
    return false;
}

static pawl_status memory_examine(void *self, pawl_finding_callback each, void *arg)
{
    (void)self;
    static const pawl_finding finding = {.size = sizeof finding,
        .verdict = PAWL_WARNING,
        .topic = "reach",
        .sentence = "these locks are kept in the memory of one process, and exclude nobody else",
        .remedy = "for processes of one machine use file:///dir, for several hosts redis://host"};
    each(&finding, arg);
    return PAWL_OK;
}

static const char *const schemes[] = {"memory", NULL};

const struct pawl__engine pawl__engine_memory = {
    .name = "memory",
    .schemes = schemes,
    .families = PAWL__FAMILY_BIT(PAWL__FAMILY_MUTEX) | PAWL__FAMILY_BIT(PAWL__FAMILY_FAIR) |
                PAWL__FAMILY_BIT(PAWL__FAMILY_SHARED) | PAWL__FAMILY_BIT(PAWL__FAMILY_SPIN) |
                PAWL__FAMILY_BIT(PAWL__FAMILY_PLAIN) | PAWL__FAMILY_BIT(PAWL__FAMILY_SEMAPHORE) |
                PAWL__FAMILY_BIT(PAWL__FAMILY_PERMITS) | PAWL__FAMILY_BIT(PAWL__FAMILY_LATCH),
    .place_size = sizeof(struct pawl__place),
    .expires = true,
    .sessions = false,
    .passes = true,
    .raises = true,
    .rows = true,
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
    .list = memory_list,
    .look = memory_look,
    .queue = memory_queue,
    .watch_open = memory_watch_open,
    .watch_wait = memory_watch_wait,
    .watch_close = memory_watch_close,
    .watch_exact = memory_watch_exact,
    .examine = memory_examine,
};
