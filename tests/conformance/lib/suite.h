/* SPDX-License-Identifier: Apache-2.0 */
/* The conformance suite: what every engine has to do, asked through pawl.h alone.
 *
 * An engine is one row (struct suite_engine) in a small program of its own: how to get a fresh
 * backend and which flags it has. A case names the flag that it needs. Where the engine lacks it,
 * the case is not skipped: its other half runs and checks that the engine refuses, or plainly does
 * without. At the end the run prints what it found as a table, one line for each flag, and leaves
 * it in the build directory as conformance-<engine>.md.
 *
 * Cases run one after another, each on a name of its own, with clients as simulated processes;
 * where the engine can be shared by processes, real ones take part as well (peer.h). `PROGRAM
 * PATTERN` runs the cases whose names match, where * is any text. */
#ifndef PAWL_CONFORMANCE_LIB_SUITE_H
#define PAWL_CONFORMANCE_LIB_SUITE_H

#include "support/process.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum suite_flag {
    /* Duties of every engine. */
    FLAG_MUTEX,
    FLAG_WAIT,
    FLAG_REENTRY,
    FLAG_LEASE,
    FLAG_LOST,
    FLAG_TOKEN,
    FLAG_INSPECT,
    FLAG_BREAK,
    FLAG_FORK,
    FLAG_CLOSE,
    FLAG_ASYNC,
    FLAG_ARGUMENTS,
    FLAG_MULTI,
    /* What an engine may have. */
    FLAG_PROCESSES, /* locks are shared by the processes that name the same URL */
    FLAG_EXPIRES,   /* the backend itself ends a lease that is not renewed */
    FLAG_PASS,      /* a release gives the lock to the next of this process; it never is free */
    FLAG_PUSH,      /* a release wakes who waits; nobody has to look again and again */
    FLAG_FAIR,
    FLAG_READ_WRITE,
    FLAG_SPIN,
    FLAG_PLAIN,
    FLAG_HANDOFF,
    FLAG_SEMAPHORE,
    FLAG_LATCH,
    FLAG_REPLICAS, /* a grant can wait until replicas have it */
    FLAG_COUNT,
    FLAG_OPTIONAL = FLAG_PROCESSES /* the first of them */
};

/* One engine. */
struct suite_engine {
    const char *name;           /* in the table, and in the name of its file */
    const char *(*begin)(void); /* a fresh backend; answers its URL. Called once */
    bool sessions;              /* a renewed hold has no deadline, and ends with its process */
    bool joins; /* locks of one client are given all at once or none of them, if they are mutexes */
    bool has[FLAG_COUNT]; /* the optional flags */
};

/* What a case is given. */
struct suite {
    const struct suite_engine *engine;
    const char *url;
    const char *name; /* of a lock that nobody has used before */
};

struct suite_case {
    const char *name;
    enum suite_flag flag;
    void (*run)(const struct suite *suite);
    void (*lacking)(const struct suite *suite); /* instead, on an engine without the flag */
};

struct suite_group {
    const struct suite_case *cases;
    size_t count;
};

#define SUITE_CASE(flag, function)      \
    {                                   \
#function, flag, function, NULL \
    }
#define SUITE_EITHER(flag, function, lacking) \
    {                                         \
#function, flag, function, lacking    \
    }
#define SUITE_GROUP(name, cases) \
    const struct suite_group name = {cases, sizeof(cases) / sizeof((cases)[0])}

extern const struct suite_group suite_mutex;
extern const struct suite_group suite_crowd;
extern const struct suite_group suite_wait;
extern const struct suite_group suite_cancel;
extern const struct suite_group suite_reentry;
extern const struct suite_group suite_lease;
extern const struct suite_group suite_lost;
extern const struct suite_group suite_token;
extern const struct suite_group suite_inspect;
extern const struct suite_group suite_break;
extern const struct suite_group suite_async;
extern const struct suite_group suite_callback;
extern const struct suite_group suite_dispatch;
extern const struct suite_group suite_close;
extern const struct suite_group suite_fork;
extern const struct suite_group suite_process;
extern const struct suite_group suite_options;
extern const struct suite_group suite_names;
extern const struct suite_group suite_random;
extern const struct suite_group suite_kinds;
extern const struct suite_group suite_multi;
extern const struct suite_group suite_multi_ends;
extern const struct suite_group suite_fair;
extern const struct suite_group suite_shared;
extern const struct suite_group suite_spin;
extern const struct suite_group suite_handoff;

/* The whole of main(): run every case on this engine, print the table. */
int suite_main(int argc, char *argv[], const struct suite_engine *engine);

/* Another fresh name of this case. Valid until the case has ended. */
const char *suite_name(const struct suite *suite, const char *ending);

/* Write down how late something was; nothing is decided by it. */
void suite_late(const char *what, int64_t late_us);

#endif
