/* SPDX-License-Identifier: Apache-2.0 */
/* Where the server is and how to greet it: what a redis:// or redis+unix:// URL says, and the part
 * of the client's settings that connections need. Set once, so that any thread may look. */
#ifndef PAWL_ENGINE_REDIS_CONFIG_H
#define PAWL_ENGINE_REDIS_CONFIG_H

#include "base/url.h"
#include "core/engine.h"

struct pawl__redis_config {
    char *host; /* NULL: the unix socket `path` */
    char port[6];
    char *path;
    char *peer;          /* "host:port" or the path, made fit to print, for sentences */
    char *user;          /* NULL: "default" */
    char *password;      /* NULL: none is given to the server */
    char shown_user[64]; /* the user made fit to print, for sentences */
    char *redis_cli;     /* "redis-cli -p 7000", for lines that somebody may paste into a shell */
    char *grant;         /* the same with "ACL SETUSER user" behind it */
    int64_t db;
    int64_t token_ttl_s; /* of a new token counter; 0: it stays for ever */
    bool durable;        /* the user says that the server forgets nothing when it restarts */
    struct pawl__settings settings;
};

/* Takes what belongs to this engine from the URL. PAWL_INVALID and PAWL_NO_MEMORY set the last
 * error. */
pawl_status pawl__redis_config_read(struct pawl__redis_config *config, struct pawl__url *url,
    const struct pawl__settings *settings);
void pawl__redis_config_free(struct pawl__redis_config *config);

#endif
