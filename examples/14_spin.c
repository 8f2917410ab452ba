/* SPDX-License-Identifier: Apache-2.0 */
/* 14 spin: a mutex whose release tells nobody, and that its own thread may not take twice.
 *
 * Introduces PAWL_SPIN, for servers where a message for each release costs too much or is not
 * allowed: who waits asks again, after pauses that grow from 1 ms to 128 ms. And options.reentry:
 * with PAWL_REENTRY_REFUSE, which goes with every kind, a second acquire of the thread that holds
 * the lock says PAWL_DEADLOCK instead of counting.
 *
 *     cc 14_spin.c -o 14_spin $(pkg-config --cflags --libs pawl)
 *     ./14_spin
 *     PAWL_URL=redis://127.0.0.1 ./14_spin
 */
#include <inttypes.h>
#include <pawl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static pawl_lock *lock;

static void *wait_for_it(void *arg)
{
    pawl_status *status = arg;
    *status = pawl_lock_acquire(lock, 5000);
    if (*status == PAWL_OK) {
        printf("another thread has it now, with token %" PRIu64 "\n", pawl_lock_token(lock));
        *status = pawl_lock_release(lock);
    }
    return NULL;
}

/* The lock is held: have a thread wait for it, and release it. */
static pawl_status let_another_have_it(void)
{
    pawl_status waited = PAWL_OK;
    pthread_t thread;
    const bool started = pthread_create(&thread, NULL, wait_for_it, &waited) == 0;
    const pawl_status released = pawl_lock_release(lock);
    if (started) {
        pthread_join(thread, NULL);
    }
    return released != PAWL_OK ? released : waited;
}

int main(void)
{
    const char *named = getenv("PAWL_URL");
    pawl_client *client = NULL;
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    options.kind = PAWL_SPIN;
    options.reentry = PAWL_REENTRY_REFUSE;
    pawl_status status = pawl_client_open(named != NULL ? named : "memory:example", NULL, &client);
    if (status == PAWL_OK) {
        status = pawl_lock_open(client, "example-spin", &options, &lock);
    }
    if (status == PAWL_OK) {
        status = pawl_lock_acquire(lock, 5000);
    }
    if (status == PAWL_OK) {
        printf("held, with token %" PRIu64 "\n", pawl_lock_token(lock));
        const pawl_status again = pawl_lock_acquire(lock, 5000); /* answers at once */
        printf("a second time: %s\n", pawl_status_string(again));
        status = let_another_have_it();
    }
    if (status != PAWL_OK) {
        fprintf(stderr, "%s\n", pawl_last_error());
    }
    pawl_lock_close(lock);
    pawl_client_close(client);
    return status == PAWL_OK ? 0 : 1;
}
