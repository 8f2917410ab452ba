/* SPDX-License-Identifier: Apache-2.0 */
/* 64 threads, each with a lock of its own: the library on its shared connection, with awaited and
 * with unawaited releases, against hiredis with a connection for each thread. What redis-server
 * spends on a pair is compared with what the same commands cost it when one client sends them in
 * long pipelines: that is what the scripts themselves take, with next to nothing for sockets. */
#include "groups.h"
#include "lib/clock.h"
#include "lib/die.h"
#include "lib/ours.h"
#include "lib/threads.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { THREAD_COUNT = 64, SLICE_MS = 400, CACHE_LINE = 64 };

struct many_arg {
    const struct bench *bench;
    unsigned name_number; /* of the first lock */
    bool unawaited;
};

/* One thread's; alone on its cache line. */
struct worker {
    uint64_t count;
    struct pair pair;
    redisContext *context;
    pawl_lock *lock;
} __attribute__((aligned(CACHE_LINE)));

struct many {
    _Atomic bool stop;
    pawl_client *client;
    int fd;
    char *batch; /* pipelined: the commands of all pairs */
    size_t batch_size;
    struct worker workers[THREAD_COUNT];
};

static struct many *many_open(void)
{
    struct many *many = aligned_alloc(CACHE_LINE, sizeof *many);
    memset(many, 0, sizeof *many);
    return many;
}

static void run(
    struct many *many, int64_t slice_ns, struct sample *sample, void (*body)(void *, size_t))
{
    uint64_t count = 0;
    for (size_t i = 0; i < THREAD_COUNT; i++) {
        many->workers[i].count = 0;
    }
    const struct threads_time time = threads_run(THREAD_COUNT, body, many, &many->stop, slice_ns);
    for (size_t i = 0; i < THREAD_COUNT; i++) {
        count += many->workers[i].count;
    }
    sample->count = (double)count;
    sample->seconds = (double)time.until_end_ns / (double)NS_PER_S;
}

/* ===== hiredis, a connection for each thread ===== */

static void *hiredis_open(const void *arg)
{
    const struct many_arg *many_arg = arg;
    struct many *many = many_open();
    for (size_t i = 0; i < THREAD_COUNT; i++) {
        struct worker *worker = &many->workers[i];
        pair_open(&worker->pair, &many_arg->bench->pattern, many_arg->name_number + (unsigned)i);
        worker->context = server_connect(many_arg->bench->server, TRANSPORT_TCP);
    }
    return many;
}

static void hiredis_work(void *arg, size_t index)
{
    struct many *many = arg;
    struct worker *worker = &many->workers[index];
    while (!atomic_load_explicit(&many->stop, memory_order_relaxed)) {
        command_exchange_hiredis(&worker->pair.acquire, worker->context);
        command_exchange_hiredis(&worker->pair.release, worker->context);
        pair_advance(&worker->pair);
        worker->count++;
    }
}

static void hiredis_slice(void *self, int64_t slice_ns, struct sample *sample)
{
    run(self, slice_ns, sample, hiredis_work);
}

static void hiredis_close(void *self)
{
    struct many *many = self;
    for (size_t i = 0; i < THREAD_COUNT; i++) {
        redisFree(many->workers[i].context);
        pair_close(&many->workers[i].pair);
    }
    free(many);
}

static const struct side_kind hiredis_kind = {
    "hiredis", hiredis_open, hiredis_slice, hiredis_close};

/* ===== The library ===== */

static void *ours_side_open(const void *arg)
{
    const struct many_arg *many_arg = arg;
    struct many *many = many_open();
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    options.release_unawaited = many_arg->unawaited;
    many->client = ours_open(server_url(many_arg->bench->server, TRANSPORT_TCP));
    for (size_t i = 0; i < THREAD_COUNT; i++) {
        char name[PAIR_NAME_SIZE + 1];
        pair_name(name, many_arg->name_number + (unsigned)i);
        many->workers[i].lock = ours_lock(many->client, name, &options);
    }
    return many;
}

static void ours_work(void *arg, size_t index)
{
    struct many *many = arg;
    struct worker *worker = &many->workers[index];
    while (!atomic_load_explicit(&many->stop, memory_order_relaxed)) {
        ours_acquire(worker->lock);
        ours_release(worker->lock);
        worker->count++;
    }
}

static void ours_slice(void *self, int64_t slice_ns, struct sample *sample)
{
    run(self, slice_ns, sample, ours_work);
}

static void ours_side_close(void *self)
{
    struct many *many = self;
    for (size_t i = 0; i < THREAD_COUNT; i++) {
        pawl_lock_close(many->workers[i].lock);
    }
    pawl_client_close(many->client);
    free(many);
}

static const struct side_kind ours_kind = {"pawl", ours_side_open, ours_slice, ours_side_close};

/* ===== Pipelined: what the server needs at least ===== */

static void *pipelined_open(const void *arg)
{
    const struct many_arg *many_arg = arg;
    struct many *many = many_open();
    many->fd = server_connect_raw(many_arg->bench->server, TRANSPORT_TCP);
    for (size_t i = 0; i < THREAD_COUNT; i++) {
        struct pair *pair = &many->workers[i].pair;
        pair_open(pair, &many_arg->bench->pattern, many_arg->name_number + (unsigned)i);
        many->batch_size += pair->acquire.size + pair->release.size;
    }
    many->batch = malloc(many->batch_size);
    char *at = many->batch;
    for (size_t i = 0; i < THREAD_COUNT; i++) {
        const struct pair *pair = &many->workers[i].pair;
        memcpy(at, pair->acquire.bytes, pair->acquire.size);
        at += pair->acquire.size;
        memcpy(at, pair->release.bytes, pair->release.size);
        at += pair->release.size;
    }
    return many;
}

static void send_batch(const struct many *many)
{
    for (size_t sent = 0; sent < many->batch_size;) {
        const ssize_t size =
            send(many->fd, many->batch + sent, many->batch_size - sent, MSG_NOSIGNAL);
        if (size <= 0) {
            die("send failed");
        }
        sent += (size_t)size;
    }
}

static void receive_batch(const struct many *many)
{
    char replies[16 << 10];
    for (size_t lines = 0; lines < 2 * THREAD_COUNT;) {
        const ssize_t size = recv(many->fd, replies, sizeof replies, 0);
        if (size <= 0) {
            die("recv failed");
        }
        for (ssize_t i = 0; i < size; i++) {
            lines += replies[i] == '\n';
            if (replies[i] == '-') {
                die("an error came back: %.80s", replies + i);
            }
        }
    }
}

static void pipelined_slice(void *self, int64_t slice_ns, struct sample *sample)
{
    struct many *many = self;
    const int64_t deadline = now_ns() + slice_ns;
    uint64_t count = 0;
    for (; now_ns() < deadline; count += THREAD_COUNT) {
        send_batch(many);
        receive_batch(many);
    }
    sample->count = (double)count;
}

static void pipelined_close(void *self)
{
    struct many *many = self;
    for (size_t i = 0; i < THREAD_COUNT; i++) {
        pair_close(&many->workers[i].pair);
    }
    free(many->batch);
    close(many->fd);
    free(many);
}

static const struct side_kind pipelined_kind = {
    "pipelined", pipelined_open, pipelined_slice, pipelined_close};

/* ===== The group ===== */

/* The sides' places in the rounds. */
enum { OURS, HIREDIS, UNAWAITED, PIPELINED, SIDE_COUNT };

bool group_many(struct bench *bench)
{
    static const struct comparison comparisons[] = {
        {"64 threads, 64 locks: pairs", "/s", sample_rate, OURS, HIREDIS, "hiredis",
            MUST_RATIO_AT_LEAST, 1.7},
        {"64 threads, releases not awaited: pairs", "/s", sample_rate, UNAWAITED, HIREDIS,
            "hiredis", MUST_RATIO_AT_LEAST, 2.6},
        {"64 threads: redis CPU per pair", "us", sample_server_cpu_us, OURS, PIPELINED, "pipelined",
            MUST_RATIO_AT_MOST, 1.3},
        {"64 threads: redis CPU per pair", "us", sample_server_cpu_us, OURS, HIREDIS, "hiredis",
            MUST_NOT, 0},
        {"64 threads: client CPU per pair", "us", sample_cpu_us, OURS, HIREDIS, "hiredis", MUST_NOT,
            0}};
    const struct many_arg args[SIDE_COUNT] = {[OURS] = {bench, 1000, false},
        [HIREDIS] = {bench, 2000, false},
        [UNAWAITED] = {bench, 3000, true},
        [PIPELINED] = {bench, 4000, false}};
    struct side sides[SIDE_COUNT] = {[OURS] = {.kind = &ours_kind},
        [HIREDIS] = {.kind = &hiredis_kind},
        [UNAWAITED] = {.kind = &ours_kind},
        [PIPELINED] = {.kind = &pipelined_kind}};
    static struct rounds rounds;
    for (size_t i = 0; i < SIDE_COUNT; i++) {
        sides[i].arg = &args[i];
    }
    if (!rounds_run(&rounds, bench->server, sides, SIDE_COUNT, bench->rounds,
            bench_slice_ns(bench, SLICE_MS))) {
        return false;
    }
    for (size_t i = 0; i < sizeof comparisons / sizeof comparisons[0]; i++) {
        report_compare(&bench->report, "many", &rounds, &comparisons[i]);
    }
    return true;
}
