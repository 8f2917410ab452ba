/* SPDX-License-Identifier: Apache-2.0 */
/* Who we are, for people who look at our locks: one key for the client, pawl_client:{<uuid>}, a
 * hash of host, pid, command and start (microseconds of the server's clock).
 *
 * It is written before the first command that takes or keeps a lock on a connection, and again when
 * it would not outlive the lease asked for; nobody waits for the answer. Renewals come by here too,
 * so it stays as long as anything is held and goes by itself when the process has died. A user who
 * may not write the key stays anonymous, and that is all.
 *
 * No locks: the connection's mutex guards it. */
#ifndef PAWL_ENGINE_REDIS_INTRODUCE_H
#define PAWL_ENGINE_REDIS_INTRODUCE_H

#include "core/engine.h"
#include "engine/redis/resp.h"
#include "engine/redis/resp_write.h"

#define PAWL__CLIENT_KEY_PREFIX "pawl_client:{"

enum { PAWL__CLIENT_KEY_SIZE = sizeof PAWL__CLIENT_KEY_PREFIX - 1 + PAWL__UUID_SIZE + 1 };

struct pawl__introduction {
    int64_t until_us; /* so long the key is surely there, or need not be written */
    int64_t began_us; /* when the client was opened */
    bool whole;       /* the server has forgotten the script: send its text */
    bool made;        /* the key may be there */
    char key[PAWL__CLIENT_KEY_SIZE + 1];
};

void pawl__introduction_init(struct pawl__introduction *introduction, const char *uuid);

/* A new connection, perhaps to a server that has forgotten us. */
static inline void pawl__introduction_renew(struct pawl__introduction *introduction)
{
    introduction->until_us = 0;
}

/* Does this operation need a key that lives longer? The first comparison is all that happens in the
 * steady state. */
static inline bool pawl__introduction_is_due(
    const struct pawl__introduction *introduction, const struct pawl__op *op)
{
    return op->sent_us + op->lease_us > introduction->until_us &&
           (op->kind == PAWL__OP_ACQUIRE || op->kind == PAWL__OP_RENEW ||
               op->kind == PAWL__OP_PASS);
}

/* Write the command. False: no room, and nothing was written. */
__attribute__((warn_unused_result)) bool pawl__introduction_put(
    struct pawl__introduction *introduction, struct pawl__buffer *out, const struct pawl__op *op);

/* What became of it. */
void pawl__introduction_answered(struct pawl__introduction *introduction,
    const struct pawl__resp_reader *reader, const struct pawl__resp_node *reply);

/* Take it back: nothing is held any more. */
__attribute__((warn_unused_result)) bool pawl__introduction_put_end(
    struct pawl__introduction *introduction, struct pawl__buffer *out);

/* The key of another client. */
void pawl__client_key(const char *uuid, char key[PAWL__CLIENT_KEY_SIZE + 1]);

#endif
