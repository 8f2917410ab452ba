/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The house: everything that one `flashsale up` has started, and what it was asked to start.
 *
 * The stock has a server of its own that survives restarts. Locks live in its database 1, unless
 * there is a lock server with a replica (--replica); that pair stands behind a forwarder, so that
 * the replica can take its master's place without the clients' knowing. The masters of the quorum
 * know nothing of each other.
 */
#ifndef FLASHSALE_UP_HOUSE_H
#define FLASHSALE_UP_HOUSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "up/forward.h"
#include "up/nginx.h"
#include "up/process.h"
#include "up/server.h"
#include "up/workdir.h"

#define INSTANCES_MAX 32
#define LOCK_SERVERS_MAX 15 /* of the quorum */

/* Of a master of the quorum, by its port: see open_master(). */
#define QUORUM_URL "redis://127.0.0.1:%d/0?durable=1"

struct house_settings {
    int64_t instances;
    int64_t base_port; /* of the first instance; 0: any free ports */
    bool edge;
    int64_t edge_port;   /* 0: any free port */
    const char *weights; /* "1:2"; the last one is that of all further instances */
    int64_t worker_connections;
    const char *strategy;
    int64_t stock;    /* of items 10001 and inventory001; -1: none is set */
    int64_t segments; /* of item 10001; 0: it is not split */
    int64_t quorum;
    bool replica;
    bool allow_faults;
    bool keep_dir;
    bool json;
    const char *lease, *wait; /* for serve, as they are; or NULL */
    char **more;              /* further words for serve */
    size_t more_count;
};

struct shop_process {
    struct process process;
    int port;
};

struct house {
    struct house_settings settings;
    char dir[WORKDIR_SIZE];
    int control_fd;
    char control_path[WORKDIR_PATH_SIZE];

    struct server stock;
    struct server pair[2]; /* the lock server and its replica */
    int master;            /* which of the two is the master */
    struct forwarder *forwarder;
    struct server quorum[LOCK_SERVERS_MAX];
    int quorum_down; /* which of them is down, or -1 */

    struct shop_process shops[INSTANCES_MAX];
    struct nginx nginx;
};

/* Starts all of it and waits until it works. False: it has been said why, and what was started is
 * still to be ended. */
bool house_open(struct house *house);

/* The exit status then: that of a shop which could not be as it was told to, or of a server that is
 * not there. */
int house_failure(const struct house *house);

/* Says where everything is. */
void house_announce(const struct house *house);

/* Tells of what died and starts it again; looks at nginx's complaints. False: it is hopeless. */
bool house_mend(struct house *house);

/* Ends exactly what was started, in the order in which nobody misses anything, and removes the
 * directory. */
void house_close(struct house *house);

#endif
