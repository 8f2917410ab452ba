/* SPDX-License-Identifier: Apache-2.0 */
/* The timer: see renewal.h.
 *
 * All holds wait for the same time, so a list in the order of their beginning is one in the order
 * of their turns: the thread looks at the first, and puts it behind the last when it was renewed.
 */
#include "strategies/renewal.h"

#include "common/clock.h"
#include "common/redis.h"
#include "embedded.h"
#include "shop/shop.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

struct renewal {
    char owner[80];
    int64_t due_us;
    bool astray;
    bool linked; /* in the list: not any more once its lock was found gone */
    struct renewal *before, *behind;
};

struct renewals {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    pthread_t thread;
    bool ends;
    struct renewal *first, *last;
    struct renewal *busy; /* is being renewed by the thread, which has let go of the mutex */

    /* For the thread alone. */
    struct redis_place place;
    struct redisContext *redis;
    const struct embedded *script;
    int64_t lease_ms;
};

/* ===== The list; the mutex is held ===== */

static void append(struct renewals *renewals, struct renewal *renewal)
{
    renewal->due_us = now_us() + renewals->lease_ms * 1000 / 3;
    renewal->linked = true;
    renewal->before = renewals->last;
    renewal->behind = NULL;
    *(renewals->last != NULL ? &renewals->last->behind : &renewals->first) = renewal;
    renewals->last = renewal;
}

static void detach(struct renewals *renewals, struct renewal *renewal)
{
    if (!renewal->linked) {
        return;
    }
    *(renewal->before != NULL ? &renewal->before->behind : &renewals->first) = renewal->behind;
    *(renewal->behind != NULL ? &renewal->behind->before : &renewals->last) = renewal->before;
    renewal->linked = false;
}

/* ===== The thread ===== */

/* Whether there is more to renew. If Redis did not answer it is tried again at the next turn. */
static bool renew(struct renewals *renewals, const char *owner)
{
    char lease_ms[24];
    snprintf(lease_ms, sizeof lease_ms, "%" PRId64, renewals->lease_ms);
    const char *const arguments[] = {SHOP_LOCK_NAME, owner, lease_ms};
    redisReply *reply =
        redis_run(&renewals->redis, &renewals->place, 1, renewals->script, 1, 3, arguments);
    bool more = reply == NULL || reply->type != REDIS_REPLY_INTEGER || reply->integer != 0;
    freeReplyObject(reply);
    return more;
}

static void take_turn(struct renewals *renewals, struct renewal *renewal)
{
    renewals->busy = renewal;
    pthread_mutex_unlock(&renewals->mutex);
    bool more = renew(renewals, renewal->owner);
    pthread_mutex_lock(&renewals->mutex);
    renewals->busy = NULL;
    detach(renewals, renewal);
    if (more) {
        append(renewals, renewal);
    } else if (renewal->astray) {
        free(renewal);
    }
    pthread_cond_broadcast(&renewals->changed);
}

static void wait_until(struct renewals *renewals, int64_t due_us)
{
    /* The condition counts by CLOCK_MONOTONIC; a machine that was suspended comes too late for its
     * renewals in any case. */
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    int64_t us = (int64_t)time.tv_sec * 1000000 + time.tv_nsec / 1000 + due_us - now_us();
    time.tv_sec = us / 1000000;
    time.tv_nsec = us % 1000000 * 1000;
    pthread_cond_timedwait(&renewals->changed, &renewals->mutex, &time);
}

static void *run_timer(void *arg)
{
    struct renewals *renewals = arg;
    pthread_mutex_lock(&renewals->mutex);
    while (!renewals->ends) {
        struct renewal *first = renewals->first;
        if (first == NULL) {
            pthread_cond_wait(&renewals->changed, &renewals->mutex);
        } else if (first->due_us > now_us()) {
            wait_until(renewals, first->due_us);
        } else {
            take_turn(renewals, first);
        }
    }
    pthread_mutex_unlock(&renewals->mutex);
    return NULL;
}

/* ===== From outside ===== */

struct renewals *renewals_open(
    struct shop *shop, const struct embedded *script, char *why, size_t why_size)
{
    struct renewals *renewals = calloc(1, sizeof *renewals);
    if (renewals == NULL) {
        snprintf(why, why_size, "out of memory");
        return NULL;
    }
    const struct shop_settings *settings = shop_settings(shop);
    renewals->script = script;
    renewals->lease_ms = settings->lease_ms;
    if (!redis_place_parse(settings->redis_url, &renewals->place, why, why_size)) {
        free(renewals);
        return NULL;
    }
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&renewals->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_mutex_init(&renewals->mutex, NULL);
    if (pthread_create(&renewals->thread, NULL, run_timer, renewals) != 0) {
        snprintf(why, why_size, "the thread that renews could not be started");
        pthread_mutex_destroy(&renewals->mutex);
        pthread_cond_destroy(&renewals->changed);
        free(renewals);
        return NULL;
    }
    return renewals;
}

void renewals_close(struct renewals *renewals)
{
    pthread_mutex_lock(&renewals->mutex);
    renewals->ends = true;
    pthread_cond_broadcast(&renewals->changed);
    pthread_mutex_unlock(&renewals->mutex);
    pthread_join(renewals->thread, NULL);
    struct renewal *renewal = renewals->first;
    while (renewal != NULL) { /* only those that nobody would have ended */
        struct renewal *behind = renewal->behind;
        free(renewal);
        renewal = behind;
    }
    redis_drop(&renewals->redis);
    pthread_mutex_destroy(&renewals->mutex);
    pthread_cond_destroy(&renewals->changed);
    free(renewals);
}

struct renewal *renewal_begin(struct renewals *renewals, const char *owner, bool astray)
{
    struct renewal *renewal = calloc(1, sizeof *renewal);
    if (renewal == NULL) {
        return NULL;
    }
    snprintf(renewal->owner, sizeof renewal->owner, "%s", owner);
    renewal->astray = astray;
    pthread_mutex_lock(&renewals->mutex);
    append(renewals, renewal);
    pthread_cond_broadcast(&renewals->changed);
    pthread_mutex_unlock(&renewals->mutex);
    return astray ? NULL : renewal;
}

void renewal_end(struct renewals *renewals, struct renewal *renewal)
{
    if (renewal == NULL) {
        return;
    }
    pthread_mutex_lock(&renewals->mutex);
    while (renewals->busy == renewal) {
        pthread_cond_wait(&renewals->changed, &renewals->mutex);
    }
    detach(renewals, renewal);
    pthread_mutex_unlock(&renewals->mutex);
    free(renewal);
}
