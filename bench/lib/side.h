/* SPDX-License-Identifier: Apache-2.0 */
/* A side: one of the things that are compared, in a process of its own.
 *
 * The driver forks a side, which opens what it needs and then waits for orders: each one is a slice
 * of time to run for, and is answered with a sample. So all sides of a comparison are ready at the
 * same time and can take turns, the CPU time of each is its process's, and a side that crashes
 * takes only its group along. The driver itself has one thread and never uses the library. */
#ifndef PAWL_LIB_SIDE_H
#define PAWL_LIB_SIDE_H

#include "lib/server.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SAMPLE_VALUES = 4, ROUNDS_MAX = 99, SIDES_MAX = 8 };

/* What one slice of one side gave. */
struct sample {
    double seconds;
    double count;                 /* pairs, acquisitions, ...: what the side does */
    double cpu_seconds;           /* of the side's process */
    double server_cpu_seconds;    /* of redis-server at that time */
    double values[SAMPLE_VALUES]; /* what else the side measures; its own affair */
};

struct side_kind {
    const char *name;
    void *(*open)(const void *arg);
    /* Run for about so long. Sets count, and seconds if they are not those of the whole call. */
    void (*slice)(void *self, int64_t slice_ns, struct sample *sample);
    void (*close)(void *self);
};

struct side {
    const struct side_kind *kind;
    const void *arg; /* of open() */
    pid_t pid;
    int orders; /* the driver's ends of the pipes */
    int samples;
};

/* Fork the side and wait until it is open. False: it has said why not. */
bool side_start(struct side *side);

/* Give the order; wait for the sample. Between the two other sides may be started. */
bool side_order(const struct side *side, int64_t slice_ns);
bool side_answer(const struct side *side, struct sample *sample);

/* Close it and reap it. */
void side_stop(struct side *side);

/* Samples of several sides, round after round. */
struct rounds {
    size_t count;
    size_t side_count;
    struct sample samples[ROUNDS_MAX][SIDES_MAX];
};

/* Start all the sides, let them take turns (one turn each to warm up, then `count` measured ones),
 * stop them. False: a side failed. */
bool rounds_run(struct rounds *rounds, const struct server *server, struct side *sides,
    size_t side_count, size_t count, int64_t slice_ns);

/* The same with all sides running at the same time; `count` rounds after a short one. */
bool rounds_run_together(struct rounds *rounds, const struct server *server, struct side *sides,
    size_t side_count, size_t count, int64_t slice_ns);

#endif
