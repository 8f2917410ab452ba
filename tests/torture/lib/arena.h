/* SPDX-License-Identifier: Apache-2.0 */
/* The arena: a file that the driver and the workers of one round map. It says what the workers have
 * to do, shows what they have done (also after a kill -9), and has what the locks protect.
 *
 * For each name there are two things to write to. The *number* is protected by the lock alone: it
 * is read at the beginning of a hold, and the next number is stored at its end. The *register*
 * checks tokens as docs/guarantees.md tells a store to do it: the mark is raised before the
 * reading, and only who still has the mark may write. It is one word, token and count of writes
 * together, so that a process that is killed or stopped in the middle leaves it whole and nobody
 * waiting.
 *
 * What a worker does is written to a file of its own, record by record, and appended whole, so
 * that whatever was written survives its death: <directory>/log.<slot>.<generation>. */
#ifndef PAWL_TORTURE_LIB_ARENA_H
#define PAWL_TORTURE_LIB_ARENA_H

#include "pawl.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    ARENA_NAMES_MAX = 8,
    ARENA_SLOTS_MAX = 16,
    ARENA_THREADS_MAX = 16,
    ARENA_STATUS_MAX = 64, /* greater than any pawl_status */
    ARENA_TEXT_SIZE = 512,
    ARENA_COUNT_BITS = 24,
    ARENA_SERVERS_MAX = 3,
    ARENA_LATCHES_MAX = 8192,
};

#define ARENA_NAME_FORMAT "torture:%u"
#define ARENA_SEMAPHORE "torture:semaphore"
#define ARENA_PERMITS "torture:permits"

struct arena_cell {
    _Atomic uint64_t number;
    _Atomic uint64_t fenced; /* (token - token_base) << ARENA_COUNT_BITS | writes */
};

enum arena_stage { ARENA_ABSENT, ARENA_READY, ARENA_DONE };

/* What a round is about. */
enum theme {
    THEME_LOCKS,  /* all kinds of locks, alone and several at once */
    THEME_COUNTS, /* semaphores, leased permits, latches */
    THEME_QUORUM, /* locks that three servers keep */
    THEME_COUNT
};

enum { NAME_SEMAPHORE, NAME_PERMITS, NAME_LATCH }; /* of counts */

/* What a thread has of the semaphore, for whoever has to replace it if the thread dies. */
enum stake_state {
    STAKE_NONE,
    STAKE_DOUBT, /* it is being taken or given back */
    STAKE_HAS
};

/* One latch after the other, each under a name of its own. */
struct arena_latch {
    _Atomic unsigned stage;   /* see enum latch_stage */
    _Atomic unsigned tickets; /* to count it down */
    _Atomic unsigned begun;   /* calls that count down, */
    _Atomic unsigned counted; /* and those that were answered */
};

enum latch_stage { LATCH_NEW, LATCH_BEING_SET, LATCH_SET, LATCH_GIVEN_UP };

/* What a process had before it opened its client, and after it closed it. */
struct arena_resources {
    _Atomic uint64_t descriptors;
    _Atomic uint64_t threads;
    _Atomic uint64_t resident; /* bytes */
};

/* One worker process after the other, each being a generation. */
struct arena_slot {
    char url[ARENA_TEXT_SIZE];
    uint64_t seed;
    _Atomic unsigned stage;
    _Atomic unsigned leave; /* end this generation */
    struct arena_resources before;
    struct arena_resources after;
    _Atomic uint64_t resident_warm; /* when it had worked for a while; 0: not yet */
    _Atomic uint64_t acquired;      /* holds of this generation */
    _Atomic int64_t thread_acquired_us[ARENA_THREADS_MAX]; /* the last time that it got a lock */
    _Atomic uint64_t acquires[ARENA_STATUS_MAX]; /* how often each status came, all generations */
    _Atomic uint64_t releases[ARENA_STATUS_MAX];
    _Atomic uint64_t told;
    _Atomic unsigned stakes[ARENA_THREADS_MAX][2]; /* state and amount */
    _Atomic unsigned doubts;  /* permits of calls that ended without an answer, */
    _Atomic unsigned unheard; /* and whether the close said that some were never heard */
    _Atomic unsigned complained;
    char complaint[ARENA_TEXT_SIZE]; /* the first thing that must never happen */
};

struct arena {
    char directory[ARENA_TEXT_SIZE]; /* of the logs */
    unsigned names;
    unsigned workers;
    unsigned threads; /* of each worker */
    int64_t lease_ms;
    int64_t timeout_ms;
    int64_t give_up_ms;
    uint64_t token_base; /* below every token of this round */
    enum theme theme;
    bool several;     /* they lock several at once, now and then */
    unsigned servers; /* that keep a lock together */
    unsigned permits; /* of each semaphore, */
    unsigned downs;   /* and how often a latch is counted down */
    bool unlocked;    /* the workers do not lock at all: the oracles must see that */
    pawl_kind kinds[ARENA_NAMES_MAX]; /* PAWL_WRITE: some write, some read */
    unsigned handoffs[ARENA_NAMES_MAX];
    _Atomic unsigned stop;
    struct arena_cell cells[ARENA_NAMES_MAX];
    _Atomic unsigned latch; /* the one of the moment */
    struct arena_latch latches[ARENA_LATCHES_MAX];
    _Atomic uint64_t latches_counted; /* downs that were answered, all in all, */
    _Atomic uint64_t latches_opened;  /* waits that ended with it open, */
    _Atomic uint64_t latches_checked; /* and counts that were compared */
    _Atomic uint64_t several_acquired;
    struct arena_slot slots[ARENA_SLOTS_MAX];
};

/* ===== Logs ===== */

enum record_step {
    RECORD_ACQUIRED = 1,
    RECORD_LEAVING,  /* about to release */
    RECORD_RELEASED, /* the release was answered */
    RECORD_TOLD,     /* on_lost was called */
    RECORD_LATE,     /* a call took longer than it may */
    RECORD_PAUSED,   /* the process did not run */
    RECORD_SEVERAL   /* an acquire of several locks, from at_us until until_us */
};

enum { RECORD_THREAD_SHIFT = 40 }; /* a hold's number has its thread's in front */

struct torture_record {
    uint32_t step;
    uint32_t name;
    uint32_t kind; /* PAWL_READ, ...: how it was acquired */
    uint64_t hold; /* unique in its generation; TOLD, SEVERAL: the owner's number */
    uint64_t token;
    int64_t at_us;     /* ACQUIRED: after the call; LEAVING: before the call; LATE: the beginning */
    int64_t until_us;  /* valid so long, as the library said last; 0: never was; LATE: the end */
    uint32_t status;   /* RELEASED: the answer */
    bool added;        /* LEAVING: the number was stored */
    bool raised;       /* ACQUIRED: the register took the token */
    bool wrote;        /* LEAVING: the register took the write */
    bool is_release;   /* LATE: which call */
    uint64_t seen;     /* the number at the beginning */
    uint64_t written;  /* LEAVING: how many writes the register had with this one; PAWL_READ: the
                          number once more, at stored_us, if `added` */
    int64_t read_us;   /* when the number had been read */
    int64_t stored_us; /* LEAVING: when the number had been stored; LATE: the limit of the call */
};

/* ===== The register ===== */

/* Raise its mark to this token; false: somebody with a greater one was here. */
static inline bool register_raise(
    const struct arena *arena, struct arena_cell *cell, uint64_t token)
{
    const uint64_t mark = token - arena->token_base;
    const uint64_t count_mask = (UINT64_C(1) << ARENA_COUNT_BITS) - 1;
    uint64_t seen = atomic_load(&cell->fenced);
    while (mark > seen >> ARENA_COUNT_BITS) {
        const uint64_t raised = mark << ARENA_COUNT_BITS | (seen & count_mask);
        if (atomic_compare_exchange_weak(&cell->fenced, &seen, raised)) {
            return true;
        }
    }
    return mark == seen >> ARENA_COUNT_BITS;
}

/* Write, and return how often it was written to; 0: the mark is not ours any more. */
static inline uint64_t register_write(
    const struct arena *arena, struct arena_cell *cell, uint64_t token)
{
    const uint64_t mark = token - arena->token_base;
    uint64_t seen = atomic_load(&cell->fenced);
    while (mark == seen >> ARENA_COUNT_BITS) {
        if (atomic_compare_exchange_weak(&cell->fenced, &seen, seen + 1)) {
            return (seen + 1) & ((UINT64_C(1) << ARENA_COUNT_BITS) - 1);
        }
    }
    return 0;
}

/* ===== Chance ===== */

/* The same draw from the same seed: splitmix64. */
static inline uint64_t draw_bits(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static inline uint64_t draw_below(uint64_t *state, uint64_t limit)
{
    return draw_bits(state) % limit;
}

static inline int64_t draw_between(uint64_t *state, int64_t least, int64_t most)
{
    return least + (int64_t)draw_below(state, (uint64_t)(most - least + 1));
}

#endif
