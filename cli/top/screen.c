/* SPDX-License-Identifier: Apache-2.0 */
/* See screen.h.
 *
 * The terminal is in one of two states, ours or theirs; enter() and leave() go from one to the
 * other, whatever was before, so each way out may just call leave(). What a shell did to the
 * terminal while we were stopped is undone by entering once more on SIGCONT. A crash leaves by a
 * handler that calls nothing but write() and tcsetattr(), which is allowed there. */
#include "top/screen.h"

#include "text/text.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

static const char ENTER[] = "\x1b[?1049h\x1b[?25l\x1b[2J\x1b[H";
static const char LEAVE[] = "\x1b[0m\x1b[?25h\x1b[?1049l";

static struct termios theirs; /* as we found it */
static volatile sig_atomic_t taken;
static int signal_fd = -1;

/* ===== Taking and giving back ===== */

static void write_all(const char *bytes, size_t size)
{
    while (size > 0) {
        ssize_t written = write(STDOUT_FILENO, bytes, size);
        if (written < 0 && errno == EINTR) {
            continue;
        }
        if (written <= 0) {
            return; /* the terminal is gone; the next read says so too */
        }
        bytes += written;
        size -= (size_t)written;
    }
}

static void enter(void)
{
    struct termios ours = theirs;
    ours.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    ours.c_cc[VMIN] = 1;
    ours.c_cc[VTIME] = 0;
    taken = 1;
    tcsetattr(STDIN_FILENO, TCSADRAIN, &ours);
    write_all(ENTER, sizeof ENTER - 1);
}

static void leave(void)
{
    if (taken) {
        taken = 0;
        write_all(LEAVE, sizeof LEAVE - 1);
        tcsetattr(STDIN_FILENO, TCSADRAIN, &theirs);
    }
}

static void crash(int signal_number)
{
    leave();
    raise(signal_number); /* SA_RESETHAND: this time it is deadly */
}

/* ===== Signals ===== */

static void fill_signals(sigset_t *set)
{
    static const int numbers[] = {
        SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGTSTP, SIGCONT, SIGWINCH, SIGPIPE};
    sigemptyset(set);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        sigaddset(set, numbers[i]);
    }
}

void cli_screen_block_signals(void)
{
    sigset_t signals;
    fill_signals(&signals);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
}

static void catch_crashes(void)
{
    static const int numbers[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    struct sigaction action = {.sa_handler = crash, .sa_flags = (int)SA_RESETHAND};
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        sigaction(numbers[i], &action, NULL);
    }
}

/* Let a blocked signal do what it does by default, now. */
static void suffer(int signal_number)
{
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, signal_number);
    signal(signal_number, SIG_DFL);
    raise(signal_number);
    pthread_sigmask(SIG_UNBLOCK, &one, NULL);
    pthread_sigmask(SIG_BLOCK, &one, NULL);
}

void cli_screen_die_of(int signal_number)
{
    cli_screen_close();
    suffer(signal_number);
    _exit(128 + signal_number);
}

/* ===== The screen ===== */

bool cli_screen_possible(void)
{
    const char *term = getenv("TERM");
    return isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && term != NULL && term[0] != '\0' &&
           strcmp(term, "dumb") != 0;
}

bool cli_screen_open(void)
{
    sigset_t signals;
    fill_signals(&signals);
    if (tcgetattr(STDIN_FILENO, &theirs) != 0) {
        return false;
    }
    signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signal_fd < 0) {
        return false;
    }
    atexit(cli_screen_close);
    catch_crashes();
    enter();
    return true;
}

void cli_screen_close(void)
{
    leave();
    if (signal_fd >= 0) {
        close(signal_fd);
        signal_fd = -1;
    }
}

void cli_screen_draw(const char *lines)
{
    struct cli_text frame = CLI_TEXT_INIT;
    cli_text_add_string(&frame, "\x1b[H");
    while (*lines != '\0') {
        const size_t size = strcspn(lines, "\n");
        cli_text_add(&frame, lines, size);
        cli_text_add_string(&frame, "\x1b[K");
        lines += size;
        if (*lines == '\n') {
            cli_text_add_string(&frame, "\r\n");
            lines++;
        }
    }
    cli_text_add_string(&frame, "\x1b[J");
    write_all(frame.bytes, frame.size);
    cli_text_free(&frame);
}

/* ===== Events ===== */

static struct cli_screen_event stop_and_go_on(void)
{
    leave();
    suffer(SIGTSTP);
    enter();
    return (struct cli_screen_event){.kind = CLI_SCREEN_REDRAW};
}

static struct cli_screen_event read_signal(void)
{
    struct signalfd_siginfo info;
    if (read(signal_fd, &info, sizeof info) != (ssize_t)sizeof info) {
        return (struct cli_screen_event){.kind = CLI_SCREEN_NOTHING};
    }
    const int number = (int)info.ssi_signo;
    switch (number) {
    case SIGTSTP:
        return stop_and_go_on();
    case SIGCONT:
        enter();
        return (struct cli_screen_event){.kind = CLI_SCREEN_REDRAW};
    case SIGWINCH:
        return (struct cli_screen_event){.kind = CLI_SCREEN_REDRAW};
    default:
        return (struct cli_screen_event){.kind = CLI_SCREEN_END, .signal = number};
    }
}

/* An arrow or the like sends several bytes at once, ESC first; they mean nothing to us. */
static void skip_sequence(void)
{
    struct pollfd more = {.fd = STDIN_FILENO, .events = POLLIN};
    char bytes[32];
    if (poll(&more, 1, 0) > 0 && read(STDIN_FILENO, bytes, sizeof bytes) < 0) {
        return; /* the next read says why */
    }
}

static struct cli_screen_event read_key(void)
{
    char key = 0;
    const ssize_t size = read(STDIN_FILENO, &key, 1);
    if (size > 0 && key == '\x1b') {
        skip_sequence();
        return (struct cli_screen_event){.kind = CLI_SCREEN_NOTHING};
    }
    if (size > 0) {
        return (struct cli_screen_event){.kind = CLI_SCREEN_KEY, .key = key};
    }
    if (size < 0 && (errno == EINTR || errno == EAGAIN)) {
        return (struct cli_screen_event){.kind = CLI_SCREEN_NOTHING};
    }
    return (struct cli_screen_event){.kind = CLI_SCREEN_END, .signal = SIGHUP};
}

struct cli_screen_event cli_screen_wait(int64_t wait_ms)
{
    struct pollfd fds[] = {
        {.fd = signal_fd, .events = POLLIN},
        {.fd = STDIN_FILENO, .events = POLLIN},
    };
    const int timeout = wait_ms < 0 ? 0 : wait_ms > 60000 ? 60000 : (int)wait_ms;
    if (poll(fds, 2, timeout) <= 0) {
        return (struct cli_screen_event){.kind = CLI_SCREEN_NOTHING};
    }
    return fds[0].revents != 0 ? read_signal() : read_key();
}
