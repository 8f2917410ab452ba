/* SPDX-License-Identifier: Apache-2.0 */
/* Writing operations of spin, plain and shared locks; see commands_families.h. */
#include "engine/redis/commands_families.h"

#include "engine/redis/commands_write.h"

enum { KEYS_MAX = 3 }; /* of one operation */

/* Each script with the number of its keys and arguments. */
static const struct {
    const struct pawl__script *script;
    uint32_t key_count;
    uint32_t argument_count;
} calls[PAWL__FAMILY_SCRIPT_COUNT] = {
    [PAWL__SCRIPT_BREAK_SPIN] = {&pawl__script_break, 1, 0},
    [PAWL__SCRIPT_ACQUIRE_PLAIN] = {&pawl__script_acquire_plain, 1, 2},
    [PAWL__SCRIPT_CHECK_PLAIN] = {&pawl__script_check_plain, 1, 1},
    [PAWL__SCRIPT_RELEASE_PLAIN] = {&pawl__script_release_plain, 1, 1},
    [PAWL__SCRIPT_INSPECT_PLAIN] = {&pawl__script_inspect_plain, 1, 0},
    [PAWL__SCRIPT_BREAK_PLAIN] = {&pawl__script_break_plain, 1, 0},
    [PAWL__SCRIPT_ACQUIRE_READ] = {&pawl__script_acquire_read, 2, 5},
    [PAWL__SCRIPT_ACQUIRE_WRITE] = {&pawl__script_acquire_write, 2, 5},
    [PAWL__SCRIPT_CHECK_SHARED] = {&pawl__script_check_shared, 1, 2},
    [PAWL__SCRIPT_RELEASE_SHARED] = {&pawl__script_release_shared, 1, 3},
    [PAWL__SCRIPT_BREAK_SHARED] = {&pawl__script_break_shared, 1, 2},
};

void pawl__family_scripts_init(struct pawl__script_head *heads)
{
    for (size_t i = 0; i < PAWL__FAMILY_SCRIPT_COUNT; i++) {
        head_init(&heads[i], calls[i].script, calls[i].key_count, calls[i].argument_count);
    }
}

/* Begin the call of a script for this operation. NULL: no room. */
static char *begin_call(const struct pawl__commands *commands, struct pawl__buffer *out,
    const struct pawl__op *op, enum pawl__family_script which, bool whole)
{
    const struct pawl__redis_place *place = pawl__redis_place_of(op->place);
    const struct pawl__script *script = calls[which].script;
    const bool grants = which == PAWL__SCRIPT_ACQUIRE_READ || which == PAWL__SCRIPT_ACQUIRE_WRITE;
    struct pawl__script_head longer;
    const struct pawl__script_head *head = &commands->families[which];
    return begin(out, grants ? head_for(head, script, op, &longer) : head, script, whole,
        rest_size(place, KEYS_MAX));
}

static char *write_lock(char *at, const struct pawl__op *op)
{
    return write_key(at, pawl__redis_place_of(op->place), KEY_LOCK);
}

/* ===== Scripts of the lock and, perhaps, the owner ===== */

static bool put_lock(const struct pawl__commands *commands, struct pawl__buffer *out,
    const struct pawl__op *op, enum pawl__family_script which, bool whole)
{
    char *at = begin_call(commands, out, op, which, whole);
    return at != NULL && finish(out, write_lock(at, op));
}

static bool put_owner(const struct pawl__commands *commands, struct pawl__buffer *out,
    const struct pawl__op *op, enum pawl__family_script which, bool whole)
{
    char *at = begin_call(commands, out, op, which, whole);
    return at != NULL && finish(out, write_owner(write_lock(at, op), commands, op->id));
}

/* ===== Spin ===== */

/* HDEL answers as release.lua does when nobody listens, and is no script. */
static bool put_quiet_release(
    const struct pawl__commands *commands, struct pawl__buffer *out, const struct pawl__op *op)
{
    static const char head[] = "*3\r\n$4\r\nHDEL\r\n";
    const struct pawl__redis_place *place = pawl__redis_place_of(op->place);
    char *at = pawl__buffer_reserve(out, rest_size(place, 1));
    if (at == NULL) {
        return false;
    }
    at = write_bytes(at, head, sizeof head - 1);
    return finish(out, write_owner(write_lock(at, op), commands, op->id));
}

/* ===== Plain ===== */

static bool put_acquire_plain(const struct pawl__commands *commands, struct pawl__buffer *out,
    const struct pawl__op *op, bool whole)
{
    char *at = begin_call(commands, out, op, PAWL__SCRIPT_ACQUIRE_PLAIN, whole);
    if (at == NULL) {
        return false;
    }
    at = write_owner(write_lock(at, op), commands, op->id);
    return finish(out, write_lease(at, op->lease_us));
}

static bool put_plain(struct pawl__commands *commands, struct pawl__buffer *out,
    const struct pawl__op *ops, bool whole)
{
    switch (ops->kind) {
    case PAWL__OP_ACQUIRE:
        return put_acquire_plain(commands, out, ops, whole);
    case PAWL__OP_RENEW:
        return pawl__command_put_renewals(commands, out, ops, &pawl__script_renew_plain, whole);
    case PAWL__OP_VERIFY:
    case PAWL__OP_COUNT:
        return put_owner(commands, out, ops, PAWL__SCRIPT_CHECK_PLAIN, whole);
    case PAWL__OP_RELEASE:
        return put_owner(commands, out, ops, PAWL__SCRIPT_RELEASE_PLAIN, whole);
    case PAWL__OP_INSPECT:
        return put_lock(commands, out, ops, PAWL__SCRIPT_INSPECT_PLAIN, whole);
    case PAWL__OP_BREAK:
        return put_lock(commands, out, ops, PAWL__SCRIPT_BREAK_PLAIN, whole);
    case PAWL__OP_PASS:
    case PAWL__OP_TALLY:
    case PAWL__OP_RAISE:
    case PAWL__OP_WATCH:
    case PAWL__OP_UNWATCH:
        break;
    }
    return false; /* nobody asks for these here */
}

/* ===== Shared ===== */

static bool put_acquire_shared(struct pawl__commands *commands, struct pawl__buffer *out,
    const struct pawl__op *op, bool whole)
{
    const struct pawl__redis_place *place = pawl__redis_place_of(op->place);
    char *at = begin_call(commands, out, op,
        op->as == PAWL_WRITE ? PAWL__SCRIPT_ACQUIRE_WRITE : PAWL__SCRIPT_ACQUIRE_READ, whole);
    if (at == NULL) {
        return false;
    }
    at = write_key(at, place, KEY_TOKEN);
    at = write_key(at, place, KEY_LOCK);
    at = write_key(at, place, KEY_STEM);
    at = write_owner(at, commands, op->id);
    at = write_grant(at, commands, op->lease_us);
    return finish(out, write_tokens(at, op));
}

static bool put_renewals_shared(const struct pawl__commands *commands, struct pawl__buffer *out,
    const struct pawl__op *ops, bool whole)
{
    uint32_t count = 0;
    size_t size = 0;
    for (const struct pawl__op *op = ops; op != NULL; op = op->next) {
        count++;
        size += rest_size(pawl__redis_place_of(op->place), 2);
    }
    struct pawl__script_head head;
    head_init(&head, &pawl__script_renew_shared, count, 4 * count);
    char *at = begin(out, &head, &pawl__script_renew_shared, whole, size);
    if (at == NULL) {
        return false;
    }
    for (const struct pawl__op *op = ops; op != NULL; op = op->next) {
        at = write_lock(at, op);
    }
    for (const struct pawl__op *op = ops; op != NULL; op = op->next) {
        at = write_key(at, pawl__redis_place_of(op->place), KEY_STEM);
        at = write_owner(at, commands, op->id);
        at = write_lease(at, op->lease_us);
        at = write_bulk(at, op->as == PAWL_WRITE ? "w" : "r", 1);
    }
    return finish(out, at);
}

/* A count of 0 is only a question. */
static bool put_check_shared(const struct pawl__commands *commands, struct pawl__buffer *out,
    const struct pawl__op *op, unsigned count, bool whole)
{
    char *at = begin_call(commands, out, op, PAWL__SCRIPT_CHECK_SHARED, whole);
    if (at == NULL) {
        return false;
    }
    at = write_owner(write_lock(at, op), commands, op->id);
    return finish(out, write_number(at, count));
}

/* The lock, its channel and what its readers' keys begin with, and for a release who leaves. */
static bool put_end_shared(const struct pawl__commands *commands, struct pawl__buffer *out,
    const struct pawl__op *op, enum pawl__family_script which, bool whole)
{
    const struct pawl__redis_place *place = pawl__redis_place_of(op->place);
    char *at = begin_call(commands, out, op, which, whole);
    if (at == NULL) {
        return false;
    }
    at = write_key(at, place, KEY_LOCK);
    at = write_key(at, place, KEY_RW_CHANNEL);
    at = write_key(at, place, KEY_STEM);
    const bool release = which == PAWL__SCRIPT_RELEASE_SHARED;
    return finish(out, release ? write_owner(at, commands, op->id) : at);
}

static bool put_shared(struct pawl__commands *commands, struct pawl__buffer *out,
    const struct pawl__op *ops, bool whole)
{
    switch (ops->kind) {
    case PAWL__OP_ACQUIRE:
        return put_acquire_shared(commands, out, ops, whole);
    case PAWL__OP_RENEW:
        return put_renewals_shared(commands, out, ops, whole);
    case PAWL__OP_VERIFY:
        return put_check_shared(commands, out, ops, 0, whole);
    case PAWL__OP_COUNT:
        return put_check_shared(commands, out, ops, ops->as == PAWL_WRITE ? ops->count : 0, whole);
    case PAWL__OP_RELEASE:
        return put_end_shared(commands, out, ops, PAWL__SCRIPT_RELEASE_SHARED, whole);
    case PAWL__OP_BREAK:
        return put_end_shared(commands, out, ops, PAWL__SCRIPT_BREAK_SHARED, whole);
    case PAWL__OP_INSPECT:
    case PAWL__OP_PASS:
    case PAWL__OP_TALLY:
    case PAWL__OP_RAISE:
    case PAWL__OP_WATCH:
    case PAWL__OP_UNWATCH:
        break;
    }
    return false; /* nobody asks for these here */
}

/* ===== Entrances ===== */

bool pawl__command_differs(enum pawl__family family, enum pawl__op_kind kind)
{
    switch (family) {
    case PAWL__FAMILY_SPIN:
        return kind == PAWL__OP_RELEASE || kind == PAWL__OP_BREAK;
    case PAWL__FAMILY_PLAIN:
        return true;
    case PAWL__FAMILY_SHARED:
        return kind != PAWL__OP_INSPECT;
    case PAWL__FAMILY_MUTEX:
    case PAWL__FAMILY_FAIR:
    case PAWL__FAMILY_SEMAPHORE:
    case PAWL__FAMILY_PERMITS:
    case PAWL__FAMILY_LATCH:
        break;
    }
    return false;
}

bool pawl__command_put_family(struct pawl__commands *commands, struct pawl__buffer *out,
    const struct pawl__op *ops, bool whole)
{
    if (ops->place->family == PAWL__FAMILY_SHARED) {
        return put_shared(commands, out, ops, whole);
    }
    if (ops->place->family == PAWL__FAMILY_PLAIN) {
        return put_plain(commands, out, ops, whole);
    }
    return ops->kind == PAWL__OP_RELEASE
               ? put_quiet_release(commands, out, ops)
               : put_lock(commands, out, ops, PAWL__SCRIPT_BREAK_SPIN, whole);
}
