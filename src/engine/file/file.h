/* SPDX-License-Identifier: Apache-2.0 */
/* The file engine from the inside: what one client and one name are made of, and what the parts of
 * the engine ask of each other. To read in this order: record.h, lockfile.h, this, place.c,
 * operations.c, news.c, file.c.
 *
 * Threads: one mutex per client guards every field below; it is held over the system calls on lock
 * files, which do not wait for anybody. It is never held during a call into the host: what the host
 * has to be told is queued as notices and delivered by pawl__news_deliver() after the mutex was let
 * go.
 *
 * Invariants, whenever the mutex is free:
 *  - held: fd is open and PAWL__BYTE_HOLD of it is locked by us.
 *  - watched: if fd is open, PAWL__BYTE_WAIT of it is locked by us.
 *  - wd >= 0: the open file is watched by inotify, and the place is in watches under wd. An open
 *    file with wd < 0 is *blind*: its timer makes up for the missing news.
 *  - sure: wd >= 0, and the path was looked at after the watch began.
 *  - alone: hears_opens, the last record in the file is ours and says "alone", and so nobody was
 *    granted the lock since without our hearing of it. unawaited: alone, and nobody waits either.
 *  - idle: in the list if and only if the file is open and neither held nor watched. */
#ifndef PAWL_FILE_FILE_H
#define PAWL_FILE_FILE_H

#include "base/heap.h"
#include "base/list.h"
#include "base/map.h"
#include "base/wait.h"
#include "core/engine.h"
#include "engine/file/lockfile.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* One name. */
struct pawl__file_place {
    struct pawl__place base;
    char *file_name;
    struct pawl__lockfile file; /* stays open between acquires; see `idle` */
    bool held;
    uint64_t id;      /* held: by this tenure */
    uint64_t token;   /* of the last tenure of ours that held */
    bool watched;     /* the core wants wake-ups */
    bool sure;        /* the path led to the open file, and no event has cast doubt on that */
    unsigned streak;  /* how many grants in a row were ours */
    bool hears_opens; /* the watch also tells who opens the file */
    bool alone;
    bool unawaited;

    int wd; /* inotify's number for the open file; -1: none */
    struct pawl__map_node wd_node;
    struct pawl__timer timer; /* the next wake-up without an event, or look at a blind hold */
    int64_t pause_us;         /* what the timer was last set to */

    bool wake_due; /* notices for the host */
    bool lost_due;
    uint64_t lost_id;

    struct pawl__list all_node;
    struct pawl__list idle_node;
    struct pawl__list notice_node;
};

/* One client. */
struct pawl__file_engine {
    struct pawl__host *host;
    pthread_mutex_t mutex;
    struct pawl__directory directory;
    struct pawl__record record; /* of this process; holder and token change with each grant */
    struct pawl__list places;
    struct pawl__list idle; /* open files that nobody needs now, the longest unused first */
    size_t idle_count;
    size_t held_count;
    size_t watched_count;

    int inotify_fd;           /* -1: none */
    struct pawl__map watches; /* from wd to place */
    struct pawl__heap timers;
    struct pawl__list notices; /* places the host has to be told something about */
    char *warning;             /* to be logged, or NULL */
    bool warned;

    struct pawl__seat seat;      /* who reads inotify and serves timers */
    int wake_fd;                 /* the leader's, see pawl__waiter_poll(); -1: none */
    struct pawl__waiter *leader; /* NULL: nobody leads */
    int64_t leader_due_us;       /* when the leader looks by itself */
    bool keeper_asked;           /* attend() was called, poll() not yet */
    bool keeper_polls;           /* the keeper was given the inotify descriptor */
    int64_t keeper_due_us;       /* when the keeper looks by itself */
};

/* ===== place.c: the file of one place. Locks: the mutex is held. ===== */

/* Open the file, if it is not open, and register as a waiter if we are one. Statuses as in
 * lockfile.h. */
pawl_status pawl__place_open(
    struct pawl__file_engine *self, struct pawl__file_place *place, bool create);

/* Let go of the file, and with it of every lock on it. The place must not be held. */
void pawl__place_close(struct pawl__file_engine *self, struct pawl__file_place *place);

/* Register as a waiter in the open file. */
pawl_status pawl__place_register(struct pawl__file_place *place);

/* Lock PAWL__BYTE_HOLD of the file that the path leads to, opening or making it if need be, and
 * prepare the grant; PAWL__BYTE_BREAK, of an existing file only. Nothing is locked unless they
 * answer PAWL_OK. */
pawl_status pawl__place_lock(
    struct pawl__file_engine *self, struct pawl__file_place *place, struct pawl__grant *grant_out);
pawl_status pawl__place_lock_break(struct pawl__file_engine *self, struct pawl__file_place *place);
void pawl__place_unlock(
    struct pawl__file_engine *self, struct pawl__file_place *place, enum pawl__lock_byte byte);

/* Write the grant down. On failure nothing is granted, but the byte is still locked. */
pawl_status pawl__place_grant(
    struct pawl__file_engine *self, struct pawl__file_place *place, struct pawl__grant *grant);

void pawl__place_set_held(
    struct pawl__file_engine *self, struct pawl__file_place *place, bool held);

/* PAWL_OK: the path still leads to the open file; PAWL_LOST: it does not. To be called after
 * pawl__news_drain(). */
pawl_status pawl__place_check(struct pawl__file_engine *self, struct pawl__file_place *place);

/* Let go of the lock, and tell those who wait if there are any (true). */
bool pawl__place_release(struct pawl__file_engine *self, struct pawl__file_place *place);

/* After that: PAWL_LOST if the lock was lost before. */
pawl_status pawl__place_check_released(
    struct pawl__file_engine *self, struct pawl__file_place *place);

/* The path leads elsewhere: what was held is lost, the file is let go. `tell`: the host does not
 * learn it from an answer. */
void pawl__place_lose(struct pawl__file_engine *self, struct pawl__file_place *place, bool tell);

/* After each operation: keep the file open, but not too many of them. */
void pawl__place_settle(struct pawl__file_engine *self, struct pawl__file_place *place);

/* ===== operations.c. Locks: the mutex is held. ===== */

/* Carry out one operation and fill in its answer. */
void pawl__file_perform(struct pawl__file_engine *self, struct pawl__op *op);

/* ===== news.c: how this process hears of releases and of lost files ===== */

bool pawl__news_init(struct pawl__file_engine *self);
void pawl__news_free(struct pawl__file_engine *self);

/* Locks: the mutex is held. */

/* Hear of the open file from now on; sets the place's timer where inotify cannot be had. */
void pawl__news_begin(struct pawl__file_engine *self, struct pawl__file_place *place);
void pawl__news_end(struct pawl__file_engine *self, struct pawl__file_place *place);

/* Hear from now on of everybody who opens the file, too. False: cannot be had. */
bool pawl__news_hear_opens(struct pawl__file_engine *self, struct pawl__file_place *place);

/* Take in all events up to now. A hold that turns out to be lost is over afterwards, and the host
 * will be told; nothing else happens to the file of a place that is not held. */
void pawl__news_drain(struct pawl__file_engine *self);

/* Set the timer anew, after held or watched has changed. */
void pawl__news_rearm(struct pawl__file_engine *self, struct pawl__file_place *place);

void pawl__news_wake(struct pawl__file_engine *self, struct pawl__file_place *place);
void pawl__news_lost(struct pawl__file_engine *self, struct pawl__file_place *place);

/* An operation is done: if nobody leads although others wait to, it is their turn. */
void pawl__news_hand_over(struct pawl__file_engine *self);

/* Locks: takes the mutex; calls the host without it. */

/* Whether anything has to be told or done now. Locks: the mutex is held. */
bool pawl__news_is_due(const struct pawl__file_engine *self, bool driven);

/* Tell the host what is due; make sure that somebody listens and that the leader looks if it has
 * to. `driven`: the caller is about to drive(). */
void pawl__news_deliver(struct pawl__file_engine *self, bool driven);

void pawl__file_drive(
    void *self, enum pawl__await what, struct pawl__waiter *waiter, int64_t deadline_us);
size_t pawl__file_poll(void *self, struct pollfd *fds, int64_t *due_us);
void pawl__file_pump(void *self, const struct pollfd *fds, size_t count);

/* ===== For people who look, as core/engine.h describes it. Locks: none are taken; of the engine
 * they use only what does not change after open(). ===== */

/* survey.c */
pawl_status pawl__file_list(void *self, const char *pattern, pawl_entry_callback each, void *arg);
pawl_status pawl__file_look(void *self, const char *name, size_t name_size, pawl_entry *entry_out);

/* Which lock a file in the directory belongs to, by its record if its name does not say. False: no
 * lock's, or it cannot be told. `name_out` has room for PAWL__NAME_SIZE_MAX bytes and a NUL. */
bool pawl__survey_name(const struct pawl__file_engine *self, const char *file_name, char *name_out,
    size_t *name_size_out);

/* lookout.c */
pawl_status pawl__file_watch_open(void *self, const char *pattern, void **watch_out);
pawl_status pawl__file_watch_wait(
    void *self, void *watch, int64_t deadline_us, struct pawl__hint *hint_out);
void pawl__file_watch_close(void *self, void *watch);
bool pawl__file_watch_exact(void *self, void *watch);

/* examine.c */
pawl_status pawl__file_examine(void *self, pawl_finding_callback each, void *arg);

#endif
