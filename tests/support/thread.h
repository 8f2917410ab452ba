/* SPDX-License-Identifier: Apache-2.0 */
/* The few things that every server thread of the test support needs. */
#ifndef PAWL_SUPPORT_THREAD_H
#define PAWL_SUPPORT_THREAD_H

#include <pthread.h>
#include <stdint.h>
#include <time.h>

/* Start a thread with all signals blocked: signals are for the test's own threads. Fails the test
 * if it cannot be started. */
void thread_start(pthread_t *thread_out, void *(*body)(void *arg), void *arg);

/* A condition variable on CLOCK_MONOTONIC, and the moment to give to pthread_cond_timedwait(). */
void thread_make_condition(pthread_cond_t *condition);
struct timespec thread_deadline(int64_t timeout_ms);

/* A descriptor that makes a polling thread look up. */
int thread_make_wake(void);
void thread_wake(int wake_fd);
void thread_clear_wake(int wake_fd);

#endif
