/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The load itself: a few threads, each with its part of the connections in an epoll set. A
 * connection has one order under way at a time and sends the next one when the answer is there,
 * until all orders have been given out. All connections are made before the first order is sent, so
 * that nothing but orders is measured.
 *
 * What each thread has seen is its own outcome; they are added up at the end.
 */
#ifndef FLASHSALE_LOAD_WORKER_H
#define FLASHSALE_LOAD_WORKER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "load/outcome.h"
#include "load/target.h"

struct load_plan {
    const struct target *targets; /* the connections take one each, in turn */
    size_t target_count;
    int64_t connections;
    int64_t orders; /* not less than connections */
    int threads;
    int64_t timeout_us; /* for one order */
    int64_t for_us;     /* no new orders after that; 0: no limit */
};

struct load_run {
    const struct load_plan *plan;
    atomic_bool stopped;        /* leave at once, whatever is still open */
    atomic_int_least64_t given; /* orders given out */
    atomic_int_least64_t ended; /* answered, or failed */
    atomic_int_least64_t sold;
    atomic_int_least64_t sold_in_time; /* before for_us was over */
    atomic_int_least64_t connected;    /* connections made, before the first order */
    atomic_int_least64_t last_sold_us; /* on the clock of now_us() */
    atomic_int_least64_t longest_us;   /* the longest time in which nothing was sold */
    atomic_int_least64_t begun_us;     /* when the first order was sent; 0: not yet */
    atomic_int_least64_t ended_us;     /* when the last answer came */
    atomic_int running;                /* threads */
    pthread_mutex_t mutex;
    pthread_cond_t all_connected;
    int connecting; /* threads that still make connections; under the mutex */
};

/* Start the threads, and call `watch` from this one some times a second until all have ended. The
 * outcome is the sum. False: a thread could not be made. */
bool load_run(struct load_run *run, struct outcome *outcome_out,
    void (*watch)(struct load_run *run, void *arg), void *watch_arg);

#endif
