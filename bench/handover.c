/* SPDX-License-Identifier: Apache-2.0 */
/* How long it takes until a waiter in another process has the lock that was released: from the call
 * of the release to the return of the acquire, two processes in turn.
 *
 * Each of the two waits until the other one has asked for the lock and had a millisecond to fall
 * asleep, notes the time and releases. The times stand in shared memory; the clock is the same in
 * all processes. */
#include "groups.h"
#include "lib/clock.h"
#include "lib/contender.h"
#include "lib/die.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
    LATENCIES_MAX = 8192,
    SLICE_MS = 300,
    ROUNDS_MAX_HERE = 7,
    SETTLE_US = 1000, /* for the other one to fall asleep */
    LOOK_US = 100,    /* between looks at what the other one does */
};

struct arena {
    _Atomic int64_t stop_ns;     /* when the slice ends */
    _Atomic bool asks[2];        /* has called acquire, or is about to */
    _Atomic int holder;          /* who got it last; -1: nobody yet */
    _Atomic int64_t released_ns; /* when that one released it; 0: not yet */
    _Atomic size_t latency_count;
    int64_t latencies_ns[LATENCIES_MAX];
};

struct player_arg {
    const struct bench *bench;
    const struct contender_kind *kind;
    struct arena *arena;
    int number; /* 0 or 1 */
};

struct player {
    const struct player_arg *arg;
    void *contender;
};

static void *player_open(const void *arg)
{
    struct player *player = calloc(1, sizeof *player);
    player->arg = arg;
    player->contender = player->arg->kind->open(player->arg->bench->server, "bench-handover", 1);
    return player;
}

static bool is_over(const struct arena *arena)
{
    return now_ns() >= atomic_load(&arena->stop_ns);
}

static void note_latency(struct arena *arena, int64_t acquired_ns, int64_t released_ns)
{
    const size_t index = atomic_fetch_add(&arena->latency_count, 1);
    if (index < LATENCIES_MAX) {
        arena->latencies_ns[index] = acquired_ns - released_ns;
    }
}

/* Acquire, wait for the other one to wait, release, wait for it to have the lock. */
static void play(struct player *player)
{
    struct arena *arena = player->arg->arena;
    const int me = player->arg->number;
    atomic_store(&arena->asks[me], true);
    player->arg->kind->lock(player->contender, 0);
    const int64_t acquired_ns = now_ns();
    const int before = atomic_exchange(&arena->holder, me);
    const int64_t released_ns = atomic_exchange(&arena->released_ns, 0);
    atomic_store(&arena->asks[me], false);
    if (before == 1 - me && released_ns > 0) {
        note_latency(arena, acquired_ns, released_ns);
    }
    while (!atomic_load(&arena->asks[1 - me]) && !is_over(arena)) {
        pause_ns(LOOK_US * 1000);
    }
    pause_ns(SETTLE_US * 1000);
    atomic_store(&arena->released_ns, now_ns());
    player->arg->kind->unlock(player->contender, 0);
    while (atomic_load(&arena->holder) == me && !is_over(arena)) {
        pause_ns(LOOK_US * 1000);
    }
}

static void player_slice(void *self, int64_t slice_ns, struct sample *sample)
{
    struct player *player = self;
    atomic_store(&player->arg->arena->stop_ns, now_ns() + slice_ns);
    while (!is_over(player->arg->arena)) {
        play(player);
        sample->count++;
    }
}

static void player_close(void *self)
{
    struct player *player = self;
    player->arg->kind->close(player->contender);
    free(player);
}

static const struct side_kind player_kind = {"hand-over", player_open, player_slice, player_close};

/* ===== The group ===== */

static struct arena *arena_open(void)
{
    struct arena *arena =
        mmap(NULL, sizeof *arena, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (arena == MAP_FAILED) {
        die("no shared memory");
    }
    atomic_store(&arena->holder, -1);
    return arena;
}

/* All rounds together: the p50 and the p99, in µs, as series of one number each. */
static bool measure(struct bench *bench, const struct contender_kind *kind, struct series *p50_out,
    struct series *p99_out)
{
    struct arena *arena = arena_open();
    const struct player_arg args[] = {{bench, kind, arena, 0}, {bench, kind, arena, 1}};
    struct side sides[] = {
        {.kind = &player_kind, .arg = &args[0]}, {.kind = &player_kind, .arg = &args[1]}};
    static struct rounds rounds;
    const size_t count = bench->rounds < ROUNDS_MAX_HERE ? bench->rounds : ROUNDS_MAX_HERE;
    const bool good = rounds_run_together(
        &rounds, bench->server, sides, 2, count, bench_slice_ns(bench, SLICE_MS));
    size_t latency_count = atomic_load(&arena->latency_count);
    latency_count = latency_count < LATENCIES_MAX ? latency_count : LATENCIES_MAX;
    p50_out->count = p99_out->count = 1;
    p50_out->values[0] = percentile(arena->latencies_ns, latency_count, 50) / 1000;
    p99_out->values[0] = percentile(arena->latencies_ns, latency_count, 99) / 1000;
    munmap(arena, sizeof *arena);
    if (good && latency_count == 0) {
        progress("bench: the lock never changed hands\n");
    }
    return good && latency_count > 0;
}

static void add_row(
    struct bench *bench, const char *what, const struct series *ours, const struct series *against)
{
    struct row row = {.group = "handover", .what = what, .unit = "us", .ours = *ours};
    if (against != NULL) {
        row.against_name = "Redisson-style";
        row.against = *against;
    }
    report_add(&bench->report, &row);
}

bool group_handover(struct bench *bench)
{
    static const struct contender_kind *const kinds[] = {
        &contender_ours, &contender_redisson, &contender_ours_file};
    struct series p50[3] = {0};
    struct series p99[3] = {0};
    for (size_t i = 0; i < 3; i++) {
        if (!measure(bench, kinds[i], &p50[i], &p99[i])) {
            return false;
        }
    }
    add_row(bench, "release to acquired elsewhere, redis, p50", &p50[0], &p50[1]);
    add_row(bench, "release to acquired elsewhere, redis, p99", &p99[0], &p99[1]);
    add_row(bench, "release to acquired elsewhere, file, p50", &p50[2], NULL);
    add_row(bench, "release to acquired elsewhere, file, p99", &p99[2], NULL);
    return true;
}
