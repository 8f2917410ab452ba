/* SPDX-License-Identifier: Apache-2.0 */
/* Threads behind a barrier; threads.h describes it. */
#include "lib/threads.h"

#include "lib/clock.h"
#include "lib/die.h"

#include <pthread.h>

struct thread {
    pthread_t id;
    pthread_barrier_t *barrier;
    void (*body)(void *arg, size_t index);
    void *arg;
    size_t index;
};

static void *begin(void *arg)
{
    struct thread *thread = arg;
    pthread_barrier_wait(thread->barrier);
    thread->body(thread->arg, thread->index);
    return NULL;
}

struct threads_time threads_run(size_t count, void (*body)(void *arg, size_t index), void *arg,
    _Atomic bool *stop, int64_t duration_ns)
{
    struct thread threads[THREADS_MAX];
    pthread_barrier_t barrier;
    atomic_store(stop, false);
    pthread_barrier_init(&barrier, NULL, (unsigned)count + 1);
    for (size_t i = 0; i < count; i++) {
        threads[i] = (struct thread){.barrier = &barrier, .body = body, .arg = arg, .index = i};
        if (pthread_create(&threads[i].id, NULL, begin, &threads[i]) != 0) {
            die("cannot start %zu threads", count);
        }
    }
    pthread_barrier_wait(&barrier);
    const int64_t began = now_ns();
    pause_ns(duration_ns);
    atomic_store(stop, true);
    const int64_t stopped = now_ns();
    for (size_t i = 0; i < count; i++) {
        pthread_join(threads[i].id, NULL);
    }
    pthread_barrier_destroy(&barrier);
    return (struct threads_time){stopped - began, now_ns() - began};
}
