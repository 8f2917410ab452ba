/* SPDX-License-Identifier: Apache-2.0 */
/* An actor: another thread of the case, which does what it is told, one thing at a time, and is the
 * owner of what it acquires. Telling returns at once; the answer is fetched later. */
#ifndef PAWL_CONFORMANCE_LIB_ACTOR_H
#define PAWL_CONFORMANCE_LIB_ACTOR_H

#include "pawl.h"

#include <stdbool.h>
#include <stdint.h>

struct actor;

/* Start the thread. It ends with actor_end(), else with the case: then a wait that it is in is
 * canceled. */
struct actor *actor_new(void);
void actor_end(struct actor *actor);

void actor_acquire(struct actor *actor, pawl_lock *lock, int64_t wait_ms);
void actor_release(struct actor *actor, pawl_lock *lock);
void actor_call(struct actor *actor, pawl_status (*call)(void *arg), void *arg);

/* What the last call answered; waits for it, and fails the case if it takes too long. */
pawl_status actor_answer(struct actor *actor);
bool actor_is_done(struct actor *actor);
int64_t actor_began_us(struct actor *actor); /* of the last call that ended */
int64_t actor_ended_us(struct actor *actor);

/* Wait until the call has come to rest: its thread sleeps, and goes on sleeping for a while. Then
 * it surely is in the queue of the lock it wants. */
void actor_await_sleep(struct actor *actor);

/* Tell and fetch in one. */
pawl_status actor_acquire_now(struct actor *actor, pawl_lock *lock, int64_t wait_ms);
pawl_status actor_release_now(struct actor *actor, pawl_lock *lock);

/* The thread's own view of a lock. */
uint64_t actor_token(struct actor *actor, pawl_lock *lock);
int64_t actor_remaining_ms(struct actor *actor, pawl_lock *lock);

#endif
