/* SPDX-License-Identifier: Apache-2.0 */
/* 13 hand-off: a lock that all threads of one process want all the time.
 *
 * Introduces options.handoff. Eight threads add to one number under one lock; the lock changes
 * hands inside the process, and each has a token of its own all the same.
 *
 *     cc 13_handoff.c -o 13_handoff $(pkg-config --cflags --libs pawl)
 *     ./13_handoff
 *     PAWL_URL=redis://127.0.0.1 ./13_handoff
 */
#include <inttypes.h>
#include <pawl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 8, ROUNDS = 200 };

static pawl_lock *lock;
static uint64_t number;       /* protected by the lock and nothing else */
static uint64_t last_token;   /* likewise */
static unsigned out_of_order; /* likewise */

static void *add(void *arg)
{
    for (int i = 0; i < ROUNDS; i++) {
        if (pawl_lock_acquire(lock, 10000) != PAWL_OK) {
            return NULL; /* the sum will tell */
        }
        const uint64_t token = pawl_lock_token(lock);
        out_of_order += token > last_token ? 0 : 1;
        last_token = token;
        number++;
        pawl_lock_release(lock);
    }
    return arg;
}

static bool run_threads(void)
{
    pthread_t threads[THREADS];
    int started = 0;
    while (started < THREADS && pthread_create(&threads[started], NULL, add, NULL) == 0) {
        started++;
    }
    for (int i = 0; i < started; i++) {
        pthread_join(threads[i], NULL);
    }
    printf("%d threads added up to %" PRIu64 " of %d; %u tokens were out of order\n", started,
        number, THREADS * ROUNDS, out_of_order);
    return number == THREADS * ROUNDS && out_of_order == 0;
}

int main(void)
{
    const char *named = getenv("PAWL_URL");
    pawl_client *client = NULL;
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    options.handoff = 16;
    pawl_status status = pawl_client_open(named != NULL ? named : "memory:example", NULL, &client);
    if (status == PAWL_OK) {
        status = pawl_lock_open(client, "example-handoff", &options, &lock);
    }
    if (status != PAWL_OK) {
        fprintf(stderr, "%s\n", pawl_last_error());
    }
    const bool right = status == PAWL_OK && run_threads();
    pawl_lock_close(lock);
    pawl_client_close(client);
    return right ? 0 : 1;
}
