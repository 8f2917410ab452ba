/* SPDX-License-Identifier: Apache-2.0 */
/* A peer: another process with a client and one lock of its own, for engines with FLAG_PROCESSES;
 * if its name is two names with a comma between, that is a multi-lock of both, in this order. It
 * takes one request a line and answers one line; see peer_roles for what it knows. */
#ifndef PAWL_CONFORMANCE_LIB_PEER_H
#define PAWL_CONFORMANCE_LIB_PEER_H

#include "conformance/lib/suite.h"
#include "pawl.h"

#include <stdbool.h>
#include <stdint.h>

struct peer_options {
    int64_t lease_ms;
    bool renew;
    pawl_kind kind;
};

/* Start it and wait until its lock is open. */
struct child *peer_start(
    const struct suite *suite, const char *name, const struct peer_options *options);

/* Send a request: "acquire WAIT_MS", "release", "token", "lost" (how often on_lost was called). */
void peer_tell(struct child *peer, const char *request);

/* Its next answer is this word (a status by its name), and comes soon. */
void peer_expect(struct child *peer, const char *word);

/* The next answer as a number. */
uint64_t peer_number(struct child *peer);

/* Both in one. */
void peer_ask(struct child *peer, const char *request, const char *word);

/* Start a process that adds 1 to the number in the file so often, each time under the lock. It
 * ends with status 0. */
struct child *peer_start_counter(
    const struct suite *suite, const char *name, const char *path, unsigned rounds);

/* Read the number, and add 1 to it without any care. */
uint64_t number_read(const char *path);
void number_add(const char *path);

/* For child_dispatch(). */
extern const struct child_role peer_roles[];
extern const size_t peer_role_count;

#endif
