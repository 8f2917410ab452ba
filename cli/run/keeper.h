/* SPDX-License-Identifier: Apache-2.0 */
/* The keeper process, and what its two files share: keeper.c (its life, and waiting for the
 * lock) and hold.c (holding it). */
#ifndef PAWL_RUN_KEEPER_H
#define PAWL_RUN_KEEPER_H

#include "run/grip.h"
#include "run/link.h"
#include "run/run.h"
#include "run/signals.h"
#include "run/tree.h"

#include <sys/types.h>

struct run_keeper {
    const struct run_options *options;
    struct run_link *link;
    pid_t front;
    bool front_shares; /* it had children before: see struct run_tree */
    struct run_grip grip;
    bool front_gone;
    int signals_fd;      /* -1: deaf */
    bool done;           /* the front wants us to release and end */
    bool pausing;        /* it wants us to stop waiting until it says so */
    int64_t wait_end_us; /* RUN_NEVER: wait as long as it takes */
    bool outage_told;    /* that it is waited for a server */
    bool holder_told;    /* who has it, or that it is waited for */
    bool late;           /* not all has come of the last look yet, */
    bool data_due;       /* and it is to tell whether somebody's data has the name */
    char owner[PAWL_OWNER_SIZE];
};

/* The whole life of the keeper, in its own process. */
_Noreturn void run_keeper(
    const struct run_options *options, struct run_link *link, pid_t front, bool front_shares);

/* Wait until then, or until the front or the library has something to say, and see to it. */
void run_keeper_pump(struct run_keeper *keeper, int64_t until_us);

/* hold.c: tell the front that the lock is ours, and stay until it is done or gone. Afterwards
 * nothing of the command runs. False: the front was stopped before it heard that; it does not want
 * the lock now. */
bool run_hold(struct run_keeper *keeper);

/* wait.c: wait for the lock, and tell meanwhile who holds it. PAWL_OK: held; PAWL_CANCELED:
 * the front wants no more, or not now. The reason for everything else is in grip.why. */
pawl_status run_wait(struct run_keeper *keeper);

#endif
