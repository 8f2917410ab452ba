/* SPDX-License-Identifier: Apache-2.0 */
/* What the program says to whoever started it: sentences on stderr, each in one write, so that the
 * lines of several processes do not mix; and the exit statuses, as sysexits.h has them. */
#ifndef FLASHSALE_COMMON_SAY_H
#define FLASHSALE_COMMON_SAY_H

enum exit_status {
    EXIT_FINE = 0,
    EXIT_WRONG = 1,        /* it ran, and the answer is bad: oversold, errors under load */
    EXIT_USAGE = 64,       /* the command line is wrong; nothing was begun */
    EXIT_UNAVAILABLE = 69, /* a server does not answer, a port is in use */
    EXIT_SYSTEM = 71,      /* this machine is out of memory, descriptors or processes */
    EXIT_DENIED = 77,      /* a server does not let us in: wrong password, or a right is missing */
};

/* Whose sentences these are: "flashsale serve". The text must live on. */
void say_as(const char *who);

/* "flashsale serve: <sentence>\n" on stderr. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The same about a wrong command line, with a pointer to --help. Gives EXIT_USAGE. */
int say_usage(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
