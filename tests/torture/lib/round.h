/* SPDX-License-Identifier: Apache-2.0 */
/* One round: a fresh backend, some workers, and a nemesis that does things to them for a while;
 * then everything is healed, everybody has to get on, and the oracles look at what was written
 * down. A campaign is one round after the other, each from a seed of its own.
 *
 *   staff.c        the worker processes
 *   nemesis.c      when which fault begins and ends
 *   worker_faults.c, redis_faults.c, file_faults.c    the faults
 *   counts.c       the part of whoever looks after semaphores
 *   round.c        beginning, end, and judgement
 *
 * All of it runs on the main thread of the test program. */
#ifndef PAWL_TORTURE_LIB_ROUND_H
#define PAWL_TORTURE_LIB_ROUND_H

#include "pawl.h"
#include "support/process.h"
#include "support/proxy.h"
#include "support/server.h"
#include "torture/lib/arena.h"
#include "torture/lib/history.h"
#include "torture/lib/oracles.h"

enum { KINDS_MAX = 32, PROXIES_MAX = 6, ACTIVE_MAX = 8 };

enum torture_engine { TORTURE_REDIS, TORTURE_FILE };

struct round;
struct fault;

/* What a fault is done to. Nobody suffers two at once, so that each can be undone. */
enum victim { VICTIM_WORKER, VICTIM_SERVER, VICTIM_PROXY, VICTIM_NAME, VICTIM_DISK };

struct fault_kind {
    const char *name;
    enum victim victim;
    unsigned weight;
    int64_t length_ms_min; /* of one that lasts; 0 and 0: over as soon as it was done */
    int64_t length_ms_max;
    bool silences; /* it breaks or silences connections: see WINDOW_DOUBT */
    bool (*begin)(struct round *round, struct fault *fault); /* false: not possible now */
    bool (*end)(struct round *round, struct fault *fault);   /* false: ask again in a moment */
};

struct fault {
    const struct fault_kind *kind; /* NULL: nobody's */
    unsigned target;               /* number of the worker, the proxy or the name */
    int64_t from_us;
    int64_t due_us; /* its end */
    int detail;     /* the kind's */
};

struct worker {
    struct child *child;
    unsigned generation;
    bool stopped;
    bool busy; /* a fault is being done to it */
    int proxy; /* it goes through this one; -1: none */
};

struct round {
    enum torture_engine engine;
    uint64_t seed;
    uint64_t random;
    bool keep;
    int64_t gap_ms; /* between two faults, on the average */
    struct arena *arena;
    char arena_path[ARENA_TEXT_SIZE + 16];
    struct worker workers[ARENA_SLOTS_MAX];
    unsigned worker_count;

    struct server *servers[ARENA_SERVERS_MAX]; /* redis */
    unsigned server_count;
    bool server_busy; /* one of them */
    struct proxy *proxies[PROXIES_MAX];
    bool proxy_busy[PROXIES_MAX];
    unsigned proxy_count;

    const char *lock_directory; /* file */
    bool small_disk;            /* it lies on a disk that can be filled */
    bool disk_busy;

    char url[ARENA_TEXT_SIZE];    /* without a proxy */
    pawl_client *operator_client; /* not of a quorum */
    pawl_lock *operator_locks[ARENA_NAMES_MAX];
    pawl_semaphore *semaphores[2]; /* the operator's, by name */

    const struct fault_kind *kinds; /* what may happen, a kind without a name at the end */
    uint64_t kind_counts[KINDS_MAX];
    struct fault active[ACTIVE_MAX];
    int64_t next_fault_us;
    struct history history;
    struct verdict verdict;
};

/* ===== round.c ===== */

struct round_plan {
    enum torture_engine engine;
    enum theme theme;
    uint64_t seed;
    const char *directory; /* for the logs; must exist and be empty */
    unsigned workers;
    unsigned threads;
    unsigned names;
    int64_t lease_ms;
    bool unlocked; /* the workers do not lock: the oracles must see that */
    bool calm;     /* no faults */
    bool keep;     /* write the history as text even if nothing is wrong */
};

void round_begin(struct round *round, const struct round_plan *plan);

/* Let it go on for a few milliseconds; false: a worker complains, so it is time to end. */
bool round_step(struct round *round);

/* Heal, let everybody get on and come to an end, and judge. */
void round_end(struct round *round);

uint64_t round_acquired(const struct round *round);
uint64_t round_faults(const struct round *round);

/* ===== counts.c ===== */

void counts_begin(struct round *round);
void counts_finish(struct round *round); /* O7, when everybody has gone */

/* A worker was killed, or has closed everything: replace what its threads had. */
void counts_bury(struct round *round, unsigned slot, bool killed);

/* ===== staff.c ===== */

void staff_start(struct round *round, unsigned slot);
void staff_kill(struct round *round, unsigned slot); /* and start the next generation */

/* Tell it to end in peace; has it, and if so, start the next generation. */
void staff_ask_to_leave(struct round *round, unsigned slot);
bool staff_has_left(struct round *round, unsigned slot);

void staff_stop(struct round *round, unsigned slot);
void staff_continue(struct round *round, unsigned slot);

/* All have had a lock after this moment; false when the time is over. */
bool staff_await_progress(struct round *round, int64_t since_us, int64_t timeout_ms);

/* All end, and their resources are looked at. */
void staff_dismiss(struct round *round);

/* ===== nemesis.c ===== */

void nemesis_begin(struct round *round);
void nemesis_step(struct round *round, int64_t now_us);
void nemesis_heal(struct round *round); /* ends all that is under way */

/* Locks were taken away, at this moment at the earliest, from holds with tokens up to this. */
void nemesis_taken(struct round *round, int name, int64_t from_us, uint64_t token_max);

/* The wall clock in microseconds: from it both engines take their first token, and one that is
 * taken away begins anew above it. */
uint64_t wall_clock_us(void);

/* ===== The kinds of faults, each list with one without a name at its end ===== */

extern const struct fault_kind torture_redis_faults[];
extern const struct fault_kind torture_file_faults[];

bool worker_fault_kill(struct round *round, struct fault *fault);
bool worker_fault_leave(struct round *round, struct fault *fault);
bool worker_fault_left(struct round *round, struct fault *fault);
bool worker_fault_stop(struct round *round, struct fault *fault);
bool worker_fault_continue(struct round *round, struct fault *fault);

#endif
