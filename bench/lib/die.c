/* SPDX-License-Identifier: Apache-2.0 */
/* Giving up and saying what happens; die.h describes it. */
#include "lib/die.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const char *side_name; /* NULL in the driver */
static volatile sig_atomic_t caught_signal;

void die(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(
        stderr, "bench: %s%s", side_name != NULL ? side_name : "", side_name != NULL ? ": " : "");
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    if (side_name != NULL) {
        _exit(1);
    }
    exit(1);
}

void die_as(const char *who)
{
    side_name = who;
}

void progress(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fflush(stderr);
}

static void note_signal(int number)
{
    caught_signal = number;
}

void catch_signals(void)
{
    struct sigaction action = {.sa_handler = note_signal}; /* no SA_RESTART: waits shall end */
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
}

bool interrupted(void)
{
    return caught_signal != 0;
}
