/* SPDX-License-Identifier: Apache-2.0 */
/* The front: the process that the user started. It forks the keeper, waits until that has the lock,
 * starts the command, watches the time that the lock is sure for, and gives the exit status.
 *
 * It sleeps in one place, await(), on signals, on what the keeper says, and on a timer that counts
 * while the machine sleeps. The timer is set to the moment from which the command must be ended; it
 * is looked up again there, because renewals move it all the time and nobody is woken for that. */
#include "run/front.h"

#include "line/options.h"
#include "line/say.h"
#include "run/child.h"
#include "run/keeper.h"
#include "text/duration.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    LEAVE_US = 5 * US_PER_S,     /* for the keeper to release and end */
    REAP_US = 20 * US_PER_MS,    /* for it to end when it has released */
    INTERRUPT_US = 1 * US_PER_S, /* the same when the user wants to be gone */
    QUIT_US = 300 * US_PER_MS,   /* the same before the lock was had, */
    TIDY_US = 100 * US_PER_MS, /* or when it was not to be had: for servers that answer; the others
                                  it may tell when we are gone */
    LAST_WORDS_MS = 2000,      /* for somebody to read them */
    HOLD_SLACK_US = 50 * US_PER_MS,
    HOLD_SLACK_PARTS = 50,
};

#define WHAT_SIZE (CLI_QUOTE_SIZE + 32)

/* "the lock 'deploy'", "the permit of 'slots'" */
static const char *what(const struct run_front *front, char shown[WHAT_SIZE])
{
    char name[CLI_QUOTE_SIZE];
    snprintf(shown, WHAT_SIZE, "the %s '%s'", front->options->permits > 0 ? "permit of" : "lock",
        cli_quote(front->options->name, name));
    return shown;
}

/* ===== Leaving ===== */

/* Let the keeper release, or stop waiting, and end; the exit status is known. */
void run_front_leave(struct run_front *front, int result)
{
    const bool had = front->state != RUN_WAITING && front->state != RUN_PAUSING;
    run_line_clear(front);
    front->result = result;
    front->state = RUN_LEAVING;
    front->leave_us = run_now_us() + (front->death_signal == 0 ? LEAVE_US
                                         : had                 ? INTERRUPT_US
                                                               : QUIT_US);
    run_link_say(front->link.front_fd, RUN_DONE, NULL);
}

/* The command has ended and nothing of it is in the way: its status, unless the lock was lost. */
static void command_over(struct run_front *front)
{
    int status = front->child_status;
    if (front->was_ended || front->lost) {
        status = CLI_LOST;
    } else if (front->child_signal == SIGINT && front->interrupted) {
        front->death_signal = SIGINT; /* a shell's loop around us shall end as well */
    }
    run_front_leave(front, status);
}

/* What became of the lock. */
static void released(struct run_front *front, const struct run_message *message)
{
    char shown[WHAT_SIZE];
    front->released = true;
    if (message->status == CLI_LOST && front->result != CLI_LOST) {
        run_say(front, "%s was lost before the command ended: others may have run meanwhile",
            what(front, shown));
        front->result = CLI_LOST;
        front->death_signal = 0;
    } else if (message->status != CLI_OK && message->status != CLI_LOST) {
        run_say(front, "%s could not be released: %s; it ends with its lease", what(front, shown),
            message->text);
    }
    /* The keeper of a lock in files may take 20 ms to end, for the kernel is slow to end an
     * inotify watch. Whoever waits for us shall not wait for that. */
    const bool has_lease = atomic_load(&front->link.shared->deadline_us) != RUN_NEVER;
    front->leave_us = run_now_us() + (has_lease ? REAP_US : 0);
}

/* The keeper has ended, or had its time. */
static void left(struct run_front *front)
{
    char shown[WHAT_SIZE];
    front->state = RUN_LEFT;
    if (front->tree.child > 0 && !front->released && !front->lost) {
        run_say(front, "%s could not be released; it ends with its lease", what(front, shown));
    }
}

/* ===== The command ===== */

static bool has_terminal(void)
{
    const int fd = open("/dev/tty", O_RDONLY | O_NOCTTY | O_CLOEXEC);
    if (fd >= 0) {
        close(fd);
    }
    return fd >= 0;
}

static void not_started(struct run_front *front, int error, bool execed)
{
    char shown[CLI_QUOTE_SIZE];
    const char *command = cli_quote(front->options->command[0], shown);
    if (!execed) {
        run_say(front, "no process for '%s': %s", command, strerror(error));
        run_front_leave(front, CLI_SYSTEM);
    } else if (error == ENOENT) {
        const bool is_line = strpbrk(front->options->command[0], " \t\n") != NULL;
        run_say(front, "'%s': command not found%s", command,
            is_line ? "; a line for the shell has -c before it" : "");
        run_front_leave(front, CLI_NOT_FOUND);
    } else {
        run_say(front, "'%s' cannot be executed: %s", command, strerror(error));
        run_front_leave(front, CLI_NOT_EXECUTABLE);
    }
}

/* Without it nobody would watch the time. False: there is none. */
static bool open_timer(struct run_front *front)
{
    if (atomic_load(&front->link.shared->deadline_us) != RUN_NEVER && front->timer_fd < 0) {
        front->timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
        return front->timer_fd >= 0;
    }
    return true;
}

static void arm_timer(struct run_front *front)
{
    const int64_t deadline_us = atomic_load(&front->link.shared->deadline_us);
    if (deadline_us == RUN_NEVER) {
        return;
    }
    int64_t due_us = deadline_us - run_term_margin_us(front->options);
    due_us = due_us > 0 ? due_us : 1;
    const struct itimerspec when = {{0, 0}, {due_us / US_PER_S, due_us % US_PER_S * NS_PER_US}};
    timerfd_settime(front->timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
}

/* The lock is ours: start the command, unless somebody wants us to end. */
static void held(struct run_front *front, const struct run_message *message)
{
    memcpy(front->owner, message->text, sizeof front->owner - 1);
    run_line_clear(front);
    const struct run_child_plan plan = {front->options->command, front->options->name, front->owner,
        message->token, front->own_group, &front->signals};
    run_job_signals(front);
    if (front->state != RUN_WAITING) {
        return;
    }
    if (!open_timer(front)) {
        char shown[WHAT_SIZE];
        run_say(front, "no timer to watch %s: %s", what(front, shown), strerror(errno));
        run_front_leave(front, CLI_SYSTEM);
        return;
    }
    int error = 0;
    bool execed = false;
    const pid_t child = run_child_start(&plan, &error, &execed);
    if (child < 0) {
        not_started(front, error, execed);
        return;
    }
    front->tree.child = child;
    front->state = RUN_RUNNING;
    atomic_store(&front->link.shared->child_us, run_now_us());
    atomic_store(&front->link.shared->child, child);
    arm_timer(front);
}

/* The first step is taken at once, before anything is said about it: whoever reads what we say may
 * be slow. */
static void end_command(struct run_front *front, int64_t kill_us)
{
    front->was_ended = true;
    if (front->state == RUN_RUNNING) {
        front->state = RUN_ENDING;
        front->tree.session = 0;
        run_end_start(&front->end, &front->tree, kill_us);
    } else {
        run_end_widen(&front->end, kill_us);
    }
    run_end_step(&front->end, run_now_us());
}

/* The lock is proved lost: TERM at once, KILL after the grace. Before the command was started it is
 * no loss. */
static void lost(struct run_front *front, const char *why)
{
    front->lost = front->tree.child > 0;
    if (front->state == RUN_RUNNING || front->state == RUN_ENDING) {
        char shown[WHAT_SIZE];
        char reason[CLI_QUOTE_SIZE];
        end_command(front, run_now_us() + front->options->grace_ms * US_PER_MS);
        run_say(front, "%s is lost: %s; ending the command", what(front, shown),
            cli_quote(why, reason));
    }
}

/* The keeper died. A lock without a lease died with it; otherwise there is some time left. */
static void keeper_died(struct run_front *front)
{
    close(front->link.front_fd);
    front->link.front_fd = -1;
    if (front->state == RUN_WAITING || front->state == RUN_PAUSING) {
        run_line_clear(front);
        run_say(front, "the process that waits for the lock was killed");
        run_front_leave(front, CLI_SYSTEM);
    } else if (front->state == RUN_RUNNING || front->state == RUN_ENDING) {
        if (atomic_load(&front->link.shared->deadline_us) == RUN_NEVER) {
            lost(front, "the process that kept it was killed");
        } else {
            char shown[WHAT_SIZE];
            run_say(front,
                "the process that keeps %s was killed; unless the command ends "
                "first, it is ended before the lease is over",
                what(front, shown));
        }
    }
}

/* ===== What happens ===== */

static void handle_message(struct run_front *front, const struct run_message *message)
{
    if (message->word == RUN_HOLDER || message->word == RUN_NOTE) {
        atomic_fetch_sub(&front->link.shared->talk, 1);
    }
    switch (message->word) {
    case RUN_HELD: /* in a pause the keeper has been asked to give it back, and will */
        if (front->state == RUN_WAITING) {
            held(front, message);
        }
        break;
    case RUN_LOST:
        lost(front, message->text);
        break;
    case RUN_FAILED:
        if (front->state == RUN_WAITING || front->state == RUN_PAUSING) {
            const bool busy = message->status == CLI_BUSY;
            run_line_clear(front);
            if (!busy || !front->options->quiet) {
                run_say(front, "%s", message->text);
            }
            run_front_leave(front, busy ? front->options->busy_status : message->status);
            front->leave_us = run_now_us() + TIDY_US;
        }
        break;
    case RUN_HOLDER:
        if (front->state == RUN_WAITING) {
            run_line_show(front, message->text);
        }
        break;
    case RUN_NOTE: /* behind the last word nobody wants to hear more */
        if (front->state != RUN_LEAVING || front->tree.child > 0) {
            run_line_clear(front);
            run_say(front, "%s", message->text);
        }
        break;
    case RUN_PAUSED:
        run_job_paused(front);
        break;
    case RUN_RELEASED:
        released(front, message);
        break;
    case RUN_DONE:
    case RUN_PAUSE:
    case RUN_RESUME:
        break;
    }
}

static void handle_messages(struct run_front *front)
{
    struct run_message message;
    while (front->link.front_fd >= 0) {
        switch (run_link_hear(front->link.front_fd, &message)) {
        case RUN_HEARD:
            handle_message(front, &message);
            break;
        case RUN_SILENCE:
            return;
        case RUN_CLOSED:
            keeper_died(front);
            return;
        }
    }
}

/* The longest hold ends the lock, or nobody renews it. */
static void say_why_it_ends(struct run_front *front, int64_t deadline_us)
{
    const int64_t max_us = front->options->max_hold_ms * US_PER_MS;
    const int64_t end_us = atomic_load(&front->link.shared->held_us) + max_us;
    const int64_t slack_us = HOLD_SLACK_US + max_us / HOLD_SLACK_PARTS;
    char shown[WHAT_SIZE];
    char limit[CLI_DURATION_SIZE];
    if (max_us > 0 && deadline_us + slack_us >= end_us) {
        run_say(front, "the longest hold of %s (--max-hold %s) is nearly over; ending the command",
            what(front, shown), cli_duration_show(front->options->max_hold_ms, limit));
    } else {
        run_say(front, "%s is about to be lost: it cannot be renewed; ending the command",
            what(front, shown));
    }
}

/* Is the lock about to be lost, because nobody renews it or its longest time is over? */
static void check_deadline(struct run_front *front, int64_t now_us)
{
    const int64_t deadline_us = atomic_load(&front->link.shared->deadline_us);
    if (deadline_us == RUN_NEVER) {
        return;
    }
    const int64_t kill_us = deadline_us - run_kill_margin_us(front->options);
    if (front->state == RUN_RUNNING) {
        if (now_us < deadline_us - run_term_margin_us(front->options)) {
            arm_timer(front);
            return;
        }
        end_command(front, kill_us);
        say_why_it_ends(front, deadline_us);
    } else if (front->was_ended && !front->lost) {
        front->end.kill_us = kill_us; /* the renewal may have come through after all */
    } else {
        front->end.kill_us = run_min(front->end.kill_us, kill_us);
    }
}

/* The command has ended by itself: release, but first end what it left behind in its session, if
 * it was ended by a signal and so had no chance to tidy up. */
static void check_child(struct run_front *front, int64_t now_us)
{
    if (front->child_signal == 0) {
        command_over(front);
        return;
    }
    front->tree.session = getsid(0);
    front->state = RUN_ENDING;
    run_end_start(&front->end, &front->tree, now_us + front->options->grace_ms * US_PER_MS);
}

static void check_end(struct run_front *front, int64_t now_us)
{
    if (!run_end_step(&front->end, now_us) || !front->child_ended) {
        return;
    }
    if (front->end.denied > 0) {
        run_say(front, "%u of the command's processes may not be ended by this user and still run",
            front->end.denied);
    }
    command_over(front);
}

/* ===== The loop ===== */

static int64_t wake_us(const struct run_front *front, int64_t now_us)
{
    return front->state == RUN_ENDING    ? run_end_next_us(&front->end, now_us)
           : front->state == RUN_LEAVING ? front->leave_us
                                         : RUN_NEVER;
}

/* Sleep until something happens, and see to it. */
static void await(struct run_front *front)
{
    struct pollfd fds[4] = {{front->signals.fd, POLLIN, 0}, {front->link.front_fd, POLLIN, 0},
        {front->state == RUN_RUNNING ? front->timer_fd : -1, POLLIN, 0},
        {front->unsaid_count > 0 ? STDERR_FILENO : -1, POLLOUT, 0}};
    const int64_t before_us = run_now_us();
    poll(fds, 4, run_poll_ms(wake_us(front, before_us), before_us));
    if (fds[0].revents != 0) {
        run_job_signals(front);
    }
    if (fds[1].revents != 0) {
        handle_messages(front);
    }
    if (fds[3].revents != 0) {
        run_say_unsaid(front, 0);
    }
}

static void step(struct run_front *front)
{
    await(front);
    const int64_t now_us = run_now_us();
    if (front->state == RUN_RUNNING || front->state == RUN_ENDING) {
        check_deadline(front, now_us);
    }
    if (front->state == RUN_RUNNING && front->child_ended) {
        check_child(front, now_us);
    }
    if (front->state == RUN_ENDING) {
        check_end(front, now_us);
    }
    if (front->state == RUN_LEAVING && (front->keeper_reaped || now_us >= front->leave_us)) {
        left(front);
    }
}

/* ===== Beginning and end ===== */

/* False: it has been said why. */
static bool begin(struct run_front *front)
{
    front->tree.shares = waitid(P_ALL, 0, &(siginfo_t){0}, WEXITED | WNOHANG | WNOWAIT) == 0;
    if (!run_signals_open(&front->signals) || !run_link_open(&front->link)) {
        cli_say("no descriptors or memory: %s", strerror(errno));
        return false;
    }
    const pid_t front_pid = getpid();
    front->keeper = fork();
    if (front->keeper == 0) {
        close(front->signals.fd);
        run_keeper(front->options, &front->link, front_pid, front->tree.shares);
    }
    if (front->keeper < 0) {
        cli_say("no process to keep the lock: %s", strerror(errno));
        return false;
    }
    cli_url_forget();
    run_servers_forget(front->options);
    run_link_be_front(&front->link);
    front->tree.front = front_pid;
    front->tree.keeper = front->keeper;
    front->tree.mark = front->owner;
    front->own_group = !has_terminal();
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    return true;
}

int run_front(const struct run_options *options)
{
    static struct run_front front;
    front.options = options;
    front.timer_fd = -1;
    front.state = RUN_WAITING;
    if (!begin(&front)) {
        return CLI_SYSTEM;
    }
    while (front.state != RUN_LEFT) {
        step(&front);
    }
    run_say_unsaid(&front, LAST_WORDS_MS);
    if (front.tree.child > 0) {
        waitpid(front.tree.child, NULL, WNOHANG);
    }
    run_tree_free(&front.tree);
    if (front.death_signal != 0) {
        run_signal_obey(front.death_signal);
    }
    return front.result;
}
