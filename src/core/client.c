/* SPDX-License-Identifier: Apache-2.0 */
/* Clients: opening and closing, and the one pattern by which everything happens in between: lock,
 * step the machine, take what it left to do, unlock, carry it out. */
#include "core/client.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fds.h"
#include "base/limits.h"
#include "base/thread.h"
#include "core/observe.h"

#include <stdlib.h>
#include <string.h>

#define TIMEOUT_MS 1000
#define GIVE_UP_MS 30000

/* ===== Steps ===== */

void pawl__client_lock(struct pawl_client *client)
{
    pthread_mutex_lock(&client->mutex);
}

void pawl__client_take(struct pawl_client *client, struct pawl__todo *todo_out)
{
    struct pawl__machine *machine = &client->machine;
    if (!pawl__list_empty(&machine->notices)) {
        pawl__courier_tell_composites(client);
    }
    todo_out->ops = machine->ops;
    machine->ops = NULL;
    machine->ops_end = &machine->ops;
    pawl__list_init(&todo_out->finished);
    pawl__courier_take_finished(client, todo_out);
    todo_out->dead = machine->dead;
    machine->dead = NULL;
    if (client->drained != NULL && pawl__machine_idle(machine)) {
        pawl__waiter_finish(client->drained);
        client->drained = NULL;
    }
    todo_out->hear = machine->hear;
    machine->hear = false;
    todo_out->kick = pawl__keeper_wanted(client);
    pthread_mutex_unlock(&client->mutex);
}

void pawl__client_carry_out(struct pawl_client *client, struct pawl__todo *todo, bool driven)
{
    struct pawl__list *node = NULL;
    if (todo->ops != NULL) {
        client->engine->submit(client->self, todo->ops, driven);
    }
    while ((node = pawl__list_pop(&todo->finished)) != NULL) {
        pawl__courier_tell(client, PAWL__CONTAINER(node, struct pawl__request, node));
    }
    while (todo->dead != NULL) {
        struct pawl__name *name = todo->dead;
        todo->dead = name->next;
        if (name->opened) {
            client->engine->place_close(client->self, pawl__name_place(name));
        }
        pawl__name_leave(name);
    }
    if (todo->hear && client->engine->hear != NULL) {
        client->engine->hear(client->self);
    }
    if (todo->kick) {
        pawl__keeper_kick(client);
    }
}

void pawl__client_unlock(struct pawl_client *client, bool driven)
{
    struct pawl__todo todo;
    pawl__client_take(client, &todo);
    pawl__client_carry_out(client, &todo, driven);
}

/* ===== What engines call ===== */

_Thread_local bool pawl__attends;

static struct pawl_client *client_of(struct pawl__host *host)
{
    return PAWL__CONTAINER(host, struct pawl_client, host);
}

static void on_complete(struct pawl__host *host, struct pawl__op *ops)
{
    struct pawl_client *client = client_of(host);
    const bool attends = pawl__attends;
    pawl__attends = false; /* what follows from this may be for others */
    pawl__client_lock(client);
    int64_t now_us = pawl__now_us();
    while (ops != NULL) {
        struct pawl__op *op = ops;
        ops = ops->next;
        pawl__machine_complete(&client->machine, op, now_us);
    }
    pawl__client_unlock(client, false);
    pawl__attends = attends;
}

static void on_wake(struct pawl__host *host, const char *name, size_t name_size, uint64_t id)
{
    struct pawl_client *client = client_of(host);
    pawl__client_lock(client);
    pawl__machine_wake(&client->machine, name, name_size, id, pawl__now_us());
    pawl__client_unlock(client, false);
}

static void on_lost(struct pawl__host *host, const char *name, size_t name_size, uint64_t id)
{
    struct pawl_client *client = client_of(host);
    pawl__client_lock(client);
    pawl__machine_lost(&client->machine, name, name_size, id, pawl__now_us());
    pawl__client_unlock(client, false);
}

static void on_reconnected(struct pawl__host *host)
{
    struct pawl_client *client = client_of(host);
    pawl__client_lock(client);
    pawl__machine_reconnected(&client->machine, pawl__now_us());
    pawl__client_unlock(client, false);
    pawl__keeper_look(client);
}

static void on_attend(struct pawl__host *host)
{
    if (!pawl__attends) {
        pawl__keeper_attend(client_of(host));
    }
}

static bool on_closing(struct pawl__host *host)
{
    return pawl__call_closing(client_of(host));
}

static void on_log(struct pawl__host *host, pawl_log_level level, const char *message)
{
    pawl__courier_log(client_of(host), level, message);
}

/* A request waits for something else now: its thread has to look. Mutex held. */
static void nudge(struct pawl__request *request)
{
    if (request->waiter != NULL) {
        pawl__waiter_nudge(request->waiter);
    }
}

/* ===== Opening ===== */

static pawl_status read_guard(struct pawl__url *url, pawl_guard *guard)
{
    const char *text = pawl__url_get(url, "guard");
    if (text == NULL) {
        return PAWL_OK;
    }
    static const char *const words[] = {"enforce", "warn", "off"};
    for (int i = 0; i < 3; i++) {
        if (strcmp(text, words[i]) == 0) {
            *guard = (pawl_guard)i;
            return PAWL_OK;
        }
    }
    return pawl__fail(PAWL_INVALID, "?guard= is enforce, warn or off");
}

static int64_t or_default(int64_t value_ms, int64_t default_ms)
{
    return value_ms > 0 ? value_ms : default_ms;
}

/* What the URL says stands over the options, and those over the defaults. */
static pawl_status read_settings(
    struct pawl_client *client, struct pawl__url *url, const pawl_client_options *options)
{
    struct pawl__settings *settings = &client->host.settings;
    int64_t timeout_ms = or_default(options->timeout_ms, TIMEOUT_MS);
    int64_t connect_ms = or_default(options->connect_timeout_ms, TIMEOUT_MS);
    int64_t give_up_ms = or_default(options->give_up_ms, GIVE_UP_MS);
    settings->guard = options->guard;
    settings->lazy = options->lazy;

    pawl_status status =
        pawl__url_get_duration_ms(url, "timeout", 1, PAWL__TIMEOUT_MS_MAX, &timeout_ms);
    if (status == PAWL_OK) {
        status =
            pawl__url_get_duration_ms(url, "connect_timeout", 1, PAWL__TIMEOUT_MS_MAX, &connect_ms);
    }
    if (status == PAWL_OK) {
        status = pawl__url_get_duration_ms(url, "give_up", 1, PAWL__WAIT_MS_MAX, &give_up_ms);
    }
    if (status == PAWL_OK) {
        status = pawl__url_get_bool(url, "lazy", &settings->lazy);
    }
    if (status == PAWL_OK) {
        status = read_guard(url, &settings->guard);
    }
    settings->timeout_us = timeout_ms * 1000;
    settings->connect_timeout_us = connect_ms * 1000;
    client->machine.timeout_us = timeout_ms * 1000;
    client->machine.give_up_us = give_up_ms * 1000;
    return status;
}

static bool init_parts(struct pawl_client *client, const pawl_client_options *options)
{
    uint64_t seed = 0;
    struct pawl__host *host = &client->host;
    host->complete = on_complete;
    host->wake = on_wake;
    host->lost = on_lost;
    host->reconnected = on_reconnected;
    host->attend = on_attend;
    host->log = on_log;
    host->busy = pawl__keeper_busy;
    host->closing = on_closing;
    client->forks = pawl__fork_count();
    client->machine.engine = client->engine;
    client->machine.nudge = nudge;
    client->machine.motions_kept = PAWL__MOTIONS_KEPT;
    pthread_mutex_init(&client->opening, NULL);
    pthread_mutex_init(&client->mutex, NULL);
    pthread_cond_init(&client->left, NULL);
    pawl__list_init(&client->terms);
    pawl__list_init(&client->watches);
    pawl__list_init(&client->registered);
    bool done = pawl__machine_init(&client->machine);
    done = pawl__courier_init(&client->courier, options) && done;
    done = pawl__keeper_init(&client->keeper) && done;
    done = pawl__random_bytes(&seed, sizeof seed) && pawl__uuid(host->uuid) && done;
    pawl__random_seed(&client->machine.random, seed);
    return done;
}

void pawl__client_free(struct pawl_client *client)
{
    pawl__terms_forget(client);
    pawl__machine_fini(&client->machine);
    pawl__courier_fini(&client->courier);
    pthread_cond_destroy(&client->left);
    pthread_mutex_destroy(&client->mutex);
    pthread_mutex_destroy(&client->opening);
    pawl__free(client->backend);
    pawl__free(client);
}

/* The engine's part of opening. */
static pawl_status open_engine(struct pawl_client *client, struct pawl__url *url)
{
    pawl_status status = client->engine->open(url, &client->host, &client->self);
    if (status != PAWL_OK) {
        return status;
    }
    status = pawl__url_check_unused(url);
    const struct pawl__settings *settings = &client->host.settings;
    if (status == PAWL_OK && !settings->lazy) {
        int64_t limit_us = settings->connect_timeout_us + settings->timeout_us;
        status = client->engine->connect(client->self, pawl__now_us() + limit_us);
    }
    if (status != PAWL_OK) {
        pawl__keeper_stop(client); /* the engine may have asked to be attended to */
        client->engine->close(client->self);
    }
    return status;
}

static pawl_status open_url(
    struct pawl__url *url, const pawl_client_options *options, struct pawl_client **client_out)
{
    const struct pawl__engine *engine = pawl__engine_find(url->scheme);
    if (engine == NULL) {
        return pawl__engine_missing(url);
    }
    struct pawl_client *client = pawl__alloc(sizeof *client);
    if (client == NULL) {
        return pawl__fail(PAWL_NO_MEMORY, "no memory for a client");
    }
    client->engine = engine;
    client->backend = pawl__url_backend(url);
    pawl_status status =
        init_parts(client, options) && client->backend != NULL
            ? read_settings(client, url, options)
            : pawl__fail(PAWL_NO_MEMORY, "no memory, descriptors or randomness left for a client");
    if (status == PAWL_OK) {
        status = open_engine(client, url);
    }
    if (status != PAWL_OK) {
        pawl__keeper_stop(client);
        pawl__courier_stop(client);
        pawl__client_free(client);
        return status;
    }
    pawl__registry_add(client);
    *client_out = client;
    return PAWL_OK;
}

pawl_status pawl__client_open(
    const char *url, const pawl_client_options *options, struct pawl_client **client_out)
{
    struct pawl__url parsed;
    pawl_status status = pawl__url_parse(url, &parsed);
    if (status == PAWL_OK) {
        pawl__cancel_off();
        status = open_url(&parsed, options, client_out);
        pawl__cancel_on();
        pawl__url_free(&parsed);
    }
    return status;
}

/* ===== Locks of a client ===== */

/* A name that is known already by other rules. */
static pawl_status refuse_family(const char *name, enum pawl__family other)
{
    char shown[128];
    return pawl__fail(PAWL_INVALID,
        "'%s' is open in this client as %s; give different things different names",
        pawl__printable(name, strlen(name), shown, sizeof shown), pawl__family_word(other));
}

/* It cannot be opened after all. */
static pawl_status detach(struct pawl_client *client, struct pawl_lock *lock, pawl_status status)
{
    pawl__client_lock(client);
    client->locks--;
    pawl__handle_detach(&client->machine, &lock->handle, pawl__now_us());
    pawl__client_unlock(client, false);
    return status;
}

static pawl_status attach(struct pawl_client *client, struct pawl_lock *lock, const char *name,
    enum pawl__family family, const struct pawl__terms *terms)
{
    bool fresh = false;
    struct pawl__name *record = NULL;
    pawl__client_lock(client);
    lock->handle.terms = pawl__terms_share(client, terms);
    if (lock->handle.terms != NULL) {
        record = pawl__machine_name(&client->machine, name, strlen(name), family, &fresh);
    }
    if (record != NULL && pawl__name_family(record) != family) {
        const enum pawl__family other = pawl__name_family(record);
        pthread_mutex_unlock(&client->mutex);
        return refuse_family(name, other);
    }
    if (record != NULL) {
        pawl__handle_attach(&lock->handle, record);
        atomic_fetch_add(&record->keepers, fresh ? 2 : 1);
        client->locks++;
    }
    pthread_mutex_unlock(&client->mutex);
    if (record == NULL) {
        return pawl__fail(PAWL_NO_MEMORY, "no memory for a lock");
    }
    if (!fresh) {
        return PAWL_OK;
    }
    const pawl_status status = client->engine->place_open(client->self, pawl__name_place(record));
    record->opened = status == PAWL_OK;
    return status == PAWL_OK ? status : detach(client, lock, status);
}

/* Whoever opens a name that nobody has asked about yet asks, at the same time as others: one after
 * the other would each wait for those before it. */
static pawl_status check(struct pawl_client *client, struct pawl_lock *lock)
{
    struct pawl__name *record = lock->handle.name;
    if (client->engine->place_check == NULL || atomic_load(&record->checked)) {
        return PAWL_OK;
    }
    const pawl_status status = client->engine->place_check(client->self, pawl__name_place(record));
    atomic_store(&record->checked, status == PAWL_OK);
    return status == PAWL_OK ? status : detach(client, lock, status);
}

pawl_status pawl__client_attach(struct pawl_client *client, struct pawl_lock *lock,
    const char *name, enum pawl__family family, const struct pawl__terms *terms)
{
    pthread_mutex_lock(&client->opening);
    const pawl_status status = attach(client, lock, name, family, terms);
    pthread_mutex_unlock(&client->opening);
    return status == PAWL_OK ? check(client, lock) : status;
}

/* ===== Closing ===== */

#define LAST_MOMENT_US 50000 /* what a close has left at least for what callers left behind */

/* End all waits and release what is held, then wait until every caller has left, which they do by
 * their own limits. */
static void expel_callers(struct pawl_client *client)
{
    pawl__client_lock(client);
    int64_t now_us = pawl__now_us();
    pawl__machine_expel(&client->machine, now_us);
    client->machine.unheard = 0;
    pawl__machine_release_all(&client->machine, now_us);
    pawl__client_unlock(client, false);
    pawl__call_wait_all_left(client);
}

/* One round of waiting for what is under way; serves the timers by which it is tried again. */
static void drain_once(struct pawl_client *client, struct pawl__waiter *waiter, int64_t deadline_us)
{
    pawl__client_lock(client);
    pawl__machine_tick(&client->machine, pawl__now_us());
    int64_t until_us = pawl__min64(deadline_us, pawl__machine_due(&client->machine));
    pawl__client_unlock(client, client->engine->drive != NULL);
    if (pawl__waiter_done(waiter)) {
        return;
    }
    if (client->engine->drive != NULL) {
        client->engine->drive(client->self, PAWL__AWAIT_ANSWER, waiter, until_us);
    } else {
        pawl__waiter_sleep(waiter, until_us);
    }
}

/* Give what is under way until the deadline to end. Answers what may be left of it. */
static unsigned drain(struct pawl_client *client, int64_t deadline_us)
{
    struct pawl__waiter waiter;
    pawl__waiter_init(&waiter);
    pawl__client_lock(client);
    pawl__machine_release_all(&client->machine, pawl__now_us());
    client->drained = &waiter;
    pawl__client_unlock(client, client->engine->drive != NULL);
    while (!pawl__waiter_done(&waiter) && pawl__now_us() < deadline_us) {
        drain_once(client, &waiter, deadline_us);
    }
    pawl__client_lock(client);
    client->drained = NULL;
    const unsigned unheard = pawl__machine_unheard(&client->machine);
    pthread_mutex_unlock(&client->mutex);
    return unheard;
}

/* The engine's part of every watch; the rest is freed by the user. Nobody is inside. */
static void end_watches(struct pawl_client *client)
{
    struct pawl__list *node = client->watches.next;
    for (; node != &client->watches; node = node->next) {
        struct pawl_watch *watch = PAWL__CONTAINER(node, struct pawl_watch, node);
        client->engine->watch_close(client->self, watch->engine_watch);
        watch->engine_watch = NULL;
    }
}

/* Nobody is inside any more: take everything apart. */
static void dismantle(struct pawl_client *client)
{
    pawl__registry_remove(client);
    pawl__keeper_stop(client);
    end_watches(client);
    if (client->engine->stop != NULL) {
        client->engine->stop(client->self);
    }
    pawl__courier_stop(client);
    pawl__client_lock(client);
    pawl__machine_abolish(&client->machine);
    pawl__client_unlock(client, false);
    client->engine->close(client->self);
}

/* Free forsaken watches. True: no lock and no watch is left of a closed client. Mutex held. */
static bool clear_out(struct pawl_client *client)
{
    struct pawl__list *node = client->watches.next;
    while (node != &client->watches) {
        struct pawl_watch *watch = PAWL__CONTAINER(node, struct pawl_watch, node);
        node = node->next;
        if (watch->forsaken) {
            pawl__list_remove(&watch->node);
            pawl__watch_free(watch);
        }
    }
    return client->locks == 0 && pawl__list_empty(&client->watches);
}

pawl_status pawl__client_close(struct pawl_client *client)
{
    if (!pawl__call_close(client)) {
        return pawl__fail(PAWL_MISUSE, "the client is being closed already");
    }
    pawl__cancel_off();
    int64_t deadline_us = pawl__now_us() + client->host.settings.timeout_us;
    expel_callers(client);
    const unsigned unheard =
        drain(client, pawl__max64(deadline_us, pawl__now_us() + LAST_MOMENT_US));
    dismantle(client);

    pthread_mutex_lock(&client->mutex);
    client->closed = true;
    bool last = clear_out(client);
    pthread_cond_broadcast(&client->left);
    pthread_mutex_unlock(&client->mutex);
    if (last) {
        pawl__client_free(client);
    }
    pawl__cancel_on();
    return unheard == 0 ? PAWL_OK : pawl__fail_unheard(unheard);
}

/* ===== Closing a lock ===== */

/* Release what was acquired through this lock; whoever closes it does so for the owner. */
static pawl_status release_through(struct pawl_client *client, struct pawl_lock *lock)
{
    pawl_status worst = PAWL_OK;
    for (;;) {
        pthread_mutex_lock(&client->mutex);
        uint64_t owner = pawl__handle_holder(&lock->handle);
        pthread_mutex_unlock(&client->mutex);
        if (owner == 0) {
            return worst;
        }
        struct pawl__request request = {
            .kind = PAWL__WANT_RELEASE, .handle = &lock->handle, .owner = owner};
        pawl_status status = pawl__call_wait(client, &request);
        pawl__call_explain(lock, &request);
        worst = status != PAWL_OK ? status : worst;
    }
}

/* The client was closed before, or is right now. */
static pawl_status close_orphan(struct pawl_client *client, struct pawl_lock *lock)
{
    pthread_mutex_lock(&client->mutex);
    while (!client->closed) {
        pthread_cond_wait(&client->left, &client->mutex);
    }
    client->locks--;
    bool last = clear_out(client);
    pthread_mutex_unlock(&client->mutex);
    pawl__lock_close(lock);
    if (last) {
        pawl__client_free(client);
    }
    return PAWL_OK;
}

pawl_status pawl__client_detach(struct pawl_client *client, struct pawl_lock *lock)
{
    if (!pawl__call_enter(client)) {
        return close_orphan(client, lock);
    }
    pawl__client_lock(client);
    lock->handle.closed = true;
    pawl__machine_cancel(&client->machine, &lock->handle, pawl__now_us());
    pawl__client_unlock(client, false);

    pawl_status status = release_through(client, lock);
    pawl__client_lock(client);
    client->locks--;
    pawl__handle_detach(&client->machine, &lock->handle, pawl__now_us());
    pawl__client_unlock(client, false);
    pawl__courier_wait_for(client, lock);
    pawl__lock_close(lock);
    pawl__call_leave(client);
    return status;
}

/* The same for a watch, without waiting: it may be a callback of the client that closes it. */
static void forsake(struct pawl_client *client, struct pawl_watch *watch)
{
    pthread_mutex_lock(&client->mutex);
    watch->forsaken = true;
    bool last = client->closed && clear_out(client);
    pthread_mutex_unlock(&client->mutex);
    if (last) {
        pawl__client_free(client);
    }
}

void pawl__client_unwatch(struct pawl_client *client, struct pawl_watch *watch)
{
    if (!pawl__call_enter(client)) {
        forsake(client, watch);
        return;
    }
    pthread_mutex_lock(&client->mutex);
    pawl__list_remove(&watch->node);
    pthread_mutex_unlock(&client->mutex);
    client->engine->watch_close(client->self, watch->engine_watch);
    pawl__watch_free(watch);
    pawl__call_leave(client);
}
