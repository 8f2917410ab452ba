/* SPDX-License-Identifier: Apache-2.0 */
/* Ending the command and all its descendants, step by step, by whoever drives it: the front, or the
 * keeper if the front is gone.
 *
 * Every step looks anew, because processes that are being ended may still start others. Each gets
 * TERM once, and a CONT if it is stopped; from kill_us on all get KILL, at every step. Processes
 * that may not be signalled are waited for as long as the others, and then left. */
#include "run_end.h"

#include "run.h"

#include <signal.h>

/* A killed process may take its time: it writes a core, or sits in a system call on a dead disk. */
enum { KILL_TAKES_US = 5 * US_PER_S };

void run_end_start(struct run_end *end, struct run_tree *tree, int64_t kill_us)
{
    *end = (struct run_end){tree, kill_us, RUN_NEVER, false, 0};
}

bool run_end_step(struct run_end *end, int64_t now_us)
{
    if (now_us >= end->kill_us && !end->killed) {
        end->killed = true;
        end->give_up_us = now_us + KILL_TAKES_US;
    }
    const struct run_census census = run_tree_signal(end->tree, end->killed ? SIGKILL : SIGTERM);
    run_tree_reap(end->tree);
    if (census.denied > end->denied) {
        end->denied = census.denied;
    }
    return census.alive == 0 || (end->killed && census.alive == census.denied) ||
           now_us >= end->give_up_us;
}
