/* SPDX-License-Identifier: Apache-2.0 */
/* Ending the command with all its descendants: TERM, and KILL when its time is over; see end.c.
 */
#ifndef PAWL_RUN_END_H
#define PAWL_RUN_END_H

#include "run/tree.h"

#include <stdbool.h>
#include <stdint.h>

struct run_end {
    struct run_tree *tree;
    int64_t kill_us;    /* when KILL is due; may be moved by the caller meanwhile */
    int64_t give_up_us; /* when to leave alone what survives KILL; set when that is sent */
    int64_t pace_us;    /* until the next look; it grows */
    bool asked;         /* TERM was sent */
    bool killed;        /* KILL was sent */
    unsigned denied;    /* processes that may not be signalled */
};

void run_end_start(struct run_end *end, struct run_tree *tree, int64_t kill_us);

/* The session of the tree does not matter any more, and KILL is due at kill_us at the latest. */
void run_end_widen(struct run_end *end, int64_t kill_us);

/* When to call run_end_step() again while it answers false. */
int64_t run_end_next_us(const struct run_end *end, int64_t now_us);

/* True: nobody is left, or nobody that could be ended. */
bool run_end_step(struct run_end *end, int64_t now_us);

#endif
