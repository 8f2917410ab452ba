/* SPDX-License-Identifier: Apache-2.0 */
/* The board: a file that the test and its workers map, through which the test says what each worker
 * has to do and sees what they have done, also after they were killed.
 *
 * It also has what the locks protect, for each name: a number that only adds up if nobody is inside
 * together, and a register that refuses old tokens. Beside it, each worker writes its holds to a
 * file of its own, record by record; what was written survives a kill -9. The workers are
 * support/programs/holder.c. */
#ifndef PAWL_FAULT_LIB_BOARD_H
#define PAWL_FAULT_LIB_BOARD_H

#include "pawl.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    BOARD_NAMES_MAX = 8,
    BOARD_WORKERS_MAX = 48,
    BOARD_CALLERS_MAX = 64,
    BOARD_STATUS_MAX = 64, /* greater than any pawl_status */
    BOARD_TEXT_SIZE = 512,
};

/* What is special about a worker. */
enum {
    BOARD_UNLOCKED = 1, /* does not lock at all: the oracles must see that */
    BOARD_FORKS = 2,    /* forks while it holds; the child does this and that */
    BOARD_CHURNS = 4,   /* its threads end now and then while they hold */
    BOARD_SIGNALS = 8,  /* has handlers without SA_RESTART, and an alarm every millisecond */
    BOARD_STARVES = 16, /* one in three of the library's allocations fails */
    BOARD_MAY_FAIL = 32 /* opening may fail, too, and then it ends well */
};

/* What a worker does, written by the test before it starts. Names are "fault:0", "fault:1", ... */
struct board_plan {
    char url[BOARD_TEXT_SIZE];
    unsigned name_first;
    unsigned name_count;
    unsigned callers; /* threads */
    unsigned flags;
    unsigned rounds; /* each caller ends after so many; 0: when the board says stop */
    bool renew;
    int64_t lease_ms;
    int64_t wait_ms; /* as in pawl_lock_acquire() */
    int64_t timeout_ms;
    int64_t work_us;         /* inside; drawn from half of it to all of it */
    int64_t rest_us;         /* outside, likewise */
    int64_t clock_offset_us; /* how far its boot time is ahead of the test's */
    uint64_t seed;
};

enum board_stage { BOARD_ABSENT, BOARD_READY, BOARD_DONE };

struct board_worker {
    struct board_plan plan;
    _Atomic unsigned stage;
    _Atomic uint64_t acquires[BOARD_STATUS_MAX]; /* how often each status came */
    _Atomic uint64_t releases[BOARD_STATUS_MAX];
    _Atomic uint64_t started;  /* additions: about to be made, */
    _Atomic uint64_t finished; /* and made */
    _Atomic uint64_t told;     /* on_lost was called */
    _Atomic uint64_t deserted; /* holds whose thread ended */
    _Atomic uint64_t stale_refused;
    _Atomic uint64_t starved;        /* allocations that failed */
    _Atomic int64_t acquired_us;     /* the last time that it got a lock */
    _Atomic int64_t waited_us;       /* the longest wait that ended with a lock */
    _Atomic int64_t acquire_late_us; /* most that a call took beyond its limit */
    _Atomic int64_t release_late_us;
    _Atomic int64_t told_late_us;        /* most that on_lost came after what had been promised */
    _Atomic uint64_t descriptors_before; /* before the client was opened, and after its close */
    _Atomic uint64_t descriptors_after;
    _Atomic uint64_t resident_before; /* bytes */
    _Atomic uint64_t resident_after;
    _Atomic uint64_t threads_before;
    _Atomic uint64_t threads_after;
    _Atomic unsigned complained;
    char complaint[BOARD_TEXT_SIZE]; /* the first thing that must not happen */
};

/* What the lock of one name protects. */
struct board_name {
    _Atomic uint64_t number;  /* read, some work, written plus one: nobody else may be inside */
    _Atomic uint64_t fence;   /* the greatest token that was written with */
    _Atomic uint64_t entered; /* in order of their coming */
};

struct board {
    _Atomic unsigned stop;
    struct board_name names[BOARD_NAMES_MAX];
    struct board_worker workers[BOARD_WORKERS_MAX];
};

/* One step of a hold in a worker's file. */
enum hold_step { HOLD_ACQUIRED = 1, HOLD_LEAVING, HOLD_RELEASED };

struct hold_record {
    uint64_t hold; /* unique in the worker */
    uint32_t name;
    uint32_t step;
    uint32_t status;  /* RELEASED: what the release said */
    uint32_t refused; /* LEAVING: the register did not take its write */
    uint64_t token;
    int64_t at_us;    /* ACQUIRED: after the call; LEAVING: before the call; boot time */
    int64_t until_us; /* valid so long, as the library said then; 0: lost */
};

/* The same draw from the same seed: splitmix64. */
static inline uint64_t board_random(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* From half of it to all of it. */
static inline int64_t board_draw(uint64_t *state, int64_t most)
{
    return most <= 1 ? most : most - (int64_t)(board_random(state) % (uint64_t)(most / 2));
}

static inline void board_raise(_Atomic int64_t *most, int64_t value)
{
    int64_t seen = atomic_load(most);
    while (value > seen && !atomic_compare_exchange_weak(most, &seen, value)) {
    }
}

#endif
