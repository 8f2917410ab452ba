/* SPDX-License-Identifier: Apache-2.0 */
/* The front's inside: shared by front.c, job.c and line.c alone. */
#ifndef PAWL_RUN_FRONT_H
#define PAWL_RUN_FRONT_H

#include "run/end.h"
#include "run/link.h"
#include "run/run.h"
#include "run/signals.h"
#include "run/tree.h"

enum run_state {
    RUN_WAITING, /* for the lock */
    RUN_PAUSING, /* ^Z while waiting: the keeper shall stop waiting, too */
    RUN_RUNNING, /* the command runs */
    RUN_ENDING,  /* it is being ended, with all its descendants */
    RUN_LEAVING, /* the keeper releases and ends */
    RUN_LEFT,
};

enum { RUN_SENTENCE_SIZE = 2048, RUN_UNSAID_MAX = 4 };

struct run_front {
    const struct run_options *options;
    struct run_link link;
    struct run_signals signals;
    enum run_state state;
    pid_t keeper;
    bool keeper_reaped;
    bool released;  /* the keeper has said what became of the lock */
    bool own_group; /* the command has a process group of its own: there is no terminal */
    bool child_ended;
    int child_status; /* the exit status it asks for */
    int child_signal; /* that ended it; 0: it exited */
    bool was_ended;   /* we told it to end, because of the lock */
    bool lost;        /* the keeper has said so */
    int timer_fd;     /* -1: the lock has no end to watch */
    int64_t leave_us; /* when to stop waiting for the keeper's end */
    int death_signal; /* end by this, as the caller expects; 0: exit */
    bool interrupted; /* SIGINT came, from wherever */
    int result;
    bool line_shown; /* the line on the terminal that says who holds the lock */
    int pause_signal;
    int unsaid_count; /* sentences that nobody reads yet */
    char unsaid[RUN_UNSAID_MAX][RUN_SENTENCE_SIZE];
    char owner[PAWL_OWNER_SIZE];
    struct run_tree tree;
    struct run_end end;
};

/* front.c */
void run_front_leave(struct run_front *front, int result);

/* job.c: signals, stops, and the ends of children. */
void run_job_signals(struct run_front *front);
void run_job_paused(struct run_front *front);

/* line.c: what the front says. It never waits for a reader: it has a command to end in time. */
void run_say(struct run_front *front, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Say now what could not be said; at the end, wait a little for somebody to read it. */
void run_say_unsaid(struct run_front *front, int wait_ms);

/* The line on the terminal while it waits. */
void run_line_show(struct run_front *front, const char *text);
void run_line_clear(struct run_front *front);

#endif
