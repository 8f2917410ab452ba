/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of the Redis engine have in common: a host that writes down what it is told, calls
 * that drive themselves to their end, and, where a test asks for it, a keeper. */
#ifndef PAWL_UNIT_LIB_REDIS_SIDE_H
#define PAWL_UNIT_LIB_REDIS_SIDE_H

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "core/engine.h"
#include "support/fail.h"
#include "support/resources.h"
#include "support/server.h"
#include "support/text.h"
#include "support/thread.h"
#include "support/wait.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum {
    BOUND_MS = 10000, /* for what must happen soon, on a machine that may be busy */
    TIMEOUT_US = 1000000,
    LEASE_US = 30000000,
};

extern const struct pawl__engine pawl__engine_redis;

/* One client of the engine. */
struct side {
    struct pawl__host host;
    void *self;
    pthread_mutex_t mutex; /* guards the texts */
    char log[1024];        /* all that was logged, line by line, as far as it fits */
    char woken[64];        /* the last name that was woken, */
    uint64_t woken_id;     /* and for whom */
    _Atomic unsigned wakes;
    _Atomic unsigned wakes_of_all;
    _Atomic unsigned reconnects;
    _Atomic unsigned attends;
    _Atomic bool keeper_stops;
    int keeper_wake;
    pthread_t keeper;
    bool has_keeper;
};

/* One operation and who waits for it. */
struct call {
    struct pawl__op op;
    struct pawl__waiter waiter;
};

/* ===== Opening and closing ===== */

void side_init(struct side *side); /* with settings that a test may change */
pawl_status side_prepare(struct side *side, const char *url_text); /* does not connect */
pawl_status side_try_connect(struct side *side);
void side_open(struct side *side, const char *url_text); /* all three, and they must succeed */
void side_close(struct side *side);
void keeper_start(struct side *side); /* ended by side_close() */

/* Opening must fail with this status and a sentence that has this part. After side_init(). */
void assert_refused(struct side *side, const char *url_text, pawl_status status, const char *part);

/* Was anything logged that has this part? */
bool side_logged(struct side *side, const char *part);

/* ===== Places ===== */

struct pawl__place *place_make(const char *name, size_t name_size); /* not opened */
void place_discard(struct pawl__place *place);
struct pawl__place *place_open(struct side *side, const char *name); /* of a mutex */

/* Open a place that was made, and ask about its rights; a failure leaves it not opened. */
pawl_status place_try(struct side *side, struct pawl__place *place);
struct pawl__place *place_open_as(struct side *side, const char *name, enum pawl__family family);
void place_close(struct side *side, struct pawl__place *place);

/* ===== Calls ===== */

void call_init(struct call *call, struct pawl__place *place, enum pawl__op_kind kind, uint64_t id);

/* Submit it, and drive until it has ended; it must by its deadline, but for a busy machine. */
void call_run(struct side *side, struct call *call);
void call_finish(struct side *side, struct call *call); /* the second half of that */
void call_free(struct call *call);

/* Run one operation and say how it ended; the rest is in `call`. */
enum pawl__answer ask(struct side *side, struct call *call, struct pawl__place *place,
    enum pawl__op_kind kind, uint64_t id);
void assert_answer(struct side *side, struct pawl__place *place, enum pawl__op_kind kind,
    uint64_t id, enum pawl__answer answer);
uint64_t acquire(struct side *side, struct pawl__place *place, uint64_t id); /* the token */

/* The end of a call without an answer, and what its sentence says. */
void assert_ended(
    struct call *call, enum pawl__answer answer, pawl_status status, bool again, const char *part);

#endif
