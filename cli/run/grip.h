/* SPDX-License-Identifier: Apache-2.0 */
/* What the keeper holds: a lock of one server, a lock that a majority of servers keeps (--redlock),
 * or one permit of a semaphore. The rest of the keeper does not know which.
 *
 * Callbacks of one server's client are dispatched by the keeper, on its only thread. A lock of
 * several servers calls back on a thread of its own, so what callbacks leave here is atomic, and a
 * descriptor wakes whoever waits for it. */
#ifndef PAWL_RUN_GRIP_H
#define PAWL_RUN_GRIP_H

#include "run/link.h"
#include "run/run.h"

#include <pthread.h>

/* Asking how many permits there are. The library waits for the answer, so a thread of its own does,
 * and a server that hangs does not keep us from ending in time. Guarded by the mutex. */
struct run_count {
    pthread_mutex_t mutex;
    pthread_cond_t answer;
    bool asked;         /* a thread is with it */
    pawl_status status; /* of the last answer, and the reason */
    char why[RUN_TEXT_SIZE];
};

struct run_grip {
    const struct run_options *options;
    const struct run_link *link;
    pawl_client *clients[RUN_SERVERS_MAX];
    size_t client_count;
    struct run_meeting *meeting; /* of several servers; and */
    struct run_asking *asking;   /* of who holds it there; NULL: nobody has asked */
    pawl_lock *lock;             /* or */
    pawl_semaphore *semaphore;   /* and, while it is held, */
    pawl_permit permit;
    struct run_count count;
    bool counted;       /* the server has said that it has as many permits as we were told */
    bool in_files;      /* and not on a server */
    int wake_fd;        /* -1: the client has one */
    int64_t held_us;    /* when it was had */
    pawl_status answer; /* of run_grip_start(), once `answered` */
    char why[RUN_TEXT_SIZE];
    atomic_bool answered;
    int64_t lost_us; /* once `lost` */
    atomic_bool lost;
};

/* The reason for everything but PAWL_OK is in grip->why. Opening goes on in the background while
 * that is said: poll and dispatch as below, at *until_us_out at the latest, and ask again. Then
 * comes run_grip_opened(). */
pawl_status run_grip_open(
    struct run_grip *grip, const struct run_options *options, const struct run_link *link);
bool run_grip_is_opening(struct run_grip *grip, int64_t *until_us_out);
pawl_status run_grip_opened(struct run_grip *grip);
pawl_status run_grip_try(struct run_grip *grip);

/* Of several servers enough have answered: say which have not. */
void run_grip_tell_absent(const struct run_grip *grip);

/* While a permit is waited for: a server that has lost its data has also lost how many permits
 * there are, and nobody would ever get one. Or it could not say so far. This does not wait; what
 * has come of it is told by the other. A permit may come before that is PAWL_OK. */
void run_grip_remind(struct run_grip *grip);
pawl_status run_grip_counted(struct run_grip *grip);

/* Wait for it in the background: `answered` tells the end, which comes also after a cancel. */
pawl_status run_grip_start(struct run_grip *grip, int64_t wait_ms);
void run_grip_cancel(struct run_grip *grip);

/* What to poll for reading; then dispatch. */
int run_grip_fd(const struct run_grip *grip);
void run_grip_dispatch(struct run_grip *grip);

/* Of what is held: how long it surely still is (INT64_MAX: until released), its token (0: none),
 * and who the backend says holds it ("": it is lost already). */
int64_t run_grip_left_ms(const struct run_grip *grip);
uint64_t run_grip_token(const struct run_grip *grip);
void run_grip_owner(const struct run_grip *grip, char owner_out[PAWL_OWNER_SIZE]);

pawl_status run_grip_release(struct run_grip *grip);

/* Also releases. */
void run_grip_close(struct run_grip *grip);

#endif
