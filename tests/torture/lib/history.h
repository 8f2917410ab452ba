/* SPDX-License-Identifier: Apache-2.0 */
/* What happened in one round, put together from the workers' logs and from what the nemesis did:
 * the holds, the calls that took too long, and the times in which something was done to somebody.
 * All times are CLOCK_BOOTTIME of one machine, so those of different processes can be compared. */
#ifndef PAWL_TORTURE_LIB_HISTORY_H
#define PAWL_TORTURE_LIB_HISTORY_H

#include "pawl.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { EVERYBODY = -1 };

/* One hold, as its worker wrote it down. */
struct hold {
    unsigned slot;
    unsigned generation;
    uint64_t id;
    uint32_t name;
    pawl_kind kind;
    int64_t asked_us; /* not before, as its validity counts from there */
    uint64_t token;   /* 0: lost before it could ask */
    bool killed;      /* its process was killed while it held, */
    bool left;        /* it got as far as its release, */
    bool answered;    /* and the release was answered, */
    pawl_status status;
    int64_t from_us;
    int64_t left_us; /* before the release, or before the kill */
    int64_t answered_us;
    int64_t until_us; /* valid so long, as it knew last */
    int64_t cut_us;   /* its lock was taken away by force then; INT64_MAX: it was not */
    int64_t end_us;   /* the first of the three: exclusion was promised until then */

    bool added; /* the unguarded number: read, and stored plus one */
    uint64_t seen;
    int64_t read_us;
    int64_t stored_us;
    bool raised; /* the register: mark raised, and written as the n-th */
    bool wrote;
    uint64_t written;

    unsigned told; /* how often on_lost was called for it, */
    int64_t told_us;
};

/* A call that took longer than its limit. */
struct late_call {
    unsigned slot;
    bool is_release;
    int64_t from_us;
    int64_t to_us;
    int64_t limit_us;
};

/* Something was done to somebody. */
enum window_kind {
    WINDOW_PAUSED, /* a worker did not run, by its own account */
    WINDOW_TAKEN,  /* locks were taken away: all holds with tokens up to token_max */
    WINDOW_DOUBT   /* connections broke or were silent: a release may have been asked twice */
};

struct window {
    enum window_kind kind;
    int slot; /* or EVERYBODY */
    int name; /* or EVERYBODY */
    int64_t from_us;
    int64_t to_us;
    uint64_t token_max;
};

/* The end of a generation that was killed. */
struct death {
    unsigned slot;
    unsigned generation;
    int64_t at_us; /* it surely lived then */
};

/* Permits of a dead thread were replaced. */
struct replacement {
    unsigned slot;
    unsigned generation;
    unsigned thread;
    int64_t at_us;
};

/* An acquire of several locks: on the way it may have had, and lost, some that nobody was told of
 * otherwise. */
struct several {
    unsigned slot;
    unsigned generation;
    uint32_t name; /* one of them, */
    uint64_t owner;
    int64_t from_us;
    int64_t to_us;
};

struct history {
    struct hold *holds; /* by name, then by their beginning */
    size_t hold_count;
    struct late_call *late_calls;
    size_t late_count;
    struct window *windows;
    size_t window_count;
    struct death *deaths;
    size_t death_count;
    struct replacement *replacements;
    size_t replacement_count;
    struct several *several;
    size_t several_count;
    unsigned threads; /* of each worker */
    int64_t lease_us;
    uint64_t passing_reports; /* on_lost for a lock that an acquire of several had for a while */
    uint64_t strange_reports; /* on_lost for a token that no hold is known to have had */
    uint64_t tokenless;       /* holds that were lost before they could ask for their token */
};

/* Add one; used by the nemesis and by the tests of the oracles. */
struct hold *history_add_hold(struct history *history);
struct late_call *history_add_late(struct history *history);
struct window *history_add_window(struct history *history);
struct death *history_add_death(struct history *history);
struct replacement *history_add_replacement(struct history *history);

/* Read the logs of so many generations of a slot. */
void history_read_log(
    struct history *history, const char *directory, unsigned slot, unsigned generation);

/* When everything is in: cut the holds whose locks were taken away, and sort. */
void history_finish(struct history *history);
void history_free(struct history *history);

/* How much of the time between the two this worker did not run. */
int64_t history_paused_us(
    const struct history *history, unsigned slot, int64_t from_us, int64_t to_us);

/* Write all of it as text, for people who look for the cause of a violation. */
void history_dump(const struct history *history, const char *path);

#endif
