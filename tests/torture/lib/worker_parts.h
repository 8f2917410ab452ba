/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the worker share.
 *
 *   worker.c         the process: its arena, its log, its threads, its beginning and its end
 *   worker_locks.c   what it does with locks, and with those that a quorum of servers keeps
 *   worker_multi.c   with several locks at once
 *   worker_counts.c  with semaphores and latches */
#ifndef PAWL_TORTURE_LIB_WORKER_PARTS_H
#define PAWL_TORTURE_LIB_WORKER_PARTS_H

#include "pawl.h"
#include "torture/lib/arena.h"

#include <pthread.h>
#include <semaphore.h>

enum { MULTIS_MAX = 3 };

/* How a hold is had. */
enum style { STYLE_RENEWED, STYLE_FIXED, STYLE_ASYNC };

/* One name in one way. The first two are shared by all threads, the last is one thread's. */
struct handle {
    pawl_lock *lock;
    unsigned name;
    pawl_kind kind;
};

struct caller {
    pthread_t thread;
    unsigned index;
    uint64_t random;
    uint64_t holds;
    struct handle own[2][ARENA_NAMES_MAX];
    pawl_lock *multis[MULTIS_MAX];
    sem_t answered; /* of an asynchronous call */
    pawl_status answer;
};

/* One hold. */
struct visit {
    struct caller *caller;
    pawl_lock *lock;
    enum style style;
    struct torture_record record;
};

extern struct arena *arena;
extern struct arena_slot *self;
extern pawl_client *clients[ARENA_SERVERS_MAX];
extern struct handle shared[2][2][ARENA_NAMES_MAX]; /* [1]: to read, where some do */
extern struct caller callers[ARENA_THREADS_MAX];

/* ===== worker.c ===== */

/* Whatever must never happen; it ends the worker. */
void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));
void write_down(const struct torture_record *record);
void pass_us(int64_t duration_us);
bool goes_on(void);
void check_status(pawl_status status, const char *call);
void check_limit(int64_t began_us, int64_t limit_ms, bool is_release);
bool is_wrong(pawl_status status); /* one that no fault of a backend excuses */
int64_t draw_wait_ms(uint64_t *random);
void note_memory(void);                                         /* after each hold */
void note_progress(const struct caller *caller, int64_t at_us); /* it got what it wanted */

/* ===== worker_locks.c ===== */

bool locks_open(void);
void locks_close(void);
void visit_lock(struct caller *caller);

/* The acquire has just returned; a moment at work; the release is about to be called, and has been
 * answered. */
void enter(struct visit *visit);
void look(struct visit *visit);
void leave(struct visit *visit);
void left(struct visit *visit, pawl_status status);

/* ===== worker_multi.c ===== */

bool multis_open(struct caller *caller);
void multis_close(struct caller *caller);
void visit_several(struct caller *caller);

/* ===== worker_counts.c ===== */

bool counts_open(void);
void counts_close(void);
void visit_count(struct caller *caller);

#endif
