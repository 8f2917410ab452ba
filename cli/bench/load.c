/* SPDX-License-Identifier: Apache-2.0 */
/* See load.h. The calling thread keeps the time; the others look at one flag between two
 * pairs. A thread that fails raises the flag for all. */
#include "bench/load.h"

#include "common/backend.h"
#include "text/text.h"

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    LEASE_MS = 10000, /* what a bench that was killed leaves behind is gone after this */
    TICK_MS = 100,
    NAME_SIZE = BENCH_PREFIX_SIZE + 16
};

struct shared {
    const struct bench_load *load;
    atomic_bool over;
};

struct worker {
    struct shared *shared;
    unsigned number;
    pthread_t thread;
    struct cli_histogram pairs;
    pawl_status status;
    char error[BENCH_ERROR_SIZE];
};

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static pawl_status open_lock(const struct worker *worker, pawl_lock **lock_out)
{
    const struct bench_load *load = worker->shared->load;
    char name[NAME_SIZE];
    if (load->hot) {
        snprintf(name, sizeof name, "%s:hot", load->prefix);
    } else {
        snprintf(name, sizeof name, "%s:%u", load->prefix, worker->number);
    }
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    options.lease_ms = LEASE_MS;
    return pawl_lock_open(load->client, name, &options, lock_out);
}

/* Acquire and release until the end or a failure. */
static pawl_status take_and_release(struct worker *worker, pawl_lock *lock)
{
    pawl_status status = PAWL_OK;
    while (status == PAWL_OK && !atomic_load(&worker->shared->over)) {
        const int64_t begun_ns = now_ns();
        status = pawl_lock_acquire(lock, LEASE_MS * 2);
        if (status == PAWL_OK) {
            status = pawl_lock_release(lock);
        }
        if (status == PAWL_OK) {
            cli_histogram_add(&worker->pairs, now_ns() - begun_ns);
        }
    }
    return status;
}

static void *work(void *arg)
{
    struct worker *worker = arg;
    pawl_lock *lock = NULL;
    worker->status = open_lock(worker, &lock);
    if (worker->status == PAWL_OK) {
        worker->status = take_and_release(worker, lock);
    }
    if (worker->status != PAWL_OK) {
        snprintf(worker->error, sizeof worker->error, "%s", pawl_last_error());
        atomic_store(&worker->shared->over, true);
    }
    pawl_lock_close(lock);
    return NULL;
}

static void keep_time(
    const struct bench_load *load, struct shared *shared, void (*each_time)(int64_t left_ms))
{
    const int64_t end_ms = cli_now_ms() + load->duration_ms;
    int64_t left_ms = load->duration_ms;
    while (left_ms > 0 && !atomic_load(&shared->over) && !atomic_load(load->stop)) {
        each_time(left_ms);
        poll(NULL, 0, (int)(left_ms < TICK_MS ? left_ms : TICK_MS));
        left_ms = end_ms - cli_now_ms();
    }
    atomic_store(&shared->over, true);
}

static void add_up(const struct worker *worker, struct bench_result *result)
{
    const uint64_t own = worker->pairs.total;
    result->least = worker->number == 0 || own < result->least ? own : result->least;
    result->most = own > result->most ? own : result->most;
    cli_histogram_merge(&result->pairs, &worker->pairs);
    if (result->status == PAWL_OK && worker->status != PAWL_OK) {
        result->status = worker->status;
        memcpy(result->error, worker->error, sizeof result->error);
    }
}

void bench_load_run(const struct bench_load *load, struct bench_result *result_out,
    void (*each_time)(int64_t left_ms))
{
    struct shared shared = {.load = load};
    struct worker *workers = cli_memory_resize(NULL, load->thread_count, sizeof *workers);
    memset(workers, 0, load->thread_count * sizeof *workers);
    memset(result_out, 0, sizeof *result_out);
    const int64_t begun_ns = now_ns();
    unsigned started = 0;
    while (started < load->thread_count) {
        struct worker *worker = &workers[started];
        worker->shared = &shared;
        worker->number = started;
        if (pthread_create(&worker->thread, NULL, work, worker) != 0) {
            result_out->status = PAWL_NO_MEMORY;
            snprintf(result_out->error, sizeof result_out->error,
                "only %u threads can be started here; ask for less with --threads", started);
            atomic_store(&shared.over, true);
            break;
        }
        started++;
    }
    keep_time(load, &shared, each_time);
    for (unsigned i = 0; i < started; i++) {
        pthread_join(workers[i].thread, NULL);
        add_up(&workers[i], result_out);
    }
    result_out->seconds = (double)(now_ns() - begun_ns) / 1e9;
    result_out->rate = (double)result_out->pairs.total / result_out->seconds;
    free(workers);
}
