/* SPDX-License-Identifier: Apache-2.0 */
/* The courier: brings the user's callbacks what is due to them, one after the other, in the order
 * in which it became due, with no mutex held. Usually that is a thread, started when the first
 * callback is due; with options.dispatch it is whoever calls pawl_client_dispatch(). */
#include "core/client.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fds.h"
#include "base/thread.h"

#include <assert.h>
#include <sys/eventfd.h>

#define LOG_LINES_MAX 64 /* waiting to be delivered */

enum { DELIVER_REQUEST = 1, DELIVER_NOTICE = 2, DELIVER_LOG = 3 };

struct log_line {
    struct pawl__delivery delivery;
    pawl_log_level level;
    char *message;
};

bool pawl__courier_init(struct pawl__courier *courier, const pawl_client_options *options)
{
    pawl__list_init(&courier->due);
    pthread_cond_init(&courier->changed, NULL);
    courier->log = options->log;
    courier->log_arg = options->log_arg;
    courier->dispatch = options->dispatch;
    courier->fd = options->dispatch ? pawl__fd_eventfd() : -1;
    return !options->dispatch || courier->fd >= 0;
}

void pawl__courier_fini(struct pawl__courier *courier)
{
    pawl__fd_close(courier->fd);
    pthread_cond_destroy(&courier->changed);
}

/* ===== Delivering; the mutex is held on entry and on return, and let go of meanwhile ===== */

static void begin(struct pawl_client *client, struct pawl_lock *lock)
{
    client->courier.running = lock;
    pthread_mutex_unlock(&client->mutex);
    pawl__in_callback = true;
}

static void end(struct pawl_client *client)
{
    pawl__in_callback = false;
    pthread_mutex_lock(&client->mutex);
    client->courier.running = NULL;
    pthread_cond_broadcast(&client->courier.changed);
}

static void deliver_request(struct pawl_client *client, struct pawl__request *request)
{
    struct pawl__async *async = PAWL__CONTAINER(request, struct pawl__async, request);
    struct pawl_lock *lock = pawl__async_lock(async);
    const bool kept = request->kept;
    begin(client, lock);
    pawl__call_explain(lock, request);
    async->done(lock, request->status, async->arg);
    end(client);
    if (!kept) {
        pawl__free(async);
    }
    pawl__lock_leave(lock);
}

/* Whose callbacks are called for this handle. */
static struct pawl_lock *told_lock(struct pawl__handle *handle)
{
    const bool other = handle->extra != NULL && handle->extra->stands_for != NULL;
    return other ? handle->extra->stands_for : PAWL__CONTAINER(handle, struct pawl_lock, handle);
}

static void deliver_notice(struct pawl_client *client, struct pawl__delivery *notice)
{
    struct pawl_lock *lock = NULL;
    pawl_event_callback callback = NULL;
    const struct pawl__tenure *tenure = pawl__notice_tenure(notice);
    if (tenure->handle != NULL) {
        lock = told_lock(tenure->handle);
        const struct pawl__terms *terms = lock->handle.terms;
        callback = notice->status == PAWL_LOST ? terms->on_lost : terms->on_risk;
        callback = lock->handle.detached ? NULL : callback; /* its twin is open still */
    }
    if (callback != NULL) {
        const pawl_event event = {sizeof event, lock, notice->status, tenure->token, tenure->owner};
        void *arg = lock->handle.extra != NULL ? lock->handle.extra->event_arg : NULL;
        begin(client, lock);
        callback(&event, arg);
        end(client);
    }
    pawl__machine_notice_done(&client->machine, notice, pawl__now_us());
    pawl__client_unlock(client, false);
    pthread_mutex_lock(&client->mutex);
}

static void deliver_log(struct pawl_client *client, struct log_line *line)
{
    client->courier.log_count--;
    begin(client, NULL);
    client->courier.log(line->level, line->message, client->courier.log_arg);
    end(client);
    pawl__free(line->message);
    pawl__free(line);
}

static void deliver(struct pawl_client *client, struct pawl__list *node)
{
    struct pawl__delivery *delivery = PAWL__CONTAINER(node, struct pawl__delivery, node);
    switch (delivery->kind) {
    case DELIVER_REQUEST:
        deliver_request(client, PAWL__CONTAINER(delivery, struct pawl__request, delivery));
        break;
    case DELIVER_NOTICE:
        deliver_notice(client, delivery);
        break;
    default:
        deliver_log(client, PAWL__CONTAINER(delivery, struct log_line, delivery));
        break;
    }
}

/* All that is due. Callbacks run one after another: if somebody delivers already, that is enough.
 */
static void deliver_due(struct pawl_client *client)
{
    struct pawl__courier *courier = &client->courier;
    if (courier->busy) {
        return;
    }
    courier->busy = true;
    struct pawl__list *node = pawl__list_pop(&courier->due);
    while (node != NULL) {
        deliver(client, node);
        node = pawl__list_pop(&courier->due);
    }
    courier->busy = false;
    pthread_cond_broadcast(&courier->changed);
}

void pawl__courier_run(struct pawl_client *client)
{
    pthread_mutex_lock(&client->mutex);
    if (client->courier.fd >= 0) {
        eventfd_t ignored;
        eventfd_read(client->courier.fd, &ignored);
    }
    deliver_due(client);
    pthread_mutex_unlock(&client->mutex);
}

/* ===== The thread ===== */

static void *run(void *arg)
{
    struct pawl_client *client = arg;
    struct pawl__courier *courier = &client->courier;
    pthread_mutex_lock(&client->mutex);
    while (!courier->stopping || !pawl__list_empty(&courier->due)) {
        deliver_due(client);
        if (!courier->stopping && pawl__list_empty(&courier->due)) {
            pthread_cond_wait(&courier->changed, &client->mutex);
        }
    }
    pthread_mutex_unlock(&client->mutex);
    return NULL;
}

/* Something is due: see that it will be delivered. Mutex held. */
static void alert(struct pawl_client *client)
{
    struct pawl__courier *courier = &client->courier;
    if (courier->dispatch) {
        eventfd_write(courier->fd, 1);
        return;
    }
    if (!courier->started && !courier->stopping) {
        courier->started = pawl__thread_start(&courier->thread, "pawl-courier", run, client);
    }
    pthread_cond_broadcast(&courier->changed);
}

/* Mutex held. */
static void add(struct pawl_client *client, struct pawl__delivery *delivery, unsigned char kind)
{
    delivery->kind = kind;
    pawl__list_push(&client->courier.due, &delivery->node);
    alert(client);
}

/* A release that nobody waits for is over when it was sent: who is told, and asks then, has to come
 * behind it. */
static bool is_told_later(const struct pawl__todo *todo, const struct pawl__request *request)
{
    return request->kind == PAWL__WANT_RELEASE && request->status == PAWL_OK && todo->ops != NULL;
}

void pawl__courier_take_finished(struct pawl_client *client, struct pawl__todo *todo)
{
    struct pawl__list *node = NULL;
    while ((node = pawl__list_pop(&client->machine.finished)) != NULL) {
        struct pawl__request *request = PAWL__CONTAINER(node, struct pawl__request, node);
        if (request->waiter != NULL || request->hook != NULL || is_told_later(todo, request)) {
            pawl__list_push(&todo->finished, node);
        } else {
            add(client, &request->delivery, DELIVER_REQUEST);
        }
    }
    while ((node = pawl__list_pop(&client->machine.notices)) != NULL) {
        add(client, PAWL__CONTAINER(node, struct pawl__delivery, node), DELIVER_NOTICE);
    }
}

void pawl__courier_tell(struct pawl_client *client, struct pawl__request *request)
{
    if (request->hook != NULL) {
        request->hook(request);
    } else if (request->waiter != NULL) {
        pawl__waiter_finish(request->waiter);
    } else {
        pthread_mutex_lock(&client->mutex);
        add(client, &request->delivery, DELIVER_REQUEST);
        pthread_mutex_unlock(&client->mutex);
    }
}

/* What is told to a part of a composite goes no further than there. */
void pawl__courier_tell_composites(struct pawl_client *client)
{
    struct pawl__list *node = client->machine.notices.next;
    while (node != &client->machine.notices) {
        struct pawl__delivery *notice = PAWL__CONTAINER(node, struct pawl__delivery, node);
        struct pawl__handle *handle = pawl__notice_tenure(notice)->handle;
        node = node->next;
        if (handle != NULL && handle->extra != NULL && handle->extra->nudge != NULL) {
            handle->extra->nudge(PAWL__CONTAINER(handle, struct pawl_lock, handle));
            pawl__list_remove(&notice->node);
            pawl__machine_notice_done(&client->machine, notice, pawl__now_us());
            node = client->machine.notices.next; /* that was a step, too */
        }
    }
}

void pawl__courier_log(struct pawl_client *client, pawl_log_level level, const char *message)
{
    if (client->courier.log == NULL) {
        return;
    }
    struct log_line *line = pawl__alloc(sizeof *line);
    char *copy = pawl__strdup(message);
    if (line == NULL || copy == NULL) {
        pawl__free(line);
        pawl__free(copy);
        return;
    }
    line->level = level;
    line->message = copy;
    pthread_mutex_lock(&client->mutex);
    bool room = client->courier.log_count < LOG_LINES_MAX;
    if (room) {
        client->courier.log_count++;
        add(client, &line->delivery, DELIVER_LOG);
    }
    pthread_mutex_unlock(&client->mutex);
    if (!room) {
        pawl__free(copy); /* nobody reads them: the older ones are enough */
        pawl__free(line);
    }
}

void pawl__courier_wait_for(struct pawl_client *client, const struct pawl_lock *lock)
{
    pthread_mutex_lock(&client->mutex);
    while (client->courier.running == lock) {
        pthread_cond_wait(&client->courier.changed, &client->mutex);
    }
    pthread_mutex_unlock(&client->mutex);
}

void pawl__courier_stop(struct pawl_client *client)
{
    struct pawl__courier *courier = &client->courier;
    pthread_mutex_lock(&client->mutex);
    courier->stopping = true;
    bool started = courier->started;
    pthread_cond_broadcast(&courier->changed);
    pthread_mutex_unlock(&client->mutex);
    if (started) {
        pthread_join(courier->thread, NULL);
    }
    pawl__courier_run(client); /* what no thread has delivered */
}
