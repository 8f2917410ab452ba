/* SPDX-License-Identifier: Apache-2.0 */
/* Who holds the lock of one or several servers, by the word of a majority; ask.h says how.
 *
 * Every server knows the holder by another owner string, but by the same host and process. Somebody
 * who only contends may have it at one server for a moment, so one server's word is not enough. */
#include "run/ask.h"

#include "line/say.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

/* So long answers are waited for: of several servers, and of one. */
enum { MOMENT_US = 250 * US_PER_MS, MOMENT_OF_ONE_US = 500 * US_PER_MS };

/* One server; guarded by the mutex, but for `entry` and `status` while it is asked. */
struct witness {
    struct run_asking *asking;
    pawl_client *client;
    bool asked;       /* a thread is with it, */
    int64_t asked_us; /* since then */
    bool answered;    /* since the last look began: the rest is known */
    pawl_status status;
    bool data; /* the name is none of a lock there */
    pawl_entry entry;
};

/* Whether the only server is there. A look makes a connection of its own, for which the way may be
 * long and the server may have no room; the lock's connection is what counts. */
struct pulse {
    pawl_lock *lock; /* NULL: there are several servers, or none */
    bool asked;      /* a thread is with it, */
    int64_t asked_us;
    bool answered;
    char trouble[RUN_TEXT_SIZE]; /* "": none */
};

struct run_asking {
    const char *name;
    size_t count;
    pthread_mutex_t mutex;
    pthread_cond_t answer;
    struct pulse pulse;
    struct witness witnesses[];
};

struct run_asking *run_asking_new(
    pawl_client *const clients[], size_t count, const char *name, pawl_lock *pulse)
{
    struct run_asking *asking = calloc(1, sizeof *asking + count * sizeof asking->witnesses[0]);
    pthread_condattr_t attributes;
    if (asking == NULL) {
        return NULL;
    }
    asking->name = name;
    asking->count = count;
    asking->pulse.lock = pulse;
    pthread_mutex_init(&asking->mutex, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&asking->answer, &attributes);
    for (size_t i = 0; i < count; i++) {
        asking->witnesses[i].asking = asking;
        asking->witnesses[i].client = clients[i];
    }
    return asking;
}

/* ===== The threads ===== */

static void *look(void *arg)
{
    struct witness *witness = arg;
    struct run_asking *asking = witness->asking;
    witness->entry.size = sizeof witness->entry;
    witness->status = pawl_client_look(witness->client, asking->name, &witness->entry);
    witness->data = cli_exit_for(witness->status, pawl_last_error()) == CLI_DATA;
    pthread_mutex_lock(&asking->mutex);
    witness->asked = false;
    witness->answered = true;
    pthread_cond_signal(&asking->answer);
    pthread_mutex_unlock(&asking->mutex);
    return NULL;
}

static void *feel(void *arg)
{
    struct run_asking *asking = arg;
    struct pulse *pulse = &asking->pulse;
    pawl_lock_info info = {.size = sizeof info};
    const pawl_status status = pawl_lock_inspect(pulse->lock, &info);
    pthread_mutex_lock(&asking->mutex);
    snprintf(pulse->trouble, sizeof pulse->trouble, "%s",
        cli_passes(status, pawl_last_error()) ? pawl_last_error() : "");
    pulse->asked = false;
    pulse->answered = true;
    pthread_cond_signal(&asking->answer);
    pthread_mutex_unlock(&asking->mutex);
    return NULL;
}

static bool start(void *(*run)(void *), void *arg)
{
    pthread_t thread;
    const bool started = pthread_create(&thread, NULL, run, arg) == 0;
    if (started) {
        pthread_detach(thread);
    }
    return started;
}

/* Mutex held. */
static void ask(struct witness *witness)
{
    witness->answered = false;
    if (!witness->asked && start(look, witness)) {
        witness->asked = true;
        witness->asked_us = run_now_us();
    }
}

/* Mutex held. */
static void ask_pulse(struct run_asking *asking)
{
    struct pulse *pulse = &asking->pulse;
    pulse->answered = false;
    if (pulse->lock != NULL && !pulse->asked && start(feel, asking)) {
        pulse->asked = true;
        pulse->asked_us = run_now_us();
    }
}

/* ===== The keeper; mutex held ===== */

static bool holds(const struct witness *witness)
{
    return witness->answered && witness->status == PAWL_OK && witness->entry.held;
}

/* Of strangers nothing is known but their owner strings, which are others at each server. */
static bool is_same(const pawl_entry *one, const pawl_entry *other)
{
    return one == other ||
           (one->pid != 0 && one->pid == other->pid && strcmp(one->host, other->host) == 0);
}

/* Whom a majority names; NULL: nobody. */
static const pawl_entry *find_holder(const struct run_asking *asking)
{
    for (size_t i = 0; i < asking->count; i++) {
        const struct witness *witness = &asking->witnesses[i];
        size_t agreed = 0;
        for (size_t other = 0; holds(witness) && other < asking->count; other++) {
            const struct witness *second = &asking->witnesses[other];
            agreed += holds(second) && is_same(&witness->entry, &second->entry) ? 1 : 0;
        }
        if (agreed > asking->count / 2) {
            return &witness->entry;
        }
    }
    return NULL;
}

static bool is_data(const struct run_asking *asking)
{
    size_t found = 0;
    for (size_t i = 0; i < asking->count; i++) {
        found += asking->witnesses[i].answered && asking->witnesses[i].data ? 1 : 0;
    }
    return found > asking->count / 2;
}

static bool is_anybody_asked(const struct run_asking *asking)
{
    for (size_t i = 0; i < asking->count; i++) {
        if (asking->witnesses[i].asked) {
            return true;
        }
    }
    return false;
}

/* When the last of the questions that are out has had its moment. */
static int64_t moment_end_us(const struct run_asking *asking)
{
    int64_t asked_us = asking->pulse.asked ? asking->pulse.asked_us : 0;
    for (size_t i = 0; i < asking->count; i++) {
        const struct witness *witness = &asking->witnesses[i];
        asked_us = witness->asked && witness->asked_us > asked_us ? witness->asked_us : asked_us;
    }
    return asked_us + (asking->count == 1 ? MOMENT_OF_ONE_US : MOMENT_US);
}

/* pthread_cond_timedwait() does not know the clock of run_now_us(). */
static struct timespec monotonic_of(int64_t until_us)
{
    struct timespec end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    const int64_t left_us = until_us - run_now_us();
    const int64_t end_us = end.tv_nsec / NS_PER_US + (left_us > 0 ? left_us : 0);
    end.tv_sec += end_us / US_PER_S;
    end.tv_nsec = end_us % US_PER_S * NS_PER_US;
    return end;
}

/* Why the only server has said nothing. */
static void find_trouble(const struct run_asking *asking, struct run_view *view)
{
    const struct pulse *pulse = &asking->pulse;
    view->trouble[0] = '\0';
    if (pulse->answered) {
        snprintf(view->trouble, sizeof view->trouble, "%s", pulse->trouble);
    } else if (pulse->asked && run_now_us() >= pulse->asked_us + MOMENT_OF_ONE_US) {
        snprintf(view->trouble, sizeof view->trouble, "no answer within %d ms",
            MOMENT_OF_ONE_US / US_PER_MS);
    }
}

/* All that can be known is. */
static bool is_seen(const struct run_asking *asking)
{
    const struct pulse *pulse = &asking->pulse;
    const bool known = find_holder(asking) != NULL || is_data(asking) || !is_anybody_asked(asking);
    return !pulse->asked && (known || pulse->trouble[0] != '\0');
}

static void view(const struct run_asking *asking, struct run_view *view_out)
{
    view_out->entry = find_holder(asking);
    view_out->data = is_data(asking);
    view_out->late = view_out->entry == NULL && !view_out->data && is_anybody_asked(asking);
    find_trouble(asking, view_out);
}

void run_asking_look(
    struct run_asking *asking, bool whole, int64_t until_us, struct run_view *view_out)
{
    int late = 0;
    pthread_mutex_lock(&asking->mutex);
    ask_pulse(asking);
    for (size_t i = 0; whole && i < asking->count; i++) {
        ask(&asking->witnesses[i]);
    }
    const struct timespec end = monotonic_of(run_min(moment_end_us(asking), until_us));
    while (!is_seen(asking) && late != ETIMEDOUT) {
        late = pthread_cond_timedwait(&asking->answer, &asking->mutex, &end);
    }
    view(asking, view_out);
    pthread_mutex_unlock(&asking->mutex);
}

void run_asking_hear(struct run_asking *asking, struct run_view *view_out)
{
    pthread_mutex_lock(&asking->mutex);
    view(asking, view_out);
    pthread_mutex_unlock(&asking->mutex);
}

void run_asking_end(struct run_asking *asking)
{
    if (asking == NULL) {
        return;
    }
    pthread_mutex_lock(&asking->mutex);
    while (asking->pulse.asked || is_anybody_asked(asking)) {
        pthread_cond_wait(&asking->answer, &asking->mutex);
    }
    pthread_mutex_unlock(&asking->mutex);
}
