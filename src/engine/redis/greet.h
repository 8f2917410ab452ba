/* SPDX-License-Identifier: Apache-2.0 */
/* What is said at the beginning of a connection, before the first operation. Pure: commands go into
 * a buffer, replies come parsed.
 *
 *   HELLO 3 [AUTH user password]        RESP3, who we are; tells the version and the role
 *   SELECT db                           unless it is 0
 *   INFO                                is it fit to keep locks (guard.h), is it the same server
 *   CLIENT KILL ID old [ADDR old]       if the last connection was given up with unanswered writes
 *   SCRIPT LOAD ...                     so that scripts can be called by their SHA-1
 *   EVALSHA rights                      may the user do everything, or must each name be checked?
 *
 * The push connection needs HELLO alone.
 *
 * Why kill: a copy of an operation may still be on its way to the server on the old connection.
 * When the server has closed that, nothing can come of it any more, and answers given from now on
 * are "fenced". Ids are counted anew when a server is started, so an id alone may mean somebody
 * else by now: the server must be the same run, or, if INFO is denied, the client must have our old
 * address too. */
#ifndef PAWL_ENGINE_REDIS_GREET_H
#define PAWL_ENGINE_REDIS_GREET_H

#include "engine/redis/config.h"
#include "engine/redis/guard.h"
#include "engine/redis/resp.h"
#include "engine/redis/resp_write.h"

enum { PAWL__SOCKET_NAME_SIZE = 64 };

/* A connection that was given up with unanswered writes. */
struct pawl__doubt {
    bool open;  /* such a connection may still be heard by the server */
    bool older; /* there was one before it that could not be ended either */
    int64_t client_id;
    char run_id[PAWL__RUN_ID_SIZE + 1];   /* "": unknown */
    char address[PAWL__SOCKET_NAME_SIZE]; /* ours, as the server writes it; "": a unix socket */
};

enum pawl__greet_step {
    PAWL__GREET_HELLO,
    PAWL__GREET_SELECT,
    PAWL__GREET_INFO,
    PAWL__GREET_KILL,
    PAWL__GREET_LOAD,
    PAWL__GREET_RIGHTS,
    PAWL__GREET_DONE
};

enum pawl__greet_result {
    PAWL__GREET_MORE, /* a reply is missing, perhaps after something was put into the buffer */
    PAWL__GREET_READY,
    PAWL__GREET_FAILED, /* status and sentence say why */
};

/* What a warning is about: one bit each. */
enum pawl__greet_cause {
    PAWL__GREET_EVICTS = 1,
    PAWL__GREET_INFO_DENIED = 2,
    PAWL__GREET_KILL_DENIED = 4
};

struct pawl__greet {
    const struct pawl__redis_config *config;
    const struct pawl__doubt *doubt; /* NULL: HELLO alone */
    enum pawl__greet_step step;
    size_t loads_left;

    /* What came of it. */
    int64_t client_id;
    unsigned version_major;
    bool fenced;     /* no copy of an older operation can take effect any more */
    bool restricted; /* each name's rights have to be checked */
    char run_id[PAWL__RUN_ID_SIZE + 1];
    int64_t time_us; /* the server's wall clock; 0: unknown */
    int64_t uptime_us;
    bool replica;
    pawl_status status;
    char *sentence;               /* from pawl__format() */
    char *warning;                /* likewise, or NULL; the caller takes it, */
    enum pawl__greet_cause cause; /* unless it was told of this */
};

/* Begin. Frees what an earlier greeting left in the struct, so it must have been zeroed once. */
enum pawl__greet_result pawl__greet_begin(struct pawl__greet *greet,
    const struct pawl__redis_config *config, const struct pawl__doubt *doubt,
    struct pawl__buffer *out);

/* The next reply. */
enum pawl__greet_result pawl__greet_reply(struct pawl__greet *greet,
    const struct pawl__resp_reader *reader, const struct pawl__resp_node *reply,
    struct pawl__buffer *out);

void pawl__greet_free(struct pawl__greet *greet);

#endif
