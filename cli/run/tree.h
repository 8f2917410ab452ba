/* SPDX-License-Identifier: Apache-2.0 */
/* The command with all its descendants, as /proc shows them; see tree.c. */
#ifndef PAWL_RUN_TREE_H
#define PAWL_RUN_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct run_process {
    pid_t pid;
    pid_t parent;
    pid_t session;
    char state; /* as in /proc/PID/stat */
    bool alive;
    bool member;
    uint64_t start; /* ticks since boot: with the pid, this names a process for good */
};

/* Whose tree it is. */
struct run_tree {
    pid_t front;      /* its children belong to it; 0: it is gone */
    pid_t keeper;     /* but for this one */
    pid_t child;      /* the command itself */
    int64_t child_us; /* when it had been started: a younger process has only its number */
    bool shares; /* the front had children before; only those with the mark are the command's */
    const char *mark; /* the PAWL_OWNER of the command and all that inherited its environment */
    pid_t session;    /* only processes of this session; 0: all */
    struct run_process *processes; /* the last look */
    size_t count;
    size_t room;
};

struct run_census {
    unsigned alive;  /* members that still run */
    unsigned denied; /* of these, those that may not be signalled */
};

/* Look, and send a signal to every member: TERM with a CONT to those that are stopped. 0: only
 * look. */
struct run_census run_tree_signal(struct run_tree *tree, int number);

/* Reap children of the front that have ended, but for the command and the keeper. For the front. */
void run_tree_reap(const struct run_tree *tree);

void run_tree_free(struct run_tree *tree);

/* Whether a process descends from another. */
bool run_tree_descends(pid_t pid, pid_t ancestor);

/* Whether the process is stopped. */
bool run_tree_is_stopped(pid_t pid);

#endif
