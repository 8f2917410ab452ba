/* SPDX-License-Identifier: Apache-2.0 */
/* `pawl run`, what its parts share. It is two processes:
 *
 *   the front   is the user's job: it has the terminal, gets the signals, is the parent of the
 *               command and gives its exit status. It knows until when the lock is sure, and ends
 *               the command with all its descendants before that.
 *   the keeper  is forked first, into a process group of its own, so that ^Z and ^C do not reach
 *               it. It alone uses the library: it waits for the lock, keeps and releases it. If the
 *               front is killed it ends the command in its place.
 *
 * They watch each other by a socket, which closes when either dies. What the keeper has to tell all
 * the time, until when the lock is sure, lies in a page of memory that both see.
 *
 * Files: run.c (options), front.c with job.c (signals and stops), child.c (starting the
 * command), end.c with tree.c (ending it), keeper.c with wait.c, hold.c, grip.c (what
 * it holds), meet.c and ask.c (several servers), link.c (what the two say to each other),
 * signals.c. */
#ifndef PAWL_RUN_RUN_H
#define PAWL_RUN_RUN_H

#include "pawl.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#define RUN_NEVER INT64_MAX

enum { RUN_SERVERS_MAX = 15 }; /* as pawl_lock_open_quorum() has it */

enum { US_PER_MS = 1000, US_PER_S = 1000000, NS_PER_US = 1000 };

struct run_options {
    const char *name;
    char **command; /* as execvp takes it */
    pawl_kind kind;
    const char *kind_name; /* as it was written */
    int64_t permits;       /* of a semaphore; 0: it is a lock */
    char **servers;        /* URLs of a lock that a majority keeps; wiped once they are used */
    size_t server_count;   /* 0: it is kept where --url says */
    int64_t wait_ms;       /* as pawl_lock_acquire() takes it */
    int64_t lease_ms;
    int64_t max_hold_ms; /* 0: no limit */
    int64_t grace_ms;    /* between TERM and KILL */
    int busy_status;
    bool quiet;
    bool tells; /* who holds the lock, while waiting: stderr is a terminal */
};

/* How long before the lock ends the command gets its TERM, and how long before that its KILL. */
int64_t run_term_margin_us(const struct run_options *options);
int64_t run_kill_margin_us(const struct run_options *options);

/* Time as the lock counts it: also while the machine sleeps. */
static inline int64_t run_now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * US_PER_S + now.tv_nsec / NS_PER_US;
}

static inline int64_t run_min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* For poll(): so many microseconds, rounded up; -1 for RUN_NEVER. */
static inline int run_poll_ms(int64_t until_us, int64_t now_us)
{
    if (until_us == RUN_NEVER) {
        return -1;
    }
    const int64_t left_ms = until_us > now_us ? (until_us - now_us) / US_PER_MS + 1 : 0;
    return left_ms < INT32_MAX ? (int)left_ms : INT32_MAX;
}

/* Wipe the URLs of the servers. */
static inline void run_servers_forget(const struct run_options *options)
{
    for (size_t i = 0; i < options->server_count; i++) {
        explicit_bzero(options->servers[i], strlen(options->servers[i]));
    }
}

/* The front's whole life; the keeper is forked inside. Gives the exit status. */
int run_front(const struct run_options *options);

#endif
