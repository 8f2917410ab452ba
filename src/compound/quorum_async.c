/* SPDX-License-Identifier: Apache-2.0 */
/* Asynchronous calls on a quorum lock.
 *
 * Each is judged when it is made, as an ordinary lock would: what needs no server has ended then.
 * The others are run one after another by a thread of their own, the runner: at most one that
 * acquires (more only if the handle may re-enter), and releases of the hold that there was when
 * they were made. The worker calls back for all of them, and is not kept waiting by any. */
#include "compound/quorum.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/thread.h"

/* The last error is that of the thread in which it has ended; the callback's thread is another. */
static void end(struct pawl__quorum *quorum, struct pawl__quorum_async *async)
{
    async->error = async->status != PAWL_OK ? pawl__strdup(pawl__error_text()) : NULL;
    pawl__list_push(&quorum->ended, &async->node);
    pawl__worker_wake(quorum, INT64_MIN);
}

void pawl__async_deliver(struct pawl__quorum *quorum, struct pawl__quorum_async *async)
{
    if (async->status != PAWL_OK) {
        pawl__fail_text(async->status, async->error);
    }
    pawl__in_callback = true;
    async->done(&quorum->lock, async->status, async->arg);
    pawl__in_callback = false;
    pawl__free(async);
}

/* ===== The runner ===== */

/* Mutex held, but not meanwhile. */
static void run_one(struct pawl__quorum *quorum)
{
    struct pawl__list *node = pawl__list_pop(&quorum->asyncs);
    struct pawl__quorum_async *async = PAWL__CONTAINER(node, struct pawl__quorum_async, node);
    quorum->acquiring = async->kind == PAWL__WANT_ACQUIRE;
    pthread_mutex_unlock(&quorum->mutex);
    async->status = async->kind == PAWL__WANT_ACQUIRE
                        ? pawl__quorum_acquire(quorum, &async->wish)
                        : pawl__quorum_release_leaving(quorum, async->wish.owner);
    pthread_mutex_lock(&quorum->mutex);
    quorum->acquiring = false;
    end(quorum, async);
}

static void *run_all(void *arg)
{
    struct pawl__quorum *quorum = arg;
    pthread_mutex_lock(&quorum->mutex);
    while (!quorum->runner_stopping || !pawl__list_empty(&quorum->asyncs)) {
        if (!pawl__list_empty(&quorum->asyncs)) {
            run_one(quorum);
            continue;
        }
        pthread_mutex_unlock(&quorum->mutex);
        pawl__waiter_sleep(&quorum->bell, PAWL__NEVER);
        pthread_mutex_lock(&quorum->mutex);
    }
    pthread_mutex_unlock(&quorum->mutex);
    return NULL;
}

/* ===== Starting and stopping ===== */

/* One that acquires is queued or under way. Mutex held. */
static bool is_asked(struct pawl__quorum *quorum)
{
    struct pawl__list *node = quorum->asyncs.next;
    for (; node != &quorum->asyncs; node = node->next) {
        if (PAWL__CONTAINER(node, struct pawl__quorum_async, node)->kind == PAWL__WANT_ACQUIRE) {
            return true;
        }
    }
    return quorum->acquiring;
}

/* Both threads run. Mutex held. */
static bool start_threads(struct pawl__quorum *quorum)
{
    if (!pawl__worker_wake(quorum, PAWL__NEVER)) {
        return false;
    }
    if (!quorum->runner_started) {
        quorum->runner_started =
            pawl__thread_start(&quorum->runner, "pawl-quorum-run", run_all, quorum);
    }
    return quorum->runner_started;
}

bool pawl__async_start(struct pawl__quorum *quorum, struct pawl__quorum_async *async)
{
    pthread_mutex_lock(&quorum->mutex);
    const bool started = start_threads(quorum);
    if (started && pawl__quorum_at_once(quorum, async, is_asked(quorum))) {
        end(quorum, async);
    } else if (started) {
        pawl__list_push(&quorum->asyncs, &async->node);
        pawl__waiter_nudge(&quorum->bell);
    }
    pthread_mutex_unlock(&quorum->mutex);
    return started;
}

void pawl__async_stop(struct pawl__quorum *quorum)
{
    pthread_mutex_lock(&quorum->mutex);
    quorum->runner_stopping = true;
    const bool started = quorum->runner_started;
    pawl__waiter_nudge(&quorum->bell);
    pthread_mutex_unlock(&quorum->mutex);
    if (started) {
        pthread_join(quorum->runner, NULL);
    }
}
