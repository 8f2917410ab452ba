/* SPDX-License-Identifier: Apache-2.0 */
/* A connection for people who look: one thread asks and waits for the answer, that is all. It never
 * shares anything with the connection that operations go by.
 *
 * Questions are written into `link.out` (resp_write.h), as many as one likes, and the replies are
 * taken one by one. Each has a deadline, so a server that is slow, frozen or hostile is left by
 * then; after any failure the console is of no more use. It accepts servers that no lock would be
 * given to (replicas, nodes of a cluster), since these are looked at too. */
#ifndef PAWL_ENGINE_REDIS_CONSOLE_H
#define PAWL_ENGINE_REDIS_CONSOLE_H

#include "engine/redis/link.h"

struct pawl__console {
    const struct pawl__redis_config *config;
    struct pawl__link link;
};

/* Connect, greet, and choose the database. Sets the last error; closed again then. */
pawl_status pawl__console_open(
    struct pawl__console *console, const struct pawl__redis_config *config);

/* The first two of these, and the third. */
pawl_status pawl__console_reach(
    struct pawl__console *console, const struct pawl__redis_config *config);
pawl_status pawl__console_choose(struct pawl__console *console);

/* The same in steps, without the database: init once, then connect until it says PAWL_OK.
 * PAWL_BUSY: not by this deadline, go on later. After a failure it may be tried again, and waits a
 * little before it does; so it may after drop(), when a connection was lost. */
void pawl__console_init(struct pawl__console *console, const struct pawl__redis_config *config);
pawl_status pawl__console_connect(struct pawl__console *console, int64_t deadline_us);
void pawl__console_drop(struct pawl__console *console);
void pawl__console_close(struct pawl__console *console);

/* When a question that is asked now has to be answered. */
int64_t pawl__console_deadline(const struct pawl__console *console);

/* The next reply, good until the next call, after sending what was written. Sets the last error. */
pawl_status pawl__console_reply(
    struct pawl__console *console, int64_t deadline_us, const struct pawl__resp_node **reply_out);

/* The same for what nobody asked for: PAWL_BUSY, without an error, if there is nothing by then. */
pawl_status pawl__console_push(
    struct pawl__console *console, int64_t deadline_us, const struct pawl__resp_node **reply_out);

/* One question of words that end in NUL, and its reply. */
pawl_status pawl__console_ask(struct pawl__console *console, size_t word_count,
    const char *const words[], const struct pawl__resp_node **reply_out);

/* Set the last error: no room for a question. */
pawl_status pawl__console_no_memory(void);

/* Set the last error to what the server's error reply means; `what` we wanted to do, and with which
 * `rights`, as ACL SETUSER takes them. */
pawl_status pawl__console_fail(const struct pawl__console *console,
    const struct pawl__resp_node *reply, const char *what, const char *rights);

#endif
