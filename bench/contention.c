/* SPDX-License-Identifier: Apache-2.0 */
/* One lock that everybody wants: how often it changes hands inside one process (against waiting as
 * Redisson does), and how fairly several processes share it; the same with hand-off, and for fair
 * locks.
 *
 * The section is as short as it can be: it adds one to a number that nothing else protects, in
 * memory that all sides share. If that number is not the sum of all acquisitions, exclusion was
 * broken, and then no figure is worth anything: the group fails. */
#include "groups.h"
#include "lib/clock.h"
#include "lib/contender.h"
#include "lib/die.h"
#include "lib/threads.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { CALLERS_MAX = 64, HOT_SLICE_MS = 500, SHARE_SLICE_MS = 1000, SHARE_ROUNDS_MAX = 7 };

static const char lock_name[] = "bench-hot";

/* In memory that the sides share. */
struct arena {
    _Atomic bool stop;         /* set by whoever's time is over first: all stop together */
    volatile uint64_t number;  /* protected by the lock and nothing else */
    _Atomic uint64_t expected; /* what it should be */
};

struct crowd_arg {
    const struct bench *bench;
    const struct contender_kind *kind;
    size_t caller_count;
    struct arena *arena;
    int64_t section_ns; /* work under the lock; 0: hardly any */
};

struct crowd {
    const struct crowd_arg *arg;
    void *contender;
    uint64_t counts[CALLERS_MAX]; /* acquisitions before the stop */
};

/* ===== A process with its callers ===== */

static void *crowd_open(const void *arg)
{
    struct crowd *crowd = calloc(1, sizeof *crowd);
    crowd->arg = arg;
    crowd->contender =
        crowd->arg->kind->open(crowd->arg->bench->server, lock_name, crowd->arg->caller_count);
    return crowd;
}

static void work(int64_t duration_ns)
{
    const int64_t end_ns = now_ns() + duration_ns;
    while (duration_ns > 0 && now_ns() < end_ns) {
    }
}

static void call(void *self, size_t index)
{
    struct crowd *crowd = self;
    const struct contender_kind *kind = crowd->arg->kind;
    struct arena *arena = crowd->arg->arena;
    uint64_t count = 0;
    uint64_t late_count = 0;
    while (!atomic_load_explicit(&arena->stop, memory_order_relaxed)) {
        kind->lock(crowd->contender, index);
        arena->number = arena->number + 1;
        work(crowd->arg->section_ns);
        if (atomic_load_explicit(&arena->stop, memory_order_relaxed)) {
            late_count++;
        } else {
            count++;
        }
        kind->unlock(crowd->contender, index);
    }
    crowd->counts[index] = count;
    atomic_fetch_add(&arena->expected, count + late_count);
}

static void crowd_slice(void *self, int64_t slice_ns, struct sample *sample)
{
    struct crowd *crowd = self;
    const struct threads_time time =
        threads_run(crowd->arg->caller_count, call, crowd, &crowd->arg->arena->stop, slice_ns);
    sample->seconds = (double)time.until_stop_ns / (double)NS_PER_S;
    sample->values[0] = (double)crowd->counts[0];
    for (size_t i = 0; i < crowd->arg->caller_count; i++) {
        const double count = (double)crowd->counts[i];
        sample->count += count;
        sample->values[0] = count < sample->values[0] ? count : sample->values[0];
        sample->values[1] = count > sample->values[1] ? count : sample->values[1];
    }
}

static void crowd_close(void *self)
{
    struct crowd *crowd = self;
    crowd->arg->kind->close(crowd->contender);
    free(crowd);
}

static const struct side_kind crowd_kind = {"contenders", crowd_open, crowd_slice, crowd_close};

/* ===== Exclusion ===== */

static struct arena *arena_open(void)
{
    struct arena *arena =
        mmap(NULL, sizeof *arena, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (arena == MAP_FAILED) {
        die("no shared memory");
    }
    return arena;
}

/* False: two were inside at the same time. */
static bool arena_close(struct arena *arena)
{
    const uint64_t number = arena->number;
    const uint64_t expected = atomic_load(&arena->expected);
    munmap(arena, sizeof *arena);
    if (number != expected) {
        progress("bench: EXCLUSION WAS BROKEN: %llu entries, counted %llu\n",
            (unsigned long long)expected, (unsigned long long)number);
    }
    return number == expected;
}

/* ===== The hot lock in one process ===== */

static double sample_spread(const struct sample *sample)
{
    return sample->values[0] > 0 ? sample->values[1] / sample->values[0] : 0;
}

bool group_hot(struct bench *bench)
{
    static const struct comparison acquisitions = {"hot lock, 64 threads, 1 process: acquisitions",
        "/s", sample_rate, 0, 1, "Redisson-style", MUST_RATIO_AT_LEAST, 1.3};
    static const struct comparison cpu = {"hot lock: redis CPU per acquisition", "us",
        sample_server_cpu_us, 0, 1, "Redisson-style", MUST_NOT, 0};
    struct arena *arena = arena_open();
    const struct crowd_arg args[] = {
        {bench, &contender_ours, 64, arena, 0}, {bench, &contender_redisson, 64, arena, 0}};
    struct side sides[] = {
        {.kind = &crowd_kind, .arg = &args[0]}, {.kind = &crowd_kind, .arg = &args[1]}};
    static struct rounds rounds;
    const bool good = rounds_run(
        &rounds, bench->server, sides, 2, bench->rounds, bench_slice_ns(bench, HOT_SLICE_MS));
    if (!arena_close(arena) || !good) {
        return false;
    }
    struct row *row = report_compare(&bench->report, "hot", &rounds, &acquisitions);
    const struct series ours = rounds_series(&rounds, 0, sample_spread);
    const struct series against = rounds_series(&rounds, 1, sample_spread);
    snprintf(row->note, sizeof row->note,
        "luckiest / unluckiest thread: %.1f, Redisson-style %.1f (0: one got nothing)",
        series_median(&ours), series_median(&against));
    report_compare(&bench->report, "hot", &rounds, &cpu);
    return true;
}

/* One row: so many acquisitions of ours, against Redisson-style waiting. */
static bool compare_crowds(struct bench *bench, const char *group,
    const struct comparison *comparison, const struct contender_kind *kind, int64_t section_ns)
{
    struct arena *arena = arena_open();
    const struct crowd_arg args[] = {
        {bench, kind, 64, arena, section_ns}, {bench, &contender_redisson, 64, arena, section_ns}};
    struct side sides[] = {
        {.kind = &crowd_kind, .arg = &args[0]}, {.kind = &crowd_kind, .arg = &args[1]}};
    static struct rounds rounds;
    const bool good = rounds_run(
        &rounds, bench->server, sides, 2, bench->rounds, bench_slice_ns(bench, HOT_SLICE_MS));
    if (!arena_close(arena) || !good) {
        return false;
    }
    report_compare(&bench->report, group, &rounds, comparison);
    return true;
}

bool group_fair(struct bench *bench)
{
    static const struct comparison acquisitions = {"fair lock, 64 threads, 1 process: acquisitions",
        "/s", sample_rate, 0, 1, "Redisson-style mutex", MUST_NOT, 0};
    return compare_crowds(bench, "fair", &acquisitions, &contender_ours_fair, 0);
}

/* ===== Shares of two processes ===== */

struct share_must {
    const char *group;
    double ratio; /* of an even share */
};

static void add_share_row(struct bench *bench, const char *what, const struct rounds *rounds,
    const struct share_must *must)
{
    struct series smallest = {.count = rounds->count};
    struct series even = {.count = rounds->count};
    double sums[2] = {0};
    double seconds = 0;
    for (size_t round = 0; round < rounds->count; round++) {
        const double first = rounds->samples[round][0].count;
        const double second = rounds->samples[round][1].count;
        const double sum = first + second;
        smallest.values[round] = sum > 0 ? (first < second ? first : second) / sum : 0;
        even.values[round] = 0.5;
        sums[0] += first;
        sums[1] += second;
        seconds += rounds->samples[round][0].seconds;
    }
    const struct row row = {.group = must->group,
        .what = what,
        .unit = "share",
        .against_name = "even",
        .ours = smallest,
        .against = even,
        .must_kind = MUST_RATIO_AT_LEAST,
        .must = must->ratio};
    struct row *added = report_add(&bench->report, &row);
    snprintf(added->note, sizeof added->note, "acquisitions: %.0f and %.0f (%.1f k/s together)",
        sums[0], sums[1], (sums[0] + sums[1]) / seconds / 1000);
}

static bool share_of(struct bench *bench, const char *what, const struct crowd_arg pair[2],
    const struct share_must *must)
{
    struct arena *arena = arena_open();
    struct crowd_arg args[] = {pair[0], pair[1]};
    args[0].arena = arena;
    args[1].arena = arena;
    struct side sides[] = {
        {.kind = &crowd_kind, .arg = &args[0]}, {.kind = &crowd_kind, .arg = &args[1]}};
    static struct rounds rounds;
    const size_t count = bench->rounds < SHARE_ROUNDS_MAX ? bench->rounds : SHARE_ROUNDS_MAX;
    const bool good = rounds_run_together(
        &rounds, bench->server, sides, 2, count, bench_slice_ns(bench, SHARE_SLICE_MS));
    if (!arena_close(arena) || !good) {
        return false;
    }
    add_share_row(bench, what, &rounds, must);
    return true;
}

static bool share(struct bench *bench, const char *what, size_t first_count,
    const struct contender_kind *second_kind, size_t second_count)
{
    static const struct share_must must = {"shares", 0.5};
    const struct crowd_arg pair[] = {{bench, &contender_ours, first_count, NULL, 0},
        {bench, second_kind, second_count, NULL, 0}};
    return share_of(bench, what, pair, &must);
}

bool group_shares(struct bench *bench)
{
    return share(bench, "2 processes, 32 callers each: smallest share", 32, &contender_ours, 32) &&
           share(bench, "64 callers against 1: smallest share", 64, &contender_ours, 1) &&
           share(bench, "64 callers against 1 Redisson-style: smallest share", 64,
               &contender_redisson, 1) &&
           share(bench, "64 callers against 64 Redisson-style: smallest share", 64,
               &contender_redisson, 64);
}

/* ===== Hand-off ===== */

bool group_handoff(struct bench *bench)
{
    static const struct comparison empty = {"hand-off, 64 threads, 1 process: acquisitions", "/s",
        sample_rate, 0, 1, "Redisson-style", MUST_RATIO_AT_LEAST, 6};
    static const struct comparison working = {"hand-off, with 20 us of work in the section", "/s",
        sample_rate, 0, 1, "Redisson-style", MUST_RATIO_AT_LEAST, 2.9};
    static const struct share_must even = {"handoff", 0.96};
    const struct crowd_arg pair[] = {{bench, &contender_ours_handoff, 32, NULL, 0},
        {bench, &contender_ours_handoff, 32, NULL, 0}};
    return compare_crowds(bench, "handoff", &empty, &contender_ours_handoff, 0) &&
           compare_crowds(bench, "handoff", &working, &contender_ours_handoff, 20000) &&
           share_of(bench, "hand-off, 2 processes, 32 callers each: smallest share", pair, &even);
}
