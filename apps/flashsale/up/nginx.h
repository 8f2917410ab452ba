/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The edge: nginx with the configuration of edge/, and an ear for its one complaint that falsifies
 * a load test: that it has not connections enough.
 */
#ifndef FLASHSALE_UP_NGINX_H
#define FLASHSALE_UP_NGINX_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "up/process.h"
#include "up/workdir.h"

struct nginx {
    struct process process;
    int port;
    char dir[WORKDIR_PATH_SIZE];
    off_t log_position; /* how much of its error log has been read */
    int64_t shortages;  /* how often it had not connections enough */
    int64_t told_shortages;
    int64_t tells_again_ms;
};

struct nginx_plan {
    const char *dir; /* the house's */
    int port;
    const char *servers; /* "server 127.0.0.1:3786 weight=1; ..." */
    int redis_port;      /* of the stock */
    int64_t connections;
};

/* Whether nginx and what it needs is installed; if not, the package is named. */
bool nginx_is_there(void);

/* Starts it and waits until it answers for the shop. */
bool nginx_open(struct nginx *nginx, const struct nginx_plan *plan);

/* Reads what is new in its error log, and tells of what matters. */
void nginx_listen(struct nginx *nginx);

#endif
