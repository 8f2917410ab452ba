/* SPDX-License-Identifier: Apache-2.0 */
/* pawl-training: what the library does for its users, in a few seconds, so that a build with
 * PAWL_PROFILE=record knows how often each branch is taken (see cmake/profile.cmake).
 *
 *     pawl-training TCP_URL UNIX_URL FILE_URL
 *
 * The parts are weighted: one thread that acquires and releases a free lock counts most, as it is
 * what nearly everybody does nearly always, and what the compiler's layout matters most for. The
 * rest is there so that it is known not to be dead. It uses the public interface alone. */
#include "training.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* ===== Statuses ===== */

void must_be(pawl_status expected, pawl_status status, const char *what)
{
    if (status != expected) {
        fprintf(stderr, "training: %s: %s instead of %s: %s\n", what, pawl_status_string(status),
            pawl_status_string(expected), pawl_last_error());
        exit(EXIT_FAILURE);
    }
}

void must(pawl_status status, const char *what)
{
    must_be(PAWL_OK, status, what);
}

/* ===== Handles ===== */

pawl_client *open_client(const char *url)
{
    pawl_client *client = NULL;
    must(pawl_client_open(url, NULL, &client), url);
    return client;
}

pawl_lock *open_lock(pawl_client *client, const char *name, const pawl_lock_options *options)
{
    pawl_lock *lock = NULL;
    must(pawl_lock_open(client, name, options, &lock), name);
    return lock;
}

pawl_lock *open_numbered(
    pawl_client *client, const char *what, int number, const pawl_lock_options *options)
{
    char name[64];
    snprintf(name, sizeof name, "training-%s-%d", what, number);
    return open_lock(client, name, options);
}

void close_client(pawl_client *client)
{
    must(pawl_client_close(client), "closing a client");
}

void close_lock(pawl_lock *lock)
{
    must(pawl_lock_close(lock), "closing a lock");
}

void use_lock(pawl_lock *lock, int times)
{
    for (int i = 0; i < times; i++) {
        must(pawl_lock_acquire(lock, WAIT_MS), "acquiring");
        must(pawl_lock_release(lock), "releasing");
    }
}

/* ===== Threads and time ===== */

struct worker {
    pthread_t thread;
    void (*function)(void *arg, int number);
    void *arg;
    int number;
};

static void *run_worker(void *arg)
{
    const struct worker *worker = arg;
    worker->function(worker->arg, worker->number);
    return NULL;
}

void run_threads(int count, void (*function)(void *arg, int number), void *arg)
{
    struct worker workers[THREADS_MAX];
    for (int i = 0; i < count; i++) {
        workers[i] = (struct worker){.function = function, .arg = arg, .number = i};
        if (pthread_create(&workers[i].thread, NULL, run_worker, &workers[i]) != 0) {
            fprintf(stderr, "training: cannot start thread %d of %d\n", i + 1, count);
            exit(EXIT_FAILURE);
        }
    }
    for (int i = 0; i < count; i++) {
        pthread_join(workers[i].thread, NULL);
    }
}

void pause_ms(long ms)
{
    struct timespec rest = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    while (nanosleep(&rest, &rest) != 0 && errno == EINTR) {
    }
}

/* ===== The list ===== */

enum backend { TCP = 1, UNIX = 2, FILES = 4 };

struct part {
    const char *title;
    void (*train)(const char *url);
    unsigned backends; /* of enum backend */
};

static const struct part parts[] = {
    {"one thread", train_one_thread, TCP | UNIX | FILES},
    {"several threads, each its lock", train_threads, TCP | UNIX | FILES},
    {"a hot lock", train_hot_lock, TCP | FILES},
    {"a lock that others keep", train_busy, TCP | FILES},
    {"re-entry", train_reentry, TCP | FILES},
    {"renewal", train_renewal, TCP},
    {"asynchronous calls", train_async, TCP | FILES},
    {"other kinds", train_kinds, TCP},
    {"semaphores and latches", train_counts, TCP},
    {"several locks, several servers", train_several, TCP},
    {"listing and examining", train_operators, TCP | FILES},
};

int main(int argc, char *argv[])
{
    if (argc != 4) {
        fprintf(stderr, "usage: pawl-training TCP_URL UNIX_URL FILE_URL\n");
        return 64;
    }
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        for (int backend = 0; backend < 3; backend++) {
            if ((parts[i].backends & 1U << backend) != 0) {
                printf("%s: %s\n", parts[i].title, argv[backend + 1]);
                fflush(stdout);
                parts[i].train(argv[backend + 1]);
            }
        }
    }
    return EXIT_SUCCESS;
}
