/* SPDX-License-Identifier: Apache-2.0 */
/* 07 semaphore: no more than so many at a time, on all hosts together.
 *
 * Introduces permits that have leases: each worker takes one, works, and gives it back. If a worker
 * is killed in between, its permit comes back by itself. Files keep no semaphores, so without
 * PAWL_URL this program keeps it in its own memory, and its threads stand for processes.
 *
 *     cc 07_semaphore.c -o 07_semaphore $(pkg-config --cflags --libs pawl) -pthread
 *     ./07_semaphore
 *     PAWL_URL=redis://127.0.0.1 ./07_semaphore
 */
#include <pawl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { WORKERS = 8, PERMITS = 3 };

static pawl_semaphore *semaphore;
static atomic_int inside;
static atomic_int most;

/* What must not be done by too many at once. */
static void convert_video(void)
{
    const int now = atomic_fetch_add(&inside, 1) + 1;
    int seen = atomic_load(&most);
    while (now > seen && !atomic_compare_exchange_weak(&most, &seen, now)) {
    }
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    atomic_fetch_sub(&inside, 1);
}

static void *work(void *arg)
{
    pawl_permit permit;
    pawl_status status = pawl_permit_acquire(semaphore, 1, 10000, &permit);
    if (status == PAWL_OK) {
        convert_video();
        status =
            pawl_permit_release(semaphore, &permit, 1); /* PAWL_LOST: one too many was inside */
    }
    if (status != PAWL_OK) {
        fprintf(stderr, "worker: %s\n", pawl_last_error());
    }
    *(pawl_status *)arg = status;
    return NULL;
}

static pawl_status run_workers(void)
{
    pthread_t threads[WORKERS];
    pawl_status statuses[WORKERS];
    pawl_status worst = PAWL_OK;
    for (int i = 0; i < WORKERS; i++) {
        if (pthread_create(&threads[i], NULL, work, &statuses[i]) != 0) {
            exit(1);
        }
    }
    for (int i = 0; i < WORKERS; i++) {
        pthread_join(threads[i], NULL);
        worst = statuses[i] != PAWL_OK ? statuses[i] : worst;
    }
    return worst;
}

int main(void)
{
    pawl_client *client = NULL;
    pawl_semaphore_options options = PAWL_SEMAPHORE_OPTIONS_INIT;
    options.leased = true;
    options.lease_ms = 10000; /* a dead worker's permit is missing for so long */
    const char *url = getenv("PAWL_URL") != NULL ? NULL : "memory:example";
    pawl_status status = pawl_client_open(url, NULL, &client);
    if (status == PAWL_OK) {
        status = pawl_semaphore_open(client, "video-converters", &options, &semaphore);
    }
    if (status == PAWL_OK) {
        status = pawl_semaphore_set(semaphore, PERMITS, NULL); /* the first of all says how many */
    }
    if (status == PAWL_OK) {
        status = run_workers();
        printf("%d workers, never more than %d at a time\n", WORKERS, atomic_load(&most));
    } else {
        fprintf(stderr, "%s\n", pawl_last_error());
    }
    pawl_semaphore_close(semaphore);
    pawl_client_close(client);
    return status == PAWL_OK && atomic_load(&most) <= PERMITS ? 0 : 1;
}
