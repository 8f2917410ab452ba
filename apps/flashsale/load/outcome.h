/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a load has seen: answers by kind and by status, orders that got no answer and why, who sold,
 * and how long it took. Not for several threads at once: each has its own, and they are added up.
 */
#ifndef FLASHSALE_LOAD_OUTCOME_H
#define FLASHSALE_LOAD_OUTCOME_H

#include <stdint.h>

#include "load/histogram.h"

/* What an order was answered. */
enum answer { ANSWER_SOLD, ANSWER_SOLD_OUT, ANSWER_BUSY, ANSWER_REFUSED, ANSWER_ERROR, ANSWERS };

/* Why an order got no answer; an answer that is an error counts by its status. */
enum trouble {
    TROUBLE_REFUSED,  /* nobody listens */
    TROUBLE_CLOSED,   /* the connection ended before the answer */
    TROUBLE_TIMEOUT,  /* neither happened in time */
    TROUBLE_NOT_HTTP, /* an answer that is none */
    TROUBLE_FILES,    /* this process has no descriptor left */
    TROUBLE_PORTS,    /* this machine has no port left for another connection */
    TROUBLE_OTHER,
    TROUBLES,
};

enum { LOAD_STATUSES = 600, LOAD_PORTS = 64 };

/* How many orders a port has sold. */
struct port_count {
    long port;
    uint64_t sold;
};

struct outcome {
    uint64_t answers[ANSWERS];
    uint64_t statuses[LOAD_STATUSES];
    uint64_t troubles[TROUBLES];
    struct port_count ports[LOAD_PORTS]; /* port 0 ends it */
    struct histogram all;                /* every answer */
    struct histogram sold;               /* answers to those that got something */
};

/* An answer has come; what it was. */
enum answer outcome_answer(struct outcome *outcome, int status, const char *body, int64_t took_us);

/* None will. */
void outcome_trouble(struct outcome *outcome, enum trouble trouble);

void outcome_merge(struct outcome *into, const struct outcome *from);

/* How many orders have ended. */
uint64_t outcome_total(const struct outcome *outcome);

#endif
