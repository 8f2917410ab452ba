/* SPDX-License-Identifier: Apache-2.0 */
/* One thread per actor, and one order at a time under its mutex. Only the thread of the test tells
 * and fetches. */
#include "conformance/lib/actor.h"

#include "conformance/lib/tools.h"
#include "support/process.h"
#include "support/text.h"
#include "support/thread.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define SLEEP_LOOKS 5 /* so often in a row, a millisecond apart, the thread was seen asleep */

struct actor {
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    /* Guarded by the mutex. */
    pid_t tid; /* 0: not started yet */
    bool told;
    bool ending;
    pawl_status (*call)(void *arg);
    void *arg;
    pawl_lock *lock; /* that the call is about; NULL: none */
    int64_t wait_ms;
    pawl_status answer;
    int64_t began_us;
    int64_t ended_us;
};

static void *act(void *arg)
{
    struct actor *actor = arg;
    pthread_mutex_lock(&actor->mutex);
    actor->tid = gettid();
    pthread_cond_broadcast(&actor->changed);
    for (;;) {
        while (!actor->told && !actor->ending) {
            pthread_cond_wait(&actor->changed, &actor->mutex);
        }
        if (actor->ending) {
            break;
        }
        pthread_mutex_unlock(&actor->mutex);
        const int64_t began_us = boottime_us();
        const pawl_status answer = actor->call(actor->arg);
        pthread_mutex_lock(&actor->mutex);
        actor->began_us = began_us;
        actor->ended_us = boottime_us();
        actor->answer = answer;
        actor->told = false;
        pthread_cond_broadcast(&actor->changed);
    }
    pthread_mutex_unlock(&actor->mutex);
    return NULL;
}

bool actor_is_done(struct actor *actor)
{
    pthread_mutex_lock(&actor->mutex);
    const bool done = !actor->told;
    pthread_mutex_unlock(&actor->mutex);
    return done;
}

static bool is_done(void *arg)
{
    return actor_is_done(arg);
}

static void join(struct actor *actor)
{
    pthread_mutex_lock(&actor->mutex);
    actor->ending = true;
    pthread_cond_broadcast(&actor->changed);
    pthread_mutex_unlock(&actor->mutex);
    pthread_join(actor->thread, NULL);
    pthread_cond_destroy(&actor->changed);
    pthread_mutex_destroy(&actor->mutex);
    free(actor);
}

/* The case is over, and may have failed in the middle of the actor's wait. */
static void end_actor(void *object)
{
    struct actor *actor = object;
    if (!actor_is_done(actor) && actor->lock != NULL) {
        pawl_lock_cancel(actor->lock);
    }
    if (!wait_for(is_done, actor, SOON_MS)) {
        fputs("a thread of the case does not come back from its call\n", stderr);
        _exit(1);
    }
    join(actor);
}

struct actor *actor_new(void)
{
    struct actor *actor = support_alloc(sizeof *actor);
    pthread_mutex_init(&actor->mutex, NULL);
    thread_make_condition(&actor->changed);
    thread_start(&actor->thread, act, actor);
    cleanup_add(end_actor, actor);
    return actor;
}

void actor_end(struct actor *actor)
{
    actor_answer(actor);
    cleanup_drop(actor);
    join(actor);
}

/* ===== Orders ===== */

static void tell(struct actor *actor, pawl_status (*call)(void *arg), void *arg, pawl_lock *lock)
{
    pthread_mutex_lock(&actor->mutex);
    const bool idle = !actor->told;
    if (idle) {
        actor->call = call;
        actor->arg = arg;
        actor->lock = lock;
        actor->told = true;
        pthread_cond_broadcast(&actor->changed);
    }
    pthread_mutex_unlock(&actor->mutex);
    assert_true(idle);
}

static pawl_status do_acquire(void *arg)
{
    const struct actor *actor = arg;
    return pawl_lock_acquire(actor->lock, actor->wait_ms);
}

static pawl_status do_release(void *arg)
{
    const struct actor *actor = arg;
    return pawl_lock_release(actor->lock);
}

void actor_acquire(struct actor *actor, pawl_lock *lock, int64_t wait_ms)
{
    actor->wait_ms = wait_ms;
    tell(actor, do_acquire, actor, lock);
}

void actor_release(struct actor *actor, pawl_lock *lock)
{
    tell(actor, do_release, actor, lock);
}

void actor_call(struct actor *actor, pawl_status (*call)(void *arg), void *arg)
{
    tell(actor, call, arg, NULL);
}

pawl_status actor_answer(struct actor *actor)
{
    WAIT_UNTIL(actor_is_done(actor), SOON_MS);
    pthread_mutex_lock(&actor->mutex);
    const pawl_status answer = actor->answer;
    pthread_mutex_unlock(&actor->mutex);
    return answer;
}

int64_t actor_began_us(struct actor *actor)
{
    actor_answer(actor);
    return actor->began_us;
}

int64_t actor_ended_us(struct actor *actor)
{
    actor_answer(actor);
    return actor->ended_us;
}

static bool is_asleep(struct actor *actor)
{
    pthread_mutex_lock(&actor->mutex);
    const pid_t tid = actor->tid;
    pthread_mutex_unlock(&actor->mutex);
    return tid != 0 && process_state(tid) == 'S';
}

void actor_await_sleep(struct actor *actor)
{
    unsigned looks = 0;
    WAIT_UNTIL((looks = is_asleep(actor) ? looks + 1 : 0) >= SLEEP_LOOKS, SOON_MS);
    assert_false(actor_is_done(actor));
}

pawl_status actor_acquire_now(struct actor *actor, pawl_lock *lock, int64_t wait_ms)
{
    actor_acquire(actor, lock, wait_ms);
    return actor_answer(actor);
}

pawl_status actor_release_now(struct actor *actor, pawl_lock *lock)
{
    actor_release(actor, lock);
    return actor_answer(actor);
}

/* ===== Views ===== */

struct view {
    pawl_lock *lock;
    uint64_t token;
    int64_t remaining_ms;
};

static pawl_status do_view(void *arg)
{
    struct view *view = arg;
    view->token = pawl_lock_token(view->lock);
    view->remaining_ms = pawl_lock_remaining_ms(view->lock);
    return PAWL_OK;
}

static struct view view_of(struct actor *actor, pawl_lock *lock)
{
    struct view view = {.lock = lock};
    tell(actor, do_view, &view, lock);
    actor_answer(actor);
    return view;
}

uint64_t actor_token(struct actor *actor, pawl_lock *lock)
{
    return view_of(actor, lock).token;
}

int64_t actor_remaining_ms(struct actor *actor, pawl_lock *lock)
{
    return view_of(actor, lock).remaining_ms;
}
