/* SPDX-License-Identifier: Apache-2.0 */
/* The keeper: the process that uses the library. It is forked before anything of the library is
 * open, and it alone holds the lock; the front and the command have no descriptor of it.
 *
 * It sleeps in one place, run_keeper_pump(), on what the front says and on the library's callbacks,
 * which are dispatched there: nothing to guard, and no thread of ours but those that meet several
 * servers at once (meet.h), ask them who holds the lock (ask.h), or ask how many permits there are
 * (grip.h). It has its own process group and lets go of the caller's descriptors, but for stderr: a
 * pipe that the caller waits for must not stay open because of us.
 *
 * Its process id is the one that others see as the holder's. Whoever ends that by a signal means
 * the job: the signal goes on to the front, which knows what to do. */
#include "run/keeper.h"

#include "line/say.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { GAP_MAX = 4 }; /* between descriptors: detach() left next to none */

/* ===== Listening ===== */

static void handle_message(struct run_keeper *keeper, const struct run_message *message)
{
    switch (message->word) {
    case RUN_DONE:
        keeper->done = true;
        break;
    case RUN_PAUSE:
        keeper->pausing = true;
        break;
    case RUN_RESUME:
        keeper->pausing = false;
        break;
    case RUN_HELD:
    case RUN_LOST:
    case RUN_FAILED:
    case RUN_HOLDER:
    case RUN_NOTE:
    case RUN_PAUSED:
    case RUN_RELEASED:
        break;
    }
}

static void listen_to_front(struct run_keeper *keeper)
{
    struct run_message message;
    enum run_heard heard = RUN_HEARD;
    while (!keeper->front_gone && heard == RUN_HEARD) {
        heard = run_link_hear(keeper->link->keeper_fd, &message);
        if (heard == RUN_HEARD) {
            handle_message(keeper, &message);
        }
        keeper->front_gone = heard == RUN_CLOSED;
    }
}

/* The front is our parent as long as it lives; afterwards its number may be somebody else's. */
static void pass_signals_on(const struct run_keeper *keeper)
{
    const struct run_signals signals = {.fd = keeper->signals_fd};
    struct run_signal received;
    while (run_signals_next(&signals, &received)) {
        const int number = received.number;
        const bool ends = number == SIGTERM || number == SIGINT || number == SIGHUP;
        if (ends && getppid() == keeper->front) {
            kill(keeper->front, number);
        }
    }
}

void run_keeper_pump(struct run_keeper *keeper, int64_t until_us)
{
    struct pollfd fds[3] = {{keeper->front_gone ? -1 : keeper->link->keeper_fd, POLLIN, 0},
        {run_grip_fd(&keeper->grip), POLLIN, 0}, {keeper->signals_fd, POLLIN, 0}};
    poll(fds, 3, run_poll_ms(until_us, run_now_us()));
    if (fds[1].revents != 0) {
        run_grip_dispatch(&keeper->grip);
    }
    if (fds[0].revents != 0) {
        listen_to_front(keeper);
    }
    if (fds[2].revents != 0) {
        pass_signals_on(keeper);
    }
}

/* ===== Its life ===== */

static void close_others(int first, int last)
{
    if (first <= last) {
        close_range((unsigned)first, (unsigned)last, 0); /* an old kernel cannot: they stay open */
    }
}

static void detach(struct run_link *link)
{
    setpgid(0, 0);
    run_link_be_keeper(link);
    const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null >= 0) {
        dup2(null, STDIN_FILENO);
        dup2(null, STDOUT_FILENO);
    }
    close_others(STDERR_FILENO + 1, link->keeper_fd - 1);
    close_others(link->keeper_fd + 1, INT32_MAX);
}

/* What a server may have granted is taken back, and if it hangs nobody waits for that, so no reader
 * of our stderr shall either. */
static _Noreturn void leave(struct run_keeper *keeper)
{
    dup2(STDIN_FILENO, STDERR_FILENO);
    run_grip_close(&keeper->grip);
    _exit(0);
}

/* Nothing is held: say why and go. */
static _Noreturn void fail(struct run_keeper *keeper, pawl_status status, const char *why)
{
    struct run_message message = {.word = RUN_FAILED, .status = cli_exit_for(status, why)};
    snprintf(message.text, sizeof message.text, "%s", why);
    run_link_tell(keeper->link->keeper_fd, &message);
    leave(keeper);
}

/* The kernel takes 20 ms to end a process that has an inotify watch, and the front does not wait
 * for it. So nothing of ours may be seen any more when it hears the answer: no lock file, no
 * directory of them that cannot be unmounted, no stderr that a pipe's reader waits for. The library
 * has no word for that, and needs none: all it would still do is close them. False: the lock lay
 * elsewhere. */
static bool let_go_of_files(void)
{
    bool any = false;
    int gap = 0;
    for (int fd = STDERR_FILENO + 1; gap < GAP_MAX; fd++) {
        struct stat found;
        gap = fstat(fd, &found) == 0 ? 0 : gap + 1;
        if (gap == 0 && (S_ISREG(found.st_mode) || S_ISDIR(found.st_mode))) {
            close(fd);
            any = true;
        }
    }
    if (any) {
        dup2(STDIN_FILENO, STDERR_FILENO);
        any = chdir("/") == 0 || any;
    }
    return any;
}

/* The front goes as soon as it hears the answer. Closing tells a server that we are gone, and tries
 * once more if the release went unheard; in files nothing is left to close. */
static _Noreturn void release(struct run_keeper *keeper)
{
    const pawl_status status = run_grip_release(&keeper->grip);
    struct run_message message = {.word = RUN_RELEASED, .status = cli_exit_of(status)};
    if (message.status != CLI_OK && message.status != CLI_LOST) {
        snprintf(message.text, sizeof message.text, "%s", keeper->grip.why);
    }
    const bool in_files = keeper->grip.in_files && let_go_of_files();
    run_link_tell(keeper->link->keeper_fd, &message);
    if (!in_files) {
        run_grip_close(&keeper->grip);
    }
    _exit(CLI_OK);
}

/* ^Z came before the command was started: neither hold nor wait until it goes on. */
static void pause_keeping(struct run_keeper *keeper, bool held)
{
    if (held) {
        run_grip_release(&keeper->grip);
    }
    atomic_store(&keeper->link->shared->deadline_us, RUN_NEVER);
    run_link_tell(keeper->link->keeper_fd, &(struct run_message){.word = RUN_PAUSED});
    while (keeper->pausing && !keeper->done && !keeper->front_gone) {
        run_keeper_pump(keeper, RUN_NEVER);
    }
}

/* Until the servers have been met, or the front wants no more; nothing is held yet. */
static void open_grip(struct run_keeper *keeper)
{
    struct run_grip *grip = &keeper->grip;
    int64_t until_us = 0;
    pawl_status status = run_grip_open(grip, keeper->options, keeper->link);
    while (status == PAWL_OK && run_grip_is_opening(grip, &until_us)) {
        run_keeper_pump(keeper, until_us);
        if (keeper->pausing) {
            pause_keeping(keeper, false);
        }
        if (keeper->done || keeper->front_gone) {
            _exit(0);
        }
    }
    if (status == PAWL_OK) {
        status = run_grip_opened(grip);
    }
    if (status != PAWL_OK) {
        fail(keeper, status, grip->why);
    }
}

/* Until the lock is ours. Whoever presses ^Z while it waits is not given it. */
static void obtain(struct run_keeper *keeper)
{
    for (;;) {
        const pawl_status status = run_wait(keeper);
        if (keeper->done || keeper->front_gone) {
            if (status == PAWL_OK) { /* before anybody is waited for */
                run_grip_release(&keeper->grip);
            }
            leave(keeper);
        }
        if (keeper->pausing) {
            pause_keeping(keeper, status == PAWL_OK);
        } else if (status == PAWL_OK) {
            return;
        } else {
            fail(keeper, status, keeper->grip.why);
        }
    }
}

/* Others are told who holds the lock: "web3 pid 4711 (rsync)", and not (pawl). The library takes
 * the name that the C library keeps. */
static void introduce_as(char *command)
{
    char *slash = strrchr(command, '/');
    char *name = slash != NULL && slash[1] != '\0' ? slash + 1 : command;
    if (name[0] != '\0') {
        program_invocation_short_name = name;
    }
}

_Noreturn void run_keeper(
    const struct run_options *options, struct run_link *link, pid_t front, bool front_shares)
{
    static struct run_keeper keeper;
    keeper.options = options;
    keeper.link = link;
    keeper.front = front;
    keeper.front_shares = front_shares;
    keeper.wait_end_us =
        options->wait_ms == PAWL_FOREVER ? RUN_NEVER : run_now_us() + options->wait_ms * US_PER_MS;
    detach(link);
    keeper.signals_fd = run_signals_reopen();
    signal(SIGXFSZ, SIG_IGN); /* a lock's file beyond `ulimit -f` is told by the write */
    introduce_as(options->command[0]);
    open_grip(&keeper);
    obtain(&keeper);
    while (!run_hold(&keeper)) {
        pause_keeping(&keeper, true);
        obtain(&keeper);
    }
    release(&keeper);
}
