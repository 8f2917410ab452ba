/* SPDX-License-Identifier: Apache-2.0 */
/* The public calls about all locks of a backend: listing, looking, watching, examining. As in
 * pawl.c: check what the user gave, enter the client, have the engine do it, set the last error.
 * The engine runs on the calling thread, and the user's callbacks with it; they are marked as
 * callbacks, so that a close in one cannot wait for itself. */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/limits.h"
#include "base/thread.h"
#include "checks.h"
#include "core/observe.h"

#include <stddef.h>
#include <string.h>

enum { LOOK_MS = 1000 };

static const int64_t look_ms_max = 3600 * 1000;

_Static_assert(sizeof((pawl_entry *)0)->name == PAWL__NAME_SIZE_MAX + 1, "every name fits");

/* ===== Checks ===== */

static pawl_status check_pattern(const char *pattern)
{
    if (pattern != NULL && pattern[0] == '\0') {
        return pawl__fail(PAWL_INVALID, "the pattern is empty, and no name is; NULL means all");
    }
    if (pattern != NULL &&
        strnlen(pattern, 2 * PAWL__NAME_SIZE_MAX + 1) > 2 * (size_t)PAWL__NAME_SIZE_MAX) {
        return pawl__fail(
            PAWL_INVALID, "the pattern is longer than %d bytes", 2 * PAWL__NAME_SIZE_MAX);
    }
    return PAWL_OK;
}

/* Inside the client from here on, if it answers PAWL_OK. */
static pawl_status enter(pawl_client *client, const char *call)
{
    pawl_status status = pawl__check_client(client);
    if (status == PAWL_OK) {
        status = pawl__check_may_wait(call);
    }
    if (status == PAWL_OK && !pawl__call_enter(client)) {
        status = pawl__fail(PAWL_MISUSE, "the client is closed");
    }
    return status;
}

static pawl_status unsupported(const pawl_client *client, const char *what)
{
    return pawl__fail(PAWL_UNSUPPORTED, "the %s engine cannot %s", client->engine->name, what);
}

/* ===== Listing ===== */

/* Between the engine and the user. */
struct listing {
    pawl_client *client;
    pawl_entry_callback each;
    void *arg;
    bool canceled;
};

static bool list_one(const pawl_entry *entry, void *arg)
{
    struct listing *listing = arg;
    listing->canceled = pawl__call_closing(listing->client);
    if (listing->canceled) {
        return false;
    }
    pawl__in_callback = true;
    const bool more = listing->each(entry, listing->arg);
    pawl__in_callback = false;
    return more;
}

pawl_status pawl_client_list(
    pawl_client *client, const char *pattern, pawl_entry_callback each, void *arg)
{
    if (each == NULL) {
        return pawl__fail(PAWL_INVALID, "the callback is NULL");
    }
    pawl_status status = check_pattern(pattern);
    if (status == PAWL_OK) {
        status = enter(client, "pawl_client_list()");
    }
    if (status != PAWL_OK) {
        return status;
    }
    struct listing listing = {client, each, arg, false};
    const struct pawl__engine *engine = client->engine;
    status = engine->list != NULL ? engine->list(client->self, pattern, list_one, &listing)
                                  : unsupported(client, "list its locks");
    if (listing.canceled) {
        status = pawl__fail(PAWL_CANCELED, "the client was closed");
    }
    pawl__call_leave(client);
    return status;
}

pawl_status pawl_client_look(pawl_client *client, const char *name, pawl_entry *entry_out)
{
    pawl_entry entry = {.size = sizeof entry, .since_ms = -1, .waiters = -1};
    if (entry_out == NULL || entry_out->size < sizeof(size_t)) {
        return pawl__fail(PAWL_INVALID, "entry_out is NULL, or its size is not set");
    }
    pawl_status status = pawl__check_name(name);
    if (status == PAWL_OK) {
        status = enter(client, "pawl_client_look()");
    }
    if (status != PAWL_OK) {
        return status;
    }
    const size_t name_size = strlen(name);
    memcpy(entry.name, name, name_size);
    status = client->engine->look != NULL
                 ? client->engine->look(client->self, name, name_size, &entry)
                 : unsupported(client, "look at a lock");
    pawl__call_leave(client);
    if (status == PAWL_OK) {
        const size_t size = entry_out->size;
        memset(entry_out, 0, size);
        memcpy(entry_out, &entry, size < sizeof entry ? size : sizeof entry);
        entry_out->size = size;
    }
    return status;
}

/* ===== Queues ===== */

/* Between the engine and the user. */
struct queueing {
    pawl_client *client;
    pawl_waiter_callback each;
    void *arg;
    bool canceled;
};

static bool queue_one(const pawl_waiter *waiter, void *arg)
{
    struct queueing *queueing = arg;
    queueing->canceled = pawl__call_closing(queueing->client);
    if (queueing->canceled) {
        return false;
    }
    pawl__in_callback = true;
    const bool more = queueing->each(waiter, queueing->arg);
    pawl__in_callback = false;
    return more;
}

pawl_status pawl_client_queue(
    pawl_client *client, const char *name, pawl_waiter_callback each, void *arg)
{
    if (each == NULL) {
        return pawl__fail(PAWL_INVALID, "the callback is NULL");
    }
    pawl_status status = pawl__check_name(name);
    if (status == PAWL_OK) {
        status = enter(client, "pawl_client_queue()");
    }
    if (status != PAWL_OK) {
        return status;
    }
    struct queueing queueing = {client, each, arg, false};
    const struct pawl__engine *engine = client->engine;
    status = engine->queue != NULL
                 ? engine->queue(client->self, name, strlen(name), queue_one, &queueing)
                 : unsupported(client, "keep a queue");
    if (queueing.canceled) {
        status = pawl__fail(PAWL_CANCELED, "the client was closed");
    }
    pawl__call_leave(client);
    return status;
}

/* ===== Watching ===== */

static pawl_status check_watch_options(int64_t look_ms, pawl_watch **watch_out)
{
    if (watch_out == NULL) {
        return pawl__fail(PAWL_INVALID, "watch_out is NULL");
    }
    *watch_out = NULL;
    if (look_ms < 0 || look_ms > look_ms_max) {
        return pawl__fail(PAWL_INVALID, "look_ms is %lld; it must be 0 (1000) to %lld (an hour)",
            (long long)look_ms, (long long)look_ms_max);
    }
    return PAWL_OK;
}

static pawl_status open_watch(
    pawl_client *client, const char *pattern, int64_t look_ms, pawl_watch **watch_out)
{
    const struct pawl__engine *engine = client->engine;
    if (engine->watch_open == NULL || engine->list == NULL || engine->look == NULL) {
        return unsupported(client, "watch its locks");
    }
    return pawl__watch_open(client, pattern, (look_ms > 0 ? look_ms : LOOK_MS) * 1000, watch_out);
}

pawl_status pawl_watch_open(
    pawl_client *client, const char *pattern, int64_t look_ms, pawl_watch **watch_out)
{
    pawl_status status = check_watch_options(look_ms, watch_out);
    if (status == PAWL_OK) {
        status = check_pattern(pattern);
    }
    if (status == PAWL_OK) {
        status = enter(client, "pawl_watch_open()");
    }
    if (status != PAWL_OK) {
        return status;
    }
    status = open_watch(client, pattern, look_ms, watch_out);
    pawl__call_leave(client);
    return status;
}

static pawl_status check_watch(const pawl_watch *watch)
{
    if (watch == NULL) {
        return pawl__fail(PAWL_INVALID, "watch is NULL");
    }
    return pawl__check_forks(watch->forks);
}

pawl_status pawl_watch_next(pawl_watch *watch, int64_t wait_ms, pawl_watch_event *event_out)
{
    pawl_watch_event event;
    int64_t wait_us = 0;
    if (event_out == NULL || event_out->size < sizeof(size_t)) {
        return pawl__fail(PAWL_INVALID, "event_out is NULL, or its size is not set");
    }
    pawl_status status = check_watch(watch);
    if (status == PAWL_OK) {
        status = pawl__check_wait(wait_ms, &wait_us);
    }
    if (status == PAWL_OK) {
        status = enter(watch->client, "pawl_watch_next()");
    }
    if (status != PAWL_OK) {
        return status;
    }
    status = pawl__watch_next(watch, pawl__later(pawl__now_us(), wait_us), &event);
    pawl__call_leave(watch->client);
    if (status == PAWL_OK) {
        const size_t size = event_out->size;
        memset(event_out, 0, size);
        memcpy(event_out, &event, size < sizeof event ? size : sizeof event);
        event_out->size = size;
    }
    return status;
}

/* Ask the engine about its hints; it may have no answer, which is no. */
static bool ask_engine(const pawl_watch *watch, bool (*question)(void *self, void *watch))
{
    if (question == NULL || !pawl__call_enter(watch->client)) {
        return false;
    }
    const bool answer = question(watch->client->self, watch->engine_watch);
    pawl__call_leave(watch->client);
    return answer;
}

bool pawl_watch_exact(const pawl_watch *watch)
{
    return check_watch(watch) == PAWL_OK && ask_engine(watch, watch->client->engine->watch_exact);
}

bool pawl_watch_hears_releases(const pawl_watch *watch)
{
    return check_watch(watch) == PAWL_OK &&
           ask_engine(watch, watch->client->engine->watch_hears_releases);
}

void pawl_watch_close(pawl_watch *watch)
{
    if (watch != NULL && check_watch(watch) == PAWL_OK) {
        pawl__client_unwatch(watch->client, watch);
    }
}

/* ===== Examining ===== */

struct examination {
    pawl_finding_callback each;
    void *arg;
};

static void tell_finding(const pawl_finding *finding, void *arg)
{
    const struct examination *examination = arg;
    pawl__in_callback = true;
    examination->each(finding, examination->arg);
    pawl__in_callback = false;
}

pawl_status pawl_client_examine(pawl_client *client, pawl_finding_callback each, void *arg)
{
    if (each == NULL) {
        return pawl__fail(PAWL_INVALID, "the callback is NULL");
    }
    pawl_status status = enter(client, "pawl_client_examine()");
    if (status != PAWL_OK) {
        return status;
    }
    struct examination examination = {each, arg};
    const struct pawl__engine *engine = client->engine;
    status = engine->examine != NULL ? engine->examine(client->self, tell_finding, &examination)
                                     : unsupported(client, "be examined");
    pawl__call_leave(client);
    return status;
}
