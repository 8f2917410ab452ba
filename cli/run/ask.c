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

/* What the answers are waited for: of one server that decides whether it is there. */
enum { MOMENT_US = 250 * US_PER_MS, MOMENT_OF_ONE_US = 500 * US_PER_MS };

/* One server; guarded by the mutex, but for `entry` and `status` while it is asked. */
struct witness {
    struct run_asking *asking;
    pawl_client *client;
    bool asked;       /* a thread is with it, */
    int64_t asked_us; /* since then */
    bool answered;    /* since the last look began: the rest is known */
    pawl_status status;
    bool data;                   /* the name is none of a lock there */
    char trouble[RUN_TEXT_SIZE]; /* "": none */
    pawl_entry entry;
};

struct run_asking {
    const char *name;
    size_t count;
    pthread_mutex_t mutex;
    pthread_cond_t answer;
    struct witness witnesses[];
};

struct run_asking *run_asking_new(pawl_client *const clients[], size_t count, const char *name)
{
    struct run_asking *asking = calloc(1, sizeof *asking + count * sizeof asking->witnesses[0]);
    pthread_condattr_t attributes;
    if (asking == NULL) {
        return NULL;
    }
    asking->name = name;
    asking->count = count;
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
    snprintf(witness->trouble, sizeof witness->trouble, "%s",
        cli_passes(witness->status, pawl_last_error()) ? pawl_last_error() : "");
    pthread_mutex_lock(&asking->mutex);
    witness->asked = false;
    witness->answered = true;
    pthread_cond_signal(&asking->answer);
    pthread_mutex_unlock(&asking->mutex);
    return NULL;
}

/* Mutex held. */
static void ask(struct witness *witness)
{
    pthread_t thread;
    witness->answered = false;
    if (!witness->asked && pthread_create(&thread, NULL, look, witness) == 0) {
        pthread_detach(thread);
        witness->asked = true;
        witness->asked_us = run_now_us();
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
    int64_t asked_us = 0;
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

/* Of one server: why it has said nothing, or that it is still too early to say so. */
static void find_trouble(const struct run_asking *asking, int64_t end_us, struct run_view *view)
{
    const struct witness *witness = &asking->witnesses[0];
    view->trouble[0] = '\0';
    if (asking->count == 1 && witness->answered) {
        snprintf(view->trouble, sizeof view->trouble, "%s", witness->trouble);
    } else if (asking->count == 1 && run_now_us() >= end_us) {
        snprintf(view->trouble, sizeof view->trouble, "no answer within %d ms",
            MOMENT_OF_ONE_US / US_PER_MS);
    }
}

void run_asking_look(struct run_asking *asking, int64_t until_us, struct run_view *view_out)
{
    int late = 0;
    pthread_mutex_lock(&asking->mutex);
    for (size_t i = 0; i < asking->count; i++) {
        ask(&asking->witnesses[i]);
    }
    const int64_t end_us = moment_end_us(asking);
    const struct timespec end = monotonic_of(run_min(end_us, until_us));
    view_out->entry = NULL;
    while (view_out->entry == NULL && !is_data(asking) && is_anybody_asked(asking) &&
           late != ETIMEDOUT) {
        late = pthread_cond_timedwait(&asking->answer, &asking->mutex, &end);
        view_out->entry = find_holder(asking);
    }
    view_out->data = is_data(asking);
    find_trouble(asking, end_us, view_out);
    pthread_mutex_unlock(&asking->mutex);
}

void run_asking_end(struct run_asking *asking)
{
    if (asking == NULL) {
        return;
    }
    pthread_mutex_lock(&asking->mutex);
    while (is_anybody_asked(asking)) {
        pthread_cond_wait(&asking->answer, &asking->mutex);
    }
    pthread_mutex_unlock(&asking->mutex);
}
