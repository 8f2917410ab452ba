/* SPDX-License-Identifier: Apache-2.0 */
/* Operations on fair locks as commands. Queue and times follow the lock in all of them. Replies are
 * those of a mutex (answers.c). */
#include "engine/redis/commands_fair.h"

#include "engine/redis/commands_write.h"

static char *write_keys(char *at, const struct pawl__redis_place *place)
{
    at = write_key(at, place, KEY_LOCK);
    at = write_key(at, place, KEY_QUEUE);
    return write_key(at, place, KEY_TIMEOUTS);
}

static bool put_acquire(const struct pawl__commands *commands, struct pawl__buffer *out,
    const struct pawl__op *op, bool whole)
{
    const struct pawl__redis_place *place = pawl__redis_place_of(op->place);
    char *at =
        begin(out, &commands->acquire_fair, &pawl__script_acquire_fair, whole, rest_size(place, 5));
    if (at == NULL) {
        return false;
    }
    at = write_key(at, place, KEY_TOKEN);
    at = write_keys(at, place);
    at = write_owner(at, commands, op->id);
    at = write_lease(at, op->lease_us);
    at = write_number(at, commands->token_ttl_s);
    at = write_number(at, commands->token_floor);
    at = write_number(at, PAWL__FAIR_WAIT_MS);
    at = write_number(at, op->queue ? 1 : 0);
    return finish(out, write_key(at, place, KEY_CHANNEL));
}

static bool put_release(const struct pawl__commands *commands, struct pawl__buffer *out,
    const struct pawl__op *op, bool whole)
{
    const struct pawl__redis_place *place = pawl__redis_place_of(op->place);
    char *at =
        begin(out, &commands->release_fair, &pawl__script_release_fair, whole, rest_size(place, 4));
    if (at == NULL) {
        return false;
    }
    at = write_keys(at, place);
    at = write_key(at, place, KEY_CHANNEL);
    return finish(out, write_owner(at, commands, op->id));
}

static bool put_break(const struct pawl__commands *commands, struct pawl__buffer *out,
    const struct pawl__op *op, bool whole)
{
    const struct pawl__redis_place *place = pawl__redis_place_of(op->place);
    char *at =
        begin(out, &commands->break_fair, &pawl__script_break_fair, whole, rest_size(place, 4));
    if (at == NULL) {
        return false;
    }
    at = write_keys(at, place);
    return finish(out, write_key(at, place, KEY_CHANNEL));
}

bool pawl__command_put_fair(const struct pawl__commands *commands, struct pawl__buffer *out,
    const struct pawl__op *op, bool whole)
{
    assert(pawl__command_is_fair(op->kind));
    return op->kind == PAWL__OP_ACQUIRE   ? put_acquire(commands, out, op, whole)
           : op->kind == PAWL__OP_RELEASE ? put_release(commands, out, op, whole)
                                          : put_break(commands, out, op, whole);
}
