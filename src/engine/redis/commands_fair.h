/* SPDX-License-Identifier: Apache-2.0 */
/* The operations that are others for fair locks: acquire, release, break. The rest is as for a
 * mutex, because a fair lock that is held looks like one. */
#ifndef PAWL_ENGINE_REDIS_COMMANDS_FAIR_H
#define PAWL_ENGINE_REDIS_COMMANDS_FAIR_H

#include "base/limits.h"
#include "engine/redis/commands.h"

/* A waiter of ours is believed to live for so long after each of its questions, and the core asks
 * about every second. After an outage of longer than this, those who wait come in any order. */
#define PAWL__FAIR_WAIT_MS (PAWL__FAIR_WAIT_US / 1000)

static inline bool pawl__command_is_fair(enum pawl__op_kind kind)
{
    return kind == PAWL__OP_ACQUIRE || kind == PAWL__OP_RELEASE || kind == PAWL__OP_BREAK;
}

/* As pawl__command_put(), for one of these. */
__attribute__((warn_unused_result)) bool pawl__command_put_fair(
    const struct pawl__commands *commands, struct pawl__buffer *out, const struct pawl__op *op,
    bool whole);

#endif
