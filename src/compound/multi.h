/* SPDX-License-Identifier: Apache-2.0 */
/* The multi-lock: all of a set of locks, or none of them.
 *
 * It has a handle of its own on each member's name (a twin), with the member's options and owner.
 * A hold belongs to client, name and owner, so what a twin acquires, the member holds too; but a
 * wait that ends here ends no wait of the member's other users, and a member may be closed first.
 *
 * All processes take members in one order, by name, then backend, then kind, and nobody waits for a
 * member while it has a later one: so no two can wait for each other. Names come first because they
 * are the same everywhere; the same backend may be written differently in different URLs.
 *
 * To ask one member after the other would cost one way to the backend and back for each. So all are
 * asked at once. Where one client's engine can give several locks together (core/party.c), its
 * members are one question, and all of them are given or none. If that is the whole set, the core
 * waits for it as a whole, for a while: if others take its members by turns they may never be free
 * all at once. If a member is fair, or it is not the whole set, nothing is waited for at first: a
 * place in a queue is taken by asking and kept while one waits, all or none is not. The first that
 * is not free is what the caller has to wait for; whatever was given to it beyond that one goes
 * back before it does, what comes before it stays, and from then on each is asked for by itself.
 *
 *   multi.c       opening and closing, what the public calls are told
 *   multi_plan.c  what to ask next: no clock, no threads
 *   multi_call.c  asking: with the caller waiting, or from callback to callback */
#ifndef PAWL_COMPOUND_MULTI_H
#define PAWL_COMPOUND_MULTI_H

#include "base/limits.h"
#include "base/wait.h"
#include "core/client.h"

#include <pthread.h>
#include <stdatomic.h>

#define PAWL__MULTI_ERROR_SIZE 512

/* One member's part in one call. */
struct pawl__multi_slot {
    struct pawl__async async; /* the request; asynchronous calls use all of it */
    struct pawl__waiter waiter;
    pawl_lock_info info;
    struct pawl__party party; /* of those that are asked with it, if it is the first of them */
    bool asked;               /* in this round, */
    bool spared;              /* and not given only because another was not */
    size_t group; /* so many members of its client are asked with it; 0: it is not the first */
    bool has;     /* acquired in this call */
    pawl_status status;
    struct pawl__multi_call *call;
};

enum pawl__multi_stage {
    PAWL__MULTI_BEGIN,
    PAWL__MULTI_WHOLE, /* all, as one, for as long as there is patience */
    PAWL__MULTI_TRY,   /* all that are missing, without waiting */
    PAWL__MULTI_YIELD, /* give back what comes after the one to wait for */
    PAWL__MULTI_WAIT,  /* for that one */
    PAWL__MULTI_UNDO,  /* give back everything */
    PAWL__MULTI_ALL    /* release, extend, inspect: one question to each */
};

/* One call on a multi-lock. Rounds of questions: pawl__multi_next() marks the slots to ask, and
 * with what; the driver asks and fills in their status. */
struct pawl__multi_call {
    struct pawl__list node; /* in the multi-lock's calls */
    struct pawl__multi *multi;
    enum pawl__request_kind kind; /* what the user wants */
    uint64_t owner;
    _Atomic bool stop;        /* no wait may begin any more */
    int64_t until_us;         /* patience for the whole; NEVER: forever */
    int64_t lease_us;         /* extend */
    pawl_lock_info *info_out; /* inspect */
    size_t count;
    enum pawl__multi_stage stage;
    bool whole;  /* all members can be asked as one, */
    bool queues; /* but not be waited for: one is fair */
    bool apart;  /* they are not: who waits keeps what comes before */
    size_t next; /* the slot to wait for: the first that is not acquired, and was not spared */

    enum pawl__request_kind ask; /* in this round */
    int64_t ask_wait_us;         /* a duration, NEVER, or 0 */
    size_t error_slot;           /* the first slot of this round that failed; count: none */
    char error[PAWL__MULTI_ERROR_SIZE];

    pawl_status status; /* what the call ends with, */
    size_t culprit;     /* because of this slot; count: none */
    char reason[PAWL__MULTI_ERROR_SIZE];

    struct pawl__multi_hold *hold;    /* acquire: for a first grant, */
    struct pawl__multi_call *release; /* and for its release */
    size_t pending;                   /* asynchronous: questions without an answer yet */
    pawl_callback done;
    void *arg;
    struct pawl__request **together; /* room for one client's requests */
    struct pawl__multi_slot slots[]; /* in canonical order, as the members */
};

/* What an owner has acquired through the multi-lock. */
struct pawl__multi_hold {
    struct pawl__list node;
    uint64_t owner;
    unsigned count;
    struct pawl__list releases; /* a call for each */
};

struct pawl__multi_member {
    struct pawl_lock *twin;
    size_t index; /* in the user's order */
    _Atomic int status;
};

struct pawl__multi {
    union {
        struct pawl_lock lock; /* first: what the user has */
        struct pawl__compound compound;
    };
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    /* Guarded by the mutex. */
    bool closing;
    unsigned inside; /* threads that use the twins now */
    unsigned users;  /* the handle, and asynchronous calls under way: the last one frees it */
    struct pawl__list calls;
    struct pawl__list holds;
    /* Fixed. */
    size_t count;
    bool whole;                          /* the backend gives all members as one, */
    bool queues;                         /* and at least one stands in a queue if it waits */
    struct pawl__multi_member members[]; /* in canonical order */
};

/* multi.c */
pawl_status pawl__multi_open(
    struct pawl_lock *const locks[], size_t count, struct pawl_lock **lock_out);
pawl_status pawl__multi_status(const struct pawl_lock *lock, size_t index);
bool pawl__multi_enter(struct pawl__multi *multi); /* false: it is closing; sets the last error */
void pawl__multi_leave(struct pawl__multi *multi);
void pawl__multi_drop(struct pawl__multi *multi); /* one user less */
struct pawl__multi_hold *pawl__multi_find_hold(   /* NULL: none. The mutex is held */
    struct pawl__multi *multi, uint64_t owner);
bool pawl__multi_joins(const struct pawl_lock *twin); /* with others of its client */

/* How long what an acquire has got so far lasts at least, without renewal; < 0: something is lost.
 * Then, and if it is not NEVER, *first_out says which ends first. */
int64_t pawl__multi_left_us(const struct pawl__multi_call *call, size_t *first_out);

/* The owner has all of it: from now on callbacks tell of losses. */
void pawl__multi_confirm(struct pawl__multi *multi, uint64_t owner);

/* The canonical order of members: < 0, 0 or > 0. */
int pawl__multi_compare(const char *name, const char *backend, pawl_kind kind,
    const char *other_name, const char *other_backend, pawl_kind other_kind);

/* multi_plan.c */

/* Judge the answers of the last round and prepare the next. False: there is none; status says how
 * the call ended. */
bool pawl__multi_next(struct pawl__multi_call *call, int64_t now_us);

/* A slot's answer in this round; `error` is its sentence. */
void pawl__multi_answer(
    struct pawl__multi_call *call, size_t slot, pawl_status status, const char *error);

/* This slot was acquired, and lost before all were: give all back. `name` is the lock's. */
void pawl__multi_fail_lost(struct pawl__multi_call *call, size_t slot, const char *name);

/* multi_call.c */
struct pawl__multi_call *pawl__multi_call_new(
    struct pawl__multi *multi, enum pawl__request_kind kind, uint64_t owner);
void pawl__multi_call_free(struct pawl__multi_call *call);
pawl_status pawl__multi_run(struct pawl__multi_call *call); /* inside; waits, and frees the call */
pawl_status pawl__multi_start(struct pawl__multi_call *call); /* inside; OK: calls `done` */
void pawl__multi_stop_calls(struct pawl__multi *multi);       /* end all waits */

#endif
