/* SPDX-License-Identifier: Apache-2.0 */
/* The keeper: the process that uses the library. It is forked before anything of the library is
 * open, and it alone holds the lock; the front and the command have no descriptor of it.
 *
 * It sleeps in one place, run_keeper_pump(), on what the front says and on the library's callbacks,
 * which are dispatched there: no thread of ours, and nothing to guard. It has its own process group
 * and lets go of the caller's descriptors, but for stderr: a pipe that the caller waits for must
 * not stay open because of us. */
#include "run_keeper.h"

#include "options.h"
#include "say.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

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

void run_keeper_pump(struct run_keeper *keeper, int64_t until_us)
{
    struct pollfd fds[2] = {{keeper->front_gone ? -1 : keeper->link->keeper_fd, POLLIN, 0},
        {pawl_client_fd(keeper->client), POLLIN, 0}};
    poll(fds, 2, run_poll_ms(until_us, run_now_us()));
    if (fds[1].revents != 0) {
        pawl_client_dispatch(keeper->client);
    }
    if (fds[0].revents != 0) {
        listen_to_front(keeper);
    }
}

/* ===== The library ===== */

static void on_lost(const pawl_event *event, void *arg)
{
    (void)event;
    struct run_keeper *keeper = arg;
    keeper->lost = true;
    keeper->lost_us = run_now_us();
}

/* The library warns of servers that may lose locks, for example. */
static void on_log(pawl_log_level level, const char *message, void *arg)
{
    const struct run_keeper *keeper = arg;
    if (level == PAWL_LOG_WARNING && !keeper->options->quiet) {
        run_link_say(keeper->link->keeper_fd, RUN_NOTE, message);
    }
}

static pawl_status open_lock(struct run_keeper *keeper)
{
    const struct run_options *options = keeper->options;
    pawl_client_options client_options = PAWL_CLIENT_OPTIONS_INIT;
    client_options.dispatch = true;
    client_options.log = on_log;
    client_options.log_arg = keeper;
    pawl_status status = pawl_client_open(cli_url(), &client_options, &keeper->client);
    cli_url_forget();
    if (status != PAWL_OK) {
        return status;
    }
    pawl_lock_options lock_options = PAWL_LOCK_OPTIONS_INIT;
    lock_options.kind = options->kind;
    lock_options.owner = PAWL_OWNER_HANDLE;
    lock_options.lease_ms = options->lease_ms;
    lock_options.max_hold_ms = options->max_hold_ms;
    lock_options.on_lost = on_lost;
    lock_options.event_arg = keeper;
    return pawl_lock_open(keeper->client, options->name, &lock_options, &keeper->lock);
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

/* Nothing is held: say why and go. */
static _Noreturn void fail(struct run_keeper *keeper, pawl_status status, const char *why)
{
    struct run_message message = {.word = RUN_FAILED, .status = cli_exit_of(status)};
    snprintf(message.text, sizeof message.text, "%s", why);
    run_link_send(keeper->link->keeper_fd, &message);
    pawl_client_close(keeper->client);
    _exit(0);
}

/* The front goes as soon as it hears the answer. Closing tells a server that we are gone, and tries
 * once more if the release went unheard. */
static _Noreturn void release(struct run_keeper *keeper)
{
    const pawl_status status = pawl_lock_release(keeper->lock);
    struct run_message message = {.word = RUN_RELEASED, .status = cli_exit_of(status)};
    if (message.status != CLI_OK && message.status != CLI_LOST) {
        snprintf(message.text, sizeof message.text, "%s", pawl_last_error());
    }
    run_link_send(keeper->link->keeper_fd, &message);
    if (atomic_load(&keeper->link->shared->deadline_us) != RUN_NEVER || message.status != CLI_OK) {
        pawl_client_close(keeper->client);
    }
    _exit(CLI_OK);
}

/* Until the lock is ours. Whoever presses ^Z while it waits is not given it. */
static void obtain(struct run_keeper *keeper)
{
    for (;;) {
        const pawl_status status = run_wait(keeper);
        if (keeper->done || keeper->front_gone) {
            pawl_client_close(keeper->client); /* also releases */
            _exit(0);
        }
        if (keeper->pausing) {
            if (status == PAWL_OK) {
                pawl_lock_release(keeper->lock);
            }
            run_link_say(keeper->link->keeper_fd, RUN_PAUSED, NULL);
            while (keeper->pausing && !keeper->done && !keeper->front_gone) {
                run_keeper_pump(keeper, RUN_NEVER);
            }
        } else if (status == PAWL_OK) {
            return;
        } else {
            fail(keeper, status, keeper->why);
        }
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
    const pawl_status status = open_lock(&keeper);
    if (status != PAWL_OK) {
        fail(&keeper, status, pawl_last_error());
    }
    obtain(&keeper);
    run_hold(&keeper);
    release(&keeper);
}
