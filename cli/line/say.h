/* SPDX-License-Identifier: Apache-2.0 */
/* How the command speaks: exit statuses, and sentences on stderr, each in one write so that the
 * lines of several processes do not mix. What comes from outside (arguments, names, servers) goes
 * through cli_quote() first: it may hold control bytes, or a URL with a password. */
#ifndef PAWL_LINE_SAY_H
#define PAWL_LINE_SAY_H

#include "pawl.h"

#include <stddef.h>

/* As sysexits.h has them, but for 76: its "protocol" is our lost lock. */
enum cli_exit {
    CLI_OK = 0,
    CLI_USAGE = 64,       /* the command line is wrong; nothing was locked */
    CLI_DATA = 65,        /* the name is taken by something else; waiting does not help */
    CLI_UNAVAILABLE = 69, /* nobody answers, or the backend is not fit to keep locks */
    CLI_SOFTWARE = 70,    /* a defect of pawl */
    CLI_SYSTEM = 71,      /* this machine is out of processes, memory or descriptors */
    CLI_BUSY = 75,        /* somebody else holds the lock */
    CLI_LOST = 76,        /* the lock was lost while the command ran */
    CLI_DENIED = 77,      /* wrong password, or a right is missing */
    CLI_NOT_EXECUTABLE = 126,
    CLI_NOT_FOUND = 127,
    CLI_SIGNAL = 128, /* + the number of the signal */
};

/* Whose sentences these are: "pawl run". */
void cli_say_as(const char *who);

/* "pawl run: <sentence>\n" on stderr. */
void cli_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The same about a wrong command line, with a pointer to --help. Gives CLI_USAGE. */
int cli_say_usage(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The library's last error, as a sentence. Gives the exit status for what a call answered. */
int cli_say_failure(pawl_status status);
int cli_exit_of(pawl_status status);

/* The same where the sentence is known, which tells a name that is something else (CLI_DATA) from a
 * backend that refuses for other reasons. */
int cli_exit_for(pawl_status status, const char *sentence);

/* Whether a server that has failed so may be well again after a while, without anybody mending
 * anything: it is away, still loads its data, runs a long script, or hands over to another one. */
bool cli_passes(pawl_status status, const char *sentence);

/* Everything that was printed is out: CLI_OK, or a sentence and CLI_SYSTEM. */
int cli_output_end(void);

/* Text made fit for a terminal: what cli_text_show() does, a URL's password as ***, cut with "..."
 * when it does not fit. Gives `out`. */
#define CLI_QUOTE_SIZE 160
const char *cli_quote(const char *text, char out[CLI_QUOTE_SIZE]);

/* The same with another size. */
const char *cli_quote_into(const char *text, char *out, size_t size);

#endif
