/* SPDX-License-Identifier: Apache-2.0 */
/* What can be done to a worker, whatever the engine: it is killed, stopped for less or more than
 * its lease, or told to close everything and end; another one takes its place. */
#include "torture/lib/round.h"

/* In every other round about counts nobody is killed, so that not one permit may be missing. */
bool worker_fault_kill(struct round *round, struct fault *fault)
{
    if (round->arena->theme == THEME_COUNTS && round->seed % 2 == 1) {
        return false;
    }
    staff_kill(round, fault->target);
    return true;
}

/* One that has hardly begun would only wait. */
bool worker_fault_leave(struct round *round, struct fault *fault)
{
    if (atomic_load(&round->arena->slots[fault->target].stage) != ARENA_READY) {
        return false;
    }
    staff_ask_to_leave(round, fault->target);
    return true;
}

bool worker_fault_left(struct round *round, struct fault *fault)
{
    return staff_has_left(round, fault->target);
}

bool worker_fault_stop(struct round *round, struct fault *fault)
{
    staff_stop(round, fault->target);
    return true;
}

bool worker_fault_continue(struct round *round, struct fault *fault)
{
    staff_continue(round, fault->target);
    return true;
}
