/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of quorum locks share: some servers, a client for each, and a lock of them all.
 *
 * The servers are durable by the word of the URL, and have been for long by a note among their
 * data, unless a test says otherwise, for they have just been started. */
#ifndef PAWL_QUORUM_LIB_NODES_H
#define PAWL_QUORUM_LIB_NODES_H

#include "pawl.h"
#include "support/fail.h"
#include "support/proxy.h"
#include "support/server.h"
#include "support/wait.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h> /* cmocka needs the ones above */

#include <cmocka.h>

#define NODES_MAX 7
#define NAME "quorum-lock"

struct nodes {
    size_t count;
    struct server *servers[NODES_MAX];
    struct proxy *proxies[NODES_MAX]; /* NULL: clients go straight to the server */
};

/* One program's view: clients and a lock of its own. */
struct party {
    size_t count;
    pawl_client *clients[NODES_MAX];
    pawl_lock *lock;
};

/* Servers without persistence; with proxies before them if asked. */
void nodes_start(struct nodes *nodes, size_t count, bool proxied);

/* Whichever hang, of all that were started, go on. */
void nodes_resume(const struct nodes *nodes);

/* Empty again, and running. */
void nodes_reset(struct nodes *nodes);

/* `query` is added to every URL, as "?durable=1&timeout=300"; NULL: "?durable=1". */
void party_open(struct party *party, const struct nodes *nodes, const char *query,
    const pawl_lock_options *options);

/* The clients alone. */
void party_connect(struct party *party, const struct nodes *nodes, const char *query);
void party_close(struct party *party);

/* At how many servers that run the lock's key exists. */
size_t nodes_holding(const struct nodes *nodes);
size_t nodes_with_key(const struct nodes *nodes, const char *key);

/* Until every server has renewed the lock on a question that was sent after this was called: what
 * one of them has granted again counts from then on. */
void nodes_await_renewal(const struct nodes *nodes);

#define assert_ok(expr)                                                    \
    do {                                                                   \
        const pawl_status assert_ok_status_ = (expr);                      \
        if (assert_ok_status_ != PAWL_OK) {                                \
            support_fail("%s:%d: %s: %s: %s", __FILE__, __LINE__, #expr,   \
                pawl_status_string(assert_ok_status_), pawl_last_error()); \
        }                                                                  \
    } while (0)

#define assert_status(expr, expected)                                                \
    do {                                                                             \
        const pawl_status assert_status_is_ = (expr);                                \
        if (assert_status_is_ != (expected)) {                                       \
            support_fail("%s:%d: %s: %s, not %s: %s", __FILE__, __LINE__, #expr,     \
                pawl_status_string(assert_status_is_), pawl_status_string(expected), \
                pawl_last_error());                                                  \
        }                                                                            \
    } while (0)

#endif
