/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting with an end: a clock, a signalfd, and a loop that looks at both.
 */
#include "up/patience.h"

#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "common/clock.h"

#define LOOK_MS 5

static int signals_fd = -1;
static bool stop_seen;

int64_t now_ms(void)
{
    return now_us() / 1000;
}

int signals_open(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGCHLD);
    if (sigprocmask(SIG_BLOCK, &set, NULL) == 0) {
        signals_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    }
    return signals_fd;
}

bool signals_stop(void)
{
    struct signalfd_siginfo info;
    while (read(signals_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        if (info.ssi_signo != SIGCHLD) {
            stop_seen = true;
        }
    }
    return stop_seen;
}

bool wait_for(bool (*condition)(void *arg), void *arg, int64_t patience_ms)
{
    int64_t end_ms = now_ms() + patience_ms;
    while (!condition(arg)) {
        if (signals_stop() || now_ms() >= end_ms) {
            return false;
        }
        struct pollfd signals = {.fd = signals_fd, .events = POLLIN};
        poll(&signals, 1, LOOK_MS);
    }
    return true;
}
