/* SPDX-License-Identifier: Apache-2.0 */
/* Operations as commands, and replies as answers. Pure: bytes go into a buffer, replies come
 * parsed.
 *
 * Nearly all operations are scripts (scripts/, each with its own explanation), called by their
 * SHA-1; verify is a plain HEXISTS. `whole` sends the script's text instead, for a server that does
 * not know it (any more). Families that differ from a mutex have writers of their own
 * (commands_families.h). */
#ifndef PAWL_ENGINE_REDIS_COMMANDS_H
#define PAWL_ENGINE_REDIS_COMMANDS_H

#include "core/engine.h"
#include "engine/redis/place.h"
#include "engine/redis/resp.h"
#include "engine/redis/resp_write.h"

enum { PAWL__BATCH_MAX = 100 }; /* locks renewed or released by one script */

/* No token is below this: microseconds of a clock that says 2001 or later. */
#define PAWL__TOKEN_FLOOR INT64_C(1000000000000000)

/* How the call of a script begins. */
struct pawl__script_head {
    uint32_t key_count;
    uint32_t argument_count;
    struct pawl__resp_prefix by_sha;
};

/* The scripts that only some families have, renewals aside. */
enum pawl__family_script {
    PAWL__SCRIPT_BREAK_SPIN,
    PAWL__SCRIPT_ACQUIRE_PLAIN,
    PAWL__SCRIPT_CHECK_PLAIN,
    PAWL__SCRIPT_RELEASE_PLAIN,
    PAWL__SCRIPT_INSPECT_PLAIN,
    PAWL__SCRIPT_BREAK_PLAIN,
    PAWL__SCRIPT_ACQUIRE_READ,
    PAWL__SCRIPT_ACQUIRE_WRITE,
    PAWL__SCRIPT_CHECK_SHARED,
    PAWL__SCRIPT_RELEASE_SHARED,
    PAWL__SCRIPT_BREAK_SHARED,
    PAWL__FAMILY_SCRIPT_COUNT,
};

struct pawl__commands {
    int64_t token_ttl_s;
    int64_t lease_us; /* whose text is ready below; 0: none */
    size_t lease_size;
    char lease[96];                      /* a lease, the token TTL and the floor as bulk strings */
    char owner[5 + PAWL__UUID_SIZE + 1]; /* "$00\r\n<client uuid>:", to be completed */
    int64_t token_floor; /* the server's time when we connected: a counter below it was set back */
    struct pawl__script_head acquire;
    struct pawl__script_head acquire_clocked;
    struct pawl__script_head count;
    struct pawl__script_head release;
    struct pawl__script_head pass;
    struct pawl__script_head inspect;
    struct pawl__script_head break_up;
    struct pawl__script_head raise;
    struct pawl__script_head families[PAWL__FAMILY_SCRIPT_COUNT];
    struct pawl__script_head acquire_fair;
    struct pawl__script_head release_fair;
    struct pawl__script_head break_fair;
};

void pawl__commands_init(struct pawl__commands *commands, const char *uuid, int64_t token_ttl_s);
void pawl__commands_set_floor(struct pawl__commands *commands, int64_t token_floor);

/* Can the next operation go into the same command? Renewals by the same script can, and releases of
 * mutexes; and acquires that are made together are one. */
bool pawl__command_joins(const struct pawl__op *op, const struct pawl__op *next);

/* Write one operation, or several linked by next, which join: up to PAWL__BATCH_MAX, but of
 * acquires PAWL__JOINT_MAX. False: there is no room, and nothing was written. */
__attribute__((warn_unused_result)) bool pawl__command_put(struct pawl__commands *commands,
    struct pawl__buffer *out, const struct pawl__op *ops, bool whole);

/* Does it change anything in the server? */
bool pawl__command_writes(enum pawl__op_kind kind);

enum pawl__reply_result {
    PAWL__REPLY_TAKEN,   /* the operations have their answers */
    PAWL__REPLY_STRANGE, /* no reply that this command can have: the connection is out of step */
};

/* What else there is to know about a reply. */
struct pawl__reply_context {
    const char *secret; /* must not be repeated in sentences; NULL: there is none */
    const char *grant;  /* the start of a line that adds rights; NULL: there is none */
    bool demoted;       /* set if the server takes no writes any more */
};

/* Fill in how the operations ended. */
enum pawl__reply_result pawl__command_answer(const struct pawl__resp_reader *reader,
    const struct pawl__resp_node *reply, struct pawl__op *ops, struct pawl__reply_context *context);

/* The server's clock in us, if this reply to an acquire brings it; 0: it does not. */
int64_t pawl__command_clock(
    const struct pawl__resp_reader *reader, const struct pawl__resp_node *reply);

/* SCRIPT LOAD of the scripts of a mutex, and how many that are. */
bool pawl__command_put_loads(struct pawl__buffer *out, size_t *count_out);

/* What may the user not do with the keys and the channel of this place? */
bool pawl__command_put_rights(
    struct pawl__buffer *out, const struct pawl__redis_place *place, bool whole);

/* The same of one name as every key and channel of every family. */
bool pawl__command_put_probe(struct pawl__buffer *out, struct pawl__redis_text name, bool whole);

#endif
