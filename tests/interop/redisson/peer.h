/* SPDX-License-Identifier: Apache-2.0 */
/* A Java process with Redisson, as a test talks to it (java/peer has the other half).
 *
 * A request names a Java thread: requests of one thread are done in order, different threads run
 * beside each other. peer_ask() only sends and gives a number; peer_answer() waits for what became
 * of it, in any order. Used by the main thread only. */
#ifndef PAWL_INTEROP_REDISSON_PEER_H
#define PAWL_INTEROP_REDISSON_PEER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct peer;

/* Start it on a server and wait until it is connected. Locks taken without a lease get one of
 * watchdog_ms, which Redisson renews. Ends with the clean-up. */
struct peer *peer_start(const char *url, int64_t watchdog_ms);

/* The version that Redisson says it has. */
const char *peer_version(const struct peer *peer);

/* kill -9, and reap. */
void peer_kill(struct peer *peer);

/* From here on thread names mean new threads: what a failed test left waiting is not in the way. */
void peer_new_threads(struct peer *peer);

/* Send "KIND NAME VERB ARGUMENTS..."; the number of the request. */
unsigned peer_ask(struct peer *peer, const char *thread, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The answer, valid until the next call that waits for one. Fails the test if there is none within
 * the time. */
const char *peer_answer(struct peer *peer, unsigned request, int64_t timeout_ms);

/* Is it unanswered still? Looks at what has come, without waiting. */
bool peer_is_waiting(struct peer *peer, unsigned request);

/* Ask and wait 10 s for the answer. */
const char *peer_call(struct peer *peer, const char *thread, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The answer must be this, or begin with it if it ends in `...`. */
void peer_assert_at(const char *got, const char *wanted, const char *file, int line);

#define PEER_SAYS(wanted, peer, thread, ...) \
    peer_assert_at(peer_call(peer, thread, __VA_ARGS__), wanted, __FILE__, __LINE__)
#define PEER_ANSWERS(wanted, peer, request, timeout_ms) \
    peer_assert_at(peer_answer(peer, request, timeout_ms), wanted, __FILE__, __LINE__)

#endif
