/* SPDX-License-Identifier: Apache-2.0 */
/* What the host is to be told once the mutex is free: collected under it, delivered without it. */
#ifndef PAWL_ENGINE_REDIS_EFFECTS_H
#define PAWL_ENGINE_REDIS_EFFECTS_H

#include "core/engine.h"

struct pawl__effects {
    struct pawl__op *ops; /* that have ended, linked by next */
    struct pawl__op **ops_end;
    size_t op_count;
    char *warnings[2]; /* from pawl__format(), or NULL */
    bool reconnected;
    bool attend;
};

static inline void pawl__effects_init(struct pawl__effects *effects)
{
    effects->ops = NULL;
    effects->ops_end = &effects->ops;
    effects->op_count = 0;
    effects->warnings[0] = NULL;
    effects->warnings[1] = NULL;
    effects->reconnected = false;
    effects->attend = false;
}

static inline bool pawl__effects_any(const struct pawl__effects *effects)
{
    return effects->ops != NULL || effects->warnings[0] != NULL || effects->reconnected ||
           effects->attend;
}

/* An operation has ended; its answer is set. */
static inline void pawl__effects_end(struct pawl__effects *effects, struct pawl__op *op)
{
    op->next = NULL;
    *effects->ops_end = op;
    effects->ops_end = &op->next;
    effects->op_count++;
}

/* It has ended without an answer. The sentence is copied. */
void pawl__effects_fail(struct pawl__effects *effects, struct pawl__op *op,
    enum pawl__answer answer, pawl_status status, bool again, const char *sentence);

/* The same for a whole list. */
void pawl__effects_fail_all(struct pawl__effects *effects, struct pawl__op *ops,
    enum pawl__answer answer, pawl_status status, bool again, const char *sentence);

/* Something to log; takes the text, NULL is fine. */
void pawl__effects_warn(struct pawl__effects *effects, char *warning);

/* Tell the host. No mutex may be held. */
void pawl__effects_deliver_all(struct pawl__effects *effects, struct pawl__host *host);

static inline void pawl__effects_deliver(struct pawl__effects *effects, struct pawl__host *host)
{
    if (pawl__effects_any(effects)) {
        pawl__effects_deliver_all(effects, host);
    }
}

#endif
