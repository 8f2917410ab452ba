/* SPDX-License-Identifier: Apache-2.0 */
/* A quorum lock from opening to closing, and the table of its calls; quorum.h describes it. */
#include "compound/quorum.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fds.h"
#include "base/thread.h"

#include <inttypes.h>
#include <stdio.h>

#define NODE_TIMEOUT_MS 50

/* ===== Calls ===== */

static uint64_t owner_of(const struct pawl_lock *lock)
{
    return lock->handle.owner != 0 ? lock->handle.owner : pawl__owner_of_thread();
}

/* A thread inside cannot be canceled, and the lock not be freed. */
static bool enter(struct pawl__quorum *quorum, uint64_t *wave_out)
{
    pawl__cancel_off();
    pthread_mutex_lock(&quorum->mutex);
    const bool open = !quorum->closed;
    quorum->calls += open ? 1 : 0;
    *wave_out = quorum->wave;
    pthread_mutex_unlock(&quorum->mutex);
    if (!open) {
        pawl__cancel_on();
        pawl__fail(PAWL_MISUSE, "the lock is closed");
    }
    return open;
}

static void leave(struct pawl__quorum *quorum)
{
    pthread_mutex_lock(&quorum->mutex);
    quorum->calls--;
    if (quorum->closed) {
        pthread_cond_broadcast(&quorum->left);
    }
    pthread_mutex_unlock(&quorum->mutex);
    pawl__cancel_on();
}

static struct pawl__quorum_wish make_wish(
    const struct pawl__quorum *quorum, uint64_t owner, int64_t wait_us, uint64_t wave)
{
    const int64_t now_us = pawl__now_us();
    const int64_t patience_us = wait_us == 0 ? quorum->timeout_us : wait_us;
    return (struct pawl__quorum_wish){owner, now_us, wait_us, pawl__later(now_us, patience_us),
        wave, pawl__later(now_us, pawl__max64(wait_us, quorum->timeout_us))};
}

/* Threads that end are looked for among the holders only if they may be among them. */
static void count_hold(
    const struct pawl_lock *lock, enum pawl__request_kind kind, pawl_status status)
{
    if (lock->handle.owner != 0) {
        return;
    }
    if (kind == PAWL__WANT_ACQUIRE && status == PAWL_OK) {
        pawl__registry_count(1);
    }
    if (kind == PAWL__WANT_RELEASE && status != PAWL_NOT_HELD) {
        pawl__registry_count(-1);
    }
}

static pawl_status run(struct pawl_lock *lock, struct pawl__request *request)
{
    struct pawl__quorum *quorum = pawl__quorum_of(lock);
    const uint64_t owner = owner_of(lock);
    uint64_t wave = 0;
    pawl_status status = PAWL_MISUSE;
    if (!enter(quorum, &wave)) {
        return status;
    }
    const struct pawl__quorum_wish wish = make_wish(quorum, owner, request->wait_us, wave);
    switch (request->kind) {
    case PAWL__WANT_ACQUIRE:
        status = pawl__quorum_acquire(quorum, &wish);
        break;
    case PAWL__WANT_RELEASE:
        status = pawl__quorum_release(quorum, owner);
        break;
    case PAWL__WANT_EXTEND:
        status = pawl__quorum_extend(quorum, owner, request->lease_us);
        break;
    case PAWL__WANT_INSPECT:
        status = pawl__quorum_inspect(quorum, owner, request->info_out);
        break;
    case PAWL__WANT_BREAK:
        status = pawl__quorum_break(quorum);
        break;
    case PAWL__WANT_RAISE:
    case PAWL__WANT_TALLY:
        status = pawl__fail(PAWL_UNSUPPORTED, "nobody asks this of a quorum");
        break;
    }
    count_hold(lock, request->kind, status);
    leave(quorum);
    return status;
}

static pawl_status start(struct pawl_lock *lock, enum pawl__request_kind kind, int64_t wait_us,
    pawl_callback done, void *arg)
{
    struct pawl__quorum *quorum = pawl__quorum_of(lock);
    uint64_t wave = 0;
    if (!enter(quorum, &wave)) {
        return PAWL_MISUSE;
    }
    struct pawl__quorum_async *async = pawl__alloc(sizeof *async);
    bool started = false;
    if (async != NULL) {
        async->kind = kind;
        async->wish = make_wish(quorum, lock->handle.owner, wait_us, wave);
        async->done = done;
        async->arg = arg;
        started = pawl__async_start(quorum, async);
    }
    if (!started) {
        pawl__free(async);
        pawl__fail(PAWL_NO_MEMORY, "no memory or thread for an asynchronous call");
    }
    leave(quorum);
    return started ? PAWL_OK : PAWL_NO_MEMORY;
}

static bool look(struct pawl_lock *lock, struct pawl__hold *hold_out)
{
    struct pawl__quorum *quorum = pawl__quorum_of(lock);
    uint64_t wave = 0;
    if (!enter(quorum, &wave)) {
        return false;
    }
    const bool found = pawl__quorum_look(quorum, owner_of(lock), hold_out);
    leave(quorum);
    return found;
}

/* Every node knows the holder by another string; that of the first one that holds will do. */
static void write_owner(struct pawl_lock *lock, char *owner_out)
{
    struct pawl__quorum *quorum = pawl__quorum_of(lock);
    uint64_t wave = 0;
    owner_out[0] = '\0';
    if (!enter(quorum, &wave)) {
        return;
    }
    for (size_t i = 0; i < quorum->count && owner_out[0] == '\0'; i++) {
        struct pawl__node_hold hold;
        bool lost = false;
        if (pawl__node_look(&quorum->nodes[i], &hold, &lost)) {
            snprintf(owner_out, PAWL_OWNER_SIZE, "%s:%" PRIu64, quorum->nodes[i].client->host.uuid,
                hold.id);
        }
    }
    leave(quorum);
}

static void cancel(struct pawl_lock *lock)
{
    struct pawl__quorum *quorum = pawl__quorum_of(lock);
    uint64_t wave = 0;
    if (enter(quorum, &wave)) {
        pawl__quorum_cancel(quorum);
        leave(quorum);
    }
}

static void owner_gone(struct pawl__registered *registered, uint64_t owner)
{
    pawl__quorum_owner_gone(PAWL__CONTAINER(registered, struct pawl__quorum, registered), owner);
}

/* ===== Closing ===== */

static void free_holds(struct pawl__quorum *quorum)
{
    struct pawl__list *node = NULL;
    while ((node = pawl__list_pop(&quorum->lost)) != NULL) {
        pawl__free(PAWL__CONTAINER(node, struct pawl__quorum_hold, node));
    }
}

/* Nobody is inside any more. */
static void dismantle(struct pawl__quorum *quorum)
{
    for (size_t i = 0; i < quorum->count; i++) {
        if (quorum->nodes[i].lock != NULL) {
            pawl__client_detach(quorum->nodes[i].client, quorum->nodes[i].lock);
        }
    }
    free_holds(quorum);
    pawl__panel_fini(&quorum->panel);
    pthread_cond_destroy(&quorum->left);
    pthread_mutex_destroy(&quorum->guard_mutex);
    pthread_mutex_destroy(&quorum->mutex);
    pawl__free(quorum->nodes);
    pawl__free(quorum->name);
    pawl__lock_close(&quorum->lock);
}

/* Release what is held, for whoever holds it. */
static pawl_status release_all(struct pawl__quorum *quorum)
{
    pawl_status worst = PAWL_OK;
    for (;;) {
        pthread_mutex_lock(&quorum->mutex);
        const bool held = quorum->held != NULL;
        const uint64_t owner = held ? quorum->held->owner : 0;
        pthread_mutex_unlock(&quorum->mutex);
        if (!held) {
            return worst;
        }
        const pawl_status status = pawl__quorum_release(quorum, owner);
        worst = status != PAWL_OK ? status : worst;
    }
}

static pawl_status close_quorum(struct pawl_lock *lock)
{
    struct pawl__quorum *quorum = pawl__quorum_of(lock);
    pawl__cancel_off();
    pthread_mutex_lock(&quorum->mutex);
    quorum->closed = true;
    pthread_mutex_unlock(&quorum->mutex);
    pawl__quorum_cancel(quorum);
    pthread_mutex_lock(&quorum->mutex);
    while (quorum->calls > 0) {
        pthread_cond_wait(&quorum->left, &quorum->mutex);
    }
    pthread_mutex_unlock(&quorum->mutex);
    pawl__registry_forget(&quorum->registered);
    pawl__guard_stop(quorum);
    pawl_status status = release_all(quorum);
    pawl__async_stop(quorum);
    pawl__worker_stop(quorum);
    const pawl_status rest = release_all(quorum); /* of an asynchronous call */
    status = rest != PAWL_OK ? rest : status;
    pthread_mutex_lock(&quorum->panel.mutex); /* whoever calls a hook has left */
    pthread_mutex_unlock(&quorum->panel.mutex);
    pawl__round_sweep(quorum);
    dismantle(quorum);
    pawl__cancel_on();
    return status;
}

static const struct pawl__composite composite = {
    .run = run,
    .start = start,
    .look = look,
    .owner = write_owner,
    .cancel = cancel,
    .close = close_quorum,
};

/* ===== Opening ===== */

/* A node has lost its hold, or is about to: the worker looks. The client's mutex is held. */
static void nudged(struct pawl_lock *lock)
{
    struct pawl__quorum *quorum = lock->handle.extra->event_arg;
    pawl__waiter_nudge(&quorum->alarm);
}

static void name_node(struct pawl__node *node, size_t number)
{
    const struct pawl__engine *engine = node->client->engine;
    if (engine->where != NULL) {
        engine->where(node->client->self, node->where, sizeof node->where);
    } else {
        snprintf(node->where, sizeof node->where, "%s node %zu", engine->name, number);
    }
}

static pawl_status open_nodes(struct pawl__quorum *quorum, struct pawl_client *const clients[],
    const char *name, const pawl_lock_options *options)
{
    pawl_lock_options own = *options;
    own.owner = PAWL_OWNER_HANDLE;
    own.reentry = PAWL_REENTRY_REFUSE;
    own.release_unawaited = false;
    own.on_risk = NULL;
    own.on_lost = NULL;
    own.event_arg = quorum;
    own.node_timeout_ms = 0;
    own.max_lease_ms = 0;
    own.restart_guard = PAWL_GUARD_ENFORCE;
    pawl_status status = PAWL_OK;
    for (size_t i = 0; status == PAWL_OK && i < quorum->count; i++) {
        struct pawl__node *node = &quorum->nodes[i];
        node->quorum = quorum;
        node->client = clients[i];
        name_node(node, i + 1);
        status = pawl_lock_open(clients[i], name, &own, &node->lock);
        if (status == PAWL_OK) {
            node->lock->handle.extra->nudge = nudged;
            if (quorum->guard != PAWL_GUARD_OFF) {
                pawl__name_place(node->lock->handle.name)->clocked = true;
            }
        }
    }
    return status;
}

static void take_options(struct pawl__quorum *quorum, const pawl_lock_options *options)
{
    const bool by_handle = options->owner == PAWL_OWNER_HANDLE;
    const int64_t node_timeout_ms =
        options->node_timeout_ms > 0 ? options->node_timeout_ms : NODE_TIMEOUT_MS;
    const int64_t warn_ms = options->warn_ms > 0 ? options->warn_ms : options->lease_ms / 3;
    quorum->compound.composite = &composite;
    quorum->lock.forks = pawl__fork_count();
    quorum->on_risk = options->on_risk;
    quorum->on_lost = options->on_lost;
    quorum->event_arg = options->event_arg;
    quorum->lock.handle.owner = by_handle ? pawl__owner_new() : 0;
    quorum->reentry = options->reentry == PAWL_REENTRY_ALLOW ||
                      (options->reentry == PAWL_REENTRY_DEFAULT && !by_handle);
    quorum->renew = options->renew;
    quorum->unawaited = options->release_unawaited;
    quorum->lease_us = options->lease_ms * 1000;
    quorum->risk_us = pawl__quorum_risk_us(quorum->lease_us, warn_ms * 1000);
    quorum->node_timeout_us = node_timeout_ms * 1000;
    quorum->max_lease_us = options->max_lease_ms * 1000;
    quorum->max_hold_us = options->max_hold_ms * 1000;
    quorum->guard = options->restart_guard;
}

static void take_times(struct pawl__quorum *quorum, struct pawl_client *const clients[])
{
    for (size_t i = 0; i < quorum->count; i++) {
        const struct pawl__machine *machine = &clients[i]->machine;
        quorum->timeout_us = pawl__max64(quorum->timeout_us, machine->timeout_us);
        quorum->give_up_us = pawl__max64(quorum->give_up_us, machine->give_up_us);
    }
}

/* All that can fail without a word to anybody. */
static struct pawl__quorum *quorum_new(
    size_t count, const char *name, const pawl_lock_options *options)
{
    uint64_t seed = 0;
    struct pawl__quorum *quorum = pawl__alloc(sizeof *quorum);
    if (quorum == NULL) {
        return NULL;
    }
    quorum->count = count;
    quorum->swept = true;
    quorum->look_us = PAWL__NEVER;
    quorum->nodes = pawl__alloc(count * sizeof *quorum->nodes);
    quorum->name = pawl__strdup(name);
    take_options(quorum, options);
    pthread_mutex_init(&quorum->mutex, NULL);
    pthread_mutex_init(&quorum->guard_mutex, NULL);
    pthread_cond_init(&quorum->left, NULL);
    pawl__waiter_init(&quorum->alarm);
    pawl__waiter_init(&quorum->bell);
    pawl__list_init(&quorum->queue);
    pawl__list_init(&quorum->lost);
    pawl__list_init(&quorum->asyncs);
    pawl__list_init(&quorum->ended);
    quorum->panel.wake_fd = -1;
    bool made = quorum->nodes != NULL && pawl__panel_init(&quorum->panel, quorum);
    made = pawl__random_bytes(&seed, sizeof seed) && made;
    pawl__random_seed(&quorum->random, seed);
    if (!made || quorum->nodes == NULL || quorum->name == NULL) {
        quorum->count = quorum->nodes != NULL ? count : 0;
        dismantle(quorum);
        return NULL;
    }
    return quorum;
}

static void warn_of_count(const struct pawl__quorum *quorum)
{
    char sentence[200];
    struct pawl__host *host = &quorum->nodes[0].client->host;
    if (quorum->count < 3) {
        snprintf(sentence, sizeof sentence,
            "a quorum of %zu survives no failure; three servers survive one, five survive two",
            quorum->count);
        host->log(host, PAWL_LOG_WARNING, sentence);
    } else if (quorum->count % 2 == 0) {
        snprintf(sentence, sizeof sentence,
            "a quorum of %zu servers survives no more failures than one of %zu; take an odd number",
            quorum->count, quorum->count - 1);
        host->log(host, PAWL_LOG_WARNING, sentence);
    }
}

pawl_status pawl__quorum_open(struct pawl_client *const clients[], size_t count, const char *name,
    const pawl_lock_options *options, struct pawl_lock **lock_out)
{
    struct pawl__quorum *quorum = quorum_new(count, name, options);
    if (quorum == NULL) {
        return pawl__fail(PAWL_NO_MEMORY, "no memory or descriptor for a lock");
    }
    take_times(quorum, clients);
    pawl_status status = open_nodes(quorum, clients, name, options);
    if (status == PAWL_OK) {
        status = pawl__guard_review(quorum);
    }
    if (status != PAWL_OK) {
        dismantle(quorum);
        return status;
    }
    quorum->registered.gone = owner_gone;
    pawl__registry_note(&quorum->registered);
    warn_of_count(quorum);
    *lock_out = &quorum->lock;
    return PAWL_OK;
}
