/* SPDX-License-Identifier: Apache-2.0 */
/* The client: the machine with threads around it.
 *
 * One mutex guards the machine and everything below that says so. Whoever holds it steps the
 * machine, takes its outputs, lets go of the mutex and then carries the outputs out: submits
 * operations, wakes callers, hands callbacks to the courier. So neither an engine nor a user's
 * function is ever called under it.
 *
 *   client.c   open, close, stepping and carrying out
 *   call.c     one call of a user: start the request, lend the thread, wait; or asynchronously
 *   terms.c    what the locks of a client have in common
 *   explain.c  sentences for what a call ended with
 *   keeper.c   the thread that serves timers and reads when nobody else does
 *   courier.c  the thread, or the dispatch call, that runs callbacks
 *   registry.c all clients of the process, for threads that end and for fork
 *   observe.c  what people are told who watch all locks of the backend */
#ifndef PAWL_CORE_CLIENT_H
#define PAWL_CORE_CLIENT_H

#include "core/composite.h"
#include "core/machine.h"

#include <pthread.h>
#include <stdatomic.h>

struct pawl_lock {
    struct pawl__handle handle; /* guarded by the client's mutex */
    struct pawl_client *client; /* NULL: it is made of locks, and the first part of a compound */
    unsigned forks;             /* of the process that opened it */
    _Atomic unsigned users;     /* calls under way, and callbacks to come; see call.c */
};

/* A lock that is made of locks. Of its handle only the owner is used. */
struct pawl__compound {
    struct pawl_lock lock;
    const struct pawl__composite *composite;
};

/* For calls that get it as const, and only look: no handle of ours is const itself. */
static inline struct pawl_lock *pawl__lock_self(const struct pawl_lock *lock)
{
    union {
        const struct pawl_lock *seen;
        struct pawl_lock *self;
    } both = {lock};
    return both.self;
}

/* NULL: it is a lock of its client. */
static inline const struct pawl__composite *pawl__lock_composite(const struct pawl_lock *lock)
{
    return lock->client != NULL ? NULL : ((const struct pawl__compound *)lock)->composite;
}

/* Of a lock that has a client. The text stays as long as the lock does, whatever becomes of both;
 * no mutex is needed. */
static inline const char *pawl__lock_name(const struct pawl_lock *lock)
{
    return lock->handle.name->node.key;
}

/* An asynchronous call. If its request is `kept`, it is not to be freed: it is part of something
 * that `done` takes care of. */
struct pawl__async {
    struct pawl__request request;
    pawl_callback done;
    void *arg;
};

static inline struct pawl_lock *pawl__async_lock(const struct pawl__async *async)
{
    return PAWL__CONTAINER(async->request.handle, struct pawl_lock, handle);
}

struct pawl__keeper {
    pthread_t thread;
    bool started;  /* guarded by the mutex */
    bool stopping; /* guarded by the mutex */
    int wake_fd;   /* -1 until started */
    int timer_fd;
    int64_t target_us; /* guarded by the mutex: when it will look by itself */
    bool pumping;      /* its own: it is about to look at everything again */
};

struct pawl__courier {
    pthread_t thread;
    bool started;
    bool stopping;
    bool dispatch;             /* callbacks run in pawl_client_dispatch() */
    int fd;                    /* dispatch: readable while something is due; -1 otherwise */
    pthread_cond_t changed;    /* something is due, or a callback has returned */
    struct pawl__list due;     /* deliveries, in order */
    unsigned log_count;        /* log lines among them */
    bool busy;                 /* somebody delivers; nobody else may meanwhile */
    struct pawl_lock *running; /* whose callback runs now */
    pawl_log_callback log;
    void *log_arg;
};

struct pawl_client {
    struct pawl__host host; /* first: engines give us back its address */
    const struct pawl__engine *engine;
    void *self;    /* the engine's */
    char *backend; /* what the URL names, without secrets and settings */
    unsigned forks;
    struct pawl__list registered; /* guarded by the registry */
    _Atomic unsigned calls;       /* under way; see call.c */

    pthread_mutex_t opening; /* one name is opened at a time; taken before the mutex */
    pthread_mutex_t mutex;
    pthread_cond_t left; /* a call has left, while closing */
    /* Guarded by the mutex. */
    struct pawl__machine machine;
    size_t locks;            /* open ones */
    struct pawl__list terms; /* that locks have chosen, those asked for last first */
    struct pawl__list watches;
    struct pawl__waiter *drained; /* to be finished when no tenure is left */
    bool closed;                  /* by the user; the last lock or watch frees it */
    struct pawl__keeper keeper;
    struct pawl__courier courier;
};

/* What a step of the machine left to do. */
struct pawl__todo {
    struct pawl__op *ops;
    struct pawl__list finished; /* requests of blocking callers, with a hook, and releases */
    struct pawl__name *dead;
    bool hear; /* the engine has to read what nobody waits for */
    bool kick; /* the keeper has to look earlier than it meant to */
};

/* client.c. The URL is not NULL. */
pawl_status pawl__client_open(
    const char *url, const pawl_client_options *options, struct pawl_client **client_out);
pawl_status pawl__client_close(struct pawl_client *client);
void pawl__client_free(struct pawl_client *client);

/* Give the lock its name and its terms: the name's record is shared by all locks of this name and
 * family, the terms by all that have the same. Sets the last error. */
pawl_status pawl__client_attach(struct pawl_client *client, struct pawl_lock *lock,
    const char *name, enum pawl__family family, const struct pawl__terms *terms);
pawl_status pawl__client_detach(struct pawl_client *client, struct pawl_lock *lock);

/* Close a watch, with or after its client. */
void pawl__client_unwatch(struct pawl_client *client, struct pawl_watch *watch);

/* Around a step: lock, step the machine, take what it left, carry it out. `driven`: the calling
 * thread is about to drive the engine for an answer. */
void pawl__client_lock(struct pawl_client *client);
void pawl__client_unlock(struct pawl_client *client, bool driven); /* takes, and carries out */
void pawl__client_take(struct pawl_client *client, struct pawl__todo *todo_out); /* and unlock */
void pawl__client_carry_out(struct pawl_client *client, struct pawl__todo *todo, bool driven);

/* terms.c */

/* A lock of this client chose these: those to use, with one more user. NULL: no memory. Mutex held.
 */
struct pawl__terms *pawl__terms_share(struct pawl_client *client, const struct pawl__terms *chosen);
void pawl__terms_leave(struct pawl__terms *terms); /* mutex held or not */
void pawl__terms_forget(struct pawl_client *client);

/* One who needs the name's text leaves it; the last one frees the dead name. */
void pawl__name_leave(struct pawl__name *name);

/* call.c */
bool pawl__call_enter(struct pawl_client *client); /* false: it is closing */
void pawl__call_leave(struct pawl_client *client);
bool pawl__call_close(
    struct pawl_client *client); /* no more may enter; false: that was so before */
bool pawl__call_closing(const struct pawl_client *client);
void pawl__call_wait_all_left(struct pawl_client *client);

/* A lock that is closed is freed when its last user has left it. */
void pawl__lock_enter(struct pawl_lock *lock);
void pawl__lock_leave(struct pawl_lock *lock);
void pawl__lock_close(struct pawl_lock *lock);

/* Run a request and wait for its end. kind, handle, owner and what the kind needs are set (wait_us
 * as a duration, PAWL__NEVER, or 0 for a try). The status; a failure sets the last error. */
pawl_status pawl__call_wait(struct pawl_client *client, struct pawl__request *request);

/* The same for several requests, in two steps: all are asked in one go, so that together they take
 * hardly longer than one. Each has a waiter of its own (initialized), unless it is asynchronous:
 * those are not awaited. `driven`: the calling thread awaits them at once. */
void pawl__call_ask_all(
    struct pawl_client *client, struct pawl__request *const requests[], size_t count, bool driven);
void pawl__call_await_all(
    struct pawl_client *client, struct pawl__request *const requests[], size_t count);

/* Set the last error to what the request ended with. */
void pawl__call_explain(const struct pawl_lock *lock, struct pawl__request *request);

/* A close that leaves this behind (bits of PAWL__UNHEARD_) says so. */
pawl_status pawl__fail_unheard(unsigned unheard);

/* Start it and return; its hook tells when it has finished. */
void pawl__call_start(struct pawl_client *client, struct pawl__request *request);

/* The calling thread reads for these clients itself: the keeper need not. */
extern _Thread_local bool pawl__attends;

/* Start a request on this lock and return; a copy of it is kept, and the courier calls `done`,
 * once. Sets the last error. */
pawl_status pawl__call_async(
    struct pawl_lock *lock, const struct pawl__request *request, pawl_callback done, void *arg);

/* The same with an async of the caller's, who has set its request, `done` and arg. If this fails,
 * it is the caller's again. */
pawl_status pawl__call_launch(struct pawl_lock *lock, struct pawl__async *async);

/* End the waits on this lock. */
void pawl__call_cancel(struct pawl_lock *lock);

/* keeper.c */
bool pawl__keeper_init(struct pawl__keeper *keeper);
void pawl__keeper_attend(struct pawl_client *client); /* the engine has something for it to do */
void pawl__keeper_look(struct pawl_client *client); /* there is something new to poll, if it runs */
bool pawl__keeper_busy(struct pawl__host *host);    /* as in engine.h */
void pawl__keeper_kick(struct pawl_client *client); /* starts it if need be */
bool pawl__keeper_wanted(struct pawl_client *client); /* mutex held */
void pawl__keeper_stop(struct pawl_client *client);

/* courier.c */
bool pawl__courier_init(struct pawl__courier *courier, const pawl_client_options *options);
void pawl__courier_tell_composites(struct pawl_client *client); /* mutex held */

/* What the machine has finished goes to the courier, or is left to be told when the operations have
 * been submitted, by the second. Mutex held; not held. */
void pawl__courier_take_finished(struct pawl_client *client, struct pawl__todo *todo);
void pawl__courier_tell(struct pawl_client *client, struct pawl__request *request);
void pawl__courier_log(struct pawl_client *client, pawl_log_level level, const char *message);
void pawl__courier_run(struct pawl_client *client); /* all that is due, on this thread */
void pawl__courier_wait_for(struct pawl_client *client, const struct pawl_lock *lock);
void pawl__courier_stop(struct pawl_client *client);
void pawl__courier_fini(struct pawl__courier *courier);

/* registry.c */

/* A composite that wants to know which threads have ended. */
struct pawl__registered {
    struct pawl__list node;
    void (*gone)(struct pawl__registered *self, uint64_t owner);
};
void pawl__registry_note(struct pawl__registered *composite);
void pawl__registry_forget(struct pawl__registered *composite);

void pawl__registry_add(struct pawl_client *client);
void pawl__registry_remove(struct pawl_client *client);
void pawl__registry_count(int by); /* the calling thread holds so many more, or fewer, locks */

#endif
