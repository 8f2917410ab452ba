/* SPDX-License-Identifier: Apache-2.0 */
/* The front's signals: they are blocked and come by a descriptor, so that no handler runs and the
 * command inherits exactly the dispositions that the caller had.
 *
 * The keeper inherits the blocked set and ends when the front does: a signal to all processes of a
 * service must not take the lock from under the command. What is meant to end it goes to the front.
 */
#ifndef PAWL_RUN_SIGNALS_H
#define PAWL_RUN_SIGNALS_H

#include <signal.h>
#include <stdbool.h>

struct run_signal {
    int number;
    bool from_terminal; /* by the kernel: every process of the job got it */
    pid_t sender;       /* 0: unknown */
};

struct run_signals {
    int fd;
    sigset_t caller_mask;
    bool caller_ignores_children; /* SIGCHLD was ignored; put back for the command */
};

/* False: errno says why. */
bool run_signals_open(struct run_signals *signals);

/* For the keeper, which has closed what it inherited. -1: errno says why. */
int run_signals_reopen(void);

/* The next signal, if there is one. */
bool run_signals_next(const struct run_signals *signals, struct run_signal *signal_out);

/* As the caller had them; for a process about to exec. Async-signal-safe. */
void run_signals_restore(const struct run_signals *signals);

/* What the signal does to a process that has no handler: end it, or stop it. */
bool run_signal_stops(int number);
bool run_signal_ends(int number);

/* Do what the signal does by default, to ourselves: end, or stop until SIGCONT comes. */
void run_signal_obey(int number);

#endif
