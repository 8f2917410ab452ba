/* SPDX-License-Identifier: Apache-2.0 */
/* Ending the command and all its descendants, step by step, by whoever drives it: the front, or the
 * keeper if the front is gone.
 *
 * TERM goes once, to those that are there when it begins, with a CONT if they are stopped. What
 * they start afterwards is how they tidy up (rm, umount) and is let alone until kill_us. From then
 * on all get KILL, at every step, and every step looks anew. Processes that may not be signalled
 * are waited for as long as the others, and then left. */
#include "run/end.h"

#include "run/run.h"

#include <signal.h>

/* A killed process may take its time: it writes a core, or sits in a system call on a dead disk. */
enum {
    KILL_TAKES_US = 5 * US_PER_S,
    PACE_US_MIN = 20 * US_PER_MS,
    PACE_US_MAX = 100 * US_PER_MS,     /* a look reads all of /proc */
    PACE_KILLED_US_MAX = 1 * US_PER_S, /* for those that KILL does not end */
};

void run_end_start(struct run_end *end, struct run_tree *tree, int64_t kill_us)
{
    *end = (struct run_end){tree, kill_us, RUN_NEVER, PACE_US_MIN, false, false, 0};
}

/* Those outside the session have not been asked yet. */
void run_end_widen(struct run_end *end, int64_t kill_us)
{
    end->asked = end->asked && end->tree->session == 0;
    end->tree->session = 0;
    end->kill_us = run_min(end->kill_us, kill_us);
}

int64_t run_end_next_us(const struct run_end *end, int64_t now_us)
{
    const int64_t next_us = now_us + end->pace_us;
    return end->killed ? next_us : run_min(next_us, end->kill_us);
}

bool run_end_step(struct run_end *end, int64_t now_us)
{
    if (now_us >= end->kill_us && !end->killed) {
        end->killed = true;
        end->give_up_us = now_us + KILL_TAKES_US;
        end->pace_us = PACE_US_MIN;
    }
    const int number = end->killed ? SIGKILL : end->asked ? 0 : SIGTERM;
    const struct run_census census = run_tree_signal(end->tree, number);
    end->asked = true;
    end->pace_us =
        run_min(end->pace_us + end->pace_us / 4, end->killed ? PACE_KILLED_US_MAX : PACE_US_MAX);
    run_tree_reap(end->tree);
    if (census.denied > end->denied) {
        end->denied = census.denied;
    }
    return census.alive == 0 || (end->killed && census.alive == census.denied) ||
           now_us >= end->give_up_us;
}
