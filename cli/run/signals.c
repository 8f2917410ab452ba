/* SPDX-License-Identifier: Apache-2.0 */
/* Signals by descriptor; see signals.h. A signal that the caller ignores (nohup, a background
 * job of a script) is left alone: blocked, it would be queued although nobody wants it. */
#include "run/signals.h"

#include <stddef.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

static const int heard[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGALRM, SIGTSTP,
    SIGTTIN, SIGTTOU, SIGCONT, SIGWINCH};

enum { HEARD_COUNT = sizeof heard / sizeof heard[0] };

static bool is_ignored(int number)
{
    struct sigaction action;
    return sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

bool run_signals_open(struct run_signals *signals)
{
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < HEARD_COUNT; i++) {
        if (!is_ignored(heard[i])) {
            sigaddset(&set, heard[i]);
        }
    }
    signals->caller_ignores_children = is_ignored(SIGCHLD);
    if (signals->caller_ignores_children) {
        signal(SIGCHLD, SIG_DFL); /* or the command's exit status would be thrown away */
    }
    sigaddset(&set, SIGCHLD);
    signals->fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    sigaddset(&set, SIGPIPE); /* never read: a closed stderr shall not end us */
    return signals->fd >= 0 && sigprocmask(SIG_BLOCK, &set, &signals->caller_mask) == 0;
}

/* All that are blocked; who had blocked one before us does not hear it otherwise either. */
int run_signals_reopen(void)
{
    sigset_t set;
    return sigprocmask(SIG_BLOCK, NULL, &set) == 0 ? signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK)
                                                   : -1;
}

/* What a terminal sends, it sends to the whole job. The kernel sends others, too: an alarm() that
 * was set before we were executed is for this process alone. */
static bool terminals_send(int number)
{
    return number == SIGINT || number == SIGQUIT || number == SIGHUP || number == SIGCONT ||
           number == SIGWINCH || run_signal_stops(number);
}

bool run_signals_next(const struct run_signals *signals, struct run_signal *signal_out)
{
    struct signalfd_siginfo info;
    if (read(signals->fd, &info, sizeof info) != (ssize_t)sizeof info) {
        return false;
    }
    signal_out->number = (int)info.ssi_signo;
    signal_out->from_terminal = info.ssi_code == SI_KERNEL && terminals_send(signal_out->number);
    signal_out->sender = info.ssi_code <= 0 ? (pid_t)info.ssi_pid : 0;
    return true;
}

void run_signals_restore(const struct run_signals *signals)
{
    if (signals->caller_ignores_children) {
        signal(SIGCHLD, SIG_IGN);
    }
    sigprocmask(SIG_SETMASK, &signals->caller_mask, NULL);
}

bool run_signal_stops(int number)
{
    return number == SIGTSTP || number == SIGTTIN || number == SIGTTOU || number == SIGSTOP;
}

bool run_signal_ends(int number)
{
    return !run_signal_stops(number) && number != SIGCONT && number != SIGWINCH &&
           number != SIGCHLD;
}

void run_signal_obey(int number)
{
    sigset_t set;
    sigset_t before;
    sigemptyset(&set);
    sigaddset(&set, number);
    signal(number, SIG_DFL);
    raise(number);
    sigprocmask(SIG_UNBLOCK, &set, &before);
    sigprocmask(SIG_SETMASK, &before, NULL);
}
