/* SPDX-License-Identifier: Apache-2.0 */
/* See observe.h. A listing that takes long is repeated less often, so that the server spends at
 * most a fifth of its patience on us. */
#include "top/observe.h"

#include "common/backend.h"

#include <poll.h>
#include <stdio.h>
#include <time.h>

enum { SLICE_MS = 100, SHARE = 4, RETRY_MS = 500, JOIN_MS = 500 };

/* Sleep so long, or until the end. */
static void pause_for(struct top_observer *observer, int64_t ms)
{
    const int64_t until = cli_now_ms() + ms;
    while (!atomic_load(&observer->stop) && cli_now_ms() < until) {
        const int64_t left = until - cli_now_ms();
        poll(NULL, 0, (int)(left < SLICE_MS ? left : SLICE_MS));
    }
}

static void report(struct top_observer *observer, enum top_source source, pawl_status status)
{
    const bool failed = status != PAWL_OK && status != PAWL_BUSY;
    top_model_trouble(observer->model, source, failed ? pawl_last_error() : "", cli_now_ms());
}

/* Whether asking again may help. */
static bool is_passing(pawl_status status)
{
    return status == PAWL_OK || status == PAWL_UNAVAILABLE || status == PAWL_PROTOCOL ||
           status == PAWL_NO_MEMORY;
}

static bool list_one(const pawl_entry *entry, void *arg)
{
    struct top_observer *observer = arg;
    top_model_list_entry(observer->model, entry, cli_now_ms());
    return !atomic_load(&observer->stop);
}

/* List once. How long it took. */
static int64_t list_once(struct top_observer *observer)
{
    const int64_t begun_ms = cli_now_ms();
    top_model_list_begin(observer->model, begun_ms);
    pawl_status status = pawl_client_list(observer->client, observer->pattern, list_one, observer);
    const int64_t now_ms = cli_now_ms();
    if (!is_passing(status)) {
        snprintf(
            observer->refusal_sentence, sizeof observer->refusal_sentence, "%s", pawl_last_error());
        atomic_store(&observer->refusal, (int)status);
    }
    if (status == PAWL_OK && !atomic_load(&observer->stop)) {
        top_model_list_end(observer->model, now_ms);
    }
    report(observer, TOP_LISTINGS, status);
    return now_ms - begun_ms;
}

static void *list(void *arg)
{
    struct top_observer *observer = arg;
    while (!atomic_load(&observer->stop) && atomic_load(&observer->refusal) == PAWL_OK) {
        const int64_t took_ms = list_once(observer);
        const int64_t rest_ms = took_ms * SHARE;
        const int64_t every_ms = observer->every_ms - took_ms;
        pause_for(observer, rest_ms > every_ms ? rest_ms : every_ms);
    }
    return NULL;
}

/* Pass on events until the end or a fault that opening anew may mend. */
static void listen_to(struct top_observer *observer, pawl_watch *watch)
{
    pawl_status status = PAWL_OK;
    while (!atomic_load(&observer->stop) &&
           (status == PAWL_OK || status == PAWL_BUSY || status == PAWL_UNAVAILABLE)) {
        pawl_watch_event event = {.size = sizeof event};
        status = pawl_watch_next(watch, SLICE_MS, &event);
        if (status == PAWL_OK) {
            top_model_event(observer->model, &event, cli_now_ms());
        }
        report(observer, TOP_EVENTS, status);
        if (status == PAWL_UNAVAILABLE) {
            pause_for(observer, RETRY_MS);
        }
    }
}

static void *listen(void *arg)
{
    struct top_observer *observer = arg;
    while (!atomic_load(&observer->stop)) {
        pawl_watch *watch = NULL;
        pawl_status status =
            pawl_watch_open(observer->client, observer->pattern, observer->every_ms, &watch);
        report(observer, TOP_EVENTS, status);
        if (status == PAWL_OK) {
            top_model_set_exact(observer->model, pawl_watch_exact(watch));
            listen_to(observer, watch);
            pawl_watch_close(watch);
        }
        pause_for(observer, RETRY_MS);
    }
    return NULL;
}

bool top_observer_begin(struct top_observer *observer)
{
    void *(*const bodies[])(void *) = {list, listen};
    for (size_t i = 0; i < sizeof bodies / sizeof bodies[0]; i++) {
        if (pthread_create(&observer->threads[i], NULL, bodies[i], observer) != 0) {
            return false;
        }
        observer->thread_count++;
    }
    return true;
}

bool top_observer_end(struct top_observer *observer)
{
    atomic_store(&observer->stop, true);
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += JOIN_MS * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    bool all = true;
    for (unsigned i = 0; i < observer->thread_count; i++) {
        all = pthread_timedjoin_np(observer->threads[i], NULL, &until) == 0 && all;
    }
    return all;
}
