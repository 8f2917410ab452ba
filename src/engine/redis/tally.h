/* SPDX-License-Identifier: Apache-2.0 */
/* What semaphores and latches are asked, as commands, and the replies as answers. Pure, as
 * commands.h, which hands them over.
 *
 * The count is a number under the name itself, the leases of permits are a sorted set (the name in
 * its braces, and ":timeout"), both as Redisson has them. What is pawl's own is the record of a
 * request: "pawl_asked:{name}:<client uuid>:<number>", which the scripts make and look at, so that
 * a request that is repeated because its answer got lost counts once. It lives for about a minute,
 * or until the next request of the same client on the same name drops it. */
#ifndef PAWL_ENGINE_REDIS_TALLY_H
#define PAWL_ENGINE_REDIS_TALLY_H

#include "engine/redis/commands.h"

/* Write the command. `uuid` is that of the client, without a NUL. False: there is no room, and
 * nothing was written. */
__attribute__((warn_unused_result)) bool pawl__tally_command_put(
    const char *uuid, struct pawl__buffer *out, const struct pawl__op *op, bool whole);

enum pawl__reply_result pawl__tally_answer(struct pawl__op *op, int64_t number);
enum pawl__reply_result pawl__tally_answer_list(const struct pawl__resp_reader *reader,
    const struct pawl__resp_node *reply, struct pawl__op *op);

/* An error reply was judged as one about a lock: say it of a count. `foreign`: the key is none. */
void pawl__tally_take_error(struct pawl__op *op, const char *text, size_t text_size, bool foreign);

#endif
