/* SPDX-License-Identifier: Apache-2.0 */
/* Threads: who the calling thread is, what happens when it ends, and starting our own. */
#ifndef PAWL_BASE_THREAD_H
#define PAWL_BASE_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* A number that has not been given to any owner before in this process: threads and handles draw
 * from the same counter. */
uint64_t pawl__owner_new(void);

/* The calling thread's owner number, drawn at its first call. Never a system thread id: those are
 * used again. */
uint64_t pawl__owner_of_thread(void);

/* Called with the owner number of each thread that ends and had drawn one. Set once. */
void pawl__thread_set_exit_hook(void (*hook)(uint64_t owner));

/* Whether the calling thread is inside a callback of the user; then it must not wait for us. */
extern _Thread_local bool pawl__in_callback;

/* Between these the calling thread cannot be canceled: it may hold a mutex, or read for others.
 * They nest. */
void pawl__cancel_off(void);
void pawl__cancel_on(void);

/* Start a thread of ours with all signals blocked. */
bool pawl__thread_start(pthread_t *thread_out, const char *name, void *(*run)(void *), void *arg);

#endif
