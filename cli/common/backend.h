/* SPDX-License-Identifier: Apache-2.0 */
/* Opening the backend for the commands that look at locks: the URL of the command line or of the
 * environment, a sentence and an exit status if it cannot be opened. Also the clocks that these
 * commands show. */
#ifndef PAWL_COMMON_BACKEND_H
#define PAWL_COMMON_BACKEND_H

#include "pawl.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of a lock's name, as the library has it. */
enum { CLI_NAME_SIZE_MAX = sizeof((pawl_entry *)0)->name - 1 };

/* A name or a pattern of the command line, checked before anything is touched: CLI_GO_ON, or
 * CLI_USAGE after a sentence. No pattern (NULL) is fine. */
int cli_check_name(const char *name);
int cli_check_pattern(const char *pattern);

/* What keeps the locks, as the URL of the command line or of the environment has it: "redis". */
enum { CLI_SCHEME_SIZE = 32 };
void cli_backend_scheme(char scheme_out[CLI_SCHEME_SIZE]);

/* Is there a URL that says something? Also if somebody else opens it. */
int cli_backend_check(void);

/* The same for a lock that others shall meet: `memory:` would exclude nobody. And for a URL that is
 * none of ours but one of several. */
int cli_backend_check_shared(void);
int cli_backend_check_scheme(const char *url);

/* CLI_GO_ON, or the exit status after a sentence. */
int cli_backend_open(const pawl_client_options *options, pawl_client **client_out);

/* The same for who only looks at what others hold: also at a server that should not be given a lock
 * to keep. */
int cli_backend_open_to_look(pawl_client **client_out);

/* Where the locks are, for people: the URL without secrets and options, safe to show. To be asked
 * before the backend is opened, which forgets the URL. */
enum { CLI_BACKEND_TITLE_SIZE = 128 };
void cli_backend_title(char title_out[CLI_BACKEND_TITLE_SIZE]);

/* Milliseconds of a clock that nobody sets. */
int64_t cli_now_ms(void);
int64_t cli_now_us(void);

/* The time of day, for people: 14:03:59.120, and for programs: 2031-05-01T12:03:59.120Z. */
enum { CLI_TIME_SIZE = 40 };
void cli_time_of_day(char time_out[CLI_TIME_SIZE], bool utc);

#endif
