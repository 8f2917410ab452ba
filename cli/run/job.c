/* SPDX-License-Identifier: Apache-2.0 */
/* The front as a job: what it does with signals, when it stops, and what becomes of children.
 *
 * With a terminal the command is in the front's process group. What the terminal sends (^C, ^Z, a
 * hang-up) reaches it directly and is not sent on; everything else that comes to the front is.
 * Without a terminal the command has a group of its own, and gets everything from the front, once.
 * A signal that the command or a descendant of it sent is not sent back.
 *
 * The front does not stop by itself at ^Z but when the command has stopped: an editor puts the
 * terminal right first. While it waits for the lock it lets the keeper stop waiting before it
 * stops: a stopped job must not be given a lock. */
#include "run/front.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

/* ===== Children ===== */

static void child_ended(struct run_front *front, const siginfo_t *info)
{
    const bool exited = info->si_code == CLD_EXITED;
    front->child_ended = true;
    front->child_signal = exited ? 0 : info->si_status;
    front->child_status = exited ? info->si_status : 128 + info->si_status;
}

/* The job stops with the command, for the shell to see; and when the shell continues the front
 * alone the command goes on, too. In a group that no shell watches the kernel lets nobody stop. */
static void child_stopped(struct run_front *front, int number)
{
    if (front->own_group || front->state != RUN_RUNNING) {
        return;
    }
    run_signal_obey(number);
    if (run_tree_is_stopped(front->tree.child)) {
        run_tree_signal(&front->tree, SIGCONT);
    }
}

static bool has_ended(const siginfo_t *info)
{
    return info->si_code != CLD_STOPPED && info->si_code != CLD_CONTINUED;
}

static void handle_child(struct run_front *front, const siginfo_t *info)
{
    if (info->si_pid == front->keeper && has_ended(info)) {
        front->keeper_reaped = true;
    } else if (info->si_pid == front->tree.child && info->si_code == CLD_STOPPED) {
        child_stopped(front, info->si_status);
    }
}

/* Take what was seen, and nothing else. A command that was seen to go on may have ended since: its
 * end, taken here, would be taken for that, and nobody would ever see it. */
static void take_event(struct run_front *front, const siginfo_t *seen)
{
    const int which = has_ended(seen) ? WEXITED : WSTOPPED | WCONTINUED;
    siginfo_t info = {.si_pid = 0};
    if (waitid(P_PID, (id_t)seen->si_pid, &info, which | WNOHANG) == 0 && info.si_pid != 0) {
        handle_child(front, &info);
    }
}

/* The command is not reaped here: its number stays taken until its tree is gone. All others are,
 * also orphans that the subreaper was given. */
static void wait_for_children(struct run_front *front)
{
    const int which = WEXITED | WSTOPPED | WCONTINUED | WNOHANG;
    siginfo_t info;
    for (;;) {
        info.si_pid = 0;
        if (waitid(P_ALL, 0, &info, which | WNOWAIT) != 0 || info.si_pid == 0) {
            return;
        }
        if (info.si_pid == front->tree.child && has_ended(&info)) {
            if (!front->child_ended) {
                child_ended(front, &info);
            }
            break;
        }
        take_event(front, &info);
    }
    /* It may hide the keeper. */
    info.si_pid = 0;
    if (!front->keeper_reaped &&
        waitid(P_PID, (id_t)front->keeper, &info, WEXITED | WNOHANG) == 0 && info.si_pid != 0) {
        handle_child(front, &info);
    }
}

/* ===== Signals ===== */

static bool reached_command(const struct run_front *front, const struct run_signal *received)
{
    if (received->from_terminal) {
        return !front->own_group;
    }
    return received->sender > 0 && front->tree.child > 0 &&
           run_tree_descends(received->sender, front->tree.child);
}

static void signal_while_running(struct run_front *front, const struct run_signal *received)
{
    if (front->child_ended || reached_command(front, received)) {
        return;
    }
    if (received->number == SIGCONT) {
        if (run_tree_is_stopped(front->tree.child)) {
            run_tree_signal(&front->tree, SIGCONT);
        }
        return;
    }
    kill(front->tree.child, received->number); /* not reaped yet, so the number is its own */
}

static void signal_while_waiting(struct run_front *front, int number)
{
    if (run_signal_ends(number)) {
        front->death_signal = number;
        run_front_leave(front, 128 + number);
    } else if (run_signal_stops(number) && front->state == RUN_WAITING) {
        front->pause_signal = number;
        front->state = RUN_PAUSING;
        run_link_say(front->link.front_fd, RUN_PAUSE, NULL);
    }
}

void run_job_paused(struct run_front *front)
{
    if (front->state != RUN_PAUSING) {
        return;
    }
    run_line_clear(front);
    run_signal_obey(front->pause_signal);
    front->state = RUN_WAITING;
    run_link_say(front->link.front_fd, RUN_RESUME, NULL);
}

static void handle_signal(struct run_front *front, const struct run_signal *received)
{
    if (received->number == SIGCHLD) {
        wait_for_children(front);
        return;
    }
    front->interrupted = front->interrupted || received->number == SIGINT;
    switch (front->state) {
    case RUN_WAITING:
    case RUN_PAUSING:
        signal_while_waiting(front, received->number);
        break;
    case RUN_RUNNING:
    case RUN_ENDING:
        signal_while_running(front, received);
        break;
    case RUN_LEAVING: /* it ends by itself, soon */
    case RUN_LEFT:
        break;
    }
}

void run_job_signals(struct run_front *front)
{
    struct run_signal received;
    while (run_signals_next(&front->signals, &received)) {
        handle_signal(front, &received);
    }
}
