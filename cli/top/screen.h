/* SPDX-License-Identifier: Apache-2.0 */
/* The whole terminal for a live display: the alternate buffer, keys without Enter, and the terminal
 * as it was before on every way out: end, ^C, ^Z, kill, a crash. There is one screen in a process.
 *
 * Signals come as events (signalfd), in the order of keys and time, so nothing runs in a handler.
 * cli_screen_block_signals() must be called before any other thread begins, so that none of them is
 * chosen to die of ^C. */
#ifndef PAWL_TOP_SCREEN_H
#define PAWL_TOP_SCREEN_H

#include <stdbool.h>
#include <stdint.h>

enum cli_screen_event_kind {
    CLI_SCREEN_NOTHING, /* the time is over */
    CLI_SCREEN_KEY,
    CLI_SCREEN_REDRAW, /* another size, or back in the foreground */
    CLI_SCREEN_END     /* a signal wants us to end, or the terminal is gone */
};

struct cli_screen_event {
    enum cli_screen_event_kind kind;
    char key;
    int signal; /* of CLI_SCREEN_END */
};

/* Whether stdin and stdout are a terminal that can do this. */
bool cli_screen_possible(void);

void cli_screen_block_signals(void);

/* Take the terminal; false, with errno, if that fails. */
bool cli_screen_open(void);

/* Give it back. May be called at any time, and more than once. */
void cli_screen_close(void);

/* Show these lines and nothing else. They must fit; the last one has no newline. */
void cli_screen_draw(const char *lines);

/* Wait for a key or a signal, at most so long. ^Z is dealt with inside: the process stops, and the
 * event comes when it goes on. */
struct cli_screen_event cli_screen_wait(int64_t wait_ms);

/* End by the signal, so that whoever waits for us sees why. The screen is closed first. */
_Noreturn void cli_screen_die_of(int signal_number);

#endif
