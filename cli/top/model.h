/* SPDX-License-Identifier: Apache-2.0 */
/* What `pawl top` knows: every lock it has seen lately, who holds it, since when, and figures about
 * its past. Two sources feed it: listings (who holds what, how many wait) and events (acquired,
 * released, expired). It asks nobody and has no clock: each call says what time it is.
 *
 * The past is what was seen since top began. A hold is measured if both its ends were seen. Nobody
 * tells how long a waiter waits; its mean is taken from Little's law, which holds for every queue:
 * mean wait = mean number of waiters / acquisitions per second.
 *
 * Threads: every function takes the model's mutex but those that say otherwise. */
#ifndef PAWL_TOP_MODEL_H
#define PAWL_TOP_MODEL_H

#include "common/holds.h"
#include "pawl.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TOP_WINDOW_S = 30 }; /* rates are over the last so many seconds */

/* Events in the last seconds: one counter for each second of the window. */
struct top_rate {
    uint32_t counts[TOP_WINDOW_S];
    int64_t second; /* of the newest counter */
};

struct top_lock {
    struct cli_hold hold;  /* the last that was seen; its name is the lock's */
    size_t holders;        /* 0: free */
    size_t holders_listed; /* so many in the listing that is under way */
    int64_t held_since_ms;
    bool held_before;   /* it may have been held for longer than we know */
    int64_t changed_ms; /* the last event or news */
    uint64_t acquired;
    uint64_t measured; /* holds of which both ends were seen */
    int64_t measured_ms;
    double waiter_ms; /* waiters times milliseconds */
    int64_t waiters_at_ms;
    struct top_rate rate;
};

struct top_totals {
    size_t held;
    int64_t waiters; /* -1: nobody knows */
    double acquired_rate;
    double released_rate;
    uint64_t expired;
};

/* Where news come from. Each may fail on its own. */
enum top_source { TOP_LISTINGS, TOP_EVENTS, TOP_SOURCES };

struct top_trouble {
    char sentence[256]; /* "": all is well */
    int64_t since_ms;
};

struct top_model {
    pthread_mutex_t mutex;
    struct top_lock **locks; /* by name */
    size_t count;
    size_t room;
    int64_t begun_ms;
    int64_t listing_ms; /* when the listing that is under way began */
    uint64_t listings;  /* that are complete */
    struct top_rate acquired;
    struct top_rate released;
    uint64_t expired;
    bool exact; /* acquisitions are told by the backend */
    struct top_trouble troubles[TOP_SOURCES];
};

void top_model_open(struct top_model *model, int64_t now_ms);
void top_model_close(struct top_model *model);

/* A listing: begin, each entry, end. */
void top_model_list_begin(struct top_model *model, int64_t now_ms);
void top_model_list_entry(struct top_model *model, const pawl_entry *entry, int64_t now_ms);
void top_model_list_end(struct top_model *model, int64_t now_ms);

void top_model_event(struct top_model *model, const pawl_watch_event *event, int64_t now_ms);

/* A source has failed; "" when it works again. */
void top_model_trouble(
    struct top_model *model, enum top_source source, const char *sentence, int64_t now_ms);
bool top_model_in_trouble(struct top_model *model, enum top_source source);
void top_model_set_exact(struct top_model *model, bool exact);

/* How many listings are complete. */
uint64_t top_model_listings(struct top_model *model);

/* For a view that holds the mutex: figures of one lock, and of all. -1: not known. */
double top_lock_rate(const struct top_model *model, const struct top_lock *lock, int64_t now_ms);
int64_t top_lock_mean_hold_ms(const struct top_lock *lock);
int64_t top_lock_mean_wait_ms(const struct top_lock *lock);
struct top_totals top_model_totals(const struct top_model *model, int64_t now_ms);

#endif
