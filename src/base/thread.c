/* SPDX-License-Identifier: Apache-2.0 */
/* The owner number lives in thread-local storage; a pthread key exists beside it only because its
 * destructor tells us that the thread ends. */
#include "base/thread.h"

#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>

_Thread_local bool pawl__in_callback;

static _Thread_local uint64_t self;
static _Thread_local unsigned cancel_depth;
static _Thread_local int cancel_state; /* what it was before */
static _Atomic uint64_t owners = 1;
static void (*_Atomic exit_hook)(uint64_t owner);
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static bool key_made;

static void thread_ended(void *value)
{
    (void)value;
    void (*hook)(uint64_t) = atomic_load(&exit_hook);
    if (hook != NULL) {
        hook(self);
    }
    self = 0; /* a later destructor that locks draws a new number, and gets its own call */
}

static void make_key(void)
{
    key_made = pthread_key_create(&key, thread_ended) == 0;
}

uint64_t pawl__owner_new(void)
{
    return atomic_fetch_add(&owners, 1);
}

uint64_t pawl__owner_of_thread(void)
{
    if (self == 0) {
        pthread_once(&once, make_key);
        self = pawl__owner_new();
        if (key_made) {
            pthread_setspecific(key, &self);
        }
    }
    return self;
}

void pawl__thread_set_exit_hook(void (*hook)(uint64_t owner))
{
    atomic_store(&exit_hook, hook);
}

void pawl__cancel_off(void)
{
    if (cancel_depth++ == 0) {
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
    }
}

void pawl__cancel_on(void)
{
    if (--cancel_depth == 0) {
        pthread_setcancelstate(cancel_state, NULL);
    }
}

bool pawl__thread_start(pthread_t *thread_out, const char *name, void *(*run)(void *), void *arg)
{
    sigset_t all;
    sigset_t old;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old);
    int error = pthread_create(thread_out, NULL, run, arg);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (error == 0) {
        pthread_setname_np(*thread_out, name);
    }
    return error == 0;
}
