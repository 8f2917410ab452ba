/* SPDX-License-Identifier: Apache-2.0 */
/* GET /events: see events.h.
 *
 * A thread of its own draws a frame for each item that somebody listens to, five times a second,
 * and hands it to the listeners. A listener that has nothing to send is suspended; one that reads
 * slowly misses frames, and never makes us keep more than one. */
#include "serve/events.h"

#include "common/clock.h"
#include "common/redis.h"
#include "serve/door.h"
#include "serve/routes.h"
#include "serve/view.h"

#include <errno.h>
#include <microhttpd.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>

enum { TICK_MS = 200, LISTENERS_MAX = 100, BLOCK_SIZE = 4096 };
#define DEFAULT_ITEM "10001"

struct listener {
    struct events *events;
    struct MHD_Connection *connection;
    char item[ITEM_SIZE];
    bool listed;
    bool suspended;
    char *frame; /* what is to be sent; NULL: nothing */
    size_t size, sent;
    struct listener *previous, *next;
};

struct events {
    struct shop *shop;
    pthread_t thread;
    pthread_mutex_t mutex; /* of all below */
    pthread_cond_t changed;
    struct listener *listeners;
    size_t count;
    bool stopping;

    /* The thread's own. */
    struct seller seller;
    pawl_client *lock;
    struct view *views;
};

/* ===== Listeners ===== */

/* For the library: the next bytes of the stream. */
static ssize_t read_stream(void *cls, uint64_t position, char *buffer, size_t size)
{
    (void)position;
    struct listener *listener = cls;
    struct events *events = listener->events;
    ssize_t result = 0;
    pthread_mutex_lock(&events->mutex);
    if (listener->frame != NULL) {
        const size_t left = listener->size - listener->sent;
        const size_t count = left < size ? left : size;
        memcpy(buffer, listener->frame + listener->sent, count);
        listener->sent += count;
        if (listener->sent == listener->size) {
            free(listener->frame);
            listener->frame = NULL;
        }
        result = (ssize_t)count;
    } else if (events->stopping) {
        result = MHD_CONTENT_READER_END_OF_STREAM;
    } else {
        listener->suspended = true;
        MHD_suspend_connection(listener->connection);
    }
    pthread_mutex_unlock(&events->mutex);
    return result;
}

static void wake(struct listener *listener)
{
    if (listener->suspended) {
        listener->suspended = false;
        MHD_resume_connection(listener->connection);
    }
}

static void unlist(struct listener *listener)
{
    struct events *events = listener->events;
    if (listener->next != NULL) {
        listener->next->previous = listener->previous;
    }
    if (listener->previous != NULL) {
        listener->previous->next = listener->next;
    } else {
        events->listeners = listener->next;
    }
    events->count--;
}

/* For the library: the stream is over. */
static void forget_listener(void *cls)
{
    struct listener *listener = cls;
    struct events *events = listener->events;
    pthread_mutex_lock(&events->mutex);
    if (listener->listed) {
        unlist(listener);
    }
    pthread_mutex_unlock(&events->mutex);
    free(listener->frame);
    free(listener);
}

static bool add_listener(struct events *events, struct listener *listener)
{
    pthread_mutex_lock(&events->mutex);
    const bool room = events->count < LISTENERS_MAX && !events->stopping;
    if (room) {
        listener->listed = true;
        listener->next = events->listeners;
        if (events->listeners != NULL) {
            events->listeners->previous = listener;
        }
        events->listeners = listener;
        events->count++;
        pthread_cond_signal(&events->changed);
    }
    pthread_mutex_unlock(&events->mutex);
    return room;
}

/* Give a frame to all who listen to this item. */
static void hand_out(struct events *events, const char *item, const char *frame, size_t size)
{
    pthread_mutex_lock(&events->mutex);
    for (struct listener *listener = events->listeners; listener != NULL;
         listener = listener->next) {
        if (listener->frame == NULL && strcmp(listener->item, item) == 0) {
            listener->frame = malloc(size);
            if (listener->frame != NULL) {
                memcpy(listener->frame, frame, size);
                listener->size = size;
                listener->sent = 0;
                wake(listener);
            }
        }
    }
    pthread_mutex_unlock(&events->mutex);
}

/* ===== Frames ===== */

static void draw(struct events *events, struct view *view)
{
    json_t *json = view_draw(view, &events->seller, events->lock);
    char *text = json != NULL ? json_dumps(json, JSON_COMPACT | JSON_REAL_PRECISION(6)) : NULL;
    char *frame = NULL;
    if (text != NULL) {
        const int size = asprintf(&frame, "data: %s\n\n", text);
        if (size > 0) {
            hand_out(events, view->id, frame, (size_t)size);
            free(frame);
        }
    }
    free(text);
    json_decref(json);
}

static bool is_wanted(struct events *events, const char *item)
{
    pthread_mutex_lock(&events->mutex);
    const struct listener *listener = events->listeners;
    while (listener != NULL && strcmp(listener->item, item) != 0) {
        listener = listener->next;
    }
    pthread_mutex_unlock(&events->mutex);
    return listener != NULL;
}

static bool has_view(const struct events *events, const char *item)
{
    const struct view *view = events->views;
    while (view != NULL && strcmp(view->id, item) != 0) {
        view = view->next;
    }
    return view != NULL;
}

/* A view for each item that is listened to, and for no other. */
static void arrange_views(struct events *events)
{
    for (struct view **at = &events->views; *at != NULL;) {
        struct view *view = *at;
        if (is_wanted(events, view->id)) {
            at = &view->next;
        } else {
            *at = view->next;
            free(view);
        }
    }
    pthread_mutex_lock(&events->mutex);
    for (const struct listener *listener = events->listeners; listener != NULL;
         listener = listener->next) {
        struct view *view = has_view(events, listener->item) ? NULL : calloc(1, sizeof *view);
        if (view != NULL) {
            snprintf(view->id, sizeof view->id, "%s", listener->item);
            view->next = events->views;
            events->views = view;
        }
    }
    pthread_mutex_unlock(&events->mutex);
}

/* To see who holds the lock. If it cannot be opened, the page does without. */
static void open_lock(struct events *events)
{
    pawl_client_options options = PAWL_CLIENT_OPTIONS_INIT;
    options.lazy = true;
    options.guard = PAWL_GUARD_OFF; /* only looked at */
    if (events->lock == NULL &&
        pawl_client_open(shop_lock_url(events->shop), &options, &events->lock) != PAWL_OK) {
        events->lock = NULL;
    }
}

/* Wait until the next tick, and for somebody to listen; false: it is over. */
static bool wait_for_tick(struct events *events)
{
    struct timespec tick;
    clock_gettime(CLOCK_MONOTONIC, &tick);
    tick.tv_nsec += TICK_MS * 1000000;
    if (tick.tv_nsec >= 1000000000) {
        tick.tv_sec++;
        tick.tv_nsec -= 1000000000;
    }
    pthread_mutex_lock(&events->mutex);
    while (!events->stopping &&
           pthread_cond_timedwait(&events->changed, &events->mutex, &tick) != ETIMEDOUT) {
    }
    while (!events->stopping && events->listeners == NULL) {
        pthread_cond_wait(&events->changed, &events->mutex);
    }
    const bool goes_on = !events->stopping;
    pthread_mutex_unlock(&events->mutex);
    return goes_on;
}

/* Asked between two views: each takes seconds if Redis does not answer. */
static bool is_over(struct events *events)
{
    pthread_mutex_lock(&events->mutex);
    const bool over = events->stopping;
    pthread_mutex_unlock(&events->mutex);
    return over;
}

static void *tell(void *arg)
{
    struct events *events = arg;
    while (wait_for_tick(events)) {
        open_lock(events);
        arrange_views(events);
        for (struct view *view = events->views; view != NULL && !is_over(events);
             view = view->next) {
            draw(events, view);
        }
    }
    return NULL;
}

/* ===== Its life ===== */

struct events *events_open(struct shop *shop)
{
    struct events *events = calloc(1, sizeof *events);
    if (events == NULL) {
        return NULL;
    }
    events->shop = shop;
    events->seller.shop = shop;
    pthread_mutex_init(&events->mutex, NULL);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&events->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    if (pthread_create(&events->thread, NULL, tell, events) != 0) {
        pthread_cond_destroy(&events->changed);
        pthread_mutex_destroy(&events->mutex);
        free(events);
        return NULL;
    }
    return events;
}

void events_shut(struct events *events)
{
    pthread_mutex_lock(&events->mutex);
    events->stopping = true;
    pthread_cond_signal(&events->changed);
    for (struct listener *listener = events->listeners; listener != NULL;
         listener = listener->next) {
        wake(listener);
    }
    pthread_mutex_unlock(&events->mutex);
    pthread_join(events->thread, NULL);
}

void events_close(struct events *events)
{
    while (events->views != NULL) {
        struct view *view = events->views;
        events->views = view->next;
        free(view);
    }
    redis_drop(&events->seller.stock);
    redis_drop(&events->seller.lock);
    pawl_client_close(events->lock);
    pthread_cond_destroy(&events->changed);
    pthread_mutex_destroy(&events->mutex);
    free(events);
}

/* ===== The route ===== */

static struct MHD_Response *open_stream(struct request *request, const char *item)
{
    struct listener *listener = calloc(1, sizeof *listener);
    if (listener == NULL) {
        return NULL;
    }
    listener->events = door_events(request->door);
    listener->connection = request->connection;
    snprintf(listener->item, sizeof listener->item, "%s", item);
    struct MHD_Response *response = MHD_create_response_from_callback(
        MHD_SIZE_UNKNOWN, BLOCK_SIZE, read_stream, listener, forget_listener);
    if (response == NULL) {
        free(listener);
        return NULL;
    }
    if (!add_listener(listener->events, listener)) {
        MHD_destroy_response(response); /* and with it the listener */
        return NULL;
    }
    return response;
}

void handle_events(struct request *request)
{
    const char *item = request_query(request, "item");
    if (item == NULL) {
        item = DEFAULT_ITEM;
    }
    if (!request_check_item(request, item)) {
        return;
    }
    struct MHD_Response *response = open_stream(request, item);
    if (response == NULL) {
        answer_error(request, MHD_HTTP_SERVICE_UNAVAILABLE, "too many listeners",
            "%d pages are open at this instance already, or it is closing", LISTENERS_MAX);
        request->answer.retry_after_s = 5;
        return;
    }
    request->answer.status = MHD_HTTP_OK;
    request->answer.type = "text/event-stream";
    request->answer.streaming = response;
}
