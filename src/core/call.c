/* SPDX-License-Identifier: Apache-2.0 */
/* One call of a user. Blocking is asynchronous plus a wait: both start the same request, and the
 * machine does not know the difference. Who waits lends its thread meanwhile: it drives the engine
 * while an answer or a wake-up is due to it, serves its own timers, and otherwise sleeps. */
#include "core/client.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/thread.h"
#include "core/leases.h"

/* client->calls counts the calls under way, and lock->users the calls and callbacks; both have this
 * bit once the thing is closing. */
#define CLOSING (1u << 31)

/* A thread that is canceled inside, while it reads for others or holds a mutex, would leave
 * everybody stuck; so it is canceled when it has left. */
bool pawl__call_enter(struct pawl_client *client)
{
    pawl__cancel_off();
    if ((atomic_fetch_add(&client->calls, 1) & CLOSING) == 0) {
        return true;
    }
    pawl__call_leave(client);
    return false;
}

/* The client may be gone as soon as the count has gone down, unless it is closing and the mutex is
 * held. */
void pawl__call_leave(struct pawl_client *client)
{
    unsigned calls = atomic_load(&client->calls);
    while ((calls & CLOSING) == 0) {
        if (atomic_compare_exchange_weak(&client->calls, &calls, calls - 1)) {
            pawl__cancel_on();
            return;
        }
    }
    pthread_mutex_lock(&client->mutex);
    atomic_fetch_sub(&client->calls, 1);
    pthread_cond_broadcast(&client->left);
    pthread_mutex_unlock(&client->mutex);
    pawl__cancel_on();
}

bool pawl__call_close(struct pawl_client *client)
{
    return (atomic_fetch_or(&client->calls, CLOSING) & CLOSING) == 0;
}

bool pawl__call_closing(const struct pawl_client *client)
{
    return (atomic_load(&client->calls) & CLOSING) != 0;
}

void pawl__call_wait_all_left(struct pawl_client *client)
{
    pthread_mutex_lock(&client->mutex);
    while (atomic_load(&client->calls) != CLOSING) {
        pthread_cond_wait(&client->left, &client->mutex);
    }
    pthread_mutex_unlock(&client->mutex);
}

static void lock_free(struct pawl_lock *lock)
{
    pawl__leases_free(&lock->handle); /* if the client was closed before */
    const struct pawl__handle handle = lock->handle;
    struct pawl_lock *other = handle.extra != NULL ? handle.extra->stands_for : NULL;
    pawl__free(lock);
    pawl__free(handle.extra);
    if (handle.terms != NULL) {
        pawl__terms_leave(handle.terms);
    }
    if (handle.name != NULL) {
        pawl__name_leave(handle.name);
    }
    if (other != NULL) {
        pawl__lock_leave(other);
    }
}

void pawl__lock_enter(struct pawl_lock *lock)
{
    atomic_fetch_add(&lock->users, 1);
}

void pawl__lock_leave(struct pawl_lock *lock)
{
    if (atomic_fetch_sub(&lock->users, 1) == (CLOSING | 1)) {
        lock_free(lock);
    }
}

void pawl__lock_close(struct pawl_lock *lock)
{
    if (atomic_fetch_or(&lock->users, CLOSING) == 0) {
        lock_free(lock);
    }
}

/* Turn the duration into deadlines and start. The mutex is held. True: it waits for an answer now.
 */
static bool begin(struct pawl_client *client, struct pawl__request *request)
{
    int64_t timeout_us = client->machine.timeout_us;
    int64_t now_us = pawl__now_us();
    int64_t wait_us = request->wait_us;
    request->start_us = now_us;
    request->wait_us = pawl__later(now_us, wait_us);
    request->end_us = pawl__later(now_us, pawl__max64(wait_us, timeout_us));
    pawl__machine_start(&client->machine, request, now_us);
    return !request->finished && request->phase == PAWL__ASKING;
}

/* The same from outside. Takes what is to be done; the mutex is free afterwards. */
static bool start(struct pawl_client *client, struct pawl__request *request,
    struct pawl__todo *todo, int64_t *due_us)
{
    pthread_mutex_lock(&client->mutex);
    bool asks = begin(client, request);
    *due_us = request->finished ? PAWL__NEVER : pawl__request_due(request);
    pawl__client_take(client, todo);
    return asks;
}

/* Where the request waits now, until when its thread may sleep, and as whose waiter. Serves its
 * timers if they are due. */
static enum pawl__phase look(struct pawl_client *client, struct pawl__request *request,
    int64_t *until_us, bool *finished, struct pawl__waiter **waiter)
{
    pawl__client_lock(client);
    int64_t now_us = pawl__now_us();
    if (!request->finished && now_us >= pawl__request_due(request)) {
        pawl__machine_tick(&client->machine, now_us);
    }
    struct pawl__request *voice =
        pawl__request_party(request) != NULL ? pawl__request_voice(request) : request;
    enum pawl__phase phase = voice->phase;
    *waiter = voice->waiter;
    *finished = request->finished;
    *until_us = request->finished ? PAWL__NEVER : pawl__request_due(request);
    pawl__client_unlock(client, phase == PAWL__ASKING && !*finished);
    return phase;
}

static void lend_thread(struct pawl_client *client, struct pawl__request *request)
{
    while (!pawl__waiter_done(request->waiter)) {
        int64_t until_us = PAWL__NEVER;
        bool finished = false;
        struct pawl__waiter *waiter = NULL;
        enum pawl__phase phase = look(client, request, &until_us, &finished, &waiter);
        if (pawl__waiter_done(request->waiter)) {
            return;
        }
        /* Finished, but not told yet: whoever finished it still has to touch the request. */
        if (finished || phase == PAWL__QUEUED || client->engine->drive == NULL) {
            pawl__waiter_sleep(waiter, until_us);
        } else {
            client->engine->drive(client->self,
                phase == PAWL__ASKING ? PAWL__AWAIT_ANSWER : PAWL__AWAIT_WAKE, waiter, until_us);
        }
    }
}

/* The request ended without its answer (canceled, out of time), but the engine may count on this
 * thread to send what it asked or to read what comes of it: an acquire that is granted now has to
 * be taken back. Driving until now, for nothing, leaves that to others. */
static void leave_to_others(struct pawl_client *client, const struct pawl__request *request)
{
    bool unanswered = request->status == PAWL_CANCELED || request->status == PAWL_UNAVAILABLE;
    if (unanswered && client->engine->drive != NULL) {
        struct pawl__waiter nobody;
        pawl__waiter_init(&nobody);
        client->engine->drive(client->self, PAWL__AWAIT_ANSWER, &nobody, pawl__now_us());
    }
}

pawl_status pawl__call_wait(struct pawl_client *client, struct pawl__request *request)
{
    struct pawl__todo todo;
    struct pawl__waiter waiter;
    int64_t due_us = PAWL__NEVER;
    pawl__waiter_init(&waiter);
    request->waiter = &waiter;
    bool drives = start(client, request, &todo, &due_us) && client->engine->drive != NULL;
    struct pawl__op *ops = todo.ops;
    if (drives && ops != NULL && client->engine->ask != NULL) {
        /* The common case, without another look: one question, one answer. */
        todo.ops = NULL;
        pawl__client_carry_out(client, &todo, true);
        client->engine->ask(client->self, ops, &waiter, due_us);
    } else {
        pawl__client_carry_out(client, &todo, drives);
    }
    lend_thread(client, request);
    request->waiter = NULL;
    leave_to_others(client, request);
    return request->status;
}

/* Start several. True: one of them waits for an answer now. */
static bool start_all(struct pawl_client *client, struct pawl__request *const requests[],
    size_t count, struct pawl__todo *todo)
{
    bool any = false;
    pthread_mutex_lock(&client->mutex);
    for (size_t i = 0; i < count; i++) {
        any = begin(client, requests[i]) || any;
    }
    for (size_t i = 0; i < count && !any; i++) { /* with the last of its party */
        any = !requests[i]->finished && requests[i]->phase == PAWL__ASKING;
    }
    pawl__client_take(client, todo);
    return any;
}

static bool asks_now(struct pawl_client *client, const struct pawl__request *request)
{
    pthread_mutex_lock(&client->mutex);
    bool asks = !request->finished && request->phase == PAWL__ASKING;
    pthread_mutex_unlock(&client->mutex);
    return asks;
}

void pawl__call_ask_all(
    struct pawl_client *client, struct pawl__request *const requests[], size_t count, bool driven)
{
    struct pawl__todo todo;
    const bool asks = start_all(client, requests, count, &todo);
    pawl__client_carry_out(client, &todo, driven && asks && client->engine->drive != NULL);
}

/* Who asks is waited for first: the engine may count on this thread to send what was asked, and one
 * that only stands in line would let it sleep. All have the same time, so whoever looks at the
 * clock for one does so for all. */
void pawl__call_await_all(
    struct pawl_client *client, struct pawl__request *const requests[], size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (asks_now(client, requests[i])) {
            lend_thread(client, requests[i]);
        }
    }
    for (size_t i = 0; i < count; i++) {
        lend_thread(client, requests[i]);
        requests[i]->waiter = NULL;
        leave_to_others(client, requests[i]);
    }
}

void pawl__call_start(struct pawl_client *client, struct pawl__request *request)
{
    struct pawl__todo todo;
    int64_t ignored_us;
    start(client, request, &todo, &ignored_us);
    pawl__client_carry_out(client, &todo, false);
}

/* False: it is closed, which inside `done` it may be. */
static bool start_async(struct pawl_client *client, struct pawl__async *async)
{
    struct pawl__todo todo;
    pthread_mutex_lock(&client->mutex);
    const bool open = !async->request.handle->closed;
    if (open) {
        pawl__lock_enter(pawl__async_lock(async)); /* until its callback has returned */
        begin(client, &async->request);
    }
    pawl__client_take(client, &todo);
    pawl__client_carry_out(client, &todo, false);
    return open;
}

pawl_status pawl__call_launch(struct pawl_lock *lock, struct pawl__async *async)
{
    struct pawl_client *client = lock->client;
    if (!pawl__call_enter(client)) {
        return pawl__fail(PAWL_MISUSE, "the client is closed");
    }
    async->request.handle = &lock->handle;
    const bool started = start_async(client, async);
    pawl__call_leave(client);
    return started ? PAWL_OK : pawl__fail(PAWL_MISUSE, "it is closed");
}

pawl_status pawl__call_async(
    struct pawl_lock *lock, const struct pawl__request *request, pawl_callback done, void *arg)
{
    struct pawl__async *async = pawl__alloc(sizeof *async);
    if (async == NULL) {
        return pawl__fail(PAWL_NO_MEMORY, "no memory for an asynchronous call");
    }
    async->request = *request;
    async->done = done;
    async->arg = arg;
    const pawl_status status = pawl__call_launch(lock, async);
    if (status != PAWL_OK) {
        pawl__free(async);
    }
    return status;
}

void pawl__call_cancel(struct pawl_lock *lock)
{
    struct pawl_client *client = lock->client;
    if (!pawl__call_enter(client)) {
        return;
    }
    pawl__lock_enter(lock);
    pawl__client_lock(client);
    pawl__machine_cancel(&client->machine, &lock->handle, pawl__now_us());
    pawl__client_unlock(client, false);
    pawl__lock_leave(lock);
    pawl__call_leave(client);
}
