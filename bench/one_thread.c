/* SPDX-License-Identifier: Apache-2.0 */
/* One thread that acquires and releases one free lock as fast as it can: the library, hiredis, and
 * the floor, which is a bare socket with one send and one recv for each command. All send the same
 * commands (lib/pair.h). The floor is also measured in a program that has a second thread, as the
 * library's users have with its keeper: the kernel then counts the users of a descriptor in every
 * system call.
 *
 * The library is also measured while eight other threads of the same client wait for a lock that
 * somebody else holds, and, in another group, by the latency of each acquire. */
#include "groups.h"
#include "lib/clock.h"
#include "lib/die.h"
#include "lib/ours.h"
#include "lib/place.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    PAIRS_BETWEEN_LOOKS = 16, /* at the clock */
    LATENCIES_MAX = 200000,
    WAITERS_MAX = 8,
    WAITED_NAME = 500000, /* of the locks that are held elsewhere */
    SLICE_MS = 70,
};

struct single_arg {
    const struct bench *bench;
    enum transport transport;
    enum placement placement;
    unsigned name_number;
    bool timed;          /* take the time of each acquire */
    size_t waiter_count; /* the library only */
    bool waiters_apart;  /* each waits for a lock of its own */
};

struct single {
    const struct single_arg *arg;
    struct pair pair;
    int fd;                /* floor */
    redisContext *context; /* hiredis */
    pawl_client *client;   /* the library */
    pawl_lock *lock;
    pawl_lock *waited[WAITERS_MAX];
    pthread_t waiters[WAITERS_MAX];
    int64_t *latencies_ns;
    size_t latency_count;
};

/* ===== The loop ===== */

typedef void (*single_step)(struct single *single);

static void run_timed(struct single *single, single_step acquire, single_step release)
{
    const int64_t began = now_ns();
    acquire(single);
    const int64_t latency_ns = now_ns() - began;
    release(single);
    if (single->latency_count < LATENCIES_MAX) {
        single->latencies_ns[single->latency_count++] = latency_ns;
    }
}

static void run(struct single *single, int64_t slice_ns, struct sample *sample, single_step acquire,
    single_step release)
{
    const int64_t deadline = now_ns() + slice_ns;
    uint64_t count = 0;
    single->latency_count = 0;
    while (now_ns() < deadline) {
        for (int i = 0; i < PAIRS_BETWEEN_LOOKS; i++) {
            if (single->arg->timed) {
                run_timed(single, acquire, release);
            } else {
                acquire(single);
                release(single);
            }
        }
        count += PAIRS_BETWEEN_LOOKS;
    }
    sample->count = (double)count;
    sample->values[0] = percentile(single->latencies_ns, single->latency_count, 50) / 1000;
    sample->values[1] = percentile(single->latencies_ns, single->latency_count, 99) / 1000;
}

static struct single *single_open(const struct single_arg *arg)
{
    struct single *single = calloc(1, sizeof *single);
    place_self(arg->placement);
    single->arg = arg;
    single->latencies_ns = calloc(LATENCIES_MAX, sizeof single->latencies_ns[0]);
    return single;
}

static void single_close(struct single *single)
{
    free(single->latencies_ns);
    free(single);
}

/* ===== The floor ===== */

static void *floor_open(const void *arg)
{
    struct single *single = single_open(arg);
    pair_open(&single->pair, &single->arg->bench->pattern, single->arg->name_number);
    single->fd = server_connect_raw(single->arg->bench->server, single->arg->transport);
    return single;
}

static void floor_acquire(struct single *single)
{
    command_exchange_raw(&single->pair.acquire, single->fd);
}

static void floor_release(struct single *single)
{
    command_exchange_raw(&single->pair.release, single->fd);
    pair_advance(&single->pair);
}

static void floor_slice(void *self, int64_t slice_ns, struct sample *sample)
{
    run(self, slice_ns, sample, floor_acquire, floor_release);
}

static void floor_close(void *self)
{
    struct single *single = self;
    pair_close(&single->pair);
    close(single->fd);
    single_close(single);
}

static const struct side_kind floor_kind = {"floor", floor_open, floor_slice, floor_close};

static void *sleep_forever(void *arg)
{
    (void)arg;
    for (;;) {
        pause();
    }
    return NULL;
}

/* The thread ends with the process of this side. */
static void *floor_open_threaded(const void *arg)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, sleep_forever, NULL) != 0) {
        die("cannot start a thread");
    }
    pthread_detach(thread);
    return floor_open(arg);
}

static const struct side_kind threaded_kind = {
    "floor, threads", floor_open_threaded, floor_slice, floor_close};

/* ===== hiredis ===== */

static void *hiredis_open(const void *arg)
{
    struct single *single = single_open(arg);
    pair_open(&single->pair, &single->arg->bench->pattern, single->arg->name_number);
    single->context = server_connect(single->arg->bench->server, single->arg->transport);
    return single;
}

static void hiredis_acquire(struct single *single)
{
    command_exchange_hiredis(&single->pair.acquire, single->context);
}

static void hiredis_release(struct single *single)
{
    command_exchange_hiredis(&single->pair.release, single->context);
    pair_advance(&single->pair);
}

static void hiredis_slice(void *self, int64_t slice_ns, struct sample *sample)
{
    run(self, slice_ns, sample, hiredis_acquire, hiredis_release);
}

static void hiredis_close(void *self)
{
    struct single *single = self;
    pair_close(&single->pair);
    redisFree(single->context);
    single_close(single);
}

static const struct side_kind hiredis_kind = {
    "hiredis", hiredis_open, hiredis_slice, hiredis_close};

static void argv_acquire(struct single *single)
{
    command_exchange_hiredis_argv(&single->pair.acquire, single->context);
}

static void argv_release(struct single *single)
{
    command_exchange_hiredis_argv(&single->pair.release, single->context);
    pair_advance(&single->pair);
}

static void argv_slice(void *self, int64_t slice_ns, struct sample *sample)
{
    run(self, slice_ns, sample, argv_acquire, argv_release);
}

static const struct side_kind argv_kind = {"hiredis argv", hiredis_open, argv_slice, hiredis_close};

/* As long as the library waits for an answer unless it is told otherwise. */
static void *bounded_open(const void *arg)
{
    struct single *single = hiredis_open(arg);
    const struct timeval one_second = {.tv_sec = 1};
    if (redisSetTimeout(single->context, one_second) != REDIS_OK) {
        die("cannot set hiredis' timeout: %s", single->context->errstr);
    }
    return single;
}

static const struct side_kind bounded_kind = {
    "hiredis bounded", bounded_open, hiredis_slice, hiredis_close};

/* ===== The library ===== */

static void *wait_for_lock(void *arg)
{
    pawl_lock *lock = arg;
    const pawl_status status = pawl_lock_acquire(lock, PAWL_FOREVER);
    if (status != PAWL_CANCELED) {
        die("the waiter's acquire: %s: %s", pawl_status_string(status), pawl_last_error());
    }
    return NULL;
}

/* Until the server knows of every subscription; that the rest has queued up is a matter of 20 ms.
 */
static void await_subscriptions(const struct server *server, size_t count)
{
    const int64_t deadline = now_ns() + 5 * NS_PER_S;
    size_t found = 0;
    while (found < count) {
        redisReply *reply = server_command(server, "PUBSUB CHANNELS");
        found = reply->elements;
        freeReplyObject(reply);
        if (now_ns() > deadline) {
            die("%zu channels are subscribed, not %zu", found, count);
        }
        pause_ns(20 * NS_PER_MS);
    }
}

static void start_waiters(struct single *single)
{
    const struct single_arg *arg = single->arg;
    for (size_t i = 0; i < arg->waiter_count; i++) {
        char name[PAIR_NAME_SIZE + 1];
        pair_name(name, WAITED_NAME + (arg->waiters_apart ? (unsigned)i + 1 : 0));
        single->waited[i] = ours_lock(single->client, name, NULL);
        if (pthread_create(&single->waiters[i], NULL, wait_for_lock, single->waited[i]) != 0) {
            die("cannot start the waiters");
        }
    }
    if (arg->waiter_count > 0) {
        await_subscriptions(arg->bench->server, arg->waiters_apart ? arg->waiter_count : 1);
    }
}

static void *ours_side_open(const void *arg)
{
    struct single *single = single_open(arg);
    char name[PAIR_NAME_SIZE + 1];
    pair_name(name, single->arg->name_number);
    single->client = ours_open(server_url(single->arg->bench->server, single->arg->transport));
    single->lock = ours_lock(single->client, name, NULL);
    start_waiters(single);
    return single;
}

static void ours_step_acquire(struct single *single)
{
    ours_acquire(single->lock);
}

static void ours_step_release(struct single *single)
{
    ours_release(single->lock);
}

static void ours_slice(void *self, int64_t slice_ns, struct sample *sample)
{
    run(self, slice_ns, sample, ours_step_acquire, ours_step_release);
}

static void ours_side_close(void *self)
{
    struct single *single = self;
    for (size_t i = 0; i < single->arg->waiter_count; i++) {
        pawl_lock_cancel(single->waited[i]);
        pthread_join(single->waiters[i], NULL);
        pawl_lock_close(single->waited[i]);
    }
    pawl_lock_close(single->lock);
    pawl_client_close(single->client);
    single_close(single);
}

static const struct side_kind ours_kind = {"pawl", ours_side_open, ours_slice, ours_side_close};

/* ===== Groups ===== */

/* One transport and one placement, and what its rows are called. */
struct setting {
    const char *group;
    enum transport transport;
    enum placement placement;
    const char *pairs;
    const char *cpu;
    const char *both;       /* NULL: no row for the CPU time of client and server together */
    const char *bare_pairs; /* NULL: no rows for the floor itself */
    const char *bare_cpu;
};

/* The sides' places in the rounds. */
enum { OURS, FLOOR, THREADED, HIREDIS, ARGV, BOUNDED, SIDE_COUNT };

static bool run_single_rounds(struct bench *bench, struct rounds *rounds, struct side *sides,
    size_t side_count, enum placement placement)
{
    place_server(bench->server, placement);
    const bool good = rounds_run(rounds, bench->server, sides, side_count,
        bench_rounds_of_short(bench), bench_slice_ns(bench, SLICE_MS));
    place_server(bench->server, PLACEMENT_FREE);
    return good;
}

static void add_rows(
    struct bench *bench, const struct setting *setting, const struct rounds *rounds)
{
    const struct comparison comparisons[] = {
        {setting->pairs, "/s", sample_rate, OURS, FLOOR, "floor", MUST_RATIO_AT_LEAST, 0.95},
        {setting->pairs, "/s", sample_rate, OURS, THREADED, "floor, threads", MUST_NOT, 0},
        {setting->pairs, "/s", sample_rate, OURS, HIREDIS, "hiredis", MUST_RATIO_AT_LEAST, 1.08},
        {setting->pairs, "/s", sample_rate, OURS, ARGV, "hiredis argv", MUST_NOT, 0},
        {setting->pairs, "/s", sample_rate, OURS, BOUNDED, "hiredis bounded", MUST_NOT, 0},
        {setting->bare_pairs, "/s", sample_rate, THREADED, HIREDIS, "hiredis", MUST_NOT, 0},
        {setting->cpu, "us", sample_cpu_us, OURS, HIREDIS, "hiredis", MUST_RATIO_AT_MOST, 0.87},
        {setting->cpu, "us", sample_cpu_us, OURS, ARGV, "hiredis argv", MUST_NOT, 0},
        {setting->cpu, "us", sample_cpu_us, OURS, BOUNDED, "hiredis bounded", MUST_NOT, 0},
        {setting->bare_cpu, "us", sample_cpu_us, THREADED, HIREDIS, "hiredis", MUST_NOT, 0},
        {setting->cpu, "us", sample_cpu_us, OURS, FLOOR, "floor", MUST_NOT, 0},
        {setting->both, "us", sample_both_cpu_us, OURS, FLOOR, "floor", MUST_NOT, 0}};
    for (size_t i = 0; i < sizeof comparisons / sizeof comparisons[0]; i++) {
        if (comparisons[i].what != NULL) {
            report_compare(&bench->report, setting->group, rounds, &comparisons[i]);
        }
    }
}

static bool run_setting(struct bench *bench, const struct setting *setting)
{
    static const struct side_kind *const kinds[SIDE_COUNT] = {
        &ours_kind, &floor_kind, &threaded_kind, &hiredis_kind, &argv_kind, &bounded_kind};
    struct single_arg args[SIDE_COUNT];
    struct side sides[SIDE_COUNT];
    static struct rounds rounds;
    for (unsigned i = 0; i < SIDE_COUNT; i++) {
        args[i] = (struct single_arg){.bench = bench,
            .transport = setting->transport,
            .placement = setting->placement,
            .name_number = 1 + i};
        sides[i] = (struct side){.kind = kinds[i], .arg = &args[i]};
    }
    if (!run_single_rounds(bench, &rounds, sides, SIDE_COUNT, setting->placement)) {
        return false;
    }
    add_rows(bench, setting, &rounds);
    return true;
}

bool group_one_tcp(struct bench *bench)
{
    static const struct setting settings[] = {
        {"one-tcp", TRANSPORT_TCP, PLACEMENT_SAME, "1 thread, TCP, same core: pairs",
            "1 thread, TCP, same core: client CPU per pair",
            "1 thread, TCP, same core: client + redis CPU per pair",
            "bare socket beside a thread, TCP, same core: pairs",
            "bare socket beside a thread, TCP, same core: CPU"},
        {"one-tcp", TRANSPORT_TCP, PLACEMENT_APART, "1 thread, TCP, two cores: pairs",
            "1 thread, TCP, two cores: client CPU per pair", NULL, NULL, NULL}};
    return run_setting(bench, &settings[0]) && run_setting(bench, &settings[1]);
}

bool group_one_unix(struct bench *bench)
{
    static const struct setting settings[] = {
        {"one-unix", TRANSPORT_UNIX, PLACEMENT_SAME, "1 thread, unix, same core: pairs",
            "1 thread, unix, same core: client CPU per pair",
            "1 thread, unix, same core: client + redis CPU per pair", NULL, NULL},
        {"one-unix", TRANSPORT_UNIX, PLACEMENT_APART, "1 thread, unix, two cores: pairs",
            "1 thread, unix, two cores: client CPU per pair", NULL, NULL, NULL}};
    return run_setting(bench, &settings[0]) && run_setting(bench, &settings[1]);
}

/* Locks that a stranger holds for the next minutes. */
static void hold_elsewhere(const struct server *server)
{
    for (unsigned i = 0; i <= WAITERS_MAX; i++) {
        char name[PAIR_NAME_SIZE + 1];
        pair_name(name, WAITED_NAME + i);
        freeReplyObject(server_command(server, "HSET %s %s 1", name, "stranger:1"));
        freeReplyObject(server_command(server, "PEXPIRE %s 600000", name));
    }
}

bool group_waiting(struct bench *bench)
{
    static const struct comparison comparisons[] = {
        {"1 thread while 8 wait for another lock: pairs", "/s", sample_rate, 0, 2, "floor",
            MUST_RATIO_AT_LEAST, 0.85},
        {"1 thread while 8 wait for 8 other locks: pairs", "/s", sample_rate, 1, 2, "floor",
            MUST_NOT, 0},
        {"1 thread while 8 wait for another lock: CPU of both", "us", sample_both_cpu_us, 0, 2,
            "floor", MUST_NOT, 0}};
    struct single_arg args[3] = {0};
    struct side sides[] = {{.kind = &ours_kind, .arg = &args[0]},
        {.kind = &ours_kind, .arg = &args[1]}, {.kind = &floor_kind, .arg = &args[2]}};
    static struct rounds rounds;
    for (unsigned i = 0; i < 3; i++) {
        args[i].bench = bench;
        args[i].placement = PLACEMENT_SAME;
        args[i].name_number = 1 + i;
        args[i].waiter_count = i < 2 ? WAITERS_MAX : 0;
        args[i].waiters_apart = i == 1;
    }
    hold_elsewhere(bench->server);
    if (!run_single_rounds(bench, &rounds, sides, 3, PLACEMENT_SAME)) {
        return false;
    }
    for (size_t i = 0; i < sizeof comparisons / sizeof comparisons[0]; i++) {
        report_compare(&bench->report, "waiting", &rounds, &comparisons[i]);
    }
    return true;
}

static double sample_p50(const struct sample *sample)
{
    return sample->values[0];
}

static double sample_p99(const struct sample *sample)
{
    return sample->values[1];
}

bool group_latency(struct bench *bench)
{
    static const struct comparison p50 = {
        "free lock, TCP, same core: acquire, p50", "us", sample_p50, 0, 1, "floor", MUST_NOT, 0};
    static const struct comparison p99 = {
        "free lock, TCP, same core: acquire, p99", "us", sample_p99, 0, 1, "floor", MUST_NOT, 0};
    struct single_arg args[2] = {0};
    struct side sides[] = {
        {.kind = &ours_kind, .arg = &args[0]}, {.kind = &floor_kind, .arg = &args[1]}};
    static struct rounds rounds;
    for (unsigned i = 0; i < 2; i++) {
        args[i].bench = bench;
        args[i].placement = PLACEMENT_SAME;
        args[i].name_number = 1 + i;
        args[i].timed = true;
    }
    if (!run_single_rounds(bench, &rounds, sides, 2, PLACEMENT_SAME)) {
        return false;
    }
    report_compare(&bench->report, "latency", &rounds, &p50);
    report_compare(&bench->report, "latency", &rounds, &p99);
    return true;
}
