/* SPDX-License-Identifier: Apache-2.0 */
/* A crew: worker processes (support/programs/holder.c) on one board, hired, killed, stopped and
 * sent home by a test. Everything ends in the clean-up of the test at the latest. */
#ifndef PAWL_FAULT_LIB_CREW_H
#define PAWL_FAULT_LIB_CREW_H

#include "fault/lib/board.h"
#include "support/process.h"

struct crew {
    struct board *board;
    char path[BOARD_TEXT_SIZE]; /* of the board; <path>.<index> is a worker's file */
    size_t count;
    struct child *children[BOARD_WORKERS_MAX];
    int64_t killed_us[BOARD_WORKERS_MAX]; /* 0: not killed */
    uint64_t random;                      /* for all that the test draws */
};

/* A new crew without workers. Its seed is printed; PAWL_TEST_SEED=n in the environment sets it. */
struct crew *crew_make(void);

/* A slot with the usual plan (one caller, two names, renewed lease of a second, waits of 5 s,
 * timeout of 1 s, 2 ms of work) for this URL; the test may change it before the start. */
struct board_plan *crew_plan(struct crew *crew, const char *url);

/* Start the worker of the newest slot, and return its index. With a wrapper (NULL at the end) that
 * program starts it: {"env", "A=b", NULL}. */
size_t crew_start(struct crew *crew);
size_t crew_start_by(struct crew *crew, const char *const wrapper[]);

/* The same with another program than holder: one of support/programs that takes the same arguments.
 */
size_t crew_start_program(struct crew *crew, const char *program);

/* The usual plan, started, so many times. */
void crew_hire(struct crew *crew, const char *url, size_t count);

/* Wait until all who live have opened their locks. */
void crew_await_ready(struct crew *crew);

/* Wait until each of those who live has got a lock, */
void crew_await_first(struct crew *crew);

/* or has got one after this moment, or has ended: nobody starves. */
void crew_await_progress(struct crew *crew, int64_t since_us, int64_t timeout_ms);

void crew_kill(struct crew *crew, size_t index);
bool crew_lives(const struct crew *crew, size_t index);

/* Say stop, wait for everybody, and fail the test if one did not end well or has a complaint. */
void crew_finish(struct crew *crew);

/* Wait for everybody without saying stop; for plans with rounds. */
void crew_await_end(struct crew *crew, int64_t timeout_ms);

/* Sums over all workers. */
uint64_t crew_acquired(const struct crew *crew);
uint64_t crew_count_acquires(const struct crew *crew, pawl_status status);
uint64_t crew_count_releases(const struct crew *crew, pawl_status status);
uint64_t crew_count_told(const struct crew *crew);

/* A number from 0 to limit - 1. */
uint64_t crew_draw(struct crew *crew, uint64_t limit);

#endif
